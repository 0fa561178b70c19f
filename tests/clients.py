#!/usr/bin/env python3
"""Print docs/clients.md: what the clients of others were seen to do. Its rows are the tests that have the decorator
@client(name, what, version) of tests/integration/daemon.py. Versions of packages are those of tests/requirements.txt, and
for test_clients_large.py those of tests/clients; "version" may name such a package.

    tests/clients.py >docs/clients.md"""
import ast
import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
HEAD = """# Clients

What clients of others do with a running `stenod`, as the tests run it. `tests/clients.py` makes this page; each row is a
test of that file. Clients that are no packages here are imitated with the bytes of their sources, which the version column says.

The tests of `test_clients_large` install about 1 GB of packages, so they are not part of `make check`. `make
check-clients` installs what they need (a JDK, Node.js, the pinned packages of `tests/clients`) and runs them.

| client | version | what it does | test |
|---|---|---|---|"""


def versions(path):
    """{package: version} of a list for pip or npm; of pip's also {"package MAJOR": version}."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)["dependencies"]
    pins = {re.sub(r"\[.*", "", name): v for name, v in re.findall(r"^([^#=\s]+)==(\S+)", text, re.M)}
    return {**pins, **{f"{name} {v.split('.')[0]}": v for name, v in pins.items()}}


def rows():
    usual = versions(HERE / "requirements.txt")
    large = {**versions(HERE / "clients" / "requirements-more.txt"), **versions(HERE / "clients" / "requirements.txt"),
             **versions(HERE / "clients" / "package.json")}
    for path in sorted((HERE / "integration").glob("test_*.py")):
        known = large if path.stem == "test_clients_large" else usual
        for fn in ast.parse(path.read_text(encoding="utf-8")).body:
            for d in getattr(fn, "decorator_list", []):
                if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "client":
                    name, what, version = ([ast.literal_eval(a) for a in d.args] + [None])[:3]
                    version = known.get(version or name.split(": ")[-1], version or "?")
                    yield name, version, what, path.stem


def main():
    print(HEAD)
    for name, version, what, test in sorted(rows(), key=lambda r: (re.sub(r"\W", "", r[0]).lower(), r[2])):
        assert version != "?", f"{name}: its version is neither in a list of packages nor in the decorator"
        print(f"| {name} | {version} | {what} | `{test}` |")


if __name__ == "__main__":
    main()
