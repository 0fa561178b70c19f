#!/usr/bin/env python3
"""The ONNX project's node tests through `steno run`, by the tool that counts them (TAP).

The number of passed tests may only rise: WANTED is the number when it was last raised. Skipped if the shared
folder or the onnx package is absent, and in sanitizer builds, which are too slow.
"""
import importlib.util
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))
TOOL = os.path.join(SHARED, "tools", "onnx_conformance.py")
WANTED = 1585  # of 1622 that are not skipped


def main():
    why = None
    if not os.path.exists(TOOL):
        why = f"{TOOL} is absent"
    elif importlib.util.find_spec("onnx") is None:
        why = "the onnx package is absent"
    elif os.environ.get("STENO_SAN"):
        why = "sanitizer build"
    if why:
        print(f"ok 1 - node tests of the ONNX project # SKIP {why}")
        print("1..1")
        return 0
    run = subprocess.run([sys.executable, TOOL, "--all", "--steno", os.path.join(BUILD, "steno"), "--fail-under", str(WANTED)],
                         capture_output=True, text=True, timeout=900)
    lines = run.stdout.strip().splitlines()
    last = lines[-1] if lines else ""
    print(f"{'ok' if run.returncode == 0 else 'not ok'} 1 - node tests of the ONNX project: {last} (wanted {WANTED})")
    bad = [l for l in lines if re.search(r"signal \d+|time-out", l)]
    print(f"{'not ok' if bad else 'ok'} 2 - no node test crashes or hangs")
    for l in (bad or [l for l in lines if l.startswith("FAIL")] if run.returncode or bad else [])[:40]:
        print(f"# {l}")
    if run.stderr.strip() and run.returncode:
        print(f"# {run.stderr.strip().splitlines()[-1]}")
    print("1..2")
    return 1 if run.returncode or bad else 0


if __name__ == "__main__":
    sys.exit(main())
