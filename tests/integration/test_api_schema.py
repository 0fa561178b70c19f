"""Real answers against docs/openapi.yaml and docs/asyncapi.yaml: the server sends what is documented."""
import json
import os
import sys
import tempfile

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from websockets.sync.client import connect

from daemon import DIGITS, DIGITS_TEXT, OPEN, ROOT, SLOW, Stenod, case, converse, eventually, pcm, tap, wav


def load(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
        return yaml.safe_load(f)


OPENAPI, ASYNCAPI = load("openapi.yaml"), load("asyncapi.yaml")
USED = set()  # (path, status) of the answers that were checked


def resolve(doc, node):
    while "$ref" in node:
        path, node = node["$ref"].removeprefix("#/").split("/"), doc
        for part in path:
            node = node[part]
    return node


def validate(doc, schema, value):
    Draft202012Validator({**schema, "components": doc["components"]}).validate(value)


def check(d, method, path, route=None, body=None, headers=None, want=200):
    """One request. openapi.yaml must describe its answer. Returns the body, parsed if it is JSON."""
    status, got, raw = d.request(method, path, body, headers)
    assert status == want, (status, raw[:300])
    route = route or path.split("?")[0]
    answer = resolve(OPENAPI, OPENAPI["paths"][route][method.lower()]["responses"][str(status)])
    kind = got["content-type"].split(";")[0]
    schema = answer["content"][kind]["schema"]
    for name, h in answer.get("headers", {}).items():
        text = got.get(name.lower())
        assert text is not None or not h.get("required"), name
        if text is not None:
            validate(OPENAPI, h["schema"], int(text) if h["schema"].get("type") == "integer" else text)
    value = json.loads(raw) if kind == "application/json" else raw.decode()
    validate(OPENAPI, schema, value)
    USED.add((route, status))
    return value


def form(fields, file=None, name="a.wav"):
    b = "steno-test-boundary"
    out = b""
    for k, v in fields:
        out += f'--{b}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
    if file is not None:
        out += (f'--{b}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                f'Content-Type: audio/wav\r\n\r\n').encode() + file + b"\r\n"
    return out + f"--{b}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={b}"}


with open(DIGITS, "rb") as _f:
    WAV = _f.read()
OPENAI = "/v1/audio/transcriptions"


@case
def deepgrams_form_is_as_described(d):
    with open(DIGITS, "rb") as f:
        audio = f.read()
    answer = check(d, "POST", "/v1/listen?model=nova-3", body=audio)
    assert answer["results"]["channels"][0]["alternatives"][0]["transcript"] == DIGITS_TEXT
    check(d, "POST", "/v1/listen", body=b"no audio at all", want=400)
    check(d, "POST", "/v1/listen?model=none", body=audio, want=404)
    check(d, "POST", "/v1/listen?encoding=opus", body=audio, want=415)


@case
def the_descriptions_are_well_formed(_):
    for doc in (OPENAPI, ASYNCAPI):
        for name, schema in doc["components"]["schemas"].items():
            Draft202012Validator.check_schema(schema)
            assert name
    for route in OPENAPI["paths"].values():
        for op in route.values():
            for r in op["responses"].values():
                resolve(OPENAPI, r)


@case
def transcriptions_in_every_format(d):
    body, headers = form([("model", "digits-en")], WAV)
    got = check(d, "POST", OPENAI, body=body, headers=headers)["text"]
    assert got.split()[0] == DIGITS_TEXT.split()[0], got
    body, headers = form([("model", "digits-en"), ("response_format", "verbose_json"),
                          ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")], WAV)
    v = check(d, "POST", OPENAI, body=body, headers=headers)
    assert v["text"] == got and [w["word"] for w in v["words"]] == got.split() and v["segments"]
    assert abs(v["duration"] - len(pcm()[0]) / 2 / pcm()[1]) < 0.01
    for f in ("text", "srt", "vtt"):
        body, headers = form([("model", "digits-en"), ("response_format", f)], WAV)
        assert DIGITS_TEXT.split()[0] in check(d, "POST", OPENAI, body=body, headers=headers)
    body, headers = form([("model", "digits-en"), ("stream", "true")], WAV)
    assert "transcript.text.done" in check(d, "POST", OPENAI, body=body, headers=headers)


@case
def the_body_as_file_in_every_format(d):
    v = check(d, "POST", "/v1/transcribe", body=WAV)
    assert [w["word"] for s in v["segments"] for w in s["words"]] == v["text"].split() != [], v
    v = check(d, "POST", "/v1/transcribe?beam=8&n_best=3&words=false&segments=false", body=WAV)
    assert len(v["segments"]) == 1 and "words" not in v["segments"][0], v
    for f in ("text", "srt", "vtt"):
        assert DIGITS_TEXT.split()[0] in check(d, "POST", "/v1/transcribe?format=" + f, body=WAV)


@case
def each_channel_its_transcript(d):
    samples, rate = pcm()
    stereo = wav(b"".join(2 * samples[at:at + 2] for at in range(0, len(samples), 2)), rate, 2)
    v = check(d, "POST", "/v1/transcribe?multichannel=true", body=stereo)
    assert {s["channel"] for s in v["segments"]} == {1, 2}, v
    assert "mixed" in check(d, "POST", "/v1/transcribe", body=stereo)["warnings"][0]
    for granularity in ("word", "segment"):
        body, headers = form([("response_format", "verbose_json"), ("multichannel", "true"), ("timestamp_granularities[]", granularity)],
                             stereo)
        assert {x["channel"] for x in check(d, "POST", OPENAI, body=body, headers=headers)[granularity + "s"]} == {1, 2}
    body, headers = form([("response_format", "diarized_json"), ("multichannel", "true")], stereo)
    assert {s["speaker"] for s in check(d, "POST", OPENAI, body=body, headers=headers)["segments"]} == {"A", "B"}
    assert len(check(d, "POST", "/v1/listen?multichannel=true&utterances=true", body=stereo)["results"]["channels"]) == 2


@case
def whispers_forms_are_as_described(d):
    for f in ("json", "verbose_json", "text", "srt", "vtt"):
        body, headers = form([("response_format", f)], WAV)
        answer = check(d, "POST", "/inference", body=body, headers=headers)
        assert DIGITS_TEXT.split()[0] in (answer if isinstance(answer, str) else answer["text"])
    body, headers = form([("temperature", "hot")], WAV)
    check(d, "POST", "/inference", body=body, headers=headers, want=400)
    check(d, "POST", "/load", body=body, headers=headers, want=400)
    check(d, "POST", "/v1/audio/speech", body=b"{}", headers={"Content-Type": "application/json"}, want=404)
    check(d, "GET", "/health")
    body = body.replace(b'name="file"', b'name="audio_file"')
    for output in ("txt", "json", "srt", "vtt", "tsv"):
        assert DIGITS_TEXT.split()[0] in check(d, "POST", "/asr?output=" + output, body=body, headers=headers)
    check(d, "POST", "/asr?output=doc", body=body, headers=headers, want=400)
    assert check(d, "POST", "/detect-language", body=body, headers=headers)["language_code"] == "en"
    check(d, "POST", "/detect-language?model=none", body=body, headers=headers, want=404)


@case
def the_other_routes(d):
    check(d, "POST", "/v1/auth/grant", body=b"{}")
    assert check(d, "GET", "/v1/models")["data"][0]["id"] == "digits-en"
    assert check(d, "GET", "/v1/models/digits-en", "/v1/models/{id}")["id"] == "digits-en"
    check(d, "GET", "/v1/models/none", "/v1/models/{id}", want=404)
    check(d, "GET", "/healthz")
    check(d, "GET", "/readyz")
    assert "steno_build_info" in check(d, "GET", "/metrics")
    assert "<html" in check(d, "GET", "/").lower()
    check(d, "GET", "/v1/stream", want=426)
    assert check(d, "POST", "/v1/realtime/client_secrets", body=b"{}")["value"].startswith("ek_")
    check(d, "POST", "/v1/realtime/client_secrets", body=b"[", want=400)
    assert check(d, "POST", "/v1/realtime/transcription_sessions", body=b"")["client_secret"]["value"].startswith("ek_")
    for name in ("openapi.yaml", "asyncapi.yaml"):  # the server serves the files of docs/
        assert yaml.safe_load(check(d, "GET", "/" + name)) == load(name)


@case
def errors_have_the_documented_shape(d):
    body, headers = form([("model", "digits-en")])
    check(d, "POST", OPENAI, body=body, headers=headers, want=400)
    body, headers = form([("model", "digits-en"), ("response_format", "xml")], WAV)
    check(d, "POST", OPENAI, body=body, headers=headers, want=400)
    body, headers = form([("model", "none")], WAV)
    check(d, "POST", OPENAI, body=body, headers=headers, want=404)
    body, headers = form([("model", "digits-en")], WAV)
    assert check(d, "POST", "/v1/audio/translations", body=body, headers=headers, want=400)["error"]["param"] == "translate"
    body, headers = form([("language", "de")], WAV)
    assert check(d, "POST", OPENAI, body=body, headers=headers, want=400)["error"]["param"] == "language"
    assert check(d, "POST", "/v1/transcribe?prompt=x", body=WAV, want=400)["error"]["param"] == "prompt"
    check(d, "POST", "/v1/transcribe", body=b"", want=400)
    check(d, "POST", "/v1/transcribe?colour=red", body=WAV, want=400)


@case
def alignments_are_as_described(d):
    for fields in ([("granularity", "character")], [("response_format", "whisperx"), ("granularity", "character")], [("format", "text")]):
        body, headers = form([("text", "four two - 7"), *fields], WAV)
        check(d, "POST", "/v1/align", body=body, headers=headers)
    body, headers = form([("text", "four"), ("granularity", "phone")], WAV)
    assert check(d, "POST", "/v1/align", body=body, headers=headers, want=400)["error"]["param"] == "granularity"
    body, headers = form([("response_format", "whisperx")], WAV)
    check(d, "POST", OPENAI, body=body, headers=headers)
    check(d, "POST", "/v1/transcribe?format=whisperx", body=WAV)


@case
def enrolled_speakers_are_as_described(d):
    check(d, "GET", "/v1/speakers", want=404)
    check(d, "DELETE", "/v1/speakers/Ann", "/v1/speakers/{name}", want=404)
    with tempfile.TemporaryDirectory() as store:
        os.mkdir(f"{store}/open", 0o700)
        with open(f"{store}/open/Ann.voice", "wb"):
            pass
        with Stenod(f"speakers.store={store}", "speakers.model=none") as own:
            assert check(own, "GET", "/v1/speakers")["data"] == [{"name": "Ann", "seconds": 0, "since": 0, "known": False}]
            assert own.request("DELETE", "/v1/speakers/Ann")[0] == 204
            assert check(own, "GET", "/v1/speakers")["data"] == []


@case
def the_use_of_a_key_is_as_described(d):
    check(d, "GET", "/v1/usage", want=404)
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("[one]\nkey = one-of-the-callers-1\nsessions = 2\n")
        keys.flush()
        with Stenod(f"auth.keys={keys.name}") as one:
            check(one, "GET", "/v1/usage", want=401)
            assert check(one, "GET", "/v1/usage", headers={"X-API-Key": "one-of-the-callers-1"})["quota"]["sessions"] == 2


@case
def jobs_are_as_described(_):
    route = "/v1/jobs/{id}"
    with tempfile.TemporaryDirectory() as store, Stenod(f"jobs.dir={store}") as d:
        names = [check(d, "POST", "/v1/jobs?expires=600", body=WAV, want=202)["id"], check(d, "POST", "/v1/jobs", body=b"no audio", want=202)["id"]]
        for n in names:
            assert eventually(lambda n=n: check(d, "GET", "/v1/jobs/" + n, route)["state"] in ("done", "failed")), n
        for fmt in ("json", "srt", "vtt", "text"):
            check(d, "GET", f"/v1/jobs/{names[0]}/result?format={fmt}", route + "/result")
        check(d, "GET", f"/v1/jobs/{names[1]}/result", route + "/result", want=409)
        check(d, "GET", f"/v1/jobs/{names[0]}/result?format=doc", route + "/result", want=400)
        assert not check(d, "GET", "/v1/jobs?limit=2")["has_more"] and check(d, "GET", "/v1/jobs?limit=1")["has_more"]
        check(d, "GET", "/v1/jobs?state=none", want=400)
        check(d, "POST", "/v1/jobs?model=none", body=WAV, want=404)
        check(d, "POST", "/v1/jobs?colour=red", body=WAV, want=400)
        again = [check(d, "POST", "/v1/jobs", body=WAV, headers={"Idempotency-Key": "once"}, want=202)["id"] for _ in range(2)]
        assert again[0] == again[1]
        check(d, "POST", "/v1/jobs", body=WAV + b"more", headers={"Idempotency-Key": "once"}, want=422)
        check(d, "POST", f"/v1/jobs/{names[0]}/callback", route + "/callback", want=409)
        check(d, "POST", "/v1/jobs/job_none/callback", route + "/callback", want=404)
        check(d, "POST", "/v1/jobs", body=b"{}", headers={"Content-Type": "application/json"}, want=400)
        assert d.request("DELETE", "/v1/jobs/" + names[0])[0] == 204
        check(d, "GET", "/v1/jobs/" + names[0], route, want=404)
        check(d, "DELETE", "/v1/jobs/" + names[0], route, want=404)
    with Stenod() as d:
        check(d, "POST", "/v1/jobs", body=WAV, want=415)


@case
def every_route_was_checked(_):
    missing = [p for p in OPENAPI["paths"] if not any(r == p for r, _s in USED)]
    assert not missing, missing


def talk(d, pieces, query=""):
    for p in pieces:
        if isinstance(p, dict):
            kind = {"end": "endOfAudio"}.get(p["type"], p["type"])
            validate(ASYNCAPI, ASYNCAPI["components"]["schemas"][kind], p)
    return converse(d.ws + query, pieces).messages


@case
def every_stream_message_is_described(d):
    data, rate = pcm()
    start = {"type": "start", "sample_rate": rate, "alternatives": 3, "beam": 8}
    cuts = [data[i:i + 1600] for i in range(0, len(data), 1600)]
    got = talk(d, [start, *cuts[:20], {"type": "finalize"}, *cuts[20:], {"type": "end"}])
    got += talk(d, [{"type": "start", "words": False}, {"type": "keepalive"}, data, '{"type":"go"}'])
    got += talk(d, [{"type": "start", "encoding": "wav"}, WAV, {"type": "end"}])
    start = {"type": "start", "resumable": True}
    first = talk(d, [start, data, {"type": "end"}])
    with connect(d.ws, **OPEN) as ws:  # and a resumed session
        ws.send(json.dumps(start))
        ready = json.loads(ws.recv(timeout=60 * SLOW))
        ask = {"session_id": ready["session_id"], "seq": 0}
        validate(ASYNCAPI, ASYNCAPI["components"]["schemas"]["resume"], ask)
        got += first + talk(d, [{"type": "end"}], "?session_id={session_id}&seq={seq}".format(**ask))
    seen = set()
    for m in got:
        validate(ASYNCAPI, ASYNCAPI["components"]["schemas"][m["type"]], m)
        seen.add(m["type"])
    assert seen == {"ready", "resumed", "speech_start", "partial", "final", "error", "end"}, seen
    assert any("alternatives" in m and isinstance(m["alternatives"], list) for m in got if m["type"] == "final")


@case
def a_start_that_is_not_described_is_refused_by_both(d):
    bad = {"type": "start", "samplerate": 8000}
    try:
        validate(ASYNCAPI, ASYNCAPI["components"]["schemas"]["start"], bad)
        raise AssertionError("asyncapi.yaml accepts " + str(bad))
    except ValidationError:
        pass
    assert talk(d, [json.dumps(bad)])[-1]["type"] == "error"


if __name__ == "__main__":
    with Stenod() as daemon:
        status = tap(daemon)
    sys.exit(status)
