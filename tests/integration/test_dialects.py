"""The dialects of other servers, used by their own clients if such exist: the packages openai and deepgram-sdk. vosk
and sherpa-onnx have no package on PyPI that only speaks the protocol; their clients' messages are written out
here."""
import asyncio
import base64
import hashlib
import http.client
import json
import struct
import sys
import tempfile
import threading
import urllib.parse

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Skip, Stenod, case, client, converse, eventually, pcm, tap, until_closed

PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
SAMPLES = struct.unpack(f"<{len(PCM) // 2}h", PCM)


def url(d, path, **query):
    return f"ws://127.0.0.1:{d.port}{path}" + ("?" + urllib.parse.urlencode(query) if query else "")


def refusal(where):
    """The answer of a handshake that is refused: status, headers, body."""
    try:
        with connect(where, **OPEN):
            raise AssertionError(where + ": was accepted")
    except InvalidStatus as e:
        return e.response.status_code, e.response.headers, e.response.body


def pieces(data, n=3200):
    return [data[i:i + n] for i in range(0, len(data), n)]


# ---- Deepgram ----

def transcript(results, **flags):
    """The texts of the final Results."""
    return " ".join(t for m in results if m.get("type") == "Results" and m["is_final"]
                    for t in [m["channel"]["alternatives"][0]["transcript"]] if t)


@case
def deepgram_raw_audio_gives_results_then_metadata(d):
    got, code, _, headers = converse(
        url(d, "/v1/listen", model="nova-2", encoding="linear16", sample_rate=RATE, interim_results="true", vad_events="true",
            utterance_end_ms=1000, punctuate="true", no_delay="true", language="en-US"),
        ['{"type":"KeepAlive"}'] + pieces(PCM) + ['{"type":"CloseStream"}'])
    assert code == 1000 and transcript(got) == DIGITS_TEXT, (got[-2:], code)
    assert got[-1]["sha256"] == hashlib.sha256(PCM).hexdigest(), got[-1]
    assert got[-1]["type"] == "Metadata" and abs(got[-1]["duration"] - len(PCM) / 2 / RATE) < 0.05, got[-1]
    assert headers["dg-request-id"] == got[-1]["request_id"] and len(got[-1]["request_id"]) == 36
    kinds = [m["type"] for m in got]
    assert "SpeechStarted" in kinds and kinds.index("SpeechStarted") < kinds.index("Results")
    until = 0
    for m in (m for m in got if m["type"] == "Results"):
        assert m["channel_index"] == [0, 1] and m["metadata"]["request_id"] == got[-1]["request_id"], m
        assert m["metadata"]["model_info"]["name"] == "digits-en" and isinstance(m["speech_final"], bool)
        assert m["start"] >= until - 1e-6 and m["duration"] >= 0, m
        if m["is_final"]:
            until = m["start"] + m["duration"]
    assert any(not m["is_final"] for m in got if m["type"] == "Results"), "interim results were asked for"
    words = [w for m in got if m["type"] == "Results" and m["is_final"] for w in m["channel"]["alternatives"][0]["words"]]
    assert [w["word"] for w in words] == DIGITS_TEXT.split() and all(w["start"] < w["end"] for w in words)


@case
def deepgram_without_interim_results_sends_none(d):
    got, _, _, _ = converse(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE), [PCM, b""])  # an empty message closes
    assert transcript(got) == DIGITS_TEXT and all(m["is_final"] for m in got if m["type"] == "Results"), got


@case
def deepgram_containers_say_what_they_are(d):
    got, code, _, _ = converse(url(d, "/v1/listen"), pieces(WAV) + ['{"type":"CloseStream"}'])
    assert code == 1000 and transcript(got) == DIGITS_TEXT, got
    got, code, reason, _ = converse(url(d, "/v1/listen"), [b"neither WAV nor Ogg"])
    assert code == 1008 and reason == "DATA-0000" and got[-1]["type"] == "Error", (got, code, reason)


@case
def deepgram_finalize_is_answered(d):
    with connect(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE, endpointing="false"), **OPEN) as ws:
        for p in pieces(PCM):
            ws.send(p)
        ws.send('{"type":"Finalize"}')
        m = json.loads(ws.recv(timeout=60 * SLOW))
        assert m["is_final"] and m["from_finalize"] and not m["speech_final"], m
        assert m["channel"]["alternatives"][0]["transcript"] == DIGITS_TEXT
        ws.send('{"type":"Finalize"}')
        m = json.loads(ws.recv(timeout=60 * SLOW))
        assert m["from_finalize"] and m["channel"]["alternatives"][0]["transcript"] == "", m
        ws.send('{"type":"CloseStream"}')
        got, code, _ = until_closed(ws)
        assert code == 1000 and got[-1]["type"] == "Metadata", (got, code)


@case
def deepgram_mistakes_are_named(d):
    got, code, _, _ = converse(url(d, "/v1/listen"), ['{"type":"Nonsense"}'])
    assert code == 1008 and "Nonsense" in got[-1]["message"] and got[-1]["description"] == got[-1]["message"], (got, code)
    raw = {"encoding": "linear16", "sample_rate": RATE}
    for path, query, names in (("/v1/listen", {"encoding": "g729", "sample_rate": 8000}, "g729"), ("/v1/listen", {"encoding": "linear16"}, "sample_rate"),
                               ("/v1/listen", {"model": "no-such-model"}, "no-such-model"), ("/v1/listen", {**raw, "language": "de"}, "de"),
                               ("/v1/listen", {**raw, "interim_results": "perhaps"}, "interim_results"), ("/v1/listen", {**raw, "channels": 9}, "channels"),
                               ("/v2/listen", {**raw, "eot_threshold": 1.1}, "eot_threshold"), ("/v2/listen", {**raw, "eot_timeout_ms": 60001}, "eot_timeout_ms"),
                               ("/v2/listen", {"encoding": "linear16"}, "sample_rate"), ("/v2/listen", {**raw, "language_hint": "klingon"}, "klingon")):
        status, headers, body = refusal(url(d, path, **query))
        j = json.loads(body)
        assert status == 400 and names in headers["dg-error"] == j["err_msg"] and headers["dg-request-id"] == j["request_id"], (query, status, j)


