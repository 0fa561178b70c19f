"""The administrator's socket, and steno top on it."""
import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

from daemon import BUILD, DIGITS, SLOW, Stenod, case, eventually, tap

STENO = os.path.join(BUILD, "steno")


def top(path, *args):
    r = subprocess.run([STENO, "top", "--socket", path, *args], capture_output=True, text=True, timeout=60 * SLOW)
    return r.returncode, r.stdout, r.stderr


def ask(path, *lines):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    with s, s.makefile("rb") as f:
        out = []
        for line in lines:
            s.sendall(line)
            out.append(json.loads(f.readline()))
        return out


def served(fn):
    def run(_):
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, "admin.sock")
            with Stenod(f"server.admin={path}") as d:
                fn(d, path)
            assert not os.path.exists(path)
    run.__name__ = fn.__name__
    return run


@case
@served
def it_shows_what_ran(d, path):
    with open(DIGITS, "rb") as f:
        assert d.request("POST", "/v1/transcribe", f.read())[0] == 200
    d.wait_idle()
    code, out, err = top(path, "--once")
    assert code == 0 and not err, (code, err)
    assert out.startswith("stenod ") and "serving" in out and "digits-en" in out and "LATENCY" in out, out
    assert "\033" not in out
    code, out, err = top(path, "--once", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["metrics"]['steno_sessions_total{api="transcribe",result="ok"}'] == 1, answer
    model, = answer["models"]
    assert model["default"] and model["pool"]["audio_seconds"] > 5 and sum(model["pool"]["batches"]) > 0, model
    # every series of the page exists
    series = {line.rsplit(" ", 1)[0] for line in d.get("/metrics")[2].decode().splitlines() if line[0] != "#"}
    assert series == set(answer["metrics"]), series ^ set(answer["metrics"])


@case
@served
def nobody_else_can_open_it(_, path):
    st = os.stat(path)
    assert stat.S_ISSOCK(st.st_mode) and stat.S_IMODE(st.st_mode) == 0o600, oct(st.st_mode)


@case
@served
def reload_does_what_sighup_does(d, path):
    assert ask(path, b"reload\n") == [{"ok": True}]
    assert eventually(lambda: ask(path, b"status\n")[0]["models"][0]["generation"] == 2, 30)


@case
@served
def rude_clients_do_no_harm(d, path):
    for line in (b"\n", b"what\n", b"status \n", b"\0\n", b"\xff\xfe\n"):
        assert "error" in ask(path, line)[0], line
    a, b = ask(path, b"status\nstatus\n", b"")  # two commands in one write
    assert a["version"] == b["version"]
    long = socket.socket(socket.AF_UNIX)
    long.connect(path)
    try:
        long.sendall(b"x" * 5000)
        assert long.recv(100) == b""
    except (BrokenPipeError, ConnectionResetError):
        pass
    deaf = []
    for _ in range(40):  # they send and never read; the oldest connections are closed
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.setblocking(False)
        try:
            for _ in range(2000):
                s.send(b"status\n")
        except OSError:
            pass
        deaf.append(s)
    assert ask(path, b"status\n")[0]["version"]
    half = socket.socket(socket.AF_UNIX)
    half.connect(path)
    half.sendall(b"stat")
    assert ask(path, b"status\n")[0]["version"]
    assert d.status("/healthz") == 200


@case
@served
def it_goes_on_until_the_server_ends(d, path):
    p = subprocess.Popen([STENO, "top", "--socket", path, "--interval", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    heads = 0
    while heads < 3 and (line := p.stdout.readline()):
        heads += line.startswith("stenod ")
    assert heads == 3, p.stderr.read()
    assert d.terminate() == 0
    _, err = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 74 and "gone" in err, (p.returncode, err)


@case
@served
def in_a_terminal_it_draws_and_gives_it_back(_, path):
    for how in ("q", signal.SIGINT, signal.SIGTERM):
        pid, fd = pty.fork()
        if not pid:
            os.execv(STENO, [STENO, "top", "--socket", path, "--interval", "0.2"])
        seen = b""
        deadline = time.monotonic() + 60 * SLOW
        told = False
        while time.monotonic() < deadline:
            if not select.select([fd], [], [], 1)[0]:
                continue
            try:
                piece = os.read(fd, 65536)
            except OSError:  # the other end is closed
                break
            seen += piece
            if seen.count(b"\033[H") >= 2 and not told:
                told = True
                if how == "q":
                    os.write(fd, b"q")
                else:
                    os.kill(pid, how)
        _, code = os.waitpid(pid, 0)
        os.close(fd)
        assert code == 0, code
        assert seen.startswith(b"\033[?1049h\033[?25l") and seen.endswith(b"\033[?25h\033[?1049l"), seen[-60:]
        assert b"digits-en" in seen


@case
def without_a_server_it_says_so(_):
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "none.sock")
        code, out, err = top(path, "--once")
        assert code == 74 and path in err and "server.admin" in err and not out, (code, err)
        assert top("/" + "x" * 200, "--once")[0] == 64
        assert top(path, "--interval", "0")[0] == 64 and top(path, "more")[0] == 64
        dead = socket.socket(socket.AF_UNIX)  # the leftover of a killed server
        dead.bind(path)
        dead.close()
        with Stenod(f"server.admin={path}"):
            assert top(path, "--once")[0] == 0
            cmd = [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--set", f"server.admin={path}"]
            r = subprocess.run(cmd, capture_output=True, text=True, timeout=60 * SLOW)
            assert r.returncode == 69 and "server.admin" in r.stderr and "in use" in r.stderr, r
            assert top(path, "--once")[0] == 0  # the first server still has the socket
        with open(path, "w", encoding="utf-8") as f:
            f.write("a file of somebody")
        r = subprocess.run(cmd, capture_output=True, text=True, timeout=60 * SLOW)
        assert r.returncode == 69, r
        with open(path, encoding="utf-8") as f:
            assert f.read() == "a file of somebody"


if __name__ == "__main__":
    sys.exit(tap(None))
