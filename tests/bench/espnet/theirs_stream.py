#!/usr/bin/env python3
"""Processor seconds of espnet_onnx's StreamingSpeech2Text on a model directory and a recording of at most 14 s (it
fails after 15 s), without LM: beam 10, ctc_weight 0.3, maxlenratio 0.12 (three tokens per second). One case per
process and one thread per session; theirs.py says why.

    theirs_stream.py MODEL_DIR WAV fp32|int8 RUNS [THREADS, 1; 0: as ONNX Runtime chooses]"""
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "espnet"))

import generate  # noqa: E402,F401 - stands in for packages that are imported and not used
import soundfile  # noqa: E402
from theirs import one_thread_each  # noqa: E402


def open_model(quantized):
    from espnet_onnx import StreamingSpeech2Text
    from espnet_onnx.asr.beam_search.batch_beam_search_online import BatchBeamSearchOnline
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


def stream(s, x):
    """(all, encoder's) processor seconds of a recording, in chunks of the size that espnet_onnx expects."""
    s.encoder.spent = 0.0
    s.start()
    at, end, t = 0, s.initial_wav_length, time.process_time()
    while at < len(x):
        s(s.pad(x[at:end], length=end - at) if end > len(x) else x[at:end])
        at, end = end, end + s.hop_size
    return time.process_time() - t, s.encoder.spent


def main():
    wav, precision, runs = sys.argv[2], sys.argv[3], int(sys.argv[4])
    one_thread_each(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    x, _ = soundfile.read(wav, dtype="float32")
    os.chdir(sys.argv[1])
    s = open_model(precision == "int8")
    s.encoder = Timed(s.encoder)
    t, encoder = min(stream(s, x) for _ in range(runs))
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{t:.3f} s, encoder {encoder:.3f} s, {mb} MiB", flush=True)


if __name__ == "__main__":
    main()
