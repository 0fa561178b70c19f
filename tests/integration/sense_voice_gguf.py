"""SenseVoice as GGUF of transcribe.cpp, CrispASR and SenseVoice.cpp, out of sherpa-onnx's ONNX network: weights by their place in it."""
import numpy as np
import onnx
from onnx import numpy_helper

import gguf_write

HEADS = 4  # of shared/zoo/tiny/sense-voice
CODES = {"lang_auto": 0, "lang_zh": 3, "lang_en": 4, "lang_yue": 7, "lang_ja": 11, "lang_ko": 12, "lang_nospeech": 13}


def read(folder):
    """-> FunASR's names and tensors, metadata, pieces"""
    m = onnx.load(folder + "/model.onnx")
    c = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type == "Identity" and n.input[0] in c:
            c[n.output[0]] = c[n.input[0]]
    flow = iter([c[i] for n in m.graph.node if n.op_type in ("Gather", "Mul", "Add", "MatMul", "Conv") for i in n.input if i in c])
    t = {"embed.weight": next(flow)}
    assert all(np.array_equal(next(flow), t["embed.weight"]) for _ in range(2))

    def take(name, *parts):
        for part in parts:
            x = next(flow)
            t[f"{name}.{part}"] = x.T if x.ndim == 2 else x

    rest = sum(1 for n in m.graph.node if n.op_type == "Conv")
    blocks = ["encoder.encoders0.0."] + [f"encoder.encoders.{i}." for i in range(rest - 2)] + ["encoder.tp_encoders.0."]
    for b in blocks:
        if "tp_" in b:
            take("encoder.after_norm", "weight", "bias")
        take(b + "norm1", "weight", "bias")
        take(b + "self_attn.linear_q_k_v", "weight", "bias")
        take(b + "self_attn.fsmn_block", "weight")
        take(b + "self_attn.linear_out", "weight", "bias")
        take(b + "norm2", "weight", "bias")
        take(b + "feed_forward.w_1", "weight", "bias")
        take(b + "feed_forward.w_2", "weight", "bias")
    take("encoder.tp_norm", "weight", "bias")
    take("ctc.ctc_lo", "weight", "bias")
    assert next(flow, None) is None
    meta = {p.key: p.value for p in m.metadata_props}
    with open(folder + "/tokens.txt", encoding="utf-8") as f:
        pieces = [line.rstrip("\n").rsplit(" ", 1)[0] for line in f]
    return t, meta, pieces


def sizes(t):
    d = len(t["encoder.tp_norm.weight"])
    blocks = 1 + max(int(n.split(".")[2]) for n in t if n.startswith("encoder.encoders.")) + 1
    behind = 1 + max(int(n.split(".")[2]) for n in t if n.startswith("encoder.tp_encoders."))
    return d, blocks, behind, len(t["encoder.encoders0.0.feed_forward.w_1.bias"]), t["encoder.encoders0.0.self_attn.fsmn_block.weight"].shape[2]


def statistics(meta):
    return [np.array([float(x) for x in meta[key].split(",")], "f4") for key in ("neg_mean", "inv_stddev")]


def renamed(t, parts):
    out = {}
    for name, x in t.items():
        for a, b in parts:
            name = name.replace(a, b)
        out[name] = x
    return out


def of_transcribe_cpp(t, meta, pieces):
    d, blocks, behind, ff, kernel = sizes(t)
    e, f = "stt.sensevoice.encoder.", "stt.frontend."
    keys = {"general.architecture": "sensevoice", "general.languages": ["zh", "yue", "en", "ja", "ko"], "stt.variant": "sensevoice-small",
            "tokenizer.ggml.model": "bpe", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * len(pieces),
            "tokenizer.ggml.token_type": [2 if i == 0 else 3 if p.startswith("<") else 1 for i, p in enumerate(pieces)],
            "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.blank_token_id": 0,
            e + "n_blocks": blocks, e + "tp_blocks": behind, e + "d_model": d, e + "d_input": 560, e + "n_heads": HEADS, e + "d_ff": ff, e + "kernel_size": kernel,
            e + "sanm_shift": 0, e + "attention_type": "sanm", e + "normalize_before": True,
            **{"stt.sensevoice.special." + k: v for k, v in {**CODES, "event_speech": 1, "emotion_neutral": 2, "withitn": 14, "woitn": 15}.items()},
            f + "type": "kaldi_fbank_lfr", f + "num_mels": 80, f + "sample_rate": 16000, f + "n_fft": 400, f + "win_length": 400, f + "hop_length": 160,
            f + "window": "hamming", f + "normalize": "per_feature", f + "dither": 0.0, f + "upscale_samples": True, f + "snip_edges": True,
            f + "lfr_m": int(meta["lfr_window_size"]), f + "lfr_n": int(meta["lfr_window_shift"]), f + "fbank_style": "kaldi_htk"}
    tensors = renamed(t, (("embed.", "enc.embed."), ("encoder.", "enc."), ("self_attn.linear_q_k_v", "attn.qkv"), ("self_attn.linear_out", "attn.out"),
                          ("self_attn.fsmn_block", "attn.fsmn"), ("feed_forward.w_", "ffn.fc"), ("norm1.", "norm_attn."), ("norm2.", "norm_ffn."), ("ctc.ctc_lo", "ctc.head")))
    tensors["frontend.cmvn.shift"], tensors["frontend.cmvn.scale"] = statistics(meta)
    return keys, tensors


