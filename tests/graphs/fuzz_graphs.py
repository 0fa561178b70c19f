#!/usr/bin/env python3
"""Random graphs of the motifs of speech and language models, against ONNX Runtime and the ONNX reference evaluator.

fuzz_graphs.py --runner PROGRAM [--from SEED] [--count N | --minutes M] [--store DIR] [--show]
fuzz_graphs.py --runner PROGRAM --replay DIR/<seed>

A graph that fails is made smaller and stored in DIR/<seed>: model.onnx, inputs.npz, expected.npz, what.txt."""
import argparse
import collections
import os
import sys
import time
import traceback

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check  # noqa: E402
import oracle  # noqa: E402
import shrink  # noqa: E402


def text(g, depth=0):
    out = []
    pad = "  " * depth
    for name, t, d in g.inputs:
        out.append("%sinput %s %s %s" % (pad, name, t, d))
    for c, a in g.consts.items():
        out.append("%s%s = %s %s %s" % (pad, c, a.dtype, a.shape, np.array2string(a.ravel()[:6], precision=7)))
    for n in g.nodes:
        out.append("%s%s = %s(%s)%s" % (pad, ",".join(n.outs), n.op, ",".join(n.ins), " %s" % n.attrs if n.attrs else ""))
        for k, b in n.bodies.items():
            out.append("%s  %s:" % (pad, k))
            out += text(b, depth + 2)
    out.append("%soutputs %s" % (pad, ",".join(o for o, _ in g.outputs)))
    return out


def store(folder, seed, g, feeds, finding, note):
    d = os.path.join(folder, str(seed))
    os.makedirs(d, exist_ok=True)
    m = g.model()
    onnx.save(m, os.path.join(d, "model.onnx"))
    np.savez(os.path.join(d, "inputs.npz"), **feeds)
    want = oracle.runtime(m.SerializeToString(), [feeds])
    if not isinstance(want, str) and not isinstance(want[0], str):
        np.savez(os.path.join(d, "expected.npz"), **{o: v for (o, _), v in zip(g.outputs, want[0])})
    with open(os.path.join(d, "what.txt"), "w") as f:
        f.write("seed %d, opset %d\n%s\n%s\n%s\n" % (seed, g.opset, finding, note, "\n".join(text(g))))


def one(steno, seed, folder, say):
    """"ok", "invalid", or a signature of what failed."""
    made = check.make(seed)
    if made is None:
        return "invalid"
    g, sets, extents, kinds = made
    write = (3,) if seed % 4 else (1, 2, 3)
    steno.how = (0, 0, 0, 0, 1, 2, 3, 4)[seed // 4 % 8] | (11 + seed // 8 % 11 if seed % 8 == 5 else 0) << 3
    try:
        return "ok" if check.judge(steno, g.model(), sets, write=write, deep=seed % 4 == 1) else "invalid"
    except check.Finding as f:
        where, what, k = f.where, f.what, f.k
    except oracle.Crash as f:
        where, what, k = "crash", str(f), 0
    small, feeds = shrink.shrink(steno, g, sets[k], where, extents)
    note = "inputs: %s" % kinds[k]
    try:  # the message about the small graph
        check.judge(steno, small.model(), [feeds], write=(1, 2, 3))
    except check.Finding as f:
        note += "\nsmall: %s" % f
    except oracle.Crash as f:
        note += "\nsmall: %s" % f
    if folder:
        store(folder, seed, small, feeds, "%s: %s" % (where, what), note)
    sig = where + ": " + " ".join(sorted(n.op for n in small.nodes))
    if say:
        print("seed %d: %s: %s\n%s\n  %s" % (seed, where, what, note, "\n  ".join(text(small))), flush=True)
    return sig


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--runner", required=True)
    p.add_argument("--from", type=int, default=0, dest="start")
    p.add_argument("--count", type=int)
    p.add_argument("--minutes", type=float)
    p.add_argument("--store", default=None)
    p.add_argument("--quiet", action="store_true")
    p.add_argument("--show", action="store_true", help="print the graph of --from and its results")
    p.add_argument("--replay", help="a folder that --store made: judge that graph")
    a = p.parse_args()
    if a.replay:
        return replay(a.runner, a.replay)
    if a.show:
        made = check.make(a.start)
        print("\n".join(text(made[0])) if made else "nothing")
    end = time.monotonic() + a.minutes * 60 if a.minutes else None
    if end is None and a.count is None:
        p.error("one of --count and --minutes")
    began = time.monotonic()
    results = collections.Counter()
    seed = a.start
    while (end is None or time.monotonic() < end) and (a.count is None or seed < a.start + a.count):
        seed = batch(a, seed, end, results)
        took = (time.monotonic() - began) * 1000 / max(1, seed - a.start)
        if a.count is None or seed < a.start + a.count:
            print("# to seed %d: %s, %.1f ms each" % (seed, summary(results), took), flush=True)
    print("seeds %d to %d: %s; %.1f ms each" % (a.start, seed - 1, summary(results), took))
    for k, n in results.most_common():
        if k not in ("ok", "invalid", "crash"):
            print("%5d  %s" % (n, k))
    return 1 if set(results) - {"ok", "invalid", "crash"} else 0


def replay(runner, folder):
    model = onnx.load(os.path.join(folder, "model.onnx"))
    feeds = dict(np.load(os.path.join(folder, "inputs.npz")))
    try:
        check.judge(oracle.Steno(runner), model, [feeds], write=(1, 2, 3))
    except (check.Finding, oracle.Crash) as f:
        print("%s: %s" % (folder, f))
        return 1
    return 0


def summary(results):
    wrong = sum(n for k, n in results.items() if k not in ("ok", "invalid", "crash"))
    return "%d graphs right, %d wrong, %d refused by the references, %d crash ONNX Runtime" % (
        results["ok"], wrong, results["invalid"], results["crash"])


def batch(a, seed, end, results):
    """Run some seeds in a process of their own, since some graphs crash ONNX Runtime; returns the seed to go on with."""
    last = min(seed + 1000, a.start + a.count if a.count is not None else seed + 1000)
    r, w = os.pipe()
    child = os.fork()
    if not child:
        os.close(r)
        out = os.fdopen(w, "w")
        steno = oracle.Steno(a.runner)
        while seed < last and (end is None or time.monotonic() < end):
            try:
                sig = one(steno, seed, a.store, not a.quiet)
            except Exception:  # of the test itself
                traceback.print_exc()
                steno.close()
                sig = "the test failed at seed %d" % seed
            out.write(sig + "\n")
            out.flush()
            seed += 1
        sys.stdout.flush()
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as lines:
        for line in lines:
            results[line.strip()] += 1
            seed += 1
    if os.waitpid(child, 0)[1]:
        results["the written file crashes ONNX Runtime, seed %d" % seed if oracle.AT_WRITTEN[0] else "crash"] += 1
        oracle.AT_WRITTEN[0] = 0
        seed += 1
    return seed


if __name__ == "__main__":
    sys.exit(main())
