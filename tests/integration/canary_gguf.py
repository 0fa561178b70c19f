"""Canary as GGUF of transcribe.cpp and CrispASR, out of the ONNX networks of sherpa-onnx's layout: weights by their place in them."""
import numpy as np
import onnx
from onnx import numpy_helper

import gguf_write

HEADS = 4  # of shared/zoo/tiny/nemo-canary
K, E, D, F, C = "stt.canary.", "stt.canary.encoder.", "stt.canary.decoder.", "stt.frontend.", "canary."
PRE = ("conv.0", "conv.2", "conv.3", "conv.5", "conv.6", "out")
BLOCK = ("norm_ff1", "ff1.linear1", "ff1.linear2", "norm_attn", "attn.linear_q", "attn.linear_k", "attn.linear_v", "attn.linear_pos", "attn.pos_bias_u",
         "attn.pos_bias_v", "attn.linear_out", "norm_conv", "conv.pointwise1", "conv.depthwise", "conv.pointwise2", "norm_ff2", "ff2.linear1", "ff2.linear2", "norm_out")
LAYER = ("norm1", "norm1", "self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "norm2", "cross_attn.q", "cross_attn.k", "cross_attn.v", "cross_attn.o", "norm3",
         "ffn.up", "ffn.down")


def flow_of(path):
    """-> iterator over the constants that nodes take, in order; matrices as PyTorch has them"""
    m = onnx.load(path)
    c = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == "Identity" and n.input[0] in c:
            c[n.output[0]] = c[n.input[0]]
    rows = [(n.op_type, c[i]) for n in m.graph.node if n.op_type in ("Gather", "Mul", "Add", "MatMul", "Conv") for i in n.input if i in c]
    return iter([x.T if kind == "MatMul" else x for kind, x in rows]), {p.key: p.value for p in m.metadata_props}


def tensors_of(folder):
    """-> tensors as transcribe.cpp calls them, metadata"""
    flow, meta = flow_of(folder + "/encoder.onnx")
    t = {}

    def take(flow, name, bias=True):
        t[name + ".weight"] = next(flow)
        if bias:
            t[name + ".bias"] = next(flow)
    for part in PRE:
        take(flow, "enc.pre_encode." + part)
    layers = 2
    for i in range(layers):
        b = f"enc.blocks.{i}."
        for part in BLOCK:
            if "pos_bias" in part:
                t[b + part] = next(flow)
            else:
                take(flow, b + part, part != "attn.linear_pos")
        d = len(t[b + "norm_out.bias"])
        for part, x in (("weight", np.ones(d)), ("bias", np.zeros(d)), ("running_mean", np.zeros(d)), ("running_var", np.ones(d) - 1e-5)):
            t[b + "conv.bn." + part] = x  # the ONNX file has it folded in
    take(flow, "enc.proj")
    assert next(flow, None) is None
    flow = flow_of(folder + "/decoder.onnx")[0]
    t["dec.embed.token.weight"], t["dec.embed.pos_enc"] = next(flow), next(flow)
    take(flow, "dec.embed.norm")
    for i in range(2):
        for part in LAYER:
            take(flow, f"dec.layer.{i}.{part}")
    take(flow, "dec.norm")
    take(flow, "dec.head")
    assert next(flow, None) is None
    return t, meta


