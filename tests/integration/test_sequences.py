#!/usr/bin/env python3
"""Sequences of tensors against ONNX Runtime, at every level and as a written file (TAP). Skipped without its packages.

The CIF loop is what torch.onnx exports for FunASR's scripted `cif` (Paraformer with word times): a Loop carries
sequences, and ConcatFromSequence stacks them."""
import importlib.util
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, SLOW

STENO = os.path.join(BUILD, "steno")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

CIF = HEAD + """cif (float[b, t, d] hidden, float[b, t] alphas) => (float[b, t, d] frames, float[b, t] fires, int64 n) {
  shape = Shape(hidden)
  zero = Constant<value_int = 0>()
  one = Constant<value_int = 1>()
  go = Constant<value = bool {1}>()
  b = Shape<start = 0, end = 1>(hidden)
  bd = Gather(shape, bd_at)
  bd_at = Constant<value_ints = [0, 2]>()
  t = Gather(shape, one)
  integrate0 = ConstantOfShape(b)
  frame0 = ConstantOfShape(bd)
  fires0 = SequenceEmpty()
  frames0 = SequenceEmpty()
  integrate, frame, fires_s, frames_s = Loop(t, go, integrate0, frame0, fires0, frames0) <body =
    step (int64 i, bool c, float[n] integrate, float[n, m] frame, seq(float[]) fires, seq(float[]) frames)
      => (bool c_out, float[n] integrate_out, float[n, m] frame_out, seq(float[]) fires_out, seq(float[]) frames_out) {
      c_out = Identity(c)
      alpha = Gather<axis = 1>(alphas, i)
      h = Gather<axis = 1>(hidden, i)
      f1 = Constant<value_float = 1.0>()
      last = Constant<value_int = 1>()
      rest = Sub(f1, integrate)
      sum = Add(integrate, alpha)
      fires_out = SequenceInsert(fires, sum)
      fired = GreaterOrEqual(sum, f1)
      less = Sub(sum, f1)
      integrate_out = Where(fired, less, sum)
      cur = Where(fired, rest, alpha)
      remains = Sub(alpha, cur)
      cur2 = Unsqueeze(cur, last_v)
      last_v = Constant<value_ints = [1]>()
      part = Mul(cur2, h)
      grown = Add(frame, part)
      frames_out = SequenceInsert(frames, grown)
      fired2 = Unsqueeze(fired, last_v)
      remains2 = Unsqueeze(remains, last_v)
      fresh = Mul(remains2, h)
      frame_out = Where(fired2, fresh, grown)
    }>
  fires = ConcatFromSequence<axis = 1, new_axis = 1>(fires_s)
  frames = ConcatFromSequence<axis = 1, new_axis = 1>(frames_s)
  n = SequenceLength(frames_s)
}
"""

CHANGES = HEAD + """changes (float[a, b] x, float[c, b] y, int64 at) => (float[d, b] z, float[e, b] first, int64 n, float[f, b] gone) {
  s = SequenceConstruct(x, y)
  s1 = SequenceInsert(s, y, at)
  s2 = SequenceInsert(s1, x)
  z = ConcatFromSequence<axis = 0>(s2)
  first = SequenceAt(s2, at)
  s3 = SequenceErase(s2, at)
  s4 = SequenceErase(s3)
  n = SequenceLength(s4)
  gone = ConcatFromSequence<axis = -2>(s4)
}
"""

SPLITS = HEAD + """splits (float[a, b] x, int64[k] parts, int64 at) => (float[c, b] y, float[d, e] u, float[f] v, int64 n) {
  two = Constant<value_int = 2>()
  s = SplitToSequence<axis = 0>(x, parts)
  y = SequenceAt(s, at)
  t = SplitToSequence<axis = 1>(x, two)
  n = SequenceLength(t)
  u = SequenceAt(t, at)
  w = SplitToSequence<axis = 1, keepdims = 0>(x)
  v = SequenceAt(w, at)
}
"""

# a sequence that an If chooses, and that its branches capture
BRANCHES = HEAD + """branches (float[a, b] x, bool c) => (float[d, b] y, int64 n) {
  s = SequenceConstruct(x, x)
  r = If(c) <then_branch = yes () => (seq(float[]) t) { t = SequenceInsert(s, x) },
             else_branch = no () => (seq(float[]) e) { e = Identity(s) }>
  y = ConcatFromSequence<axis = 0>(r)
  n = SequenceLength(r)
}
"""


