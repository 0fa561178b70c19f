"""Traces of uploads and streams, as an OpenTelemetry collector gets them (OTLP over HTTP, JSON)."""
import json
import os
import socket
import sys
import tempfile
import time

from websockets.sync.client import connect

from collector import Collector
from daemon import DIGITS, DIGITS_TEXT, OPEN, SLOW, Stenod, case, converse, eventually, pcm, tap
from job_web import BASE, CALLS, Web, longer
from redis_server import Redis

PCM, RATE = pcm()
with open(DIGITS, "rb") as _f:
    WAV = _f.read()
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
PHASES = {"receive", "decode audio", "queue", "network", "search", "answer"}


def values(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def nested(root, children):
    start, end = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
    for c in children.values():
        assert start <= int(c["startTimeUnixNano"]) <= int(c["endTimeUnixNano"]) <= end, (root, c)
        assert c["traceId"] == root["traceId"] and c["kind"] == 1, c
    assert len({c["spanId"] for c in children.values()} | {root["spanId"]}) == len(children) + 1


def seconds(span):
    return (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) * 1e-9


COLLECTOR = Collector()


@case
def an_upload_is_a_trace_below_its_caller(d):
    status, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"traceparent": PARENT, "X-Request-Id": "traced-1"})
    assert status == 200
    version, trace, span, flags = headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01") and span != CALLER, headers
    root, children = COLLECTOR.trace(span)
    assert root["traceId"] == TRACE and root["parentSpanId"] == CALLER and root["kind"] == 2, root
    assert root["name"] == "POST /v1/transcribe" and set(children) == PHASES, children
    v = values(root)
    assert v["http.request.method"] == "POST" and v["http.route"] == "/v1/transcribe" and v["client.address"] == "127.0.0.1", v
    assert v["http.response.status_code"] == "200" and v["steno.request_id"] == "traced-1" and v["steno.result"] == "ok", v
    assert v["steno.model"] == "digits-en" and abs(v["steno.audio_seconds"] - len(PCM) / 2 / RATE) < 0.01, v
    assert root["status"] == {}
    nested(root, children)
    assert abs(int(root["startTimeUnixNano"]) * 1e-9 - time.time()) < 60 * SLOW
    sums = {n: values(children[n])["steno.seconds"] for n in ("queue", "network", "search")}
    assert sums["network"] > 0 and sums["search"] > 0, sums
    for n in ("network", "search", "queue"):
        assert seconds(children[n]) <= sums[n] + 1e-6, n


@case
def a_stream_is_a_trace_too(d):
    said = converse(d.ws + f"?sample_rate={RATE}", [PCM, {"type": "end"}], additional_headers={"traceparent": PARENT})
    _, trace, span, flags = said.headers["traceparent"].split("-")
    assert trace == TRACE and flags == "01"
    root, children = COLLECTOR.trace(span)
    assert root["name"] == "GET /v1/stream" and root["parentSpanId"] == CALLER and set(children) == PHASES, (root, children)
    v = values(root)
    assert v["steno.session_id"] == said.messages[-1]["session_id"] and v["steno.api"] == "stream", v
    assert v["http.response.status_code"] == "101" and v["steno.close_code"] == "1000" and v["steno.result"] == "ok", v
    nested(root, children)


@case
def a_late_upgrade_returns_its_trace(d):
    from wire import answer, finish_stream, said, upgrade, used
    s = used(d)
    s.sendall(upgrade(extra=f"traceparent: {PARENT}\r\n") + said())
    status, headers, _ = answer(s)
    assert status == 101 and headers["traceparent"].split("-")[1] == TRACE, headers
    finish_stream(s)
    COLLECTOR.trace(headers["traceparent"].split("-")[2])


@case
def every_dialect_is_traced(d):
    for path, opening, end in (("/v1/listen?encoding=linear16&sample_rate=%d" % RATE, [], {"type": "CloseStream"}),
                               ("/vosk", [{"config": {"sample_rate": RATE}}], {"eof": 1})):
        with connect(d.ws.replace("/v1/stream", path), **OPEN) as ws:
            span = ws.response.headers["traceparent"].split("-")[2]
            for m in opening:
                ws.send(json.dumps(m))
            ws.send(PCM)
            ws.send(json.dumps(end))
            for _ in ws:
                pass
        root, children = COLLECTOR.trace(span)
        assert root["name"] == "GET " + path.split("?")[0] and {"network", "search", "queue"} <= set(children), root
        nested(root, children)


