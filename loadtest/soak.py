#!/usr/bin/env python3
"""Mixed clients on a server of its own for some minutes; then its memory, descriptors, latency and
metrics are judged.

    soak.py [--minutes M] [--growth MIB] [--model DIR] [--reload S] [--drift TIMES]

Clients: streams at the pace of real time in six encodings, some of which hang up in the middle;
streams as fast as they go; uploads; and, one after the other, connections that break off in the
handshake, in the head, in a body, in a message. Every S seconds (20) the server gets SIGHUP: sessions
end on the model they began with, new ones begin on the one that was loaded again.

Judged:
- every session that was not cut has the right transcript (steno-load);
- memory: the least of the last quarter over the least of the second (the first warms up; the least,
  because two generations of the model are there for a while after each reload);
- descriptors: at the end as many as at the beginning;
- reloads: each of them loaded the model again;
- backlog: when the clients have gone nothing waits for a worker and none is busy;
- latency: the mean of partials in the last quarter, against the second. It is printed, and judged
  only where --drift names the most it may grow by: other load on the machine is no fault of ours;
- metrics: sessions by result add up to what clients counted, nothing active, audio seconds within
  what was sent; the server stops with status 0 and has printed no report of a sanitizer.

Python's standard library is all it needs. B names the build directory (build/release)."""
import argparse
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WAV = os.path.join(ROOT, "tests/data/digits.wav")
B = os.path.join(ROOT, os.environ.get("B", "build/release"))
OUT = os.path.join("build/load", os.path.basename(B))  # soaks of two builds may run side by side
LONG = 120  # s: nothing that works takes so long, however busy the machine is


class Server:
    def __init__(self, model):
        self.log = open(f"{OUT}/soak-stenod.log", "w+", encoding="utf-8")
        # what was freed stays in quarantine: with the default of 256 MB that would be all the growth there is
        env = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=4:thread_local_quarantine_size_kb=64:detect_leaks=1",
                   TSAN_OPTIONS=f"halt_on_error=0:suppressions={ROOT}/tests/tsan.supp",
                   LSAN_OPTIONS=f"suppressions={ROOT}/tests/lsan.supp")
        self.p = subprocess.Popen([f"{B}/stenod", "--listen", "127.0.0.1:0", "--log-level", "notice", "--set", "pool.capacity=4096",
                                   *(["--model", model] if model else [])], stderr=self.log, env=env)
        for _ in range(1200):
            text = open(self.log.name, encoding="utf-8").read()
            if m := re.search(r"listening on http://([\d.]+):(\d+)", text):
                self.host, self.port = m[1], int(m[2])
                break
            assert self.p.poll() is None, text
            time.sleep(0.05)
        for _ in range(1200):
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server is not ready")

    def get(self, path):
        return urllib.request.urlopen(f"http://{self.host}:{self.port}{path}", timeout=LONG).read().decode()

    def metrics(self):
        out = {}
        for line in self.get("/metrics").splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def reloaded(self):
        return sum(v - 1 for k, v in self.metrics().items() if k.startswith("steno_model_generation"))

    def stop(self):
        """Its exit status; None when it had to be killed."""
        self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(LONG)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return None

    def rss_mib(self):
        status = open(f"/proc/{self.p.pid}/status", encoding="ascii").read()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))


def start_load(server, name, seconds, *options):
    kind = "http" if name == "uploads" else "ws"
    path = "/v1/transcribe" if name == "uploads" else "/v1/stream"
    return subprocess.Popen([f"{B}/loadtest/steno-load", "--label", name, "--url", f"{kind}://{server.host}:{server.port}{path}",
                             "--seconds", str(seconds), "--json", f"{OUT}/soak-{name}.json", *options, WAV])


