"""The nth call fails inside a running server: memory, sockets, files, threads, descriptors. This happens during
uploads, streams with a lost connection, dialects, key checks, reloads, models loaded on demand, the end of the
server and requests to the administrator's socket. Every answer is whole or missing, the next client is served,
and no descriptor stays open. tests/faults/inject.c makes the calls fail."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from broken import DESCRIPTOR, DISK, HANG, HAS_MEMORY, HEADERS, MEMORY, RECEIVE, SEND, SHRINK, THREAD, Broken
from daemon import DIGITS_TEXT, ROOT, SAN, SLOW, Skip, case, eventually, tap, until_closed
from requests_of_all_kinds import ALL, COMMON, FORM_OF_EVENTS, FORM_TYPE, OPEN, PCM, RATE, WAV, administrate, asked, recognized_to_the_end, open_socket, posted, read, upload

EVERY = os.environ.get("STENO_TEST_LONG") == "1"
RUNS = 16 if SAN else 120  # number of tried calls per kind, spread evenly over all calls; up to 500 of each if EVERY


def is_well(b, what=COMMON):
    assert eventually(lambda: all([asked(b, part) for part in what]), 20), b.d.output()[-3000:]


def calls_of(b, kind, scenario):
    """The number of calls of this kind that the scenario makes."""
    b.fail(kind, 1 << 40)
    scenario()
    return (1 << 40) - b.mend()


def places(calls, runs):
    """The numbers of `runs` calls, evenly spread from the first to the last."""
    return range(1, calls + 1, max(1, -(-calls // (500 if EVERY else runs))))


def try_all(b, kind, scenario, runs, expect=None):
    """Let each of `runs` calls fail in turn. Returns the number of calls that failed."""
    failed = 0
    for n in places(calls_of(b, kind, scenario), runs):
        b.fail(kind, n)
        good = scenario()
        left = b.mend()
        failed += left <= 0
        assert b.d.proc.poll() is None, f"kind {kind}, call {n}: the server ended\n" + b.d.output()[-3000:]
        assert good or left <= 0, f"kind {kind}, call {n}: something went wrong though nothing failed"
        if expect:
            expect(n)
    return failed


def leaves_nothing(b, before):
    is_well(b, ALL)
    d = b.d
    assert eventually(lambda: d.metric("steno_ws_connections") == 0 and d.metric('steno_sessions_active{api="openai"}') == 0, 20)
    assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 0, 40), "a session that nobody has"
    assert eventually(lambda: d.descriptors() <= before + 2, 20), (before, d.descriptors())


def needs_memory(kind):
    if kind == MEMORY and not HAS_MEMORY:
        raise Skip("the sanitizer's allocator is the one that is asked")


def one_kind(kind):
    needs_memory(kind)
    b = Broken("websocket.resume=2s", "wyoming.listen=127.0.0.1:0", "wyoming.key=tester", "align.model=en=digits-en")
    try:
        with b.d as d:
            is_well(b, ALL)
            time.sleep(0.1)
            before = d.descriptors()
            failed = {part.__name__: try_all(b, kind, lambda what=part: asked(b, what), max(2, RUNS // len(ALL))) for part in ALL}
            leaves_nothing(b, before)
            print(f"# {failed}", flush=True)
            assert sum(failed.values()) > 3, failed
    finally:
        b.close()


@case
def memory_that_is_refused_costs_one_request(_):
    one_kind(MEMORY)


@case
def events_that_end_with_an_error_are_not_counted_as_success(_):
    """The status was 200 before anything failed. The server must count how the answer ended."""
    needs_memory(MEMORY)
    b = Broken()
    good = late = 0
    try:
        with b.d as d:
            for n in range(30, 130):  # on a busy machine other threads make some of the calls
                b.fail(MEMORY, n)
                status, _, got = d.request("POST", "/v1/audio/transcriptions", FORM_OF_EVENTS, {**HEADERS, "Content-Type": FORM_TYPE})
                b.mend()
                good += got.endswith(b"[DONE]\n\n")
                late += status == 200 and b'"error"' in got
            d.wait_idle()
            assert late > 0, good
            assert d.metric('steno_sessions_total{api="openai",result="ok"}') == good, (good, late)
    finally:
        b.close()


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
def files_that_cannot_be_written_or_read_cost_one_request(_):
    one_kind(DISK)


@case
def a_failed_reload_keeps_the_old_state(_):
    """Keys and model are reloaded while memory, files, threads and descriptors fail."""
    b = Broken()
    try:
        with b.d as d:
            is_well(b)

            def reload():
                seen = d.output().count("kept as they were")
                d.proc.send_signal(signal.SIGHUP)
                eventually(lambda: d.output().count("kept as they were") > seen, 5)  # a log on a full disk does not have the line
                return True

            if HAS_MEMORY:
                assert try_all(b, MEMORY, reload, RUNS // 8, lambda n: None if n % 3 else is_well(b)) > 3
            for kind in (DISK, THREAD, DESCRIPTOR):
                try_some(b, kind, reload)
            is_well(b)
    finally:
        b.close()


def try_some(b, kind, scenario):
    """Like try_all, for kinds with few such calls or none."""
    for n in range(1, 9, 8 if SAN else 1 if EVERY else 3):
        b.fail(kind, n)
        scenario()
        b.mend()
        assert b.d.proc.poll() is None, f"kind {kind}, call {n}: the server ended\n" + b.d.output()[-3000:]
        is_well(b)


def listens_on(pid):
    """The port of the process by the kernel's table, for a process whose log cannot be read. None before it listens."""
    own = set()
    for fd in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed in the meantime
            own.add(os.readlink(fd.path))
    with open("/proc/net/tcp", encoding="ascii") as f:
        for _, at, _, state, *_, inode in (line.split()[:10] for line in list(f)[1:]):
            if state == "0A" and f"socket:[{inode}]" in own:
                return int(at.split(":")[1], 16)
    return None


