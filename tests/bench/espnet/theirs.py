#!/usr/bin/env python3
"""Processor seconds of espnet_onnx's Speech2Text (frontend, encoder, joint search) on a model directory and a
recording: beam 10, ctc_weight 0.3, exactly STEPS steps. Like ../shared/tools/time_espnet_onnx.py, but one case
per process, so that the peak memory is that of the case, and one thread per session. By default ONNX Runtime
starts as many threads as the machine has processors, even when pinned to one. They spin between calls and take
the processor from the thread that works (docs/log/2026-11-21.md).

    theirs.py MODEL_DIR WAV STEPS fp32|int8 LM_WEIGHT RUNS [THREADS, 1; 0: as ONNX Runtime chooses]"""
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "espnet"))

import generate  # noqa: E402,F401 - stands in for packages that are imported and not used
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import soundfile  # noqa: E402


def one_thread_each(threads):
    real = onnxruntime.InferenceSession

    def make(path, **kw):
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads = threads
        return real(path, sess_options=o, **kw)
    onnxruntime.InferenceSession = make


def main():
    wav, steps, precision, lm, runs = sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]), int(sys.argv[6])
    one_thread_each(int(sys.argv[7]) if len(sys.argv) > 7 else 1)
    from espnet_onnx import Speech2Text
    x, _ = soundfile.read(wav, dtype="float32")
    os.chdir(sys.argv[1])
    s = Speech2Text(model_dir=".", use_quantized=precision == "int8")
    s.config.beam_search.beam_size = 10
    s.config.beam_search.maxlenratio = -steps
    s._build_beam_search(s.scorers, dict(decoder=0.7, ctc=0.3, lm=lm, length_bonus=0.0))
    best = []
    for _ in range(runs):
        t = time.process_time()
        rows = s.encoder(speech=x[None], speech_length=np.array([len(x)]))[0]
        rows = (rows[0] if isinstance(rows, tuple) else rows)[0]
        encoder = time.process_time() - t
        s.beam_search(rows)
        best.append((time.process_time() - t, encoder))
    t, encoder = min(best)
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{t:.3f} s, encoder {encoder:.3f} s, {mb} MiB", flush=True)


if __name__ == "__main__":
    main()