def break_off(server, stop, count):
    """Connections that end where they should not, one after the other."""
    rng = random.Random(1)
    upgrade = (b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rlbm8gbG9hZCB0ZXN0IQ==\r\n\r\n")
    start = b'{"type":"start","encoding":"s16le","sample_rate":8000}'

    def frame(op, body):
        size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + struct.pack(">H", len(body))
        return bytes([0x80 | op]) + size + b"\0\0\0\0" + body

    while not stop.wait(0.2):
        kind = rng.randrange(7)
        try:
            s = socket.create_connection((server.host, server.port), timeout=LONG)
            if kind == 0:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            elif kind == 1:
                s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + os.urandom(5000))
            elif kind == 2:
                s.sendall(upgrade[:60])
            else:
                s.sendall(upgrade)
                s.recv(4096)
                if kind >= 4:
                    s.sendall(frame(1, start) + frame(2, os.urandom(4000) * (1 + 4 * (kind == 6))))
                    count[0] += 1
                if kind == 5:
                    s.sendall(frame(2, os.urandom(50))[:20])
                if kind == 6:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            time.sleep(rng.random() * 0.2)
            s.close()
        except OSError as e:
            print(f"soak: break-off {kind}: {e}")


def watch(server, end, reload_every):
    """(points, reloads): a point is time, memory, descriptors, mean latency of partials."""
    points, reloads = [], 0
    before = server.metrics()
    t0 = last_hup = time.time()
    while time.time() < end:
        time.sleep(min(5, max(0.5, (end - t0) / 60)))
        now = server.metrics()
        n = now["steno_partial_latency_seconds_count"] - before["steno_partial_latency_seconds_count"]
        s = now["steno_partial_latency_seconds_sum"] - before["steno_partial_latency_seconds_sum"]
        points.append((time.time() - t0, server.rss_mib(), server.descriptors(), 1e3 * s / n if n else None))
        before = now
        # one at a time: signals that come while one is waiting are one signal
        if reload_every and time.time() - last_hup > reload_every and server.reloaded() >= reloads:
            server.p.send_signal(signal.SIGHUP)
            reloads += 1
            last_hup = time.time()
    return points, reloads


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else 0.0


class Judge:
    def __init__(self):
        self.good = self.bad = 0

    def __call__(self, ok, text):
        print(f"{'ok    ' if ok else 'FAILED'} {text}")
        self.good += bool(ok)
        self.bad += not ok


def busy(m):
    return [k for k, v in m.items() if v and k.startswith(("steno_sessions_active", "steno_queue_depth", "steno_workers_busy"))]


def wait_quiet(server, reloads):
    for _ in range(10 * LONG):
        m = server.metrics()
        if not busy(m) and server.reloaded() >= reloads:
            return m
        time.sleep(0.1)
    return server.metrics()


def wait_clients(loads, end):
    """Exit statuses; one that does not come to its end is killed."""
    for p in loads:
        try:
            p.wait(max(0, end - time.time()) + LONG)
        except subprocess.TimeoutExpired:
            p.kill()
    return [p.wait() for p in loads]


