"""The Wyoming protocol, which Home Assistant speaks: with the client of the package wyoming, and with bytes that it
would not send."""
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from daemon import BUILD, DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, client, eventually, pcm, tap

PCM, RATE = pcm()
FORMAT = {"rate": RATE, "width": 2, "channels": 1}


def port(d):
    return int(re.search(r"listening on wyoming://127\.0\.0\.1:(\d+)", d.output()).group(1))


def event(kind, data=None, payload=b"", inline=False):
    head = {"type": kind}
    rest = b""
    if data is not None and inline:
        head["data"] = data
    elif data is not None:
        rest = json.dumps(data).encode()
        head["data_length"] = len(rest)
    if payload:
        head["payload_length"] = len(payload)
    return json.dumps(head).encode() + b"\n" + rest + payload


def recording(samples=PCM, size=2048, **transcribe):
    """The events of one recording, as a client sends them."""
    return (event("transcribe", transcribe) + event("audio-start", FORMAT) +
            b"".join(event("audio-chunk", FORMAT, samples[i:i + size]) for i in range(0, len(samples), size)) +
            event("audio-stop"))


def connect(d):
    s = socket.create_connection(("127.0.0.1", port(d)))
    s.settimeout(60 * SLOW)
    return s


def answers(s):
    """All events until the server closes: (type, data)."""
    got = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
    except ConnectionResetError:
        pass
    out = []
    while got:
        line, _, got = got.partition(b"\n")
        head = json.loads(line)
        n = head.get("data_length", 0)
        out.append((head["type"], json.loads(got[:n]) if n else {}))
        got = got[n:]
    return out


def ask(d, data, split=0):
    with connect(d) as s:
        for i in range(0, len(data), split or len(data)):
            s.sendall(data[i:i + (split or len(data))])
        return answers(s)


@case
@client("wyoming", "describe, live streams with transcript chunks (Home Assistant)")
def the_packages_own_client_gets_the_transcript(d):
    try:
        from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
        from wyoming.audio import AudioChunk, AudioStart, AudioStop
        from wyoming.client import AsyncTcpClient
        from wyoming.info import Describe, Info
    except ImportError as e:
        raise Skip(str(e)) from e

    async def run():
        async with AsyncTcpClient("127.0.0.1", port(d)) as client:
            await client.write_event(Describe().event())
            info = Info.from_event(await client.read_event())
        assert info.asr[0].supports_transcript_streaming and info.asr[0].installed, info
        assert [(m.name, m.languages) for m in info.asr[0].models] == [("digits-en", ["en"])], info
        async with AsyncTcpClient("127.0.0.1", port(d)) as client:
            await client.write_event(Transcribe(name="digits-en", language="en").event())
            await client.write_event(AudioStart(**FORMAT).event())
            for i in range(0, len(PCM), 2048):
                await client.write_event(AudioChunk(audio=PCM[i:i + 2048], **FORMAT).event())
            await client.write_event(AudioStop().event())
            events = []
            while not events or not TranscriptStop.is_type(events[-1].type):
                events.append(await client.read_event())
        assert TranscriptStart.is_type(events[0].type), events
        chunks = "".join(TranscriptChunk.from_event(e).text for e in events if TranscriptChunk.is_type(e.type))
        return chunks, Transcript.from_event(events[-2]).text

    chunks, text = asyncio.run(asyncio.wait_for(run(), 120 * SLOW))
    assert text == DIGITS_TEXT and chunks == DIGITS_TEXT, (chunks, text)


@case
def any_split_of_the_bytes_gives_the_same(d):
    want = ask(d, recording())
    assert ("transcript", {"text": DIGITS_TEXT, "language": "en"}) in want or ("transcript", {"text": DIGITS_TEXT}) in want, want
    assert [a for a in ask(d, recording(), 7) if a[0] == "transcript"] == [a for a in want if a[0] == "transcript"]
    assert [a for a in ask(d, recording(size=50000), 1013) if a[0] == "transcript"] == [a for a in want if a[0] == "transcript"]


@case
def silence_gives_an_empty_transcript(d):
    assert ask(d, recording(bytes(RATE))) == [("transcript", {"text": ""})]
    assert ask(d, event("audio-start", FORMAT) + event("audio-stop")) == [("transcript", {"text": ""})]


@case
def a_describe_costs_no_recording_and_pings_are_answered(d):
    with connect(d) as s:
        s.sendall(event("ping", {"text": "é"}) + event("describe") + event("unknown-thing", {}, b"xyz") + event("ping", inline=True))
        s.shutdown(socket.SHUT_WR)
        got = answers(s)
    assert [k for k, _ in got] == ["pong", "info", "pong"], got
    assert got[0][1] == {"text": "é"} and got[1][1]["asr"][0]["name"] == "steno", got


