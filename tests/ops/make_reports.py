#!/usr/bin/env python3
"""Write docs/data/reports.md: the results of `steno optimize` for the project's models.

    python3 tests/ops/make_reports.py --steno build/steno --tiny ../shared/zoo/tiny --full DIR > docs/data/reports.md

--tiny: small recorded models, compared with onnxruntime at every level. --full: the full-size graphs with weights
(the zoo's fill_weights.py writes them); without this option they are left out. Needs the packages of
tests/requirements.txt.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
import test_models  # noqa: E402  pylint: disable=wrong-import-position
import test_optimize  # noqa: E402  pylint: disable=wrong-import-position
import test_transformers  # noqa: E402  pylint: disable=wrong-import-position
from test_models import np  # noqa: E402  pylint: disable=wrong-import-position

HEAD = """# What steno optimize makes of models

`tests/ops/make_reports.py` writes this page. Nodes are those of the file (Constant nodes are values here and do not
count). A whole layer is one node; its fused operators are steps. A difference is that of the original and the optimized
file, both in onnxruntime, relative to the largest magnitude of an output; it is the larger one of two steps (states are
fed back). Graphs with 8-bit products differ where an activation rounds the other way.
"""
LEVELS = ("basic", "extended", "all")
LM = os.path.join(os.path.dirname(__file__), "..", "data", "lm")


def onnx_files(folder):
    for root, _, files in sorted(os.walk(folder)):
        for f in sorted(files):
            if f.endswith(".onnx"):
                yield os.path.join(root, f)


def small(name, path, out):
    cells, original = [], 0
    for level in LEVELS:
        r = test_optimize.optimize(path, out, "--level", level)
        original = r["nodes"]["original"]
        worst = test_optimize.compare(path, out, native=False)
        cells.append(f"{r['nodes']['optimized']} | {worst:.1e}")
    print(f"| {name} | {original} | {' | '.join(cells)} |", flush=True)


def operators(report, column):
    rows = [r for r in report["operators"] if r[column]]
    rows.sort(key=lambda r: -r[column])
    return ", ".join(f"{r['operator']} {r[column]}" for r in rows)


def verified(steno, a, b):
    """Largest relative difference of our engine between both files at 100 frames, or the reason why there is none."""
    p = subprocess.run([steno, "verify", a, b, "--samples", "1", "--length", "100", "--json"], capture_output=True, text=True,
                       check=False)
    if p.returncode > 1:
        return ""
    return f"{max(o['relative'] for o in json.loads(p.stdout)['outputs']):.1e}"


def full(steno, folder):
    reports = []
    print("\n## Full size\n\nRandom weights. MB is the size of the file before and after. The difference is that of `steno verify` on one sample of 100 frames.\n\n"
          "| network | nodes | optimized | steps | MB | MB | difference |\n|---|---|---|---|---|---|---|")
    for path in onnx_files(folder):
        if os.path.getsize(path) < 20 << 20:
            continue
        with tempfile.TemporaryDirectory() as d:
            r = test_optimize.optimize(path, f"{d}/out.onnx")
            worst = verified(steno, path, f"{d}/out.onnx")
        name = os.path.relpath(path, folder)[:-5]
        print(f"| {name} | {r['nodes']['original']} | {r['nodes']['optimized']} | {r['steps']['optimized']} | "
              f"{r['bytes']['original'] / 1e6:.0f} | {r['bytes']['optimized'] / 1e6:.0f} | {worst} |", flush=True)
        reports.append((name, r))
    for name, r in reports:
        passes = ", ".join(f"{k} {v}" for k, v in r["passes"].items())
        print(f"\n### {name}\n\n- original: {operators(r, 'original')}\n- optimized: {operators(r, 'optimized')}\n- passes: {passes}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--steno", default="build/steno")
    ap.add_argument("--tiny", required=True)
    ap.add_argument("--full")
    a = ap.parse_args()
    test_models.STENO = test_optimize.STENO = os.path.abspath(a.steno)
    test_optimize.ZOO = os.path.abspath(a.tiny)
    print(HEAD)
    print("| model | nodes | basic | difference | extended | difference | all | difference |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as d:
        for path in onnx_files(test_optimize.ZOO):
            small(os.path.relpath(path, test_optimize.ZOO)[:-5], path, f"{d}/out.onnx")
        test_optimize.first = lambda path, sess: lambda step, outs: test_transformers.feed(sess, np.random.default_rng(step), 20)
        for f in sorted(os.listdir(LM)):
            if f.endswith(".onnx"):
                small(f"{f[:-5]} of transformers, 2 layers", os.path.join(LM, f), f"{d}/out.onnx")
    if a.full:
        full(test_models.STENO, a.full)


if __name__ == "__main__":
    main()