@case
def deepgram_rest_has_its_own_form(d):
    status, headers, body = d.request("POST", "/v1/listen?model=nova-3&punctuate=true", WAV, {"Content-Type": "audio/wav"})
    j = json.loads(body)
    best = j["results"]["channels"][0]["alternatives"][0]
    assert status == 200 and best["transcript"] == DIGITS_TEXT and [w["word"] for w in best["words"]] == DIGITS_TEXT.split(), j
    assert j["metadata"]["sha256"] == hashlib.sha256(WAV).hexdigest() and len(headers["dg-request-id"]) == 36, j["metadata"]
    assert "dg-error" not in headers and j["metadata"]["request_id"] == headers["dg-request-id"] and abs(j["metadata"]["duration"] - len(PCM) / 2 / RATE) < 0.01
    for path, data, want in (("/v1/listen", b"no audio", 400), ("/v1/listen?model=x", WAV, 404)):
        status, headers, body = d.request("POST", path, data)
        j = json.loads(body)
        assert status == want and j["err_code"] and j["err_msg"] and j["request_id"] == headers["dg-request-id"], (path, status, j)
        assert headers["dg-error"] == j["err_msg"], (headers, j)


@case
def deepgram_rest_takes_samples_without_a_header(d):
    import audioop  # pylint: disable=deprecated-module
    both = b"".join(PCM[i:i + 2] + b"\0\0" for i in range(0, len(PCM), 2))

    def said(query, data):
        status, _, body = d.request("POST", "/v1/listen?" + query, data, {"Content-Type": "application/octet-stream"})
        j = json.loads(body)
        assert status == 200, (query, j)
        assert j["metadata"]["sha256"] == hashlib.sha256(data).hexdigest() and abs(j["metadata"]["duration"] - len(PCM) / 2 / RATE) < 0.01, (query, j)
        return [c["alternatives"][0]["transcript"] for c in j["results"]["channels"]]

    rate = f"&sample_rate={RATE}"
    for query, data in (("encoding=linear16" + rate, PCM), ("sample_rate=%d&channels=1&encoding=linear16" % RATE, PCM + b"\1"),
                        ("encoding=linear32" + rate, struct.pack(f"<{len(SAMPLES)}f", *(s / 32768 for s in SAMPLES))),
                        ("encoding=mulaw" + rate, audioop.lin2ulaw(PCM, 2)), ("encoding=alaw" + rate, audioop.lin2alaw(PCM, 2)),
                        ("encoding=linear16" + rate, WAV), ("encoding=flac", WAV), ("sample_rate=48000&channels=2", WAV)):
        assert said(query, data) == [DIGITS_TEXT], query
    assert said(f"encoding=linear16&channels=2&multichannel=true{rate}", both) == [DIGITS_TEXT, ""]
    for query, status, names in (("encoding=linear16", 400, "sample_rate"), (f"encoding=opus{rate}", 415, "encoding"), (f"encoding=g729{rate}", 415, "g729"),
                                 ("encoding=linear16&sample_rate=7", 400, "sample_rate"), (f"encoding=linear16&channels=65{rate}", 400, "channels")):
        got, _, body = d.request("POST", "/v1/listen?" + query, PCM)
        assert got == status and names in json.loads(body)["err_msg"], (query, got, body)
    assert d.request("POST", f"/v1/listen?encoding=linear16{rate}", b"")[0] == 400


@case
def deepgram_paths_have_its_errors(d):
    for method, path, want in (("GET", "/v1/listen", 426), ("GET", "/v2/listen", 426), ("POST", "/v2/listen", 405), ("PUT", "/v1/listen", 405)):
        status, headers, body = d.request(method, path, b"x" if method != "GET" else None)
        j = json.loads(body)
        assert status == want and headers["dg-error"] == j["err_msg"] and headers["dg-request-id"] == j["request_id"], (path, status, j)


