#!/usr/bin/env python3
"""Writes the checkpoints of this folder with torch.save (torch 2.13.0), and deflated.pt with zipfile."""

import collections
import pathlib
import zipfile

import torch

here = pathlib.Path(__file__).parent
base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
state = collections.OrderedDict(
    a=base, t=base.t(), view=base[1:3, 2:5],
    h=torch.tensor([1.5, -2, 65504, 6e-8]).half(), b=torch.tensor([1.5, -3]).bfloat16(),
    d=torch.tensor([0.1, 2.0], dtype=torch.float64), i64=torch.tensor([1, -2**40]),
    i32=torch.tensor([5], dtype=torch.int32), i16=torch.tensor([-7], dtype=torch.int16),
    i8=torch.tensor([-8], dtype=torch.int8), u8=torch.tensor([200], dtype=torch.uint8),
    bool=torch.tensor([True, False]), p=torch.nn.Parameter(torch.ones(2, 2)), scalar=torch.tensor(3.25),
    empty=torch.zeros(0, 4), expanded=torch.tensor([4.0, 5.0]).expand(3, 2),
)  # fmt: skip
state._metadata = collections.OrderedDict([("", {"version": 1})])
plain = {"n": 7, "x": 1.5, "s": "text", "none": None, "yes": True, "big": 2**80, 3: "three"}
everything = {"model": state, "dims": plain, "list": [torch.tensor([9.0]), (1, 2)]}
torch.save(everything, here / "zip.pt")
torch.save(everything, here / "protocol4.pt", pickle_protocol=4)
torch.save(everything, here / "protocol5.pt", pickle_protocol=5)
torch.save(everything, here / "older.pt", _use_new_zipfile_serialization=False)
with zipfile.ZipFile(here / "zip.pt") as stored, zipfile.ZipFile(
    here / "deflated.pt", "w", zipfile.ZIP_DEFLATED
) as packed:
    for name in stored.namelist():
        packed.writestr(zipfile.ZipInfo(name), stored.read(name), zipfile.ZIP_DEFLATED)

# A Whisper model of a few thousand weights, as OpenAI's checkpoints are; element i of a tensor is (i % 17 - 8) / 16.
d, mels, context, text, vocab = 32, 2, 6, 8, 9
shapes = {"encoder.conv1.weight": (d, mels, 3), "encoder.conv1.bias": (d,), "encoder.conv2.weight": (d, d, 3),
          "encoder.conv2.bias": (d,), "encoder.positional_embedding": (context, d),
          "decoder.token_embedding.weight": (vocab, d), "decoder.positional_embedding": (text, d)}  # fmt: skip
norms, linears = ["encoder.ln_post", "decoder.ln"], {}
for side, parts in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
    block = f"{side}.blocks.0"
    norms += [f"{block}.{part}_ln" for part in (*parts, "mlp")]
    for part in parts:
        linears |= {f"{block}.{part}.{kind}": (d, d) for kind in ("query", "key", "value", "out")}
    linears |= {f"{block}.mlp.0": (4 * d, d), f"{block}.mlp.2": (d, 4 * d)}
shapes |= {f"{name}.{role}": (d,) for name in norms for role in ("weight", "bias")}
shapes |= {f"{name}.weight": shape for name, shape in linears.items()}
shapes |= {f"{name}.bias": shape[:1] for name, shape in linears.items() if not name.endswith(".key")}
dims = dict(n_mels=mels, n_vocab=vocab, n_audio_ctx=context, n_audio_state=d, n_audio_head=2, n_audio_layer=1,
            n_text_ctx=text, n_text_state=d, n_text_head=2, n_text_layer=1)  # fmt: skip
weights = {name: ((torch.arange(torch.Size(s).numel()) % 17 - 8) / 16).half().reshape(s) for name, s in shapes.items()}
torch.save({"dims": dims, "model_state_dict": weights}, here / "whisper.pt", _use_new_zipfile_serialization=False)
