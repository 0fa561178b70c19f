"""An OpenTelemetry collector for tests: takes OTLP over HTTP in JSON and keeps everything."""
import http.server
import json
import threading

from daemon import eventually


class Collector:
    """Takes POST /v1/traces. status: of the next answers, the last one for ever."""

    def __init__(self, *status):
        self.requests, self.status, lock = [], list(status) or [200], threading.Lock()
        this = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    code = this.status.pop(0) if len(this.status) > 1 else this.status[0]
                    this.requests.append((code, self.path, dict(self.headers), json.loads(body)))
                self.send_response(code)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        return [s for code, _, _, body in list(self.requests) if code == 200 for r in body["resourceSpans"]
                for scope in r["scopeSpans"] for s in scope["spans"]]

    def trace(self, root):
        """(the span of that id, its children by name)"""
        assert eventually(lambda: [s for s in self.spans() if s["spanId"] == root]), root
        spans = self.spans()
        return [s for s in spans if s["spanId"] == root][0], {s["name"]: s for s in spans if s.get("parentSpanId") == root}
