#!/usr/bin/env python3
"""Operators of the domain com.microsoft, and one that the runtime adds to ONNX's, against ONNX Runtime (TAP). Skipped
without its package."""
import importlib.util
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, SLOW

OF_ONNX = {"SimplifiedLayerNormalization"}  # operators of the domain of ONNX

# name: operator, number of outputs or which outputs, attributes, inputs. An input is a shape of f32, None = absent, a
# list = these i32, or (kind, shape) with kind u8, i8, zero (of i8), scale (0.01 to 0.1), ("i64", list). Each case runs
# twice: with all inputs fed, and with all but the first built in.
CASES = {
    "gelu": ("Gelu", 1, {}, [(2, 3, 33)]),
    "bias_gelu": ("BiasGelu", 1, {}, [(2, 3, 33), (33,)]),
    "fast_gelu": ("FastGelu", 1, {}, [(2, 3, 33)]),
    "fast_gelu_with_bias": ("FastGelu", 1, {}, [(2, 3, 33), (33,)]),
    "quick_gelu": ("QuickGelu", 1, {"alpha": 1.5}, [(2, 3, 33)]),
    "skip_layer_norm": ("SkipLayerNormalization", 1, {"epsilon": 1e-5}, [(2, 3, 33), (2, 3, 33), (33,), (33,), (33,)]),
    "skip_layer_norm_without_bias": ("SkipLayerNormalization", 1, {}, [(2, 3, 33), (2, 3, 33), (33,), (33,)]),
    "skip_rms_norm": ("SkipSimplifiedLayerNormalization", 1, {"epsilon": 1e-5}, [(2, 3, 33), (2, 3, 33), (33,), (33,)]),
    "rms_norm": ("SimplifiedLayerNormalization", 1, {"epsilon": 1e-5, "axis": -1}, [(2, 3, 33), (33,)]),
    "rms_norm_of_two_axes": ("SimplifiedLayerNormalization", 1, {"axis": 1}, [(2, 3, 33), (3, 33)]),
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
    "skip_layer_norm_all_outputs": ("SkipLayerNormalization", 4, {}, [(2, 3, 33), (2, 3, 33), (33,), (33,), (33,)]),
    "skip_layer_norm_one_skip": ("SkipLayerNormalization", 4, {}, [(2, 3, 33), (3, 33), (33,), (33,)]),
    "skip_rms_norm_sum": ("SkipSimplifiedLayerNormalization", (0, 3), {}, [(2, 3, 33), (2, 3, 33), (33,)]),
    "attention_with_starts": ("Attention", 1, {"num_heads": 2}, [(2, 4, 6), (6, 24), (24,), [3, 4, 0, 2]]),
    "attention_with_mask_of_keys": ("Attention", 1, {"num_heads": 2},
                                    [(2, 3, 6), (6, 24), (24,), [[1, 1, 0], [1, 0, 1]]]),
    "attention_with_mask_of_rows": ("Attention", 1, {"num_heads": 2},
                                    [(2, 2, 6), (6, 24), (24,), [[[1, 0], [1, 1]], [[0, 1], [1, 0]]]]),
    "attention_with_bias": ("Attention", 1, {"num_heads": 2, "scale": 0.4},
                            [(2, 3, 6), (6, 24), (24,), None, None, (2, 2, 3, 3)]),
    "matmul_integer_to_float": ("MatMulIntegerToFloat", 1, {},
                                [("u8", (2, 5, 40)), ("i8", (40, 7)), ("scale", (1,)), ("scale", (7,)), ("u8", (1,)), None, (7,)]),
    "matmul_integer_to_float_u8": ("MatMulIntegerToFloat", 1, {},
                                   [("u8", (5, 40)), ("u8", (40, 7)), ("scale", ()), ("scale", ()), ("u8", ()), ("u8", ())]),
    "matmul_integer_to_float_zero_by_column": ("MatMulIntegerToFloat", 1, {},
                                               [("u8", (5, 40)), ("i8", (40, 7)), ("scale", ()), ("scale", (7,)), None,
                                                ("i8", (7,))]),
    "matmul_integer_to_float_i8": ("MatMulIntegerToFloat", 1, {},
                                   [("i8", (5, 40)), ("i8", (40, 7)), ("scale", ()), ("scale", ()), ("i8", ()), ("i8", ())]),
    "matmul_integer_to_float_batches": ("MatMulIntegerToFloat", 1, {},
                                        [("u8", (2, 5, 40)), ("i8", (2, 40, 7)), ("scale", ()), ("scale", ())]),
    "dynamic_quantize_matmul": ("DynamicQuantizeMatMul", 1, {},
                                [(2, 5, 40), ("i8", (40, 7)), ("scale", (7,)), ("i8", (7,)), (7,)]),
    "dynamic_quantize_matmul_u8": ("DynamicQuantizeMatMul", 1, {}, [(5, 40), ("u8", (40, 7)), ("scale", ()), ("u8", ())]),
    "dynamic_quantize_matmul_plain": ("DynamicQuantizeMatMul", 1, {}, [(1, 300), ("i8", (300, 17)), ("scale", (1,))]),
    "qattention": ("QAttention", 1, {"num_heads": 2},
                   [("u8", (2, 3, 6)), ("i8", (6, 24)), (24,), ("scale", ()), ("scale", ()), None, ("u8", ()), ("i8", ())]),
    "qattention_by_column": ("QAttention", 1, {"num_heads": 2},
                             [("u8", (2, 3, 6)), ("i8", (6, 24)), (24,), ("scale", ()), ("scale", (24,)), [3, 1],
                              ("u8", ()), ("i8", (24,))]),
    "qattention_causal_with_past": ("QAttention", 2, {"num_heads": 2, "unidirectional": 1},
                                    [("u8", (2, 3, 6)), ("u8", (6, 24)), (24,), ("scale", ()), ("scale", ()), None,
                                     ("u8", ()), ("u8", ()), (2, 2, 2, 4, 4)]),
    "embed_layer_norm": ("EmbedLayerNormalization", 3, {"epsilon": 1e-5},
                         [[[1, 2, 3], [0, 4, 2]], [[0, 0, 1], [0, 1, 1]], (5, 8), (6, 8), (2, 8), (8,), (8,),
                          [[1, 0, 1], [1, 0, 0]]]),
    "embed_layer_norm_without_segments": ("EmbedLayerNormalization", 2, {},
                                          [[[1, 2, 3], [0, 4, 2]], None, (5, 8), (6, 8), None, (8,), (8,)]),
    "embed_layer_norm_with_positions": ("EmbedLayerNormalization", 3, {},
                                        [[[1, 2, 3], [0, 4, 2]], None, (5, 8), (6, 8), None, (8,), (8,), None,
                                         [[5, 1, 2], [0, 0, 3]]]),
    "embed_layer_norm_positions_shared": ("EmbedLayerNormalization", 2, {},
                                          [[[1, 2, 3], [0, 4, 2]], None, (5, 8), (6, 8), None, (8,), (8,), None,
                                           [[5, 1, 2]]]),
    "rotary": ("RotaryEmbedding", 1, {}, [(2, 3, 16), ("i64", [[0, 1, 2], [4, 3, 0]]), (5, 4), (5, 4)]),
    "rotary_offset": ("RotaryEmbedding", 1, {}, [(2, 3, 16), ("i64", [2]), (5, 4), (5, 4)]),
    "rotary_interleaved": ("RotaryEmbedding", 1, {"interleaved": 1}, [(2, 3, 16), ("i64", [1]), (5, 4), (5, 4)]),
    "rotary_of_heads": ("RotaryEmbedding", 1, {}, [(2, 3, 4, 8), ("i64", [0]), (5, 4), (5, 4)]),
    "rotary_partial": ("RotaryEmbedding", 1, {"rotary_embedding_dim": 4, "num_heads": 2},
                       [(2, 3, 16), ("i64", [1]), (5, 2), (5, 2)]),
    "rotary_partial_of_heads": ("RotaryEmbedding", 1, {"rotary_embedding_dim": 4, "num_heads": 3, "interleaved": 1},
                                [(2, 3, 4, 8), ("i64", [[0, 1, 2, 3], [1, 4, 2, 0]]), (5, 2), (5, 2)]),
    "gather_4_bits": ("GatherBlockQuantized", 1, {"block_size": 16, "quantize_axis": 1}, [("u8", (6, 20)), [[1, 5, 0], [-1, 2, 2]], ("scale", (6, 3))]),
    "gather_4_bits_zeros": ("GatherBlockQuantized", 1, {"block_size": 16, "quantize_axis": 1},
                            [("u8", (6, 20)), ("i64", [4]), ("scale", (6, 3)), ("u8", (6, 2))]),
    "gather_8_bits": ("GatherBlockQuantized", 1, {"block_size": 32, "quantize_axis": 1, "bits": 8}, [("u8", (6, 64)), [2, 5], ("scale", (6, 2))]),
    "group_query_prompt": ("GroupQueryAttention", 3, {"num_heads": 4, "kv_num_heads": 2},
                           [(1, 5, 32), (1, 5, 16), (1, 5, 16), (1, 2, 0, 8), (1, 2, 0, 8), [4], ("i32", 5)]),
    "group_query_step": ("GroupQueryAttention", 3, {"num_heads": 4, "kv_num_heads": 2, "scale": 0.2, "do_rotary": 1},
                         [(1, 1, 64), (1, 1, 32), (1, 1, 32), (1, 2, 6, 16), (1, 2, 6, 16), [6], ("i32", 7), (9, 8), (9, 8)]),
    "group_query_packed": ("GroupQueryAttention", 3, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
                           [(1, 5, 128), None, None, (1, 2, 0, 16), (1, 2, 0, 16), [4], ("i32", 5), (9, 8), (9, 8)]),
    "group_query_window": ("GroupQueryAttention", 3, {"num_heads": 2, "kv_num_heads": 1, "local_window_size": 3},
                           [(1, 3, 16), (1, 3, 8), (1, 3, 8), (1, 1, 4, 8), (1, 1, 4, 8), [6], ("i32", 7)]),
    "group_query_long_caches": ("GroupQueryAttention", 3, {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1, "rotary_interleaved": 1},
                                [(1, 2, 32), (1, 2, 16), (1, 2, 16), (1, 1, 9, 16), (1, 1, 9, 16), [6], ("i32", 7), (9, 8), (9, 8)]),
    "group_query_batch": ("GroupQueryAttention", 3, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
                          [(2, 1, 64), (2, 1, 32), (2, 1, 32), (2, 2, 6, 16), (2, 2, 6, 16), [6, 3], ("i32", 7), (9, 8), (9, 8)]),
    "group_query_places": ("GroupQueryAttention", 3, {"num_heads": 2, "kv_num_heads": 2, "do_rotary": 1},
                           [(1, 2, 32), (1, 2, 32), (1, 2, 32), (1, 2, 3, 16), (1, 2, 3, 16), [4], ("i32", 5), (9, 8), (9, 8),
                            ("i64", [[5, 8]])]),
    "group_query_bias_and_cap": ("GroupQueryAttention", 3, {"num_heads": 2, "kv_num_heads": 2, "softcap": 2.0},
                                 [(1, 2, 32), (1, 2, 32), (1, 2, 32), (1, 2, 3, 16), (1, 2, 3, 16), [4], ("i32", 5), None, None,
                                  None, (1, 1, 2, 5)]),
    "fused_gemm": ("FusedGemm", 1, {"activation": "Relu", "alpha": 0.5, "beta": 2.0}, [(5, 9), (9, 7), (7,)]),
    "fused_gemm_bias": ("FusedGemm", 1, {"activation": "Tanh"}, [(5, 9), (9, 7), (7,)]),
    "fused_gemm_trans": ("FusedGemm", 1, {"activation": "Sigmoid", "transA": 1, "transB": 1}, [(9, 5), (7, 9), (5, 1)]),
    "fused_gemm_leaky": ("FusedGemm", 1, {"activation": "LeakyRelu", "activation_alpha": 0.2}, [(5, 9), (9, 7), (5, 7)]),
    "fused_gemm_without_c": ("FusedGemm", 1, {"activation": "Relu"}, [(5, 9), (9, 7)]),
    "fused_conv_relu": ("FusedConv", 1, {"activation": "Relu", "pads": [1, 1, 1, 1]}, [(2, 3, 6, 7), (4, 3, 3, 3), (4,)]),
    "fused_conv_clip": ("FusedConv", 1, {"activation": "Clip", "activation_params": [-0.5, 0.75]},
                        [(2, 3, 6, 7), (4, 3, 3, 3), (4,)]),
    "fused_conv_tanh_strided": ("FusedConv", 1, {"activation": "Tanh", "strides": [2, 1]}, [(2, 3, 6, 7), (4, 3, 3, 3)]),
    "fused_conv_sigmoid_line": ("FusedConv", 1, {"activation": "Sigmoid", "group": 2}, [(2, 4, 9), (4, 2, 3), (4,)]),
    "fused_conv_leaky": ("FusedConv", 1, {"activation": "LeakyRelu", "activation_params": [0.3]},
                         [(2, 3, 6, 7), (4, 3, 3, 3), (4,)]),
    "fused_conv_hard_sigmoid": ("FusedConv", 1, {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]},
                                [(2, 3, 6, 7), (4, 3, 3, 3), (4,)]),
    "fused_conv_sum": ("FusedConv", 1, {"activation": "Relu"}, [(2, 3, 6, 7), (4, 3, 3, 3), (4,), (2, 4, 4, 5)]),
    "qgemm": ("QGemm", 1, {}, [("u8", (5, 33)), ("scale", ()), ("u8", ()), ("i8", (33, 40)), ("scale", (40,)), ("zero", (40,))]),
    "qgemm_transposed": ("QGemm", 1, {"transA": 1, "transB": 1, "alpha": 0.5},
                         [("u8", (33, 5)), ("scale", ()), ("u8", ()), ("i8", (40, 33)), ("scale", ()), ("zero", ()), [7] * 40]),
    "qgemm_with_c": ("QGemm", 1, {}, [("u8", (5, 33)), ("scale", ()), ("u8", ()), ("i8", (33, 4)), ("scale", ()), ("zero", ()),
                                      [[100, -2000, 3000, -40]]]),
    "dynamic_quantize_lstm": ("DynamicQuantizeLSTM", 3, {"hidden_size": 8},
                              [(5, 1, 12), ("i8", (1, 12, 32)), ("i8", (1, 8, 32)), (1, 64), None, None, None, None,
                               ("scale", (1,)), ("i8", (1,)), ("scale", (1,)), ("i8", (1,))]),
    "dynamic_quantize_lstm_batch": ("DynamicQuantizeLSTM", 3, {"hidden_size": 8},
                                    [(5, 3, 12), ("i8", (1, 12, 32)), ("i8", (1, 8, 32)), (1, 64), [5, 2, 4], None, None,
                                     None, ("scale", (1,)), ("i8", (1,)), ("scale", (1,)), ("i8", (1,))]),
    "fused_conv_cube": ("FusedConv", 1, {"activation": "Relu"}, [(1, 2, 4, 4, 4), (3, 2, 3, 3, 3), (3,)]),
    "dynamic_quantize_lstm_both_ways": ("DynamicQuantizeLSTM", 3, {"hidden_size": 8, "direction": "bidirectional"},
                                        [(5, 1, 12), ("u8", (2, 12, 32)), ("u8", (2, 8, 32)), (2, 64), None,
                                         (2, 1, 8), (2, 1, 8), None, ("scale", (2,)), ("u8", (2,)), ("scale", (2,)),
                                         ("u8", (2,))]),
    "dynamic_quantize_lstm_by_column": ("DynamicQuantizeLSTM", 3, {"hidden_size": 8, "direction": "reverse"},
                                        [(5, 1, 12), ("i8", (1, 12, 32)), ("i8", (1, 8, 32)), None, None, None, None,
                                         (1, 24), ("scale", (1, 32)), ("zero", (1, 32)), ("scale", (1, 32)),
                                         ("zero", (1, 32))]),
}
for _bits in (2, 4, 8):
    for _block in (16, 32, 64):
        _k, _n = 70, 5
        _blocks = -(-_k // _block)
        _in = [(2, 3, _k), ("u8", (_n, _blocks, _block * _bits // 8)), ("scale", (_n * _blocks,))]
        _at = {"K": _k, "N": _n, "bits": _bits, "block_size": _block}
        CASES[f"matmul_{_bits}_bits_block_{_block}"] = ("MatMulNBits", 1, _at, _in)
        CASES[f"matmul_{_bits}_bits_block_{_block}_zeros"] = (
            "MatMulNBits", 1, _at, _in + [("u8", (_n * -(-_blocks * _bits // 8),)), None, (_n,)])
        if _bits == 4:
            CASES[f"matmul_{_bits}_bits_block_{_block}_float_zeros"] = ("MatMulNBits", 1, _at, _in + [(_n * _blocks,)])


def make(rng, spec):
    import numpy as np
    if isinstance(spec, list):
        return np.array(spec, "i4")
    kind, shape = spec if spec and isinstance(spec[0], str) else ("f32", spec)
    if kind in ("i64", "i32"):
        return np.array(shape, "i8" if kind == "i64" else "i4")
    if kind in ("u8", "i8"):
        return rng.integers(0 if kind == "u8" else -128, 256 if kind == "u8" else 128, shape).astype(kind[0] + "1")
    if kind == "zero":
        return np.zeros(shape, "i1")
    if kind == "scale":
        return rng.uniform(0.01, 0.1, shape).astype("f4")
    return rng.standard_normal(shape).astype("f4")


def engine(model, feed, want, tolerance=(1e-4, 1e-5), args=()):
    """Run the model. Returns "" or the difference between its outputs and the expected ones."""
    import numpy as np
    import onnx
    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, f"{d}/m.onnx")
        cmd = [os.path.join(BUILD, "steno"), "run", f"{d}/m.onnx", "--output-dir", d, *args]
        for n, v in feed.items():
            np.save(f"{d}/{n}.npy", v)
            cmd += ["--input", f"{n}={d}/{n}.npy"]
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=60 * SLOW)
        if p.returncode:
            return p.stderr.strip() or f"exit {p.returncode}"
        for i, w in enumerate(want):
            got = np.load(f"{d}/{i}.npy")
            if got.shape != w.shape or not np.allclose(got, w, *tolerance):
                return f"output {i}: {got.shape} {np.abs(got - w).max() if got.shape == w.shape else w.shape}"
    return ""


def build(name, op, n_out, attrs, names, values, fed):
    from onnx import TensorProto, helper, numpy_helper
    wanted = range(n_out) if isinstance(n_out, int) else n_out
    outs = [f"y{i}" if i in wanted else "" for i in range(wanted[-1] + 1)]
    graph = helper.make_graph([helper.make_node(op, names, outs, domain="" if op in OF_ONNX else "com.microsoft", **attrs)], name,
                              [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype),
                                                             values[n].shape) for n in fed],
                              [helper.make_tensor_value_info(o, TensorProto.INT32 if op[0] == "E" and o == "y1" else
                                                             TensorProto.FLOAT, None) for o in outs if o],
                              [numpy_helper.from_array(v, n) for n, v in values.items() if n not in fed])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=8)


def run(name, op, n_out, attrs, specs):
    import numpy as np
    import onnxruntime
    import ort_exact
    rng = np.random.default_rng(1)
    names = [f"x{i}" if s is not None else "" for i, s in enumerate(specs)]
    values = {n: make(rng, s) for n, s in zip(names, specs) if n}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM takes the range of each thread's part
    built_in = build(name, op, n_out, attrs, names, values, ["x0"])
    want = ort_exact.Session(built_in.SerializeToString(), options,
                             providers=["CPUExecutionProvider"]).run(None, {"x0": values["x0"]})
    why = engine(built_in, {"x0": values["x0"]}, want)
    return why or engine(build(name, op, n_out, attrs, names, values, list(values)), values, want)


def position_bias(both, table, queries, keys, far):
    """T5's buckets by the definition, in double precision."""
    import math
    import numpy as np
    buckets, heads = table.shape
    y = np.zeros((1, heads, queries, keys), "f4")
    for q in range(queries):
        for k in range(keys):
            n, first, d = (buckets // 2, buckets // 2 if k > q else 0, abs(k - q)) if both else (buckets, 0, max(q - k, 0))
            exact = n // 2
            if d >= exact:
                d = min(n - 1, exact + int(math.log(d / exact) / math.log(far / exact) * (n - exact) + 1e-6))
            y[0, :, q, k] = table.reshape(heads, buckets)[:, first + d]
    return y


def run_position_bias(both):
    import numpy as np
    rng = np.random.default_rng(2)
    values = {"x0": rng.standard_normal((12, 3)).astype("f4"), "x1": np.array([40]), "x2": np.array([40])}
    model = build("bias", "RelativePositionBias", 1, {"is_bidirectional": both, "max_distance": 20}, list(values), values,
                  ["x0"])
    return engine(model, {"x0": values["x0"]}, [position_bias(both, values["x0"], 40, 40, 20)])


def run_gated_bias():
    import numpy as np
    rng = np.random.default_rng(3)
    shapes = [(2, 5, 12), (12,), (1, 3, 5, 5), (4, 8), (8,), (1, 3, 1, 1)]
    values = {f"x{i}": rng.standard_normal(s).astype("f4") for i, s in enumerate(shapes)}
    q, qb, rel, w, b, eco = values.values()
    x = (q + qb).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3) @ w + b
    u, r = np.split(1 / (1 + np.exp(-x.reshape(2, 3, 5, 2, 4).sum(-1))), 2, -1)
    return engine(build("gated", "GatedRelativePositionBias", 1, {"num_heads": 3}, list(values), values, list(values)),
                  values, [(u * (r * eco - 1) + 2) * rel])


def run_scan8(lens, directions):
    """Scan of opset 8, with its batch axis and sequence lengths. It is not in this domain, but no node test has it."""
    import numpy as np
    import ort_exact
    from onnx import TensorProto, helper
    rng = np.random.default_rng(4)
    values = {"s": rng.standard_normal((2, 3)).astype("f4"), "x": rng.standard_normal((2, 4, 3)).astype("f4")}
    if lens:
        values["n"] = np.array(lens)
    f = TensorProto.FLOAT
    body = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Mul", ["c", "b"], ["d"])], "body",
                             [helper.make_tensor_value_info(i, f, [3]) for i in "ab"],
                             [helper.make_tensor_value_info(o, f, [3]) for o in "cd"])
    node = helper.make_node("Scan", ["n" if lens else "", "s", "x"], ["t", "y"], body=body, num_scan_inputs=1,
                            **({"directions": directions} if directions else {}))
    graph = helper.make_graph([node], "scan", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype),
                                                                             v.shape) for n, v in values.items()],
                              [helper.make_tensor_value_info(o, f, None) for o in "ty"])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    want = ort_exact.Session(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, values)
    return engine(model, values, want)


