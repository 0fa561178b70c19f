"""A graph under construction: values with known extents, light nodes, and the ONNX model of both."""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, U8, I8, I32, I64, BOOL, F16, F64 = (TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32,
                                       TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.DOUBLE)
NP = {F: np.float32, U8: np.uint8, I8: np.int8, I32: np.int32, I64: np.int64, BOOL: np.bool_, F16: np.float16, F64: np.float64}
ONNX = {np.dtype(v): k for k, v in NP.items()}
IR = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
MAX_ELEMENTS = 4096


def each(f, *dims):
    """f of extents. An extent is a number, or a tuple of one per set of inputs when it is dynamic."""
    n = next((len(d) for d in dims if isinstance(d, tuple)), 0)
    if not n:
        return f(*dims)
    return tuple(f(*[d[i] if isinstance(d, tuple) else d for d in dims]) for i in range(n))


def broadcast(*shapes):
    rank = max(len(s) for s in shapes)
    out = []
    for i in range(rank):
        dims = [s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0]
        out.append(each(lambda *v: next((x for x in v if x != 1), 1), *dims))
    return out


def elements(dims):
    n = 1
    for d in dims:
        n *= max(d) if isinstance(d, tuple) else d
    return n


class Value:
    __slots__ = ("name", "type", "dims", "low", "high")

    def __init__(self, name, kind, dims):
        self.name, self.type, self.dims = name, kind, list(dims)

    @property
    def rank(self):
        return len(self.dims)

    def static(self, axis):
        return self.dims[axis] if self.rank and isinstance(self.dims[axis], int) else None


class Node:
    __slots__ = ("op", "ins", "outs", "attrs", "bodies")

    def __init__(self, op, ins, outs, attrs, bodies=None):
        self.op, self.ins, self.outs, self.attrs, self.bodies = op, list(ins), list(outs), dict(attrs), dict(bodies or {})

    def copy(self):
        return Node(self.op, self.ins, self.outs, self.attrs, {k: b.copy() for k, b in self.bodies.items()})


class Graph:
    """Nodes, constants, inputs [(name, type, extents)], outputs [name]."""

    def __init__(self, opset):
        self.opset, self.nodes, self.consts, self.inputs, self.outputs = opset, [], {}, [], []
        self.as_nodes = set()  # constants written as Constant nodes

    def copy(self):
        g = Graph(self.opset)
        g.nodes = [n.copy() for n in self.nodes]
        g.consts, g.inputs, g.outputs, g.as_nodes = dict(self.consts), list(self.inputs), list(self.outputs), set(self.as_nodes)
        return g

    def _proto(self, name, main):
        nodes = []
        inits = []
        for c, v in self.consts.items():
            t = numpy_helper.from_array(v, c)
            if c in self.as_nodes or not main:
                t.name = ""
                nodes.append(helper.make_node("Constant", [], [c], value=t))
            else:
                inits.append(t)
        for n in self.nodes:
            node = helper.make_node(n.op, n.ins, n.outs)
            for k, v in n.attrs.items():
                node.attribute.append(helper.make_attribute(k, v))
            for k, b in n.bodies.items():
                node.attribute.append(helper.make_attribute(k, b._proto(k, False)))
            nodes.append(node)
        ins = [helper.make_tensor_value_info(i, t, None if d is None else [("D%d_%d" % (k, j) if isinstance(x, tuple) else x)
                                                                          for j, x in enumerate(d)])
               for k, (i, t, d) in enumerate(self.inputs)]
        return helper.make_graph(nodes, name, ins, [helper.make_tensor_value_info(o, t, None) if t else helper.make_empty_tensor_value_info(o)
                                                    for o, t in self.outputs], inits)

    def model(self):
        return helper.make_model(self._proto("g", True), opset_imports=[helper.make_opsetid("", self.opset)],
                                 ir_version=IR[self.opset])

    def prune(self):
        """Drop nodes, constants and inputs that no output needs."""
        need = {o for o, _ in self.outputs}
        kept = []
        for n in reversed(self.nodes):
            if need & set(n.outs):
                kept.append(n)
                need |= reads(n)
        self.nodes = kept[::-1]
        self.consts = {k: v for k, v in self.consts.items() if k in need}
        self.inputs = [i for i in self.inputs if i[0] in need]
        return self


def reads(n):
    """Names that a node reads, those of its bodies included."""
    r = {i for i in n.ins if i}
    for b in n.bodies.values():
        for m in b.nodes:
            r |= reads(m)
        r |= {o for o, _ in b.outputs}
    return r


