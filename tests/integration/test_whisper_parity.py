"""Whisper with the options of a request, against what faster-whisper 1.2.1 (ctranslate2 4.8.5) gave with the same settings:
float32, temperature 0, one recording each (tests/data/whisper_parity.json). Texts are equal, average log-probabilities within
0.002. Times of segments are not compared here: the command gives those of words (test_whisper_transcribe compares both).

    test_whisper_parity.py [NUMBER...]            the cases, or these
    test_whisper_parity.py --record [NUMBER...]   runs faster-whisper (tests/whisper/requirements.txt) and writes the file

Needs ../shared and the weights (build/models/tiny.en and base, or STENO_WHISPER_TINY_EN and STENO_WHISPER_BASE); skipped without. TAP."""
# not under sanitizers: it takes real weights
import json
import os
import subprocess
import sys
import tempfile
import wave

import numpy

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.path.join(ROOT, "..", "shared")
STENO = os.path.join(ROOT, "build", "release", "steno")
RECORDS = os.path.join(ROOT, "tests", "data", "whisper_parity.json")
FILES = {"jfk": "zoo/whisper/audio/jfk_16k.flac", "es": "zoo/whisper/audio/es_16k.flac",
         "zh": "audio/real/zhcn_short.wav", "endgame": "zoo/whisper/audio/endgame_16k.flac", "two_cities": "audio/speech/two_cities_16k.wav"}

# recordings and seconds of noise (of this amplitude) one after the other; a recording may be cut to its first seconds
MADE = {"pause": ["jfk", (25, 0.002), "jfk"], "late": [(12, 0.002), "two_cities:9", (14, 0.002)],
        "noise": ["jfk", (40, 0.004), "two_cities:20", (20, 0.004)],
        "languages": ["es:24", (6, 0.0005), "jfk", (19, 0.0005), "zh:10", (5, 0.0005)]}

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
    ("tiny.en", "jfk", {"suppress-tokens": "-1,11,3399"}, {"suppress_tokens": [-1, 11, 3399]}),
    ("tiny.en", "jfk", {"suppress-tokens": "3399"}, {"suppress_tokens": [3399]}),
    ("base", "es", {"suppress-tokens": "", "beam": 1}, {"suppress_tokens": [], "beam_size": 1}),
    ("tiny.en", "jfk", {"max-initial-timestamp": 0}, {"max_initial_timestamp": 0}),
    ("tiny.en", "jfk", {"beam": 1, "prompt": "And"}, {"beam_size": 1, "initial_prompt": "And"}),
    ("tiny.en", "endgame", {"condition-on-previous-text": "no"}, {"condition_on_previous_text": False}),
    ("tiny.en", "two_cities", {"beam": 1, "condition-on-previous-text": "no"},
     {"beam_size": 1, "condition_on_previous_text": False}),
    ("tiny.en", "two_cities", {"beam": 1, "hotwords": "Dickens"}, {"beam_size": 1, "hotwords": "Dickens"}),
    # so cold that every sample is the greedy choice, where two timestamps are nearly as likely, too
    ("tiny.en", "jfk", {"temperature": 0.0001, "best-of": 3}, {"temperature": 0.0001, "best_of": 3}),
    ("base", "es", {"temperature": 0.0001, "best-of": 1}, {"temperature": 0.0001, "best_of": 1}),
    *[("tiny.en", name, {"hallucination-silence-threshold": s}, {"hallucination_silence_threshold": s, "word_timestamps": True})
      for name in ("pause", "late", "noise") for s in (0.5, 2)],
    ("tiny.en", "two_cities", {"hallucination-silence-threshold": 0.5},
     {"hallucination_silence_threshold": 0.5, "word_timestamps": True}),
    ("base", "noise", {"hallucination-silence-threshold": 1},
     {"hallucination_silence_threshold": 1, "word_timestamps": True}),
    ("base", "languages", {"multilingual": True}, {"multilingual": True}),
    ("base", "languages", {"multilingual": True, "language": "en", "condition-on-previous-text": "no"},
     {"multilingual": True, "language": "en", "condition_on_previous_text": False}),
    ("base", "es", {"translate": True, "language": "es"}, {"task": "translate", "language": "es"}),
    ("base", "es", {}, {}),
    ("base", "es", {"prefix": "Libri", "beam": 1}, {"prefix": "Libri", "beam_size": 1}),
]


