"""TLS on the port of plain connections: curl, Python's ssl, websockets and aiohttp; both ways of upgrades; reload."""
import asyncio
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Stenod, case, client, eventually, frame, need_descriptors, read_messages, tap
from wire import END, GET, POST, PCM, START, WAV, answer, certificate, said, text_of, upgrade

DIR = tempfile.TemporaryDirectory(prefix="steno-tls-")
CERT, KEY = os.path.join(DIR.name, "cert.pem"), os.path.join(DIR.name, "key.pem")


certificate("first", CERT, KEY)
SETTINGS = [f"tls.certificate={CERT}", f"tls.key={KEY}"]


def client_context(**kw):
    c = ssl.create_default_context(cafile=CERT)
    for k, v in kw.items():
        setattr(c, k, v)
    return c


def dial(d, context=None):
    s = socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return (context or client_context()).wrap_socket(s, server_hostname="localhost")


def curl(d, *args):
    return subprocess.run(["curl", "-sS", "--cacert", CERT, "--max-time", "60", *args], capture_output=True, text=True)


@case
@client("curl", "uploads over TLS 1.2 and 1.3, HTTP/1.0 and 1.1", "Debian 12's")
def curl_uploads_over_tls(d):
    url = f"https://localhost:{d.port}"
    for version in ("--tlsv1.2 --tls-max 1.2", "--tlsv1.3"):
        r = curl(d, *version.split(), "--data-binary", f"@{DIGITS}", f"{url}/v1/transcribe?format=text")
        assert r.returncode == 0 and r.stdout.strip() == DIGITS_TEXT, r
    # two requests on one connection, and HTTP/1.1 by ALPN
    r = curl(d, "-v", f"{url}/healthz", f"{url}/v1/models")
    assert "ALPN" in r.stderr and "http/1.1" in r.stderr and "Re-using existing connection" in r.stderr, r.stderr
    r = curl(d, "--tls-max", "1.1", f"{url}/healthz")
    assert r.returncode != 0, r


@case
def plain_and_tls_share_the_port(d):
    assert d.status("/healthz") == 200
    with dial(d) as s:
        s.sendall(GET)
        assert answer(s)[0] == 200
        assert s.version() == "TLSv1.3"


@case
def alpn_without_http_1_is_refused(d):
    c = client_context()
    c.set_alpn_protocols(["h2"])
    try:
        dial(d, c)
    except ssl.SSLError as e:
        assert "no application protocol" in str(e), e
    else:
        raise AssertionError("h2 was accepted")
    c.set_alpn_protocols(["h2", "http/1.1"])
    with dial(d, c) as s:
        assert s.selected_alpn_protocol() == "http/1.1"


@case
def streams_over_tls(d):
    with connect(f"wss://localhost:{d.port}/v1/stream", ssl=client_context(), **OPEN) as ws:
        ws.send(START)
        ws.send(PCM)
        ws.send(END)
        messages = [json.loads(m) for m in ws]
    assert text_of(messages) == DIGITS_TEXT, messages


@case
def upgrades_over_tls_on_both_ways(d):
    for before in ((), (GET,), (POST, GET)):
        s = dial(d)
        everything = b"".join(before) + upgrade() + said()
        s.sendall(everything)
        for _ in before:
            assert answer(s)[0] == 200
        assert answer(s)[0] == 101
        messages, code = read_messages(s)
        assert code == 1000 and text_of(messages) == DIGITS_TEXT, (code, messages)
        s.close()


@case
@client("aiohttp", "uploads and live streams of one session over TLS")
def aiohttp_shares_a_session_over_tls(d):
    import aiohttp

    async def run():
        url = f"https://localhost:{d.port}"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1, ssl=client_context())) as session:
            async with session.post(url + "/v1/transcribe?format=text", data=WAV) as r:
                assert (await r.text()).strip() == DIGITS_TEXT
            async with session.ws_connect(url + "/v1/stream") as ws:
                await ws.send_str(START)
                await ws.send_bytes(PCM)
                await ws.send_str(END)
                messages = [json.loads(m.data) async for m in ws if m.type == aiohttp.WSMsgType.TEXT]
            assert text_of(messages) == DIGITS_TEXT, messages
    asyncio.run(run())


