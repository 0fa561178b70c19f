"""steno turn: what it prints, and its errors; with the real network of ../shared the decisions of recorded pieces, and
what a live session of Deepgram Flux tells of its turns."""
import json
import os
import subprocess
import sys
import tempfile
import wave

from daemon import BUILD, DIGITS, DIGITS_TEXT, SHARED, Stenod, case, converse, need, tap

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
    assert r.returncode == 66 and "/none.wav" in r.stderr and r.stdout.endswith("  " + DIGITS + "\n"), r
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


@case
def eager_ends_of_flux_are_the_networks():
    """With a threshold of 1 no pause is an end: each is told as one that may be, until the timeout."""
    need(NETWORK)
    with wave.open(DIGITS) as r:
        rate, pcm = r.getframerate(), r.readframes(r.getnframes()) + bytes(2 * 3 * r.getframerate())
    with Stenod(f"turn.model={NETWORK}") as d:
        where = f"ws://127.0.0.1:{d.port}/v2/listen?encoding=linear16&sample_rate={rate}&eot_threshold=1&eot_timeout_ms=2000"
        for eager in ("", "&eager_eot_threshold=0.3"):
            got, code, *_ = converse(where + eager, [pcm[i:i + rate // 5] for i in range(0, len(pcm), rate // 5)] + [{"type": "CloseStream"}])
            turns = [m for m in got if m["type"] == "TurnInfo" and m["event"] != "Update"]
            told = [m for m in turns if m["event"] == "EagerEndOfTurn"]
            assert code == 1000 and turns[-1]["event"] == "EndOfTurn" and turns[-1]["trigger"] == "timeout", turns
            assert turns[-1]["transcript"] == DIGITS_TEXT, turns
            assert bool(told) == bool(eager) and all(m["transcript"] and 0.3 <= m["end_of_turn_confidence"] <= 1 for m in told), told
            if told:  # the last pause is the end of the recording
                assert turns[-2] == told[-1] and told[-1]["transcript"] == DIGITS_TEXT, turns
                assert turns[-1]["audio_window_end"] - told[-1]["audio_window_end"] > 1, turns
        assert d.wait_idle().metric('steno_turn_answers_total{end="false"}') >= len(told)
        assert d.metric('steno_turn_answers_total{end="true"}') == 0 and d.metric("steno_turn_seconds_total") > 0


if __name__ == "__main__":
    sys.exit(tap())
