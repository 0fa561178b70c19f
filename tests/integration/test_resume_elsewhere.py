"""Live sessions in Redis: a client comes back to any machine, whether the first one was killed, drains, or still lives. Every
final is delivered once, and the text is that of a stream that nothing disturbed. TAP."""
import hashlib
import json
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SLOW, Stenod, case, eventually, pcm, tap, until_closed
from redis_server import Cut, Redis

DIGITS, RATE = pcm()
PAUSE = bytes(2 * int(1.5 * RATE))
TIMES = 3
PCM = (DIGITS + PAUSE) * TIMES
TEXT = " ".join([DIGITS_TEXT] * TIMES)
START = {"type": "start", "encoding": "s16le", "sample_rate": RATE, "resumable": True}


class Store(Redis):
    """After half a second the server delivers a final even if Redis has not stored it, and the next machine does not know it then.
    A busy disk must not cause that, so this Redis keeps nothing on disk."""

    def __init__(self):
        super().__init__(kept=False)

    def has(self, client):
        """Whether the client's last final is stored."""
        key = "steno:live:" + hashlib.sha256(client.session.encode()).hexdigest()
        return str(client.finals()[-1]["seq"]) in self.cli("HKEYS", key)


class Machine(Stenod):
    def __init__(self, redis, node, *settings, url=None, **kw):
        self.folder = tempfile.mkdtemp(prefix="steno-live-")
        super().__init__(f"jobs.dir={self.folder}", f"jobs.queue={url or redis.url}", f"server.node={node}", *settings, **kw)

    def __exit__(self, *a):
        super().__exit__(*a)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self):
        self.proc.kill()
        self.proc.wait()


class Client:
    """A client that keeps all that it got, and its audio."""

    def __init__(self, d, start=None, audio=PCM, width=2, **kw):
        self.audio, self.width, self.kw = audio, width, kw
        self.got, self.session = [], None
        self.ws = connect(d.ws, **OPEN, **kw)
        self.ws.send(json.dumps(start or START))
        self.session = self.read("ready")["session_id"]
        self.sent = 0

    def read(self, until, enough=lambda m: True):
        while True:
            self.got.append(json.loads(self.ws.recv(timeout=60 * SLOW)))
            if self.got[-1]["type"] == until and enough(self.got[-1]):
                return self.got[-1]

    def send(self, seconds=None):
        """Send so much more audio; None: all."""
        to = len(self.audio) if seconds is None else self.sent + int(seconds * RATE) * self.width
        while self.sent < min(to, len(self.audio)):
            part = self.audio[self.sent:min(to, self.sent + 3200)]
            self.ws.send(part)
            self.sent += len(part)

    def cut(self):
        self.ws.socket.shutdown(socket.SHUT_RDWR)
        self.ws.socket.close()

    def back(self, d, sample=None, **kw):
        query = f"?session_id={self.session}&seq={self.got[-1]['seq']}" + ("" if sample is None else f"&sample={sample}")
        self.ws = connect(d.ws + query, **OPEN, **{**self.kw, **kw})
        resumed = self.read("resumed")
        self.sent = self.width * (resumed["samples"] if sample is None else sample)
        return resumed

    def refused(self, d, status, says, sample=None, **kw):
        try:
            self.back(d, sample, **kw)
        except InvalidStatus as e:
            assert e.response.status_code == status and says in e.response.body.decode(), (e.response.status_code, e.response.body)
            return
        raise AssertionError("was let in")

    def end(self):
        self.send()
        self.ws.send('{"type":"end"}')
        more, code, _ = until_closed(self.ws)
        self.got += more
        assert code == 1000, (code, self.got[-1])
        return self

    def finals(self):
        return [m for m in self.got if m["type"] == "final"]

    def text(self):
        return " ".join(m["text"] for m in self.finals() if m["text"])

    def check(self, text=TEXT):
        """Every word once, in order; numbers and times that only grow."""
        assert self.text() == text, self.finals()
        seqs = [m["seq"] for m in self.got]
        assert seqs == sorted(set(seqs)), seqs
        f = self.finals()
        assert [m["segment"] for m in f] == list(range(len(f))), [m["segment"] for m in f]
        words = [w for m in f for w in m["words"]]
        assert all(a["start"] <= b["start"] + 0.001 for a, b in zip(words, words[1:])), words
        assert self.got[-1]["type"] == "end" and self.got[-1]["finals"] == len(f), (self.got[-1], len(f))
        return words


