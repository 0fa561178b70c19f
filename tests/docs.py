#!/usr/bin/env python3
"""Pages against the code. TAP. Each check returns what is wrong, a line for each fault.
    python3 tests/docs.py [NAME...]   # all checks, or these
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.chdir(ROOT)
try:
    FILES = subprocess.check_output(["git", "ls-files"], text=True, stderr=subprocess.DEVNULL).split("\n")[:-1]
except (OSError, subprocess.CalledProcessError):
    print("1..0 # SKIP git cannot list the files (no clone, or another user's)")
    sys.exit()
FILES = [f for f in FILES if os.path.exists(f)]
SOURCES = [f for f in FILES if re.match(r"(engine|server|protocol)/.*\.[ch]$", f)]
NOT_OURS = {"steno/steno.h", "online-endpoint.h"}  # the installed header; Kaldi's
COLUMNS, TABLE_COLUMNS = 240, 160  # of a line of a page: a table with longer ones is better a list
CHECKS = []


def check(f):
    CHECKS.append(f)
    return f


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def source(name):
    """The path of the one source file whose path ends so: folders may change."""
    found = [f for f in SOURCES if f.endswith("/" + name)]
    if len(found) != 1:
        raise SystemExit(f"docs.py: {len(found)} files are called {name}")
    return found[0]


def pages():
    return [f for f in FILES if f.endswith(".md")]


def prose(path):
    """(number, line) outside of code blocks."""
    code = False
    for number, line in enumerate(read(path).split("\n"), 1):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield number, line


# ---- links ------------------------------------------------------------------------------------

def anchors(path):
    """Anchors of headings, as GitHub makes them."""
    seen, found = {}, set()
    for _, line in prose(path):
        heading = re.match(r"#+ +(.*\S)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
    return found


@check
def links_lead_somewhere():
    for path in pages():
        for number, line in prose(path):
            for target, anchor in re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]+))?\)", line):
                there = os.path.join(os.path.dirname(path), target) if target else path
                if not os.path.exists(there):
                    yield f"{path}:{number}: {target}"
                elif anchor and there.endswith(".md") and anchor not in anchors(there):
                    yield f"{path}:{number}: {target}#{anchor}"


@check
def lines_can_be_read():
    for path in pages():
        if path.startswith(("docs/log/", "docs/data/")):
            continue
        for number, line in prose(path):
            if len(line) > (TABLE_COLUMNS if line.startswith("|") and path.startswith(("docs/", "README")) else COLUMNS):
                yield f"{path}:{number}: {len(line)} columns"


@check
def readme_begins_with_the_two_commands_and_a_request():
    head = "\n".join(read("README.md").split("\n")[:15])
    for what in ("make demo", "make check", "\ncurl "):
        if what not in head:
            yield f"README.md: no {what.strip()} in its first 15 lines"


@check
def readme_counts_the_models_of_the_catalogue():
    names = [m["name"] for m in json.loads(read("conf/catalogue.json"))["models"]]
    told = re.search(r"# (\d+) models, silero-vad, speakers, smart-turn, grammars, punctuation", read("README.md"))
    if not told or int(told[1]) != len([n for n in names if n not in ("silero-vad", "speakers", "smart-turn") and not n.startswith(("itn-", "punctuation-"))]):
        yield f"README.md: {told and told[0]}; conf/catalogue.json has {len(names)} with these"


# ---- READMEs of folders -----------------------------------------------------------------------

def modules(folder):
    """Names of the modules and scripts of a folder, and of the folders in it. A header that only files of one module
    share (X_internal.h) belongs to the module."""
    names = set()
    for f in FILES:
        inside = os.path.relpath(f, folder)
        if inside.startswith(".."):
            continue
        if "/" in inside:
            names.add(inside.split("/")[0])
        elif re.search(r"\.(c|h|py|sh|awk|proto)$", inside):
            names.add(re.sub(r"_?internal$", "", os.path.splitext(inside)[0]))
    return names - {""}


@check
def readmes_name_every_file_of_their_folder():
    """A README names modules, or several of them by a pattern (`op_*`)."""
    for path in pages():
        folder = os.path.dirname(path)
        if os.path.basename(path) != "README.md" or not re.match(r"engine|server|protocol|tests$|loadtest", folder):
            continue
        words = set(re.findall(r"[\w*-]{2,}", read(path)))
        patterns = [w for w in words if "*" in w and len(w) > 2]
        for name in sorted(modules(folder)):
            if name not in words and not any(fnmatch.fnmatch(name, p) for p in patterns):
                yield f"{path}: nothing of {name}"


@check
def files_that_pages_name_exist():
    names = {os.path.basename(f) for f in FILES}
    for path in pages():
        if path.startswith("docs/log/"):
            continue
        for number, line in prose(path):
            for name in re.findall(r"(?<![\w.*/-])((?:[\w-]+/)*[\w-]+\.[ch])\b(?![\w.*-])", line):
                if name in NOT_OURS or re.search(r"[A-Z]", name):  # test_X.c
                    continue
                if os.path.basename(name) not in names:
                    yield f"{path}:{number}: {name}"
                elif "/" in name and not any(("/" + f).endswith("/" + name) for f in FILES):
                    yield f"{path}:{number}: {name} is elsewhere"


# ---- the server -------------------------------------------------------------------------------

def routes():
    """(path, methods) of the server's table; "WS" for a WebSocket."""
    table = re.search(r"steno_routes\[\] = \{(.*?)\n\};", read(source("routes.c")), re.S)[1]
    kinds = {"GETS": {"get"}, "POSTS": {"post"}, "REFUSES": {"post"}, "TAKES_UPLOADS": {"post"}}
    bits = {"GET": "get", "POST": "post", "UPLOAD": "post", "DELETE": "delete"}
    for kind, path, answer in re.findall(r'(\w+)\("([^"]+)", (\w+)', table):
        yield path, {"WS"} if answer == "get_stream" else kinds[kind]
    for row in re.findall(r"\{(\.path.*?)\}(?=,)", table, re.S):
        path = re.search(r'\.label = "([^"]+)"', row)[1]
        methods = {bits[b] for b in re.findall(r"STENO_ROUTE_(\w+)", row)}
        yield path, methods - {"get"} | {"WS"} if "get_stream" in row else methods