@case
def deepgram_handshakes_are_refused_in_its_form(_):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("[one]\nkey = 0123456789abcdef0123456789abcdef\n")
        keys.flush()
        with Stenod("auth.keys=" + keys.name) as d:
            for used in (False, True):  # the second request of a connection is answered elsewhere
                c = http.client.HTTPConnection("127.0.0.1", d.port)
                if used:
                    c.request("GET", "/healthz")
                    c.getresponse().read()
                c.request("GET", "/v1/listen?encoding=linear16", headers={
                    "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
                r = c.getresponse()
                j = json.loads(r.read())
                assert r.status == 401 and r.headers["dg-error"] == j["err_msg"], (r.headers, j)
                assert r.headers["dg-request-id"] == j["request_id"] and len(j["request_id"]) == 36, (r.headers, j)
                c.close()


@case
def deepgram_writes_english_numbers_as_digits(d):
    digits = "4271903"
    for ask in ({"numerals": "true"}, {"smart_format": "true"}):
        got, _, _, _ = converse(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE, endpointing="false", **ask),
                                [PCM, '{"type":"CloseStream"}'])
        best = got[0]["channel"]["alternatives"][0]
        assert transcript(got) == digits and [w["word"] for w in best["words"]] == [digits] and "warnings" not in got[-1], got
        assert best["words"][0]["start"] < 1 and best["words"][0]["end"] > 4, best
        _, _, body = d.request("POST", "/v1/listen?" + urllib.parse.urlencode(ask), WAV)
        j = json.loads(body)
        assert digits in j["results"]["channels"][0]["alternatives"][0]["transcript"].replace(" ", ""), j
        assert "warnings" not in j["metadata"], j


@case
@client("deepgram-sdk", "uploads, live streams with interim results and Finalize")
def deepgrams_own_client_gets_the_transcript(d):
    try:
        from deepgram import DeepgramClient
        from deepgram.core.events import EventType
        from deepgram.environment import DeepgramClientEnvironment
    except ImportError as e:
        raise Skip(str(e)) from e
    base = f"127.0.0.1:{d.port}"
    env = DeepgramClientEnvironment(base="http://" + base, production="ws://" + base, agent="ws://" + base)
    client = DeepgramClient(api_key="none-is-asked-for-here", environment=env)
    answer = client.listen.v1.media.transcribe_file(request=WAV, model="nova-3")
    assert answer.results.channels[0].alternatives[0].transcript == DIGITS_TEXT
    told = []
    with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=str(RATE), interim_results="true") as c:
        c.on(EventType.MESSAGE, told.append)
        t = threading.Thread(target=c.start_listening, daemon=True)
        t.start()
        for p in pieces(PCM):
            c.send_media(p)
        from deepgram.extensions.types.sockets import ListenV1ControlMessage
        c.send_control(ListenV1ControlMessage(type="CloseStream"))
        t.join(60 * SLOW)
    finals = [m for m in told if getattr(m, "type", "") == "Results" and m.is_final]
    text = " ".join(m.channel.alternatives[0].transcript for m in finals if m.channel.alternatives[0].transcript)
    assert text == DIGITS_TEXT, (text, told)


@case
def deepgram_names_what_it_cannot_do(d):
    asked = dict(encoding="linear16", sample_rate=RATE, diarize="true", numerals="true", punctuate="true", profanity_filter="false", tag="x")
    got, _, _, _ = converse(url(d, "/v1/listen", **asked), [PCM, '{"type":"CloseStream"}'])
    names = [[w["parameter"] for w in m] for m in (got[-1]["warnings"], got[0]["metadata"]["warnings"])]
    assert names == [["diarize"]] * 2, names
    assert got[-1]["created"][:2] == "20" and got[-1]["created"][-1] == "Z", got[-1]
    _, _, body = d.request("POST", "/v1/listen?diarize=true&summarize=v2&smart_format=true&api_key=x", WAV)
    meta = json.loads(body)["metadata"]
    assert [w["parameter"] for w in meta["warnings"]] == ["diarize", "summarize"], meta
    assert "warnings" not in json.loads(d.request("POST", "/v1/listen", WAV)[2])["metadata"]


@case
def deepgram_searches_the_words(d):
    channel = json.loads(d.request("POST", "/v1/listen?search=Two%20seven&search=eleven&numerals=true", WAV)[2])["results"]["channels"][0]
    first, none = channel["search"]
    plain = json.loads(d.request("POST", "/v1/listen", WAV)[2])["results"]["channels"][0]["alternatives"][0]
    at = [i for i in range(len(plain["words"]) - 1) if [w["word"] for w in plain["words"][i:i + 2]] == ["two", "seven"]]
    assert at and [(h["start"], h["end"], h["snippet"]) for h in first["hits"]] == [(plain["words"][i]["start"], plain["words"][i + 1]["end"], "two seven") for i in at], first
    assert first["query"] == "Two seven" and none == {"query": "eleven", "hits": []}, channel
    code, _, body = d.request("POST", "/v1/listen?search=", WAV)
    assert code == 400 and b"search: it is empty" in body, body


def turns(got):
    return [(m["event"], m["turn_index"], m["transcript"]) for m in got if m["type"] == "TurnInfo"]


@case
def deepgram_flux_tells_turns(d):
    quiet = b"\0\0" * RATE
    got, code, _, headers = converse(url(d, "/v2/listen", model="flux-general-en", encoding="linear16", sample_rate=RATE,
                                         eager_eot_threshold=0.4, eot_threshold=0.9),
                                     pieces(PCM + 2 * quiet) + pieces(PCM) + ['{"type":"CloseStream"}'])
    assert code == 1000 and got[0]["type"] == "Connected" and got[0]["request_id"] == headers["dg-request-id"], got[0]
    assert [m["sequence_id"] for m in got] == sorted({m["sequence_id"] for m in got}), "they count up"
    ends = [t for t in turns(got) if t[0] == "EndOfTurn"]
    assert " ".join(t for _, _, t in ends) == DIGITS_TEXT + " " + DIGITS_TEXT and [i for _, i, _ in ends] == list(range(len(ends))), ends
    for i in range(len(ends)):
        of = [e for e, k, _ in turns(got) if k == i]
        of = of[of.index("StartOfTurn"):]  # between turns there are Updates
        assert of[0] == "StartOfTurn" and of[-1] == "EndOfTurn" and of.count("StartOfTurn") == of.count("EndOfTurn") == 1, of
        of = [e for e in of if e != "Update"]  # which come every 0.25 s, whatever happens
        for e, after in zip(of, of[1:]):
            assert e != "EagerEndOfTurn" or after in ("TurnResumed", "EndOfTurn"), of
    assert any(e == "EagerEndOfTurn" for e, _, _ in turns(got)), turns(got)


