#!/usr/bin/env python3
"""Models in f16 and bf16 (TAP): the zoo's models converted as onnxconverter does fuse as their f32 twins do, and give what
onnxruntime gives for the twin with the same weights; the written file is valid, keeps its types, and gives the same."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import zoo_feeds
from daemon import BUILD, SAN, SHARED, SLOW

STENO = os.path.join(BUILD, "steno")
LARGEST, LEAST = 1e4, 1e-7  # of a converted constant, as in onnxconverter_common.float16
KINDS = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
MOST = 8 << 20  # bytes of a model
# Other forms of constants, and a Cast of numbers in f32 that are rounded on purpose: one more Cast stays.
SPARE = {"sense-voice": 1, "paraformer-offline": 1}


def bfloat(a):
    u = a.astype("f4").view("u4")
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype("u2")


def rounded(a, kind):
    """In f32, as the converted model holds it."""
    if kind == TensorProto.BFLOAT16:
        return (bfloat(a).astype("u4") << 16).view("f4")
    b = np.where(np.isfinite(a), np.clip(a, -LARGEST, LARGEST), a)
    b = np.where((b != 0) & (np.abs(b) < LEAST), np.copysign(LEAST, b), b)
    return b.astype("f2").astype("f4")


def convert_tensor(t, kind):
    if t.data_type != TensorProto.FLOAT:
        return
    name, a = t.name, numpy_helper.to_array(t)
    if kind == TensorProto.FLOAT16:
        t.CopyFrom(numpy_helper.from_array(rounded(a, kind).astype("f2"), name))
    elif kind == TensorProto.BFLOAT16:
        t.CopyFrom(TensorProto(name=name, data_type=kind, dims=a.shape, raw_data=bfloat(a).tobytes()))


def convert_graph(g, kind):
    for t in g.initializer:
        convert_tensor(t, kind)
    for v in [*g.input, *g.output, *g.value_info]:
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = kind
    for n in g.node:
        if n.op_type == "ConstantOfShape" and not n.attribute:
            n.attribute.append(helper.make_attribute("value", helper.make_tensor("v", TensorProto.FLOAT, [1], [0])))
        for a in n.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                convert_tensor(a.t, kind)
            elif a.type == onnx.AttributeProto.GRAPH:
                convert_graph(a.g, kind)
            elif n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = kind


def round_graph(g, kind):
    """The twin: large constants rounded, still f32. Numbers stay, because activations have theirs back."""
    tensors = list(g.initializer) + [a.t for n in g.node for a in n.attribute if a.type == onnx.AttributeProto.TENSOR]
    for t in tensors:
        a = numpy_helper.to_array(t) if t.data_type == TensorProto.FLOAT else np.zeros(0)
        if a.size > 1:
            t.CopyFrom(numpy_helper.from_array(rounded(a, kind).astype("f4"), t.name))
    for n in g.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                round_graph(a.g, kind)


def steps(path):
    p = subprocess.run([STENO, "model", "info", path], capture_output=True, text=True, timeout=60 * SLOW, check=True)
    line = next(x for x in p.stdout.splitlines() if x.startswith("nodes"))
    return int(line.split("(")[1].split()[0]) if "(" in line else int(line.split()[5])


def to_kind(feed, kind):
    return {k: v if v.dtype != np.float32 else v.astype("f2") if kind == TensorProto.FLOAT16 else bfloat(v)
            for k, v in feed.items()}


def from_kind(a, t):
    return (a.view("u2").astype("u4") << 16).view("f4") if t == TensorProto.BFLOAT16 else a


def run(path, feed, outputs, *args):
    with tempfile.TemporaryDirectory() as d:
        cmd = [STENO, "run", path, "--output-dir", d, *args]
        for k, (n, v) in enumerate(feed.items()):
            np.save(f"{d}/in{k}.npy", v)
            cmd += ["--input", f"{n}={d}/in{k}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=300 * SLOW, check=False)
        assert not p.returncode, p.stderr.strip()
        return [np.load(f"{d}/{k}.npy") for k in range(outputs)]


def difference(name, want, got, limit):
    assert got.shape == want.shape, f"{name}: {got.shape}, {want.shape} expected"
    if not want.size:
        return 0.0
    if want.dtype.kind != "f":
        return float(np.mean(got != want))
    w, g = want.astype("f8"), got.astype("f8")
    finite = np.isfinite(w)
    assert np.array_equal(finite, np.isfinite(g)), f"{name}: other elements are finite"
    worst = float(np.max(np.abs(g - w), where=finite, initial=0)) / max(1.0, float(np.max(np.abs(w), where=finite, initial=0)))
    assert worst <= limit, f"{name}: difference {worst:.3g}, allowed {limit}"
    return worst


def floats(values):
    return sum(v.type.tensor_type.elem_type in KINDS.values() for v in values)


def largest(names, want, got):
    return max(difference(n, w, g, 1e-2) for n, w, g in zip(names, want, got))


def run_alone(path, files, kind, outputs, tool):
    """Our engine on the files, with the model's inputs."""
    try:
        feed = zoo_feeds.feeds(tool, path)(0, None) if tool else None
    except zoo_feeds.NoInputs:
        feed = None
    if feed is None:
        return "no inputs"
    for file in files:
        run(file, to_kind(feed, kind), outputs)
    return "our engine alone"


