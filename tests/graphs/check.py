"""One graph: made from a seed, run everywhere, judged."""
import random

import numpy as np

import inputs
import motifs
import mutate
import oracle
from build import Builder


class Finding(Exception):
    """A result that is wrong. where: "level 2", "written 3", ...; what: message; k: number of the set of inputs."""

    def __init__(self, where, what, k):
        super().__init__("%s: %s" % (where, what))
        self.where, self.what, self.k = where, what, k


def make(seed):
    """(graph, sets of inputs, extents of its values) of a seed; None when it has nothing to compute."""
    b = Builder(seed)
    rng = random.Random(seed ^ 0x5eed)
    g = motifs.make(b, rng.choice([1, 2, 2, 3, 4, 5]))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        mutate.mutate(g, rng, b.kinds)
    g.prune()
    if not g.outputs or not g.nodes:
        return None
    kinds = rng.sample(inputs.KINDS[1:], 2)
    sets = [inputs.make(g, b.ranges, 0, "normal", seed), inputs.make(g, b.ranges, 1, "normal", seed + 1)]
    sets += [inputs.make(g, b.ranges, rng.randrange(2), k, seed + 2 + i) for i, k in enumerate(kinds)]
    return g, sets, b.extents, ["normal", "normal"] + kinds


def judge(steno, model, sets, levels=(0, 1, 2, 3), write=(3,), deep=True):
    """Run and compare; raises Finding or oracle.Crash. Returns False for a graph that the references refuse."""
    data = model.SerializeToString()
    want = oracle.runtime(data, sets)
    if isinstance(want, str):
        return False
    keep = [k for k in range(len(sets)) if isinstance(want[k], list)]
    if not keep:
        return False
    refs = [oracle.References(model, sets[k], want[k], steno.how & 3 != 1) for k in keep]
    if deep:
        for r in refs:
            r.evaluate()
        if all(r.undefined for r in refs):
            return False
    sets = [sets[k] for k in keep]
    ran, written = steno.run(data, sets, levels, write)

    def compare(where, outs, again=None):
        for k, r in enumerate(refs):
            out = outs if isinstance(outs, str) else outs[k]
            if isinstance(out, str):
                r.evaluate()
                if r.undefined or ("re-use buffer" in out and any(0 in v.shape for v in r.feeds.values())):
                    continue  # ONNX Runtime plans the wrong shapes of its Reduce of tensors without elements
                raise Finding(where, out, keep[k])
            w = r.wrong(out)
            if w and where.startswith("written") and again is not None and np.isnan(r.all[0][w[0]]).any():
                # ONNX Runtime's own normalisations give 0 for rows with infinities where their definition gives NaN
                if r.wrong(again(k)) is None:
                    continue
            if w:
                i, bad = w
                at = tuple(np.argwhere(bad)[0]) if bad.shape == out[i].shape else ()
                if at or bad.shape == ():
                    what = "output %d%s is %r, references %s" % (i, list(map(int, at)), out[i][at], [q[i][at].item() for q in r.all[:4] if q[i] is not None])
                else:
                    what = "output %d is %s %s, not %s %s" % (i, out[i].dtype, out[i].shape, r.all[0][i].dtype, r.all[0][i].shape)
                raise Finding(where, what, keep[k])

    for i in sorted(ran):
        compare("level %d" % i, ran[i])
    for i in sorted(written):
        if isinstance(written[i], str) and written[i].startswith("unsupported") and steno.how >> 3:
            continue  # the other opset cannot express it
        if isinstance(written[i], str):
            compare("write %d" % i, written[i])
            continue
        oracle.AT_WRITTEN[0] = 1
        outs = oracle.runtime(written[i], sets)
        oracle.AT_WRITTEN[0] = 0
        compare("written %d" % i, outs,
                lambda k, i=i: oracle.outputs_of(oracle.onnx.load_from_string(written[i]), sets[k], refs[k].all[0]))
        if deep:
            outs = oracle.reference(oracle.onnx.load_from_string(written[i]), sets)
            if isinstance(outs, str) and (outs.startswith("RuntimeContextError") or "No implementation for operator" in outs):
                continue  # a function whose operators the evaluator lacks
            compare("written %d by the reference" % i, outs if isinstance(outs, str) else [o if o is not oracle.Undefined else refs[k].all[0] for k, o in enumerate(outs)])
    return True
