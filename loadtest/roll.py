#!/usr/bin/env python3
"""Two stenod behind haproxy (conf/haproxy/steno.cfg), or nginx (conf/nginx/steno.conf), are restarted one after the other, or one is killed, while live streams and
uploads run. Every stream is a client that comes back (docs/scale.md); its finals must have every word of its audio.

    loadtest/roll.py                              # 200 streams, rolling restart
    loadtest/roll.py --kill --streams 50          # kill -9 of one
    loadtest/roll.py --redis redis://127.0.0.1    # sessions in Redis, and a balancer that knows nothing of sessions
"""
import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import wave

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
OPEN = dict(max_size=None, compression=None, ping_interval=None, open_timeout=60, close_timeout=5, proxy=None)
CHUNK = 0.2  # s of audio in a message


def free_ports(n):
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in socks:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in socks]


class Daemon:
    def __init__(self, node, folder, port, agent, settings=()):
        self.node, self.port, self.agent = node, port, agent
        self.admin = os.path.join(folder, node + ".sock")
        self.log = os.path.join(folder, node + ".log")
        self.settings = [f"server.node={node}", f"server.agent_listen=127.0.0.1:{agent}", f"server.admin={self.admin}",
                         "server.trusted_proxies=127.0.0.1", "model.dir=" + MODEL, *settings]
        self.proc = None

    def start(self):
        cmd = [os.path.join(BUILD, "stenod"), "--listen", f"127.0.0.1:{self.port}"]
        for s in self.settings:
            cmd += ["--set", s]
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(cmd, stderr=log, cwd=ROOT, env={
                "STENO_POOL_CALIBRATION": os.path.join(BUILD, "calibration"), **os.environ})

    def ask(self, line):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.admin)
            s.settimeout(30)
            s.sendall(line.encode() + b"\n")
            got = b""
            while not got.endswith(b"\n"):
                got += s.recv(65536)
        return json.loads(got)

    def line(self):
        """What the agent port says."""
        with socket.create_connection(("127.0.0.1", self.agent), timeout=30) as s:
            return s.makefile("rb").readline().decode().strip()

    def up(self):
        if self.proc.poll() is not None:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                raise AssertionError(f"{self.node} does not run:\n{f.read()[-2000:]}")
        with contextlib.suppress(OSError):
            return self.line().startswith("ready up")
        return False

    def end(self, sig=signal.SIGTERM):
        self.proc.send_signal(sig)
        return self.proc.wait(90)

    def streams(self):
        metrics = self.ask("status")["metrics"]
        return int(sum(v for k, v in metrics.items() if k.startswith('steno_sessions_active{api="stream"')))


