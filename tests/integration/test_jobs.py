"""Jobs: recordings whose transcripts are made later. Submitting, progress, results, lists, removal, keys and quotas, a full
disk, and what is left of them when the daemon ends in any way. TAP."""
import hashlib
import hmac
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, eventually, tap
from job_web import BASE, CALLS, PORT, WAV, Web, longer, many, serve


class Jobs(Stenod):
    """A stenod with a store of its own, which a later one may continue."""

    def __init__(self, *settings, folder=None, **kw):
        self.own = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="steno-jobs-")
        super().__init__(f"jobs.dir={self.folder}", *settings, **kw)

    def __exit__(self, *a):
        super().__exit__(*a)
        if self.own:
            shutil.rmtree(self.folder)

    def json(self, method, path, body=None, headers=None):
        status, head, text = self.request(method, path, body, headers)
        return status, head, json.loads(text) if text else None

    def submit(self, audio=WAV, query="", headers=None):
        status, head, job = self.json("POST", "/v1/jobs" + query, audio, {"Content-Type": "audio/wav", **(headers or {})})
        assert status == 202 and job["state"] in ("queued", "running") and head["location"] == "/v1/jobs/" + job["id"], (status, job)
        return job["id"]

    def job(self, name, headers=None):
        status, _, job = self.json("GET", "/v1/jobs/" + name, None, headers)
        assert status == 200, (status, job)
        return job

    def ends(self, name, state="done", headers=None):
        assert eventually(lambda: self.job(name, headers)["state"] not in ("queued", "running"), 60 * SLOW), self.job(name, headers)
        job = self.job(name, headers)
        assert job["state"] == state, job
        return job

    def result(self, name, fmt="json"):
        status, head, text = self.get(f"/v1/jobs/{name}/result?format={fmt}")
        assert status == 200, (status, text)
        return head["content-type"], text.decode()

    def spool_is_empty(self):
        """A run counts its end and removes its recording after it has stored the end."""
        left = [os.path.join(self.folder, kind) for kind in ("audio", "tmp")]
        assert eventually(lambda: not any(map(os.listdir, left))), [os.listdir(x) for x in left]

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.log.close()


