"""What tests of jobs share: long recordings, and a server that has recordings and takes callbacks."""
import http.server
import tempfile
import threading
import time
import wave

from daemon import DIGITS, SAN

with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def many(times):
    """As many times as a build with sanitizers recognizes at level scalar in the time of a plain one."""
    return max(1, times // 12) if SAN else times


def longer(times):
    """The digits, many times."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        with wave.open(DIGITS, "rb") as r, wave.open(f.name, "wb") as w:
            w.setparams(r.getparams())
            frames = r.readframes(r.getnframes())
            for _ in range(times):
                w.writeframes(frames + bytes(2 * r.getframerate()))
        with open(f.name, "rb") as r:
            return r.read()


class Web(http.server.BaseHTTPRequestHandler):
    """Serves recordings (GET), /drip for ever, a byte at a time, and takes callbacks (POST, PUT); answers are the statuses in
    `plan`, then 200."""
    got, plan, fetched, asked = [], [], [], []

    def do_GET(self):  # pylint: disable=invalid-name
        self.fetched.append(self.path)
        self.asked.append(dict((k.lower(), v) for k, v in self.headers.items()))
        status = 404 if self.path == "/none.wav" else 302 if self.path == "/moved.wav" else 200
        body = WAV if status == 200 else b"x" * 1000
        self.send_response(status)
        self.send_header("Content-Length", "1000000" if self.path.startswith("/drip") else str(len(body)))
        if status == 302:
            self.send_header("Location", "/a.wav")
        self.end_headers()
        try:
            while self.path.startswith("/drip"):
                self.wfile.write(b"x")
                time.sleep(0.1)
            self.wfile.write(body)
        except OSError:
            pass

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.command, self.path, dict((k.lower(), v) for k, v in self.headers.items()), body))
        self.send_response(self.plan.pop(0) if self.plan else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_POST

    def log_message(self, *_):
        pass


def serve(tls=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


PORT = serve()
BASE = f"http://127.0.0.1:{PORT}"
CALLS = ("jobs.callback_hosts=127.0.0.1", "jobs.callback_private=yes", "jobs.callback_http=yes", "jobs.callback_retry=0.2")
