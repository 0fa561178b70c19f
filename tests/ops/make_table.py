#!/usr/bin/env python3
"""Write docs/data/operators.md from the build's own information.

    python3 tests/ops/make_table.py --steno build/steno [--json all.json] [--conversions conv.json] > docs/data/operators.md

Operators and opsets come from `steno model ops`. Types are tried out: for each operator the first line of
cases.txt runs once per element type, in place of the type of its first input. --json: results of
shared/tools/onnx_conformance.py --all --json, for the counts. --conversions: those of tests/ops/conversions.py --json,
for the table of opsets. Needs the packages onnx and numpy.
"""
import argparse
import collections
import json
import os
import subprocess
import tempfile
import textwrap
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

warnings.filterwarnings("ignore")
TYPES = {"f32": 1, "f64": 11, "f16": 10, "bf16": 16, "i8": 3, "u8": 2, "i16": 5, "u16": 4, "i32": 6, "u32": 12,
         "i64": 7, "u64": 13, "bool": 9}
HERE = os.path.dirname(__file__)
OTHERS = {
    "ai.steno": "Graph passes make these ([passes.md](../passes.md) says what each stands for): all versions from 1 on, f32 "
                "(IntLinear: 8-bit products). In files they are functions with standard bodies ([optimize.md](../optimize.md)).",
    "ai.steno.run": "Only inside the engine, never in files: decoders with cache, positions past an export's table, states of "
                    "streams, batches of networks that were exported for one stream, and convolutions by row tiles.",
    "ai.onnx.preview": "Operators that the standard tries out: version 1, types of floats; the bodies see whole tensors, so "
                       "there is no fused form.",
    "com.microsoft": "What ONNX Runtime's optimizer and quantizer write: version 1, f32 and what they quantize. "
                     "`tests/integration/test_contrib.py` compares each with onnxruntime.",
}


def split(text, t_from, t_to):
    """One tensor of cases.txt as (type, shape, values). The type t_from is replaced."""
    head, values = text.split(":", 1)
    kind, dims = head[:-1].split("[")
    shape = [int(d) for d in dims.split(",")] if dims else []
    kind = t_to if kind == t_from else kind
    return kind, shape, [float(v) for v in values.split()]


def attribute(text):
    name, rest = text.split("=", 1)
    kind, value = rest.split(":", 1)
    read = {"i": int, "f": float, "s": str, "I": lambda v: [int(x) for x in v.split(",") if x]}[kind]
    return name, read(value)


def works(steno, line, kind):
    _, domain, op, opset, attrs, inputs, outputs = line.split("|")
    first = inputs.split("[", 1)[0]
    names, inits = [], []
    for i, text in enumerate(inputs.split(";")):
        names.append("" if text == "-" else f"x{i}")
        if text == "-":
            continue
        t, shape, values = split(text, first, kind)
        data = np.nan_to_num(np.array(values), posinf=1, neginf=0)
        if t[0] in "iu":
            data = np.clip(data, -100, 100)
        if t not in ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64"):
            data = np.abs(data)
        if t == "bool":
            data = data != 0
        inits.append(helper.make_tensor(f"x{i}", TYPES[t], shape, data.ravel().tolist() if t[0] in "fb" and t != "bool"
                                        else [int(v) for v in data.ravel()]))
    attributes = dict(attribute(a) for a in attrs.split(";") if a)
    outs = [f"y{i}" for i in range(len(outputs.split(";")))]
    node = helper.make_node(op, names, outs, domain=domain, **attributes)
    # The first input's value is unknown at load, so that the operator runs and is not folded.
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info(o) for o in outs], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(opset))], ir_version=10)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/m.onnx")
        p = subprocess.run([steno, "run", f"{d}/m.onnx", "--output-dir", d], capture_output=True, text=True)
        return p.returncode == 0


def guess(op):
    """A case for an operator without one: one, two or three inputs of a shape that fits most operators."""
    x = "f32[1,2,4]:1 2 3 4 5 6 7 8"
    for inputs in (x, f"{x};i64[1]:0;i64[1]:1", f"{x};{x}", f"{x};f32[2]:1 1;f32[2]:1 1", f"{x};f32[2]:1 1;f32[2]:1 1;f32[2]:1 1;f32[2]:1 1"):
        yield f"guess||{op}|28||{inputs}|"