def heard(d, seconds, *args, **kw):
    """A client that has sent so much audio and got a final."""
    c = Client(d, *args, **kw)
    c.send(seconds)
    c.read("final")
    return c


_undisturbed = []


def undisturbed(d):
    if not _undisturbed:
        _undisturbed.append(Client(d).end().check())
    return _undisturbed[0]


def same_words(got, want):
    """The same words, at the same times but for the frames that a stream begins anew."""
    assert [w["word"] for w in got] == [w["word"] for w in want]
    late = max(abs(a["start"] - b["start"]) for a, b in zip(got, want))
    assert late < 0.15, late


def stored(r):
    return r.cli("KEYS", "steno:live:*")


@case
def a_killed_machines_sessions_go_on_on_another_one():
    with Store() as r, Machine(r, "b") as b:
        want = undisturbed(b)
        for at in (0.5, 5.0, 9.0, 14.0, 20.0, 26.3):
            with Machine(r, "a") as a:
                c = Client(a)
                c.send(at)
                assert c.session.startswith("sess_a."), c.session
                n = int(at / 8.8)  # finals that are there by now
                if n:
                    c.read("final", lambda m, n=n: m["segment"] >= n - 1)
                a.kill()
                resumed = c.back(b)
                assert resumed["samples"] <= at * RATE and not resumed["ended"], resumed
                if n:
                    assert abs(resumed["samples"] - c.finals()[-1]["end"] * RATE) <= 1, (resumed, c.finals()[-1])
                same_words(c.end().check(), want)
        assert b.metric('steno_ws_sessions_moved_total{to="here"}') == 6
        assert b.metric("steno_session_store_unstored_total") == 0


@case
def many_streams_of_a_killed_machine_get_each_final_once():
    """Killed at any moment, also between a result and its storing."""
    with Store() as r, Machine(r, "b") as b:
        for delay in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
            with Machine(r, "a") as a:
                clients = [Client(a) for _ in range(6)]
                for i, c in enumerate(clients):
                    c.send(8.4 + 0.1 * i)
                time.sleep(delay)
                a.kill()
                for c in clients:
                    c.got += until_closed(c.ws)[0]  # what was sent before the end
                for c in clients:
                    c.back(b)
                    c.end().check()


@case
def a_session_that_is_over_is_told_by_another_machine():
    with Store() as r, Machine(r, "b") as b:
        with Machine(r, "a") as a:
            c = Client(a).end()
            seen, c.got = c.got, c.got[:3]
            assert eventually(lambda: a.metric('steno_sessions_active{api="stream"}') == 0)
            a.kill()
        c.ws = connect(f"{b.ws}?session_id={c.session}&seq={c.got[-1]['seq']}", **OPEN)
        more, code, _ = until_closed(c.ws)
        assert code == 1000 and more == [m for m in seen[3:] if m["type"] in ("final", "end")], more


