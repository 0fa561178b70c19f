"""Write a Whisper directory of CTranslate2's format with random weights, for shapes whose real weights are not at
hand: `whisper_random.py OUT --state 1280 --heads 20 --layers 32 --text-layers 4 --mels 128` is large-v3-turbo.
The vocabulary is one of bytes and made-up pieces; 51866 pieces are those of 100 languages (large-v3)."""
import argparse
import json
import struct
from pathlib import Path

import numpy as np

SPECIAL = {51864: 50256, 51865: 50257, 51866: 50257}


def byte_characters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(other)) for b in range(256)]


def vocabulary(n):
    pieces = byte_characters()
    pieces += [f"\u0120w{i}" for i in range(len(pieces), SPECIAL[n] - 1)] + [""]
    specials = n - len(pieces) - 1501
    named = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    languages = [f"<|language{i}|>" for i in range(specials - 2 - len(named))]
    pieces += ["<|endoftext|>", "<|startoftranscript|>"] + languages + named
    return pieces + [f"<|{i * 0.02:.2f}|>" for i in range(1501)]


def weights(a, rng):
    d, m = a.state, 4 * a.state

    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns), dtype=np.float32) / np.sqrt(columns)).astype(a.type)

    def vector(n, scale=0.02, base=0.0):
        return (base + scale * rng.standard_normal(n, dtype=np.float32)).astype(a.type)

    def norm(name):
        return {f"{name}/gamma": vector(d, base=1.0), f"{name}/beta": vector(d)}

    def linear(name, rows, columns, no_bias=None):
        b = vector(rows)
        if no_bias:
            b[no_bias[0] : no_bias[1]] = 0
        return {f"{name}/weight": matrix(rows, columns), f"{name}/bias": b}

    w = {"encoder/conv1/weight": matrix(d, 3 * a.mels).reshape(d, a.mels, 3), "encoder/conv1/bias": vector(d),
         "encoder/conv2/weight": matrix(d, 3 * d).reshape(d, d, 3), "encoder/conv2/bias": vector(d),
         "encoder/num_heads": np.int16(a.heads), **norm("encoder/layer_norm")}
    steps = np.exp(-np.log(10000) / (d // 2 - 1) * np.arange(d // 2))
    turns = np.arange(1500)[:, None] * steps
    w["encoder/position_encodings/encodings"] = np.concatenate([np.sin(turns), np.cos(turns)], 1).astype(a.type)
    w["decoder/embeddings/weight"] = matrix(a.vocab, d)
    w["decoder/position_encodings/encodings"] = matrix(448, d)
    for side, layers in (("encoder", a.layers), ("decoder", a.text_layers)):
        for i in range(layers):
            p = f"{side}/layer_{i}/"
            w |= norm(p + "self_attention/layer_norm") | norm(p + "ffn/layer_norm")
            w |= linear(p + "self_attention/linear_0", 3 * d, d, (d, 2 * d)) | linear(p + "self_attention/linear_1", d, d)
            w |= linear(p + "ffn/linear_0", m, d) | linear(p + "ffn/linear_1", d, m)
            if side == "decoder":
                w |= norm(p + "attention/layer_norm") | linear(p + "attention/linear_0", d, d)
                w |= linear(p + "attention/linear_1", 2 * d, d, (0, d)) | linear(p + "attention/linear_2", d, d)
    w |= norm("decoder/layer_norm")
    w |= {"decoder/num_heads": np.int16(a.heads), "decoder/activation": np.int8(3), "decoder/pre_norm": np.int8(1),
          "decoder/scale_embeddings": np.int8(0), "decoder/alignment_layer": np.int16(-1),
          "decoder/alignment_heads": np.int16(1), "decoder/alibi": np.int8(0),
          "decoder/start_from_zero_embedding": np.int8(0), "decoder/scale_alibi": np.int8(0),
          "decoder/alibi_use_positive_positions": np.int8(0)}
    return w


def text(value):
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def write_model(path, w):
    codes = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}
    with open(path, "wb") as f:
        f.write(struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(w)))
        for name in sorted(w):
            x = np.asarray(w[name])
            f.write(text(name) + struct.pack(f"<B{x.ndim}I", x.ndim, *x.shape))
            f.write(struct.pack("<BI", codes[x.dtype.name], x.nbytes) + x.tobytes())
        f.write(struct.pack("<I", 1) + text("decoder/projection/weight") + text("decoder/embeddings/weight"))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("out", type=Path)
    for name, value in (("state", 1280), ("heads", 20), ("layers", 32), ("text-layers", 4), ("mels", 128),
                        ("vocab", 51866), ("seed", 1)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--type", choices=("float16", "float32"), default="float16")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    write_model(a.out / "model.bin", weights(a, np.random.default_rng(a.seed)))
    (a.out / "vocabulary.json").write_text(json.dumps(vocabulary(a.vocab)))
    (a.out / "config.json").write_text(json.dumps({"alignment_heads": [[a.text_layers - 1, 0]], "lang_ids": [],
                                                   "suppress_ids": [], "suppress_ids_begin": [220, SPECIAL[a.vocab]]}))


if __name__ == "__main__":
    main()