def form(fields, audio=WAV):
    name = uuid.uuid4().hex
    body = b"".join(f'--{name}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields)
    body += f'--{name}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + audio
    return body + f"\r\n--{name}--\r\n".encode(), {"Content-Type": "multipart/form-data; boundary=" + name}


@case
def a_recording_is_stored_and_transcribed_and_its_result_has_four_formats():
    with Jobs() as d:
        want = json.loads(d.request("POST", "/v1/transcribe", WAV)[2])
        body, head = form([("beam", "4"), ("expires", "3600")])
        status, _, job = d.json("POST", "/v1/jobs", body, head)
        assert status == 202, (status, job)
        for name in (d.submit(), d.submit(query="?words=true"), job["id"]):
            done = d.ends(name)
            assert done["tries"] == 1 and done["audio"]["bytes"] == len(WAV) and abs(done["audio"]["duration"] - want["duration"]) < 0.01, done
            assert " ".join(s["text"] for s in done["segments"]) == DIGITS_TEXT, done["segments"]
            assert done["created"] <= done["started"] <= done["ended"] and done["model"], done
            kind, text = d.result(name)
            assert kind == "application/json" and json.loads(text)["text"] == DIGITS_TEXT, text
            assert json.loads(text)["segments"][0]["words"], text
            assert d.result(name, "text") == ("text/plain; charset=utf-8", DIGITS_TEXT + "\n")
            assert d.result(name, "srt")[1].startswith("1\n00:00:0") and d.result(name, "vtt")[1].startswith("WEBVTT")
        assert abs(job["expires"] - job["created"] - 3600) < 1, job
        d.spool_is_empty()
        d.becomes('steno_jobs_ended_total{state="done"}', 3)
        assert d.metric('steno_jobs{state="done"}') == 3 and d.metric("steno_jobs_submitted_total") == 3
        assert d.metric("steno_job_wait_seconds_count") == 3


@case
def a_format_of_the_job_is_one_result_more():
    with Jobs() as d:
        for name, kind in (("lrc", "text/plain; charset=utf-8"), ("tsv", "text/tab-separated-values; charset=utf-8"), ("whisperx", "application/json")):
            job = d.submit(query=f"?format={name}&max_line_width=12")
            d.ends(job)
            want = d.request("POST", f"/v1/transcribe?format={name}&max_line_width=12", WAV)[2].decode()
            assert d.result(job, name) == (kind, want), name
            assert d.result(job, "text")[1] == DIGITS_TEXT + "\n"
        assert d.json("GET", f"/v1/jobs/{job}/result?format=tsv")[0] == 400  # of another job


@case
def wrong_requests_are_refused_before_anything_is_stored():
    with Jobs("jobs.max_bytes=100000") as d:
        for query, body, head, status, says in (
                ("?beem=4", WAV, {}, 400, "'beem' is unknown"), ("?beam=x", WAV, {}, 400, "beam"), ("?model=none-such", WAV, {}, 404, "none-such"),
                ("?expires=0", WAV, {}, 400, "expires"), ("", b"", {}, 400, "empty"), ("", WAV * 2, {}, 413, "100000"),
                ("?callback=https://a.example/", WAV, {}, 400, "callback"), ("?callback_method=get", WAV, {}, 400, "post or put"),
                ("", b"{}", {"Content-Type": "application/json"}, 400, "url: missing"),
                ("", b"[", {"Content-Type": "application/json"}, 400, ""),
                ("", b'{"url":"http://127.0.0.1/a.wav"}', {"Content-Type": "application/json"}, 400, "fetch.hosts"),
                ("?multichannel=true&channel=1", WAV, {}, 400, "multichannel")):
            got, _, error = d.json("POST", "/v1/jobs" + query, body, head)
            assert got == status and says in error["error"]["message"], (query, got, error)
        body, head = form([("bem", "4")])
        assert d.json("POST", "/v1/jobs", body, head)[0] == 400
        body, head = form([], b"")
        status, _, error = d.json("POST", "/v1/jobs", body, head)
        assert status == 400 and error["error"]["param"] == "file", error
        for path in ("/v1/jobs/job_" + 32 * "0", "/v1/jobs/x/y", "/v1/jobs/" + 500 * "x"):
            assert d.json("GET", path)[0] == 404 and d.json("DELETE", path)[0] == 404, path
        assert d.json("GET", "/v1/jobs?after=job_none")[0] == 400 and d.json("GET", "/v1/jobs?limit=0")[0] == 400
        assert d.json("PUT", "/v1/jobs")[0] == 405 and d.json("POST", "/v1/jobs/x", b"")[0] == 405
        assert not os.listdir(os.path.join(d.folder, "audio"))
        d.spool_is_empty()
        assert d.json("GET", "/v1/jobs")[2] == {"jobs": [], "has_more": False}
    with Stenod() as d:
        assert d.request("POST", "/v1/jobs", WAV)[0] == 415 and d.get("/v1/jobs")[0] == 404


@case
def a_bad_recording_fails_at_once_with_its_reason():
    with Jobs() as d:
        job = d.ends(d.submit(b"this is no recording"), "failed")
        assert job["tries"] == 1 and job["error"]["code"] == "invalid_data" and "not a recognised audio format" in job["error"]["message"], job
        status, _, error = d.json("GET", f"/v1/jobs/{job['id']}/result")
        assert status == 409 and error["error"]["code"] == "invalid_data", error
        assert d.json("GET", f"/v1/jobs/{job['id']}/result?format=doc")[0] == 400


@case
def lists_have_pages_and_jobs_can_be_removed():
    with Jobs() as d:
        names = [d.submit(), d.submit(b"no recording"), d.submit()]
        for n, state in zip(names, ("done", "failed", "done")):
            d.ends(n, state)
        seen, after = [], ""
        while True:
            page = d.json("GET", f"/v1/jobs?limit=2{after}")[2]
            seen += [j["id"] for j in page["jobs"]]
            if not page["has_more"]:
                break
            after = "&after=" + seen[-1]
        assert seen == names[::-1], (seen, names)
        assert [j["id"] for j in d.json("GET", "/v1/jobs?state=failed")[2]["jobs"]] == [names[1]]
        assert d.json("DELETE", "/v1/jobs/" + names[0])[0] == 204
        assert d.json("GET", "/v1/jobs/" + names[0])[0] == 404 and d.json("GET", f"/v1/jobs/{names[0]}/result")[0] == 404


@case
def progress_is_seen_and_a_running_job_can_be_removed():
    with Jobs("pool.threads=1", cpu="scalar") as d:
        name = d.submit(longer(400))
        assert eventually(lambda: d.job(name)["segments"] and d.job(name)["state"] == "running", 60 * SLOW), d.job(name)
        job = d.job(name)
        assert 0 < job["audio"]["position"] < job["audio"]["duration"], job
        assert job["segments"][0]["text"] == DIGITS_TEXT, job["segments"][0]
        n = len(job["segments"])
        later = d.json("GET", f"/v1/jobs/{name}?segment={n - 1}")[2]["segments"]
        assert later[0] == job["segments"][-1], (later, job["segments"])
        assert d.request("POST", "/v1/transcribe?format=text", WAV)[2].decode() == DIGITS_TEXT + "\n"
        assert d.job(name)["state"] == "running", "the upload has waited for the job"
        assert d.json("DELETE", "/v1/jobs/" + name)[0] == 204
        assert d.job(name)["state"] == "cancelled"
        d.spool_is_empty()
        d.ends(d.submit())  # the place of the removed one is free


@case
def keys_see_their_own_jobs_alone_and_have_quotas():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[a]\nkey = {'a' * 20}\n[b]\nkey = {'b' * 20}\n")
        f.flush()
        with Jobs(f"auth.keys={f.name}", "jobs.per_key=2", "jobs.max=3", "pool.threads=1", cpu="scalar") as d:
            a, b = ({"Authorization": "Bearer " + 20 * c} for c in "ab")
            slow = longer(400)
            assert d.json("POST", "/v1/jobs", WAV)[0] == 401 and d.json("GET", "/v1/jobs")[0] == 401
            first, second = d.submit(slow, headers=a), d.submit(headers=a)
            status, head, error = d.json("POST", "/v1/jobs", WAV, a)
            assert status == 429 and "jobs.per_key" in error["error"]["message"] and "retry-after" in head, error
            third = d.submit(headers=b)
            status, _, error = d.json("POST", "/v1/jobs", WAV, b)
            assert status == 503 and "jobs.max" in error["error"]["message"], error
            assert sorted(os.listdir(os.path.join(d.folder, "audio"))) == sorted((first, second, third))
            assert d.json("GET", "/v1/jobs/" + first, None, b)[0] == 404 and d.json("DELETE", "/v1/jobs/" + first, None, b)[0] == 404
            assert [j["id"] for j in d.json("GET", "/v1/jobs", None, b)[2]["jobs"]] == [third]
            assert d.json("GET", "/v1/jobs?after=" + first, None, b)[0] == 400
            assert d.json("DELETE", "/v1/jobs/" + first, None, a)[0] == 204
            d.ends(second, headers=a)
            d.ends(third, headers=b)


@case
def jobs_expire_and_are_forgotten():
    # a job is seen while it is kept, so that is longer than a busy machine stands still
    with Jobs("pool.threads=1", "jobs.keep=8", cpu="scalar") as d:
        audio = longer(400)
        first = d.submit(audio, "?expires=4")
        second = d.submit(query="?expires=1")
        assert d.ends(second, "expired")["tries"] == 0 and d.ends(first, "expired")["error"]["code"] == "expired"
        d.ends(d.submit())
        assert eventually(lambda: not d.json("GET", "/v1/jobs")[2]["jobs"], 30)
        d.spool_is_empty()


@case
def a_stopped_daemon_runs_its_jobs_at_the_next_start_and_counts_no_try():
    folder = tempfile.mkdtemp(prefix="steno-jobs-")
    settings = ("pool.threads=1", "server.drain_timeout=1")
    with Jobs(*settings, folder=folder, cpu="scalar") as d:
        name = d.submit(longer(many(400)))
        assert eventually(lambda: d.job(name)["state"] == "running")
    with Jobs(*settings, folder=folder) as d:
        assert d.job(name)["tries"] <= 1
        assert d.ends(name)["tries"] == 1
        assert d.result(name, "text")[1].count(DIGITS_TEXT) == many(400)
    shutil.rmtree(folder)


@case
def a_recording_during_which_the_daemon_dies_three_times_has_failed():
    folder = tempfile.mkdtemp(prefix="steno-jobs-")
    names = None
    for n in range(1, 4):
        d = Jobs("pool.threads=1", folder=folder, cpu="scalar")
        d.__enter__()  # pylint: disable=unnecessary-dunder-call
        names = names or [d.submit(longer(400)), d.submit()]
        assert eventually(lambda: d.job(names[0])["state"] == "running"), d.job(names[0])
        assert d.job(names[0])["tries"] == n
        d.kill()
    with Jobs(folder=folder) as d:
        job = d.ends(names[0], "failed")
        assert job["tries"] == 3 and job["error"]["code"] == "gave_up" and "3 tries" in job["error"]["message"], job
        d.ends(names[1])  # the one behind it runs
        d.spool_is_empty()
    shutil.rmtree(folder)


@case
def one_process_uses_a_folder():
    with Jobs() as d:
        p = subprocess.run([d.cmd[0], "--listen", "127.0.0.1:0", "--set", f"jobs.dir={d.folder}"], capture_output=True, text=True, timeout=60 * SLOW,
                           cwd=ROOT, check=False)
        assert p.returncode and "another process uses it" in p.stderr, p


@case
def a_full_disk_is_an_error_before_the_acknowledgement():
    folder = tempfile.mkdtemp(prefix="steno-jobs-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", folder], capture_output=True, check=False).returncode:
        os.rmdir(folder)
        raise Skip("needs the right to mount a file system")
    try:
        with Jobs("pool.threads=1", folder=folder, cpu="scalar") as d:
            with open(os.path.join(folder, "other"), "wb") as f:
                f.write(bytes(3 << 19))  # 16 MiB stay free, so few recordings fill the rest
            names, audio = [], longer(8)
            for _ in range(50):
                status, _, job = d.json("POST", "/v1/jobs", audio)
                if status != 202:
                    break
                names.append(job["id"])
            assert status == 507 and job["error"]["code"] == "not_stored" and "MiB left" in job["error"]["message"], (status, job)
            status, _, error = d.json("POST", "/v1/jobs", longer(400))  # does not fit at all
            assert status == 507 and "cannot be stored" in error["error"]["message"], (status, error)
            assert len(names) >= 2 and d.metric("steno_jobs_submitted_total") == len(names)
            for n in names:
                d.ends(n)
            d.ends(d.submit())  # there is room again
    finally:
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