class Pair:
    """Daemons a and b, and haproxy with the shipped configuration at `port`."""

    def __init__(self, *settings, slowstart="", redis=""):
        """redis: URL of a store of sessions; then the balancer sends clients that come back anywhere."""
        self.dir = tempfile.TemporaryDirectory(prefix="steno-pair-")
        ports = free_ports(5)
        self.port = ports[4]
        self.redis = redis
        self.daemons = [Daemon(n, self.dir.name, ports[2 * i], ports[2 * i + 1], settings + self.of_store(n)) for i, n in enumerate("ab")]
        self.config = os.path.join(self.dir.name, "balancer.cfg")
        self.balancer = None
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(self.configuration(slowstart))

    def of_store(self, node):
        return (f"jobs.dir={self.dir.name}/jobs-{node}", f"jobs.queue={self.redis}") if self.redis else ()

    def shipped(self, name, changes):
        """A file of conf with each (old, new) replaced."""
        with open(os.path.join(ROOT, "conf", *name.split("/")), encoding="ascii") as f:
            text = f.read()
        for old, new in changes:
            assert old in text, f"conf/{name} has no '{old}' any more"
            text = text.replace(old, new)
        return text

    def configuration(self, slowstart):
        changes = [("maxconn 8000", "maxconn 2000"), ("bind :8080", f"bind 127.0.0.1:{self.port}"), (" agent-port 8081", ""), (" slowstart 5s", slowstart),
                   ("global\n", f"global\n    stats socket '{self.dir.name}/haproxy.sock' mode 600 level admin\n")]
        if self.redis:
            changes += [(f"use-server {d.node} if", f"# use-server {d.node} if") for d in self.daemons]
        return self.shipped("haproxy/steno.cfg", changes + [
            (f"server {d.node} 10.0.0.1{i}:8080", f"server {d.node} 127.0.0.1:{d.port} agent-port {d.agent}") for i, d in enumerate(self.daemons, 1)])

    program, arguments = "haproxy", ["-db", "-f"]

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self):
        exe = shutil.which(self.program, path=os.environ["PATH"] + ":/usr/sbin")
        for d in self.daemons:
            d.start()
        wait_for(lambda: all(d.up() for d in self.daemons), "the daemons")
        self.balancer = subprocess.Popen([exe, *self.arguments, self.config], stdout=subprocess.DEVNULL, stderr=open(self.config + ".log", "w"))
        wait_for(lambda: self.runs() and all(self.serves(d) for d in self.daemons), self.program)
        return self

    def __exit__(self, *_):
        if self.balancer:
            self.balancer.terminate()
            self.balancer.wait()
        for d in self.daemons:
            if d.proc and d.proc.poll() is None:
                d.proc.kill()
                d.proc.wait()
        self.dir.cleanup()

    def runs(self):
        if self.balancer.poll() is not None:
            with open(self.config + ".log", encoding="utf-8", errors="replace") as f:
                raise AssertionError(f"{self.program} does not run:\n{f.read()[-2000:]}")
        return True

    def serves(self, daemon):
        """Whether the balancer gives new clients to it."""
        s = self.servers()[daemon.node]
        return s["status"].startswith("UP") and s["agent_status"] == "L7OK"

    def drains(self, daemon):
        return self.servers()[daemon.node]["status"].startswith("DRAIN")

    def servers(self):
        """{a: its row of haproxy's statistics}"""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.dir.name, "haproxy.sock"))
            s.sendall(b"show stat\n")
            got = b""
            while more := s.recv(65536):
                got += more
            head, *rows = got.decode().lstrip("# ").strip().split("\n")
            rows = [dict(zip(head.split(","), r.split(","))) for r in rows]
            found = {r["svname"]: r for r in rows if r["pxname"] == "steno" and r["svname"] in "ab"}
            if len(found) == 2:
                return found
        return {n: {"status": "", "agent_status": ""} for n in "ab"}


