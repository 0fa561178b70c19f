#!/usr/bin/env python3
"""Print docs/clients.md: what the clients of others were seen to do. Its rows are the tests that have the decorator
@client(name, what) of tests/integration/daemon.py; versions of packages are those of tests/requirements.txt.

    tests/clients.py >docs/clients.md"""
import ast
import pathlib
import re

HERE = pathlib.Path(__file__).parent
HEAD = """# Clients

What clients of others do with a running `stenod`, as the tests run it. `tests/clients.py` makes this page; each row is a
test. Clients that are no packages here are imitated with the bytes of their sources, which the last column says.

| client | version | what it does | test |
|---|---|---|---|"""


def versions():
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def rows():
    known = versions()
    for path in sorted((HERE / "integration").glob("test_*.py")):
        for fn in ast.parse(path.read_text(encoding="utf-8")).body:
            for d in getattr(fn, "decorator_list", []):
                if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "client":
                    name, what, version = ([ast.literal_eval(a) for a in d.args] + [None])[:3]
                    yield name, version or known.get(name, "?"), what, f"{path.stem}: {fn.name}"


def main():
    print(HEAD)
    for name, version, what, test in sorted(rows(), key=lambda r: (re.sub(r"\W", "", r[0]).lower(), r[2])):
        assert version != "?", f"{name}: its version is neither in tests/requirements.txt nor in the decorator"
        print(f"| {name} | {version} | {what} | `{test}` |")


if __name__ == "__main__":
    main()
