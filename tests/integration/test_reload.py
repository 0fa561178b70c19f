"""Several models in one server: selected per request, loaded on demand, unloaded, and reloaded while streams run."""
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from daemon import BUILD, DIGITS, DIGITS_TEXT, OPEN, ROOT, SLOW, Skip, Stenod, case, converse, eventually, pcm, tap, until_closed

PCM, RATE = pcm()
MODEL = os.path.join(ROOT, "conf", "models", "digits-en")
with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def copy(where, name):
    shutil.copytree(MODEL, os.path.join(where, name))


def post(d, model):
    status, headers, body = d.request("POST", f"/v1/transcribe?model={model}", WAV)
    return status, headers, json.loads(body)


def transcribed(d, model):
    """The text, once the model is loaded. An early client is told to come back."""
    out = []

    def there():
        out[:] = [post(d, model)]
        status, headers, body = out[0]
        assert status == 200 or (status == 503 and int(headers["retry-after"]) >= 1 and "being loaded" in body["error"]["message"]), out
        return status == 200
    assert eventually(there, 30), out
    return out[0][2]["text"]


def streaming(d, model):
    """The connection of a stream of the model, once that is loaded."""
    got = []

    def opened():
        try:
            got.append(connect(d.ws + f"?model={model}&sample_rate={RATE}", **OPEN))
        except InvalidStatus as e:
            assert e.response.status_code == 503 and int(e.response.headers["Retry-After"]) >= 1
        return got
    assert eventually(opened)
    return got[0]


def metric(d, name, model):
    return d.metric(f'{name}{{model="{model}"}}')


def finish(ws):
    ws.send('{"type":"end"}')
    return said(until_closed(ws)[0])


def said(messages):
    return " ".join(m["text"] for m in messages if m["type"] == "final" and m["text"])


@case
def a_model_is_loaded_when_it_is_wanted(_):
    with tempfile.TemporaryDirectory() as where:
        copy(where, "second")
        copy(where, "third")
        with Stenod(f"models.dir={where}", "models.idle_unload=1s") as d:
            listed = [m["id"] for m in json.loads(d.get("/v1/models")[2])["data"]]
            assert listed[0] == "digits-en" and sorted(listed[1:]) == ["second", "third"], listed
            assert metric(d, "steno_model_loaded", "second") == 0 and metric(d, "steno_model_loaded", "digits-en") == 1
            assert transcribed(d, "second") == DIGITS_TEXT
            with streaming(d, "second") as ws:  # a model in use stays loaded
                ws.send(PCM)  # without audio it is not in use
                assert eventually(lambda: metric(d, "steno_model_users", "second") == 1)
                assert metric(d, "steno_model_loaded", "second") == 1 and metric(d, "steno_model_loaded", "third") == 0
            status, _, body = post(d, "fourth")
            assert status == 404 and "'second'" in body["error"]["message"] and "'fourth'" in body["error"]["message"], body
            # without users it is unloaded; the default model stays
            assert eventually(lambda: metric(d, "steno_model_loaded", "second") == 0, 20)
            assert metric(d, "steno_model_loaded", "digits-en") == 1
            assert transcribed(d, "second") == DIGITS_TEXT and metric(d, "steno_model_generation", "second") >= 2
            # early requests were refused with a reason of their own, and no failure was counted
            refused = d.metric('steno_sessions_rejected_total{reason="loading"}')
            assert refused >= 2 and sum(d.wait_idle().metric(f'steno_sessions_total{{api="{api}",result="refused"}}')
                                        for api in ("transcribe", "stream")) == refused
            assert d.metric('steno_sessions_total{api="transcribe",result="failed"}') == 0
            assert d.metric('steno_sessions_rejected_total{reason="capacity"}') == 0


@case
def a_stream_chooses_its_model_and_keeps_it_loaded(_):
    with tempfile.TemporaryDirectory() as where:
        copy(where, "second")
        with Stenod(f"models.dir={where}", "models.idle_unload=3s") as d:  # it must not end before the audio comes
            with streaming(d, "second") as ws:
                ws.send(PCM)
                assert json.loads(ws.recv(timeout=60 * SLOW))["model"] == "second"
                time.sleep(5)  # longer than idle_unload: the model is in use
                assert metric(d, "steno_model_loaded", "second") == 1 and metric(d, "steno_model_users", "second") == 1
                assert finish(ws) == DIGITS_TEXT
            assert eventually(lambda: metric(d, "steno_model_loaded", "second") == 0, 20)


