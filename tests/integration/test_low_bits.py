#!/usr/bin/env python3
"""Constants of 2 and 4 bits (QDQ weights of language models) against the ONNX reference evaluator and ONNX Runtime, at every
level, and as written files, which keep them (TAP). Skipped without the packages."""
import importlib.util
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, SLOW

STENO = os.path.join(BUILD, "steno")


def model(kind, opset, axis, block, zero, typed, k, n):
    import ml_dtypes
    import numpy as np
    from onnx import TensorProto as T, helper
    rng = np.random.default_rng(k * n + axis + block)
    low, high = {T.INT4: (-8, 8), T.UINT4: (0, 16), T.INT2: (-2, 2), T.UINT2: (0, 4)}[kind]
    np_type = {T.INT4: ml_dtypes.int4, T.UINT4: ml_dtypes.uint4, T.INT2: ml_dtypes.int2, T.UINT2: ml_dtypes.uint2}[kind]

    def tensor(name, shape):
        v = rng.integers(low, high, shape).astype(np_type)
        bits = 4 if kind in (T.INT4, T.UINT4) else 2
        flat = v.astype(np.int32).ravel() & ((1 << bits) - 1)
        flat = np.concatenate([flat, np.zeros(-len(flat) % (8 // bits), np.int32)]).reshape(-1, 8 // bits)
        packed = (flat << (np.arange(8 // bits) * bits)).sum(1).astype(np.uint8)
        t = T(name=name, data_type=kind, dims=shape)
        if typed:
            t.int32_data.extend(int(x) for x in packed)
        else:
            t.raw_data = packed.tobytes()
        return t

    shape = [k, n]
    scales = [k // block if axis == 0 else k, n // block if axis == 1 else n] if block else [shape[axis]]
    inits = [tensor("w", shape), helper.make_tensor("s", T.FLOAT, scales, rng.uniform(0.01, 0.1, scales).astype("f4").ravel())]
    ins = ["w", "s"]
    if zero:
        inits.append(tensor("z", scales))
        ins.append("z")
    attrs = {"axis": axis, "block_size": block} if block else {"axis": axis}
    g = helper.make_graph([helper.make_node("DequantizeLinear", ins, ["d"], **attrs), helper.make_node("MatMul", ["x", "d"], ["y"])], "g",
                          [helper.make_tensor_value_info("x", T.FLOAT, ["rows", k])], [helper.make_tensor_value_info("y", T.FLOAT, ["rows", n])], inits)
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset < 23 else 11)


def run(m, runtime):
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
    k = m.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    x = np.random.default_rng(1).standard_normal((5, k)).astype("f4")
    want = ReferenceEvaluator(m).run(None, {"x": x})[0]
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, f"{d}/in.onnx")
        np.save(f"{d}/x.npy", x)
        subprocess.run([STENO, "optimize", f"{d}/in.onnx", "-o", f"{d}/out.onnx"], check=True, capture_output=True, timeout=60 * SLOW)
        if not any(t.data_type == m.graph.initializer[0].data_type for t in onnx.load(f"{d}/out.onnx").graph.initializer):
            return "the written file has other weights"
        if runtime:
            import onnxruntime as ort
            o = ort.SessionOptions()  # its fused form rounds the other factor
            o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            got = ort.InferenceSession(f"{d}/out.onnx", o).run(None, {"x": x})[0]
            if not np.allclose(got, want, rtol=1e-4, atol=1e-4):
                return f"the written file in ONNX Runtime is off by {abs(got - want).max()}"
        for path in ("in", "out"):
            for level in "0123":
                subprocess.run([STENO, "run", f"{d}/{path}.onnx", "--input", f"x={d}/x.npy", "--output-dir", d, "--opt-level", level],
                               check=True, timeout=60 * SLOW)
                got = np.load(f"{d}/0.npy")
                if got.shape != want.shape or not np.allclose(got, want, rtol=1e-4, atol=1e-4):
                    return f"{path}.onnx, level {level}: off by {abs(got - want).max()}"
    return ""


def short():
    """Fewer bytes than the shape needs are an error that names the tensor."""
    import onnx
    from onnx import TensorProto as T
    m = model(T.INT4, 21, 1, 0, False, False, 16, 8)
    m.graph.initializer[0].raw_data = m.graph.initializer[0].raw_data[:-1]
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, f"{d}/in.onnx")
        p = subprocess.run([STENO, "model", "info", f"{d}/in.onnx"], capture_output=True, text=True, check=False)
        return "" if p.returncode and "tensor 'w'" in p.stderr else p.stderr


def main():
    if any(importlib.util.find_spec(p) is None for p in ("onnx", "onnxruntime", "ml_dtypes")):
        print("1..0 # SKIP needs onnx, onnxruntime and ml_dtypes")
        return 0
    from onnx import TensorProto as T
    tests = []
    for kind, name, opset in ((T.INT4, "int4", 21), (T.UINT4, "uint4", 21), (T.INT2, "int2", 25), (T.UINT2, "uint2", 25)):
        for axis, block, zero, typed, k, n in ((1, 0, False, False, 16, 8), (1, 0, True, True, 32, 24), (0, 16, True, False, 64, 12),
                                               (0, 32, False, True, 64, 7), (1, 4, True, False, 21, 8)):
            m = model(kind, opset, axis, block, zero, typed, k, n)
            tests.append((f"{name} axis {axis} block {block} zero {zero} typed {typed}", lambda m=m, kind=kind: run(m, kind in (T.INT4, T.UINT4))))
    bad = 0
    for n, (name, test) in enumerate(tests + [("short data is refused", short)], 1):
        why = test()
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {n} - {name}" + (f"\n# {why}" if why else ""), flush=True)
    print(f"1..{len(tests) + 1}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
