"""steno optimize in fewer bits: onnxruntime and our engine give the same outputs for the files, the weights equal
numpy's result, and the reported errors are correct. TAP."""
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import ort_exact
from daemon import SAN
from onnx import helper, numpy_helper
from test_models import ROOT, SHARED, STENO, difference, feeds, steno
from test_optimize import DIGITS, all_graphs, nodes, optimize, session, written

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


def agree(path, feed, limit, open_in=written):
    """Run onnxruntime and our engine on one file that we wrote. Returns the outputs of onnxruntime."""
    s = open_in(path)
    outs = s.run(None, feed)
    for level in ("3",) if SAN else ("0", "3"):
        for w, g in zip(outs, steno(path, feed, len(outs), level, "native")):
            d = np.max(np.abs(w - g)) / max(1, np.max(np.abs(w)))
            assert d <= limit, f"--opt-level {level}: {d}"
    return outs


def initializers(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def has_bytes(path, q):
    """Weights in u8, as their activations, around 128."""
    return any(t.dtype == np.uint8 and t.shape == q.shape and np.array_equal(t.astype(int) - 128, q) for t in initializers(path).values())


def dynamic(d):
    w, b, v = model(f"{d}/a.onnx")
    r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "dynamic")
    assert len(r["products"]) == 3, r["products"]
    scale = np.max(np.abs(w), axis=0) / np.float32(127)
    q = np.clip(np.rint(w / scale), -127, 127)
    want = np.sqrt(np.sum((w - q * scale) ** 2) / np.sum(w.astype("f8") ** 2))
    first = next(p for p in r["products"] if "first" in p["node"])
    assert abs(first["error"] - want) < 1e-6, (first, want)
    assert has_bytes(f"{d}/q.onnx", q)
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
    q = [t for t in initializers(f"{d}/q.onnx").values() if t.dtype == np.uint8 and t.ndim == 2]
    assert q and max(np.max(np.abs(t.astype(int) - 128)) for t in q) == 63


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


def halves_reach_every_product(d):
    """For a decoder that attends to unprojected rows (AbsorbedAttention) and for a language model."""
    zoo = os.path.join(SHARED, "zoo", "tiny", "espnet-conformer-op13", "full")
    for f in ("xformer_decoder.onnx", "transformer_lm.onnx", "default_encoder.onnx"):
        if not os.path.exists(os.path.join(zoo, f)):
            return f"SKIP {zoo}/{f} is not there"
        optimize(os.path.join(zoo, f), f"{d}/q.onnx", "--precision", "bf16")
        m = onnx.load(f"{d}/q.onnx")
        tables = {n.input[0] for n in m.graph.node if n.op_type == "Gather"}
        wide = [i.name for i in m.graph.initializer if i.data_type == 1 and len(i.dims) == 2 and i.dims[0] * i.dims[1] >= 256
                and i.name not in tables]
        assert not wide, (f, wide)
    return None


def halves_round_as_numpy_does(d):
    """Subnormals, ties, overflow: every kind of number among the weights of one product."""
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


def one_product(path, w):
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="m"),
                           helper.make_node("MatMul", ["x", "v"], ["z"], name="plain")], "g",
                          [helper.make_tensor_value_info("x", 1, ["t", 64])],
                          [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 1, None)],
                          [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.nan_to_num(np.sign(w)), "v")])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


FORMS = {"fp16": ["--precision", "fp16"], "bf16": ["--precision", "bf16"], "int8": ["--precision", "int8"],
         "blocks": ["--weight-bits", "4"], "static": ["--quantize", "static", "--calibrate", "{}/x.npz"]}


def weights_that_do_not_fit_stay(name, weight, stays):
    """One such weight: its product stays in f32 and says so, the other one is rounded."""
    def test(d):
        w = np.random.default_rng(2).standard_normal((64, 64)).astype("f4") * np.float32(0.1)
        w[3, 5] = weight
        one_product(f"{d}/a.onnx", w)
        x = np.zeros((1, 64), "f4")
        x[0, 3] = 1
        np.savez(f"{d}/x.npz", x=x_of(64)["x"][:, :64])
        for form, args in FORMS.items():
            r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", *[a.format(d) for a in args], "--layer-errors")
            p = {p["node"]: p for p in r["products"]}
            kept = form in stays
            assert ("kept" in p["m"]) == kept and "kept" not in p["plain"], (form, r["products"])
            assert any("product m stays in f32" in n for n in r["notes"]) == kept, (form, r["notes"])
            counts = {k: p["m"][k] for k in ("overflow", "infinite", "nan")}
            assert counts == {"overflow": int(kept and np.isfinite(weight)), "infinite": int(np.isinf(weight)),
                              "nan": int(np.isnan(weight))}, (form, counts)
            want, got = x @ w, written(f"{d}/q.onnx").run(None, {"x": x})[0]
            assert np.array_equal(np.isfinite(want), np.isfinite(got)), (form, want, got)
            if kept:
                assert np.allclose(want, got, equal_nan=True), form
    test.__name__ = f"a_weight_of_{name}"
    return test


