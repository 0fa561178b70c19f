#!/usr/bin/env python3
"""Processor seconds of espnet_onnx's StreamingSpeech2Text on a model directory and a recording of at most 14 s (it fails
behind 15), f32 and int8, without LM: beam 10, ctc_weight 0.3, maxlenratio 0.12 (three tokens a second). A line each.

    theirs_stream.py MODEL_DIR WAV"""
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "espnet"))

import generate  # noqa: E402,F401 - stands in for packages that are imported and not used
import soundfile  # noqa: E402
from espnet_onnx import StreamingSpeech2Text  # noqa: E402
from espnet_onnx.asr.beam_search.batch_beam_search_online import BatchBeamSearchOnline  # noqa: E402


def open_model(quantized):
    s = StreamingSpeech2Text(model_dir=".", use_quantized=quantized)
    s.config.beam_search.beam_size = 10
    s.config.beam_search.maxlenratio = 0.12
    s.beam_search = BatchBeamSearchOnline(
        s.config.beam_search, s.config.token, scorers=s.scorers, block_size=40, hop_size=16, look_ahead=16,
        weights=dict(decoder=0.7, ctc=0.3, lm=0.0, length_bonus=0.0))
    return s


class Timed:
    """An encoder that counts its processor seconds."""

    def __init__(self, inner):
        self.inner, self.spent = inner, 0.0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, *args, **kwargs):
        t = time.process_time()
        y = self.inner(*args, **kwargs)
        self.spent += time.process_time() - t
        return y


def main():
    x, _ = soundfile.read(sys.argv[2], dtype="float32")
    os.chdir(sys.argv[1])
    for quantized in (False, True):
        s = open_model(quantized)
        s.encoder = Timed(s.encoder)
        s.start()
        at, end, t = 0, s.initial_wav_length, time.process_time()
        while at < len(x):
            s(s.pad(x[at:end], length=end - at) if end > len(x) else x[at:end])
            at, end = end, end + s.hop_size
        t = time.process_time() - t
        mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print("%s: %.3f s, encoder %.3f s, %.2f s of audio, maxrss %d MB" % (
            "int8" if quantized else "fp32", t, s.encoder.spent, len(x) / 16000, mb), flush=True)


if __name__ == "__main__":
    main()
