"""GET /v1/stream from outside, through an independent WebSocket library (websockets)."""
import audioop
import difflib
import itertools
import json
import math
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, ROOT, SAN, SLOW, Skip, Stenod, case, converse, eventually, frame, need_descriptors, pcm, raw, read_messages, tap
from daemon import until_closed as messages_of

PCM, RATE = pcm()
START = {"type": "start", "encoding": "s16le", "sample_rate": RATE}


def stream(d, pieces, start=START, finish=True, query="", **kw):
    """Send the pieces while reading. Returns (messages, close code). str pieces are text, bytes are audio."""
    ends = [{"type": "end"}] if finish else []
    out, code, *_ = converse(d.ws + query, itertools.chain([start] if start else [], pieces, ends), **kw)
    for i, m in enumerate(out):
        assert m["session_id"] == out[0]["session_id"], m
        assert i == 0 or (m["seq"] > out[i - 1]["seq"] and m["audio_ms"] >= out[i - 1]["audio_ms"]), m
    return out, code


def chunks(data, n):
    return [data[i:i + n] for i in range(0, len(data), n)]


def finals(messages):
    return [{k: m[k] for k in ("text", "start", "end", "words", "reason")} for m in messages if m["type"] == "final"]


def text(messages):
    return " ".join(m["text"] for m in messages if m["type"] == "final" and m["text"])


_expected = []


def expected(d):
    """The text that the model recognizes in the recording. The first case checks that it is right."""
    if not _expected:
        _expected.append(text(stream(d, [PCM])[0]))
        assert _expected[0]
    return _expected[0]


_reference = []


def reference(d):
    """The finals of the recording sent in one piece."""
    if not _reference:
        _reference.append(finals(stream(d, [PCM])[0]))
    return _reference[0]


