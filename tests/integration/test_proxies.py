"""The examples of docs/proxy.md behind nginx, haproxy and Caddy: uploads, streams and events over HTTP/1.1 and 2, reused
connections, client addresses, path prefixes. A proxy that is not installed is skipped."""
# not under sanitizers: what it tests of the server is in test_connections, test_tls and test_forwarded
import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

import aiohttp

from daemon import DIGITS, DIGITS_TEXT, ROOT, SLOW, Skip, Stenod, case, eventually, tap
from wire import END, PCM, START, WAV, text_of

DIR = tempfile.TemporaryDirectory(prefix="steno-proxy-")
CERT, KEY, BOTH = (os.path.join(DIR.name, n) for n in ("cert.pem", "key.pem", "both.pem"))
HOSTS = ("stt.example.org", "www.example.org")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def certificate():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=test", "-addext", "subjectAltName=" + ",".join("DNS:" + h for h in HOSTS),
                    "-keyout", KEY, "-out", CERT], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(BOTH, "w", encoding="utf-8") as out:
        for name in (CERT, KEY):
            with open(name, encoding="ascii") as f:
                out.write(f.read())


certificate()


def example(language, n=0):
    """The nth block of that language in docs/proxy.md."""
    with open(os.path.join(ROOT, "docs", "proxy.md"), encoding="utf-8") as f:
        return re.findall(rf"```{language}\n(.*?)```", f.read(), re.S)[n]


def replaced(text, pairs):
    for old, new in pairs:
        assert old in text, f"docs/proxy.md has no '{old}' any more"
        text = text.replace(old, new)
    return text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def proxy(name, config, args, port):
    """Run the program with the configuration until the block ends. args: its command line, with {} for the file."""
    exe = shutil.which(name, path=PATH)
    if not exe:
        raise Skip(f"{name} is not installed")
    with tempfile.TemporaryDirectory(prefix=f"steno-{name}-") as t:
        path = os.path.join(t, "config")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config.replace("@DIR@", t))
        with open(os.path.join(t, "log"), "w+", encoding="utf-8") as log:
            env = {**os.environ, "HOME": t, "XDG_DATA_HOME": t, "XDG_CONFIG_HOME": t}
            p = subprocess.Popen([exe, *(a.format(path) for a in args)], stdout=log, stderr=log, env=env)
            try:
                def up():
                    assert p.poll() is None, open(log.name, encoding="utf-8").read()
                    with socket.socket() as s:
                        return s.connect_ex(("127.0.0.1", port)) == 0
                assert eventually(up)
                yield
            except BaseException:
                with open(log.name, encoding="utf-8") as f:
                    print("# " + f.read()[-3000:].replace("\n", "\n# "))
                raise
            finally:
                p.send_signal(signal.SIGTERM)
                p.wait(30 * SLOW)


