"""Names of models in requests: fetched models, names that clients send by default, model.strict. The "fetched" models
are copies of the one that hears tones. TAP."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from websockets.sync.client import connect

import toy_speakers
from daemon import BUILD, OPEN, ROOT, Skip, Stenod, case, eventually, tap

TONES = os.path.join(ROOT, "tests", "data", "models", "tones")
with open(os.path.join(ROOT, "tests", "data", "digits.wav"), "rb") as _f:
    WAV = _f.read()


class Fetched:
    """A data directory with models of these names."""

    def __init__(self, *names):
        self.names = names

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="steno-data-")
        self.before = os.environ.get("STENO_DATA")
        for name in self.names:
            to = os.path.join(self.dir, "models", name)
            shutil.copytree(TONES, to)
            conf = os.path.join(to, "model.conf")
            with open(conf, encoding="utf-8") as f:
                text = f.read()
            with open(conf, "w", encoding="utf-8") as f:
                f.write(text.replace("name = tones", f"name = {name}"))
        os.environ["STENO_DATA"] = self.dir
        return self

    def __exit__(self, *_):
        os.environ["STENO_DATA"] = self.before
        shutil.rmtree(self.dir)


def upload(d, model):
    parts = [f'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + WAV + b"\r\n"]
    parts.append(f'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n--b--\r\n'.encode())
    status, headers, body = d.request("POST", "/v1/audio/transcriptions", b"".join(parts),
                                      {"Content-Type": "multipart/form-data; boundary=b"})
    return status, {k.lower(): v for k, v in dict(headers).items()}.get("x-steno-model"), json.loads(body)


@case
def the_default_is_the_fetched_model_and_all_fetched_ones_have_names():
    with Fetched("tiny.en", "base", ".half.new") as f, Stenod() as d:
        assert [m["id"] for m in json.loads(d.get("/v1/models")[2])["data"]] == ["base", "tiny.en"], d.output()
        assert upload(d, "base")[:2] == (200, "base")
        assert eventually(lambda: upload(d, "tiny.en")[:2] == (200, "tiny.en"))  # 503 while it is loaded
        assert upload(d, "Systran/faster-whisper-tiny.en")[:2] == (200, "tiny.en")
        assert upload(d, "openai/whisper-tiny.en")[:2] == (200, "tiny.en")
        assert json.loads(d.get("/v1/models/whisper-tiny.en")[2])["id"] == "tiny.en"
        assert f.dir in d.output()


@case
def networks_that_tell_speakers_apart_are_fetched_and_no_model():
    with Fetched() as f:
        toy_speakers.write(os.path.join(f.dir, "models", "speakers"))
        with Stenod() as d:
            assert [m["id"] for m in json.loads(d.get("/v1/models")[2])["data"]] == ["digits-en"], d.output()
        for command, says in (("speakers", ""), ("transcribe --model speakers", "these networks tell speakers apart and are no model")):
            r = subprocess.run([os.path.join(BUILD, "steno"), *command.split(), "tests/data/digits.wav"], cwd=ROOT, capture_output=True,
                               text=True, check=False)
            assert bool(r.returncode) == bool(says) and says in r.stderr, r


@case
def names_of_clients_mean_the_default_and_the_log_says_so_once():
    with Stenod() as d:
        for name in ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe-2025-12-15", "nova-3", "nova-2-phonecall",
                     "Systran/faster-whisper-large-v3", "openai/whisper-base", "large-v3-turbo", "tiny.en", "whisper-1"):
            assert upload(d, name)[:2] == (200, "digits-en"), name
        parts = b'--b\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n' \
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + WAV + b"\r\n--b--\r\n"
        _, headers, _ = d.request("POST", "/v1/audio/transcriptions", parts, {"Content-Type": "multipart/form-data; boundary=b"})
        assert headers["content-type"] == "text/event-stream" and headers["x-steno-model"] == "digits-en", headers
        assert len(re.findall("requests for the model 'whisper-1' are served by digits-en", d.output())) == 1
        base = f"ws://127.0.0.1:{d.port}"
        for path in ("/v1/listen?model=nova-2-general", "/v1/realtime?model=gpt-realtime", "/v1/stream?model=digits-en"):
            with connect(base + path, **OPEN) as ws:
                assert ws.response.headers["X-Steno-Model"] == "digits-en", path
        with connect(base + "/v1/stream?model=none", **OPEN) as ws, connect(base + "/v1/stream", **OPEN) as bare:
            assert "X-Steno-Model" not in ws.response.headers and "X-Steno-Model" not in bare.response.headers
        assert "requests for the model 'nova-2-general' are served by digits-en" in d.output()
        status, _, body = upload(d, "my-model")
        assert status == 404 and body["error"]["code"] == "model_not_found", body


@case
def strict_refuses_names_that_no_model_has():
    with Stenod("model.strict=yes", "model.aliases=mine, other") as d:
        for name in ("whisper-1", "Systran/faster-whisper-base", "base"):
            status, _, body = upload(d, name)
            assert status == 404 and "does not exist; known: 'digits-en'" in body["error"]["message"], (name, body)
        for name in ("mine", "other", "digits-en", ""):
            assert upload(d, name)[:2] == (200, "digits-en"), name


@case
def a_configured_model_is_served_alone():
    with Fetched("tiny.en", "base"), Stenod(args=["--model", "tiny.en"]) as d:
        assert [m["id"] for m in json.loads(d.get("/v1/models")[2])["data"]] == ["tiny.en"]
        assert upload(d, "base")[:2] == (200, "tiny.en")


# Defaults of clients that are not installed here, by the sources of their packages.
DEFAULTS = {"livekit-plugins-openai 1.8.9": ("gpt-4o-mini-transcribe", "whisper-large-v3-turbo", "gpt-live-transcribe", "gpt-realtime-whisper"),
            "livekit-plugins-deepgram 1.8.9": ("nova-3", "flux-general-en", "flux-general-multi", "nova-2-conversationalai"),
            "faster-whisper 1.2": ("large-v3", "Systran/faster-whisper-large-v3", "distil-large-v3"),
            "transformers 4": ("openai/whisper-large-v3", "openai/whisper-large-v3-turbo")}
SOURCES = {"openai": ("types/audio_model.py", "types/realtime/audio_transcription.py", "types/realtime/realtime_session_create_request.py"),
           "deepgram": ("types/listen_v1model.py", "types/listen_v2model.py")}


@case
def names_in_the_installed_clients_reach_the_default_model():
    names = {name: client for client, list_ in DEFAULTS.items() for name in list_}
    for package, files in SOURCES.items():
        spec = importlib.util.find_spec(package)
        if not spec:
            raise Skip(f"{package} is not installed")
        for file in files:
            with open(os.path.join(os.path.dirname(spec.origin), file), encoding="utf-8") as f:
                found = re.findall(r'(?:^ +|Literal\[)"([a-z0-9][a-z0-9.-]+)"[],]', f.read(), re.M)
            if package == "openai":  # its files list other things too
                found = [n for n in found if n.startswith(("gpt-", "whisper"))]
            assert found, (package, file)
            names.update((n, f"{package}: {file}") for n in found)
    assert len(names) > 40, names
    with Stenod() as d:
        missing = {n: c for n, c in names.items() if d.get("/v1/models/" + n)[0] != 200}
        assert not missing, missing
        assert upload(d, "gpt-realtime-whisper")[:2] == (200, "digits-en")
        assert "requests for the model 'gpt-realtime-whisper' are served by digits-en" in d.output()
    with Stenod("model.strict=yes") as d:
        assert upload(d, "gpt-realtime-whisper")[0] == 404


if __name__ == "__main__":
    sys.exit(tap())