class Models:
    """A server with many models besides its own. Memory holds one of them, so each load unloads another."""

    def __init__(self):
        self.used = 0
        self.broken = Broken()
        self.cache, where = (os.path.join(self.broken.folder, f) for f in ("cache", "models"))
        self.broken.d.env["STENO_CACHE"] = self.cache
        os.mkdir(where)
        for i in range(520 if EVERY else 60):
            os.symlink(os.path.join(ROOT, "conf", "models", "digits-en"), os.path.join(where, f"m{i}"))
        self.broken.d.cmd += ["--set", "models.dir=" + where, "--set", "models.memory=3M", "--set", "model.precision=int8"]

    def next_is_loaded(self):
        """Load a model that was never requested: the server does not retry a failed load for ten seconds."""
        b = self.broken
        shutil.rmtree(self.cache, ignore_errors=True)
        name = f"m{self.used}"
        self.used += 1
        out = []

        def answered():
            status, headers, body = b.d.request("POST", "/v1/transcribe?model=" + name, WAV, HEADERS)
            waits = status == 503 and "being loaded" in json.loads(body)["error"]["message"]
            if not waits:
                out.append(status == 200)
                assert status in (200, 500, 503), (status, headers, body)
                assert status != 200 or json.loads(body)["text"] == DIGITS_TEXT, body
            return out
        try:
            assert eventually(answered, 30), b.d.output()[-2000:]
        except OSError:  # the connection's own descriptor or memory failed
            return False
        return out[0]


@case
def a_failed_load_costs_one_request(_):
    """Memory, files, threads or descriptors fail while a model is loaded on demand and another one is unloaded for
    it. The request gets an error, loaded models still serve, and the next model is loaded."""
    for kind in (MEMORY, DISK, THREAD, DESCRIPTOR)[not HAS_MEMORY:]:
        m = Models()
        b = m.broken
        try:
            with b.d as d:
                assert m.next_is_loaded() and m.next_is_loaded()
                before = d.descriptors()
                failed = try_all(b, kind, m.next_is_loaded, 1 if SAN else 5, lambda n: asked(b, upload))
                assert failed > 0, kind
                assert m.next_is_loaded()
                is_well(b)
                assert "unloaded: models.memory" in d.output()
                assert eventually(lambda: d.descriptors() <= before + 2, 20), (before, d.descriptors())
        finally:
            b.close()


OLD_SERVES = "overwritten while in use; replace files by rename, and load the model again; the old one serves on"


def reloaded(b):
    """Wait until SIGHUP has loaded the model again, or kept it."""
    seen = b.d.output().count("loaded again, ")
    b.d.proc.send_signal(signal.SIGHUP)
    assert eventually(lambda: b.d.output().count("loaded again, ") > seen, 60 * SLOW), b.d.output()[-3000:]


def whole(model, names, mine):
    """Put these files of the model there by rename, as docs/operations.md says."""
    for name in names:
        shutil.copyfile(os.path.join(model, name), os.path.join(mine, name + ".new"))
        os.replace(os.path.join(mine, name + ".new"), os.path.join(mine, name))


