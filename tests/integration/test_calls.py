"""Telephone calls: Twilio's Media Streams, Asterisk, FreeSWITCH. Twilio's messages are those of twilio.com/docs/voice/media-streams/websocket-messages;
no package plays Twilio's side, so they are written out here. What is posted goes to job_web.Web."""
import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import urllib.parse

import audioop  # pylint: disable=deprecated-module
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, ROOT, SLOW, Stenod, case, client, eventually, pcm, tap, until_closed
from job_web import BASE, CALLS, Web

PCM, RATE = pcm()
PCM8 = audioop.ratecv(PCM, 2, 1, RATE, 8000, None)[0]
MULAW = audioop.lin2ulaw(PCM8, 2)
SILENCE = b"\xff" * 8000  # a second
CONNECTED = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
STOP = {"event": "stop", "streamSid": "MZ1", "stop": {"accountSid": "AC1", "callSid": "CA1"}}
HERE = (f"calls.callback={BASE}/calls", "jobs.callback_retry=0.2")
N = {}  # messages of a test so far


def start(tracks=("inbound",), **parameters):
    return {"event": "start", "sequenceNumber": "1", "streamSid": "MZ1",
            "start": {"streamSid": "MZ1", "accountSid": "AC1", "callSid": "CA1", "tracks": list(tracks), "customParameters": parameters,
                      "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}}}


def media(track, at, data):
    """Messages of 20 ms, as Twilio sends them; at: s since the start of the stream."""
    return [{"event": "media", "sequenceNumber": "9", "streamSid": "MZ1",
             "media": {"track": track, "chunk": str(i + 1), "timestamp": str(int(at * 1000) + 20 * i),
                       "payload": base64.b64encode(data[160 * i:160 * i + 160]).decode()}} for i in range(len(data) // 160)]


def dial(d, path="/twilio", **query):
    return connect(f"ws://127.0.0.1:{d.port}{path}" + ("?" + urllib.parse.urlencode(query) if query else ""), **OPEN)


def call(d, messages, path="/twilio", **query):
    """(what came on the connection, close code, reason)"""
    with dial(d, path, **query) as ws:
        with contextlib.suppress(ConnectionClosed):  # the server closes at a mistake
            for m in messages:
                ws.send(m if isinstance(m, (str, bytes)) else json.dumps(m))
        return until_closed(ws)


def posted(kind=None, path="/calls"):
    return [m for p, m in ((p, json.loads(body)) for _, p, _, body in list(Web.got)) if p == path and kind in (None, m["message"]["type"])]


def posts(kind="end"):
    """What was posted of one call, once its message of this kind is there."""
    assert eventually(lambda: posted(kind)), Web.got
    out = posted()
    Web.got.clear()
    return out


def text(messages, channel=None):
    return " ".join(m["message"]["text"] for m in messages if m["message"]["type"] == "final" and m["message"].get("channel") == channel and m["message"]["text"])


# ---- Twilio ----------------------------------------------------------------------------------------------------------

@case
@client("Twilio's Media Streams", "telephone calls, one track or two; their text is posted", "messages of its manual")
def a_call_is_posted_and_nothing_is_sent_back(d):
    said = [CONNECTED, start(caller="Ann \"A\"", language="en")] + media("inbound", 0, MULAW)
    said += [{"event": "dtmf", "streamSid": "MZ1", "sequenceNumber": "5", "dtmf": {"track": "inbound_track", "digit": "5"}},
             {"event": "mark", "streamSid": "MZ1", "mark": {"name": "a"}}, {"event": "one of next year's"}, STOP]
    got, code, _ = call(d, said)
    assert not got and code == 1000, (got, code)
    out = posts()
    assert [m["message"]["type"] for m in out if m["message"]["type"] != "final"] == ["ready", "dtmf", "end"], out
    assert [m["message"]["seq"] for m in out] == list(range(len(out))), out
    assert text(out) == DIGITS_TEXT and out[0]["message"]["encoding"] == "mulaw" and out[0]["message"]["sample_rate"] == 8000, out
    for m in out:
        assert m["call"] == {"source": "twilio", "call_id": "CA1", "stream_id": "MZ1", "tracks": ["inbound"], "parameters": {"caller": 'Ann "A"'}}, m
        assert m["message"]["session_id"] == out[0]["message"]["session_id"]
    assert [m["message"]["digit"] for m in out if m["message"]["type"] == "dtmf"] == ["5"]
    words = [w for m in out if m["message"]["type"] == "final" for w in m["message"]["words"]]
    assert [w["word"] for w in words] == DIGITS_TEXT.split()


@case
def two_tracks_are_two_channels_in_one_time(d):
    """The other side begins 5 s later, and its messages come in one burst, late: times are those of the time stamps."""
    inbound, outbound = media("inbound", 0, MULAW + SILENCE * 7), media("outbound", 5, MULAW)
    n = len(MULAW) // 160
    for late in (0, 40):  # messages
        said = [CONNECTED, start(("inbound", "outbound"))] + inbound[:250 + late]
        for i in range(max(len(inbound) - 250 - late, len(outbound))):
            said += inbound[250 + late + i:][:1] + (outbound[:late + 1] if not i else outbound[late + i:][:1])
        got, code, _ = call(d, said + [STOP])
        assert not got and code == 1000 and n, (got, code)
        out = posts()
        assert text(out, 1) == DIGITS_TEXT and text(out, 2) == DIGITS_TEXT, (late, out)
        assert out[0]["call"]["tracks"] == ["inbound", "outbound"]
        begin = [[m["message"]["words"][0]["start"] for m in out if m["message"].get("channel") == c and m["message"].get("words")][0] for c in (1, 2)]
        assert abs(begin[1] - begin[0] - 5) < 0.15, (late, begin)


@case
def a_track_that_is_never_sent_loses_nothing_of_the_other(d):
    got, code, _ = call(d, [CONNECTED, start(("inbound", "outbound"))] + media("inbound", 0, MULAW) + [STOP])
    assert not got and code == 1000
    out = posts()
    assert text(out, 1) == DIGITS_TEXT and not text(out, 2), out
    got, code, _ = call(d, [CONNECTED, start(("inbound", "outbound"), multichannel="false")] + media("outbound", 0, MULAW) + [STOP])
    assert text(posts()) == DIGITS_TEXT


@case
def a_call_that_is_hung_up_is_recognized_to_its_end(d):
    for how in ("close", "abort"):
        with dial(d) as ws:
            for m in [CONNECTED, start()] + media("inbound", 0, MULAW):
                ws.send(json.dumps(m))
            if how == "abort":
                ws.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: the connection is reset
                assert ws.ping().wait(60 * SLOW)  # all before it was read
                ws.socket.close()
        out = posts()
        assert text(out) == DIGITS_TEXT, (how, out)
        d.wait_idle()
    with dial(d) as ws:  # nothing had begun
        ws.send(json.dumps(CONNECTED))
    d.wait_idle()
    assert not Web.got, Web.got


@case
def messages_keep_their_order_when_they_are_refused(d):
    Web.plan[:] = [500, 503, 200, 404]
    before = {r: d.metric(f'steno_call_posts_total{{result="{r}"}}') for r in ("delivered", "failed", "given_up")}
    call(d, [CONNECTED, start()] + media("inbound", 0, MULAW) + [STOP])
    assert eventually(lambda: posted("end")), Web.got
    heads = [h for _, _, h, _ in Web.got]
    seen = [(json.loads(b)["message"]["seq"], int(h["steno-event-try"])) for _, _, h, b in Web.got]
    assert seen[:5] == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] and [s for s, _ in seen] == sorted(s for s, _ in seen), seen
    assert heads[0]["steno-event-id"] == heads[2]["steno-event-id"] != heads[3]["steno-event-id"]
    assert heads[0]["content-type"] == "application/json" and "steno-signature" not in heads[0]
    out = posts()
    assert eventually(lambda: d.metric('steno_call_posts_total{result="delivered"}') - before["delivered"] == out[-1]["message"]["seq"] + 1)
    assert d.metric('steno_call_posts_total{result="failed"}') - before["failed"] == 3
    Web.plan[:] = [410]  # nobody wants it: the next message is sent
    call(d, [CONNECTED, start(), STOP])
    out = posts()
    assert [m["message"]["type"] for m in out] == ["ready", "end"], out
    assert d.metric('steno_call_posts_total{result="given_up"}') - before["given_up"] == 1


@case
def mistakes_are_posted_where_a_call_has_begun(d):
    good = media("inbound", 0, SILENCE)
    other = start()
    other["start"]["mediaFormat"]["encoding"] = "audio/x-l16"
    for said, code, error in (([start(), start()], 1008, "came twice"), ([start(), {"event": "media", "media": {"payload": "*"}}], 1007, "base64"),
                              ([start(), {"event": "media"}], 1008, "payload"), ([start(), b"\xff" * 160], 1008, "media messages"),
                              ([start(), {"no": "event"}], 1008, "'event'"), ([start(), "no JSON"], 1007, "JSON"), (good, 1008, ""), ([other], 1003, ""),
                              ([{"event": "start"}], 1008, ""), ([start(language="klingon")], 1008, ""), ([start(beam="many")], 1008, ""),
                              ([start(**{f"p{i}": "x" * 900 for i in range(10)})], 1009, "")):
        got, closed, reason = call(d, [CONNECTED] + said)
        d.wait_idle()
        assert not got and closed != 1000 and reason, (said, closed, reason)
        assert closed == code, (said[:2], closed, reason)
        if error:
            assert error in posts("error")[-1]["message"]["message"], error
        else:
            assert not posted("final"), Web.got
            Web.got.clear()


@case
def settings_may_be_parameters_or_in_the_url(d):
    call(d, [CONNECTED, start(words="false", alternatives="2", encoding="g711", channel="web")] + media("inbound", 0, MULAW) + [STOP], beam=4, desk="7")
    out = posts()
    assert out[0]["call"]["parameters"] == {"desk": "7", "encoding": "g711", "channel": "web"}, out[0]
    final = [m["message"] for m in out if m["message"]["type"] == "final"][0]
    assert "words" not in final and final["alternatives"] and out[0]["message"]["beam"] == 4, out


# ---- Asterisk and FreeSWITCH -----------------------------------------------------------------------------------------

def frames(data, n):
    return [data[i:i + n] for i in range(0, len(data), n)]


@case
@client("Asterisk's chan_websocket", "telephone calls, ulaw, alaw and slin; their text is posted", "bytes of its source")
def asterisk_sends_any_of_its_plain_codecs(d):
    plain = "MEDIA_START connection_id:m1 channel:SIP/a channel_id:17.1 format:{} optimal_frame_size:160 ptime:20"
    in_json = '{{"event":"MEDIA_START","connection_id":"m1","channel":"SIP/a","channel_id":"17.1","format":"{}","ptime":20}}'
    for form, codec, data, size in ((plain, "ulaw", MULAW, 160), (in_json, "alaw", audioop.lin2alaw(PCM8, 2), 160), (plain, "slin", PCM8, 320),
                                    (in_json, "slin16", audioop.ratecv(PCM, 2, 1, RATE, 16000, None)[0], 640)):
        with dial(d, "/asterisk", desk="7") as ws:
            for m in [form.format(codec)] + frames(data, size) + ["DTMF_END digit:5 channel_id:17.1", "MEDIA_XON"]:
                ws.send(m)  # it ends by closing
        out = posts()
        assert text(out) == DIGITS_TEXT and {m["message"]["type"] for m in out} == {"ready", "final", "dtmf", "end"}, (codec, out)
        assert out[0]["call"] == {"source": "asterisk", "call_id": "17.1", "stream_id": "m1", "parameters": {"desk": "7", "channel": "SIP/a"}}, out[0]
    got, code, _ = call(d, [plain.format("opus"), b"\xff" * 160], "/asterisk")
    d.wait_idle()
    assert not got and code == 1003 and not Web.got, (got, code)
    with connect(f"ws://127.0.0.1:{d.port}/asterisk", subprotocols=["media"], **OPEN) as ws:
        assert ws.subprotocol == "media"
    d.wait_idle()


@case
@client("FreeSWITCH: mod_audio_stream, mod_audio_fork", "telephone calls, one channel or two, text on the connection", "bytes of their sources")
def freeswitch_hears_back_on_its_connection(d):
    for last in (b"", '{"type":"end"}'):
        got, code, _ = call(d, ['{"caller":"Ann"}'] + frames(PCM8, 320) + [last], "/freeswitch")
        assert code == 1000 and {m["type"] for m in got} == {"transcription"} and not Web.got, (got, code)
        got = [m["data"] for m in got]
        assert got[0]["type"] == "ready" and got[-1]["type"] == "end" and any(m["type"] == "partial" for m in got), got
        assert " ".join(m["text"] for m in got if m["type"] == "final" and m["text"]) == DIGITS_TEXT
    both = audioop.tostereo(PCM8, 2, 1, 1)
    got, code, _ = call(d, frames(both, 640) + [b""], "/freeswitch", channels=2, multichannel="true")
    for channel in (1, 2):
        assert " ".join(m["data"]["text"] for m in got if m["data"]["type"] == "final" and m["data"]["channel"] == channel and m["data"]["text"]) == DIGITS_TEXT
    with connect(f"ws://127.0.0.1:{d.port}/freeswitch?sample_rate={RATE}", subprotocols=["audio.drachtio.org"], **OPEN) as ws:
        assert ws.subprotocol == "audio.drachtio.org"
        for m in frames(PCM, 640) + ['{"type":"finalize"}']:
            ws.send(m)
        while (m := json.loads(ws.recv(timeout=60 * SLOW))["data"])["type"] != "final":
            pass
        assert m["text"] == DIGITS_TEXT and m["reason"] == "request", m
    d.wait_idle()


@case
def freeswitch_may_name_a_url_instead(_):
    with Stenod(*CALLS) as d:
        with dial(d, "/freeswitch", callback=f"{BASE}/calls", call_id="uuid-1") as ws:
            for m in ['{"caller":"Ann"}'] + frames(PCM8, 320):
                ws.send(m)
        out = posts()
        assert text(out) == DIGITS_TEXT
        assert out[0]["call"] == {"source": "freeswitch", "call_id": "uuid-1", "parameters": {"metadata": {"caller": "Ann"}}}, out


# ---- who may, and where to -------------------------------------------------------------------------------------------

@case
def a_clients_url_is_held_to_the_rules_of_callbacks(_):
    said = [CONNECTED, start(callback=f"{BASE}/mine")] + media("inbound", 0, MULAW) + [STOP]
    for settings, works in ((("jobs.callback_hosts=127.0.0.1", "jobs.callback_http=yes", "jobs.callback_private=yes"), True), (("jobs.callback_hosts=127.0.0.1",), False),
                            (("jobs.callback_hosts=*.example",), False), ((), False), (HERE, False)):
        with Stenod(*settings) as d:
            got, code, _ = call(d, said)
            assert not got and code == (1000 if works else 1008), (settings, got, code)
            if works:
                assert eventually(lambda: posted("end", "/mine"))
                assert text(posted(None, "/mine")) == DIGITS_TEXT and "/mine" not in json.dumps(posted(None, "/mine"))
        assert works or not Web.got, Web.got
        Web.got.clear()
    with Stenod("jobs.callback_hosts=127.0.0.1", "jobs.callback_http=yes", "jobs.callback_give_up=1") as d:  # a private address
        assert call(d, said)[1] == 1000
        assert eventually(lambda: d.metric('steno_call_posts_total{result="given_up"}') >= 1) and not Web.got
    with Stenod() as d:  # nowhere to
        assert call(d, [CONNECTED, start()])[1] == 1008


@case
def a_key_may_come_with_the_start(_):
    key, other = "key-of-calls-0123456789", "another-key-0123456789"
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f, tempfile.NamedTemporaryFile("w") as secret:
        f.write(f"[calls]\nkey = {key}\n[one]\nkey = {other}\nsessions = 1\n")
        secret.write("0123456789abcdef0123")
        f.flush()
        secret.flush()
        with Stenod(f"auth.keys={f.name}", f"jobs.callback_secret={secret.name}", *HERE) as d:
            for said, query, code in (([start(token=key)], {}, 1000), ([start(api_key=key)], {}, 1000), ([start()], {"token": key}, 1000), ([start()], {}, 1008),
                                      ([start(token="wrong-key-0123456789")], {}, 1008), ([start(token=key + "x" * 600)], {}, 1008)):
                got, closed, reason = call(d, [CONNECTED] + said + media("inbound", 0, MULAW) + [STOP], **query)
                assert not got and closed == code and reason == ("end" if code == 1000 else "invalid_api_key"), (said, query, closed, reason)
                if code == 1000:
                    assert eventually(lambda: posted("end"))
                    assert key not in json.dumps(posted()) and text(posted()) == DIGITS_TEXT, posted()
                    for _, _, head, body in Web.got:
                        t, v1 = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", head["steno-signature"]).groups()
                        assert v1 == hmac.new(b"0123456789abcdef0123", f"{t}.".encode() + body, hashlib.sha256).hexdigest()
                else:
                    d.wait_idle()
                    assert not Web.got, Web.got
                Web.got.clear()
            assert key not in d.output() and "wrong-key" not in d.output()
            with dial(d) as first:  # the key's one place is taken
                first.send(json.dumps(start(token=other)))
                assert eventually(lambda: posted("ready"))
                got, closed, reason = call(d, [CONNECTED, start(token=other)])
                assert closed == 1013 and reason == "quota_exceeded", (closed, reason)
            d.wait_idle()
            Web.got.clear()
            with dial(d) as idle:  # no start comes
                assert until_closed(idle)[1:] == (1008, "invalid_api_key")


@case
def a_server_that_stops_posts_what_was_said(_):
    with Stenod(*HERE) as d:
        with dial(d) as ws:
            for m in [CONNECTED, start()] + media("inbound", 0, MULAW):
                ws.send(json.dumps(m))
            assert ws.ping().wait(60 * SLOW)
            assert d.terminate() == 0
    out = posts()
    assert text(out) == DIGITS_TEXT and out[-1]["message"]["reason"] == "draining", out


@case
def the_examples_of_the_page_run(d):
    with open(os.path.join(ROOT, "docs", "telephony.md"), encoding="utf-8") as f:
        programs = re.findall(r"```python\n(.*?)```", f.read(), re.S)
    for path, program in zip(("twilio", "freeswitch"), programs, strict=True):
        done = subprocess.run([sys.executable, "-", DIGITS, f"ws://127.0.0.1:{d.port}/{path}"], input=program, capture_output=True, text=True,
                              timeout=120 * SLOW, check=False)
        assert done.returncode == 0, done
        assert (text(posts()) if path == "twilio" else " ".join(done.stdout.split())) == DIGITS_TEXT, done


if __name__ == "__main__":
    with Stenod(*HERE) as daemon:
        result = tap(daemon)
    sys.exit(result)
