"""What runs a graph: steno's runner at each level, ONNX Runtime without optimizations, the ONNX reference evaluator; and
the judgement of a result by all references."""
import math
import mmap
import os
import struct
import subprocess
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_dequantize_linear, op_loop, op_quantize_linear

from build import NP, ONNX

warnings.filterwarnings("ignore")
np.seterr(all="ignore")
ort.set_default_logger_severity(4)
OPTIONS = ort.SessionOptions()
OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
OPTIONS.intra_op_num_threads = OPTIONS.inter_op_num_threads = 1
OPTIONS.log_severity_level = 4



# ---- the reference evaluator, with what it lacks ----
class _Numpy:
    """numpy for op_loop: scan outputs get an axis of their own (the evaluator joins those of rank 2 and more instead)."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def vstack(parts):
        return np.stack(parts) if parts else np.zeros((0,), np.float32)


op_loop.np = _Numpy()


class QuantizeLinear(op_quantize_linear._CommonQuantizeLinear):
    op_domain = ""

    def _run(self, x, scale, zero=None, axis=None, **_):
        return super()._run(x, scale, zero, axis=1 if axis is None else axis)


class DequantizeLinear(op_dequantize_linear._CommonDequantizeLinear):
    op_domain = ""

    def _run(self, x, scale, zero=None, axis=None, **_):
        return super()._run(x, scale, zero, axis=1 if axis is None else axis)


def _rows(x, axis, old):
    """x as [.., n, ..] with the axis of a softmax; before opset 13 all axes from it on are one."""
    if not old:
        return x, axis
    axis %= max(x.ndim, 1)
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))), 1


def _softmax(x, axis, old, log):
    y, k = _rows(x, axis, old)
    if not y.size:
        return x
    d = y - y.max(k, keepdims=True)
    e = np.exp(d)
    s = e.sum(k, keepdims=True)
    return np.asarray(d - np.log(s) if log else e / s, x.dtype).reshape(x.shape)


def _softmax_op(name, old):  # the evaluator ignores the axes of old opsets, and its LogSoftmax is the logarithm of a Softmax
    class Op(OpRun):
        op_domain = ""

        def _run(self, x, axis=None):
            return (_softmax(x, (1 if old else -1) if axis is None else axis, old, name == "LogSoftmax"),)

    Op.__name__ = name
    return Op


class BatchNormalization(OpRun):  # the evaluator's older forms have another epsilon
    op_domain = ""

    def _run(self, x, scale, bias, mean, var, epsilon=None, momentum=None, training_mode=None, spatial=None):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        s, b, m, v = (a.reshape(shape) for a in (scale, bias, mean, var))
        return (((x - m) / np.sqrt(v + np.asarray(1e-5 if epsilon is None else epsilon, x.dtype)) * s + b).astype(x.dtype),)


_erf = np.vectorize(math.erf, otypes=[float])


class Gelu(OpRun):  # a function of the standard that depends on types, which the evaluator refuses
    op_domain = ""

    def _run(self, x, approximate=None):
        y = np.asarray(x, np.float64)
        if approximate == "tanh":
            y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        elif y.size:
            y = 0.5 * y * (1 + _erf(y / math.sqrt(2)))
        return (y.astype(x.dtype),)


OPS = {old: [_softmax_op(n, old) for n in ("Softmax", "LogSoftmax")] + [BatchNormalization, Gelu] for old in (False, True)}


class Undefined(Exception):
    """ONNX does not define the result: a NaN or an infinity became an integer, NaN was compared, or a product overflowed."""


def evaluator(model):
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return ReferenceEvaluator(model, new_ops=OPS[opset < 13] + ([QuantizeLinear, DequantizeLinear] if opset < 19 else []))


EXACT = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Slice", "Concat", "Split", "Gather", "Expand", "Shape", "Constant", "Where",
         "Flatten", "Pad", "Relu", "Neg", "Abs", "Max", "Min", "Clip", "Sign", "Ceil", "Floor", "Round", "ReduceMax", "ReduceMin"}
CURVES = {"Exp", "Log", "Tanh", "Erf", "Sigmoid", "Softplus", "Softmax", "LogSoftmax", "Gelu", "Div", "Reciprocal", "LSTM", "GRU", "RNN"}
ORDERED = {"ArgMax", "ArgMin", "TopK", "MaxPool", "AveragePool"}  # implementations differ about the order of NaN
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"}  # what a sum of infinities of both signs is depends on its order
SUMS = {"Mul", "Pow", "Add", "Sub", "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2"}  # where a fused operator need not overflow
TO_INT = {"QuantizeLinear", "DynamicQuantizeLinear", "Cast"}


def unseen(a, b):
    """a times b, in which a weight of 0 hides what it meets, be it NaN."""
    if np.isfinite(a).all() and np.isfinite(b).all() or a.ndim < 2 or b.ndim < 2:
        return np.matmul(a, b)
    p = a[..., :, :, None] * b[..., None, :, :]
    return np.where(a[..., :, :, None] == 0, 0, p).sum(-2).astype(a.dtype)


def body_of(r, n, key):
    """The evaluator of a node's body graph, with the operators of the main graph's."""
    made = n.__dict__.setdefault("bodies", {})
    if key not in made:
        graph = next(a.g for a in n.onnx_node.attribute if a.name == key)
        opset = r.opsets_[""]
        made[key] = ReferenceEvaluator(graph, opsets=r.opsets_, functions=list(r.functions_.values()), new_ops=OPS[opset < 13] + ([QuantizeLinear, DequantizeLinear] if opset < 19 else []))
    return made[key]


def loop(r, n, ins, results, walk):
    """The outputs of a Loop, or None where it has no iteration: then its scan outputs have no shape here."""
    b = body_of(r, n, "body")
    trips, go, states = ins[0], ins[1] is None or bool(ins[1]), list(ins[2:])
    scans, it = [], 0
    while go and (trips is None or it < trips):
        inner = dict(results)
        inner.update(zip(b.input_names, [np.array(it), np.array(True)] + states))
        walk(b, inner)
        outs = [inner[o] for o in b.output_names]
        go, states = bool(outs[0]), outs[1:1 + len(states)]
        scans.append(outs[1 + len(states):])
        it += 1
    return states + [np.stack(v) for v in zip(*scans)] if it else None


def interpret(r, feeds, eps=0.0, seed=0):
    """All values of an evaluator's main graph. eps: the float results of each node differ by this factor at random, those of
    nodes in branches and loops too; numbers too small for a normal f32 are flushed to 0 for each second seed; keys that a
    mask hides are not read for each third."""
    rng = np.random.default_rng(seed) if eps else None
    main = r
    main.overflowed = False

    def stir(v):
        v = v * (1 + (6e-4 if v.dtype == np.float16 else eps) * rng.uniform(-1, 1, v.shape)).astype(v.dtype)
        if v.dtype == np.float32 and seed % 2:  # the sign of a zero may be either
            v = np.where(abs(v) < 1.2e-38, np.copysign(np.float32(0), rng.uniform(-1, 1, v.shape).astype(np.float32)), v)
        return v

    def outputs(n, ins, results):
        if n.op_type == "If":
            b = body_of(main, n, "then_branch" if bool(ins[0]) else "else_branch")
            inner = dict(results)
            walk(b, inner)
            return tuple(inner[o] for o in b.output_names)
        outs = loop(main, n, ins, results, walk) if n.op_type == "Loop" else None
        if outs is not None:
            return tuple(outs)
        if eps and seed % 3 == 0 and n.op_type == "MatMul":
            return (unseen(*ins),)
        return n.run(*ins, context=results) if n.need_context() else n.run(*ins)

    def judge(n, ins, outs):
        if n.op_type in TO_INT and outs[0].dtype.kind in "iu" and ins[0].dtype.kind == "f" and not all(np.isfinite(x).all() for x in ins if x is not None):
            raise Undefined(n.output[0])
        if n.op_type == "Cast" and outs[0].dtype.kind in "iu" and ins[0].dtype.kind == "f" and (abs(ins[0]) > 2.0**31).any():
            raise Undefined(n.output[0])
        if n.op_type == "Pow" and outs[0].dtype.kind in "iu" and (np.power(ins[0].astype(float), ins[1].astype(float)) > 2.0**31).any():
            raise Undefined(n.output[0])
        if n.op_type in ORDERED and ins[0].dtype.kind == "f" and np.isnan(ins[0]).any():
            raise Undefined(n.output[0])
        if n.op_type in PRODUCTS and outs[0].dtype.kind == "f" and not np.isfinite(outs[0]).all() and all(np.isfinite(x).all() for x in ins if x is not None):
            raise Undefined(n.output[0])
        if n.op_type in SUMS and outs[0].dtype.kind == "f" and np.isinf(outs[0]).any() and all(np.isfinite(x).all() for x in ins if x is not None):
            main.overflowed = True
        if n.op_type.endswith("Normalization") and (abs(ins[0]) > 1e18).any():
            main.overflowed = True

    def disturb(n, ins, v):
        v = stir(v)
        if seed % 4 == 1 and n.op_type in CURVES:  # tables and clamps leave absolute errors
            size = max((np.nanmax(abs(x)) for x in [*ins, v] if x is not None and x.dtype.kind == "f" and x.size), default=0)
            if size > 1e-3:
                v = (v + 3e-8 * min(max(size, 1), 100) * rng.uniform(-1, 1, v.shape)).astype(v.dtype)
        return v

    def walk(r, results):
        results[""] = None  # an absent input
        results.update(r.rt_inits_)
        for n in r.rt_nodes_:
            ins = [results[i] for i in n.input]
            outs = outputs(n, ins, results)
            judge(n, ins, outs)
            for name, v in zip(n.output, outs):
                if not name:
                    continue
                if eps and n.op_type not in EXACT and isinstance(v, np.ndarray) and v.dtype.kind == "f":
                    v = disturb(n, ins, v)
                results[name] = v
        return results

    return walk(r, {k: stir(v) if eps and v.dtype.kind == "f" else v for k, v in feeds.items()})


class Crash(Exception):
    pass


# 1 while a written file runs: what a process was at when ONNX Runtime ended it
AT_WRITTEN = mmap.mmap(-1, 1)


class Steno:
    """The runner, started anew when it ended."""

    def __init__(self, path):
        self.path, self.p = path, None
        self.how = 0  # bits 16 and up of a request's levels (runner.c)

    def close(self):
        if self.p:
            self.p.stdin.close()
            self.p.stdout.close()
            self.p.wait()
            self.p = None

    def _read(self, n):
        out = self.p.stdout.read(n)
        if len(out) != n:
            rc = self.p.wait()
            self.p = None
            raise Crash("the runner ended with %d" % rc)
        return out

    def _u32(self):
        return struct.unpack("<I", self._read(4))[0]

    def _status(self):
        st, n = struct.unpack("<II", self._read(8))
        return st, self._read(n).decode(errors="replace") if n else ""

    def _tensor(self):
        t, rank = struct.unpack("<II", self._read(8))
        dims = struct.unpack("<%dq" % rank, self._read(8 * rank))
        data = self._read(self._u32())
        return np.frombuffer(data, NP[t]).reshape(dims) if t in NP else None

    def run(self, model, sets, levels=(0, 1, 2, 3), write=()):
        """({level: [outputs or a message per set] or a message}, {level: bytes or a message})."""
        if not self.p:
            self.p = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 16,
                                      env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
        out = [struct.pack("<I", len(model)), model,
               struct.pack("<III", sum(1 << i for i in levels) | sum(256 << i for i in write) | self.how << 16, len(sets), len(sets[0]) if sets else 0)]
        for s in sets:
            for name, a in s.items():
                n = name.encode()
                out += [struct.pack("<I", len(n)), n, struct.pack("<II", ONNX[a.dtype], a.ndim), struct.pack("<%dq" % a.ndim, *a.shape),
                        struct.pack("<I", a.nbytes), np.ascontiguousarray(a).tobytes()]
        try:
            self.p.stdin.write(b"".join(out))
            self.p.stdin.flush()
        except BrokenPipeError:
            rc = self.p.wait()
            self.p = None
            raise Crash("the runner ended with %d" % rc) from None
        ran, written = {}, {}
        for i in sorted(levels):
            st, why = self._status()
            if st:
                ran[i] = why or "status %d" % st
                continue
            ran[i] = []
            for _ in sets:
                st, why = self._status()
                ran[i].append((why or "status %d" % st) if st else [self._tensor() for _ in range(self._u32())])
        for i in sorted(write):
            st, why = self._status()
            written[i] = ("unsupported: " if st == 6 else "") + why
            if not st:
                written[i] = self._read(self._u32())
        return ran, written


def runtime(model, sets, names=None):
    """Outputs of ONNX Runtime per set, or its message; a message for the whole when it does not load the model."""
    try:
        s = ort.InferenceSession(model, OPTIONS, providers=["CPUExecutionProvider"])
    except Exception as e:
        return str(e)
    wanted = {i.name for i in s.get_inputs()}
    out = []
    for feeds in sets:
        try:
            out.append(s.run(names, {k: v for k, v in feeds.items() if k in wanted}))
        except Exception as e:
            out.append(str(e))
    return out


def reference(model, sets):
    """Outputs of the reference evaluator per set, or a message, or Undefined."""
    try:
        r = evaluator(model)
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    out = []
    for feeds in sets:
        try:
            v = interpret(r, feeds)
            out.append([np.asarray(v[o]) for o in r.output_names])
        except Undefined:
            out.append(Undefined)
        except Exception as e:
            out.append("%s: %s" % (type(e).__name__, e))
    return out


def outputs_of(model, feeds, otherwise):
    got = reference(model, [feeds])
    return otherwise if isinstance(got, str) or not isinstance(got[0], list) else got[0]


def exact_log(model):
    """The graph with each Log(Softmax) as one LogSoftmax, or None. That rewrite is allowed to be more exact: a logarithm of
    a probability that underflows is finite."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    made = {o: n for n in m.graph.node for o in n.output}
    found = False
    for n in m.graph.node:
        p = made.get(n.input[0]) if n.op_type == "Log" else None
        if p is not None and p.op_type == "Softmax":
            n.op_type = "LogSoftmax"
            n.input[0] = p.input[0]
            n.attribute.extend(p.attribute)
            found = True
    return m if found else None