def shrunk_while_loaded(model, names, cached):
    """These files of the model, and those of the cache, are truncated one by one in the middle of a load, right after they are
    mapped. Then the old model serves on, or the new one does; if it has the truncated file, requests say so, and the next load mends
    it. Returns ([(what changed, status of a request then)], log)."""
    b, shrunk = Broken(), []
    mine, cache = os.path.join(b.folder, os.path.basename(model)), os.path.join(b.folder, "cache")
    os.mkdir(mine)
    os.mkdir(cache)
    for name in os.listdir(model):
        os.symlink(os.path.join(model, name), os.path.join(mine, name))
    whole(model, names, mine)
    b.d.cmd += ["--set", "model.dir=" + mine]
    b.d.env["STENO_CACHE"] = cache if cached else ""

    def files():
        return {(e.name, e.stat().st_size, e.inode()) for folder in (b.folder, mine, cache) for e in os.scandir(folder)}

    def heard():
        status, _, body = b.d.request("POST", "/v1/transcribe", WAV, HEADERS)
        return status, json.loads(body)
    try:
        with b.d as d:
            status, said = heard()
            assert status == 200, said
            for n in range(1, 1000):
                before = files()
                b.fail(SHRINK, n)
                reloaded(b)
                if b.mend() > 0:
                    break
                assert d.proc.poll() is None, f"{shrunk}: the server ended\n" + d.output()[-3000:]
                status, got = heard()
                shrunk.append((" ".join(name for name, *_ in before - files()), status))
                assert got["text"] == said["text"] if status == 200 else "overwritten while in use" in got["error"]["message"], (shrunk, got)
                whole(model, names, mine)
                reloaded(b)
                status, got = heard()
                assert (status, got.get("text")) == (200, said["text"]), (shrunk, got)
            return shrunk, d.output()
    finally:
        b.close()


@case
def a_file_that_is_truncated_while_it_is_loaded_stops_nothing(_):
    model = os.path.join(ROOT, "conf", "models", "digits-en")
    names = [e.name for e in os.scandir(model) if e.is_file()]
    for cached in (False, True):
        shrunk, log = shrunk_while_loaded(model, names, cached)
        assert {("encoder.onnx", 200), ("tokens.txt", 200)} < set(shrunk) and any("stenopack" in name for name, _ in shrunk) == cached, shrunk
        assert cached or OLD_SERVES in log, log
    tiny = os.environ.get("STENO_WHISPER_TINY_EN", "")
    if os.path.isdir(tiny):
        shrunk, log = shrunk_while_loaded(tiny, ["model.bin"], False)
        assert ("model.bin", 500) in shrunk and OLD_SERVES in log, (shrunk, log)  # the old one reads the same file


