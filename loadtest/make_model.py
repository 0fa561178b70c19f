#!/usr/bin/env python3
"""Write a model directory of family ctc_streaming with random weights: a streaming Conformer of any size, built like the
model that ships (conf/models/digits-en/train/model.py), for measuring what a size costs.

    make_model.py OUT [--dim 512] [--layers 12] [--hidden 2048] [--heads 8] [--chunk 6] [--left 24]     (needs onnx, numpy)

Its transcripts are nonsense, but reproducible: a load test compares them with those of an idle server."""
import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINS, SUB, OVERLAP, KERNEL, C1, C2 = 40, 4, 3, 9, 32, 64
TOKENS = ["<blk>", *(f"▁{w}" for w in "zero one two three four five six seven eight nine oh".split()), "<unk>"]


class Builder:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.n = [], [], 0

    def weight(self, value):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), f"w{self.n}"))
        return f"w{self.n}"

    def random(self, *shape, fan):
        return self.weight((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def ints(self, *values):
        return self.weight(np.array(values, np.int64))

    def op(self, kind, *inputs, out=None, n_out=1, **attrs):
        self.n += 1
        outs = [out or f"v{self.n}"] if n_out == 1 else [f"v{self.n}_{i}" for i in range(n_out)]
        self.nodes.append(helper.make_node(kind, list(inputs), outs, name=f"{kind}_{self.n}", **attrs))
        return outs[0] if n_out == 1 else outs

    def linear(self, x, n_in, n_out):
        return self.op("Add", self.op("MatMul", x, self.random(n_in, n_out, fan=n_in)), self.weight(np.zeros(n_out, np.float32)))

    def norm(self, x, d):
        return self.op("LayerNormalization", x, self.weight(np.ones(d, np.float32)), self.weight(np.zeros(d, np.float32)), axis=-1)

    def swish(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def half(self, x):
        return self.op("Mul", x, self.weight(np.float32(0.5)))


def feed_forward(b, x, a):
    y = b.swish(b.linear(b.norm(x, a.dim), a.dim, a.hidden))
    return b.op("Add", x, b.half(b.linear(y, a.hidden, a.dim)))


def attention(b, x, cache, new_cache, a):
    """x [N, chunk, dim], cache [N, left, 2 * dim]"""
    d = a.dim // a.heads
    y = b.linear(b.norm(x, a.dim), a.dim, 3 * a.dim)
    q, kv = b.op("Split", y, b.ints(a.dim, 2 * a.dim), n_out=2, axis=-1)
    kv = b.op("Concat", cache, kv, axis=1)
    k, v = b.op("Split", kv, b.ints(a.dim, a.dim), n_out=2, axis=-1)
    q, k, v = (b.op("Reshape", t, b.ints(0, 0, a.heads, d)) for t in (q, k, v))
    w = b.op("MatMul", b.op("Transpose", q, perm=[0, 2, 1, 3]), b.op("Transpose", k, perm=[0, 2, 3, 1]))
    w = b.op("Softmax", b.op("Mul", w, b.weight(np.float32(d ** -0.5))), axis=-1)
    y = b.op("Transpose", b.op("MatMul", w, b.op("Transpose", v, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
    y = b.op("Reshape", y, b.ints(0, 0, a.dim))
    b.op("Slice", kv, b.ints(a.chunk), b.ints(1 << 30), b.ints(1), out=new_cache)
    return b.op("Add", x, b.linear(y, a.dim, a.dim))


def convolution(b, x, cache, new_cache, a):
    """cache [N, KERNEL - 1, dim]"""
    y = b.linear(b.norm(x, a.dim), a.dim, 2 * a.dim)
    y, gate = b.op("Split", y, b.ints(a.dim, a.dim), n_out=2, axis=-1)
    y = b.op("Concat", cache, b.op("Mul", y, b.op("Sigmoid", gate)), axis=1)
    b.op("Slice", y, b.ints(a.chunk), b.ints(1 << 30), b.ints(1), out=new_cache)
    y = b.op("Conv", b.op("Transpose", y, perm=[0, 2, 1]), b.random(a.dim, 1, KERNEL, fan=KERNEL), group=a.dim)
    y = b.swish(b.norm(b.op("Transpose", y, perm=[0, 2, 1]), a.dim))
    return b.op("Add", x, b.linear(y, a.dim, a.dim))


def network(a):
    b = Builder(a.seed)
    window = a.chunk * SUB + OVERLAP
    f32 = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", f32, ["N", window, BINS])]
    outputs = [helper.make_tensor_value_info("log_probs", f32, ["N", a.chunk, len(TOKENS)])]
    y = b.op("Mul", b.op("Add", "x", b.weight(np.float32(6))), b.weight(np.float32(0.3)))
    y = b.op("Unsqueeze", y, b.ints(1))
    y = b.op("Relu", b.op("Conv", y, b.random(C1, 1, 3, 3, fan=4), strides=[2, 2]))
    y = b.op("Relu", b.op("Conv", y, b.random(C2, C1, 3, 3, fan=4 * C1), strides=[2, 2]))
    bins = ((BINS - 1) // 2 - 1) // 2
    y = b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), b.ints(0, 0, C2 * bins))
    y = b.linear(y, C2 * bins, a.dim)
    for i in range(a.layers):
        for name, shape in (("kv", (a.left, 2 * a.dim)), ("conv", (KERNEL - 1, a.dim))):
            inputs.append(helper.make_tensor_value_info(f"{name}_{i}", f32, ["N", *shape]))
            outputs.append(helper.make_tensor_value_info(f"new_{name}_{i}", f32, ["N", *shape]))
        y = feed_forward(b, y, a)
        y = attention(b, y, f"kv_{i}", f"new_kv_{i}", a)
        y = convolution(b, y, f"conv_{i}", f"new_conv_{i}", a)
        y = b.norm(feed_forward(b, y, a), a.dim)
    y = b.op("Mul", b.linear(y, a.dim, len(TOKENS)), b.weight(np.float32(4)))
    b.op("LogSoftmax", y, out="log_probs", axis=-1)
    graph = helper.make_graph(b.nodes, f"conformer-{a.dim}x{a.layers}", inputs, outputs, b.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="steno")
    model.ir_version = 8
    return model


CONF = """; Random weights, written by loadtest/make_model.py, for measurements.
[model]
name = {name}
version = 1
family = ctc_streaming
language = en
license = CC0-1.0

[features]
type = kaldi-fbank
sample_rate = 8000
mel_bins = {bins}
low_freq = 60
high_freq = 3800
snip_edges = true

[network]
file = encoder.onnx
window_frames = {window}
shift_frames = {shift}
subsampling = {sub}
tail_frames = {shift}

[decoder]
tokens = tokens.txt
blank = <blk>
drop = <unk>
beam = 4

[endpoint]
rule1_silence = 5.0
rule2_silence = 0.8
rule3_length = 5
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    for name, value in (("dim", 512), ("layers", 12), ("hidden", 2048), ("heads", 8), ("chunk", 6), ("left", 24), ("seed", 1)):
        ap.add_argument(f"--{name}", type=int, default=value)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    onnx.save(network(a), os.path.join(a.out, "encoder.onnx"))
    with open(os.path.join(a.out, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(TOKENS))
    with open(os.path.join(a.out, "model.conf"), "w", encoding="utf-8") as f:
        f.write(CONF.format(name=f"conformer-{a.dim}x{a.layers}", bins=BINS, window=a.chunk * SUB + OVERLAP, shift=a.chunk * SUB, sub=SUB))


main()
