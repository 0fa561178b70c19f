"""Whisper with the options of a request, against faster-whisper 1.2.1 (ctranslate2 4.8.5) with the same settings:
float32, temperature 0, one recording each. Texts are equal, average log-probabilities within 0.002. Times of
segments are not compared here: the command gives those of words (test_whisper_transcribe compares both).

Needs faster-whisper in this Python (`pip install faster-whisper==1.2.1 ctranslate2==4.8.5`) and the weights
(build/models/tiny.en and base, or STENO_WHISPER_TINY_EN and STENO_WHISPER_BASE); skipped without. TAP."""
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.path.join(ROOT, "..", "shared")
STENO = os.path.join(ROOT, "build", "release", "steno")
FILES = {"jfk": "zoo/whisper/audio/jfk_16k.flac", "es": "zoo/whisper/audio/es_16k.flac",
         "endgame": "zoo/whisper/audio/endgame_16k.flac", "two_cities": "audio/speech/two_cities_16k.wav"}

# model, recording, options of steno, arguments of faster-whisper
CASES = [
    ("tiny.en", "jfk", {"prefix": "And so, my"}, {"prefix": "And so, my"}),
    ("tiny.en", "jfk", {"hotwords": "Kennedy Americans"}, {"hotwords": "Kennedy Americans"}),
    ("tiny.en", "jfk", {"prompt": "A speech of 1961"}, {"initial_prompt": "A speech of 1961"}),
    ("tiny.en", "jfk", {"patience": 2}, {"patience": 2}),
    ("tiny.en", "jfk", {"length-penalty": 0.2}, {"length_penalty": 0.2}),
    ("tiny.en", "jfk", {"length-penalty": 3}, {"length_penalty": 3}),
    ("tiny.en", "jfk", {"repetition-penalty": 1.3}, {"repetition_penalty": 1.3}),
    ("tiny.en", "jfk", {"no-repeat-ngram-size": 2}, {"no_repeat_ngram_size": 2}),
    # CTranslate2 halves the limit, the prompt's piece included
    ("tiny.en", "jfk", {"max-new-tokens": 12}, {"max_new_tokens": 23}),
    ("tiny.en", "jfk", {"suppress-blank": "no"}, {"suppress_blank": False}),
    ("tiny.en", "jfk", {"max-initial-timestamp": 0}, {"max_initial_timestamp": 0}),
    ("tiny.en", "jfk", {"beam": 1, "prompt": "And"}, {"beam_size": 1, "initial_prompt": "And"}),
    ("tiny.en", "endgame", {"condition-on-previous-text": "no"}, {"condition_on_previous_text": False}),
    ("tiny.en", "two_cities", {"beam": 1, "condition-on-previous-text": "no"},
     {"beam_size": 1, "condition_on_previous_text": False}),
    ("tiny.en", "two_cities", {"beam": 1, "hotwords": "Dickens"}, {"beam_size": 1, "hotwords": "Dickens"}),
    ("base", "es", {"translate": True, "language": "es"}, {"task": "translate", "language": "es"}),
    ("base", "es", {}, {}),
    ("base", "es", {"prefix": "Libri", "beam": 1}, {"prefix": "Libri", "beam_size": 1}),
]


def weights(model):
    name = "STENO_WHISPER_" + model.upper().replace(".", "_")
    path = os.environ.get(name) or os.path.join(ROOT, "build", "models", model)
    return path if os.path.exists(os.path.join(path, "model.bin")) else None


def run_steno(model, recording, options):
    argv = [STENO, "transcribe", "--model", weights(model), "--precision", "fp32", "--no-endpoint", "--format", "json"]
    if "temperature" not in options:
        argv += ["--temperature-fallback", "no"]
    for name, value in options.items():
        argv += [f"--{name}"] + ([] if value is True else [str(value)])
    out = subprocess.run(argv + [recording], capture_output=True, text=True, check=True).stdout
    return [(s["text"].strip(), s["start"], s["end"], s["avg_logprob"]) for s in json.loads(out)["segments"]]


def run_reference(engine, recording, options):
    given = {"temperature": 0, "beam_size": 5, **options}
    segments, _ = engine.transcribe(recording, **given)
    return [(s.text.strip(), s.start, s.end, s.avg_logprob) for s in segments]


def differences(ours, theirs):
    if [s[0] for s in ours] != [s[0] for s in theirs]:
        return [f"ours:   {' | '.join(s[0] for s in ours)}", f"theirs: {' | '.join(s[0] for s in theirs)}"]
    return [f"{a[0][:40]}: {a[1:]} and {b[1:]}" for a, b in zip(ours, theirs)
            if abs(a[3] - b[3]) > 2e-3]


def main():
    try:
        import faster_whisper
    except ImportError:
        print("1..0 # SKIP faster-whisper is not in this Python")
        return 0
    if not weights("tiny.en") or not weights("base"):
        print("1..0 # SKIP weights of tiny.en and base are not in build/models")
        return 0
    engines, wrong = {}, 0
    only = sys.argv[1:]
    print(f"1..{len(CASES)}")
    for number, (model, name, options, arguments) in enumerate(CASES, 1):
        if only and str(number) not in only:
            continue
        if model not in engines:
            engines[model] = faster_whisper.WhisperModel(weights(model), device="cpu", compute_type="float32",
                                                         cpu_threads=1)
        recording = os.path.join(SHARED, FILES[name])
        found = differences(run_steno(model, recording, options), run_reference(engines[model], recording, arguments))
        print("ok" if not found else "not ok", number, "-", model, name, options, flush=True)
        for line in found:
            print("#", line, flush=True)
        wrong += bool(found)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