class Builder:
    """Makes a graph from a seed. Motifs (motifs.py) take values from its pool and add their results."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.g = Graph(self.rng.choice([11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21]))
        self.opset = self.g.opset
        self.main = None  # the main graph, while g is the body of a node
        self.pool = []
        self.count = 0
        self.kinds = {}
        self.extents = {}
        pick = self.rng.choice
        t = pick([(5, 8), (4, 1), (7, 3), (6, 6), (3, 0)])
        self.batch = pick([1, 1, 2, (1, 2), (2, 1)])
        self.time = pick([t, t, t, 6])
        self.width = pick([4, 8, 8, 12, 16])

    # ---- names, constants, inputs ----
    def name(self, prefix="v"):
        self.count += 1
        return "%s%d" % (prefix, self.count)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, *options):
        return self.rng.choice(options)

    def const(self, array, kind=None):
        a = np.asarray(array, dtype=NP[kind] if kind else None)
        name = self.name("c")
        self.g.consts[name] = a
        if self.chance(0.2):
            self.g.as_nodes.add(name)
        return Value(name, ONNX[a.dtype], a.shape)

    def num(self, v, like=None):
        """A number, in one of the forms that exporters use."""
        kind = like.type if like is not None else F
        rank = like.rank if like is not None else 0
        form = self.pick(0, 0, 0, 1, 1, min(rank, 3))
        return self.const(np.full([1] * form, v), kind)

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def weight(self, *dims, scale=None):
        if scale is None:
            scale = 1 / max(1.0, float(dims[0]) ** 0.5)
        return self.const((self.np.standard_normal(dims) * scale).astype(np.float32))

    def input(self, dims, kind=F, low=0, high=1):
        name = self.name("in")
        v = Value(name, kind, dims)
        v.low, v.high = low, high
        (self.main or self.g).inputs.append((name, kind, list(dims)))
        self.ranges[name] = (low, high)
        return v

    ranges = None

    # ---- nodes ----
    def op(self, kind, ins, dims, type_=None, **attrs):
        names = [i.name if isinstance(i, Value) else i for i in ins]
        out = Value(self.name(), type_ or ins[0].type, dims)
        self.kinds[out.name], self.extents[out.name] = out.type, out.dims
        self.g.nodes.append(Node(kind, names, [out.name], {k: v for k, v in attrs.items() if v is not None}))
        return out

    def ops(self, kind, ins, outs, **attrs):
        """A node with several outputs [(type, extents)]; None: the output has no name."""
        names = [i.name if isinstance(i, Value) else i for i in ins]
        vals = [Value(self.name(), *o) if o else None for o in outs]
        for v in vals:
            if v:
                self.kinds[v.name], self.extents[v.name] = v.type, v.dims
        self.g.nodes.append(Node(kind, names, [v.name if v else "" for v in vals], {k: v for k, v in attrs.items() if v is not None}))
        return vals

    def un(self, kind, x, type_=None, **attrs):
        return self.op(kind, [x], x.dims, type_, **attrs)

    def bin(self, kind, a, b, type_=None):
        if kind in ("Add", "Mul", "Max", "Min", "And", "Or") and self.chance(0.3):
            return self.op(kind, [b, a], broadcast(a.dims, b.dims), type_)
        return self.op(kind, [a, b], broadcast(a.dims, b.dims), type_)

    # ---- forms that depend on the opset ----
    def axis(self, x, axis):
        """The axis, counted from the start or from the end."""
        axis %= max(x.rank, 1)
        return axis - x.rank if self.chance(0.5) else axis

    def reduce(self, kind, x, axes, keep=1):
        axes = [a % x.rank for a in axes]
        dims = [(1 if i in axes else d) for i, d in enumerate(x.dims) if keep or i not in axes]
        as_input = self.opset >= 18 or (kind == "ReduceSum" and self.opset >= 13)
        axes = [self.axis(x, a) for a in axes]
        keep = None if keep and self.chance(0.5) else keep
        if as_input:
            return self.op(kind, [x, self.ints(*axes)], dims, keepdims=keep)
        return self.op(kind, [x], dims, axes=axes, keepdims=keep)

    def unsqueeze(self, x, axis):
        axis %= x.rank + 1
        dims = x.dims[:axis] + [1] + x.dims[axis:]
        if self.chance(0.5):
            axis -= x.rank + 1
        if self.opset >= 13:
            return self.op("Unsqueeze", [x, self.ints(axis)], dims)
        return self.op("Unsqueeze", [x], dims, axes=[axis])

    def squeeze(self, x, axis):
        axis %= x.rank
        dims = x.dims[:axis] + x.dims[axis + 1:]
        axis = self.axis(x, axis)
        if self.opset >= 13:
            return self.op("Squeeze", [x, self.ints(axis)], dims)
        return self.op("Squeeze", [x], dims, axes=[axis])

    def split(self, x, axis, sizes, equal=False):
        outs = [(x.type, x.dims[:axis] + [s] + x.dims[axis + 1:]) for s in sizes]
        at = self.axis(x, axis)
        if equal and self.chance(0.5):
            return self.ops("Split", [x], outs, axis=at, num_outputs=len(sizes) if self.opset >= 18 else None)
        if self.opset >= 13:
            return self.ops("Split", [x, self.ints(*sizes)], outs, axis=at)
        return self.ops("Split", [x], outs, axis=at, split=list(sizes))

    def slice(self, x, axis, start, end, step=1):
        axis %= x.rank

        def length(d):
            return len(range(d)[start:end:step])
        dims = list(x.dims)
        dims[axis] = each(length, dims[axis])
        ins = [x, self.ints(start), self.ints(end if end is not None else self.pick(2**63 - 1, 2**31 - 1)), self.ints(self.axis(x, axis))]
        if step != 1 or self.chance(0.3):
            ins.append(self.ints(step))
        return self.op("Slice", ins, dims)

    def clip(self, x, low, high):
        ins = [x, self.const(np.array(low), x.type) if low is not None else "", self.const(np.array(high), x.type) if high is not None else ""]
        if high is None:
            ins.pop()
        return self.op("Clip", ins, x.dims)

    def transpose(self, x, perm):
        return self.op("Transpose", [x], [x.dims[p] for p in perm], perm=list(perm))

    def reshape(self, x, target, dims):
        """target: a list with 0 and -1, or a Value."""
        t = target if isinstance(target, Value) else self.ints(*target)
        return self.op("Reshape", [x, t], dims)

    def shape_of(self, x):
        return self.op("Shape", [x], [x.rank], I64)

    def extent(self, x, axis, scalar=False):
        """The extent of an axis as a tensor, as exporters write it."""
        s = self.shape_of(x)
        if scalar:
            return self.op("Gather", [s, self.const(np.array(axis % x.rank))], [], axis=0 if self.chance(0.5) else None)
        if self.chance(0.5):
            return self.op("Gather", [s, self.ints(axis % x.rank)], [1], axis=0)
        if self.chance(0.5):
            return self.slice(s, 0, axis % x.rank, axis % x.rank + 1)
        return self.unsqueeze(self.op("Gather", [s, self.const(np.array(axis % x.rank))], []), 0)

    def concat(self, xs, axis):
        axis %= xs[0].rank
        dims = list(xs[0].dims)
        dims[axis] = each(lambda *v: sum(v), *[x.dims[axis] for x in xs])
        return self.op("Concat", xs, dims, axis=self.axis(xs[0], axis))

    def gather(self, x, index, axis):
        axis %= x.rank
        return self.op("Gather", [x, index], x.dims[:axis] + index.dims + x.dims[axis + 1:], axis=self.axis(x, axis))

    def matmul(self, a, b):
        batch = broadcast(a.dims[:-2], b.dims[:-2])
        return self.op("MatMul", [a, b], batch + [a.dims[-2], b.dims[-1]])

    def cast(self, x, kind):
        return self.op("Cast", [x], x.dims, kind, to=kind)

    def where(self, c, a, b):
        return self.op("Where", [c, a, b], broadcast(c.dims, a.dims, b.dims), a.type)

    # ---- the pool ----
    def keep(self, *values):
        for v in values:
            if v is not None and elements(v.dims) <= MAX_ELEMENTS and v.rank <= 6:
                self.pool.append(v)
        return values[0] if values else None

    def any(self, test=lambda v: True):
        """A value of the pool, often one of the last; None if there is none."""
        fit = [v for v in self.pool if test(v)]
        if not fit:
            return None
        return fit[-1 - self.rng.randrange(min(3, len(fit)))] if self.chance(0.7) else self.rng.choice(fit)

    def sequence(self):
        """A float value [batch, time, width] with a static last extent."""
        v = self.any(lambda v: v.type == F and v.rank == 3 and v.static(2) and 2 <= v.static(2) <= 32)
        return v if v is not None else self.keep(self.input([self.batch, self.time, self.width]))

    def floats(self):
        v = self.any(lambda v: v.type == F and v.rank >= 1)
        return v if v is not None else self.sequence()
