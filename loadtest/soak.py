#!/usr/bin/env python3
"""Runs mixed clients against a server of its own for some minutes, then checks its memory, descriptors, latency and
metrics.

    soak.py [--minutes M] [--growth MIB] [--slope MIB] [--model DIR] [--reload S] [--drift TIMES]

Clients: real-time streams in six encodings, some of which hang up in the middle; streams at full
speed; uploads; and, one after the other, connections that break off in the handshake, in the head, in
a body, in a message. Every S seconds (20) the server gets SIGHUP: sessions end on the model that they
began with, and new ones begin on the reloaded model.

With a model of family whisper the clients speak sentences (soak_speech.py): live with partials in our own
dialect, Deepgram's, vosk's and OpenAI Realtime's; uploads of short recordings and of one of minutes, in
OpenAI's form (stream=true, vad_filter, times of words) and ours (batched). What they must hear is recorded
before the run. Stable text must stay, deltas must add up, and times of words must be in order.

Checked over the course of the run (tests/integration/test_soak.py shows what the checks find):
- memory: the minimum of the last quarter against that of the second (the first warms up; the minimum,
  because two generations of the model exist for a while after each reload), and the slope of its
  floor in the second half;
- descriptors: as many at the end as at the beginning;
- latency: the mean of partials in the last quarter against the second; likewise the processor time per
  second of audio. Other load on the machine moves the first a lot and the second a little, so the
  bounds are wide, and a mean below a tenth of a second is no drift.
Checked at its end:
- every session that was not cut has the right transcript;
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
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
import wave

from soak_clients import LONG, Broken, break_off, leave_running
from soak_speech import SPEECH, Speech, judge_speech

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WAV = os.path.join(ROOT, "tests/data/digits.wav")
B = os.path.join(ROOT, os.environ.get("B", "build/release"))
OUT = os.path.join("build/load", os.path.basename(B))  # soaks of two builds may run side by side
THREAD = "thread" in os.path.basename(B)
THREAD_HEAP = range(0x7b0000000000, 0x7c0000000000)  # ThreadSanitizer's allocator (compiler-rt, tsan_platform.h, x86-64)


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

    def family(self):
        """Of the default model."""
        return re.search(r'^steno_model_info{.*family="(\w*)"', self.get("/metrics"), re.M)[1]

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


class Digits:
    """Clients of the shipped model: all say digits.wav. Where `short`, those who say it as fast as they can say only its beginning: what sanitizers
    look for is in the beginnings and ends of sessions, not in the sums between them."""

    def __init__(self, server, users, short):
        self.server, self.users = server, users
        self.fast, self.think = (f"{OUT}/soak-short.wav", "600") if short else (WAV, "300")

    def prepare(self):
        if self.fast == WAV:
            return  # the transcript is beside the recording
        with wave.open(WAV) as whole, wave.open(self.fast, "wb") as out:
            out.setparams(whole.getparams())
            out.writeframes(whole.readframes(int(2.28 * whole.getframerate())))  # a pause
        with open(f"{OUT}/soak-short.txt", "w", encoding="ascii") as out:
            out.write("four two seven\n")

    def start(self, seconds):
        return [start_load(self.server, "streams", seconds, "--users", str(self.users), "--encodings", "s16le,f32le,mulaw,alaw,wav,opus",
                           "--drop", "20", "--think-ms", "200", WAV),
                start_load(self.server, "fast", seconds, "--users", "2", "--fast", "--think-ms", self.think, self.fast),
                start_load(self.server, "uploads", seconds, "--users", "2", "--think-ms", self.think, self.fast)]

    def join(self):
        pass

    def summaries(self):
        return [json.load(open(f"{OUT}/soak-{x}.json", encoding="utf-8")) for x in ("streams", "fast", "uploads")]


def start_load(server, name, seconds, *options):
    kind = "http" if name == "uploads" else "ws"
    path = "/v1/transcribe" if name == "uploads" else "/v1/stream"
    return subprocess.Popen([f"{B}/loadtest/steno-load", "--label", name, "--url", f"{kind}://{server.host}:{server.port}{path}",
                             "--seconds", str(seconds), "--json", f"{OUT}/soak-{name}.json", *options])


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


def api_of(figures):
    """The label `api` of metrics. steno-load does not know it."""
    return figures.get("api", "transcribe" if figures["label"] == "uploads" else "stream")


def judge_metrics(judge, m, loads, broken, longest=20.0):
    """loads: figures of the clients. longest: s of the longest recording that a client may cut."""
    count = {}
    for k, v in m.items():
        if r := re.match(r'steno_sessions_total{api="(\w+)",result="(\w+)"}', k):
            count[r[1], r[2]] = v
    judge(not busy(m), f"nothing is active, waiting or busy any more {busy(m)}")
    judge_books(judge, m)
    others = {"stream": broken.streams, "transcribe": broken.uploads}
    for api in sorted({api_of(x) for x in loads}):
        group = [x for x in loads if api_of(x) == api]
        done, cut, late = sum(x["ok"] + x["wrong"] for x in group), sum(x["dropped"] for x in group), sum(x.get("late", 0) for x in group)
        well = count.get((api, "ok"), 0)
        judge(done <= well <= done + late, f"{api}: {well:.0f} ended well by the server's count, {done} by the clients'"
              + (f", {late} left after all was sent" if late else ""))
        gone = sum(v for (a, result), v in count.items() if a == api and result != "ok")
        away = cut + others.get(api, 0)
        judge(gone + well == done + away if late else gone == away, f"{api}: {gone:.0f} were cut by the server's count, {cut} as planned and {others.get(api, 0)} broken off by the clients'")
        sent = sum(x["audio_seconds"] for x in group)
        got = m[f'steno_audio_received_seconds_total{{api="{api}"}}']
        slack = (broken.spoken * 1.3 if api == "stream" else 0) + longest * cut + 1e-3 * (done + cut)
        judge(abs(got - sent) <= slack, f"audio of {api}: {got:.0f} s by the server's count, {sent:.0f} s sent, {away} sessions were cut")


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


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--minutes", type=float, default=3)
    ap.add_argument("--growth", type=float, help="MiB of memory growth allowed after the warm-up; default 1, or 2 for runs below "
                    "20 minutes, whose second quarter is within the first five; with AddressSanitizer 24 (its quarantine), with ThreadSanitizer 24 (measured: 1). "
                    "With Whisper, whose uploads of minutes take 100 MiB for seconds, 24, or 64 for runs below 10 minutes and under sanitizers "
                    "(measured: -9 in 18 minutes, 23 in 3 with AddressSanitizer)")
    ap.add_argument("--slope", type=float, help="MiB a minute by which its floor may rise in the second half; default 1, with "
                    "AddressSanitizer 4 (measured: 0.1 to 0.7), with ThreadSanitizer 4 (measured: -0.5 to 0.8); with Whisper 4, or 16 for runs "
                    "below 10 minutes and under sanitizers (measured: -0.8 in 18 minutes, 3.4 in 8, 4.5 in 3 with ThreadSanitizer)")
    ap.add_argument("--model", help="directory; the digits of the shipped model, or any speech if it is of family whisper")
    ap.add_argument("--audio", default=SPEECH, help="with Whisper: a folder of WAVs (mono, 16 bits) beside the recording of the repository")
    ap.add_argument("--users", type=int, help="real-time streams; default 16, under sanitizers 8; with Whisper 6 and 2")
    ap.add_argument("--uploaders", type=int, help="with Whisper: users who upload in turn all kinds of requests; default 2, under sanitizers 1")
    ap.add_argument("--wer", type=float, default=5, help="with Whisper: percent of words of streams with partials that may differ; default 5")
    ap.add_argument("--reload", type=float, help="s between two SIGHUPs; 0: none; default 20, with Whisper 45")
    ap.add_argument("--drift", type=float, default=4, help="limit of the growth of the latency of partials, as a factor; default 4")
    args = ap.parse_args()
    os.chdir(ROOT)
    os.makedirs(OUT, exist_ok=True)
    sanitized = os.path.basename(B) != "release"
    seconds = 60 * args.minutes
    server = Server(args.model)
    speech = server.family() == "whisper"
    coarse = sanitized or args.minutes < 10
    growth = args.growth or ((64 if coarse else 24) if speech else 24 if sanitized else 1 if args.minutes >= 20 else 2)
    slope = args.slope or ((16 if coarse else 4) if speech else 4 if sanitized else 1)
    # a cost that grows in proportion to all past sessions is 2.3 times as high in the last quarter
    cpu_drift = 3 if sanitized else 2
    every = args.reload if args.reload is not None else 45 if speech else 20
    if speech:
        clients = Speech(server, args.model, B, OUT, args.users or (2 if sanitized else 6), args.uploaders or (1 if sanitized else 2),
                         args.audio, long_seconds=30 if sanitized else 180)
    else:
        clients = Digits(server, args.users or (8 if sanitized else 16), sanitized)
    clients.prepare()
    known = server.metrics()  # what the preparation counted is not the run's
    fds0 = server.descriptors()
    stop, broken = threading.Event(), Broken()
    loads = clients.start(seconds)
    breaker = threading.Thread(target=break_off, args=(server, stop, broken))
    breaker.start()
    end = time.time() + seconds
    points, reloads = watch(server, end, every)
    rcs = wait_clients(loads, end)
    clients.join()
    stop.set()
    breaker.join()
    m = wait_quiet(server, reloads)
    m |= {k: v - known.get(k, 0) for k, v in m.items() if re.match(r"steno_(sessions|audio)_\w*total", k)}
    for _ in range(10 * LONG):
        if server.descriptors() <= fds0:
            break
        time.sleep(0.1)
    fds1, reloaded = server.descriptors(), server.reloaded()
    with open(f"{OUT}/soak-points.json", "w", encoding="utf-8") as f:
        json.dump(points, f, indent=0)
    judge = Judge()
    figures = clients.summaries()
    judge_course(judge, points, growth, slope, args.drift, cpu_drift, every or 20)
    judge(fds1 <= fds0, f"descriptors: {fds0} at the beginning, at most {max(p['descriptors'] for p in points)}, {fds1} at the end")
    judge(reloaded == reloads, f"reloads: {reloaded:.0f} of {reloads} loaded the model again")
    judge(not any(rcs), f"clients ended with {rcs}")
    if speech:
        judge_speech(judge, figures, args.wer)
    judge_metrics(judge, m, figures, broken, clients.long.seconds if speech else 20.0)
    left = leave_running(server, 3)
    judge_end(judge, server, len(left))
    print(f"soak: {'FAILED' if judge.bad else 'ok'}, {args.minutes:g} minutes")
    print(f"{judge.good} passed, {judge.bad} failed")
    sys.exit(bool(judge.bad))


if __name__ == "__main__":
    main()
