#!/usr/bin/env python3
"""Runs mixed clients against a server of its own for some minutes, then checks its memory, descriptors, latency and
metrics.

    soak.py [--minutes M] [--growth MIB] [--slope MIB] [--model DIR] [--reload S] [--drift TIMES]

Clients: real-time streams in six encodings, some of which hang up in the middle; streams at full
speed; uploads; and, one after the other, connections that break off in the handshake, in the head, in
a body, in a message. Every S seconds (20) the server gets SIGHUP: sessions end on the model that they
began with, and new ones begin on the reloaded model.

Checked over the course of the run (tests/integration/test_soak.py shows what the checks find):
- memory: the minimum of the last quarter against that of the second (the first warms up; the minimum,
  because two generations of the model exist for a while after each reload), and the slope of its
  floor in the second half;
- descriptors: as many at the end as at the beginning;
- latency: the mean of partials in the last quarter against the second; likewise the processor time per
  second of audio. Other load on the machine moves the first a lot and the second a little, so the
  bounds are wide, and a mean below a tenth of a second is no drift.
Checked at its end:
- every session that was not cut has the right transcript (steno-load);
- reloads: each of them loaded the model again;
- backlog: after the clients are gone nothing waits for a worker, and no worker is busy;
- metrics: in the server's own counters, sessions started equal sessions ended, and audio received
  equals audio recognised plus audio dropped, exactly, for every api. Sessions equal those that the
  clients counted. Audio equals what was sent, except for sessions that were cut;
- the server stops with status 0 while streams run, has printed no sanitizer report, and its final
  counters add up with those streams included.

Needs only Python's standard library. B names the build directory (build/release)."""
import argparse
import json
import os
import random
import re
import signal
import socket
import statistics
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
THREAD = "thread" in os.path.basename(B)
THREAD_HEAP = range(0x7b0000000000, 0x7c0000000000)  # ThreadSanitizer's allocator (compiler-rt, tsan_platform.h, x86-64)
LONG = 120  # s: on the busiest machine, everything that works takes less


