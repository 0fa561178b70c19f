"""steno convert of OpenAI's Whisper checkpoints: the written directory has the same weights and gives the same text. TAP."""
import base64
import json
import os
import struct
import sys

import numpy as np
from daemon import run_in_folders
from test_convert import RECORDING, steno
from test_models import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests/convert"))
from seeded import torch_file, weight  # noqa: E402

D, MELS, VOCAB, CONTEXT, TEXT = 16, 80, 51864, 1500, 448
DIMS = dict(n_mels=MELS, n_vocab=VOCAB, n_audio_ctx=CONTEXT, n_audio_state=D, n_audio_head=2, n_audio_layer=1,
            n_text_ctx=TEXT, n_text_state=D, n_text_head=2, n_text_layer=1)  # fmt: skip
KNOWN = {"encoder.blocks.0.attn.query.weight": "model.encoder.layers.0.self_attn.q_proj.weight",
         "decoder.blocks.0.cross_attn.out.bias": "model.decoder.layers.0.encoder_attn.out_proj.bias",
         "decoder.blocks.0.mlp_ln.weight": "model.decoder.layers.0.final_layer_norm.weight",
         "encoder.positional_embedding": "model.encoder.embed_positions.weight",
         "decoder.token_embedding.weight": "model.decoder.embed_tokens.weight",
         "encoder.ln_post.bias": "model.encoder.layer_norm.bias"}  # fmt: skip


def state():
    shapes = {"encoder.conv1.weight": (D, MELS, 3), "encoder.conv1.bias": (D,), "encoder.conv2.weight": (D, D, 3),
              "encoder.conv2.bias": (D,), "encoder.positional_embedding": (CONTEXT, D),
              "decoder.token_embedding.weight": (VOCAB, D), "decoder.positional_embedding": (TEXT, D)}  # fmt: skip
    linears, norms = {}, ["encoder.ln_post", "decoder.ln"]
    for side, parts in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
        block = f"{side}.blocks.0"
        norms += [f"{block}.{part}_ln" for part in (*parts, "mlp")]
        for part in parts:
            linears |= {f"{block}.{part}.{kind}": (D, D) for kind in ("query", "key", "value", "out")}
        linears |= {f"{block}.mlp.0": (4 * D, D), f"{block}.mlp.2": (D, 4 * D)}
    shapes |= {f"{n}.{role}": (D,) for n in norms for role in ("weight", "bias")}
    shapes |= {f"{n}.weight": shape for n, shape in linears.items()}
    shapes |= {f"{n}.bias": shape[:1] for n, shape in linears.items() if not n.endswith(".key")}
    return {n: weight(n, s) for n, s in shapes.items()}


def pieces():
    """256 bytes, then what nobody else has: as many as GPT-2 has."""
    return [bytes([i]) for i in range(256)] + [b" w%d" % i for i in range(50256 - 256)]


def checkpoint(d, change=lambda s: s, dims=DIMS):
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/tiny.pt", "wb") as f:
        f.write(torch_file(change(state()), dims))
    with open(f"{d}/gpt2.tiktoken", "wb") as f:
        f.writelines(base64.b64encode(p) + b" %d\n" % i for i, p in enumerate(pieces()))
    return f"{d}/tiny.pt"


def tensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[v["data_offsets"][0] : v["data_offsets"][1]], "<f4").reshape(v["shape"]) for k, v in head.items()}


def weights_keep_their_bits(d):
    pt, want = checkpoint(f"{d}/in"), state()
    said = steno("convert", pt, "-o", f"{d}/out")[0]
    assert "OpenAI's Whisper" in said, said
    got = tensors(f"{d}/out/model.safetensors")
    assert len(got) == len(want)
    for old, new in KNOWN.items():
        assert got[new].shape == want[old].shape and (got[new] == want[old]).all(), old
    with open(f"{d}/out/config.json", encoding="utf-8") as f:
        config = json.load(f)
    assert config["model_type"] == "whisper" and config["d_model"] == D and config["eos_token_id"] == 50256, config
    with open(f"{d}/out/vocab.json", encoding="utf-8") as f:
        vocab = json.load(f)
    assert len(vocab) == 50257 and vocab["<|endoftext|>"] == 50256 and vocab["A"] == 65 and vocab["\u0120w7"] == 263
    assert [vocab[c] for c in ("\u0100", "\u0120", "\u0121", "\u0143", '"', "\\", "\u00ff")] == [0, 32, 127, 173, 34, 92, 255]


def the_text_is_the_checkpoints(d):
    pt = checkpoint(f"{d}/in")
    steno("convert", pt, "-o", f"{d}/out")
    about = [steno("model", "info", m)[0] for m in (pt, f"{d}/out")]  # a file is a model, too
    assert about[0].startswith("model      tiny.pt, whisper") and about[1].startswith("model      out, whisper"), about
    assert about[0].split("features")[1] == about[1].split("features")[1], about
    how = ("--temperature-fallback", "no", "--max-new-tokens", "30", "--words")
    for beam in ("1", "4"):
        a, b = (steno("transcribe", "--model", m, "--beam", beam, *how, RECORDING)[0] for m in (pt, f"{d}/out"))
        assert a == b and len(a) > 20, (a, b)


def vocabularies_of_other_forms_are_copied(d):
    pt = checkpoint(f"{d}/in")
    os.remove(f"{d}/in/gpt2.tiktoken")
    err = steno("model", "info", pt, want=74)[1]
    assert "no vocabulary" in err and "tokenizer.json" in err and "gpt2.tiktoken" in err, err
    err = steno("convert", pt, "-o", f"{d}/out", want=74)[1]
    assert "no vocabulary" in err and "gpt2.tiktoken" in err, err
    with open(f"{d}/in/vocabulary.txt", "w", encoding="utf-8") as f:
        f.writelines(f"p{i}\n" for i in range(50256))
    os.rename(pt, f"{d}/in/model.pt")
    steno("convert", f"{d}/in", "-o", f"{d}/out")
    with open(f"{d}/in/vocabulary.txt", "rb") as a, open(f"{d}/out/vocabulary.txt", "rb") as b:
        assert a.read() == b.read()
    err = steno("convert", f"{d}/in", "-o", f"{d}/in", want=64)[1]
    assert "give another directory" in err, err


def bad_checkpoints_are_named(d):
    def refused(part, *args):
        pt = checkpoint(f"{d}/in", *args)
        err = steno("convert", pt, "-o", f"{d}/out", want=65)[1]
        assert part in err, f"'{err.strip()}' without '{part}'"
        assert not os.path.exists(f"{d}/out/config.json")

    refused("is no tensor of a Whisper", lambda s: s | {"encoder.extra.weight": np.zeros(3, "f4")})
    refused("dims.n_mels is no number", lambda s: s, DIMS | {"n_mels": 0})
    refused("can be converted", lambda s: {n: x for n, x in s.items() if "token_embedding" not in n})
    pt = checkpoint(f"{d}/in")
    with open(f"{d}/in/gpt2.tiktoken", "ab") as f:
        f.write(b"?! 50256\n")
    err = steno("convert", pt, "-o", f"{d}/out", want=65)[1]
    assert "gpt2.tiktoken:50257: expected" in err, err
    with open(pt, "rb") as f:
        whole = f.read()
    for cut in (1, 1000, len(whole) // 2, len(whole) - 1):
        with open(pt, "wb") as f:
            f.write(whole[:cut])
        steno("convert", pt, "-o", f"{d}/out", want=65)


TESTS = [weights_keep_their_bits, the_text_is_the_checkpoints, vocabularies_of_other_forms_are_copied, bad_checkpoints_are_named]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
