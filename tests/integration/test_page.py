"""The page at / in Chromium: a recording, the microphone (a recording plays as a fake one), refusals in words, a narrow
and dark window, a path prefix, TLS, a proxy with HTTP/2. Skipped without Chromium. Screenshots: STENO_SCREENSHOTS=DIR. TAP."""
# not under sanitizers: the browser is not ours
import base64
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
import wave

from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, Skip, Stenod, case, client, eventually, pcm, tap, wav

try:
    from websockets.sync.client import connect
except ImportError:
    connect = None
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = os.environ.get("STENO_SCREENSHOTS")
MODEL = os.environ.get("STENO_PAGE_MODEL")  # for a look at another model


class Browser:
    """A headless Chromium with one page, driven by its DevTools protocol."""

    def __init__(self, url, width=900, dark=False, microphone=DIGITS):
        self.url, self.width, self.dark, self.microphone = url, width, dark, microphone

    def __enter__(self):
        if not CHROMIUM or not connect:
            raise Skip("Chromium or the package websockets is not installed")
        self.dir = tempfile.mkdtemp(prefix="steno-page-")
        args = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--mute-audio",
                f"--user-data-dir={self.dir}", "--no-first-run", "--disable-dev-shm-usage", "--ignore-certificate-errors", f"--window-size={self.width},900"]
        if self.microphone:
            args += ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                     f"--use-file-for-fake-audio-capture={self.microphone}"]  # again and again
        env = {**os.environ, "LC_ALL": "C.UTF-8"}  # by which it reads the names of files
        self.proc = subprocess.Popen([*args, "about:blank"], stderr=subprocess.PIPE, text=True, env=env)
        address = next((m[1] for line in self.proc.stderr if (m := re.search(r"listening on (ws://\S+)", line))), None)
        threading.Thread(target=self.proc.stderr.read, daemon=True).start()
        host = re.match(r"ws://([^/]+)/", address)[1]
        c = http.client.HTTPConnection(host, timeout=60)
        c.request("GET", "/json/list")
        page = next(p for p in json.loads(c.getresponse().read()) if p["type"] == "page")
        self.ws = connect(page["webSocketDebuggerUrl"], max_size=1 << 26, open_timeout=60)
        self.n = 0
        self.problems = []
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("DOM.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=900, deviceScaleFactor=1, mobile=self.width < 500)
        if self.dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.call("Page.navigate", url=self.url)
        try:
            self.until("document.readyState === 'complete' && document.querySelectorAll('#examples details').length > 0")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.ws.close()
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def call(self, method, **params):
        self.n += 1
        self.ws.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            m = json.loads(self.ws.recv(timeout=60))
            if m.get("method") == "Runtime.exceptionThrown":
                self.problems.append(m["params"]["exceptionDetails"])
            if m.get("id") == self.n:
                assert "error" not in m, m
                return m["result"]

    def eval(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in r, r
        return r["result"].get("value")

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.eval(expression):
            assert time.monotonic() < end, (expression, self.text(), self.problems)
            time.sleep(0.1)

    def text(self):
        return self.eval("document.body.innerText")

    def state(self):
        return self.eval("document.getElementById('state').textContent")

    def said(self):
        return self.eval("[...document.querySelectorAll('#out .seg p')].map(p => p.textContent).join(' ')")

    def hears_words(self):
        """The microphone plays the digits again and again. Wait until the page shows some of them."""
        if MODEL:
            time.sleep(8)
        else:
            assert eventually(lambda: len(set(words_of(self.said()).split()) & set(DIGITS_TEXT.split())) >= 5, 60), self.said()

    def click(self, what):
        self.eval(f"document.getElementById('{what}').click()")

    def choose(self, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[path])

    def shot(self, name):
        if SHOTS:
            image = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            with open(os.path.join(SHOTS, name + ".png"), "wb") as f:
                f.write(base64.b64decode(image))

    def fits(self):
        wide = self.eval("document.documentElement.scrollWidth")
        assert wide <= self.width, f"{wide} wide in {self.width}"


def server(*settings):
    return Stenod(*settings, args=["--model", MODEL] if MODEL else [])


def words_of(text):
    return " ".join(re.sub(r"[^a-z ]", " ", text.lower()).split())


@case
@client("Chromium", "the page: a recording, SRT, VTT, JSON", "Debian 12's")
def a_recording_gives_segments_and_files():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.choose(DIGITS)
        b.until("!document.getElementById('saves').hidden")
        assert MODEL or b.said() == DIGITS_TEXT, b.said()
        b.shot("recording")
        assert f"http://127.0.0.1:{d.port}/v1/audio/transcriptions" in b.text()
        files = {k: b.eval(f"files.{k}()") for k in ("srt", "vtt", "json", "txt")}
        assert re.match(r"1\n00:00:00,\d{3} --> 00:00:0\d,\d{3}\n", files["srt"]), files["srt"]
        assert re.match(r"WEBVTT\n\n00:00:00\.\d{3} --> 00:00:0\d\.\d{3}\n", files["vtt"]), files["vtt"]
        j = json.loads(files["json"])
        assert j["text"] == files["txt"].strip().replace("\n", " ") and len(j["segments"][0]["words"]) > 3, j
        assert not b.problems, b.problems


@case
@client("Chromium", "the page: microphone, partials, finals", "Debian 12's")
def the_microphone_gives_partials_and_finals():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.click("mic")
        b.until("document.getElementById('state').textContent.startsWith('Listening')")
        if not MODEL:
            b.until("document.querySelector('.seg .unsure') !== null")  # a partial
            b.shot("partial")
        b.hears_words()
        b.click("mic")
        b.until("document.getElementById('mic').textContent === 'Speak' && !document.getElementById('mic').disabled")
        assert MODEL or len(set(words_of(b.said()).split()) & set(DIGITS_TEXT.split())) >= 4, b.said()
        assert not b.problems, b.problems
        b.shot("microphone")


def example_hears(d, recording, words):
    """The JavaScript of docs/protocol.md as it stands, whose microphone is this recording, again and again."""
    with open(os.path.join(ROOT, "docs", "protocol.md"), encoding="utf-8") as f:
        js = re.search(r"```js\n(.*?)```", f.read(), re.S)[1]
    assert "127.0.0.1:8080" in js
    with Browser(d.url, microphone=recording) as b:
        b.eval("window.said = []; console.log = (...what) => said.push(what)")
        b.eval(js.replace("127.0.0.1:8080", f"127.0.0.1:{d.port}") + "; ws.onclose = e => { window.overWith = e.code; }; 0")
        b.until(f"{json.dumps(words)}.filter(w => said.some(([type, text]) => text.includes(w))).length >= 5", 600)
        b.eval("ws.onmessage = (old => e => { last = JSON.parse(e.data).type; old(e); })(ws.onmessage), window.last = '', "
               "ws.send('{\"type\":\"end\"}'), ws.send = () => {}, 0")  # no audio after the end
        b.until("window.overWith", 600)
        said, over = b.eval("said"), b.eval("[overWith, last]")
        assert over == [1000, "end"] and any(kind == "final" and text for kind, text in said) and not b.problems, (over, said, b.problems)


@case
@client("Chromium", "the JavaScript example of docs/protocol.md", "Debian 12's")
def the_protocols_example_hears_the_microphone():
    with Stenod() as d:
        example_hears(d, DIGITS, DIGITS_TEXT.split())


@case
def the_protocols_example_hears_speech_with_whisper():
    tiny = os.environ.get("STENO_WHISPER_TINY_EN", "")
    if not os.path.isdir(tiny):
        raise Skip("needs tiny.en: STENO_WHISPER_TINY_EN")
    with Stenod("model.dir=" + tiny) as d:
        example_hears(d, os.path.join(ROOT, "tests/data/speech/jfk.wav"), ["fellow", "Americans", "ask", "what", "your", "country", "do for you"])


@case
def a_recording_plays_from_a_word_and_its_words_light_up():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.choose(DIGITS)
        b.until("!player.hidden && player.readyState > 0")
        words = b.eval("[...document.querySelectorAll('#out [data-end]')].map(w => [w.textContent, +w.dataset.start, +w.dataset.end])")
        assert MODEL or " ".join(w[0] for w in words) == DIGITS_TEXT, words
        b.eval("document.querySelectorAll('#out [data-end]')[3].click()")
        b.until("document.querySelector('.now') !== null && !player.paused")
        assert b.eval("player.currentTime") >= words[3][1], words
        b.eval("player.pause(), player.currentTime = %f, 0" % ((words[1][1] + words[1][2]) / 2))
        b.until("document.querySelector('.now') && document.querySelector('.now').textContent === %s" % json.dumps(words[1][0]))
        b.shot("playback")
        b.click("clear")
        assert b.eval("player.hidden && !document.querySelector('.now')")
        with tempfile.NamedTemporaryFile(suffix=".au") as f:  # browsers play none
            with wave.open(DIGITS) as w:
                pcm = w.readframes(w.getnframes())
                f.write(struct.pack(">4s5I", b".snd", 24, 0xFFFFFFFF, 3, w.getframerate(), 1) + b"".join(pcm[i + 1:i + 2] + pcm[i:i + 1] for i in range(0, len(pcm), 2)))
            f.flush()
            b.choose(f.name)
            b.until("!document.getElementById('saves').hidden")
            b.until("player.hidden && document.querySelector('.seg button').disabled")
        assert not b.problems, b.problems


@case
def the_microphone_is_chosen_played_and_said_once():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.click("mic")
        b.until("document.getElementById('state').textContent.startsWith('Listening')")
        b.until("micros.options.length > 1 && !micros.hidden")
        b.hears_words()
        assert b.eval("showLag(2), lag.hidden")  # at once: the next block of the microphone says how it is
        assert b.eval("showLag(7.4), lag.hidden ? '' : lag.textContent") == "behind by 7 s"
        b.shot("behind")
        b.click("mic")
        b.until("document.getElementById('mic').textContent === 'Speak' && !document.getElementById('mic').disabled")
        assert b.eval("lag.hidden")
        b.until("!player.hidden && player.duration > 3")
        # a screen reader is told each final once, and no partial: nothing above the log is live
        finals = b.eval("segments.map(s => s.text)")
        assert b.eval("[...heard.children].map(p => p.textContent)") == finals and finals, finals
        assert b.eval("out.closest('[aria-live],[role]') === null && heard.getAttribute('role') === 'log'")
        b.eval("micros.selectedIndex = 1")
        chosen = b.eval("micros.value")
        b.eval("window.asked = null; { const get = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);"
               "navigator.mediaDevices.getUserMedia = c => { asked = c; return get(c); }; }")
        b.click("mic")
        b.until("document.getElementById('state').textContent.startsWith('Listening')")
        assert b.eval("asked.audio.deviceId.exact") == chosen
        b.click("mic")
        b.until("document.getElementById('mic').textContent === 'Speak' && !document.getElementById('mic').disabled")
        assert not b.problems, b.problems


@case
def settings_reach_the_server():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.eval("document.getElementById('settings').open = true, vad.value = 'energy', 0")
        b.choose(DIGITS)
        b.until("!document.getElementById('saves').hidden")
        b.shot("settings")
        b.eval("temperature.value = '0.4', document.getElementById('prompt').value = 'names', hotwords.value = 'Katie', 0")
        assert b.eval("settings()") == {"prompt": "names", "hotwords": "Katie", "temperature": "0.4", "vad": "energy"}
        if not MODEL:  # digits-en takes no prompt, and live the server says so
            b.click("mic")
            b.until("document.getElementById('state').className === 'bad'")
            assert "prompt" in b.state(), b.state()
        assert not b.problems, b.problems


@case
def speakers_have_names_that_can_be_changed_before_saving():
    import numpy as np
    import toy_speakers
    with tempfile.TemporaryDirectory() as folder:
        samples, rate = pcm()
        path = os.path.join(folder, "dialogue.wav")
        with open(path, "wb") as f:
            f.write(wav(toy_speakers.dialogue(np.frombuffer(samples, "<i2"), rate, (0, 1, 0)).tobytes(), toy_speakers.RATE))
        toy_speakers.write(folder)
        with server("speakers.model=" + folder) as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
            b.until("document.querySelectorAll('#model option').length > 0")
            b.eval("document.getElementById('speakers').value = 'auto', 0")
            b.choose(path)
            b.until("document.querySelectorAll('#names input').length === 2")
            b.eval("{const i = document.querySelectorAll('#names input')[1]; i.value = 'Ann'; i.dispatchEvent(new Event('input'))}")
            assert b.eval("[...new Set([...document.querySelectorAll('#out .who')].map(e => e.textContent))].join()") == "Speaker A,Ann"
            b.shot("speakers")
            assert "\nAnn: " in b.eval("files.txt()") and "<v Ann>" in b.eval("files.vtt()"), b.text()
            assert not b.problems, b.problems
        one = os.path.join(folder, "one.wav")
        with open(one, "wb") as f:
            f.write(wav(toy_speakers.dialogue(np.frombuffer(samples, "<i2"), rate, (1,)).tobytes(), toy_speakers.RATE))
        people = ["--enrolled", os.path.join(folder, "people", "open")]
        subprocess.run([os.path.join(BUILD, "steno"), "speaker", "enroll", "--model", folder, *people, "Zoë", one], capture_output=True, check=True)
        os.chmod(os.path.join(folder, "people"), 0o700)
        with server("speakers.model=" + folder, f"speakers.store={folder}/people") as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
            b.until("document.querySelectorAll('#model option').length > 0")
            b.eval("document.getElementById('speakers').value = 'auto', 0")
            b.choose(path)
            b.until("document.querySelectorAll('#names input').length === 2")
            shown = b.eval("[...document.querySelectorAll('#names input')].map(e => e.value).join()")
            assert shown == "Speaker A,Zoë", shown


@case
def languages_of_models_that_are_not_loaded_are_offered():
    base = os.environ.get("STENO_WHISPER_BASE")
    if not base:
        raise Skip("STENO_WHISPER_BASE names no weights of base")
    with tempfile.TemporaryDirectory() as dir_:
        os.symlink(os.path.realpath(base), os.path.join(dir_, "base"))
        with server(f"models.dir={dir_}") as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
            b.until("document.querySelectorAll('#model option').length > 1")
            b.eval("model_ = document.getElementById('model'), model_.value = 'base', model_.onchange(), 0")
            offered = b.eval("[...lang.options].map(o => o.value)")
            assert len(offered) == 100 and {"", "en", "de", "zh"} <= set(offered) and not b.eval("lang.disabled"), offered
            assert not b.eval("document.getElementById('to').hidden")  # it translates
            b.shot("languages")


@case
def texts_are_copied():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.eval("window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => { copied.push(t); }}})")
        b.choose(DIGITS)
        b.until("!document.getElementById('saves').hidden")
        b.click("copy")
        b.eval("document.querySelector('#examples .copy').click()")
        b.until("copied.length === 2")
        assert b.eval("copied[0]") == b.eval("files.txt()") and b.eval("copied[1]").startswith("curl "), b.eval("copied")
        # a page without TLS has no clipboard
        b.eval("Object.defineProperty(document, 'execCommand', {value: c => { copied.push(c + getSelection()); return true; }});"
               "navigator.clipboard.writeText = () => { throw new Error(); }")
        b.click("copy")
        b.until("copied.length === 3 && state.textContent === 'Copied.'")


@case
def refusals_are_said_in_words():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("[someone]\nkey = secret-key-of-the-page\n")
        keys.flush()
        os.chmod(keys.name, 0o600)
        with server(f"auth.keys={keys.name}") as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
            b.choose(DIGITS)
            b.until("document.getElementById('state').textContent.includes('wants an API key') && !document.getElementById('keys').hidden")
            b.shot("no-key")
            b.eval("key.value = 'secret-key-of-the-page'; key.onchange()")
            b.until("document.querySelectorAll('#model option').length > 0")
            b.choose(DIGITS)
            b.until("!document.getElementById('saves').hidden")
            b.click("mic")
            b.until("document.getElementById('state').textContent.startsWith('Listening')")
            b.click("mic")
            b.until("document.getElementById('mic').textContent === 'Speak'")
            assert "secret-key" not in d.output()
            assert all("YOUR_KEY" in t for k, t in snippets(b).items() if "curl" in k or "Python" in k), snippets(b)
            assert "secret-key" not in b.text()
            b.call("Page.reload")  # the browser remembers the key
            b.until("document.querySelectorAll('#model option').length > 0 && document.getElementById('key').value !== ''")
            with tempfile.NamedTemporaryFile(suffix=".wav") as bad:
                bad.write(b"this is no recording")
                bad.flush()
                b.choose(bad.name)
                b.until("document.getElementById('state').className === 'bad'")
                assert "file" in b.state() or "audio" in b.state(), b.state()


@case
def a_narrow_dark_window_shows_everything():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/", width=375, dark=True) as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.choose(DIGITS)
        b.until("!document.getElementById('saves').hidden")
        b.fits()
        dark = b.eval("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", dark))) < 80, dark
        b.shot("narrow-dark")