def weights_that_become_zero_are_counted(d):
    w = np.random.default_rng(2).standard_normal((64, 64)).astype("f4")
    w[0] = 1e-9
    w[1] = -1e-9
    w[2] = 0
    one_product(f"{d}/a.onnx", w)
    for form, want in ("fp16", 128), ("bf16", 0):
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", *FORMS[form])
        assert r["products"][0]["underflow"] == want, (form, r["products"])
    r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", *FORMS["int8"])
    step = np.max(np.abs(w), axis=0) / np.float32(127)
    assert r["products"][0]["underflow"] == np.sum((np.rint(w / step) == 0) & (w != 0)), r["products"][0]


def columns_of_tiny_weights(d):
    """The step of a column would be subnormal."""
    w = np.full((64, 64), 1e-39, "f4")
    w[:, 1] = 1
    one_product(f"{d}/a.onnx", w)
    for form in ("int8", "blocks"):
        optimize(f"{d}/a.onnx", f"{d}/q.onnx", *FORMS[form])
        y = written(f"{d}/q.onnx").run(None, {"x": np.ones((1, 64), "f4")})[0]
        assert np.all(np.isfinite(y)) and abs(y[0, 1] - 64) < 1 and np.max(np.abs(np.delete(y, 1))) < 1e-30, (form, y)


def ranges(d, samples=3):
    """.npz files of x, and the result of static quantization with the range of all files together."""
    xs = [np.random.default_rng(s).standard_normal((9 + s, K)).astype("f4") * (1 + s) for s in range(samples)]
    for i, x in enumerate(xs):
        np.savez(f"{d}/{i}.npz", x=x)
    lo, hi = np.float32(min(x.min() for x in xs)), np.float32(max(x.max() for x in xs))
    scale = (hi - lo) / np.float32(255)
    return xs, [a for i in range(samples) for a in ("--calibrate", f"{d}/{i}.npz")], lo, hi, scale, np.rint(-lo / scale)


def static(level, gemm=False):
    """The f32 model against the file in onnxruntime and in our engine, and both against numpy."""
    def test(d):
        w, _, _ = model(f"{d}/a.onnx", gemm=gemm)
        _, args, lo, hi, scale, zero = ranges(d)
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "static", "--level", level, *args)
        third = next(p for p in r["products"] if "third" in p["node"])
        assert abs(third["low"] - lo) < 1e-6 and abs(third["high"] - hi) < 1e-6, third
        feed = x_of()
        y, z = agree(f"{d}/q.onnx", feed, 0.01)  # for y the last bit of a sum may round an activation the other way
        xq = np.clip(np.rint(feed["x"] / scale) + zero, 0, 255) - zero
        ws = np.max(np.abs(w), axis=0) / np.float32(127)
        want = xq @ np.clip(np.rint(w / ws), -127, 127) * (scale * ws)
        assert np.max(np.abs(z - want)) < 1e-4 * np.max(np.abs(want)), np.max(np.abs(z - want))
        plain = session(f"{d}/a.onnx").run(None, feed)[0]
        assert np.linalg.norm(y - plain) < 0.05 * np.linalg.norm(plain)
        count = nodes(onnx.load(f"{d}/q.onnx").graph)
        # basic: the common form; all: one function per product, nothing is dequantized again
        if level == "basic":
            assert count["", "QuantizeLinear"] == 2 and count["", "DequantizeLinear"] == 5, count
        else:
            integer = sum(v for k, v in count.items() if k[1] in ("IntLinear", "MatMulInteger"))
            assert count["", "DequantizeLinear"] == 0 and integer == 2, count  # x times w is one product
    test.__name__ = f"static_{level}{'_gemm' if gemm else ''}"
    return test


