"""A stenod on a free port, and TAP: the common parts of all tests of the running server.

    from daemon import Stenod, tap, case
    with Stenod("limits.sessions=2") as d:
        d.get("/healthz")

A client may have a reply before the server has counted, logged and closed what belongs to it. A test that checks
any of that must wait: wait_idle() for counters of sessions, becomes() for one value, eventually() for the rest.
"""
import contextlib
import glob
import http.client
import io
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import wave
from typing import NamedTuple

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))  # recorded data, where it is
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
SAN = os.environ.get("STENO_SAN", "")
os.environ.setdefault("STENO_DATA", os.path.join(BUILD, "data"))  # not the models that this user has fetched
SLOW = 8 if SAN else 1  # sanitizers are slower by about this factor
DIGITS = os.path.join(ROOT, "tests", "data", "digits.wav")
with open(os.path.join(ROOT, "tests", "data", "digits.txt"), encoding="utf-8") as _f:
    DIGITS_TEXT = _f.read().strip()


def keep_measured(folder):
    """Let daemons take what others have measured of a model's speed, though the machine was busy: else each would measure again when it
    starts, which is half of its start."""
    for name in glob.glob(os.path.join(folder, "*.json")):
        with contextlib.suppress(FileNotFoundError), open(name, encoding="ascii") as f:
            text = f.read()
            if '"quiet": false' in text:
                with open(f"{name}.{os.getpid()}", "w", encoding="ascii") as new:
                    new.write(text.replace('"quiet": false', '"quiet": true'))
                os.replace(new.name, name)


class Stenod:
    """Starts in `with`. Ends with SIGTERM and checks for exit status 0 and no sanitizer report."""

    def __init__(self, *settings, args=(), cpu=None):
        """cpu: level of the kernels, for tests in which recognition must be slow."""
        self.cmd = [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", *args]
        for s in settings:
            self.cmd += ["--set", s]
        # most tests must not depend on the capacity of a loaded machine or of a sanitizer build
        self.env = {} if re.search(r"pool\.(capacity|calibration)=", " ".join(settings)) else {"STENO_POOL_CAPACITY": "256"}
        self.cpu = {"STENO_CPU": cpu} if cpu else {}
        self.proc = None

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", prefix="stenod-")
        keep_measured(os.path.join(BUILD, "calibration"))
        env = {"STENO_POOL_CALIBRATION": os.path.join(BUILD, "calibration"), **self.env, **os.environ, **self.cpu}
        self.proc = subprocess.Popen(self.cmd, stderr=self.log, cwd=ROOT, env=env)
        deadline = time.monotonic() + 60 * SLOW
        while time.monotonic() < deadline:
            m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.output())
            if m:
                self.port = int(m.group(1))
                if self.status("/readyz") == 200:
                    return self
            if self.proc.poll() is not None:
                break
            time.sleep(0.05)
        self.proc.kill()
        raise RuntimeError("stenod did not become ready:\n" + self.output())

    def __exit__(self, kind, value, trace):
        if self.proc.poll() is None:
            if kind is None and not eventually(self.adds_up):
                self.proc.kill()
                raise AssertionError(f"the books of sessions and audio do not balance: {self.unbalanced()}\n{self.output()}")
            code = self.terminate()
            if kind is None and code != 0:
                raise AssertionError(f"stenod exited with {code}:\n{self.output()}")
        if kind is None and self.proc.returncode == 0:
            self.check_totals()
        if kind is not None:
            sys.stderr.write(self.output()[-4000:])
        self.log.close()

    def output(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def terminate(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            return self.proc.wait(60 * SLOW)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            raise AssertionError("stenod did not end on SIGTERM:\n" + self.output())

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self):
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body bytes)"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120 * SLOW)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()

    def get(self, path):
        return self.request("GET", path)

    def status(self, path):
        try:
            return self.get(path)[0]
        except OSError:
            return 0

    def metric(self, name):
        """The value of one series, by its full name with labels in any order. None if it is absent."""
        want = re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})?$", name)
        labels = set(filter(None, (want.group(2) or "").split(",")))
        for line in self.get("/metrics")[2].decode().splitlines():
            m = re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$", line)
            if m and m.group(1) == want.group(1) and labels == set(filter(None, (m.group(2) or "").split(","))):
                return float(m.group(3))
        return None

    def becomes(self, name, value):
        """Wait until the series has the value. Fails if that does not happen."""
        assert eventually(lambda: self.metric(name) == value), f"{name} is {self.metric(name)}, not {value}"

    def wait_idle(self):
        """Wait until every session whose reply was read has been counted; counting is the last action of a session.
        Returns self: d.wait_idle().metric(name)."""
        active = re.compile(r"^steno_sessions_active\{.*\} (?!0$).*", re.M)
        assert eventually(lambda: not active.search(self.get("/metrics")[2].decode())), active.findall(self.get("/metrics")[2].decode())
        return self

    def unbalanced(self):
        """By api, the remainders of the session counters and audio counters: [started - ended - active, audio that
        came - recognized - dropped], where one of them is not 0. One page is not a snapshot, so remainders may
        exist for a moment."""
        books = {}
        status, _, page = self.get("/metrics")
        if status != 200:
            return books
        for line in page.decode().splitlines():
            m = re.match(r"steno_(sessions|audio)_(\w+)\{api=\"(\w+)\".*\} (\S+)$", line)
            if not m or m.group(2) == "decode_errors_total":
                continue
            book = books.setdefault(m.group(3), [0.0, 0.0])
            sign = 1 if m.group(2) in ("started_total", "received_seconds_total") else -1
            book[m.group(1) == "audio"] += sign * float(m.group(4))
        assert len(books) == 15, books
        return {api: book for api, book in books.items() if book[0] or abs(book[1]) > 1e-6}

    def check_totals(self):
        """The totals in the log at the end: each session was counted once, however it ended, and so was its audio."""
        if "notice: stopped" not in self.output():
            return  # its log is elsewhere, or its disk is full
        m = re.search(r"stopped: (\d+) sessions started, (\d+) ended; (\S+) s of audio came, (\S+) were recognised, (\S+) dropped",
                      self.output())
        started, ended, came, recognised, dropped = map(float, m.groups())
        assert started == ended and abs(came - recognised - dropped) < 0.002, m.group(0)  # to the printed thousandth

    def adds_up(self):
        """Whether no remainder is left, or the page cannot be read because the server has no descriptor left or is
        stopping."""
        try:
            return not self.unbalanced()
        except (OSError, http.client.HTTPException):
            return True

    def rss(self):
        """Resident memory, MiB."""
        with open(f"/proc/{self.proc.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def processor_seconds(self):
        """Processor time that it has used so far."""
        with open(f"/proc/{self.proc.pid}/stat", encoding="ascii") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))