@case
def answers_come_in_order_and_the_transcript_is_right(d):
    got, code = stream(d, chunks(PCM, RATE // 10 * 2))
    assert code == 1000, code
    kinds = [m["type"] for m in got]
    assert kinds[0] == "ready" and kinds[-1] == "end", kinds
    assert "speech_start" in kinds and "partial" in kinds, kinds
    assert kinds.index("speech_start") < kinds.index("partial") < kinds.index("final"), kinds
    assert text(got) == DIGITS_TEXT, text(got)
    assert got[-1]["reason"] == "end" and got[-1]["finals"] == kinds.count("final")
    assert abs(got[-1]["audio_ms"] - len(PCM) / 2 / RATE * 1000) < 5, got[-1]
    words = [w for f in finals(got) for w in f["words"]]
    assert [w["word"] for w in words] == DIGITS_TEXT.split()
    for a, b in zip(words, words[1:]):
        assert 0 <= a["start"] < a["end"] <= b["end"], (a, b)
    assert all(0 <= w["confidence"] <= 1 for w in words)
    for m in got:
        if m["type"] == "partial":
            assert m["text"].startswith(m["stable"]), m


@case
def stable_text_of_partials_never_changes(d):
    got, _ = stream(d, chunks(PCM, 800))
    stable = {}
    for m in got:
        if m["type"] == "partial":
            assert m["text"].startswith(stable.get(m["segment"], "")), m
            stable[m["segment"]] = m["stable"]
        elif m["type"] == "final":
            assert m["text"].startswith(stable.get(m["segment"], "")), m


@case
def one_byte_frames_give_the_same_finals(d):
    part = PCM[:RATE * 2 * 2]  # two seconds: 32,000 frames
    want = finals(stream(d, [part])[0])
    assert want and finals(stream(d, chunks(part, 1))[0]) == want


@case
def ten_second_frames_and_odd_cuts_give_the_same_finals(d):
    rng = random.Random(5)
    assert reference(d)
    for sizes in ([RATE * 2 * 10], [3], [333, 1, 7], [5000]):
        if sizes == [3]:
            sizes = [rng.randrange(1, 4001) for _ in range(400)]
        cut, at, i = [], 0, 0
        while at < len(PCM):
            cut.append(PCM[at:at + sizes[i % len(sizes)]])
            at += len(cut[-1])
            i += 1
        assert finals(stream(d, cut)[0]) == reference(d), sizes[:5]


@case
def real_time_pace_gives_the_same_finals(d):
    def paced():
        t0, step = time.monotonic(), RATE // 5 * 2
        for i, c in enumerate(chunks(PCM, step)):
            time.sleep(max(0, t0 + (i + 1) * 0.2 - time.monotonic()))
            yield c
    assert finals(stream(d, paced())[0]) == reference(d)


@case
def fragmented_messages_are_put_together(d):
    # an iterable becomes one message in many frames (RFC 6455, 5.4)
    got, code = stream(d, [chunks(PCM, 999)], start=None, query=f"?sample_rate={RATE}")
    assert code == 1000 and finals(got) == reference(d), got


@case
def a_minute_as_fast_as_it_goes_is_read_at_the_recognisers_pace(d):
    long = (PCM + b"\0\0" * RATE * 2) * 12
    got, code = stream(d, chunks(long, 65536))
    assert code == 1000, got[-1]
    status, _, body = d.request("POST", "/v1/transcribe", wav_of(long))
    assert status == 200 and text(got) == json.loads(body)["text"], text(got)
    assert d.rss() < 400, d.rss()


def wav_of(pcm16):
    """A WAV of unknown length, as written by a pipe."""
    return (b"RIFF\xff\xff\xff\xffWAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE, RATE * 2, 2, 16)
            + b"data\xff\xff\xff\xff" + pcm16)


def alike(a, b):
    """Share of equal words: for audio that was changed slightly on its way."""
    return difflib.SequenceMatcher(None, a.split(), b.split()).ratio()


@case
def every_encoding_gives_the_same_text(d):
    floats = struct.pack(f"<{len(PCM) // 2}f", *(s / 32768 for (s,) in struct.iter_unpack("<h", PCM)))
    stereo = audioop.tostereo(PCM, 2, 1, 1)
    sixteen = audioop.ratecv(PCM, 2, 1, RATE, 16000, None)[0]
    u, a = audioop.lin2ulaw(PCM, 2), audioop.lin2alaw(PCM, 2)
    forms = [ # the bytes to send, the start message, and the 16-bit samples that they stand for
        (floats, {"encoding": "f32le", "sample_rate": RATE}, PCM),
        (u, {"encoding": "mulaw"}, audioop.ulaw2lin(u, 2)),
        (a, {"encoding": "alaw"}, audioop.alaw2lin(a, 2)),
        (wav_of(PCM), {"encoding": "wav"}, PCM),
        (stereo, {"encoding": "s16le", "sample_rate": RATE, "channels": 2}, PCM),
        (audioop.tostereo(PCM, 2, 0, 1), {"sample_rate": RATE, "channels": 2, "channel": 2}, PCM),
    ]
    for data, more, means in forms:
        got, code = stream(d, chunks(data, 3001), {"type": "start", **more})
        want = finals(stream(d, [means])[0])
        assert code == 1000 and finals(got) == want, (more, text(got), got[-1])
    got, _ = stream(d, chunks(sixteen, 3200), {"type": "start"})  # the defaults: s16le, 16 kHz
    assert alike(text(got), expected(d)) > 0.7, ("16 kHz", text(got))


@case
def not_a_number_and_infinity_count_as_silence(d):
    floats = [s / 32768 for (s,) in struct.iter_unpack("<h", PCM)]
    holes = range(0, len(floats), 1000)
    start = {"type": "start", "encoding": "f32le", "sample_rate": RATE}
    for i in holes:
        floats[i] = 0.0
    clean = finals(stream(d, [struct.pack(f"<{len(floats)}f", *floats)], start)[0])
    for i in holes:
        floats[i] = (math.nan, math.inf, -math.inf)[i // 1000 % 3]
    assert clean and finals(stream(d, [struct.pack(f"<{len(floats)}f", *floats)], start)[0]) == clean


@case
def opus_in_ogg_is_recognized_in_any_split(d):
    import io
    import numpy as np
    import soundfile as sf
    buf = io.BytesIO()
    try:
        sf.write(buf, np.frombuffer(PCM, "<i2"), RATE, format="OGG", subtype="OPUS")
    except Exception as e:
        raise Skip(f"this libsndfile writes no Opus: {e}") from None
    ogg = buf.getvalue()
    for size in (1, 777, len(ogg)):
        got, code = stream(d, chunks(ogg, size), {"type": "start", "encoding": "opus"})
        assert code == 1000 and alike(text(got), expected(d)) > 0.7, (size, text(got), got[-1])
        assert abs(got[-1]["audio_ms"] - len(PCM) / 2 / RATE * 1000) < 30, got[-1]


def ogg_packets(data):
    """The packets of an Ogg stream (RFC 3533) without its two headers."""
    packets, part, at = [], b"", 0
    while at < len(data):
        assert data[at:at + 4] == b"OggS"
        lacing = data[at + 27:at + 27 + data[at + 26]]
        at += 27 + len(lacing)
        for n in lacing:
            part += data[at:at + n]
            at += n
            if n < 255:
                packets.append(part)
                part = b""
    return packets[2:]


@case
def bare_opus_packets_are_recognized(d):
    import io
    import numpy as np
    import soundfile as sf
    buf = io.BytesIO()
    try:
        sf.write(buf, np.frombuffer(PCM, "<i2"), RATE, format="OGG", subtype="OPUS")
    except Exception as e:
        raise Skip(f"this libsndfile writes no Opus: {e}") from None
    got, code = stream(d, ogg_packets(buf.getvalue()), {"type": "start", "encoding": "opus"})
    assert code == 1000 and alike(text(got), expected(d)) > 0.7, (text(got), got[-1])


@case
def the_last_word_is_not_lost_when_audio_ends_with_it(d):
    ref = [w for f in reference(d) for w in f["words"]]
    cut = int((ref[-1]["end"] + 0.06) * RATE) * 2
    got, code = stream(d, [PCM[:cut]])
    assert code == 1000 and text(got) == expected(d), text(got)


@case
def audio_without_start_means_16_khz_or_what_the_query_says(d):
    got, code = stream(d, [PCM], start=None, query=f"?encoding=s16le&sample_rate={RATE}&words=false")
    assert code == 1000 and text(got) == expected(d), got[-1]
    assert got[0]["sample_rate"] == RATE and not any("words" in m for m in got if m["type"] == "final")
    got, code = stream(d, [b"\0" * 3200], start=None)
    assert code == 1000 and got[0]["sample_rate"] == 16000 and got[0]["encoding"] == "s16le", got


@case
def finalize_is_always_answered_and_the_stream_goes_on(d):
    half = 2 * (len(PCM) // 4)
    got, code = stream(d, [PCM[:half], '{"type":"finalize"}', PCM[half:]])
    assert code == 1000 and any(m.get("reason") == "request" for m in got), got
    got, code = stream(d, ['{"type":"finalize"}', '{"type":"finalize"}'])
    assert [m["reason"] for m in got if m["type"] == "final"] == ["request", "request"], got
    assert code == 1000 and got[-1]["type"] == "end"


@case
def unrequested_messages_are_not_sent(d):
    got, _ = stream(d, chunks(PCM, 1600), {**START, "interim": False, "words": False})
    assert not any(m["type"] == "partial" or "words" in m for m in got if m["type"] != "ready"), got
    assert text(got) == expected(d)
    got, _ = stream(d, [PCM], {**START, "alternatives": 3, "beam": 8})
    alts = [m["alternatives"] for m in got if m["type"] == "final" and m["text"]]
    assert alts and all(1 <= len(a) <= 3 for a in alts), got
    got, _ = stream(d, [PCM], {**START, "endpointing": False})
    assert len(finals(got)) == 1 and text(got) == expected(d), got


@case
def end_alone_is_answered_by_ready_and_end(d):
    for pieces in ([], [b""], ['{"type":"keepalive"}']):
        got, code = stream(d, pieces, start=None)
        assert [m["type"] for m in got] == ["ready", "end"] and code == 1000, (pieces, got, code)


@case
def a_message_of_exactly_the_limit_is_taken(d):
    with Stenod("websocket.message=64K") as small:
        got, code = stream(small, [b"\0" * 65536])
        assert code == 1000 and got[-1]["type"] == "end", (got, code)
        got, code = stream(small, [b"\0" * 65537])
        assert code == 1009 and got[-1]["code"] == "limit_exceeded", (got, code)


WAV_8K = wav_of(PCM[:400])
BAD = [
    # query, pieces, close code, error code, text in the message
    ("", ['{"type":"stop"}'], 1008, "invalid_argument", "stop"),
    ("", ["{nonsense"], 1007, "invalid_data", "line 1"),
    ("", ["[]"], 1007, "invalid_data", "object"),
    ("", ['{"type":"start","x":' + "[" * 100 + "]" * 100 + "}"], 1009, "limit_exceeded", "16 levels"),
    ("", ['{"type":"start","samplerate":8000}'], 1008, "invalid_argument", "samplerate"),
    ("", ['{"type":"start","sample_rate":1}'], 1008, "invalid_argument", "sample_rate: 1 "),
    ("", ['{"type":"start","sample_rate":10000000}'], 1008, "invalid_argument", "10000000"),
    ("", ['{"type":"start","channels":0}'], 1008, "invalid_argument", "channels"),
    ("", ['{"type":"start","encoding":"mp3"}'], 1003, "unsupported", "mp3"),
    ("", ['{"type":"start","model":"../../etc/passwd"}'], 1008, "invalid_argument", "etc/passwd"),
    ("", [" " * 20000], 1009, "limit_exceeded", "16384 bytes"),
    ("", ['{"type":"start"}', '{"type":"start"}'], 1008, "invalid_argument", "before audio"),
    ("", [b"\0" * 320, '{"type":"start"}'], 1008, "invalid_argument", "before audio"),
    ("", ['{"type":"start","encoding":"opus"}', b"\xff\xff\xff nothing of Opus"], 1007, "invalid_data", "pus"),
    ("", ['{"type":"start","encoding":"wav"}', b"this is text, not a WAV file, and long enough for a header"], 1007, "invalid_data", "WAV"),
    ("", ['{"type":"start","encoding":"wav"}', b"RIFF", '{"type":"end"}'], 1007, "invalid_data", "4 bytes"),
    ("", ['{"type":"start","encoding":"wav","sample_rate":16000}', WAV_8K], 1008, "invalid_argument", "16000"),
    ("?sample_rate=1", [], 1008, "invalid_argument", "query: sample_rate"),
    ("?rate=8000", [], 1008, "invalid_argument", "query: unknown field 'rate'"),
    ("?interim=perhaps", [], 1008, "invalid_argument", "perhaps"),
]


@case
def bad_input_gets_an_error_that_names_it_and_a_close_code(d):
    for query, pieces, close, code, names in BAD:
        got, closed = stream(d, pieces, start=None, finish=False, query=query)
        what = (query, [p[:60] for p in pieces], got[-1:], closed)
        assert got and got[-1]["type"] == "error", what
        assert got[-1]["code"] == code and names in got[-1]["message"] and closed == close, what
    assert d.status("/healthz") == 200


@case
def an_error_costs_no_audio_before_it(d):
    got, code = stream(d, [PCM, '{"type":"go"}'], finish=False)
    assert code == 1008 and got[-1]["type"] == "error" and text(got) == expected(d), got[-1]


@case
def text_that_is_not_utf8_is_refused(d):
    with raw(d) as s:
        s.sendall(frame(1, b'{"type":"\xff\xfe"}'))
        got, code = read_messages(s)
        assert code == 1007 and got[-1]["code"] == "invalid_data", (got, code)


def read_close(s):
    """Close code of the server; 1006 if the connection ended without one."""
    return read_messages(s)[1]


@case
def audio_after_the_end_is_named_or_too_late(d):
    """Either of the two, depending on when the stream's last final is ready (test_ws_session.c tests both)."""
    with raw(d) as s:
        s.sendall(frame(2, PCM) + frame(1, b'{"type":"end"}') + frame(2, b"\0" * 320))
        got, code = read_messages(s)
        assert (code, got[-1].get("code")) in ((1008, "invalid_argument"), (1000, None)), (got, code)
        assert code == 1000 or "after end" in got[-1]["message"], got


@case
def broken_framing_is_named_and_closed_with_1002(d):
    for bad, names in ((frame(2, b"unmasked", mask=False), "not masked"), (frame(1, b'{"type":"end"}', mask=False), "not masked"),
                       (frame(3, b"reserved opcode"), "opcode 3"), (frame(9, b"x" * 126), "125 bytes"),
                       (frame(9, b"x", fin=False), "fragmented"), (frame(0, b"continuation of nothing"), "continuation"),
                       (frame(2, b"begun", fin=False) + frame(2, b"again"), "within"),
                       (bytes([0xF2, 0x80, 0, 0, 0, 0]), "reserved bits"), (frame(8, b"\x03"), "two bytes")):
        with raw(d) as s:
            s.sendall(bad)
            got, code = read_messages(s)
            assert code == 1002 and got[-1]["code"] == "protocol_error" and names in got[-1]["message"], (names, got, code)
    assert d.status("/healthz") == 200


@case
def broken_framing_costs_no_audio_before_it(d):
    with raw(d, query=f"?sample_rate={RATE}") as s:
        s.sendall(frame(2, PCM) + frame(2, PCM, mask=False))
        got, code = read_messages(s)
        assert code == 1002 and got[-1]["type"] == "error" and text(got) == expected(d), (got[-1], code)


@case
def a_message_too_large_is_refused_by_its_header(d):
    """The header of a frame that announces 9 MiB is enough. A client that sends all of it can still read the reason."""
    with raw(d) as s:
        s.sendall(b"\x82\xff" + struct.pack(">Q", 9 << 20) + b"\0" * 4)
        got, code = read_messages(s)
        assert code == 1009 and got[-1]["code"] == "limit_exceeded" and "8388608 bytes" in got[-1]["message"], (got, code)
    got, code = stream(d, [b"\0" * (9 << 20)], start=None, finish=False)
    assert code == 1009 and got[-1]["code"] == "limit_exceeded", (got, code)


@case
def a_flood_of_pings_is_answered_by_the_newest_and_costs_no_memory(d):
    with raw(d) as s:
        rss = d.rss()
        for i in range(400):
            s.sendall(frame(9, b"ping %06d" % i) * 50)
        s.sendall(frame(9, b"the last") + frame(1, b'{"type":"end"}'))
        data = b""
        while b"\x8a\x08the last" not in data:
            got = s.recv(65536)
            assert got, data[-200:]
            data += got
        assert d.rss() - rss < 8 * SLOW


@case
def endless_messages_of_many_fragments_are_bounded(d):
    with Stenod("websocket.message=64K") as small, raw(small) as s:
        try:
            s.sendall(frame(2, b"", fin=False))
            for _ in range(70):
                s.sendall(frame(0, b"\0" * 1000, fin=False))
        except OSError:
            pass
        got, code = read_messages(s)
        assert code == 1009 and got[-1]["code"] == "limit_exceeded", (got[-1:], code)


@case
def control_frames_between_fragments_are_no_part_of_the_message(d):
    with raw(d, query=f"?sample_rate={RATE}") as s:
        half = len(PCM) // 4 * 2
        s.sendall(frame(2, PCM[:half], fin=False) + frame(9, b"in between") + frame(10, b"unasked") +
                  frame(0, PCM[half:]) + frame(1, b'{"type":"e', fin=False) + frame(9, b"") + frame(0, b'nd"}'))
        got, code = read_messages(s)
        assert code == 1000 and text(got) == expected(d), (got[-1], code)


@case
def text_in_one_read_with_more_audio_than_there_is_room_for_is_not_lost(d):
    """Frames that arrive while the session is paused wait. None is refused or overtakes another."""
    with Stenod("pool.buffer=0.5") as tight, raw(tight, query=f"?sample_rate={RATE}") as s:
        s.sendall(b"".join(frame(2, c) + frame(1, b'{"type":"keepalive"}') for c in chunks(PCM, 2000)) +
                  frame(1, b'{"type":"finalize"}') + frame(1, b'{"type":"end"}'))
        got, code = read_messages(s)
        assert code == 1000 and text(got) == expected(d), (got[-1], code)


@case
def a_wrong_handshake_is_told_what_is_wrong(d):
    good = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13"}
    for change, status, names in (({"Sec-WebSocket-Version": "8"}, 426, "13"),
                                  ({"Sec-WebSocket-Version": None}, 426, "13"),
                                  ({"Sec-WebSocket-Key": "short"}, 400, "Sec-WebSocket-Key"),
                                  ({"Sec-WebSocket-Key": None}, 400, "Sec-WebSocket-Key"),
                                  ({"Sec-WebSocket-Protocol": 'chat, "x"'}, 400, "steno.v1")):
        headers = {k: v for k, v in {**good, **change}.items() if v is not None}
        got, answer, body = d.request("GET", "/v1/stream", headers=headers)
        assert got == status and names in json.loads(body)["error"]["message"], (change, got, body)
        assert got != 426 or answer["sec-websocket-version"] == "13"
    assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 0)


@case
def pings_between_audio_are_answered(d):
    with connect(d.ws, **OPEN) as ws:
        ws.send(json.dumps(START))
        for c in chunks(PCM, 8000):
            ws.send(c)
            assert ws.ping().wait(20 * SLOW)
        ws.send('{"type":"end"}')
        got = messages_of(ws)[0]
    assert text(got) == expected(d)


@case
def the_subprotocol_is_optional(d):
    with connect(d.ws, subprotocols=["steno.v1"], **OPEN) as ws:
        assert ws.subprotocol == "steno.v1"
    with connect(d.ws, **OPEN) as ws:
        assert ws.subprotocol is None


@case
def long_headers_of_browsers_and_proxies_fit(d):
    with connect(d.ws, additional_headers={"Cookie": "c" * 7000}, **OPEN) as ws:
        ws.send('{"type":"end"}')
        assert [json.loads(ws.recv(timeout=20 * SLOW))["type"] for _ in range(2)] == ["ready", "end"]


@case
def twenty_streams_at_once_all_get_the_transcript(d):
    out = [None] * 20

    def one(i):
        out[i] = text(stream(d, chunks(PCM, 1600))[0])
    ts = [threading.Thread(target=one, args=(i,)) for i in range(len(out))]
    for t in ts:
        t.start()
    while any(t.is_alive() for t in ts):  # HTTP is served on the same port in the meantime
        assert d.status("/healthz") == 200
        time.sleep(0.1)
    for t in ts:
        t.join()
    assert out == [expected(d)] * len(out), out


@case
def clients_that_vanish_leave_nothing_behind(d):
    before = d.descriptors()
    gone = d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}')
    for how in range(12):
        s = raw(d)
        s.sendall(frame(1, json.dumps(START).encode()))
        s.sendall(frame(2, PCM[:20000]))
        if how % 3 == 1:
            s.sendall(bytes([0x82, 0xFE, 0xFF, 0xFF]))  # in the middle of a frame
        if how % 3 == 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
        s.close()
    assert d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}') == gone + 12
    assert eventually(lambda: d.descriptors() <= before), (before, d.descriptors())


@case
def a_client_that_closes_early_is_gone_not_an_error(d):
    gone = d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}')
    with connect(d.ws, **OPEN) as ws:
        ws.send(json.dumps(START))
        ws.send(PCM[:4000])
    assert d.wait_idle().metric('steno_sessions_total{api="stream",result="gone"}') == gone + 1


