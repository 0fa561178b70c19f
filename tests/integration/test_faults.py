"""The nth call fails inside a running server: memory, sockets, files, threads, descriptors. Uploads, streams with a lost
connection, keys, reloads and the administrator's socket meet it; every answer is whole or none, the next client is served,
no descriptor stays open. tests/faults/inject.c makes the calls fail."""
# not under sanitizers: their allocator stands where the preloaded one would
import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from broken import DESCRIPTOR, DISK, HEADERS, MEMORY, RECEIVE, SEND, THREAD, Broken
from daemon import DIGITS, DIGITS_TEXT, ROOT, SLOW, case, eventually, heard, pcm, tap

PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
RUNS = 120  # places tried of a kind, evenly over the scenario
OPEN = dict(max_size=None, compression=None, open_timeout=20 * SLOW, close_timeout=2, proxy=None)


def text_of(body):
    return json.loads(body)["text"].replace("\n", " ").strip()


def upload(d):
    boundary = "X-boundary-42"
    body = (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + WAV +
            f"\r\n--{boundary}--\r\n".encode())
    status, headers, got = d.request("POST", "/v1/audio/transcriptions", body,
                                     {**HEADERS, "Content-Type": f"multipart/form-data; boundary={boundary}"})
    if status == 200:
        assert text_of(got) == DIGITS_TEXT, got
    else:
        assert status in (400, 401, 408, 413, 500, 503), (status, got)
        if headers.get("content-type", "").startswith("application/json"):
            json.loads(got)
    return status == 200


def read(ws, until):
    """Messages until one of the type; an error message or the end of the connection is another way out."""
    while True:
        m = json.loads(ws.recv(timeout=20 * SLOW))
        if m["type"] in (until, "error"):
            return m


def open_socket(url):
    """The client library asserts that nobody closes the connection before its request is written."""
    try:
        return connect(url, additional_headers=HEADERS, **OPEN)
    except AssertionError as why:
        raise ConnectionError("closed before the request was written") from why


def stream(d):
    """A session that loses its connection in the middle and comes back."""
    ws = open_socket(d.ws + "?resumable=true")
    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}))
    ready = read(ws, "ready")
    if ready["type"] == "error":
        return False
    half = len(PCM) // 4 * 2
    ws.send(PCM[:half])
    ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ws.socket.shutdown(socket.SHUT_RDWR)
    ws.socket.close()
    with open_socket(f"{d.ws}?session_id={ready['session_id']}&seq={ready['seq']}") as ws:
        m = read(ws, "resumed")
        if m["type"] == "error":
            return False
        ws.send(PCM[2 * m["samples"]:])
        ws.send(json.dumps({"type": "end"}))
        final = read(ws, "final")
        if final["type"] == "error":
            return False
        last = read(ws, "end")
        # what was said before an error is delivered before it; without one all of it must be there
        assert last["type"] == "error" or final["text"] == DIGITS_TEXT, (final, last)
        return last["type"] == "end"


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


def metrics(d):
    status, _, body = d.request("GET", "/metrics")
    return status == 200 and b"steno_workers" in body


def everything(b):
    """Each part ends well (True), or is refused (False); nothing else."""
    out = []
    for part, what in ((upload, b.d), (stream, b.d), (administrate, b), (metrics, b.d)):
        try:
            out.append(part(what))
        except (OSError, http.client.HTTPException, WebSocketException, TimeoutError) as why:
            out.append(False)
            assert b.d.proc.poll() is None, (part.__name__, why)
        except Exception as why:
            raise AssertionError(f"{part.__name__}: {why!r}\n{b.d.output()[-1500:]}") from why
    return all(out)


def is_well(b):
    assert eventually(lambda: everything(b), 20), b.d.output()[-3000:]


