#!/usr/bin/env python3
"""Word error rates and speed of Whisper models, steno and faster-whisper in turn, as the table of README.md.

    tests/bench/wer.py [--models DIR] [--audio DIR] [MODEL...]

MODEL: names below --models (tiny.en and base; a directory of models as `steno model fetch` makes it). faster-whisper is
optional: this Python must have it. The recordings are those of ../shared/audio whose words are known for certain.
Speed is seconds of audio per second of processor time, one thread, the best of --rounds in which the programs take
turns. Loading does not count: of steno a run over a tenth of a second of silence is subtracted.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import wave

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "loadtest"))
from soak_speech import word_errors  # noqa: E402

STENO = os.path.join(os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release")), "steno")

# Sources of the words: openai/whisper's tests; LibriSpeech test-clean's transcripts; Dickens, A Tale of Two Cities,
# chapter 1; the transcript that Microsoft published with the recording.
WORDS = {
    "speech/jfk.flac": "And so my fellow Americans, ask not what your country can do for you, ask what you can do for your country.",
    "librispeech/61-70968-0000.flac":
        "he began a confused complaint against the wizard who had vanished behind the curtain on the left",
    "librispeech/61-70968-0001.flac": "give not so earnest a mind to these mummeries child",
    "librispeech/61-70968-0002.flac": "a golden fortune and a happy life",
    "speech/two_cities_16k.wav": """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of
        foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season
        of Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing before
        us, we were all going direct to Heaven, we were all going direct the other way - in short, the period was so far like
        the present period, that some of its noisiest authorities insisted on its being received, for good or for evil, in the
        superlative degree of comparison only.""",
    "real/katiesteve.wav": """Good morning, Steve. Good morning, Katie. Have you tried the latest real-time diarization in Microsoft
        Speech Service which can tell you who said what in real time? Not yet. I've been using the batch transcription with
        diarization functionality, but it produces diarization result until whole audio get processed. Is the new feature can
        diarize in real time? Absolutely. That's exciting. Let me try it right now.""",
}


def spoken(text):
    """Without case and punctuation but apostrophes, which are part of words."""
    return re.sub(r"[^a-z']", " ", text.lower())


def processor():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def steno(model, precision, files, *options):
    start = processor()
    r = subprocess.run([STENO, "transcribe", "--model", model, "--precision", precision, "--threads", "1", "--format", "json", *options, *files],
                       capture_output=True, text=True, check=True)
    return [json.loads(line)["text"] for line in r.stdout.splitlines()], processor() - start


def faster_whisper(model, compute_type, files, **options):
    from faster_whisper import WhisperModel
    m = WhisperModel(model, device="cpu", compute_type=compute_type, cpu_threads=1)
    start = time.process_time()
    texts = ["".join(s.text for s in m.transcribe(f, **{"beam_size": 5, **options})[0]) for f in files]
    return texts, time.process_time() - start


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--audio", default=os.path.join(ROOT, "..", "shared", "audio"))
    ap.add_argument("--models", default="/var/lib/steno/models")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("model", nargs="*", default=["tiny.en", "base"])
    a = ap.parse_args()
    files = [os.path.join(a.audio, f) for f in WORDS if os.path.exists(os.path.join(a.audio, f))]
    wanted = [spoken(WORDS[f]) for f in WORDS if os.path.exists(os.path.join(a.audio, f))]
    total = sum(len(w.split()) for w in wanted)
    silence = os.path.join(tempfile.mkdtemp(), "silence.wav")
    with wave.open(silence, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(16000)
        w.writeframes(bytes(3200))
    seconds = sum(float(json.loads(line)["duration"]) for line in subprocess.run(
        [STENO, "transcribe", "--model", "digits-en", "--format", "json", *files], capture_output=True, text=True,
        check=True).stdout.splitlines())
    print(f"{len(files)} recordings, {seconds:.0f} s, {total} words\n")
    print("| model | program | precision | word errors | seconds of audio per second, one thread |\n|---|---|---|---|---|")
    for name in a.model:
        model = os.path.join(a.models, name)
        runs = [("steno", p, steno) for p in ("fp32", "bf16", "int8")]
        runs += [("faster-whisper", p, faster_whisper) for p in ("float32", "int8")]
        least, errors = {}, {}
        for _ in range(a.rounds):
            for program, precision, run in runs:
                try:
                    load = run(model, precision, [silence])[1] if run is steno else 0
                    texts, took = run(model, precision, files)
                except ImportError:
                    continue
                key = program, precision
                least[key] = min(least.get(key, 1e9), took - load)
                errors[key] = sum(word_errors(w, spoken(t)) for w, t in zip(wanted, texts))
        for (program, precision), n in errors.items():
            print(f"| {name} | {program} | {precision} | {n} ({100 * n / total:.1f} %) | "
                  f"{seconds / least[program, precision]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