# ---- recordings by URL, and callbacks --------------------------------------------------------------------------------


JSON = {"Content-Type": "application/json"}


def called(d, n, event=None):
    assert eventually(lambda: len(Web.got) >= n, 30 * SLOW), Web.got
    return Web.got[n - 1] if event is None else [g for g in Web.got if g[2]["steno-event-id"] == event]


@case
def recordings_are_fetched_when_their_job_runs():
    with Jobs("fetch.hosts=127.0.0.1", "fetch.private=yes", "jobs.max_bytes=100000") as d:
        status, _, job = d.json("POST", "/v1/jobs", json.dumps({"url": BASE + "/moved.wav", "beam": 4, "words": False}), JSON)
        assert status == 202 and job["url"] == BASE + "/moved.wav", job
        done = d.ends(job["id"])
        assert done["audio"]["bytes"] == len(WAV) and d.result(job["id"], "text")[1] == DIGITS_TEXT + "\n", done
        status, _, many = d.json("POST", "/v1/jobs", json.dumps({"urls": [BASE + f"/{i}.wav" for i in range(5)]}), JSON)
        assert status == 202 and len({j["id"] for j in many["jobs"]}) == 5, many
        for j in many["jobs"]:
            d.ends(j["id"])
        d.spool_is_empty()
        status, _, job = d.json("POST", "/v1/jobs", json.dumps({"url": BASE + "/none.wav"}), JSON)
        assert eventually(lambda: "last_error" in d.job(job["id"])), d.job(job["id"])
        job = d.job(job["id"])
        assert job["state"] == "queued" and job["tries"] == 1 and job["last_error"]["code"] == "fetch_failed", job
        assert "404" in job["last_error"]["message"], job
        for raw in (b'{"url":"http://other.example/"}', b'{"url":"file:///etc/passwd"}', b'{"urls":[]}', b'{"url":"x","model":[]}'):
            assert d.json("POST", "/v1/jobs", raw, JSON)[0] == 400, raw
        raw = json.dumps({"urls": [BASE] * 101})
        assert "100" in d.json("POST", "/v1/jobs", raw, JSON)[2]["error"]["message"]