@check
def api_descriptions_have_the_routes_of_the_server():
    described = {}
    for path, block in re.findall(r"^  (/\S*):\n((?:    .*\n|\n)+)", read("docs/openapi.yaml"), re.M):
        described[path] = set(re.findall(r"^    (get|post|put|delete):", block, re.M))
    addresses = set(re.findall(r"^    address: (\S+)", read("docs/asyncapi.yaml"), re.M))
    served = dict(routes())
    for path, methods in served.items():
        if "WS" in methods and path not in addresses:
            yield f"docs/asyncapi.yaml: no {path}"
        for method in methods - {"WS"} - described.get(path, set()):
            # what stands below /v1/jobs/{id} is the same route
            if not path.endswith("{id}") or not any(method in m for p, m in described.items() if p.startswith(path + "/")):
                yield f"docs/openapi.yaml: no {method} of {path}"
    for path in addresses - {p for p, m in served.items() if "WS" in m} - {"/"}:
        yield f"docs/asyncapi.yaml: {path} is no route"
    for path in described:
        if not any(path == p or path.startswith(p.rstrip("/") + "/") for p in served if p != "/") and path != "/":
            yield f"docs/openapi.yaml: {path} is no route"


@check
def openapi_has_the_states_of_jobs():
    words = re.search(r"names\[STENO_JOB_STATES\] = \{(.*?)\}", read(source("job_queue.c")), re.S)[1]
    there = ", ".join(re.findall(r'"(\w+)"', words))
    told = re.findall(r"state: \{enum: \[(queued.*?)\]|name: state.*?enum: \[(queued.*?)\]", read("docs/openapi.yaml"))
    for one in told or [("nothing", "")]:
        if "".join(one) != there:
            yield f"docs/openapi.yaml: {''.join(one)}; job_queue.c: {there}"


@check
def pages_name_the_routes_of_the_server():
    text = "".join(read(f"docs/{p}.md") for p in ("protocol", "dialects", "server", "jobs", "metrics"))
    for path, _ in routes():
        if path.replace("{id}", "") not in text:
            yield f"docs/protocol.md, dialects.md, server.md, jobs.md, metrics.md: nothing of {path}"


@check
def dialect_h_lists_the_dialects():
    text = read(source("dialect.h"))
    there = set(re.findall(r"extern const struct steno_dialect steno_dialect_(\w+);", text))
    listed = set(re.findall(r"\w+", re.search(r"The dialects: (.*?)\.", text, re.S)[1]))
    made = {name for f in SOURCES for name in re.findall(r"^const struct steno_dialect steno_dialect_(\w+) =", read(f), re.M)}
    for name in sorted(there ^ listed):
        yield f"dialect.h: {name} is {'not in the list at its head' if name in there else 'no dialect'}"
    for name in sorted(there ^ made):
        yield f"dialect.h: {name} is {'defined nowhere' if name in there else 'not declared'}"


