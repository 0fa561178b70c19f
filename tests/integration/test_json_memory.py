"""Memory and time of JSON: every route and every dialect of live streams that takes it, with the largest input that the
server parses and with one that it must refuse. Prints a table of them."""
import base64
import contextlib
import json
import re
import socket
import sys
import tempfile
import threading
import time

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from daemon import DIGITS_TEXT, OPEN, SAN, SLOW, Stenod, case, converse, eventually, pcm, tap

PCM, RATE = pcm()
MOST = 8  # MiB that one JSON input may take: its text, its tree of at most 2 MB, buffers on the way
HUGE = b'{"a":[' + b"{}," * 3333333 + b"0]}"  # 10 MB, whose tree would take 1.4 GB
WIDE = b'{"a":[' + b"{}," * 2040 + b"0]}"  # nearly as many values as are parsed
TEXT = b'{"url":"' + b"x" * 262000 + b'"}'  # nearly as many bytes
ROUTES = ("/v1/listen", "/v1/jobs", "/v1/realtime/client_secrets", "/v1/realtime/transcription_sessions", "/load", "/v1/audio/speech")
SOCKETS = ("/v1/stream", "/v1/listen", "/v2/listen", "/v1/realtime", "/vosk", "/sherpa", "/wenet", "/")
ROWS = []


def memory(d, what):
    with open(f"/proc/{d.proc.pid}/status", encoding="ascii") as f:
        return int(re.search(rf"{what}:\s+(\d+)", f.read()).group(1)) / 1024


@contextlib.contextmanager
def measured(d, where, size):
    """What happens within takes memory, of which most is given back."""
    with open(f"/proc/{d.proc.pid}/clear_refs", "w", encoding="utf-8") as f:
        f.write("5")  # VmHWM begins anew
    before, cpu, now, row = memory(d, "VmRSS"), d.processor_seconds(), time.monotonic(), {}
    yield row
    spent, took = d.processor_seconds() - cpu, time.monotonic() - now
    peak, kept = memory(d, "VmHWM") - before, memory(d, "VmRSS") - before
    ROWS.append(f"| {where} | {size / 1000:,.0f} kB | {row['answer']} | {max(peak, 0):.1f} MiB | {max(kept, 0):.1f} MiB | {1000 * spent:.0f} ms | {1000 * took:.0f} ms |")
    assert SAN or peak < MOST, ROWS[-1]
    assert SAN or kept < 4, ROWS[-1]


def post(d, path, body):
    """The status, also where the server answers and closes before the whole body is sent."""
    with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
        def send():
            with contextlib.suppress(OSError):
                s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        t = threading.Thread(target=send)
        t.start()
        with contextlib.suppress(OSError):
            status = int(s.recv(65536).split()[1])
        t.join()
    return status


def last_word(ws, text, goes_on):
    """The close code, or "error" of the API that goes on after one."""
    try:
        ws.send(text)
        while json.loads(ws.recv(timeout=60 * SLOW)).get("type") != "error" or not goes_on:
            pass
        return "error"
    except ConnectionClosed:
        return ws.protocol.close_code


@case
def json_of_requests_is_bounded_before_it_is_parsed(d):
    for path in ROUTES:
        for body in (HUGE, WIDE, TEXT):
            with measured(d, "POST " + path, len(body)) as row:
                row["answer"] = post(d, path, body)
            assert row["answer"] in (200, 400, 404, 413), ROWS[-1]
            assert row["answer"] == 413 or body is not HUGE or path in ("/load", "/v1/audio/speech"), ROWS[-1]
    d.wait_idle()


@case
def a_request_without_a_length_has_the_same_bound(d):
    for path in ("/v1/listen", "/v1/jobs"):
        with measured(d, f"POST {path}, chunked", len(HUGE)) as row:
            row["answer"], _, _ = d.request("POST", path, iter([HUGE[i:i + 65536] for i in range(0, len(HUGE), 65536)]), {"Content-Type": "application/json"})
        assert row["answer"] == 413, ROWS[-1]


@case
def json_of_messages_is_bounded_before_it_is_parsed(d):
    for path in SOCKETS:
        for text in (HUGE[:7800000].decode(), WIDE.decode()):
            with measured(d, "WebSocket " + path, len(text)) as row, connect(f"ws://127.0.0.1:{d.port}{path}", **OPEN) as ws:
                row["answer"] = last_word(ws, text, len(text) < 16384 and "realtime" in path)
            assert row["answer"] == (1009 if len(text) > 16384 else "error" if "realtime" in path else 1008), ROWS[-1]
    d.wait_idle()


@case
def the_audio_of_a_large_message_needs_no_tree(d):
    """7.8 MB in one message of OpenAI's Realtime API: 121 s of audio, of which the last second is speech."""
    speech = PCM if RATE == 8000 else None
    assert speech
    audio = base64.b64encode(bytes(5849984 - len(speech)) + speech).decode()
    ask = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}}}}
    for members in ('"type":"input_audio_buffer.append","audio":"%s"', '"audio":"%s","type":"input_audio_buffer.append"'):
        with measured(d, "WebSocket /v1/realtime, audio", len(audio)) as row:
            with connect(f"ws://127.0.0.1:{d.port}/v1/realtime", **OPEN) as ws:
                ws.send(json.dumps(ask))
                ws.send("{" + members % audio + "}")
                ws.send('{"type":"input_audio_buffer.commit"}')
                while (m := json.loads(ws.recv(timeout=120 * SLOW)))["type"] != "conversation.item.input_audio_transcription.completed":
                    assert m["type"] != "error", m
            row["answer"] = m["transcript"]
        assert m["transcript"] == DIGITS_TEXT, m
    d.wait_idle()


@case
def other_streams_go_on_while_one_sends_a_large_message(d):
    """The same work beside it: the WebSocket thread is never held by one message."""
    with connect(f"ws://127.0.0.1:{d.port}/v1/realtime", **OPEN) as bad:
        bad.send(HUGE[:7800000].decode())
        got = converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}])
        assert " ".join(m["text"] for m in got.messages if m["type"] == "final") == DIGITS_TEXT, got
        with contextlib.suppress(ConnectionClosed):
            while True:
                bad.recv(timeout=60 * SLOW)


@case
def bodies_of_json_count_in_the_memory_of_uploads(_):
    with tempfile.TemporaryDirectory() as jobs, Stenod(f"jobs.dir={jobs}", "limits.body=100000", "limits.upload_memory=100000") as d:
        for path, api in (("/v1/listen", "listen"), ("/v1/jobs", "job")):
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n".encode()
            with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as first:
                first.sendall(head)
                d.becomes(f'steno_sessions_active{{api="{api}"}}', 1)
                assert post(d, "/v1/listen", TEXT[:60000]) == 503, path
            assert eventually(lambda: post(d, "/v1/listen", TEXT[:60000]) == 400), path
        with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as first:
            first.sendall(b"POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
            assert eventually(lambda: post(d, "/v1/listen", TEXT[:60000]) == 503)
        assert eventually(lambda: post(d, "/v1/listen", TEXT[:60000]) == 400)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as spool, Stenod(f"jobs.dir={spool}") as daemon:
        result = tap(daemon)
    print("# | input | its size | answer | peak | kept | processor | time |\n# |---|---|---|---|---|---|---|---|")
    for line in ROWS:
        print("# " + line)
    sys.exit(result)
