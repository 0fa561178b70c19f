"""No secret of a client gets into a log line, an answer, the metrics or an administrator's page. Every request of every
dialect is sent with a canary in every place that may hold a secret: as a wrong key, and as a right one. TAP."""
import concurrent.futures
import json
import os
import re
import socket
import sys
import tempfile
import urllib.parse

from websockets.sync.client import connect

from daemon import DIGITS, OPEN, SLOW, Stenod, case, eventually, frame, pcm, tap

CANARY = "canary-3f1c9a77-secret"
PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
STREAMS = ("/v1/stream", "/v1/listen", "/v2/listen", "/v1/realtime?intent=transcription", "/vosk", "/sherpa", "/wenet", "/twilio", "/asterisk", "/freeswitch", "/",
           "/v1/none", "/v1/stream?session_id=sess_00")
UPLOADS = ("/v1/transcribe", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/listen", "/v1/audio/speech",
           "/v1/realtime/client_secrets", "/v1/realtime/transcription_sessions", "/inference", "/load", "/asr", "/detect-language")
PAGES = ("/v1/models", "/v1/models/digits-en", "/v1/models/none", "/", "/healthz", "/metrics", "/nothing", "/v1/stream")

# (headers, query): each place that may hold a secret, and forms of it that are mistakes
HEADERS = [f"{name}: {form}{CANARY}" for name, form in (
    ("Authorization", "Bearer "), ("Authorization", "Token "), ("Authorization", "Basic "), ("Authorization", ""),
    ("X-API-Key", ""), ("Proxy-Authorization", "Bearer "), ("Cookie", "session="), ("api-key", ""))]
PROTOCOLS = [f"Sec-WebSocket-Protocol: {form}" for form in (
    f"token, {CANARY}", f"bearer,{CANARY}", CANARY, f"chat, {CANARY}", f"steno.v1, token, {CANARY}",
    f"realtime, openai-insecure-api-key.{CANARY}", f"openai-insecure-api-key.{CANARY}, openai-beta.realtime-v1",
    f"realtime, openai-insecure-api-key.{CANARY}, openai-beta.realtime-v1", f"{CANARY}, token")]
QUERIES = [f"{name}={CANARY}" for name in ("api_key", "token")] + [f"api_key={CANARY}&sample_rate=0", f"token={CANARY}&%zz",
                                                                     f"sample_rate=x&api_key={CANARY}"]


def is_complete(got):
    """Whether an answer of a known length, or a stream up to its close frame, is there."""
    head, end, rest = got.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head, re.I)
    close = rest.rfind(b"\x88")
    if length:
        return bool(end) and len(rest) >= int(length.group(1))
    return 0 <= close < len(rest) - 1 and close + 2 + rest[close + 1] == len(rest)


def exchange(d, head, body=b""):
    """Everything that the server sends, the head included, until its answer is complete, it closes or is silent."""
    with socket.create_connection(("127.0.0.1", d.port), timeout=30 * SLOW) as s:
        got = b""
        try:
            s.sendall(head.encode() + body)
            s.settimeout(1.5 * SLOW)
            while True:
                more = s.recv(65536)
                got += more
                if not more or is_complete(got):
                    return got
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            return got


def target(path, query):
    return path + (("&" if "?" in path else "?") + query if query else "")


def upgrade(d, path, header="", query=""):
    head = (f"GET {target(path, query)} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{header}{header and chr(13) + chr(10)}\r\n")
    # a message that is wrong in every dialect, so that the session ends with an error
    return exchange(d, head, frame(1, b'{"type":"none","session":{}}') + frame(2, b"xx") + frame(8, b"\x03\xe8"))


def request(d, method, path, header="", query="", body=b""):
    head = (f"{method} {target(path, query)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            f"{header}{header and chr(13) + chr(10)}\r\n")
    return exchange(d, head, body)


def admin_pages(path):
    out = b""
    for command in (b"status\n", b"keys\n", b"help\n"):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10 * SLOW)
            s.connect(path)
            before = len(out)
            s.sendall(command)
            s.shutdown(socket.SHUT_WR)  # no further command: the server closes after its answer
            try:
                while more := s.recv(65536):
                    out += more
            except TimeoutError:
                pass
        assert len(out) > before, command
    return out


