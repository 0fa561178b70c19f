#!/usr/bin/env python3
"""Convert the ONNX project's node tests to other opsets with `steno optimize --opset`, and check the files.

    python3 tests/ops/conversions.py --steno build/steno [--ops Split,Pad] [--every 40] [--json out.json]

Every case is optimized in its own opset. Then it goes to each opset from 11 on in which one of its operators has another version, and the oldest file back
to the newest opset. A case has two forms: all inputs fed, and all but the first built in. A written file must pass
onnx.checker and give the case's values in onnxruntime (without its optimizer), else in the reference evaluator, and
in `steno run` if it runs the operator. A refusal must be STENO_ERR_UNSUPPORTED (exit status 65) with a reason.
--every N takes each Nth case, --per-op N the first N cases of each operator. The last line is "N done, M refused, K wrong".
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

warnings.filterwarnings("ignore")
OLDEST, NEWEST = 11, defs.onnx_opset_version()
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}


def nodes_of(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(a.g)


def since(op, opset):
    try:
        return defs.get_schema(op, opset).since_version
    except defs.SchemaError:
        return 0


def signature(model, opset):
    return tuple(sorted({(n.op_type, since(n.op_type, opset)) for n in nodes_of(model.graph) if not n.domain}))


def opset_of(model):
    return next((o.version for o in model.opset_import if not o.domain), OLDEST)


def targets(model):
    """The opsets from OLDEST on that differ for this model, the nearest first."""
    at = opset_of(model)
    if not any(not n.domain for n in nodes_of(model.graph)):
        return []
    out = []
    for way in (range(at - 1, OLDEST - 1, -1), range(at + 1, NEWEST + 1)):
        last = signature(model, at)
        for t in way:
            if t >= OLDEST and signature(model, t) != last:
                last = signature(model, t)
                out.append(t)
    return out


def arrays_only(values):
    return all(isinstance(v, np.ndarray) and v.dtype != object for v in values)


def built_in(model, inputs):
    """The model with all inputs but the first as initializers."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    infos = list(m.graph.input)
    del m.graph.input[1:]
    for info, v in list(zip(infos, inputs))[1:]:
        m.graph.initializer.append(numpy_helper.from_array(v, info.name))
    return m


def differ(want, got, rtol, atol):
    """What differs, or "". bf16 may be two steps off: the references round each operation of a fused one."""
    for i, w in enumerate(want):
        g = got[i]
        if isinstance(w, list):
            r = differ(w, g, rtol, atol) if isinstance(g, list) and len(w) == len(g) else "another list"
            if r:
                return r
            continue
        if w is None or g is None:
            if w is not g:
                return f"output {i}: {g} for {w}"
            continue
        w, g = np.asarray(w), np.asarray(g)
        if w.shape != g.shape:
            return f"output {i}: {g.shape} for {w.shape}"
        if w.dtype.kind in "OSUT":
            if [str(x) for x in w.ravel()] != [str(x) for x in g.ravel()]:
                return f"output {i}: other strings"
        elif not np.allclose(g.astype("c16"), w.astype("c16"), rtol=max(rtol, 16e-3 if w.dtype.name == "bfloat16" else 1e-3),
                             atol=max(atol, 1e-4), equal_nan=True):
            return f"output {i}: other values"
    return ""


def in_onnxruntime(path, feeds):
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    return s.run(None, feeds)


def in_reference(path, feeds):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(path).run(None, feeds)