@case
def a_large_answer_reaches_a_slow_reader(d):
    s = dial(d)
    n = 40
    request = b"GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n%s\r\n"
    s.sendall(request % b"" * (n - 1) + request % b"Connection: close\r\n")
    time.sleep(0.5)  # more than the buffers on the way take waits for us
    want = d.get("/openapi.yaml")[2]
    for _ in range(n):
        status, _, body = answer(s)
        assert status == 200 and body == want
        time.sleep(0.01)
    assert s.recv(1) == b""


@case
def heads_and_hellos_that_do_not_come_time_out(_):
    # the time is also that of a handshake on a busy machine
    with Stenod(*SETTINGS, f"limits.header_timeout={3 if SLOW == 1 else 12}s") as d:
        silent = socket.create_connection(("127.0.0.1", d.port), timeout=30 * SLOW)
        silent.sendall(b"\x16\x03\x01")  # half a hello
        s = dial(d)
        s.sendall(b"GET / HT")
        assert answer(s)[0] == 408
        assert silent.recv(1) == b""


@case
def refusals_and_limits_hold_under_tls(_):
    with Stenod(*SETTINGS, "limits.connections_per_address=3", "limits.sessions=0") as tight:
        s = dial(tight)
        s.sendall(upgrade())
        status, headers, _ = answer(s)
        assert status == 503 and "retry-after" in headers
        s.close()
        s = dial(tight)
        s.sendall(GET + upgrade())
        assert answer(s)[0] == 200 and answer(s)[0] == 503
        s.close()
        held = []

        def fits():  # the connections before it may not be counted out yet: the refusal is in plain text
            try:
                s = dial(tight)
            except (ssl.SSLError, ConnectionError):
                return False
            held.append(s)
            s.sendall(GET)
            assert answer(s)[0] == 200
            return len(held) == 3
        assert eventually(fits)
        refused = socket.create_connection(("127.0.0.1", tight.port), timeout=30 * SLOW)
        assert refused.recv(4096).startswith(b"HTTP/1.1 503 ")
        for h in held:
            h.close()
        assert eventually(lambda: tight.status("/healthz") == 200)


@case
def a_client_that_leaves_ends_its_upload(d):
    s = dial(d)
    s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nRIFF")
    assert eventually(lambda: d.metric('steno_sessions_active{api="transcribe"}') == 1)
    s.close()
    assert eventually(lambda: d.metric('steno_sessions_active{api="transcribe"}') == 0)


@case
def descriptors_are_given_back(d):
    before = d.descriptors()
    for _ in range(20):
        s = dial(d)
        s.sendall(GET)
        answer(s)
        s.close()
        raw = socket.create_connection(("127.0.0.1", d.port))
        raw.sendall(b"\x16\x03\x01\x00\x05hello")
        raw.close()
    assert eventually(lambda: d.descriptors() <= before + 2), (before, d.descriptors())


def hello():
    """A whole ClientHello."""
    s = client_context().wrap_bio(ssl.MemoryBIO(), out := ssl.MemoryBIO(), server_hostname="localhost")
    try:
        s.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


@case
def running_connections_are_served_while_handshakes_wait(_):
    need_descriptors(2000)  # two for each connection of the server, and its socket
    with Stenod(*SETTINGS, "limits.connections_per_address=600") as d:
        kept = dial(d)
        kept.sendall(GET)
        answer(kept)

        def storm():
            """How many hellos still waited when the kept connection had its answer, which it asked for after them."""
            socks = [socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) for _ in range(400)]
            first = hello()
            for s in socks:
                s.sendall(first)
            kept.sendall(GET)
            answer(kept)
            waited = len(socks) - len(select.select(socks, [], [], 0)[0])
            for s in socks:
                assert s.recv(5)[:1] == b"\x16"  # a record of a handshake, not an alert
                s.close()
            return waited
        assert eventually(storm), "the answer came after all handshakes"
        with dial(d) as s:
            s.sendall(GET)
            assert answer(s)[0] == 200


@case
def a_hello_may_come_in_parts(d):
    raw = socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")

    def complete(what, *args):
        while True:
            try:
                return what(*args)
            except ssl.SSLWantReadError:
                out = outgoing.read()
                for i in range(0, len(out), 40):
                    raw.sendall(out[i:i + 40])
                    time.sleep(0.01)
                incoming.write(raw.recv(65536))
    complete(s.do_handshake)
    s.write(GET)  # goes out with the end of the handshake
    assert complete(s.read, 12) == b"HTTP/1.1 200"
    raw.close()


