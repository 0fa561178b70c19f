"""Each parameter, field and message that a client may send does what its name says, in every dialect and form. A row of TABLES is a name, a
value, what the answer then has ("-...": has not) and without it has not, and a wrong value, which is refused by name. The names are read from
the sources: one that no row tries is a failure. What needs other networks or servers is in ELSEWHERE, with the program that fails without it."""
import base64
import contextlib
import glob
import json
import os
import re
import socket
import struct
import sys
import tempfile
import time
import urllib.parse

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from daemon import OPEN, ROOT, SHARED, SLOW, Skip, Stenod, case, converse, eventually, pcm, tap, wav

PCM, RATE = pcm()
FLOATS = struct.pack(f"<{len(PCM) // 2}f", *(x / 32768 for x in struct.unpack(f"<{len(PCM) // 2}h", PCM)))
PAUSE = bytes(3 * RATE)
WAV = wav(PCM, RATE)
LEFT = wav(b"".join(PCM[i:i + 2] + b"\0\0" for i in range(0, len(PCM), 2)), RATE, 2)
DIFFERS, SAME = object(), object()  # the final results do
FOLDER = tempfile.mkdtemp(prefix="steno-parameters-")
LIST = os.path.join(FOLDER, "profanity")
with open(LIST, "w", encoding="utf-8") as _f:
    _f.write("seven\n")
MODELS = os.path.join(FOLDER, "models")  # one that says "uh" for seven
os.makedirs(os.path.join(MODELS, "uh"))
for _name in ("encoder.onnx", "model.conf", "tokens.txt"):
    with open(os.path.join(ROOT, "conf", "models", "digits-en", _name), "rb") as _f, open(os.path.join(MODELS, "uh", _name), "wb") as _to:
        _to.write(_f.read().replace(b"seven 8\n", b"uh 8\n").replace(b"name = digits-en", b"name = uh"))
SETTINGS = ["models.dir=" + MODELS, "text.profanity=" + LIST, "wyoming.listen=127.0.0.1:0", "jobs.dir=" + os.path.join(FOLDER, "jobs")]

HINTS = [("language", "de", "speaks 'en', not 'de'", "klingon"), ("replace", "four:4our", "4our two seven", "four"), ("redact", "numbers", "[REDACTED]", "x"),
         ("profanity_filter", "true", "-seven", "maybe"), ("filler_words", "false", "-two uh", "maybe", {"model": "uh"})]
NOT_TAKEN = [(n, "x", f"{n}: models like 'digits-en' take none") for n in ("prompt", "prefix", "hotwords")]
LEFT_OUT = [(n, "x", SAME) for n in ("prompt", "prefix", "hotwords")]
ALIGNED = ("word_times", "aligned", "align.model", "x")
MODEL = ("model", "uh", "two uh", "nope")
BEAM = ("beam", 2, SAME, 65)
START = [
    MODEL, ALIGNED, ("encoding", "mulaw", "-four two", "x"), ("sample_rate", 2 * RATE, "-four two", 7), ("channels", 2, "-four two", 9), ("channel", 2, "channel: 2 of audio with 1", 9),
    ("max_speakers", 3, "needs diarize=true", 33), ("vad", "silero", "no silero-vad", "x"), ("silence_alone", 0.4, SAME, 0), ("turn", "semantic", "no network that judges turns", "x"),
    ("turn_threshold", 0.4, "needs turn=semantic", 2), ("translate", "true", "does not translate", "maybe"), *HINTS]
OWN = [
    ("interim", "false", '-"partial"', "maybe"), ("words", "false", '-"words":[', "maybe"), ("alternatives", 3, '"score"', 11), ("beam", 2, '"beam":2', 65),
    ("endpointing", "false", '-"endpoint"', "maybe", {"silence_after": 0.3}), ("multichannel", "true", '"channel":1', "maybe"), ("diarize", "true", "diarize: the server has no networks", "maybe"),
    ("resumable", "true", "resume_seconds", "maybe"), ("silence_after", 0.3, '"endpoint"', 61), ("longest", 1, '"segment":3', 0), *NOT_TAKEN]
IN_URLS = [  # of vosk, sherpa-onnx and WeNet
    *START, *LEFT_OUT, BEAM, ("longest", 1, DIFFERS, 0), *((n, "true", n + ": not on this path", "maybe") for n in ("multichannel", "resumable", "diarize")),
    ("no_such_name", 1, "unknown field 'no_such_name'")]
