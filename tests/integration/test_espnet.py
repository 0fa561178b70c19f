"""Directories of espnet_onnx behind the server. Search options per request over REST and WebSocket and from
model.search give the results of `steno transcribe` with the same options. A streaming encoder over a WebSocket
from start to end. quantized and compat as settings of the daemon and of a request. Needs ../shared (zoo/tiny,
audio)."""
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile

import numpy
import soundfile
from websockets.exceptions import InvalidStatus

from daemon import BUILD, SHARED, SLOW, Stenod, case, converse, eventually, need, tap

OFFLINE = os.path.join(SHARED, "zoo", "tiny", "espnet-conformer-op13")
STREAM = os.path.join(SHARED, "zoo", "tiny", "espnet-stream-conformer-op13")
AUDIO = os.path.join(SHARED, "audio", "librispeech", "61-70968-0002.flac")
OPTIONS = {"beam": 4, "ctc_weight": 0.5, "lm_weight": 0.3, "penalty": 0.2, "maxlenratio": -20, "minlenratio": 0,
           "pre_beam": 1.5}


def need_shared():
    need(OFFLINE, STREAM, AUDIO)


def audio():
    need_shared()
    with open(AUDIO, "rb") as f:
        return f.read()


def wav(pcm16):
    buffer = io.BytesIO()
    soundfile.write(buffer, numpy.frombuffer(pcm16, dtype="int16"), 16000, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def run(model, options, *more, **env):
    """The JSON that the command prints."""
    names = {"n_best": "nbest", "pre_beam": "pre-beam"}
    flags = [x for k, v in options.items() for x in ("--" + names.get(k, k).replace("_", "-"), str(v))]
    form = "nbest" if "--compat" in more else "json"
    p = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--model", model, "--format", form, *flags, *more, AUDIO],
                       capture_output=True, text=True, timeout=300 * SLOW, check=True, env={**os.environ, **env})
    return p.stdout


def transcribe(model, options, *more):
    """(text, score) of every alternative of every segment, from the command."""
    return alternatives(json.loads(run(model, options, *more)))


def alternatives(result):
    return [[(a["text"], round(a["score"], 2)) for a in s["alternatives"]] for s in result["segments"]]


def upload(d, options, **more):
    query = "&".join(f"{k}={v}" for k, v in {"format": "json", **options, **more}.items())
    status, _, body = d.request("POST", "/v1/transcribe?" + query, audio())
    return status, json.loads(body)


@case
def options_of_a_request_are_those_of_the_command():
    options = {**OPTIONS, "n_best": 3}
    want = transcribe(OFFLINE, options) if audio() else None
    with Stenod(f"model.dir={OFFLINE}") as d:
        status, got = upload(d, options)
        assert status == 200 and alternatives(got) == want, (status, got, want)
        status, own = upload(d, {"n_best": 3, "beam": 4})
        assert status == 200 and alternatives(own) != want, "the options changed nothing"


def packs(folder):
    """{path: inode} of the packed caches. A cache that was made anew has a new inode, since it was renamed into
    place."""
    return {e.path: e.inode() for e in os.scandir(folder) if e.name.endswith(".stenopack")}


def damaged(pack, others):
    """The file with one byte flipped in the header, the weights and the graph; half of the file; another model's
    file."""
    with open(pack, "rb") as f:
        good = f.read()
    for at in (20, 4096 + 64, len(good) - 64):
        yield good[:at] + bytes([good[at] ^ 4]) + good[at + 1:]
    yield good[:len(good) // 2]
    for other in others:
        with open(other, "rb") as f:
            yield f.read()


@case
def parts_of_decoders_and_lms_are_cached_separately():
    need_shared()
    options = {**OPTIONS, "n_best": 3}
    for model, flags in ((OFFLINE, ()), (OFFLINE, ("--quantized",)), (OFFLINE, ("--quantized", "--precision", "int8")),
                         (OFFLINE, ("--quantized", "--precision", "fp32")), (STREAM, ("--precision", "bf16")),
                         (OFFLINE, ("--compat", "espnet-onnx"))):
        with tempfile.TemporaryDirectory() as folder:
            cache = os.path.join(folder, "packed")
            want = run(model, options, *flags, STENO_CACHE="")
            assert run(model, options, *flags, STENO_CACHE=cache) == want, (model, flags, "first start")
            first = packs(cache)
            names = [os.path.basename(p).split(".onnx")[0].removesuffix("_qt") for p in first]
            # step and once of the decoder; first_row in compat mode makes the LM's once
            parts = (names.count("xformer_decoder"), names.count("transformer_lm"))
            assert parts == ((2, 2) if "--compat" in flags else (2, 1)), (model, flags, names)
            assert run(model, options, *flags, STENO_CACHE=cache) == want, (model, flags, "second start")
            assert packs(cache) == first, (model, flags, "the second start made caches anew")


@case
def a_damaged_cache_of_a_part_is_made_anew():
    need_shared()
    options = {"beam": 2, "maxlenratio": -6, "n_best": 2, "lm_weight": 0.3}
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "packed")
        want = run(OFFLINE, options, STENO_CACHE=cache)
        parts = [p for p in packs(cache) if os.path.basename(p).startswith(("xformer_decoder", "transformer_lm"))]
        assert len(parts) == 3, parts
        for pack in parts:
            for n, bad in enumerate(list(damaged(pack, [p for p in parts if p != pack]))):
                with open(pack, "wb") as f:
                    f.write(bad)
                before = packs(cache)
                assert run(OFFLINE, options, STENO_CACHE=cache) == want, (pack, n)
                after = packs(cache)
                changed = [p for p in after if after[p] != before.get(p)]
                assert changed == [pack], (pack, n, changed)