@case
def who_ends_his_side_of_the_connection_is_still_answered(d):
    with connect(d) as s:
        time.sleep(0.2)  # the server has taken the connection before anything comes
        s.sendall(event("describe"))
        s.shutdown(socket.SHUT_WR)
        assert [k for k, _ in answers(s)] == ["info"]
    want = ask(d, recording())
    with connect(d) as s:
        time.sleep(0.2)
        s.sendall(recording())
        s.shutdown(socket.SHUT_WR)
        assert [a for a in answers(s) if a[0] == "transcript"] == [a for a in want if a[0] == "transcript"] != []


@case
def mistakes_are_named(d):
    def error(data):
        got = ask(d, data)
        assert got[-1][0] == "error", got
        return got[-1][1]

    assert "not JSON" in error(b"GET / HTTP/1.1\r\n\r\n")["text"]
    assert "payload_length" in error(b'{"type":"audio-chunk","payload_length":-1}\n')["text"]
    assert error(b'{"type":"audio-chunk","payload_length":99999999999}\n')["code"] == "limit_exceeded"
    assert "width must be 2" in error(event("audio-start", {**FORMAT, "width": 4}))["text"]
    assert "rate must be" in error(event("audio-start", {**FORMAT, "rate": 1}))["text"]
    assert "format changed" in error(event("audio-start", FORMAT) + event("audio-chunk", {**FORMAT, "channels": 2}, bytes(4)))["text"]
    assert "klingon" in error(recording(language="klingon"))["text"]
    assert error(b'{"type":"' + b"x" * 20000 + b'"}\n')["code"] == "limit_exceeded"


@case
def unknown_names_of_models_mean_the_default(d):
    for name in ("no-such-model", "base-int8", "x" * 200):
        assert ("transcript", DIGITS_TEXT) in [(k, v.get("text")) for k, v in ask(d, recording(name=name))], name
    assert "klingon" in ask(d, recording(name="no-such-model", language="klingon"))[-1][1]["text"]


@case
def models_that_are_not_loaded_have_languages_and_are_waited_for(_):
    """The first request of Home Assistant loads a model."""
    with tempfile.TemporaryDirectory() as models:
        for name in ("first", "second"):
            os.symlink(os.path.join(ROOT, "conf/models/digits-en"), os.path.join(models, name))
        with Stenod("wyoming.listen=127.0.0.1:0", "models.dir=" + models) as d:
            def loaded():
                return d.metric('steno_model_loaded{model="second"}')
            assert not loaded()
            listed = {m["id"]: m for m in json.loads(d.request("GET", "/v1/models")[2])["data"]}
            assert listed["second"]["language"] == "en" and listed["second"]["languages"] == ["en"], listed
            with connect(d) as s:
                s.sendall(event("describe"))
                s.shutdown(socket.SHUT_WR)
                described = answers(s)[0][1]["asr"][0]["models"]
            assert {m["name"]: m["languages"] for m in described} == {"digits-en": ["en"], "first": ["en"], "second": ["en"]}, described
            assert not loaded()
            assert ("transcript", DIGITS_TEXT) in [(k, v.get("text")) for k, v in ask(d, recording(name="second"))]
            assert loaded()
            assert ("transcript", {"text": ""}) in ask(d, event("transcribe", {"name": "first"}) + event("audio-stop"))
            assert (d.metric('steno_sessions_rejected_total{reason="loading"}') or 0) == 0


@case
def it_is_counted_like_every_session(d):
    assert eventually(lambda: (d.metric('steno_sessions_total{api="wyoming",result="ok"}') or 0) >= 6)
    assert eventually(lambda: re.search(r"wyoming sess_\w+: ok, ", d.output())), d.output()[-2000:]


@case
def a_key_is_named_in_the_configuration(_):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("[home]\nkey = 0123456789abcdefgh\nsessions = 1\n")
        keys.flush()
        listen = ("wyoming.listen=127.0.0.1:0", f"auth.keys={keys.name}")
        code = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config"] + [a for s in listen for a in ("--set", s)],
                              stderr=subprocess.PIPE, text=True, check=False)
        assert code.returncode and "wyoming.key" in code.stderr, code
        code = subprocess.run([os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0"] + [a for s in (*listen, "wyoming.key=nobody") for a in ("--set", s)],
                              stderr=subprocess.PIPE, text=True, check=False)
        assert code.returncode and "wyoming.key: no API key is named 'nobody'" in code.stderr, code
        with Stenod(*listen, "wyoming.key=home") as d:
            assert ("transcript", {"text": ""}) == ask(d, recording(bytes(8000)))[-1]
            d.wait_idle()
            with connect(d) as busy:
                busy.sendall(event("audio-start", FORMAT))
                assert eventually(lambda: d.metric('steno_sessions_active{api="wyoming"}') == 1)
                got = ask(d, recording())
                assert got[0][0] == "error" and got[0][1]["code"] == "quota_exceeded", got
            keys.seek(0)
            keys.truncate()
            keys.write("[other]\nkey = 0123456789abcdefgh\n")
            keys.flush()
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: "reload: keys read again" in d.output())
            assert "named 'home'" in ask(d, recording())[0][1]["text"]


if __name__ == "__main__":
    with Stenod("wyoming.listen=127.0.0.1:0") as daemon:
        result = tap(daemon)
    sys.exit(result)
