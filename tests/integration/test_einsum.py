#!/usr/bin/env python3
"""Einsum of two factors against numpy.einsum, at every level, with and without passes (TAP): equations that people write,
and random ones with repeated, summed and broadcast labels and ellipses. Skipped without its packages."""
import importlib.util
import os
import random
import subprocess
import sys
import tempfile

from daemon import BUILD

STENO = os.path.join(BUILD, "steno")
WRITTEN = [
    ("bij,jk->bik", (2, 5, 7), (7, 6)), ("btgi,gih->btgh", (2, 5, 4, 6), (4, 6, 3)),
    ("bqnd,bknd->bnqk", (2, 5, 3, 8), (2, 6, 3, 8)), ("bnqk,bknd->bqnd", (2, 3, 5, 6), (2, 6, 3, 8)),
    ("nchw,oc->nohw", (2, 5, 4, 6), (3, 5)), ("bnqd,bnkd->bnqk", (2, 3, 5, 8), (2, 3, 6, 8)),
    ("abc,cde->abde", (2, 5, 7), (7, 3, 4)), ("abcd,cde->abe", (2, 5, 3, 4), (3, 4, 6)), ("bhwc,hkc->bhwk", (2, 5, 20, 6), (5, 3, 6)),
    ("bhwc,wkc->bhwk", (2, 5, 20, 6), (20, 3, 6)), ("bixy,ioxy->boxy", (2, 5, 3, 4), (5, 6, 3, 4)), ("i,j->ij", (5,), (7,)),
    ("ij,ij->ij", (5, 7), (5, 7)), ("bi,bi->b", (5, 7), (5, 7)), ("ij,ij->", (5, 7), (5, 7)), ("i,i", (7,), (7,)), ("ij,j", (5, 7), (7,)),
    ("...ij,...jk->...ik", (2, 3, 5, 7), (2, 3, 7, 4)), ("...ij,jk->...ik", (2, 3, 5, 7), (7, 4)), ("ij,...jk->...ik", (5, 7), (2, 7, 4)),
    ("...d,...d->...", (2, 5, 7), (2, 5, 7)), ("...ij,...jk->...ik", (2, 1, 5, 7), (1, 3, 7, 4)), ("ii,i->i", (5, 5), (5,)),
    ("iij,jk->ik", (5, 5, 7), (7, 4)), ("ijk,kl->l", (2, 3, 5), (5, 4)), ("ijk,lk->il", (4, 3, 5), (6, 5)), ("bn,bnc->bc", (3, 50), (3, 50, 8)),
    ("ij,kj->ki", (20, 7), (30, 7)), ("bij,bjk->kbi", (3, 20, 7), (3, 7, 18)), ("abij,jk->iabk", (2, 3, 20, 7), (7, 18)), (",ij->ij", (), (3, 4)),
]


def random_equation(rng):
    """Two terms of up to four labels or an ellipsis of up to two axes, some repeated, some axes of extent 1."""
    letters, extent = rng.sample("abcdefXYZ", 5), {}
    for x in letters:
        extent[x] = rng.choice([1, 2, 3, 5, 17, 20])
    lead = [rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 0, 1, 2]))]
    terms, shapes = [], []
    for _ in range(2):
        term = [rng.choice(letters) for _ in range(rng.randint(0, 4))]
        if lead and rng.random() < 0.8:
            term.insert(rng.randint(0, len(term)), "...")
        shape = []
        for x in term:
            if x == "...":
                shape += [1 if rng.random() < 0.2 else d for d in lead[rng.randint(0, len(lead)):]]
            else:
                shape.append(1 if rng.random() < 0.1 and term.count(x) == 1 else extent[x])
        terms.append(term)
        shapes.append(tuple(shape))
    equation = ",".join("".join(t) for t in terms)
    used = sorted(set(terms[0] + terms[1]) - {"..."})
    if rng.random() < 0.8:
        out = rng.sample(used, rng.randint(0, len(used)))
        if "..." in terms[0] + terms[1]:
            out.insert(rng.randint(0, len(out)), "...")
        equation += "->" + "".join(out)
    return equation, shapes[0], shapes[1]


def model(cases, constant):
    """One network of all equations: their factors are parts of one input, or the second one is a constant."""
    import numpy as np
    from onnx import TensorProto as T, helper as h, numpy_helper as nh

    rng, nodes, inits, outputs, want, at = np.random.default_rng(3), [], [], [], [], 0
    x = rng.standard_normal(sum(int(np.prod(s)) for c in cases for s in c[1:])).astype(np.float32)
    for i, (equation, *shapes) in enumerate(cases):
        factors = []
        for k, s in enumerate(shapes):
            n = int(np.prod(s))
            factors.append(x[at:at + n].reshape(s))
            if k and constant:
                inits.append(nh.from_array(factors[k], f"f{i}_{k}"))
            else:
                inits += [nh.from_array(np.array([at], np.int64), f"a{i}_{k}"), nh.from_array(np.array([at + n], np.int64), f"b{i}_{k}"),
                          nh.from_array(np.array(s, np.int64), f"s{i}_{k}")]
                nodes += [h.make_node("Slice", ["x", f"a{i}_{k}", f"b{i}_{k}"], [f"p{i}_{k}"]),
                          h.make_node("Reshape", [f"p{i}_{k}", f"s{i}_{k}"], [f"f{i}_{k}"])]
            at += n
        nodes.append(h.make_node("Einsum", [f"f{i}_0", f"f{i}_1"], [f"y{i}"], f"n{i}", equation=equation))
        outputs.append(h.make_tensor_value_info(f"y{i}", T.FLOAT, None))
        want.append(np.einsum(equation, *(f.astype(np.float64) for f in factors)))
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [len(x)])], outputs, inits)
    return h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), x, want


def wrong(cases, constant, options):
    import numpy as np
    import onnx

    m, x, want = model(cases, constant)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, f"{d}/m.onnx")
        np.save(f"{d}/x.npy", x)
        p = subprocess.run([STENO, "run", f"{d}/m.onnx", "--input", f"x={d}/x.npy", "--output-dir", d, *options], capture_output=True, text=True)
        if p.returncode:
            return [p.stderr.strip()]
        bad = []
        for i, w in enumerate(want):
            got = np.load(f"{d}/{i}.npy")
            if got.shape != w.shape or not np.allclose(got, w, rtol=1e-4, atol=1e-4):
                bad.append(f"{cases[i]}: shape {got.shape} for {w.shape}, largest difference {np.max(np.abs(got - w)) if got.shape == w.shape else ''}")
        return bad


def main():
    if not all(importlib.util.find_spec(p) for p in ("numpy", "onnx")):
        print("1..0 # SKIP no numpy, onnx")
        return 0
    rng, failed = random.Random(5), 0
    kinds = [("written", WRITTEN), ("random", [random_equation(rng) for _ in range(250)])]
    ways = [("passes", []), ("no passes", ["--opt-level", "0"]), ("scalar", ["--cpu", "scalar"]), ("two threads", ["--threads", "2"])]
    print(f"1..{len(kinds) * len(ways) * 2}")
    n = 0
    for name, cases in kinds:
        for way, options in ways:
            for constant in (False, True):
                n += 1
                bad = wrong(cases, constant, options)
                failed += bool(bad)
                print(f"{'not ok' if bad else 'ok'} {n} - {name} equations, {way}{', constant second factor' if constant else ''}")
                for b in bad[:10]:
                    print(f"# {b}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
