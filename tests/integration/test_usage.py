"""What API keys have used: metrics, GET /v1/usage, and the file that outlives the daemon."""
import json
import os
import signal
import sys
import tempfile

from daemon import DIGITS, OPEN, Stenod, case, converse, eventually, pcm, tap
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

PCM, RATE = pcm()
SECONDS = len(PCM) / 2 / RATE
ONE, TWO = "one-of-the-callers-1", "two-of-the-callers-2"
with open(DIGITS, "rb") as f:
    WAV = f.read()


def keys_file(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".keys")
    f.write(text)
    f.flush()
    return f


BOTH = f"[one]\nkey = {ONE}\nsessions = 2\n[two]\nkey = {TWO}\naudio_per_minute = 600s\n"
FILE = keys_file(BOTH)


def usage(d, key):
    status, _, body = d.request("GET", "/v1/usage", None, {"Authorization": "Bearer " + key})
    assert status == 200, body
    return json.loads(body)


def post(d, key):
    assert d.request("POST", "/v1/transcribe", WAV, {"X-API-Key": key})[0] == 200


def stream(d, key):
    converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}], additional_headers={"X-API-Key": key})
    d.wait_idle()


@case
def a_key_sees_its_own_use_alone(d):
    post(d, ONE)
    post(d, ONE)
    stream(d, TWO)
    d.wait_idle()
    u = usage(d, ONE)
    assert u["key"] == "one" and u["requests"] == 2 and abs(u["audio_seconds"] - 2 * SECONDS) < 0.01, u
    assert u["quota"] == {"sessions": 2, "requests_per_minute": 0, "audio_per_minute": 0} and u["since"] > 1.7e9, u
    text = json.dumps(u)
    assert "two" not in text and ONE not in text
    u = usage(d, TWO)
    assert u["requests"] == 1 and abs(u["audio_seconds"] - SECONDS) < 0.01 and u["quota"]["audio_per_minute"] == 600, u
    assert d.request("GET", "/v1/usage")[0] == 401
    assert d.request("GET", "/v1/usage", None, {"X-API-Key": "wrong-but-long-enough"})[0] == 401


@case
def metrics_have_names_never_keys(d):
    d.becomes('steno_key_requests_total{key="one"}', 2)
    assert abs(d.metric('steno_key_audio_seconds_total{key="two"}') - SECONDS) < 0.01
    page = d.get("/metrics")[2].decode()
    assert ONE not in page and TWO not in page


@case
def running_sessions_and_refusals_count(d):
    a, b = (connect(d.ws, additional_headers={"X-API-Key": ONE}, **OPEN) for _ in range(2))
    assert usage(d, ONE)["sessions"] == 2 and d.metric('steno_key_sessions{key="one"}') == 2
    try:
        connect(d.ws, additional_headers={"X-API-Key": ONE}, **OPEN)
        raise AssertionError("let in")
    except InvalidStatus as e:
        assert e.response.status_code == 429
    assert usage(d, ONE)["refused"] == 1
    a.close(), b.close()
    assert eventually(lambda: usage(d, ONE)["sessions"] == 0)


@case
def a_key_that_is_read_later_has_its_series(_):
    with keys_file(f"[one]\nkey = {ONE}\n") as keys, Stenod(f"auth.keys={keys.name}", "metrics.keys=yes") as d:
        assert d.metric('steno_key_requests_total{key="two"}') is None
        keys.seek(0)
        keys.write(BOTH)
        keys.flush()
        d.proc.send_signal(signal.SIGHUP)
        assert eventually(lambda: d.metric('steno_key_requests_total{key="two"}') == 0)


@case
def counts_outlive_a_restart(_):
    with tempfile.TemporaryDirectory() as state:
        setup = (f"auth.keys={FILE.name}", "metrics.keys=yes", f"server.state={state}")
        with Stenod(*setup) as d:
            post(d, ONE)
            stream(d, TWO)
            before = usage(d, ONE)
        assert sorted(os.listdir(state)) == ["usage"]
        assert os.stat(os.path.join(state, "usage")).st_mode & 0o777 == 0o600
        with Stenod(*setup) as d:
            assert usage(d, ONE) == before
            post(d, ONE)
            assert eventually(lambda: usage(d, ONE)["requests"] == 2)
            assert abs(d.metric('steno_key_audio_seconds_total{key="two"}') - SECONDS) < 0.01
        # systemd's variable means the same
        named = os.path.join(state, "steno-state")
        os.mkdir(named)
        os.rename(os.path.join(state, "usage"), os.path.join(named, "usage"))
        os.environ["STATE_DIRECTORY"] = f"{state}:{named}:/nowhere"
        try:
            with Stenod(f"auth.keys={FILE.name}", "metrics.keys=yes") as d:
                assert usage(d, ONE)["requests"] == 2
        finally:
            del os.environ["STATE_DIRECTORY"]


@case
def a_damaged_file_is_named_and_not_overwritten(_):
    import subprocess

    from daemon import BUILD, ROOT
    with tempfile.TemporaryDirectory() as state:
        path = os.path.join(state, "usage")
        with open(path, "w", encoding="utf-8") as f:
            f.write("steno usage 1\none 1 2\n")
        p = subprocess.run([os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0", "--set", f"auth.keys={FILE.name}", "--set",
                            f"server.state={state}"], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert p.returncode and f"server.state: {path}:2: " in p.stderr, p
        with open(path, encoding="ascii") as f:
            assert f.read() == "steno usage 1\none 1 2\n"


if __name__ == "__main__":
    with Stenod(f"auth.keys={FILE.name}", "metrics.keys=yes") as server:
        sys.exit(tap(server))