class Server:
    def __init__(self, model):
        self.log = open(f"{OUT}/soak-stenod.log", "w+", encoding="utf-8")
        # freed memory stays in quarantine; with the default of 256 MB that would hide all other growth
        env = dict(os.environ, STENO_DATA=f"{B}/data",  # not the models that this user has fetched
                   ASAN_OPTIONS="quarantine_size_mb=4:thread_local_quarantine_size_kb=64:detect_leaks=1",
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
        out["audio"] = sum(v for k, v in out.items() if k.startswith("steno_audio_received_seconds_total"))
        return out

    def reloaded(self):
        return sum(v - 1 for k, v in self.metrics().items() if k.startswith("steno_model_generation"))

    def stop(self):
        """Return its exit status; None if it had to be killed."""
        self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(LONG)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return None

    def rss_mib(self):
        """MiB resident. With ThreadSanitizer on x86-64: what its allocator holds in blocks up to 128 KiB, without its shadow,
        traces and symbols (it reads those when it first suppresses a race, and keeps them), which are not the server's."""
        pid, heap, own = self.p.pid, 0, False
        for line in open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") if THREAD else ():
            if m := re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line):
                own = int(m[1], 16) in THREAD_HEAP
            elif own and (m := re.match(r"Rss:\s+(\d+)", line)):
                heap += int(m[1])
        return (heap or int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status", encoding="ascii").read())[1])) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))


def start_load(server, name, seconds, *options):
    kind = "http" if name == "uploads" else "ws"
    path = "/v1/transcribe" if name == "uploads" else "/v1/stream"
    return subprocess.Popen([f"{B}/loadtest/steno-load", "--label", name, "--url", f"{kind}://{server.host}:{server.port}{path}",
                             "--seconds", str(seconds), "--json", f"{OUT}/soak-{name}.json", *options, WAV])


UPGRADE = (b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rlbm8gbG9hZCB0ZXN0IQ==\r\n\r\n")
START = b'{"type":"start","encoding":"s16le","sample_rate":8000}'


def frame(op, body):
    size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + struct.pack(">H", len(body))
    return bytes([0x80 | op]) + size + b"\0\0\0\0" + body


class Broken:
    """Sessions that were broken off. streams: handshake answered; spoken: those with audio; uploads."""
    streams = spoken = uploads = 0


def break_off(server, stop, count):
    """Make connections that end where they should not, one after the other."""
    rng = random.Random(1)
    while not stop.wait(0.2):
        kind = rng.randrange(7)
        try:
            s = socket.create_connection((server.host, server.port), timeout=LONG)
            if kind == 0:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            elif kind == 1:
                s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + os.urandom(5000))
                count.uploads += 1
            elif kind == 2:
                s.sendall(UPGRADE[:60])
            else:
                s.sendall(UPGRADE)
                answer = s.recv(4096)
                if not answer.startswith(b"HTTP/1.1 101"):
                    raise OSError(f"{answer!r}")
                count.streams += 1
                if kind >= 4:
                    s.sendall(frame(1, START) + frame(2, os.urandom(4000) * (1 + 4 * (kind == 6))))
                    count.spoken += 1
                if kind == 5:
                    s.sendall(frame(2, os.urandom(50))[:20])
                if kind == 6:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            time.sleep(rng.random() * 0.2)
            s.close()
        except OSError as e:
            print(f"soak: break-off {kind}: {e}")


POINT = ("seconds", "rss_mib", "descriptors", "partial_ms", "cpu_seconds", "audio_seconds")


def watch(server, end, reload_every):
    """Return (points, reloads). A point (POINT) is the server's state, and its work since the previous point."""
    points, reloads = [], 0
    before = server.metrics()
    t0 = last_hup = time.time()
    while time.time() < end:
        time.sleep(min(5, max(0.5, (end - t0) / 60)))
        now = server.metrics()
        n = now["steno_partial_latency_seconds_count"] - before["steno_partial_latency_seconds_count"]
        s = now["steno_partial_latency_seconds_sum"] - before["steno_partial_latency_seconds_sum"]
        cpu, audio = (now[x] - before[x] for x in ("process_cpu_seconds_total", "audio"))
        points.append(dict(zip(POINT, (time.time() - t0, server.rss_mib(), server.descriptors(), 1e3 * s / n if n else None, cpu, audio))))
        before = now
        # one at a time: signals that arrive while one is pending are merged
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
    """Return the exit statuses; a client that does not end is killed."""
    for p in loads:
        try:
            p.wait(max(0, end - time.time()) + LONG)
        except subprocess.TimeoutExpired:
            p.kill()
    return [p.wait() for p in loads]


def floor_slope(points, period):
    """Growth of memory in the second half of the points, in MiB a minute: the median of the slopes between the minimum of
    each stretch of `period` s and that of every later one (Theil-Sen), so that reloads do not count as growth."""
    half = points[len(points) // 2:]
    n = max(3, min(60, int((half[-1]["seconds"] - half[0]["seconds"]) / period)))
    parts = [half[i * len(half) // n:(i + 1) * len(half) // n] for i in range(n)]
    floor = [min((p["rss_mib"], p["seconds"]) for p in part) for part in parts if part]
    slopes = [60 * (b[0] - a[0]) / (b[1] - a[1]) for i, a in enumerate(floor) for b in floor[i + 1:] if b[1] > a[1]]
    return statistics.median(slopes) if slopes else 0.0


def judge_course(judge, points, growth, slope, drift, cpu_drift, period):
    """Check memory and latency over the run. points: POINT each, in order; growth: MiB; slope: MiB a minute; drift, cpu_drift:
    limits of the growth of latency and processor time, as factors; period: s between two reloads."""
    q = max(1, len(points) // 4)
    early, late = points[q:2 * q] or points, points[-q:]
    rss0, rss = (min(p["rss_mib"] for p in part) for part in (early, late))
    judge(rss - rss0 <= growth, f"memory: {points[0]['rss_mib']:.1f} MiB first, {rss0:.1f} in the second quarter, {rss:.1f} in the "
          f"last ({rss - rss0:+.1f}, at most {growth:g}), {max(p['rss_mib'] for p in points):.1f} at most")
    got = floor_slope(points, period)
    judge(got <= slope, f"memory: its floor goes up by {got:.2f} MiB a minute in the second half, at most {slope:g}")
    a, b = (mean(p["partial_ms"] for p in part) for part in (early, late))
    judge(b <= max(drift * a, 100), f"partials: mean {a:.1f} ms in the second quarter, {b:.1f} in the last (at most {drift:g} times, or 100)")
    a, b = (1e3 * sum(p["cpu_seconds"] for p in part) / max(1e-9, sum(p["audio_seconds"] for p in part)) for part in (early, late))
    judge(b <= cpu_drift * a, f"processor time: {a:.2f} ms a second of audio in the second quarter, {b:.2f} in the last (at most {cpu_drift:g} times)")


def judge_books(judge, m):
    """Check that the server's own counters add up, exactly except for the last printed digit."""
    for name, total, parts in (("sessions", "steno_sessions_started_total", ("steno_sessions_total",)),
                               ("audio", "steno_audio_received_seconds_total", ("steno_audio_seconds_total", "steno_audio_dropped_seconds_total"))):
        left = {}
        for k, v in m.items():
            if r := re.match(r'(\w+){api="(\w+)"', k):
                left[r[2]] = left.get(r[2], 0) + (v if r[1] == total else -v if r[1] in parts else 0)
        off = {api: x for api, x in left.items() if abs(x) > 1e-6}
        judge(left and not off, f"{name} by the server: " + ("all that began have ended" if name == "sessions" else "all received was "
              "recognised or dropped") + f", {sum(v for k, v in m.items() if k.startswith(total)):.10g}{f', but {off}' if off else ''}")


def judge_metrics(judge, m, loads, broken):
    streams = [x for x in loads if x["label"] != "uploads"]
    uploads = [x for x in loads if x["label"] == "uploads"]
    count = {}
    for k, v in m.items():
        if r := re.match(r'steno_sessions_total{api="(\w+)",result="(\w+)"}', k):
            count[r[1], r[2]] = v
    judge(not busy(m), f"nothing is active, waiting or busy any more {busy(m)}")
    judge_books(judge, m)
    for api, group, others in (("stream", streams, broken.streams), ("transcribe", uploads, broken.uploads)):
        spoken = broken.spoken if api == "stream" else 0
        done = sum(x["ok"] + x["wrong"] for x in group)
        judge(count[api, "ok"] == done, f"{api}: {count[api, 'ok']:.0f} ended well by the server's count, {done} by the clients'")
        cut = sum(x["dropped"] for x in group)
        gone = sum(v for (a, result), v in count.items() if a == api and result != "ok")
        judge(gone == cut + others, f"{api}: {gone:.0f} were cut by the server's count, {cut} as planned and {others} broken off by the clients'")
        sent = sum(x["audio_seconds"] for x in group)
        got = m[f'steno_audio_received_seconds_total{{api="{api}"}}']
        slack = spoken * 1.3 + 20.0 * cut + 1e-3 * len(group)
        judge(abs(got - sent) <= slack, f"audio of {api}: {got:.0f} s by the server's count, {sent:.0f} s sent, {cut + others} sessions were cut")


def judge_end(judge, server, running):
    """Send SIGTERM while `running` streams run: they are told to end, and counted too."""
    books = server.metrics()
    began = sum(v for k, v in books.items() if k.startswith("steno_sessions_started_total"))
    rc = server.stop()
    log = open(server.log.name, encoding="utf-8").read()
    reports = re.findall(r"(?:ERROR|WARNING): \w*Sanitizer.*|runtime error.*", log)
    judge(rc == 0 and not reports, f"the server stopped with status {rc}, {len(reports)} reports of sanitizers")
    last = re.search(r"stopped: (\d+) sessions started, (\d+) ended; ([\d.]+) s of audio came, ([\d.]+) were recognised, ([\d.]+) dropped", log)
    a = [float(x) for x in last.groups()] if last else [0, -1, 0, 0, 0]
    judge(a[0] == a[1] == began and abs(a[2] - a[3] - a[4]) < 0.002,
          f"after draining {running} streams: {last[0] if last else 'no final counters in the log'}")
    for line in log.splitlines() if reports or rc else []:
        print("  " + line)


def leave_running(server, n):
    """Start streams that then send nothing."""
    out = []
    for _ in range(n):
        s = socket.create_connection((server.host, server.port), timeout=LONG)
        s.sendall(UPGRADE)
        s.recv(4096)
        s.sendall(frame(1, START) + frame(2, os.urandom(4000)))
        s.recv(4096)  # ready
        out.append(s)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--minutes", type=float, default=3)
    ap.add_argument("--growth", type=float, help="MiB of memory growth allowed after the warm-up; default 1, or 2 for runs below "
                    "20 minutes, whose second quarter is within the first five; with AddressSanitizer 24 (its quarantine), with ThreadSanitizer 24 (measured: 1)")
    ap.add_argument("--slope", type=float, help="MiB a minute by which its floor may rise in the second half; default 1, with "
                    "AddressSanitizer 4 (measured: 0.1 to 0.7), with ThreadSanitizer 4 (measured: -0.5 to 0.8)")
    ap.add_argument("--model")
    ap.add_argument("--users", type=int, help="real-time streams; default 16, under sanitizers 8")
    ap.add_argument("--reload", type=float, default=20, help="s between two SIGHUPs; 0: none")
    ap.add_argument("--drift", type=float, default=4, help="limit of the growth of the latency of partials, as a factor; default 4")
    args = ap.parse_args()
    os.chdir(ROOT)
    os.makedirs(OUT, exist_ok=True)
    variant = os.path.basename(B)
    sanitized = variant != "release"
    growth = args.growth or (24 if sanitized else 1 if args.minutes >= 20 else 2)
    slope = args.slope or (4 if sanitized else 1)
    # a cost that grows in proportion to all past sessions is 2.3 times as high in the last quarter
    cpu_drift = 3 if sanitized else 2
    seconds = 60 * args.minutes
    server = Server(args.model)
    fds0 = server.descriptors()
    stop, broken = threading.Event(), Broken()
    n = args.users or (16 if variant == "release" else 8)
    loads = [start_load(server, "streams", seconds, "--users", str(n), "--encodings", "s16le,f32le,mulaw,alaw,wav,opus", "--drop", "20",
                        "--think-ms", "200"),
             start_load(server, "fast", seconds, "--users", "2", "--fast", "--think-ms", "300"),
             start_load(server, "uploads", seconds, "--users", "2", "--think-ms", "300")]
    breaker = threading.Thread(target=break_off, args=(server, stop, broken))
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
    fds1, reloaded = server.descriptors(), server.reloaded()
    with open(f"{OUT}/soak-points.json", "w", encoding="utf-8") as f:
        json.dump(points, f, indent=0)
    judge = Judge()
    judge_course(judge, points, growth, slope, args.drift, cpu_drift, args.reload or 20)
    judge(fds1 <= fds0, f"descriptors: {fds0} at the beginning, at most {max(p['descriptors'] for p in points)}, {fds1} at the end")
    judge(reloaded == reloads, f"reloads: {reloaded:.0f} of {reloads} loaded the model again")
    judge(not any(rcs), f"clients ended with {rcs}")
    judge_metrics(judge, m, [json.load(open(f"{OUT}/soak-{x}.json", encoding="utf-8")) for x in ("streams", "fast", "uploads")], broken)
    left = leave_running(server, 3)
    judge_end(judge, server, len(left))
    print(f"soak: {'FAILED' if judge.bad else 'ok'}, {args.minutes:g} minutes")
    print(f"{judge.good} passed, {judge.bad} failed")
    sys.exit(bool(judge.bad))


if __name__ == "__main__":
    main()