def judge_metrics(judge, m, loads, extra):
    streams = [x for x in loads if x["label"] != "uploads"]
    uploads = [x for x in loads if x["label"] == "uploads"]
    count = {}
    for k, v in m.items():
        if r := re.match(r'steno_sessions_total{api="(\w+)",result="(\w+)"}', k):
            count[r[1], r[2]] = v
    judge(not busy(m), f"nothing is active, waiting or at work any more {busy(m)}")
    done = sum(x["ok"] + x["wrong"] for x in streams)
    judge(count["stream", "ok"] == done, f"streams that ended well: {count['stream', 'ok']:.0f} by the server, {done} by clients")
    cut = sum(x["dropped"] for x in streams)
    gone = sum(v for (api, result), v in count.items() if api == "stream" and result != "ok")
    judge(cut <= gone <= cut + 2 * extra + 5,
          f"streams that were cut: {gone:.0f} by the server, {cut} planned and up to {extra} broken off with audio")
    done = sum(x["ok"] + x["wrong"] for x in uploads)
    judge(count["transcribe", "ok"] == done, f"uploads: {count['transcribe', 'ok']:.0f} by the server, {done} by clients")
    for api, group in (("stream", streams), ("transcribe", uploads)):
        sent = sum(x["audio_seconds"] for x in group)
        got = m[f'steno_audio_seconds_total{{api="{api}"}}']
        slack = extra * 1.3 + 20.0 * sum(x["dropped"] for x in group) + 1
        judge(got <= sent + slack and got >= sent - slack, f"audio of {api}: {got:.0f} s by the server, {sent:.0f} s sent")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--minutes", type=float, default=3)
    ap.add_argument("--growth", type=float, help="MiB of memory that may come after the warm-up; default 1, with AddressSanitizer 24 "
                    "(its quarantine), with ThreadSanitizer 128 (what it remembers of threads and of memory that was used before)")
    ap.add_argument("--model")
    ap.add_argument("--users", type=int, help="streams at the pace of real time; default 16, under sanitizers 8")
    ap.add_argument("--reload", type=float, default=20, help="s between two SIGHUPs; 0: none")
    ap.add_argument("--drift", type=float, help="most that the latency of partials may grow by, as a factor")
    args = ap.parse_args()
    os.chdir(ROOT)
    os.makedirs(OUT, exist_ok=True)
    variant = os.path.basename(B)
    growth = args.growth or (128 if "thread" in variant else 24 if variant != "release" else 1)
    seconds = 60 * args.minutes
    server = Server(args.model)
    fds0 = server.descriptors()
    stop, extra = threading.Event(), [0]
    n = args.users or (16 if variant == "release" else 8)
    loads = [start_load(server, "streams", seconds, "--users", str(n), "--encodings", "s16le,f32le,mulaw,alaw,wav,opus", "--drop", "20",
                        "--think-ms", "200"),
             start_load(server, "fast", seconds, "--users", "2", "--fast", "--think-ms", "300"),
             start_load(server, "uploads", seconds, "--users", "2", "--think-ms", "300")]
    breaker = threading.Thread(target=break_off, args=(server, stop, extra))
    breaker.start()
    end = time.time() + seconds
    points, reloads = watch(server, end, args.reload)
    rcs = wait_clients(loads, end)
    stop.set()
    breaker.join()
    m = wait_quiet(server, reloads)
    for _ in range(10 * LONG):
        if server.descriptors() <= fds0:
            break
        time.sleep(0.1)
    fds1, rss1, reloaded = server.descriptors(), server.rss_mib(), server.reloaded()
    rc = server.stop()
    log = open(server.log.name, encoding="utf-8").read()
    judge = Judge()
    q = max(1, len(points) // 4)
    early, late = points[q:2 * q] or points, points[-q:]
    rss0, rss = (min(p[1] for p in part) for part in (early, late))
    with open(f"{OUT}/soak-points.json", "w", encoding="utf-8") as f:
        json.dump([dict(zip(("seconds", "rss_mib", "descriptors", "partial_ms"), p)) for p in points], f, indent=0)
    judge(rss - rss0 <= growth, f"memory: {points[0][1]:.1f} MiB first, {rss0:.1f} in the second quarter, {rss:.1f} in the last "
          f"({rss - rss0:+.1f}, at most {growth:g}), {max(p[1] for p in points):.1f} at most, {rss1:.1f} at rest")
    judge(fds1 <= fds0, f"descriptors: {fds0} at the beginning, at most {max(p[2] for p in points)}, {fds1} at the end")
    judge(reloaded == reloads, f"reloads: {reloaded:.0f} of {reloads} loaded the model again")
    a, b = mean(p[3] for p in early), mean(p[3] for p in late)
    drift = f"partials: mean {a:.1f} ms in the second quarter, {b:.1f} in the last"
    if args.drift:
        judge(b <= args.drift * a, f"{drift} (at most {args.drift:g} times)")
    else:
        print(f"       {drift}")
    judge(not any(rcs), f"clients ended with {rcs}")
    judge_metrics(judge, m, [json.load(open(f"{OUT}/soak-{x}.json", encoding="utf-8")) for x in ("streams", "fast", "uploads")],
                  extra[0])
    reports = re.findall(r"(?:ERROR|WARNING): \w*Sanitizer.*|runtime error.*", log)
    judge(rc == 0 and not reports, f"the server stopped with status {rc}, {len(reports)} reports of sanitizers")
    for line in log.splitlines() if reports or rc else []:
        print("  " + line)
    print(f"soak: {'FAILED' if judge.bad else 'ok'}, {args.minutes:g} minutes")
    print(f"{judge.good} passed, {judge.bad} failed")
    sys.exit(bool(judge.bad))


main()
