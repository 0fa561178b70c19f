"""steno verify, profile and graph from outside: numbers against numpy, exit codes, output formats. TAP."""
import json
import os
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from daemon import SLOW
from test_models import ROOT, STENO

DIGITS = os.path.join(ROOT, "conf/models/digits-en")
RECORDING = os.path.join(ROOT, "tests/data/digits.wav")


def steno(*args, want=0):
    p = subprocess.run([STENO, *args], capture_output=True, text=True, timeout=300 * SLOW, check=False)
    assert p.returncode == want, f"steno {' '.join(args)}: exit {p.returncode}, expected {want}: {p.stderr.strip()}"
    return p.stdout, p.stderr


def model(path, scale, rows=7, wrong=0.0):
    """y = (x W) scale, and one row of a table for each id. B has one weight that differs by `wrong`."""
    w = np.random.default_rng(3).standard_normal((8, 8)).astype("f4")
    w[0, 0] += wrong
    table = np.arange(rows * 2, dtype="f4").reshape(rows, 2)
    g = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"], name="/net/layers.0/linear/MatMul"),
         helper.make_node("Mul", ["a", "s"], ["y"], name="/net/layers.1/scale/Mul"),
         helper.make_node("Gather", ["table", "ids"], ["z"])], "g",
        [helper.make_tensor_value_info("x", 1, ["batch", "time", 8]),
         helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "time"])],
        [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 1, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(scale, "f4"), "s"),
         numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def equal_networks(d):
    a, b = model(f"{d}/a.onnx", 0.5), model(f"{d}/b.onnx", 0.5)
    r = json.loads(steno("verify", a, b, "--json")[0])
    assert r["samples"] == 5 and all(o["agrees"] and o["percent_within"] == 100 for o in r["outputs"]), r
    out, _ = steno("verify", a)
    assert "% within" in out and "5 samples" in out, out


def in_onnxruntime(d):
    """B runs in ONNX Runtime: the same numbers, a weight that differs, a file that it refuses, and no ONNX Runtime."""
    a, b = model(f"{d}/a.onnx", 0.5), model(f"{d}/b.onnx", 0.5, wrong=0.25)
    r = json.loads(steno("verify", a, "--onnxruntime", "--json")[0])
    assert r["samples"] == 5 and all(o["agrees"] for o in r["outputs"]) and len(r["hard_inputs"]) > 3, r
    assert not json.loads(steno("verify", a, b, "--onnxruntime", "--json", want=1)[0])["outputs"][0]["agrees"]
    steno("optimize", a, "-o", f"{d}/c.onnx")
    steno("verify", a, f"{d}/c.onnx", "--onnxruntime")
    m = onnx.load(a)
    m.graph.node[0].domain = "ai.steno"  # of no function
    m.opset_import.append(helper.make_opsetid("ai.steno", 1))
    m.graph.node[0].op_type = "Linear"
    onnx.save(m, b)
    assert "ONNX Runtime: " in steno("verify", a, b, "--onnxruntime", want=64)[1]
    with mock.patch.dict(os.environ, STENO_PYTHON=f"{d}/nothing"):
        assert f"ONNX Runtime: {d}/nothing: No such file" in steno("verify", a, "--onnxruntime", want=74)[1]


def different_networks(d):
    """One weight is off by 0.25 and the input has variance 1: y[..., 0] differs by 0.125 on average."""
    a, b = model(f"{d}/a.onnx", 0.5), model(f"{d}/b.onnx", 0.5, wrong=0.25)
    r = json.loads(steno("verify", a, b, "--json", want=1)[0])
    y, z = r["outputs"]
    assert not y["agrees"] and z["agrees"] and z["max"] == 0, r
    assert 86 < y["percent_within"] < 88.5, y  # one column of eight
    assert 0.15 < y["max"] < 0.25 and 0.008 < y["mean"] < 0.02, y
    steno("verify", a, b, "--atol", "1", want=0)


def normalisation(path, clip):
    """A layer normalisation of 256 columns; its normalised values are clipped to [-5, 5] or not."""
    def init(name, a):
        return numpy_helper.from_array(np.asarray(a, "f4"), name)
    w = np.random.default_rng(5).standard_normal((2, 256))
    n = helper.make_node
    nodes = [n("ReduceMean", ["x"], ["mu"], axes=[-1]), n("Sub", ["x", "mu"], ["d"]), n("Mul", ["d", "d"], ["sq"]),
             n("ReduceMean", ["sq"], ["v"], axes=[-1]), n("Add", ["v", "eps"], ["ve"]), n("Sqrt", ["ve"], ["sd"]),
             n("Div", ["d", "sd"], ["z"])] + ([n("Clip", ["z", "lo", "hi"], ["zc"])] if clip else [])
    nodes += [n("Mul", ["zc" if clip else "z", "g"], ["zg"]), n("Add", ["zg", "b"], ["y"])]
    g = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["a", "t", 256])],
                          [helper.make_tensor_value_info("y", 1, None)],
                          [init("eps", 1e-5), init("lo", -5), init("hi", 5), init("g", w[0]), init("b", w[1])])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def a_lost_clip_shows_at_hard_inputs(d):
    """Random inputs do not reach the limits; one outlier does."""
    a, b = normalisation(f"{d}/a.onnx", True), normalisation(f"{d}/b.onnx", False)
    steno("verify", a, b, "--no-hard-inputs", want=0)
    r = json.loads(steno("verify", a, b, "--json", want=1)[0])
    assert all(o["agrees"] for o in r["outputs"]), r
    assert [h["inputs"] for h in r["hard_inputs"] if not h["agrees"]] == ["one outlier of 1000"], r
    assert "of 'y'" in steno("verify", a, b, want=1)[0]
    out, _ = steno("verify", a)
    assert "9 of 9 kinds of hard inputs agree" in out, out