def weights(model):
    name = "STENO_WHISPER_" + model.upper().replace(".", "_")
    path = os.environ.get(name) or os.path.join(ROOT, "build", "models", model)
    return path if os.path.exists(os.path.join(path, "model.bin")) else None


def samples_of(name):
    command = ["ffmpeg", "-v", "error", "-i", os.path.join(SHARED, FILES[name]), "-ar", "16000", "-ac", "1", "-f", "s16le", "-"]
    return numpy.frombuffer(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout, "<i2") / 32768


def make(parts, path):
    noise = numpy.random.default_rng(1)
    sound = []
    for part in parts:
        if isinstance(part, tuple):
            sound.append(noise.uniform(-part[1], part[1], part[0] * 16000))
        else:
            name, _, seconds = part.partition(":")
            sound.append(samples_of(name)[:int(seconds or 1000) * 16000])
    with wave.open(path, "wb") as f:
        f.setparams((1, 2, 16000, 0, "NONE", ""))
        f.writeframes((numpy.concatenate(sound) * 32767).astype("<i2").tobytes())


def recording_of(name, folder):
    if name not in MADE:
        return os.path.join(SHARED, FILES[name])
    path = os.path.join(folder, name + ".wav")
    if not os.path.exists(path):
        make(MADE[name], path)
    return path


def run_steno(model, recording, options):
    argv = [STENO, "transcribe", "--model", weights(model), "--precision", "fp32", "--no-endpoint", "--format", "json"]
    if "temperature" not in options:
        argv += ["--temperature-fallback", "no"]
    for name, value in options.items():
        argv += [f"--{name}"] + ([] if value is True else [str(value)])
    out = subprocess.run(argv + [recording], capture_output=True, text=True, check=True).stdout
    return [(s["text"].strip(), s["avg_logprob"]) for s in json.loads(out)["segments"]]


def key(model, name, options):
    return f"{model} {name} {json.dumps(options)}"


def record(folder, only):
    import faster_whisper
    records, engines = {}, {}
    if os.path.exists(RECORDS):
        with open(RECORDS, encoding="utf-8") as f:
            records = json.load(f)
    for number, (model, name, options, arguments) in enumerate(CASES, 1):
        if only and str(number) not in only:
            continue
        if model not in engines:
            engines[model] = faster_whisper.WhisperModel(weights(model), device="cpu", compute_type="float32", cpu_threads=1)
        segments, _ = engines[model].transcribe(recording_of(name, folder), **{"temperature": 0, "beam_size": 5, **arguments})
        records[key(model, name, options)] = [[s.text.strip(), round(s.avg_logprob, 5)] for s in segments]
        print(number, model, name, options, flush=True)
    wanted = [key(*c[:3]) for c in CASES]
    lines = [f"{json.dumps(k)}: {json.dumps(records[k], ensure_ascii=False)}" for k in wanted if k in records]
    with open(RECORDS, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


def differences(ours, theirs):
    if [s[0] for s in ours] != [s[0] for s in theirs]:
        return [f"ours:   {' | '.join(s[0] for s in ours)}", f"theirs: {' | '.join(s[0] for s in theirs)}"]
    return [f"{a[0][:40]}: {a[1]} and {b[1]}" for a, b in zip(ours, theirs) if abs(a[1] - b[1]) > 2e-3]


def run_cases(folder, only):
    wrong = 0
    with open(RECORDS, encoding="utf-8") as f:
        records = json.load(f)
    print(f"1..{len(only) or len(CASES)}")
    for number, (model, name, options, _) in enumerate(CASES, 1):
        if only and str(number) not in only:
            continue
        found = differences(run_steno(model, recording_of(name, folder), options), records[key(model, name, options)])
        print("ok" if not found else "not ok", number, "-", model, name, options, flush=True)
        for line in found:
            print("#", line, flush=True)
        wrong += bool(found)
    return wrong > 0


def main():
    if not os.path.isdir(SHARED):
        print("1..0 # SKIP ../shared is not there")
        return 0
    if not weights("tiny.en") or not weights("base"):
        print("1..0 # SKIP weights of tiny.en and base are not in build/models")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:2] == ["--record"]:
            return record(folder, sys.argv[2:])
        return run_cases(folder, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