@case
def fields_of_the_openai_form_are_taken_too():
    body = b""
    for name, value in {"model": "whisper-1", "ctc_weight": "1.5"}.items():
        body += f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    body += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.flac"\r\n\r\n' + audio() + b"\r\n--b--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    with Stenod(f"model.dir={OFFLINE}") as d:
        status, _, text = d.request("POST", "/v1/audio/transcriptions", body, kind)
        assert status == 400 and "ctc_weight: 1.5 is outside 0..1" in text.decode(), (status, text)
        texts = []
        for weight in ("0.0", "1.0"):
            status, _, text = d.request("POST", "/v1/audio/transcriptions", body.replace(b"1.5", weight.encode()), kind)
            assert status == 200, (status, text)
            texts.append(json.loads(text)["text"])
        assert texts[0] != texts[1], "ctc_weight changed nothing"


@case
def bad_options_are_refused_by_name():
    audio()
    with Stenod(f"model.dir={OFFLINE}") as d:
        for options, why in (({"ctc_weight": 2}, "ctc_weight: 2 is outside 0..1"), ({"penalty": "x"}, "penalty: 'x' is not a number"),
                             ({"beam": 40}, "beam is 40"), ({"ctc_wait": 1}, "'ctc_wait' is unknown")):
            status, got = upload(d, options)
            assert status == 400 and why in got["error"]["message"], (options, status, got)
        assert upload(d, {})[0] == 200
    with tempfile.TemporaryFile("w+") as err:
        for setting, why in (("model.search=ctc_weight=3", "model.search: ctc_weight"), ("model.compat=kaldi", "model.compat: 'kaldi'")):
            code = subprocess.run([os.path.join(BUILD, "stenod"), "--check-config", "--set", setting], stderr=err, check=False, timeout=60 * SLOW).returncode
            err.seek(0)
            text = err.read()
            assert code == 78 and why in text, (code, text)


@case
def model_search_fills_options_that_requests_leave_open():
    audio()
    chosen = ", ".join(f"{k}={v}" for k, v in OPTIONS.items())
    with Stenod(f"model.dir={OFFLINE}", f"model.search={chosen}") as d:
        status, got = upload(d, {"n_best": 3})
        assert status == 200 and alternatives(got) == transcribe(OFFLINE, {**OPTIONS, "n_best": 3}), got
        status, got = upload(d, {"n_best": 3, "lm_weight": 0})
        assert alternatives(got) == transcribe(OFFLINE, {**OPTIONS, "n_best": 3, "lm_weight": 0}), got


@case
def quantized_and_compat_are_settings_of_the_daemon():
    audio()
    with Stenod(f"model.dir={OFFLINE}", "model.quantized=yes", "model.compat=espnet-onnx") as d:
        status, got = upload(d, {**OPTIONS, "n_best": 3})
        assert status == 200, got
        want = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--model", OFFLINE, "--quantized", "--compat", "espnet-onnx",
                               "--format", "nbest", "--beam", "4", "--ctc-weight", "0.5", "--lm-weight", "0.3", "--penalty", "0.2",
                               "--maxlenratio", "-20", "--minlenratio", "0", "--pre-beam", "1.5", "--nbest", "3", AUDIO],
                              capture_output=True, text=True, timeout=300 * SLOW, check=True)
        want = [(h["text"], round(h["score"], 2)) for h in json.loads(want.stdout)["nbest"]]
        assert alternatives(got)[0] == want, (got, want)