def of_crispasr(t, meta, pieces):
    d, blocks, behind, ff, kernel = sizes(t)
    s = "sensevoice."
    keys = {"general.architecture": "sensevoice", "general.name": "SenseVoiceSmall", s + "n_mels": 80, s + "lfr_m": int(meta["lfr_window_size"]),
            s + "lfr_n": int(meta["lfr_window_shift"]), s + "sample_rate": 16000, s + "frame_length_ms": 25, s + "frame_shift_ms": 10, s + "d_model": d,
            s + "n_heads": HEADS, s + "ffn_dim": ff, s + "n_blocks_base": blocks, s + "n_blocks_tp": behind, s + "sanm_kernel": kernel,
            s + "vocab_size": len(pieces), s + "blank_id": 0, s + "sos_id": 1, s + "eos_id": 2, **{s + k: v for k, v in CODES.items()},
            s + "event_query": 1, s + "emo_query": 2, s + "textnorm_withitn": 14, s + "textnorm_woitn": 15,
            "tokenizer.ggml.model": "sentencepiece", "tokenizer.ggml.tokens": pieces}
    tensors = {}
    for name, x in t.items():
        p = name.split(".")
        if p[1] in ("encoders0", "encoders", "tp_encoders"):
            layer = {"encoders0": 0, "encoders": 1, "tp_encoders": blocks}[p[1]] + int(p[2])
            name = f"enc.blk.{layer}." + ".".join(p[3:])
        for a, b in (("self_attn.linear_q_k_v", "attn.qkv"), ("self_attn.linear_out", "attn.out"), ("self_attn.fsmn_block", "attn.fsmn"), ("feed_forward.w_", "ffn.l"),
                     ("encoder.", "enc."), ("ctc.ctc_lo", "ctc"), (".weight", ".w"), (".bias", ".b")):
            name = name.replace(a, b)
        tensors[s + ("query_embed.w" if name == "embed.w" else name)] = x[:, 0] if x.ndim == 3 else x
    tensors[s + "cmvn_shift"], tensors[s + "cmvn_scale"] = statistics(meta)
    return keys, tensors


def of_sense_voice_cpp(t, meta, pieces):
    d, blocks, behind, ff, kernel = sizes(t)
    keys = {"general.architecture": "SenseVoiceSmall", "frontend.sample_rate": 16000, "frontend.window": "hamming", "frontend.num_mels": 80,
            "frontend.frame_length": 25, "frontend.frame_shift": 10, "frontend.lfr_m": int(meta["lfr_window_size"]), "frontend.lfr_n": int(meta["lfr_window_shift"]),
            "encoder.output_size": d, "encoder.attention_heads": HEADS, "encoder.linear_units": ff, "encoder.num_blocks": blocks, "encoder.tp_blocks": behind,
            "encoder.kernel_size": kernel, "encoder.sanm_shfit": 0, "tokenizer.vocab_size": len(pieces),
            "tokenizer.ggml.tokens": [p.replace("\u2581", " ") for p in pieces], "tokenizer.unk_symbol": "<unk>"}
    tensors = {"_model.stft.forward_basis_buffer.weight": np.zeros((4, 2), "f4")}
    for name, x in t.items():
        if "linear_q_k_v" in name:
            for part, third in zip("qkv", np.split(x, 3)):
                tensors[name.replace("q_k_v", part)] = third
        else:
            tensors[name] = x
    return keys, tensors


def mvn(meta):
    """FunASR's am.mvn"""
    text = "<Nnet> \n<Splice> 560 560\n[ 0 ]\n"
    for mark, key in (("<AddShift>", "neg_mean"), ("<Rescale>", "inv_stddev")):
        text += f"{mark} 560 560\n<LearnRateCoef> 0 [ {meta[key].replace(',', ' ')} ]\n"
    return text + "</Nnet>\n"


def convert(folder, path, program, change=None, kind="F32", rounded=False):
    """change(keys, tensors) changes what is written."""
    keys, tensors = program(*read(folder))
    if change:
        change(keys, tensors)
    gguf_write.write(path, keys, tensors, kind, rounded)