@case
def memory_does_not_grow_with_sessions(d):
    if SLOW > 1:
        raise Skip("a sanitizer keeps freed memory back; it looks for leaks at the end instead")

    def some(n):
        for _ in range(n):
            stream(d, [PCM[:16000]])
    some(20)
    before = d.rss()
    some(60)
    assert d.rss() - before < 6, (before, d.rss())


@case
def an_idle_session_takes_less_than_64_kib_beyond_its_states(_):
    """Resident memory of idle sessions after speech. The model's states and window take 119,008 bytes.
    tests/unit/test_session_bytes.c counts the same at the allocator."""
    if SLOW > 1:
        raise Skip("sanitizers keep memory of their own")
    need_descriptors(600)

    def talk(d, n, to):
        for _ in range(n):
            ws = connect(d.ws, **OPEN)
            to.append(ws)
            ws.send(json.dumps({"type": "start", "encoding": "s16le", "sample_rate": RATE}))
            for at in range(0, len(PCM), RATE):  # half a second each, recognized before the next one is sent
                ws.send(PCM[at:at + RATE])
                ws.send(json.dumps({"type": "finalize"}))
                while json.loads(ws.recv(timeout=60 * SLOW))["type"] != "final":
                    pass

    with Stenod("limits.sessions=1000", "pool.capacity=1000") as d:
        sockets = []
        talk(d, 100, sockets)
        before = d.rss()
        talk(d, 200, sockets)
        each = (d.rss() - before) * 1024 / 200
        assert each < 64 + 119008 / 1024, f"{each:.1f} KiB"
        for ws in sockets:
            ws.close()