# an optional tensor, or an optional sequence, that an If makes or leaves out; asked and read afterwards
OPTIONAL = HEAD + """optional (float[a, b] x, bool c) => (float[d, b] y, bool has) {
  r = If(c) <then_branch = yes () => (optional(float[p, q]) t) { t = Optional(x) },
             else_branch = no () => (optional(float[p, q]) e) { e = Optional<type: type_proto = float[p, q]>() }>
  has = OptionalHasElement(r)
  y = If(has) <then_branch = got () => (float[d, b] v) { v = OptionalGetElement(r) },
               else_branch = none () => (float[d, b] w) { u = Concat<axis = 0>(x, x) w = Neg(u) }>
}
"""

OPTIONAL_SEQUENCE = HEAD + """optional (float[a, b] x, bool c) => (float[d, b] y, bool has) {
  r = If(c) <then_branch = yes () => (optional(seq(float[p, q])) t) { s = SequenceConstruct(x, x) t = Optional(s) },
             else_branch = no () => (optional(seq(float[p, q])) e) { e = Optional<type: type_proto = seq(float[p, q])>() }>
  has = OptionalHasElement(r)
  z = If(has) <then_branch = got () => (seq(float[p, q]) v) { v = OptionalGetElement(r) },
               else_branch = none () => (seq(float[p, q]) w) { w = SequenceConstruct(x) }>
  y = ConcatFromSequence<axis = 0>(z)
}
"""


def cases():
    import numpy as np
    rng = np.random.default_rng(5)

    def f(*shape):
        return rng.standard_normal(shape).astype("f4")

    for b, t in ((1, 1), (1, 40), (3, 25)):
        alphas = rng.uniform(0, 0.6, (b, t)).astype("f4")
        yield f"a loop that collects {t} frames of {b}", CIF, {"hidden": f(b, t, 12), "alphas": alphas}
    for at in (0, 1, 2, -1, -2):
        yield f"insertion and removal at {at}", CHANGES, {"x": f(2, 5), "y": f(3, 5), "at": np.array(at)}
    for at in (0, 1, -1):
        yield f"parts, the one at {at}", SPLITS, {"x": f(7, 5), "parts": np.array([2, 4, 1]), "at": np.array(at)}
    for c in (True, False):
        yield f"branches, {c}", BRANCHES, {"x": f(2, 3), "c": np.array(c)}
        yield f"an optional tensor, {c}", OPTIONAL, {"x": f(2, 3), "c": np.array(c)}
        yield f"an optional sequence, {c}", OPTIONAL_SEQUENCE, {"x": f(2, 3), "c": np.array(c)}


