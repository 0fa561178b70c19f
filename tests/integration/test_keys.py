"""API keys and quotas of a running server."""
import json
import os
import signal
import sys
import tempfile

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Stenod, case, converse, eventually, pcm, tap

PCM, RATE = pcm()
ONE, TWO, SMALL = "one-of-the-callers-1", "two-of-the-callers-2", "small-share-of-it-33"
with open(DIGITS, "rb") as f:
    WAV = f.read()


def keys_file(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".keys")
    f.write(text)
    f.flush()
    return f


FILE = keys_file(f"[one]\nkey = {ONE}\nsessions = 1\n[two]\nkey = {TWO}\n"
                 f"[small]\nkey = {SMALL}\naudio_per_minute = 1s\nrequests_per_minute = 100\n")


def post(d, **headers):
    status, answer, body = d.request("POST", "/v1/transcribe", WAV, {k.replace("_", "-"): v for k, v in headers.items()})
    return status, answer, json.loads(body)


def refused(d, query="", **kw):
    """The response of a handshake that must be refused."""
    try:
        connect(d.ws + query, **{**OPEN, **kw}).close()
    except InvalidStatus as e:
        return e.response.status_code, e.response.headers, json.loads(e.response.body)
    raise AssertionError("let in")


@case
def without_a_key_or_with_a_wrong_one_it_is_401(d):
    for headers in ({}, {"Authorization": "Bearer wrong-but-long-enough"}, {"X_API_Key": ""}, {"Authorization": "Basic " + ONE}):
        status, answer, body = post(d, **headers)
        assert status == 401 and body["error"]["code"] == "invalid_api_key", (headers, status, body)
        assert answer["www-authenticate"] == "Bearer"
        assert body["error"]["type"] == "invalid_request_error" or body["error"]["type"] == "authentication_error", body
    status, _, body = refused(d)
    assert status == 401 and body["error"]["code"] == "invalid_api_key", body
    assert refused(d, additional_headers={"Authorization": "Bearer nonsense-nonsense-1"})[0] == 401
    d.becomes('steno_sessions_rejected_total{reason="key"}', 6)
    assert d.status("/readyz") == 200 and d.status("/metrics") == 200
    assert "steno_key_" not in d.get("/metrics")[2].decode()  # nobody has asked for customers' names


@case
def a_key_may_come_in_every_usual_way(d):
    for headers in ({"Authorization": "Bearer " + ONE}, {"Authorization": "Token " + ONE}, {"X_API_Key": TWO}):
        status, _, body = post(d, **headers)
        assert status == 200 and body["text"] == DIGITS_TEXT, body
        d.wait_idle()
    for query, kw in (("", {"additional_headers": {"Authorization": "Bearer " + ONE}}), ("?api_key=" + TWO, {}),
                      ("", {"additional_headers": {"X-API-Key": TWO}}), ("", {"subprotocols": ["token", TWO]})):
        with connect(d.ws + query, **{**OPEN, **kw}) as ws:
            assert ws.subprotocol == ("token" if "subprotocols" in kw else None)
            ws.send('{"type":"end"}')
            assert [json.loads(ws.recv(timeout=20 * SLOW))["type"] for _ in range(2)] == ["ready", "end"]
        d.wait_idle()


@case
def one_session_too_many_of_a_key_gets_429_and_others_continue(d):
    one = {"additional_headers": {"Authorization": "Bearer " + ONE}}
    with connect(d.ws, **OPEN, **one):
        status, headers, body = refused(d, **one)
        assert status == 429 and int(headers["Retry-After"]) >= 1 and "'one'" in body["error"]["message"], body
        assert body["error"]["code"] == "quota_exceeded"
        status, headers, body = post(d, Authorization="Bearer " + ONE)
        assert status == 429 and int(headers["retry-after"]) >= 1 and int(headers["retry-after-ms"]) >= 1, headers
        assert post(d, Authorization="Bearer " + TWO)[0] == 200
    d.wait_idle()
    assert post(d, Authorization="Bearer " + ONE)[0] == 200
    d.becomes('steno_sessions_rejected_total{reason="quota"}', 2)


@case
def audio_beyond_the_share_ends_a_stream_after_its_finals_and_refuses_uploads(d):
    # 5.8 s each, accepted up to 4 s at a time: the excess lasts for minutes
    out, code, *_ = converse(d.ws + f"?sample_rate={RATE}&api_key={SMALL}", [PCM, PCM, PCM, {"type": "end"}])
    assert code == 1013, code
    assert out[-1]["type"] == "error" and "'small'" in out[-1]["message"], out[-1]
    assert out[-1]["code"] == "busy" and out[-1]["retry_after"] >= 1, out[-1]
    assert DIGITS_TEXT.split()[0] in " ".join(m["text"] for m in out if m["type"] == "final")
    status, headers, body = post(d, Authorization="Bearer " + SMALL)
    assert status == 429 and "audio" in body["error"]["message"] and int(headers["retry-after"]) >= 1, (status, body)


@case
def a_bad_file_is_named_at_start(_):
    with keys_file("[one]\nkey = short\n") as bad:
        try:
            with Stenod(f"auth.keys={bad.name}"):
                raise AssertionError("it started")
        except RuntimeError as e:
            assert "[one] key: must have 16" in str(e), e


@case
def keys_are_read_again_on_sighup(_):
    with keys_file(f"[one]\nkey = {ONE}\n") as f:
        with Stenod(f"auth.keys={f.name}") as d:
            assert post(d, Authorization="Bearer " + ONE)[0] == 200
            with open(f.name, "w", encoding="utf-8") as again:
                again.write(f"[two]\nkey = {TWO}\n")
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: post(d, Authorization="Bearer " + TWO)[0] == 200)
            assert post(d, Authorization="Bearer " + ONE)[0] == 401
            with open(f.name, "w", encoding="utf-8") as again:
                again.write("[two]\n")
                again.write("key = x\n")
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: "key: must have" in d.output())
            assert post(d, Authorization="Bearer " + TWO)[0] == 200, "the old ones serve on"


if __name__ == "__main__":
    assert os.path.exists(FILE.name)
    with Stenod(f"auth.keys={FILE.name}") as daemon:
        result = tap(daemon)
    sys.exit(result)
