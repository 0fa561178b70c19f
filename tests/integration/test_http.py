"""The HTTP side of stenod from outside: every endpoint, every refusal, bad input, limits, drain."""
import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, converse, eventually, pcm, tap  # noqa: E402

with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def form(*parts, boundary="X-boundary-42"):
    """multipart/form-data of (name, value) and (name, bytes, filename), and its headers."""
    body = b""
    for name, value, *filename in parts:
        more = f'; filename="{filename[0]}"' if filename else ""
        value = value if isinstance(value, bytes) else value.encode()
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
        body += value + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def transcribe(d, *fields, file=WAV, filename="digits.wav", model="digits-en"):
    body, headers = form(("file", file, filename), ("model", model), *fields)
    return d.request("POST", "/v1/audio/transcriptions", body, headers)


def error_of(answer, status, code=None):
    """The answer must be an error in OpenAI's form. Returns its "error" member."""
    got, headers, body = answer
    assert got == status, (got, body[:300])
    assert headers["content-type"] == "application/json", headers
    e = json.loads(body)["error"]
    assert set(e) == {"message", "type", "param", "code"} and e["message"], e
    want = "server_error" if status >= 500 else "invalid_request_error"
    assert e["type"] == want, e
    assert code is None or e["code"] == code, e
    return e


def wav(rate=8000, channels=1, bits=16, tag=1, data=b"", data_size=None, riff_size=None):
    align = channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, rate, (rate * align) & 0xFFFFFFFF, align, bits)
    size = len(data) if data_size is None else data_size
    riff = 36 + len(data) if riff_size is None else riff_size
    return b"RIFF" + struct.pack("<I", riff & 0xFFFFFFFF) + b"WAVEfmt " + struct.pack("<I", 16) + fmt + \
        b"data" + struct.pack("<I", size) + data


def dial(d):
    s = socket.create_connection(("127.0.0.1", d.port), timeout=30 * SLOW)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_all(s):
    out = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return out
            out += piece
    except (socket.timeout, ConnectionError):
        return out


def read_head(s):
    out = b""
    while b"\r\n\r\n" not in out:
        piece = s.recv(65536)
        if not piece:
            break
        out += piece
    return out