@case
def a_slow_url_holds_no_worker():
    with Jobs("fetch.hosts=127.0.0.1", "fetch.private=yes", "fetch.timeout=1h", "jobs.workers=1") as d:
        raw = json.dumps({"urls": [BASE + f"/drip{i}" for i in range(10)]})  # more than are fetched at once
        slow = [j["id"] for j in d.json("POST", "/v1/jobs", raw, JSON)[2]["jobs"]]
        assert eventually(lambda: sum(d.job(s)["state"] == "running" for s in slow) == 6), [d.job(s) for s in slow]
        d.ends(d.submit())
        states = [d.job(s)["state"] for s in slow]
        assert states.count("running") == 6 and states.count("queued") == 4, states
        assert all(d.job(s)["tries"] == 0 for s in slow if d.job(s)["state"] == "queued")
        d.request("DELETE", "/v1/jobs/" + next(s for s in slow if d.job(s)["state"] == "running"))  # its place is taken
        assert eventually(lambda: sum(d.job(s)["state"] == "running" for s in slow) == 6, 60 * SLOW), [d.job(s) for s in slow]


@case
def the_limit_of_a_fetch_holds_for_jobs_too():
    with Jobs("fetch.hosts=127.0.0.1", "fetch.private=yes", "fetch.timeout=1") as d:
        job = d.json("POST", "/v1/jobs", json.dumps({"url": BASE + "/drip"}), JSON)[2]["id"]
        assert eventually(lambda: "last_error" in d.job(job)), d.job(job)
        error = d.job(job)["last_error"]
        assert error["code"] == "fetch_failed" and "longer than fetch.timeout" in error["message"], error


