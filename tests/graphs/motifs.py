"""Motifs of speech and language models, in the spellings of their exporters and with near misses drawn at random."""
import math

import numpy as np

from build import BOOL, F, F16, F64, I8, I32, I64, U8, Value, broadcast, each, elements

MOTIFS = []


def motif(weight):
    def add(f):
        MOTIFS.append((f, weight))
        return f
    return add


# ---- elementwise ----
UNARY = ["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "Softplus", "Softsign", "Identity", "Elu", "LeakyRelu", "HardSigmoid",
         "Selu", "ThresholdedRelu", "Celu", "Ceil", "Floor", "Round", "Exp", "Sqrt", "Log", "Reciprocal", "Sin", "Cos",
         "Atan", "Dropout"]


def unary(b, x, names=UNARY):
    k = b.pick(*names)
    if k == "Celu" and b.opset < 12:
        k = "Elu"
    attrs = {}
    if k in ("Elu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid") and b.chance(0.5):
        attrs["alpha"] = b.pick(0.01, 0.2, 1.0, 1.7)
    if k == "HardSigmoid" and b.chance(0.5):
        attrs.update(alpha=1 / 6, beta=b.pick(0.5, 0.4))
    return b.un(k, x, **attrs)


@motif(6)
def chain(b):
    x = b.floats()
    for _ in range(b.pick(1, 1, 2, 3)):
        x = unary(b, x)
        if b.chance(0.4):
            b.keep(x)
    b.keep(x)


@motif(6)
def numbers(b):
    x = b.floats()
    for _ in range(b.pick(1, 2, 3)):
        k = b.pick("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Clip", "Clip")
        v = b.pick(0, 1, 1, 2, 0.5, -1, 1e-5, 3, 6, 0.044715, 1e30, float("inf"), -3.0)
        if k == "Clip":
            lo = b.pick(0, -1, -5, None, 1e-5)
            x = b.clip(x, lo, b.pick(None, 6, 5, 1, 100) if lo is not None else 3)
        elif k == "Pow":
            x = b.op("Pow", [x, b.num(b.pick(1, 2, 3, 0.5, -0.5, -1, 2.5, 0), x)], x.dims)
        elif k in ("Sub", "Div") and b.chance(0.3):
            x = b.op(k, [b.num(v, x), x], x.dims)
        else:
            c = b.num(v, x)
            x = b.op(k, [x, c], broadcast(x.dims, c.dims))
    b.keep(x)


def row(b, x, value=None):
    """A constant per column, in several ranks."""
    n = x.static(-1) or 1
    shape = b.pick((n,), (n,), (n,), (1, n), (1, 1, n), (1,))
    if len(shape) > x.rank and b.chance(0.9):
        shape = shape[-x.rank:]
    a = b.np.standard_normal(shape).astype(np.float32) if value is None else np.full(shape, value, np.float32)
    return b.const(a)


@motif(4)
def rows(b):
    x = b.floats()
    for _ in range(b.pick(1, 2)):
        x = b.bin(b.pick("Add", "Mul", "Sub"), x, row(b, x))
    b.keep(x)


@motif(5)
def two(b):
    x = b.floats()
    y = b.any(lambda v: v.type == F and v is not x and (v.dims == x.dims or all(p == q or p == 1 or q == 1 for p, q in
              zip(v.dims[::-1], x.dims[::-1]))))
    if y is None:
        y = unary(b, x)
    if elements(broadcast(x.dims, y.dims)) <= 2048:
        b.keep(b.bin(b.pick("Add", "Add", "Mul", "Sub", "Div", "Max", "Min"), x, y))


# ---- activations ----
def sigmoid(b, x):
    f = b.pick(0, 0, 1, 2)
    if f == 0:
        return b.un("Sigmoid", x)
    if f == 1:
        return b.bin("Div", b.num(1, x), b.bin("Add", b.un("Exp", b.un("Neg", x)), b.num(1, x)))
    t = b.un("Tanh", b.bin("Mul", x, b.num(0.5, x)))
    return b.bin("Mul", b.bin("Add", t, b.num(1, x)), b.num(0.5, x))


def softplus(b, x):
    if b.chance(0.5):
        return b.un("Softplus", x)
    return b.un("Log", b.bin("Add", b.un("Exp", x), b.num(b.pick(1, 1, 1, 2), x)))


def square(b, x):
    return b.bin("Mul", x, x) if b.chance(0.5) else b.op("Pow", [x, b.num(2, x) if b.chance(0.9) else b.const(np.array(2, np.int64))], x.dims)


def product(b, factors):
    factors = list(factors)
    b.rng.shuffle(factors)
    y = factors[0]
    for f in factors[1:]:
        y = b.bin("Mul", y, f)
    return y


def gelu(b, x):
    f = b.pick(0, 1, 2)
    if f == 0:
        s = math.sqrt(2) * b.pick(1, 1, 1, 1.01)
        z = b.bin("Div", x, b.num(s, x)) if b.chance(0.5) else b.bin("Mul", x, b.num(1 / s, x))
        e = b.bin("Add", b.un("Erf", z), b.num(b.pick(1, 1, 1, 1.001), x))
        return product(b, [x, e, b.num(0.5, x)])
    if f == 1:
        cube = b.op("Pow", [x, b.num(3, x)], x.dims) if b.chance(0.5) else product(b, [x, x, x])
        inner = b.bin("Add", x, b.bin("Mul", cube, b.num(b.pick(0.044715, 0.044715, 0.0447, 0.045), x)))
        t = b.un("Tanh", b.bin("Mul", inner, b.num(math.sqrt(2 / math.pi), x)))
        return product(b, [x, b.bin("Add", t, b.num(1, x)), b.num(0.5, x)])
    if b.opset >= 20 and b.chance(0.5):
        return b.un("Gelu", x, approximate=b.pick(None, "tanh", "none"))
    return b.bin("Mul", x, sigmoid(b, b.bin("Mul", x, b.num(b.pick(1.702, 1.7), x))))


def swish(b, x):
    f = b.pick(0, 0, 1, 2, 3, 4)
    if f == 0:
        z = x if b.chance(0.7) else b.bin("Mul", x, b.num(b.pick(1, 1.5, -1), x))
        return b.bin("Mul", x, sigmoid(b, z))
    if f == 1:
        return b.bin("Div", x, b.bin("Add", b.num(1, x), b.un("Exp", b.un("Neg", x))))
    if f == 2:
        h = b.bin("Add", x, b.num(b.pick(3, 3, 3, 2.9), x))
        if b.chance(0.4):
            h = b.clip(h, 0, b.pick(6, 6, 5))
        elif b.chance(0.5):
            h = b.bin("Min", b.bin("Max", h, b.num(0, x)), b.num(6, x))
        else:
            h = b.bin("Min", b.un("Relu", h), b.num(6, x))
        return product(b, [x, h, b.num(1 / 6, x)]) if b.chance(0.5) else b.bin("Div", b.bin("Mul", x, h), b.num(6, x))
    if f == 3:
        return b.bin("Mul", x, b.un("HardSigmoid", x, alpha=b.pick(1 / 6, 0.2), beta=0.5))
    return b.bin("Mul", x, b.un("Tanh", softplus(b, x)))