def static_by_percentile(d):
    """One value is a thousand times as large as all others: a percentile excludes it, minmax does not."""
    model(f"{d}/a.onnx")
    x = np.random.default_rng(3).standard_normal((500, K)).astype("f4")
    x[7, 7] = 4000
    np.savez(f"{d}/0.npz", x=x)
    high = {}
    for how in (["minmax"], ["percentile", "--percentile", "99.9"]):
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "static", "--calibrate", f"{d}/0.npz", "--range", *how)
        high[how[0]] = next(p for p in r["products"] if "third" in p["node"])["high"]
        agree(f"{d}/q.onnx", x_of(), 1e-4)
    assert high["minmax"] == 4000 and high["percentile"] < 10, high


def static_refuses_what_it_cannot_use(d):
    import subprocess
    model(f"{d}/a.onnx")
    np.savez(f"{d}/other.npz", z=np.zeros(3, "f4"))
    np.savez(f"{d}/wide.npz", x=np.zeros((3, K + 1), "f4"))
    open(f"{d}/broken.npz", "wb").write(b"no archive")
    for file, said in (("other.npz", "no array for input 'x'"), ("wide.npz", "input 'x' has shape"), ("broken.npz", "broken.npz"),
                       ("absent.npz", "absent.npz")):
        p = subprocess.run([STENO, "optimize", f"{d}/a.onnx", "-o", f"{d}/q.onnx", "--quantize", "static", "--calibrate",
                            f"{d}/{file}"], capture_output=True, text=True, check=False)
        assert p.returncode and said in p.stderr and not os.path.exists(f"{d}/q.onnx"), (file, p.returncode, p.stderr)


def recordings_calibrate_a_model(d):
    wav = os.path.join(ROOT, "tests/data/digits.wav")
    r = optimize(DIGITS, f"{d}/q.onnx", "--quantize", "static", "--calibrate", wav, "--layer-errors")
    done = [p for p in r["products"] if "kept" not in p]
    assert len(done) > 20 and all(p["snr_db"] > 20 and p["max"] >= p["mean"] > 0 for p in done), r["products"]
    assert any("calibration samples" in n for n in r["notes"]), r["notes"]
    written(f"{d}/q.onnx")


def layer_errors(kind, exact):
    """Each product's output against f32, computed with numpy on samples of our own."""
    def test(d):
        w, b, v = model(f"{d}/a.onnx")
        xs, args, *_ = ranges(d)
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", *kind, *args, "--layer-errors")
        s = written(f"{d}/q.onnx")
        for name, k, plain in (("third", 1, lambda x: x @ w), ("second", 0, lambda x: np.maximum(x @ w + b, 0) @ v)):
            p = next(p for p in r["products"] if name in p["node"])
            a = [plain(x.astype("f8")) for x in xs]
            e = [y - s.run(None, {"x": x})[k] for x, y in zip(xs, a)]
            lost, square = sum(np.sum(i ** 2) for i in e), sum(np.sum(i ** 2) for i in a)
            db = 10 * np.log10(square / lost)
            assert abs(p["snr_db"] - db) < exact, (name, p, db)
            assert abs(p["max"] - max(np.abs(i).max() for i in e)) < 0.05 * p["max"], (name, p)
    test.__name__ = "layer_errors_" + "_".join(kind).strip("-").replace("--", "")
    return test