def eventually_loaded(ask):
    """The answer once the needed model is loaded. An early client is told to come back."""
    got = []

    def there():
        got[:] = [ask()]
        status, body = got[0][:2]
        assert status != 503 or "being loaded" in json.dumps(body), got
        return status != 503
    assert eventually(there, 60), got
    return got[0]


@case
def quantized_and_compat_are_chosen_per_request():
    audio()
    options = {**OPTIONS, "n_best": 3}
    want = {(): transcribe(OFFLINE, options), ("quantized",): transcribe(OFFLINE, options, "--quantized")}
    for flags in (("compat",), ("quantized", "compat")):
        more = ["--quantized"] * ("quantized" in flags) + ["--compat", "espnet-onnx"]
        nbest = json.loads(run(OFFLINE, options, *more))["nbest"]
        want[flags] = [[(h["text"], round(h["score"], 2)) for h in nbest]]
    assert len({str(w) for w in want.values()}) == 4, "the four do not differ: this test would show nothing"
    with Stenod(f"model.dir={OFFLINE}") as d:
        for _ in range(2):
            for flags, expected in want.items():
                asked = {k: "espnet-onnx" if k == "compat" else "true" for k in flags}
                status, got = eventually_loaded(lambda a=asked: upload(d, options, **a))
                assert status == 200 and alternatives(got) == expected, (flags, got, expected)
                assert got["model"] == "espnet-conformer-op13", got
        listed = [m["id"] for m in json.loads(d.get("/v1/models")[2])["data"]]
        assert listed == ["espnet-conformer-op13"], listed
        assert d.metric('steno_model_loaded{model="espnet-conformer-op13+quantized+espnet-onnx"}') == 1
        assert d.metric('steno_model_generation{model="espnet-conformer-op13"}') == 1
        status, got = upload(d, options, quantized="false", compat="none")
        assert status == 200 and alternatives(got) == want[()], got
    with Stenod(f"model.dir={OFFLINE}", "model.quantized=yes", "model.compat=espnet-onnx") as d:
        status, got = eventually_loaded(lambda: upload(d, options, quantized="false", compat="none"))
        assert status == 200 and alternatives(got) == want[()], got
        status, got = eventually_loaded(lambda: upload(d, options, compat="none"))
        assert status == 200 and alternatives(got) == want[("quantized",)], got


@case
def a_stream_chooses_quantized_and_compat():
    audio()
    x, _ = soundfile.read(AUDIO, dtype="int16")
    data = x.tobytes()
    options = {**OPTIONS, "alternatives": 2, "endpointing": False}
    want = {q: transcribe(STREAM, {**OPTIONS, "n_best": 2}, "--no-endpoint", *["--quantized"] * q) for q in (False, True)}
    assert want[False] != want[True]
    with Stenod(f"model.dir={STREAM}") as d:
        for where in ("start", "query"):
            for quantized in (True, False):
                start = {**options, "quantized": quantized} if where == "start" else options
                query = "" if where == "start" else f"?quantized={str(quantized).lower()}"

                def ask(s=start, q=query):
                    try:
                        got = speak(d, [data], s, q)
                    except InvalidStatus as e:  # the URL names it, so the handshake answers
                        assert int(e.response.headers["Retry-After"]) >= 1 and q, e
                        return e.response.status_code, e.response.body.decode()
                    return (503 if got[-1].get("code") == "busy" else 200), got
                _, got = eventually_loaded(ask)
                finals = [m for m in got if m["type"] == "final"]
                assert got[0]["type"] == "ready" and got[0].get("quantized", False) == quantized, got[0]
                assert [[(a["text"], round(a["score"], 2)) for a in m["alternatives"]] for m in finals] == want[quantized], finals
        got = eventually_loaded(lambda: (lambda g: (503 if g[-1].get("code") == "busy" else 200, g))(
            speak(d, [data], {"compat": "espnet-onnx"})))[1]
        assert got[0]["compat"] == "espnet-onnx" and got[-1]["type"] == "end", got
        for start, why in (({"compat": "kaldi"}, "compat: 'kaldi' is neither espnet-onnx nor none"),
                           ({"compat": True}, "compat: must be a string"), ({"quantized": "yes"}, "quantized: must be true or false")):
            got = speak(d, [data], start)
            assert got[-1]["code"] == "invalid_argument" and why in got[-1]["message"], (start, got)


