#!/usr/bin/env python3
"""Operators whose f32 form is not their f64 form: random windows of MaxPool, AveragePool and LpPool in f32, f16 and 8 bits,
InstanceNormalization and GroupNormalization of long rows (TAP). Compared with the same network in f64, which computes one
window at a time, and with ONNX Runtime. Skipped without its packages."""
import importlib.util
import os
import random
import subprocess
import sys
import tempfile

from daemon import BUILD

STENO = os.path.join(BUILD, "steno")


def case(rng):
    axes = rng.choice([1, 1, 2, 2, 3])
    size = [rng.choice([1, 5, 9, 16, 31]) for _ in range(axes - 1)] + [rng.choice([3, 17, 40, 500, 5000])]
    kernel = [rng.choice([1, 2, 3, 5, 100]) for _ in range(axes)]
    dilation = [rng.choice([1, 1, 1, 2, 3]) for _ in range(axes)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    pads = [rng.randint(0, (k - 1) // 2) for k in kernel] + [rng.randint(0, (k - 1) // 2) for k in kernel]
    for i in range(axes):
        if reach[i] > size[i] + pads[i] + pads[axes + i]:
            kernel[i], dilation[i], pads[i], pads[axes + i] = 1, 1, 0, 0
    op = rng.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    attrs = dict(kernel_shape=kernel, dilations=dilation, pads=pads, strides=[rng.choice([1, 1, 2, 3, 7, 100]) for _ in range(axes)])
    if op == "AveragePool":
        attrs["count_include_pad"] = rng.randint(0, 1)
    if op == "LpPool":
        attrs["p"] = rng.choice([1, 2, 3])
    else:
        # no case of ceil_mode whose last window begins in the padding
        attrs["ceil_mode"] = int(all(p == 0 for p in pads) and rng.random() < 0.4)
    return op, [rng.choice([1, 2]), rng.choice([1, 3, 8])] + size, attrs


def run(model, feeds, options):
    import numpy as np
    import onnx

    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/m.onnx")
        cmd = [STENO, "run", f"{d}/m.onnx", "--output-dir", d, *options]
        for name, x in feeds.items():
            np.save(f"{d}/{name}.npy", x)
            cmd += ["--input", f"{name}={d}/{name}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True)
        if p.returncode:
            raise RuntimeError(p.stderr.strip())
        return [np.load(f"{d}/{i}.npy") for i in range(len(feeds))]


def model(cases, t, channels=False):
    """One network of all cases. channels: with a scale and a bias for each channel."""
    from onnx import helper as h

    nodes, ins, outs, inits = [], [], [], []
    for i, (op, shape, attrs) in enumerate(cases):
        nodes.append(h.make_node(op, [f"x{i}"] + [f"{k}{i}" for k in ("scale", "bias") if channels], [f"y{i}"], **attrs))
        inits += [h.make_tensor(f"{k}{i}", t, [shape[1]], [step * (c + 1) for c in range(shape[1])])
                  for k, step in (("scale", 0.5), ("bias", -0.25)) if channels]
        ins.append(h.make_tensor_value_info(f"x{i}", t, shape))
        outs.append(h.make_tensor_value_info(f"y{i}", t, None))
    return h.make_model(h.make_graph(nodes, "g", ins, outs, inits), opset_imports=[h.make_opsetid("", 21 if channels else 19)], ir_version=8)


def between_convolutions(rng, data):
    """One network whose pooling is done with channels last: case i is x, Conv, pool, Conv."""
    from onnx import helper as h, numpy_helper as nh, TensorProto as T

    cases, nodes, ins, outs, inits = [], [], [], [], []
    while len(cases) < 40:
        op, shape, attrs = case(rng)
        if len(shape) != 4 or op == "LpPool" or max(shape) > 500:
            continue
        i, c = len(cases), 2056 if not len(cases) % 8 else rng.choice([8, 24, 64])
        shape = [1, 1 if c > 2000 else 8, shape[2], min(shape[3], 9 if c > 2000 else 500)]
        if any((k - 1) * d + 1 > n for k, d, n in zip(attrs["kernel_shape"], attrs["dilations"], shape[2:])):
            continue
        cases.append((op, [1, c] + shape[2:], attrs))
        for name, to, of, k in (("a", c, shape[1], 3), ("b", 8, c, 1)):
            inits.append(nh.from_array((data.standard_normal((to, of, k, k)) / of**0.5).astype("f4"), f"{name}{i}"))
        nodes += [h.make_node("Conv", [f"x{i}", f"a{i}"], [f"c{i}"], pads=[1] * 4), h.make_node(op, [f"c{i}"], [f"p{i}"], **attrs),
                  h.make_node("Conv", [f"p{i}", f"b{i}"], [f"y{i}"])]
        ins.append(h.make_tensor_value_info(f"x{i}", T.FLOAT, shape))
        outs.append(h.make_tensor_value_info(f"y{i}", T.FLOAT, None))
    feeds = {v.name: data.standard_normal([d.dim_value for d in v.type.tensor_type.shape.dim]).astype("f4") for v in ins}
    return cases, h.make_model(h.make_graph(nodes, "g", ins, outs, inits), opset_imports=[h.make_opsetid("", 19)], ir_version=8), feeds


def pools_with_channels_last(m):
    import onnx

    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, f"{d}/m.onnx")
        return subprocess.run([STENO, "graph", f"{d}/m.onnx"], capture_output=True, text=True).stdout.count("PoolNhwc")


def differences(cases, got, want, tolerance):
    import numpy as np

    return [f"{c}: shape {g.shape} for {w.shape}" if g.shape != w.shape else f"{c}: difference {np.nanmax(np.abs(g.astype('f8') - w))}"
            for c, g, w in zip(cases, got, want)
            if g.shape != w.shape or not np.allclose(g.astype("f8"), w.astype("f8"), rtol=tolerance, atol=tolerance, equal_nan=True)]


def main():
    if not all(importlib.util.find_spec(p) for p in ("numpy", "onnx", "onnxruntime")):
        print("1..0 # SKIP no numpy, onnx, onnxruntime")
        return 0
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto as T

    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    rng, data, failed, n = random.Random(2), np.random.default_rng(2), 0, 0

    def result(what, bad):
        nonlocal failed, n
        n += 1
        failed += bool(bad)
        print(f"{'not ok' if bad else 'ok'} {n} - {what}")
        for b in bad[:8]:
            print(f"# {b}")

    cases = [case(rng) for _ in range(150)]
    x = [data.standard_normal(c[1]).astype(np.float32) for c in cases]
    for v in x[::5]:
        v.flat[data.integers(v.size)] = np.nan
    for v in x[1::5]:
        v.flat[data.integers(v.size)] = -np.inf
    want = run(model(cases, T.DOUBLE), {f"x{i}": v.astype(np.float64) for i, v in enumerate(x)}, [])
    for way in ([], ["--cpu", "scalar"], ["--threads", "2"], ["--opt-level", "0"]):
        result(f"windows of rows against windows one by one {' '.join(way)}",
               differences(cases, run(model(cases, T.FLOAT), {f"x{i}": v for i, v in enumerate(x)}, way), want, 2e-5))
    half = run(model(cases, T.FLOAT16), {f"x{i}": v.astype(np.float16) for i, v in enumerate(x)}, [])
    result("the same in f16", differences(cases, half, want, 1e-2))
    # ONNX Runtime does not count the padding that ceil_mode adds, and does not dilate means
    same = [i for i, (op, _, a) in enumerate(cases) if i % 5 > 1 and (op == "MaxPool" or (set(a["dilations"]) == {1} and not a.get("ceil_mode")))]
    some = [cases[i] for i in same]
    m, feeds = model(some, T.FLOAT), {f"x{k}": x[i] for k, i in enumerate(same)}
    theirs = ort.InferenceSession(m.SerializeToString(), quiet, providers=["CPUExecutionProvider"]).run(None, feeds)
    result("windows of rows against ONNX Runtime", differences(some, run(m, feeds, []), theirs, 2e-5))
    for t, dtype in ((T.UINT8, np.uint8), (T.INT8, np.int8)):
        some = [c for c in cases if c[0] == "MaxPool"]
        ints = {f"x{i}": data.integers(-128, 127, c[1]).astype(dtype) for i, c in enumerate(some)}
        doubles = {k: v.astype(np.float64) for k, v in ints.items()}
        result(f"maxima of {np.dtype(dtype)}", differences(some, run(model(some, t), ints, []), run(model(some, T.DOUBLE), doubles, []), 0))
    cases, m, feeds = between_convolutions(rng, data)
    bad = differences(cases, run(m, feeds, []), run(m, feeds, ["--opt-level", "0"]), 1e-4)
    made = pools_with_channels_last(m)
    result("windows with channels last", bad + [f"only {made} of {len(cases)} are so"] * (made < 20))
    norms = [("InstanceNormalization", [2, 3, size], {}) for size in (1, 1023, 1024, 5000)]
    norms += [("GroupNormalization", [2, 6, size], {"num_groups": 3}) for size in (1, 700, 5000)]
    rows = {f"x{i}": (data.standard_normal(c[1]) * 3 + 7).astype(np.float32) for i, c in enumerate(norms)}
    two = [run(model(norms, t, channels=True), {k: v.astype(d) for k, v in rows.items()}, []) for t, d in ((T.FLOAT, "f4"), (T.DOUBLE, "f8"))]
    result("normalizations of channels in f32 and f64", differences(norms, two[0], two[1], 2e-5))
    print(f"1..{n}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