def places(b, kind, scenario):
    """Numbers of calls that the scenario makes: RUNS of them, evenly, from the first to the last."""
    b.fail(kind, 1 << 40)
    scenario()
    calls = (1 << 40) - b.mend()
    assert calls > 0, f"kind {kind}: nothing to fail"
    step = max(1, calls // RUNS)
    return range(1, calls + 1, step)


def try_all(b, kind, scenario, expect=None):
    failed = 0
    for n in places(b, kind, scenario):
        b.fail(kind, n)
        good = scenario()
        left = b.mend()
        failed += left <= 0
        assert b.d.proc.poll() is None, f"kind {kind}, call {n}: the server ended\n" + b.d.output()[-3000:]
        assert good or left <= 0, f"kind {kind}, call {n}: something went wrong though nothing failed"
        if expect:
            expect(n)
    assert failed > 3, failed
    return failed


def leaves_nothing(b, before):
    is_well(b)
    d = b.d
    assert eventually(lambda: d.metric("steno_ws_connections") == 0 and d.metric('steno_sessions_active{api="openai"}') == 0, 20)
    assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 0, 40), "a session that nobody has"
    assert eventually(lambda: d.descriptors() <= before + 2, 20), (before, d.descriptors())


def one_kind(kind, *settings):
    b = Broken("websocket.resume=2s", *settings)
    try:
        with b.d as d:
            is_well(b)
            time.sleep(0.1)
            before = d.descriptors()
            failed = try_all(b, kind, lambda: everything(b))
            leaves_nothing(b, before)
            print(f"# {failed} calls failed", flush=True)
    finally:
        b.close()


@case
def memory_that_is_refused_costs_one_request(_):
    one_kind(MEMORY)


@case
def sockets_that_break_while_read_cost_one_request(_):
    one_kind(RECEIVE)


@case
def sockets_that_break_while_written_cost_one_request(_):
    one_kind(SEND)


@case
def descriptors_that_run_out_cost_one_request(_):
    one_kind(DESCRIPTOR)


@case
def a_reload_in_need_leaves_the_old_in_force(_):
    """Keys and model are read again while memory, files, threads and descriptors fail."""
    b = Broken()
    try:
        with b.d as d:
            is_well(b)

            def reload():
                seen = d.output().count("keys read again") + d.output().count("auth.keys")
                d.proc.send_signal(signal.SIGHUP)
                eventually(lambda: d.output().count("keys read again") + d.output().count("auth.keys") > seen, 5)
                return True

            global RUNS
            runs, RUNS = RUNS, RUNS // 8
            for kind in (MEMORY, DISK, THREAD, DESCRIPTOR):
                try_all(b, kind, reload, lambda n: None if n % 3 else is_well(b)) if kind == MEMORY else try_some(b, kind, reload)
            RUNS = runs
            is_well(b)
    finally:
        b.close()


def try_some(b, kind, scenario):
    """As try_all, where there may be few such calls or none."""
    for n in range(1, 9):
        b.fail(kind, n)
        scenario()
        b.mend()
        assert b.d.proc.poll() is None, f"kind {kind}, call {n}: the server ended\n" + b.d.output()[-3000:]
        is_well(b)


def listens_on(pid):
    """Port of the process by the kernel's table, for one whose log cannot be read; None before it listens."""
    own = set()
    for fd in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            own.add(os.readlink(fd.path))
    with open("/proc/net/tcp", encoding="ascii") as f:
        for _, at, _, state, *_, inode in (line.split()[:10] for line in list(f)[1:]):
            if state == "0A" and f"socket:[{inode}]" in own:
                return int(at.split(":")[1], 16)
    return None


@case
def a_full_disk_stops_neither_the_log_nor_the_start(_):
    """Every write to a file fails from the start: what was measured cannot be kept, log lines are lost, requests are served."""
    b = Broken()
    d = b.d
    try:
        b.fail(DISK, 1, always=True)
        with open(os.path.join(b.folder, "log"), "w+", encoding="utf-8") as d.log:
            d.proc = subprocess.Popen(d.cmd, stderr=d.log, cwd=ROOT, env={**os.environ, **d.env})
            assert eventually(lambda: listens_on(d.proc.pid), 20)
            d.port = listens_on(d.proc.pid)
            assert eventually(lambda: d.status("/readyz") == 200, 20)
            is_well(b)
            assert not d.output()
            b.mend()
            is_well(b)
            assert eventually(lambda: "POST /v1/audio/transcriptions: 200" in d.output()), d.output()
            assert d.terminate() == 0, d.output()
    finally:
        if d.proc:
            d.proc.kill()
        b.close()


