"""Near misses: small changes of a whole graph, of the kinds that fool a pattern. The result may be invalid; the
references tell."""
import numpy as np

from build import BOOL, F, F16, F64, Node

SIBLINGS = {"Sqrt": ["Abs", "Relu"], "ReduceMean": ["ReduceSum", "ReduceMax", "ReduceL2"], "ReduceSum": ["ReduceMean", "ReduceMax"],
            "Add": ["Sub", "Mul", "Max"], "Sub": ["Add"], "Mul": ["Div", "Add", "Min"], "Div": ["Mul"], "Erf": ["Tanh"], "Tanh": ["Erf", "Sigmoid"],
            "Sigmoid": ["Tanh", "HardSigmoid"], "Softmax": ["LogSoftmax", "Sigmoid"], "Max": ["Min", "Add"], "Min": ["Max"], "Relu": ["Abs", "Neg"],
            "Exp": ["Softplus"], "Less": ["Greater", "Equal"], "ReduceMax": ["ReduceMin", "ReduceMean"], "And": ["Or"], "MaxPool": ["AveragePool"]}
AXIS = ["axis"]
LISTS = ["axes", "perm", "pads", "strides"]


def _unique(g):
    names = {o for n in g.nodes for o in n.outs} | set(g.consts) | {i[0] for i in g.inputs}
    k = len(names)
    while "m%d" % k in names:
        k += 1
    return "m%d" % k


def insert(g, rng):
    """A node between a value and one or all of its readers."""
    i = rng.randrange(len(g.nodes))
    n = g.nodes[i]
    name = n.outs[0]
    if not name or n.op in ("Shape", "Range") or n.op in ("Cast",) and rng.random() < 0.5:
        return
    readers = [(m, k) for m in g.nodes[i + 1:] for k, x in enumerate(m.ins) if x == name]
    if not readers:
        return
    if rng.random() < 0.5:
        readers = [rng.choice(readers)]
    out = _unique(g)
    kind = rng.choice(["Clip", "Clip", "Relu", "Abs", "Identity", "Neg", "Cast", "Max", "Min", "Mul", "Add"])
    if kind == "Clip":
        lo, hi = rng.choice([(-5, 5), (0, 6), (-1, 1), (1e-6, 1e4), (-1e4, 1e4), (0, 3e38)])
        g.consts[out + "l"], g.consts[out + "h"] = np.float32(lo), np.float32(hi)
        new = [Node("Clip", [name, out + "l", out + "h"], [out], {})]
    elif kind == "Cast":
        via = rng.choice([F16, F64])
        new = [Node("Cast", [name], [out + "c"], {"to": via}), Node("Cast", [out + "c"], [out], {"to": F})]
    elif kind in ("Max", "Min", "Mul", "Add"):
        g.consts[out + "l"] = np.float32(rng.choice([0, 1, 4, -4, 1e-3, 1e-5, 1.001]))
        new = [Node(kind, [name, out + "l"], [out], {})]
    else:
        new = [Node(kind, [name], [out], {})]
    for m, k in readers:
        m.ins[k] = out
    g.nodes[i + 1:i + 1] = new


def constant(g, rng):
    """Another constant: a bit off, another rank, another broadcast, another type."""
    names = [c for c in g.consts if g.consts[c].dtype == np.float32 or g.consts[c].dtype == np.int64]
    if not names:
        return
    c = rng.choice(names)
    a = g.consts[c]
    if a.dtype == np.int64:
        f = rng.randrange(3)
        if f == 0 and a.size:
            a = a.copy()
            a.flat[rng.randrange(a.size)] += rng.choice([-1, 1])
        elif f == 1 and a.ndim == 1 and a.size == 1:
            a = a.reshape(())
        elif a.ndim == 0:
            a = a.reshape(1)
        else:
            return
    else:
        f = rng.randrange(8)
        if f == 0:
            a = (a * np.float32(rng.choice([1.001, 0.5, -1, 2, 0]))).astype(np.float32)
        elif f == 1 and a.size:
            a = a.copy()
            a.flat[rng.randrange(a.size)] += np.float32(rng.choice([1e-3, 1, -0.5]))
        elif f == 2:
            a = a.reshape((1,) + a.shape)
        elif f == 3 and a.size == 1:
            a = a.reshape(rng.choice([(), (1,), (1, 1), (1, 1, 1)]))
        elif f == 4 and a.ndim and a.shape[0] == 1:
            a = np.ascontiguousarray(a[0])
        elif f == 5 and a.ndim >= 1 and a.size > 1 and a.size < 64:
            a = a.reshape(a.shape + (1,)) if a.ndim < 3 else a
        elif f == 6 and a.size > 1:
            a = np.full_like(a, a.flat[0])
        elif f == 7 and a.size:
            a = a.copy()
            a.flat[rng.randrange(a.size)] = np.float32(rng.choice([0, np.inf, -np.inf, np.nan, 1e30, 1e-30]))
        else:
            return
    if rng.random() < 0.5:  # for one reader only
        readers = [(m, k) for m in g.nodes for k, x in enumerate(m.ins) if x == c]
        if len(readers) > 1:
            new = _unique(g)
            g.consts[new] = a
            m, k = rng.choice(readers)
            m.ins[k] = new
            return
    g.consts[c] = a