DEEPGRAM = [  # as streams and uploads
    MODEL, ALIGNED, BEAM, ("encoding", "mulaw", "-four two", "x"), ("sample_rate", 2 * RATE, "-four two", 7), ("channels", 2, "-four two", 99), ("alternatives", 3, '},{"transcript"', 0),
    ("multichannel", "true", DIFFERS, "maybe", {"channels": 2}), ("diarize", "true", '"parameter":"diarize"', "maybe"), ("diarize_model", "latest", '"parameter":"diarize_model"', "x"),
    ("punctuate", "true", "punctuated_word", "maybe"), ("numerals", "true", "4271903", "maybe"), ("smart_format", "true", "4271903", "maybe"),
    ("dictation", "true", '"parameter":"dictation"', "maybe"), ("measurements", "true", "-two milligrams", "maybe", {"replace": "seven:milligrams"}),
    ("detect_language", "de", "speaks 'en', not 'de'", "klingon"), ("keywords", "four:-1", '"parameter":"keywords"'), *HINTS,
    *((n, "x", SAME) for n in ("keyterm", "tag", "mip_opt_out", "no_delay", "version", "callback_method", "prompt", "hotwords")),
    *((n, "x", f'"parameter":"{n}"') for n in ("summarize", "extra", "no_such_name"))]
VOICES = [(n, 3, "needs diarize=true", 0) for n in ("num_speakers", "min_speakers", "max_speakers")]
# of OpenAI's form and whisper.cpp's; empty ones count as absent
EXTENSIONS = [
    BEAM, ALIGNED, ("n_best", 3, SAME, "x"), ("n_best", "", SAME), ("vad", "silero", "no silero-vad", "x"), ("multichannel", "true", SAME, "maybe"),
    *VOICES, *HINTS[1:], *(r + ("x" * 8193,) for r in LEFT_OUT)]