def check(path, name, kind, d, tool):
    """Says the counts and the difference, or why values are not compared."""
    m = onnx.load(path)
    convert_graph(m.graph, KINDS[name])
    half, twin, out = f"{d}/half.onnx", f"{d}/twin.onnx", f"{d}/out.onnx"
    onnx.save(m, half)
    inputs = {i.name for i in m.graph.initializer}
    borders = floats([v for v in m.graph.input if v.name not in inputs]) + floats(m.graph.output)
    subprocess.run([STENO, "optimize", half, "-o", out], check=True, capture_output=True, timeout=120 * SLOW)
    if SAN:  # the plain build compares
        return run_alone(path, (half, out), kind, len(m.graph.output), tool)
    a, b = steps(path), steps(half)
    allowed = a + borders + sum(n for f, n in SPARE.items() if f in path)
    assert b <= allowed, f"{b} steps, {a} in f32 and {borders} inputs and outputs"
    written = onnx.load(out)
    onnx.checker.check_model(written)
    assert [o.type.tensor_type.elem_type for o in written.graph.output] == \
        [o.type.tensor_type.elem_type for o in m.graph.output], "types of outputs"
    assert os.path.getsize(out) < 1.1 * os.path.getsize(half) + (64 << 10), (os.path.getsize(out), os.path.getsize(half))
    said = f"{a} steps in f32, {b} in {name}"
    if not tool or name == "bf16":  # .npy has no bf16
        return said
    m = onnx.load(path)
    round_graph(m.graph, kind)
    onnx.save(m, twin)
    try:
        feed = zoo_feeds.feeds(tool, twin)(0, None)
    except zoo_feeds.NoInputs:
        return said + ", no inputs"
    feed = {k: v.astype("f2").astype("f4") if v.dtype == np.float32 else v for k, v in feed.items()}
    want = zoo_feeds.plain(twin).run(None, feed)
    if max((np.max(np.abs(w), initial=0) for w in want if w.dtype == np.float32), default=0) > 6e4:
        return said + ", results beyond f16"
    halves = to_kind(feed, kind)
    names = [o.name for o in m.graph.output]
    try:
        worst = max(largest(names, want, run(file, halves, len(want))) for file in (half, out))
    except AssertionError:
        # a mask of -1e9 is -65504 in f16, which does not absorb the scores that it hides: then f16 itself decides
        want = zoo_feeds.plain(half).run(None, halves)
        worst = max(largest(names, want, run(file, halves, len(want))) for file in (half, out))
        said += ", in f16 by onnxruntime too"
    return said + f", largest relative difference {worst:.2g}"


def models():
    folder = os.path.join(SHARED, "zoo", "tiny")
    for f, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = os.path.join(f, name)
            if name.endswith(".onnx") and not any(x in name for x in ("int8", "_qt")) and os.path.getsize(path) <= MOST:
                yield path, os.path.relpath(path, folder)


def main():
    n = failed = 0
    tool = zoo_feeds.load_tool(SHARED) if os.path.exists(os.path.join(SHARED, "tools", "zoo_check.py")) else None
    for path, short in models():
        for name, kind in KINDS.items():
            if name == "bf16" and (SAN or zoo_feeds.in_halves(path)):
                continue
            n += 1
            with tempfile.TemporaryDirectory() as d:
                try:
                    print(f"ok {n} - {short} in {name} ({check(path, name, kind, d, tool)})", flush=True)
                except (AssertionError, subprocess.CalledProcessError, onnx.checker.ValidationError) as e:
                    print(f"not ok {n} - {short} in {name}\n# {e} {getattr(e, 'stderr', b'')}", flush=True)
                    failed += 1
    if not n:
        print("1..0 # SKIP the zoo is not there")
        return 0
    print(f"1..{n}")
    return failed != 0


sys.exit(main())