@case
def a_tracestate_is_passed_on(d):
    from wire import GET, answer, dial, upgrade
    # two headers are one list (3.3.1.2)
    state = "tracestate: rojo=00f067aa0ba902b7 ,\r\ntracestate: congo=t61rcWkgMzE\r\n"
    upload = "POST /v1/transcribe HTTP/1.1\r\nHost: x\r\n%%sContent-Length: %d\r\n\r\n" % len(WAV)
    for parent, want in ((f"traceparent: {PARENT}\r\n", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"), ("traceparent: 00-zz\r\n", None), ("", None)):
        for request in ((upload % (parent + state)).encode() + WAV, upgrade(extra=parent + state), GET + upgrade(extra=parent + state),
                        upgrade(extra=parent + state, version=8), GET + upgrade(extra=parent + state, version=8)):
            s = dial(d)
            s.sendall(request)
            if request.startswith(GET):
                answer(s)
            status, headers, _ = answer(s)
            s.close()
            assert status in (200, 101, 426) and headers.get("tracestate") == want, (status, headers, want)
            root, children = COLLECTOR.trace(headers["traceparent"].split("-")[2])
            assert root.get("traceState") == want and not any("traceState" in c for c in children.values()), root
    for wrong in ("Rojo=1", "a=1,a=2", "x" * 3000):
        _, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"traceparent": PARENT, "tracestate": wrong})
        assert headers["traceparent"].split("-")[1] == TRACE and "tracestate" not in headers, headers


@case
def without_a_traceparent_or_with_a_wrong_one_a_trace_begins(d):
    for wrong in (None, "00-zz", "ff" + PARENT[2:], PARENT.upper()):
        _, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"traceparent": wrong} if wrong else {})
        _, trace, span, _ = headers["traceparent"].split("-")
        assert trace != TRACE
        root, _ = COLLECTOR.trace(span)
        assert "parentSpanId" not in root and root["traceId"] == trace


@case
def what_the_caller_does_not_record_is_not_recorded(d):
    _, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"traceparent": PARENT[:-2] + "00"})
    assert headers["traceparent"].startswith(f"00-{TRACE}-") and headers["traceparent"].endswith("-00")
    silent = headers["traceparent"].split("-")[2]
    _, headers, _ = d.request("POST", "/v1/transcribe", WAV)
    COLLECTOR.trace(headers["traceparent"].split("-")[2])
    assert silent not in {s["spanId"] for s in COLLECTOR.spans()}


@case
def a_refused_upload_has_its_status(d):
    status, headers, _ = d.request("POST", "/v1/transcribe?model=none", WAV)
    assert status == 404
    root, _ = COLLECTOR.trace(headers["traceparent"].split("-")[2])
    v = values(root)
    assert v["http.response.status_code"] == "404" and v["steno.result"] == "bad", v


@case
def a_refused_handshake_is_a_trace_too(_):
    from wire import GET, answer, dial, upgrade
    extra = f"traceparent: {PARENT}\r\nX-Request-Id: refused-1\r\n"
    lost = "/v1/stream?session_id=sess_00000000000000000000000000000000"
    collector = Collector()
    with Stenod(f"tracing.endpoint={collector.url}", "limits.sessions=0") as d:
        for path, version, want, route in (("/v1/stream", 13, 503, "/v1/stream"), ("/v1/listen", 8, 426, "/v1/listen"), (lost, 13, 404, "/v1/stream")):
            for before in (b"", GET):  # the first request of a connection is answered elsewhere
                s = dial(d)
                s.sendall(before + upgrade(path, extra, version=version))
                if before:
                    assert answer(s)[0] == 200
                status, headers, _ = answer(s)
                s.close()
                assert status == want and headers["traceparent"].startswith(f"00-{TRACE}-"), (path, status, headers)
                root, children = collector.trace(headers["traceparent"].split("-")[2])
                v = values(root)
                assert root["name"] == "GET " + route and root["parentSpanId"] == CALLER and not children, (root, children)
                assert v["http.response.status_code"] == str(want) and v["steno.result"] == "refused" and v["steno.request_id"] == "refused-1", v
                assert (root["status"] == {}) == (want < 500) and v.get("error.type") == ("503" if want == 503 else None), root
                assert v.get("client.address") in ("127.0.0.1", None) and "steno.session_id" not in v, v