@case
def a_callback_is_signed_and_tried_again_until_it_is_taken():
    secret = os.urandom(24).hex()
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(secret + "\n")
        f.flush()
        with Jobs(*CALLS, f"jobs.callback_secret={f.name}") as d:
            Web.got.clear()
            Web.plan[:] = [500, 302]
            name = d.submit(query=f"?callback={BASE}/hook%3Fa=1&callback_method=put")
            d.ends(name)
            called(d, 3)
            assert eventually(lambda: d.job(name)["callback"]["state"] == "delivered"), d.job(name)
            job = d.job(name)
            assert job["callback"]["tries"] == 3, job
            for i, (method, path, head, body) in enumerate(Web.got):
                assert method == "PUT" and path == "/hook?a=1" and head["content-type"] == "application/json", (method, path, head)
                assert head["steno-event-id"] == job["callback"]["event_id"] and head["steno-event-try"] == str(i + 1), head
                t, v1 = (x.split("=", 1)[1] for x in head["steno-signature"].split(","))
                assert abs(int(t) - time.time()) < 60 * SLOW
                assert hmac.compare_digest(v1, hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest())
                told = json.loads(body)
                assert told["type"] == "job.done" and told["job"]["id"] == name and told["result"]["text"] == DIGITS_TEXT, told
            assert d.metric('steno_job_callback_tries_total{result="failed"}') == 2
            assert d.metric('steno_job_callback_tries_total{result="delivered"}') == 1
            Web.got.clear()
            name = d.submit(b"no recording", f"?callback={BASE}/")
            told = json.loads(called(d, 1)[3])
            assert told["type"] == "job.failed" and told["job"]["error"]["code"] == "invalid_data" and "result" not in told, told


