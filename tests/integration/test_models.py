"""`steno run` against onnxruntime on whole models: the shipped one, and those below ../shared if it exists. Every
CPU level, with the graph unchanged (--opt-level 0) and with all passes (3). TAP.

Largest difference allowed: 1e-4 of the largest magnitude (at least 1). Three steps with random inputs; state
inputs start at zero and then get onnxruntime's state outputs in both. For graphs with integer products: cosine at
least 0.999 and 5 % of the range, since a rounding of a dynamic quantizer may go either way. Under sanitizers one
step: later steps run the same code with other numbers."""
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

import ort_exact
import zoo_feeds
from daemon import BUILD, ROOT, SAN, SHARED, SLOW

STENO = os.path.join(BUILD, "steno")
TYPES = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(int64)": "i8",
         "tensor(int32)": "i4", "tensor(bool)": "?", "tensor(uint8)": "u1", "tensor(int8)": "i1"}
INTEGER = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"}
# Free dimensions and integer inputs of each family.
DIMS = {
    "silero-vad": {"input": (1, 512), "state": (2, 1, 128)},
    "spelling-cnn": {},
    "digits-en": {},
}
VALUES = {"sr": 16000}
LEVELS = [("0", "scalar"), ("0", "avx2"), ("3", "scalar"), ("3", "avx2"), ("3", "avx512")]


def feeds(sess, dims, rng):
    out = {}
    for i in sess.get_inputs():
        shape = dims.get(i.name) or [d if isinstance(d, int) else 1 for d in i.shape]
        t = np.dtype(TYPES[i.type])
        if t.kind != "f":
            out[i.name] = np.full(shape, VALUES.get(i.name, 0), t)
        elif re.search("cache|state|past|^h$|^c$", i.name):
            out[i.name] = np.zeros(shape, t)
        else:
            out[i.name] = rng.standard_normal(shape).astype(t)
    return out


def carry(feed, sess, outs):
    got = {o.name: v for o, v in zip(sess.get_outputs(), outs)}
    for n in feed:
        for c in (f"new_{n}", f"next_{n}", f"{n}_next", f"out_{n}", f"{n}n", f"{n}_out"):
            if c in got and got[c].shape == feed[n].shape and got[c].dtype == feed[n].dtype:
                feed[n] = got[c]
    return feed


def steno(path, feed, count, level, cpu, *args):
    with tempfile.TemporaryDirectory() as d:
        cmd = [STENO, "run", path, "--output-dir", d, "--opt-level", level, "--cpu", cpu, *args]
        for k, (n, v) in enumerate(feed.items()):
            np.save(f"{d}/in{k}.npy", v)
            cmd += ["--input", f"{n}={d}/in{k}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=300 * SLOW, check=False)
        if p.returncode:
            raise AssertionError(f"exit {p.returncode}: {p.stderr.strip()}")
        return [np.load(f"{d}/{k}.npy") for k in range(count)]


def difference(name, want, got, quantized, most=1e-4):
    """Largest difference relative to the largest magnitude. Raises if it is above most, quantized 5 % of the range."""
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}")
    if not want.size:
        return 0.0
    g, w = got.astype("f8").ravel(), want.astype("f8").ravel()
    worst, scale = float(np.max(np.abs(g - w))), max(1.0, float(np.max(np.abs(w))))
    limit = 0.05 * max(scale, float(np.ptp(w))) if quantized else most * scale
    if not worst <= limit:
        raise AssertionError(f"{name}: difference {worst:.3g}, allowed {limit:.3g}")
    if quantized and np.linalg.norm(g) * np.linalg.norm(w):
        cosine = (g @ w) / (np.linalg.norm(g) * np.linalg.norm(w))
        if cosine < 0.999:
            raise AssertionError(f"{name}: cosine {cosine:.5f}")
    return worst / scale


def session(path):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    return ort_exact.Session(path, o, providers=["CPUExecutionProvider"])


def check(path, dims):
    sess, rng = session(path), np.random.default_rng(7)
    return compare(path, sess, lambda _, outs: feeds(sess, dims, rng) if outs is None else
                   carry(feeds(sess, dims, rng), sess, outs), 3, LEVELS)