@case
def metrics_count_what_happened(d):
    ok = d.wait_idle().metric('steno_sessions_total{api="stream",result="ok"}')
    seconds = d.metric('steno_audio_seconds_total{api="stream"}')
    stream(d, [PCM])
    assert d.wait_idle().metric('steno_sessions_total{api="stream",result="ok"}') == ok + 1
    assert abs(d.metric('steno_audio_seconds_total{api="stream"}') - seconds - len(PCM) / 2 / RATE) < 0.01
    assert d.metric("steno_partial_latency_seconds_count") > 0


@case
def a_client_that_does_not_read_is_closed_and_others_continue(_):
    with Stenod("websocket.send_queue=8192") as d:
        s = raw(d, receive_buffer=4096)
        flood = frame(1, b'{"type":"finalize"}') * 200
        rss = d.rss()
        try:
            for _ in range(200):
                s.sendall(flood)
        except OSError:
            pass  # closed while sending, or its buffers full: also fine
        d.becomes('steno_sessions_total{api="stream",result="timeout"}', 1)
        assert d.rss() - rss < 64 * SLOW
        assert text(stream(d, [PCM])[0]) == expected(d)
        s.close()


def finalizes(s, n):
    """Send n finalizes; a final answers each. False if the server closed before it had read them all."""
    try:
        for _ in range(n // 100):
            s.sendall(frame(1, b'{"type":"finalize"}') * 100)
    except OSError:
        return False
    return True


@case
def a_client_that_does_not_read_is_paused_then_closed_with_a_reason(_):
    with Stenod("websocket.slow_timeout=2s", "websocket.send_queue=256K") as d, raw(d, receive_buffer=4096) as s:
        s.settimeout(None)
        rss, paused = d.rss(), d.metric("steno_ws_rx_paused_total")
        assert not finalizes(s, 1 << 20), "20 MB were read of a client that reads nothing"
        assert d.metric("steno_ws_rx_paused_total") > paused
        d.becomes('steno_sessions_total{api="stream",result="timeout"}', 1)
        open_s, = re.findall(r": timed out: slow_reader, .* ([\d.]+) s open", d.output())
        assert float(open_s) >= 2, "closed for its queue, not for its silence"
        assert SAN or d.rss() - rss < 8
        assert d.descriptors() < 60


@case
def time_in_which_the_server_did_not_run_is_not_held_against_a_client(_):
    """Results wait for a client while the server is stopped for longer than it would wait for a reader."""
    with Stenod("websocket.slow_timeout=8s", "websocket.send_queue=256K") as d, raw(d, receive_buffer=4096) as s:
        n, sent = 8000, []

        def send():
            sent.append(finalizes(s, n) and s.sendall(frame(1, b'{"type":"end"}')) is None)
        s.settimeout(None)
        t = threading.Thread(target=send)
        t.start()
        assert eventually(lambda: d.metric("steno_ws_rx_paused_total") > 0)
        d.proc.send_signal(signal.SIGSTOP)
        time.sleep(11)
        d.proc.send_signal(signal.SIGCONT)
        got, code = read_messages(s)
        t.join()
        assert sent == [True] and code == 1000 and len(finals(got)) == n, (code, len(finals(got)))


@case
def a_client_that_was_paused_and_reads_again_misses_nothing(_):
    with Stenod("websocket.slow_timeout=1h", "websocket.send_queue=256K") as d, raw(d, receive_buffer=4096) as s:
        n, sent = 8000, []

        def send():
            sent.append(finalizes(s, n) and s.sendall(frame(1, b'{"type":"end"}')) is None)
        s.settimeout(None)
        t = threading.Thread(target=send)
        t.start()
        # the queue is half full, or the kernel's buffers are full before that: the server reads nothing, so it answers
        # nothing
        assert eventually(lambda: d.metric("steno_ws_rx_paused_total") > 0)
        used = d.processor_seconds()
        time.sleep(2)
        assert d.processor_seconds() - used < 0.2 * SLOW, "the loop runs for bytes that nobody reads"
        got, code = read_messages(s)
        t.join()
        assert sent == [True] and code == 1000 and got[-1]["type"] == "end", got[-1:]
        assert len(finals(got)) == n and got[-1]["finals"] == n, len(finals(got))


@case
def a_client_faster_than_real_time_is_read_as_fast_as_it_is_decoded(_):
    """Twenty minutes at full speed. If the server read them before decoding they would take 19 MB as sent and 38 MB
    as samples."""
    piece = PCM + b"\0\0" * RATE * 2
    times = 1200 * RATE * 2 // len(piece)
    with Stenod("pool.buffer=0.5") as d:
        assert stream(d, chunks(piece, 32768))[1] == 1000
        before, most = d.rss(), [0]

        def flat_out():
            for _ in range(times):
                yield from chunks(piece, 32768)
                most[0] = max(most[0], d.rss())
        got, code = stream(d, flat_out())
        assert code == 1000 and abs(got[-1]["audio_ms"] - times * len(piece) / 2 / RATE * 1000) < 5, got[-1]
        assert len(text(got).split()) >= times * len(expected(d).split()) * 0.95, text(got)
        assert d.metric("steno_ws_rx_paused_total") > times
        assert SAN or most[0] - before < 6, (before, most[0])


@case
def silent_and_half_open_clients_are_closed(_):
    with Stenod("websocket.idle_timeout=5", "websocket.ping_interval=1") as d:
        got, code = stream(d, [PCM], finish=False)  # answers pings, sends nothing else
        assert code == 1008 and got[-1]["code"] == "idle_timeout", (got[-1], code)
        assert text(got) == expected(d), text(got)
        with raw(d) as s:  # answers nothing
            read_close(s)
        with connect(d.ws, **OPEN) as ws:  # keepalive keeps a silent session open
            until = time.monotonic() + 6
            while time.monotonic() < until:
                ws.send('{"type":"keepalive"}')
                time.sleep(0.2)
            ws.send('{"type":"end"}')
            assert [json.loads(ws.recv(timeout=20 * SLOW))["type"] for _ in range(2)] == ["ready", "end"]
        assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 0)