SUBTITLES = [("max_line_width", 12, DIFFERS, 0), ("max_line_count", 1, DIFFERS, 0, {"max_line_width": 12}), ("max_words_per_line", 2, DIFFERS, 0), ("highlight_words", "true", "<u>", "maybe")]
TABLES = {
    "start": START + OWN,
    "deepgram live": [
        *DEEPGRAM, ("interim_results", "true", '"is_final":false', "maybe"), ("vad_events", "true", "SpeechStarted", "maybe"), ("endpointing", "100", '"speech_final":true', "x"),
        ("utterance_end_ms", 300, "UtteranceEnd", "x"), *((n, "true", f'"parameter":"{n}"', "maybe") for n in ("paragraphs", "utterances")),
        *((n, "x", f'"parameter":"{n}"') for n in ("search", "callback"))],
    "deepgram uploads": [
        *DEEPGRAM, *VOICES, ("paragraphs", "true", '"paragraphs":{', "maybe"), ("utterances", "true", '"utterances":[', "maybe"), ("search", "two", '"hits":[', ""),
        ("callback", "http://a/", "jobs.callback_hosts")],
    "deepgram messages": [
        ("type", "KeepAlive", SAME, "Nonsense"), ("type", "Finalize", '"from_finalize":true'), ("features", {"numerals": True}, "4271903", {"numerals": 1}, {"type": "Configure"}),
        ("keyterms", ["four"], "CONFIGURE_KEYTERMS_NOT_SUPPORTED", "four", {"type": "Configure"})],
    "flux": [
        MODEL, ALIGNED, BEAM, ("encoding", "mulaw", "-four two", "x"), ("sample_rate", 2 * RATE, "-four two", 7), ("eot_threshold", 1, '"trigger":"manual"', 1.1),
        ("eager_eot_threshold", 0.3, "EagerEndOfTurn", 0.2), ("eot_timeout_ms", 500, '"trigger":"timeout"', 499),
        ("numerals", "true", "4271903", "maybe"), ("language_hint", "de", "speaks 'en', not 'de'"), ("interim_results", "x", '"parameter":"interim_results"'), *HINTS[1:],
        ("keyterm", "x", '"keyterms":["x"]'), ("tag", "x", SAME)],
    "flux messages": [
        ("type", "CloseStream", DIFFERS, "Finalize"), ("thresholds", {"eot_threshold": 1}, '"trigger":"manual"', {"x": 1}, {"type": "Configure"}), ("numerals", True, "4271903", 1, {"type": "Configure"}),
        ("keyterms", ["four"], '"keyterms":["four"]', [4], {"type": "Configure"}), ("language_hints", ["en"], '"language_hints":["en"]', "en", {"type": "Configure"})],
    "vosk config": [
        ("sample_rate", 2 * RATE, "-four two", 7), ("sample_rate", str(2 * RATE), "-four two"), ("words", False, '-"result"'), ("max_alternatives", 2, '"alternatives":[{', "x"),
        ("model", "uh", "two uh", 5), ("model", "nope", SAME), ("phrase_list", ["four", "[unk]"], SAME, "four"), ("phrase_list", [], SAME, [4]), ("no_such_name", 1, SAME)],
    "vosk messages": [("reset", 1, '"text":""'), ("eof", 1, "-four two"), ("config", {"words": 0}, '\n{"text":"four two', 5)],
    "/vosk": [*IN_URLS, ("words", "false", '-"result"', "maybe"), ("alternatives", 3, DIFFERS, 11)],
    "/sherpa": [*IN_URLS[:2], *IN_URLS[3:], ("encoding", "f32le", SAME, "x"), ("words", "false", SAME, "maybe"), ("alternatives", 3, SAME, 11)],
    "/wenet": [*IN_URLS, ("words", "false", SAME, "maybe"), ("alternatives", 3, DIFFERS, 11)],
    "wenet messages": [("signal", "end", DIFFERS, "stop"), ("nbest", 2, DIFFERS, "2"), ("continuous_decoding", True, DIFFERS, "true")],
    "/freeswitch": [
        *[r for r in START if r[0] != "silence_alone"], *((n, "x", SAME) for n in ("no_such_name", "resumable", "call_id")), ("interim", "false", '-"partial"', "maybe"), *LEFT_OUT,
        ("callback", "http://a/", '-"final"')],
    "realtime input": [
        ("format", {"type": "audio/pcm", "rate": 24000}, "-four two", {"type": "x"}), ("format", {"type": "audio/pcmu"}, "-four two", {"type": 5}), ("transcription", {"language": "de"}, "not 'de'", 5),
        ("turn_detection", {"type": "server_vad"}, "speech_started", {"type": "x"}), ("noise_reduction", {"type": "near_field"}, SAME), ("no_such_name", 1, SAME)],
    "realtime session": [("include", ["item.input_audio_transcription.logprobs"], '"logprob":', "x"), ("type", "transcription", SAME, "realtime"), ("audio", {}, DIFFERS, 5),
                         ("audio", {}, DIFFERS, {"input": 5})],
    "realtime transcription": [MODEL[:3] + (5,), ("language", "de", "not 'de'", 5), ("prompt", "x", '"prompt":"x"', 5), ("keywords", ["x"], '"keywords":["x"]', [5]), ("delay", "low", SAME)],
    "realtime detection": [
        ("silence_duration_ms", 300, '"silence_duration_ms":300', 5), ("threshold", 0.3, '"threshold":0.3', 2), ("prefix_padding_ms", 5, '"prefix_padding_ms":5,', -1), ("type", "server_vad", SAME, 5),
        ("eagerness", "low", '"eagerness":"low"', "x", {"type": "semantic_vad"})],
    "realtime beta": [
        ("input_audio_format", "g711_ulaw", '"input_audio_format":"g711_ulaw"', 5), ("input_audio_transcription", {"language": "de"}, "not 'de'", 5),
        ("turn_detection", {"type": "server_vad"}, "speech_started", 5)],
    "realtime url": [
        ("model", "uh", '"model":"uh"', "nope"), ("language", "de", "not 'de'", "klingon"), BEAM, ("beta", 1, "transcription_session.created"),
        ("session", '{"include":["item.input_audio_transcription.logprobs"]}', '"logprob":', '{"type":"realtime"}'),
        ("hotwords", "x", '"keywords":["x"]'), *((n, "x", SAME) for n in ("prefix", "intent", "no_such_name"))],
    "secrets": [
        ("session", {"type": "transcription"}, SAME, {"type": "realtime"}), ("session", {"include": ["x"]}, '"include":["x"]', 5), ("expires_after", {"seconds": 7200}, DIFFERS, {"seconds": 5}),
        ("expires_after", {"anchor": "created_at"}, SAME, 5)],
    "grants": [("ttl_seconds", 60, '"expires_in":60', 3601)],
    "wyoming transcribe": [
        ("name", "uh", '"four two uh', 5), ("name", "nope", SAME), ("language", "de", "speaks 'en', not 'de'", 5), ("transcript_names", ["four"], SAME, "four"), ("transcript_terms", ["four"], SAME, [4]),
        *((n, "x", SAME) for n in ("context", "vad_sensitivity", "no_such_name"))],
    "wyoming audio-start": [("rate", 2 * RATE, "format changed", "x"), ("width", 2, SAME, 4), ("channels", 2, "format changed", 9), ("timestamp", 5, SAME)],
    "transcriptions": [
        MODEL, HINTS[0], ("languages", "de", "speaks 'en', not 'de'"), ("task", "translate", "does not translate", "x"), ("keywords", "x", SAME, "x" * 8193),
        ("vad_filter", "true", DIFFERS, "maybe", {"response_format": "verbose_json"}),
        ("response_format", "srt", " --> ", "x"), ("temperature", 0.5, SAME, 2), ("timestamp_granularities[]", "word", "needs response_format verbose_json", "x"),
        ("timestamp_granularities[]", "word", '"words":[', "x", {"response_format": "verbose_json"}), ("stream", "true", "transcript.text.delta", "maybe"), ("channel", 2, "channel 2 was requested", "x"),
        ("include[]", "logprobs", '"logprob"'), ("known_speaker_names[]", "Ann", "known_speaker_references"),
        ("diarize", "true", '"warnings":["diarize', "maybe"), ("translate", "true", "does not translate", "maybe"),
        *EXTENSIONS, *((n, "x", SAME) for n in ("chunking_strategy", "no_such_name"))],
    "inference": [
        MODEL, HINTS[0], ("temperature", 0.5, SAME, 2), ("response_format", "srt", " --> "), ("response_format", "verbose_json", '"avg_logprob"'), ("response_format", "x", SAME),
        ("translate", "true", "does not translate"), ("detect_language", "1", "-four two"), ("vad", "true", DIFFERS, None, {"response_format": "verbose_json"}), ("temperature_inc", 0, SAME, "x"),
        ("no_language_probabilities", "true", SAME), ("no_timestamps", "yes", '-"start"', None, {"response_format": "verbose_json"}),
        ("token_timestamps", "false", '-"word":"four","start"', None, {"response_format": "verbose_json"}),
        ("beam_size", 2, SAME, 65), ("best_of", -1, SAME, 33), ("max_context", 0, SAME, -2), ("no_speech_thold", 0.5, SAME, 2), ("logprob_thold", -1, SAME, 1),
        ("max_len", 12, DIFFERS, -1, {"response_format": "srt"}), ("offset_n", 5, "6\n00:", -1, {"response_format": "srt"}), ("offset_t", 5, "offset_t: only 0", "x"), ("duration", 1000, "-two", "x"),
        ("channel", 2, "channel 2 was requested", "x"), *[r for r in EXTENSIONS if r[0] not in ("vad", "beam")], *((n, "x", SAME) for n in ("entropy_thold", "no_such_name"))],
    "inference of two channels": [("diarize", "true", "(speaker 0)"), ("channel", 2, DIFFERS, "x")],
    "asr": [
        MODEL, HINTS[0], BEAM, ALIGNED, ("output", "srt", " --> ", "x"), ("task", "translate", "does not translate", "x"), ("encode", "false", SAME, "x"), ("initial_prompt", "x", SAME),
        ("vad_filter", "True", DIFFERS, "x", {"output": "json"}), ("diarize", "y", SAME, "x"), ("word_timestamps", "on", '"words":[', "x", {"output": "json"}), ("channel", 2, "channel 2 was requested", "x"),
        *((n, "", SAME) for n in ("beam", "n_best", "channel", "min_speakers", "output", "vad")), *HINTS[1:], *((n, "x", SAME) for n in ("video_file", "no_such_name"))],
    "transcribe": [
        MODEL, ALIGNED, *HINTS, *NOT_TAKEN, *VOICES, ("translate", "true", "does not translate", "maybe"), ("format", "srt", " --> ", "x"), ("channel", 2, "channel 2 was requested", "x"), ("beam", 2, SAME, 65),
        ("multichannel", "true", '"channels":1', "maybe"), ("n_best", 3, '"alternatives":[', "x"), ("vad", "silero", "no silero-vad", "x"), ("words", "false", '-"words":[', "maybe"),
        ("segments", "false", DIFFERS, "maybe"), ("diarize", "true", "diarize: the server has no networks", "maybe"), ("no_such_name", 1, "'no_such_name' is unknown")],
    "subtitles": SUBTITLES,
    "align": [
        ("model", "uh", '"model":"uh"', "nope"), HINTS[0], ("response_format", "srt", " --> ", "x"), ("format", "srt", " --> ", "x"), ("granularity", "character", DIFFERS, "x"),
        ("channel", 2, "channel 2 was requested", "x"), ("no_such_name", 1, "'no_such_name' is unknown")],
    "job list": [("limit", 1, '"has_more":true', 0), ("state", "failed", '"jobs":[]', "x"), ("callback", "dead", '"jobs":[]', "x"), ("no_such_name", 1, "'no_such_name' is unknown")],
}
# program: names that it fails without
ELSEWHERE = {
    "integration/test_calls.py": "api_key token",
    "integration/test_dialects.py": "event_id",
    "integration/test_fetch_url.py": "url",
    "integration/test_jobs.py": "after callback callback_method expires urls",
    "integration/test_resume.py": "session_id seq sample",
    "integration/test_speakers.py": "name",
    "integration/test_wyoming.py": "describe ping text",
    "unit/test_calls.c": "event start media stop dtmf digit callSid streamSid tracks track outbound customParameters mediaFormat encoding sampleRate channels payload timestamp "
                         "MEDIA_START DTMF_END format ulaw alaw connection_id channel_id channel finalize end",
    "unit/test_stream_native.c": "silence_alone",
}
HEADERS = {  # as ELSEWHERE
    "integration/test_dialects.py": "OpenAI-Beta Sec-WebSocket-Key Sec-WebSocket-Version Upgrade",
    "integration/test_forwarded.py": "X-Forwarded-For X-Forwarded-Prefix Access-Control-Request-Method Access-Control-Request-Headers",
    "integration/test_http.py": "Content-Encoding Content-Length Content-Type Transfer-Encoding X-Request-Id",
    "integration/test_jobs.py": "Idempotency-Key",
    "integration/test_keys.py": "Authorization X-API-Key",
    "integration/test_monitoring.py": "Accept",
    "integration/test_openai.py": "api-key",
    "integration/test_origins.py": "Origin Host Sec-Fetch-Site X-Forwarded-Host",
    "integration/test_tracing.py": "traceparent tracestate",
    "integration/test_ws.py": "Sec-WebSocket-Protocol",
}
REALTIME = ("session.update transcription_session.update input_audio_buffer.append input_audio_buffer.clear input_audio_buffer.commit "
            "input rate server_vad semantic_vad low medium high auto")
