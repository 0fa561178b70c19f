"""Clients that need a JDK, Node.js or hundreds of megabytes of packages: LiveKit's and pipecat's speech services, openai's
and Deepgram's packages for Node.js, other versions of Deepgram's for Python, sherpa-onnx's own program, Java's HttpClient. Not part of `make check`: `make check-clients` installs what
they need (tests/clients/setup.sh) and runs this file, and so does STENO_CLIENTS_LARGE=1 in any other run.

The programs are in tests/clients; each prints a line "NAME TEXT" for each of its ways to use the server."""
# not under sanitizers: the clients' own time limits are too short for them
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import wave

import numpy as np

from daemon import DIGITS, DIGITS_TEXT, ROOT, Skip, Stenod, case, client, pcm, tap
from wire import certificate

PROGRAMS = os.path.join(ROOT, "tests", "clients")
PYTHON = os.path.join(ROOT, "build", "venv-clients", "bin", "python")
MORE = os.path.join(ROOT, "build", "venv-clients-more", "bin")
NODE = os.path.join(ROOT, "build", "node-clients")


def run(*command, **env):
    """{name: [text, ...]} of what the program prints."""
    if os.environ.get("STENO_CLIENTS_LARGE") != "1":
        raise Skip("make check-clients runs it (1 GB of packages)")
    clean = {k: v for k, v in os.environ.items() if k not in ("OPENAI_API_KEY", "DEEPGRAM_API_KEY", "OPENAI_BASE_URL")}
    r = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env={**clean, **env}, cwd=ROOT)
    assert r.returncode == 0, (r.returncode, r.stdout[-2000:], r.stderr[-2000:])
    said = {}
    for line in r.stdout.splitlines():
        name, _, text = line.partition(" ")
        said.setdefault(name, []).append(text)
    return said


def each_says_the_digits(said, *names):
    assert said == {n: [DIGITS_TEXT] for n in names}, said


class Relay:
    """A port that passes bytes on to another and counts its connections."""

    def __init__(self, port):
        self.to, self.count = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            t = socket.create_connection(("127.0.0.1", self.to))
            for a, b in ((s, t), (t, s)):
                threading.Thread(target=self.pass_on, args=(a, b), daemon=True).start()

    @staticmethod
    def pass_on(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@case
@client("LiveKit agents: livekit-plugins-deepgram", "uploads, live streams that end by endpointing or utterance_end_ms, Flux turns")
@client("LiveKit agents: livekit-plugins-openai", "uploads, Realtime with the server's turns and with the client's own VAD")
def livekits_plugins_get_the_transcript(d):
    said = run(PYTHON, f"{PROGRAMS}/livekit_stt.py", d.url, DIGITS)
    each_says_the_digits(said, "deepgram-recognize", "deepgram-stream", "deepgram-utterance-end", "deepgram-flux", "openai-recognize",
                         "openai-whisper-1", "openai-realtime", "openai-realtime-whisper")


@case
@client("pipecat: DeepgramSTTService, DeepgramFluxSTTService", "live streams, with its VAD and without; Flux turns", "pipecat-ai")
@client("pipecat: OpenAISTTService, OpenAIRealtimeSTTService", "uploads of segments, logprobs; Realtime with either VAD", "pipecat-ai")
def pipecats_services_get_the_transcript(d):
    said = run(PYTHON, f"{PROGRAMS}/pipecat_stt.py", d.url, DIGITS)
    each_says_the_digits(said, "deepgram", "deepgram-no-vad", "deepgram-flux", "openai", "openai-logprobs", "openai-realtime",
                         "openai-realtime-server-vad")


@case
@client("deepgram-sdk, older", "uploads, live streams with interim results", "deepgram-sdk 3")
@client("deepgram-sdk, newer", "uploads, live streams with interim results and Finalize, Flux turns", "deepgram-sdk 7")
def other_versions_of_deepgrams_client_get_the_transcript(d):
    each_says_the_digits(run(f"{MORE}/python", f"{PROGRAMS}/deepgram_sdk3.py", d.url, DIGITS), "upload", "live")
    each_says_the_digits(run(PYTHON, f"{PROGRAMS}/deepgram_sdk7.py", d.url, DIGITS), "upload", "live", "flux")


@case
@client("sherpa-onnx-online-websocket-client", "live streams at /, without configuration", "sherpa-onnx-bin")
def sherpas_own_program_gets_the_transcript(d):
    if os.environ.get("STENO_CLIENTS_LARGE") != "1":
        raise Skip("make check-clients runs it (1 GB of packages)")
    samples = np.frombuffer(pcm()[0], "<i2").astype(float)
    doubled = np.interp(np.arange(2 * len(samples)) / 2, np.arange(len(samples)), samples)  # the program wants 16 kHz
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        with wave.open(f, "wb") as w:
            w.setnchannels(1)
            w.setsampwidth(2)
            w.setframerate(2 * pcm()[1])
            w.writeframes(doubled.astype("<i2").tobytes())
        f.flush()
        r = subprocess.run([f"{MORE}/sherpa-onnx-online-websocket-client", f"--server-port={d.port}", "--samples-per-message=1600",
                            "--seconds-per-message=0.02", f.name], capture_output=True, text=True, timeout=120, check=False)
    results = [json.loads(m) for m in re.findall(r"OnMessage:\d+ (\{.*\})", r.stderr)]
    assert r.returncode == 0 and len(results) > 3, r
    assert results[-1]["is_eof"] and results[-1]["text"] == DIGITS_TEXT, results[-1]


@case
@client("openai for Node.js", "uploads, uploads with stream: true, Realtime (over TLS: the package knows no other)", "openai")
@client("@deepgram/sdk for Node.js", "uploads, live streams with interim results", "@deepgram/sdk")
def packages_for_node_get_the_transcript(_):
    if os.path.isdir(NODE):  # a program finds the packages beside itself
        shutil.copy(f"{PROGRAMS}/node_clients.mjs", NODE)
    with tempfile.TemporaryDirectory() as folder:
        cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        certificate("test", cert, key)
        with Stenod(f"tls.certificate={cert}", f"tls.key={key}") as d:
            said = run("node", f"{NODE}/node_clients.mjs", d.url, DIGITS, NODE_EXTRA_CA_CERTS=cert)
    each_says_the_digits(said, "openai-upload", "openai-stream", "openai-realtime", "deepgram-upload", "deepgram-live")


@case
@client("Java's java.net.http.HttpClient", "uploads, and WebSockets on their connections; HTTP/1.1, and with its offer of HTTP/2", "OpenJDK 17")
def javas_client_upgrades_used_connections(d):
    for version in ("default", "1.1"):
        relay = Relay(d.port)
        said = run("java", f"{PROGRAMS}/JavaHttpClient.java", f"http://127.0.0.1:{relay.port}", DIGITS, version)
        assert said == {"upload": [DIGITS_TEXT] * 2, "stream": [DIGITS_TEXT] * 2}, said
        # each of two uploads opens a connection, and the WebSocket after it takes that one
        assert relay.count == 2, (version, relay.count)
        relay.listener.close()


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    raise SystemExit(result)