@case
def beyond_capacity_the_handshake_is_refused_at_once(_):
    with Stenod("limits.sessions=2") as d:
        with connect(d.ws, **OPEN) as a, connect(d.ws, **OPEN) as b:
            try:
                connect(d.ws, **OPEN)
                raise AssertionError("a third session was let in")
            except InvalidStatus as e:
                assert e.response.status_code == 503 and int(e.response.headers["Retry-After"]) > 0
                assert json.loads(e.response.body)["error"]["code"] == "busy", e.response.body
            assert d.metric('steno_sessions_rejected_total{reason="sessions"}') == 1
            # a client that does not wait for its answer still gets it; Deepgram's client in its own form
            with socket.create_connection(("127.0.0.1", d.port), 20 * SLOW) as s:
                s.sendall(b"GET /v1/listen HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                          b"X-Request-Id: mine-1\r\n\r\n" + frame(1, json.dumps(START).encode()) + frame(2, PCM))
                got = b""
                while more := s.recv(65536):
                    got += more
            head, _, body = got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: " in head and b"X-Request-Id: mine-1\r\n" in head + b"\r\n", got
            assert json.loads(body) == {"err_code": "busy", "err_msg": "all 2 places for streams are taken", "request_id": "mine-1"}, got
            assert 'handshake refused with 503: all 2 places' in d.output()
            a.send('{"type":"end"}')
            b.send('{"type":"end"}')
            a.recv(timeout=20 * SLOW)
        assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 0)
        assert text(stream(d, [PCM])[0]) == expected(d)