@case
def deepgram_flux_ends_turns_later_with_more_confidence(d):
    quiet, ends = b"\0\0" * RATE, []
    for threshold in (0.5, 0.7, 0.9):
        got, _, _, _ = converse(url(d, "/v2/listen", encoding="linear16", sample_rate=RATE, eot_threshold=threshold),
                                pieces(PCM + 2 * quiet, 320) + ['{"type":"CloseStream"}'])
        end = [m for m in got if m.get("event") == "EndOfTurn"][-1]
        assert threshold <= end["end_of_turn_confidence"] + 0.01 < 1.01, end
        assert all(0.1 <= m["end_of_turn_confidence"] <= 1 for m in got if m["type"] == "TurnInfo"), got
        ends.append(end["audio_window_end"])
    # 0.51, 0.70 and 1.01 s of silence, found in steps of the network
    assert 0.05 < ends[1] - ends[0] < 0.4 and 0.1 < ends[2] - ends[1] < 0.5, ends


@case
def deepgram_flux_is_configured_while_it_runs(d):
    with connect(url(d, "/v2/listen", encoding="linear16", sample_rate=RATE), **OPEN) as ws:
        assert json.loads(ws.recv(timeout=20 * SLOW))["type"] == "Connected"
        for ask, want in (({"thresholds": {"eot_threshold": 0.8, "eot_timeout_ms": 6000}, "keyterms": ["four"]}, "ConfigureSuccess"),
                          ({"thresholds": {"eot_threshold": 3}}, "ConfigureFailure"), ({"language_hints": ["klingon"]}, "ConfigureFailure")):
            ws.send(json.dumps({"type": "Configure", **ask}))
            m = json.loads(ws.recv(timeout=20 * SLOW))
            assert m["type"] == want, m
            if want == "ConfigureSuccess":
                assert m["thresholds"] == {"eot_threshold": 0.8, "eot_timeout_ms": 6000} and m["keyterms"] == ["four"] and m["numerals"] is False, m
        ws.send(PCM)
        ws.send('{"type":"Nonsense"}')
        got, code, _ = until_closed(ws)
        assert code == 1008 and got[-1]["type"] == "Error" and "Nonsense" in got[-1]["description"], got[-1]


@case
def deepgram_flux_ends_turns_when_it_is_told_to(d):
    quiet = b"\0\0" * RATE
    with connect(url(d, "/v2/listen", encoding="linear16", sample_rate=RATE, eot_threshold=1.0, eot_timeout_ms=60000), **OPEN) as ws:
        for turn in range(2):
            ws.send('{"type":"ForceEndTurn"}')  # no turn: nothing comes of it
            for p in pieces(PCM + 5 * quiet):
                ws.send(p)
            ws.send('{"type":"ForceEndTurn"}')
            got = []
            while not got or got[-1].get("event") != "EndOfTurn":
                got.append(json.loads(ws.recv(timeout=60 * SLOW)))
            assert got[-1]["trigger"] == "manual" and got[-1]["transcript"] == DIGITS_TEXT and got[-1]["turn_index"] == turn, got[-1]
        ws.send('{"type":"CloseStream"}')
        got, code, _ = until_closed(ws)
        assert code == 1000 and not [m for m in got if m.get("event") == "EndOfTurn"], got
    for ask, trigger in (({}, "model"), ({"eot_threshold": 0.9, "eot_timeout_ms": 500}, "timeout"), ({"eot_threshold": 1, "eot_timeout_ms": 1500}, "timeout")):
        got, _, _, _ = converse(url(d, "/v2/listen", encoding="linear16", sample_rate=RATE, **ask), pieces(PCM + 3 * quiet) + ['{"type":"CloseStream"}'])
        ends = [m for m in got if m.get("event") == "EndOfTurn"]
        assert ends and {m["trigger"] for m in ends} == {trigger}, (ask, ends)


@case
def deepgram_flux_has_news_of_all_audio(d):
    got, _, _, _ = converse(url(d, "/v2/listen", encoding="linear16", sample_rate=RATE, numerals="true"),
                            pieces(b"\0\0" * 3 * RATE + PCM + b"\0\0" * 3 * RATE) + ['{"type":"CloseStream"}'])
    at = [m["audio_window_end"] for m in got if m["type"] == "TurnInfo"]
    # after 0.25 s, in steps of the network
    assert at == sorted(at) and max(b - a for a, b in zip([0] + at, at)) < 0.6 and at[-1] > 10, at
    assert any(m["event"] == "Update" and not m["transcript"] for m in got if m["type"] == "TurnInfo"), at
    said = [m["transcript"] for m in got if m.get("event") == "EndOfTurn"]
    assert "".join(said).replace(" ", "") == "4271903", said