def pcm(path=DIGITS):
    """(samples as s16le bytes, rate) of a mono 16-bit WAV."""
    with wave.open(path, "rb") as w:
        assert w.getnchannels() == 1 and w.getsampwidth() == 2
        return w.readframes(w.getnframes()), w.getframerate()


def wav(samples, rate, channels=1):
    """A WAV of s16le bytes."""
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(channels)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(samples)
    return out.getvalue()


# For websockets.sync.client.connect. The client sends no pings: while the server does not read, a ping after audio
# would wait as long as the audio.
OPEN = dict(max_size=None, max_queue=None, compression=None, ping_interval=None, open_timeout=30 * SLOW, close_timeout=20 * SLOW, proxy=None)


class Conversation(NamedTuple):
    messages: list  # parsed if they are JSON
    code: int  # of the server's close frame
    reason: str
    headers: dict  # of the handshake's response


def until_closed(ws):
    """(messages, close code, reason): everything that the server sends until it closes."""
    from websockets.exceptions import ConnectionClosed
    out = []
    try:
        while True:
            m = ws.recv(timeout=120 * SLOW)
            out.append(json.loads(m) if m[:1] == "{" else m)
    except ConnectionClosed:
        return out, ws.protocol.close_code, ws.protocol.close_reason


@contextlib.contextmanager
def serves(talk):
    """A WebSocket server whose connections talk() serves, until they are closed. Gives its port."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.server import serve

    def guarded(ws):
        with contextlib.suppress(ConnectionClosed):  # the client has failed and says so
            talk(ws)
    with serve(guarded, "127.0.0.1", 0) as server:
        t = threading.Thread(target=server.serve_forever)
        t.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            t.join()


def converse(where, messages, **kw):
    """A session at the URL. All messages are sent (a dict as JSON, str as text, bytes as audio, a list of them as
    fragments of one message) while the replies are read, until the server closes."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
    with connect(where, **{**OPEN, **kw}) as ws:

        def send():
            try:
                for m in messages:
                    ws.send(json.dumps(m) if isinstance(m, dict) else m)
            except ConnectionClosed:
                pass  # the reader reports how the session ended
        t = threading.Thread(target=send)
        t.start()
        got = until_closed(ws)
        t.join()
        return Conversation(*got, ws.response.headers)