def compare(path, sess, feed_of, steps, levels):
    names = [x.name for x in sess.get_outputs()]
    quantized = any(n.op_type in INTEGER for n in onnx.load(path).graph.node)
    worst, outs = 0.0, None
    for step in range(1 if SAN else steps):
        feed = feed_of(step, outs)
        outs = sess.run(None, feed)
        for level, cpu in levels:
            try:
                for n, w, g in zip(names, outs, steno(path, feed, len(names), level, cpu)):
                    worst = max(worst, difference(n, w, g, quantized))
            except AssertionError as e:
                raise AssertionError(f"--opt-level {level} --cpu {cpu}: {e}") from None
    return worst


def models():
    yield os.path.join(ROOT, "conf/models/digits-en/encoder.onnx"), "digits-en"
    for family in ("silero-vad", "spelling-cnn"):
        folder = os.path.join(SHARED, "models", family)
        files = sorted(f for f in os.listdir(folder) if f.endswith(".onnx")) if os.path.isdir(folder) else []
        for f in files:
            yield os.path.join(folder, f), family
        if not files:
            yield None, family


def zoo(level, cpu, steps):
    """The exported encoders, decoders and joiners of ../shared/zoo, float and int8, by the zoo's own tool. Models that
    refuse its inputs get those of zoo_feeds.py."""
    tool = os.path.join(SHARED, "tools", "zoo_check.py")
    folder = os.path.join(SHARED, "zoo", "tiny")
    if not os.path.exists(tool) or not os.path.isdir(folder):
        return None
    folders = [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    # The tool allows 1e-4. Networks that compute in f16 differ by more from each other (test_halves.py compares them).
    folders = [f for f in folders if not any(zoo_feeds.in_halves(m) for m in glob.glob(f + "/*.onnx"))]
    if cpu == "scalar":
        # The squares of values in its embedding overflow f32: LayerNormalization then gives only beta, except in the
        # scalar kernel, which sums in double.
        folders = [f for f in folders if not f.endswith("whisper-offline")]
    cmd = [sys.executable, ort_exact.__file__, tool, "--steno", STENO, "--steps", str(steps),
           "--opt-level", level, "--cpu", cpu, *[f for f in folders if os.path.isdir(f)]]
    p = subprocess.run(cmd, capture_output=True, text=True, timeout=900 * SLOW, check=False)
    lines = p.stdout.strip().splitlines() or [p.stderr.strip()]
    if p.returncode:
        raise AssertionError("\n# ".join([x for x in lines if x.startswith("FAIL")][:10] + lines[-1:]))
    refused, said = [x.split()[1].rstrip(":") for x in lines if x.startswith("REFERENCE ")], lines[-1]
    for path in refused:
        try:
            worst = compare(path, session(path), zoo_feeds.feeds(zoo_feeds.load_tool(SHARED), path), steps, [(level, cpu)])
            said += f"\n# with other inputs: {os.path.relpath(path, folder)}: largest relative difference {worst:.2g}"
        except (ort_exact.Saturates, zoo_feeds.NoInputs) as e:
            said += f"\n# skipped: {os.path.relpath(path, folder)}: {e}"
        except AssertionError as e:
            raise AssertionError(f"{os.path.relpath(path, folder)}: {e}") from None
    return said


def main():
    n = failed = 0
    for path, family in models():
        n += 1
        if path is None or not os.path.exists(path):
            print(f"ok {n} - {family} # SKIP {os.path.join(SHARED, 'models', family)} is not there")
            continue
        name = f"{family}/{os.path.basename(path)} equals onnxruntime"
        try:
            print(f"ok {n} - {name} (largest relative difference {check(path, DIMS[family]):.2g})", flush=True)
        except AssertionError as e:
            print(f"not ok {n} - {name}\n# {e}", flush=True)
            failed += 1
    # states go from one step to the next in the same way at every CPU level
    for level, cpu, steps in (("0", "scalar", 1 if SAN else 2), ("3", "avx2", 1), ("3", "avx512", 2)):
        if SAN and level == "3":
            continue  # test_optimize runs these networks so; kcheck and the tests of operators run the kernels of every level
        n += 1
        name = f"the zoo at --opt-level {level} --cpu {cpu} equals onnxruntime"
        try:
            summary = zoo(level, cpu, steps)
            first, _, more = (summary or "").partition("\n")
            print(f"ok {n} - {name} ({first})" + (f"\n{more}" if more else "") if summary else
                  f"ok {n} - {name} # SKIP {SHARED}/zoo is not there", flush=True)
        except AssertionError as e:
            print(f"not ok {n} - {name}\n# {e}", flush=True)
            failed += 1
    print(f"1..{n}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