def run_roi_pool():
    """MaxRoiPool: no node test has it either."""
    import numpy as np
    import ort_exact
    from onnx import TensorProto, helper
    rng = np.random.default_rng(6)
    values = {"x": rng.standard_normal((2, 3, 7, 9)).astype("f4"),
              "r": np.array([[0, 1, 2, 12, 9], [1, 0, 0, 17, 13], [1, 5, 5, 5, 5], [0, 16, 12, 40, 30], [0, 9, 3, 2, 1]], "f4")}
    f = TensorProto.FLOAT
    graph = helper.make_graph([helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 2], spatial_scale=0.5)], "g",
                              [helper.make_tensor_value_info(n, f, v.shape) for n, v in values.items()],
                              [helper.make_tensor_value_info("y", f, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    want = ort_exact.Session(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, values)
    return engine(model, values, want)


def run_conv_transpose(threads):
    """ConvTranspose whose weights are packed: those of the node tests are too small."""
    import numpy as np
    import ort_exact
    from onnx import TensorProto, helper, numpy_helper
    rng, f = np.random.default_rng(7), TensorProto.FLOAT
    for x, w, attrs in (((2, 64, 37), (64, 128, 16), {"strides": [8], "pads": [4, 3]}),
                        ((1, 256, 9), (256, 64, 5), {"strides": [3], "dilations": [2], "group": 1, "output_padding": [2]}),
                        ((1, 160, 11), (160, 300, 3), {"strides": [2], "group": 2, "pads": [1, 0]}),
                        ((2, 96, 7, 5), (96, 90, 3, 4), {"strides": [2, 3], "pads": [1, 2, 0, 1], "dilations": [2, 1]}),
                        ((1, 128, 1, 700), (128, 130, 1, 4), {"strides": [1, 2]})):
        values = {"x": rng.standard_normal(x).astype("f4")}
        built = {"w": rng.standard_normal(w).astype("f4") / 30, "b": rng.standard_normal(w[1] * attrs.get("group", 1)).astype("f4")}
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], kernel_shape=w[2:], **attrs)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", f, x)],
                                  [helper.make_tensor_value_info("y", f, None)], [numpy_helper.from_array(v, k) for k, v in built.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        want = ort_exact.Session(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, values)
        why = engine(model, values, want, args=("--threads", str(threads)))
        if why:
            return f"{x} {w} {attrs}: {why}"
    return ""


def main():
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        print("ok 1 - contrib operators # SKIP the packages onnx and onnxruntime are absent\n1..1")
        return 0
    import ort_exact
    bad = 0
    tests = {name: lambda name=name, case=case: run(name, *case) for name, case in CASES.items()}
    # ONNX Runtime has these two for other devices only, so they are compared with their definition.
    tests["relative_position_bias"] = lambda: run_position_bias(0)
    tests["relative_position_bias_both_ways"] = lambda: run_position_bias(1)
    tests["gated_relative_position_bias"] = run_gated_bias
    tests["max_roi_pool"] = run_roi_pool
    for threads in (1, 3):
        tests[f"conv_transpose_of_large_weights_{threads}_threads"] = lambda threads=threads: run_conv_transpose(threads)
    for name, args in {"": (None, None), "_lengths": ([4, 2], None), "_backwards": ([2, 4], [1])}.items():
        tests[f"scan_of_opset_8{name}"] = lambda args=args: run_scan8(*args)
    for i, (name, test) in enumerate(tests.items(), 1):
        try:
            why = test()
        except ort_exact.Saturates as e:
            print(f"ok {i} - {name} # SKIP {e}")
            continue
        bad += bool(why)
        print(f"{'not ok' if why else 'ok'} {i} - {name}" + (f"\n# {why}" if why else ""))
    print(f"1..{len(tests)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
