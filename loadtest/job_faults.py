#!/usr/bin/env python3
"""The fault table of jobs: the daemon is killed (SIGKILL) at moments spread over the life of jobs, again and again, and
started again. Then everything that was acknowledged is counted: done, run again, lost; and what callbacks were told.

    loadtest/job_faults.py [--rounds 10] [--jobs 6] [--seed 1] [--check] [--redis]

With --redis four daemons share a redis-server (Debian's, appendfsync always). Two of the four are killed at each
moment and start again; in other rounds redis-server is killed, or two daemons are cut off from it until their leases
have ended. Without it this needs nothing but a built stenod. A callback receiver runs in this process: it fails the first try of every second
event, and checks signatures with Python's hmac. --check: exit status 1 unless nothing is lost."""
import argparse
import collections
import hashlib
import hmac
import http.client
import http.server
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import wave

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "integration"))
import redis_server  # pylint: disable=wrong-import-position
from daemon import SAN, keep_measured  # pylint: disable=wrong-import-position

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
DIGITS = os.path.join(ROOT, "tests", "data", "digits.wav")
with open(os.path.join(ROOT, "tests", "data", "digits.txt"), encoding="utf-8") as _f:
    TEXT = _f.read().strip()
SECRET = b"a secret of this test, and no other"
TIMES = 6 if SAN else 30  # the digits in a recording, which takes as long
POINTS = ("submitting", "acknowledged", "running", "ending", "callback")
FLEET, LEASE = 4, 5