@case
def jobs_are_traced_when_they_are_asked_for_and_when_they_run(_):
    collector = Collector()
    with tempfile.TemporaryDirectory(prefix="steno-jobs-") as folder, Stenod(f"tracing.endpoint={collector.url}", f"jobs.dir={folder}") as d:
        status, headers, body = d.request("POST", "/v1/jobs", WAV, {"traceparent": PARENT})
        job = json.loads(body)["id"]
        assert status == 202, body
        root, children = collector.trace(headers["traceparent"].split("-")[2])
        v = values(root)
        assert root["name"] == "POST /v1/jobs" and root["traceId"] == TRACE and set(children) - {"job run"} == {"receive"}, (root, children)
        assert v["steno.job_id"] == job and v["steno.api"] == "job" and v["http.response.status_code"] == "202", v

        def run():
            return [s for s in collector.spans() if s["name"] == "job run" and values(s)["steno.job_id"] == job]
        assert eventually(run)
        root, = run()
        children = {s["name"]: s for s in collector.spans() if s.get("parentSpanId") == root["spanId"]}
        v = values(root)
        request = headers["traceparent"].split("-")[2]
        assert root["kind"] == 5 and root["traceId"] == TRACE and root["parentSpanId"] == request and set(children) == PHASES - {"receive"}, (root, children)
        assert v["steno.result"] == "done" and v["steno.model"] == "digits-en" and "http.route" not in v and root["status"] == {}, v
        assert abs(v["steno.audio_seconds"] - len(PCM) / 2 / RATE) < 0.01, v
        nested(root, children)
        for method, path, want, name in (("GET", f"/v1/jobs/{job}", 200, "GET /v1/jobs/{id}"), ("GET", "/v1/jobs", 200, "GET /v1/jobs"),
                                         ("DELETE", f"/v1/jobs/{job}", 204, "DELETE /v1/jobs/{id}"), ("GET", f"/v1/jobs/{job}", 404, "GET /v1/jobs/{id}")):
            status, headers, _ = d.request(method, path, headers={"traceparent": PARENT})
            root, children = collector.trace(headers["traceparent"].split("-")[2])
            v = values(root)
            assert status == want and root["name"] == name and not children and v["http.response.status_code"] == str(want), (root, children)
            assert v.get("steno.job_id") == (job if "id" in name and want != 404 else None), v
        # a run that fails
        status, _, body = d.request("POST", "/v1/jobs", b"no audio at all")
        bad = json.loads(body)["id"]
        assert eventually(lambda: [s for s in collector.spans() if s["name"] == "job run" and values(s)["steno.job_id"] == bad])
        root, = [s for s in collector.spans() if s["name"] == "job run" and values(s)["steno.job_id"] == bad]
        assert values(root)["steno.result"] == "failed", root


def of_job(collector, name, job):
    assert eventually(lambda: [s for s in collector.spans() if s["name"] == name and values(s).get("steno.job_id") == job]), (name, job)
    return [s for s in collector.spans() if s["name"] == name and values(s).get("steno.job_id") == job]


STATE = "vendor=a1, other=b2"
WEB = ("fetch.hosts=127.0.0.1", "fetch.private=yes", *CALLS)


