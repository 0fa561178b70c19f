"""Delta debugging: fewer nodes, as long as the same kind of result stays wrong."""
import numpy as np

import check
import oracle
from build import ONNX, NP


def values(g, feeds):
    """Every value of the graph on these inputs, or None."""
    try:
        got = oracle.interpret(oracle.evaluator(g.model()), feeds)
    except Exception:
        return None
    out = {o: np.asarray(got[o]) for n in g.nodes for o in n.outs if o}
    out.update(feeds)
    out.update(g.consts)
    return out


def where_of(steno, g, feeds, level):
    """Where a graph is wrong on these inputs, or None."""
    try:
        if level == "crash":
            check.judge(steno, g.model(), [feeds], write=(1, 2, 3))
            return None
        i = int(level.split()[1])
        check.judge(steno, g.model(), [feeds], levels=(i,) if level.startswith("level") else (), write=() if level.startswith("level") else (i,),
                    deep="reference" in level)
    except check.Finding as f:
        return f.where, "planned wrongly" in f.what, "references" in f.what or " not " in f.what
    except oracle.Crash:
        return "crash"
    except Exception:
        return None
    return None


def candidates(g, vals, extents):
    if len(g.outputs) > 1:
        for o in g.outputs:
            c = g.copy()
            c.outputs = [o]
            yield c.prune()
    made = {o: n for n in g.nodes for o in n.outs}
    for o, _ in list(g.outputs):  # an earlier value is the output
        n = made.get(o)
        if n is None:
            continue
        for x in n.ins:
            if x in made and x in vals and vals[x].dtype in ONNX and len(g.outputs) == 1:
                c = g.copy()
                c.outputs = [(x, ONNX[vals[x].dtype])]
                yield c.prune()
    for i, n in enumerate(g.nodes):  # a value is an input
        if all(o in vals and vals[o].dtype in ONNX for o in n.outs if o) and not all(o in {x for x, _ in g.outputs} for o in n.outs):
            for dims in (True, False):
                c = g.copy()
                del c.nodes[i]
                for o in n.outs:
                    if o and o not in {x for x, _ in g.outputs}:
                        d = extents.get(o) if dims else None
                        c.inputs.append((o, ONNX[vals[o].dtype], list(vals[o].shape) if d is None else d))
                if any(o in {x for x, _ in g.outputs} for o in n.outs):
                    continue
                yield c.prune()
    for i, n in enumerate(g.nodes):  # a node passes an input on
        o = n.outs[0]
        if o not in vals:
            continue
        for x in n.ins:
            if x in vals and vals[x].dtype == vals[o].dtype and vals[x].shape == vals[o].shape and x not in g.consts:
                c = g.copy()
                del c.nodes[i]
                for m in c.nodes:
                    m.ins = [x if y == o else y for y in m.ins]
                    for body in m.bodies.values():
                        rename(body, o, x)
                if any(y == o for y, _ in c.outputs):
                    if x not in made:
                        continue
                    c.outputs = [(x if y == o else y, t) for y, t in c.outputs]
                yield c.prune()


def rename(g, a, b):
    for n in g.nodes:
        n.ins = [b if y == a else y for y in n.ins]
        for body in n.bodies.values():
            rename(body, a, b)


def shrink(steno, g, feeds, where, extents, budget=600):
    want = where_of(steno, g, feeds, where)
    if want is None:
        return g, feeds
    tries = 0
    smaller = True
    while smaller and tries < budget:
        smaller = False
        vals = values(g, feeds)
        if vals is None:
            break
        for c in candidates(g, vals, extents):
            tries += 1
            if tries > budget:
                break
            if not c.outputs or not c.nodes or len(c.nodes) >= len(g.nodes) and len(c.outputs) >= len(g.outputs):
                continue
            f = {i[0]: vals[i[0]] for i in c.inputs if i[0] in vals}
            if len(f) == len(c.inputs) and where_of(steno, c, f, where) == want:
                g, feeds, smaller = c, f, True
                break
    return g, feeds
