"""Moonshine as GGUF of transcribe.cpp and CrispASR, out of the ONNX networks of version 2: weights by their place in them."""
import base64
import os
import shutil

import numpy as np
import onnx
from onnx import numpy_helper

import gguf_write

HEADS, LAYERS, ROTARY = 3, 2, 0.9  # of shared/zoo/tiny/moonshine-v2
K, C = "stt.moonshine.", "moonshine."


def without_bias(folder, out, tied):
    """A copy whose last layer has no bias, as in published models; tied: it is the embedding."""
    os.mkdir(out)
    for name in ("encoder_model.onnx", "tokens.txt"):
        shutil.copyfile(f"{folder}/{name}", f"{out}/{name}")
    m = onnx.load(folder + "/decoder_model_merged.onnx")
    c = {t.name: t for t in m.graph.initializer}
    rows = numpy_helper.to_array(c["t0"])
    for name, x in (("t23", rows.T), ("t6", np.zeros(len(rows), "f4")))[not tied:]:
        c[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(x), name))
    onnx.save(m, out + "/decoder_model_merged.onnx")


def tensors_of(folder):
    """-> tensors as transcribe.cpp calls them"""
    def read(name):
        m = onnx.load(f"{folder}/{name}.onnx")
        return {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    c, t = read("encoder_model"), {}
    d = c["t0"].shape[0]
    one = np.ones(d, "f4")
    t["enc.conv.0.weight"] = c["t0"]
    t["enc.conv.1.weight"], t["enc.conv.1.bias"], t["enc.conv.2.weight"], t["enc.conv.2.bias"] = (c[f"t{i}"] for i in range(1, 5))
    t["enc.conv.norm.weight"], t["enc.conv.norm.bias"], t["enc.final_norm.weight"] = c["t10"][:, 0], c["t11"][:, 0], one
    for i in range(LAYERS):
        b, at = f"enc.blocks.{i}.", 12 + 6 * i
        for name, x in zip(("attn.k", "attn.v", "attn.q", "attn.out", "ffn.fc1", "ffn.fc2"), range(at, at + 6)):
            t[f"{b}{name}.weight"] = c[f"t{x}"].T
        t[b + "ffn.fc1.bias"], t[b + "ffn.fc2.bias"] = c[f"t{6 + 2 * i}"], c[f"t{7 + 2 * i}"]
        t[b + "norm_attn.weight"] = t[b + "norm_ffn.weight"] = one
    c = read("decoder_model_merged")
    t["dec.token_embd.weight"], t["dec.final_norm.weight"], t["dec.output.weight"] = c["t0"], one, c["t23"].T
    for i in range(LAYERS):
        b, at = f"dec.blocks.{i}.", 7 + 8 * i
        names = ("self_attn.k", "self_attn.v", "self_attn.q", "self_attn.out", "cross_attn.q", "cross_attn.out", "ffn.fc1", "ffn.fc2")
        for name, x in zip(names + ("cross_attn.k", "cross_attn.v"), [*range(at, at + 8), 24 + 2 * i, 25 + 2 * i]):
            t[f"{b}{name}.weight"] = c[f"t{x}"].T
        t[b + "ffn.fc1.bias"], t[b + "ffn.fc2.bias"] = c[f"t{2 + 2 * i}"], c[f"t{3 + 2 * i}"]
        for norm in ("norm_self", "norm_cross", "norm_ffn"):
            t[f"{b}{norm}.weight"] = one
    return t


def pieces_of(folder):
    with open(folder + "/tokens.txt", encoding="utf-8") as f:
        return [base64.b64decode(line.split()[0]).decode() for line in f]


def of_transcribe_cpp(folder):
    t, pieces = tensors_of(folder), pieces_of(folder)
    del t["dec.output.weight"]  # it knows no model whose last layer is not the embedding
    d, ff = len(t["enc.final_norm.weight"]), len(t["enc.blocks.0.ffn.fc1.bias"])
    keys = {"general.architecture": "moonshine", "general.languages": ["en"], "stt.variant": "moonshine-tiny", "tokenizer.ggml.model": "bpe",
            "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": [2, 3, 3] + [1] * (len(pieces) - 3), "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.byte_fallback": True, "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.padding_token_id": 2, "tokenizer.ggml.add_bos_token": True,
            **{K + f"{side}.{k}": v for side in ("encoder", "decoder")
               for k, v in {"n_layers": LAYERS, "d_model": d, "n_heads": HEADS, "n_kv_heads": HEADS, "ffn_dim": ff, "activation": "gelu" if side == "encoder" else "silu"}.items()},
            K + "decoder.vocab_size": len(pieces), K + "decoder.max_position_embeddings": 194, K + "decoder.tie_word_embeddings": True,
            K + "partial_rotary_factor": ROTARY, K + "rope_theta": 10000.0, K + "attention_bias": False, K + "pad_head_dim_to_multiple_of": 8,
            K + "conv_stem.channels": [d, 2 * d, d], K + "conv_stem.kernel_sizes": [127, 7, 3], K + "conv_stem.strides": [64, 3, 2],
            K + "conv_stem.groupnorm_num_groups": 1, K + "conv_stem.groupnorm_eps": 1e-5, K + "decoder_start_token_id": 1, K + "bos_token_id": 1,
            K + "eos_token_id": 2, K + "pad_token_id": 2, "stt.frontend.type": "raw", "stt.frontend.sample_rate": 16000, "stt.frontend.num_mels": 1}
    return keys, t


def of_crispasr(folder):
    keys, out = of_transcribe_cpp(folder)[0], {}
    for name, x in tensors_of(folder).items():
        for a, b in (("enc.conv.norm", "encoder.groupnorm"), ("enc.conv.0", "encoder.conv1"), ("enc.conv.1", "encoder.conv2"), ("enc.conv.2", "encoder.conv3"),
                     ("enc.final_norm", "encoder.output_norm"), ("dec.final_norm", "decoder.output_norm"), ("dec.output", "decoder.output"), ("dec.token_embd", "decoder.embed_tokens"),
                     ("enc.blocks", "encoder.layers"), ("dec.blocks", "decoder.layers"), ("norm_attn", "attn_norm"), ("norm_self", "attn_norm"),
                     ("norm_cross", "cross_attn_norm"), ("norm_ffn", "ffn_norm"), ("self_attn", "attn"), ("attn.out", "attn.o")):
            name = name.replace(a, b)
        out[name] = x
    new = {"general.architecture": "moonshine", "general.name": "moonshine-tiny"}
    for side in ("encoder", "decoder"):
        for a, b in (("embedding_length", "d_model"), ("block_count", "n_layers"), ("attention.head_count", "n_heads"), ("attention.head_count_kv", "n_kv_heads"),
                     ("feed_forward_length", "ffn_dim")):
            new[f"{C}{side}.{a}"] = keys[f"{K}{side}.{b}"]
        new[f"{C}{side}.partial_rotary_factor"] = ROTARY
    new.update({C + "vocab_size": keys[K + "decoder.vocab_size"], C + "bos_token_id": 1, C + "eos_token_id": 2, C + "attention.layer_norm_epsilon": 1e-5,
                C + "rope.freq_base": 10000.0})
    for i, (kernel, stride) in enumerate(((127, 64), (7, 3), (3, 2)), 1):
        new.update({f"{C}encoder.conv{i}.kernel_size": kernel, f"{C}encoder.conv{i}.stride": stride})
    return new, out


def tokenizer_bin(folder):
    """What CrispASR's converter writes beside the file."""
    return b"".join(bytes([len(p)]) + p for p in (piece.encode() for piece in pieces_of(folder)))


def convert(folder, path, program, change=None, kind="F32", rounded=False):
    """change(keys, tensors) changes what is written."""
    keys, t = program(folder)
    if change:
        change(keys, t)
    gguf_write.write(path, keys, t, kind, rounded)
