"""Maps of confidences: `steno model calibrate` fits and stores one, and every word of the model follows it."""
import json
import os
import shutil
import subprocess
import tempfile

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, Stenod, case, tap

STENO = os.path.join(BUILD, "steno")
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
SPOILED = DIGITS_TEXT.replace("four", "eight")  # one of seven words is wrong then


def steno(*args):
    return subprocess.run([STENO, *args], capture_output=True, text=True)


def listed(where, *texts):
    name = os.path.join(where, "list")
    with open(name, "w") as f:
        f.writelines(f"{DIGITS}\t{t}\n" for t in texts)
    return name


def words(model, *more):
    p = steno("transcribe", "--model", model, *more, "--words", "--format", "json", DIGITS)
    assert p.returncode == 0, p.stderr
    j = json.loads(p.stdout)
    return [w["confidence"] for s in j["segments"] for w in s["words"]], j["confidence"]


def copy_of_model(where):
    return shutil.copytree(MODEL, os.path.join(where, "model"), ignore=shutil.ignore_patterns("train"))


@case
def words_that_are_right_are_counted():
    with tempfile.TemporaryDirectory() as d:
        p = steno("model", "calibrate", MODEL, listed(d, *[DIGITS_TEXT.upper() + "!", "4, 2-7 1 9. 0 3 five"] * 6))
        assert p.returncode == 0, p.stderr
        lines = p.stdout.splitlines()
        assert lines[0].startswith("12 recordings, 84 words, 100.0 % of them right, mean confidence 0.99"), lines
        assert lines[1] == "word error rate 6.67 % of 90", lines  # the word "five", six times of 90
        assert not os.path.exists(os.path.join(MODEL, "confidence.json"))


@case
def a_stored_map_changes_every_word():
    with tempfile.TemporaryDirectory() as d:
        model = copy_of_model(d)
        before, _ = words(model)
        p = steno("model", "calibrate", "--write", model, listed(d, *[SPOILED] * 20))
        assert p.returncode == 0, p.stderr
        assert "140 words, 85.7 % of them right" in p.stdout, p.stdout
        with open(os.path.join(model, "confidence.json")) as f:
            knots = json.load(f)["knots"]
        assert knots == sorted(knots) and [k[1] for k in knots] == sorted(k[1] for k in knots), knots
        after, whole = words(model)
        assert before[0] > 0.95 and after[0] < 0.9, (before, after)  # "four" is never what the texts say
        assert all(min(k[1] for k in knots) - 0.001 <= c <= max(k[1] for k in knots) + 0.001 for c in after), (after, knots)
        assert min(after) - 0.001 <= whole <= max(after) + 0.001, (whole, after)
        again = steno("model", "calibrate", model, listed(d, *[SPOILED] * 20)).stdout
        assert again.splitlines()[2] == p.stdout.splitlines()[2], again  # the network's own confidences are measured
        assert again.splitlines()[3].startswith("with the stored map 0.0"), again
        with Stenod(f"model.dir={model}") as server, open(DIGITS, "rb") as f:
            code, _, body = server.request("POST", "/v1/transcribe?words=true", f.read(), {"Content-Type": "audio/wav"})
            live = [w["confidence"] for s in json.loads(body)["segments"] for w in s["words"]]
            assert code == 200 and live == after, (live, after)


@case
def a_map_of_another_language_is_left_alone():
    with tempfile.TemporaryDirectory() as d:
        model = copy_of_model(d)
        before = words(model)
        for language, same in (("de", True), ("en", False)):
            with open(os.path.join(model, "confidence.json"), "w") as f:
                json.dump({"knots": [[0, 0.5]], "language": language}, f)
            got = words(model, "--language", "en")
            assert (got == before) == same, (language, got, before)


@case
def a_map_that_does_not_help_is_not_stored():
    with tempfile.TemporaryDirectory() as d:
        model = copy_of_model(d)
        p = steno("model", "calibrate", "--write", model, listed(d, *[DIGITS_TEXT, "nothing"] * 10))
        assert p.returncode == 65 and "nothing was written" in p.stderr, (p.stdout, p.stderr)
        assert not os.path.exists(os.path.join(model, "confidence.json"))


@case
def what_is_wrong_is_said():
    with tempfile.TemporaryDirectory() as d:
        model = copy_of_model(d)
        p = steno("model", "calibrate", model, listed(d, *[DIGITS_TEXT] * 2))
        assert p.returncode == 64 or p.returncode == 65, p.returncode
        assert "14 words are too few for a map" in p.stderr, p.stderr
        with open(os.path.join(d, "list"), "w") as f:
            f.write("no-tab.wav\n")
        p = steno("model", "calibrate", model, os.path.join(d, "list"))
        assert "a line has no tab between recording and text: 'no-tab.wav'" in p.stderr, p.stderr
        with open(os.path.join(model, "confidence.json"), "w") as f:
            f.write('{"knots": [[0.5, 0.9],\n [0.9, 0.1]]}')
        p = steno("transcribe", "--model", model, DIGITS)
        assert p.returncode == 65 and f"{model}/confidence.json: line 2: the second numbers of the knots must not fall" in p.stderr, p.stderr


raise SystemExit(tap())