def rows_stay_within_the_table(d):
    """Ids are drawn from the rows of the table: no sample is refused, and all rows occur."""
    a = model(f"{d}/a.onnx", 1, rows=3)
    r = json.loads(steno("verify", a, a, "--samples", "8", "--json")[0])
    assert r["samples"] == 8 and r["left_out"] == 0, r


def refusals(d):
    a = model(f"{d}/a.onnx", 1)
    assert "no input 'nobody'" in steno("verify", a, "--shape", "nobody=1", want=64)[1]
    _, e = steno("verify", a, "--value", "ids=99", want=64)
    assert "left out" in e and "at no length" in e, e
    steno("verify", want=64)
    steno("verify", "--model", DIGITS, want=64)
    steno("verify", f"{d}/missing.onnx", want=66)


def recordings(_):
    out, _ = steno("verify", "--model", DIGITS, "--audio", RECORDING)
    assert "1 recording, 0 differ; 0 of 7 words" in out, out
    r = json.loads(steno("verify", "--model", DIGITS, "--model", DIGITS, "--audio", os.path.dirname(RECORDING),
                         "--json")[0])
    assert r["recordings"] == 1 and r["results"][0]["same"] and r["results"][0]["a"], r


def profile_adds_up(d):
    a = model(f"{d}/a.onnx", 0.5)
    trace = f"{d}/trace.json"
    p = json.loads(steno("profile", a, "--shape", "x=2x50x8", "--shape", "ids=2x50", "--json", "--trace", trace,
                         "--opt-level", "0", "--runs", "3")[0])
    nodes = {n["operator"]: n for n in p["nodes"]}
    assert set(nodes) == {"MatMul", "Mul", "Gather"}, nodes
    assert abs(sum(n["us"] for n in p["nodes"]) - p["us"]) < 1e-3 * p["us"] + 1e-6
    assert abs(p["gflop"] - 2 * 2 * 50 * 8 * 8 / 1e9) < 1e-12, p["gflop"]
    got = nodes["MatMul"]["gbytes_per_s"] * nodes["MatMul"]["us"] * 1e3
    sizes = [4 * (2 * 50 * 8 + 8 * columns + 2 * 50 * 8) for columns in (8, 16, 32)]  # bytes of input, packed weights, output
    assert any(abs(got - want) < 0.01 * want for want in sizes), (got, sizes)
    assert {x["layer"] for x in p["layers"]} == {"/net/layers.0", "/net/layers.1", ""}, p["layers"]
    with open(trace, encoding="utf-8") as f:
        t = json.load(f)["traceEvents"]
    assert len(t) == 3 and all(e["ph"] == "X" and e["dur"] >= 0 for e in t), t
    assert [e["ts"] for e in t] == sorted(e["ts"] for e in t)
    out, _ = steno("profile", a, "--runs", "1", "--slowest", "2")
    assert "slowest nodes" in out and "layer" in out


def graph_forms(d):
    a = model(f"{d}/a.onnx", 0.5)
    text, _ = steno("graph", a, "--opt-level", "0")
    assert text.count("MatMul") >= 1 and "Gather" in text, text
    dot, _ = steno("graph", a, "--dot")
    assert dot.startswith("digraph") and dot.rstrip().endswith("}"), dot[:80]
    steno("graph", a, "--dot", "--text", want=64)


def options_of_every_command(_):
    names = steno("help", "--names")[0].split()
    assert {"optimize", "verify", "profile", "graph", "run", "bench"} <= set(names)
    for n in names:
        out, _ = steno(n, "--help")
        assert "steno " + n in out, n
        _, e = steno(n, "--no-such-option", want=64)
        assert "--no-such-option" in e, e


def main():
    tests = [equal_networks, different_networks, in_onnxruntime, a_lost_clip_shows_at_hard_inputs, rows_stay_within_the_table,
             refusals, recordings, profile_adds_up, graph_forms, options_of_every_command]
    failed = 0
    for n, t in enumerate(tests, 1):
        try:
            with tempfile.TemporaryDirectory() as d:
                t(d)
            print(f"ok {n} - {t.__name__}", flush=True)
        except (AssertionError, KeyError, ValueError) as e:
            said = str(e).replace("\n", "\n# ")
            print(f"not ok {n} - {t.__name__}\n# {said}", flush=True)
            failed += 1
    print(f"1..{len(tests)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
