"""Recordings that a request names by URL: what is fetched, from where, and what is refused. TAP."""
import http.server
import json
import sys
import threading
import time

from daemon import DIGITS, DIGITS_TEXT, Stenod, case, eventually, tap

with open(DIGITS, "rb") as _f:
    WAV = _f.read()


class Handler(http.server.BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):  # pylint: disable=invalid-name
        self.asked.append(self.path)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
            return
        if self.path == "/slow":
            time.sleep(3600)
        body = b"x" * 3000000 if self.path == "/big" else WAV
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


SERVER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
BASE = f"http://127.0.0.1:{SERVER.server_port}"


def ask(d, url, raw=None):
    status, _, body = d.request("POST", "/v1/listen?punctuate=true", raw if raw is not None else json.dumps({"url": url}),
                                {"Content-Type": "application/json"})
    return status, json.loads(body)


@case
def a_listed_host_is_fetched_and_recognised():
    with Stenod("fetch.hosts=127.0.0.1", "fetch.private=yes", "limits.body=1M") as d:
        for path in ("/a.wav", "/to/" + BASE + "/a.wav", "/to//a.wav"):
            status, body = ask(d, BASE + path)
            assert status == 200, (path, body)
            assert body["results"]["channels"][0]["alternatives"][0]["transcript"] == DIGITS_TEXT, body
        for url, says in ((BASE + "/none", "404"), (BASE + "/big", "larger"),
                          ("http://other.example/a.wav", "from that host"), (BASE + "/to/http://other.example/", "from that host"),
                          ("file:///etc/passwd", "http or https"), ("ftp://127.0.0.1/", "http or https"), ("//", "http or https"),
                          (BASE + "/to//to//to//to//to//a.wav", "redirects"), ("http://127.0.0.1:1/", "cannot be fetched"),
                          ("http://127.0.0.1@other.example/", "from that host"), (BASE + "/" + "x" * 5000, "2047")):
            status, body = ask(d, url)
            assert status in (400, 413) and says in body["err_msg"] and body["err_code"], (url, status, body)
        for raw in (b"{", b"[]", b"{}", b'{"url":1}', b""):
            status, body = ask(d, "", raw)
            assert status == 400 and body["err_msg"], (raw, status, body)
        assert eventually(lambda: d.metric("steno_uploads_bytes") in (None, 0))


@case
def private_addresses_and_unlisted_servers_are_refused():
    before = len(Handler.asked)
    with Stenod("fetch.hosts=*") as d:
        for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1"):
            status, body = ask(d, f"http://{host}:{SERVER.server_port}/a.wav")
            assert status == 400 and "cannot be fetched" in body["err_msg"], (host, status, body)
    with Stenod() as d:
        status, body = ask(d, BASE + "/a.wav")
        assert status == 400 and "fetch.hosts" in body["err_msg"], body
    assert len(Handler.asked) == before, Handler.asked


@case
def a_fetch_that_takes_too_long_is_given_up():
    with Stenod("fetch.hosts=127.0.0.1", "fetch.private=yes", "fetch.timeout=1") as d:
        status, body = ask(d, BASE + "/slow")
        assert status in (400, 413) and "longer than fetch.timeout" in body["err_msg"] and body["err_code"], (status, body)


@case
def a_fetch_that_is_under_way_does_not_delay_the_end():
    with Stenod("fetch.hosts=127.0.0.1", "fetch.private=yes", "fetch.timeout=1h", "server.drain_timeout=1") as d:
        Handler.asked.clear()
        t = threading.Thread(target=lambda: ask(d, BASE + "/slow"), daemon=True)
        t.start()
        assert eventually(lambda: Handler.asked == ["/slow"])
        assert d.terminate() == 0  # within a minute: long before the fetch would end


sys.exit(tap())
