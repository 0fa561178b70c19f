"""Two daemons behind haproxy and behind nginx with the shipped configurations (docs/scale.md): agent checks steer connections,
clients that come back reach their machine, and neither a rolling restart nor a kill loses a word."""
# not under sanitizers: what it tests of the server is timing between processes
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from websockets.sync.client import connect

from daemon import BUILD, OPEN, ROOT, Skip, Stenod, case, eventually, need_descriptors, tap
from redis_server import Redis

sys.path.insert(0, os.path.join(ROOT, "loadtest"))
import roll  # noqa: E402

PLACES = ("pool.capacity=20", "limits.sessions=1000", "server.drain_timeout=30")


def pair(*settings, kind=roll.Pair, **kw):
    if not shutil.which(kind.program, path=os.environ["PATH"] + ":/usr/sbin"):
        raise Skip(f"{kind.program} is not installed")
    need_descriptors(4096)  # haproxy's, for maxconn 2000
    return kind(*PLACES, *settings, **kw)


def node_of(ws):
    """The daemon that serves a session."""
    ws.send(json.dumps({"type": "start", "sample_rate": 8000, "resumable": True}))
    return re.match(r"sess_(\w)\.[0-9a-f]{30}$", json.loads(ws.recv(timeout=60))["session_id"]).group(1)


def through(p, n):
    """Open n sessions by haproxy: (connections, {node: how many})."""
    conns = [connect(f"ws://127.0.0.1:{p.port}/v1/stream", **OPEN) for _ in range(n)]
    where = [node_of(c) for c in conns]
    return conns, {k: where.count(k) for k in "ab"}


@case
def the_line_tells_free_capacity_and_what_an_operator_says():
    with pair() as p:
        a = p.daemons[0]
        assert a.line() == "ready up 100%"
        held = [connect(f"ws://127.0.0.1:{a.port}/v1/stream", **OPEN) for _ in range(15)]
        for ws in held:
            node_of(ws)
        assert eventually(lambda: a.line() == "ready up 25%"), a.line()
        for say, line, readyz in (("drain", "drain", 503), ("maint", "maint", 503), ("ready", "ready up 25%", 200)):
            assert a.ask(say) == {"ok": True} and a.line() == line, (say, a.line())
            status = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*",
                                     f"http://127.0.0.1:{a.port}/readyz"], capture_output=True, text=True, check=True).stdout
            assert int(status) == readyz, (say, status)
        a.proc.send_signal(signal.SIGUSR1)
        assert eventually(lambda: a.line() == "drain")
        extra = connect(f"ws://127.0.0.1:{a.port}/v1/stream", **OPEN)
        assert node_of(extra) == "a"  # who comes all the same is served
        for ws in held + [extra]:
            ws.close()


@case
def weights_move_connections():
    with pair() as p:
        a = p.daemons[0]
        conns, where = through(p, 8)
        assert min(where.values()) >= 3, where  # both alike
        for c in conns:
            c.close()
        assert eventually(lambda: all(d.line() == "ready up 100%" for d in p.daemons))
        # 16 of a's 20 places are taken by clients that haproxy does not know
        held = [connect(f"ws://127.0.0.1:{a.port}/v1/stream", **OPEN) for _ in range(16)]
        for ws in held:
            node_of(ws)
        assert eventually(lambda: p.servers()["a"]["weight"] == "20" and p.servers()["b"]["weight"] == "100"), p.servers()
        conns, where = through(p, 10)
        assert where["b"] >= 7, where
        a.ask("drain")
        assert eventually(lambda: p.servers()["a"]["status"].startswith("DRAIN")), p.servers()["a"]["status"]
        more, where = through(p, 4)
        assert where == {"a": 0, "b": 4}, where
        a.ask("ready")
        for ws in held + conns + more:
            ws.close()
        assert eventually(lambda: p.servers()["a"]["status"].startswith("UP") and p.servers()["a"]["weight"] == "100"), p.servers()["a"]
        conns, where = through(p, 6)
        assert where["a"] >= 2, where
        for ws in conns:
            ws.close()


@case
def a_client_that_comes_back_reaches_its_machine():
    with pair() as p:
        assert come_back(p) == {"a", "b"}
        # also while its machine drains
        a, url = p.daemons[0], f"ws://127.0.0.1:{p.port}/v1/stream"
        ws = connect(f"ws://127.0.0.1:{a.port}/v1/stream", **OPEN)
        ws.send(json.dumps({"type": "start", "sample_rate": 8000, "resumable": True}))
        session = json.loads(ws.recv(timeout=60))["session_id"]
        ws.socket.close()
        a.ask("drain")
        assert eventually(lambda: p.servers()["a"]["status"].startswith("DRAIN"))
        with connect(f"{url}?session_id={session}&seq=0", **OPEN) as ws:
            m = json.loads(ws.recv(timeout=60))
            assert m["type"] == "resumed" and m["session_id"] == session, m


@case
def a_rolling_restart_loses_no_word():
    with pair() as p:
        got = asyncio.run(roll.run(p, streams=8, times=3, uploads=1, killed=False))
    assert not got["wrong"] and got["exit"] == [0, 0], got
    assert got["drains"] >= 8 and got["moved"] == 8, got  # every stream was on a daemon that was restarted
    text = roll.audio(1)[2]
    assert set(got["uploads"]) == {text} and got["uploads"][text] >= 3, got


@case
def a_kill_loses_no_word_of_clients_that_say_it_again():
    with pair() as p:
        got = asyncio.run(roll.run(p, streams=8, times=2, uploads=1, killed=True, after=5.0))
    assert not got["wrong"], got
    assert 8 < got["sessions"] <= 16 and got["moved"] >= 2, got
    # what is said again is at most the audio since the last final: one recording and its pause, for those on the dead machine
    assert 0 < got["said_again_s"] < 7.3, got