@case
def a_callback_that_nobody_takes_is_listed_as_dead():
    with Jobs(*CALLS, "jobs.callback_give_up=4") as d:  # the second try may begin late, but not so late
        Web.got.clear()
        Web.plan[:] = [500] * 50
        name = d.submit(query=f"?callback={BASE}/")
        assert eventually(lambda: d.job(name)["callback"]["state"] == "dead", 30 * SLOW), d.job(name)
        dead = d.json("GET", "/v1/jobs?callback=dead")[2]["jobs"]
        assert [j["id"] for j in dead] == [name] and dead[0]["callback"]["error"] == "it answered 500", dead
        assert len(Web.got) == dead[0]["callback"]["tries"] >= 2 and d.result(name, "text")
        Web.plan[:] = [410]
        gone = d.submit(query=f"?callback={BASE}/")
        assert eventually(lambda: d.job(gone)["callback"]["state"] == "dead"), d.job(gone)
        assert d.job(gone)["callback"]["tries"] == 1
        assert d.metric('steno_job_callbacks{state="dead"}') == 2
        Web.plan.clear()
        before, event = d.job(name)["callback"]["tries"], d.job(name)["callback"]["event_id"]
        Web.got.clear()
        status, _, job = d.json("POST", f"/v1/jobs/{name}/callback")
        assert status == 202 and job["id"] == name and job["callback"]["state"] in ("pending", "delivered"), (status, job)
        assert eventually(lambda: d.job(name)["callback"]["state"] == "delivered"), d.job(name)
        p = subprocess.run([os.path.join(BUILD, "steno"), "jobs", "resend", "--server", d.url, name], capture_output=True, text=True, timeout=60, check=False)
        assert p.returncode == 0, p
        assert eventually(lambda: d.job(name)["callback"]["tries"] == before + 2 and d.job(name)["callback"]["state"] == "delivered"), d.job(name)
        heads = [g[2] for g in Web.got]
        assert [(h["steno-event-id"], int(h["steno-event-try"])) for h in heads] == [(event, before + 1), (event, before + 2)], heads
        plain = d.submit()
        d.ends(plain)
        assert d.json("POST", f"/v1/jobs/{plain}/callback")[0] == 409 and d.json("POST", "/v1/jobs/job_none/callback")[0] == 404
        status, head, _ = d.json("POST", "/v1/jobs/" + plain)
        assert status == 405 and head["allow"] == "GET, HEAD, DELETE, OPTIONS", (status, head)


@case
def callbacks_go_to_listed_public_hosts_by_https_alone_unless_the_server_says_otherwise():
    with Jobs() as d:
        assert "jobs.callback_hosts" in d.json("POST", "/v1/jobs?callback=https://a.example/", WAV)[2]["error"]["message"]
    with Jobs("jobs.callback_hosts=*.example, localhost") as d:
        for url in ("http://a.example/", "https://b.test/", "ftp://a.example/", "//", "https://a.example@b.test/"):
            status, _, error = d.json("POST", f"/v1/jobs?callback={url}", WAV)
            assert status == 400 and error["error"]["param"] == "callback", (url, error)
        Web.got.clear()
        name = d.submit(query=f"?callback=https://localhost:{PORT}/")  # a private address
        assert eventually(lambda: d.job(name)["callback"].get("error"), 30), d.job(name)
        assert d.job(name)["callback"]["error"] == "it cannot be reached" and not Web.got, d.job(name)


@case
def callbacks_by_https_check_the_certificate():
    with tempfile.TemporaryDirectory() as folder:
        cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, key)
        url = f"https://localhost:{serve(tls)}/"
        settings = ("jobs.callback_hosts=localhost", "jobs.callback_private=yes")
        Web.got.clear()
        with Jobs(*settings) as d:
            name = d.submit(query="?callback=" + url)
            assert eventually(lambda: d.job(name)["callback"].get("error"), 30), d.job(name)
            assert d.job(name)["callback"]["error"] == "its certificate is not trusted" and not Web.got, d.job(name)
        with Jobs(*settings, f"jobs.callback_ca={cert}") as d:
            name = d.submit(query="?callback=" + url)
            assert eventually(lambda: d.job(name)["callback"]["state"] == "delivered"), d.job(name)
            assert "steno-signature" not in called(d, 1)[2]