@case
def only_the_same_key_gets_a_session_and_nothing_secret_is_stored():
    with Store() as r, tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("[alice]\nkey = alice-alice-alice-1\n[bob]\nkey = bob-bob-bob-bob-1\n")
        f.flush()
        alice, bob = ({"additional_headers": {"Authorization": f"Bearer {k}"}} for k in ("alice-alice-alice-1", "bob-bob-bob-bob-1"))
        keys = f"auth.keys={f.name}"
        with Machine(r, "b", keys) as b:
            with Machine(r, "a", keys) as a:
                c = heard(a, 9, START, **alice)
                name, = stored(r)
                everything = " ".join([name] + r.cli("HGETALL", name))
                assert c.session not in everything and c.session[7:] not in everything and "alice-alice" not in everything, everything
                assert "zero" in everything  # but what was said is
                a.kill()
            c.refused(b, 404, "session_not_found", **bob)
            c.refused(b, 401, "invalid_api_key", additional_headers={})
            c.back(b)
            c.end().check()
            wrong = c.session[:-1] + ("0" if c.session[-1] != "0" else "1")
            c.session = wrong
            c.refused(b, 404, "session_not_found")


@case
def a_session_has_its_settings_elsewhere():
    with Store() as r, Machine(r, "b") as b:
        with Machine(r, "a") as a:
            c = heard(a, 9, {**START, "interim": False, "words": False, "alternatives": 3, "beam": 5, "silence_after": 0.9})
            a.kill()
        c.back(b)
        c.end()
        assert c.text() == TEXT and not any(m["type"] == "partial" for m in c.got)
        assert all("words" not in m and 1 <= len(m["alternatives"]) <= 3 for m in c.finals()), c.finals()


@case
def channels_go_on_each_from_its_own_final():
    left, right = DIGITS + PAUSE, PAUSE + PAUSE + DIGITS
    n = max(len(left), len(right))
    left, right = (x + bytes(n - len(x)) for x in (left, right))
    frames = bytearray(2 * n)
    for i in range(0, n, 2):
        frames[2 * i:2 * i + 2], frames[2 * i + 2:2 * i + 4] = left[i:i + 2], right[i:i + 2]
    audio = bytes(frames) * 2
    start = {**START, "channels": 2, "multichannel": True}

    def of(c, channel):
        return " ".join(m["text"] for m in c.finals() if m["channel"] == channel and m["text"])
    with Store() as r, Machine(r, "b") as b:
        for at in (9.2, 12.0, 15.0, 20.0):
            with Machine(r, "a") as a:
                c = heard(a, at, start, audio, width=4)
                a.kill()
            c.back(b)
            c.end()
            assert of(c, 1) == of(c, 2) == " ".join([DIGITS_TEXT] * 2), (at, c.finals())


@case
def after_its_time_a_stored_session_is_gone():
    with Store() as r, Machine(r, "b", "websocket.resume=5") as b:
        with Machine(r, "a", "websocket.resume=5") as a:
            c = Client(a)
            c.send(1)
            time.sleep(8)  # while its machine lives and its client is there, the session is kept; otherwise for 5 s and a third
            a.kill()
            c.back(b)
            c.cut()
        assert eventually(lambda: b.metric('steno_sessions_total{api="stream",result="gone"}') == 1, 20 * SLOW)
        c.refused(b, 404, "session_not_found")
        assert eventually(lambda: not stored(r), 10 * SLOW), stored(r)


@case
def a_session_that_its_client_closed_is_not_resumed():
    with Store() as r, Machine(r, "a") as a, Machine(r, "b") as b:
        c = Client(a)
        c.send(1)
        c.ws.close()
        assert eventually(lambda: not any("head" in r.cli("HKEYS", k) for k in stored(r)))
        c.refused(b, 404, "session_not_found")
        assert a.metric('steno_sessions_active{api="stream"}') == 0