VALUES = "dialects dictated result_json session_head vad word_times wyoming_frame"  # sources that know values, answers, frames
# source: the families that try its names, words of it that are values or of answers
SOURCES = {
    "protocol/stream_native.c": ("start", "type start finalize end keepalive speech_start partial final"),
    "protocol/hints.c": ("start", ""),
    "protocol/deepgram.c": ("deepgram", "KeepAlive Finalize CloseStream Configure linear16 linear32 mulaw alaw opus flac speex webm"),
    "protocol/deepgram_rest.c": ("deepgram grants", ""),
    "protocol/deepgram_flux.c": ("flux", "KeepAlive CloseStream Configure ForceEndTurn"),
    "protocol/vosk.c": ("vosk", ""),
    "protocol/wenet.c": ("wenet", "start end"),
    "protocol/wyoming.c": ("wyoming", "type data transcribe audio-start audio-stop audio-chunk"),
    "protocol/telephony.c": ("/freeswitch", ""),
    "protocol/twilio.c": ("", "type"),
    "protocol/call_audio.c": ("", "type"),
    "protocol/openai_form.c": ("transcriptions", ""),
    "protocol/openai_realtime.c": ("realtime", REALTIME),
    "protocol/openai_secret.c": ("secrets", "type seconds transcription"),
    "protocol/whisper_cpp.c": ("inference", "text srt vtt verbose_json"),
    "protocol/whisper_asr.c": ("asr", ""),
    "protocol/voices.c": ("transcribe", ""),
    "protocol/subtitle.c": ("subtitles", ""),
    "protocol/job_request.c": ("", ""),
    "server/http/upload_form.c": ("transcri deepgram asr", ""),
    "server/http/upload_align.c": ("align", ""),
    "server/jobs/upload_stored.c": ("", ""),
    "server/jobs/job_routes.c": ("job list", ""),
}