def attribute(g, rng):
    nodes = [n for n in g.nodes if n.attrs]
    if not nodes:
        return
    n = rng.choice(nodes)
    k = rng.choice(list(n.attrs))
    v = n.attrs[k]
    if k in AXIS or k == "keepdims":
        n.attrs[k] = rng.choice([0, 1, -1, 2, -2]) if k in AXIS else 1 - v
    elif k in LISTS and v:
        v = list(v)
        i = rng.randrange(len(v))
        if k == "perm":
            j = rng.randrange(len(v))
            v[i], v[j] = v[j], v[i]
        else:
            v[i] = max(v[i] + rng.choice([-1, 1]), -3 if k == "axes" else 0)
        n.attrs[k] = v
    elif isinstance(v, float):
        n.attrs[k] = v * rng.choice([1.001, 2, 0.5])
    elif rng.random() < 0.3:
        del n.attrs[k]


def sibling(g, rng):
    nodes = [n for n in g.nodes if n.op in SIBLINGS]
    if nodes:
        n = rng.choice(nodes)
        op = rng.choice(SIBLINGS[n.op])
        if n.op.startswith("Reduce") and g.opset < 18 and (n.op == "ReduceSum" or op == "ReduceSum") and g.opset >= 13:
            return
        if op == "Sigmoid" or op in ("Erf", "Abs", "Relu", "Neg", "Softplus"):
            n.attrs = {}
        n.op = op


def swapped(g, rng):
    nodes = [n for n in g.nodes if len(n.ins) == 2 and n.op in ("Sub", "Div", "Pow", "MatMul", "Add", "Mul", "Less", "Greater")]
    if nodes:
        n = rng.choice(nodes)
        n.ins.reverse()


def exposed(g, rng, kinds):
    """An intermediate value becomes a graph output."""
    names = [(o, kinds[o]) for n in g.nodes for o in n.outs if o in kinds]
    have = {o for o, _ in g.outputs}
    names = [x for x in names if x[0] not in have]
    if names:
        g.outputs.insert(rng.randrange(len(g.outputs) + 1), rng.choice(names))


def reread(g, rng, kinds):
    """Another reader for an intermediate value."""
    i = rng.randrange(len(g.nodes))
    name = g.nodes[i].outs[0]
    if kinds.get(name) != F:
        return
    out = _unique(g)
    g.nodes.insert(i + 1, Node(rng.choice(["Neg", "Abs", "Identity", "Shape"]), [name], [out], {}))
    g.outputs.append((out, 7 if g.nodes[i + 1].op == "Shape" else F))


def rewired(g, rng, kinds):
    """An input of a node is another earlier value of the same type."""
    i = rng.randrange(len(g.nodes))
    n = g.nodes[i]
    slots = [k for k, x in enumerate(n.ins) if kinds.get(x) == F]
    if not slots:
        return
    before = [o for m in g.nodes[max(0, i - 12):i] for o in m.outs if kinds.get(o) == F]
    if before:
        n.ins[rng.choice(slots)] = rng.choice(before)


def mutate(g, rng, kinds):
    """kinds: types of the values that motifs made."""
    changes = [insert, insert, insert, constant, constant, constant, attribute, attribute, sibling, sibling, swapped,
               lambda g, r: exposed(g, r, kinds), lambda g, r: exposed(g, r, kinds), lambda g, r: reread(g, r, kinds), lambda g, r: rewired(g, r, kinds)]
    if g.nodes:
        rng.choice(changes)(g, rng)
