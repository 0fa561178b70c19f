"""steno optimize in fewer bits: the files run in onnxruntime and in our engine with the same outputs, the
weights are what numpy makes of them, the errors reported are theirs. TAP."""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper
from test_models import STENO, difference, feeds, steno
from test_optimize import DIGITS, nodes, optimize, session

K, N = 70, 24


def model(path, gemm=False):
    rng = np.random.default_rng(5)
    w = rng.standard_normal((K, N)).astype("f4") * np.linspace(0.1, 3, N, dtype="f4")
    b = rng.standard_normal(N).astype("f4")
    v = rng.standard_normal((N, 40)).astype("f4")
    g = [helper.make_node("MatMul", ["x", "w"], ["a"], name="/layers.0/first/MatMul"),
         helper.make_node("Add", ["a", "b"], ["c"], name="add"), helper.make_node("Relu", ["c"], ["d"], name="relu"),
         helper.make_node("MatMul", ["d", "v"], ["y"], name="/layers.1/second/MatMul"),
         helper.make_node("MatMul", ["x", "w"], ["z"], name="/layers.0/third/MatMul")]
    if gemm:
        g[:2] = [helper.make_node("Gemm", ["x", "wt", "b"], ["c"], name="gemm", transB=1)]
    graph = helper.make_graph(g, "g", [helper.make_tensor_value_info("x", 1, ["time", K])],
                              [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 1, None)],
                              [numpy_helper.from_array(a, n) for n, a in
                               (("w", w), ("b", b), ("v", v), ("wt", np.ascontiguousarray(w.T)))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return w, b, v


def x_of(rows=9):
    return {"x": np.random.default_rng(1).standard_normal((rows, K)).astype("f4")}


def agree(path, feed, limit):
    """onnxruntime and our engine on one file; the outputs of the former."""
    s = session(path)
    outs = s.run(None, feed)
    for level in ("0", "3"):
        for w, g in zip(outs, steno(path, feed, len(outs), level, "native")):
            d = np.max(np.abs(w - g)) / max(1, np.max(np.abs(w)))
            assert d <= limit, f"--opt-level {level}: {d}"
    return outs


def initializers(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def dynamic(d):
    w, b, v = model(f"{d}/a.onnx")
    r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "dynamic")
    assert len(r["products"]) == 3, r["products"]
    scale = np.max(np.abs(w), axis=0) / np.float32(127)
    q = np.clip(np.rint(w / scale), -127, 127)
    want = np.sqrt(np.sum((w - q * scale) ** 2) / np.sum(w.astype("f8") ** 2))
    first = next(p for p in r["products"] if "first" in p["node"])
    assert abs(first["error"] - want) < 1e-6, (first, want)
    assert any(t.dtype == np.int8 and t.shape == (K, N) and np.array_equal(t, q) for t in initializers(f"{d}/q.onnx").values())
    feed = x_of()
    y, z = agree(f"{d}/q.onnx", feed, 1e-4)
    ref = feed["x"] @ w
    assert np.max(np.abs(z - ref)) < 0.02 * np.max(np.abs(ref)) and np.max(np.abs(z - ref)) > 0
    assert np.linalg.norm(y - np.maximum(ref + b, 0) @ v) < 0.02 * np.linalg.norm(y)
    plain = onnx.load(f"{d}/q.onnx")
    shared = [n for f in [plain.graph, *plain.functions] for n in f.node if n.op_type == "DynamicQuantizeLinear"]
    assert len(shared) == 2, "the two products of x share one DynamicQuantizeLinear"


def gemm_is_a_product_too(d):
    w, b, v = model(f"{d}/a.onnx", gemm=True)
    r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--precision", "int8")
    assert {p["node"] for p in r["products"] if "error" in p} >= {"gemm"}, r["products"]
    feed = x_of()
    y, _ = agree(f"{d}/q.onnx", feed, 1e-4)
    assert np.linalg.norm(y - np.maximum(feed["x"] @ w + b, 0) @ v) < 0.02 * np.linalg.norm(y)


def excluded_products_stay(d):
    model(f"{d}/a.onnx")
    r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "dynamic", "--exclude", "*second*,nobody")
    kept = [p for p in r["products"] if "kept" in p]
    assert [p["node"] for p in kept] == ["/layers.1/second/MatMul"] and kept[0]["kept"] == "excluded", r["products"]
    assert any(t.dtype == np.float32 and t.shape == (N, 40) for t in initializers(f"{d}/q.onnx").values())
    agree(f"{d}/q.onnx", x_of(), 1e-4)


def reduced_range(d):
    model(f"{d}/a.onnx")
    optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "dynamic", "--reduce-range")
    q = [t for t in initializers(f"{d}/q.onnx").values() if t.dtype == np.int8]
    assert q and max(np.max(np.abs(t.astype(int))) for t in q) == 63