class NginxPair(Pair):
    """The same behind nginx. It knows nothing of drains: it learns from refusals."""

    program, arguments = "nginx", ["-e", "stderr", "-c"]

    def configuration(self, slowstart):
        t = self.dir.name
        changes = [(f"10.0.0.1{i}:8080", f"127.0.0.1:{d.port}") for i, d in enumerate(self.daemons, 1)]
        text = self.shipped("nginx/steno.conf", [*changes, ("listen 8080;", f"listen 127.0.0.1:{self.port};")])
        temps = "".join(f'{k}_temp_path "{t}/{k}";\n' for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f'daemon off;\npid "{t}/pid";\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temps}{text}}}\n'

    def serves(self, daemon):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return daemon.up()
        return False

    def drains(self, daemon):
        return daemon.line() == "drain"


def wait_for(what, name, seconds=90):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"{name}: not within {seconds} s"
        time.sleep(0.1)


class Stream:
    """A live stream of audio at its own pace, by a client that comes back. It keeps the finals that the speaker's pauses ended. When its
    session is gone, it says again what came after the last of them; when only the connection is, it resumes."""

    def __init__(self, port, pcm, rate, resumable=True, stop_at=None):
        self.url, self.pcm, self.rate, self.resumable = f"ws://127.0.0.1:{port}/v1/stream", pcm, rate, resumable
        self.kept = []  # (text, end in samples)
        self.session, self.seq, self.base, self.nodes = None, -1, 0, []
        self.sessions = self.resumes = self.drains = self.said_again = 0
        self.began = None
        self.sent = 0  # samples of the whole audio
        self.over = False
        self.cut_at = stop_at  # s: lose the connection there once

    @property
    def text(self):
        return " ".join(t for t, _ in self.kept if t)

    def start_anew(self):
        last = self.kept[-1][1] if self.kept else 0
        self.said_again += self.sent - last
        self.base = self.sent = last
        self.session, self.seq = None, -1

    async def run(self):
        self.began = time.monotonic()
        deadline = self.began + len(self.pcm) / 2 / self.rate + 120
        while not self.over:
            assert time.monotonic() < deadline, "the stream does not end"
            try:
                await self.connection()
            except InvalidHandshake as why:
                status = getattr(getattr(why, "response", None), "status_code", 0)
                if self.session and status in (404, 409, 410):
                    self.start_anew()
                else:
                    await asyncio.sleep(0.2)
            except (OSError, ConnectionClosed, TimeoutError, EOFError):
                await asyncio.sleep(0.1)
        return self

    async def connection(self):
        query = f"?session_id={self.session}&seq={self.seq}" if self.session else \
            f"?sample_rate={self.rate}" + ("&resumable=true" if self.resumable else "")
        async with connect(self.url + query, **OPEN) as ws:
            ready = asyncio.Event()
            sender = asyncio.create_task(self.send(ws, ready))
            try:
                if not self.session:
                    self.sessions += 1
                await self.read(ws, ready)
            finally:
                sender.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                    await sender

    async def send(self, ws, ready):
        if self.session:
            await ready.wait()
        n = int(self.rate * CHUNK)
        total = len(self.pcm) // 2
        while self.sent < total:
            due = self.began + self.sent / self.rate
            await asyncio.sleep(max(0, due - time.monotonic()))
            await ws.send(self.pcm[2 * self.sent:2 * (self.sent + n)])
            self.sent = min(total, self.sent + n)
            if self.cut_at is not None and self.sent >= self.cut_at * self.rate and self.session:
                self.cut_at = None
                ws.transport.abort()
                return
        await ws.send('{"type":"end"}')

    async def read(self, ws, ready):
        async for m in ws:
            m = json.loads(m)
            self.seq = m.get("seq", self.seq)
            kind = m["type"]
            if kind == "ready":
                if self.resumable:
                    self.session = m["session_id"]
                self.nodes.append(m["session_id"])
                ready.set()
            elif kind == "resumed":
                self.resumes += 1
                self.said_again += max(0, self.sent - self.base - m["samples"])
                self.sent = self.base + m["samples"]
                ready.set()
            elif kind == "final":
                # "end" by a drain cuts speech anywhere: it is said again
                if m["reason"] != "end" or self.sent >= len(self.pcm) // 2:
                    self.kept.append((m["text"], self.base + int(m["end"] * self.rate)))
                    self.last_reason = m["reason"]
            elif kind == "end":
                if m["reason"] == "end":
                    self.over = True
                    return
                self.drains += 1
                if self.kept and self.last_reason == "end":  # all was sent, not all was heard: say the last part again
                    self.kept.pop()
                self.start_anew()
                return
            elif kind == "error":
                self.start_anew()
                return


async def upload(port, wav, until, counts):
    """Uploads one after the other, repeated where they were refused or cut off."""
    while time.monotonic() < until[0]:
        proc = await asyncio.create_subprocess_exec(
            "curl", "-s", "-o", "-", "-w", "\n%{http_code}", "--noproxy", "*", "--data-binary", "@" + wav,
            f"http://127.0.0.1:{port}/v1/transcribe?format=text", stdout=subprocess.PIPE)
        out, _ = await proc.communicate()
        text, _, code = out.decode().rpartition("\n")
        if code == "200":
            counts.setdefault(text.strip(), 0)
            counts[text.strip()] += 1
        else:
            counts["repeated"] = counts.get("repeated", 0) + 1
        await asyncio.sleep(0.2)


def audio(times, pause=1.5):
    """(samples of digits.wav said `times` times with pauses, rate, its text)"""
    path = os.path.join(ROOT, "tests", "data", "digits.wav")
    with wave.open(path, "rb") as w:
        pcm, rate = w.readframes(w.getnframes()), w.getframerate()
    with open(path.replace(".wav", ".txt"), encoding="ascii") as f:
        text = f.read().strip()
    return (pcm + bytes(2 * int(rate * pause))) * times, rate, " ".join([text] * times), path


async def roll(pair, after, pause):
    """Restart one after the other: out of the balancer, SIGTERM, start, back. Returns the exit statuses."""
    await asyncio.sleep(after)
    codes = []
    for d in pair.daemons:
        await asyncio.to_thread(d.ask, "drain")
        await asyncio.to_thread(wait_for, lambda d=d: pair.drains(d), "drain")
        await asyncio.sleep(pause)  # a real operator waits longer: short streams end by themselves
        codes.append(await asyncio.to_thread(d.end))
        await asyncio.to_thread(d.start)
        await asyncio.to_thread(wait_for, lambda d=d: d.up() and pair.serves(d), "restart")
    return codes


async def kill(pair, after):
    await asyncio.sleep(after)
    d = pair.daemons[0]
    await asyncio.to_thread(d.end, signal.SIGKILL)
    await asyncio.sleep(3)
    await asyncio.to_thread(d.start)
    return [-9]


async def run(pair, streams, times, uploads, killed, after=2.0):
    pcm, rate, text, wav = audio(times)
    all_streams = [Stream(pair.port, pcm, rate) for _ in range(streams)]
    until, counts = [time.monotonic() + 1e9], {}
    loaders = [asyncio.create_task(upload(pair.port, wav, until, counts)) for _ in range(uploads)]
    event = asyncio.create_task(kill(pair, after) if killed else roll(pair, after, 1.0))

    async def one(s, i):
        await asyncio.sleep(i * 2.0 / streams)
        return await s.run()
    done = await asyncio.gather(*(one(s, i) for i, s in enumerate(all_streams)))
    codes = await event
    until[0] = 0
    await asyncio.gather(*loaders)
    return {"streams": streams, "words": len(text.split()) * streams,
            "wrong": [s.text for s in done if s.text != text],
            "sessions": sum(s.sessions for s in done), "resumes": sum(s.resumes for s in done),
            "drains": sum(s.drains for s in done), "said_again_s": round(sum(s.said_again for s in done) / rate / streams, 2),
            "uploads": {k: v for k, v in counts.items() if k != "repeated"}, "repeated": counts.get("repeated", 0),
            "exit": codes, "moved": sum(len(set(re.findall(r"sess_(\w+)\.", " ".join(s.nodes)))) > 1 for s in done)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--streams", type=int, default=200)
    p.add_argument("--uploads", type=int, default=2)
    p.add_argument("--times", type=int, default=5, help="how often the recording of 7.3 s is said")
    p.add_argument("--nginx", action="store_true", help="nginx instead of haproxy")
    p.add_argument("--redis", default="", help="URL of a store of sessions; its balancer is haproxy")
    p.add_argument("--kill", action="store_true", help="kill -9 of one daemon instead of the rolling restart")
    a = p.parse_args()
    places = ("pool.capacity=100000", "limits.sessions=100000", "server.drain_timeout=60")
    with (NginxPair if a.nginx else Pair)(*places, redis=a.redis) as pair:
        got = asyncio.run(run(pair, a.streams, a.times, a.uploads, a.kill))
    print(json.dumps({**got, "wrong": len(got["wrong"])}))
    for text in got["wrong"][:5]:
        print("wrong:", text, file=sys.stderr)
    return bool(got["wrong"]) or len(got["uploads"]) > 1


if __name__ == "__main__":
    sys.exit(main())