@case
def unavailable_variants_are_refused_by_name():
    audio()
    with tempfile.TemporaryDirectory() as where:
        for name in os.listdir(OFFLINE):
            if name != "quantize":
                os.makedirs(os.path.join(where, "plain"), exist_ok=True)
                os.symlink(os.path.join(os.path.abspath(OFFLINE), name), os.path.join(where, "plain", name))
        with Stenod(f"models.dir={where}") as d:  # the default model is the shipped one
            for query, status, param, why in (
                    ("quantized=true", 400, "quantized", "quantized: models of family ctc_streaming have no such option, theirs are: none "
                     "(the model 'digits-en')"),
                    ("compat=espnet-onnx", 400, "compat", "compat: models of family ctc_streaming have no such option"),
                    ("penalty=1", 400, "penalty", "penalty: models of family ctc_streaming have no such option"),
                    ("model=plain&quantized=1", 400, "quantized", "quantized: the model 'plain' has no folder quantize/"),
                    ("model=none&quantized=1", 404, "model", "the model 'none' does not exist"),
                    ("quantized=perhaps", 400, "quantized", "quantized: 'perhaps' is not true or false")):
                got = d.request("POST", f"/v1/transcribe?{query}", audio())
                error = json.loads(got[2])["error"]
                assert got[0] == status and error["param"] == param and why in error["message"], (query, got)
            assert d.request("POST", "/v1/transcribe?quantized=false&compat=none", audio())[0] == 200
            fields = b'--b\r\nContent-Disposition: form-data; name="quantized"\r\n\r\ntrue\r\n' + \
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + audio() + b"\r\n--b--\r\n"
            got = d.request("POST", "/v1/audio/transcriptions", fields, {"Content-Type": "multipart/form-data; boundary=b"})
            assert got[0] == 400 and json.loads(got[2])["error"]["param"] == "quantized", got
            for query in ("", "?quantized=true"):
                got = speak(d, [b"\0" * 3200], {} if query else {"quantized": True}, query)
                assert got[-1]["code"] == "invalid_argument" and "models of family ctc_streaming have no such option" in got[-1]["message"], got
        with Stenod("model.search=beam=2,penalty=1", "model.ctc_weight=0.3", "model.quantized=yes", "model.compat=espnet-onnx") as d:
            assert d.request("POST", "/v1/transcribe", audio())[0] == 200, "configured options of another family are passed over"


@case
def variants_keep_to_the_memory_that_models_may_have():
    audio()
    with Stenod(f"model.dir={OFFLINE}", "models.memory=1K") as d:
        def ask():
            status, got = upload(d, {}, quantized="true")
            text = got["error"]["message"]
            assert status == 503 and ("does not fit models.memory" in text or "being loaded" in text), got
            return (503 if "being loaded" in text else 200), got
        eventually_loaded(ask)
        assert upload(d, {})[0] == 200, "the default one stays"
    with Stenod(f"model.dir={OFFLINE}", "models.idle_unload=1s") as d:
        assert eventually_loaded(lambda: upload(d, {}, quantized="true"))[0] == 200
        assert eventually(lambda: d.metric('steno_model_loaded{model="espnet-conformer-op13+quantized"}') == 0, 30)
        d.proc.send_signal(signal.SIGHUP)
        assert eventually(lambda: "1 models loaded again" in d.output(), 30), d.output()
        assert upload(d, {})[0] == 200


def speak(d, pieces, start, query=""):
    return converse(d.ws + query, [{"type": "start", "encoding": "s16le", "sample_rate": 16000, **start}, *pieces, {"type": "end"}]).messages


@case
def a_stream_from_end_to_end():
    audio()
    x, rate = soundfile.read(AUDIO, dtype="int16")
    assert rate == 16000
    data = x.tobytes()
    options = {**OPTIONS, "lm_weight": 0.3}
    want = transcribe(STREAM, {**options, "n_best": 2}, "--no-endpoint")
    with Stenod(f"model.dir={STREAM}") as d:
        for size in (3200, 100000):
            pieces = [data[i:i + size] for i in range(0, len(data), size)]
            got = speak(d, pieces, {**options, "alternatives": 2, "endpointing": False})
            finals = [m for m in got if m["type"] == "final"]
            assert [m["type"] for m in got if m["type"] in ("ready", "end")] == ["ready", "end"], got
            assert [[(a["text"], round(a["score"], 2)) for a in m["alternatives"]] for m in finals] == want, (finals, want)
            assert sum(m["type"] == "partial" for m in got) >= 1, "no partial came"
            assert all(w["end"] >= w["start"] for m in finals for w in m["words"])
        got = speak(d, [data], {"ctc_weight": 7})
        assert got[-1]["type"] == "error" and "ctc_weight: 7 is outside 0..1" in got[-1]["message"], got
        got = speak(d, [data], {"lm_weight": 0.5, "beam": 64})
        assert got[-1]["type"] == "error" and "beam is 64" in got[-1]["message"], got