def convolutions(form, level="all"):
    """1-D and 2-D, strides, dilation, padding; with groups and in f32 where no --convolutions is given."""
    def test(d):
        rng = np.random.default_rng(7)
        k1, k2 = rng.standard_normal((16, 8, 3)).astype("f4"), rng.standard_normal((12, 4, 3, 3)).astype("f4")
        kg, b1 = rng.standard_normal((16, 8, 5)).astype("f4"), rng.standard_normal(16).astype("f4")
        g = helper.make_graph(
            [helper.make_node("Conv", ["x", "k1", "b1"], ["a"], name="one", strides=[2], pads=[1, 1]),
             helper.make_node("Conv", ["a", "kg"], ["y"], name="groups", group=2, pads=[2, 2]),
             helper.make_node("Reshape", ["x", "shape"], ["image"], name="image"),
             helper.make_node("Conv", ["image", "k2"], ["z"], name="two", dilations=[2, 1], pads=[2, 1, 2, 1])], "g",
            [helper.make_tensor_value_info("x", 1, [2, 8, "time"])],
            [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 1, None)],
            [numpy_helper.from_array(a, n) for n, a in
             (("k1", k1), ("k2", k2), ("kg", kg), ("b1", b1), ("shape", np.array([2, 4, 2, -1])))])
        onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{d}/a.onnx")
        x = [np.random.default_rng(i).standard_normal((2, 8, 40)).astype("f4") for i in range(3)]
        for i, v in enumerate(x):
            np.savez(f"{d}/{i}.npz", x=v)
        args = ["--quantize", form, "--level", level] + [v for i in range(3) for v in ("--calibrate", f"{d}/{i}.npz") if form == "static"]
        assert not optimize(f"{d}/a.onnx", f"{d}/q.onnx", *args).get("products")
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--convolutions", "--layer-errors", *args)
        p = {p["node"]: p for p in r["products"]}
        assert p["groups"]["kept"] == "it has groups" and "kept" not in p["one"] and "kept" not in p["two"], r["products"]
        for name, w in (("one", k1), ("two", k2)):
            scale = np.max(np.abs(w), axis=tuple(range(1, w.ndim)), keepdims=True) / np.float32(127)
            q = np.clip(np.rint(w / scale), -127, 127)
            want = np.sqrt(np.sum((w - q * scale) ** 2) / np.sum(w.astype("f8") ** 2))
            assert abs(p[name]["error"] - want) < 1e-6 and p[name]["snr_db"] > 30, (p[name], want)
            assert has_bytes(f"{d}/q.onnx", q)
        count = nodes(onnx.load(f"{d}/q.onnx").graph)
        assert count["", "ConvInteger"] == (0 if level == "basic" else 2), count
        got, plain = agree(f"{d}/q.onnx", {"x": x[0]}, 1e-4), session(f"{d}/a.onnx").run(None, {"x": x[0]})
        for w, v in zip(plain, got):
            assert 0 < np.linalg.norm(w - v) < 0.03 * np.linalg.norm(w), np.linalg.norm(w - v) / np.linalg.norm(w)
    test.__name__ = f"convolutions_{form}_{level}"
    return test


def operators_and_nodes_are_left_out(d):
    model(f"{d}/a.onnx", gemm=True)
    for args, left in ((["--exclude-op", "Gemm"], {"gemm"}), (["--exclude-op", "MatMul"], {"/layers.1/second/MatMul", "/layers.0/third/MatMul"}),
                       (["--exclude-op", "Gem?", "--exclude", "*third*"], {"gemm", "/layers.0/third/MatMul"})):
        r = optimize(f"{d}/a.onnx", f"{d}/q.onnx", "--quantize", "dynamic", *args)
        assert {p["node"] for p in r["products"] if p.get("kept") == "excluded"} >= left, (args, r["products"])
        agree(f"{d}/q.onnx", x_of(), 1e-4)


