"""A live session loses its connection and its client resumes it: nothing is missing, nothing is sent twice."""
import json
import random
import signal
import socket
import struct
import sys
import tempfile

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SLOW, Stenod, case, eventually, pcm, tap, until_closed

PCM, RATE = pcm()
START = {"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}
CHUNK = RATE // 10 * 2


def waiting(d):
    return d.metric("steno_ws_sessions_waiting")


def read(ws, until, got):
    """The messages up to and including the first one of type `until`."""
    while True:
        got.append(json.loads(ws.recv(timeout=60 * SLOW)))
        if got[-1]["type"] == until:
            return got[-1]


def read_all(ws, got):
    more, code, _ = until_closed(ws)
    got += more
    return code


def cut(ws):
    """Like a network failure: a reset without a close frame."""
    ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ws.socket.shutdown(socket.SHUT_RDWR)
    ws.socket.close()


def begin(d, start=None, **kw):
    ws = connect(d.ws, **OPEN, **kw)
    got = []
    ws.send(json.dumps(start or START))
    ready = read(ws, "ready", got)
    return ws, got, ready["session_id"]


def back(d, session, got, sample=None, **kw):
    query = f"?session_id={session}" + (f"&seq={got[-1]['seq']}" if got else "") + ("" if sample is None else f"&sample={sample}")
    return connect(d.ws + query, **OPEN, **kw)


def refused(d, session, got, status, says, sample=None, **kw):
    try:
        back(d, session, got, sample, **kw)
    except InvalidStatus as e:
        assert e.response.status_code == status, e.response
        assert says in e.response.body.decode(), e.response.body
        return
    raise AssertionError("was let in")


def finals(messages):
    return [{k: m[k] for k in ("text", "start", "end", "words", "reason")} for m in messages if m["type"] == "final"]


_reference = []


def reference(d):
    if not _reference:
        ws, got, _ = begin(d)
        ws.send(PCM)
        ws.send('{"type":"end"}')
        assert read_all(ws, got) == 1000
        _reference.append(finals(got))
        assert " ".join(f["text"] for f in _reference[0] if f["text"]) == DIGITS_TEXT
    return _reference[0]


def check(d, got):
    assert finals(got) == reference(d), finals(got)
    for a, b in zip(got, got[1:]):
        assert a["seq"] < b["seq"], (a, b)


@case
def a_cut_connection_costs_nothing(d):
    for at in (2, len(PCM) // 2 // CHUNK * CHUNK, len(PCM) - 2):
        ws, got, session = begin(d)
        ws.send(PCM[:at])
        cut(ws)
        assert eventually(lambda: waiting(d) == 1)
        ws = back(d, session, got)
        r = read(ws, "resumed", got)
        assert r["session_id"] == session and 0 <= r["samples"] <= at // 2 and not r["ended"], r
        ws.send(PCM[2 * r["samples"]:])
        ws.send('{"type":"end"}')
        assert read_all(ws, got) == 1000
        check(d, got)


@case
def the_client_may_name_the_sample_itself(d):
    ws, got, session = begin(d)
    ws.send(PCM[:100001])  # half a sample at its end
    cut(ws)
    assert eventually(lambda: waiting(d) == 1)
    refused(d, session, got, 409, "sample: ", sample=len(PCM))
    ws = back(d, session, got, sample=0)
    ws.send(PCM)
    ws.send('{"type":"end"}')
    assert read_all(ws, got) == 1000
    check(d, got)


@case
def random_cuts_and_takeovers(d):
    rng = random.Random(7)
    for _ in range(4):
        ws, got, session = begin(d)
        sent, cuts = 0, 0
        while sent < len(PCM):
            n = rng.randrange(1, 9000)
            ws.send(PCM[sent:sent + n])
            sent += n
            if rng.random() < 0.3:
                cuts += 1
                if rng.random() < 0.5:
                    cut(ws)
                else:
                    ws.close_timeout = 0
                # the new connection comes while the old one is open, is being reset, or is gone; the result is the same
                new = back(d, session, got)
                r = read(new, "resumed", got)
                sent = 2 * r["samples"]
                ws = new
        ws.send('{"type":"end"}')
        assert read_all(ws, got) == 1000
        assert cuts
        check(d, got)


@case
def the_newer_of_two_connections_has_the_session(d):
    before = d.metric("steno_ws_sessions_resumed_total")
    old, got, session = begin(d)
    old.send(PCM[:50000])
    new = back(d, session, got)
    assert read_all(old, []) == 4001
    r = read(new, "resumed", got)
    new.send(PCM[2 * r["samples"]:])
    new.send('{"type":"end"}')
    assert read_all(new, got) == 1000
    check(d, got)
    assert d.wait_idle().metric("steno_ws_sessions_resumed_total") == before + 1


@case
def unread_results_are_sent_again(d):
    """Also when the session has ended and the server has written all of it."""
    ws, got, session = begin(d)
    ws.send(PCM)
    ws.send('{"type":"end"}')
    lost = []
    assert read_all(ws, lost) == 1000  # ... and all of that is lost
    d.wait_idle()
    ws = back(d, session, got)
    assert read_all(ws, got) == 1000
    check(d, got)
    assert got[-1]["type"] == "end" and got[-1]["seq"] == lost[-1]["seq"]


@case
def end_and_cut_at_once(d):
    while True:
        ws, got, session = begin(d)
        ws.send(PCM)
        ws.send('{"type":"end"}')
        try:
            cut(ws)
            break
        except OSError:  # the server was faster: it has answered and closed
            assert read_all(ws, got) == 1000
    ws = back(d, session, got)  # a reset may lose what the server has not read; then the server says so
    first = len(got)
    try:
        got.append(json.loads(ws.recv(timeout=60 * SLOW)))
        while got[-1]["type"] not in ("resumed", "end"):
            got.append(json.loads(ws.recv(timeout=60 * SLOW)))
    except ConnectionClosed:
        pass
    assert len(got) > first
    if got[-1]["type"] == "resumed" and not got[-1]["ended"]:
        ws.send(PCM[2 * got[-1]["samples"]:])
        ws.send('{"type":"end"}')
    assert read_all(ws, got) == 1000
    check(d, got)


@case
def wrong_ids_and_positions_are_refused(d):
    ws, got, session = begin(d)
    cut(ws)
    assert eventually(lambda: waiting(d) == 1)
    for wrong in ("sess_" + "0" * 32, session[:-1], session + "0"):
        refused(d, wrong, got, 404, "session_not_found")
    refused(d, "x" * 100, got, 400, "session_id")
    refused(d, session + "&seq=-1", got[:0], 400, "seq")
    refused(d, session + "&encoding=wav", got[:0], 400, "encoding")
    refused(d, session + "&seq=1000", got[:0], 409, "seq")
    ws = back(d, session, got)
    read(ws, "resumed", got)
    ws.send('{"type":"end"}')
    assert read_all(ws, got) == 1000


@case
def closed_and_other_sessions_are_not_resumed(d):
    ws, got, session = begin(d)
    ws.close()
    d.wait_idle()
    refused(d, session, got, 404, "session_not_found")
    ws, got, session = begin(d, {**START, "resumable": False})
    assert "resume_seconds" not in got[0]
    cut(ws)
    d.wait_idle()
    refused(d, session, got, 404, "session_not_found")


@case
def after_its_time_a_session_is_gone(_):
    with Stenod("websocket.resume=1") as d:
        ws, got, session = begin(d)
        assert got[0]["resume_seconds"] == 1
        ws.send(PCM[:20000])
        cut(ws)
        assert d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}') == 1
        refused(d, session, got, 404, "session_not_found")
        assert waiting(d) == 0
    with Stenod("websocket.resume=0") as d:
        ws, got, session = begin(d)
        assert got[0]["resume_seconds"] == 0
        cut(ws)
        assert d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}') == 1


