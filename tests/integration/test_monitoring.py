"""What operators see: the log as JSON; alert rules and dashboard against a live scrape."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import yaml
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from collector import Collector
from daemon import DIGITS, DIGITS_TEXT, OPEN, ROOT, SLOW, Skip, Stenod, case, converse, eventually, pcm, raw, tap

PCM, RATE = pcm()
RULES = os.path.join(ROOT, "conf", "prometheus", "steno-alerts.yml")
BOARD = os.path.join(ROOT, "conf", "grafana", "steno.json")
with open(DIGITS, "rb") as _f:
    WAV = _f.read()


def lines(d):
    return [json.loads(x) for x in d.output().splitlines()]


def events(d, name):
    return [x for x in lines(d) if x.get("event") == name]


@case
def every_line_of_the_log_is_an_object(d):
    assert all({"time", "level", "message"} <= set(x) for x in lines(d)), lines(d)
    # a client's text cannot forge or break a log line
    d.request("POST", "/v1/transcribe?model=%22%0A%7B%5C", WAV)
    assert eventually(lambda: 404 in [x["status"] for x in events(d, "request")])


@case
def a_session_is_one_line_with_its_numbers_and_ids(d):
    said = converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}], additional_headers={"X-Request-Id": "call-4711"})
    assert said.headers["X-Request-Id"] == "call-4711"
    session = said.messages[-1]["session_id"]
    assert eventually(lambda: [e for e in events(d, "session") if e["session_id"] == session])
    e = [e for e in events(d, "session") if e["session_id"] == session][0]
    assert e["request_id"] == "call-4711" and e["api"] == "stream" and e["result"] == "ok" and e["close_code"] == 1000, e
    assert abs(e["audio_seconds"] - len(PCM) / 2 / RATE) < 0.01 and e["finals"] >= 1 and e["model"] == "digits-en", e
    assert e["inference_seconds"] > 0 and e["seconds"] > 0 and e["peer"].startswith("127.0.0.1:"), e
    with connect(d.ws, additional_headers={"X-Request-Id": "bad id\"{}"}, **OPEN) as ws:
        assert ws.response.headers["X-Request-Id"].startswith("sess_")


@case
def an_upload_is_one_line_too(d):
    status, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"X-Request-Id": "upload-1"})
    assert status == 200 and headers["x-request-id"] == "upload-1"
    assert eventually(lambda: [e for e in events(d, "request") if e["request_id"] == "upload-1"])
    e = [e for e in events(d, "request") if e["request_id"] == "upload-1"][0]
    assert e["status"] == 200 and e["route"] == "/v1/transcribe" and abs(e["audio_seconds"] - len(PCM) / 2 / RATE) < 0.01, e
    assert e["model"] == "digits-en" and e["inference_seconds"] > 0


@case
def no_recognized_text_is_logged(d):
    log = d.output()
    assert DIGITS_TEXT not in log and "seven one" not in log


def names_in(expression):
    return set(re.findall(r"\b((?:steno|process)_[a-z_]+)\b", expression))


def scraped(d):
    """The names of all series of a live scrape."""
    return set(re.findall(r"^([a-z_]+)", d.get("/metrics")[2].decode(), re.M)) - {""}


@case
def every_metric_of_rules_and_dashboard_exists(d):
    with open(RULES, encoding="utf-8") as f:
        rules = [r for g in yaml.safe_load(f)["groups"] for r in g["rules"]]
    with open(BOARD, encoding="utf-8") as f:
        board = json.load(f)
    have = scraped(d)
    expressions = [r["expr"] for r in rules] + [t["expr"] for p in board["panels"] for t in p["targets"]]
    wanted = set().union(*map(names_in, expressions))
    assert len(rules) > 5 and len(board["panels"]) > 10 and wanted - have == set(), wanted - have
    # the label values in rules and dashboard exist too
    page = d.get("/metrics")[2].decode()
    for e in expressions:
        for label, value in re.findall(r'(api|reason|result)=~?"([a-z|]+)"', e):
            for v in value.split("|"):
                assert f'{label}="{v}"' in page, (e, label, v)
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as f:
        text = f.read()
    for r in rules:
        assert r["alert"] in text, f"{r['alert']} is not in docs/operations.md"


@case
def every_series_is_documented(d):
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as f:
        text = f.read()
    for name in sorted(scraped(d)):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert base in text or base.startswith("process_"), f"{base} is not in docs/metrics.md"


def promtool():
    unpacked = os.path.join(ROOT, "build", "promtool", "promtool")
    exe = shutil.which("promtool") or (unpacked if os.access(unpacked, os.X_OK) else None)
    if not exe:
        raise Skip("promtool could not be had (Debian package prometheus)")
    return exe


@case
def promtool_finds_nothing_wrong_with_the_rules(_):
    p = subprocess.run([promtool(), "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    p = subprocess.run([promtool(), "check", "config", os.path.join(ROOT, "conf", "prometheus", "prometheus.yml")], capture_output=True,
                       text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr


def documented_fields():
    """{event: its fields} by the table of docs/operations.md"""
    fields = {}
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as f:
        for name, events in re.findall(r"^\| `(\w+)` \| ((?:\w+, )*\w+) \|", f.read(), re.M):
            for event in events.split(", "):
                fields.setdefault(event, set()).add(name)
    return fields


@case
def every_line_has_exactly_the_documented_fields(_):
    with Stenod("log.format=json", "log.level=debug", "log.transcripts=yes") as d:
        converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}])
        d.request("POST", "/v1/transcribe", WAV)
        d.get("/v1/none")
        try:
            connect(d.ws + "none", **OPEN)
            raise AssertionError("no such path")
        except InvalidStatus as e:
            assert e.response.status_code == 404
        want = documented_fields()
        assert set(want) == {"request", "session", "refused", "transcript", "upload_transcript"}, want
        # a handshake of a path that nobody serves is a request of HTTP, so a refusal needs a reason of its own
        d.wait_idle()
        raw(d, query="?sample_rate=8000").close()
        upgrade_without_version(d)
        for event, names in want.items():
            assert eventually(lambda e=event: events(d, e)), event
            for line in events(d, event):
                assert set(line) == names | {"time", "level", "message", "event"}, (event, set(line) ^ names)
        for line in lines(d):
            assert line.get("event") in {None, *want}, line
            assert "event" in line or set(line) == {"time", "level", "message"}, line


def upgrade_without_version(d):
    with socket.create_connection(("127.0.0.1", d.port), timeout=30 * SLOW) as s:
        s.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        assert b" 426 " in s.recv(4096)


@case
def openmetrics_is_valid_and_has_exemplars(_):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    collector = Collector()
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
    with Stenod(f"tracing.endpoint={collector.url}") as d:
        converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}])
        _, headers, _ = d.request("POST", "/v1/transcribe", WAV)
        trace = headers["traceparent"].split("-")[1]
        d.wait_idle()
        status, headers, page = d.request("GET", "/metrics", None, accept)
        assert status == 200 and headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8", headers
        assert headers["vary"] == "Accept" and page.endswith(b"# EOF\n")
        families = {f.name: f for f in text_string_to_metric_families(page.decode())}
        traces = {f.name: {s.exemplar.labels["trace_id"] for s in f.samples if s.exemplar} for f in families.values()}
        assert trace in traces["steno_http_request_duration_seconds"], traces
        for name in ("steno_partial_latency_seconds", "steno_final_latency_seconds", "steno_first_partial_seconds",
                     "steno_realtime_factor", "steno_queue_wait_seconds"):
            assert traces[name], name
        known = {s["traceId"] for s in collector.spans()}
        assert eventually(lambda: set().union(*traces.values()) <= {s["traceId"] for s in collector.spans()}), (traces, known)
        for s in (s for f in families.values() for s in f.samples if s.exemplar):  # an exemplar lies in its bucket
            assert s.exemplar.value <= float(s.labels["le"]), s
        _, headers, page = d.get("/metrics")
        assert headers["content-type"].startswith("text/plain; version=0.0.4") and b"trace_id" not in page
        both = [{m for m in re.findall(rb"^([a-z_]+)", p, re.M)} - {b"EOF"} for p in (page, d.request("GET", "/metrics", None, accept)[2])]
        assert both[0] == both[1], both[0] ^ both[1]


@case
def promtool_finds_nothing_wrong_with_a_scrape(d):
    p = subprocess.run([promtool(), "check", "metrics"], input=d.get("/metrics")[2].decode(), capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr


if __name__ == "__main__":
    with Stenod("log.format=json", "log.level=debug") as daemon:
        result = tap(daemon)
    sys.exit(result)
