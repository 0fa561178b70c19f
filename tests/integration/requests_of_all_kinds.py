"""Requests of clients to a server whose calls may fail (broken.py). Each function makes one request or stream. It
returns True if that ended well and False if it was refused or cut off. Anything in between is an error: an answer
is whole or does not exist."""
import base64
import http.client
import io
import json
import re
import socket
import struct

import soundfile
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from broken import HEADERS
from daemon import DIGITS, DIGITS_TEXT, SLOW, pcm

PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
OPEN = dict(max_size=None, compression=None, open_timeout=20 * SLOW, close_timeout=2, proxy=None)
REFUSALS = (400, 401, 408, 413, 500, 503)
BOUNDARY = "X-boundary-42"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def form(*fields):
    """A body of FORM_TYPE: the recording, and fields as (name, value)."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields] + [('name="file"; filename="a.wav"', WAV)]
    return b"".join(f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + body + b"\r\n"
                    for head, body in parts) + f"--{BOUNDARY}--\r\n".encode()


def in_container(kind, subtype):
    out = io.BytesIO()
    samples = struct.unpack(f"<{len(PCM) // 2}h", PCM)
    soundfile.write(out, [s / 32768 for s in samples], RATE, format=kind, subtype=subtype)
    return out.getvalue()


FORM, FORM_OF_EVENTS = form(), form(("stream", "true"))
FLAC, OGG = in_container("FLAC", "PCM_16"), in_container("OGG", "VORBIS")


def refused(status, headers, got):
    """A status other than 200 must be a documented one, and its JSON must be whole."""
    assert status in REFUSALS, (status, got)
    if headers.get("content-type", "").startswith("application/json"):
        json.loads(got)
    return False


def posted(b, path, body, kind):
    """Whether the recording was recognized, by the text in a JSON answer."""
    status, headers, got = b.d.request("POST", path, body, {**HEADERS, "Content-Type": kind})
    if status != 200:
        return refused(status, headers, got)
    assert json.loads(got)["text"].replace("\n", " ").strip() == DIGITS_TEXT, got
    return True


def upload(b):
    return posted(b, "/v1/audio/transcriptions", FORM, FORM_TYPE)


def flac(b):
    return posted(b, "/v1/transcribe", FLAC, "audio/flac")


def ogg(b):
    return posted(b, "/v1/transcribe", OGG, "audio/ogg")


def events(b):
    """An answer that is sent while the audio is decoded. Its content must be correct, and only its last event may
    say that it is complete."""
    status, headers, got = b.d.request("POST", "/v1/audio/transcriptions", FORM_OF_EVENTS, {**HEADERS, "Content-Type": FORM_TYPE})
    if status != 200:
        return refused(status, headers, got)
    frames = [f[6:] for f in got.decode().split("\n\n") if f]
    told = [json.loads(f) for f in frames if f != "[DONE]"]
    assert DIGITS_TEXT.startswith("".join(e["delta"] for e in told if e.get("type") == "transcript.text.delta")), got
    done = [e["text"] for e in told if e.get("type") == "transcript.text.done"]
    assert done in ([], [DIGITS_TEXT]), got
    return bool(done) and frames[-1] == "[DONE]"


def read(ws, until):
    """Read messages until one has the type. An error message or the end of the connection ends the reading too."""
    while True:
        m = json.loads(ws.recv(timeout=20 * SLOW))
        if m["type"] in (until, "error"):
            return m


def open_socket(url, **kw):
    """The client library asserts that nobody closes the connection before its request is written."""
    try:
        return connect(url, additional_headers=HEADERS, **OPEN, **kw)
    except AssertionError as why:
        raise ConnectionError("closed before the request was written") from why


def recognized_to_the_end(ws, audio):
    """Send the rest of the audio and end the session. Whether all audio was recognized."""
    ws.send(audio)
    ws.send(json.dumps({"type": "end"}))
    final = read(ws, "final")
    if final["type"] == "error":
        return False
    last = read(ws, "end")
    # audio before an error is recognized before the error is sent; without an error all of it must be there
    assert last["type"] == "error" or final["text"] == DIGITS_TEXT, (final, last)
    return last["type"] == "end"


def stream(b):
    """A session that loses its connection in the middle and is resumed."""
    ws = open_socket(b.d.ws + "?resumable=true")
    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}))
    ready = read(ws, "ready")
    if ready["type"] == "error":
        return False
    half = len(PCM) // 4 * 2
    ws.send(PCM[:half])
    ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ws.socket.shutdown(socket.SHUT_RDWR)
    ws.socket.close()
    with open_socket(f"{b.d.ws}?session_id={ready['session_id']}&seq={ready['seq']}") as ws:
        m = read(ws, "resumed")
        return m["type"] != "error" and recognized_to_the_end(ws, PCM[2 * m["samples"]:])


def later(b):
    """A session on a connection that has served a request."""
    s = socket.create_connection(("127.0.0.1", b.d.port), timeout=20 * SLOW)
    s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in HEADERS.items()) + b"\r\n")
    answer = http.client.HTTPResponse(s)
    answer.begin()
    got = answer.read()
    if answer.status != 200:
        return refused(answer.status, {}, got)
    with open_socket(b.d.ws, sock=s) as ws:
        ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
        return recognized_to_the_end(ws, PCM)


def filtered(b):
    """A session with the VAD filter, which removes silence before the network."""
    with open_socket(b.d.ws + "?vad=energy") as ws:
        ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
        return recognized_to_the_end(ws, PCM + bytes(4 * RATE))


def vosk(b):
    """One reply to each message, up to the reply to the end of the audio. An error follows if words are missing."""
    said = []
    with open_socket(f"ws://127.0.0.1:{b.d.port}/vosk") as ws:
        ws.send('{"config":{"sample_rate":%d}}' % RATE)
        for message in [PCM[at:at + RATE] for at in range(0, len(PCM), RATE)] + ['{"eof":1}']:
            ws.send(message)
            reply = json.loads(ws.recv(timeout=20 * SLOW))
            if not {"partial", "text"} & set(reply):
                return False
            said.append(reply.get("text", ""))
        if " ".join(filter(None, said)) == DIGITS_TEXT:
            return True
        assert "error" in json.loads(ws.recv(timeout=20 * SLOW)), said
        return False


def deepgram(b):
    """Results, and Metadata after all results."""
    said = []
    with open_socket(f"ws://127.0.0.1:{b.d.port}/v1/listen?encoding=linear16&sample_rate={RATE}") as ws:
        for at in range(0, len(PCM), RATE):
            ws.send(PCM[at:at + RATE])
        ws.send('{"type":"CloseStream"}')
        while True:
            m = json.loads(ws.recv(timeout=20 * SLOW))
            if m["type"] == "Error":
                return False
            if m["type"] == "Metadata":
                break
            if m["type"] == "Results" and m["is_final"]:
                said.append(m["channel"]["alternatives"][0]["transcript"])
    assert " ".join(filter(None, said)) == DIGITS_TEXT, said
    return True


def finals(ws, name, start, *audio):
    """A session of these start fields to its end: the text of each channel's finals, None if it ended with an error."""
    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, **start}))
    for piece in audio:
        ws.send(piece)
    ws.send(json.dumps({"type": "end"}))
    said = {}
    while True:
        m = json.loads(ws.recv(timeout=20 * SLOW))
        if m["type"] == "final" and m["text"]:
            said.setdefault(m.get(name), []).append(m["text"])
        if m["type"] in ("end", "error"):
            return {k: " ".join(v) for k, v in said.items()} if m["type"] == "end" else None


