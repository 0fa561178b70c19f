"""Words of a given text found in a recording: `steno align`, with the model that ships and with toys of other families. Times
are compared with those of the sound: strings of digits whose pauses are known."""
import glob
import json
import os
import random
import statistics
import subprocess
import tempfile
import wave

import numpy as np
from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SHARED, case, need, tap, wav

STENO = os.path.join(BUILD, "steno")
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
WORDS = "zero one two three four five six seven eight nine".split()
SOUND = [(0.545, 0.865), (1.095, 1.48), (1.705, 2.055), (2.395, 2.85), (3.125, 3.62), (3.8, 4.425), (4.685, 5.05)]  # of digits.wav, by energy


def align(text, *args, recording=DIGITS, model=MODEL):
    return subprocess.run([STENO, "align", "--model", model, *args, "-", recording], input=text.encode(), capture_output=True)


def lines(text, **kw):
    """[(start, end, score, word)]"""
    p = align(text, **kw)
    assert p.returncode == 0, p.stderr.decode()
    return [(float(a), float(b), float(c), w) for a, b, c, w in (line.split(" ", 3) for line in p.stdout.decode().splitlines())]


@case
def a_line_for_each_word_where_it_is_heard():
    got = lines(DIGITS_TEXT)
    assert [w for *_, w in got] == DIGITS_TEXT.split(), got
    errors = [abs(t - s) for g, sound in zip(got, SOUND) for t, s in zip(g[:2], sound)]
    assert statistics.median(errors) < 0.08 and max(errors) < 0.25 and all(score > 0.9 for _, _, score, _ in got), (errors, got)


@case
def characters_without_a_token_are_wildcards_and_marks_are_silent():
    spoken = lines(DIGITS_TEXT)
    got = lines("four Two\n- 7 one, “nine” -- 0\n\nthree.")
    assert [w for *_, w in got] == "four Two - 7 one, “nine” -- 0 three.".split(), got
    placed = [g for g in got if g[2]]
    assert [g[3] for g in got if not g[2]] == ["-", "--"] and [g[:2] for g in placed] == [g[:2] for g in spoken], (got, spoken)


@case
def audio_may_go_on_before_and_behind_the_text():
    spoken = lines(DIGITS_TEXT)
    assert [g[:2] for g in lines("seven one")] == [g[:2] for g in spoken[2:4]]
    assert [g[:2] for g in lines("zero three")] == [g[:2] for g in spoken[5:]]


@case
def json_of_whisperx():
    p = align("four two\nseven - 1\n", "--format", "whisperx", "--characters")
    j = json.loads(p.stdout)
    assert list(j) == ["segments", "word_segments", "language"] and j["language"] == "en", j
    assert [s["text"] for s in j["segments"]] == ["four two", "seven - 1"], j
    first, second = j["segments"]
    assert list(first) == ["start", "end", "text", "words", "chars"], first
    assert [list(w) for w in second["words"]] == [["word", "start", "end", "score"], ["word"], ["word", "start", "end", "score"]], second
    assert j["word_segments"] == first["words"] + second["words"], j
    assert [c["char"] for c in second["chars"]] == ["seven", "1"], second  # this model's tokens are words
    assert first["start"] == first["words"][0]["start"] and first["end"] == first["words"][-1]["end"], first
    own = json.loads(align("seven\n", "--format", "json", "--characters").stdout)
    assert own["segments"][0]["characters"][0]["character"] == "seven", own


@case
def subtitles_of_a_text():
    p = align("four two.\nSeven one nine.\n", "--format", "srt")
    assert p.stdout.decode().startswith("1\n00:00:00,") and "Seven one nine." in p.stdout.decode(), p.stdout
    p = align("four\ntwo\n", "--format", "tsv")
    assert p.stdout.decode().splitlines()[0] == "start\tend\ttext" and len(p.stdout.splitlines()) == 3, p.stdout