def made_by_onnxruntime(per_channel, kind):
    """QDQ as onnxruntime's own quantizer writes it, for convolutions, MatMul and Gemm. Our engine computes in
    integers and gives the numbers of onnxruntime, which computes in integers too."""
    def test(d):
        import logging

        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        logging.disable(logging.WARNING)
        rng = np.random.default_rng(8)
        weight = {n: (rng.standard_normal(s) * 0.2).astype("f4") for n, s in (
            ("cw", (8, 3, 3, 3)), ("cb", (8,)), ("dw", (8, 1, 3, 3)), ("w", (80, 40)), ("b", (40,)), ("g", (20, 40)), ("gb", (20,)))}
        weight |= {"rows": np.array([0, 14, 80], "i8"), "flat": np.array([-1, 40], "i8")}
        g = [helper.make_node("Conv", ["x", "cw", "cb"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b0"]),
             helper.make_node("Conv", ["b0", "dw"], ["c"], group=8), helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 1, 3]),
             helper.make_node("Reshape", ["t", "rows"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["m"]),
             helper.make_node("Add", ["m", "b"], ["n"]), helper.make_node("Relu", ["n"], ["o"]),
             helper.make_node("Reshape", ["o", "flat"], ["p"]), helper.make_node("Gemm", ["p", "g", "gb"], ["y"], transB=1)]
        graph = helper.make_graph(g, "g", [helper.make_tensor_value_info("x", 1, ["n", 3, 32, 24])],
                                  [helper.make_tensor_value_info("y", 1, None)], [numpy_helper.from_array(a, n) for n, a in weight.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{d}/a.onnx")

        class Images(CalibrationDataReader):
            left = 4

            def get_next(self):
                self.left -= 1
                return {"x": rng.standard_normal((1, 3, 32, 24)).astype("f4")} if self.left >= 0 else None
        quantize_static(f"{d}/a.onnx", f"{d}/q.onnx", Images(), quant_format=QuantFormat.QDQ, per_channel=per_channel,
                        weight_type=kind and QuantType.QUInt8 or QuantType.QInt8, activation_type=kind and QuantType.QUInt8 or QuantType.QInt8)
        feed = {"x": rng.standard_normal((2, 3, 32, 24)).astype("f4")}
        step = float(numpy_helper.to_array(next(i for i in onnx.load(f"{d}/q.onnx").graph.initializer if i.name == "y_scale")))
        agree(f"{d}/q.onnx", feed, 0.02, session)
        r = optimize(f"{d}/q.onnx", f"{d}/o.onnx", "--opset", "21")
        assert r["passes"]["qdq"] == 3 and r["passes"]["int8"] == 2, r["passes"]
        a = session(f"{d}/q.onnx").run(None, feed)[0]
        plain = ort.SessionOptions()  # its own rewriting of QuantizeLinear costs up to three steps
        plain.graph_optimization_level, plain.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
        b = ort_exact.Plain(f"{d}/o.onnx", plain).run(None, feed)[0]
        assert np.max(np.abs(a - b)) <= 1.01 * step, (np.max(np.abs(a - b)), step)
        b = written(f"{d}/o.onnx").run(None, feed)[0]
        assert np.max(np.abs(a - b)) <= 4.01 * step, (np.max(np.abs(a - b)), step)
    test.__name__ = f"made_by_onnxruntime_{'u8' if kind else 'i8'}_{'columns' if per_channel else 'tensors'}"
    return test


# products of bytes: domain, inputs; X, W: an image and its weights; d: behind a DequantizeLinear
PRODUCTS = {
    "MatMulInteger": ("", "x w xz wz"), "ConvInteger": ("", "X W xz wz"),
    "QLinearMatMul": ("", "x xs xz w ws wz ys yz"), "QLinearConv": ("", "X xs xz W ws wz ys yz"),
    "MatMulIntegerToFloat": ("com.microsoft", "x w xs ws xz wz"), "QGemm": ("com.microsoft", "x xs xz w ws wz  ys yz"),
    "DynamicQuantizeMatMul": ("com.microsoft", "f w ws wz"), "MatMul": ("", "xd wd"), "Gemm": ("", "xd wd"), "Conv": ("", "Xd Wd")}
ZERO_IS_OPTIONAL = {"MatMulInteger", "ConvInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMul", "Gemm", "Conv"}


def product(path, op, activations, weights, zero, rounded):
    """A network with the largest bytes, whose sums of two products do not fit 16 bits; returns input and right result."""
    domain, names = PRODUCTS[op]
    names = names.split(" ")
    x, w = np.iinfo(activations).max, np.iinfo(weights).max
    wz = 128 if weights is np.uint8 and zero else 0
    right = float(x) * (float(w) - wz) * 64
    arrays = {"xs": np.float32(1), "ws": np.float32(1), "xz": activations(0), "wz": weights(wz), "ys": np.float32(right / 100),
              "yz": activations(0), "w": np.full((64, 8), w, weights), "W": np.full((8, 16, 2, 2), w, weights)}
    feed = {"x": np.full((3, 64), x, activations), "X": np.full((1, 16, 3, 3), x, activations), "f": np.full((3, 64), 255, "f4")}
    source = names[0][0]
    if not zero:
        names = ["" if n == "wz" else n for n in names]
    n = [helper.make_node("DequantizeLinear", [name[0], f"{name[0].lower()}s"] + ([f"{name[0].lower()}z"] if zero or name[0] in "xX" else []), [name])
         for name in names if name.endswith("d")]
    n.append(helper.make_node(op, names, ["p"], name="product", domain=domain))
    if rounded:
        n.append(helper.make_node("QuantizeLinear", ["p", "ys", "yz"], ["y"]))
    else:
        n[-1].output[0] = "y"
    t = {np.uint8: 2, np.int8: 3}[activations]
    if op.endswith("Integer"):
        t = 6
    elif op not in ("QLinearMatMul", "QLinearConv", "QGemm") and not rounded:
        t = 1
    if op in ("QLinearMatMul", "QLinearConv", "QGemm") or rounded:
        right = 100
    read = {i for i in (i for k in n for i in k.input) if i}
    g = helper.make_graph(n, "g", [helper.make_tensor_value_info(source, helper.np_dtype_to_tensor_dtype(feed[source].dtype), feed[source].shape)],
                          [helper.make_tensor_value_info("y", t, None)],
                          [numpy_helper.from_array(np.asarray(a), k) for k, a in arrays.items() if k in read])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)] + [helper.make_opsetid(domain, 1)] * bool(domain), ir_version=8), path)
    return {source: feed[source]}, right