@case
def a_machine_that_lives_loses_a_session_whose_client_has_moved():
    with Store() as r, Machine(r, "a", "websocket.resume=20") as a, Machine(r, "b", "websocket.resume=20") as b:
        c = heard(a, 9)
        old = c.ws
        c.back(b)  # while the connection to a is open
        more, code, _ = until_closed(old)
        assert code == 4001 and not any(m["type"] in ("final", "end") for m in more), (code, more)
        assert a.wait_idle().metric('steno_sessions_total{api="stream",result="moved"}') == 1
        same_words(c.end().check(), undisturbed(b))
        # without a connection too, and back again to where a stale copy waits
        c = heard(a, 9)
        c.cut()
        assert eventually(lambda: a.metric("steno_ws_sessions_waiting") == 1)
        c.back(b)
        c.send(9)
        c.read("final", lambda m: m["segment"] == 1)
        c.cut()
        c.back(a)
        same_words(c.end().check(), undisturbed(b))
        assert a.wait_idle().metric("steno_ws_sessions_waiting") == 0 and b.wait_idle().metric("steno_ws_sessions_waiting") == 0
        assert a.metric("steno_session_store_failures_total") == 0 and b.metric("steno_session_store_failures_total") == 0


@case
def one_of_two_machines_that_are_asked_at_once_gets_a_session():
    with Store() as r, Machine(r, "b") as b, Machine(r, "c") as x:
        for _ in range(5):
            with Machine(r, "a") as a:
                c = heard(a, 9)
                a.kill()
            got, threads = [], []

            def come(d, c=c, got=got):
                ws = connect(f"{d.ws}?session_id={c.session}&seq={c.got[-1]['seq']}", **OPEN)
                got.append((ws, json.loads(ws.recv(timeout=60 * SLOW))))
            for d in (b, x):
                threads.append(threading.Thread(target=come, args=(d,)))
                threads[-1].start()
            for t in threads:
                t.join()
            assert len(got) == 2 and all(m["type"] == "resumed" for _, m in got), got
            finals = []
            lost = []

            def rest(ws, m, c=c, finals=finals, lost=lost):
                """Go on as a client does; what is closed with 4001 has lost the session."""
                mine = []
                try:
                    at = 2 * m["samples"]
                    while at < len(PCM):
                        ws.send(PCM[at:at + 3200])
                        at += 3200
                    ws.send('{"type":"end"}')
                except ConnectionClosed:
                    pass
                more, code, _ = until_closed(ws)
                mine += [f for f in more if f["type"] == "final"]
                (finals if code == 1000 else lost).append((code, mine))
            threads = [threading.Thread(target=rest, args=g) for g in got]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(finals) == len(lost) == 1 and lost[0][0] == 4001 and not lost[0][1], (finals, lost)
            assert c.text() + " " + " ".join(f["text"] for f in finals[0][1] if f["text"]) == TEXT, finals


@case
def the_old_machine_comes_back_after_a_stop():
    """It hung (SIGSTOP) while the client moved; what it recognised later is delivered by nobody."""
    with Store() as r, Machine(r, "a", "websocket.resume=30") as a, Machine(r, "b") as b:
        c = Client(a)
        c.send(8.2)
        c.read("final")  # of the first segment
        a.proc.send_signal(signal.SIGSTOP)
        try:
            old = c.ws
            old.send(PCM[c.sent:c.sent + RATE])  # more, so that there will be a final
            c.back(b)
            c.end().check()
        finally:
            a.proc.send_signal(signal.SIGCONT)
        more, code, _ = until_closed(old)
        assert code == 4001 and not any(m["type"] == "final" for m in more), (code, more)
        assert a.wait_idle().metric('steno_sessions_total{api="stream",result="moved"}') == 1


@case
def without_redis_clients_come_back_to_their_own_machine():
    with Store() as r:
        cut = Cut(r.port)
        with Machine(r, "a", url=f"redis://:secret@127.0.0.1:{cut.port}/3") as a:
            c = Client(a)
            cut.open.clear()
            c.send(9)
            c.read("final")  # after half a second, in which it could be stored
            assert eventually(lambda: a.metric("steno_session_store_up") == 0, 10 * SLOW)
            c.cut()
            c.back(a)
            late = Client(a)  # begins without Redis, and goes on elsewhere later
            late.send(9)
            late.read("final")
            assert eventually(lambda: a.metric("steno_session_store_unstored_total") >= 2), a.metric("steno_session_store_unstored_total")
            assert "live sessions are not stored" in a.output()
            cut.open.set()
            assert eventually(lambda: a.metric("steno_session_store_up") == 1, 20 * SLOW)
            assert eventually(lambda: r.has(c) and r.has(late), 20 * SLOW), stored(r)
            a.kill()
            with Machine(r, "b") as b:
                for x in (c, late):
                    resumed = x.back(b)
                    assert abs(resumed["samples"] - x.finals()[-1]["end"] * RATE) <= 1, (resumed, x.finals()[-1])
                    same_words(x.end().check(), undisturbed(b))


