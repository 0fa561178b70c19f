#!/usr/bin/env python3
"""Graphs beside the patterns of passes, on inputs that a rewrite could get wrong, against ONNX Runtime without
optimizations: `steno run` at levels 0 and 3, and the file of `steno optimize` in ONNX Runtime. TAP."""
# not under sanitizers: results are compared; the graphs of test_graphs and fuzz_passes, with near misses, run under them
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from daemon import BUILD, SLOW

STENO = os.path.join(BUILD, "steno")
rng = np.random.default_rng(3)
N = helper.make_node
TYPES = {"f": TensorProto.FLOAT, "b": TensorProto.BOOL}


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model(nodes, feeds, constants, shapes, out):
    """shapes: of inputs where they differ from those of the feeds."""
    inputs = [helper.make_tensor_value_info(k, TYPES[v.dtype.kind], shapes.get(k, v.shape)) for k, v in feeds.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 9
    return m


def reference(path, feeds):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def steno(path, feeds, folder, level):
    args = [STENO, "run", path, "--output-dir", folder + "/out", "--opt-level", level]
    for k, v in feeds.items():
        np.save(f"{folder}/{k}.npy", v)
        args += ["--input", f"{k}={folder}/{k}.npy"]
    subprocess.run(args, check=True, timeout=60 * SLOW, capture_output=True)
    return np.load(folder + "/out/0.npy")


def differs(want, got, scale):
    """Where both are finite, the difference beside `scale`; elsewhere NaN and infinities have to be the same."""
    if want.shape != got.shape:
        return f"shape {got.shape}, {want.shape} expected"
    bad = ~np.isclose(want, got, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        return f"{got[at]} at {at}, {want[at]} expected"
    return None


def check(nodes, feeds, constants, shapes=None, out=(None, None)):
    """None, or what is wrong."""
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model(nodes, feeds, constants, shapes or {}, out), d + "/m.onnx")
        want = reference(d + "/m.onnx", feeds)
        finite = want[np.isfinite(want)]
        scale = max(1, np.abs(finite).max(initial=0) * 1e-2)
        subprocess.run([STENO, "optimize", d + "/m.onnx", "-o", d + "/o.onnx"], check=True, timeout=60 * SLOW,
                       capture_output=True)
        for name, got in (("level 0", steno(d + "/m.onnx", feeds, d, "0")),
                          ("level 3", steno(d + "/m.onnx", feeds, d, "3")),
                          ("the written file", reference(d + "/o.onnx", feeds))):
            wrong = differs(want, got, scale)
            if wrong:
                return f"{name}: {wrong}"
    return None


# ---- normalisations: a cap at each place, hard rows ----

ROWS = {
    "outlier": np.r_[1e4, np.zeros(63)], "equal": np.full(64, 7.0), "large": np.linspace(-1e18, 1e18, 64),
    "tiny": np.linspace(-1e-30, 1e-30, 64), "nan": np.r_[np.nan, np.ones(63)], "inf": np.r_[np.inf, np.ones(63)],
    "offset": 100 + np.linspace(-1, 1, 64), "usual": rng.standard_normal(64),
}
NORM = [("ReduceMean", "x", "m"), ("Sub", "x,m", "d"), ("Mul", "d,d", "q"), ("ReduceMean", "q", "v"),
        ("Add", "v,eps", "u"), ("Sqrt", "u", "s"), ("Div", "d,s", "n"), ("Mul", "n,g", "k"), ("Add", "k,b", "y")]
CAPS = [("Clip", "-5,5"), ("Clip", "0.5,3"), ("Min", "2"), ("Max", "-0.25"), ("Relu", ""), ("Abs", ""), ("Floor", ""),
        ("Cast", "")]


def normalisation(at, cap, limits):
    """NORM with the operator `cap` behind node number `at`, which all later nodes then read."""
    nodes, constants = [], {"eps": np.float32(1e-5), "g": numbers(64), "b": numbers(64)}
    names = {}
    for i, (op, ins, out) in enumerate(NORM):
        attrs = {"axes": [-1]} if op == "ReduceMean" else {}
        inner = out + "_" if i == at else out
        nodes.append(N(op, [names.get(k, k) for k in ins.split(",")], [inner], **attrs))
        if i != at:
            continue
        if cap == "Cast":
            nodes += [N("Cast", [inner], ["half"], to=TensorProto.FLOAT16),
                      N("Cast", ["half"], [out], to=TensorProto.FLOAT)]
            continue
        for j, v in enumerate(limits.split(",") if limits else []):
            constants[f"limit{j}"] = np.float32(v)
        nodes.append(N(cap, [inner] + [k for k in constants if k.startswith("limit")], [out]))
    return nodes, constants


def normalisations_with_caps():
    x = np.stack([ROWS[k] for k in ("outlier", "equal", "usual", "offset")]).astype(np.float32)
    for at in range(len(NORM)):
        for cap, limits in CAPS:
            if cap == "Floor" and NORM[at][2] in "vus":
                continue  # at a step, rounding alone decides
            nodes, constants = normalisation(at, cap, limits)
            if cap == "Cast" and NORM[at][2] in "qv":
                continue  # overflows at the outlier
            yield f"{cap} {limits} behind {NORM[at][0]} {at}", check(nodes, {"x": x}, constants, {"x": ["t", 64]})


def hard_rows():
    for name, row in ROWS.items():
        x = np.stack([row, ROWS["usual"]]).astype(np.float32)
        nodes, constants = normalisation(-1, "", "")
        yield f"layer norm, {name}", check(nodes, {"x": x}, constants, {"x": ["t", 64]})
        rms = [N("Mul", ["x", "x"], ["q"]), N("ReduceMean", ["q"], ["v"], axes=[-1]), N("Add", ["v", "eps"], ["u"]),
               N("Sqrt", ["u"], ["s"]), N("Div", ["x", "s"], ["n"]), N("Mul", ["n", "g"], ["y"])]
        del constants["b"]
        yield f"RMS norm, {name}", check(rms, {"x": x}, constants, {"x": ["t", 64]})


# ---- activations ----

HARD = np.array([[np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 1e-30, -1e-30, 88.8, -88.8, 104, -104, 200, -200, 3,
                  -3, 7.5, 20, 30, -20, -30, 1e-3, -0.5]], np.float32)
ACTIVATIONS = {
    "swish": "Sigmoid x a; Mul x,a y",
    "quick gelu": "Mul x,1.702 q; Sigmoid q a; Mul x,a y",
    "gelu": "Div x,1.4142135 d; Erf d e; Add e,1 f; Mul x,f a; Mul a,0.5 y",
    "tanh gelu": "Mul x,x p; Mul p,x q; Mul q,0.044715 r; Add x,r s; Mul s,0.7978846 t; Tanh t u; Add u,1 a; Mul x,a v;"
                 "Mul v,0.5 y",
    "hard swish": "Add x,3 q; Clip q,0,6 a; Mul x,a r; Div r,6 y",
    "mish": "Softplus x q; Tanh q a; Mul x,a y",
}
FAR = ["", "Clip a,-1e6,25 b", "Clip a,1e-20,1 b", "Min a,0.9999 b", "Max a,1e-6 b", "Abs a b", "Equal x,7.5 e_; Where e_,0,a b"]


def parsed(text):
    nodes, constants = [], {}
    for statement in filter(None, (s.split() for s in text.split(";"))):
        ins = []
        for i in statement[1].split(","):
            if i[0].isdigit() or i[0] == "-":
                constants["c" + i] = np.float32(i)
                i = "c" + i
            ins.append(i)
        nodes.append(N(statement[0], ins, [statement[2]]))
    return nodes, constants


def activations_with_caps():
    for name, text in ACTIVATIONS.items():
        for far in FAR:
            whole = text
            if far:  # behind `a`: later statements read `b`
                head, tail = text.split(" a;")
                whole = f"{head} a; {far}; {tail.replace('a ', 'b ').replace(',a', ',b')}"
            nodes, constants = parsed(whole)
            yield f"{name} {far}", check(nodes, {"x": HARD}, constants, {"x": ["t", 24]})


# ---- attention: rows without a visible key, masks that make the scores larger ----

def attention(q_rows=6, size=1, fill=None, hidden=None, added=None, twice=False):
    nodes, feeds = [], {}
    constants = {"heads": np.array([0, 0, 2, 4]), "joined": np.array([0, 0, 8]), "scale": np.float32(0.25)}
    for n, rows in (("q", q_rows), ("k", 6), ("v", 6)):
        feeds[n] = numbers(2, rows, 8) * np.float32(1 if n == "v" else size)
        nodes += [N("Reshape", [n, "heads"], [n + "4"]),
                  N("Transpose", [n + "4"], [n + "t"], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3])]
    nodes += [N("MatMul", ["qt", "kt"], ["s0"]), N("Mul", ["s0", "scale"], ["s"])]
    if hidden is not None:
        feeds["hidden"], constants["fill"] = hidden, np.float32(fill)
        nodes.append(N("Where", ["hidden", "fill", "s"], ["filled"]))
    if added is not None:
        feeds["added"] = added
        nodes.append(N("Add", [nodes[-1].output[0], "added"], ["masked"]))
    nodes.append(N("Softmax", [nodes[-1].output[0]], ["p"], axis=-1))
    if twice:
        constants["zero"] = np.float32(0)
        nodes.append(N("Where", ["hidden", "zero", "p"], ["p2"]))
    nodes += [N("MatMul", [nodes[-1].output[0], "vt"], ["a"]), N("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
              N("Reshape", ["b", "joined"], ["y"])]
    return check(nodes, feeds, constants, {}, ("b", "t", 8))


def attentions():
    hidden = np.zeros((2, 1, 6, 6), bool)
    hidden[0, 0, 2] = True  # a row that sees nothing
    hidden[:, :, :, 4] = True
    for fill in (-1e4, -1e9, -3e38, -np.inf):
        for twice in (False, True):
            for size in (1, 10):
                yield f"attention, fill {fill}, {'zeroed, ' if twice else ''}scores times {size * size}", attention(
                    fill=fill, hidden=hidden, twice=twice, size=size)
    for low in (-1e9, -3e38, -np.inf):
        added = np.where(hidden, np.float32(low), np.float32(0)).astype(np.float32)
        yield f"attention, {low} added", attention(added=added)
        yield f"attention, {low} added and filled in", attention(added=added, hidden=hidden, fill=low)
    yield "attention, an added mask of more rows", attention(q_rows=1, added=numbers(5, 6))
    yield "attention, a hiding mask of more rows", attention(q_rows=1, hidden=np.tri(5, 6) < 0.5, fill=-3e38)


# ---- single cases ----

def others():
    x = {"x": numbers(3, 8)}
    w, k = numbers(8, 5), numbers(5)
    yield "Gemm with beta and without C, Add", check(
        [N("Gemm", ["x", "w"], ["c"], beta=0.5), N("Add", ["c", "k"], ["y"])], x, {"w": w, "k": k})
    yield "MatMul, BatchNormalization", check(
        [N("MatMul", ["x", "w"], ["c"]), N("BatchNormalization", ["c", "k", "l", "l", "v"], ["y"])], x,
        {"w": w, "k": k, "l": numbers(5), "v": np.abs(numbers(5))})
    n = 64
    window = np.hanning(n)
    angle = 2 * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n
    dft = np.r_[window * np.cos(angle), window * np.sin(angle)].astype(np.float32)[:, None]
    half = n // 2 + 1
    yield "a Fourier transform of two groups", check(
        [N("Conv", ["x", "w"], ["c"], strides=[16], group=2), N("Slice", ["c", "zero", "half", "one"], ["re"]),
         N("Slice", ["c", "half", "all", "one"], ["im"]), N("Mul", ["re", "re"], ["r2"]), N("Mul", ["im", "im"], ["i2"]),
         N("Add", ["r2", "i2"], ["y"])], {"x": numbers(1, 2, 256)},
        {"w": dft, "zero": np.array([0]), "half": np.array([half]), "all": np.array([2 * half]), "one": np.array([1])},
        out=(None, None, None))


def main():
    count = failed = 0
    for group in (normalisations_with_caps, hard_rows, activations_with_caps, attentions, others):
        for name, wrong in group():
            count += 1
            failed += wrong is not None
            print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
            if wrong:
                print(f"# {wrong}")
    print(f"1..{count}")
    return failed != 0


sys.exit(main())
