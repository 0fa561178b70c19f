"""Small streaming transducers of random weights in the layouts of icefall's LSTM and Conformer exports, which the zoo does not
have: names, states and metadata are those that sherpa-onnx reads (online-lstm-transducer-model.cc,
online-conformer-transducer-model.cc). The networks are smaller than icefall's, and made here with the package onnx.

    transducer_layouts.py lstm|conformer DIR"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

BINS, VOCAB, CONTEXT, JOINT = 80, 40, 2, 32
WIDTH, HIDDEN, LAYERS = 24, 32, 2
# LEFT: the frames of a chunk. sherpa-onnx gives feature frames as processed_lens, icefall encoder frames; with a longer left
# context the masks of the first chunks, and so the results, would differ.
LEFT, KERNEL, HEAD = 8, 5, 24


class Graph:
    """Nodes and weights of a network."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.n = [], [], 0

    def constant(self, value, kind="f4"):
        self.n += 1
        name = f"w{self.n}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def random(self, *shape, gain=1.0):
        return self.constant(self.rng.standard_normal(shape) * gain / np.sqrt(shape[0]))

    def ints(self, *value):
        return self.constant(value, "i8")

    def op(self, kind, *inputs, out=None, **attributes):
        self.n += 1
        out = out or f"v{self.n}"
        self.nodes.append(h.make_node(kind, list(inputs), [out], **attributes))
        return out

    def part(self, x, axis, begin, end):
        return self.op("Slice", x, self.ints(begin), self.ints(end), self.ints(axis))

    def linear(self, x, n_in, n_out, gain=1.0):
        return self.op("Add", self.op("MatMul", x, self.random(n_in, n_out, gain=gain)), self.constant(self.rng.standard_normal(n_out) * 0.1))

    def save(self, path, inputs, outputs, meta=None):
        def value(name, shape, kind=T.FLOAT):
            return h.make_tensor_value_info(name, kind, shape)
        g = h.make_graph(self.nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], self.weights)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
        for k, v in (meta or {}).items():
            m.metadata_props.add(key=k, value=str(v))
        onnx.checker.check_model(m)
        onnx.save(m, path)


def normalise(g):
    """Features of speech, about -9 +- 3, to the range of the weights."""
    return g.op("Mul", g.op("Add", "x", g.constant(9)), g.constant(1 / 3))


def save_lstm(path):
    g = Graph(1)
    x = g.op("Reshape", normalise(g), g.ints(0, 9 * BINS))
    x = g.op("Tanh", g.linear(x, 9 * BINS, WIDTH))
    new = [[], []]
    for k in range(LAYERS):
        was = [g.op("Squeeze", g.part(f"state{i}", 0, k, k + 1), g.ints(0)) for i in range(2)]
        gates = g.op("Add", g.linear(x, WIDTH, 4 * HIDDEN), g.linear(was[0], WIDTH, 4 * HIDDEN))
        i, f, c, o = (g.part(gates, 1, j * HIDDEN, (j + 1) * HIDDEN) for j in range(4))
        cell = g.op("Add", g.op("Mul", g.op("Sigmoid", f), was[1]), g.op("Mul", g.op("Sigmoid", i), g.op("Tanh", c)))
        out = g.op("Mul", g.op("Sigmoid", o), g.op("Tanh", cell))
        out = g.op("MatMul", out, g.random(HIDDEN, WIDTH))
        new[0].append(g.op("Unsqueeze", out, g.ints(0)))
        new[1].append(g.op("Unsqueeze", cell, g.ints(0)))
        x = g.op("Add", x, out)
    for i in range(2):
        g.op("Concat", *new[i], out=f"new_state{i}", axis=0)
    g.op("Unsqueeze", g.linear(x, WIDTH, JOINT, 2), g.ints(1), out="encoder_out")
    states = [("state0", [LAYERS, "N", WIDTH]), ("state1", [LAYERS, "N", HIDDEN])]
    g.save(path, [("x", ["N", 9, BINS])] + states, [("encoder_out", ["N", 1, JOINT])] + [("new_" + n, s) for n, s in states],
           {"model_type": "lstm", "version": 1, "model_author": "steno", "T": 9, "decode_chunk_len": 4, "num_encoder_layers": LAYERS,
            "d_model": WIDTH, "rnn_hidden_size": HIDDEN})


def attend(g, x, cache, mask):
    """x [8,N,D] over cache [LEFT,N,D] and itself."""
    keys = g.op("Concat", cache, x, axis=0)
    q = g.op("Transpose", g.linear(x, WIDTH, HEAD), perm=[1, 0, 2])
    k = g.op("Transpose", g.linear(keys, WIDTH, HEAD), perm=[1, 2, 0])
    v = g.op("Transpose", g.linear(keys, WIDTH, WIDTH), perm=[1, 0, 2])
    scores = g.op("Add", g.op("Mul", g.op("MatMul", q, k), g.constant(HEAD ** -0.5)), mask)
    y = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    return g.op("Transpose", y, perm=[1, 0, 2]), g.part(keys, 0, -LEFT, 2 ** 31)


