"""Silence that does not go through the network: over every way in, the same words, and a metric that says how much."""
import io
import json
import os
import sys
import wave

from websockets.sync.client import connect

from daemon import DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, eventually, pcm, tap

PCM, RATE = pcm()
PAUSE = bytes(2 * 6 * RATE)
TALK = PCM + PAUSE + PCM + PAUSE
SAVED = 2 * 6 - 2 * (1.2 + 0.6)  # of 12 s: a second is heard behind speech, 0.2 s before it, windows lie across
OPEN = dict(max_size=None, compression=None, open_timeout=30 * SLOW, close_timeout=20 * SLOW, proxy=None)
SILERO = os.path.join(os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared")), "models", "silero-vad")


def wav(samples):
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(RATE)
        w.writeframes(samples)
    return out.getvalue()


def stream(d, start=None, query=""):
    """Texts of all finals."""
    texts = []
    with connect(d.ws + query, **OPEN) as ws:
        ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, **(start or {})}))
        for at in range(0, len(TALK), 1600):
            ws.send(TALK[at:at + 1600])
        ws.send(json.dumps({"type": "end"}))
        for text in ws:
            m = json.loads(text)
            assert m["type"] != "error", m
            if m["type"] == "final" and m["text"]:
                texts.append(m["text"])
    return texts


def skipped(d, api, beyond=None):
    """Seconds skipped so far; with `beyond`, as soon as they are more: a session is counted after its last message."""
    name = f'steno_vad_skipped_seconds_total{{api="{api}"}}'
    if beyond is not None:
        eventually(lambda: d.metric(name) > beyond)
    return d.metric(name)


@case
def a_stream_asks_for_it(d):
    assert stream(d) == [DIGITS_TEXT] * 2
    assert skipped(d, "stream") == 0
    assert stream(d, {"vad": "energy"}) == [DIGITS_TEXT] * 2
    assert SAVED < skipped(d, "stream", SAVED) <= 12, skipped(d, "stream")
    before = skipped(d, "stream")
    assert stream(d, query="?vad=energy") == [DIGITS_TEXT] * 2
    assert skipped(d, "stream", before + SAVED) > before + SAVED
    assert stream(d, {"vad": "off"}, "?vad=energy") == [DIGITS_TEXT] * 2
    assert skipped(d, "stream") < 2 * before + 0.001


@case
def uploads_ask_for_it(d):
    twice = (DIGITS_TEXT + " " + DIGITS_TEXT).split()
    status, _, text = d.request("POST", "/v1/transcribe?format=text&vad=energy", wav(TALK))
    assert status == 200 and text.decode().split() == twice, text
    assert skipped(d, "transcribe", SAVED) > SAVED
    boundary = "X-boundary-42"
    body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
                    for name, value in (("vad", b"energy"), ("file", wav(TALK)))) + f"--{boundary}--\r\n".encode()
    status, _, text = d.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    assert status == 200 and json.loads(text)["text"].split() == twice, text
    assert skipped(d, "openai", SAVED) > SAVED


@case
def what_is_no_choice_is_refused_by_name(d):
    status, _, text = d.request("POST", "/v1/transcribe?vad=loud", wav(PCM))
    assert status == 400 and b"off, energy, silero" in text, text
    status, _, text = d.request("POST", "/v1/transcribe?vad=silero", wav(PCM))
    assert status == 400 and b"vad.model" in text, text
    with connect(d.ws, **OPEN) as ws:
        ws.send(json.dumps({"type": "start", "sample_rate": RATE, "vad": "silero"}))
        m = json.loads(ws.recv(timeout=30 * SLOW))
        assert m["type"] == "error" and "vad.model" in m["message"], m


@case
def the_server_says_so_for_all(_):
    with Stenod("vad.mode=energy") as d:
        assert stream(d) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream", SAVED) > SAVED
        before = skipped(d, "stream")
        assert stream(d, {"vad": "off"}) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream") == before


@case
def silero_tells_as_well(_):
    if not os.path.isdir(SILERO):
        raise Skip(f"{SILERO} is not there")
    with Stenod("vad.model=" + SILERO) as d:
        assert stream(d, {"vad": "silero"}) == [DIGITS_TEXT] * 2
        assert skipped(d, "stream", SAVED) > SAVED


@case
def a_detector_that_is_none_stops_the_start(_):
    try:
        with Stenod("vad.model=conf/models"):
            raise AssertionError("it started")
    except RuntimeError as why:
        assert "vad.model" in str(why) and "silero_vad.onnx" in str(why), why


with Stenod() as server:
    sys.exit(tap(server))