class Receiver(http.server.ThreadingHTTPServer):
    """Takes callbacks. delivered: event id -> number of answers with 200."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.delivered, self.refused = collections.Counter(), set()
        self.jobs, self.events = {}, {}  # event id -> job; job -> event ids
        self.faults = []
        self.unmarked = 0  # repetitions of a try that had the same number
        self.tries = collections.defaultdict(set)
        self.slow = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # the daemon was killed in the middle


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        s = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event, nth = self.headers["Steno-Event-Id"], int(self.headers["Steno-Event-Try"])
        m = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", self.headers["Steno-Signature"] or "")
        good = m and hmac.compare_digest(m[2], hmac.new(SECRET, m[1].encode() + b"." + body, hashlib.sha256).hexdigest())
        fresh = m and abs(time.time() - int(m[1])) < 60
        told = json.loads(body)
        with s.lock:
            if not good or not fresh or told["event_id"] != event:
                s.faults.append((dict(self.headers), body[:200]))
            if nth in s.tries[event]:
                s.unmarked += 1
            s.tries[event].add(nth)
            fail = event not in s.refused and int(event[-1], 16) % 2
            s.refused.add(event)
            slow = s.slow
        time.sleep(slow)
        with s.lock:
            if not fail:
                s.delivered[event] += 1
                s.jobs[event] = told["job"]
                s.events.setdefault(told["job"]["id"], set()).add(event)
        self.send_response(503 if fail else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Daemon:
    def __init__(self, folder, *settings):
        self.folder, self.settings, self.proc, self.port = folder, settings, None, 0
        self.log = os.path.join(folder, "log")

    def start(self):
        keep_measured(os.path.join(BUILD, "calibration"))
        with open(self.log, "w", encoding="utf-8") as log:
            self.proc = subprocess.Popen(
                [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--set", f"jobs.dir={self.folder}/store",
                 *[x for s in self.settings for x in ("--set", s)]], stderr=log, cwd=ROOT,
                env={**os.environ, "STENO_DATA": os.path.join(self.folder, "data"), "STENO_POOL_CAPACITY": "64",
                     "STENO_POOL_CALIBRATION": os.path.join(BUILD, "calibration")})
        until = time.monotonic() + 120
        while time.monotonic() < until and self.proc.poll() is None:
            with open(self.log, encoding="utf-8") as f:
                m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", f.read())
            if m:
                self.port = int(m[1])
                return
            time.sleep(0.01)
        with open(self.log, encoding="utf-8") as f:
            raise RuntimeError(f.read())

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def json(self, path):
        status, body = self.request("GET", path)
        until = time.monotonic() + 60
        while status == 503 and time.monotonic() < until:  # its store is away
            time.sleep(0.1)
            status, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait(120) == 0


def recording(folder, times):
    path = os.path.join(folder, "long.wav")
    with wave.open(DIGITS, "rb") as r, wave.open(path, "wb") as w:
        w.setparams(r.getparams())
        frames = r.readframes(r.getnframes())
        for _ in range(times):
            w.writeframes(frames + bytes(2 * r.getframerate()))
    with open(path, "rb") as f:
        return f.read()


def submit(d, audio, callback, out):
    """Submit one job. out gets its id if it was acknowledged, else None."""
    try:
        status, body = d.request("POST", "/v1/jobs?callback=" + callback, audio, {"Content-Type": "audio/wav"})
        assert status in (202, 507), (status, body)
        out.append(json.loads(body)["id"] if status == 202 else None)
    except (OSError, http.client.HTTPException):
        out.append(None)


def states(d, names):
    return [d.json("/v1/jobs/" + n)["state"] for n in names]


def moment(point, d, receiver, names, rng):
    """Wait for a point in the life of jobs that were acknowledged."""
    until = time.monotonic() + 60
    if point in ("running", "ending"):
        want = "running" if point == "running" else "done"
        while time.monotonic() < until and want not in states(d, names):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.15))
    if point == "callback":
        before = len(receiver.tries)
        receiver.slow = 0.2
        while time.monotonic() < until and len(receiver.tries) == before:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.4))


def kill_at(point, targets, daemons, receiver, acknowledged, audio, args, rng, fault):
    """Submit jobs to the daemons in turn, and call fault(targets) at a point. Returns the number of submitted jobs."""
    callback = f"http://127.0.0.1:{receiver.server_port}/"
    out = []
    workers = [threading.Thread(target=submit, args=(daemons[i % len(daemons)], audio, callback, out)) for i in range(args.jobs)]
    for w in workers:
        w.start()
    if point == "submitting":
        time.sleep(rng.uniform(0, 1 if args.redis else 0.2))
        fault(targets)
    for w in workers:
        w.join()
    good = [n for n in out if n]
    acknowledged.update(good)
    if point != "submitting":
        looks = [d for d in daemons if d not in targets] or daemons
        moment(point, looks[0], receiver, good, rng)
        fault(targets)
    receiver.slow = 0
    return len(out)


def kill(daemons):
    for d in daemons:
        d.kill()


def account(name, kills, submitted, names, d, receiver, failures):
    """Wait until all jobs are over and told. Returns a row of the table."""
    until = time.monotonic() + 300
    while time.monotonic() < until and any(s in ("queued", "running") for s in states(d, names)):
        time.sleep(0.1)
    jobs = {n: d.json("/v1/jobs/" + n) for n in names}
    while time.monotonic() < until and any(d.json("/v1/jobs/" + n)["callback"]["state"] == "pending" for n in names):
        time.sleep(0.1)
    done = [n for n in names if jobs[n]["state"] == "done"]
    for n in done:
        text = d.request("GET", f"/v1/jobs/{n}/result?format=text")[1].decode()
        if text.split() != (TEXT + " ").split() * TIMES:
            failures.append(f"{n}: wrong text")
    gave_up = [n for n in names if jobs[n]["state"] == "failed" and jobs[n]["error"]["code"] == "gave_up"]
    told = [n for n in names if receiver.events.get(n)]
    twice = [n for n in names if len(receiver.events.get(n, ())) > 1]
    repeated = sum(receiver.delivered[e] > 1 for n in names for e in receiver.events.get(n, ()))
    lost = len(names) - len(done) - len(gave_up)
    failures += [f"{n} is lost: {jobs[n]}" for n in names if n not in done and n not in gave_up]
    if len(told) != len(names) or twice:
        failures.append(name)
    return (name, kills, submitted, len(names), len(done), sum(jobs[n]["tries"] > 1 for n in names), len(gave_up), lost,
            len(names) - len(told), repeated, len(twice))


def run_alone(args, folder, settings, receiver, audio, rng, failures):
    """One daemon with SQLite, killed again and again."""
    d = Daemon(folder, *settings)
    table = []
    for point in POINTS:
        submitted, names = 0, set()
        for _ in range(args.rounds):
            d.start()
            submitted += kill_at(point, [d], [d], receiver, names, audio, args, rng, kill)
        d.start()
        table.append(account(point, args.rounds, submitted, names, d, receiver, failures))
        d.stop()
    return table, [d]


def run_fleet(args, folder, settings, receiver, audio, rng, failures):
    """Four daemons with one Redis. What each round does is undone at its end."""
    table, daemons, cuts = [], [], []
    with redis_server.Redis() as redis:
        for i in range(FLEET):
            cuts.append(redis_server.Cut(redis.port))
            os.mkdir(os.path.join(folder, str(i)))
            daemons.append(Daemon(os.path.join(folder, str(i)), *settings, f"jobs.lease={LEASE}",
                                  f"jobs.queue=redis://:secret@127.0.0.1:{cuts[i].port}/3"))
            daemons[i].start()

        def kill_and_start(targets):
            kill(targets)
            for d in targets:
                d.start()

        def kill_redis(_):
            redis.kill()
            time.sleep(rng.uniform(0, 1))
            redis.start()

        def cut_off(targets):
            for d in targets:
                cuts[daemons.index(d)].open.clear()
            time.sleep(LEASE + 3)
            for d in targets:
                cuts[daemons.index(d)].open.set()

        rows = [(p + ", daemons", p, kill_and_start) for p in POINTS] + [(p + ", redis", p, kill_redis) for p in POINTS]
        rows = [r for r in rows + [("running, cut off", "running", cut_off)] if args.only in r[0]]
        for name, point, fault in rows:
            submitted, names = 0, set()
            for _ in range(args.rounds):
                for d in daemons:
                    d.json("/v1/jobs?limit=1")  # it has reached Redis again
                targets = rng.sample(daemons, 2)
                submitted += kill_at(point, targets, daemons, receiver, names, audio, args, rng, fault)
            table.append(account(name, args.rounds, submitted, names, daemons[0], receiver, failures))
        for d in daemons:
            d.stop()
        left = redis.cli("KEYS", "steno:audio:*"), redis.cli("HGETALL", "steno:open"), redis.cli("XLEN", "steno:runs")
        if left[1:] != ([], 0):
            failures.append(f"left in Redis: {left}")
    return table, daemons


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rounds", type=int, default=10, help="kills for each point")
    ap.add_argument("--jobs", type=int, default=6, help="jobs submitted at once before a kill")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--redis", action="store_true", help="four daemons and a redis-server")
    ap.add_argument("--only", default="", help="with --redis: only rows whose name has this text")
    ap.add_argument("--check", action="store_true")
    args = ap.parse_args()
    rng = random.Random(args.seed)
    folder = tempfile.mkdtemp(prefix="steno-faults-")
    with open(os.path.join(folder, "secret"), "wb") as f:
        f.write(SECRET + b"\n")
    receiver, failures = Receiver(), []
    settings = ("jobs.callback_hosts=127.0.0.1", "jobs.callback_private=yes", "jobs.callback_http=yes", "jobs.callback_retry=0.2",
                f"jobs.callback_secret={folder}/secret", "jobs.workers=2")
    table, daemons = (run_fleet if args.redis else run_alone)(args, folder, settings, receiver, recording(folder, TIMES), rng, failures)
    left = [x for d in daemons for kind in ("audio", "tmp") for x in os.listdir(os.path.join(d.folder, "store", kind))]
    print("| killed while | kills | submitted | acknowledged | done | run again | given up after 3 kills | lost | callbacks missing | "
          "callbacks repeated, marked | two events for one job |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in table:
        print("| " + " | ".join(map(str, row)) + " |")
    print("| all | " + " | ".join(str(sum(r[i] for r in table)) for i in range(1, len(table[0]))) + " |")
    print(f"\nwrong signatures: {len(receiver.faults)}; repetitions with the number of an earlier try: {receiver.unmarked}; "
          f"recordings left in the spool: {len(left)}")
    if receiver.faults or receiver.unmarked or left:
        failures.append("see above")
    if failures:
        print("\n".join(["failures:"] + failures))
    shutil.rmtree(folder)
    return 1 if args.check and failures else 0


if __name__ == "__main__":
    sys.exit(main())