def widened(model):
    """The same graph in f64, as far as types allow."""
    m = onnx.ModelProto()
    m.CopyFrom(model)

    def tensor(t):
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))

    def graph(g):
        for t in g.initializer:
            tensor(t)
        for v in list(g.input) + list(g.output) + list(g.value_info):
            if v.type.tensor_type.elem_type == TensorProto.FLOAT:
                v.type.tensor_type.elem_type = TensorProto.DOUBLE
        for n in g.node:
            for a in n.attribute:
                if a.type == onnx.AttributeProto.TENSOR:
                    tensor(a.t)
                elif a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
                elif n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                    a.i = TensorProto.DOUBLE
    graph(m.graph)
    return m


def to_type(a, like):
    with np.errstate(all="ignore"):
        return np.asarray(a).astype(like.dtype) if np.asarray(a).shape == like.shape else None


def fails(got, refs, least=1e-37, fused=True):
    """Where a result is outside what the references span, as a boolean array. An element at which the references differ in
    kind (NaN, infinite or finite) is not defined."""
    if got is not None and not got.size and not refs[0].size:
        return np.zeros((1,), bool)
    if got is None or got.dtype != refs[0].dtype or got.shape != refs[0].shape:
        return np.ones((1,), bool)
    if got.dtype.kind != "f":
        bad = np.asarray(refs[0] != got)
        for r in refs[1:]:
            bad &= r == refs[0]
        return np.asarray(bad)
    if not got.size:
        return np.zeros((1,), bool)
    rtol, of_row = (4e-3, 1e-3) if got.dtype == np.float16 else (2e-5, 2e-6)
    if len(refs) == 1 and got.dtype == np.float32:  # nearly always
        r = refs[0]
        near = (abs(got - r) <= rtol * abs(r)) | (got == r)
        if near.all():
            return np.zeros((1,), bool)
    with np.errstate(all="ignore"):
        stack = np.stack([np.asarray(r, np.float64) for r in refs])
        g = np.asarray(got, np.float64)
        lo, hi = stack.min(0), stack.max(0)
        finite = np.isfinite(stack).all(0)
        size = np.where(finite, np.maximum(abs(lo), abs(hi)), 0)
        top = size.max(-1, keepdims=True) if size.ndim else size
        tol = rtol * size + of_row * top + 4 * (hi - lo) + least
        chaos = hi - lo > 0.5 * size  # rounding alone decides the sign or the magnitude
        bad = finite & ~chaos & ~((g >= lo - tol) & (g <= hi + tol))
        bad |= np.isnan(stack).all(0) & ~np.isnan(g)
        # without fused multiply-add a product that overflows meets another one of the other sign
        bad |= np.isinf(stack).all(0) & (lo == hi) & (g != lo) & (fused | ~np.isnan(g))
    return np.asarray(bad)


