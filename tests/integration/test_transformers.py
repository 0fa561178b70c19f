"""Language models as exporters write them. BERT: PyTorch's chains (LayerNorm as nine nodes, Gelu by Erf, an additive
mask, heads through Shape, Gather, Concat, Reshape). GPT-2: Conv1D as Reshape, Gemm, Reshape; one product for Q,
K, V and Split; Gelu by Tanh; a causal mask by Where; with and without past keys and values. Both with two layers
and random weights. The same models as transformers exports them (tests/data/lm). And single chains that become a
fused operator.

`steno optimize` writes each model as standard operators and functions. onnx.checker accepts the file, onnxruntime
and our engine agree with onnxruntime on the original, and no more nodes are left than counted here. TAP."""
import collections
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper
from test_models import difference, steno
from test_optimize import optimize, recognised, session

LM = os.path.join(os.path.dirname(__file__), "..", "data", "lm")
HIDDEN, HEADS, LAYERS, WORDS, PLACES = 32, 4, 2, 50, 64


class Graph:
    """Nodes by name. Results get generated names, nodes the names of their results."""

    def __init__(self, seed):
        self.rng, self.nodes, self.weights, self.n = np.random.default_rng(seed), [], [], 0

    def op(self, kind, *inputs, n=1, **attrs):
        outs = [f"v{self.n + i}" for i in range(n)]
        self.n += n
        self.nodes.append(helper.make_node(kind, list(inputs), outs, name=outs[0], **attrs))
        return outs[0] if n == 1 else outs

    def const(self, value):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"c{self.n}"))
        return f"c{self.n}"

    def random(self, *shape, scale=0.3):
        return self.const((self.rng.standard_normal(shape) * scale).astype("f4"))

    def number(self, v):
        return self.const(np.float32(v))

    def ints(self, *v):
        return self.const(np.array(v, "i8"))

    def dim(self, x, axis):
        return self.op("Unsqueeze", self.op("Gather", self.op("Shape", x), self.const(np.int64(axis))), self.ints(0))

    def norm(self, x):
        d = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        v = self.op("ReduceMean", self.op("Pow", d, self.number(2)), axes=[-1])
        y = self.op("Div", d, self.op("Sqrt", self.op("Add", v, self.number(1e-5))))
        return self.op("Add", self.op("Mul", y, self.random(HIDDEN)), self.random(HIDDEN))

    def dense(self, x, rows, cols):
        return self.op("Add", self.op("MatMul", x, self.random(rows, cols)), self.random(cols))

    def gelu(self, x):
        e = self.op("Add", self.op("Erf", self.op("Div", x, self.number(2**0.5))), self.number(1))
        return self.op("Mul", self.op("Mul", x, e), self.number(0.5))

    def gelu_tanh(self, x):
        cube = self.op("Mul", self.op("Pow", x, self.number(3)), self.number(0.044715))
        t = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), self.number((2 / np.pi) ** 0.5)))
        return self.op("Mul", self.op("Mul", x, self.number(0.5)), self.op("Add", t, self.number(1)))

    def heads(self, x, perm):
        shape = self.op("Concat", self.dim(x, 0), self.dim(x, 1), self.ints(HEADS), self.ints(HIDDEN // HEADS), axis=0)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=perm)

    def joined(self, x):
        x = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.op("Reshape", x, self.op("Concat", self.dim(x, 0), self.dim(x, 1), self.ints(HIDDEN), axis=0))

    def model(self, inputs, outputs):
        ins = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        for name, v in outputs.items():
            self.nodes.append(helper.make_node("Identity", [v], [name]))
        outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"{n}_{i}" for i in range(4 if "present" in n else 3)])
                for n in outputs]
        g = helper.make_graph(self.nodes, "g", ins, outs, self.weights)
        return helper.make_model(g, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def bert():
    g = Graph(1)
    places = g.op("Slice", g.const(np.arange(PLACES)[None]), g.ints(0), g.dim("ids", 1), g.ints(1))
    x = g.op("Add", g.op("Gather", g.random(WORDS, HIDDEN), "ids"), g.op("Gather", g.random(2, HIDDEN), "kinds"))
    x = g.norm(g.op("Add", x, g.op("Gather", g.random(PLACES, HIDDEN), places)))
    seen = g.op("Cast", g.op("Unsqueeze", "mask", g.ints(1, 2)), to=1)
    hidden = g.op("Mul", g.op("Sub", g.number(1), seen), g.number(-10000))
    for _ in range(LAYERS):
        q, k, v = (g.heads(g.dense(x, HIDDEN, HIDDEN), p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        s = g.op("Add", g.op("Div", g.op("MatMul", q, k), g.number((HIDDEN / HEADS) ** 0.5)), hidden)
        y = g.joined(g.op("MatMul", g.op("Softmax", s, axis=-1), v))
        x = g.norm(g.op("Add", g.dense(y, HIDDEN, HIDDEN), x))
        y = g.dense(g.gelu(g.dense(x, HIDDEN, 4 * HIDDEN)), 4 * HIDDEN, HIDDEN)
        x = g.norm(g.op("Add", y, x))
    i8 = TensorProto.INT64
    return g.model([(n, i8, ["b", "s"]) for n in ("ids", "kinds", "mask")], {"last_hidden_state": x})


def keras():
    """BERT as TensorFlow's converters write a Keras model: rows are flattened for each product, the bias is added
    after their axes are restored, queries are scaled, the mask is subtracted, norms are x * (r gamma) + (beta -
    mean * (r gamma))."""
    g = Graph(4)

    def dense(x, rows, cols):
        flat = g.op("MatMul", g.op("Reshape", x, g.ints(-1, rows)), g.random(rows, cols))
        y = g.op("Reshape", flat, g.op("Concat", g.dim(x, 0), g.dim(x, 1), g.ints(cols), axis=0))
        return g.op("Add", y, g.random(cols))

    def norm(x):
        mean = g.op("ReduceMean", x, axes=[-1])
        d = g.op("Sub", x, mean)
        v = g.op("ReduceMean", g.op("Mul", d, d), axes=[-1])
        r = g.op("Reciprocal", g.op("Sqrt", g.op("Add", v, g.number(1e-12))))
        r = g.op("Mul", r, g.random(HIDDEN))
        return g.op("Add", g.op("Mul", x, r), g.op("Sub", g.random(HIDDEN), g.op("Mul", mean, r)))

    def gelu(x):
        e = g.op("Add", g.number(1), g.op("Erf", g.op("Mul", x, g.number(0.5**0.5))))
        return g.op("Mul", x, g.op("Mul", e, g.number(0.5)))

    places = g.op("Slice", g.random(PLACES, HIDDEN), g.ints(0), g.dim("ids", 1), g.ints(0))
    x = g.op("Add", g.op("Gather", g.random(WORDS, HIDDEN), "ids"), g.op("Unsqueeze", places, g.ints(0)))
    x = norm(g.op("Add", x, g.op("Gather", g.random(2, HIDDEN), "kinds")))
    seen = g.op("Cast", g.op("Unsqueeze", "mask", g.ints(1, 2)), to=1)
    hidden = g.op("Mul", g.op("Sub", g.number(1), seen), g.number(10000))
    for _ in range(LAYERS):
        q, k, v = (g.heads(dense(x, HIDDEN, HIDDEN), p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        s = g.op("MatMul", g.op("Mul", q, g.number((HIDDEN / HEADS) ** -0.5)), k)
        y = g.joined(g.op("MatMul", g.op("Softmax", g.op("Sub", s, hidden), axis=-1), v))
        x = norm(g.op("Add", dense(y, HIDDEN, HIDDEN), x))
        x = norm(g.op("Add", dense(gelu(dense(x, HIDDEN, 4 * HIDDEN)), 4 * HIDDEN, HIDDEN), x))
    i8 = TensorProto.INT64
    return g.model([(n, i8, ["b", "s"]) for n in ("ids", "kinds", "mask")], {"last_hidden_state": x})


def gpt2(past):
    g = Graph(2)

    def conv1d(x, rows, cols):
        flat = g.op("Gemm", g.op("Reshape", x, g.ints(-1, rows)), g.random(rows, cols), g.random(cols))
        return g.op("Reshape", flat, g.op("Concat", g.dim(x, 0), g.dim(x, 1), g.ints(cols), axis=0))

    seen = g.const(np.tril(np.ones((PLACES, PLACES), "?"))[None, None])
    n = g.dim("ids", 1)
    before = g.dim("past_k0", 2) if past else g.ints(0)
    end = g.op("Add", before, n)
    places = g.op("Slice", g.const(np.arange(PLACES)[None]), before, end, g.ints(1))
    words = g.random(WORDS, HIDDEN)
    x = g.op("Add", g.op("Gather", words, "ids"), g.op("Gather", g.random(PLACES, HIDDEN), places))
    outputs = {}
    for i in range(LAYERS):
        q, k, v = g.op("Split", conv1d(g.norm(x), HIDDEN, 3 * HIDDEN), g.ints(HIDDEN, HIDDEN, HIDDEN), n=3, axis=2)
        q, k, v = (g.heads(t, [0, 2, 1, 3]) for t in (q, k, v))
        if past:
            k = outputs[f"present_k{i}"] = g.op("Concat", f"past_k{i}", k, axis=-2)
            v = outputs[f"present_v{i}"] = g.op("Concat", f"past_v{i}", v, axis=-2)
        s = g.op("Div", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), g.number((HIDDEN / HEADS) ** 0.5))
        m = g.op("Slice", g.op("Slice", seen, before, end, g.ints(2)), g.ints(0), end, g.ints(3))
        s = g.op("Softmax", g.op("Where", m, s, g.number(-10000)), axis=-1)
        x = g.op("Add", x, conv1d(g.joined(g.op("MatMul", s, v)), HIDDEN, HIDDEN))
        y = conv1d(g.gelu_tanh(conv1d(g.norm(x), HIDDEN, 4 * HIDDEN)), 4 * HIDDEN, HIDDEN)
        x = g.op("Add", x, y)
    logits = g.op("MatMul", g.norm(x), g.op("Transpose", words, perm=[1, 0]))
    inputs = [("ids", TensorProto.INT64, ["b", "s"])]
    for i in range(LAYERS if past else 0):
        inputs += [(f"past_{c}{i}", TensorProto.FLOAT, ["b", HEADS, "p", HIDDEN // HEADS]) for c in "kv"]
    return g.model(inputs, {"logits": logits, **outputs})


def chain(text, kind="float[b,3,8] x"):
    m = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g ({kind}) => (float y) {{ {text} }}')
    m.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["y0", "y1", "y2"]))
    return m


CONV = ("float[1,2,t] x", "w = Constant<value = float[3,2,2] {1,2,3,4,-5,6,1,2,3,4,-5,6}>() c = Conv(x, w) ")
NORM = ("v = ReduceMean<axes = [-1]>(q) e = Constant<value_float = 0.01>() u = Add(v, e) r = Sqrt(u) "
        "n = Div(d, r) y = Add(n, s)")
CHAINS = {
    "skip norm, the sum wanted": ("z = Tanh(x) s = Add(x, z) m = ReduceMean<axes = [-1]>(s) d = Sub(s, m) "
                                  "q = Mul(d, d) " + NORM, 3),
    "skip rms norm, the sum wanted": ("z = Tanh(x) s = Add(x, z) d = Identity(s) q = Mul(s, s) " + NORM, 3),
    "product turned and scaled": ("t = Transpose<perm = [0,2,1]>(x) p = MatMul(x, t) "
                                  "c = Constant<value_float = 0.3>() y = Mul(p, c)", 1),
    "einsum": ('y = Einsum<equation = "bij,bkj->bik">(x, x)', 1),
    "quick gelu": ("c = Constant<value_float = 1.702>() a = Mul(x, c) s = Sigmoid(a) y = Mul(x, s)", 1),
    "mish": ("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", 1),
    "hard swish": ("s = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, s)", 1),
    "convolution, leaky": (CONV[1] + "y = LeakyRelu<alpha = 0.3>(c)", 1, CONV[0]),
    "convolution, clip": (CONV[1] + "a = Constant<value_float = 0.0>() b = Constant<value_float = 6.0>() "
                          "y = Clip(c, a, b)", 1, CONV[0]),
    "convolution, swish": (CONV[1] + "s = Sigmoid(c) y = Mul(c, s)", 1, CONV[0]),
    "convolution, hard sigmoid": (CONV[1] + "y = HardSigmoid(c)", 1, CONV[0]),
    "biased gelu": ("k = Constant<value = float[8] {1,-2,3,-4,0,1,2,3}>() a = Add(x, k) "
                    "r = Constant<value_float = 1.41421356>() d = Div(a, r) e = Erf(d) "
                    "o = Constant<value_float = 1.0>() p = Add(e, o) q = Mul(a, p) "
                    "h = Constant<value_float = 0.5>() y = Mul(q, h)", 1),
}


def feed(sess, rng, words=WORDS):
    sizes = {"b": 2, "s": 7, "p": 5, "t": 9, "n": 12}
    out = {}
    for i in sess.get_inputs():
        shape = [sizes[d] if isinstance(d, str) else d for d in i.shape]
        if i.type == "tensor(int64)":
            out[i.name] = rng.integers(0, {"ids": words}.get(i.name, 2), shape)
        else:
            out[i.name] = rng.standard_normal(shape).astype("f4")
    if "mask" in out:
        out["mask"][:, 0] = 1
    return out


def check(model, most, wanted=(), words=WORDS, nodes=None):
    with tempfile.TemporaryDirectory() as d:
        path, out = os.path.join(d, "in.onnx"), os.path.join(d, "out.onnx")
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        report = optimize(path, out)
        written = onnx.load(out)
        onnx.checker.check_model(written, full_check=True)
        count = collections.Counter(n.op_type.split("__")[0] for f in [written.graph, *written.functions] for n in f.node)
        a, b = session(path), session(out)
        fed = feed(a, np.random.default_rng(3), words)
        want = a.run(None, fed)
        worst = 0.0
        for w, got in zip(want, b.run(None, fed)):
            worst = max(worst, difference("onnxruntime", w, got, False))
        for source, level in ((path, "0"), (path, "3"), (out, "3")):
            for w, got in zip(want, steno(source, fed, len(want), level, "native")):
                worst = max(worst, difference(f"steno --opt-level {level}", w, got, False))
        recognised(out, report)
        if report["steps"]["optimized"] > most:
            raise AssertionError(f"{report['steps']['optimized']} steps are left, at most {most} wanted: {dict(count)}")
        if nodes is not None and report["nodes"]["optimized"] > nodes:
            raise AssertionError(f"{report['nodes']['optimized']} nodes are left, at most {nodes} wanted: {dict(count)}")
        for kind in wanted:
            if not count[kind]:
                raise AssertionError(f"no {kind}: {dict(count)}")
        return f"{report['nodes']['original']} nodes, {report['steps']['optimized']} steps, difference {worst:.1e}"


def main():
    cases = {
        "bert": lambda: check(bert(), 30, ["LayerNormalization"]),
        "bert by Keras": lambda: check(keras(), 30, ["Attention", "TransformerEncoderLayer"], nodes=12),
        "gpt2": lambda: check(gpt2(False), 120, ["LayerNormalization", "Gelu"]),
        "gpt2 with past": lambda: check(gpt2(True), 130, ["LayerNormalization", "Gelu"]),
    }
    whole = ["Attention", "TransformerEncoderLayer"]
    for name, most, nodes, wanted in (("bert", 26, 10, [*whole, "EmbedLayerNormalization"]), ("gpt2", 39, 12, whole),
                                      ("gpt2-past", 58, 12, whole)):
        cases[f"{name} of transformers"] = lambda name=name, most=most, nodes=nodes, wanted=wanted: check(
            onnx.load(os.path.join(LM, f"{name}.onnx")), most, wanted, 20, nodes)
    for name, c in CHAINS.items():
        cases[name] = lambda c=c: check(chain(c[0], *c[2:]), c[1])
    failed = 0
    print(f"1..{len(cases)}")
    for i, (name, run) in enumerate(cases.items(), 1):
        try:
            print(f"ok {i} - {name} # {run()}")
        except (AssertionError, subprocess.SubprocessError, RuntimeError) as e:
            failed += 1
            print(f"not ok {i} - {name}\n# {e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