def blocks(bits):
    def test(d):
        w, _, _ = model(f"{d}/a.onnx")
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--weight-bits", str(bits), "--block", "16")
        count = nodes(onnx.load(f"{d}/q.onnx").graph)
        assert count["com.microsoft", "MatMulNBits"] == 3, count
        feed = x_of()
        _, z = agree(f"{d}/q.onnx", feed, 1e-4)
        half, back = 1 << (bits - 1), np.zeros_like(w)
        for c in range(N):
            for k in range(0, K, 16):
                part = w[k:k + 16, c]
                s = part[np.argmax(np.abs(part))] / np.float32(-half)
                back[k:k + 16, c] = (np.clip(np.rint(part / s) + half, 0, 2 * half - 1) - half) * s
        assert np.max(np.abs(z - feed["x"] @ back)) < 1e-4 * np.max(np.abs(z))
        want = np.sqrt(np.sum((w - back) ** 2) / np.sum(w.astype("f8") ** 2))
        first = next(p for p in r["products"] if "first" in p["node"])
        assert abs(first["error"] - want) < 1e-6, (first, want)
    test.__name__ = f"weights_of_{bits}_bits"
    return test


def sixteen(kind):
    def test(d):
        w, _, _ = model(f"{d}/a.onnx")
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--precision", kind)
        assert r["bytes"]["optimized"] < 0.75 * r["bytes"]["original"], r["bytes"]
        feed = x_of()
        _, z = agree(f"{d}/q.onnx", feed, 1e-4)
        back = w.astype("f2").astype("f4")
        if kind == "bf16":
            u = w.view("u4")
            back = ((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000).astype("u4").view("f4")
        assert np.max(np.abs(z - feed["x"] @ back)) < 1e-5 * np.max(np.abs(z))
    test.__name__ = f"weights_in_{kind}"
    return test


def halves_round_as_numpy_does(d):
    """Subnormals, ties, overflow: every kind of number through the weights of one product."""
    rng = np.random.default_rng(2)
    w = (rng.standard_normal((64, 64)) * 10.0 ** rng.integers(-9, 5, (64, 64))).astype("f4")
    w[0, :8] = [0, -0.0, 65504, 65519.9, 6e-8, 2.98e-8, 1.00048828125, 1.00146484375]
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], "g",
                          [helper.make_tensor_value_info("x", 1, ["t", 64])],
                          [helper.make_tensor_value_info("y", 1, None)], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{d}/a.onnx")
    optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--precision", "fp16")
    got = next(t for t in initializers(f"{d}/q.onnx").values() if t.dtype == np.float16)
    assert np.array_equal(got.view("u2"), w.astype("f2").view("u2"))


def wrong_options(_):
    import subprocess
    for args in (["--weight-bits", "5"], ["--weight-bits", "4", "--quantize", "dynamic"], ["--quantize", "all"],
                 ["--quantize", "dynamic", "--precision", "fp16"], ["--weight-bits", "4", "--block", "24"]):
        p = subprocess.run([STENO, "optimize", DIGITS, "-o", "/dev/null/x", *args], capture_output=True, text=True, check=False)
        assert p.returncode == 64, (args, p.returncode, p.stderr)


def whole(path, args, limit):
    def test(d):
        optimize(path, f"{d}/q.onnx", *args)
        a, b = session(path), session(f"{d}/q.onnx")
        feed = feeds(a, {}, np.random.default_rng(3))
        outs = b.run(None, feed)
        for o, w, g in zip(a.get_outputs(), outs, steno(f"{d}/q.onnx", feed, len(outs), "3", "native")):
            difference(o.name, w, g, limit)
    test.__name__ = f"{os.path.basename(os.path.dirname(path))}_{'_'.join(args).strip('-')}"
    return test


def main():
    tests = [dynamic, gemm_is_a_product_too, excluded_products_stay, reduced_range, blocks(4), blocks(8), sixteen("fp16"),
             sixteen("bf16"), halves_round_as_numpy_does, wrong_options, whole(DIGITS, ["--quantize", "dynamic"], True),
             whole(DIGITS, ["--weight-bits", "8"], False), whole(DIGITS, ["--precision", "fp16"], False)]
    failed = 0
    for n, t in enumerate(tests, 1):
        try:
            with tempfile.TemporaryDirectory() as d:
                t(d)
            print(f"ok {n} - quantize: {t.__name__}", flush=True)
        except Exception as e:  # onnxruntime has errors of its own
            said = str(e).replace("\n", "\n# ")[:500]
            print(f"not ok {n} - quantize: {t.__name__}\n# {type(e).__name__}: {said}", flush=True)
            failed += 1
    print(f"1..{len(tests)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
