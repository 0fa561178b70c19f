"""`steno transcribe` from outside: forms of output, order, pipes, exit codes of sysexits.h."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
import wave

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SHARED, SLOW, Skip, case, need, tap

STENO = os.path.join(BUILD, "steno")
TONES = os.path.join(ROOT, "tests", "data", "models", "tones")
SILERO = os.path.join(SHARED, "models", "silero-vad")
WORK = tempfile.mkdtemp(prefix="steno-transcribe-")
EX_OK, EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_IOERR = 0, 64, 65, 66, 74


def tones(name, *parts, rate=8000, channels=1):
    """A WAV of (Hz, seconds) parts. The tone model recognizes 500 Hz as "one", 1000 Hz as "two"."""
    samples = []
    for hz, seconds in parts:
        samples += [round(9000 * math.sin(2 * math.pi * hz * i / rate)) if hz else 0
                    for i in range(round(seconds * rate))]
    path = os.path.join(WORK, name)
    with wave.open(path, "wb") as w:
        w.setnchannels(channels)
        w.setsampwidth(2)
        w.setframerate(rate)
        frames = b"".join(struct.pack("<h", s) + b"\0\0" * (channels - 1) for s in samples)
        w.writeframes(frames)
    return path


ONE = tones("one.wav", (0, 0.3), (500, 0.4), (0, 0.5))
TWO = tones("two.wav", (0, 0.3), (1000, 0.4), (0, 0.5))
LONG = tones("long.wav", (500, 0.3), (0, 0.3), (1000, 0.3), (0, 1.2), (1000, 0.4), (0, 0.2))


def steno(*args, data=None, model=TONES, env=None):
    full = dict(os.environ, **(env or {}))
    options = ["--model", model] if model else []
    return subprocess.run([STENO, "transcribe", *options, *args], input=data, capture_output=True,
                          timeout=60 * SLOW, env=full)


def text(*args, **kw):
    r = steno(*args, **kw)
    assert r.returncode == EX_OK, (r.returncode, r.stderr)
    return r.stdout.decode()


def fails(code, *args, says="", **kw):
    r = steno(*args, **kw)
    assert r.returncode == code, (r.returncode, r.stderr)
    assert says in r.stderr.decode(), r.stderr
    return r


@case
def one_line_per_file_in_the_order_given():
    assert text(TWO, ONE, LONG, ONE) == "two\none\none two two\none\n"


@case
def standard_input_is_a_file_too():
    with open(ONE, "rb") as f:
        assert text("-", data=f.read()) == "one\n"


@case
def json_has_segments_words_and_times():
    o = [json.loads(line) for line in text("--format", "json", LONG, ONE).splitlines()]
    assert [x["text"] for x in o] == ["one two two", "one"]
    assert o[0]["file"] == LONG and o[0]["model"] == "tones" and abs(o[0]["duration"] - 2.7) < 1e-6
    first, second = o[0]["segments"]
    assert (first["text"], first["reason"], second["reason"]) == ("one two", "endpoint", "end")
    last = 0
    for s in o[0]["segments"]:
        for w in s["words"]:
            assert last <= w["start"] < w["end"] <= 2.7 and 0 < w["confidence"] <= 1
            last = w["end"]
    assert abs(second["words"][0]["start"] - 2.1) < 0.1


@case
def nbest_gives_alternatives_best_first():
    o = json.loads(text("--format", "json", "--beam", "8", "--nbest", "3", "--no-endpoint", LONG))
    alternatives = o["segments"][0]["alternatives"]
    scores = [a["score"] for a in alternatives]
    assert len(o["segments"]) == 1 and 2 <= len(alternatives) <= 3
    assert scores == sorted(scores, reverse=True) and alternatives[0]["text"] == o["text"]
    lines = text("--format", "nbest", "--beam", "8", "--nbest", "3", LONG).splitlines()
    assert len(lines) == 2 and all(json.loads(line)["nbest"][0]["text"] for line in lines), lines


@case
def subtitles_have_a_cue_per_phrase():
    srt = text("--format", "srt", LONG)
    assert srt.startswith("1\n00:00:00,0") and "\n\n2\n00:00:02," in srt, srt
    vtt = text("--format", "vtt", LONG)
    assert vtt.startswith("WEBVTT\n\n00:00:00.0") and vtt.count("-->") == 2


@case
def words_option_prints_a_line_per_word():
    lines = text("--words", LONG).splitlines()
    assert [x.split()[3] for x in lines] == ["one", "two", "two"]


@case
def partials_come_before_the_pipe_ends():
    p = subprocess.Popen([STENO, "transcribe", "--model", TONES, "--stream", "-"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    with open(LONG, "rb") as f:
        data = f.read()
    p.stdin.write(data[: 44 + 2 * 8000])
    p.stdin.flush()
    line = p.stdout.readline().decode()
    assert "partial one" in line and p.poll() is None, line
    p.stdin.write(data[44 + 2 * 8000:])
    p.stdin.close()
    rest = p.stdout.read().decode()
    assert "final one two\n" in rest and "final two\n" in rest, rest
    assert p.wait(60 * SLOW) == EX_OK


@case
def events_as_json_lines():
    events = [json.loads(x) for x in text("--stream", "--format", "json", LONG).splitlines()]
    kinds = [e["type"] for e in events]
    assert kinds[0] == "speech_start" and kinds.count("final") == 2 and "partial" in kinds
    assert all(a["time"] <= b["time"] for a, b in zip(events, events[1:]))


@case
def a_channel_can_be_chosen():
    stereo = tones("stereo.wav", (0, 0.3), (500, 0.4), (0, 0.5), rate=16000, channels=2)
    assert text("--channel", "1", stereo) == "one\n"
    assert text("--channel", "2", stereo) == "\n"
    assert text(stereo) == "one\n"
    fails(EX_USAGE, "--channel", "3", stereo, says="stereo.wav: ")


@case
def silence_is_an_empty_line():
    assert text(tones("silence.wav", (0, 3))) == "\n"


def fetched(name, place):
    """An environment in which a model that lies at this place was fetched."""
    data = tempfile.mkdtemp(dir=WORK)
    os.mkdir(os.path.join(data, "models"))
    if place:
        os.symlink(place, os.path.join(data, "models", name))
    return {"STENO_DATA": data}


@case
def what_is_not_speech_is_left_out():
    assert text("--vad", "off", LONG) == text("--vad", "energy", LONG) == text(LONG)
    fails(EX_IOERR, "--vad", "silero", ONE, says="steno model fetch silero-vad", env=fetched("silero-vad", None))
    fails(EX_IOERR, "--vad", WORK, ONE, says="has neither silero_vad_16k_op15.onnx nor silero_vad.onnx")
    env = fetched("silero-vad", need(SILERO))
    # a tone is loud but no speech
    assert text("--vad", "energy", TWO) == "two\n" and text("--vad", "silero", TWO, env=env) == "\n"
    assert text("--vad", "silero", DIGITS, model=None, env=env) == text("--vad", SILERO, DIGITS, model=None) == DIGITS_TEXT + "\n"
    fails(EX_DATAERR, ONE, model="silero-vad", says="silero-vad tells speech from silence", env=env)


@case
def a_bad_file_is_named_and_the_others_are_done():
    junk = os.path.join(WORK, "junk.wav")
    with open(junk, "w", encoding="utf-8") as f:
        f.write("Hello world, this is no audio.\n" * 10)
    empty = os.path.join(WORK, "empty.wav")
    open(empty, "wb").close()
    r = fails(EX_DATAERR, ONE, junk, TWO, empty, ONE, says="junk.wav: ")
    assert r.stdout.decode() == "one\n\ntwo\n\none\n", r.stdout
    assert b"empty.wav: " in r.stderr
    fails(EX_NOINPUT, "/nonexistent.wav", ONE, says="/nonexistent.wav: No such file")
    fails(EX_DATAERR, "-", data=b"", says="-: ")


@case
def a_missing_model_is_missing_input():
    for args in (["transcribe", "--model", "/nonexistent", ONE], ["run", "/nonexistent", "--output-dir", WORK],
                 ["bench", "/nonexistent"], ["model", "info", "/nonexistent"]):
        r = subprocess.run([STENO, *args], capture_output=True, timeout=60 * SLOW)
        assert r.returncode == EX_NOINPUT, (args, r.returncode, r.stderr)
        assert r.stderr == b"steno: /nonexistent: No such file or directory\n", (args, r.stderr)


@case
def a_truncated_file_gives_its_text_and_a_warning():
    cut = os.path.join(WORK, "cut.wav")
    with open(LONG, "rb") as f:
        data = f.read()
    with open(cut, "wb") as f:
        f.write(data[: len(data) - 12001])
    r = steno(cut)
    assert r.returncode == EX_OK and r.stdout == b"one two\n", (r.stdout, r.stderr)
    assert b"ends early" in r.stderr


@case
def wrong_options_are_usage_errors():
    fails(EX_USAGE, says="no recording")
    fails(EX_USAGE, "--format", "xml", ONE, says="xml")
    fails(EX_USAGE, "--beam", "0", ONE, says="--beam")
    fails(EX_USAGE, "--beam", "65", ONE, says="--beam")
    fails(EX_USAGE, "--format", "json", "--nbest", "4", "--beam", "2", ONE, says="--nbest 4 is more than --beam 2")
    fails(EX_USAGE, "--stream", "--format", "srt", ONE, says="--stream")
    fails(EX_USAGE, "--frobnicate", ONE, says="--frobnicate")
    assert b"Usage: steno transcribe" in steno("--help").stdout
    for command in ("transcribe", "align", "jobs"):
        r = subprocess.run([STENO, "help", command], capture_output=True, check=True)
        assert r.stdout.startswith(b"Usage: steno " + command.encode()), r.stdout
    assert subprocess.run([STENO, "help", "sing"], capture_output=True, check=False).returncode == EX_USAGE
    fails(EX_USAGE, "--align-model", TONES, "-", says="standard input cannot be heard twice", data=b"no recording")
    fails(EX_USAGE, "--speaker-model", "x", ONE, says="--speaker-model needs --speakers")
    fails(EX_USAGE, "--stream", "--words", ONE, says="--stream prints no words")
    fails(EX_USAGE, "--speakers", "auto", "--words", ONE, says="--words says nothing of --speakers")
    fails(EX_USAGE, "--speakers", "2", "--format", "nbest", ONE, says="--format nbest says nothing of --speakers")


@case
def the_model_is_found_or_the_places_are_named():
    assert text(ONE, model=None, env={"STENO_MODEL": TONES}) == "one\n"
    assert text(DIGITS, model=None).strip() != ""  # the shipped model, from the build tree
    fails(EX_NOINPUT, ONE, model="/nonexistent", says="/nonexistent: No such file")


@case
def a_full_disk_is_an_error():
    if not os.path.exists("/dev/full"):
        raise Skip("/dev/full is not there")
    with open("/dev/full", "w", encoding="utf-8") as full:
        r = subprocess.run([STENO, "transcribe", "--model", TONES, ONE], stdout=full, stderr=subprocess.PIPE,
                           timeout=60 * SLOW, check=False)
    assert r.returncode == EX_IOERR and b"No space" in r.stderr, r


@case
def every_file_format_gives_the_same_transcript():
    folder = need(os.path.join(SHARED, "audio", "formats"))
    files = sorted(os.path.join(folder, f) for f in os.listdir(folder) if not f.startswith("silero"))
    lines = text(*files, model=None).splitlines()
    assert len(lines) == len(files) > 10
    assert set(lines) == {"one two three"}, dict(zip(files, lines))


@case
def faster_than_real_time_by_far():
    start = time.monotonic()
    text(tones("minute.wav", *[(500, 0.3), (0, 0.7)] * 60))
    assert time.monotonic() - start < 20 * SLOW


if __name__ == "__main__":
    sys.exit(tap())
