#!/usr/bin/env python3
"""`steno optimize --opset` (TAP): the table of schemas, a sample of the ONNX node tests, forms that have a rule.

tests/ops/conversions.py converts and judges; run it for all node tests. Skipped without the onnx package.
"""
import collections
import importlib.util
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
STENO = os.path.join(BUILD, "steno")
EVERY = 41
number = 0


def tap(ok, name, why=""):
    global number
    number += 1
    print(f"{'ok' if ok else 'not ok'} {number} - {name}")
    if not ok and why:
        print("# " + str(why).replace("\n", "\n# "))
    return ok


def skip(why):
    print(f"ok 1 - conversion between opsets # SKIP {why}\n1..1")
    return 0


# name: (opset of the file, opsets to convert to, nodes, inputs, initializers, part of the refusal or None). A node is
# (operator, inputs, outputs, attributes).
def forms(np):
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
    image = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
    everywhere = (11, 13, 17, 18, 21, 22, 25)
    return {
        "softmax_over_two_axes": (9, everywhere, [("Softmax", "x", "y", {"axis": 1})], {"x": x}, {}, None),
        "log_softmax_with_default_axis": (11, (12, 13, 21), [("LogSoftmax", "x", "y", {})], {"x": x}, {}, None),
        "softmax_of_the_middle_axis": (13, (11, 12), [("Softmax", "x", "y", {"axis": 1})], {"x": x}, {}, None),
        "slice_with_attributes": (9, everywhere, [("Slice", "x", "y", {"starts": [1, 0], "ends": [3, -1], "axes": [1, 2]})],
                                  {"x": x}, {}, None),
        "slice_without_axes": (9, (11, 18), [("Slice", "x", "y", {"starts": [1, 0], "ends": [2, 2]})], {"x": x}, {}, None),
        "one_hot_of_arg_max": (9, everywhere, [("ArgMax", "x", "i", {"axis": 2, "keepdims": 0}), ("OneHot", "i,d,v", "y", {})], {"x": x},
                               {"d": i64(4), "v": np.array([-1, 2], np.float32)}, None),
        "one_hot_of_negative_indices": (10, everywhere, [("OneHot", "i,d,v", "y", {"axis": 0})], {"i": i64(-1, 0, 2, 3, -3, -4)},
                                        {"d": i64(3), "v": np.array([0, 1], np.float32)}, None),
        "clip_with_attributes": (9, everywhere, [("Clip", "x", "y", {"min": -1.0, "max": 0.5})], {"x": x}, {}, None),
        "clip_with_one_attribute": (7, (11, 13), [("Clip", "x", "y", {"max": 0.5})], {"x": x}, {}, None),
        "pad_with_attributes": (9, everywhere, [("Pad", "x", "y", {"pads": [0, 1, 0, 0, 0, 2], "value": 3.0})],
                                {"x": x}, {}, None),
        "pad_of_one_axis": (18, (11, 13, 17), [("Pad", "x,p,v,a", "y", {})], {"x": x},
                            {"p": i64(1, 2), "v": np.float32(7), "a": i64(-1)}, None),
        "topk_with_attribute": (9, everywhere, [("TopK", "x", "y,i", {"k": 2, "axis": 1})], {"x": x}, {}, None),
        "dropout_with_attribute": (7, everywhere, [("Dropout", "x", "y", {"ratio": 0.25})], {"x": x}, {}, None),
        "dropout_with_input": (12, (11,), [("Dropout", "x,r", "y", {})], {"x": x}, {"r": np.float32(0.25)}, None),
        "upsample_nearest": (9, everywhere, [("Upsample", "x,s", "y", {"mode": "nearest"})], {"x": image},
                             {"s": np.array([1, 1, 2, 3], np.float32)}, None),
        "upsample_linear_with_attribute": (7, (11, 13, 18, 19), [("Upsample", "x", "y", {"mode": "linear",
                                                                                       "scales": [1.0, 1.0, 2.0, 2.0]})],
                                           {"x": image}, {}, None),
        "reduce_over_axes": (7, everywhere, [("ReduceMean", "x", "y", {"axes": [1], "keepdims": 0})], {"x": x}, {}, None),
        "reduce_sum_over_axes": (11, everywhere, [("ReduceSum", "x", "y", {"axes": [-1]})], {"x": x}, {}, None),
        "squeeze_and_unsqueeze": (9, everywhere, [("Unsqueeze", "x", "a", {"axes": [0, 2]}),
                                                  ("Squeeze", "a", "y", {"axes": [0]})], {"x": x}, {}, None),
        "split_with_lengths": (9, everywhere, [("Split", "x", "y,z", {"axis": 2, "split": [1, 3]})], {"x": x}, {}, None),
        "split_without_lengths": (11, everywhere, [("Split", "x", "y,z", {"axis": 2})], {"x": x}, {}, None),
        "split_into_uneven_parts": (18, (11, 13, 17), [("Split", "x", "y,z", {"axis": 1, "num_outputs": 2})], {"x": x}, {},
                                    None),
        "part_of_a_shape": (15, (11, 13), [("Shape", "x", "y", {"start": -2})], {"x": x}, {}, None),
        "cast_like": (19, (11, 13), [("CastLike", "x,i", "y", {})], {"x": x, "i": i64(1)}, {}, None),
        "greater_or_equal": (16, (11, 12), [("GreaterOrEqual", "x,b", "y", {})], {"x": x, "b": np.float32(0.5)}, {}, None),
        "batch_norm_7": (7, everywhere, [("BatchNormalization", "x,s,b,m,v", "y", {"spatial": 1})], {"x": x},
                         {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32), "m": np.zeros(3, np.float32),
                          "v": np.ones(3, np.float32)}, None),
        "scatter": (9, (11, 13, 18), [("Scatter", "x,i,u", "y", {"axis": 2})], {"x": x},
                    {"i": np.zeros((2, 3, 1), np.int64), "u": np.ones((2, 3, 1), np.float32)}, None),
        "gemm": (7, everywhere, [("Gemm", "x,w,b", "y", {"transB": 1})], {"x": x[0]},
                 {"w": x[1], "b": np.zeros(3, np.float32)}, None),
        "max_pool": (7, everywhere, [("MaxPool", "x", "y", {"kernel_shape": [2, 2], "strides": [2, 2]})], {"x": image}, {},
                     None),
        "group_norm": (18, (21,), [("GroupNormalization", "x,s,b", "y", {"num_groups": 2})],
                       {"x": image.reshape(1, 4, 2, 4)},
                       {"s": np.full(2, 2, np.float32), "b": np.full(2, 1, np.float32)}, None),
        "concat_reshape_transpose": (7, everywhere, [("Concat", "x,x", "a", {"axis": 1}), ("Reshape", "a,r", "b", {}),
                                                     ("Transpose", "b", "y", {"perm": [1, 0]})], {"x": x},
                                     {"r": i64(8, -1)}, None),
        "scatter_nd_with_reduction": (18, (11, 13), [("ScatterND", "x,i,u", "y", {"reduction": "add"})], {"x": x},
                                      {"i": i64(0).reshape(1, 1), "u": x[:1]}, "'reduction' exists from opset 16 on"),
        "scatter_nd_with_max": (18, (16,), [("ScatterND", "x,i,u", "y", {"reduction": "max"})], {"x": x},
                                {"i": i64(0).reshape(1, 1), "u": x[:1]}, "'max' from opset 18 on"),
        "max_of_integers": (13, (11,), [("Max", "x,b", "y", {})], {"x": i64(1, 5), "b": i64(3)}, {},
                            "i64 from opset 12 on"),
        "pow_with_two_types": (13, (11,), [("Pow", "x,b", "y", {})], {"x": x, "b": i64(3)}, {}, "i64 from opset 12 on"),
        "layout": (14, (13,), [("GRU", "x,w,r", ",y", {"hidden_size": 1, "layout": 1})], {"x": x},
                   {"w": np.ones((1, 3, 4), np.float32), "r": np.ones((1, 3, 1), np.float32)},
                   "'layout' exists from opset 14 on"),
        "softmax_of_no_elements": (12, (14, 17, 21), [("Softmax", "x", "y", {"axis": 1})], {"x": x[:, :, :0]}, {}, None),
        "trilu": (14, (13,), [("Trilu", "x", "y", {})], {"x": x}, {}, "exists from opset 14 on"),
    }


