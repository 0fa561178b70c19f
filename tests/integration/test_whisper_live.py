"""Whisper live, through every dialect: partials while somebody speaks, then finals. What is stable, or was sent as a
delta, never changes. Needs STENO_WHISPER_TINY_EN (a faster-whisper directory of tiny.en) and ../shared/audio. TAP."""
import base64
import json
import os
import sys
import threading
import time
import urllib.parse

from daemon import OPEN, ROOT, SLOW, Stenod, case, pcm, tap, until_closed
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

TINY = os.environ.get("STENO_WHISPER_TINY_EN") or os.path.join(ROOT, "build", "models", "tiny.en")
SPEECH = os.path.join(ROOT, "..", "shared", "audio", "real", "katiesteve.wav")
SECONDS = 12  # of the recording
PIECE = 0.2  # s of audio in a message
SAYS = "good morning steve"


def url(d, path, **query):
    return f"ws://127.0.0.1:{d.port}{path}" + ("?" + urllib.parse.urlencode(query) if query else "")


def speak(where, before, wrap, after):
    """Everything that the server sends while the recording is spoken in real time."""
    samples, rate = pcm(SPEECH)
    assert rate == 16000
    samples = samples[:2 * rate * SECONDS]
    n = 2 * int(rate * PIECE)
    with connect(where, **OPEN) as ws:

        def send():
            begin = time.monotonic()
            try:
                for m in before:
                    ws.send(m)
                for i, at in enumerate(range(0, len(samples), n)):
                    time.sleep(max(0.0, begin + i * PIECE - time.monotonic()))
                    ws.send(wrap(samples[at:at + n]))
                for m in after:
                    ws.send(m)
            except ConnectionClosed:
                pass  # the reader says how it ended
        t = threading.Thread(target=send)
        t.start()
        got = receive(ws)
        t.join()
    return got


def receive(ws):
    """All messages, to the close or to the end of an item of OpenAI's."""
    if "/realtime" not in ws.request.path:
        return until_closed(ws)[0]
    got = []
    while not got or not got[-1]["type"].endswith("transcription.completed"):
        got.append(json.loads(ws.recv(timeout=120 * SLOW)))
    return got


def plain(text):
    return "".join(c for c in text.lower() if c.isalnum() or c == " ")


@case
def our_partials_have_a_stable_prefix(d):
    got = speak(d.ws, [json.dumps({"type": "start", "sample_rate": 16000})], bytes, [json.dumps({"type": "end"})])
    stable, partials = "", 0
    for m in got:
        if m["type"] not in ("partial", "final"):
            continue
        assert m["text"].startswith(stable), (stable, m["text"])
        if m["type"] == "partial":
            partials += 1
            assert m["text"].startswith(m["stable"]) and len(m["stable"]) >= len(stable), m
            stable = m["stable"]
        else:
            stable = ""
    finals = [m for m in got if m["type"] == "final"]
    assert partials >= 3 and plain(finals[0]["text"]).startswith(SAYS), got
    assert got[-2:] and finals[-1]["words"][-1]["end"] <= SECONDS


@case
def deepgrams_interim_results_come_before_finals(d):
    got = speak(url(d, "/v1/listen", encoding="linear16", sample_rate=16000, interim_results="true"), [], bytes,
                ['{"type":"CloseStream"}'])
    results = [m for m in got if m["type"] == "Results"]
    said = [m["channel"]["alternatives"][0]["transcript"] for m in results]
    assert not results[0]["is_final"] and sum(not m["is_final"] for m in results) >= 3, got
    assert results[-1]["is_final"] and plain(" ".join(t for t, m in zip(said, results) if m["is_final"])).startswith(SAYS), said


@case
def openais_deltas_add_up_to_the_transcript(d):
    update = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": 16000}, "transcription": {"model": "whisper-1", "language": "en"},
        "turn_detection": None}}}}

    def wrap(samples):
        return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(samples).decode()})
    got = speak(url(d, "/v1/realtime", intent="transcription"), [json.dumps(update)], wrap,
                ['{"type":"input_audio_buffer.commit"}'])
    deltas = [m["delta"] for m in got if m["type"].endswith(".delta")]
    done = got[-1]["transcript"]
    assert len(deltas) > 1 and "".join(deltas) == done and plain(done).startswith(SAYS), (deltas, done)


@case
def vosk_has_partials(d):
    samples, rate = pcm(SPEECH)
    samples = samples[:2 * rate * SECONDS]
    n, got, begin = 2 * int(rate * PIECE), [], time.monotonic()
    with connect(url(d, "/vosk"), **OPEN) as ws:
        ws.send(json.dumps({"config": {"sample_rate": rate}}))
        for i, at in enumerate(range(0, len(samples), n)):
            time.sleep(max(0.0, begin + i * PIECE - time.monotonic()))
            ws.send(samples[at:at + n])
            got.append(json.loads(ws.recv(timeout=60 * SLOW)))
        ws.send('{"eof" : 1}')
        got.append(json.loads(ws.recv(timeout=60 * SLOW)))
    assert len({m["partial"] for m in got if m.get("partial")}) >= 3, got
    assert plain(" ".join(m["text"] for m in got if m.get("text"))).startswith(SAYS), got


@case
def sherpa_has_results_of_open_segments(d):
    import struct

    def wrap(samples):
        values = struct.unpack(f"<{len(samples) // 2}h", samples)
        return struct.pack(f"<{len(values)}f", *(v / 32768 for v in values))
    got = [m for m in speak(url(d, "/sherpa", sample_rate=16000), [], wrap, ["Done"]) if isinstance(m, dict)]
    first = [m["text"] for m in got if m["segment"] == got[0]["segment"]]
    assert len(set(first)) >= 3 and plain(first[-1]).startswith(SAYS), got


if __name__ == "__main__":
    if not os.path.exists(TINY) or not os.path.exists(SPEECH):
        print("1..0 # SKIP set STENO_WHISPER_TINY_EN to a faster-whisper directory of tiny.en; ../shared/audio/real is needed")
        sys.exit(0)
    with Stenod("model.dir=" + TINY) as server:
        code = tap(server)
    sys.exit(code)
