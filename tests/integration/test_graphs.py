#!/usr/bin/env python3
"""Random graphs of speech models' motifs against ONNX Runtime and the ONNX reference evaluator (TAP): some seeds that are
always the same, and the graphs that failed once (tests/graphs/found). Skipped without onnx and onnxruntime."""
import glob
import importlib.util
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
RUNNER = os.path.join(BUILD, "tests", "graphs", "runner")
FOUND = os.path.join(ROOT, "tests", "graphs", "found")
SEEDS = 100 if os.environ.get("STENO_SAN") else 400


def main():
    for package in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            print(f"1..0 # SKIP the package {package} is absent")
            return 0
    folders = sorted(glob.glob(os.path.join(FOUND, "*")))
    print(f"1..{1 + len(folders)}")
    tool = [sys.executable, os.path.join(ROOT, "tests", "graphs", "fuzz_graphs.py"), "--runner", RUNNER]
    run = subprocess.run(tool + ["--count", str(SEEDS)], capture_output=True, text=True)
    print(f"{'not ok' if run.returncode else 'ok'} 1 - {(run.stdout.strip().splitlines() or ['nothing'])[-1]}")
    if run.returncode:
        print("\n".join("# " + line for line in (run.stdout + run.stderr).splitlines()[-60:]))
    failed = run.returncode != 0
    for i, folder in enumerate(folders):
        run = subprocess.run(tool + ["--replay", folder], capture_output=True, text=True)
        failed = failed or run.returncode != 0
        print(f"{'not ok' if run.returncode else 'ok'} {i + 2} - {os.path.basename(folder)}")
        if run.returncode:
            print("\n".join("# " + line for line in (run.stdout + run.stderr).splitlines()[-20:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
