"""Jobs in Redis, shared by several daemons: any answers for every job and any runs it. Daemons and Redis are killed
(SIGKILL), the network is cut or slow, workers hang, and Redis is full. Nothing acknowledged is lost, and each job has
one event for its callback, whose repetitions are marked. TAP."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from daemon import DIGITS_TEXT, SLOW, Stenod, case, eventually, tap
from job_web import BASE, CALLS, WAV, Web, longer, many
from redis_server import Cut, Redis


class Member(Stenod):
    """One of the daemons."""

    def __init__(self, redis, *settings, url=None, **kw):
        self.folder = tempfile.mkdtemp(prefix="steno-jobs-")
        super().__init__(f"jobs.dir={self.folder}", f"jobs.queue={url or redis.url}", "jobs.lease=6", *settings, **kw)

    def __exit__(self, *a):
        super().__exit__(*a)
        shutil.rmtree(self.folder, ignore_errors=True)

    def json(self, method, path, body=None, headers=None):
        status, head, text = self.request(method, path, body, headers)
        return status, head, json.loads(text) if text else None

    def submit(self, audio=WAV, query=""):
        status, _, job = self.json("POST", "/v1/jobs" + query, audio, {"Content-Type": "audio/wav"})
        assert status == 202, (status, job)
        return job["id"]

    def job(self, name):
        """A job. While the store is away the answer is 503; this asks again."""
        got = []
        assert eventually(lambda: got.append(self.json("GET", "/v1/jobs/" + name)) or got[-1][0] != 503, 30 * SLOW)
        assert got[-1][0] == 200, got[-1]
        return got[-1][2]

    def ends(self, name, state="done", seconds=60):
        assert eventually(lambda: self.job(name)["state"] not in ("queued", "running"), seconds * SLOW), self.job(name)
        assert self.job(name)["state"] == state, self.job(name)
        return self.job(name)

    def text(self, name):
        status, _, text = self.get(f"/v1/jobs/{name}/result?format=text")
        assert status == 200, (status, text)
        return text.decode()

    def kill(self):
        self.proc.kill()
        self.proc.wait()


@case
def any_daemon_answers_for_every_job():
    with Redis() as r, Member(r) as a, Member(r) as b:
        names = [d.submit() for d in (a, b) * 3] + [a.submit(b"no recording")]
        for n in names[:-1]:
            for d in (a, b):
                assert d.ends(n)["tries"] == 1 and d.text(n) == DIGITS_TEXT + "\n"
            assert " ".join(s["text"] for s in a.job(n)["segments"]) == DIGITS_TEXT
        assert b.ends(names[-1], "failed")["error"]["code"] == "invalid_data"
        page = b.json("GET", "/v1/jobs?limit=4")[2]
        rest = a.json("GET", "/v1/jobs?limit=4&after=" + page["jobs"][-1]["id"])[2]
        assert [j["id"] for j in page["jobs"] + rest["jobs"]] == names[::-1] and page["has_more"] and not rest["has_more"]
        assert [j["id"] for j in a.json("GET", "/v1/jobs?state=failed")[2]["jobs"]] == [names[-1]]
        assert a.json("DELETE", "/v1/jobs/" + names[0])[0] == 204 and b.json("GET", "/v1/jobs/" + names[0])[0] == 404
        assert a.json("GET", "/v1/jobs?after=" + names[0])[0] == 400
        assert b.metric('steno_jobs{state="done"}') == 5 and b.metric('steno_jobs{state="failed"}') == 1
        for d in (a, b):  # a run removes its copy after it has stored its end
            assert eventually(lambda d=d: not os.listdir(os.path.join(d.folder, "audio"))), os.listdir(os.path.join(d.folder, "audio"))


@case
def a_running_job_is_removed_by_another_daemon_and_quotas_are_of_all():
    with Redis() as r, Member(r, "pool.threads=1", "jobs.max=2", cpu="scalar") as a:
        slow = a.submit(longer(400))
        assert eventually(lambda: a.job(slow)["state"] == "running", 20 * SLOW)
        with Member(r, "pool.threads=1", "jobs.max=2", cpu="scalar") as b:
            late = b.submit(longer(400))
            status, _, error = a.json("POST", "/v1/jobs", WAV)
            assert status == 503 and error["error"]["code"] == "too_many_jobs", (status, error)
            assert a.json("DELETE", "/v1/jobs/" + late)[0] == 204
            a.ends(b.submit(longer(400), "?expires=1"), "expired")
            assert b.json("DELETE", "/v1/jobs/" + slow)[0] == 204 and a.job(slow)["state"] == "cancelled"
            assert a.json("GET", f"/v1/jobs/{slow}/result")[0] == 409
            assert eventually(lambda: a.metric('steno_sessions_active{api="job"}') == 0, 10 * SLOW)
            for d in (a, b):
                d.ends(d.submit())
        left = r.cli("KEYS", "steno:audio:*"), r.cli("HGETALL", "steno:open"), r.cli("XLEN", "steno:runs")
        assert left == ([], [], 0), left


@case
def each_key_has_its_own_jobs_and_its_turn():
    with Redis() as r, tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[a]\nkey = {'a' * 20}\n[b]\nkey = {'b' * 20}\n")
        f.flush()
        first, second = ({"Authorization": "Bearer " + 20 * c} for c in "ab")
        with Member(r, f"auth.keys={f.name}", "pool.threads=1", "jobs.workers=2", "jobs.per_key=8", cpu="scalar") as a:
            def submit(head, times):
                status, _, job = a.json("POST", "/v1/jobs", longer(times), head)
                assert status == 202, job
                return job["id"]
            mine = [submit(first, many(50)) for _ in range(8)]
            assert a.json("POST", "/v1/jobs", WAV, first)[0] == 429
            other = submit(second, 1)
            came = a.json("GET", "/v1/jobs/" + other, None, second)[2]["created"]
            assert a.json("GET", "/v1/jobs/" + other, None, first)[0] == 404 and a.json("DELETE", "/v1/jobs/" + other, None, first)[0] == 404
            assert eventually(lambda: a.json("GET", "/v1/jobs/" + other, None, second)[2]["state"] == "done", 60 * SLOW)
            turn = a.json("GET", "/v1/jobs/" + other, None, second)[2]["started"]
            started = [a.json("GET", "/v1/jobs/" + n, None, first)[2].get("started") or turn + 1 for n in mine]
            assert sum(t >= came for t in started) >= 4, (came, started)  # there was a queue
            assert sum(came <= t < turn for t in started) <= 3, (came, turn, started)  # the second key has not waited for all of it
            assert [j["id"] for j in a.json("GET", "/v1/jobs", None, second)[2]["jobs"]] == [other]
            for n in mine:
                assert a.json("DELETE", "/v1/jobs/" + n, None, first)[0] == 204


@case
def a_request_with_an_idempotency_key_may_come_again_to_another_daemon():
    with Redis() as r, Member(r) as a, Member(r) as b:
        def post(d, audio=WAV):
            status, head, job = d.json("POST", "/v1/jobs", audio, {"Idempotency-Key": "once"})
            return status, head.get("idempotency-replayed"), job.get("id") or job["error"]["code"]
        got, threads = [], []
        for d in (a, b) * 4:  # at once
            threads.append(threading.Thread(target=lambda d=d: got.append(post(d))))
            threads[-1].start()
        for t in threads:
            t.join()
        assert len({g[2] for g in got}) == 1 and {g[0] for g in got} == {202} and sum(g[1] is None for g in got) == 1, got
        name = got[0][2]
        assert post(b, WAV + b"x") == (422, None, "idempotency_key_reused")
        a.ends(name)
        assert post(b) == (202, "true", name) and a.json("DELETE", "/v1/jobs/" + name)[0] == 204
        assert r.cli("KEYS", "steno:once:*") == [] and r.cli("KEYS", "steno:audio:*") == []
        assert post(b, WAV + b"x")[:2] == (202, None)


@case
def a_killed_daemons_jobs_run_on_the_other_one():
    with Redis() as r, Member(r) as b:
        a = Member(r, "pool.threads=1", *CALLS, cpu="scalar")
        a.__enter__()  # pylint: disable=unnecessary-dunder-call
        names = [a.submit(longer(many(60))) for _ in range(4)]
        assert eventually(lambda: any(b.job(n)["state"] == "running" for n in names))
        a.kill()
        for n in names:
            assert b.ends(n)["tries"] <= 2
            assert b.text(n).count(DIGITS_TEXT) == many(60)


@case
def a_recording_that_kills_three_daemons_has_failed():
    with Redis() as r:
        name = None
        for n in range(1, 4):
            d = Member(r, "pool.threads=1", cpu="scalar")
            d.__enter__()  # pylint: disable=unnecessary-dunder-call
            name = name or d.submit(longer(1000))
            assert eventually(lambda d=d, n=n: d.job(name)["state"] == "running" and d.job(name)["tries"] == n, 30), d.job(name)
            d.kill()
        with Member(r) as d:
            assert d.ends(name, "failed")["error"]["code"] == "gave_up"


@case
def nothing_acknowledged_is_lost_while_daemons_and_redis_are_killed():
    with Redis() as r:
        Web.got.clear()
        Web.plan.clear()
        query = f"?callback={BASE}/"
        names, refused, submitted, stop = [], [], [0], threading.Event()
        daemons = [Member(r, *CALLS) for _ in range(2)]
        for d in daemons:
            d.__enter__()  # pylint: disable=unnecessary-dunder-call

        def submitter(k):
            while not stop.is_set():
                submitted[0] += 1
                try:
                    status, _, job = daemons[k].json("POST", "/v1/jobs" + query, WAV)
                    if status == 202:
                        names.append(job["id"])
                    else:
                        refused.append(status)
                except (OSError, http.client.HTTPException, ValueError, AttributeError):
                    pass  # a daemon that was killed, or has not started
                time.sleep(0.05)
        threads = [threading.Thread(target=submitter, args=(k,)) for k in (0, 1)]
        for t in threads:
            t.start()
        for i in range(6):
            time.sleep(0.7)
            assert eventually(lambda i=i: len(names) > 4 * i), (len(names), refused)  # what a fault may lose
            if i % 3 == 2:
                r.kill()
                time.sleep(0.3)
                r.start()
            else:
                daemons[i % 3].kill()
                d = daemons[i % 3] = Member(r, *CALLS)
                d.__enter__()  # pylint: disable=unnecessary-dunder-call
        stop.set()
        for t in threads:
            t.join()
        d = daemons[0]
        assert len(names) > 20 and set(refused) <= {507}, (len(names), refused)
        assert eventually(lambda: all(d.job(n)["state"] == "done" for n in names), 90 * SLOW), [d.job(n) for n in names if d.job(n)["state"] != "done"]
        for n in names:
            assert d.text(n) == DIGITS_TEXT + "\n"
        assert eventually(lambda: all(d.job(n)["callback"]["state"] == "delivered" for n in names), 90 * SLOW)
        events, tries = {}, set()
        for _, _, head, body in Web.got:
            events.setdefault(json.loads(body)["job"]["id"], set()).add(head["steno-event-id"])
            assert (head["steno-event-id"], head["steno-event-try"]) not in tries, head  # a repetition is marked
            tries.add((head["steno-event-id"], head["steno-event-try"]))
        assert all(len(events[n]) == 1 for n in names)
        again = sum(d.job(n)["tries"] > 1 for n in names)
        print(f"# kills of daemons 4, of redis 2: submitted {submitted[0]}, acknowledged {len(names)}, done {len(names)}, run again {again}, lost 0, "
              f"answered 507 {len(refused)}, callbacks {len(Web.got)}")
        for d in daemons:
            d.terminate()
            shutil.rmtree(d.folder)


@case
def a_cut_network_is_an_error_and_what_ran_behind_it_runs_elsewhere():
    with Redis() as r:
        cut = Cut(r.port)
        with Member(r, "pool.threads=1", url=f"redis://:secret@127.0.0.1:{cut.port}/3", cpu="scalar") as a:
            name = a.submit(longer(many(100)))
            assert eventually(lambda: a.job(name)["state"] == "running")
            cut.open.clear()
            with Member(r) as b:
                assert b.ends(name)["tries"] == 2
                status, _, error = a.json("POST", "/v1/jobs", WAV)
                assert status == 507 and "store of jobs" in error["error"]["message"], (status, error)
                status, _, error = a.json("GET", "/v1/jobs/" + name)
                assert status == 503 and error["error"]["code"] == "store_unavailable", (status, error)
                cut.open.set()
                assert eventually(lambda: a.json("GET", "/v1/jobs/" + name)[0] == 200, 30)
                assert a.job(name)["tries"] == 2 and a.text(name) == b.text(name)
                a.ends(a.submit())


@case
def a_worker_keeps_its_run_for_longer_than_the_lease_and_over_a_slow_link():
    with Redis() as r, Member(r, "pool.threads=1", *CALLS, url=f"redis://:secret@127.0.0.1:{Cut(r.port, 1000000).port}/3", cpu="scalar") as a:
        Web.got.clear()
        Web.plan.clear()
        audio = longer(many(300))  # takes the link longer than the lease, and the run too
        name = a.submit(audio, f"?callback={BASE}/")
        assert eventually(lambda: a.job(name)["state"] == "running", 60 * SLOW)
        began = time.monotonic()
        with Member(r, *CALLS) as b:
            job = b.ends(name, seconds=180)
            assert job["tries"] == 1 and b.text(name).count(DIGITS_TEXT) == many(300), job
            assert time.monotonic() - began > 6, "the run was shorter than the lease"
            assert eventually(lambda: b.job(name)["callback"]["state"] == "delivered", 60 * SLOW)
    assert [g[2]["steno-event-try"] for g in Web.got] == ["1"], Web.got


@case
def a_worker_that_hangs_loses_its_run_and_its_result_is_not_stored():
    with Redis() as r, Member(r, "pool.threads=1", *CALLS, cpu="scalar") as a:
        Web.got.clear()
        name = a.submit(longer(many(100)), f"?callback={BASE}/")
        assert eventually(lambda: a.job(name)["state"] == "running")
        a.proc.send_signal(signal.SIGSTOP)
        try:
            with Member(r, *CALLS) as b:
                job = b.ends(name)
                assert job["tries"] == 2 and b.text(name).count(DIGITS_TEXT) == many(100), job
                assert eventually(lambda: b.job(name)["callback"]["state"] == "delivered", 60 * SLOW)
                a.proc.send_signal(signal.SIGCONT)
                assert eventually(lambda: a.metric('steno_sessions_active{api="job"}') == 0, 60 * SLOW)
                assert a.job(name) == b.job(name) == {**job, "callback": a.job(name)["callback"]}
        finally:
            a.proc.send_signal(signal.SIGCONT)
        assert len(Web.got) == 1, Web.got
        status, _, job = a.json("POST", f"/v1/jobs/{name}/callback")
        assert status == 202 and job["id"] == name, (status, job)
        assert eventually(lambda: a.job(name)["callback"] == {**a.job(name)["callback"], "state": "delivered", "tries": 2}), a.job(name)
        assert [g[2]["steno-event-try"] for g in Web.got] == ["1", "2"] and len({g[2]["steno-event-id"] for g in Web.got}) == 1
        plain = a.submit()
        a.ends(plain)
        assert a.json("POST", f"/v1/jobs/{plain}/callback")[0] == 409 and a.json("POST", "/v1/jobs/job_none/callback")[0] == 404


@case
def a_run_that_ends_while_the_store_is_away_is_given_back_later():
    with Redis() as r, Member(r, "pool.threads=1", "jobs.timeout=3", cpu="scalar") as a:
        name = a.submit(longer(1000))
        assert eventually(lambda: a.job(name)["state"] == "running", 20 * SLOW)
        r.kill()
        time.sleep(4)  # its time is over, and nobody can be told
        r.start()
        seen = []  # it will run again, so one look has to show all of it
        assert eventually(lambda: seen.append(a.job(name)) or seen[-1].get("last_error", {}).get("code") == "timeout", 20 * SLOW), seen[-1]
        assert seen[-1]["tries"] == 1 and seen[-1]["state"] == "queued", seen[-1]


@case
def a_full_store_refuses_new_jobs_and_ends_those_it_has():
    with Redis() as r, Member(r, "pool.threads=1", cpu="scalar") as a:
        names = [a.submit(longer(many(20))) for _ in range(3)]
        assert r.cli("CONFIG", "SET", "maxmemory", "1kb") == "OK"
        status, _, error = a.json("POST", "/v1/jobs", WAV)
        assert status == 507 and error["error"]["code"] == "not_stored" and "maxmemory" in error["error"]["message"], (status, error)
        for n in names:
            a.ends(n)
            assert a.text(n).count(DIGITS_TEXT) == many(20)
        assert r.cli("CONFIG", "SET", "maxmemory", "0") == "OK"
        a.ends(a.submit())
        assert a.metric("steno_jobs_submitted_total") == 4


@case
def a_password_may_be_in_a_file():
    with Redis() as r, tempfile.NamedTemporaryFile("w") as f:
        f.write("secret\n")
        f.flush()
        r.cli("ACL", "SETUSER", "steno", "on", ">se%cret@", "~*", "+@all")
        with Member(r, f"jobs.queue_password={f.name}", url=f"redis://127.0.0.1:{r.port}/3") as a:
            a.ends(a.submit())
        with Member(r, url=f"redis://steno:se%25cret%40@127.0.0.1:{r.port}/3") as a:
            a.ends(a.submit())
            assert "cret" not in a.output(), a.output()


@case
def a_store_that_cannot_be_used_is_told_at_the_start():
    with Redis() as r:
        for url, says in (("redis://127.0.0.1:1", "refused"), ("http://x/", "redis://"), ("redis://", "host"), ("redis://h:x", "port"),
                          ("redis://a@h", "password"), ("rediss://h", "stunnel"), (f"redis://127.0.0.1:{r.port}", "auth"),
                          (f"redis://:wrong@127.0.0.1:{r.port}", "wrongpass")):
            with tempfile.TemporaryDirectory() as folder:
                d = Stenod(f"jobs.dir={folder}", f"jobs.queue={url}")
                p = subprocess.run(d.cmd, capture_output=True, text=True, timeout=60 * SLOW, check=False)
                assert p.returncode and says in p.stderr.lower() and "jobs.queue" in p.stderr, (url, p.stderr)
                assert ":wrong@" not in p.stderr, p.stderr


if __name__ == "__main__":
    sys.exit(tap())
