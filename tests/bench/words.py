#!/usr/bin/env python3
"""Words that a Whisper model writes otherwise in bf16 and int8 than in float32, steno and faster-whisper each by itself.

    tests/bench/words.py [--models DIR] [--audio DIR] [--copies N] [--beam N] [--cpu LEVEL] [--ours] [MODEL...]

MODEL: names below --models (tiny.en and base). faster-whisper is optional: this Python must have it. ffmpeg reads the
recordings, those of ../shared/audio and two of ../shared/zoo. Which words differ depends on the last bits of the samples,
so each recording is taken several times: the first copy is the recording, the others begin some samples later and are a little
softer. A letter of Chinese or Japanese counts as a word. No temperature is tried but 0: samples are random.
"""
import argparse
import array
import os
import re
import subprocess
import sys
import tempfile
import wave

import wer

ENGLISH = ["speech/jfk.flac", "speech/beckett.wav", "speech/intent.wav", "speech/two_cities_16k.wav", "speech/endgame_nagg_nell.wav",
           "librispeech/61-70968-0000.flac", "librispeech/61-70968-0001.flac", "librispeech/61-70968-0002.flac",
           "real/katiesteve.wav", "formats/silero-test.wav"]
OTHERS = ["real/es-mx_en-us.wav", "real/zhcn_short.wav", "../zoo/whisper/audio/es_16k.flac", "../zoo/whisper/audio/ja_16k.flac"]
COPIES = [(0, 1), (37, 1), (91, 0.8), (213, 0.9), (333, 1), (480, 0.7), (777, 0.95), (1100, 0.85)]  # samples left out, factor


def spoken(text):
    return " ".join(re.sub(r"[^\w' ]", " ", re.sub(r"([\u3040-\u30ff\u4e00-\u9fff])", r" \1 ", text.lower())).split())


def make_copies(path, to, copies):
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ac", "1", "-ar", "16000", "-f", "f32le", "-"], capture_output=True,
                         check=True, stdin=subprocess.DEVNULL).stdout
    samples, made = array.array("f", raw), []
    for i, (skip, factor) in enumerate(COPIES[:copies]):
        made.append(os.path.join(to, f"{os.path.basename(path)}.{i}.wav"))
        with wave.open(made[-1], "wb") as w:
            w.setnchannels(1)
            w.setsampwidth(2)
            w.setframerate(16000)
            w.writeframes(array.array("h", (max(-32768, min(32767, round(x * factor * 32768))) for x in samples[skip:])).tobytes())
    return made


def differ(want, got):
    return [wer.word_errors(spoken(w), spoken(g)) for w, g in zip(want, got)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--audio", default=os.path.join(wer.ROOT, "..", "shared", "audio"))
    ap.add_argument("--models", default="/var/lib/steno/models")
    ap.add_argument("--copies", type=int, choices=range(1, len(COPIES) + 1), default=4)
    ap.add_argument("--beam", type=int, default=5)
    ap.add_argument("--cpu", help="level of steno")
    ap.add_argument("--ours", action="store_true", help="steno alone")
    ap.add_argument("model", nargs="*", default=["tiny.en", "base"])
    a = ap.parse_args()
    options = ["--beam", str(a.beam), "--temperature-fallback", "no", *(["--cpu", a.cpu] if a.cpu else [])]
    folder = tempfile.TemporaryDirectory()
    print("| model | program | precision | words that differ from float32 | of each recording |\n|---|---|---|---|---|")
    for name in a.model:
        paths = [p for f in ENGLISH + (OTHERS if not name.endswith(".en") else []) if os.path.exists(p := os.path.join(a.audio, f))]
        files = [c for p in paths for c in make_copies(p, folder.name, a.copies)]
        programs = {"steno": (lambda p: wer.steno(os.path.join(a.models, name), p, files, *options)[0], ["fp32", "bf16", "int8"]),
                    "faster-whisper": (lambda p: wer.faster_whisper(os.path.join(a.models, name), p, files, beam_size=a.beam,
                                                                    temperature=0)[0], ["float32", "int8"])}
        for program, (run, precisions) in list(programs.items())[:1 if a.ours else 2]:
            try:
                want = run(precisions[0])
                for p in precisions[1:]:
                    n, all_words = differ(want, run(p)), sum(len(spoken(w).split()) for w in want)
                    each = [(os.path.basename(f), sum(n[i * a.copies:(i + 1) * a.copies])) for i, f in enumerate(paths)]
                    print(f"| {name} | {program} | {p} | {sum(n)} of {all_words}, {100 * sum(n) / all_words:.2f} % | "
                          f"{', '.join(f'{f} {k}' for f, k in each if k)} |", flush=True)
            except ImportError:
                print(f"# no {program}", file=sys.stderr)


if __name__ == "__main__":
    main()
