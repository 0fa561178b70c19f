#!/usr/bin/env python3
"""Merged decoders of Whisper, as optimum and onnx-community export them (an If of the first step and the later ones): both
branches against ONNX Runtime, as they are, optimized at each level, from a packed cache, and as written files. Each branch
has its decoder's layers, and the weights that both hold are held once (TAP). Needs what ../shared/tools/whisper_onnx.py
wrote of tiny.en: STENO_WHISPER_ONNX or build/models/tiny.en-onnx (docs/whisper.md); skipped without it."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

from daemon import BUILD, SLOW

STENO = os.path.join(BUILD, "steno")
ONNX = os.environ.get("STENO_WHISPER_ONNX") or "build/models/tiny.en-onnx"
FILES = ["decoder_model_merged.onnx", "decoder_model_merged_quantized.onnx"]


def feeds_of(inputs, past, np):
    rng = np.random.default_rng(past)
    feeds = {}
    for i in inputs:
        if i.name == "input_ids":
            feeds[i.name] = rng.integers(0, 50000, (1, 1 if past else 3)).astype(np.int64)
        elif i.name == "encoder_hidden_states":
            feeds[i.name] = rng.standard_normal((1, 1500, i.shape[2])).astype(np.float32)
        elif i.name == "use_cache_branch":
            feeds[i.name] = np.array([past > 0])
        else:
            length = (past if ".decoder." in i.name else 1500) if past else 1
            feeds[i.name] = (rng.standard_normal((1, i.shape[1], length, i.shape[3])) * 0.5).astype(np.float32)
    return feeds


def run(path, feeds, folder, np, *options):
    args = []
    for k, v in feeds.items():
        np.save(os.path.join(folder, k + ".npy"), v)
        args += ["--input", "%s=%s" % (k, os.path.join(folder, k + ".npy"))]
    out = os.path.join(folder, "out")
    subprocess.run([STENO, "run", path, *args, "--output-dir", out, *options], check=True, timeout=120 * SLOW)
    return [np.load(os.path.join(out, "%d.npy" % i)) for i in range(len(os.listdir(out)))]


def off(got, want, np):
    worst = 0.0
    for g, w in zip(got, want):
        if g.shape != w.shape or g.dtype != w.dtype:
            return float("inf")
        if w.size:
            worst = max(worst, float(np.abs(g - w).max() / max(1, np.abs(w).max())))
    return worst


def info(path):
    text = subprocess.run([STENO, "model", "info", path], check=True, capture_output=True, text=True).stdout
    layers = re.search(r"TransformerDecoderLayer +0 +(\d+)", text)
    return int(layers.group(1)) if layers else 0, float(re.search(r"weights +([\d.]+) MiB", text).group(1))


def weights(path, precision, feeds):
    shapes = [a for k, v in feeds.items() for a in ("--shape", "%s=%s" % (k, "x".join(map(str, v.shape))))]
    text = subprocess.run([STENO, "bench", path, *shapes, "--runs", "1", "--precision", precision, *(["--value",
                           "use_cache_branch=1"] if "use_cache_branch" in feeds else [])], check=True, capture_output=True, text=True, timeout=120 * SLOW).stdout
    return float(re.search(r"weights ([\d.]+) MiB", text).group(1))


def main():
    folder = os.path.join(ONNX, "optimum", "onnx")
    if not os.path.isdir(folder) or not importlib.util.find_spec("onnxruntime"):
        print("1..0 # SKIP needs %s and onnxruntime" % folder)
        return 0
    import numpy as np
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    number, wrong = 0, 0

    def case(good, what):
        nonlocal number, wrong
        number += 1
        wrong += not good
        print("ok" if good else "not ok", number, "-", what, flush=True)

    for name in FILES:
        path = os.path.join(folder, name)
        limit = 2e-5 if "quantized" not in name else 2e-3
        session = ort.InferenceSession(path, options)
        with tempfile.TemporaryDirectory() as scratch:
            written = os.path.join(scratch, "written.onnx")
            subprocess.run([STENO, "optimize", path, "-o", written], check=True, capture_output=True, timeout=300 * SLOW)
            other = ort.InferenceSession(written, options)
            for past in (0, 1, 9):
                feeds = feeds_of(session.get_inputs(), past, np)
                want = session.run(None, feeds)
                for level in ("0", "1", "2", "3"):
                    worst = off(run(path, feeds, scratch, np, "--opt-level", level), want, np)
                    case(worst < limit, "%s, %d tokens before, level %s: off by %.1e" % (name, past, level, worst))
                for time in ("first", "second"):
                    worst = off(run(path, feeds, scratch, np, "--cache", os.path.join(scratch, "cache")), want, np)
                    case(worst < limit, "%s, %d tokens before, %s start with a cache: off by %.1e" % (name, past, time, worst))
                worst = off(other.run(None, feeds), want, np)
                case(worst < limit, "%s, %d tokens before, written file in ONNX Runtime: off by %.1e" % (name, past, worst))
            feeds = feeds_of(session.get_inputs(), 4, np)
            layers, merged = info(path)
            case(layers == 8, "%s: each branch has its 4 layers (%d of both)" % (name, layers))
            first = os.path.join(folder, name.replace("_merged", ""))
            alone = info(first)[1]
            case(merged < alone * 1.02, "%s: constants of both branches %.1f MiB, of the first step alone %.1f MiB" % (name, merged, alone))
            both = weights(path, "fp32", feeds)
            feeds = {i.name: feeds[i.name] for i in ort.InferenceSession(first, options).get_inputs()}
            alone = weights(first, "fp32", feeds)
            case(both < alone * 1.02, "%s: packed %.1f MiB, the first step alone %.1f MiB" % (name, both, alone))
    print("1..%d" % number)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