@case
def deepgram_is_configured_while_it_runs(d):
    quiet = b"\0\0" * RATE
    with connect(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE, endpointing=500), **OPEN) as ws:
        ws.send('{"type":"Configure","features":{"numerals":true}}')
        assert json.loads(ws.recv(timeout=20 * SLOW))["type"] == "ConfigureSuccess"
        for p in pieces(PCM[:len(PCM) // 2]):
            ws.send(p)
        ws.send('{"type":"Configure","keyterms":["four"]}')
        ws.send('{"type":"Configure","keyterms":4}')
        for p in pieces(PCM[len(PCM) // 2:] + 2 * quiet + PCM):
            ws.send(p)
        ws.send('{"type":"CloseStream"}')
        got, code, _ = until_closed(ws)
    told = [m for m in got if m["type"].startswith("Configure")]
    # the model takes hotwords or says that it does not, once for each message
    assert code == 1000 and len(told) == 2 and told[1]["code"] == "CONFIGURE_INVALID", (code, told)
    assert told[0].get("keyterms") == ["four"] or told[0]["code"] == "CONFIGURE_KEYTERMS_NOT_SUPPORTED", told
    finals = [m for m in got if m["type"] == "Results" and m["is_final"]]
    assert transcript(got).replace(" ", "") == 2 * "4271903", got
    ends = [m["start"] + m["duration"] for m in finals]
    assert ends == sorted(ends) and abs(ends[-1] - 2 * len(PCM) / 2 / RATE - 2) < 1, ends
    words = [w for m in finals for w in m["channel"]["alternatives"][0]["words"]]
    assert [w["start"] for w in words] == sorted(w["start"] for w in words) and words[-1]["end"] > len(PCM) / 2 / RATE + 2, words


@case
def deepgram_finalize_on_silence_has_its_duration(d):
    with connect(url(d, "/v1/listen", encoding="linear16", sample_rate=RATE), **OPEN) as ws:
        for seconds in (2, 1):
            ws.send(b"\0\0" * RATE * seconds)
            ws.send('{"type":"Finalize"}')
            m = json.loads(ws.recv(timeout=60 * SLOW))
            assert m["from_finalize"] and abs(m["duration"] - seconds) < 0.1 and not m["speech_final"], m


# ---- vosk ----

def vosk_client(ws, chunk=8000, config=True, eof='{"eof" : 1}'):
    """Like vosk-server's client/python/test.py: send, receive, ..., eof, receive."""
    out = []
    if config:
        ws.send('{ "config" : { "sample_rate" : %d } }' % RATE)
    for p in pieces(PCM, chunk):
        ws.send(p)
        out.append(json.loads(ws.recv(timeout=60 * SLOW)))
    ws.send(eof)
    out.append(json.loads(ws.recv(timeout=60 * SLOW)))
    return out


@case
@client("vosk-server's test clients", "live streams, one reply for each message", "bytes of test.py")
def vosk_clients_get_one_reply_per_message_and_every_word(d):
    for chunk, config in ((8000, True), (400, True), (len(PCM), False)):  # 8000 Hz is the protocol's default
        with connect(url(d, "/vosk"), **OPEN) as ws:
            got = vosk_client(ws, chunk, config)
        said = " ".join(m["text"] for m in got if m.get("text"))
        assert said == DIGITS_TEXT and "text" in got[-1], (chunk, got)
        words = [w for m in got for w in m.get("result", [])]
        assert [w["word"] for w in words] == DIGITS_TEXT.split() and all(set(w) == {"conf", "start", "end", "word"} for w in words)
        assert all(set(m) == {"partial"} or "text" in m for m in got), got


@case
def vosk_eof_in_a_binary_message_ends_as_text_does(d):
    with connect(url(d, "/vosk"), **OPEN) as ws:
        said = " ".join(m["text"] for m in vosk_client(ws, eof=b'{"eof" : 1}') if m.get("text"))
        got, code, _ = until_closed(ws)
    assert said == DIGITS_TEXT and not got and code == 1000, (said, got, code)


@case
def vosk_reset_gives_a_final_and_goes_on(d):
    with connect(url(d, "/vosk"), **OPEN) as ws:
        ws.send('{"config":{"sample_rate":%d,"words":false,"phrase_list":["one"],"max_alternatives":0}}' % RATE)
        for _ in range(2):
            ws.send(PCM)
            told = json.loads(ws.recv(timeout=60 * SLOW)).get("text", "")
            ws.send('{"reset":1}')
            m = json.loads(ws.recv(timeout=60 * SLOW))
            assert (told + " " + m["text"]).strip() == DIGITS_TEXT and "result" not in m, (told, m)
        ws.send('{"eof":1}')
        got, code, _ = until_closed(ws)
        assert got == [{"text": ""}] and code == 1000, (got, code)


@case
def vosk_models_are_names_never_paths(d):
    for name in ("/etc/passwd", "model-of-the-client", "digits-en"):
        got, code, _, _ = converse(url(d, "/vosk"), [{"config": {"model": name, "sample_rate": RATE}}, PCM, '{"eof":1}'])
        assert code == 1000 and " ".join(m["text"] for m in got if m.get("text")) == DIGITS_TEXT, (got, code)
    assert "/etc/passwd" not in d.output()


def floats(rate=RATE, seconds=None):
    n = int(rate * seconds) if seconds else len(SAMPLES)
    return struct.pack(f"<{n}f", *(s / 32768 for s in SAMPLES[:n]))


@case
def sherpa_offline_clients_get_a_result_per_recording(d):
    data = floats()
    for path in ("/sherpa", "/"):
        with connect(url(d, path), **OPEN) as ws:
            for chunk in (10240, len(data)):  # like offline-websocket-client-decode-files-paralell.py
                header = struct.pack("<ii", RATE, len(data))
                for i in range(0, len(data), chunk):
                    ws.send((header if i == 0 else b"") + data[i:i + chunk])
                m = json.loads(ws.recv(timeout=60 * SLOW))
                assert m["text"] == DIGITS_TEXT and m["tokens"] == DIGITS_TEXT.split(), m
                assert abs(m["timestamps"][0] - 0.53) < 0.1 and abs(m["timestamps"][-1] - 4.73) < 0.1 and m["start_time"] == 0, m
            ws.send("Done")
            got, code, _ = until_closed(ws)
            assert got == [] and code == 1000, (got, code)
    got, code, _, _ = converse(url(d, "/sherpa"), [struct.pack("<ii", RATE, 8) + floats(seconds=0.01)])
    assert "header" in got[-1]["message"], got  # the rest of the samples is no header


@case
def sherpa_online_clients_find_the_text_in_the_last_result(d):
    quiet = struct.pack(f"<{4 * RATE}f", *[0.0] * (4 * RATE))
    got, _, _, _ = converse(url(d, "/sherpa", sample_rate=RATE), [floats() + quiet, "Done"])
    assert got[-1] == "Done!" and got[-2]["is_eof"] and got[-2]["text"], got[-2:]
    assert got[-2]["text"] == [m["text"] for m in got[:-2] if m["is_final"]][-1], got[-3:]


@case
def the_first_message_tells_the_dialect_of_the_root(d):
    with connect(url(d, "/"), **OPEN) as ws:
        out = vosk_client(ws)
        assert " ".join(m["text"] for m in out if m.get("text")) == DIGITS_TEXT, out
    got, code, _, _ = converse(url(d, "/", sample_rate=RATE), [floats(), "Done"])
    assert got[-1] == "Done!" and DIGITS_TEXT.endswith(got[-2]["text"]) and code == 1000, got[-2:]
    got, _, _, _ = converse(url(d, "/", sample_rate=RATE), [PCM[i:i + 4000] for i in range(0, len(PCM), 4000)] + ['{"eof" : 1}'])
    assert "partial" in got[0] or "text" in got[0], got[0]  # vosk without a config
    got, code, _, _ = converse(url(d, "/", sample_rate=RATE), ['{"signal":"start"}', PCM, '{"signal":"end"}'])
    assert got[0] == {"status": "ok", "type": "server_ready"} and got[-1]["type"] == "speech_end", got
    got, code, _, _ = converse(url(d, "/"), [{"type": "start", "sample_rate": RATE}, PCM, {"type": "end"}])
    assert got[0]["type"] == "ready" and code == 1000, got[0]


@case
def wenet_clients_get_their_results(d):
    for path, start in (("/wenet", {"signal": "start", "nbest": 99, "continuous_decoding": False}),
                        ("/wenet", {"signal": "start", "nbest": 1, "continuous_decoding": True})):
        got, code, _, _ = converse(url(d, path, sample_rate=RATE), [start] + pieces(PCM) + ['{"signal":"end"}'])
        kinds = [m["type"] for m in got]
        assert kinds[0] == "server_ready" and kinds[-1] == "speech_end" and "partial_result" in kinds and code == 1000, kinds
        finals = [json.loads(m["nbest"])[0] for m in got if m["type"] == "final_result"]
        assert " ".join(f["sentence"] for f in finals if f["sentence"]) == DIGITS_TEXT, finals
        assert all(w["start"] < w["end"] and isinstance(w["end"], int) for f in finals for w in f["word_pieces"]), finals
        assert start["continuous_decoding"] or len(finals) == 1
    got, _, _, _ = converse(url(d, "/wenet"), ['{"signal":"what"}'])
    assert got[-1]["status"] == "failed" and "what" in got[-1]["message"], got


@case
def vosk_clips_and_tolerates_what_its_clients_send(d):
    config = {"config": {"sample_rate": RATE, "max_alternatives": 500, "model": "/opt/vosk-model-small-en-us-0.15"}}
    got, code, _, _ = converse(url(d, "/vosk"), [config, PCM, '{"eof" : 1}'])
    assert code == 1000 and DIGITS_TEXT.endswith(got[-1]["alternatives"][0]["text"]) and len(got[-1]["alternatives"]) <= 10, got[-1]


@case
def the_root_speaks_what_the_configuration_says(_):
    with Stenod("websocket.root=vosk") as d, connect(url(d, "/"), **OPEN) as ws:
        assert " ".join(m["text"] for m in vosk_client(ws) if m.get("text")) == DIGITS_TEXT
    with Stenod("websocket.root=sherpa") as d:
        got, code, _, _ = converse(url(d, "/", sample_rate=RATE), [struct.pack(f"<{len(SAMPLES)}f", *(s / 32768 for s in SAMPLES)), "Done"])
        assert code == 1000 and got[-1] == "Done!", (got, code)


# ---- sherpa-onnx ----

@case
@client("sherpa-onnx's online-websocket-client", "live streams, results as they change, Done!", "bytes of its source")
def sherpa_clients_get_results_and_done(d):
    audio = struct.pack(f"<{len(SAMPLES)}f", *(s / 32768 for s in SAMPLES))
    got, code, _, _ = converse(url(d, "/sherpa", sample_rate=RATE), pieces(audio) + ["Done"])
    assert code == 1000 and got[-1] == "Done!", (got[-2:], code)
    finals = [m for m in got[:-1] if m["is_final"]]
    assert " ".join(m["text"] for m in finals if m["text"]) == DIGITS_TEXT, finals
    assert finals[-1]["is_eof"], finals
    assert [m["segment"] for m in finals] == list(range(len(finals))), finals
    for m in got[:-1]:
        assert len(m["tokens"]) == len(m["timestamps"]) and {"ys_probs", "lm_probs", "context_scores", "words", "start_time"} <= set(m), m
    got, code, _, _ = converse(url(d, "/sherpa"), ["Finished"])
    assert code == 1008 and "Finished" in got[-1]["message"], (got, code)


# ---- OpenAI Realtime ----

def append(audio):
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()})


def completed(got):
    return " ".join(m["transcript"] for m in got if m["type"].endswith("transcription.completed") and m["transcript"])


def realtime(d, update, messages, beta=False, until=1):
    """The events until `until` items are complete."""
    headers = {"OpenAI-Beta": "realtime=v1"} if beta else {}
    with connect(url(d, "/v1/realtime", intent="transcription"), additional_headers=headers, **OPEN) as ws:
        for m in [json.dumps(update)] + messages:
            ws.send(m)
        got = []
        while sum(m["type"].endswith("transcription.completed") for m in got) < until:
            got.append(json.loads(ws.recv(timeout=60 * SLOW)))
    return got


GA = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {
    "format": {"type": "audio/pcm", "rate": RATE}, "transcription": {"model": "gpt-4o-transcribe", "language": "en"}, "turn_detection": None}}}}