def long_wav(seconds):
    """The digits repeated."""
    pcm = WAV[44:]
    n = int(seconds * 2 * struct.unpack("<I", WAV[24:28])[0])
    pcm = (pcm * (n // len(pcm) + 1))[:n]
    return wav(rate=struct.unpack("<I", WAV[24:28])[0], data=pcm)


# ---- what it serves ------------------------------------------------------------------------------

@case
def every_get_endpoint_answers(d):
    for path, media in [("/", "text/html"), ("/metrics", "text/plain; version=0.0.4"),
                        ("/healthz", "application/json"), ("/readyz", "application/json"),
                        ("/v1/models", "application/json"), ("/v1/models/digits-en", "application/json")]:
        status, headers, body = d.get(path)
        assert status == 200 and body and headers["content-type"].startswith(media), (path, status, headers)
        assert re.fullmatch(r"req_[0-9a-f]{32}", headers["x-request-id"]), headers
        status, head, body = d.request("HEAD", path)
        assert status == 200 and body == b"" and int(head["content-length"]) > 0, (path, status, head)


@case
def models_are_listed_with_their_aliases(d):
    listed = json.loads(d.get("/v1/models")[2])
    assert listed["object"] == "list" and [m["id"] for m in listed["data"]] == ["digits-en"]
    assert json.loads(d.get("/v1/models/whisper-1")[2])["id"] == "digits-en"
    assert error_of(d.get("/v1/models/gpt-9"), 404, "model_not_found")["param"] == "model"


@case
def health_says_why(d):
    assert json.loads(d.get("/healthz")[2]) == {"status": "ok", "reasons": []}
    ready = json.loads(d.get("/readyz")[2])
    assert ready["status"] == "ok" and ready["reasons"] == []


@case
def unknown_paths_and_wrong_methods_are_json_errors(d):
    error_of(d.get("/v1/nothing"), 404, "not_found")
    error_of(d.get("/favicon.ico"), 404, "not_found")
    error_of(d.request("POST", "/v1/nothing", b"x"), 404)
    for method, path, allow in [("GET", "/v1/transcribe", "POST, OPTIONS"), ("POST", "/metrics", "GET, HEAD, OPTIONS"),
                                ("DELETE", "/v1/models/digits-en", "GET, HEAD, OPTIONS"), ("PUT", "/v1/transcribe", "POST, OPTIONS")]:
        answer = d.request(method, path, b"abc" if method != "GET" else None)
        error_of(answer, 405, "method_not_allowed")
        assert answer[1]["allow"] == allow, answer


@case
def request_ids_are_kept_when_harmless(d):
    assert d.request("GET", "/healthz", None, {"X-Request-Id": "a-b_C.9:x"})[1]["x-request-id"] == "a-b_C.9:x"
    for bad in ["x" * 200, "a b", "<script>", ""]:
        got = d.request("GET", "/healthz", None, {"X-Request-Id": bad})[1]["x-request-id"]
        assert got.startswith("req_"), got


@case
def openai_form_gives_every_format(d):
    status, headers, body = transcribe(d)
    assert status == 200 and headers["content-type"] == "application/json", (status, body)
    j = json.loads(body)
    assert j["text"] == DIGITS_TEXT and j["usage"]["type"] == "duration", j
    status, headers, body = transcribe(d, ("response_format", "text"))
    assert status == 200 and body.decode() == DIGITS_TEXT + "\n", body
    assert headers["content-type"].startswith("text/plain"), headers
    v = json.loads(transcribe(d, ("response_format", "verbose_json"), ("timestamp_granularities[]", "word"),
                              ("timestamp_granularities[]", "segment"), ("language", "en"),
                              ("temperature", "0"), ("prompt", "digits"))[2])
    assert v["text"] == DIGITS_TEXT and v["language"] == "english" and v["task"] == "transcribe", v
    assert [w["word"] for w in v["words"]] == DIGITS_TEXT.split(), v
    ends = 0
    for w in v["words"]:
        assert ends - 0.05 <= w["start"] <= w["end"] <= v["duration"] + 0.05, v
        ends = w["end"]
    assert " ".join(s["text"] for s in v["segments"]) == DIGITS_TEXT, v
    srt = transcribe(d, ("response_format", "srt"))[2].decode()
    assert re.match(r"1\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n", srt), srt
    vtt = transcribe(d, ("response_format", "vtt"))[2].decode()
    assert vtt.startswith("WEBVTT\n"), vtt
    for text in (srt, vtt):
        said = " ".join(line for line in text.splitlines()
                        if line and "-->" not in line and not line.isdigit() and line != "WEBVTT")
        assert said == DIGITS_TEXT, text
    narrow = transcribe(d, ("response_format", "srt"), ("max_words_per_line", "2"), ("max_line_count", "1"))[2].decode()
    lines = [line for line in narrow.splitlines() if line and "-->" not in line and not line.isdigit()]
    assert len(lines) >= 4 and all(len(line.split()) <= 2 for line in lines) and " ".join(lines) == DIGITS_TEXT, narrow
    marked = transcribe(d, ("response_format", "vtt"), ("highlight_words", "true"))[2].decode()
    assert [m for m in re.findall("<u>(.*?)</u>", marked)] == DIGITS_TEXT.split(), marked
    for path in ("/v1/transcribe?format=lrc", "/v1/transcribe?format=tsv"):
        status, headers, body = d.request("POST", path, WAV)
        assert status == 200 and headers["content-type"].startswith("text/"), (status, headers)
        lines = body.decode().splitlines()
        if path.endswith("lrc"):
            assert re.fullmatch(r"\[00:00\.\d\d\].*", lines[0]) and " ".join(x[10:] for x in lines) == DIGITS_TEXT, lines
        else:
            assert lines[0] == "start\tend\ttext" and " ".join(x.split("\t")[2] for x in lines[1:]) == DIGITS_TEXT, lines
    status, _, body = transcribe(d, ("response_format", "srt"), ("max_line_count", "0"))
    assert status == 400 and b"max_line_count" in body, body


@case
def any_name_of_the_model_will_do_but_not_any_name(d):
    assert transcribe(d, model="whisper-1")[0] == 200
    e = error_of(transcribe(d, model="gpt-9"), 404, "model_not_found")
    assert e["param"] == "model" and "gpt-9" in e["message"], e


@case
def file_is_known_by_its_bytes_not_its_name(d):
    assert json.loads(transcribe(d, filename="x.mp3")[2])["text"] == DIGITS_TEXT
    assert json.loads(transcribe(d, filename="\u00e4 b;c.bin")[2])["text"] == DIGITS_TEXT


@case
def streamed_answer_is_the_same_text(d):
    status, headers, body = transcribe(d, ("stream", "true"))
    assert status == 200 and headers["content-type"] == "text/event-stream", (status, headers)
    frames = [f for f in body.decode().split("\n\n") if f]
    assert all(f.startswith("data: ") for f in frames), body
    assert frames[-1] == "data: [DONE]", frames
    events = [json.loads(f[6:]) for f in frames[:-1]]
    assert [e["type"] for e in events] == ["transcript.text.delta"] * (len(events) - 1) + ["transcript.text.done"]
    assert "".join(e["delta"] for e in events[:-1]) == events[-1]["text"] == DIGITS_TEXT, events
    assert len(events) > 3, events
    # a fault before the first event gives an ordinary error
    error_of(transcribe(d, ("stream", "true"), file=b"not audio at all, really"), 400, "invalid_data")


@case
def plain_body_gives_every_format(d):
    status, _, body = d.request("POST", "/v1/transcribe", WAV)
    j = json.loads(body)
    assert status == 200 and j["text"] == DIGITS_TEXT and j["model"] == "digits-en", body
    words = [w["word"] for s in j["segments"] for w in s["words"]]
    assert words == DIGITS_TEXT.split(), j
    assert all(0 <= w["confidence"] <= 1 for s in j["segments"] for w in s["words"]), j
    assert d.request("POST", "/v1/transcribe?format=text", WAV)[2].decode() == DIGITS_TEXT + "\n"
    assert d.request("POST", "/v1/transcribe?format=vtt", WAV)[2].startswith(b"WEBVTT")
    assert b" --> " in d.request("POST", "/v1/transcribe?format=srt", WAV)[2]
    j = json.loads(d.request("POST", "/v1/transcribe?words=false&segments=no&beam=4&n_best=2&channel=1", WAV)[2])
    assert len(j["segments"]) == 1 and "words" not in j["segments"][0], j
    curl = d.request("POST", "/v1/transcribe", WAV, {"Content-Type": "application/x-www-form-urlencoded"})
    assert curl[0] == 200, curl  # the type that curl --data-binary sends for any body


@case
def one_channel_of_several_can_be_selected_in_either_form(d):
    mono = WAV[44:]
    rate = struct.unpack("<I", WAV[24:28])[0]
    pairs = b"".join(b"\0\0" + mono[i:i + 2] for i in range(0, len(mono), 2))  # silence on the left, speech on the right
    both = wav(rate=rate, channels=2, data=pairs)
    body, headers = form(("file", both, "x.wav"))
    for channel, said in (("1", ""), ("2", DIGITS_TEXT)):
        assert json.loads(transcribe(d, ("channel", channel), file=both)[2])["text"] == said, channel
        for path in ("/v1/transcribe", "/v1/audio/transcriptions"):
            answer = d.request("POST", f"{path}?api-version=1&channel={channel}", body, headers) \
                if "audio" in path else d.request("POST", f"{path}?channel={channel}", both)
            assert json.loads(answer[2])["text"] == said, (path, channel, answer)
    for bad, says in (("x", "'x' is not a number"), ("-1", "outside 0..64"), ("65", "outside 0..64"), ("3", "channel")):
        assert says in error_of(transcribe(d, ("channel", bad), file=both), 400)["message"], bad
        e = error_of(d.request("POST", f"/v1/audio/transcriptions?channel={bad}", body, headers), 400)
        assert says in e["message"], (bad, e)


@case
def chunked_bodies_of_unknown_length_are_taken(d):
    def pieces():
        for i in range(0, len(WAV), 1000):
            yield WAV[i:i + 1000]
    assert json.loads(d.request("POST", "/v1/transcribe", pieces())[2])["text"] == DIGITS_TEXT


@case
def wrong_parameters_are_named(d):
    for query, code, says in [("format=xml", 400, "'xml' is not one of json, text, srt, vtt"),
                              ("chanel=1", 400, "'chanel' is unknown (channel is known)"), ("zzz=1", 400, "'zzz' is unknown; /openapi.yaml has all"), ("channel=x", 400, "'x' is not a number"),
                              ("beam=1000", 400, "beam: 1000 is outside 0..64"), ("format=%zz", 400, "%-escape"),
                              ("model=nope", 404, "'nope' does not exist")]:
        e = error_of(d.request("POST", "/v1/transcribe?" + query, WAV), code)
        assert says in e["message"], (query, e)
    e = error_of(d.request("POST", "/v1/transcribe?channel=2", WAV), 400)
    assert "channel" in e["message"], e
    for name, value, says in [("response_format", "xml", "json, text, srt, verbose_json, vtt"),
                              ("temperature", "9", "outside 0..1"), ("stream", "perhaps", "true or false"),
                              ("timestamp_granularities[]", "char", "neither word nor segment"),
                              ("known_speaker_names[]", "Ann", "need known_speaker_references"),
                              ("language", "de", "speaks 'en', not 'de'")]:
        e = error_of(transcribe(d, (name, value)), 400)
        assert e["param"] == name.replace("[]", "") and says in e["message"], (name, e)


@case
def a_vocabulary_costs_a_model_without_hotwords_nothing(_d):
    with tempfile.NamedTemporaryFile("w") as words:
        words.write("nine\nAnn Schmidt :2.5\n")
        words.flush()
        with Stenod(f"text.vocabulary={words.name}") as other:
            status, _, body = other.request("POST", "/v1/transcribe", WAV)
            assert status == 200 and json.loads(body)["text"] == DIGITS_TEXT, body
            samples, rate = pcm()
            got = converse(f"{other.ws}?sample_rate={rate}", [samples, '{"type":"end"}'])
            assert [m["text"] for m in got.messages if m["type"] == "final"] == [DIGITS_TEXT], got


# ---- bad bodies ----------------------------------------------------------------------------------

@case
def empty_uploads_are_named(d):
    errors = 'steno_audio_decode_errors_total{api="transcribe",reason="empty"}'
    before = d.wait_idle().metric(errors)
    assert "empty" in error_of(d.request("POST", "/v1/transcribe", b""), 400, "invalid_data")["message"]
    e = error_of(transcribe(d, file=b""), 400, "invalid_data")
    assert e["param"] == "file" and "empty" in e["message"], e
    d.becomes(errors, before + 1)
    status, _, body = d.request("POST", "/v1/transcribe", wav())
    assert status in (200, 400) and (status == 400 or json.loads(body)["text"] == ""), body


@case
def files_without_audio_are_refused_with_a_reason(d):
    pcm = b"\1\0" * 800
    for name, data, status, says in [
            ("text", b"Hello world, I am no recording.\n" * 20, 400, "Hello"),
            ("html", b"<!doctype html><title>x</title>", 400, ""),
            ("noise", bytes(range(256)) * 8, 400, ""),
            ("no channels", wav(channels=0, data=pcm), 400, "channels"),
            ("1 Hz", wav(rate=1, data=pcm), 415, "1 Hz"),
            ("10 MHz", wav(rate=10_000_000, data=pcm), 415, "10000000"),
            ("odd tag", wav(tag=0x4242, data=pcm), 415, ""),
            ("cut in its header", wav(data=pcm)[:30], 400, "")]:
        e = error_of(d.request("POST", "/v1/transcribe", data), status)
        assert says in e["message"], (name, e)
        assert error_of(transcribe(d, file=data, filename="x.wav"), status)["param"] == "file", name


@case
def lying_and_truncated_files_give_their_samples(d):
    pcm = WAV[44:]
    rate = struct.unpack("<I", WAV[24:28])[0]
    cut = d.request("POST", "/v1/transcribe", WAV[:len(WAV) // 2])
    said = json.loads(cut[2])["text"]
    assert cut[0] == 200 and said and DIGITS_TEXT.startswith(said.rsplit(" ", 1)[0]), cut
    assert "promises more" in cut[1]["x-steno-warning"], cut
    assert json.loads(cut[2])["warnings"] == [cut[1]["x-steno-warning"]], cut
    assert "warnings" not in json.loads(d.request("POST", "/v1/transcribe", WAV)[2])
    for size in (0xFFFFFFFF, 0):  # unknown length, as written by pipes
        answer = d.request("POST", "/v1/transcribe", wav(rate=rate, data=pcm, data_size=size, riff_size=size))
        assert json.loads(answer[2])["text"] == DIGITS_TEXT, (size, answer)


@case
def nan_samples_do_no_harm(d):
    nan = struct.pack("<f", float("nan")) * 16000
    status, _, body = d.request("POST", "/v1/transcribe", wav(rate=16000, tag=3, bits=32, data=nan))
    assert status == 200 and json.loads(body)["text"] == "", body


@case
def wrong_forms_are_named(d):
    good, headers = form(("file", WAV, "x.wav"), ("model", "digits-en"))
    post = lambda body, h: d.request("POST", "/v1/audio/transcriptions", body, h)  # noqa: E731
    e = error_of(post(good, {"Content-Type": "multipart/form-data; boundary=other"}), 400)
    assert "'other' of the Content-Type header does not occur" in e["message"], e
    e = error_of(post(good, {"Content-Type": "multipart/form-data"}), 400)
    assert "boundary is missing" in e["message"], e
    e = error_of(post(b'{"model":"x"}', {"Content-Type": "application/json"}), 415)
    assert "expected multipart/form-data" in e["message"], e
    e = error_of(post(good[:-30], headers), 400)
    assert "the body ends inside part 2" in e["message"] and e["param"] is None, e
    body, headers = form(("model", "digits-en"), ("file", WAV, "x.wav"))
    e = error_of(post(body[:-30], headers), 400)
    assert e["param"] == "file", e  # not the name of the field before it
    e = error_of(post(*form(("model", "digits-en"))), 400)
    assert e["param"] == "file", e
    status, _, body = post(*form(("file", WAV, "x.wav")))  # the served model, as curl -F file=@x asks
    assert status == 200 and json.loads(body)["text"] == DIGITS_TEXT, body
    e = error_of(post(*form(("file", WAV, "a"), ("file", WAV, "b"), ("model", "digits-en"))), 400)
    assert "more than one" in e["message"] and e["param"] == "file", e
    e = error_of(post(*form(*[("x", "y")] * 300)), 413)
    assert "more than 256 parts" in e["message"], e
    e = error_of(d.request("POST", "/v1/transcribe", WAV, {"Content-Encoding": "gzip"}), 415)
    assert "Content-Encoding" in e["message"], e


# ---- limits --------------------------------------------------------------------------------------

@case
def bodies_over_the_limit_are_refused_before_they_are_read(d):
    with Stenod("limits.body=64K", "limits.audio=2s") as small:
        s = dial(small)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n")  # and no byte more
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 413 "), answer
        assert b"Maximum content size limit (65536) exceeded (70000 bytes read)" in answer, answer
        s.close()
        # a client that sends everything can still read the answer
        error_of(small.request("POST", "/v1/transcribe", b"x" * 3_000_000), 413, "limit_exceeded")
        error_of(transcribe(small, file=b"x" * 3_000_000), 413, "limit_exceeded")
        error_of(small.request("POST", "/v1/transcribe", (b"x" * 1000 for _ in range(200))), 413, "limit_exceeded")
        s = dial(small)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        assert read_all(s).startswith(b"HTTP/1.1 413 ")
        s.close()
        for length in (b"-1", b"1e3", b"99999999999999999999999999"):
            s = dial(small)
            s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n")
            answer = read_all(s)
            assert answer == b"" or re.match(rb"HTTP/1.1 4(00|13) ", answer), (length, answer)
            s.close()
        e = error_of(small.request("POST", "/v1/transcribe", wav(data=b"\0\0" * 24000)), 413, "limit_exceeded")
        assert "2" in e["message"], e
        assert eventually(lambda: small.metric('steno_sessions_active{api="transcribe"}') == 0)


@case
def beyond_capacity_the_answer_is_503_at_once(d):
    with Stenod("limits.uploads=1", "limits.sessions=0") as tight:
        s = dial(tight)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(WAV) + WAV[:100])
        assert eventually(lambda: tight.metric('steno_sessions_active{api="transcribe"}') == 1)
        answer = transcribe(tight)
        error_of(answer, 503, "busy")
        assert int(answer[1]["retry-after"]) >= 1 and int(answer[1]["retry-after-ms"]) >= 1000, answer
        assert tight.metric('steno_sessions_rejected_total{reason="sessions"}') == 1
        s.sendall(WAV[100:])
        assert read_head(s).startswith(b"HTTP/1.1 200 ")
        s.close()
        assert eventually(lambda: transcribe(tight)[0] == 200)
        # the handshake of a stream is refused
        answer = tight.request("GET", "/v1/stream", None, {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
        error_of(answer, 503, "busy")
        assert "retry-after" in answer[1]


@case
def memory_of_uploads_is_bounded(d):
    with Stenod("limits.body=1M", "limits.upload_memory=1M") as tight:
        s = dial(tight)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
        assert eventually(lambda: tight.metric('steno_sessions_active{api="transcribe"}') == 1)
        error_of(tight.request("POST", "/v1/transcribe", b"x" * 900000), 503, "busy")
        assert tight.metric('steno_sessions_rejected_total{reason="memory"}') == 1
        s.close()
        assert eventually(lambda: tight.request("POST", "/v1/transcribe", WAV)[0] == 200)


@case
def a_stream_without_an_upgrade_gets_426(d):
    got, headers, _ = answer = d.get("/v1/stream")
    error_of(answer, 426, "upgrade_required")
    assert got == 426 and headers["upgrade"] == "websocket", headers


@case
def connections_are_kept_alive(d):
    s = dial(d)
    for _ in range(5):
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = read_head(s)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"Connection: close" not in answer, answer
    s.close()


# ---- clients that misbehave ----------------------------------------------------------------------

@case
def half_open_and_slow_connections_delay_nobody(d):
    with Stenod("limits.header_timeout=3s", "limits.body_timeout=5s", "limits.idle_timeout=4s") as quick:
        idle = [dial(quick) for _ in range(200)]
        slow = dial(quick)
        slow.sendall(b"GET / HT")
        assert transcribe(quick)[0] == 200
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        for s in idle:
            assert read_all(s) == b""
            s.close()
        quick.becomes('steno_sessions_rejected_total{reason="slow"}', 201)
        # a body that trickles is cut off
        s = dial(quick)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert eventually(lambda: s.send(b"x") and select.select([s], [], [], 0.2)[0])
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"limits.body_timeout" in answer, answer
        s.close()
        # and a body that stops
        s = dial(quick)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nxx")
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"limits.idle_timeout" in answer and b'"body_timeout"' in answer, answer
        s.close()
        assert eventually(lambda: quick.metric('steno_sessions_active{api="transcribe"}') == 0)
        assert eventually(lambda: quick.metric('steno_sessions_total{api="transcribe",result="timeout"}') == 2)
        assert eventually(lambda: quick.descriptors() < 60), quick.descriptors()


@case
def clients_gone_in_the_middle_are_noticed(d):
    gone = 'steno_sessions_total{api="transcribe",result="gone"}'
    before = d.wait_idle().metric(gone)
    s = dial(d)
    s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
    assert eventually(lambda: d.metric('steno_sessions_active{api="transcribe"}') == 1)
    s.close()
    assert eventually(lambda: d.metric(gone) == before + 1)
    for _ in range(30):  # data and FIN together
        s = dial(d)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 20000)
        s.close()
    assert eventually(lambda: d.metric(gone) == before + 31), d.metric(gone)


@case
def the_work_for_a_client_that_left_stops(_):
    with Stenod("pool.threads=1", cpu="scalar") as d:  # it recognizes an hour for much longer than this takes
        audio = long_wav(3600)
        s = dial(d)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(audio) + audio)
        assert eventually(lambda: d.metric("steno_workers_busy") == 1)
        s.close()
        d.becomes('steno_sessions_total{api="transcribe",result="gone"}', 1)
        d.becomes('steno_http_requests_total{route="/v1/transcribe",method="POST",code="499"}', 1)
        d.becomes('steno_sessions_active{api="transcribe"}', 0)
        d.becomes("steno_workers_busy", 0)


@case
def a_client_that_closed_its_sending_side_is_still_answered(d):
    audio = WAV
    for version in (b"1.1", b"1.0"):
        s = dial(d)
        s.sendall(b"POST /v1/transcribe?format=text HTTP/%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (version, len(audio)) + audio)
        s.shutdown(socket.SHUT_WR)
        answer = read_all(s)
        s.close()
        if answer.startswith(b"HTTP/1.1 102 "):
            answer = answer.split(b"\r\n\r\n", 1)[1]
        assert b" 200 OK" in answer.split(b"\r\n")[0] and DIGITS_TEXT.encode() in answer, answer


@case
def recognition_that_takes_too_long_is_cut_off(d):
    with Stenod("limits.request_timeout=1s", cpu="scalar") as quick:  # an hour of audio takes a fast CPU a second
        error_of(quick.request("POST", "/v1/transcribe", long_wav(3600)), 504, "timeout")
        quick.becomes('steno_sessions_total{api="transcribe",result="timeout"}', 1)
        assert eventually(lambda: quick.request("POST", "/v1/transcribe", long_wav(0.2))[0] == 200)


@case
def odd_requests_leave_it_alive(d):
    for raw in [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
                b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
                b"GET / HTTP/1.1\r\nX: " + b"z" * 40000 + b"\r\n\r\n",
                b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                b"GET /%00%ff?%zz=%00 HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /v1/models/" + b"%41" * 500 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"]:
        s = dial(d)
        s.settimeout(2 * SLOW)
        s.sendall(raw)
        s.shutdown(socket.SHUT_WR)
        answer = read_all(s)
        assert not answer.startswith(b"HTTP/1.1 2") or raw.startswith(b"GET / ") or b"chunked" in raw, (raw[:80], answer[:80])
        s.close()
    assert transcribe(d)[0] == 200


@case
def unusable_framing_is_answered_once(d):
    head = b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\n"
    for lines in (b"Content-Length: -1", b"Content-Length: 99999999999999999999999", b"Content-Length: 9223372036854775808",
                  b"Content-Length: 5x", b"Content-Length:", b"Content-Length: 5, 5",
                  b"Content-Length: 5\r\ncontent-length: 6",
                  b"Content-Length: 5\r\nTransfer-Encoding: chunked"):
        s = dial(d)
        s.sendall(head + lines + b"\r\n\r\nhello")
        got = read_all(s)
        s.close()
        assert got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1 ") == 1, (lines, got)
        e = json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]
        assert e["code"] == "invalid_argument" and "Content-Length" in e["message"], e
    for target in (b"/v1/transcribe", b"/v1/transcribe?x=1", b"/v1/nothing", b"/healthz"):
        for chunk in (b"zz\r\nhello\r\n", b"-5\r\nhello\r\n", b"ffffffffffffffffffff\r\nhello", b"5\r\nhelloXX"):
            s = dial(d)
            s.sendall(b"POST " + target + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
            got = read_all(s)
            s.close()
            assert re.match(rb"HTTP/1\.1 4\d\d ", got) and got.count(b"HTTP/1.1 ") == 1, (target, chunk, got)


@case
def bad_requests_do_not_grow_memory(d):
    if os.environ.get("STENO_SAN"):
        raise Skip("a sanitizer keeps freed memory")
    good, headers = form(("file", WAV, "x.wav"), ("model", "digits-en"))

    def round_of_bad():
        for i in range(100):
            d.request("POST", "/v1/transcribe", b"no audio " * 50)
            d.request("POST", "/v1/audio/transcriptions", good[:-20 - i], headers)
            d.request("POST", "/v1/transcribe", wav(channels=0, data=b"x" * 5000))
            d.request("GET", "/none")
            s = dial(d)
            s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 20000)
            s.close()
    round_of_bad()
    before, fds = d.rss(), d.descriptors()
    for _ in range(3):
        round_of_bad()
    grown = d.rss() - before
    assert grown < 4, f"{grown:.1f} MiB more after 1500 bad requests"
    assert eventually(lambda: d.descriptors() <= fds + 5), (fds, d.descriptors())


@case
def good_uploads_do_not_grow_memory(d):
    if os.environ.get("STENO_SAN"):
        raise Skip("a sanitizer keeps freed memory")
    short = wav(rate=8000, data=WAV[44:44 + 16000])
    for _ in range(150):
        d.request("POST", "/v1/transcribe", short)
    before, fds = d.rss(), d.descriptors()
    for _ in range(300):
        assert d.request("POST", "/v1/transcribe", short)[0] == 200
    assert d.rss() - before < 4, f"{d.rss() - before:.1f} MiB more after 300 uploads"
    assert eventually(lambda: d.descriptors() <= fds + 5), (fds, d.descriptors())


@case
def many_uploads_at_once_are_all_right(d):
    results = []

    def one():
        results.append(json.loads(transcribe(d)[2]).get("text"))
    threads = [threading.Thread(target=one) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [DIGITS_TEXT] * 24, results


@case
def a_short_clip_does_not_wait_for_long_recordings(d):
    with Stenod("pool.threads=1", cpu="scalar") as one_worker:  # a fast CPU is done with a long one before the next has come
        audio = long_wav(1800)
        busy = []
        for _ in range(3):
            s = dial(one_worker)
            s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(audio) + audio)
            busy.append(s)
        assert eventually(lambda: one_worker.metric('steno_sessions_active{api="transcribe"}') == 3)
        assert json.loads(transcribe(one_worker)[2])["text"] == DIGITS_TEXT
        assert one_worker.metric('steno_sessions_active{api="transcribe"}') == 3, "the long ones were first"
        for s in busy:
            s.close()
        assert eventually(lambda: one_worker.metric('steno_sessions_active{api="transcribe"}') == 0)


# ---- metrics -------------------------------------------------------------------------------------

@case
def metrics_are_there_from_the_start_and_add_up(d):
    with Stenod() as fresh:
        page = fresh.get("/metrics")[2].decode()
        for name in ["steno_build_info", "steno_model_info", "steno_model_loaded", "steno_sessions_active", "steno_sessions_started_total",
                     "steno_sessions_total", "steno_sessions_rejected_total", "steno_audio_seconds_total",
                     "steno_audio_received_seconds_total", "steno_audio_dropped_seconds_total", "steno_inference_seconds_total", "steno_realtime_factor_bucket", "steno_stream_capacity",
                     "steno_first_partial_seconds_bucket", "steno_partial_latency_seconds_bucket",
                     "steno_final_latency_seconds_bucket", "steno_queue_wait_seconds_bucket", "steno_queue_depth",
                     "steno_ws_send_queue_bytes", "steno_ws_rx_paused_total", "steno_audio_decode_errors_total",
                     "steno_partial_revisions_total", "steno_http_requests_total",
                     "steno_http_request_duration_seconds_bucket", "process_cpu_seconds_total",
                     "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"]:
            assert re.search(rf"^{name}[ {{]", page, re.M), name
        zero = 'steno_http_requests_total{route="/v1/transcribe",method="POST",code="%s"}'
        for code in ("200", "400", "413", "499", "503", "504"):
            assert fresh.metric(zero % code) == 0, code
        seen = set()
        for line in page.splitlines():
            if line.startswith("# TYPE"):
                assert line not in seen, line
                seen.add(line)
            elif not line.startswith("#"):
                assert re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+(Inf)?', line), line
        assert transcribe(fresh)[0] == 200
        fresh.request("POST", "/v1/transcribe", b"no audio")
        fresh.wait_idle()
        assert fresh.metric('steno_sessions_total{api="openai",result="ok"}') == 1
        assert fresh.metric('steno_sessions_total{api="transcribe",result="bad"}') == 1
        seconds = fresh.metric('steno_audio_seconds_total{api="openai"}')
        rate = struct.unpack("<I", WAV[24:28])[0]
        assert abs(seconds - (len(WAV) - 44) / 2 / rate) < 0.01, seconds
        assert fresh.metric('steno_inference_seconds_total{api="openai"}') > 0
        assert fresh.metric("steno_realtime_factor_count") == 1


# ---- start and end -------------------------------------------------------------------------------

@case
def sigterm_lets_uploads_finish_and_refuses_new_ones(d):
    with Stenod("server.drain_timeout=1h") as leaving:
        s = dial(leaving)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(WAV) + WAV[:1000])
        assert eventually(lambda: leaving.metric('steno_sessions_active{api="transcribe"}') == 1)
        leaving.proc.send_signal(signal.SIGTERM)
        assert eventually(lambda: leaving.status("/readyz") == 503)
        ready = json.loads(leaving.get("/readyz")[2])
        assert ready["reasons"] == ["the server is shutting down"], ready
        assert leaving.status("/healthz") == 200
        answer = transcribe(leaving)
        error_of(answer, 503)
        assert "retry-after" in answer[1]
        s.sendall(WAV[1000:])
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 200 ") and DIGITS_TEXT.encode() in answer, answer
        s.close()
        assert leaving.proc.wait(60 * SLOW) == 0, leaving.output()


@case
def drain_ends_in_time_even_if_clients_do_not(d):
    with Stenod("server.drain_timeout=1s", cpu="scalar") as leaving:  # see above
        s = dial(leaving)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nxx")
        audio = long_wav(3600)
        busy = dial(leaving)
        busy.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(audio) + audio)
        assert eventually(lambda: leaving.metric('steno_sessions_active{api="transcribe"}') == 2)
        leaving.proc.send_signal(signal.SIGTERM)
        assert leaving.proc.wait(60 * SLOW) == 0, leaving.output()
        assert "2 sessions are cut off" in leaving.output(), leaving.output()
        answer = read_all(busy)
        assert answer.startswith(b"HTTP/1.1 503 ") and b'"draining"' in answer, answer
        s.close()
        busy.close()


@case
def a_second_signal_ends_at_once(d):
    with Stenod("server.drain_timeout=1h") as leaving:
        s = dial(leaving)
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nxx")
        assert eventually(lambda: leaving.metric('steno_sessions_active{api="transcribe"}') == 1)
        leaving.proc.send_signal(signal.SIGTERM)
        assert eventually(lambda: leaving.status("/readyz") == 503)
        leaving.proc.send_signal(signal.SIGINT)
        assert leaving.proc.wait(60 * SLOW) == 0, leaving.output()  # not only after drain_timeout
        s.close()


def run(*args, env=None, timeout=30):
    r = subprocess.run([os.path.join(BUILD, "stenod"), *args], capture_output=True, text=True, cwd=ROOT,
                       timeout=timeout * SLOW, env={**os.environ, **(env or {})}, check=False)
    return r.returncode, r.stdout, r.stderr


@case
def mistakes_at_start_are_named_and_have_their_exit_status(d):
    code, _, err = run("--listen", f"127.0.0.1:{d.port}")
    assert code == 69 and f"listen: 127.0.0.1:{d.port}: Address already in use" in err, (code, err)
    code, _, err = run("--listen", "nowhere")
    assert code == 64 and "'nowhere' is not ADDR:PORT" in err, (code, err)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write("[server]\nlisten = nowhere\n")
        f.flush()
        code, _, err = run("--config", f.name)
        assert code == 78 and "'nowhere' is not ADDR:PORT" in err, (code, err)
        assert run("--config", f.name, "--listen", "127.0.0.1:0", "--check-config")[0] == 0  # the option takes precedence
    code, _, err = run("--frobnicate")
    assert code == 64 and "unknown option --frobnicate" in err, (code, err)
    code, _, err = run("extra")
    assert code == 64 and "unexpected argument 'extra'" in err, (code, err)
    with tempfile.TemporaryDirectory() as dir_:
        conf = os.path.join(dir_, "x.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("[server]\nlisten = 127.0.0.1:0\nlitsen = x\n")
        code, _, err = run("--config", conf, "--check-config")
        assert code == 78 and f"{conf}:3: unknown key server.litsen" in err, (code, err)
        code, _, err = run("--config", os.path.join(dir_, "none.conf"))
        assert code == 78 and "none.conf: No such file" in err, (code, err)
        code, _, err = run("--listen", "127.0.0.1:0", "--model", os.path.join(dir_, "no-model"))
        assert code == 69 and "no-model" in err, (code, err)
        shipped = os.path.join(ROOT, "conf", "models", "digits-en")
        for missing in ("model.conf", "encoder.onnx", "tokens.txt"):
            part = os.path.join(dir_, "without-" + missing)
            os.mkdir(part)
            for name in os.listdir(shipped):
                if name != missing and os.path.isfile(os.path.join(shipped, name)):
                    os.symlink(os.path.join(shipped, name), os.path.join(part, name))
            code, _, err = run("--listen", "127.0.0.1:0", "--model", part)
            assert code == 69 and missing in err, (missing, code, err)
    code, out, _ = run("--print-config", "--set", "limits.body=2M", env={"STENO_THREADS": "3"})
    assert code == 0 and "body = 2097152 ; option" in out and "threads = 3 ; environment" in out, out
    assert run("--check-config")[0] == 0
    assert run("--version")[1].startswith("stenod ")
    assert "Usage: stenod" in run("--help")[1]


@case
def check_config_lists_all_errors_of_a_start(d):
    with tempfile.TemporaryDirectory() as dir_:
        conf = os.path.join(dir_, "x.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("[server]\nlisten = 192.0.2.1:80\nlitsen = x\nadmin = /nonexistent/socket\nnothing\n"
                    "[limits]\nbody = 20M\nupload_memory = 10M\nuploads = many\n[log]\nlevel = loud\n"
                    f"[auth]\nkeys = {dir_}/no.keys\n[model]\ndir = {dir_}/no-model\n[vad]\nmodel = {dir_}/no-vad\n")
        code, _, err = run("--config", conf, "--check-config", "--set", "pool.threads=-1", env={"STENO_HTTP_THREADS": "none"})
        wanted = [f"{conf}:3: unknown key server.litsen", f"{conf}:5: neither [section]", f"{conf}:9: ", "STENO_HTTP_THREADS",
                  "pool.threads", "log.level: ", "limits.body (20971520) is larger", f"auth.keys: {dir_}/no.keys", "no-vad",
                  "server.listen: 192.0.2.1:80: Cannot assign", "server.admin: /nonexistent/: No such file"]
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert code == 78 and len(errors) == len(wanted) and all(w in line for w, line in zip(wanted, errors)), err
        lines = ["[jobs]", f"dir = {dir_}", "queue = redis://:a%zz@127.0.0.1/", f"callback_secret = {dir_}/no-secret", f"callback_ca = {dir_}/no.pem",
                 "[auth]", f"keys = {dir_}/no.keys", "[tls]", f"certificate = {dir_}/no-certificate", f"key = {dir_}/no-key", "[server]",
                 "listen = 192.0.2.1:80", f"state = {dir_}/no-state", f"admin = {dir_}/none/socket", "[limits]", "body = 20M", "upload_memory = 10M",
                 "[tracing]", "endpoint = ftp://x", "[vad]", "model = none"]
        with open(conf, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        code, _, err = run("--config", conf, "--check-config", env={"STENO_LISTNE": "x", "STENO_HTTP_THREAD": "2", "STENO_SERVICE_HOST": "10.0.0.1",
                                                                 "STENO_PORT": "tcp://10.0.0.1:80", "STENO_MODELS": f"{dir_}/no-models"})
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        for number, key in ((3, "jobs.queue: "), (4, "jobs.callback_secret: "), (5, "jobs.callback_ca: "), (7, "auth.keys: "), (9, "tls.certificate: "),
                            (12, "server.listen: "), (13, "server.state: "), (14, "server.admin: "), (16, "limits.body "), (19, "tracing.endpoint: ")):
            assert sum(line.startswith(f"error: {conf}:{number}: {key}") for line in errors) == 1, (number, key, err)
        for start in ("STENO_LISTNE: unknown; STENO_LISTEN is", "STENO_HTTP_THREAD: unknown; STENO_HTTP_THREADS is", "STENO_MODELS: models.dir: "):
            assert sum(line.startswith(f"error: environment variable {start}") for line in errors) == 1, (start, err)
        assert code == 78 and len(errors) == 13, err
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[jobs]\ndir = {dir_}\nqueue = redis://127.0.0.1:1/\nqueue_password = {dir_}/no-password\n")
        assert f"{conf}:4: jobs.queue_password: {dir_}/no-password: No such" in run("--config", conf, "--check-config")[2]
        code, _, err = run("--config", conf, "--check-config", "--set", "jobs.queue_password=")
        assert code == 78 and f"error: {conf}:3: jobs.queue: " in err, err  # nobody is there
        assert f"{conf}:3: jobs.queue: needs jobs.dir" in run("--config", conf, "--check-config", "--set", "jobs.dir=")[2]
        started = run("--config", conf)[2], run("--config", conf, "--set", "jobs.queue_password=")[2]
        assert "jobs.queue_password: " in started[0] and "jobs.queue: " in started[1], started  # a start says the same
    code, _, err = run("--check-config", "--model", "/nonexistent/no-model")
    assert code == 78 and "no-model: there is no such directory" in err, (code, err)
    for setting, says in (("jobs.dir=/nonexistent/a/b", "jobs.dir: /nonexistent/a/: No such"), ("models.dir=/nonexistent/m", "models.dir: /nonexistent/m: No such"),
                          ("jobs.callback_secret=/nonexistent/c", "jobs.callback_secret: /nonexistent/c: No such"),
                          ("server.agent_listen=192.0.2.1:99", "server.agent_listen: 192.0.2.1:99: Cannot assign"),
                          ("tracing.endpoint=ftp://x", "tracing.endpoint: 'ftp://x' is not a URL"), ("tls.certificate=/nonexistent/c", "tls.certificate: /nonexistent/c")):
        code, out, err = run("--check-config", "--set", "jobs.dir=/tmp/steno-jobs-of-no-test", "--set", "tls.key=/nonexistent/k", "--set", setting)
        assert code == 78 and says in err and "is good" not in out, (setting, code, out, err)
    assert not os.path.exists("/tmp/steno-jobs-of-no-test")
    code, out, err = run("--check-config", "--listen", f"127.0.0.1:{d.port}")
    assert code == 0 and "is good" in out and f"127.0.0.1:{d.port}: Address already in use" in err, (code, out, err)  # by d


@case
def systemd_is_told_when_it_is_ready_and_alive(d):
    with tempfile.TemporaryDirectory() as dir_:
        path = os.path.join(dir_, "notify")
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(path)
        s.settimeout(30 * SLOW)
        reader, journal = os.pipe()
        stat = os.fstat(journal)
        with subprocess.Popen(
                [os.path.join(BUILD, "stenod"), "--listen", "127.0.0.1:0"], cwd=ROOT, stderr=journal,
                env={**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000",
                     "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}) as p:
            os.close(journal)
            told = []
            while not (any("READY=1" in m for m in told) and sum("WATCHDOG=1" in m for m in told) >= 2):
                told.append(s.recv(4096).decode())
            p.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in told[-1]:
                told.append(s.recv(4096).decode())
            assert p.wait(30 * SLOW) == 0
            with os.fdopen(reader, encoding="utf-8") as f:
                log = f.read()
            assert all(re.match(r"<[3-6]>", line) for line in log.splitlines()), log
        s.close()


@case
def sockets_of_systemd_are_served(d):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]

    def as_fd_3():
        os.dup2(listener.fileno(), 3, inheritable=True)
    # LISTEN_PID must be the daemon's own process id: a shell that becomes the daemon knows it
    with subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', os.path.join(BUILD, "stenod")],
                          env={**os.environ, "LISTEN_FDS": "1"}, cwd=ROOT, close_fds=False,
                          preexec_fn=as_fd_3, stderr=subprocess.PIPE, text=True) as p:
        line = ""
        while "listening on" not in line:
            line = p.stderr.readline()
            assert line, "ended before it listened"
        assert line.endswith(f"http://127.0.0.1:{port}\n"), line
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in read_all(s)
        s.close()
        p.send_signal(signal.SIGTERM)
        assert p.wait(30 * SLOW) == 0
    listener.close()


@case
def threads_that_accept_refuse_and_decode_have_lower_priority_than_streams(_):
    with Stenod() as d:
        base = os.getpriority(os.PRIO_PROCESS, d.proc.pid)
        low = {name: {min(base + 10, 19)} for name in ("acceptor", "feeder", "MHD-worker")}

        def nice():
            """{name: values of its threads}; threads end, begin, and name themselves before they lower their priority."""
            out = {}
            for t in os.listdir(f"/proc/{d.proc.pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{d.proc.pid}/task/{t}/stat", encoding="utf-8") as f:
                    name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                    out.setdefault(name, set()).add(int(rest.split()[16]))
            return out
        assert eventually(lambda: low.items() <= nice().items(), 10), nice()
        assert nice()["worker-0"] == nice()["stenod"] == {base}, nice()  # the second one: main and WebSocket thread


@case
def ipv6_and_several_addresses(d):
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as s:
            s.bind(("::1", 0))
    except OSError as e:
        raise Skip(f"no IPv6 here: {e}")
    with Stenod("server.listen=127.0.0.1:0, [::1]:0") as both:
        ports = re.findall(r"listening on http://(\S+):(\d+)", both.output())
        assert [p[0] for p in ports] == ["127.0.0.1", "[::1]"], ports
        s = socket.create_connection(("::1", int(ports[1][1])))
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in read_all(s)
        s.close()


@case
def hours_of_silence_are_processed_to_the_end(d):
    hours = 3 if os.environ.get("STENO_TEST_LONG") == "1" else 0.2
    silence = wav(rate=8000, tag=7, bits=8, data=b"\xff" * int(hours * 3600 * 8000))
    before = d.rss()
    status, _, body = d.request("POST", "/v1/transcribe", silence)
    j = json.loads(body)
    assert status == 200 and j["text"] == "" and abs(j["duration"] - hours * 3600) < 0.01, body
    assert d.rss() - before < 100 * SLOW, d.rss() - before


if __name__ == "__main__":
    with Stenod() as daemon:
        status = tap(daemon)
    sys.exit(status)