def steno(path, feeds, count, *args):
    import numpy as np
    with tempfile.TemporaryDirectory() as d:
        cmd = [STENO, "run", path, "--output-dir", d, *args]
        for k, (n, v) in enumerate(feeds.items()):
            np.save(f"{d}/in{k}.npy", v)
            cmd += ["--input", f"{n}={d}/in{k}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=60 * SLOW, check=False)
        if p.returncode:
            return p.stderr.strip()
        return [np.load(f"{d}/{k}.npy") for k in range(count)]


def session(model):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.graph_optimization_level, o.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
    return ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def differ(want, got):
    import numpy as np
    if isinstance(got, str):
        return got
    for i, (w, g) in enumerate(zip(want, got)):
        if w.shape != g.shape or w.dtype != g.dtype or not np.allclose(g, w, rtol=1e-5, atol=1e-6):
            return f"output {i}: {g.dtype}{g.shape} {g.ravel()[:4]}, expected {w.dtype}{w.shape} {w.ravel()[:4]}"
    return ""


def constants_first(graph):
    """The text gives constants where they are easiest to read, not before their readers."""
    nodes = sorted(graph.node, key=lambda n: n.op_type != "Constant")
    del graph.node[:]
    graph.node.extend(nodes)
    for n in graph.node:
        for a in n.attribute:
            if a.type == a.GRAPH:
                constants_first(a.g)


def run(text, feeds):
    import onnx
    from onnx import parser
    model = parser.parse_model(text)
    constants_first(model.graph)
    with tempfile.TemporaryDirectory() as d:
        path, out = f"{d}/in.onnx", f"{d}/out.onnx"
        onnx.save(model, path)
        want = session(path).run(None, feeds)
        for level in "0123":
            why = differ(want, steno(path, feeds, len(want), "--opt-level", level))
            if why:
                return f"--opt-level {level}: {why}"
        for opset in ("17", "23") if text in (CIF, BRANCHES, OPTIONAL, OPTIONAL_SEQUENCE) else ("11", "17", "23"):  # bodies with sequences: from 13 on
            p = subprocess.run([STENO, "optimize", path, "-o", out, "--opset", opset], capture_output=True, text=True,
                               timeout=60 * SLOW, check=False)
            if p.returncode:
                return f"optimize --opset {opset}: {p.stderr.strip()}"
            onnx.checker.check_model(out, full_check=True)
            why = differ(want, session(out).run(None, feeds)) or differ(want, steno(out, feeds, len(want)))
            if why:
                return f"written in opset {opset}: {why}"
    return ""


def refused():
    """A model whose output is a sequence has no place in an .npy file."""
    import numpy as np
    import onnx
    from onnx import parser
    model = parser.parse_model(HEAD + "g (float[2] x) => (seq(float[]) s) { s = SequenceConstruct(x, x) }")
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/in.onnx")
        why = steno(f"{d}/in.onnx", {"x": np.zeros(2, "f4")}, 1)
        return "" if isinstance(why, str) and "sequences as inputs or outputs" in why else str(why)


def damaged():
    """Operators that move bytes take a sequence for one; what reads it then says so."""
    import numpy as np
    import onnx
    from onnx import parser
    model = parser.parse_model(HEAD + """g (float[2] x, int64[1] from, int64[1] to) => (float[n] y) {
      s = SequenceConstruct(x, x)
      t = Slice(s, from, to)
      y = ConcatFromSequence<axis = 0>(t)
    }""")
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/in.onnx")
        for a, b in ((1, 1000), (0, 8), (0, 100), (0, 250), (0, 300), (64, 400)):
            why = steno(f"{d}/in.onnx", {"x": np.zeros(2, "f4"), "from": np.array([a]), "to": np.array([b])}, 1)
            if not isinstance(why, str) or "damaged sequence" not in why:
                return f"bytes {a} to {b}: {why}"
    return ""


def refuses_what_is_not_there():
    """The value of an empty optional, an optional as a model's output, and a torn optional are errors that say so."""
    import numpy as np
    import onnx
    from onnx import parser
    none = "Optional<type: type_proto = float[2]>()"
    for body, out, want in (("y = OptionalGetElement(s)", "float[2] y", "has no value"),
                            ("y = Identity(s)", "optional(float[2]) y", "optionals as its outputs"),
                            ("t = Optional(x) u = Slice(t, from, to) y = OptionalGetElement(u)", "float[2] y", "damaged optional")):
        model = parser.parse_model(HEAD + f"g (float[2] x, int64[1] from, int64[1] to) => ({out}) {{ s = {none} {body} }}")
        with tempfile.TemporaryDirectory() as d:
            onnx.save(model, f"{d}/in.onnx")
            for to in (8, 100, 120, 130, 1000):
                why = steno(f"{d}/in.onnx", {"x": np.zeros(2, "f4"), "from": np.array([0]), "to": np.array([to])}, 1)
                if "damaged" in want and to >= 136:
                    continue
                if not isinstance(why, str) or want not in why:
                    return f"{body}, {to} bytes: {why}"
    return ""


def given():
    """An optional tensor as a model's input is one that the caller gives."""
    import numpy as np
    import onnx
    from onnx import parser
    model = parser.parse_model(HEAD + "g (optional(float[n]) x) => (float[n] y, bool h) { h = OptionalHasElement(x) y = OptionalGetElement(x) }")
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/in.onnx")
        x = np.arange(3, dtype="f4")
        return differ([x, np.array(True)], steno(f"{d}/in.onnx", {"x": x}, 2))


def main():
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        print("ok 1 - sequences # SKIP the packages onnx and onnxruntime are absent\n1..1")
        return 0
    bad = n = 0
    tests = [(name, lambda text=text, feeds=feeds: run(text, feeds)) for name, text, feeds in cases()]
    for name, test in tests + [("a sequence as a model's output is refused", refused),
                               ("a damaged sequence is refused", damaged),
                               ("empty and damaged optionals are refused", refuses_what_is_not_there),
                               ("an optional input is given", given)]:
        n += 1
        why = test()
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {n} - {name}" + (f"\n# {why}" if why else ""), flush=True)
    print(f"1..{n}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