@contextlib.contextmanager
def nginx(d, port, where="location / {"):
    config = replaced(example("nginx"), [("127.0.0.1:8080", f"127.0.0.1:{d.port}"), ("listen 443 ssl http2", f"listen 127.0.0.1:{port} ssl http2"),
                                         ("/etc/ssl/stt/fullchain.pem", f'"{CERT}"'), ("/etc/ssl/stt/privkey.pem", f'"{KEY}"'), ("location / {", where)])
    temps = "".join(f'{k}_temp_path "@DIR@/{k}";\n' for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with proxy("nginx", f"daemon off;\npid \"@DIR@/pid\";\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temps}{config}}}\n",
               ["-c", "{}", "-e", "stderr"], port):
        yield


@contextlib.contextmanager
def haproxy(d, port):
    config = replaced(example("haproxy"), [("127.0.0.1:8080", f"127.0.0.1:{d.port}"),
                                           ("bind :443 ssl crt /etc/haproxy/stt.pem", f"bind 127.0.0.1:{port} ssl crt '{BOTH}'")])
    with proxy("haproxy", config, ["-db", "-f", "{}"], port):
        yield


@contextlib.contextmanager
def haproxy_tcp(d, port):
    config = replaced(example("haproxy", 1), [("127.0.0.1:8080", f"127.0.0.1:{d.port}"), ("bind :443", f"bind 127.0.0.1:{port}")])
    with proxy("haproxy", config, ["-db", "-f", "{}"], port):
        yield


@contextlib.contextmanager
def caddy(d, port, n=0):
    host = HOSTS[n]
    config = replaced(example("caddy", n), [("127.0.0.1:8080", f"127.0.0.1:{d.port}"), (f"{host} {{", f"https://{host}:{port} {{\ntls `{CERT}` `{KEY}`")])
    with proxy("caddy", "{\nadmin off\nauto_https disable_redirects\n}\n" + config, ["run", "--config", "{}", "--adapter", "caddyfile"], port):
        yield


def curl(host, port, path, *args):
    r = subprocess.run(["curl", "-sS", "--cacert", CERT, "--resolve", f"{host}:{port}:127.0.0.1", "--max-time", "60", *args,
                        f"https://{host}:{port}{path}"], capture_output=True, text=True)
    assert r.returncode == 0, r
    return r.stdout


class Local(aiohttp.abc.AbstractResolver):
    """Every name is this machine."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    async def close(self):
        pass


async def use(host, port, prefix, rounds=3):
    """A client that reuses its connections: pages, uploads, events, streams."""
    url = f"https://{host}:{port}{prefix}"
    connector = aiohttp.TCPConnector(limit=1, ssl=ssl.create_default_context(cafile=CERT), resolver=Local())
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(rounds):
            async with session.get(url + "/v1/models") as r:
                assert r.status == 200 and (await r.json())["data"], r
            async with session.post(url + "/v1/transcribe?format=text", data=WAV) as r:
                text = await r.text()
                assert text.strip() == DIGITS_TEXT, (r.status, text)
            form = aiohttp.FormData({"model": "digits-en", "stream": "true"})
            form.add_field("file", WAV, filename="digits.wav")
            async with session.post(url + "/v1/audio/transcriptions", data=form) as r:
                text = await r.text()
                assert r.status == 200 and DIGITS_TEXT in text.split("transcript.text.done")[-1], (r.status, text)
            async with session.ws_connect(url + "/v1/stream") as ws:
                await ws.send_str(START)
                await ws.send_bytes(PCM)
                await ws.send_str(END)
                messages = [json.loads(m.data) async for m in ws if m.type == aiohttp.WSMsgType.TEXT]
            assert text_of(messages) == DIGITS_TEXT, messages


def exercise(d, host, port, prefix="", http2=True):
    """Several clients at once, so that the proxy's connections serve requests and upgrades of all of them."""
    if http2:
        version = curl(host, port, prefix + "/v1/transcribe?format=text", "--data-binary", "@" + DIGITS, "-w", "%{http_version}")
        assert version.split("\n") == [DIGITS_TEXT, "2"], version
    assert "<html" in curl(host, port, prefix + "/")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(asyncio.run, use(host, port, prefix)) for _ in range(4)]:
            done.result()
    d.wait_idle()


TRUSTED = ("log.level=debug", "server.trusted_proxies=127.0.0.1")


@case
def nginx_with_keepalive():
    port = free_port()
    with Stenod(*TRUSTED) as d, nginx(d, port):
        exercise(d, HOSTS[0], port)
        assert "handshake refused" not in d.output()


@case
def nginx_below_a_path():
    port = free_port()
    with Stenod(*TRUSTED, "server.path_prefix=/stt") as d, nginx(d, port, "location /stt/ {"):
        exercise(d, HOSTS[0], port, "/stt")


@case
def haproxy_reuses_connections():
    port = free_port()
    with Stenod(*TRUSTED) as d, haproxy(d, port):
        exercise(d, HOSTS[0], port)
        assert "handshake refused" not in d.output()
        # its header line comes after the client's, which is not believed
        curl(HOSTS[0], port, "/healthz", "-H", "X-Request-Id: forwarded-2", "-H", "X-Forwarded-For: 6.6.6.6")
        assert eventually(lambda: "[forwarded-2]" in d.output())
        line = next(x for x in d.output().splitlines() if "[forwarded-2]" in x)
        assert "127.0.0.1:0 GET" in line, line


@case
def haproxy_passes_tls_with_a_proxy_header():
    port = free_port()
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "direct")
        # the unix socket is for the test itself: connections of 127.0.0.1 must bring the header
        with Through(path, *TRUSTED, "server.proxy_protocol=yes", f"tls.certificate={CERT}", f"tls.key={KEY}",
                     f"server.listen=127.0.0.1:0, unix:{path}") as d, haproxy_tcp(d, port):
            exercise(d, HOSTS[0], port, http2=False)


class Through(Stenod):
    """A server that the test asks through a unix socket."""

    def __init__(self, path, *settings):
        super().__init__(*settings)
        self.path = path

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("x", timeout=60 * SLOW)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(self.path)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()


@case
def caddy_in_front():
    port = free_port()
    with Stenod(*TRUSTED) as d, caddy(d, port):
        exercise(d, HOSTS[0], port)
        assert "handshake refused" not in d.output()


@case
def caddy_below_a_path():
    port = free_port()
    with Stenod(*TRUSTED) as d, caddy(d, port, 1):
        exercise(d, HOSTS[1], port, "/stt")


if __name__ == "__main__":
    raise SystemExit(tap())
