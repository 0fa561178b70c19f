"""Parakeet as GGUF of transcribe.cpp, out of the ONNX networks of sherpa-onnx's layout with caches: weights by their place in NeMo's encoder."""
import json

import numpy as np
import onnx
from onnx import numpy_helper

import gguf_write

P, E, F = "stt.parakeet.", "stt.parakeet.encoder.", "stt.frontend."


def weights(path):
    """-> [(type of the node, [constants])] of the nodes that have some, and the metadata"""
    m = onnx.load(path)
    c = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == "Identity" and n.input[0] in c:
            c[n.output[0]] = c[n.input[0]]
    return [(n.op_type, [c[i] for i in n.input if i in c]) for n in m.graph.node], {p.key: p.value for p in m.metadata_props}


def take(nodes, kind, rank=2):
    return iter([c for k, c in nodes if k == kind and c and c[0].ndim >= rank])


def encoder(nodes, layers, heads):
    products, convolutions = take(nodes, "MatMul"), take(nodes, "Conv", 3)
    biases = iter([c[0] for k, c in nodes if k == "Add" and c and c[0].ndim == 2 and c[0].shape[0] == heads])
    d = next(c[0].shape[1] for k, c in nodes if k == "MatMul" and c)
    flat = [c[0] for k, c in nodes if k == "Add" and c and c[0].shape == (d,)]
    t = {}
    for i in (0, 2, 3, 5, 6):
        t[f"enc.pre_encode.conv.{i}.weight"], t[f"enc.pre_encode.conv.{i}.bias"] = next(convolutions)
    t["enc.pre_encode.out.weight"], t["enc.pre_encode.out.bias"] = next(products)[0].T, flat[0]
    for i in range(layers):
        b = f"enc.blocks.{i}."
        for norm in ("norm_ff1", "norm_attn", "norm_conv", "conv.bn", "norm_ff2", "norm_out"):  # as they begin in training
            t[b + norm + ".weight"], t[b + norm + ".bias"] = np.ones(d, "f4"), np.zeros(d, "f4")
        for name in ("ff1.linear1", "ff1.linear2", "attn.linear_q", "attn.linear_k", "attn.linear_v", "attn.linear_pos", "attn.linear_out", "ff2.linear1", "ff2.linear2"):
            t[b + name + ".weight"] = next(products)[0].T
        for name in ("pointwise1", "depthwise", "pointwise2"):
            t[b + f"conv.{name}.weight"] = next(convolutions)[0]
        t[b + "attn.pos_bias_u"], t[b + "attn.pos_bias_v"] = next(biases), next(biases)
    rest = [c[0] for c in products]
    if rest:  # Nemotron 3.5: two layers behind the encoder
        more = [c[0] for k, c in nodes if k == "Add" and c and c[0].ndim == 1][-2:]
        for i, w, b in zip((0, 2), rest, more):
            t[f"prompt.mlp.{i}.weight"], t[f"prompt.mlp.{i}.bias"] = w.T, b
    return t


def gates(x):
    """ONNX's i, o, f, c to PyTorch's i, f, g, o"""
    i, o, f, g = np.split(x, 4)
    return np.concatenate([i, f, g, o])