@case
def realtime_deltas_add_up_to_the_transcript(d):
    got = realtime(d, GA, [append(p) for p in pieces(PCM)] + ['{"type":"input_audio_buffer.commit"}'])
    kinds = [m["type"] for m in got]
    assert kinds[:2] == ["session.created", "session.updated"], kinds
    assert got[1]["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE}
    assert completed(got) == DIGITS_TEXT, got[-1]
    item = got[-1]["item_id"]
    deltas = [m for m in got if m["type"].endswith(".delta")]
    assert "".join(m["delta"] for m in deltas) == DIGITS_TEXT and {m["item_id"] for m in deltas} == {item}
    assert kinds.count("input_audio_buffer.committed") == 1 and kinds.index("conversation.item.added") < kinds.index("conversation.item.done")
    assert got[-1]["usage"]["type"] == "duration" and got[-1]["usage"]["seconds"] > 4
    assert len({m["event_id"] for m in got}) == len(got)


@case
def realtime_sessions_end_well_by_a_close_between_items(d):
    def count(result):
        return d.wait_idle().metric(f'steno_sessions_total{{api="realtime",result="{result}"}}')
    well, gone = count("ok"), count("gone")
    for code, ok, lost in ((1000, 1, 0), (1002, 1, 1)):
        with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
            for m in [json.dumps(GA), append(PCM), '{"type":"input_audio_buffer.commit"}']:
                ws.send(m)
            while not json.loads(ws.recv(timeout=60 * SLOW))["type"].endswith("transcription.completed"):
                pass
            ws.close(code)
        assert [count("ok"), count("gone")] == [well + ok, gone + lost], (code, count("ok"), count("gone"))
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:  # leaves while an item is open
        for m in (json.dumps(GA), append(PCM)):
            ws.send(m)
        while not json.loads(ws.recv(timeout=60 * SLOW))["type"].endswith("transcription.delta"):
            pass
    assert [count("ok"), count("gone")] == [well + 1, gone + 2], (count("ok"), count("gone"))


@case
def realtime_with_detection_ends_items_itself(d):
    update = json.loads(json.dumps(GA))
    update["session"]["audio"]["input"]["turn_detection"] = {"type": "server_vad", "silence_duration_ms": 500}
    got = realtime(d, update, [append(PCM + b"\0\0" * RATE * 2)])
    kinds = [m["type"] for m in got]
    assert DIGITS_TEXT.startswith(completed(got)) and completed(got), got[-1]
    order = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert [k for k in kinds if k in order][:3] == order, kinds


@case
@client("clients of OpenAI Realtime beta", "transcription sessions under the old names", "bytes of the reference")
def realtime_beta_clients_get_the_old_names(d):
    update = {"type": "transcription_session.update", "session": {"input_audio_format": "g711_ulaw", "turn_detection": None,
                                                                  "input_audio_transcription": {"model": "whisper-1"}}}
    import audioop  # pylint: disable=deprecated-module
    got = realtime(d, update, [append(audioop.lin2ulaw(PCM, 2)), '{"type":"input_audio_buffer.commit"}'], beta=True)
    kinds = [m["type"] for m in got]
    assert kinds[:2] == ["transcription_session.created", "transcription_session.updated"], kinds
    assert got[1]["session"]["input_audio_format"] == "g711_ulaw" and completed(got) == DIGITS_TEXT, got[-1]
    assert "conversation.item.created" in kinds and "conversation.item.added" not in kinds


@case
def realtime_mistakes_are_errors_and_the_session_continues(d):
    with connect(url(d, "/v1/realtime", intent="transcription", model="gpt-realtime-whisper"), **OPEN) as ws:
        assert json.loads(ws.recv(timeout=20 * SLOW))["type"] == "session.created"
        for bad, names in (({"type": "nonsense", "event_id": "mine_1"}, "nonsense"), ({"type": "input_audio_buffer.commit"}, "empty"),
                           ({"type": "input_audio_buffer.append", "audio": "A*=="}, "base64"), ({"type": "input_audio_buffer.append"}, "audio"),
                           ({"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/mp3"}}}}}, "audio/mp3"),
                           ({"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}}}, "rate")):
            ws.send(json.dumps(bad))
            m = json.loads(ws.recv(timeout=20 * SLOW))
            assert m["type"] == "error" and names in m["error"]["message"] and m["error"]["event_id"] == bad.get("event_id"), m
        ws.send('{"type":"input_audio_buffer.clear"}')
        assert json.loads(ws.recv(timeout=20 * SLOW))["type"] == "input_audio_buffer.cleared"


def take(ws, kind):
    """The messages up to the next of this type, or an error, which is the last one."""
    got = [json.loads(ws.recv(timeout=60 * SLOW))]
    while not got[-1]["type"].endswith(kind) and got[-1]["type"] != "error":
        got.append(json.loads(ws.recv(timeout=60 * SLOW)))
    return got


def update(**audio_input):
    return json.dumps({"type": "session.update", "event_id": "up", "session": {"type": "transcription", "audio": {"input": audio_input}}})


@case
def realtime_updates_are_whole_or_nothing(d):
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
        said = take(ws, "session.created")[-1]["session"]["audio"]["input"]
        assert said["transcription"] == {"model": "digits-en", "language": None, "prompt": None}, said
        assert said["turn_detection"]["silence_duration_ms"] == 500 and said["noise_reduction"] is None, said
        for bad, code, param in (({"model": "no-such-model", "prompt": "kept?"}, "model_not_found", "model"),
                                 ({"language": "klingon", "prompt": "kept?"}, "unsupported_language", "language"),
                                 ({"prompt": "kept?", "language": "de"}, "unsupported_language", "language")):
            ws.send(update(transcription=bad, turn_detection=None))
            m = take(ws, "session.updated")[-1]
            assert m["type"] == "error" and (m["error"]["code"], m["error"]["param"], m["error"]["event_id"]) == (code, param, "up"), m
        ws.send(update(transcription={"model": "gpt-4o-transcribe", "keywords": ["Nagg", "Nell Hamm"]}))
        assert take(ws, "session.updated")[-1]["session"]["audio"]["input"]["transcription"]["keywords"] == ["Nagg", "Nell Hamm"]
        ws.send(update(transcription={"model": "gpt-4o-transcribe", "keywords": []}))
        assert "keywords" not in take(ws, "session.updated")[-1]["session"]["audio"]["input"]["transcription"]
        ws.send(update(transcription={"model": "gpt-4o-transcribe"}))
        said = take(ws, "session.updated")[-1]["session"]["audio"]["input"]
        assert said["transcription"]["prompt"] is None and said["turn_detection"]["type"] == "server_vad", said


@case
def realtime_updates_hold_from_the_next_item(d):
    quiet = b"\0\0" * RATE
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
        ws.send(json.dumps(GA))
        ws.send(append(PCM))
        ws.send(update(turn_detection={"type": "server_vad", "silence_duration_ms": 600}))  # the open item has no detection
        ws.send('{"type":"input_audio_buffer.commit"}')
        got = take(ws, "transcription.completed")
        assert completed(got) == DIGITS_TEXT and not any("speech_started" in m["type"] for m in got[2:4]), got
        ws.send(append(PCM + 2 * quiet))
        got = take(ws, "transcription.completed")
        assert any("speech_stopped" in m["type"] for m in got) and DIGITS_TEXT.startswith(completed(got)) and completed(got), got
        start = [m["audio_start_ms"] for m in got if "speech_started" in m["type"]][0]
        assert start > 1000 * len(PCM) / 2 / RATE, (start, "times go on")


@case
def realtime_clear_discards_what_is_not_committed(d):
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
        ws.send(json.dumps(GA))
        for _ in range(3):
            ws.send(append(PCM[:len(PCM) // 2]))
            ws.send('{"type":"input_audio_buffer.clear"}')
            take(ws, "input_audio_buffer.cleared")
        ws.send('{"type":"input_audio_buffer.commit","event_id":"none"}')
        m = take(ws, "completed")[-1]
        assert m["type"] == "error" and m["error"]["code"] == "input_audio_buffer_commit_empty" and m["error"]["event_id"] == "none", m
        ws.send(append(PCM))
        ws.send('{"type":"input_audio_buffer.commit"}')
        ws.send('{"type":"input_audio_buffer.clear"}')  # what was committed stays
        got = take(ws, "transcription.completed")
        assert completed(got) == DIGITS_TEXT
        assert 4 < got[-1]["usage"]["seconds"] < 6, (got[-1], "what was cleared does not count")


@case
def realtime_has_no_empty_item(d):
    with connect(url(d, "/v1/realtime", intent="transcription"), **OPEN) as ws:
        ws.send(update(format={"type": "audio/pcm", "rate": RATE}))
        ws.send(append(PCM + b"\0\0" * RATE * 2))
        texts = ""
        while texts != DIGITS_TEXT:
            texts = (texts + " " + completed(take(ws, "transcription.completed"))).strip()
        ws.send('{"type":"input_audio_buffer.commit","event_id":"none"}')
        m = take(ws, "completed")[-1]
        assert m["type"] == "error" and m["error"]["code"] == "input_audio_buffer_commit_empty" and m["error"]["event_id"] == "none", m


@case
def a_language_that_no_model_has_is_an_error_before_audio(d):
    for path in ("/v1/stream", "/v1/listen", "/v1/realtime", "/vosk", "/sherpa"):
        for query in ({"language": "klingon"}, {"language": "de"}, {"model": "no-such-model"}):
            if path == "/v1/listen":  # before the upgrade: deepgram_mistakes_are_named
                continue
            got, code, _, _ = converse(url(d, path, **query), [])
            assert code == 1008 and list(query.values())[0] in json.dumps(got[-1]), (path, got, code)
        for language in ("auto", "multi", "en-GB", "english"):
            with connect(url(d, path, language=language), **OPEN) as ws:
                ws.send('{"config":{}}' if path == "/vosk" else '{"type":"KeepAlive"}' if path == "/v1/listen" else
                        '{"type":"keepalive"}' if path == "/v1/stream" else "Done" if path == "/sherpa" else update())


@case
@client("openai", "uploads, Realtime transcription sessions")
def openais_own_client_gets_the_transcript(d):
    try:
        from openai import AsyncOpenAI
    except ImportError as e:
        raise Skip(str(e)) from e

    async def run():
        client = AsyncOpenAI(base_url=d.url + "/v1", api_key="none-is-asked-for-here")
        text = await client.audio.transcriptions.create(file=("a.wav", WAV), model="whisper-1")
        assert text.text == DIGITS_TEXT, text
        async with client.realtime.connect(model="digits-en", extra_query={"intent": "transcription"}) as c:
            await c.session.update(session=GA["session"])
            for p in pieces(PCM):
                await c.input_audio_buffer.append(audio=base64.b64encode(p).decode())
            await c.input_audio_buffer.commit()
            async for event in c:
                if event.type == "conversation.item.input_audio_transcription.completed":
                    return event.transcript
        return None

    assert asyncio.run(asyncio.wait_for(run(), 120 * SLOW)) == DIGITS_TEXT


@case
def each_dialect_is_counted_apart(d):
    def ended(api):
        return sum(d.metric(f'steno_sessions_total{{api="{api}",result="{result}"}}') or 0 for result in ("ok", "gone"))

    for api in ("deepgram", "vosk", "sherpa", "realtime"):
        assert eventually(lambda: ended(api)), api
    assert d.metric('steno_sessions_total{api="listen",result="ok"}') >= 1


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    sys.exit(result)