def drained(b, kind, n):
    """SIGTERM in the middle of a stream and of an upload; the nth call from then on fails. Returns ({"final": of the
    stream, "end": of it, "upload": whether the status was 200}, each only if it came; number of calls that were
    left)."""
    out, begun, ending = {}, threading.Barrier(3), threading.Event()

    def speak():
        with open_socket(b.d.ws) as ws:
            ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
            ws.send(PCM[:len(PCM) // 4 * 2])
            read(ws, "partial")
            begun.wait()
            out["final"] = read(ws, "final")
            out["end"] = read(ws, "end")

    def halves():
        yield WAV[:len(WAV) // 2]
        assert eventually(lambda: b.d.metric('steno_sessions_active{api="transcribe"}') == 1)
        begun.wait()
        assert ending.wait(60 * SLOW)
        yield WAV[len(WAV) // 2:]

    def post():
        out["upload"] = posted(b, "/v1/transcribe", halves(), "audio/wav")

    def attempt(what):
        try:
            what()
        except (OSError, http.client.HTTPException, WebSocketException):
            pass  # cut off
        except Exception as why:
            out["wrong"] = repr(why)
            begun.abort()
    threads = [threading.Thread(target=attempt, args=[what]) for what in (speak, post)]
    for t in threads:
        t.start()
    begun.wait(60 * SLOW)
    b.fail(kind, n)
    b.d.proc.send_signal(signal.SIGTERM)
    ending.set()
    code = b.d.proc.wait(60 * SLOW)
    for t in threads:
        t.join()
    assert code == 0 and "wrong" not in out, (kind, n, code, out, b.d.output()[-3000:])
    return out, b.mend()


@case
def a_server_whose_calls_fail_still_ends(_):
    """SIGTERM while calls fail: the server exits with 0 long before the drain timeout, and its answers until then
    are correct."""
    tried = {}
    for kind in (MEMORY, RECEIVE, SEND, DISK)[not HAS_MEMORY:]:
        todo = [1 << 40]
        while todo:
            n = todo.pop()
            b = Broken("server.drain_timeout=1h")
            try:
                with b.d:
                    out, left = drained(b, kind, n)
            finally:
                b.close()
            if n == 1 << 40:
                assert out.keys() == {"final", "end", "upload"} and out["end"]["type"] == "end" and out["upload"], out
                todo = list(places(n - left, 1 if SAN else 4))
                tried[kind] = len(todo)
            if out.get("final", {}).get("type") == "final":
                assert DIGITS_TEXT.startswith(out["final"]["text"].rsplit(" ", 1)[0]), out  # the audio ends inside a word
    print(f"# {tried}", flush=True)


@case
def a_full_disk_stops_neither_the_log_nor_the_start(_):
    """Every write to a file fails from the start. Measured costs are not stored, log lines are lost, requests are
    served."""
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
    """The nth thread, descriptor or allocation fails while the server starts. It exits with a status of sysexits.h
    and a message, or serves without."""
    for kind, most, step in ((THREAD, 14, 1), (DESCRIPTOR, 25, 4), *[(MEMORY, 400, 50)] * HAS_MEMORY):
        for n in range(1, most, 1 if EVERY else step * 4 if SAN else step):
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
    """The clock jumps years forward and back during a stream. Timeouts follow the monotonic clock."""
    b = Broken("websocket.idle_timeout=20s", "websocket.ping_interval=10s")
    try:
        with b.d as d:
            for jump in (10 ** 9, -10 ** 9, 3600, 0):
                with connect(d.ws, additional_headers=HEADERS, **OPEN) as ws:
                    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
                    ws.send(PCM[:RATE * 4])
                    b.jump(jump)
                    time.sleep(1.2)  # includes a sweep of the connections
                    ws.send(PCM[RATE * 4:])
                    ws.send(json.dumps({"type": "end"}))
                    assert read(ws, "final")["text"] == DIGITS_TEXT
                is_well(b)
    finally:
        b.close()


class Manager:
    """The service manager's end of NOTIFY_SOCKET; records all messages. If it did not read them, the sender would
    block."""

    def __init__(self, where):
        self.said = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(where)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while message := self.socket.recv(4096).decode():
            self.said.append(message)

    def wait_for(self, what):
        """Wait until such a message arrives from now on."""
        before = len(self.said)
        assert eventually(lambda: any(what in m for m in self.said[before:])), self.said


@case
def a_stuck_worker_holds_only_its_own_stream_and_stops_the_watchdog_messages(_):
    """One of three workers hangs in its round. The streams of the other workers get their finals. The service
    manager gets no more watchdog messages and would restart the server. When the worker continues, nothing is
    lost."""
    b = Broken("pool.threads=3", "websocket.idle_timeout=1h", "server.drain_timeout=1s")
    where = os.path.join(b.folder, "notify")
    manager = Manager(where)
    b.d.env |= {"NOTIFY_SOCKET": where, "WATCHDOG_USEC": "1000000"}
    with contextlib.ExitStack() as streams:
        try:
            with b.d as d:
                manager.wait_for("WATCHDOG=1")
                all_ = [streams.enter_context(open_socket(d.ws)) for _ in range(6)]
                half = len(PCM) // 4 * 2
                for ws in all_:
                    ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
                    ws.send(PCM[:half])
                    read(ws, "partial")
                stuck, *others = all_
                # a stream with a partial still has steps to go: the worker must not hang with another stream's step

                def idle():
                    return all(d.metric('steno_queue_depth{model="digits-en"}') + d.metric("steno_workers_busy") == 0 for _ in range(5))
                assert eventually(idle)
                b.fail(HANG, 1)
                stuck.send(PCM[half:])
                stuck.send(json.dumps({"type": "end"}))
                assert eventually(lambda: b.left() <= 0), b.left()
                for ws in others:
                    assert recognized_to_the_end(ws, PCM[half:])
                assert upload(b)
                b.sleep(11)
                assert eventually(lambda: "has hung for" in d.output()), d.output()
                assert d.status("/healthz") == 503 and d.status("/readyz") == 503
                assert upload(b)
                before = len(manager.said)
                time.sleep(2)  # two watchdog periods
                assert not any("WATCHDOG=1" in m for m in manager.said[before:]), manager.said
                b.mend()
                assert read(stuck, "final")["text"] == DIGITS_TEXT
                assert read(stuck, "end")["type"] == "end"
                manager.wait_for("WATCHDOG=1")
                assert eventually(lambda: d.status("/healthz") == 200 and d.status("/readyz") == 200)
                is_well(b)

                b.fail(HANG, 1)  # again, until the end of the server
                ws = streams.enter_context(open_socket(d.ws))
                ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
                ws.send(PCM)
                assert eventually(lambda: b.left() <= 0), b.left()
                b.sleep(11)
                assert eventually(lambda: d.output().count("has hung for") == 2), d.output()
                d.proc.send_signal(signal.SIGTERM)
                assert d.proc.wait(60 * SLOW) == os.EX_SOFTWARE, d.output()
                assert "stopped without the worker that hangs" in d.output()
        finally:
            b.mend()
            b.close()


def lost_session(d):
    """The id of a resumable session whose connection is lost."""
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
def an_hour_passes_at_once_and_sessions_end_by_their_timeout(_):
    """As after a suspension of the machine: old clients are told why their sessions ended, new ones are served."""
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
                        pass  # all but the last word was recognized
                    b.sleep(3600)
                    got, code, _reason = until_closed(ws)
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
                assert eventually(lambda: d.status("/readyz") == 200)  # after the next canary, if the last one is an hour old
            d.wait_idle()
            assert d.metric('steno_sessions_total{api="transcribe",result="timeout"}') == 2
            assert d.metric('steno_sessions_total{api="stream",result="timeout"}') == 2
    finally:
        b.close()


def saved_requests(state):
    """The requests that the file of the use of keys counts; the file must be whole. 0: there is none."""
    path = os.path.join(state, "usage")
    if not os.path.exists(path):
        return 0
    with open(path, encoding="ascii") as f:
        lines = f.read().split("\n")
    assert lines[0] == "steno usage 1" and len(lines) == 3 and not lines[2] and lines[1].startswith("tester "), lines
    return int(lines[1].split()[2])


def try_to_save(state, n, kind, kill=False):
    """A server with one request more, whose nth call fails (or kills it) while it ends. Returns (whether the call was made,
    the log)."""
    b = Broken()
    b.d.cmd += ["--set", f"server.state={state}"]
    try:
        d = b.d.__enter__()
        before = json.loads(d.request("GET", "/v1/usage", headers=HEADERS)[2])["requests"]
        assert before == saved_requests(state), before
        assert d.request("POST", "/v1/transcribe", WAV, HEADERS)[0] == 200
        d.wait_idle()
        b.fail(kind, n, kill=kill)
        d.proc.send_signal(signal.SIGTERM)
        code = d.proc.wait(60 * SLOW)
        reached = b.mend() <= 0
        assert code == (-signal.SIGKILL if kill and reached else 0), (code, d.output()[-2000:])
        return reached, d.output()
    finally:
        d.log.close()
        b.close()


@case
def the_file_of_the_use_of_keys_is_whole_whatever_fails(_):
    """Each call that the end of the process makes fails, or kills it: the file has the old counts or the new ones, and the
    next process goes on from them."""
    with tempfile.TemporaryDirectory(prefix="steno-state-") as state:
        told = 0
        for kind, kill in ((DISK, False), (DESCRIPTOR, False), (DISK, True)):
            for n in range(1, 60):
                before = saved_requests(state)
                reached, log = try_to_save(state, n, kind, kill)
                after = saved_requests(state)
                assert after in (before, before + 1), (kind, kill, n, before, after)
                lost = after == before
                if not kill:
                    assert lost == (f"usage of keys is not saved: {state}/usage" in log), (kind, n, before, after, log[-2000:])
                    assert "usage.new" not in os.listdir(state), (kind, n)
                told += lost
                if not reached:
                    assert not lost, (kind, kill, n)
                    break
            assert n < 59, (kind, kill)
        assert told >= 9, told  # open, truncate, write, sync, rename: each failed and was killed


@case
def the_use_of_keys_is_saved_later_when_it_could_not_be_saved(_):
    b = Broken()
    state = os.path.join(b.folder, "state")
    os.mkdir(state)
    os.mkdir(os.path.join(state, "usage.new"))  # the new file cannot be made
    b.d.cmd += ["--set", f"server.state={state}"]
    try:
        with b.d as d:
            assert d.request("POST", "/v1/transcribe", WAV, HEADERS)[0] == 200
            b.sleep(31)
            d.wait_idle()
            assert eventually(lambda: "usage of keys is not saved" in d.output(), 120)  # the thread has slept up to 30 s
            os.rmdir(os.path.join(state, "usage.new"))
        assert saved_requests(state) == 1 and d is not None
    finally:
        b.close()


sys.exit(tap(None))