def locks():
    """STRUCT.FIELD of every mutex that is a field, without the prefix of the struct."""
    for path in SOURCES:
        if not re.search(r"pthread_mutex_t \w+;", read(path)):
            continue
        struct = None
        for line in read(path).split("\n"):
            struct = (re.match(r"(?:static |typedef )*struct (\w+) \{", line) or [None, struct])[1]
            field = re.match(r"\s*(?:static )?pthread_mutex_t (\w+);", line)
            if field:
                yield f"{struct}.{field[1]}"


@check
def threads_md_has_every_lock():
    text = read("docs/threads.md")
    named = set(re.findall(r"`(\w+\.(?:\w*lock|mx))`", text))
    there = set(locks())
    for lock in sorted(there - named):
        yield f"docs/threads.md: nothing of `{lock}`"
    for lock in sorted(named - there):
        yield f"docs/threads.md: there is no `{lock}`"


@check
def temporary_files_are_not_written():
    """docs/ARCHITECTURE.md: recordings stay in memory, but for those of jobs. The command is not meant: `steno verify`
    writes networks for ONNX Runtime to read."""
    for path in SOURCES:
        if not re.search("/(cli|tools)/", path) and re.search(r"\b(tmpfile|mkstemp|mkostemp|mkdtemp|tempnam|tmpnam)\(|\bO_TMPFILE\b", read(path)):
            yield path


@check
def admission_md_has_every_constant():
    """Those that decide who is let in. Values that are computed from others, and sizes of buffers, are none."""
    others = {"BLOCK", "OTHER_WORKERS", "WORTH", "FORMAT", "MAX_DEPTH", "MAX_FILE", "XXH_INLINE_ALL"}
    there = {name for f in ("pool/capacity.c", "pool/capacity.h", "accounts.c", "pool/trial.c", "costs.c", "ws_admission.c")
             for name in re.findall(r"^#define (\w+) [\d.]", read(source(f)), re.M)} - others
    text = read("docs/admission.md")
    rows = "".join(line for line in text.split("\n") if line.startswith("| `"))
    named = set(re.findall(r"`([A-Z_]{4,})`", rows))
    for name in sorted(there ^ named):
        yield f"docs/admission.md: {'nothing of' if name in there else 'there is no'} {name}"
    if len(there) > 5:
        yield f"docs/admission.md: {len(there)} constants are there"


# ---- the engine -------------------------------------------------------------------------------

@check
def engine_md_has_the_passes_in_their_order():
    table = re.search(r"steno_passes\[\] = \{(.*?)\{0\}", read(source("passes.c")), re.S)[1]
    there = re.findall(r"\{(?:GRAPH|NODES)\((\w+)\), (\d), (\d),", table)
    told = []
    for names, level, phase in re.findall(r"^\| ([a-z0-9, ]+) \| (\d) \| (\d) \|", read("docs/engine.md"), re.M):
        told += [(name, level, phase) for name in names.split(", ")]
    for i in range(max(len(there), len(told))):
        a, b = (there + [None] * len(told))[i], (told + [None] * len(there))[i]
        if a != b:
            yield f"docs/engine.md: row {i + 1} is {b}, of passes.c {a}"
            return


# ---- generated text ---------------------------------------------------------------------------

@check
def options_are_written_from_their_tables():
    build = os.environ.get("STENO_BUILD", "build/release")
    if not os.access(os.path.join(build, "stenod"), os.X_OK):
        raise Skip(f"{build}/stenod is not built")
    yield from subprocess.run([sys.executable, "docs/options.py", "--check", "--build", build], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False).stdout.split("\n")[:-1]


@check
def configuration_md_names_the_sections():
    text = read("docs/configuration.md")
    for section in sorted(set(re.findall(r'^ROW\(\w+, \w+, "(\w+)"', read(source("config_table.h")), re.M))):
        if f"`[{section}]`" not in text:
            yield f"docs/configuration.md: nothing of [{section}]"


@check
def clients_md_is_what_its_script_prints():
    if subprocess.check_output([sys.executable, "tests/clients.py"], text=True) != read("docs/clients.md"):
        yield "docs/clients.md: tests/clients.py > docs/clients.md"


class Skip(Exception):
    pass


def main():
    names, failed = sys.argv[1:], 0
    checks = [c for c in CHECKS if not names or c.__name__ in names]
    print(f"1..{len(checks)}")
    for i, c in enumerate(checks, 1):
        try:
            wrong = list(c())
        except Skip as why:
            print(f"ok {i} - {c.__name__} # SKIP {why}")
            continue
        print(f"{'not ok' if wrong else 'ok'} {i} - {c.__name__}")
        for line in wrong[:60]:
            print(f"# {line}")
        failed += bool(wrong)
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