def as_model(np, onnx, opset, nodes, inputs, built_in):
    h, kind = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype
    made = [h.make_node(t, i.split(","), o.split(","), **a) for t, i, o, a in nodes]
    ins = [h.make_tensor_value_info(k, kind(v.dtype), v.shape) for k, v in
           ((k, np.asarray(v)) for k, v in inputs.items())]
    outs = [h.make_empty_tensor_value_info(o) for o in nodes[-1][2].split(",") if o]
    inits = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in built_in.items()]
    g = h.make_graph(made, "g", ins, outs, initializer=inits)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)])
    m.ir_version = 8
    m = onnx.shape_inference.infer_shapes(m)
    return m


def first_result(conversions, path, inputs, count):
    for run in (conversions.in_onnxruntime, conversions.in_reference):
        try:
            return run(path, inputs)
        except Exception:
            continue
    return conversions.in_steno(STENO, path, inputs, count)


def run_form(np, onnx, conversions, name, form):
    opset, targets, nodes, inputs, built_in, refusal = form
    model = as_model(np, onnx, opset, nodes, inputs, built_in)
    with tempfile.TemporaryDirectory() as d:
        source, out = f"{d}/in.onnx", f"{d}/out.onnx"
        onnx.save(model, source)
        want = first_result(conversions, source, inputs, len(model.graph.output))
        case = type("Case", (), {"model": model, "rtol": 1e-4, "atol": 1e-5})
        judge = conversions.Judge(STENO, case, source, inputs, want)
        for t in targets:
            rc, text = conversions.convert(STENO, source, t, out)
            if refusal:
                if rc != 65 or refusal not in text:
                    return f"{opset} -> {t}: exit status {rc}, {text}"
                continue
            why = text if rc else judge.wrong(out)
            if why:
                return f"{opset} -> {t}: {why}"
            if not judge.evaluators:
                return "nothing evaluates it"
    return ""


def main():
    if importlib.util.find_spec("onnx") is None or importlib.util.find_spec("onnxruntime") is None:
        return skip("the packages onnx and onnxruntime are absent")
    if os.environ.get("STENO_SAN"):
        return skip("sanitizer build")
    import numpy as np
    import onnx
    sys.path.insert(0, os.path.join(ROOT, "tests", "ops"))
    import conversions
    ok = True
    p = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "ops", "make_schemas.py"), "--check"],
                       capture_output=True, text=True)
    ok &= tap(p.returncode in (0, 77), "the table of schemas is that of the onnx package", p.stdout)
    for name, form in forms(np).items():
        why = run_form(np, onnx, conversions, name, form)
        ok &= tap(not why, name, why)
    rows = conversions.run(STENO, every=EVERY)
    count = collections.Counter(r[3] for r in rows)
    ok &= tap(not count["wrong"] and count["done"] > 200, f"node tests in other opsets: {dict(count)}",
              "\n".join(r[4] for r in rows if r[3] == "wrong"))
    print(f"1..{number}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
