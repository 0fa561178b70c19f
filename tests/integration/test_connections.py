"""Connections that carry more than one kind of request: an upgrade may be any request of a connection."""
import asyncio
import json
import signal
import tempfile
import threading
import time

from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SLOW, Stenod, case, client, eventually, frame, read_messages, tap, until_closed
from wire import END, GET, PCM, POST, RATE, START, WAV, answer, dial, finish_stream, said, text_of, upgrade, used


@case
def an_upgrade_may_follow_other_requests(d):
    for before, count in ((GET, 1), (GET, 5), (POST, 1)):
        s = dial(d)
        for _ in range(count):
            s.sendall(before)
            assert answer(s)[0] == 200
        s.sendall(upgrade())
        status, headers, _ = answer(s)
        assert status == 101 and headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", headers
        assert headers["upgrade"] == "websocket" and headers["connection"] == "Upgrade"
        s.sendall(said())
        finish_stream(s)


@case
def bytes_behind_a_handshake_are_not_lost(d):
    everything = GET + POST + upgrade() + said()
    for cut in (0, len(GET), len(GET + POST), len(everything) - len(said()), len(everything) - len(PCM) // 2):
        s = dial(d)
        s.sendall(everything[:cut])
        if cut:
            time.sleep(0.05)
        threading.Thread(target=s.sendall, args=(everything[cut:],)).start()
        assert answer(s)[0] == 200
        assert answer(s)[2].decode().strip() == DIGITS_TEXT
        assert answer(s)[0] == 101
        finish_stream(s)
    # behind a first request too
    s = dial(d)
    s.sendall(upgrade() + said(PCM[:3200]))
    assert answer(s)[0] == 101
    assert read_messages(s)[1] == 1000


@case
def early_bytes_that_are_no_frames_close_with_1002(d):
    s = dial(d)
    s.sendall(GET + upgrade() + b"\xff" * 5000)
    answer(s)
    assert answer(s)[0] == 101
    assert read_messages(s)[1] == 1002


@case
def headers_are_the_same_on_both_ways(d):
    def head(first, path, extra):
        s = dial(d)
        if first:
            s.sendall(first)
            answer(s)
        s.sendall(upgrade(path, extra))
        status, headers, _ = answer(s)
        s.close()
        return status, {k: v if k != "dg-request-id" else len(v) for k, v in headers.items() if k != "date"}
    for path, extra in (("/v1/stream", "X-Request-Id: mine-1\r\n"), ("/v1/listen", "Sec-WebSocket-Protocol: token, abc\r\nX-Request-Id: m\r\n"),
                        ("/v1/realtime", "Sec-WebSocket-Protocol: realtime\r\nX-Request-Id: m\r\n"), ("/vosk", "X-Request-Id: m\r\n")):
        want, got = head(None, path, extra), head(GET, path, extra)
        assert want[0] == 101 and want == got, (want, got)


@case
def a_refused_upgrade_leaves_the_connection_usable(d):
    with Stenod("limits.sessions=1") as tight:
        s = used(tight)
        with connect(tight.ws, **OPEN):
            for path, version, status in (("/v1/stream", 8, 426), ("/v1/stream", 13, 503), ("/nowhere", 13, 404)):
                s.sendall(upgrade(path, version=version))
                got, headers, body = answer(s)
                assert got == status and "error" in json.loads(body), (got, body)
                assert (status == 426) == ("sec-websocket-version" in headers) and (status == 503) == ("retry-after" in headers), headers
                s.sendall(GET)
                assert answer(s)[0] == 200
        assert tight.metric('steno_sessions_rejected_total{reason="sessions"}') == 1
        assert "handshake refused with 503" in tight.output()
        tight.wait_idle()
        s.sendall(upgrade())
        assert answer(s)[0] == 101
        s.sendall(said())
        finish_stream(s)
        # a refused first request ends its connection
        s = dial(tight)
        s.sendall(upgrade(version=8))
        got, headers, _ = answer(s)
        assert got == 426 and headers["connection"] == "close"
        assert s.recv(1) == b""


@case
def an_upgrade_that_lacks_something_gets_426(d):
    s = used(d)
    s.sendall(upgrade().replace(b"Connection: Upgrade", b"Connection: keep-alive"))
    assert answer(s)[0] == 426
    s = dial(d)
    s.sendall(GET + upgrade(extra="Content-Length: 5\r\n") + b"12345")
    answer(s)
    assert answer(s)[0] == 426


@case
def a_resumption_that_is_not_possible_gets_its_status_on_a_used_connection(d):
    s, first = used(d), used(d)
    with connect(d.ws, sock=first, **OPEN) as ws:
        ws.send(json.dumps({**json.loads(START), "resumable": True}))
        session = json.loads(ws.recv())["session_id"]
        for query, want, code in (("session_id=sess_00000000000000000000000000000000", 404, "session_not_found"),
                                  (f"session_id={session}&last_seq=0", 400, "invalid_argument"),
                                  (f"session_id={session}&sample=99", 409, "invalid_argument"),
                                  (f"session_id={session}&seq=99", 409, "invalid_argument")):
            s.sendall(upgrade("/v1/stream?" + query))  # the connection goes on after each
            status, headers, body = answer(s)
            assert status == want and json.loads(body)["error"]["code"] == code and headers["x-request-id"], (query, status, body)
        s.sendall(GET)
        assert answer(s)[0] == 200
        s.close()
        ws.send(PCM)
        ws.send(END)
        assert text_of(until_closed(ws)[0]) == DIGITS_TEXT  # nobody took the session away


@case
def resumptions_that_are_asked_for_while_the_server_stops_are_answered(_):
    d = Stenod()
    with d:
        socks = [used(d) for _ in range(20)]
        for s in socks:
            s.sendall(upgrade("/v1/stream?session_id=sess_00000000000000000000000000000000"))
    for s in socks:  # leaving the server has checked that it ended well
        s.close()


@case
def a_stream_resumes_on_a_used_connection(d):
    first, second = used(d), used(d)
    with connect(d.ws, sock=first, **OPEN) as ws:
        ws.send(json.dumps({**json.loads(START), "resumable": True}))
        ready = json.loads(ws.recv())
        ws.send(PCM[:len(PCM) // 2])
        second.sendall(upgrade(f"/v1/stream?session_id={ready['session_id']}&seq={ready['seq']}"))
        assert answer(second)[0] == 101
        # the old connection is told, and the new one carries the end of the stream
        assert until_closed(ws)[1] == 4001
    second.sendall(frame(1, END.encode()))
    messages, code = read_messages(second)
    assert code == 1000 and messages[-1]["type"] == "end", messages
    resumed = next(m for m in messages if m["type"] == "resumed")
    assert 0 <= resumed["samples"] <= len(PCM) // 2 // 2, resumed


@case
def connections_and_descriptors_are_given_back(d):
    with Stenod("limits.connections=8", "limits.connections_per_address=4") as tight:
        before = tight.descriptors()
        for _ in range(20):
            s = used(tight)
            s.sendall(upgrade())
            assert answer(s)[0] == 101
            s.sendall(said(PCM[:3200]))
            assert read_messages(s)[1] == 1000
            s.close()
        assert eventually(lambda: tight.descriptors() <= before + 1), (before, tight.descriptors())
        # a stream counts as a connection of its address
        held = []
        for _ in range(3):
            s = used(tight)
            s.sendall(upgrade())
            assert answer(s)[0] == 101
            held.append(s)
        assert eventually(lambda: tight.status("/healthz") == 200)
        fourth = []

        def fits():  # the connection before it may not be counted out yet
            fourth.append(dial(tight))
            fourth[-1].sendall(GET)
            return answer(fourth[-1])[0] == 200
        assert eventually(fits)
        s = dial(tight)
        assert answer(s)[0] == 503
        for s in held:
            s.close()


@case
def a_client_that_leaves_before_its_101_leaves_nothing(d):
    for _ in range(20):
        s = dial(d)
        s.sendall(GET + upgrade())
        s.close()
    d.wait_idle()


@case
def a_later_head_that_trickles_is_cut_off(d):
    with Stenod("limits.idle_timeout=1", "limits.header_timeout=0.5") as quick:
        for head in (GET, upgrade()):
            begun = time.monotonic()
            s = used(quick)
            try:
                for i in range(300):  # a minute of it
                    s.sendall(head[i % 20:i % 20 + 1] if i >= 20 else b"X"[:1] if i else b"G")
                    time.sleep(0.2)
                raise AssertionError("it was not cut off")
            except OSError:
                pass
            assert time.monotonic() - begun > 1, "it was not given its time"
            s.close()
        quick.becomes('steno_sessions_rejected_total{reason="slow"}', 2)
    # a connection in use is not touched, though it is older than both together
    with Stenod("limits.idle_timeout=5", "limits.header_timeout=0.5") as quick:
        s = used(quick)
        for _ in range(6):
            time.sleep(1)
            s.sendall(GET)
            assert answer(s)[0] == 200


@case
def keys_count_on_both_ways(d):
    key = "Authorization: Bearer 0123456789abcdef\r\n"
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("[someone]\nkey = 0123456789abcdef\nsessions = 1\n")
        f.flush()
        with Stenod(f"auth.keys={f.name}") as keyed:
            s, other = used(keyed), used(keyed)
            s.sendall(upgrade())
            status, headers, _ = answer(s)
            assert status == 401 and headers["www-authenticate"] == "Bearer"
            s.sendall(upgrade(extra=key))
            assert answer(s)[0] == 101
            other.sendall(upgrade(extra=key))
            assert answer(other)[0] == 429
            s.close()
            other.close()


@case
def streams_on_used_connections_drain(d):
    with Stenod() as drained:
        s = used(drained)
        s.sendall(upgrade())
        assert answer(s)[0] == 101
        s.sendall(frame(1, START.encode()) + frame(2, PCM))
        idle = used(drained)
        drained.proc.send_signal(signal.SIGTERM)
        messages, code = read_messages(s)
        assert code == 1012 and messages[-1]["reason"] == "draining", (code, messages)
        assert drained.proc.wait(60 * SLOW) == 0
        idle.close()
        s.close()


@case
@client("aiohttp", "uploads and live streams of one session on reused connections")
def aiohttp_shares_a_session(d):
    import aiohttp

    async def run():
        # one connection: the upgrade must take the one that served the requests
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
            for _ in range(2):
                async with session.get(d.url + "/v1/models") as r:
                    assert r.status == 200 and await r.json()
                async with session.post(d.url + "/v1/transcribe?format=text", data=WAV) as r:
                    assert (await r.text()).strip() == DIGITS_TEXT
                async with session.ws_connect(d.ws) as ws:
                    await ws.send_str(START)
                    await ws.send_bytes(PCM)
                    await ws.send_str(END)
                    messages = [json.loads(m.data) async for m in ws if m.type == aiohttp.WSMsgType.TEXT]
                assert text_of(messages) == DIGITS_TEXT, messages
    asyncio.run(run())


@case
@client("httpx-ws", "uploads and live streams of one client on reused connections")
def httpx_ws_shares_a_client(d):
    import httpx
    import httpx_ws
    with httpx.Client(limits=httpx.Limits(max_connections=1), timeout=60 * SLOW) as client:
        for _ in range(2):
            assert client.get(d.url + "/v1/models").status_code == 200
            with httpx_ws.connect_ws(d.url + "/v1/stream", client) as ws:
                ws.send_text(START)
                ws.send_bytes(PCM)
                ws.send_text(END)
                messages = []
                while not messages or messages[-1]["type"] != "end":
                    messages.append(json.loads(ws.receive_text()))
            assert text_of(messages) == DIGITS_TEXT, messages


@case
@client("websockets", "live streams on a connection that served requests")
def websockets_takes_a_used_socket(d):
    with connect(d.ws, sock=used(d, POST), **OPEN) as ws:
        ws.send(START)
        ws.send(PCM)
        ws.send(END)
        messages = [json.loads(m) for m in ws]
    assert text_of(messages) == DIGITS_TEXT, messages


if __name__ == "__main__":
    with Stenod() as daemon:
        raise SystemExit(tap(daemon))