def convolve(g, x, cache):
    """Depthwise over time, causal. x [8,N,D], cache [KERNEL-1,N,D]."""
    frames = g.op("Concat", cache, x, axis=0)
    y = g.op("Conv", g.op("Transpose", frames, perm=[1, 2, 0]), g.random(WIDTH, 1, KERNEL, gain=2), group=WIDTH, kernel_shape=[KERNEL])
    return g.op("Tanh", g.op("Transpose", y, perm=[2, 0, 1])), g.part(frames, 0, -(KERNEL - 1), 2 ** 31)


def save_conformer(path):
    g = Graph(2)
    # frames of the left context that are not there yet: processed_lens <= LEFT - 1 - i
    empty = g.op("LessOrEqual", g.op("Unsqueeze", "processed_lens", g.ints(1)), g.constant(np.arange(LEFT)[None, ::-1], "i8"))
    mask = g.op("Mul", g.op("Cast", empty, to=T.FLOAT), g.constant(-1e9))
    mask = g.op("Pad", mask, g.ints(0, 0, 0, 8))
    mask = g.op("Unsqueeze", mask, g.ints(1))
    x = g.op("Conv", g.op("Unsqueeze", normalise(g), g.ints(1)), g.constant(g.rng.standard_normal((WIDTH, 1, 11, BINS)) * 0.05),
             kernel_shape=[11, BINS], strides=[4, 1])
    x = g.op("Transpose", g.op("Squeeze", g.op("Tanh", x), g.ints(3)), perm=[2, 0, 1])
    attn, conv = [], []
    for k in range(LAYERS):
        y, kept = attend(g, x, g.op("Squeeze", g.part("cached_attn", 0, k, k + 1), g.ints(0)), mask)
        attn.append(g.op("Unsqueeze", kept, g.ints(0)))
        x = g.op("Add", x, y)
        y, kept = convolve(g, x, g.op("Squeeze", g.part("cached_conv", 0, k, k + 1), g.ints(0)))
        conv.append(g.op("Unsqueeze", kept, g.ints(0)))
        x = g.op("Add", x, y)
    g.op("Concat", *attn, out="new_cached_attn", axis=0)
    g.op("Concat", *conv, out="new_cached_conv", axis=0)
    g.op("Transpose", g.linear(x, WIDTH, JOINT, 2), out="encoder_out", perm=[1, 0, 2])
    states = [("cached_attn", [LAYERS, LEFT, "N", WIDTH]), ("cached_conv", [LAYERS, KERNEL - 1, "N", WIDTH])]
    g.save(path, [("x", ["N", 39, BINS])] + states + [("processed_lens", ["N"], T.INT64)],
           [("encoder_out", ["N", 8, JOINT])] + [("new_" + n, s) for n, s in states],
           {"model_type": "conformer", "version": 1, "model_author": "steno", "T": 39, "decode_chunk_len": 32, "left_context": LEFT,
            "encoder_dim": WIDTH, "pad_length": 7, "cnn_module_kernel": KERNEL, "num_encoder_layers": LAYERS})


def save_decoder(path):
    g = Graph(3)
    known = g.op("Cast", g.op("GreaterOrEqual", "y", g.constant(0, "i8")), to=T.FLOAT)
    x = g.op("Gather", g.random(VOCAB, WIDTH, gain=8), g.op("Max", "y", g.constant(0, "i8")))
    x = g.op("Mul", x, g.op("Unsqueeze", known, g.ints(2)))
    x = g.op("Reshape", x, g.ints(0, CONTEXT * WIDTH))
    g.op("Identity", g.linear(x, CONTEXT * WIDTH, JOINT), out="decoder_out")
    g.save(path, [("y", ["N", CONTEXT], T.INT64)], [("decoder_out", ["N", JOINT])], {"context_size": CONTEXT, "vocab_size": VOCAB})


def save_joiner(path, blank):
    g = Graph(4)
    x = g.op("Tanh", g.op("Add", "encoder_out", "decoder_out"))
    bias = np.zeros(VOCAB)
    bias[0] = blank  # more blanks than tokens
    g.op("Add", g.op("MatMul", x, g.random(JOINT, VOCAB, gain=4)), g.constant(bias), out="logit")
    g.save(path, [("encoder_out", ["N", JOINT]), ("decoder_out", ["N", JOINT])], [("logit", ["N", VOCAB])], {"joiner_dim": JOINT})


def save(kind, folder):
    os.makedirs(folder, exist_ok=True)
    {"lstm": save_lstm, "conformer": save_conformer}[kind](os.path.join(folder, "encoder.onnx"))
    save_decoder(os.path.join(folder, "decoder.onnx"))
    save_joiner(os.path.join(folder, "joiner.onnx"), {"lstm": 6, "conformer": 6}[kind])
    with open(os.path.join(folder, "tokens.txt"), "w", encoding="utf-8") as f:
        pieces = ["<blk>", "A", "<unk>"] + [("\u2581" if i % 3 == 0 else "") + chr(65 + i % 26) + chr(65 + i // 5) for i in range(VOCAB - 3)]
        f.write("".join(f"{p} {i}\n" for i, p in enumerate(pieces)))


if __name__ == "__main__":
    save(*sys.argv[1:])