def channels(b):
    """Two channels with a transcript each."""
    both = b"".join(PCM[at:at + 2] * 2 for at in range(0, len(PCM), 2))
    with open_socket(b.d.ws) as ws:
        said = finals(ws, "channel", {"channels": 2, "multichannel": True}, both[:len(both) // 8 * 4], both[len(both) // 8 * 4:])
    assert said in (None, {1: DIGITS_TEXT, 2: DIGITS_TEXT}), said
    return bool(said)


def aligned(b):
    """Words whose times another model finds behind each final."""
    with open_socket(b.d.ws) as ws:
        said = finals(ws, "", {"word_times": "aligned"}, PCM)
    assert said in (None, {None: DIGITS_TEXT}), said
    return bool(said)


def contained(b):
    """A container, which steno-decode reads."""
    with open_socket(b.d.ws) as ws:
        said = finals(ws, "", {"encoding": "container"}, FLAC[:len(FLAC) // 2], FLAC[len(FLAC) // 2:])
    assert said in (None, {None: DIGITS_TEXT}), said
    return bool(said)


def realtime(b):
    """Two items; the settings change between them, which takes another stream of the pool. An error follows if words are missing."""
    says = "conversation.item.input_audio_transcription."
    said = []
    with open_socket(f"ws://127.0.0.1:{b.d.port}/v1/realtime?intent=transcription") as ws:
        for words in ([], ["seven"]):
            audio = {"format": {"type": "audio/pcm", "rate": RATE}, "transcription": {"keywords": words}, "turn_detection": None}
            ws.send(json.dumps({"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio}}}))
            ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(PCM).decode()}))
            ws.send('{"type":"input_audio_buffer.commit"}')
        while len(said) < 2:
            m = json.loads(ws.recv(timeout=20 * SLOW))
            if m["type"] in ("error", says + "failed"):
                return False
            if m["type"] == says + "completed":
                said.append(m["transcript"])
        if said == [DIGITS_TEXT] * 2:
            return True
        assert "error" in json.loads(ws.recv(timeout=20 * SLOW)), said
        return False


def wyoming(b):
    """One recording. The transcript, or an error, or the end of the connection. An error follows if words are missing."""
    port = int(re.search(r"listening on wyoming://127\.0\.0\.1:(\d+)", b.d.output()).group(1))
    of = {"rate": RATE, "width": 2, "channels": 1}

    def event(kind, data, payload=b""):
        return json.dumps({"type": kind, "data": data, "payload_length": len(payload)}).encode() + b"\n" + payload
    with socket.create_connection(("127.0.0.1", port), timeout=20 * SLOW) as s, s.makefile("rb") as answers:
        s.sendall(event("transcribe", {}) + event("audio-start", of) + event("audio-chunk", of, PCM) + event("audio-stop", {}))
        while line := answers.readline():
            head = json.loads(line)
            data = json.loads(answers.read(head.get("data_length", 0)) or b"{}")
            if head["type"] == "transcript" and data["text"] == DIGITS_TEXT:
                return True
            if head["type"] == "error":
                return False
            assert head["type"] != "transcript" or b'"error"' in answers.peek(1), (data, answers.read())
    return False


def administrate(b, command="status"):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20 * SLOW)
        s.connect(b.admin)
        s.sendall(command.encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            got = s.recv(65536)
            if not got:
                return False
            line += got
        return "error" not in json.loads(line)


def metrics(b):
    status, _, body = b.d.request("GET", "/metrics")
    return status == 200 and b"steno_workers" in body


def asked(b, what):
    """what(b); a lost connection is a refusal, the end of the server is not."""
    try:
        return what(b)
    except (OSError, http.client.HTTPException, WebSocketException, TimeoutError) as why:
        assert b.d.proc.poll() is None, (what.__name__, why, b.d.output()[-3000:])
        return False
    except Exception as why:
        raise AssertionError(f"{what.__name__}: {why!r}\n{b.d.output()[-1500:]}") from why


COMMON = (upload, stream, administrate, metrics)
ALL = (*COMMON, events, flac, ogg, later, filtered, vosk, deepgram, channels, aligned, contained, realtime, wyoming)