@case
def a_start_that_fails_anywhere_says_so_and_leaves(_):
    """The nth thread, descriptor, allocation cannot be had while the server starts: it ends with a status of sysexits.h and
    a line, or serves without."""
    for kind, most, step in ((THREAD, 14, 1), (DESCRIPTOR, 25, 4), (MEMORY, 400, 50)):
        for n in range(1, most, step):
            b = Broken("pool.threads=2")
            try:
                b.fail(kind, n)
                env = {**os.environ, **b.d.env}
                with open(os.path.join(b.folder, "log"), "w+", encoding="utf-8") as log:
                    p = subprocess.Popen(b.d.cmd, stderr=log, cwd=ROOT, env=env)
                    try:
                        eventually(lambda: p.poll() is not None or "listening" in open(log.name, encoding="utf-8").read(), 20)
                        if p.poll() is None:
                            p.terminate()
                        code = p.wait(30 * SLOW)
                    finally:
                        p.kill()
                    log.seek(0)
                    said = log.read()
                assert code in (0, 64, 65, 66, 69, 70, 71, 74, 78), (kind, n, code, said[-2000:])
                assert said or code == 0 or kind == MEMORY, (kind, n, code)
            finally:
                b.close()


@case
def the_wall_clock_jumps_and_nobody_notices(_):
    """Years forward and back during a stream: time-outs follow the monotonic clock."""
    b = Broken("websocket.idle_timeout=20s", "websocket.ping_interval=10s")
    try:
        with b.d as d:
            for jump in (10 ** 9, -10 ** 9, 3600, 0):
                with connect(d.ws, additional_headers=HEADERS, **OPEN) as ws:
                    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
                    ws.send(PCM[:RATE * 4])
                    b.jump(jump)
                    time.sleep(1.2)  # a sweep of the connections falls into it
                    ws.send(PCM[RATE * 4:])
                    ws.send(json.dumps({"type": "end"}))
                    assert read(ws, "final")["text"] == DIGITS_TEXT
                is_well(b)
    finally:
        b.close()


def lost_session(d):
    """A resumable one whose connection has gone."""
    with open_socket(d.ws + "?resumable=true") as ws:
        ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}))
        ready = read(ws, "ready")
        ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ws.socket.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: d.metric("steno_ws_connections") == 0)
    return ready["session_id"]


def said_until_closed(s):
    out = b""
    with contextlib.suppress(ConnectionResetError):
        while got := s.recv(65536):
            out += got
    return out


@case
def an_hour_passes_at_once_and_sessions_end_by_their_time_out(_):
    """As in a machine that was suspended: who was there is told why it is over, who comes is served."""
    b = Broken("limits.header_timeout=10min")
    try:
        with b.d as d:
            for _hour in range(2):
                lost = lost_session(d)
                with connect(d.ws, additional_headers=HEADERS, **{**OPEN, "ping_interval": None}) as ws, \
                        socket.create_connection(("127.0.0.1", d.port), 60 * SLOW) as head, \
                        socket.create_connection(("127.0.0.1", d.port), 60 * SLOW) as body:
                    head.sendall(b"GET /healthz HT")
                    body.sendall(f"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nAuthorization: {HEADERS['Authorization']}\r\n"
                                 f"Content-Length: {len(WAV)}\r\n\r\n".encode() + WAV[:1000])
                    assert eventually(lambda: d.metric('steno_sessions_active{api="transcribe"}') == 1)
                    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
                    ws.send(PCM)
                    while json.loads(ws.recv(timeout=60 * SLOW))["audio_ms"] < 4500:
                        pass  # all but the last word was heard
                    b.sleep(3600)
                    got, code, _reason = heard(ws)
                    assert code == 1008 and got and got[-1].get("code") == "idle_timeout", (got, code)
                    assert [m["text"] for m in got if m["type"] == "final" and m["text"]] == [DIGITS_TEXT], got
                    got = said_until_closed(head)
                    assert got.startswith(b"HTTP/1.1 408 ") and b'"head_timeout"' in got, got
                    got = said_until_closed(body)
                    assert got.startswith(b"HTTP/1.1 408 ") and b'"body_timeout"' in got, got
                try:
                    open_socket(f"{d.ws}?session_id={lost}&seq=0").close()
                    raise AssertionError("a session was kept for longer than websocket.resume")
                except InvalidStatus as e:
                    assert e.response.status_code == 404, e.response
                is_well(b)
                assert d.status("/readyz") == 200
            d.settled()
            assert d.metric('steno_sessions_total{api="transcribe",result="timeout"}') == 2
            assert d.metric('steno_sessions_total{api="stream",result="timeout"}') == 2
    finally:
        b.close()


sys.exit(tap(None))