@case
def the_server_stops_while_handshakes_wait(_):
    # leaving the server checks that it ends well and within a minute: before any of these timeouts
    with Stenod(*SETTINGS, "limits.header_timeout=10min", "limits.idle_timeout=10min", "server.drain_timeout=1h") as d:
        socks = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(30)]
        for i, s in enumerate(socks):
            s.sendall(hello()[:20 * i])
        time.sleep(0.1)
    for s in socks:
        s.close()


@case
def tls_can_be_required(d):
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        p = subprocess.Popen([*Stenod(*SETTINGS, "tls.required=yes").cmd], stderr=log)
        try:
            def port():
                with open(log.name, encoding="utf-8") as f:
                    text = f.read()
                return int(text.split("listening on https://127.0.0.1:")[1].split()[0]) if "listening on https" in text else 0
            assert eventually(port)
            s = socket.create_connection(("127.0.0.1", port()), timeout=30 * SLOW)
            s.sendall(GET)
            status, _, body = answer(s)
            assert status == 400 and b"tls_required" in body, body
            d2 = type("D", (), {"port": port()})
            with dial(d2) as s:
                s.sendall(GET)
                assert answer(s)[0] == 200
        finally:
            p.terminate()
            assert p.wait(60 * SLOW) == 0


@case
def a_hello_without_a_certificate_is_closed_at_once(d):
    with Stenod("limits.header_timeout=10min", "limits.idle_timeout=10min") as plain:
        try:
            dial(plain)
        except TimeoutError as e:
            raise AssertionError("it was not closed before its timeout") from e
        except OSError:  # ssl.SSLError is one
            pass
        else:
            raise AssertionError("TLS without a certificate")
        assert eventually(lambda: "speaks TLS, but tls.certificate is not set" in plain.output())


@case
def a_new_certificate_is_taken_on_sighup(d):
    def subject():
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        with dial(d, c) as s:
            s.sendall(GET)
            assert answer(s)[0] == 200
            return s.getpeercert(binary_form=True)
    old = subject()
    kept = dial(d)
    kept.sendall(GET)
    answer(kept)
    certificate("second", CERT, KEY)
    d.proc.send_signal(signal.SIGHUP)
    assert eventually(lambda: subject() != old)
    kept.sendall(GET)
    assert answer(kept)[0] == 200  # connections keep what they began with
    new = subject()
    with open(KEY, "w", encoding="utf-8") as f:
        f.write("not a key")
    d.proc.send_signal(signal.SIGHUP)
    assert eventually(lambda: "the old certificate stays in use" in d.output())
    assert subject() == new
    certificate("third", CERT, KEY)


@case
def unusable_files_are_named(d):
    missing = os.path.join(DIR.name, "missing.pem")
    for settings, says in ((["--set", f"tls.certificate={CERT}"], "needs tls.key"), (["--set", "tls.required=yes"], "needs tls.certificate"),
                           (["--set", f"tls.certificate={missing}", "--set", f"tls.key={KEY}"], "missing.pem: No such file"),
                           (["--set", f"tls.certificate={CERT}", "--set", f"tls.key={CERT}"], "cert.pem")):
        cmd = [Stenod().cmd[0], "--listen", "127.0.0.1:0", *settings]
        for check in (["--check-config"], []):
            r = subprocess.run(cmd + check, capture_output=True, text=True, timeout=60 * SLOW)
            assert r.returncode and says in r.stdout + r.stderr, (check, r)


@case
def streams_over_tls_drain(d):
    with Stenod(*SETTINGS) as drained:
        s = dial(drained)
        s.sendall(upgrade() + frame(1, START.encode()) + frame(2, PCM))
        assert answer(s)[0] == 101
        drained.proc.send_signal(signal.SIGTERM)
        messages, code = read_messages(s)
        assert code == 1012 and messages[-1]["reason"] == "draining", (code, messages)


if __name__ == "__main__":
    with Stenod(*SETTINGS) as daemon:
        raise SystemExit(tap(daemon))