def heads_of(folder):
    t, nodes = {}, weights(folder + "/decoder.onnx")[0]
    t["pred.embed.weight"] = next(c[0] for k, c in nodes if k == "Gather" and c and c[0].ndim == 2)
    for i, (w, r, b) in enumerate([c for k, c in nodes if k == "LSTM"]):
        t[f"pred.lstm.{i}.Wx"], t[f"pred.lstm.{i}.Wh"] = gates(w[0]), gates(r[0])
        t[f"pred.lstm.{i}.bias"] = gates(b[0][:len(b[0]) // 2]) + gates(b[0][len(b[0]) // 2:])
    nodes = weights(folder + "/joiner.onnx")[0]
    for name, w, b in zip(("enc", "pred", "out"), take(nodes, "MatMul"), [c for k, c in nodes if k == "Add" and c]):
        t[f"joint.{name}.weight"], t[f"joint.{name}.bias"] = w[0].T, b[0]
    return t


def keys(folder, meta, nodes, t):
    with open(folder + "/tokens.txt", encoding="utf-8") as f:
        pieces = [line.rstrip("\n").rsplit(" ", 1)[0] for line in f]
    left, right = int(meta["cache_last_channel_dim2"]), int(meta["chunk_shift"]) // 8 - 1
    k = {"general.architecture": "parakeet", "general.languages": ["en-US"], P + "head_kind": "rnnt",
         "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.blank_token_id": len(pieces) - 1,
         E + "n_layers": int(meta["cache_last_channel_dim1"]), E + "d_model": int(meta["cache_last_channel_dim3"]),
         E + "n_heads": len(t["enc.blocks.0.attn.pos_bias_u"]), E + "d_ff": len(t["enc.blocks.0.ff1.linear1.weight"]),
         E + "conv_kernel": int(meta["cache_last_time_dim3"]) + 1, E + "subsampling_factor": 8, E + "pos_emb_max_len": 5000,
         E + "subsampling_channels": len(t["enc.pre_encode.conv.0.weight"]), E + "use_bias": False, E + "xscaling": False,
         E + "att_context_left": left, E + "att_context_right": right, E + "att_context_style": "chunked_limited",
         E + "conv_context_left": int(meta["cache_last_time_dim3"]), E + "conv_context_right": 0, E + "conv_norm_type": "layer_norm",
         E + "att_context_size_choices": [left, right, left, 0], E + "streaming.pre_encode_cache_size": 9, E + "streaming.drop_extra_pre_encoded": 2,
         P + "predictor.hidden": int(meta["pred_hidden"]), P + "predictor.n_layers": int(meta["pred_rnn_layers"]),
         P + "joint.hidden": len(t["joint.enc.bias"]), P + "joint.activation": "relu", P + "joint.num_extra_outputs": 0,
         F + "num_mels": int(meta["feat_dim"]), F + "sample_rate": 16000, F + "n_fft": 512, F + "win_length": 400, F + "hop_length": 160,
         F + "window": "hann", F + "normalize": "none", F + "pre_emphasis": 0.97, F + "f_min": 0.0, F + "f_max": 8000.0}
    if "prompt_dictionary" in meta:
        names = json.loads(meta["prompt_dictionary"])
        k.update({P + "prompt.num_prompts": t["prompt.mlp.0.weight"].shape[1] - int(meta["cache_last_channel_dim3"]),
                  P + "prompt.hidden": len(t["prompt.mlp.0.weight"]), P + "prompt.activation": "relu", P + "prompt.auto_id": int(meta["auto_prompt_id"]),
                  P + "prompt.dictionary.locales": list(names), P + "prompt.dictionary.indices": list(names.values())})
    return k


def of_crispasr(keys, tensors):
    """The same as CrispASR's converter writes it, where the encoder has a prompt."""
    parts = (("enc.pre_encode.", "encoder.pre."), ("enc.blocks.", "encoder.layers."), ("attn.linear_", "attn."), ("pointwise", "pw"), ("depthwise", "dw"),
             ("pred.embed", "decoder.embed"), ("pred.lstm", "decoder.lstm"), (".Wx", ".w_ih"), (".Wh", ".w_hh"), ("prompt.mlp", "prompt_kernel"))
    for name in list(tensors):
        x, new = tensors.pop(name), name
        for a, b in parts:
            new = new.replace(a, b)
        if name.startswith("pred.lstm") and name.endswith("bias"):
            tensors[new.replace("bias", "b_ih")], new, x = x / 4, new.replace("bias", "b_hh"), x * 0.75
        tensors[new] = x
    n, lists = "nemotron.", (keys[P + "prompt.dictionary.locales"], keys[P + "prompt.dictionary.indices"])
    same = {"n_mels": F + "num_mels", "sample_rate": F + "sample_rate", "n_fft": F + "n_fft", "win_length": F + "win_length", "hop_length": F + "hop_length",
            "d_model": E + "d_model", "n_layers": E + "n_layers", "n_heads": E + "n_heads", "ff_dim": E + "d_ff", "conv_kernel": E + "conv_kernel",
            "subsampling_factor": E + "subsampling_factor", "subsampling_channels": E + "subsampling_channels", "xscaling": E + "xscaling",
            "pred_hidden": P + "predictor.hidden", "pred_layers": P + "predictor.n_layers", "joint_hidden": P + "joint.hidden",
            "n_tdt_durations": P + "joint.num_extra_outputs", "num_prompts": P + "prompt.num_prompts", "prompt_kernel_mid": P + "prompt.hidden"}
    pieces, chunks = keys["tokenizer.ggml.tokens"][:-1], keys[E + "att_context_size_choices"]
    new = {"general.architecture": "nemotron", **{n + k: keys[v] for k, v in same.items()}, n + "causal_downsampling": True,
           n + "conv_norm_type": "layer_norm", n + "att_context_style": "chunked_limited", n + "att_context_left": chunks[::2],
           n + "att_context_right": chunks[1::2], n + "blank_id": len(pieces), n + "prompt_langs": lists[0], n + "prompt_ids": lists[1],
           "tokenizer.ggml.tokens": pieces}
    keys.clear()
    keys.update(new)


def of_parakeet_cpp(keys, tensors):
    """The same as parakeet.cpp's converter writes it: NeMo's names."""
    parts = (("enc.pre_encode.", "encoder.pre_encode."), ("enc.blocks.", "encoder.layers."), ("norm_ff", "norm_feed_forward"), (".ff", ".feed_forward"),
             ("norm_attn", "norm_self_att"), (".attn.", ".self_attn."), ("pointwise", "pointwise_conv"), ("depthwise", "depthwise_conv"), ("conv.bn", "conv.batch_norm"),
             ("pred.embed", "decoder.prediction.embed"), ("joint.out", "joint.joint_net.2"), ("prompt.mlp", "prompt_kernel"))
    for name in list(tensors):
        x, new = tensors.pop(name), name
        for a, b in parts:
            new = new.replace(a, b)
        if name.startswith("pred.lstm"):
            layer, kind = name.split(".")[2:]
            stem = "decoder.prediction.dec_rnn.lstm."
            new = stem + {"Wx": "weight_ih_l", "Wh": "weight_hh_l", "bias": "bias_ih_l"}[kind] + layer
            if kind == "bias":
                tensors[stem + "bias_hh_l" + layer], x = x / 4, x * 0.75
        tensors[new] = x
    p, e, f = "parakeet.", "parakeet.encoder.", "parakeet.preprocessor."
    same = {e + "d_model": E + "d_model", e + "n_layers": E + "n_layers", e + "n_heads": E + "n_heads", e + "ff_dim": E + "d_ff", e + "conv_kernel": E + "conv_kernel",
            e + "conv_norm_type": E + "conv_norm_type", e + "subsampling_factor": E + "subsampling_factor", e + "subsampling_conv_channels": E + "subsampling_channels",
            e + "xscaling": E + "xscaling", e + "pos_emb_max_len": E + "pos_emb_max_len", e + "att_context_presets": E + "att_context_size_choices",
            e + "att_context_left": E + "att_context_left", e + "att_context_right": E + "att_context_right", e + "att_context_style": E + "att_context_style",
            p + "streaming.drop_extra_pre_encoded": E + "streaming.drop_extra_pre_encoded", f + "sample_rate": F + "sample_rate", f + "n_mels": F + "num_mels",
            f + "n_fft": F + "n_fft", f + "win_length": F + "win_length", f + "hop_length": F + "hop_length", f + "preemph": F + "pre_emphasis",
            p + "decoder.pred_hidden": P + "predictor.hidden", p + "decoder.pred_rnn_layers": P + "predictor.n_layers", p + "joint.joint_hidden": P + "joint.hidden",
            p + "joint.activation": P + "joint.activation", p + "prompt.num_prompts": P + "prompt.num_prompts",
            p + "prompt.dictionary.keys": P + "prompt.dictionary.locales", p + "prompt.dictionary.values": P + "prompt.dictionary.indices"}
    pieces = keys["tokenizer.ggml.tokens"][:-1]
    new = {"general.architecture": "parakeet", p + "arch": "rnnt", p + "vocab_size": len(pieces), p + "blank_id": len(pieces), p + "tokenizer.pieces": pieces,
           f + "normalize": "NA", e + "causal_downsampling": True, e + "conv_causal": True, p + "decoding.max_symbols": 10,
           **{k: keys[v] for k, v in same.items() if v in keys}}
    if P + "prompt.num_prompts" in keys:
        new[p + "prompt.present"] = True
    keys.clear()
    keys.update(new)


def convert(folder, path, change=None):
    """change(keys, tensors) changes what is written."""
    nodes, meta = weights(folder + "/encoder.onnx")
    heads = next(c[0].shape[0] for k, c in nodes if k == "Add" and c and c[0].ndim == 2)
    t = encoder(nodes, int(meta["cache_last_channel_dim1"]), heads) | heads_of(folder)
    k = keys(folder, meta, nodes, t)
    if change:
        change(k, t)
    gguf_write.write(path, k, t)
