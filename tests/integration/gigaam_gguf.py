"""GigaAM 3 as GGUF of transcribe.cpp and CrispASR, out of the ONNX networks of sherpa-onnx's layout: weights by their place in them."""
import numpy as np
import onnx
from onnx import numpy_helper

import gguf_write
import nemo_gguf

HEADS = 4  # of shared/zoo/tiny/giga-am-v3-rnnt
LAYERS = 2
K, E, F, C = "stt.gigaam.", "stt.gigaam.encoder.", "stt.frontend.", "gigaam."
PARTS = ("norm_ff1", "ff1.linear1", "ff1.linear2", "norm_attn", "attn.linear_q", "attn.linear_k", "attn.linear_v", "attn.linear_out", "norm_conv", "conv.pointwise1",
         "conv.depthwise", "conv.ln", "conv.pointwise2", "norm_ff2", "ff2.linear1", "ff2.linear2", "norm_out")


def encoder(path):
    """-> tensors as transcribe.cpp calls them, metadata, base of the rotations"""
    m = onnx.load(path)
    c = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == "Identity" and n.input[0] in c:
            c[n.output[0]] = c[n.input[0]]
    nodes = [n for n in m.graph.node if n.op_type in ("Conv", "LayerNormalization", "MatMul", "Add") and any(i in c for i in n.input)]
    flow, t = iter(nodes), {}

    def take(name):
        n = next(flow)
        if n.op_type == "MatMul":
            t[name + ".weight"], b = c[n.input[1]].T, next(flow)
            t[name + ".bias"] = next(c[i] for i in b.input if i in c)
        else:
            t[name + ".weight"], t[name + ".bias"] = (c[i] for i in n.input[1:])
    take("enc.pre_encode.conv.0")
    take("enc.pre_encode.conv.2")
    for i in range(LAYERS):
        for part in PARTS:
            take(f"enc.blocks.{i}.{part}")
    assert next(flow, None) is None
    table = next(numpy_helper.to_array(n.attribute[0].t) for n in m.graph.node
                 if n.op_type == "Constant" and n.attribute[0].name == "value" and len(n.attribute[0].t.dims) == 4 and n.attribute[0].t.dims[0] > 100)
    return t, {p.key: p.value for p in m.metadata_props}, len(table) // 2


def of_transcribe_cpp(folder, ctc):
    t, meta, base = encoder(folder + "/encoder.onnx")
    with open(folder + "/tokens.txt", encoding="utf-8") as f:
        pieces = [line.rstrip("\n").rsplit(" ", 1)[0] for line in f][:-1]
    d = t["enc.blocks.0.norm_out.weight"].shape[0]
    keys = {"general.architecture": "gigaam", "general.version": "v3", "general.languages": ["ru"], "stt.variant": "gigaam-v3-rnnt",
            K + "head_kind": "ctc" if ctc else "rnnt", "tokenizer.ggml.model": "char", "tokenizer.ggml.tokens": pieces + ["<blank>"],
            "tokenizer.ggml.scores": [0.0] * (len(pieces) + 1), "tokenizer.ggml.token_type": [1] * len(pieces) + [3], "tokenizer.ggml.blank_token_id": len(pieces),
            E + "n_layers": LAYERS, E + "d_model": d, E + "n_heads": HEADS, E + "d_ff": len(t["enc.blocks.0.ff1.linear1.bias"]),
            E + "conv_kernel": t["enc.blocks.0.conv.depthwise.weight"].shape[2], E + "subsampling_factor": int(meta["subsampling_factor"]), E + "subs_kernel_size": 5,
            E + "pos_emb_max_len": base, E + "feat_in": 64, E + "self_attention_model": "rotary", E + "conv_norm_type": "layer_norm",
            F + "type": "mel", F + "num_mels": 64, F + "sample_rate": 16000, F + "n_fft": 320, F + "win_length": 320, F + "hop_length": 160, F + "window": "hann_periodic",
            F + "normalize": "none", F + "dither": 0.0, F + "pre_emphasis": 0.0, F + "f_min": 0.0, F + "f_max": 8000.0, F + "center": False, F + "mel_norm": "htk",
            F + "log_clamp_min": 1e-9, F + "log_clamp_max": 1e9}
    window, filters = [gguf_write.of_bf16(x.astype("f4"))[1] for x in front()]
    t.update({"frontend.window": window, "frontend.mel_filterbank": filters})
    if ctc:
        keys.update({K + "head.feat_in": d, K + "head.num_classes": len(pieces) + 1})
        rng = np.random.default_rng(5)
        t["head.ctc.weight"], t["head.ctc.bias"] = rng.normal(size=(len(pieces) + 1, d, 1)), rng.normal(size=len(pieces) + 1) * 0.1
        return keys, t
    t.update(nemo_gguf.heads_of(folder))
    keys.update({K + "predictor.hidden": len(t["pred.lstm.0.bias"]) // 4, K + "predictor.n_layers": 1, K + "predictor.vocab": len(pieces) + 1,
                 K + "joint.hidden": len(t["joint.enc.bias"]), K + "joint.num_classes": len(pieces) + 1, K + "joint.activation": "relu"})
    return keys, t


