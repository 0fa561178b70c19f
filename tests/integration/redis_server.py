"""A redis-server for tests, with a password."""
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from daemon import SLOW, Skip, eventually


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis:
    """Starts in `with`. url names database 3; cli() asks it."""

    def __init__(self, kept=True):
        """kept: every commit is synced to disk (appendfsync always), so the data outlives a kill, and a busy disk delays every answer."""
        self.kept = kept
        if not shutil.which("redis-server"):
            raise Skip("redis-server is not installed")
        self.folder = tempfile.mkdtemp(prefix="steno-redis-")
        self.port, self.proc = free_port(), None
        self.url = f"redis://:secret@127.0.0.1:{self.port}/3"

    def start(self):
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log:
            self.proc = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", "secret",
                                          "--appendonly", "yes" if self.kept else "no", "--appendfsync", "always", "--save", "", "--dir", self.folder], stdout=log)
        if not eventually(self.answers, 30 * SLOW):
            self.kill()
            with open(os.path.join(self.folder, "log"), encoding="utf-8") as log:
                raise AssertionError("redis-server does not answer: " + log.read()[-2000:])
        return self

    def answers(self):
        try:
            return self.cli("PING") == "PONG"
        except (OSError, ValueError):
            return False

    def cli(self, *words):
        """The answer of one command; an error of Redis raises ValueError."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as s, s.makefile("rb") as f:
            for command in (("AUTH", "secret"), ("SELECT", "3"), words):
                s.sendall(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in command))
                answer = read(f)
        return answer

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder)


class Cut(threading.Thread):
    """A proxy in front of Redis. It can stop passing bytes, as a network that is cut does, or pass few per second."""

    def __init__(self, to, rate=None):
        super().__init__(daemon=True)
        self.to, self.open, self.rate = to, threading.Event(), rate
        self.open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            c, _ = self.listener.accept()
            try:
                s = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                c.close()
                continue
            for a, b in ((c, s), (s, c)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, a, b):
        try:
            while data := a.recv(65536):
                self.open.wait()
                if self.rate:
                    time.sleep(len(data) / self.rate)
                b.sendall(data)
        except OSError:
            pass
        for x in (a, b):
            try:
                x.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def read(f):
    """One value of RESP2."""
    line = f.readline().rstrip(b"\r\n")
    if not line:
        raise OSError("the connection was closed")
    kind, rest = line[:1], line[1:].decode()
    if kind == b"-":
        raise ValueError(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == "-1" else f.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return [read(f) for _ in range(int(rest))]
    return rest