@case
def streams_over_the_capacity_are_refused_at_the_handshake_and_uploads_are_not(roomy):
    """limits.sessions would admit many more; the model's capacity is used up."""
    said = expected(roomy)

    def refused():
        return d.metric('steno_sessions_rejected_total{reason="capacity"}')

    with Stenod("pool.capacity=2") as d:
        assert d.metric('steno_stream_capacity{model="digits-en"}') == 2
        with connect(d.ws, **OPEN) as a, connect(d.ws, **OPEN) as b:
            for ws in (a, b):
                ws.send(json.dumps(START))
                assert json.loads(ws.recv(timeout=60 * SLOW))["type"] == "ready"
            before = refused()
            try:
                connect(d.ws, **OPEN)
                raise AssertionError("a third stream was let in")
            except InvalidStatus as e:
                assert e.response.status_code == 503 and int(e.response.headers["Retry-After"]) >= 1, e.response
                error = json.loads(e.response.body)["error"]
                assert error["code"] == "busy" and "2 live streams" in error["message"], error
            assert before == 0 and refused() == 1
            assert d.metric('steno_sessions_rejected_total{reason="sessions"}') == 0
            status, _, body = d.request("POST", "/v1/transcribe", wav_of(PCM))
            assert status == 200 and json.loads(body)["text"] == said, body
            for ws in (a, b):  # the admitted sessions are not affected
                ws.send(PCM)
                ws.send('{"type":"end"}')
                assert text(messages_of(ws)[0]) == said
        assert text(stream(d.wait_idle(), [PCM])[0]) == said
        assert refused() == 1 and d.metric('steno_sessions_total{api="stream",result="ok"}') == 3