def types_of(steno, op, line):
    if not line:
        line = next((g for g in guess(op) if works(steno, g, "f32")), None)
    if not line:
        return ""
    good = [t for t in TYPES if works(steno, line, t)]
    groups = (("float", ("f32", "f64", "f16", "bf16")), ("int", ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")))
    out = []
    for name, members in groups:
        if all(m in good for m in members):
            out.append(name)
            good = [t for t in good if t not in members]
    return " ".join(out + good)


def counts(path):
    per, total = collections.defaultdict(collections.Counter), collections.Counter()
    if not path:
        return per, total
    results = json.load(open(path, encoding="utf-8"))
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        status = results.get(case.name, ["absent"])[0]
        total[status] += 1
        if not case.name.endswith("_expanded"):
            for op in {n.op_type for n in case.model.graph.node}:
                per[op][status] += 1
    return per, total


def others(known):
    """Operators of the standard that the engine lacks, by domain."""
    out = collections.defaultdict(set)
    for s in onnx.defs.get_all_schemas():
        if not s.deprecated and (s.domain or "ai.onnx", s.name) not in known and s.name != "Constant":
            out[s.domain or "ai.onnx"].add(s.name)
    return out


def since(op, opset):
    try:
        return onnx.defs.get_schema(op, opset).since_version
    except onnx.defs.SchemaError:
        return 0


def conversions(path):
    """Rows of the table of opsets: operator, versions, conversions that were done, those that are impossible."""
    done, refused = collections.defaultdict(set), collections.defaultdict(dict)
    for ops, at, to, status, why in json.load(open(path, encoding="utf-8")):
        ops = [op for op in ops if op != "Constant"]
        if len(ops) != 1:
            continue
        step = (since(ops[0], at), since(ops[0], to))
        if status == "done" and step[0] != step[1]:
            done[ops[0]].add(step)
        elif status == "refused":
            refused[ops[0]].setdefault(why.replace("|", "/"), set()).add(step)
    for op in sorted(set(done) | set(refused)):
        steps = ", ".join(f"{a} → {b or 'none'}" for a, b in sorted(done[op]))
        why = "; ".join(f"{', '.join(f'{a} → {b}' if b else f'{a} → below {a}' for a, b in sorted(s))}: {text}"
                        for text, s in sorted(refused[op].items()))
        yield f"| {op} | {steps} | {why} |"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--steno", default="build/steno")
    ap.add_argument("--json")
    ap.add_argument("--conversions")
    a = ap.parse_args()
    cases = {}
    for line in open(os.path.join(HERE, "cases.txt"), encoding="utf-8"):
        cases.setdefault(line.split("|")[2], line.rstrip("\n"))
    rows = [r.split() for r in subprocess.run([a.steno, "model", "ops"], capture_output=True, text=True,
                                              check=True).stdout.splitlines()]
    per, total = counts(a.json)
    print(open(os.path.join(HERE, "operators.head.md"), encoding="utf-8").read().rstrip("\n").replace(
        "@COUNT@", f"{total['pass']:,} passed, {total['fail']:,} failed, {total['skip']:,} skipped"))
    for domain, about in OTHERS.items():
        names = sorted({r[1] for r in rows if r[0] == domain})
        print(f"\n## {domain}\n\n{about}\n\n" + textwrap.fill(", ".join(names) + ".", 110))
    missing = {r[0] for r in rows} - set(OTHERS) - {"ai.onnx"}
    assert not missing, f"say what {missing} are for"
    for domain in ("ai.onnx",):
        print(f"\n## {domain}\n\n| operator | opsets | types of the first input | node tests passed |\n|---|---|---|---|")
        for _, op, since, until in sorted(r for r in rows if r[0] == domain):
            tried = types_of(a.steno, op, cases.get(op))
            done = per[op]
            ran = done["pass"] + done["fail"]
            print(f"| {op} | {since}–{until if until != '-' else ''} | {tried} | {str(done['pass']) + ' of ' + str(ran) if ran else ''} |")

    print("\n## Operators of the standard that the engine lacks\n\n`steno optimize` passes them through, `steno run` names "
          "them.")
    for domain, names in sorted(others({(r[0], r[1]) for r in rows}).items()):
        print(f"\n**{domain}**:\n" + textwrap.fill(", ".join(sorted(names)) + ".", 110))
    if not a.conversions:
        return
    print("\n## Conversion between opsets\n\nWhat `steno optimize --opset` did with the node tests of the onnx package, from "
          "version to version of each\noperator ([optimize.md](../optimize.md)); checked by onnx.checker and by values. A "
          "version that only some models can\nhave is in both columns. Written by `tests/ops/conversions.py`.\n\n"
          "| operator | done | impossible, and why |\n|---|---|---|")
    for row in conversions(a.conversions):
        print(row)


if __name__ == "__main__":
    main()
