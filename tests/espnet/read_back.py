#!/usr/bin/env python3
"""Whether two directories of espnet_onnx give the same n-best lists in espnet_onnx itself, on stock onnxruntime.

    read_back.py A B WAV [--quantized] [--streaming]

Prints one line with the largest difference of scores. Status 1 and the first difference if ids differ or scores
are more than 1e-3 apart. All options are those of the directories."""
import os
import sys

import generate  # noqa: F401 - stands in for packages that are imported and not used
import numpy as np
import soundfile


def offline(folder, x, quantized):
    from espnet_onnx import Speech2Text
    s = Speech2Text(model_dir=folder, use_quantized=quantized)
    rows = s.encoder(speech=x[None], speech_length=np.array([len(x)]))[0]
    return s.beam_search((rows[0] if isinstance(rows, tuple) else rows)[0])


def streaming(folder, x, quantized):
    from espnet_onnx import StreamingSpeech2Text
    s = StreamingSpeech2Text(model_dir=folder, use_quantized=quantized)
    s.start()
    at, end, best = 0, s.initial_wav_length, None
    while at < len(x):
        piece = x[at:end]
        best = s(s.pad(piece, length=end - at) if len(piece) < end - at else piece)
        at, end = end, end + s.hop_size
    return best


def hypotheses(folder, x, how, quantized):
    here = os.getcwd()
    os.chdir(folder)  # paths in config.yaml are relative to it
    try:
        found = how(".", x, quantized)
    finally:
        os.chdir(here)
    # the streaming class gives (text, tokens, ids, hypothesis)
    found = [h if hasattr(h, "yseq") else h[-1] for h in found]
    return [(list(map(int, h.yseq)), float(h.score)) for h in found]


def main():
    a, b, wav = sys.argv[1:4]
    x, rate = soundfile.read(wav, dtype="float32")
    assert rate == 16000
    how = streaming if "--streaming" in sys.argv else offline
    want, got = (hypotheses(d, x, how, "--quantized" in sys.argv) for d in (a, b))
    worst = max(abs(p[1] - q[1]) for p, q in zip(want, got))
    same = len(want) == len(got) and all(p[0] == q[0] for p, q in zip(want, got))
    print("%d hypotheses, ids %s, scores within %.2g" % (len(want), "the same" if same else "differ", worst))
    return not same or worst > 1e-3


if __name__ == "__main__":
    sys.exit(main())
