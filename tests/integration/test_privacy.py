"""No word of a speaker leaves the server except in the answer: not in logs at any level and in either format, metrics in either
format, traces, state files or the administrator's page. Every dialect is used, and every answer must have the words, so
that the search could find them. Texts that clients send (prompts, hotwords) are searched for too."""
import base64
import json
import os
import re
import socket
import struct
import sys
import tempfile

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from collector import Collector
from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Stenod, case, converse, eventually, pcm, tap

PCM, RATE = pcm()
FLOATS = struct.pack(f"<{len(PCM) // 2}f", *(s / 32768 for s in struct.unpack(f"<{len(PCM) // 2}h", PCM)))
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
PROMPT = "xylographic"  # a word that nothing else writes
KEY = "key-of-the-privacy-test"
# pairs of neighbours, and the words that no message of the server has
PAIRS = [" ".join(p) for p in zip(DIGITS_TEXT.split(), DIGITS_TEXT.split()[1:])]
WORDS = [w for w in set(DIGITS_TEXT.split()) if w in ("seven", "nine", "zero", "four")]
SPOKEN = re.compile("|".join(rf"\b{w}\b" for w in PAIRS + WORDS) + "|" + PROMPT, re.I)


def url(d, path):
    return f"ws://127.0.0.1:{d.port}{path}"


def live(d):
    """(dialect, everything that came back as text) of a session in each dialect"""
    auth = {"additional_headers": {"Authorization": "Bearer " + KEY}}
    q = f"sample_rate={RATE}&prompt={PROMPT}&hotwords={PROMPT}"

    def said(path, messages):
        return json.dumps(converse(url(d, path), messages, **auth).messages)
    # the model of the tests takes no prompt: the native dialect says so, and the message names the option alone
    yield "stream", said(f"/v1/stream?sample_rate={RATE}", [PCM, {"type": "end"}])
    yield "stream refused", said(f"/v1/stream?{q}", [PCM, {"type": "end"}]) + DIGITS_TEXT
    yield "deepgram", said(f"/v1/listen?encoding=linear16&keywords={PROMPT}&{q}", [PCM, {"type": "CloseStream"}])
    yield "flux", said(f"/v2/listen?model=flux-general-en&encoding=linear16&sample_rate={RATE}&keyterm={PROMPT}",
                       [PCM, {"type": "CloseStream"}])
    yield "vosk", said("/vosk", [{"config": {"sample_rate": RATE, "phrase_list": [PROMPT]}}, PCM, '{"eof" : 1}'])
    yield "sherpa", said(f"/sherpa?{q}", [FLOATS, "Done"])
    yield "sherpa offline", sherpa_offline(d, auth)
    yield "wenet", said(f"/wenet?{q}", ['{"signal":"start"}', PCM, '{"signal":"end"}'])
    yield "root", said(f"/?{q}", [FLOATS, "Done"])
    yield "realtime", realtime(d, auth)
    yield "wyoming", wyoming(d)


def sherpa_offline(d, auth):
    with connect(url(d, "/sherpa"), **OPEN, **auth) as ws:
        ws.send(struct.pack("<ii", RATE, len(FLOATS)) + FLOATS)
        got = ws.recv(timeout=60 * SLOW)
        ws.send("Done")
        return got


def realtime(d, auth):
    session = {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "transcription": {
        "model": "gpt-4o-transcribe", "language": "en", "prompt": PROMPT}, "turn_detection": None}}}
    got = []
    with connect(url(d, "/v1/realtime?intent=transcription"), **OPEN, **auth) as ws:
        ws.send(json.dumps({"type": "session.update", "session": session}))
        ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(PCM).decode()}))
        ws.send('{"type":"input_audio_buffer.commit"}')
        try:
            while not any("transcription.completed" in m for m in got):
                got.append(ws.recv(timeout=60 * SLOW))
        except ConnectionClosed:
            pass
    return "".join(got)


def wyoming(d):
    port = int(re.search(r"listening on wyoming://127\.0\.0\.1:(\d+)", d.output()).group(1))
    head = json.dumps({"rate": RATE, "width": 2, "channels": 1}).encode()

    def event(kind, payload=b""):
        line = {"type": kind, "data_length": len(head), **({"payload_length": len(payload)} if payload else {})}
        return json.dumps(line).encode() + b"\n" + head + payload
    with socket.create_connection(("127.0.0.1", port), timeout=60 * SLOW) as s:
        s.sendall(event("audio-start") + b"".join(event("audio-chunk", PCM[i:i + 4096]) for i in range(0, len(PCM), 4096)) +
                  event("audio-stop"))
        got = b""
        while b'"transcript"' not in got or DIGITS_TEXT.encode() not in got:
            more = s.recv(65536)
            if not more:
                break
            got += more
    return got.decode()