@case
def a_session_that_waits_keeps_its_place_and_its_owner(_):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write("[alice]\nkey = alice-alice-alice-1\nsessions = 1\n[bob]\nkey = bob-bob-bob-bob-1\n")
        f.flush()
        alice, bob = ({"additional_headers": {"Authorization": f"Bearer {k}"}} for k in ("alice-alice-alice-1", "bob-bob-bob-bob-1"))
        with Stenod(f"auth.keys={f.name}", "limits.sessions=1") as d:
            ws, got, session = begin(d, **alice)
            cut(ws)
            assert eventually(lambda: waiting(d) == 1)
            try:
                begin(d, **bob)
                raise AssertionError("there is one place")
            except InvalidStatus as e:
                assert e.response.status_code == 503, e.response
            refused(d, session, got, 404, "session_not_found", **bob)
            refused(d, session, got, 401, "invalid_api_key")
            ws = back(d, session, got, **alice)
            read(ws, "resumed", got)
            ws.send(PCM)
            ws.send('{"type":"end"}')
            assert read_all(ws, got) == 1000
            assert " ".join(x["text"] for x in finals(got) if x["text"]) == DIGITS_TEXT


@case
def a_drain_waits_for_resumable_sessions(_):
    d = Stenod("server.drain_timeout=60", "websocket.resume=600")
    with d:
        ws, got, session = begin(d)
        ws.send(PCM[:len(PCM) // 2])
        cut(ws)
        assert eventually(lambda: waiting(d) == 1)
        d.proc.send_signal(signal.SIGTERM)
        assert eventually(lambda: "draining" in d.output())
        ws = back(d, session, got)
        assert read_all(ws, got) == 1012
        assert got[-1]["type"] == "end" and got[-1]["reason"] == "draining", got[-1]
        said = " ".join(x["text"] for x in finals(got) if x["text"])
        assert said and DIGITS_TEXT.startswith(said.rsplit(" ", 1)[0]), said
        assert d.proc.wait(60 * SLOW) == 0


with Stenod() as server:
    sys.exit(tap(server))