# ---- the names that the sources know

READS = re.compile(r'''(?:strcmp|\bis)\((?:name|type|signal|event|field),\s"([^"]+)"\)  # !strcmp(name, "words")
                     | json_object_get\((?:[^()"]|\([^()]*\))*,\s*"([^"]+)"\)
                     | (?:int_member|number_in)\(\w+,\s"(\w+)"
                     | \{"(\w+)",\s(?:[A-Z&]|set_|add_|check_|t->|s->|\d)  # a row of a table
                     | (?:lists|names|old|types)\[\]\s=\s\{([^}{]*)\}''', re.X)


def names_in(path):
    """Every name that a source compares what came with, or looks up in it."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    found = {w for groups in READS.findall(text) for g in groups if g for w in (re.findall(r'"([^"]+)"', g) if '"' in g else [g])}
    return found | ({"word_times"} if "STENO_WORD_TIMES" in text else set())


# ---- how it is sent


def address(d, path, query):
    return f"ws://127.0.0.1:{d.port}{path}?{urllib.parse.urlencode(query)}"


def plain(text):
    """Without blanks, and what differs each time."""
    text = re.sub(r"([:,]) ", r"\1", text)
    return re.sub(r'"(?:session_id|request_id|model_uuid|created|sha256|event_id|id|item_id|previous_item_id|value|expires_at|access_token)":(?:"[^"]*"|\d+)', "", text)


def stream(d, path, query, messages):
    """All that comes back, a line for each message, or the refusal."""
    try:
        got = converse(address(d, path, query), messages)
        return plain("\n".join(map(json.dumps, got.messages)) + f"\nclose {got.code}")
    except InvalidStatus as e:
        return plain(e.response.body.decode())


def realtime(d, query, *events):
    """The same of a session whose audio is committed by the client."""
    said = [""]
    try:
        with connect(address(d, "/v1/realtime", query), **OPEN) as ws:
            for e in (*events, {"type": "input_audio_buffer.append", "audio": base64.b64encode(PCM).decode()}, {"type": "input_audio_buffer.commit"}):
                with contextlib.suppress(ConnectionClosed):
                    ws.send(json.dumps(e))
            with contextlib.suppress(ConnectionClosed):
                while "transcription.completed" not in said[-1] and "buffer is empty" not in said[-1]:
                    said.append(ws.recv(timeout=60 * SLOW))
    except InvalidStatus as e:
        said.append(e.response.body.decode())
    return plain("\n".join(said))


def posted(d, path, body, kind="application/json"):
    status, headers, answer = d.request("POST", path, body, {"Content-Type": kind})
    return plain(f"{status} {headers.get('content-type')} {answer.decode()}")


def secret(d, body):
    status, _, answer = d.request("POST", "/v1/realtime/client_secrets", json.dumps(body), {"Content-Type": "application/json"})
    minutes = round((json.loads(answer).get("expires_at", 0) - time.time()) / 60)
    return plain(f'{status} "end":{minutes}, {answer.decode()}')


def upload(d, path, fields, file="file", data=WAV):
    """A form with a recording."""
    parts = "".join(f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()).encode()
    parts += f'--x\r\nContent-Disposition: form-data; name="{file}"; filename="a"\r\n\r\n'.encode() + data + b"\r\n--x--\r\n"
    return posted(d, path, parts, "multipart/form-data; boundary=x")


def wyoming(d, **changed):
    """A recording; changed: members of the data of events, by their names."""
    form = {"rate": RATE, "width": 2, "channels": 1}
    port = int(re.search(r"wyoming.*127\.0\.0\.1:(\d+)", d.output(), re.I).group(1))
    with socket.create_connection(("127.0.0.1", port), timeout=60 * SLOW) as s:
        for name, data, payload in (("transcribe", {}, b""), ("audio-start", form, b""), ("audio-chunk", form, PCM), ("audio-stop", {}, b"")):
            head = {"type": name, "data": {**data, **changed.get(name, {})}, **({"payload_length": len(payload)} if payload else {})}
            s.sendall(json.dumps(head).encode() + b"\n" + payload)
        s.shutdown(socket.SHUT_WR)
        return plain(b"".join(iter(lambda: s.recv(65536), b"")).decode())


# ---- judging


def finals(text):
    """What does not depend on when audio came: no partials, and of finals texts, times and numbers."""
    lines = [line for line in text.split("\n") if not re.search(r'"type":"partial|"partial":|"is_final":false|"event":"Update"|\.delta"', line)]
    return re.findall(r'"(?:text|transcript|sentence|confidence|avg_logprob|conf|start|end|reason|ys_probs|code)[\\"]*:*[^,}]*|\d\d:\d\d.*|^\D+$', "\n".join(lines), re.M)


def judge(name, answer, default, wants):
    if wants is SAME or wants is DIFFERS:
        good = (finals(answer) == finals(default)) == (wants is SAME)
    else:
        wanted = plain(wants.removeprefix("-"))
        had, has = wanted in default, wanted in answer
        good = had != has and has != wants.startswith("-")
    assert good, f"{name}, which wants {wants}: {answer[-800:]}\nwithout: {default[-800:]}"


def try_all(family, send):
    """send(parameters) gives an answer. All rows are tried before the first failure is one."""
    defaults, failed = {}, []
    for name, value, wants, *more in TABLES[family]:
        wrong, both = more[0] if more else None, more[1] if len(more) > 1 else {}
        key = json.dumps(both)
        defaults[key] = defaults.get(key) or send(both)
        try:
            judge(name, send({**both, name: value}), defaults[key], wants)
            if wrong is not None:
                refused = send({**both, name: wrong})
                assert name.strip("[]") in refused and re.search(r"^4\d\d |error|Error|failed|err_msg|Failure", refused), f"{name}: {wrong} is not refused: {refused[-1500:]}"
        except AssertionError as e:
            failed.append(f"{family}: {e}")
    assert not failed, f"{len(failed)} of {len(TABLES[family])}\n" + "\n".join(failed)


def as_json(fields):
    return {k: {"true": True, "false": False}.get(v, v) if isinstance(v, str) else v for k, v in fields.items()}


@case
def start_of_own_sessions(d):
    try_all("start", lambda q: stream(d, "/v1/stream", {"sample_rate": RATE, **q}, [PCM, {"type": "end"}]))
    try_all("start", lambda m: stream(d, "/v1/stream", {}, [{"type": "start", "sample_rate": RATE, **as_json(m)}, PCM, {"type": "end"}]))
    for message, wants in (({"type": "finalize"}, '"reason":"request"'), ({"type": "keepalive"}, "close 1000"), ({"type": "start"}, "start:must come before audio"), ({"type": "stop"}, "unknown type 'stop'"),
                           ({"type": 5}, "'type' must be a string"), ({}, "'type' is missing")):
        got = stream(d, "/v1/stream", {"sample_rate": RATE}, [PCM, message, {"type": "end"}])
        assert wants in got, (message, got)


@case
def parameters_and_messages_of_deepgram(d):
    raw, path = {"encoding": "linear16", "sample_rate": RATE}, "/v1/listen"
    try_all("deepgram live", lambda q: stream(d, path, {**raw, **q}, [PCM, b""]))
    try_all("deepgram uploads", lambda q: posted(d, path + "?" + urllib.parse.urlencode({**raw, **q}), PCM, "audio/x"))
    try_all("deepgram messages", lambda m: stream(d, path, raw, [{"type": "KeepAlive", **m}, PCM, {"type": "CloseStream"}]))
    try_all("flux", lambda q: stream(d, "/v2/listen", {**raw, **q}, [{"type": "Configure"}, PCM, PAUSE, {"type": "CloseStream"}]))
    try_all("flux messages", lambda m: stream(d, "/v2/listen", raw, [{"type": "KeepAlive", **m}, PCM, PAUSE, {"type": "CloseStream"}]))
    try_all("grants", lambda body: posted(d, "/v1/auth/grant", json.dumps(body)))


@case
def fields_of_vosk_sherpa_wenet_and_calls(d):
    end = {"eof": 1}
    try_all("vosk config", lambda c: stream(d, "/vosk", {}, [{"config": {"sample_rate": RATE, **c}}, PCM, end]))
    try_all("vosk messages", lambda m: stream(d, "/vosk", {"sample_rate": RATE}, [*([m] if m and "reset" not in m else []), PCM, *([m] if "reset" in m else []), end]))
    try_all("wenet messages", lambda m: stream(d, "/wenet", {"sample_rate": RATE}, [{"signal": "start", **m}, PCM, PAUSE, PCM, {"signal": "end"}]))
    for path, messages in (("/vosk", [PCM, end]), ("/sherpa", [FLOATS, "Done"]), ("/wenet", [{"signal": "start", "continuous_decoding": True}, PCM, {"signal": "end"}]), ("/freeswitch", [PCM, b""])):
        try_all(path, lambda q, path=path, messages=messages: stream(d, path, {"sample_rate": RATE, **q}, messages))


@case
def sessions_of_realtime(d):
    def session(more, **top):
        given = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None, **more}
        return realtime(d, {}, {"type": "session.update", "session": {"audio": {"input": given}, **top}})
    try_all("realtime input", session)
    try_all("realtime session", lambda top: session({}, **top))
    try_all("realtime transcription", lambda m: session({"transcription": m}))
    try_all("realtime detection", lambda m: session({"turn_detection": {"type": "server_vad", **m}}))
    try_all("realtime beta", lambda m: realtime(d, {"beta": 1}, {"type": "transcription_session.update", "session": {"turn_detection": None, **m}}))
    try_all("realtime url", lambda q: realtime(d, q))
    assert "cleared" in realtime(d, {}, {"type": "input_audio_buffer.clear"}) and "unknown type 'x'" in realtime(d, {}, {"type": "x"})
    try_all("secrets", lambda body: secret(d, body))


@case
def events_of_wyoming(d):
    try_all("wyoming transcribe", lambda m: wyoming(d, transcribe=m))
    try_all("wyoming audio-start", lambda m: wyoming(d, **{"audio-start": m}))


@case
def fields_of_forms(d):
    try_all("transcriptions", lambda f: upload(d, "/v1/audio/transcriptions", f))
    try_all("inference", lambda f: upload(d, "/inference", f))
    try_all("inference of two channels", lambda f: upload(d, "/inference", f, data=LEFT))
    try_all("asr", lambda q: upload(d, "/asr?" + urllib.parse.urlencode(q), {}, "audio_file"))
    for query, status in (("", "4"), ("?encode=false", "200")):  # samples without a header
        assert upload(d, "/asr" + query, {}, "audio_file", PCM).startswith(status), query
    try_all("transcribe", lambda q: posted(d, "/v1/transcribe?" + urllib.parse.urlencode(q), wav(PCM + PAUSE + PCM, RATE), "audio/wav"))
    try_all("subtitles", lambda q: posted(d, "/v1/transcribe?format=srt&" + urllib.parse.urlencode(q), WAV, "audio/wav"))
    try_all("align", lambda f: upload(d, "/v1/align", {"text": "four two seven one nine zero three", **f}))
    for _ in range(2):
        assert posted(d, "/v1/jobs", WAV, "audio/wav").startswith("202"), d.output()
    try_all("job list", lambda q: plain(d.get("/v1/jobs?" + urllib.parse.urlencode(q))[2].decode()))


@case
def hotwords_reach_a_model_that_takes_them(_):
    """Each way to say them; a search of one hypothesis refuses them, which tells that they came."""
    model = os.path.join(SHARED, "zoo", "tiny", "zipformer2-transducer-streaming")
    if not os.path.isdir(model):
        raise Skip("no " + model)
    raw, end = {"encoding": "linear16", "sample_rate": RATE}, {"type": "CloseStream"}
    with Stenod("model.dir=" + model) as d:
        ways = {
            "start": lambda q: stream(d, "/v1/stream", {"hotwords": "X", **q}, [PCM, {"type": "end"}]),
            "vosk": lambda q: stream(d, "/vosk", {"hotwords": "X", **q}, [PCM, {"eof": 1}]),
            "phrase_list": lambda q: stream(d, "/vosk", q, [{"config": {"phrase_list": ["X"]}}, PCM, {"eof": 1}]),
            "sherpa": lambda q: stream(d, "/sherpa", {"hotwords": "X", **q}, [FLOATS, "Done"]),
            "wenet": lambda q: stream(d, "/wenet", {"hotwords": "X", **q}, [{"signal": "start"}, PCM, {"signal": "end"}]),
            "freeswitch": lambda q: stream(d, "/freeswitch", {"hotwords": "X", **q}, [PCM, b""]),
            "flux": lambda q: stream(d, "/v2/listen", {**raw, "keyterm": "X", **q}, [PCM, end]),
            "Configure": lambda q: stream(d, "/v2/listen", {**raw, **q}, [{"type": "Configure", "keyterms": ["X"]}, PCM, end]),
            "realtime": lambda q: realtime(d, {"hotwords": "X", **q}),
            "session": lambda q: realtime(d, q, {"type": "session.update", "session": {"audio": {"input": {"transcription": {"keywords": ["X"]}}}}}),
            "inference": lambda q: upload(d, "/inference", {"hotwords": "X", **({"beam_size": 1} if q else {})}),
            "asr": lambda q: upload(d, "/asr?" + urllib.parse.urlencode({"hotwords": "X", **q}), {}, "audio_file"),
            **{n: lambda q, n=n: upload(d, "/v1/audio/transcriptions", {n: "X", **q}) for n in ("hotwords", "keywords[]")},
            **{n + " live": lambda q, n=n: stream(d, "/v1/listen", {**raw, n: "X", **q}, [PCM, end]) for n in ("hotwords", "keyterm", "keywords")},
            **{n + " uploaded": lambda q, n=n: posted(d, "/v1/listen?" + urllib.parse.urlencode({**raw, n: "X", **q}), PCM, "audio/x") for n in ("hotwords", "keyterm", "keywords")},
        }
        for way, send in ways.items():
            for q in ({}, {"beam": 1}):
                assert ("hotwords:the beam is 1" in send(q)) == bool(q), (way, q, send(q)[-500:])


@case
def every_name_of_the_sources_has_a_test(_):
    elsewhere = {n for names in ELSEWHERE.values() for n in names.split()}
    missing = {}
    for path, (families, words) in SOURCES.items():
        rows = {r[0].removesuffix("[]") for f, table in TABLES.items() if f.startswith(tuple(families.split()) or ("-",)) for r in table}
        missing[path] = names_in(path) - rows - elsewhere - set(words.split())
    assert not any(missing.values()), {p: m for p, m in missing.items() if m}
    readers = {"protocol/" + f for f in os.listdir(os.path.join(ROOT, "protocol")) if f.endswith(".c") and names_in("protocol/" + f)}
    assert readers - set(SOURCES) == {f"protocol/{f}.c" for f in VALUES.split()}, readers - set(SOURCES)
    named_by_them(ELSEWHERE)


def named_by_them(tests):
    for program, names in tests.items():
        with open(os.path.join(ROOT, "tests", program), encoding="utf-8") as f:
            text = f.read().lower()
        missing = [n for n in names.split() if n.lower() not in text]
        assert not missing, (program, missing)


@case
def every_header_that_the_server_reads_has_a_test(_):
    known = set()
    for path in glob.glob(os.path.join(ROOT, "server", "*", "*.c")):
        with open(path, encoding="utf-8") as f:
            known |= set(re.findall(r'(?:steno_request_header\(rq, |last_header\([^,"]*, |strcasecmp\(name, |\{)"([A-Za-z-]+)"(?:\)|, &h->)', f.read()))
    tested = {n for names in HEADERS.values() for n in names.split()}
    assert known == tested, known ^ tested
    named_by_them(HEADERS)


if __name__ == "__main__":
    with Stenod(*SETTINGS) as server:
        assert eventually(lambda: server.request("POST", "/v1/transcribe?model=uh", WAV)[0] == 200), server.output()
        STATUS = tap(server)
    sys.exit(STATUS)