@case
def a_client_that_knows_more_than_the_store_is_refused_by_the_sample_it_names():
    """Redis was away when a final was delivered, and is there again when the machine is not."""
    with Store() as r:
        cut = Cut(r.port)
        with Machine(r, "b") as b:
            with Machine(r, "a", url=f"redis://:secret@127.0.0.1:{cut.port}/3") as a:
                c = heard(a, 9)
                cut.open.clear()
                c.send(9)
                f = c.read("final", lambda m: m["segment"] == 1)
                a.kill()
            c.refused(b, 409, "sample", sample=int(f["end"] * RATE))
            rest = Client(b, audio=PCM[2 * int(f["end"] * RATE):]).end()
            assert c.text() + " " + rest.text() == TEXT


@case
def a_store_that_lost_everything_gets_it_again():
    with Store() as r, Machine(r, "b") as b, Machine(r, "a", "websocket.resume=9") as a:
        c = heard(a, 9)
        r.cli("FLUSHALL")
        assert eventually(lambda: r.has(c), 30), stored(r)
        a.kill()
        c.back(b)
        same_words(c.end().check(), undisturbed(b))


@case
def a_store_without_memory_refuses_and_gets_all_later():
    with Store() as r, Machine(r, "b") as b, Machine(r, "a") as a:
        c = Client(a)
        assert r.cli("CONFIG", "SET", "maxmemory", "1kb") == "OK"
        c.send(9)
        c.read("final")
        assert eventually(lambda: "live sessions are not stored: OOM" in a.output()), a.output()
        began, before = time.monotonic(), a.metric("steno_session_store_writes_total")
        time.sleep(3)
        tries = a.metric("steno_session_store_writes_total") - before
        assert 1 <= tries <= time.monotonic() - began + 2, tries  # once a second
        assert a.output().count("live sessions are not stored: OOM") == 1, a.output()
        assert r.cli("CONFIG", "SET", "maxmemory", "0") == "OK"
        assert eventually(lambda: r.has(c), 10 * SLOW), r.cli("HKEYS", stored(r)[0])
        a.kill()
        assert abs(c.back(b)["samples"] - c.finals()[-1]["end"] * RATE) <= 1
        same_words(c.end().check(), undisturbed(b))


@case
def a_machine_that_drains_hands_its_sessions_over():
    with Store() as r, Machine(r, "b") as b, Machine(r, "a", "server.drain_timeout=1h") as a:
        c = heard(a, 12)
        waiting = heard(a, 12)
        waiting.cut()
        assert eventually(lambda: a.metric("steno_ws_sessions_waiting") == 1)
        a.proc.send_signal(signal.SIGTERM)
        more, code, why = until_closed(c.ws)
        c.got += more
        assert code == 1012 and why == "draining" and not any(m["type"] in ("final", "end") for m in more), (code, why, more)
        assert a.proc.wait(60 * SLOW) == 0  # it has not waited for its clients
        for x in (c, waiting):
            x.back(b)
            same_words(x.end().check(), undisturbed(b))


@case
def the_same_machine_goes_on_after_its_restart():
    with Store() as r:
        with Machine(r, "a") as a:
            c = heard(a, 12)
        with Machine(r, "a") as a:
            c.back(a)
            same_words(c.end().check(), undisturbed(a))


if __name__ == "__main__":
    sys.exit(tap())
