"""Requests byte by byte, for connections that carry several of them: shared by test_connections, test_tls, test_proxies."""
import json
import socket
import subprocess

from daemon import DIGITS, DIGITS_TEXT, SLOW, frame, pcm, read_messages

PCM, RATE = pcm()
START = json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE})
END = json.dumps({"type": "end"})
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/transcribe?format=text HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(WAV) + WAV


def upgrade(path="/v1/stream", extra="", version=13):
    return (f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: {version}\r\n{extra}\r\n").encode()


def said(data=PCM):
    """The frames of a whole stream."""
    return frame(1, START.encode()) + frame(2, data) + frame(1, END.encode())


def certificate(name, cert, key):
    """Write a self-signed certificate of localhost with this common name, and its key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def dial(d):
    s = socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def answer(s):
    """(status, headers, body) of the next answer; not a byte more is read."""
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(1)
        assert got, head
        head += got
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (x.split(": ", 1) for x in lines[1:] if x)}
    body = b""
    while len(body) < int(headers.get("content-length", 0)):
        got = s.recv(int(headers["content-length"]) - len(body))
        assert got, (head, body)
        body += got
    return int(lines[0].split()[1]), headers, body


def used(d, before=GET):
    """A connection that has served a request."""
    s = dial(d)
    s.sendall(before)
    assert answer(s)[0] == 200
    return s


def text_of(messages):
    return " ".join(m["text"] for m in messages if m["type"] == "final").strip()


def finish_stream(s):
    messages, code = read_messages(s)
    assert code == 1000 and text_of(messages) == DIGITS_TEXT, (code, messages)
    s.close()