@case
def audio_over_the_limit_is_refused_after_its_transcript(_):
    with Stenod("limits.audio=10", "websocket.message=64K") as d:
        got, code = stream(d, chunks(PCM + b"\0\0" * RATE * 6, 8000))
        assert code == 1009 and "10 s" in got[-1]["message"] and text(got) == expected(d), got[-1]
        got, code = stream(d, [b"\0" * 100000])
        assert code == 1009 and "65536 bytes" in got[-1]["message"], got[-1]


@case
def drain_gives_running_streams_their_last_final(_):
    with Stenod() as d:
        with connect(d.ws, **OPEN) as ws, connect(d.ws, **OPEN) as quiet:
            ws.send(json.dumps(START))
            ws.send(PCM)
            got, out = [], []
            while not out or out[-1]["audio_ms"] < 4500:  # all but the last word was recognized, perhaps that too
                out.append(json.loads(ws.recv(timeout=60 * SLOW)))
            t = threading.Thread(target=lambda: got.append(d.terminate()))
            t.start()
            rest, code, _ = messages_of(ws)
            (last,), quietly, _ = messages_of(quiet)
            out += rest
            assert code == 1012 and quietly == 1012
            assert last["type"] == "end" and last["reason"] == "draining"
            assert text(out) == expected(d), out
            assert out[-1]["type"] == "end" and out[-1]["reason"] == "draining", out[-1]
        t.join()
        assert got[-1] == 0, got[-1]