def signs_in(path):
    """(activations, weights) of every product of bytes of a file whose types are known."""
    m = onnx.load(path)
    known = {i.name: i.data_type for g in all_graphs(m.graph) for i in g.initializer} | {i.name: i.type.tensor_type.elem_type for i in m.graph.input}
    for k in m.graph.node:
        if k.op_type.split("__")[0] in PRODUCTS.keys() | {"IntLinear"}:
            made = {o: n for n in m.graph.node for o in n.output}
            at = 3 if k.op_type in ("QLinearMatMul", "QLinearConv", "QGemm") else 1
            yield [known.get(made[i].input[0] if i in made and made[i].op_type == "DequantizeLinear" else i) for i in (k.input[0], k.input[at])]


def sums_of_bytes_do_not_saturate(d):
    """On a CPU with AVX2 and without VNNI onnxruntime adds u8 times i8 in 16 bits."""
    count = 0
    for op in PRODUCTS:
        for activations in (np.uint8, np.int8):
            for weights in (np.uint8, np.int8):
                for zero in (True, False) if op in ZERO_IS_OPTIONAL else (True,):
                    for rounded in (False, True) if op in ("MatMul", "Gemm", "Conv") else (False,):
                        if activations is np.int8 and op == "DynamicQuantizeMatMul":
                            continue
                        feed, right = product(f"{d}/a.onnx", op, activations, weights, zero, rounded)
                        for level in ("basic", "all"):
                            optimize(f"{d}/a.onnx", f"{d}/o.onnx", "--level", level)
                            case = (op, activations.__name__, weights.__name__, zero, rounded, level)
                            got = [steno(f"{d}/o.onnx", feed, 1, "3", "native")[0]]
                            if activations is np.uint8 or weights is np.int8 or op in ("MatMulInteger", "ConvInteger"):  # else it has no kernel
                                for off in (False, True):
                                    o = ort.SessionOptions()
                                    o.log_severity_level = 4
                                    if off:
                                        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
                                    got.append(ort_exact.Plain(f"{d}/o.onnx", o, providers=["CPUExecutionProvider"]).run(None, feed)[0])
                                for a, w in signs_in(f"{d}/o.onnx"):
                                    assert a == w or (a == 1 and w == 2), (case, a, w)
                                    count += 1
                            for y in got:
                                assert np.max(np.abs(y.astype("f8") - right)) <= 1e-5 * abs(right), (case, y.ravel()[0], right)
    assert count > 80, count