def snippets(b):
    return b.eval("Object.fromEntries([...document.querySelectorAll('#examples details')].map(d => "
                  "[d.querySelector('summary').textContent, d.querySelector('pre').textContent]))")


@case
def the_examples_of_every_dialect_work():
    with tempfile.TemporaryDirectory() as dir_, server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        shutil.copy(DIGITS, os.path.join(dir_, "recording.wav"))
        shown = snippets(b)
        assert {t.split(":")[0].split(",")[0] for t in shown} == {
            "curl", "OpenAI", "OpenAI Realtime", "Our own dialect", "Deepgram", "Deepgram’s turns (Flux)", "vosk", "sherpa-onnx", "WeNet",
            "whisper.cpp", "whisper-asr-webservice", "Home Assistant (Wyoming)"}, shown
        for title, text in shown.items():
            command = [sys.executable, "-c", text] if "Python" in title else ["sh", "-ec", text] if "curl" in title else None
            if not command:
                assert "127.0.0.1" in text, (title, text)
                continue
            r = subprocess.run(command, cwd=dir_, capture_output=True, text=True, timeout=120, check=False)
            assert r.returncode == 0 and DIGITS_TEXT in r.stdout.replace("\n", " "), (title, text, r)
        b.eval("document.querySelectorAll('#examples details').forEach(d => d.open = true)")
        b.shot("examples")
        assert "YOUR_KEY" not in b.text() and b.eval("keys.hidden")  # no key is needed


