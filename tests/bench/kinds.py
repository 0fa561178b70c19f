#!/usr/bin/env python3
"""Single operators that networks of others spend their time in, beside ONNX Runtime: processor time of one thread.

    kinds.py [--steno build/steno] [--only TEXT] [--rounds 5] [--markdown]

A ratio is our time divided by ONNX Runtime's, the median of rounds in which both run alternately; above 1 we are slower."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh

rng = np.random.default_rng(0)
TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int8): T.INT8, np.dtype(np.uint8): T.UINT8}


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def node(op, shape, consts=(), t=np.float32, domain="", extra_inputs=(), **attrs):
    """A model of one node: x, then constants."""
    names = ["x"] + ["" if c is None else f"c{i}" for i, c in enumerate(consts)]
    g = h.make_graph([h.make_node(op, names, ["y"], domain=domain, **attrs)], "g", [h.make_tensor_value_info("x", TYPES[np.dtype(t)], list(shape))],
                     [h.make_tensor_value_info("y", T.FLOAT, None)], [nh.from_array(c, f"c{i}") for i, c in enumerate(consts) if c is not None])
    return h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8)


def lstm(steps, batch, size, hidden, quantized=False):
    w, r, b = rand(1, 4 * hidden, size) * 0.1, rand(1, 4 * hidden, hidden) * 0.1, rand(1, 8 * hidden) * 0.1
    if not quantized:
        return node("LSTM", (steps, batch, size), [w, r, b], hidden_size=hidden)
    q = [(rng.integers(-127, 127, (1, s, 4 * hidden)).astype(np.int8)) for s in (size, hidden)]
    scale, zero = np.array([0.002], np.float32), np.array([0], np.int8)
    return node("DynamicQuantizeLSTM", (steps, batch, size), [*q, b, None, None, None, None, scale, zero, scale, zero], domain="com.microsoft",
                hidden_size=hidden)


def audio_embedding():
    """The first blocks of an audio embedding: convolutions, each with a LeakyRelu that is cut off below, and pooling."""
    nodes, inits, at = [], [nh.from_array(np.float32(-0.4), "low")], "x"

    def conv(x, name, c_in, c_out, k, **attrs):
        inits.extend([nh.from_array(rand(c_out, c_in, k, k) * 0.05, name + "w"), nh.from_array(rand(c_out) * 0.05, name + "b")])
        nodes.append(h.make_node("Conv", [x, name + "w", name + "b"], [name], pads=[k // 2] * 4, **attrs))
        return name

    for i, c in enumerate((1, 16, 16, 32)):
        out = 16 if i < 2 else 32
        at = conv(at, f"c{i}", c, out, 3)
        nodes += [h.make_node("LeakyRelu", [at], [f"l{i}"], alpha=0.2), h.make_node("Max", [f"l{i}", "low"], [f"r{i}"])]
        nodes.append(h.make_node("MaxPool", [f"r{i}"], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]))
        at = f"p{i}"
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 1, 96, 64])], [h.make_tensor_value_info(at, T.FLOAT, None)], inits)
    return h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def kinds():
    f32, i8 = lambda *v: np.array(v, np.float32), lambda *v: np.array(v, np.int8)
    yield "Einsum, projection `bij,jk->bik` 40 x 512 x 512", node("Einsum", (1, 40, 512), [rand(512, 512)], equation="bij,jk->bik")
    yield "Einsum, groups `btgi,gih->btgh` 8 of 64", node("Einsum", (1, 40, 8, 64), [rand(8, 64, 64)], equation="btgi,gih->btgh")
    yield "Einsum, scores `bqnd,bknd->bnqk` 8 heads", node("Einsum", (1, 100, 8, 64), [rand(1, 100, 8, 64)], equation="bqnd,bknd->bnqk")
    yield "MaxPool 80 x 16000, 3 by 3", node("MaxPool", (1, 80, 16000), kernel_shape=[3], strides=[3])
    yield "MaxPool 64 x 112 x 112, 3 x 3 by 2", node("MaxPool", (1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield "MaxPool 64 x 56 x 56, 2 x 2 by 2", node("MaxPool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    yield "MaxPool 128 x 20 x 20, 5 x 5 by 1", node("MaxPool", (1, 128, 20, 20), kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4)
    yield "AveragePool 512 x 300, 100 by 100", node("AveragePool", (1, 512, 300), kernel_shape=[100], strides=[100])
    yield "AveragePool 64 x 56 x 56, 3 x 3 by 1", node("AveragePool", (1, 64, 56, 56), kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    yield "LpPool 64 x 56 x 56, 2 x 2 by 2", node("LpPool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    yield "GlobalAveragePool 512 x 14 x 14", node("GlobalAveragePool", (1, 512, 14, 14))
    yield "InstanceNormalization 80 x 5333", node("InstanceNormalization", (1, 80, 5333), [rand(80), rand(80)])
    yield "InstanceNormalization 64 x 64 x 64", node("InstanceNormalization", (1, 64, 64, 64), [rand(64), rand(64)])
    yield "DequantizeLinear u8, 1 M", node("DequantizeLinear", (1024, 1024), [f32(0.02), np.array(128, np.uint8)], np.uint8)
    yield "DequantizeLinear i8 by columns, 1 M", node("DequantizeLinear", (1024, 1024), [rand(1024), np.zeros(1024, np.int8)], np.int8, axis=1)
    yield "DequantizeLinear i8 by rows, 1 M", node("DequantizeLinear", (1024, 1024), [rand(1024), np.zeros(1024, np.int8)], np.int8, axis=0)
    for q in (False, True):
        for batch in (1, 2, 4, 8, 16):
            yield f"{'DynamicQuantizeLSTM' if q else 'LSTM'} of 128, 50 steps, batch {batch}", lstm(50, batch, 128, 128, q)
    yield "LSTM of 256, 50 steps, batch 4", lstm(50, 4, 256, 256)
    yield "DynamicQuantizeLSTM of 640, 1 step, batch 1", lstm(1, 1, 640, 640, True)
    yield "DynamicQuantizeLSTM of 512, 20 steps, batch 1", lstm(20, 1, 512, 512, True)
    yield "LSTM of 640, 1 step, batch 4", lstm(1, 4, 640, 640)
    yield "audio embedding, 96 x 64: Conv, LeakyRelu, Max, MaxPool", audio_embedding()


def ratio(model, steno, rounds):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
    i = s.get_inputs()[0]
    x = rand(*i.shape) if i.type == "tensor(float)" else rng.integers(0, 100, i.shape).astype(np.int8 if i.type == "tensor(int8)" else np.uint8)
    s.run(None, {"x": x})
    t = time.thread_time()
    s.run(None, {"x": x})
    runs = max(5, min(1000, int(0.1 / (time.thread_time() - t))))
    both = []
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/m.onnx")
        for _ in range(rounds):
            ours = json.loads(subprocess.run([steno, "bench", f"{d}/m.onnx", "--runs", str(runs), "--json"], check=True, capture_output=True).stdout)
            theirs = []
            for _ in range(runs):
                t = time.thread_time()
                s.run(None, {"x": x})
                theirs.append(1e3 * (time.thread_time() - t))
            both.append((ours["cpu_ms"], statistics.mean(theirs)))
    return sorted(both, key=lambda b: b[0] / b[1])[rounds // 2]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--steno", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "steno"))
    a.add_argument("--only", default="")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--markdown", action="store_true")
    a = a.parse_args()
    for name, m in kinds():
        if a.only.lower() in name.lower():
            ours, theirs = ratio(m, a.steno, a.rounds)
            print(f"| {name} | {ours / theirs:.2f} |" if a.markdown else f"{ours / theirs:6.2f}  {ours:8.3f} ms {theirs:8.3f} ms  {name}", flush=True)


if __name__ == "__main__":
    main()