@case
def drain_does_not_wait_longer_than_its_limit(_):
    with Stenod("server.drain_timeout=2") as d:
        s = raw(d, receive_buffer=4096)  # it reads nothing, so its last final and close frame remain in the server
        s.sendall(frame(1, b'{"type":"finalize"}') * 500)
        assert eventually(lambda: d.metric('steno_sessions_active{api="stream"}') == 1)
        assert d.terminate() == 0
        s.close()


@case
def the_documented_python_client_runs(d):
    with open(os.path.join(ROOT, "docs", "protocol.md"), encoding="utf-8") as f:
        code = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    code = code.replace("ws://127.0.0.1:8080", f"ws://127.0.0.1:{d.port}")
    p = subprocess.run([sys.executable, "-c", code, "tests/data/digits.wav"], cwd=ROOT, timeout=60 * SLOW,
                       capture_output=True, text=True, check=False)
    said = " ".join(re.findall(r"^final (.*)$", p.stdout, re.M))
    assert p.returncode == 0 and said == expected(d), (p.stdout, p.stderr)


@case
def the_demo_client_gets_the_transcript(d):
    exe = os.path.join(os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release")), "loadtest", "wsclient")
    p = subprocess.run([exe, "--url", d.ws, "--fast", "tests/data/digits.wav"], cwd=ROOT, timeout=60 * SLOW,
                       capture_output=True, text=True, check=False)
    said = " ".join(re.findall(r"final    (.*?)  ?\s*\(", p.stdout))
    assert p.returncode == 0 and said.strip() == expected(d), (p.stdout, p.stderr)


if __name__ == "__main__":
    assert math.isfinite(SLOW)
    with Stenod() as daemon:
        status = tap(daemon)
    sys.exit(status)