@case
def a_jobs_fetch_and_callback_belong_to_its_trace(_):
    collector = Collector()
    with tempfile.TemporaryDirectory(prefix="steno-jobs-") as folder, \
            Stenod(f"tracing.endpoint={collector.url}", f"jobs.dir={folder}", *WEB) as d:
        Web.got.clear()
        Web.asked.clear()
        Web.plan[:] = [500]  # the first try of the callback fails
        status, headers, body = d.request("POST", "/v1/jobs", json.dumps({"url": f"{BASE}/moved.wav", "callback": f"{BASE}/hook"}),
                                          {"Content-Type": "application/json", "traceparent": PARENT, "tracestate": STATE})
        assert status == 202, body
        job, request = json.loads(body)["id"], headers["traceparent"].split("-")[2]
        run, = of_job(collector, "job run", job)
        assert run["traceId"] == TRACE and run["parentSpanId"] == request and run["traceState"] == "vendor=a1,other=b2", run
        assert len(Web.asked) == 2, Web.asked  # and where the redirect leads
        for head in Web.asked:
            assert head["traceparent"] == f"00-{TRACE}-{run['spanId']}-01" and head["tracestate"] == "vendor=a1,other=b2", head
        assert eventually(lambda: len(Web.got) == 2)
        assert eventually(lambda: len(of_job(collector, "job callback", job)) == 2)
        tries = sorted(of_job(collector, "job callback", job), key=lambda s: s["startTimeUnixNano"])
        for t, (_, _, head, _), code, result in zip(tries, Web.got, ("500", "200"), ("failed", "delivered")):
            v = values(t)
            assert t["traceId"] == TRACE and t["parentSpanId"] == request and t["kind"] == 3, t
            assert head["traceparent"] == f"00-{TRACE}-{t['spanId']}-01" and head["tracestate"] == "vendor=a1,other=b2", head
            assert v["http.response.status_code"] == code and v["steno.result"] == result and v["http.request.method"] == "POST", v
            assert t["status"] == ({"code": 2} if code == "500" else {}), t


@case
def an_uploads_fetch_belongs_to_its_trace(_):
    collector = Collector()
    with Stenod(f"tracing.endpoint={collector.url}", *WEB) as d:
        Web.asked.clear()
        status, headers, _ = d.request("POST", "/v1/listen", json.dumps({"url": f"{BASE}/a.wav"}),
                                       {"Content-Type": "application/json", "traceparent": PARENT, "tracestate": STATE})
        assert status == 200 and Web.asked[0]["traceparent"] == headers["traceparent"] and Web.asked[0]["tracestate"] == "vendor=a1,other=b2", Web.asked


@case
def without_a_tracer_the_callers_trace_is_passed_on_as_it_came(_):
    with tempfile.TemporaryDirectory(prefix="steno-jobs-") as folder, Stenod(f"jobs.dir={folder}", *WEB) as d:
        for given, want in (({"traceparent": PARENT, "tracestate": STATE}, (PARENT, "vendor=a1,other=b2")), ({}, (None, None)),
                            ({"traceparent": "00-wrong", "tracestate": STATE}, (None, None))):
            Web.asked.clear()
            Web.got.clear()
            Web.plan.clear()
            status, headers, body = d.request("POST", "/v1/jobs", json.dumps({"url": f"{BASE}/a.wav", "callback": f"{BASE}/hook"}),
                                              {"Content-Type": "application/json", **given})
            assert status == 202 and "traceparent" not in headers, (body, headers)
            assert eventually(lambda: Web.got)
            for head in (Web.asked[0], Web.got[0][2]):
                assert (head.get("traceparent"), head.get("tracestate")) == want, head


@case
def a_run_on_another_machine_belongs_to_the_request(_):
    collector = Collector()
    with Redis() as r, tempfile.TemporaryDirectory(prefix="steno-jobs-") as one, tempfile.TemporaryDirectory(prefix="steno-jobs-") as two:
        common = (f"tracing.endpoint={collector.url}", f"jobs.queue={r.url}", "jobs.lease=5")
        with Stenod(f"jobs.dir={one}", "pool.threads=1", *common, cpu="scalar") as a:
            status, headers, body = a.request("POST", "/v1/jobs", longer(60), {"traceparent": PARENT, "tracestate": STATE})
            assert status == 202, body
            job = json.loads(body)["id"]
            request, _ = collector.trace(headers["traceparent"].split("-")[2])  # is sent before the kill
            assert eventually(lambda: json.loads(a.get(f"/v1/jobs/{job}")[2])["state"] == "running")
            a.proc.kill()
            a.proc.wait()
        with Stenod(f"jobs.dir={two}", *common) as b:
            run, = of_job(collector, "job run", job)
            assert json.loads(b.get(f"/v1/jobs/{job}")[2])["tries"] == 2
        assert run["traceId"] == TRACE and run["parentSpanId"] == request["spanId"] and run["traceState"] == "vendor=a1,other=b2", run