def weights_inside_operators_do_not_saturate(d):
    """Operators that multiply bytes inside: the file with i8 weights, rewritten, is the one with u8 weights in onnxruntime."""
    rng = np.random.default_rng(4)
    w, r = (rng.integers(-128, 128, (1, 64, 32)).astype("i1") for _ in range(2))
    r = r[:, :8]
    one, f = np.full(1, 0.01, "f4"), np.float32
    for op, names, x in (("DynamicQuantizeLSTM", ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"], rng.random((5, 2, 64), "f4")),
                         ("QAttention", ["x", "a", "b", "xs", "as", "", "xz", "az"], rng.integers(200, 256, (2, 5, 64)).astype("u1"))):
        for name, by, t in ("i", 0, np.int8), ("u", 128, np.uint8):
            arrays = {"w": w, "r": r, "a": rng.integers(-128, 128, (64, 48)).astype("i1") if not by else a}
            a = arrays["a"]
            arrays = {k: (v.astype(int) + by).astype(t) for k, v in arrays.items()}
            arrays |= {"wz": np.full(1, by, t), "rz": np.full(1, by, t), "az": t(by), "ws": one, "rs": one, "as": f(0.001), "xs": f(0.01),
                       "xz": np.uint8(0), "b": np.zeros(48, "f4")}
            attributes = {"hidden_size": 8} if op.startswith("Dyn") else {"num_heads": 2}
            g = helper.make_graph([helper.make_node(op, names, ["y"], domain="com.microsoft", **attributes)], "g",
                                  [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
                                  [helper.make_tensor_value_info("y", 1, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items() if k in names])
            onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8),
                      f"{d}/{name}.onnx")
        want = written(f"{d}/u.onnx").run(None, {"x": x})[0]
        optimize(f"{d}/i.onnx", f"{d}/o.onnx")
        assert {t.dtype for k, t in initializers(f"{d}/o.onnx").items() if t.ndim > 1} == {np.dtype("u1")}, op
        for got in (written(f"{d}/o.onnx").run(None, {"x": x})[0], steno(f"{d}/o.onnx", {"x": x}, 1, "3", "native")[0]):
            assert np.max(np.abs(got - want)) < 1e-4 * np.max(np.abs(want)), (op, np.max(np.abs(got - want)))


def wrong_options(_):
    import subprocess
    for args in (["--weight-bits", "5"], ["--weight-bits", "4", "--quantize", "dynamic"], ["--quantize", "all"],
                 ["--quantize", "dynamic", "--precision", "fp16"], ["--weight-bits", "4", "--block", "24"],
                 ["--quantize", "static"], ["--percentile", "30"], ["--range", "best"]):
        p = subprocess.run([STENO, "optimize", DIGITS, "-o", "/dev/null/x", *args], capture_output=True, text=True, check=False)
        assert p.returncode == 64, (args, p.returncode, p.stderr)


def whole(path, args, limit):
    def test(d):
        optimize(path, f"{d}/q.onnx", *args)
        a, b = session(path), written(f"{d}/q.onnx")
        feed = feeds(a, {}, np.random.default_rng(3))
        outs = b.run(None, feed)
        for o, w, g in zip(a.get_outputs(), outs, steno(f"{d}/q.onnx", feed, len(outs), "3", "native")):
            difference(o.name, w, g, limit)
    test.__name__ = f"{os.path.basename(os.path.dirname(path))}_{'_'.join(args).strip('-')}"
    return test


def main():
    tests = [sums_of_bytes_do_not_saturate, weights_inside_operators_do_not_saturate, dynamic, gemm_is_a_product_too, excluded_products_stay, operators_and_nodes_are_left_out,
             static("basic"), static("all"), static("all", gemm=True), static_by_percentile, static_refuses_what_it_cannot_use,
             made_by_onnxruntime(True, False), made_by_onnxruntime(False, True), recordings_calibrate_a_model, layer_errors(["--quantize", "static"], 0.05), layer_errors(["--quantize", "dynamic"], 0.05),
             layer_errors(["--precision", "bf16"], 0.1), layer_errors(["--weight-bits", "4"], 0.05), reduced_range, blocks(4), blocks(8), weights_that_become_zero_are_counted, columns_of_tiny_weights,
             weights_that_do_not_fit_stay("70000", 70000, {"fp16"}),
             weights_that_do_not_fit_stay("3.4e38", np.float32(3.4e38), {"fp16", "bf16", "int8", "blocks", "static"}),
             weights_that_do_not_fit_stay("infinity", np.inf, {"int8", "blocks", "static"}),
             weights_that_do_not_fit_stay("nan", np.nan, {"int8", "blocks", "static"}),
             convolutions("dynamic"), convolutions("static"), convolutions("static", "basic"), sixteen("fp16"),
             sixteen("bf16"), halves_reach_every_product, halves_round_as_numpy_does, wrong_options, whole(DIGITS, ["--quantize", "dynamic"], True),
             whole(DIGITS, ["--weight-bits", "8"], False), whole(DIGITS, ["--precision", "fp16"], False)]
    failed = 0
    for n, t in enumerate(tests, 1):
        try:
            with tempfile.TemporaryDirectory() as d:
                skip = t(d)
            print(f"ok {n} - quantize: {t.__name__}{' # ' + skip if skip else ''}", flush=True)
        except ort_exact.Saturates as e:
            print(f"ok {n} - quantize: {t.__name__} # SKIP {e}", flush=True)
        except Exception as e:  # onnxruntime has its own exceptions
            said = str(e).replace("\n", "\n# ")[:500]
            print(f"not ok {n} - quantize: {t.__name__}\n# {type(e).__name__}: {said}", flush=True)
            failed += 1
    print(f"1..{len(tests)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
