"""The VAD filter removes silence before the network: for every kind of input the same words, and a metric with the
removed time."""
import json
import os
import sys
import tempfile
from unittest import mock

from daemon import DIGITS_TEXT, SHARED, Stenod, case, converse, need, pcm, tap, wav

PCM, RATE = pcm()
PAUSE = bytes(2 * 6 * RATE)
TALK = PCM + PAUSE + PCM + PAUSE
SAVED = 2 * 6 - 2 * (1.2 + 0.6)  # of 12 s: a second after speech and 0.2 s before it remain, and windows across the borders
SILERO = os.path.join(SHARED, "models", "silero-vad")


def stream(d, start=None, query=""):
    """The texts of all finals."""
    got = converse(d.ws + query, [{"type": "start", "encoding": "s16le", "sample_rate": RATE, **(start or {})},
                                  *(TALK[at:at + 1600] for at in range(0, len(TALK), 1600)), {"type": "end"}]).messages
    assert got[-1]["type"] == "end", got[-1]
    return [m["text"] for m in got if m["type"] == "final" and m["text"]]


def skipped(d, api):
    """Seconds skipped so far, over all sessions."""
    return d.wait_idle().metric(f'steno_vad_skipped_seconds_total{{api="{api}"}}')


@case
def a_stream_asks_for_it(d):
    assert stream(d) == [DIGITS_TEXT] * 2
    assert skipped(d, "stream") == 0
    assert stream(d, {"vad": "energy"}) == [DIGITS_TEXT] * 2
    assert SAVED < skipped(d, "stream") <= 12, skipped(d, "stream")
    before = skipped(d, "stream")
    assert stream(d, query="?vad=energy") == [DIGITS_TEXT] * 2
    assert skipped(d, "stream") > before + SAVED
    assert stream(d, {"vad": "off"}, "?vad=energy") == [DIGITS_TEXT] * 2
    assert skipped(d, "stream") < 2 * before + 0.001


@case
def uploads_ask_for_it(d):
    twice = (DIGITS_TEXT + " " + DIGITS_TEXT).split()
    status, _, text = d.request("POST", "/v1/transcribe?format=text&vad=energy", wav(TALK, RATE))
    assert status == 200 and text.decode().split() == twice, text
    assert skipped(d, "transcribe") > SAVED
    boundary = "X-boundary-42"
    body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
                    for name, value in (("vad", b"energy"), ("file", wav(TALK, RATE)))) + f"--{boundary}--\r\n".encode()
    status, _, text = d.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    assert status == 200 and json.loads(text)["text"].split() == twice, text
    assert skipped(d, "openai") > SAVED


@case
def unknown_choices_are_refused_by_name(d):
    status, _, text = d.request("POST", "/v1/transcribe?vad=loud", wav(PCM, RATE))
    assert status == 400 and b"off, energy, silero" in text, text
    status, _, text = d.request("POST", "/v1/transcribe?vad=silero", wav(PCM, RATE))
    assert status == 400 and b"vad.model" in text, text
    m = converse(d.ws, [{"type": "start", "sample_rate": RATE, "vad": "silero"}]).messages[0]
    assert m["type"] == "error" and "vad.model" in m["message"], m


@case
def the_server_can_set_it_for_all(_):
    with Stenod("vad.mode=energy") as d:
        assert stream(d) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream") > SAVED
        before = skipped(d, "stream")
        assert stream(d, {"vad": "off"}) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream") == before


@case
def silero_skips_silence_too(_):
    need(SILERO)
    with Stenod("vad.model=" + SILERO) as d:
        assert stream(d, {"vad": "silero"}) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream") > SAVED


@case
def the_fetched_detector_is_used_without_being_a_model(_):
    need(SILERO)
    with tempfile.TemporaryDirectory() as data, mock.patch.dict(os.environ, STENO_DATA=data):
        os.mkdir(data + "/models")
        os.symlink(SILERO, data + "/models/silero-vad")
        with Stenod() as d:
            assert stream(d, {"vad": "silero"}) == [DIGITS_TEXT] * 2
            assert [m["id"] for m in json.loads(d.request("GET", "/v1/models")[2])["data"]] == ["digits-en"]
        with Stenod("vad.model=silero-vad", "vad.mode=silero") as d:
            assert stream(d) == [DIGITS_TEXT] * 2 and skipped(d, "stream") > SAVED
        with Stenod("vad.model=none") as d:
            status, _, answer = d.request("POST", "/v1/transcribe?vad=silero", wav(PCM, RATE))
            assert status == 400 and b"vad.model" in answer, answer


@case
def a_bad_detector_stops_the_start(_):
    for settings, says in ((["vad.model=conf/models"], ("vad.model", "silero_vad.onnx")), (["vad.mode=silero"], ("vad.mode", "steno model fetch silero-vad")),
                           (["vad.model=silero-vad"], ("vad.model", "steno model fetch silero-vad"))):
        try:
            with Stenod(*settings):
                raise AssertionError("it started")
        except RuntimeError as why:
            assert all(x in str(why) for x in says), why


with tempfile.TemporaryDirectory() as nothing_fetched, mock.patch.dict(os.environ, STENO_DATA=nothing_fetched), Stenod() as server:
    sys.exit(tap(server))