@case
def deepgrams_callback_is_answered_at_once_and_told_in_its_shape():
    with Jobs(*CALLS, "fetch.hosts=127.0.0.1", "fetch.private=yes") as d:
        want = json.loads(d.request("POST", "/v1/listen?punctuate=true&paragraphs=true", WAV)[2])
        for body, head in ((WAV, {"Content-Type": "audio/wav"}), (json.dumps({"url": BASE + "/a.wav"}), JSON)):
            Web.got.clear()
            status, got, answer = d.json("POST", f"/v1/listen?punctuate=true&paragraphs=true&callback={BASE}/dg&callback_method=post&token=x", body,
                                         {**head, "X-Request-Id": "mine"})
            assert status == 200 and set(answer) == {"request_id"} and got["dg-request-id"] == answer["request_id"], (status, answer)
            method, path, _, body = called(d, 1)
            told = json.loads(body)
            assert method == "POST" and path == "/dg" and told["metadata"]["request_id"] == answer["request_id"], told
            assert told["results"] == want["results"] and told["metadata"]["sha256"] == want["metadata"]["sha256"], (told, want)
            assert d.job(answer["request_id"])["state"] == "done"
            assert json.loads(d.result(answer["request_id"], "deepgram")[1])["results"] == want["results"]
        Web.got.clear()
        d.json("POST", f"/v1/listen?callback={BASE}/dg&encoding=linear16&sample_rate=8000&punctuate=true&paragraphs=true", WAV[44:])
        told = json.loads(called(d, 1)[3])
        assert told["results"] == want["results"], told
        Web.got.clear()
        answer = d.json("POST", f"/v1/listen?callback={BASE}/dg", b"no recording")[2]
        told = json.loads(called(d, 1)[3])
        assert told["request_id"] == answer["request_id"] and told["err_code"] == "invalid_data", told
        status, _, error = d.json("POST", "/v1/listen?callback=http://b.test/", WAV)
        assert status == 400 and "callback" in error["err_msg"], error
    with Stenod() as d:
        status, _, text = d.request("POST", f"/v1/listen?callback={BASE}/dg", WAV)
        assert status == 415 and "jobs.dir" in json.loads(text)["err_msg"], text


@case
def a_request_with_an_idempotency_key_may_come_again():
    with Jobs("fetch.hosts=127.0.0.1", "fetch.private=yes") as d:
        def post(key, audio=WAV, query="", head=None):
            status, head, job = d.json("POST", "/v1/jobs" + query, audio, {"Idempotency-Key": key, **(head or {})})
            return status, head.get("idempotency-replayed"), job.get("id") or [j["id"] for j in job.get("jobs", ())] or job["error"]["code"]
        status, again, name = post("first")
        assert status == 202 and again is None, (status, again)
        assert post("first") == (202, "true", name)
        d.ends(name)
        assert post("first") == (202, "true", name)  # it is done, and not run again
        assert post("first", WAV + b"x") == post("first", query="?words=true") == (422, None, "idempotency_key_reused")
        assert post("second")[2] != name
        assert d.json("DELETE", "/v1/jobs/" + name)[0] == 204
        assert post("first", WAV + b"x")[:2] == (202, None)  # forgotten
        for key in ("", "x" * 256, "a b"):
            assert post(key)[0] == 400, key
        assert d.metric("steno_jobs_submitted_total") == 3
        urls = json.dumps({"urls": [BASE + "/a.wav", BASE + "/b.wav"]}), {"Content-Type": "application/json"}
        status, _, names = post("urls", urls[0], "", urls[1])
        assert status == 202 and len(names) == 2 and post("urls", urls[0], "", urls[1]) == (202, "true", names)
        for n in names:
            d.ends(n)
        boundaries = [form([("words", "true")]) for _ in range(2)]  # the form's own words do not matter
        assert post("form", boundaries[0][0], "", boundaries[0][1])[2] == post("form", boundaries[1][0], "", boundaries[1][1])[2]
        for n in [j["id"] for j in d.json("GET", "/v1/jobs")[2]["jobs"]]:
            d.ends(n)
        d.spool_is_empty()