def moved(p):
    """Sessions that came to the daemons that run now from another machine."""
    return sum(d.ask("status")["metrics"].get('steno_ws_sessions_moved_total{to="here"}', 0) for d in p.daemons)


@case
def a_rolling_restart_with_sessions_in_redis_needs_no_machine_to_come_back_to():
    with Redis(kept=False) as r, pair(redis=r.url) as p:
        got = asyncio.run(roll.run(p, streams=8, times=3, uploads=1, killed=False))
        arrived = moved(p)
    assert not got["wrong"] and got["exit"] == [0, 0], got
    # no stream began anew, no final was cut: each has gone on on the other machine
    assert got["sessions"] == 8 and got["drains"] == 0 and got["resumes"] >= 8 and arrived >= 4, (got, arrived)


@case
def a_kill_with_sessions_in_redis_begins_no_stream_anew():
    with Redis(kept=False) as r, pair(redis=r.url) as p:
        got = asyncio.run(roll.run(p, streams=8, times=2, uploads=1, killed=True, after=5.0))
        arrived = moved(p)
    assert not got["wrong"], got
    assert got["sessions"] == 8 and got["resumes"] >= 2 and arrived >= 2, (got, arrived)
    assert 0 < got["said_again_s"] < 7.3, got


@case
def clients_that_lose_their_connection_go_on_where_the_balancer_sends_them():
    """Machine a is taken out, and lives. Its clients' connections are cut, and all go on on b."""
    with Redis(kept=False) as r, pair(redis=r.url) as p:
        pcm, rate, text, _ = roll.audio(2)

        async def all_of():
            streams = [roll.Stream(p.port, pcm, rate, stop_at=4 + i) for i in range(8)]
            runs = [asyncio.create_task(s.run()) for s in streams]
            await asyncio.sleep(1.5)
            await asyncio.to_thread(p.daemons[0].ask, "drain")
            await asyncio.to_thread(roll.wait_for, lambda: p.drains(p.daemons[0]), "drain")
            return await asyncio.gather(*runs)
        done = asyncio.run(all_of())
        assert [s.text for s in done] == [text] * 8, [s.text for s in done]
        assert all(s.sessions == 1 and s.resumes == 1 for s in done), [(s.sessions, s.resumes) for s in done]
        on_a = sum(s.nodes[0].startswith("sess_a.") for s in done)
        assert on_a >= 2 and moved(p) == on_a, (on_a, moved(p))


def come_back(p):
    """Eight clients that lose their connection once: each reaches its machine again. Returns the machines."""
    pcm, rate, text, _ = roll.audio(1)

    async def all_of():
        return await asyncio.gather(*(roll.Stream(p.port, pcm, rate, stop_at=2 + 0.1 * i).run() for i in range(8)))
    done = asyncio.run(all_of())
    assert [s.text for s in done] == [text] * 8, [s.text for s in done]
    assert all(s.sessions == 1 and s.resumes == 1 for s in done), [(s.sessions, s.resumes) for s in done]
    return {re.match(r"sess_(\w)\.", s.nodes[0]).group(1) for s in done}


@case
def nginx_spreads_clients_and_brings_them_back():
    with pair(kind=roll.NginxPair) as p:
        conns, where = through(p, 8)
        assert where == {"a": 4, "b": 4}, where  # least_conn
        for ws in conns:
            ws.close()
        assert come_back(p) == {"a", "b"}
        # a full machine refuses with 503, and the other one gets the handshake
        held = [connect(f"ws://127.0.0.1:{p.daemons[0].port}/v1/stream", **OPEN) for _ in range(20)]
        for ws in held:
            node_of(ws)
        conns, where = through(p, 6)
        assert where == {"a": 0, "b": 6}, where
        for ws in held + conns:
            ws.close()


@case
def a_rolling_restart_behind_nginx_loses_no_word():
    with pair(kind=roll.NginxPair) as p:
        got = asyncio.run(roll.run(p, streams=8, times=3, uploads=1, killed=False))
    assert not got["wrong"] and got["exit"] == [0, 0], got
    assert got["drains"] >= 8, got  # every stream was on a daemon that was restarted
    text = roll.audio(1)[2]
    assert set(got["uploads"]) == {text} and got["uploads"][text] >= 3, got


@case
def a_kill_behind_nginx_loses_no_word_of_clients_that_say_it_again():
    with pair(kind=roll.NginxPair) as p:
        got = asyncio.run(roll.run(p, streams=8, times=2, uploads=1, killed=True, after=5.0))
    assert not got["wrong"], got
    assert 8 < got["sessions"] <= 16 and got["moved"] >= 2, got


@case
def a_name_that_does_not_fit_an_id_is_an_error():
    for wrong in ("too-long-a", "a.b", "ninechars", "a b"):
        p = subprocess.run([os.path.join(BUILD, "stenod"), "--set", f"server.node={wrong}"], capture_output=True, text=True,
                           timeout=60, cwd=ROOT, check=False)
        assert p.returncode == 64 and "server.node" in p.stderr, p
    with Stenod("server.node=eight888") as d, connect(d.ws, **OPEN) as ws:
        ws.send(json.dumps({"type": "start", "sample_rate": 8000, "resumable": True}))
        assert re.match(r"sess_eight888\.[0-9a-f]{23}$", json.loads(ws.recv(timeout=60))["session_id"])


if __name__ == "__main__":
    os.environ.setdefault("STENO_DATA", os.path.join(BUILD, "data"))
    began = time.monotonic()
    sys.exit(tap())