@case
def reload_leaves_running_streams_on_the_old_one(_):
    with Stenod() as d:
        with connect(d.ws + f"?sample_rate={RATE}", **OPEN) as ws:
            ws.send(PCM[:len(PCM) // 2])
            assert json.loads(ws.recv(timeout=60 * SLOW))["type"] == "ready"
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: metric(d, "steno_model_generation", "digits-en") == 2, 30)
            assert metric(d, "steno_model_users", "digits-en") == 0, "the stream is on the old one"
            status, _, body = post(d, "")
            assert status == 200 and body["text"] == DIGITS_TEXT
            ws.send(PCM[len(PCM) // 2:])
            assert finish(ws) == DIGITS_TEXT
        assert d.status("/readyz") == 200


@case
def a_bad_new_one_leaves_the_old_serving(_):
    with tempfile.TemporaryDirectory() as where:
        copy(where, "mine")
        mine = os.path.join(where, "mine")
        with Stenod(f"model.dir={mine}") as d:
            for name in sorted(os.listdir(mine)):
                if name.endswith(".onnx"):
                    with open(os.path.join(mine, name), "r+b") as f:
                        f.truncate(1000)
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: "the old one serves on" in d.output(), 30), d.output()
            assert eventually(lambda: "0 models loaded again, 1 kept" in d.output(), 10), d.output()
            status, _, body = post(d, "")
            assert status == 200 and body["text"] == DIGITS_TEXT
            assert metric(d, "steno_model_generation", "digits-en") == 1


@case
def reloads_under_load_lose_no_word(_):
    with Stenod() as d:
        stop, texts, failed = threading.Event(), [], []

        def client():
            while not stop.is_set():
                try:
                    pieces = [PCM[i:i + 8000] for i in range(0, len(PCM), 8000)]
                    texts.append(said(converse(d.ws + f"?sample_rate={RATE}", [*pieces, {"type": "end"}]).messages))
                except Exception as e:  # pylint: disable=broad-except
                    failed.append(repr(e))
        threads = [threading.Thread(target=client) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(5):
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda n=i: metric(d, "steno_model_generation", "digits-en") >= n + 2, 30)
        stop.set()
        for t in threads:
            t.join()
        assert texts and not failed and set(texts) == {DIGITS_TEXT}, (set(texts), failed)
        assert eventually(lambda: d.descriptors() < 60), d.descriptors()


@case
def a_model_that_cannot_be_loaded_is_named_and_memory_is_kept(_):
    with tempfile.TemporaryDirectory() as where:
        copy(where, "second")
        os.makedirs(os.path.join(where, "broken"))
        with Stenod(f"models.dir={where}", "models.memory=1M") as d:
            assert eventually(lambda: post(d, "broken")[0] == 500, 20)
            assert "broken" in post(d, "broken")[2]["error"]["message"]
            # the default model is always loaded; no other fits beside it
            assert eventually(lambda: "models.memory" in post(d, "second")[2]["error"]["message"], 20), post(d, "second")
            assert post(d, "second")[0] == 503 and metric(d, "steno_model_loaded", "second") == 0
            assert post(d, "")[0] == 200


@case
def an_operator_of_the_command_alone_is_named(_):
    """`steno` has operators that no model of speech has, the daemon says so, also of what the command has cached."""
    if importlib.util.find_spec("onnx") is None:
        raise Skip("the package onnx is not installed")
    import onnx
    with tempfile.TemporaryDirectory() as where:
        copy(where, "second")
        path, cache = os.path.join(where, "second", "encoder.onnx"), os.path.join(where, "cache")
        model = onnx.load(path)
        model.graph.initializer.append(onnx.helper.make_tensor("square", onnx.TensorProto.FLOAT, [1, 1], [1.0]))
        model.graph.node.append(onnx.helper.make_node("Det", ["square"], ["det"]))
        onnx.save(model, path)
        for _ in range(2):
            text = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--model", os.path.dirname(path), DIGITS],
                                  env={**os.environ, "STENO_CACHE": cache}, capture_output=True, text=True, check=True).stdout
            assert text.strip() == DIGITS_TEXT, text
        assert any(name.endswith(".stenopack") for name in os.listdir(cache))
        server = Stenod(f"models.dir={where}")
        server.env["STENO_CACHE"] = cache
        with server as d:
            assert eventually(lambda: post(d, "second")[0] == 500, 20)
            said = "1 operator is not supported: Det@"
            assert re.search(said + r"\d+ \('steno run' has it\)", d.output()), d.output()
            assert post(d, "")[0] == 200


def weight_bytes():
    """The size of one copy of the model, as the server counts it: a second copy does not fit, and the message has
    the size."""
    with tempfile.TemporaryDirectory() as where:
        copy(where, "second")
        with Stenod(f"models.dir={where}", "models.memory=1K") as d:
            said = []

            def refused():
                said[:] = re.findall(r"\((\d+) bytes\) does not fit", post(d, "second")[2]["error"]["message"])
                return said
            assert eventually(refused)
            return int(said[0])


@case
def the_model_unused_longest_is_unloaded(_):
    with tempfile.TemporaryDirectory() as where:
        names = ("second", "third", "fourth")
        for name in names:
            copy(where, name)
        with Stenod(f"models.dir={where}", f"models.memory={int(3.5 * weight_bytes())}", "models.idle_unload=0") as d:

            def loaded():
                return {name for name in names if metric(d, "steno_model_loaded", name) == 1}

            def use(name):
                """Use the model. Afterwards nobody uses it, and it is the one used last."""
                assert transcribed(d, name) == DIGITS_TEXT
                assert eventually(lambda: metric(d, "steno_model_users", name) == 0)

            def speak(ws, name):
                ws.send(PCM[:RATE])  # the model is in use from the first audio on
                assert eventually(lambda: metric(d, "steno_model_users", name) == 1)

            with streaming(d, "second") as ws:  # in use since before all the others
                speak(ws, "second")
                use("third")
                assert loaded() == {"second", "third"}  # together with the default one three are loaded
                use("fourth")
                assert loaded() == {"second", "fourth"}
                assert "model third unloaded: models.memory" in d.output()
                ws.send(PCM[RATE:])
                assert finish(ws) == DIGITS_TEXT
            assert eventually(lambda: metric(d, "steno_model_users", "second") == 0)
            use("third")  # the stream ended after fourth was used
            assert loaded() == {"second", "third"}
            use("second")
            use("fourth")
            assert loaded() == {"second", "fourth"}
            with streaming(d, "second") as a, streaming(d, "fourth") as b:  # no model can be unloaded
                speak(a, "second")
                speak(b, "fourth")

                def refused():
                    status, headers, body = post(d, "third")
                    return status == 503 and int(headers["retry-after"]) >= 1 and "beside those in use" in body["error"]["message"]
                assert eventually(refused)
                assert loaded() == {"second", "fourth"}
                for ws in (a, b):
                    ws.send(PCM[RATE:])
                    assert finish(ws) == DIGITS_TEXT
            # the default model was unused all the time
            assert metric(d, "steno_model_loaded", "digits-en") == 1 and metric(d, "steno_model_generation", "digits-en") == 1
            assert post(d, "")[2]["text"] == DIGITS_TEXT


@case
def a_silent_stream_holds_no_model_and_is_told_what_became_of_it(_):
    with tempfile.TemporaryDirectory() as where:
        for name in ("second", "third"):
            copy(where, name)
        with Stenod(f"models.dir={where}", "models.idle_unload=3s") as d:
            with streaming(d, "second") as unloaded, streaming(d, "third") as removed, streaming(d, "") as replaced:
                assert eventually(lambda: metric(d, "steno_model_loaded", "second") + metric(d, "steno_model_loaded", "third") == 0, 20)
                shutil.rmtree(os.path.join(where, "third"))
                d.proc.send_signal(signal.SIGHUP)
                assert eventually(lambda: metric(d, "steno_model_generation", "digits-en") == 2, 30)
                loading = d.metric('steno_sessions_rejected_total{reason="loading"}')
                # replaced: the stream uses the new model
                replaced.send(PCM)
                assert finish(replaced) == DIGITS_TEXT
                # unloaded: it is loaded again meanwhile, and the client is told to come back
                unloaded.send(PCM)
                messages, code, _ = until_closed(unloaded)
                error, = (m for m in messages if m["type"] == "error")
                assert code == 1013 and error["retry_after"] >= 1 and "being loaded" in error["message"], (messages, code)
                assert d.metric('steno_sessions_rejected_total{reason="loading"}') == loading + 1
                with streaming(d, "second") as again:
                    again.send(PCM)
                    assert finish(again) == DIGITS_TEXT
                # removed: there is nothing to come back for
                removed.send(PCM)
                messages, code, _ = until_closed(removed)
                error, = (m for m in messages if m["type"] == "error")
                assert code not in (1000, 1011, 1013) and "'third'" in error["message"], (messages, code)
            assert d.status("/readyz") == 200


@case
def measured_costs_are_kept_for_the_next_start(_):
    with tempfile.TemporaryDirectory() as where:
        cache = os.path.join(where, "cache")

        def capacity():
            with Stenod(f"pool.calibration={cache}", "limits.sessions=100000") as d:
                return metric(d, "steno_stream_capacity", "digits-en")

        def too_slow():
            with Stenod(f"pool.calibration={cache}") as d:
                return [line for line in d.output().splitlines() if "too slow for live use" in line]

        def kept():
            name, = os.listdir(cache)
            with open(os.path.join(cache, name), encoding="utf-8") as f:
                return os.path.join(cache, name), json.load(f)

        def write(path, costs):
            with open(path, "w", encoding="utf-8") as f:
                f.write(costs if isinstance(costs, str) else json.dumps(costs))

        capacity()
        path, costs = kept()
        assert len(costs["step"]) == 6 and costs["step"][0] > 0 and costs["quiet"] in (True, False), costs
        # costs of a machine on which a second of audio takes half a second: the stored costs are used
        slow = {"step": [0.001, None, None, None, None, None], "host": 0.5, "quiet": True}
        write(path, slow)
        assert 1 <= capacity() <= 2 * os.cpu_count()
        assert kept() == (path, slow)  # and were not measured again
        assert not too_slow()
        write(path, {**slow, "host": 4.25})
        line, = too_slow()
        assert "warning: model digits-en is" in line and " 4.3 s of a processor" in line, line
        for useless in ("nonsense", {**slow, "quiet": False}):  # but these costs are measured again
            write(path, useless)
            capacity()
            assert kept()[0] == path and kept()[1] not in (useless, slow)


@case
def no_answer_names_a_path_of_the_server(_):
    with tempfile.TemporaryDirectory(prefix="canary-") as where:
        copy(where, "good")
        for name, file in (("no-network", "encoder.onnx"), ("no-tokens", "tokens.txt"), ("no-conf", "model.conf")):
            copy(where, name)
            with open(os.path.join(where, name, file), "w", encoding="utf-8") as f:
                f.write("garbage")
        with Stenod(f"models.dir={where}", f"model.dir={where}/good") as d:
            told = [d.request("GET", page)[2] for page in ("/", "/v1/models", "/metrics", "/healthz", "/readyz")]
            for name in ("good", "no-network", "no-tokens", "no-conf", "nothing"):
                for query in ("", "&quantized=true", "&beam=99", "&language=xx", "&vad=silero"):
                    path = f"/v1/transcribe?model={name}{query}"
                    assert eventually(lambda p=path: b"being loaded" not in d.request("POST", p, WAV)[2], 20)
                    told.append(d.request("POST", path, WAV)[2])
                for form, end in (("stream", '{"type":"end"}'), ("listen", '{"type":"CloseStream"}')):
                    try:
                        got = converse(f"ws://127.0.0.1:{d.port}/v1/{form}?model={name}&sample_rate={RATE}", [PCM[:4000], end])
                        told.append(repr(got).encode())
                    except InvalidStatus as e:
                        told.append(e.response.body)
            for answer in told:
                assert b"canary-" not in answer, answer
            assert any(b"the server's log says why" in answer for answer in told)
            assert "no-network/encoder.onnx" in d.output()


# ---- files that change under a running server ----

def rewrite(path, how):
    """Files in `path` (or that file) shorter, or with other bytes of the same number; or other files in their names."""
    for f in [path] if os.path.isfile(path) else [os.path.join(path, n) for n in os.listdir(path) if n.endswith((".onnx", ".stenopack"))]:
        size = os.path.getsize(f)
        with open(f + ".new" if how == "rename" else f, "wb" if how == "rename" else "r+b") as out:
            if how == "truncate":
                out.truncate(5000)
            else:
                out.write(os.urandom(size))
        if how == "rename":
            os.replace(f + ".new", f)


def digits(text):
    """Whisper writes them in one way or the other."""
    names = "zero one two three four five six seven eight nine".split()
    return [str(names.index(w)) if w in names else w for w in re.findall(r"[a-z]+|\d", text.lower())]


def half_said(d, text):
    """A stream that has said the recording once and has its text, in the middle of the second time."""
    ws = connect(d.ws + f"?sample_rate={RATE}&interim=false", **OPEN)  # the text is the same however busy the machine is
    ws.send(PCM)
    ws.send('{"type":"finalize"}')
    heard = ""
    while "request" not in heard:
        heard = ws.recv(timeout=60 * SLOW)
    assert digits(json.loads(heard)["text"]) == digits(text), heard
    ws.send(PCM[:len(PCM) // 2])
    return ws


def rest_said(ws, text):
    """Whether the stream failed, which it may only with a reason; else it has the text of the second time, too."""
    with ws:
        with contextlib.suppress(ConnectionClosed):  # the first half may have failed already
            ws.send(PCM[len(PCM) // 2:])
            ws.send('{"type":"end"}')
        messages, code, _ = until_closed(ws)
    error = [m["message"] for m in messages if m["type"] == "error"]
    if code == 1011:
        assert len(error) == 1 and "overwritten while in use" in error[0] and "/" not in error[0], messages
    else:
        assert code == 1000 and not error and digits(said(messages)) == digits(text), (code, messages)
    return code == 1011


def heals(d, path, how, text, model):
    """The text, or an error that says why; after the files are right again and loaded, the text."""
    want = [path] if os.path.isfile(path) else [os.path.join(path, n) for n in os.listdir(path)]
    saved = {f: open(f, "rb").read() for f in want if os.path.isfile(f)}
    live = half_said(d, text)
    rewrite(path, how)
    errors = rest_said(live, text)
    for _ in range(3):
        status, _, body = post(d, "")
        if status != 200:
            errors += 1
            assert status == 500 and "overwritten while in use" in body["error"]["message"] and path not in body["error"]["message"], body
        else:
            assert body["text"] == text, (how, body)
    assert d.proc.poll() is None and d.status("/healthz") == 200
    generation = metric(d, "steno_model_generation", model)
    for f, data in saved.items():
        with open(f + ".new", "wb") as out:
            out.write(data)
        os.replace(f + ".new", f)
    d.proc.send_signal(signal.SIGHUP)
    assert eventually(lambda: metric(d, "steno_model_generation", model) == generation + 1, 60), d.output()[-2000:]
    status, _, body = post(d, "")
    assert status == 200 and body["text"] == text, body
    return errors


def under_a_running_server(model, text, name, changed):
    """changed(directory of the model, of the cache): [(files that change, errors of a stream and three requests by how they do)]."""
    with tempfile.TemporaryDirectory() as where:
        mine, cache = os.path.join(where, name), os.path.join(where, "cache")
        shutil.copytree(model, mine)
        os.mkdir(cache, 0o700)
        os.environ["CACHE_DIRECTORY"] = cache
        try:
            for _ in range(2):  # the second one maps the cache
                with Stenod(f"model.dir={mine}") as d:
                    assert post(d, "")[2]["text"] == text
                    for path, errors in changed(mine, cache) if _ else ():
                        for how, count in errors.items():
                            assert heals(d, path, how, text, name) == count, (path, how, d.output()[-2000:])
        finally:
            del os.environ["CACHE_DIRECTORY"]


@case
def a_model_that_is_overwritten_in_use(_):
    under_a_running_server(MODEL, DIGITS_TEXT, "digits-en", lambda mine, cache: [
        (os.path.join(mine, "encoder.onnx"), {"truncate": 0, "overwrite": 0, "rename": 0}),  # not read again
        (cache, {"truncate": 4, "overwrite": 4, "rename": 0})])


@case
def a_whisper_model_that_is_overwritten_in_use(_):
    tiny = os.environ.get("STENO_WHISPER_TINY_EN") or os.path.join(ROOT, "build", "models", "tiny.en")
    if not os.path.isdir(tiny):
        raise Skip("set STENO_WHISPER_TINY_EN to a faster-whisper directory of tiny.en")
    under_a_running_server(tiny, "Four, two, seven, one, nine, zero, three.", "tiny.en", lambda mine, cache: [
        (os.path.join(mine, "model.bin"), {"truncate": 4, "overwrite": 4, "rename": 0})])


if __name__ == "__main__":
    sys.exit(tap(None))
