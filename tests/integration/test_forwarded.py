"""What stands between clients and server: PROXY headers, X-Forwarded-For, path prefixes, CORS, unix sockets, old and new HTTP."""
import json
import os
import re
import socket
import struct
import subprocess
import tempfile

from websockets.sync.client import unix_connect

from daemon import DIGITS_TEXT, OPEN, SLOW, Stenod, case, eventually, tap, until_closed
from wire import END, GET, PCM, START, WAV, answer, dial, finish_stream, said, text_of, upgrade

V2 = b"\r\n\r\n\0\r\nQUIT\n"


def v2(client, port=4711):
    if ":" in client:
        return V2 + b"\x21\x21\0\x24" + socket.inet_pton(socket.AF_INET6, client) + bytes(16) + struct.pack(">HH", port, 80)
    return V2 + b"\x21\x11\0\x0c" + socket.inet_aton(client) + bytes(4) + struct.pack(">HH", port, 80)


def v1(client, port=4711):
    return f"PROXY TCP{6 if ':' in client else 4} {client} {'::1' if ':' in client else '127.0.0.1'} {port} 80\r\n".encode()


def logged(d, pattern):
    assert eventually(lambda: re.search(pattern, d.output())), (pattern, d.output()[-2000:])


class Direct(Stenod):
    """A server whose other requests must bring a PROXY header too."""

    def request(self, method, path, body=None, headers=None):
        s = dial(self)
        s.sendall(b"PROXY UNKNOWN\r\n" + f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        status, got, body = answer(s)
        s.close()
        return status, got, body


@case
def proxy_headers_name_the_client():
    with Direct("server.proxy_protocol=yes", "server.trusted_proxies=127.0.0.1", "log.level=debug") as d:
        for header, shown in ((v1("192.0.2.1"), r"192\.0\.2\.1:4711"), (v2("192.0.2.2"), r"192\.0\.2\.2:4711"),
                              (v1("2001:db8::3"), r"\[2001:db8::3\]:4711"), (v2("2001:db8::4"), r"\[2001:db8::4\]:4711"),
                              (V2 + b"\x20\0\0\0", r"127\.0\.0\.1:\d+")):
            s = dial(d)
            for i in range(len(header)):  # byte by byte, and the request behind the last one
                s.sendall(header[i:i + 1] + (GET if i + 1 == len(header) else b""))
            assert answer(s)[0] == 200
            logged(d, shown + r" GET /healthz")
            s.close()
            s = dial(d)
            s.sendall(header + upgrade() + said())
            assert answer(s)[0] == 101
            finish_stream(s)
        for wrong in (GET, b"PROXY TCP4 nobody\r\n" + GET, V2 + b"\x31\0\0\0" + GET):
            s = dial(d)
            s.sendall(wrong)
            try:
                assert s.recv(1) == b""
            except ConnectionResetError:
                pass
        logged(d, "no PROXY header: closed")


@case
def proxy_headers_of_others_are_not_read():
    with Stenod("server.proxy_protocol=yes", "server.trusted_proxies=192.0.2.0/24") as d:
        s = dial(d)
        s.sendall(v1("192.0.2.1") + GET)
        assert b" 400 " in s.recv(4096)[:20] or s.recv(1) == b""
        assert d.status("/healthz") == 200


@case
def addresses_of_proxy_headers_are_counted():
    with Direct("server.proxy_protocol=yes", "server.trusted_proxies=127.0.0.1", "limits.connections_per_address=2") as d:
        held = []
        for client in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"):
            held.append(dial(d))
            held[-1].sendall(v1(client) + GET)
            assert answer(held[-1])[0] == 200
        s = dial(d)
        s.sendall(v1("192.0.2.1") + GET)
        assert answer(s)[0] == 503
        held[0].close()

        def free():
            with dial(d) as again:
                again.sendall(v1("192.0.2.1") + GET)
                return answer(again)[0] == 200
        assert eventually(free)
        for h in held:
            h.close()


@case
def x_forwarded_for_is_believed_from_proxies_alone():
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6, 192.0.2.7\r\n\r\n"
    forwarded = "X-Forwarded-For: 6.6.6.6, 192.0.2.7, 127.0.0.1\r\n"
    with Stenod("server.trusted_proxies=127.0.0.1, ::1", "limits.connections_per_address=1", "log.level=debug") as d:
        s = dial(d)
        s.sendall(ask)
        assert answer(s)[0] == 200
        logged(d, r"192\.0\.2\.7:0 GET /healthz")
        first, second = dial(d), dial(d)
        for sock, before, want in ((first, b"", 101), (second, GET, 503)):  # on both ways
            sock.sendall(before + upgrade(extra=forwarded))
            if before:
                assert answer(sock)[0] == 200
            assert answer(sock)[0] == want
        first.sendall(said())
        finish_stream(first)
        d.wait_idle()
        second.sendall(upgrade(extra=forwarded))
        status = answer(second)[0]
        assert status == 101, status
        second.sendall(said())
        finish_stream(second)
        assert "6.6.6.6" not in d.output()
    with Stenod("log.level=debug") as d:
        s = dial(d)
        s.sendall(ask)
        assert answer(s)[0] == 200
        logged(d, r"127\.0\.0\.1:\d+ GET /healthz")
        assert "192.0.2.7" not in d.output()


@case
def uploads_through_a_proxy_count_as_connections_of_their_clients():
    body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + WAV + b"\r\n--b--\r\n"
    kinds = ((b"/v1/transcribe", "transcribe", b"audio/wav", WAV), (b"/v1/listen", "listen", b"audio/wav", WAV),
             (b"/v1/audio/transcriptions", "openai", b"multipart/form-data; boundary=b", body))

    def head(path, media, n, client):
        return (b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: " + media + b"\r\nContent-Length: " + str(n).encode()
                + b"\r\nX-Forwarded-For: 6.6.6.6, " + client + b"\r\n\r\n")
    with Stenod("server.trusted_proxies=127.0.0.1", "limits.connections_per_address=1") as d:
        for path, api, media, data in kinds:
            d.wait_idle()
            running, other, same = dial(d), dial(d), dial(d)
            running.sendall(head(path, media, len(data), b"192.0.2.7") + data[:1000])
            d.becomes('steno_sessions_active{api="%s"}' % api, 1)
            same.sendall(head(path, media, len(data), b"192.0.2.7") + data)
            status, _, answered = answer(same)
            assert status == 503 and b"too many connections from this address" in answered, (path, status, answered)
            other.sendall(head(path, media, len(data), b"192.0.2.8") + data)
            assert answer(other)[0] == 200, path
            d.becomes('steno_sessions_active{api="%s"}' % api, 1)
            other.sendall(head(path, media, len(data), b"192.0.2.8") + data)  # it is given back at the end of the request
            assert answer(other)[0] == 200, path
            running.sendall(data[1000:])
            assert answer(running)[0] == 200, path
            d.wait_idle()
            running.sendall(head(path, media, len(data), b"192.0.2.7") + data[:1000])
            d.becomes('steno_sessions_active{api="%s"}' % api, 1)
            running.close()  # half an upload gives it back too

            def free():
                with dial(d) as again:
                    again.sendall(head(path, media, len(data), b"192.0.2.7") + data)
                    return answer(again)[0] == 200
            assert eventually(free), path
        assert d.metric('steno_sessions_rejected_total{reason="address"}') >= 3
    with Stenod("limits.connections_per_address=2") as d:  # nobody is trusted: the header changes nothing
        s = dial(d)
        for _ in range(3):
            s.sendall(head(b"/v1/transcribe", b"audio/wav", len(WAV), b"192.0.2.7") + WAV)
            assert answer(s)[0] == 200


@case
def answers_without_a_request_can_be_read_by_allowed_origins():
    origin = b"Origin: https://app.example.org\r\n"
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with Stenod("server.cors_origins=https://app.example.org", "limits.header_timeout=1", "limits.idle_timeout=1") as d:
        cases = ((400, get + origin + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
                 (431, get + origin + b"X: " + b"x" * 17000 + b"\r\n\r\n"),
                 (408, get + origin),
                 (408, b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\n" + origin + b"Content-Length: 99\r\n\r\nx"))
        for want, head in cases:
            for sent, allowed in ((head, True), (head.replace(b"app.", b"evil."), False), (head.replace(origin, b""), False)):
                s = dial(d)
                s.sendall(sent)
                status, headers, _ = answer(s)
                foreign = b"POST" in sent and b"evil" in sent
                assert status == (403 if foreign else want) and headers["vary"] == "Origin", (want, sent, status, headers)
                assert headers.get("access-control-allow-origin") == ("https://app.example.org" if allowed else None), (sent, headers)
                assert ("X-Request-Id" in headers.get("access-control-expose-headers", "")) == allowed, headers
                s.close()
        # a client that has closed its sending side is answered without libmicrohttpd
        for data, want in ((WAV, 200), (b"no audio at all", 400)):
            s = dial(d)
            s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\n" + origin + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            s.shutdown(socket.SHUT_WR)
            whole = b"".join(iter(lambda: s.recv(65536), b""))  # pylint: disable=cell-var-from-loop
            last = whole.split(b"HTTP/1.1 ")[-1].lower()  # an interim answer may come before
            assert last.startswith(b"%d " % want) and b"access-control-allow-origin: https://app.example.org\r\n" in last, last
    with Stenod("server.cors_origins=https://app.example.org", "limits.connections_per_address=2") as d:
        held, status = [], 200  # connections of the start may be counted still
        while status == 200:
            held.append(dial(d))
            held[-1].sendall(get + origin + b"\r\n")
            status, headers, _ = answer(held[-1])
        # its head may not have come yet, so its origin may be unknown
        assert status == 503 and len(held) <= 3 and headers["retry-after"] and headers["vary"] == "Origin", headers


@case
def refused_handshakes_can_be_read_by_allowed_origins():
    app, evil = "Origin: https://app.example.org\r\n", "Origin: https://evil.example.org\r\n"
    lost = "/v1/stream?session_id=sess_00000000000000000000000000000000"
    with Stenod("server.cors_origins=https://app.example.org", "limits.sessions=0") as d:
        cases = (("/nowhere-at-all/v1/stream", 404, 13), ("/v1/stream", 426, 8), ("/v1/stream", 503, 13), ("/v1/listen", 503, 13), (lost, 404, 13))
        for path, want, version in cases:
            for before in (b"", GET):  # the first request of a connection is answered elsewhere
                for origin, allowed in ((app, True), (evil, False), ("", False)):
                    s = dial(d)
                    s.sendall(before + upgrade(path, origin, version=version))
                    if before:
                        assert answer(s)[0] == 200
                    status, headers, _ = answer(s)
                    foreign = origin == evil and version == 13 and path != cases[0][0]
                    assert status == (403 if foreign else want) and headers["vary"] == "Origin", (path, before, status, headers)
                    assert headers.get("access-control-allow-origin") == ("https://app.example.org" if allowed else None), (path, headers)
                    assert ("Retry-After" in headers.get("access-control-expose-headers", "")) == allowed, headers
                    s.close()
    with Stenod("limits.sessions=0") as d:
        s = dial(d)
        s.sendall(upgrade("/v1/stream", app))
        status, headers, _ = answer(s)
        assert status == 403 and "vary" not in headers and "access-control-allow-origin" not in headers, headers


@case
def a_path_prefix_is_removed():
    with Stenod("server.path_prefix=/stt") as d:
        for path in ("/stt/healthz", "/healthz", "/stt/v1/models", "/stt/"):
            assert d.status(path) == 200, path
        status, headers, _ = d.get("/stt")
        assert status == 308 and headers["location"] == "/stt/", headers
        assert d.status("/other/healthz") == 404 and d.status("/sttx/healthz") == 404
        for before in (b"", GET):
            s = dial(d)
            s.sendall(before + upgrade("/stt/v1/stream?interim=false") + said())
            if before:
                assert answer(s)[0] == 200
            assert answer(s)[0] == 101
            finish_stream(s)
    for trusted, status, upgraded in (("127.0.0.1", 200, 101), ("192.0.2.1", 404, 404)):
        with Stenod(f"server.trusted_proxies={trusted}") as d:
            assert d.request("GET", "/a/b/healthz", headers={"X-Forwarded-Prefix": "/a/b"})[0] == status
            s = dial(d)
            s.sendall(upgrade("/a/b/v1/stream", "X-Forwarded-Prefix: /a/b\r\n"))
            assert answer(s)[0] == upgraded
            s.close()


@case
def scripts_of_allowed_origins_may_read():
    app, other = {"Origin": "https://app.example.org"}, {"Origin": "https://evil.example.org"}
    with Stenod("server.cors_origins=https://app.example.org, http://localhost:3000") as d:
        for path in ("/v1/models", "/nowhere"):
            _, headers, _ = d.request("GET", path, headers=app)
            assert headers["access-control-allow-origin"] == app["Origin"] and headers["vary"] == "Origin"
            assert "X-Request-Id" in headers["access-control-expose-headers"]
            _, headers, _ = d.request("GET", path, headers=other)
            assert "access-control-allow-origin" not in headers and headers["vary"] == "Origin"
        _, headers, _ = d.request("POST", "/v1/transcribe", b"nonsense", app)
        assert headers["access-control-allow-origin"] == app["Origin"]
        ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        status, headers, body = d.request("OPTIONS", "/v1/audio/transcriptions", headers={**app, **ask})
        assert status == 204 and not body
        assert headers["access-control-allow-origin"] == app["Origin"] and "POST" in headers["access-control-allow-methods"]
        assert headers["access-control-allow-headers"] == "authorization,content-type" and headers["access-control-max-age"]
        status, headers, _ = d.request("OPTIONS", "/v1/audio/transcriptions", headers={**other, **ask})
        assert status == 204 and not [h for h in headers if h.startswith("access-control")]
    with Stenod("server.cors_origins=*") as d:
        assert d.request("GET", "/v1/models", headers=other)[1]["access-control-allow-origin"] == other["Origin"]
    with Stenod() as d:
        headers = d.request("GET", "/v1/models", headers=app)[1]
        assert "vary" not in headers and "access-control-allow-origin" not in headers


@case
def options_and_head_are_answered():
    with Stenod() as d:
        for path, allow in (("/v1/models", "GET, HEAD, OPTIONS"), ("/v1/transcribe", "POST, OPTIONS"), ("/v1/listen", "GET, HEAD, POST, OPTIONS"),
                            ("*", "GET, HEAD, OPTIONS")):
            status, headers, body = d.request("OPTIONS", path)
            assert status == 204 and headers["allow"] == allow and not body, (path, headers)
        for path in ("/", "/v1/models", "/healthz", "/openapi.yaml"):
            want = d.get(path)
            status, headers, body = d.request("HEAD", path)
            assert status == want[0] == 200 and not body and headers["content-length"] == want[1]["content-length"]
        # many on one connection: no body is left behind
        s = dial(d)
        s.sendall((b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" + b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n") * 2 + GET)
        data = b""
        while b'"status"' not in data:
            data += s.recv(65536)
        assert data.count(b"HTTP/1.1 ") == 5 and data.count(b"HTTP/1.1 204") == 2, data


@case
def http_1_0_closes_and_may_keep_alive():
    with Stenod() as d:
        s = dial(d)
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        data = b""
        while got := s.recv(4096):
            data += got
        assert data.startswith(b"HTTP/1.") and b" 200 " in data[:16] and b"chunked" not in data and data.endswith(b"}\n"), data
        s = dial(d)
        for _ in range(2):
            s.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, headers, _ = answer(s)
            assert status == 200 and headers["connection"].lower() == "keep-alive", headers
        s = dial(d)
        s.sendall(upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert answer(s)[0] in (101, 426)


@case
def targets_may_be_absolute():
    with Stenod() as d:
        s = dial(d)
        for path in ("http://other.example:80/healthz", "HTTP://x//v1/models/"):
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer(s)[0] == 200, path
        s.sendall(b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer(s)[1]["content-type"].startswith("text/html")


@case
def http_2_is_told_to_speak_1_1():
    with Stenod() as d:
        s = dial(d)
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        status, headers, body = answer(s)
        assert status == 505 and headers["connection"] == "close" and "HTTP/1.1" in json.loads(body)["error"]["message"]
        assert s.recv(1) == b""
        # an offer of h2c is ignored
        s = dial(d)
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
        assert answer(s)[0] == 200
        r = subprocess.run(["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", d.url + "/healthz"],
                           capture_output=True, text=True)
        assert r.stdout == "200 1.1", r


@case
def unix_sockets_serve_like_ports():
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "steno.sock")
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(path)
        stale.close()  # its file stays, as after a kill
        with Stenod("limits.connections_per_address=1", f"server.listen=127.0.0.1:0, unix:{path}", "server.trusted_proxies=unix", "log.level=debug") as d:
            assert f"listening on unix:{path}" in d.output()
            before = d.descriptors()
            for _ in range(20):
                r = subprocess.run(["curl", "-sS", "--unix-socket", path, "-H", "X-Forwarded-For: 192.0.2.9", "http://x/healthz", "http://x/v1/models"],
                                   capture_output=True, text=True)
                assert '"status":"ok"' in r.stdout and "digits-en" in r.stdout, r
            logged(d, r"192\.0\.2\.9:0 GET /healthz")
            for _ in range(3):
                with unix_connect(path, "ws://x/v1/stream", **{k: v for k, v in OPEN.items() if k != "proxy"}) as ws:
                    ws.send(START)
                    ws.send(PCM)
                    ws.send(END)
                    assert text_of(until_closed(ws)[0]) == DIGITS_TEXT
            # an upgrade on a used connection, and two connections at once in spite of the limit
            socks = []
            for _ in range(2):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(60 * SLOW)
                s.connect(path)
                s.sendall(GET + upgrade() + said())
                assert answer(s)[0] == 200
                assert answer(s)[0] == 101
                socks.append(s)
            for s in socks:
                finish_stream(s)
            assert eventually(lambda: d.descriptors() <= before + 2), (before, d.descriptors())
            # the path is taken while it is served
            r = subprocess.run([d.cmd[0], "--listen", f"unix:{path}"], capture_output=True, text=True, timeout=60 * SLOW)
            assert r.returncode and "Address already in use" in r.stderr, r
        assert not os.path.exists(path)
        r = subprocess.run([d.cmd[0], "--check-config", "--listen", f"unix:{t}/missing/x"], capture_output=True, text=True)
        assert r.returncode and "missing/x" in r.stdout + r.stderr, r


@case
def settings_of_proxies_are_checked():
    exe = Stenod().cmd[0]
    for setting, says in (("server.trusted_proxies=localhost", "'localhost' is not ADDRESS"), ("server.proxy_protocol=yes", "needs server.trusted_proxies"),
                          ("server.path_prefix=stt", "must begin with /"), ("server.path_prefix=/stt/", "not end with it"),
                          ("server.listen=unix:relative", "not an absolute path")):
        r = subprocess.run([exe, "--check-config", "--set", setting], capture_output=True, text=True)
        assert r.returncode == 78 and says in r.stderr + r.stdout, (setting, r)


if __name__ == "__main__":
    raise SystemExit(tap())