@case
def what_cannot_be_aligned_says_why():
    p = subprocess.run([STENO, "align", "--model", MODEL, "-", DIGITS], input=b"four \xff", capture_output=True)
    assert p.returncode != 0 and b"text: line 1: byte 6 is not UTF-8" in p.stderr, p.stderr
    p = subprocess.run([STENO, "align", "--model", MODEL, "-", DIGITS], input=b"four\0two", capture_output=True)
    assert p.returncode != 0 and b"zero bytes" in p.stderr, p.stderr
    p = align("a " * (1 << 19) + "b")
    assert p.returncode != 0 and b"bytes" in p.stderr, p.stderr
    assert subprocess.run([STENO, "align", DIGITS], capture_output=True).returncode == 64
    assert align("").returncode == 0 and align("").stdout == b""


@case
def every_family_with_ctc_aligns():
    """Random weights: words and their order, not their places."""
    toys = need(os.path.join(SHARED, "zoo", "tiny"))
    text = "hello 12 你好 привет\nworld."
    for name in ("dolphin-ctc", "fire-red-asr-ctc", "giga-am-v2-ctc", "medasr-ctc", "nemo-fastconformer-ctc-streaming", "omnilingual-ctc",
                 "sense-voice", "t-one", "telespeech-ctc", "wenet-ctc-streaming", "zipformer2-ctc-offline", "zipformer2-ctc-streaming"):
        got = lines(text, model=os.path.join(toys, name))
        assert [w for *_, w in got] == ["hello", "12", "你", "好", "привет", "world."], (name, got)
        times = [t for g in got for t in g[:2]]
        assert times == sorted(times) and 0 <= times[0] and times[-1] < 6, (name, got)
    for name in ("zipformer2-transducer-offline", "paraformer-offline", "moonshine-v1"):
        p = align(text, model=os.path.join(toys, name))
        assert p.returncode != 0 and b"gives no scores of CTC" in p.stderr, (name, p.stderr)


def edges(x, rate):
    """Where a take begins and ends, by its energy: frames of 5 ms over half a percent of the loudest one."""
    n = rate // 200
    e = np.array([np.mean(x[i:i + n].astype(float) ** 2) for i in range(0, len(x) - n + 1, n)])
    on = np.flatnonzero(e > e.max() * 0.005)
    return on[0] * n, (on[-1] + 1) * n


def string_of_digits(rng, noise, takes):
    """4 to 8 takes of one speaker with pauses of 0.12 to 0.7 s between: samples, [(word, start, end)]."""
    parts, truth, at = [noise.normal(0, 6, int(8000 * rng.uniform(0.3, 1)))], [], 0
    at = len(parts[0])
    for _ in range(rng.randint(4, 8)):
        path = rng.choice(takes)
        with wave.open(path) as w:
            y = np.frombuffer(w.readframes(w.getnframes()), "<i2")
        a, b = edges(y, 8000)
        truth.append((WORDS[int(os.path.basename(path)[0])], (at + a) / 8000, (at + b) / 8000))
        pause = noise.normal(0, 6, int(8000 * rng.uniform(0.12, 0.7)))
        parts += [y + noise.normal(0, 6, len(y)), pause]
        at += len(y) + len(pause)
    return np.clip(np.concatenate(parts), -32768, 32767).astype("<i2"), truth


@case
def boundaries_of_words_are_those_of_the_sound():
    """docs/align.md has 46 ms over 60 strings."""
    folder = need(os.path.join(SHARED, "audio", "fsdd"))
    rng, noise = random.Random(11), np.random.default_rng(11)
    files = sorted(glob.glob(os.path.join(folder, "*.wav")))
    errors = []
    for k in range(20):
        speaker = ("george", "jackson", "lucas", "nicolas", "yweweler")[k % 5]
        x, truth = string_of_digits(rng, noise, [f for f in files if f"_{speaker}_" in f])
        with tempfile.NamedTemporaryFile(suffix=".wav") as f:
            f.write(wav(x.tobytes(), 8000))
            f.flush()
            got = lines(" ".join(w for w, *_ in truth), recording=f.name)
        errors += [abs(g[i] - t[1 + i]) for g, t in zip(got, truth) for i in (0, 1)]
    median = statistics.median(errors)
    assert median < 0.06, f"median {1000 * median:.0f} ms over {len(errors)} boundaries"


if __name__ == "__main__":
    tap()