@case
def only_the_pages_own_code_runs_and_no_frame_shows_it():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        head = d.request("GET", "/")[1]
        policy = dict(p.split(" ", 1) for p in head["content-security-policy"].split("; "))
        assert head["x-frame-options"] == "DENY" and head["referrer-policy"] == "no-referrer", head
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'" and policy["connect-src"] == "'self'", policy
        assert "unsafe" not in head["content-security-policy"] and re.fullmatch(r"blob:( 'sha256-[\w+/]{43}=')+", policy["script-src"]), policy
        b.eval("{ const s = document.createElement('script'); s.textContent = 'window.foreign = 1'; document.body.append(s); }")
        assert b.eval("window.foreign === undefined")
        assert b.eval("fetch('v1/models').then(r => r.status)") == 200
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            asked = f"fetch('http://127.0.0.1:{other.server_port}/', {{mode: 'no-cors'}}).then(() => 'sent', () => 'refused')"
            assert b.eval(asked) == "refused"
            other.shutdown()


@case
def a_full_server_is_said_in_words():
    with server("limits.sessions=1", "limits.uploads=1") as d, Browser(f"http://127.0.0.1:{d.port}/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        with connect(d.ws + "?sample_rate=8000"), socket.create_connection(("127.0.0.1", d.port)) as other:
            other.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            assert eventually(lambda: d.metric('steno_sessions_active{api="transcribe"}') == 1)
            b.choose(DIGITS)
            b.until("document.getElementById('state').className === 'bad'")
            assert "cannot take it now" in b.state(), b.state()
            b.click("mic")
            b.until("document.getElementById('state').textContent.includes('it is full')")
            b.shot("full")
        b.until("document.getElementById('state').textContent.startsWith('Listening')")  # there is room again
        b.click("mic")
        b.until("document.getElementById('mic').textContent === 'Speak' && !document.getElementById('mic').disabled")


class Prefix(http.server.BaseHTTPRequestHandler):
    """/some/where/X is /X of the server, for HTTP without upgrades."""

    def log_message(self, *_):
        pass

    def pass_on(self):
        if not self.path.startswith("/some/where/"):
            return self.send_error(404)
        c = http.client.HTTPConnection("127.0.0.1", self.server.to, timeout=60)
        n = int(self.headers.get("Content-Length") or 0)
        c.request(self.command, self.path[len("/some/where"):], self.rfile.read(n) if n else None,
                  {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")})
        r = c.getresponse()
        body = r.read()
        self.send_response(r.status)
        self.send_header("Content-Type", r.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    do_GET = do_POST = pass_on


@contextlib.contextmanager
def proxy(port):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Prefix) as s:
        s.daemon_threads = True
        s.to = port
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield s.server_address[1]
        s.shutdown()


@case
@client("Chromium", "the page below a path prefix", "Debian 12's")
def a_path_prefix_changes_nothing():
    with server() as d, proxy(d.port) as p, Browser(f"http://127.0.0.1:{p}/some/where/") as b:
        b.until("document.querySelectorAll('#model option').length > 0")
        b.choose(DIGITS)
        b.until("!document.getElementById('saves').hidden")
        assert f"http://127.0.0.1:{p}/some/where/v1/audio/transcriptions" in b.text()
        assert b.eval("wsBase") == f"ws://127.0.0.1:{p}/some/where/"
        b.shot("prefix")


def certificate(dir_):
    """Paths of a self-signed certificate and its key."""
    paths = [os.path.join(dir_, name) for name in ("cert.pem", "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-out", paths[0], "-keyout", paths[1]], check=True, stderr=subprocess.DEVNULL)
    return paths


def speaks_and_uploads(b, origin):
    """A recording and the microphone work under this origin, with the protocols that belong to it."""
    b.until("document.querySelectorAll('#model option').length > 0")
    b.choose(DIGITS)
    b.until("!document.getElementById('saves').hidden")
    assert MODEL or b.said() == DIGITS_TEXT, b.said()
    assert f"https://{origin}/v1/audio/transcriptions" in b.text() and b.eval("wsBase") == f"wss://{origin}/"
    b.click("mic")
    b.until("document.getElementById('state').textContent.startsWith('Listening')")
    b.hears_words()
    b.click("mic")
    b.until("document.getElementById('mic').textContent === 'Speak' && !document.getElementById('mic').disabled")
    assert MODEL or len(set(words_of(b.said()).split()) & set(DIGITS_TEXT.split())) >= 4, b.said()
    assert not b.problems, b.problems


@case
@client("Chromium", "the page over TLS: recording and microphone", "Debian 12's")
def tls_changes_nothing():
    with tempfile.TemporaryDirectory() as dir_:
        cert, key = certificate(dir_)
        with server(f"tls.certificate={cert}", f"tls.key={key}") as d, Browser(f"https://127.0.0.1:{d.port}/") as b:
            speaks_and_uploads(b, f"127.0.0.1:{d.port}")
            b.shot("tls")


@contextlib.contextmanager
def http2_proxy(port, dir_):
    """nginx with TLS and HTTP/2 before the server, which keeps connections to it."""
    cert, key = certificate(dir_)
    with socketserver.TCPServer(("127.0.0.1", 0), None) as free:
        own = free.server_address[1]
    conf = os.path.join(dir_, "nginx.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"""daemon off; pid "{dir_}/pid"; error_log "{dir_}/error.log"; worker_processes 1;
events {{}}
http {{
  access_log off; client_body_temp_path "{dir_}/body"; proxy_temp_path "{dir_}/proxy"; fastcgi_temp_path "{dir_}/f";
  uwsgi_temp_path "{dir_}/u"; scgi_temp_path "{dir_}/s";
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream steno {{ server 127.0.0.1:{port}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{own} ssl http2; ssl_certificate "{cert}"; ssl_certificate_key "{key}"; client_max_body_size 100m;
    location / {{
      proxy_pass http://steno; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_request_buffering off;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
    }}
  }}
}}
""")
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.access(nginx, os.X_OK):
        raise Skip("nginx is not installed")
    proc = subprocess.Popen([nginx, "-c", conf, "-e", f"{dir_}/error.log"])
    try:
        yield own
    finally:
        proc.terminate()
        proc.wait()


@case
@client("Chromium through nginx", "the page with TLS and HTTP/2, kept connections", "Debian 12's")
def a_proxy_with_http2_changes_nothing():
    with tempfile.TemporaryDirectory() as dir_, server() as d, http2_proxy(d.port, dir_) as p:
        with Browser(f"https://127.0.0.1:{p}/") as b:
            assert b.eval("performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
            speaks_and_uploads(b, f"127.0.0.1:{p}")
            b.shot("http2")


@case
def without_a_microphone_the_page_says_why():
    with server() as d, Browser(f"http://127.0.0.1:{d.port}/", microphone=None) as b:
        b.click("mic")
        b.until("document.getElementById('state').className === 'bad'")
        assert "microphone" in b.state(), b.state()
        b.eval("Object.defineProperty(navigator, 'mediaDevices', {value: undefined})")
        b.click("mic")
        b.until("document.getElementById('state').textContent.includes('https')")


class OtherPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<div id=examples><details></details></div>")

    def log_message(self, *_):
        pass


@case
def pages_of_others_may_not_use_a_server_without_keys():
    with tempfile.TemporaryDirectory() as jobs, Stenod(f"jobs.dir={jobs}") as d, \
            http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opens = f"""new Promise(ok => {{ const w = new WebSocket('ws://127.0.0.1:{d.port}/v1/stream');
            w.onopen = () => {{ w.close(); ok('open'); }}; w.onerror = () => ok('refused'); }})"""
        posts = f"fetch('{d.url}/v1/jobs', {{method: 'POST', mode: 'no-cors', body: new Blob(['x'.repeat(9999)])}}).then(r => r.type)"
        before = d.get("/v1/jobs")[2]
        with Browser(f"http://localhost:{server.server_address[1]}") as b:
            assert b.eval(opens) == "refused" and b.eval(posts) == "opaque"
        with Browser(d.url) as b:
            assert b.eval(opens) == "open"
        assert d.get("/v1/jobs")[2] == before
        server.shutdown()


if __name__ == "__main__":
    sys.exit(tap())
