"""int8 on the recorded ESPnet encoders: how far from f32 the result is, next to ONNX Runtime's own int8 graph (TAP). Root
mean square of the difference by that of the f32 result, over the recorded inputs. Neither the f32 graph opened in 8 bits nor
its quantizer's graph, opened in whatever is fast, is further than that; the exact way gives its numbers."""
import importlib.util
import itertools
import os
import sys

import numpy as np
from test_models import SHARED, steno

TINY = os.path.join(SHARED, "zoo", "tiny")
LENGTHS = (7, 41, 100, 257)


def theirs(path, feats):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, {"feats": feats})[0]


def distance(results, wanted):
    off = sum(float(np.sum((r - w) ** 2)) for r, w in zip(results, wanted))
    return (off / sum(float(np.sum(w ** 2)) for w in wanted)) ** 0.5


def ours(path, inputs, precision, cpu):
    return [steno(path, {"feats": x}, 1, "3", cpu, "--precision", precision)[0] for x in inputs]


def main():
    if not os.path.isdir(TINY) or importlib.util.find_spec("onnxruntime") is None:
        print(f"ok 1 - distance of int8 # SKIP {TINY} or the package onnxruntime is absent\n1..1")
        return 0
    with np.load(os.path.join(TINY, "espnet-inputs.npz")) as z:
        inputs = [z[f"encoder.T{t}/feats"] for t in LENGTHS]
    number, bad = 0, 0
    for kind in ("conformer", "transformer"):
        folder = os.path.join(TINY, f"espnet-{kind}-op13")
        graph, quantized = f"{folder}/full/default_encoder.onnx", f"{folder}/quantize/default_encoder_qt.onnx"
        with np.load(f"{folder}/ref.npz") as ref:
            wanted = [ref[f"encoder.T{t}/full/encoder_out"] for t in LENGTHS]
        most = distance([theirs(quantized, x) for x in inputs], wanted)
        cases = [("f32 graph", graph, "int8", 1), *(("quantized graph", quantized, p, 1) for p in ("auto", "int8", "bf16")),
                 ("quantized graph", quantized, "fp32", 1.001)]
        for (name, path, precision, times), cpu in itertools.product(cases, ("native", "avx2", "scalar")):
            number += 1
            got = distance(ours(path, inputs, precision, cpu), wanted)
            bad += got > most * times
            print(f"{'ok' if got <= most * times else 'not ok'} {number} - {kind}, {name} opened in {precision} at {cpu}: "
                  f"{got:.4f}, ONNX Runtime {most:.4f}")
    print(f"1..{number}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