class References:
    """What a graph's outputs may be on one set of inputs. The references that cost more are made when a result differs from
    ONNX Runtime's."""

    def __init__(self, model, feeds, runtime_outputs, fused):
        self.fused, self.overflowed = fused, False
        self.model, self.feeds, self.all = model, feeds, [runtime_outputs]
        self.stage, self.undefined, self.good = 0, False, set()
        # ONNX Runtime cuts Sigmoid and others off where they are small
        large = any(v.size and v.dtype == np.float32 and np.nanmax(abs(v)) > 1e-3 for v in feeds.values())
        self.least = 1e-9 if large else 1e-37

    def evaluate(self):
        """Add the reference evaluator's outputs. Where it fails, or has another shape than ONNX Runtime, nothing is defined:
        ONNX Runtime is wrong about some tensors without elements, the evaluator about some others."""
        if self.stage:
            return
        self.stage = 1
        ref = reference(self.model, [self.feeds])
        ref = ref if isinstance(ref, str) else ref[0]
        if isinstance(ref, list) and [a.shape for a in ref] == [a.shape for a in self.all[0]]:
            self.all.append([to_type(a, w) for a, w in zip(ref, self.all[0])])
        else:
            self.undefined = True

    def _deep(self):
        like = self.all[0]
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in self.feeds.items()}
        exact = exact_log(self.model)
        for got in (reference(widened(self.model), [wide]), "none" if exact is None else reference(exact, [self.feeds]),
                    "none" if exact is None else runtime(exact.SerializeToString(), [self.feeds])):
            if not isinstance(got, str) and isinstance(got[0], list):
                self.all.append([to_type(v, l) for v, l in zip(got[0], like)])
        self._disturb(range(NOISES))

    def _disturb(self, seeds):
        self.stage += 1
        r = evaluator(self.model)
        try:
            interpret(r, self.feeds)
        except Exception:
            pass
        self.overflowed = self.overflowed or r.overflowed
        like = self.all[0]
        for seed in seeds:
            try:
                v = interpret(r, self.feeds, 2e-6 if seed % 2 else 3e-7, seed)
            except Undefined:
                self.undefined = True
                return
            except Exception:
                continue
            self.all.append([to_type(v[o], l) for o, l in zip(r.output_names, like)])

    def wrong(self, outputs):
        """(number of the output, the elements that are wrong) or None."""
        for i, got in enumerate(outputs):
            key = (i, got.shape, got.dtype.char, got.tobytes()) if got is not None else None
            if key in self.good:
                continue
            self.good.add(key)  # the levels often agree in every bit; a wrong result ends the run
            while not self.undefined:
                bad = fails(got, [r[i] for r in self.all if r[i] is not None], self.least, self.fused)
                if not bad.any():
                    break
                if self.stage == 3:
                    if self.overflowed and bad.shape == got.shape and np.isfinite(got[bad].astype(float)).all():
                        break  # the graph overflows on the way, the fused operator does not
                    return i, bad
                if self.stage == 2:
                    self._disturb(range(NOISES, 6 * NOISES))
                if self.stage == 1:
                    self._deep()
                self.evaluate()
        return None


NOISES = 12