def swoosh(b, x):
    s, o = b.pick((4.0, 0.035), (1.0, 0.313261687), (4.0, 0.04))
    d = b.bin("Sub", x, b.num(s, x))
    if b.chance(0.5):
        y = softplus(b, d)
    else:
        zero = b.num(0, x)
        m = b.bin("Max", d, zero)
        y = b.bin("Add", m, b.un("Log", b.bin("Add", b.un("Exp", b.un("Neg", b.un("Abs", d))), b.num(1, x))))
    return b.bin("Sub", b.bin("Sub", y, b.bin("Mul", x, b.num(0.08, x))), b.num(o, x))


def activation(b, x):
    f = b.pick(unary, gelu, gelu, swish, swish, swoosh)
    return f(b, x, ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu"]) if f is unary else f(b, x)


@motif(10)
def activations(b):
    x = b.floats()
    if b.chance(0.2):
        x = b.bin("Add", x, row(b, x))
    b.keep(activation(b, x))


@motif(5)
def glu(b):
    x = b.any(lambda v: v.type == F and v.rank >= 2 and any(isinstance(d, int) and d % 2 == 0 and d > 1 for d in v.dims)) or b.sequence()
    axis = b.pick(*[i for i, d in enumerate(x.dims) if isinstance(d, int) and d % 2 == 0 and d > 1])
    n = x.dims[axis] // 2
    if b.chance(0.5):
        p, q = b.split(x, axis, [n, n], equal=True)
    else:
        m = n if b.chance(0.9) else max(1, n - 1)
        p, q = b.slice(x, axis, 0, m), b.slice(x, axis, n if m == n else x.dims[axis] - m, b.pick(2 * n, None))
    if b.chance(0.5):
        p, q = q, p
    g = sigmoid(b, q) if b.chance(0.5) else activation(b, q)
    y = b.bin("Mul", p, g)
    if b.chance(0.15):
        b.keep(g)
    b.keep(y)


# ---- normalisations ----
def mean(b, x, axes, kind=None):
    if b.chance(0.8):
        return b.reduce(kind or "ReduceMean", x, axes)
    n = math.prod(x.static(a) or 1 for a in axes)
    s = b.reduce("ReduceSum", x, axes)
    return b.bin("Div", s, b.num(float(n), x)) if b.chance(0.5) else b.bin("Mul", s, b.num(1 / n, x))


def root(b, v, d):
    """d / sqrt(v) in one of its spellings."""
    f = b.pick(0, 0, 1, 2, 3)
    if f == 0:
        r = b.un("Sqrt", v) if b.chance(0.7) else b.op("Pow", [v, b.num(0.5, v)], v.dims)
        if b.chance(0.12):
            r = b.clip(r, b.pick(1e-3, 1e-6, 0.5, 0.0), b.pick(None, 10, 1e4))
        elif b.chance(0.08):
            r = b.bin(b.pick("Max", "Min"), r, b.num(b.pick(1e-3, 1.0), r))
        return b.bin("Div", d, r)
    if f == 1:
        return b.bin("Mul", d, b.op("Pow", [v, b.num(-0.5, v)], v.dims))
    if f == 2:
        return b.bin("Mul", d, b.un("Reciprocal", b.un("Sqrt", v)))
    return b.bin("Mul", d, b.bin("Div", b.num(1, v), b.un("Sqrt", v)))


def caps(b, x):
    """Now and then a piecewise operator, which no fusion may lose."""
    if b.chance(0.9):
        return x
    f = b.pick(0, 1, 2, 3, 4)
    if f == 0:
        return b.clip(x, b.pick(-5, -1, -100, None), b.pick(5, 3, 1e4))
    if f == 1:
        return b.un(b.pick("Relu", "Abs", "Ceil"), x)
    if f == 2:
        return b.bin(b.pick("Max", "Min"), x, b.num(b.pick(0, 4, -4, 1e-3, 1e5), x))
    if f == 3:
        return b.cast(b.cast(x, b.pick(F64, F16)), F)
    return b.bin("Add", x, b.num(b.pick(1e-3, 1e-5), x))


def norm(b, x, rms=None):
    axes = [x.rank - 1] if b.chance(0.85) else b.pick([x.rank - 2], [x.rank - 2, x.rank - 1])
    if x.rank < 2:
        axes = [x.rank - 1]
    if any(x.static(a) is None for a in axes):
        axes = [x.rank - 1]
    rms = b.chance(0.35) if rms is None else rms
    eps = b.pick(1e-5, 1e-5, 1e-6, 1e-12, 1e-3, 0.2)
    if not rms:
        m = mean(b, x, axes)
        d = b.bin("Sub", x, m)
        d2 = b.bin("Sub", x, m) if b.chance(0.1) else d
        if b.chance(0.15):
            v = b.bin("Sub", mean(b, square(b, x), axes), square(b, m))
            if b.chance(0.5):
                v = b.un("Relu", v)
        else:
            v = mean(b, square(b, caps(b, d2)), axes, "ReduceMean" if b.chance(0.97) else "ReduceSum")
    else:
        d = x
        v = mean(b, square(b, caps(b, d)), axes)
    if b.chance(0.9):
        v = b.bin("Add", v, b.num(eps, v))
    v = caps(b, v)
    z = caps(b, root(b, v, d))
    if b.chance(0.05):
        b.keep(v)
    if b.chance(0.85):
        z = caps(b, b.bin("Mul", z, row(b, x)))
    if b.chance(0.7):
        z = b.bin("Add", z, row(b, x))
    return z


@motif(14)
def norms(b):
    x = b.sequence() if b.chance(0.8) else b.floats()
    if x.static(-1) is None:
        x = b.sequence()
    if b.chance(0.2):
        y = b.any(lambda v: v.type == F and v.dims == x.dims)
        if y is not None:
            x = b.bin("Add", x, y)
            if b.chance(0.5):
                b.keep(x)
    b.keep(norm(b, x))


@motif(4)
def norm_operators(b):
    x = b.sequence()
    n = x.static(2)
    f = b.pick(0, 1, 2, 3, 4, 5)
    if f == 0 and b.opset >= 17:
        axis = b.pick(-1, 2, -1, 1) if x.static(1) else -1
        shape = (n,) if axis in (-1, 2) else (x.static(1), n)
        ins = [x, b.const(b.np.standard_normal(shape).astype(np.float32))]
        if b.chance(0.7):
            ins.append(b.const(b.np.standard_normal(shape).astype(np.float32)))
        y = b.op("LayerNormalization", ins, x.dims, axis=axis, epsilon=b.pick(None, 1e-5, 1e-3))
        if b.chance(0.4):
            y = b.bin("Mul", y, row(b, y))
        if b.chance(0.4):
            y = b.bin("Add", y, row(b, y))
    elif f == 1:
        y = b.op("InstanceNormalization", [b.transpose(x, [0, 2, 1]), b.weight(n), b.weight(n)], [x.dims[0], n, x.dims[1]])
    elif f == 2:
        t = b.transpose(x, [0, 2, 1])
        y = b.op("BatchNormalization", [t, b.weight(n), b.weight(n), b.weight(n), b.const(np.abs(b.np.standard_normal(n)).astype(np.float32))],
                 t.dims, epsilon=b.pick(None, 1e-3))
        if b.chance(0.5):
            y = b.transpose(y, [0, 2, 1])
    elif f == 3:  # torch's normalize
        l = b.reduce(b.pick("ReduceL2", "ReduceL2", "ReduceL1"), x, [2])
        l = b.clip(l, 1e-12, None)
        if b.chance(0.6):
            l = b.op("Expand", [l, b.shape_of(x)], x.dims)
        y = b.bin("Div", x, l)
    elif f == 4:  # Zipformer's BiasNorm
        d = b.bin("Sub", x, row(b, x))
        v = b.reduce("ReduceMean", square(b, caps(b, d)), [2])
        y = b.bin("Mul", x, b.bin("Mul", b.op("Pow", [v, b.num(-0.5, v)], v.dims), b.num(b.pick(1.0, 0.7), v)))
    else:  # bypass
        d = unary(b, x)
        y = b.bin("Add", x, b.bin("Mul", b.bin("Sub", d, x), row(b, x)))
    b.keep(y)


# ---- softmax, masks ----
def softmax(b, x, axis=None):
    axis = x.rank - 1 if axis is None else axis
    if b.chance(0.75):
        return b.un("Softmax", x, axis=b.axis(x, axis))
    m = b.reduce("ReduceMax", x, [axis])
    e = b.un("Exp", b.bin("Sub", x, m))
    s = b.reduce("ReduceSum", e, [axis])
    return b.bin("Div", e, s) if b.chance(0.7) else b.bin("Mul", e, b.un("Reciprocal", s))


@motif(5)
def softmaxes(b):
    x = b.floats()
    axis = b.rng.randrange(x.rank) if b.chance(0.4) else x.rank - 1
    f = b.pick(0, 1, 2, 3, 4)
    if f == 0:
        y = softmax(b, x, axis)
    elif f == 1:
        y = b.un("Log", softmax(b, x, axis))
    elif f == 2:
        y = b.un("LogSoftmax", x, axis=b.axis(x, axis))
    elif f == 3:
        d = b.bin("Sub", x, b.reduce("ReduceMax", x, [axis]))
        y = b.bin("Sub", d, b.un("Log", b.reduce("ReduceSum", b.un("Exp", d), [axis])))
    else:
        s = b.reduce("ReduceLogSumExp", x, [axis])
        y = b.bin("Sub", x, s)
    if b.chance(0.3):
        keep = b.pick(0, 1)
        i = b.op(b.pick("ArgMax", "ArgMin"), [y], [(1 if k == axis else d) for k, d in enumerate(y.dims) if keep or k != axis], I64,
                 axis=b.axis(y, axis), keepdims=keep, select_last_index=b.pick(None, 0, 1) if b.opset >= 12 else None)
        b.keep(i)
    b.keep(y)


def mask_of(b, batch, queries, keys):
    """A boolean mask that broadcasts to [batch, queries, keys]."""
    f = b.pick(0, 1, 2, 3)
    if f == 0:
        return b.input([b.pick(1, batch), b.pick(1, queries), keys], BOOL)
    if f == 1 and isinstance(keys, int):
        return b.const(b.np.random((1, 1, keys)) < 0.7)
    if f == 2 and isinstance(keys, int) and keys > 0:  # by lengths
        n = b.input([batch], I64, 0, keys + 1)
        r = b.const(np.arange(keys, dtype=np.int64)) if b.chance(0.5) else b.op("Range", [b.const(np.array(0)), b.const(np.array(keys)),
                                                                                         b.const(np.array(1))], [keys], I64)
        m = b.op(b.pick("Less", "Less", "GreaterOrEqual") if b.opset >= 12 else "Less", [b.unsqueeze(r, 0), b.unsqueeze(n, 1)], [batch, keys], BOOL)
        return b.unsqueeze(m, 1)
    m = b.input([b.pick(1, batch), 1, keys], BOOL)
    return b.un("Not", m) if b.chance(0.4) else m


def masked(b, scores, mask):
    """Softmax of scores under a mask, in one of its spellings; mask true: seen (or not)."""
    fill = b.pick(-1e4, -1e9, -3.4028235e38, float("-inf"), -10000.0, -1.0)
    f = b.pick(0, 0, 1, 2, 3)
    if f == 0:
        c = b.num(fill, scores)
        order = b.chance(0.5)
        s = b.where(mask, c, scores) if order else b.where(mask, scores, c)
        s.type = F
        y = softmax(b, s)
        z = b.num(0 if b.chance(0.9) else 1, scores)
        if b.chance(0.8):
            y = b.where(mask, z, y) if order == b.chance(0.95) else b.where(mask, y, z)
            y.type = F
        return y
    if f == 1:
        m = b.cast(mask, F)
        if b.chance(0.5):
            m = b.bin("Sub", b.num(1, m), m)
        s = b.bin("Add", scores, b.bin("Mul", m, b.num(fill if fill != float("-inf") else -1e9, m)))
        return softmax(b, s)
    if f == 2:
        c = b.where(mask, b.num(0), b.num(fill))
        return softmax(b, b.bin("Add", scores, c))
    return softmax(b, scores)


@motif(4)
def masked_softmax(b):
    x = b.sequence()
    b.keep(masked(b, x, mask_of(b, x.dims[0], x.dims[1], x.dims[2])))


# ---- products ----
def linear(b, x, n=None, bias=None):
    """x times a constant [+ bias] in one of its spellings."""
    k = x.static(-1)
    n = n or b.pick(k, 2 * k, 3, 8)
    bias = b.chance(0.75) if bias is None else bias
    f = b.pick(0, 0, 0, 1, 2, 3)
    if f == 0 or x.rank < 2:
        if b.chance(0.15):
            w = b.transpose(b.weight(n, k, scale=1 / k ** 0.5), [1, 0])
        else:
            w = b.weight(k, n)
        y = b.op("MatMul", [x, w], x.dims[:-1] + [n])
        return b.bin("Add", y, b.const(b.np.standard_normal(b.pick((n,), (n,), (n,), (1, n), (1,), (1, 1, n))[-x.rank:]).astype(np.float32))) if bias else y
    if f == 1 and x.rank == 2 or f == 3:
        flat = x
        if x.rank != 2:
            m = each(lambda *v: math.prod(v), *x.dims[:-1])
            flat = b.reshape(x, [-1, k], [m, k])
        t = b.pick(0, 1)
        ins = [flat, b.weight(n, k) if t else b.weight(k, n)]
        if bias:
            ins.append(b.const(b.np.standard_normal(b.pick((n,), (n,), (1, n), (1,))).astype(np.float32)))
        y = b.op("Gemm", ins, flat.dims[:-1] + [n], transB=t or None, alpha=b.pick(None, None, 0.5), beta=b.pick(None, None, 2.0))
        if x.rank == 2:
            return y
        if x.rank == 3 and isinstance(x.dims[0], int) and isinstance(x.dims[1], int):
            return b.reshape(y, [x.dims[0], x.dims[1], n], x.dims[:-1] + [n])
        s = b.concat([b.slice(b.shape_of(x), 0, 0, x.rank - 1), b.ints(n)], 0)
        return b.reshape(y, s, x.dims[:-1] + [n])
    if f == 2 and b.opset >= 12 and x.rank == 3:
        return b.op("Einsum", [x, b.weight(k, n)], x.dims[:-1] + [n], equation=b.pick("abc,cd->abd", "btk,kn->btn"))
    y = b.op("MatMul", [x, b.weight(k, n)], x.dims[:-1] + [n])
    return b.bin("Add", y, row(b, y)) if bias else y


@motif(10)
def linears(b):
    x = b.sequence() if b.chance(0.7) else b.floats()
    if not x.static(-1) or x.static(-1) > 64:
        x = b.sequence()
    y = linear(b, x)
    if b.chance(0.4):
        y = activation(b, y)
    if b.chance(0.2):
        y = b.bin("Mul", y, b.num(b.pick(0.5, 2, 1), y))
    if b.chance(0.4) and y.dims == x.dims:
        y = b.bin("Add", x, y)
        if b.chance(0.3):
            y = norm(b, y)
    if b.chance(0.1):
        z = linear(b, x)
        b.keep(z)
    b.keep(y)


@motif(3)
def feed_forward(b):
    x = b.sequence()
    n = x.static(2)
    y = norm(b, x, False) if b.chance(0.7) else x
    y = linear(b, y, 2 * n)
    y = activation(b, y)
    y = linear(b, y, n)
    if b.chance(0.4):
        y = b.bin("Mul", y, b.num(b.pick(0.5, 0.5, 1), y))
    y = b.bin("Add", x, y)
    b.keep(norm(b, y) if b.chance(0.3) else y)


@motif(2)
def products(b):
    x = b.sequence()
    y = b.any(lambda v: v.type == F and v.rank == 3 and v.dims[0] == x.dims[0] and v.dims[2] == x.dims[2]) or x
    k = b.transpose(y, [0, 2, 1]) if b.chance(0.8) else b.transpose(x, [0, 2, 1])
    if elements(x.dims[:2] + [k.dims[2]]) > 2048:
        return
    s = b.matmul(x, k)
    f = b.pick(0, 1, 2)
    if f == 1:
        s = b.bin("Mul", s, b.num(0.35, s))
    elif f == 2:
        s = b.bin("Div", s, b.num(2.8, s))
    b.keep(s)


# ---- attention ----
def heads_of(b, x, h, order):
    """[B, T, h d] as heads [B, h, T, d] (or [B, h, d, T])."""
    n = x.static(2)
    d = n // h
    if b.chance(0.6):
        lead = 0
        r = b.reshape(x, [lead, b.pick(0, -1) if b.chance(0.5) else 0, h, d], [x.dims[0], x.dims[1], h, d])
    elif b.chance(0.5):
        s = b.concat([b.extent(x, 0), b.extent(x, 1), b.ints(h), b.ints(d)], 0)
        r = b.reshape(x, s, [x.dims[0], x.dims[1], h, d])
    else:
        r = b.reshape(x, [b.pick(x.dims[0], x.dims[0]) if isinstance(x.dims[0], int) else 0, -1, h, d], [x.dims[0], x.dims[1], h, d])
    return b.transpose(r, order)


def rel_shift(b, s):
    """ESPnet's: [B, h, T, L] with a zero column before, reshaped and cut."""
    B, h, T, L = s.dims
    if not (isinstance(T, int) and isinstance(L, int) and isinstance(B, int)):
        return None
    if b.chance(0.5):
        z = b.op("ConstantOfShape", [b.ints(B, h, T, 1)], [B, h, T, 1], F)
        p = b.concat([z, s], 3)
    else:
        p = b.op("Pad", [s, b.ints(0, 0, 0, 1, 0, 0, 0, 0)], [B, h, T, L + 1])
    p = b.reshape(p, [B, h, L + 1, T], [B, h, L + 1, T])
    p = b.slice(p, 2, 1, None)
    p = b.reshape(p, [B, h, T, L], [B, h, T, L])
    return b.slice(p, 3, 0, L // 2 + 1) if b.chance(0.5) else p


@motif(8)
def attention(b):
    x = b.any(lambda v: v.type == F and v.rank == 3 and v.static(2) in (4, 8, 12, 16)) or b.sequence()
    n = x.static(2)
    if n % 2:
        return
    h = 2 if n < 12 or b.chance(0.5) else 4
    d = n // h
    memory = x
    if b.chance(0.25):
        memory = b.any(lambda v: v.type == F and v.rank == 3 and v.dims[0] == x.dims[0] and v.static(2) == n) or x
    if b.chance(0.15):
        qkv = linear(b, x, 3 * n)
        q, k, v = b.split(qkv, 2, [n, n, n], equal=True) if b.chance(0.6) else [b.slice(qkv, 2, i * n, (i + 1) * n) for i in range(3)]
        memory = x
    else:
        q, k, v = linear(b, x, n), linear(b, memory, n), linear(b, memory, n)
    where = b.pick("q", "k", "both", "s*", "s/", "none")
    scale = 1 / math.sqrt(d)
    if where == "q":
        q = b.bin("Mul", q, b.num(scale, q))
    cache_k = cache_v = None
    qh = heads_of(b, q, h, [0, 2, 1, 3])
    cached = b.chance(0.2)
    if cached:
        kh = heads_of(b, k, h, [0, 2, 1, 3])
        vh = heads_of(b, v, h, [0, 2, 1, 3])
        past = b.pick(2, (3, 2), (0, 4))
        pk, pv = b.input([x.dims[0], h, past, d]), b.input([x.dims[0], h, past, d])
        kh, vh = b.concat([pk, kh], 2), b.concat([pv, vh], 2)
        if b.chance(0.7):
            cache_k, cache_v = kh, vh
        kt = b.transpose(kh, [0, 1, 3, 2])
    else:
        vh = heads_of(b, v, h, [0, 2, 1, 3])
        if b.chance(0.5):
            kt = heads_of(b, k, h, [0, 2, 3, 1])
        else:
            kt = b.transpose(heads_of(b, k, h, [0, 2, 1, 3]), [0, 1, 3, 2])
    if where == "both":
        qh, kt = b.bin("Mul", qh, b.num(scale ** 0.5, qh)), b.bin("Mul", kt, b.num(scale ** 0.5, kt))
    if where == "k":
        kt = b.bin("Mul", kt, b.num(scale, kt))
    if b.chance(0.1):
        qh = b.bin("Add", qh, b.weight(1, h, 1, d))
    s = b.matmul(qh, kt)
    if b.chance(0.15):
        T, L = s.dims[2], s.dims[3]
        if isinstance(T, int) and isinstance(x.dims[0], int) and not cached:
            pos = b.weight(1, h, d, 2 * T - 1)
            p = b.matmul(qh, pos)
            shifted = rel_shift(b, p)
            if shifted is not None and shifted.dims[3] == L:
                s = b.bin("Add", s, shifted)
    if where == "s*":
        s = b.bin("Mul", s, b.num(scale, s))
    if where == "s/":
        s = b.bin("Div", s, b.num(1 / scale, s))
    if b.chance(0.1):
        s = b.bin("Add", s, b.const(b.np.standard_normal((1, h, 1, 1)).astype(np.float32)))
    if b.chance(0.5):
        m = mask_of(b, x.dims[0], s.dims[2], s.dims[3])
        w = masked(b, s, b.unsqueeze(m, 1))
    else:
        w = softmax(b, s)
    if b.chance(0.08):
        b.keep(w)
    if b.chance(0.1):
        w = caps(b, w)
    o = b.matmul(w, vh)
    o = b.transpose(o, [0, 2, 1, 3])
    o = b.reshape(o, [0, b.pick(0, -1), n] if b.chance(0.6) else [0, 0, h * d], [o.dims[0], o.dims[1], n])
    if b.chance(0.8):
        o = linear(b, o, n)
    if b.chance(0.5):
        o = b.bin("Add", x, o)
    for c in (cache_k, cache_v):
        if c is not None:
            b.outputs.append(c)
    b.keep(o)


# ---- convolutions ----
def conv1d(b, x, channels, kernel, group=1, **attrs):
    cin = x.static(1)
    pads = attrs.pop("pads", [kernel // 2, kernel // 2])
    stride = attrs.pop("stride", 1)
    ins = [x, b.weight(channels, cin // group, kernel, scale=0.3)]
    if b.chance(0.7):
        ins.append(b.weight(channels))
    L = each(lambda t: (t + sum(pads) - kernel) // stride + 1, x.dims[2])
    return b.op("Conv", ins, [x.dims[0], channels, L], kernel_shape=[kernel] if b.chance(0.8) else None, pads=pads if any(pads) or b.chance(0.5) else None,
                strides=[stride] if stride > 1 or b.chance(0.3) else None, group=group if group > 1 or b.chance(0.3) else None)


def affine(b, x):
    """BatchNormalization or its factors, after a convolution."""
    n = x.static(1)
    if b.chance(0.5):
        var = np.abs(b.np.standard_normal(n)).astype(np.float32)
        return b.op("BatchNormalization", [x, b.weight(n), b.weight(n), b.weight(n), b.const(var)], x.dims, epsilon=b.pick(None, 1e-3))
    shape = (1, n) + (1,) * (x.rank - 2) if b.chance(0.7) else (n,) + (1,) * (x.rank - 2)
    y = b.bin(b.pick("Mul", "Div", "Add", "Sub"), x, b.const(b.np.standard_normal(shape).astype(np.float32)))
    return b.bin("Add", y, b.const(b.np.standard_normal(shape).astype(np.float32))) if b.chance(0.5) else y


@motif(5)
def conv_module(b):
    x = b.sequence()
    n = x.static(2)
    y = norm(b, x, False) if b.chance(0.4) else x
    y = b.transpose(y, [0, 2, 1])
    if b.chance(0.6):
        y = conv1d(b, y, 2 * n, 1)
        p, q = b.split(y, 1, [n, n], equal=True)
        y = b.bin("Mul", p, sigmoid(b, q))
    elif b.chance(0.3):
        y = conv1d(b, y, n, 1)
    k = b.pick(3, 3, 5, 2)
    if b.chance(0.25):
        cache = b.input([x.dims[0], n, k - 1])
        y = b.concat([cache, y], 2)
        b.outputs.append(b.slice(y, 2, -(k - 1), None))
        pads = [0, 0]
    else:
        pads = b.pick([k // 2, k // 2], [k - 1, 0], [0, 0]) if k % 2 else [k - 1, 0]
        if any(pads) and b.chance(0.3):
            y = b.op("Pad", [y, b.ints(0, 0, pads[0], 0, 0, pads[1])] + ([b.const(np.float32(b.pick(0, 0, 0, 1)))] if b.chance(0.6) else []),
                     [y.dims[0], y.dims[1], each(lambda t: t + sum(pads), y.dims[2])], mode=b.pick(None, None, "constant", "edge"))
            pads = [0, 0]
    if min(y.dims[2] if isinstance(y.dims[2], tuple) else [y.dims[2]]) + sum(pads) < k:
        return
    y = conv1d(b, y, n, k, group=n if b.chance(0.8) else 1, pads=pads)
    if b.chance(0.6):
        y = affine(b, y)
    y = activation(b, y)
    if b.chance(0.6):
        y = conv1d(b, y, n, 1)
    if b.chance(0.8):
        y = b.transpose(y, [0, 2, 1])
        if y.dims == x.dims and b.chance(0.6):
            y = b.bin("Add", x, y)
    b.keep(y)


@motif(5)
def subsampling(b):
    x = b.sequence()
    if b.chance(0.85):
        y = b.unsqueeze(x, 1)
    else:
        y = b.unsqueeze(b.transpose(x, [0, 2, 1]), 1)
    for i in range(b.pick(1, 2, 2)):
        k, s = b.pick((3, 2), (3, 1), (3, (1, 2)), (2, 1), (1, 1))
        p = b.pick(0, 1, 0) if k == 3 else 0
        st = s if isinstance(s, tuple) else (s, s)
        c = b.pick(2, 4, 5)
        cin = y.static(1)
        if cin is None:
            return
        group = cin if b.chance(0.15) and i else 1
        c = cin if group > 1 else c
        pre = b.chance(0.2) and p
        if pre:
            y = b.op("Pad", [y, b.ints(0, 0, p, p, 0, 0, p, p)], y.dims[:2] + [each(lambda t: t + 2 * p, t_) for t_ in y.dims[2:]])
            p = 0
        outs = [each(lambda t: (t + 2 * p - k) // st[j] + 1, y.dims[2 + j]) for j in range(2)]
        if any(min(o if isinstance(o, tuple) else [o]) < 1 for o in outs) or elements([y.dims[0], c] + outs) > 3000:
            break
        ins = [y, b.weight(c, cin // group, k, k, scale=0.3)]
        if b.chance(0.7):
            ins.append(b.weight(c))
        y = b.op("Conv", ins, [y.dims[0], c] + outs, kernel_shape=[k, k], strides=list(st), pads=[p] * 4, group=group)
        if b.chance(0.3):
            y = affine(b, y)
        y = activation(b, y) if b.chance(0.5) else unary(b, y, ["Relu"])
        if b.chance(0.2):
            z = b.clip(y, 0, b.pick(6, 20))
            y = z
        if b.chance(0.15) and all(min(o if isinstance(o, tuple) else [o]) >= 2 for o in y.dims[2:]):
            y = b.op(b.pick("MaxPool", "AveragePool"), [y], y.dims[:2] + [each(lambda t: t // 2, t_) for t_ in y.dims[2:]],
                     kernel_shape=[2, 2], strides=[2, 2])
    B, C, T, W = y.dims
    if isinstance(C, int) and isinstance(W, int) and b.chance(0.8):
        y = b.transpose(y, [0, 2, 1, 3])
        y = b.reshape(y, [0, b.pick(0, -1), C * W], [B, T, C * W])
        if C * W <= 64:
            y = linear(b, y, x.static(2))
    b.keep(y)


@motif(2)
def pools(b):
    x = b.sequence()
    y = b.transpose(x, [0, 2, 1])
    f = b.pick(0, 1, 2)
    t = y.dims[2]
    if min(t if isinstance(t, tuple) else [t]) < 2:
        return
    if f == 0:
        y = b.op("GlobalAveragePool", [y], y.dims[:2] + [1])
    elif f == 1:
        pad = b.pick(0, 1)
        y = b.op(b.pick("MaxPool", "AveragePool"), [y], y.dims[:2] + [each(lambda v: (v + 2 * pad - 2) // 2 + 1, t)], kernel_shape=[2], strides=[2],
                 pads=[pad, pad])
    else:
        y = b.op("ConvTranspose", [y, b.weight(x.static(2), 3, 3)], [y.dims[0], 3, each(lambda v: 2 * (v - 1) + 3, t)], strides=[2])
        if b.chance(0.5):
            y = affine(b, y)
    b.keep(y)


# ---- moves ----
@motif(8)
def moves(b):
    x = b.any(lambda v: v.rank >= 1) or b.sequence()
    for _ in range(b.pick(1, 2, 3)):
        f = b.rng.randrange(11)
        if f <= 1 and x.rank >= 2:
            p = list(range(x.rank))
            b.rng.shuffle(p)
            x = b.transpose(x, p)
        elif f == 2 and x.rank < 5:
            x = b.unsqueeze(x, b.rng.randrange(x.rank + 1))
        elif f == 3 and 1 in x.dims:
            x = b.squeeze(x, b.pick(*[i for i, d in enumerate(x.dims) if d == 1]))
        elif f == 4 and x.rank >= 2:
            a = b.rng.randrange(x.rank - 1)
            m = each(lambda p, q: p * q, x.dims[a], x.dims[a + 1])
            dims = x.dims[:a] + [m] + x.dims[a + 2:]
            if sum(isinstance(d, tuple) for d in dims) <= 1:
                x = b.reshape(x, [(-1 if isinstance(d, tuple) else d) for d in dims], dims)
            else:
                x = b.reshape(x, [0] * a + [-1] + [d if isinstance(d, int) else 0 for d in x.dims[a + 2:]], dims) if all(
                    isinstance(d, int) for d in x.dims[a + 2:]) else x
        elif f == 5 and x.rank:
            a = b.rng.randrange(x.rank)
            x = b.slice(x, a, b.pick(0, 1, 0, -2), b.pick(None, 3, -1, 100), b.pick(1, 1, 1, 2))
        elif f == 6 and x.rank:
            a = b.rng.randrange(x.rank)
            y = b.any(lambda v: v.type == x.type and v.rank == x.rank and all(i == a or p == q for i, (p, q) in enumerate(zip(v.dims, x.dims)))) or x
            x = b.concat(b.pick([x, y], [y, x], [x], [x, y, x]), a)
        elif f == 7 and x.rank:
            a = b.rng.randrange(x.rank)
            n = x.static(a)
            if n and n > 1:
                k = b.pick(1, n // 2)
                parts = b.split(x, a, [k, n - k])
                b.keep(*parts)
                x = parts[b.pick(0, 1)]
        elif f == 8 and x.rank and x.type == F:
            pads = [b.pick(0, 0, 1, 2) for _ in range(2 * x.rank)]
            ins = [x, b.ints(*pads)]
            if b.chance(0.5):
                ins.append(b.const(np.float32(b.pick(0, 0, 1.5))))
            x = b.op("Pad", ins, [each(lambda t, p=pads[i], q=pads[x.rank + i]: t + p + q, d) for i, d in enumerate(x.dims)])
        elif f == 9 and x.rank:
            a = b.rng.randrange(x.rank)
            n = x.static(a)
            if n:
                i = b.const(np.array(b.pick(0, -1, [0], [n - 1, 0], [[0]]), np.int64))
                x = b.gather(x, i, a)
        elif f == 10 and x.rank:
            if b.chance(0.5):
                x = b.op("Tile", [x, b.ints(*[b.pick(1, 1, 2) for _ in x.dims])], None or x.dims) if False else b.un("Identity", x)
            else:
                m = each(lambda *v: math.prod(v), *x.dims)
                axis = b.rng.randrange(x.rank + 1)
                x = b.op("Flatten", [x], [each(lambda *v: math.prod(v), *x.dims[:axis]) if axis else 1,
                                          each(lambda *v: math.prod(v), *x.dims[axis:]) if axis < x.rank else 1], axis=axis) if m is not None else x
        if elements(x.dims) > 2048:
            return
    b.keep(x)


@motif(4)
def shapes(b):
    x = b.sequence()
    f = b.pick(0, 1, 2, 3, 4)
    B, T, n = x.dims
    if f == 0:
        s = b.concat([b.extent(x, 0), b.extent(x, 1), b.ints(n)], 0)
        y = b.reshape(unary(b, x), s, x.dims)
    elif f == 1:
        s = b.concat([b.extent(x, 0), b.ints(-1) if b.chance(0.7) else b.ints(n)], 0)
        if isinstance(T, int) and T == 1 or True:
            s = b.concat([b.extent(x, 0), b.ints(-1)], 0)
        y = b.reshape(x, s, [B, each(lambda t: t * n, T)])
    elif f == 2:
        r = b.op("Range", [b.const(np.array(0)), b.extent(x, 1, True), b.const(np.array(1))], [T], I64)
        y = b.bin("Add", x, b.unsqueeze(b.cast(r, F), 1))
    elif f == 3:
        s = b.shape_of(x)
        fill = b.op("ConstantOfShape", [s], x.dims, F, value=_tensor(b.pick(0.0, 1.0, 2.0)))
        y = b.bin(b.pick("Mul", "Add", "Sub"), x, fill)
    else:
        s = b.shape_of(x)
        y = b.op("Expand", [b.slice(x, 1, 0, 1), b.op("Where", [b.op("Equal", [s, b.ints(-1)], [3], BOOL), b.ints(1, 1, 1), s], [3], I64)], x.dims)
        if 0 in (T if isinstance(T, tuple) else (T,)):
            return
    b.keep(y)


def _tensor(v):
    from onnx import numpy_helper
    return numpy_helper.from_array(np.array([v], np.float32))


# ---- reductions, casts, comparisons ----
@motif(4)
def reductions(b):
    x = b.floats()
    kinds = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceProd", "ReduceLogSumExp", "ReduceLogSum"]
    axes = sorted(b.rng.sample(range(x.rank), b.pick(1, 1, min(2, x.rank))))
    if any(0 in (x.dims[a] if isinstance(x.dims[a], tuple) else (x.dims[a],)) for a in axes):
        return
    keep = b.pick(0, 1)
    y = b.reduce(b.pick(*kinds), x, axes, keep)
    if not keep and len(axes) == 1 and b.chance(0.6):
        y = b.unsqueeze(y, axes[0])
    b.keep(y)


@motif(3)
def casts(b):
    x = b.floats()
    kind = b.pick(F, F, F16, F64, I64, I32)
    if kind in (I64, I32):
        x = b.clip(b.un("Round", x), -100, 100)
        x = b.where(b.un("IsNaN", x, BOOL), b.num(0, x), x)
        x.type = F
    y = b.cast(x, kind)
    if kind in (I64, I32):
        b.keep(y)
        y = b.bin(b.pick("Add", "Mul", "Sub"), y, b.const(np.array(b.pick(0, 1, 2)), kind))
    elif kind in (F16, F64) and b.chance(0.6):
        y = unary(b, y, ["Relu", "Neg", "Sqrt", "Sigmoid"])
    b.keep(b.cast(y, F))


@motif(4)
def compared(b):
    x = b.floats()
    c = b.op(b.pick("Greater", "Less", "Equal"), [x, b.num(b.pick(0, 0.5, -1), x)], x.dims, BOOL)
    f = b.pick(0, 1, 2, 3)
    if f == 1:
        c = b.un("Not", c)
    elif f == 2:
        c = b.op(b.pick("And", "Or", "Xor"), [c, b.un("Not", c) if b.chance(0.3) else b.const(b.np.random(1) < 0.5)], x.dims, BOOL)
    b.keep(c)
    y = b.where(c, x, b.num(b.pick(0, -1e9, 1), x)) if b.chance(0.6) else b.where(c, b.bin("Mul", x, b.num(0.1, x)), x)
    y.type = F
    b.keep(y)


@motif(2)
def outer_masks(b):
    n = b.pick(4, 6, (5, 3))
    x = b.input([b.batch, n, 4])
    r = b.op("Range", [b.const(np.array(0)), b.extent(x, 1, True), b.const(np.array(1))], [n], I64)
    c = b.op(b.pick("Less", "Greater", "LessOrEqual") if b.opset >= 12 else "Less", [b.unsqueeze(r, 0), b.unsqueeze(r, 1)], [n, n], BOOL)
    if b.chance(0.5):
        d = b.op("Greater", [b.unsqueeze(r, 0), b.bin("Sub", b.unsqueeze(r, 1), b.const(np.array(b.pick(2, 3))))], [n, n], BOOL)
        c = b.op("And", [c, d], [n, n], BOOL)
    m = b.unsqueeze(c, 0)
    if b.chance(0.3):
        m = b.slice(m, 1, -1, None)
    if b.chance(0.3):
        b.keep(m)
    s = b.matmul(x, b.transpose(x, [0, 2, 1]))
    if m.dims[1] != 1 or True:
        y = masked(b, s, m)
        b.keep(b.matmul(y, x))


# ---- embeddings, positions ----
@motif(4)
def embedding(b):
    n, rows_ = b.width, b.pick(5, 10)
    ids = b.input([b.batch, b.time], b.pick(I64, I64, I32), 0, rows_)
    y = b.gather(b.weight(rows_, n), ids, 0)
    if b.chance(0.5):
        y = b.bin("Mul", y, b.num(math.sqrt(n), y))
    T = b.time
    top = max(T) if isinstance(T, tuple) else T
    if b.chance(0.6):
        table = b.weight(max(top, 1), n)
        f = b.pick(0, 1, 2)
        if f == 0 and isinstance(T, int):
            p = table
        elif f == 1:
            r = b.op("Range", [b.const(np.array(0)), b.extent(ids, 1, True), b.const(np.array(1))], [T], I64)
            p = b.gather(table, r, 0)
        else:
            p = b.op("Slice", [table, b.ints(0), b.extent(ids, 1), b.ints(0)], [T, n])
        if b.chance(0.5):
            p = b.unsqueeze(p, 0)
        y = b.bin("Add", y, p)
    if b.chance(0.5):
        y = norm(b, y, False)
    b.keep(y)


# ---- control ----
@motif(3)
def branches(b):
    x = b.floats()
    from build import Graph
    names = []
    bodies = {}
    for key in ("then_branch", "else_branch"):
        outer = b.g
        b.g = Graph(b.opset)
        y = x
        for _ in range(b.pick(0, 1, 2)):
            y = b.pick(unary, activation)(b, y) if b.chance(0.7) else b.bin("Mul", y, b.num(2, y))
        if y is x:
            y = b.un("Identity", x)
        b.g.outputs.append((y.name, F))
        bodies[key], b.g = b.g, outer
        names.append(y)
    if b.chance(0.4):
        c = b.const(np.array(b.pick(True, False)))
    elif b.chance(0.5):
        c = b.input([], BOOL)
    else:
        c = b.op("Greater", [b.extent(x, 0, True), b.const(np.array(1))], [], BOOL)
    out = Value(b.name(), F, x.dims)
    from build import Node
    b.g.nodes.append(Node("If", [c.name], [out.name], {}, bodies))
    b.keep(out)


def body_of_layers(b, x):
    """A body graph that reads x from outside: attention, feed-forward and norms, its result of x's extents."""
    from build import Graph
    from mutate import insert
    outer, pool, outputs = b.g, b.pool, b.outputs
    b.main, b.g, b.outputs = outer, Graph(b.opset), []
    y = x
    for _ in range(b.pick(1, 1, 2, 3)):
        b.pool = [y]
        b.pick(attention, attention, feed_forward, feed_forward, norms)(b)
        y = next((v for v in reversed(b.pool) if v.dims == x.dims and v.type == F), y)
    if y is x:
        y = b.un("Identity", x)
    if b.chance(0.25):
        insert(b.g, b.rng)
    body, b.g, b.pool, b.outputs, b.main = b.g, outer, pool, outputs, None
    body.outputs = [(y.name, F)]
    return body.prune()


@motif(4)
def merged(b):
    """A merged decoder: an If whose branches are layers with the same, nearly the same or other weights, which the
    branches or the main graph hold."""
    from build import Node
    x = b.sequence()
    one = body_of_layers(b, x)
    if b.chance(0.6):
        two = one.copy()
        floats = [c for c, v in two.consts.items() if v.dtype == np.float32 and v.size > 1]
        if floats and b.chance(0.5):
            c = b.rng.choice(floats)
            two.consts[c] = two.consts[c].copy()
            two.consts[c].flat[b.rng.randrange(two.consts[c].size)] += 0.25
        elif b.chance(0.5):
            b.g.consts.update(one.consts)
            one.consts, two.consts = {}, {}
    else:
        two = body_of_layers(b, x)
    c = b.input([], BOOL) if b.chance(0.8) else b.op("Greater", [b.extent(x, 1, True), b.const(np.array(4))], [], BOOL)
    out = Value(b.name(), F, x.dims)
    b.g.nodes.append(Node("If", [c.name], [out.name], {}, {"then_branch": one, "else_branch": two}))
    b.keep(out)


@motif(1)
def loop_of_layers(b):
    """A Loop whose body is layers of a carried value."""
    from build import Node
    x = b.sequence()
    state = Value(b.name(), F, x.dims)
    it, cond, go = Value(b.name(), I64, []), Value(b.name(), BOOL, []), Value(b.name(), BOOL, [])
    body = body_of_layers(b, state)
    body.inputs = [(it.name, I64, []), (cond.name, BOOL, []), (state.name, F, None)]
    body.nodes.append(Node("Identity", [cond.name], [go.name], {}))
    body.outputs = [(go.name, BOOL)] + body.outputs
    out = Value(b.name(), F, x.dims)
    b.g.nodes.append(Node("Loop", [b.const(np.array(b.pick(1, 2))).name, b.const(np.array(True)).name, x.name], [out.name], {}, {"body": body}))
    b.keep(out)


@motif(2)
def loops(b):
    from build import Graph, Node
    x = b.floats()
    outer = b.g
    b.g = Graph(b.opset)
    it, cond, state = Value(b.name(), I64, []), Value(b.name(), BOOL, []), Value(b.name(), F, x.dims)
    b.g.inputs = [(it.name, I64, []), (cond.name, BOOL, []), (state.name, F, None)]
    y = unary(b, state, ["Tanh", "Relu", "Neg", "Sigmoid"]) if b.chance(0.5) else b.bin("Add", state, x)
    y = b.bin("Mul", y, b.num(0.5, y))
    scan = b.un("Abs", state) if b.chance(0.5) else None
    keep_on = b.un("Identity", cond)
    b.g.outputs = [(keep_on.name, BOOL), (y.name, F)] + ([(scan.name, F)] if scan is not None else [])
    body, b.g = b.g, outer
    n = b.pick(0, 1, 3)
    trips = b.const(np.array(n)) if b.chance(0.6) else b.input([], I64, 0, 4)
    outs = [Value(b.name(), F, x.dims)]
    if scan is not None:
        outs.append(Value(b.name(), F, [n] + list(x.dims)))
    b.g.nodes.append(Node("Loop", [trips.name, b.const(np.array(True)).name if b.chance(0.7) else "", x.name], [o.name for o in outs], {}, {"body": body}))
    b.keep(outs[0])
    if scan is not None:
        b.outputs.append(outs[1])


# ---- 8 bits ----
def quantized(b, x, kind):
    s = b.const(np.float32(b.pick(0.02, 0.05, 0.1)))
    z = b.const(np.array(b.pick(0, 3, 128) if kind == U8 else b.pick(0, 0, -2), kind and (np.uint8 if kind == U8 else np.int8)))
    q = b.op("QuantizeLinear", [x, s, z], x.dims, kind)
    return b.op("DequantizeLinear", [q, s, z], x.dims, F)


@motif(7)
def eight_bits(b):
    x = b.sequence()
    k = x.static(2)
    n = b.pick(k, 4, 8)
    f = b.pick(0, 1, 1, 2, 2)
    if f == 0:
        y = quantized(b, x, b.pick(U8, I8))
    elif f == 1:
        y = quantized(b, x, b.pick(U8, U8, I8))
        per = b.chance(0.5) and b.opset >= 13
        w = b.const(b.np.integers(-127, 128, (k, n)).astype(np.int8))
        ws = b.const(b.np.uniform(0.005, 0.02, n if per else ()).astype(np.float32))
        wz = b.const(np.zeros(n if per else (), np.int8)) if b.chance(0.8) else b.const(b.np.integers(-3, 3, n if per else ()).astype(np.int8))
        wd = b.op("DequantizeLinear", [w, ws, wz], [k, n], F, axis=b.pick(1, -1) if per else None)
        y = b.op("MatMul", [y, wd], x.dims[:2] + [n])
        if b.chance(0.6):
            y = b.bin("Add", y, row(b, y))
        if b.chance(0.3):
            y = quantized(b, y, U8)
    else:
        q, s, z = b.ops("DynamicQuantizeLinear", [x], [(U8, x.dims), (F, []), (U8, [])])
        w = b.const(b.np.integers(-127, 128, (k, n)).astype(np.int8))
        wz = b.const(np.array(b.pick(0, 0, 2), np.int8))
        i = b.op("MatMulInteger", [q, w, z, wz] if b.chance(0.9) else [q, w, z], x.dims[:2] + [n], I32)
        sc = b.bin("Mul", s, b.const(b.np.uniform(0.005, 0.02, b.pick((), (1,), (n,))).astype(np.float32)))
        y = b.bin("Mul", b.cast(i, F), sc)
        if b.chance(0.7):
            y = b.bin("Add", y, row(b, y))
        if b.chance(0.3):
            y = activation(b, y)
    b.keep(y)


# ---- recurrent ----
@motif(2)
def recurrent(b):
    x = b.sequence()
    if 0 in (x.dims[1] if isinstance(x.dims[1], tuple) else (x.dims[1],)):
        return
    n = x.static(2)
    h = b.pick(3, 4)
    kind, gates = b.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    d = b.pick(1, 1, 2)
    y = b.transpose(x, [1, 0, 2])
    ins = [y, b.weight(d, gates * h, n, scale=0.4), b.weight(d, gates * h, h, scale=0.4)]
    bias = b.chance(0.8)
    ins.append(b.weight(d, 2 * gates * h) if bias else "")
    state = b.chance(0.4)
    if state:
        ins += ["", b.input([d, x.dims[0], h])] + ([b.input([d, x.dims[0], h])] if kind == "LSTM" else [])
    attrs = {"hidden_size": h, "direction": "bidirectional" if d == 2 else b.pick("forward", "forward", "reverse")}
    if kind == "GRU":
        attrs["linear_before_reset"] = b.pick(0, 1)
    outs = [(F, [x.dims[1], d, x.dims[0], h]), (F, [d, x.dims[0], h])] + ([(F, [d, x.dims[0], h])] if kind == "LSTM" else [])
    out = b.ops(kind, ins, outs, **attrs)
    z = b.squeeze(out[0], 1) if d == 1 else b.reshape(b.transpose(out[0], [0, 2, 1, 3]), [0, 0, 2 * h], [x.dims[1], x.dims[0], 2 * h])
    if b.chance(0.5):
        b.outputs += out[1:]
    b.keep(b.transpose(z, [1, 0, 2]))


@motif(2)
def twice(b):
    """The same nodes twice, which pass cse joins."""
    x = b.floats()
    k = b.pick("Tanh", "Sigmoid", "Relu", "Abs")
    y, z = b.un(k, x), b.un(k, x)
    b.keep(b.bin(b.pick("Add", "Mul", "Sub"), y, b.bin("Mul", z, b.num(2, z))))


@motif(2)
def sequences(b):
    """TopK, CumSum, Trilu, OneHot, ScatterND and others that masks and searches use."""
    x = b.floats()
    f = b.pick(0, 1, 2, 3)
    axis = b.rng.randrange(x.rank)
    if f == 0 and x.static(axis):
        k = b.pick(1, x.static(axis))
        dims = list(x.dims)
        dims[axis] = k
        v, i = b.ops("TopK", [x, b.ints(k)], [(F, dims), (I64, dims)], axis=b.axis(x, axis), largest=b.pick(None, 0, 1))
        b.keep(v)
    elif f == 1:
        b.keep(b.op("CumSum", [x, b.const(np.array(b.axis(x, axis)))], x.dims, exclusive=b.pick(None, 1), reverse=b.pick(None, 1)))
    elif f == 2 and b.opset >= 14 and x.rank >= 2:
        b.keep(b.op("Trilu", [x] + ([b.const(np.array(b.pick(0, 1, -1)))] if b.chance(0.5) else []), x.dims, upper=b.pick(0, 1)))
    elif f == 3:
        b.keep(b.op(b.pick("Mean", "Sum", "Max", "Min"), [x] * b.pick(1, 2, 3), x.dims))


def make(b, steps):
    """Compose motifs in b; afterwards b.g is a whole graph."""
    b.ranges = {}
    b.outputs = []
    b.sequence()
    fs, ws = zip(*MOTIFS)
    for _ in range(steps):
        b.rng.choices(fs, ws)[0](b)
    used = set()
    for n in b.g.nodes:
        used.update(n.ins)
    ends = [v for v in b.pool if v.name not in used and v.name not in b.ranges]
    outs = ends + b.outputs
    if b.chance(0.15) and b.pool:
        outs.append(b.rng.choice(b.pool))
    seen = set(b.ranges)
    b.g.outputs = [(v.name, v.type) for v in outs if not (v.name in seen or seen.add(v.name))]
    return b.g.prune()