def front():
    """torch's periodic Hann window, and torchaudio's triangles on the HTK scale"""
    mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 66)
    hz = 700 * (10 ** (mel / 2595) - 1)
    at = np.linspace(0, 8000, 161)
    up, down = (at[None] - hz[:-2, None]) / np.diff(hz)[:-1, None], (hz[2:, None] - at[None]) / np.diff(hz)[1:, None]
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(320) / 320), np.maximum(0, np.minimum(up, down))


def of_crispasr(folder, ctc):
    keys, t = of_transcribe_cpp(folder, ctc)
    pieces, out = keys["tokenizer.ggml.tokens"][:-1], {}
    for name, x in t.items():
        for a, b in (("enc.pre_encode.", "encoder.pre."), ("enc.blocks.", "encoder.layers."), ("attn.linear_", "attn."), ("pointwise", "pw"), ("depthwise", "dw"),
                     ("pred.embed", "decoder.embed"), ("pred.lstm", "decoder.lstm"), (".Wx", ".w_ih"), (".Wh", ".w_hh"), ("frontend.window", "preprocessor.window"),
                     ("frontend.mel_filterbank", "preprocessor.fb")):
            name = name.replace(a, b)
        if name.startswith("decoder.lstm") and name.endswith("bias"):
            out[name.replace("bias", "b_ih")], name, x = x / 4, name.replace("bias", "b_hh"), x * 0.75
        out[name] = x[:, :, 0] if name == "head.ctc.weight" else x
    same = {"sample_rate": F + "sample_rate", "n_mels": F + "num_mels", "n_fft": F + "n_fft", "win_length": F + "win_length", "hop_length": F + "hop_length",
            "mel_center": F + "center", "d_model": E + "d_model", "n_layers": E + "n_layers", "n_heads": E + "n_heads", "ff_dim": E + "d_ff",
            "subsampling_factor": E + "subsampling_factor", "subsampling_channels": E + "d_model", "subs_kernel": E + "subs_kernel_size", "conv_kernel": E + "conv_kernel",
            "conv_norm_type": E + "conv_norm_type", "self_attention_model": E + "self_attention_model", "pos_emb_max_len": E + "pos_emb_max_len",
            "head_type": K + "head_kind", "pred_hidden": K + "predictor.hidden", "pred_layers": K + "predictor.n_layers", "joint_hidden": K + "joint.hidden"}
    new = {"general.architecture": "gigaam", C + "model_name": "v3_rnnt", **{C + k: keys[v] for k, v in same.items() if v in keys},
           C + "head_dim": keys[E + "d_model"] // HEADS, C + "rope_base": float(keys[E + "pos_emb_max_len"]), C + "num_classes": len(pieces) + 1,
           C + "blank_id": len(pieces), C + "vocab_size": len(pieces), C + "tokenizer_type": "charwise", C + "frame_dur_cs": 4, "tokenizer.ggml.tokens": pieces}
    return new, out


def convert(folder, path, program, ctc=False, change=None, kind="F32", rounded=False):
    """change(keys, tensors) changes what is written. ctc: a head of random weights in place of the transducer."""
    keys, t = program(folder, ctc)
    if change:
        change(keys, t)
    gguf_write.write(path, keys, t, kind, rounded)