@case
def every_protocol_sends_the_requested_hypotheses():
    audio()
    x, _ = soundfile.read(AUDIO, dtype="int16")
    options = {**OPTIONS, "n_best": 3}
    want = [t for t, _ in transcribe(OFFLINE, options, "--no-endpoint")[0]]
    best = json.loads(run(OFFLINE, options, "--no-endpoint"))["segments"][0]
    assert len(want) == 3 and len(set(want)) == 3, want
    query = "&".join(f"{k}={v}" for k, v in OPTIONS.items())
    with Stenod(f"model.dir={OFFLINE}") as d:
        # Deepgram, both ways
        got = json.loads(d.request("POST", f"/v1/listen?{query}&alternatives=3", audio())[2])
        said = got["results"]["channels"][0]["alternatives"]
        assert [a["transcript"] for a in said] == want and all(0 < a["confidence"] <= 1 for a in said), got
        assert [w["word"] for w in said[2]["words"]] == want[2].split(), said
        status, _, body = d.request("POST", "/v1/listen?ctc_weight=2", audio())
        assert status == 400 and b"ctc_weight: 2 is outside 0..1" in body, body
        got = converse(f"{d.ws[:-7]}/listen?{query}&alternatives=3&encoding=linear16&sample_rate=16000&endpointing=false",
                       [x.tobytes(), '{"type":"CloseStream"}']).messages
        said = [m["channel"]["alternatives"] for m in got if m["type"] == "Results" and m["is_final"]]
        assert [[a["transcript"] for a in s] for s in said] == [want], said
        # vosk
        got = converse(f"{d.ws[:-10]}/vosk?{query}&endpointing=false",
                       ['{"config":{"sample_rate":16000,"max_alternatives":3}}', x.tobytes(), '{"eof":1}']).messages
        assert [a["text"] for a in got[-1]["alternatives"]] == want and "text" not in got[-1], got[-1]
        assert [w["word"] for w in got[-1]["alternatives"][1]["result"]] == want[1].split(), got[-1]
        # OpenAI: in the segments of verbose_json (ours), and as log-probabilities of the best text in json
        for fields, check in (({"response_format": "verbose_json", "n_best": "3"}, "segments"), ({"include[]": "logprobs"}, "logprobs")):
            body = b"".join(f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
                            for k, v in {**OPTIONS, **fields}.items())
            body += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + audio() + b"\r\n--b--\r\n"
            got = json.loads(d.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": "multipart/form-data; boundary=b"})[2])
            if check == "segments":
                segment = got["segments"][0]
                assert [a["text"] for a in segment["alternatives"]] == want and segment["tokens"], segment
            else:
                assert "".join(t["token"] for t in got["logprobs"]) == got["text"], got
                assert all(abs(t["logprob"] - math.log(w["confidence"])) < 0.02 * max(1, abs(t["logprob"])) for t, w in
                           zip(got["logprobs"], best["words"])), (got, best)


@case
def speech_over_a_whole_utterance_encoder_is_cut_at_pauses():
    """Speech, 1.5 s of silence, speech: two segments, each with its partials, however the messages are cut; and the
    result of the same audio as an upload."""
    audio()
    x, _ = soundfile.read(AUDIO, dtype="int16")
    data = x.tobytes()
    both = data + bytes(2 * 24000) + data
    first = None
    with Stenod(f"model.dir={OFFLINE}") as d:
        for size in (3200, 7777 * 2, len(both)):
            got = speak(d, [both[i:i + size] for i in range(0, len(both), size)], OPTIONS)
            events = [m for m in got if m["type"] in ("speech_start", "partial", "final")]
            finals = [m for m in events if m["type"] == "final"]
            texts = [(m["text"], m["reason"], m["start"], m["end"]) for m in finals]
            assert len(finals) >= 2 and finals[0]["reason"] == "endpoint", texts
            assert finals[0]["end"] <= len(x) / 16000 + 1 <= finals[-1]["start"] + 1, texts
            for final in finals:
                own = [m for m in events if m["type"] == "partial" and m["segment"] == final["segment"]]
                assert own and events.index(own[-1]) < events.index(final), (final["segment"], events)
            first = first or texts
            assert texts == first, (size, texts, first)
        query = "&".join(f"{k}={v}" for k, v in {"format": "json", **OPTIONS}.items())
        status, _, body = d.request("POST", "/v1/transcribe?" + query, wav(both))
        said = json.loads(body)["segments"]
        assert status == 200 and [s["text"] for s in said] == [t for t, *_ in first], (said, first)


if __name__ == "__main__":
    sys.exit(tap())