def all_requests(d):
    """What every request with the canary got, by what was sent. Some are answered by silence, so many wait at once."""
    ask = {}
    for path in STREAMS:
        for header in HEADERS + PROTOCOLS:
            ask["upgrade", path, header] = (upgrade, path, header)
        for query in QUERIES:
            ask["upgrade", path, query] = (upgrade, path, "", query)
    for method, paths, body in (("POST", UPLOADS, b"no audio"), ("GET", PAGES, b""), ("DELETE", PAGES + UPLOADS, b"")):
        for path in paths:
            for header in HEADERS:
                ask[method, path, header] = (request, method, path, header, "", body)
            for query in QUERIES:
                ask[method, path, query] = (request, method, path, "", query, body)
    # heads that are damaged after the secret
    for head in (f"GET /v1/stream HTTP/1.1\r\nAuthorization: Bearer {CANARY}\r\nno colon\r\n\r\n", f"NONSENSE {CANARY}\r\n\r\n",
                 f"GET /v1/models?api_key={CANARY} HTTP/9.9\r\n\r\n", f"POST /v1/transcribe HTTP/1.1\r\nX-API-Key: {CANARY}\r\n"
                 "Content-Length: x\r\n\r\n", f"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer {CANARY}\0\r\n\r\n",
                 f"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer {CANARY * 2000}\r\n\r\n"):
        ask["damaged", head[:40]] = (exchange, head)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return dict(zip(ask, pool.map(lambda call: call[0](d, *call[1:]), ask.values())))


def told(settings, keys):
    """(answers, log, metrics and admin pages) of a server with these settings and keys."""
    with tempfile.TemporaryDirectory() as tmp:
        with open(os.path.join(tmp, "keys"), "w", encoding="utf-8") as f:
            f.write(keys)
        admin = os.path.join(tmp, "admin")
        with Stenod(f"auth.keys={f.name}", "log.level=debug", f"server.admin={admin}", *settings) as d:
            answers = all_requests(d)
            d.wait_idle()
            pages = d.get("/metrics")[2] + admin_pages(admin)
            return answers, d.output(), pages


def holds(data):
    return CANARY in urllib.parse.unquote(data if isinstance(data, str) else data.decode("utf-8", "replace"))


def nothing_tells(settings, keys):
    answers, log, pages = told(settings, keys)
    assert len(answers) > 200 and b"steno_" in pages
    bad = [what for what, got in answers.items() if holds(got)]
    assert not bad, bad[:5]
    assert not holds(log), [line for line in log.splitlines() if holds(line)][:3]
    assert not holds(pages)
    return answers


@case
def a_wrong_key_is_told_nowhere():
    answers = nothing_tells((), "[one]\nkey = another-key-entirely\n")
    refused = {what for what, got in answers.items() if got.startswith(b"HTTP/1.1 401")}
    assert ("upgrade", "/v1/listen", f"Sec-WebSocket-Protocol: token, {CANARY}") in refused
    assert ("upgrade", "/v1/realtime?intent=transcription", f"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{CANARY}") in refused
    for path in ("/v1/models", "/v1/models/digits-en"):
        assert ("GET", path, f"Authorization: Bearer {CANARY}") in refused and ("GET", path, f"token={CANARY}") in refused
    assert ("POST", "/v1/transcribe", f"api_key={CANARY}") in refused


