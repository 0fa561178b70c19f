"""steno-load as its users call it: its findings, its counts, its refusals and its end."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import wave

from daemon import BUILD, DIGITS, DIGITS_TEXT, SLOW, Stenod, case, eventually, frame, pcm, serves, tap

LOAD = os.path.join(BUILD, "loadtest", "steno-load")
WORK = tempfile.TemporaryDirectory(prefix="steno-load-")
OUTCOMES = ("ok", "wrong", "refused", "failed", "dropped")
TIMES = ("first", "partial", "word", "final", "answer", "late")
PCM, RATE = pcm()
OK, USAGE, NOINPUT, UNAVAILABLE = 0, 64, 66, 69  # sysexits.h
STREAMS, UPLOADS = "stream", "transcribe"  # label api of the server's metrics


def short():
    """A WAV of one second without a file beside it that has its text."""
    path = os.path.join(WORK.name, "short.wav")
    with wave.open(path, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        w.writeframes(PCM[:2 * RATE])
    return path


SHORT = short()


class Load:
    """A run of steno-load. Its figures are in `j` when it has ended."""

    def __init__(self, url, *args, files=(DIGITS,)):
        self.json = tempfile.NamedTemporaryFile(dir=WORK.name, suffix=".json", delete=False).name
        self.args = [LOAD, "--url", url, "--ramp", "0", "--json", self.json, *args, *files]
        self.p = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self):
        self.out, self.err = self.p.communicate(timeout=60 * SLOW)
        self.rc = self.p.returncode
        text = open(self.json, encoding="utf-8").read()
        self.j = json.loads(text) if text else None
        if self.j:
            adds_up(self.j, self.out)
        return self

    def counts(self, **want):
        """The outcomes are exactly these; all others are 0."""
        got = {k: self.j[k] for k in OUTCOMES}
        assert got == {k: want.get(k, 0) for k in OUTCOMES}, (got, self.out, self.err)
        return self


def load(url, *args, files=(DIGITS,)):
    return Load(url, *args, files=files).end()


def against(talk, *args):
    """A run of one user against a server that is ready for each stream; talk() has the rest of its connection."""
    def connection(ws):
        ws.recv()
        ws.send('{"type":"ready"}')
        talk(ws)
    with serves(connection) as port:
        return load(f"ws://127.0.0.1:{port}/", "--users", "1", *args, files=(SHORT,))


def answer(ws, *messages):
    """Hear a whole stream, then send these."""
    while ws.recv() != '{"type":"end"}':
        pass
    for m in messages:
        ws.send(json.dumps(m))


def answers(*messages, args=()):
    """A run against a server that answers the whole stream with these messages."""
    return against(lambda ws: answer(ws, *messages), *args)


def adds_up(j, out):
    """Rules for the figures of any run."""
    assert j["sessions"] == sum(j[k] for k in OUTCOMES), j
    assert 0 <= j["refused_late"] <= j["refused"] and j["seconds"] > 0 and j["own_cpu_seconds"] >= 0, j
    for name in TIMES:
        h = j[name + "_ms"]
        assert set(h) == {"mean", "p50", "p90", "p95", "p99", "max", "n"}, h
        assert 0 <= h["p50"] <= h["p90"] <= h["p95"] <= h["p99"] <= h["max"] and 0 <= h["mean"] <= h["max"], (name, h)
        assert h["n"] or not h["max"], (name, h)
    if not j["flat_out"] or j["url"].startswith("http"):
        assert j["answer_ms"]["n"] == j["ok"] + j["wrong"], j
    assert set(j["server"]) == {"cpu_seconds", "rss_mib", "rss_before_mib", "peak_rss_mib", "descriptors", "mean_batch"}, j
    for a, b in zip(j["timeline"], j["timeline"][1:]):
        assert a["t"] < b["t"], j["timeline"]
    for point in j["timeline"]:
        assert set(point) == {"t", "active", "cpu_percent", "rss_mib", "batch", "descriptors"}, point
        assert 0 <= point["active"] <= j["users"], point
    assert f"{j['users']} users, {j['sessions']} sessions" in out and f"{j['failed']} failed" in out, out


def ended(d, api, result):
    return d.wait_idle().metric(f'steno_sessions_total{{api="{api}",result="{result}"}}')


@case
def streams_in_every_encoding_are_right(d):
    ok, seconds = ended(d, STREAMS, "ok"), d.metric('steno_audio_seconds_total{api="stream"}')
    run = load(d.ws, "--users", "12", "--ramp", "0.6", "--encodings", "s16le,f32le,mulaw,alaw,wav,opus", "--pid", str(d.proc.pid),
               "--metrics", d.url + "/metrics", "--label", "every encoding", files=(DIGITS, SHORT)).counts(ok=12)
    j = run.j
    said = 6 * (len(PCM) / 2 / RATE + 1.5) + 6 * 2.5
    assert run.rc == OK and j["label"] == "every encoding" and j["users"] == 12 and not j["flat_out"], (run.rc, j)
    assert abs(j["audio_seconds"] - said) < 0.1, (j["audio_seconds"], said)  # Opus pads its last packet
    assert j["seconds"] >= len(PCM) / 2 / RATE + 1.5, "nobody speaks faster than that"
    assert j["late_ms"]["n"] >= 10 * said - 12 and j["first_ms"]["n"] >= 6 and j["word_ms"]["n"] >= 6 * 7, j
    assert j["wer_percent"] == 0 and j["server"]["rss_mib"] > 1 and j["server"]["cpu_seconds"] > 0 and j["server"]["mean_batch"] >= 1, j
    assert len(j["timeline"]) >= 2 and max(p["active"] for p in j["timeline"]) >= 1, j["timeline"]
    assert ended(d, STREAMS, "ok") == ok + 12
    assert abs(d.metric('steno_audio_seconds_total{api="stream"}') - seconds - said) < 0.2


@case
def uploads_of_several_files_are_right(d):
    ok = ended(d, UPLOADS, "ok")
    run = load(d.url + "/v1/transcribe", "--users", "3", "--sessions", "4", files=(DIGITS, SHORT)).counts(ok=12)
    assert run.rc == OK and run.j["answer_ms"]["n"] == 12 and run.j["answer_ms"]["p50"] > 0, run.j
    assert abs(run.j["audio_seconds"] - 6 * (len(PCM) / 2 / RATE + 1.5) - 6 * 2.5) < 1e-3, run.j["audio_seconds"]
    assert ended(d, UPLOADS, "ok") == ok + 12


@case
def a_wrong_transcript_is_found(d):
    # one word replaced, one word missing, one extra word in the result: three errors in seven words
    words = DIGITS_TEXT.split()
    wrong = " ".join(["xyz", *words[1:3], "abc", *words[3:-1]])
    for url, users in ((d.ws, 3), (d.url + "/v1/transcribe", 2)):
        args = ("--users", str(users), "--sessions", "2", "--fast", "--expect")
        run = load(url, *args, wrong).counts(wrong=2 * users)
        assert run.rc == UNAVAILABLE and abs(run.j["wer_percent"] - 300 / 7) < 1e-3, (run.rc, run.j["wer_percent"])
        assert "wrong transcript" in run.err and DIGITS_TEXT in run.err and f"{2 * users} wrong" in run.out, (run.err, run.out)
        assert load(url, *args, wrong, "--max-wer", "43").rc == OK
        run = load(url, *args, wrong, "--max-wer", "42")
        assert run.rc == UNAVAILABLE and "FAILED: word error rate 42.86 %" in run.out, run.out
        assert load(url, *args, DIGITS_TEXT).counts(ok=2 * users).rc == OK
    run = load(d.ws, "--users", "1", "--fast", "--expect", "", "--max-wer", "50").counts(wrong=1)
    assert run.rc == UNAVAILABLE and run.j["wer_percent"] == 700, run.j["wer_percent"]


@case
def the_text_beside_a_recording_is_what_it_says(d):
    path = os.path.join(WORK.name, "told.wav")
    with open(DIGITS, "rb") as f, open(path, "wb") as out:
        out.write(f.read())
    with open(path[:-3] + "txt", "w", encoding="utf-8") as f:
        f.write(DIGITS_TEXT + " nine\n")
    run = load(d.ws, "--users", "4", "--fast", files=(DIGITS, path)).counts(ok=2, wrong=2)
    assert run.rc == UNAVAILABLE and abs(run.j["wer_percent"] - 100 * 2 / 30) < 1e-3, run.j
    assert load(d.ws, "--users", "1", "--fast", "--say", "2", "--expect", DIGITS_TEXT).counts(ok=1).rc == OK


@case
def plain_texts_are_compared_without_case_and_punctuation(_):
    said = {"type": "final", "segment": 0, "text": "Ever tried, EVER failed.", "audio_ms": 200}
    for args, good in ((("--plain",), True), ((), False)):
        run = answers(said, args=(*args, "--expect", "Ever tried. Ever failed"))
        assert run.counts(**{"ok" if good else "wrong": 1}).j["word_errors"] == (0 if good else 3) and run.j["words"] == 4, run.j
    run = answers(said, args=("--plain", "--expect", "Ever tried and failed"))
    assert run.counts(wrong=1).j["word_errors"] == 1 and run.j["transcripts"][0]["text"] == said["text"], run.j


@case
def flat_out_times_no_partials(d):
    run = load(d.ws, "--users", "4", "--sessions", "2", "--fast").counts(ok=8)
    assert run.rc == OK and run.j["flat_out"] and not any(run.j[x + "_ms"]["n"] for x in TIMES), run.j


@case
def ramp_and_think_time_are_kept(d):
    run = load(d.ws, "--users", "4", "--ramp", "1.2", "--fast", files=(SHORT,)).counts(ok=4)
    assert run.j["seconds"] >= 0.9, run.j["seconds"]
    for url in (d.ws, d.url + "/v1/transcribe"):
        run = load(url, "--users", "1", "--sessions", "3", "--think-ms", "300", "--fast", files=(SHORT,)).counts(ok=3)
        assert run.j["seconds"] >= 0.6, run.j["seconds"]
    run = load(d.url + "/v1/transcribe", "--users", "2", "--seconds", "0.5", "--think-ms", "50", files=(SHORT,))
    assert run.rc == OK and run.j["seconds"] >= 0.5 and 2 <= run.j["ok"] == run.j["sessions"] <= 2 * 10, run.j


@case
def the_slowest_answers_are_judged(d):
    for url in (d.ws, d.url + "/v1/transcribe"):
        run = load(url, "--users", "1", "--gap-ms", "0", "--max-p99", "0", files=(SHORT,)).counts(ok=1)
        assert run.rc == UNAVAILABLE and "FAILED: p99 is" in run.out, (run.rc, run.out)
        assert load(url, "--users", "1", "--gap-ms", "0", "--max-p99", "1e9", files=(SHORT,)).counts(ok=1).rc == OK
    silence = os.path.join(WORK.name, "silence.wav")
    with wave.open(silence, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        w.writeframes(bytes(RATE // 5))
    run = load(d.ws, "--users", "1", "--gap-ms", "0", "--max-p99", "1e9", files=(silence,)).counts(ok=1)
    assert run.rc == UNAVAILABLE and "FAILED: nothing was timed" in run.out, "no figure is no good figure"


@case
def hangups_are_counted_apart(d):
    gone = ended(d, STREAMS, "gone")
    run = load(d.ws, "--users", "5", "--sessions", "2", "--drop", "100", "--fast").counts(dropped=10)
    assert run.rc == OK and run.j["audio_seconds"] < 10 * (len(PCM) / 2 / RATE + 1.5), run.j
    assert ended(d, STREAMS, "gone") == gone + 10


@case
def refused_ones_are_counted_apart(_):
    with Stenod("limits.sessions=1") as d:
        first = Load(d.ws, "--users", "1", "--say", "1000")
        try:
            assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 1)
            run = load(d.ws, "--users", "3", files=(SHORT,)).counts(refused=3)
            assert run.rc == UNAVAILABLE and run.j["refused_late"] == 0, "all were refused: that is no result"
            again = Load(d.ws, "--users", "1", "--retry", "--fast")
            assert eventually(lambda: d.metric('steno_sessions_rejected_total{reason="sessions"}') >= 4)  # it may have come back already
        finally:
            first.p.send_signal(signal.SIGINT)
        assert first.end().counts(dropped=1).rc == OK
        again.end()
        assert again.rc == OK and again.j["ok"] == 1 and again.j["refused"] >= 1 and not again.j["failed"], again.j


@case
def a_share_that_is_used_up_refuses_and_a_wrong_key_fails(_):
    key = "one-of-the-callers-1"
    with tempfile.NamedTemporaryFile("w", suffix=".keys", dir=WORK.name) as f:
        f.write(f"[one]\nkey = {key}\nrequests_per_minute = 2\n")
        f.flush()
        with Stenod("auth.keys=" + f.name) as d:
            run = load(d.url + "/v1/transcribe", "--users", "1", "--sessions", "5", "--key", key).counts(ok=2, refused=3)
            assert run.rc == OK and "3 refused" in run.out, (run.rc, run.out)
            run = load(d.url + "/v1/transcribe", "--users", "1", "--key", "wrong-but-long-enough").counts(failed=1)
            assert run.rc == UNAVAILABLE and "status 401" in run.err, run.err
            run = load(d.ws, "--users", "1").counts(failed=1)
            assert run.rc == UNAVAILABLE and "handshake 401" in run.err, run.err


@case
def clients_refused_late_come_back_when_told(_):
    began = []

    def talk(ws):
        began.append(time.monotonic())
        if len(began) > 1:
            answer(ws, {"type": "final", "segment": 0, "text": "yes", "audio_ms": 500})
            return
        ws.recv()
        ws.send('{"type":"error","code":"busy","message":"come back","retry_after":1}')
        ws.close(1013)
    run = against(talk, "--retry", "--expect", "yes")
    run.counts(refused=1, ok=1)
    assert run.rc == OK and run.j["refused_late"] == 1 and run.j["final_ms"]["n"] == 1, run.j
    assert began[1] - began[0] >= 1, began


def refused_in_the_middle(kind, *answers):
    """A run of one user against a server that answers before it has read all, and closes: what is sent next is reset."""
    path = os.path.join(WORK.name, "long.wav")
    with wave.open(path, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        w.writeframes(bytes(32 << 20))  # more than the buffers on the way take
    with socket.create_server(("127.0.0.1", 0)) as listener:
        run = Load(f"{kind}://127.0.0.1:{listener.getsockname()[1]}/", "--users", "1", *["--fast"] * (kind == "ws"), files=(path,))
        c, _ = listener.accept()
        with c:
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(4096)
            for a in answers[:-1]:
                c.sendall(a)
            time.sleep(0.5)  # it sends, and is not read
            run.p.send_signal(signal.SIGSTOP)  # the answer and the reset are there when it looks
            c.sendall(answers[-1])
        run.p.send_signal(signal.SIGCONT)
        return run.end()


@case
def a_refusal_is_heard_by_who_is_still_sending(_):
    run = refused_in_the_middle("http", b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    assert run.counts(refused=1).j["refused_late"] == 0, run.j
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    busy = b'{"type":"error","code":"busy","message":"come back"}'
    run = refused_in_the_middle("ws", switch + frame(1, b'{"type":"ready"}', mask=False),
                                frame(1, busy, mask=False) + frame(8, (1013).to_bytes(2, "big"), mask=False))
    assert run.counts(refused=1).j["refused_late"] == 1 and "come back" in run.err, (run.j, run.err)


@case
def stable_text_that_is_taken_back_fails(_):
    def partial(segment, text, stable):
        return {"type": "partial", "segment": segment, "text": text, "stable": stable, "audio_ms": 100}

    def final(segment, text):
        return {"type": "final", "segment": segment, "text": text, "audio_ms": 200}
    run = answers(partial(0, "one two", "one"), partial(0, "one too", "one"), final(0, "one two"), partial(1, "six", "six"), final(1, "six"))
    assert run.counts(ok=1).rc == OK and run.j["transcripts"][0]["text"] == "one two six", run.j
    for messages in ([partial(0, "one two", "one"), partial(0, "two", "")], [partial(0, "one two", "one two"), final(0, "one too")],
                     [partial(0, "one", "one"), final(0, "")]):
        run = answers(*messages, final(1, "end"))
        assert run.counts(failed=1).rc == UNAVAILABLE and "stable text was taken back" in run.err, (messages, run.err)


@case
def unusable_arguments_are_refused_by_name(d):
    url, wav = ["--url", d.ws], [DIGITS]
    empty = os.path.join(WORK.name, "empty.wav")
    with wave.open(empty, "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
    rows = [
        (wav, USAGE, "--url is missing"),
        (url, USAGE, "FILE.wav is missing"),
        (url + ["--nonsense"] + wav, USAGE, "nonsense"),
        (url + wav + ["--users"], USAGE, "users"),
        (["--url", "ftp://127.0.0.1:80/"] + wav, USAGE, "ftp://127.0.0.1:80/"),
        (["--url", "ws://127.0.0.1:99999/"] + wav, USAGE, "99999"),
        (["--url", "ws://127.0.0.1:80/" + 600 * "x"] + wav, USAGE, "xxxx"),
        (["--url", "ws://no.such.host.invalid:80/"] + wav, NOINPUT, "no.such.host.invalid"),
        (url + ["--metrics", "here"] + wav, USAGE, "here"),
        (url + ["--encodings", "s16le,flac"] + wav, USAGE, "'flac'"),
        (url + ["--encodings", ""] + wav, USAGE, "--encodings"),
        (["--url", d.url, "--encodings", "opus"] + wav, USAGE, "'opus'"),
        (url + ["--encodings", ",".join(257 * ["alaw"])] + wav, NOINPUT, "256"),
        (url + ["--start", '"beam":'] + wav, USAGE, "--start"),
        (url + ["--start", '"note":"' + 2000 * "x" + '"'] + wav, USAGE, "--start"),
        (url + ["--key", 500 * "k"] + wav, USAGE, "--key"),
        (url + ["--pid", "4194305"] + wav, NOINPUT, "4194305"),
        (url + ["--json", "/nowhere/at/all.json"] + wav, NOINPUT, "/nowhere/at/all.json"),
        (url + ["--fast", "--max-p99", "300"] + wav, USAGE, "--max-p99"),
        (url + ["/nowhere.wav"], NOINPUT, "/nowhere.wav"),
        (url + [os.path.abspath(__file__)], NOINPUT, "test_load.py"),
        (url + ["--gap-ms", "0", empty], USAGE, "empty.wav"),
    ]
    rows += [(url + ["--" + name, value] + wav, USAGE, f"--{name} is '{value}'")
             for name, value in (("users", "0"), ("users", "1.5"), ("users", "many"), ("sessions", ""), ("seconds", "-1"), ("ramp", "nan"),
                                 ("drop", "101"), ("chunk-ms", "0"), ("max-wer", "x"))]
    for args, rc, what in rows:
        p = subprocess.run([LOAD, *args], capture_output=True, text=True, timeout=60 * SLOW, check=False)
        assert p.returncode == rc and what in p.stderr and "Sanitizer" not in p.stderr, (args, p.returncode, p.stderr)
    p = subprocess.run([LOAD, "--help"], capture_output=True, text=True, timeout=60 * SLOW, check=False)
    assert p.returncode == OK and "--users" in p.stdout


@case
def a_server_that_is_not_there_fails_every_session(_):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # our port, and nobody listens
        port = s.getsockname()[1]
        for kind in ("ws", "http"):
            run = load(f"{kind}://127.0.0.1:{port}", "--users", "3", "--sessions", "2").counts(failed=6)
            assert run.rc == UNAVAILABLE and run.j["audio_seconds"] == 0 and "user 0, session 0" in run.err, (run.rc, run.err)
            assert run.err.count("\n") <= 6, "not a line for each of thousands"


@case
def a_server_that_dies_in_the_middle_fails_its_sessions(_):
    try:
        with Stenod() as d:
            run = Load(d.ws, "--users", "4", "--say", "1000")
            assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 4)
            d.proc.kill()
            d.proc.wait()
    finally:
        run.end()
    run.counts(failed=4)
    assert run.rc == UNAVAILABLE and "close 1006" in run.err, (run.rc, run.err)


@case
def a_connection_that_the_server_gave_up_is_made_anew(_):
    with Stenod("limits.idle_timeout=1") as d:
        run = load(d.url + "/v1/transcribe", "--users", "2", "--sessions", "2", "--think-ms", "3000", files=(SHORT,))
        assert run.counts(ok=4).rc == OK
        assert run.j["own_cpu_seconds"] < run.j["seconds"] / 2, "it waits, it does not spin"


@case
def an_interrupted_run_reports(d):
    api = 'steno_sessions_active{api="stream"}'
    for number in (signal.SIGINT, signal.SIGTERM):
        d.wait_idle()
        run = Load(d.ws, "--users", "3", "--seconds", "3600", "--say", "1000")  # no user is between two streams
        d.becomes(api, 3)
        run.p.send_signal(number)
        run.end()
        assert run.rc == OK and run.j["dropped"] == 3 and not run.j["failed"], (run.rc, run.j)
    with socket.socket() as s:  # accepts connections and never answers
        s.bind(("127.0.0.1", 0))
        s.listen(8)
        runs = [Load(f"{kind}://127.0.0.1:{s.getsockname()[1]}", "--users", "1") for kind in ("http", "ws")]
        held = [s.accept()[0] for _ in runs]
        for c in held:
            assert c.recv(4), "a request has begun"
        for run in runs:
            run.p.send_signal(signal.SIGINT)
            assert run.end().counts(dropped=1).rc == OK
        for c in held:
            c.close()


if __name__ == "__main__":
    with Stenod() as stenod:
        status = tap(stenod)
    sys.exit(status)