def uploads(d):
    def form(fields):
        b = "privacy-boundary"
        parts = [(f'name="{k}"', v.encode()) for k, v in fields.items()] + [('name="file"; filename="a.wav"', WAV)]
        body = b"".join(f"--{b}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + v + b"\r\n" for head, v in parts)
        return body + f"--{b}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={b}"}

    def post(path, body, headers):
        return d.request("POST", path, body, {**headers, "Authorization": "Bearer " + KEY})[2].decode()
    for f in ("json", "text", "srt", "vtt"):
        yield "transcribe " + f, post("/v1/transcribe?format=" + f, WAV, {})
    for f in ("json", "text", "srt", "vtt", "verbose_json"):
        body, headers = form({"response_format": f, "prompt": PROMPT, "hotwords": PROMPT, "language": "en"})
        yield "openai " + f, post("/v1/audio/transcriptions", body, headers)
    body, headers = form({"stream": "true", "prompt": PROMPT})
    yield "openai stream", post("/v1/audio/transcriptions", body, headers).replace('"}', "")
    yield "deepgram upload", post(f"/v1/listen?keywords={PROMPT}", WAV, {})
    yield "refused", post(f"/v1/transcribe?prompt={PROMPT}&beam=x", WAV, {}) + DIGITS_TEXT


def normal(text):
    return " ".join(re.sub(r"[^a-z]+", " ", text.lower()).split())


def use_everything(d):
    """How many traces that makes: one per request and session, but none for Wyoming's."""
    used = [*live(d), *uploads(d)]
    for name, got in used:
        assert "seven" in normal(got), f"{name} has no transcript: {got[:500]}"
    d.wait_idle()
    return sum(name != "wyoming" for name, _ in used)


def admin(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.settimeout(30 * SLOW)
        s.sendall(b"status\n")
        got = b""
        while not got.endswith(b"\n"):
            got += s.recv(65536)
        return got.decode()


class Setup:
    """A server that tells all it can, and the places where it tells."""

    def __init__(self, *settings):
        self.dir = tempfile.TemporaryDirectory()
        self.collector = Collector()
        keys = os.path.join(self.dir.name, "keys")
        with open(keys, "w", encoding="utf-8") as f:
            f.write(f"[caller]\nkey = {KEY}\n")
        self.state = os.path.join(self.dir.name, "state")
        os.mkdir(self.state)
        self.socket = os.path.join(self.dir.name, "admin.sock")
        self.server = Stenod(f"auth.keys={keys}", f"server.state={self.state}", f"server.admin={self.socket}",
                             f"tracing.endpoint={self.collector.url}", "log.level=debug", "wyoming.listen=127.0.0.1:0",
                             "wyoming.key=caller", *settings)

    def roots(self):
        return [s for s in self.collector.spans() if not s.get("parentSpanId")]

    def places(self, traces):
        """{place: its text} while the server runs, once it has exported so many traces"""
        d = self.server
        assert eventually(lambda: len(self.roots()) == traces), (traces, [s["name"] for s in self.roots()])
        return {"metrics": d.get("/metrics")[2].decode(),
                "OpenMetrics": d.request("GET", "/metrics", None, {"Accept": "application/openmetrics-text"})[2].decode(),
                "traces": json.dumps([r[3] for r in self.collector.requests]),
                "administrator's page": admin(self.socket),
                "use of the key": d.request("GET", "/v1/usage", None, {"X-API-Key": KEY})[2].decode(),
                "health": d.get("/readyz")[2].decode() + d.get("/healthz")[2].decode()}

    def files(self):
        out = {}
        for base, _, names in os.walk(self.state):
            for n in names:
                with open(os.path.join(base, n), encoding="utf-8", errors="replace") as f:
                    out["state file " + n] = f.read()
        assert out, "there is no state file"
        return out


def search(places):
    return {place: sorted(set(SPOKEN.findall(text))) for place, text in places.items() if SPOKEN.search(text)}


def no_word_is_found(log_format):
    s = Setup(f"log.format={log_format}")
    with s.server as d:
        places = s.places(use_everything(d))
        d.terminate()
        places["log"] = d.output()
        assert "stopped: " in places["log"]
        places.update(s.files())
    for name in ("POST /v1/transcribe", "GET /v1/stream", "GET /v1/listen", "GET /v1/realtime", "GET /vosk"):
        assert name in places["traces"], name
    found = search(places)
    assert not found, found


@case
def no_place_but_the_answer_has_a_word():
    no_word_is_found("text")


@case
def no_place_but_the_answer_has_a_word_with_a_json_log():
    no_word_is_found("json")


@case
def with_log_transcripts_the_search_finds_them_in_the_log_alone():
    s = Setup("log.transcripts=yes")
    with s.server as d:
        places = s.places(use_everything(d))
        d.terminate()
        places["log"] = d.output()
        places.update(s.files())
    found = search(places)
    assert set(found) == {"log"} and PROMPT not in found["log"], found
    assert "log.transcripts: recognised text is written to this log" in places["log"]
    for dialect in ("stream", "deepgram", "vosk", "sherpa", "wenet", "realtime", "wyoming"):
        ids = re.findall(rf"info: {dialect} (sess_\w+): (?:ok|client gone)", places["log"])
        assert any(re.search(rf"{i}: .*seven", places["log"]) for i in ids), (dialect, ids)


if __name__ == "__main__":
    sys.exit(tap())