def of_transcribe_cpp(folder):
    t, meta = tensors_of(folder)
    with open(folder + "/tokens.txt", encoding="utf-8") as f:
        pieces = [line.rstrip("\n").rsplit(" ", 1)[0] for line in f]
    codes = [p[2:4] for p in pieces if len(p) == 6 and p.startswith("<|") and p.endswith("|>")]
    d, dec = len(t["enc.blocks.0.norm_out.bias"]), len(t["dec.norm.bias"])
    keys = {"general.architecture": "canary", "general.languages": codes, "stt.variant": "canary-180m-flash", "stt.capability.translate": True,
            "tokenizer.ggml.model": "unigram", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * len(pieces),
            "tokenizer.ggml.token_type": [2] + [3 if p.startswith("<") else 1 for p in pieces[1:]], "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.bos_token_id": pieces.index("<|startoftranscript|>"), "tokenizer.ggml.eos_token_id": pieces.index("<|endoftext|>"),
            "tokenizer.ggml.padding_token_id": pieces.index("<pad>"),
            K + "tokenizer.lang_codes": ["spl_tokens", "en"], K + "tokenizer.lang_offsets": [0, 19], K + "tokenizer.lang_sizes": [19, len(pieces) - 19],
            K + "tokenizer.single_sp": False, K + "tokenizer.prompt_format": "canary2",
            **{K + f"special.{p.strip('<>|')}_id": i for i, p in enumerate(pieces[:14])}, **{K + f"special.lang.{c}_id": pieces.index(f"<|{c}|>") for c in codes},
            E + "n_layers": 2, E + "d_model": d, E + "n_heads": HEADS, E + "d_ff": len(t["enc.blocks.0.ff1.linear1.bias"]),
            E + "conv_kernel": t["enc.blocks.0.conv.depthwise.weight"].shape[2], E + "subsampling_factor": int(meta["subsampling_factor"]),
            E + "subsampling_channels": len(t["enc.pre_encode.conv.0.bias"]), E + "pos_emb_max_len": 5000, E + "use_bias": True,
            D + "n_layers": 2, D + "d_model": dec, D + "n_heads": HEADS, D + "d_ff": len(t["dec.layer.0.ffn.up.bias"]), D + "max_position": len(t["dec.embed.pos_enc"]),
            D + "vocab_size": len(pieces), D + "activation": "relu", D + "pre_ln": True, D + "learn_positional_encodings": False, D + "encoder_decoder_proj": True,
            F + "type": "mel", F + "num_mels": int(meta["feat_dim"]), F + "sample_rate": 16000, F + "n_fft": 512, F + "win_length": 400, F + "hop_length": 160,
            F + "window": "hann", F + "normalize": meta["normalize_type"], F + "dither": 0.0, F + "pre_emphasis": 0.97, F + "f_min": 0.0, F + "f_max": 8000.0, F + "log": True}
    return keys, t


def of_crispasr(folder):
    """canary-1b-v2, which it converts, has no layer between encoder and decoder: here it goes into the keys and values that read the encoder."""
    keys, t = of_transcribe_cpp(folder)
    out, w, b = {}, t.pop("enc.proj.weight"), t.pop("enc.proj.bias")
    for name in [f"dec.layer.{i}.cross_attn.{part}" for i in range(2) for part in "kv"]:
        t[name + ".bias"] = t[name + ".weight"] @ b + t[name + ".bias"]
        t[name + ".weight"] = t[name + ".weight"] @ w
    for name, x in t.items():
        for a, b in (("enc.pre_encode.", "encoder.pre."), ("enc.blocks.", "encoder.layers."), ("attn.linear_", "attn."), ("pointwise", "pw"), ("depthwise", "dw"),
                     ("dec.embed.token", "decoder.embed"), ("dec.embed.pos_enc", "decoder.pos_enc"), ("dec.embed.norm", "decoder.embed_ln"),
                     ("dec.layer.", "decoder.layers."), ("dec.norm", "decoder.final_norm"), ("dec.head", "decoder.head"), ("norm1.", "norm_sa."), ("norm2.", "norm_ca."),
                     ("norm3.", "norm_ff."), ("self_attn.o", "sa_out"), ("cross_attn.o", "ca_out"), ("self_attn.", "sa_"), ("cross_attn.", "ca_"), ("ffn.up", "ff_in"),
                     ("ffn.down", "ff_out")):
            if name.startswith("enc.blocks.") and (a.startswith("norm") or "self" in a):
                continue
            if name.startswith("encoder.layers.") and a in ("norm1.", "norm2.", "norm3.", "self_attn.o", "self_attn."):
                continue
            name = name.replace(a, b)
        out[name] = x
    same = {"sample_rate": F + "sample_rate", "n_mels": F + "num_mels", "n_fft": F + "n_fft", "win_length": F + "win_length", "hop_length": F + "hop_length",
            "d_model": E + "d_model", "enc_n_layers": E + "n_layers", "dec_n_layers": D + "n_layers", "n_heads": E + "n_heads", "ff_dim": E + "d_ff",
            "subsampling_factor": E + "subsampling_factor", "subsampling_channels": E + "subsampling_channels", "conv_kernel": E + "conv_kernel",
            "vocab_size": D + "vocab_size", "max_dec_ctx": D + "max_position"}
    new = {"general.architecture": "canary", **{C + k: keys[v] for k, v in same.items()}, C + "head_dim": keys[E + "d_model"] // HEADS, C + "frame_dur_cs": 8,
           "tokenizer.ggml.tokens": keys["tokenizer.ggml.tokens"]}
    return new, out


def convert(folder, path, program, change=None, kind="F32", rounded=False):
    """change(keys, tensors) changes what is written."""
    keys, t = program(folder)
    if change:
        change(keys, t)
    gguf_write.write(path, keys, t, kind, rounded)