@case
def a_right_key_is_told_nowhere_and_lets_in():
    answers = nothing_tells(("log.format=json",), f"[one]\nkey = {CANARY}\n")

    def first(*what):
        return answers[what].split(b"\r\n")[0]
    for header, protocol in ((f"token, {CANARY}", b"token"), (f"bearer,{CANARY}", b"bearer"),
                             (f"realtime, openai-insecure-api-key.{CANARY}", b"realtime"),
                             (f"openai-insecure-api-key.{CANARY}, openai-beta.realtime-v1", b"openai-beta.realtime-v1")):
        got = answers["upgrade", "/v1/realtime?intent=transcription", "Sec-WebSocket-Protocol: " + header]
        assert got.startswith(b"HTTP/1.1 101"), (header, got)
        assert re.search(rb"Sec-WebSocket-Protocol: ([^\r]*)", got).group(1) == protocol or protocol == b"realtime", (header, got)
    for name in ("api_key", "token"):
        assert first("upgrade", "/v1/stream", f"{name}={CANARY}") == b"HTTP/1.1 101 Switching Protocols"
        assert first("GET", "/v1/models", f"{name}={CANARY}") == b"HTTP/1.1 200 OK"
        assert b" 400 " in first("POST", "/v1/transcribe", f"{name}={CANARY}")  # its body is no audio


@case
def urls_are_told_without_their_secrets():
    with tempfile.TemporaryDirectory() as tmp:
        admin = os.path.join(tmp, "admin")
        with Stenod("fetch.hosts=127.0.0.1", "jobs.callback_hosts=127.0.0.1", "jobs.callback_http=yes", "jobs.callback_private=yes",
                    f"jobs.dir={tmp}/jobs", "log.level=debug", f"server.admin={admin}") as d:
            answers = []
            for url in (f"http://127.0.0.1:1/a.wav?token={CANARY}", f"https://user:{CANARY}@127.0.0.1:1/a.wav#{CANARY}",
                        f"http://{CANARY}@other.example/", f"ftp://{CANARY}@127.0.0.1/", f"http://127.0.0.1:1?{CANARY}"):
                asked, query = json.dumps({"url": url}), "?callback=" + urllib.parse.quote(url, safe="")
                answers += [d.request("POST", path, asked, {"Content-Type": "application/json"}) for path in ("/v1/jobs", "/v1/listen")]
                answers += [d.request("POST", path + query, WAV) for path in ("/v1/jobs", "/v1/listen")]
            assert [s for s, _, _ in answers].count(202) == 6, answers
            jobs = [json.loads(a)["id"] for s, _, a in answers if s == 202]
            assert eventually(lambda: b'"error":"it ' in d.get("/v1/jobs")[2])  # a callback has failed
            answers += [d.get("/v1/jobs/" + j) for j in jobs] + [d.get("/v1/jobs")]
            assert not [a for a in answers if holds(a[2]) or holds(str(a[1]))], answers
            urls = {j[k] if k == "url" else j[k]["url"] for j in json.loads(d.get("/v1/jobs")[2])["jobs"] for k in ("url", "callback") if k in j}
            assert urls == {"http://127.0.0.1:1/a.wav", "https://127.0.0.1:1/a.wav", "http://127.0.0.1:1"}, urls
            pages, log = d.get("/metrics")[2] + admin_pages(admin), d.output()
        assert not holds(pages) and not holds(log), [line for line in log.splitlines() if holds(line)][:3]


@case
def keys_of_browsers_serve_uploads_and_select_the_beta_schema():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {CANARY}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as d:
            for beta, first in ((["openai-beta.realtime-v1"], "transcription_session.created"), ([], "session.created")):
                offer = ["realtime", "openai-insecure-api-key." + CANARY] + beta
                with connect(f"ws://127.0.0.1:{d.port}/v1/realtime", **{**OPEN, "subprotocols": offer}) as ws:
                    assert ws.subprotocol == "realtime" and json.loads(ws.recv(timeout=20 * SLOW))["type"] == first
            for path in ("/v1/transcribe", "/v1/listen"):
                for name in ("api_key", "token"):
                    assert eventually(lambda: d.request("POST", f"{path}?{name}={CANARY}", WAV)[0] == 200), (path, name)
                    assert d.request("POST", f"{path}?{name}={CANARY[:-1]}", WAV)[0] == 401, (path, name)


sys.exit(tap())
