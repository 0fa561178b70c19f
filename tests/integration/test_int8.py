#!/usr/bin/env python3
"""Products and convolutions of 8-bit tensors against their definition in NumPy, bit by bit (TAP). Skipped without
the package onnx. The cases rotate through the CPU levels, and through fed and built-in weights."""
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, SLOW

LEVELS = ("scalar", "avx2", "avx512", "native")


def engine(name, op, attrs, values, fed, dtype, level):
    """The only output of op(values), or the error. The values named in `fed` are inputs, the others are built in."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape) for n in fed]
    graph = helper.make_graph([helper.make_node(op, list(values), ["y"], **attrs)], name, info,
                              [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
                              [numpy_helper.from_array(v, n) for n, v in values.items() if n not in fed])
    with tempfile.TemporaryDirectory() as d:
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{d}/m.onnx")
        cmd = [os.path.join(BUILD, "steno"), "run", f"{d}/m.onnx", "--output-dir", d, "--cpu", level]
        for n in fed:
            np.save(f"{d}/{n}.npy", values[n])
            cmd += ["--input", f"{n}={d}/{n}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=60 * SLOW)
        return p.stderr.strip() or f"exit {p.returncode}" if p.returncode else np.load(f"{d}/0.npy")


def correlate(x, w, group, strides, pads, dilations):
    """ONNX Conv of integers, in int64."""
    import numpy as np
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[i + n]) for i in range(n)])
    out = [(x.shape[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1 for i in range(n)]
    y = np.zeros([x.shape[0], w.shape[0], *out], "i8")
    per, mult = w.shape[1], w.shape[0] // group
    for o, at in itertools.product(range(w.shape[0]), itertools.product(*map(range, out))):
        window = tuple(slice(a * s, a * s + d * (k - 1) + 1, d) for a, s, d, k in zip(at, strides, dilations, w.shape[2:]))
        first = o // mult * per
        y[(slice(None), o, *at)] = (x[(slice(None), slice(first, first + per), *window)] * w[o]).reshape(len(x), -1).sum(-1)
    return y


def saturate(v, dtype):
    import numpy as np
    return np.clip(np.rint(v), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def conv_cases(rng):
    """(name, operator, attributes, values, expected result)"""
    import numpy as np
    shapes = {"1d": ((2, 20, 37), (9, 20, 5), 1, [2], [3, 1], [2]), "1d_pointwise": ((1, 33, 50), (40, 33, 1), 1, [1], [0, 0], [1]),
              "2d": ((1, 16, 21, 19), (35, 16, 3, 3), 1, [2, 2], [1, 0, 1, 2], [1, 1]),
              "2d_many_pixels": ((1, 3, 30, 31), (5, 3, 2, 3), 1, [1, 1], [0, 1, 1, 0], [1, 2]),
              "depthwise": ((2, 12, 40), (12, 1, 9), 12, [1], [8, 0], [1]), "groups": ((1, 8, 9, 9), (6, 4, 3, 2), 2, [2, 1], [1] * 4, [1, 2]),
              "3d": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), 1, [1, 2, 1], [1, 0, 0, 1, 1, 1], [1] * 3)}
    for i, (name, (xs, ws, group, strides, pads, dil)) in enumerate(shapes.items()):
        for xt, wt in (("u1", "i1"), ("u1", "u1"), ("i1", "i1")):
            x, w = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in ((xt, xs), (wt, ws)))
            xz = rng.integers(np.iinfo(xt).min, np.iinfo(xt).max + 1, ()).astype(xt)
            wz = rng.integers(np.iinfo(wt).min, np.iinfo(wt).max + 1, () if i % 2 else (ws[0],)).astype(wt)
            attrs = {"group": group, "strides": strides, "pads": pads, "dilations": dil}
            wide = correlate(x.astype("i8") - xz, w.astype("i8") - wz.reshape(-1, *[1] * (w.ndim - 1)), group, strides, pads, dil)
            yield f"conv_integer_{name}_{xt}_{wt}", "ConvInteger", attrs, {"x": x, "w": w, "xz": xz, "wz": wz}, wide.astype("i4")
            scale = rng.uniform(0.01, 0.1, ws[0]).astype("f4")
            bias = rng.integers(-1000, 1000, ws[0]).astype("i4")
            v = {"x": x, "xs": np.float32(0.02), "xz": xz, "w": w, "ws": scale, "wz": wz, "ys": np.float32(1.7),
                 "yz": np.array(3, xt), "b": bias}
            per = [-1] + [1] * (w.ndim - 2)
            want = (wide + bias.reshape(per)) * (np.float64(v["xs"]) / np.float64(v["ys"])) * scale.astype("f8").reshape(per)
            yield f"qlinear_conv_{name}_{xt}_{wt}", "QLinearConv", attrs, v, saturate(np.rint(want) + 3, xt)


def product_cases(rng):
    import numpy as np
    shapes = {"small": ((5, 7), (7, 3)), "wide": ((3, 70), (70, 100)), "row": ((1, 131), (131, 257)), "tall": ((130, 33), (33, 31)),
              "batch": ((4, 2, 6, 9), (2, 9, 5)), "broadcast": ((1, 6, 9), (3, 9, 5)), "long": ((2, 2100), (2100, 33))}
    for name, (sa, sb) in shapes.items():
        for ta, tb, many in (("u1", "i1", 0), ("u1", "u1", 1), ("i1", "i1", 1), ("i1", "u1", 0)):
            a, b = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in ((ta, sa), (tb, sb)))
            az = rng.integers(np.iinfo(ta).min, np.iinfo(ta).max + 1, (sa[-2],) if many and a.ndim == 2 else ()).astype(ta)
            bz = rng.integers(np.iinfo(tb).min, np.iinfo(tb).max + 1, (sb[-1],) if many and b.ndim == 2 else ()).astype(tb)
            wide = np.matmul(a.astype("i8") - (az[:, None] if az.ndim else az), b.astype("i8") - bz)
            yield f"matmul_integer_{name}_{ta}_{tb}", "MatMulInteger", {}, {"a": a, "b": b, "az": az, "bz": bz}, wide.astype("i4")
            v = {"a": a, "as": np.float32(0.03), "az": np.array(az.flat[0]), "b": b, "bs": np.float32(0.011),
                 "bz": np.array(bz.flat[0]), "ys": np.float32(0.9), "yz": np.array(5, ta)}
            wide = np.matmul(a.astype("i8") - v["az"], b.astype("i8") - v["bz"])
            want = wide * np.float64(v["as"]) * np.float64(v["bs"]) / np.float64(v["ys"])
            yield f"qlinear_matmul_{name}_{ta}_{tb}", "QLinearMatMul", {}, v, saturate(np.rint(want) + 5, ta)


def check(name, op, attrs, values, want, level, built_in):
    import numpy as np
    fed = [n for n in values if not built_in or n in "ax"]
    got = engine(name, op, attrs, values, fed, want.dtype, level)
    if isinstance(got, str):
        return got
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, wanted {want.dtype} {want.shape}"
    wrong = np.argwhere(got != want)
    return f"{len(wrong)} of {want.size} differ, first at {wrong[0]}: {got[tuple(wrong[0])]}, want {want[tuple(wrong[0])]}" if len(wrong) else ""


def main():
    if importlib.util.find_spec("onnx") is None:
        print("ok 1 - 8-bit operators # SKIP the package onnx is absent\n1..1")
        return 0
    import numpy as np
    rng = np.random.default_rng(5)
    bad = 0
    cases = [*conv_cases(rng), *product_cases(rng)]
    for i, (name, *case) in enumerate(cases):
        level, built_in = LEVELS[i % 4], (i // 4) % 2 == 0
        why = check(name, *case, level, built_in)
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {i + 1} - {name} at {level}, weights {'built in' if built_in else 'fed'}" + (f"\n# {why}" if why else ""))
    print(f"1..{len(cases)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
