"""Pages of others: WebSockets, requests that act, and hosts that were made to resolve to this machine."""
import json
import socket
import sys
import tempfile

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Stenod, case, pcm, tap

PCM, RATE = pcm()
EVIL, APP = "https://evil.example", "https://app.example.org"
with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def status(d, method, path, body=None, **headers):
    return d.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})[0]


def opens(d, path="/v1/stream", **headers):
    """101 or the status of the refusal, as the first request and as a later one of a connection."""
    try:
        with connect(f"ws://127.0.0.1:{d.port}{path}", additional_headers={k.replace("_", "-"): v for k, v in headers.items()}, **OPEN):
            first = 101
    except InvalidStatus as e:
        first = e.response.status_code
    lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
        s.sendall((f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET {path} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\n{lines}Upgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        got = b""
        while got.count(b"\r\n\r\n") < 2 and (more := s.recv(65536)):
            got += more
    later = int(got[got.index(b"HTTP/1.1 ", 9):].split()[1])
    assert first == later, (first, later, got)
    return first


@case
def sockets_of_other_pages_are_refused_and_programs_are_not(d):
    for path in ("/v1/stream", "/v1/listen", "/v2/listen", "/v1/realtime", "/vosk", "/sherpa", "/wenet", "/twilio", "/asterisk", "/freeswitch", "/"):
        assert opens(d, path) == 101, path
        assert opens(d, path, Origin=EVIL) == 403, path
        assert opens(d, path, Origin="null") == 403, path
    assert opens(d, Origin=f"http://127.0.0.1:{d.port}") == 101
    assert opens(d, Origin=EVIL, Sec_Fetch_Site="same-origin") == 101
    assert opens(d, Origin=f"http://127.0.0.1:{d.port}", Sec_Fetch_Site="cross-site") == 403
    # only a trusted proxy may tell the host
    assert opens(d, Origin=APP, X_Forwarded_Host="app.example.org") == 403


@case
def other_pages_create_and_delete_nothing(d):
    job = json.loads(d.request("POST", "/v1/jobs", WAV, {"Content-Type": "application/x-www-form-urlencoded"})[2])["id"]  # curl --data-binary
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/json", ""):
        for body in (WAV, b'{"url":"http://127.0.0.1/a.wav"}'):
            for path in ("/v1/jobs", "/v1/transcribe", "/v1/listen", "/v1/audio/transcriptions", "/inference", "/asr", "/v1/realtime/client_secrets"):
                headers = {"Content-Type": kind} if kind else {}
                assert status(d, "POST", path, body, Origin=EVIL, **headers) == 403, (path, kind)
                assert status(d, "POST", path, body, Origin="null", **headers) == 403, (path, kind)
    assert status(d, "DELETE", f"/v1/jobs/{job}", Origin=EVIL) == 403
    assert status(d, "POST", "/v1/jobs", WAV, Sec_Fetch_Site="same-site") == 403
    listed = json.loads(d.get("/v1/jobs")[2])
    assert [j["id"] for j in listed["data" if "data" in listed else "jobs"]] == [job], listed
    assert status(d, "DELETE", f"/v1/jobs/{job}", Origin=f"http://127.0.0.1:{d.port}") == 204
    # an old browser would send no Origin: text is not a recording
    for path in ("/v1/jobs", "/v1/transcribe", "/v1/listen", "/v1/realtime/client_secrets"):
        assert status(d, "POST", path, WAV[:9999], Content_Type="text/plain") == 415, path
    for kind in ("application/x-www-form-urlencoded", "audio/wav", "application/octet-stream"):
        code, _, body = d.request("POST", "/v1/transcribe?format=text", WAV, {"Content-Type": kind})
        assert code == 200 and body.decode().strip() == DIGITS_TEXT, kind


@case
def names_that_resolve_to_this_machine_are_not_believed(d):
    evil = {"Host": f"evil.example:{d.port}", "Sec-Fetch-Site": "same-origin", "Origin": f"http://evil.example:{d.port}"}
    for method, path in (("GET", "/"), ("GET", "/v1/jobs"), ("GET", "/v1/models"), ("GET", "/metrics"), ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/x"), ("HEAD", "/v1/jobs")):
        assert d.request(method, path, WAV if method == "POST" else None, evil)[0] == 403, (method, path)
        assert d.request(method, path, WAV if method == "POST" else None, {**evil, "X-Forwarded-Host": "localhost", "X-Forwarded-For": "127.0.0.1"})[0] == 403
    for host in ("localhost", f"localhost:{d.port}", "[::1]:8080", "127.0.0.1", "stenod", "a.localhost:1"):
        assert status(d, "GET", "/v1/jobs", Host=host) == 200, host
    with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
        s.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: evil.example:{d.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 403 ")
    page = d.get("/metrics")[2].decode()
    assert 'steno_sessions_rejected_total{reason="origin"} 0' not in page


@case
def settings_name_hosts_and_origins(_):
    with Stenod("server.hosts=stt.example.org, other.example", f"server.cors_origins={APP}") as d:
        assert status(d, "GET", "/v1/models", Host="stt.example.org") == 200 == status(d, "GET", "/v1/models", Host="Other.example:99")
        assert status(d, "GET", "/v1/models", Host="evil.example") == 403
        assert opens(d, Origin=APP) == 101 == opens(d, Origin="https://stt.example.org") and opens(d, Origin=EVIL) == 403
        assert status(d, "POST", "/v1/transcribe", WAV, Origin=APP, Sec_Fetch_Site="cross-site") == 200
        assert status(d, "POST", "/v1/transcribe", WAV, Origin=EVIL, Sec_Fetch_Site="cross-site") == 403
    with Stenod("server.trusted_proxies=127.0.0.1") as d:
        assert opens(d, Origin=APP, X_Forwarded_Host="app.example.org") == 101 and opens(d, Origin=EVIL, X_Forwarded_Host="app.example.org") == 403
        assert status(d, "GET", "/v1/models", Host="stt.example.org") == 200
    with Stenod("server.cors_origins=*", "server.hosts=*") as d:
        assert opens(d, Origin=EVIL) == 101 and status(d, "GET", "/v1/models", Host="evil.example") == 200


@case
def with_keys_other_pages_may_use_theirs(_):
    key = "a-secret-of-the-test-1"
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[one]\nkey = {key}\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as d:
            assert opens(d, f"/v1/stream?token={key}", Origin=EVIL) == 101 and opens(d, Origin=EVIL) == 401
            assert status(d, "POST", "/v1/transcribe", WAV, Origin=EVIL, Authorization=f"Bearer {key}") == 200
            assert status(d, "GET", "/v1/models", Host="evil.example", Authorization=f"Bearer {key}") == 200
        with Stenod(f"auth.keys={f.name}", f"server.cors_origins={APP}") as d:
            assert opens(d, f"/v1/stream?token={key}", Origin=EVIL) == 403 and opens(d, f"/v1/stream?token={key}", Origin=APP) == 101
            assert status(d, "POST", "/v1/transcribe", WAV, Origin=EVIL, Authorization=f"Bearer {key}") == 403


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as jobs, Stenod(f"jobs.dir={jobs}", "jobs.workers=1") as daemon:
        result = tap(daemon)
    sys.exit(result)