def in_steno(steno, path, feeds, count):
    with tempfile.TemporaryDirectory() as d:
        cmd = [steno, "run", path, "--output-dir", d]
        for i, (k, v) in enumerate(feeds.items()):
            np.save(f"{d}/in{i}.npy", v)
            cmd += ["--input", f"{k}={d}/in{i}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=60)
        if p.returncode:
            raise ValueError(p.stderr.strip())
        return [np.load(f"{d}/{i}.npy", allow_pickle=False) for i in range(count)]


class Judge:
    """Runs files; an evaluator that fails on the original, or gives other values, does not judge the converted."""

    def __init__(self, steno, case, path, feeds, want):
        self.case, self.feeds, self.want = case, feeds, want
        ops = {n.op_type for n in nodes_of(case.model.graph)}
        self.random = bool(ops & RANDOM)
        self.evaluators = []
        try:  # the shape inference of some operators refuses the original, too
            onnx.checker.check_model(path, full_check=True)
            self.full = True
        except Exception:
            self.full = False
        for name, run in (("onnxruntime", in_onnxruntime), ("the reference evaluator", in_reference),
                          ("steno", lambda p, f: in_steno(steno, p, f, len(want)))):
            # the reference evaluator gives RoiAlign of opset 10 the default of opset 16
            if name == "the reference evaluator" and (any(e[2] for e in self.evaluators) or "RoiAlign" in ops):
                continue
            sure = True
            try:
                ok = not self.compare(run(path, feeds))
            except Exception as e:
                ok, sure = "NOT_IMPLEMENTED" in str(e), False  # but perhaps it has the other version
            if ok:
                self.evaluators.append((name, run, sure))

    def compare(self, got):
        if self.random:
            return ""
        return differ(self.want, got, self.case.rtol, self.case.atol)

    def wrong(self, path):
        try:
            onnx.checker.check_model(path, full_check=self.full)
        except Exception as e:
            return "checker: " + str(e).splitlines()[0]
        for name, run, sure in self.evaluators:
            try:
                bad = self.compare(run(path, self.feeds))
            except Exception as e:
                text = str(e)
                if not sure or "NOT_IMPLEMENTED" in text or "under development" in text or "No implementation for" in text:
                    continue  # it lacks this version
                bad = text.splitlines()[0][:200]
            if bad:
                return f"{name}: {bad}"
        return ""


def convert(steno, source, target, out, level="basic"):
    cmd = [steno, "optimize", source, "-o", out, "--opset", str(target), "--level", level]
    p = subprocess.run(cmd, capture_output=True, text=True, timeout=60)
    return p.returncode, p.stderr.strip()


def run_form(steno, case, model, inputs, want, form):
    """[(operators, from, to, status, why)] of one form of a case."""
    rows = []
    at, ops = opset_of(model), sorted({n.op_type for n in nodes_of(model.graph) if not n.domain})
    with tempfile.TemporaryDirectory() as d:
        source, out = f"{d}/in.onnx", f"{d}/out.onnx"
        onnx.save(model, source)
        feeds = {i.name: v for i, v in zip(model.graph.input, inputs)}
        judge = Judge(steno, case, source, feeds, want)
        lowest = None
        for t in [max(at, OLDEST)] + targets(model):
            rc, text = convert(steno, source, t, out, "all" if t == at else "basic")
            if rc == 65 and "no equivalent" in text or "cannot express" in text or "exists from opset" in text:
                status, why = "refused", re.sub(r"^.*?cannot express it: |^.*node '[^']*': ", "", text)
            elif rc:
                status, why = "wrong", text
            else:
                why = judge.wrong(out)
                status = "wrong" if why else "done"
                if status == "done" and t < at:
                    os.replace(out, f"{d}/low.onnx")
                    lowest = t
            rows.append((ops, at, t, status, f"{case.name} ({form}): {why}" if status != "refused" else why))
        if lowest:
            rc, text = convert(steno, f"{d}/low.onnx", NEWEST, out)
            why = text if rc else judge.wrong(out)
            rows.append((ops, lowest, NEWEST, "wrong" if why else "done", f"{case.name} ({form}, back): {why}"))
    return rows


def run_case(steno, case):
    rows = []
    model = case.model
    model.ir_version = min(model.ir_version, 10)
    for inputs, want in case.data_sets[:1]:
        inputs = [np.asarray(v) if np.isscalar(v) else v for v in inputs]
        want = [np.asarray(v) if np.isscalar(v) else v for v in want]
        rows += run_form(steno, case, model, inputs, want, "fed")
        if len(inputs) > 1 and arrays_only(inputs):
            rows += run_form(steno, case, built_in(model, inputs), inputs, want, "built in")
    return rows


def guarded(job):
    steno, case = job
    try:
        return run_case(steno, case)
    except Exception as e:
        ops = sorted({n.op_type for n in nodes_of(case.model.graph)})
        return [(ops, opset_of(case.model), 0, "wrong", f"{case.name}: {type(e).__name__} {e}")]


def run(steno, ops=None, every=1, per_op=0, jobs=2):
    from onnx.backend.test.case.node import collect_testcases
    cases, taken = [], collections.Counter()
    for c in collect_testcases(None):
        used = {n.op_type for n in nodes_of(c.model.graph)}
        if not c.model.graph.node or (ops and not used & ops):
            continue
        name = c.model.graph.node[0].op_type
        if per_op and (c.name.endswith("_expanded") or len(used) > 1 or taken[name] == per_op):
            continue
        taken[name] += 1
        cases.append((os.path.abspath(steno), c))
    rows = []
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for r in pool.map(guarded, cases[::every], chunksize=8):
            rows += r
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steno", default="build/steno")
    p.add_argument("--ops")
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--per-op", type=int, default=0)
    p.add_argument("--json")
    a = p.parse_args()
    rows = run(a.steno, set(a.ops.split(",")) if a.ops else None, a.every, a.per_op)
    count = collections.Counter(r[3] for r in rows)
    for ops, at, to, status, why in rows:
        if status == "wrong":
            print(f"WRONG {at} -> {to} {why}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=0)
    print(f"{count['done']} done, {count['refused']} refused, {count['wrong']} wrong")
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
