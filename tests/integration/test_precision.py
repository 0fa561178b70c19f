"""16-bit weights on the recorded ESPnet models: encoder and CTC, both in bf16 or fp16, at every CPU level, against
the recorded f32 results. The best token of every frame is the same unless it is a tie, and no output is off by
more than 2 % of its range. TAP."""
import os
import sys

import numpy as np
from test_models import SHARED, steno

TINY = os.path.join(SHARED, "zoo", "tiny")
MODELS = ["espnet-conformer-op13", "espnet-transformer-op13"]
LEVELS = [("bf16", "native"), ("bf16", "avx512"), ("bf16", "avx2"), ("bf16", "scalar"), ("fp16", "native")]


TIE = 0.002  # of the scores' range; frames whose two best tokens are closer than this may go either way


def ctc(folder, x, precision, cpu):
    return steno(f"{folder}/full/ctc.onnx", {"x": x}, 1, "3", cpu, "--precision", precision)[0]


def changed(got, want):
    """The number of frames with another best token than in f32, and how many of them are not ties."""
    best = np.sort(want, -1)
    other = got.argmax(-1) != want.argmax(-1)
    return int(other.sum()), int((other & (best[..., -1] - best[..., -2] > TIE * np.ptp(want))).sum())


def check(model, precision, cpu):
    folder, worst, frames, ties = os.path.join(TINY, model), 0.0, 0, 0
    with np.load(os.path.join(TINY, "espnet-inputs.npz")) as z, np.load(f"{folder}/ref.npz") as ref:
        for t in (7, 41, 100, 257):
            want = ref[f"encoder.T{t}/full/encoder_out"]
            scores = ctc(folder, want, "fp32", "scalar")
            enc = steno(f"{folder}/full/default_encoder.onnx", {"feats": z[f"encoder.T{t}/feats"]}, 1, "3", cpu,
                        "--precision", precision)[0]
            off = float(np.max(np.abs(enc - want)) / np.ptp(want))
            assert off <= 0.02, f"T = {t}: off by {off:.4f} of the range"
            other, wrong = changed(ctc(folder, enc, precision, cpu), scores)
            assert not wrong, f"T = {t}: another best token in {wrong} of {scores.shape[1]} frames"
            worst, frames, ties = max(worst, off), frames + scores.shape[1], ties + other
        for t in (1, 10, 63):
            other, wrong = changed(ctc(folder, z[f"ctc.T{t}/x"], precision, cpu), ref[f"ctc.T{t}/full/ctc_out"])
            assert not wrong, f"CTC of {t} frames: another best token in {wrong}"
            frames, ties = frames + t, ties + other
    return f"{frames} frames, {ties} ties fell otherwise, off by {worst:.4f} of the range at most"


def main():
    if not os.path.isdir(TINY):
        print(f"ok 1 - 16-bit weights # SKIP {TINY} is absent\n1..1")
        return 0
    bad, number = 0, 0
    for model in MODELS:
        for precision, cpu in LEVELS:
            number += 1
            try:
                print(f"ok {number} - {model} {precision} {cpu}: {check(model, precision, cpu)}")
            except AssertionError as e:
                bad += 1
                print(f"not ok {number} - {model} {precision} {cpu}\n# {e}")
    print(f"1..{number}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
