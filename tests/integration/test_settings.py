"""Each setting does what its text says: what a probe sees of a server with its default, and with another value. Settings whose
effect another program tests are in ELSEWHERE; a new one must be in one of both. Wrong values, and parameters of requests, are
refused by name and with what is allowed."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse

import yaml
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from daemon import BUILD, OPEN, ROOT, SLOW, Skip, Stenod, case, converse, eventually, frame, pcm, raw, tap, until_closed, wav
from job_web import BASE, CALLS, Web

PCM, RATE = pcm()
WAV = wav(PCM, RATE)
os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=/nonexistent"  # nothing is announced
FOLDER = tempfile.mkdtemp(prefix="steno-settings-")


def in_folder(name, text=""):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


AGENT = os.path.join(FOLDER, "agent")
KEYS = in_folder("keys", "[one]\nkey = 0123456789abcdef\n")


def table():
    """{setting: (type, variable, default, least, most, text)} of server/core/config_table.h."""
    with open(os.path.join(ROOT, "server", "core", "config_table.h"), encoding="utf-8") as f:
        rows = re.findall(r'ROW\((\w+),\s*\w+,\s*"(\w+)",\s*"(\w+)",\s*"(\w+)",\s*"([^"]*)",\s*([\d.]+),\s*([\d.]+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', f.read())
    assert len(rows) > 90, len(rows)
    return {f"{r[1]}.{r[2]}": (r[0], *r[3:7], "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', r[7]))) for r in rows}


# ---- probes: what a server does


def threads(*names):
    """How many threads it has whose names begin so."""
    def count(d):
        folder = f"/proc/{d.proc.pid}/task"
        found = [open(f"{folder}/{t}/comm", encoding="ascii").read() for t in os.listdir(folder)]
        return sum(name.startswith(names) for name in found)
    return count


def says(pattern):
    """The group of a line of its log; None where there is no such line."""
    return lambda d: (m := re.search(pattern, d.output())) and (m.group(1) if m.groups() else True)


def retry_after(d):
    status, headers, _ = d.request("POST", "/v1/transcribe", WAV)
    assert status == 503, status
    return int(headers["retry-after"])


def request_lines(d):
    assert d.request("POST", "/v1/transcribe", WAV)[0] == 200
    assert converse(d.ws, [{"type": "start", "sample_rate": RATE}, {"type": "end"}]).code == 1000
    d.wait_idle()
    return len(re.findall(r"info: (?:127\S+ POST|stream sess_)", d.output()))


def pauses_of_a_burst(d):
    got = converse(d.ws, [{"type": "start", "sample_rate": RATE}, 3 * PCM, {"type": "end"}])
    assert got.code == 1000, got
    return d.metric("steno_ws_rx_paused_total") > 0


def voices(d):
    """Who speaks, in the opinion of a network that knows nothing: it differs by what it sees at once."""
    got = converse(d.ws + f"?diarize=true&endpointing=false&sample_rate={RATE}", [PCM, {"type": "end"}])
    return sum(len(m["turns"]) for m in got.messages if m["type"] == "final") > 1


def missed_results_come(d):
    """Whether a client that comes back gets all it missed."""
    ws = connect(d.ws, **OPEN)
    ws.send(json.dumps({"type": "start", "sample_rate": RATE, "resumable": True}))
    session = json.loads(ws.recv(timeout=60 * SLOW))["session_id"]
    ws.send(12 * PCM)
    finals = 0
    while finals < 10:  # some 6 KB
        finals += json.loads(ws.recv(timeout=60 * SLOW))["type"] == "final"
    ws.socket.shutdown(socket.SHUT_RDWR)
    d.becomes("steno_ws_sessions_waiting", 1)
    try:
        with connect(f"{d.ws}?session_id={session}&seq=0", **OPEN) as ws:
            ws.send('{"type":"end"}')
            return until_closed(ws)[1] == 1000
    except InvalidStatus as e:
        assert e.response.status_code == 410 and b"messages_lost" in e.response.body, e.response
        return False


def end_with_an_upload(d):
    """An upload whose body never ends, and SIGTERM: whether the end cuts it off."""
    with socket.create_connection(("127.0.0.1", d.port), timeout=60 * SLOW) as s:
        s.sendall(b"POST /v1/transcribe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + WAV[:1000])
        d.becomes('steno_sessions_active{api="transcribe"}', 1)
        d.proc.send_signal(signal.SIGTERM)
        assert d.proc.wait(60 * SLOW) == 0, d.output()
    return bool(says("drain timeout: 1 sessions are cut off")(d))


def results_that_nobody_reads_are_kept(d):
    """300 KB of results: whether many wait in the server, before its patience is over."""
    with raw(d, receive_buffer=4096) as s:
        s.sendall(frame(1, b'{"type":"finalize"}') * 2000)
        most = []

        def over():
            most.append(d.metric("steno_ws_send_queue_bytes"))
            return most[-1] > 20000 or "timed out: slow_reader" in d.output()
        assert eventually(over)
    return max(most) > 20000


def nobody_reads_and_is_closed(d):
    with raw(d, receive_buffer=4096) as s:
        s.sendall(frame(1, b'{"type":"finalize"}') * 2000)
        return eventually(lambda: "timed out: slow_reader" in d.output(), 9 / SLOW)  # before the default is over


def tries_of_a_callback(d):
    """How often a callback is sent to a server that refuses it, until it is given up after a second."""
    Web.plan[:] = [500] * 100
    status, _, body = d.request("POST", f"/v1/jobs?callback={BASE}/", WAV)
    assert status == 202, body
    where = "/v1/jobs/" + json.loads(body)["id"]
    assert eventually(lambda: json.loads(d.get(where)[2])["callback"]["state"] == "dead"), d.get(where)
    return json.loads(d.get(where)[2])["callback"]["tries"] > 1


def sortformer():
    """speakers.model: a random network; skips where there is no onnx."""
    try:
        import toy_sortformer
    except ImportError as e:
        raise Skip(str(e)) from e
    return os.path.dirname(toy_sortformer.network(os.path.join(FOLDER, "voices", "sortformer.onnx")))


def connections_are_refused(d):
    with contextlib.ExitStack() as held:
        answers = []
        for _ in range(12):
            c = held.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", d.port, timeout=60 * SLOW)))
            c.request("GET", "/healthz")
            answers.append(c.getresponse().status)
    return 503 in answers


def half_a_head_is_answered(d):
    with socket.create_connection(("127.0.0.1", d.port)) as s:
        s.settimeout(9)  # before the default is over
        s.sendall(b"GET /healthz HTTP/1.1\r\n")
        return s.recv(100).startswith(b"HTTP/1.1 408 ")


def agent_says(d):
    if not os.path.exists(AGENT):
        return None
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(AGENT)
        return s.recv(100).split()[0]


NOT_ASKED = object()  # of the machine, or slow
# setting, value, what else is set, probe, what it sees with the default, with the value
ROWS = [
    ("server.agent_listen", "unix:" + AGENT, [], agent_says, None, b"ready"),
    ("server.drain_timeout", "0.1", [], end_with_an_upload, NOT_ASKED, True),
    ("speakers.latency", "0.32", lambda: ["speakers.model=" + sortformer()], voices, True, False),
    ("speakers.threads", "3", lambda: ["speakers.model=" + sortformer()], threads("speakers"), 1, 3),
    ("pool.threads", "3", [], lambda d: d.metric("steno_workers"), NOT_ASKED, 3.0),
    ("pool.buffer", "60", [], pauses_of_a_burst, True, False),
    ("pool.batch", "1", [], says(r"batches of up to (\d+)"), NOT_ASKED, "1"),
    ("limits.connections", "8", [], connections_are_refused, False, True),
    ("limits.header_timeout", "0.3", [], half_a_head_is_answered, NOT_ASKED, True),
    ("limits.retry_after", "7", ["limits.uploads=0"], retry_after, 1, 7),
    ("http.threads", "5", [], threads("MHD-"), 2, 5),
    ("websocket.resume_memory", "4K", [], missed_results_come, True, False),
    ("websocket.send_queue", "4K", ["websocket.slow_timeout=8"], results_that_nobody_reads_are_kept, True, False),
    ("websocket.slow_timeout", "1", ["websocket.send_queue=4K"], nobody_reads_and_is_closed, NOT_ASKED, True),
    ("jobs.callback_retry", "0.1", ["jobs.dir=" + os.path.join(FOLDER, "jobs"), *CALLS[:3], "jobs.callback_give_up=1"], tries_of_a_callback, False, True),
    ("log.requests", "no", [], request_lines, 2, 0),
    ("wyoming.advertise", "here", ["wyoming.listen=127.0.0.1:0"], says("wyoming.advertise: DNS-SD"), None, True),
]
# program: settings that it fails without
ELSEWHERE = {
    "integration/test_align.py": "align.model",
    "integration/test_aliases.py": "model.aliases model.strict",
    "integration/test_calls.py": "jobs.callback_private jobs.callback_secret jobs.callback_give_up calls.callback",
    "integration/test_cohere.py": "model.dir",
    "integration/test_connections.py": "limits.connections_per_address limits.idle_timeout",
    "integration/test_containers.py": "audio.helpers limits.audio",
    "integration/test_espnet.py": "model.search models.idle_unload models.memory",
    "integration/test_fetch_url.py": "limits.body fetch.hosts fetch.private",
    "integration/test_filters.py": "text.profanity log.transcripts",
    "integration/test_forwarded.py": "log.level",
    "integration/test_hostile.py": "websocket.idle_timeout websocket.ping_interval",
    "integration/test_http.py": "limits.body_timeout limits.request_timeout limits.uploads",
    "integration/test_icefall.py": "text.vocabulary",
    "integration/test_itn.py": "text.grammars",
    "integration/test_jobs.py": "fetch.timeout jobs.dir jobs.max_bytes jobs.keep jobs.callback_ca",
    "integration/test_jobs_redis.py": "jobs.queue_password jobs.workers jobs.max jobs.per_key jobs.timeout",
    "integration/test_json_memory.py": "limits.upload_memory",
    "integration/test_monitoring.py": "log.format tracing.endpoint",
    "integration/test_openai.py": "websocket.root",
    "integration/test_origins.py": "server.cors_origins server.hosts server.trusted_proxies auth.keys",
    "integration/test_proxies.py": "server.listen server.proxy_protocol server.path_prefix",
    "integration/test_punctuation.py": "text.punctuators",
    "integration/test_reload.py": "pool.calibration",
    "integration/test_resume.py": "websocket.resume",
    "integration/test_resume_elsewhere.py": "server.node",
    "integration/test_secrets.py": "jobs.callback_hosts jobs.callback_http",
    "integration/test_simulate.py": "limits.sessions",
    "integration/test_speakers.py": "speakers.model speakers.store",
    "integration/test_tls.py": "tls.certificate tls.key tls.required",
    "integration/test_top.py": "server.admin",
    "integration/test_tracing.py": "jobs.queue jobs.lease tracing.sample",
    "integration/test_turn_end.py": "turn.model",
    "integration/test_usage.py": "server.state metrics.keys",
    "integration/test_vad.py": "vad.mode vad.model",
    "integration/test_ws.py": "pool.capacity websocket.message",
    "integration/test_wyoming.py": "models.dir wyoming.listen wyoming.key",
}


@case
def each_setting_has_its_effect():
    skipped = []
    for setting, value, more, probe, default, changed in ROWS:
        try:
            more = more() if callable(more) else more
        except Skip as e:
            skipped.append(str(e))
            continue
        for settings, seen in ((more, default), ([*more, f"{setting}={value}"], changed)):
            if seen is not NOT_ASKED:
                with Stenod(*settings) as d:
                    got = probe(d)
                assert got == seen, (settings, got, seen)
    if skipped:
        raise Skip(f"{len(skipped)} of {len(ROWS)}: {skipped[0]}")


@case
def precisions_differ():
    answers = set()
    for precision in ("fp32", "bf16", "fp16", "int8"):
        with Stenod("model.precision=" + precision) as d:
            answers.add(d.request("POST", "/v1/transcribe?n_best=4", WAV)[2])
    assert len(answers) == 4, answers


@case
def every_setting_has_a_test():
    rows, elsewhere = {r[0] for r in ROWS} | {"model.precision"}, {s for names in ELSEWHERE.values() for s in names.split()}
    assert not rows & elsewhere and rows | elsewhere == set(table()), (rows & elsewhere, set(table()) ^ (rows | elsewhere))
    for program, names in ELSEWHERE.items():
        with open(os.path.join(ROOT, "tests", program), encoding="utf-8") as f:
            text = f.read()
        missing = [n for n in names.split() if n not in text]
        assert not missing, (program, missing)


def stenod(*args, env=()):
    """(status, what it printed)"""
    r = subprocess.run([os.path.join(BUILD, "stenod"), *args], capture_output=True, text=True, cwd=ROOT, timeout=120 * SLOW,
                       env={**{k: v for k, v in os.environ.items() if not k.startswith("STENO_") or k == "STENO_DATA"}, **dict(env)})
    return r.returncode, r.stdout + r.stderr


def sets(*settings):
    return [a for s in settings for a in ("--set", s)]


def other(kind, default, least, most):
    """A value within the limits that is not the default."""
    if kind == "BOOL":
        return {"no": "yes", "yes": "no"}[default]
    return most if kind in ("INT", "BYTES") else str(float(most) / 2) if kind in ("SECONDS", "RATIO") else None


@case
def each_source_sets_and_overrides():
    """File, environment, option: each overrides the one before it, and --print-config says which one it was."""
    numbers = {n: (r, other(r[0], *r[2:5])) for n, r in table().items() if r[0] != "STRING"}
    together = {"limits.body": "2048", "websocket.ping_interval": "1.5", "limits.idle_timeout": "77", "limits.retry_after": "77",
                "server.proxy_protocol": "no", "tls.required": "no"}
    wanted = {n: together.get(n, v.split(".")[0] if r[0] in ("INT", "BYTES") else v) for n, (r, v) in numbers.items()}
    for source, args, env in (("file", ["--config", in_folder("all.conf", "".join("[{}]\n{} = {}\n".format(*n.split("."), v) for n, v in wanted.items()))], {}),
                              ("environment", [], {numbers[n][0][1]: v for n, v in wanted.items()}),
                              ("option", sets(*(f"{n}={v}" for n, v in wanted.items())), {})):
        status, text = stenod("--print-config", *args, env=env)
        assert status == 0, text
        section, seen = "", {}
        for line in text.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif m := re.match(r"(\w+) = (\S*) ; (\w+)", line):
                seen[f"{section}.{m.group(1)}"] = m.group(2, 3)
        for n, v in wanted.items():
            value, by = seen[n]
            assert by == source and (value == v or float(value) == float(v)), (n, v, value, by)
    conf = in_folder("one.conf", "[limits]\nsessions = 1\nuploads = 1\nconnections = 11\n")
    env = {"STENO_LIMITS_UPLOADS": "2", "STENO_LIMITS_CONNECTIONS": "12"}
    text = stenod("--config", conf, "--set", "limits.connections=13", "--print-config", env=env)[1]
    for line in ("sessions = 1 ; file", "uploads = 2 ; environment", "connections = 13 ; option"):
        assert line in text, (line, text)


@case
def wrong_values_are_refused_with_what_is_allowed():
    hints = {"INT": "a whole number", "BYTES": "a size such as", "SECONDS": "a time such as", "RATIO": "a number such as", "BOOL": "yes or no"}
    units = {"BYTES": " bytes", "SECONDS": " s"}
    for name, (kind, _, _, least, most, _) in table().items():
        wrong = []
        if kind != "STRING":
            wrong.append(("many", f"{name}: 'many' is not {hints[kind]}"))
        if kind not in ("STRING", "BOOL"):
            limits = f"is outside {float(least):.15g}..{float(most):.15g}{units.get(kind, '')}"
            wrong += [(v, f"{name}: {v} {limits}") for v in (f"-{1}", f"{most.split('.')[0]}0")]
        for value, message in wrong:
            status, text = stenod("--print-config", "--set", f"{name}={value}")
            assert status == 64 and message in text, (name, value, text)


@case
def words_that_no_setting_knows_are_refused():
    for setting, says in (("model.precision=INT8", "auto, fp32, bf16, fp16 or int8"), ("vad.mode=on", "off, energy, silero"),
                          ("log.level=warn", "error, warning, notice, info, debug"), ("log.format=xml", "neither text nor json"),
                          ("websocket.root=nova", "auto, none, vosk, sherpa or wenet"), ("server.node=a-b", "1 to 8 letters and digits"),
                          ("server.cors_origins=app.example.org", "no origin such as https://"), ("server.path_prefix=stt", "must begin with /"),
                          ("server.hosts=stt.example.org:8080", "without port"), ("server.hosts=*.example.org", "without port"),
                          ("fetch.hosts=a.*", "*.NAME"), ("jobs.callback_hosts=https://a", "without port"),
                          ("limits.idle_timeout=1.5", "whole seconds"), ("limits.retry_after=1500ms", "whole seconds"),
                          ("speakers.latency=0.32", "needs a Sortformer"), ("model.search=beam=x", "beam: 'x' is not a number"),
                          ("pool.batch_wait=0", "no setting any more"), ("limits.body=2G", "limits.upload_memory")):
        key = setting.split("=")[0]
        status, text = stenod("--check-config", "--listen", "127.0.0.1:0", "--set", "speakers.model=none", "--set", setting)
        assert status == 78 and f"error: {key}" in text and says in text and text.count("error: ") == 1, (setting, status, text)
    status, text = stenod(env={"STENO_POOL_BATCH_WAIT": "0"})
    assert status == 78 and "STENO_POOL_BATCH_WAIT: pool.batch_wait is no setting any more: " in text, (status, text)
    for setting in ("text.grammars=en=/nowhere", "text.punctuators=en=/nowhere", "model.dir=/nowhere"):
        key, model = setting.split("=")[0], ["--model", "conf/models/digits-en"] if setting.startswith("text") else []
        for args in ([], ["--check-config"]):
            status, text = stenod("--listen", "127.0.0.1:0", *model, "--set", setting, *args)
            assert status in (69, 78) and f"error: {key}: " in text and "/nowhere" in text and "model: " not in text.split("error: ")[1], (setting, text)


@case
def a_check_leaves_nothing_behind():
    new = os.path.join(FOLDER, "new")
    names = ("pool.calibration", "speakers.store", "jobs.dir")
    status, text = stenod("--check-config", "--listen", "127.0.0.1:0", *sets(*(f"{n}={new}" for n in names)))
    assert status == 0 and not os.path.exists(new), text
    status, text = stenod("--check-config", "--listen", "127.0.0.1:0", *sets("jobs.callback_ca=" + FOLDER, f"speakers.store={new}/a/b"))
    assert status == 78 and f"jobs.callback_ca: {FOLDER}: Is a directory" in text and "speakers.store: " in text, text


@case
def settings_that_do_nothing_are_told():
    """At a start and by --check-config; neither fails for it."""
    for setting, why in (("server.state=" + FOLDER, "auth.keys"), ("metrics.keys=yes", "auth.keys"), ("wyoming.key=one", "auth.keys"),
                         ("fetch.private=yes", "fetch.hosts"), ("fetch.timeout=5", "fetch.hosts"), ("jobs.keep=1h", "jobs.dir"),
                         ("jobs.callback_http=on", "jobs.callback_hosts"), ("jobs.callback_retry=6", "jobs.callback_hosts or calls.callback")):
        status, text = stenod("--check-config", "--listen", "127.0.0.1:0", "--set", setting)
        assert status == 0 and f"warning: {setting.split('=')[0]} does nothing: it needs {why}" in text, text
    useful = ["fetch.timeout=60s", "jobs.callback_http=no", "log.transcripts=yes", "auth.keys=" + KEYS, "metrics.keys=yes",
              "jobs.callback_hosts=a", "jobs.callback_private=yes"]
    status, text = stenod("--check-config", "--listen", "127.0.0.1:0", *sets(*useful))
    assert status == 0 and "does nothing" not in text, text
    idle = ["log.level=warning", "log.transcripts=yes", "websocket.resume=0", "websocket.resume_memory=8K", "limits.sessions=50",
            "limits.connections=20", "calls.callback=http://a", "jobs.callback_retry=2min", "jobs.callback_give_up=60"]
    with Stenod("log.level=notice", *idle[1:]) as d:
        lines = [line.split("warning: ")[1] for line in d.output().splitlines() if "warning: " in line]
    for begins in ("websocket.resume_memory does nothing: websocket.resume is 0", "log.transcripts does nothing: log.level is notice",
                   "limits.sessions: no more than limits.connections (20)", "jobs.callback_retry: a callback is given up after 60 s"):
        assert any(line.startswith(begins) for line in lines), (begins, lines)


@case
def a_changed_file_waits_for_the_next_start():
    conf = in_folder("reload.conf", "[limits]\nuploads = 5\n")
    with Stenod(args=["--config", conf]) as d:
        def reloads(n):
            d.proc.send_signal(signal.SIGHUP)
            assert eventually(lambda: d.output().count("models loaded again") == n), d.output()
            return d.output().count(f"{conf} was changed; its settings are read at a start only")
        assert reloads(1) == 0, d.output()
        in_folder("reload.conf", "[limits]\nuploads = 0\n")
        os.utime(conf, (1, 1))
        assert reloads(2) == 1 and reloads(3) == 1, d.output()
        assert d.request("POST", "/v1/transcribe", WAV)[0] == 200


# ---- parameters of requests


def schema(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
        doc = yaml.safe_load(f)

    def resolve(x):
        while isinstance(x, dict) and "$ref" in x:
            at = doc
            for k in x["$ref"].split("/")[1:]:
                at = at[k]
            x = at
        return x
    return doc, resolve


def wrong_values(s):
    if "minimum" in s and "maximum" in s:
        return [s["minimum"] - 1, s["maximum"] + 1, "x"]
    return ["maybe"] if s.get("type") == "boolean" else ["wrong"] if "enum" in s else []


@case
def wrong_parameters_of_uploads_are_refused_by_name():
    """Each one that has limits or a list of values in openapi.yaml. Only Deepgram's form and whisper.cpp's take some as their servers do."""
    doc, resolve = schema("openapi.yaml")
    lenient = {("/v1/listen", "callback_method"), ("/v1/listen", "profanity_filter"), ("/v1/listen", "diarize")}
    tried = 0
    with Stenod() as d:
        for path in ("/v1/transcribe", "/v1/listen"):
            for p in map(resolve, doc["paths"][path]["post"]["parameters"]):
                for value in wrong_values(resolve(p["schema"])) if p["in"] == "query" and (path, p["name"]) not in lenient else ():
                    status, _, body = d.request("POST", f"{path}?{urllib.parse.urlencode({p['name']: value})}", WAV)
                    tried += 1
                    assert status in (400, 415) and f"{p['name']}: " in body.decode(), (path, p["name"], value, status, body)
                    assert path == "/v1/listen" or json.loads(body)["error"]["param"] == p["name"], body
        for path in ("/v1/audio/transcriptions", "/asr"):
            form = resolve(resolve(doc["paths"][path]["post"]["requestBody"])["content"]["multipart/form-data"]["schema"])
            fields = {**form.get("properties", {}), **{k: v for a in form.get("allOf", []) for k, v in resolve(a).get("properties", {}).items()}}
            for name, s in fields.items():
                for value in wrong_values(resolve(s)):
                    parts = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() + \
                        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + WAV + b"\r\n--x--\r\n"
                    status, _, body = d.request("POST", path, parts, {"Content-Type": "multipart/form-data; boundary=x"})
                    tried += 1
                    assert status == 400 and name.strip("[]") in body.decode(), (path, name, value, status, body)
        for query in ("vad=silero", "channel=2"):  # what only this server or recording refuses
            status, _, body = d.request("POST", "/v1/transcribe?" + query, WAV)
            assert status == 400 and json.loads(body)["error"]["param"] == query.split("=")[0], body
    assert tried > 150, tried


@case
def wrong_members_of_start_are_refused_by_name():
    doc, resolve = schema("asyncapi.yaml")
    start = resolve(resolve(doc["components"]["messages"]["start"])["payload"])
    tried = 0
    with Stenod() as d:
        for name, s in {k: v for part in (start, *map(resolve, start.get("allOf", []))) for k, v in part.get("properties", {}).items()}.items():
            for value in wrong_values(resolve(s)) if name != "type" else ():
                got = converse(d.ws, [{"type": "start", name: value}])
                tried += 1
                assert got.messages[-1]["type"] == "error" and f"{name}: " in got.messages[-1]["message"], (name, value, got.messages)
    assert tried > 100, tried


if __name__ == "__main__":
    sys.exit(tap())