@case
def pages_are_not_traced(d):
    _, headers, _ = d.get("/healthz")
    assert "traceparent" not in headers


@case
def the_resource_names_the_service(d):
    code, path, headers, body = COLLECTOR.requests[0]
    assert code == 200 and path == "/v1/traces" and headers["Content-Type"] == "application/json", (path, headers)
    v = values(body["resourceSpans"][0]["resource"])
    assert v["service.name"] == "stenod" and v["service.version"] and v["service.instance.id"], v
    assert v["host.name"] == socket.gethostname() and v["process.pid"] == str(d.proc.pid), v
    assert eventually(lambda: d.metric("steno_trace_spans_exported_total") == len(COLLECTOR.spans()))
    assert d.metric('steno_trace_spans_dropped_total{reason="queue_full"}') == 0


@case
def a_collector_that_is_busy_gets_them_again(_):
    busy = Collector(503, 200)
    with Stenod(f"tracing.endpoint={busy.url}/v1/traces") as d:
        _, headers, _ = d.request("POST", "/v1/transcribe", WAV)
        busy.trace(headers["traceparent"].split("-")[2])
        assert [c for c, *_ in busy.requests][:2] == [503, 200]
        assert d.metric('steno_trace_spans_dropped_total{reason="not_sent"}') == 0


@case
def what_is_refused_for_good_is_dropped_and_counted(_):
    wrong = Collector(400)
    with Stenod(f"tracing.endpoint={wrong.url}") as d:
        assert d.request("POST", "/v1/transcribe", WAV)[0] == 200
        d.becomes('steno_trace_spans_dropped_total{reason="not_sent"}', 7)
        assert len(wrong.requests) == 1 and "takes no spans: status 400" in d.output()


@case
def a_collector_that_is_gone_delays_nobody(_):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(0)  # accepts, and never answers
        with Stenod(f"tracing.endpoint=http://127.0.0.1:{s.getsockname()[1]}") as d:
            for _ in range(3):
                status, _, body = d.request("POST", "/v1/transcribe?format=text", WAV)
                assert status == 200 and body.decode().strip() == DIGITS_TEXT
        # the end of the process waits for it 2 s at most: Stenod checks the exit status


@case
def the_environment_names_the_collector(_):
    of_env = Collector()
    os.environ.update(OTEL_EXPORTER_OTLP_ENDPOINT=of_env.url + "/", OTEL_SERVICE_NAME="dictation", OTEL_EXPORTER_OTLP_HEADERS="x-tenant=a1,x-b=2")
    try:
        with Stenod() as d:
            _, headers, _ = d.request("POST", "/v1/transcribe", WAV)
            of_env.trace(headers["traceparent"].split("-")[2])
    finally:
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_HEADERS"):
            del os.environ[name]
    _, path, headers, body = of_env.requests[0]
    assert path == "/v1/traces" and headers["x-tenant"] == "a1" and headers["x-b"] == "2", (path, headers)
    assert values(body["resourceSpans"][0]["resource"])["service.name"] == "dictation"


@case
def a_share_of_nothing_records_nothing(_):
    none = Collector()
    with Stenod(f"tracing.endpoint={none.url}", "tracing.sample=0") as d:
        _, headers, _ = d.request("POST", "/v1/transcribe", WAV)
        assert headers["traceparent"].endswith("-00")
    assert not none.requests


@case
def nothing_of_this_exists_without_an_endpoint(_):
    with Stenod() as d:
        status, headers, _ = d.request("POST", "/v1/transcribe", WAV, {"traceparent": PARENT})
        assert status == 200 and "traceparent" not in headers
        assert d.metric("steno_trace_spans_exported_total") is None
        with open(f"/proc/{d.proc.pid}/maps", encoding="ascii") as f:
            assert "libcurl" not in f.read()


if __name__ == "__main__":
    with Stenod(f"tracing.endpoint={COLLECTOR.url}") as server:
        sys.exit(tap(server))
