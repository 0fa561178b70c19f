#!/usr/bin/env python3
"""Operators of the domain com.microsoft against ONNX Runtime (TAP). Skips without its package."""
import importlib.util
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release"))
# name: operator, outputs, attributes, shapes of the inputs (None = absent, a list = these i32)
CASES = {
    "gelu": ("Gelu", 1, {}, [(2, 3, 33)]),
    "bias_gelu": ("BiasGelu", 1, {}, [(2, 3, 33), (33,)]),
    "fast_gelu": ("FastGelu", 1, {}, [(2, 3, 33)]),
    "fast_gelu_with_bias": ("FastGelu", 1, {}, [(2, 3, 33), (33,)]),
    "quick_gelu": ("QuickGelu", 1, {"alpha": 1.5}, [(2, 3, 33)]),
    "skip_layer_norm": ("SkipLayerNormalization", 1, {"epsilon": 1e-5}, [(2, 3, 33), (2, 3, 33), (33,), (33,), (33,)]),
    "skip_layer_norm_without_bias": ("SkipLayerNormalization", 1, {}, [(2, 3, 33), (2, 3, 33), (33,), (33,)]),
    "skip_rms_norm": ("SkipSimplifiedLayerNormalization", 1, {"epsilon": 1e-5}, [(2, 3, 33), (2, 3, 33), (33,), (33,)]),
    "fused_matmul": ("FusedMatMul", 1, {"alpha": 0.25}, [(2, 3, 5, 7), (2, 3, 7, 4)]),
    "fused_matmul_trans_a": ("FusedMatMul", 1, {"transA": 1}, [(2, 7, 5), (2, 7, 4)]),
    "fused_matmul_trans_b": ("FusedMatMul", 1, {"transB": 1, "alpha": 2.0}, [(2, 3, 5, 7), (4, 7)]),
    "fused_matmul_trans_batch": ("FusedMatMul", 1, {"transBatchA": 1, "transBatchB": 1},
                                 [(5, 2, 3, 7), (7, 2, 3, 4)]),
    "mha": ("MultiHeadAttention", 1, {"num_heads": 2}, [(2, 3, 8), (2, 5, 8), (2, 5, 12)]),
    "mha_with_bias_and_lengths": ("MultiHeadAttention", 1, {"num_heads": 2},
                                  [(2, 3, 8), (2, 5, 8), (2, 5, 8), (24,), [5, 2]]),
    "mha_with_padding_mask": ("MultiHeadAttention", 1, {"num_heads": 2, "scale": 0.3},
                              [(2, 3, 8), (2, 3, 8), (2, 3, 8), None, [[1, 1, 0], [1, 0, 1]]]),
    "mha_with_attention_bias": ("MultiHeadAttention", 1, {"num_heads": 2},
                                [(2, 3, 8), (2, 5, 8), (2, 5, 8), None, None, (1, 2, 3, 5)]),
    "mha_causal_with_cache": ("MultiHeadAttention", 3, {"num_heads": 2, "unidirectional": 1},
                              [(2, 3, 8), (2, 3, 8), (2, 3, 8), None, None, None, (2, 2, 4, 4), (2, 2, 4, 4)]),
    "mha_of_cross_caches": ("MultiHeadAttention", 1, {"num_heads": 2}, [(2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4)]),
    "attention": ("Attention", 1, {"num_heads": 2}, [(2, 3, 6), (6, 24), (24,)]),
    "attention_with_lengths": ("Attention", 1, {"num_heads": 2}, [(2, 3, 6), (6, 24), (24,), [3, 1]]),
    "attention_causal_with_past": ("Attention", 2, {"num_heads": 2, "unidirectional": 1},
                                   [(2, 3, 6), (6, 24), (24,), None, (2, 2, 2, 4, 4)]),
    "attention_of_other_sizes": ("Attention", 1, {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]},
                                 [(2, 3, 6), (6, 28), (28,)]),
}


def run(name, op, n_out, attrs, shapes):
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
    rng = np.random.default_rng(1)
    names = [f"x{i}" if s is not None else "" for i, s in enumerate(shapes)]
    feed = {f"x{i}": np.array(s, "i4") if isinstance(s, list) else rng.standard_normal(s).astype("f4")
            for i, s in enumerate(shapes) if s is not None}
    outs = [f"y{i}" for i in range(n_out)]
    graph = helper.make_graph([helper.make_node(op, names, outs, domain="com.microsoft", **attrs)], name,
                              [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                               for n, v in feed.items()],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=8)
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/m.onnx")
        cmd = [os.path.join(BUILD, "steno"), "run", f"{d}/m.onnx", "--output-dir", d]
        for n, v in feed.items():
            np.save(f"{d}/{n}.npy", v)
            cmd += ["--input", f"{n}={d}/{n}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=60)
        if p.returncode:
            return p.stderr.strip()
        for i, w in enumerate(want):
            got = np.load(f"{d}/{i}.npy")
            if got.shape != w.shape or not np.allclose(got, w, rtol=1e-4, atol=1e-5):
                return f"output {i}: {got.shape} {np.abs(got - w).max() if got.shape == w.shape else w.shape}"
    return ""


def main():
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        print("ok 1 - contrib operators # SKIP the packages onnx and onnxruntime are absent\n1..1")
        return 0
    bad = 0
    for i, (name, case) in enumerate(CASES.items(), 1):
        why = run(name, *case)
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {i} - {name}" + (f"\n# {why}" if why else ""))
    print(f"1..{len(CASES)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