@case
def the_command_submits_a_folder_watches_and_writes_the_texts():
    def run(*args, code=0, **env):
        p = subprocess.run([os.path.join(BUILD, "steno"), "jobs", *args], capture_output=True, text=True, timeout=120 * SLOW, check=False,
                           env={**os.environ, "STENO_SERVER": d.url, **env})
        assert p.returncode == code, (args, p.returncode, p.stdout, p.stderr)
        return p
    with tempfile.TemporaryDirectory() as folder, Jobs("fetch.hosts=127.0.0.1", "fetch.private=yes") as d:
        os.mkdir(os.path.join(folder, "in"))
        p = run("submit", "--watch", "--output-dir", os.path.join(folder, "no", "out"), DIGITS, code=74)
        assert "no/out: No such file or directory" in p.stderr and run("list").stdout == "", p.stderr
        for name, audio in (("a.wav", WAV), ("b c.wav", longer(2)), ("d.wav", b"no recording")):
            with open(os.path.join(folder, "in", name), "wb") as f:
                f.write(audio)
        p = run("submit", "--watch", "--output-dir", os.path.join(folder, "out"), os.path.join(folder, "in"), code=65)
        with open(os.path.join(folder, "out", "a.txt"), encoding="utf-8") as f:
            assert f.read() == DIGITS_TEXT + "\n"
        assert sorted(os.listdir(os.path.join(folder, "out"))) == ["a.txt", "b c.txt"], p.stdout
        assert "\tfailed\t" in p.stdout and "not a recognised audio format" in p.stdout, p.stdout
        p = run("submit", "--set", "beam=4", DIGITS, BASE + "/x.wav")
        ids = [line.split("\t")[0] for line in p.stdout.splitlines()]
        assert [line.split("\t")[1] for line in p.stdout.splitlines()] == [DIGITS, BASE + "/x.wav"], p.stdout
        assert all(f"{i}\tdone\t{i}" in run("watch", *ids).stdout for i in ids)
        assert run("get", ids[0]).stdout == DIGITS_TEXT + "\n" and run("get", "--format", "vtt", ids[1]).stdout.startswith("WEBVTT")
        assert len(run("list").stdout.splitlines()) == 5 and len(run("list", "--state", "failed").stdout.splitlines()) == 1
        run("remove", ids[0])
        assert "there is no such job" in run("get", ids[0], code=64).stderr
        assert "beem" in run("submit", "--set", "beem=4", DIGITS, code=64).stderr
        assert "/no/such.wav" in run("submit", "/no/such.wav", code=66).stderr
        assert run("watch").stdout == ""
        slow = json.loads(d.request("POST", "/v1/jobs?expires=600", longer(600))[2])["id"]
        run("get", slow, code=75)
        run("remove", slow)
        run("frobnicate", code=64)
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write(f"[a]\nkey = {'a' * 20}\n")
        f.flush()
        with Jobs(f"auth.keys={f.name}") as d:
            assert "401" in run("list", code=64).stderr
            run("list", STENO_KEY="a" * 20)


@case
def the_command_sends_again_what_was_not_answered_and_makes_one_job():
    with Jobs() as d, socket.create_server(("127.0.0.1", 0)) as proxy:
        dropped = []

        def pump(a, b, drop):
            try:
                while data := a.recv(65536):
                    if drop:  # the server has answered, and its client never hears it
                        dropped.append(data)
                        break
                    b.sendall(data)
            except OSError:
                pass
            for x in (a, b):
                try:
                    x.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def run():
            for n in range(100):
                try:
                    client = proxy.accept()[0]
                except OSError:
                    return
                server = socket.create_connection(("127.0.0.1", d.port))
                threading.Thread(target=pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=pump, args=(server, client, n < 2), daemon=True).start()
        threading.Thread(target=run, daemon=True).start()
        p = subprocess.run([os.path.join(BUILD, "steno"), "jobs", "submit", "--server", f"http://127.0.0.1:{proxy.getsockname()[1]}", DIGITS],
                           capture_output=True, text=True, timeout=100 * SLOW, check=False)
        assert p.returncode == 0 and len(dropped) == 2 and all(x.startswith(b"HTTP/1.1 202") for x in dropped), (p, dropped)
        names = [j["id"] for j in d.json("GET", "/v1/jobs")[2]["jobs"]]
        assert names == [p.stdout.split()[0]], (names, p.stdout)
        d.ends(names[0])


@case
def nothing_acknowledged_is_lost_by_kills_at_any_moment():
    p = subprocess.run([sys.executable, os.path.join(ROOT, "loadtest", "job_faults.py"), "--check", "--rounds", "2", "--jobs", "3"],
                       capture_output=True, text=True, timeout=500 * SLOW, check=False)
    print("\n".join("# " + line for line in (p.stdout + p.stderr).splitlines()))
    assert p.returncode == 0


if __name__ == "__main__":
    sys.exit(tap())
