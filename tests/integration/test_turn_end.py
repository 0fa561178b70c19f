"""steno turn: what it prints, and its errors; with the real network of ../shared the decisions of recorded pieces."""
import json
import os
import subprocess
import sys
import tempfile
import wave

from daemon import BUILD, DIGITS, SHARED, case, need, tap

STENO = os.path.join(BUILD, "steno")
NETWORK = os.path.join(SHARED, "turn")
FOLDER = tempfile.mkdtemp(prefix="steno-turn-")


def turn(*args, **env):
    return subprocess.run([STENO, "turn", *args], capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **env})


def cut(name, file, begin, end):
    """The samples [begin, end) as a file of its own."""
    with wave.open(os.path.join(SHARED, "audio", file)) as r:
        r.setpos(begin)
        params, pcm = r.getparams(), r.readframes(end - begin)
    path = os.path.join(FOLDER, name)
    with wave.open(path, "wb") as w:
        w.setparams(params)
        w.writeframes(pcm)
    return path


@case
def complete_and_cut_turns_are_told_apart():
    with open(need(os.path.join(NETWORK, "pieces.json")), encoding="utf-8") as f:
        pieces = json.load(f)
    pieces = [pieces[i] for i in (0, 1, 2, 7)]  # far from the threshold
    files = [cut(f"{i}.wav", p["file"], p["begin_sample"], p["end_sample"]) for i, p in enumerate(pieces)]
    for model in (NETWORK, os.path.join(NETWORK, "smart-turn-v3.2-cpu.onnx")):
        r = turn("--model", model, *files)
        assert r.returncode == 0 and not r.stderr, r
        lines = [line.split("  ") for line in r.stdout.splitlines()]
        assert [name for _, name in lines] == files, lines
        for (number, _), p in zip(lines, pieces):
            assert abs(float(number) - p["probability"]) < 0.03 and (float(number) > 0.5) == p["complete"], (number, p)
    assert turn(files[0], STENO_TURN=NETWORK).stdout == lines[0][0] + "  " + files[0] + "\n"


@case
def one_bad_file_does_not_keep_others_from_being_judged():
    need(NETWORK)
    r = turn("--model", NETWORK, "/none.wav", DIGITS, "--channel", "1")
    assert r.returncode == 74 and "/none.wav" in r.stderr and r.stdout.endswith("  " + DIGITS + "\n"), r
    r = turn("--model", NETWORK, "--channel", "2", DIGITS)
    assert r.returncode and DIGITS in r.stderr and not r.stdout, r


@case
def what_is_missing_is_named():
    r = turn()
    assert r.returncode == 64 and "no recording" in r.stderr, r
    r = turn(DIGITS, STENO_DATA=FOLDER, STENO_TURN="")
    assert r.returncode == 74 and "steno model fetch smart-turn" in r.stderr, r
    r = turn("--model", FOLDER, DIGITS)
    assert r.returncode == 74 and FOLDER in r.stderr and "smart-turn" in r.stderr, r
    r = turn("--model", DIGITS, DIGITS)
    assert r.returncode == 65 and DIGITS in r.stderr, r


if __name__ == "__main__":
    sys.exit(tap())