def raw(d, extra="", receive_buffer=0, query=""):
    """A socket after the handshake, to send what no library would send."""
    s = socket.socket()
    s.settimeout(60 * SLOW)
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.connect(("127.0.0.1", d.port))
    s.sendall(f"GET /v1/stream{query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{extra}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(1)
        assert got, head
        head += got
    # the example of RFC 6455, 1.3
    assert b"101" in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
    return s


def frame(op, data, mask=True, fin=True):
    n = len(data)
    head = bytes([(0x80 if fin else 0) | op])
    bit = 0x80 if mask else 0
    head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else \
        bytes([bit | 127]) + struct.pack(">Q", n)
    if not mask:
        return head + data
    key = b"\x01\x02\x03\x04"
    return head + key + bytes(b ^ key[i % 4] for i, b in enumerate(data))


def read_messages(s):
    """(text messages, close code) that the server sends until it closes. The code is 1006 without a close frame,
    1005 for a close frame without a code."""
    data, texts = b"", []
    try:
        while True:
            got = s.recv(65536)
            if not got:
                break
            data += got
    except ConnectionResetError:
        pass
    while len(data) >= 2:
        n, k = data[1] & 0x7F, 2
        if n == 126:
            n, k = struct.unpack(">H", data[2:4])[0], 4
        if data[0] & 0xF == 8:
            return texts, struct.unpack(">H", data[k:k + 2])[0] if n >= 2 else 1005
        if data[0] & 0xF == 1:
            texts.append(json.loads(data[k:k + n]))
        data = data[k + n:]
    return texts, 1006


def eventually(what, seconds=30.0):
    """Wait until what() is true. The time limit only matters if that never happens."""
    deadline = time.monotonic() + seconds * SLOW
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return False


_cases = []


def case(fn):
    """Decorator for a test. tap() runs the tests in the order of the file; a test has its function's name."""
    _cases.append(fn)
    return fn


def client(_name, _what, _version=None):
    """Decorator for a test of a client of others: its row of docs/clients.md (tests/clients.py). Without a version the
    name is a package of tests/requirements.txt."""
    return lambda fn: fn


class Skip(Exception):
    """The reason why a test cannot run here."""


def need(path, *more):
    """The path; skips the test where it, or one of more, is absent: data that lies beside the repository."""
    for p in (path, *more):
        if not os.path.exists(p):
            raise Skip(f"{p} is not there")
    return path


def need_descriptors(n):
    """This process may open n files from here on; skips the test where the system does not let it."""
    soft, hard = (n if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if hard < n:
        raise Skip(f"needs {n} descriptors of ulimit -n, which is {hard}")
    if soft < n:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


# A file that the programs of several runs share: "PROGRAM CASE" for each case that passed. Later runs leave it out.
PASSED = os.environ.get("STENO_PASSED", "")
PROGRAM = os.path.basename(sys.argv[0])


def not_passed(tests):
    """The tests that have not passed in an earlier run."""
    with contextlib.suppress(FileNotFoundError), open(PASSED, encoding="utf-8") as f:
        known = f.read().splitlines()
        return [t for t in tests if f"{PROGRAM} {t.__name__}" not in known]
    return list(tests)


def passes(n, test):
    print(f"ok {n} - {test.__name__}", flush=True)
    if PASSED:
        with open(PASSED, "a", encoding="utf-8") as f:
            f.write(f"{PROGRAM} {test.__name__}\n")


def run_in_folders(tests, absent=None):
    """Run each test with a folder of its own. absent: why some cannot run. Prints TAP; returns the exit status."""
    failed, tests = 0, not_passed(tests)
    for n, test in enumerate(tests, 1):
        if test in (absent or {}):
            print(f"ok {n} - {test.__name__} # SKIP {absent[test]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
                passes(n, test)
            except Skip as why:
                print(f"ok {n} - {test.__name__} # SKIP {why}", flush=True)
            except (AssertionError, OSError, KeyError) as e:
                failed += 1
                print(f"not ok {n} - {test.__name__}\n# {e}", flush=True)
    print(f"1..{len(tests)}{'' if tests else ' # SKIP all have passed'}")
    return failed > 0


def tap(*args):
    """Run the cases, each with args. Prints TAP; returns the exit status."""
    bad, cases = 0, not_passed(_cases)
    print(f"1..{len(cases)}{'' if cases else ' # SKIP all have passed'}", flush=True)
    only = sys.argv[1:]
    for i, fn in enumerate(cases, 1):
        name = fn.__name__
        if only and name not in only:
            print(f"ok {i} - {name} # SKIP not asked for", flush=True)
            continue
        try:
            fn(*args)
            passes(i, fn)
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}", flush=True)
        except Exception as why:
            bad += 1
            print(f"not ok {i} - {name}\n# {why!r}"[:2000])
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            sys.stdout.flush()
    return 1 if bad else 0
