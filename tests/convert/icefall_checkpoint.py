#!/usr/bin/env python3
"""icefall checkpoints of random weights, and what the modules of the zipformer package compute with them.

    icefall_checkpoint.py OUT [--only NAME] [--tiny]

Needs the PyPI packages torch (2.13.0) and zipformer (0.1.3, by icefall's authors: the modules of its zipformer
recipe). What that package imports and this does not use is replaced by stand-ins. For each model: OUT/NAME.pt
({"model": state_dict}), OUT/NAME.txt (the options of `steno convert` that it needs), OUT/NAME.tokens and
OUT/NAME.npz: the outputs of the wrappers that zipformer exports to ONNX. x.T, lens.T, encoder.T, ctc.T for whole
recordings of T frames and a batch of two; chunk.x, chunk.encoder, chunk.ctc for consecutive chunks of two streams and
state.N for their last states; y, decoder, joiner. --tiny: narrow, in 16 bits, as tests/data/convert has them.
"""

import argparse
import importlib.machinery
import importlib.util
import os
import sys
import types
import zipfile

import numpy as np
import torch
from icefall_recording import frames_of, small_networks


class Missing(types.ModuleType):
    """A package that is imported and not used."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for missing in ("atdataset", "k2", "huggingface_hub", "modelscope", "kaldifst", "kaldialign", "ssentencepiece",
                "torchaudio"):  # fmt: skip
    if importlib.util.find_spec(missing) is None:
        sys.modules[missing] = Missing(missing)
sys.modules["torch.utils.tensorboard"] = Missing("torch.utils.tensorboard")
# without the package's own __init__, which imports its command line
package = types.ModuleType("zipformer")
package.__path__ = list(importlib.machinery.PathFinder.find_spec("zipformer").submodule_search_locations)
sys.modules["zipformer"] = package
from zipformer.modules import model as zip_model  # noqa: E402
from zipformer.modules.subsampling import Conv2dSubsampling  # noqa: E402

SMALL = dict(downsampling_factor="1,2,4", encoder_dim="32,48,40", num_encoder_layers="1,2,1", query_head_dim="32",
             pos_head_dim="4", value_head_dim="12", num_heads="2,3,2", feedforward_dim="64,48,64",
             encoder_unmasked_dim="32,32,32", cnn_module_kernel="15,7,9", pos_dim=48, decoder_dim=32, joiner_dim=24,
             vocab_size=40, use_ctc=True, chunk_size="-1", left_context_frames="-1")  # fmt: skip
NARROW = dict(encoder_dim="8,16,12", query_head_dim="8", pos_head_dim="2", value_head_dim="4", num_heads="2,4,2",
              feedforward_dim="16,24,16", cnn_module_kernel="7,7,5", pos_dim=16, encoder_unmasked_dim="8,8,8",
              decoder_dim=16, joiner_dim=12)  # fmt: skip
MEDIUM = dict(downsampling_factor="1,2,4,8,4,2", encoder_dim="192,256,384,512,384,256",
              num_encoder_layers="2,2,3,4,3,2", num_heads="4,4,4,8,4,4", encoder_unmasked_dim="192,192,256,256,256,192",
              feedforward_dim="512,768,1024,1536,1024,768", cnn_module_kernel="31,31,15,15,15,31", decoder_dim=512,
              joiner_dim=512, vocab_size=500)  # fmt: skip
CAUSAL = dict(causal=True, chunk_size="8", left_context_frames="16")
MODELS = {
    "zipformer": ({}, ""),
    "zipformer-heads": (dict(query_head_dim="16,24,16", value_head_dim="8", num_heads="4"), "--num-heads 4"),
    "zipformer-context1": (dict(context_size=1, num_encoder_layers="2,1,1", use_ctc=False), ""),
    "zipformer-causal": (CAUSAL, "--chunk-size 8 --left-context-frames 16"),
    "zipformer-causal-32": (dict(causal=True, chunk_size="32", left_context_frames="64"),
                            "--chunk-size 32 --left-context-frames 64"),
    "zipformer-whole": (dict(causal=True, chunk_size="-1", left_context_frames="-1"), "--chunk-size -1"),
    "zipformer-medium": (dict(MEDIUM), ""),
    "zipformer-medium-causal": (dict(MEDIUM, causal=True, chunk_size="16", left_context_frames="128"), ""),
}  # fmt: skip
TINY = ("zipformer", "zipformer-causal")


def deflate(path):
    with zipfile.ZipFile(path) as z:
        content = {n: z.read(n) for n in z.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, value in content.items():
            z.writestr(name, value)


def randomize(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        if name.endswith("bypass_scale"):
            p.data.copy_(torch.rand(p.shape, generator=g) * 0.6 + 0.2)
        elif name.endswith("linear_pos.weight"):
            p.data.copy_(torch.randn(p.shape, generator=g) * 0.3)
        elif p.dim() >= 2:
            p.data.copy_(torch.randn(p.shape, generator=g) / np.sqrt(p[0].numel()))
        else:
            p.data.copy_(0.2 * torch.randn(p.shape, generator=g))
    return module.eval()


def build(name, tiny):
    conf, flags = MODELS[name]
    conf = {**SMALL, **(NARROW if tiny else {}), **conf}
    model = zip_model.AsrModel(**conf)
    if tiny:
        flags += " --num-heads 2,4,2"
        model.encoder_embed = Conv2dSubsampling(80, 8, layer1_channels=2, layer2_channels=3, layer3_channels=8)
    randomize(model, len(name) + sum(map(ord, name)))
    if tiny:
        model.half().float()
    return model, conf, flags.strip()


def whole(model, out):
    for frames, lens in ((57, (57, 57)), (131, (131, 90))):
        x = frames_of(frames, 2, frames)
        lens = torch.tensor(lens)
        out[f"x.{frames}"], out[f"lens.{frames}"] = x, lens
        wrapper = zip_model.OnnxEncoderWrapper(model.encoder, model.encoder_embed, model.joiner.encoder_proj)
        out[f"encoder.{frames}"], out[f"encoder_lens.{frames}"] = wrapper(x, lens)
        if getattr(model, "ctc_output", None):
            out[f"ctc.{frames}"], _ = zip_model.OnnxCtcWrapper(model.encoder, model.encoder_embed, model.ctc_output)(x, lens)


def chunks(model, out, steps=5):
    encoder = zip_model.OnnxStreamingEncoderWrapper(model.encoder, model.encoder_embed, model.joiner.encoder_proj)
    ctc = zip_model.OnnxStreamingCtcWrapper(model.encoder, model.encoder_embed, model.ctc_output)
    frames = 2 * encoder.chunk_size + 13
    x = frames_of(frames, steps, 2, frames)
    states, ctc_states, y, z = encoder.get_init_states(2), ctc.get_init_states(2), [], []
    for i in range(steps):
        a, states = encoder(x[i], states)
        b, ctc_states = ctc(x[i], ctc_states)
        y.append(a)
        z.append(b)
    out["chunk.x"], out["chunk.encoder"], out["chunk.ctc"] = x, torch.stack(y), torch.stack(z)
    for i, s in enumerate(states):
        out[f"state.{i}"] = s


@torch.no_grad()
def make(folder, name, tiny):
    model, conf, flags = build(name, tiny)
    out = {}
    if conf.get("chunk_size", "-1") == "-1":
        whole(model, out)
    else:
        chunks(model, out)
    small_networks(out, conf.get("context_size", 2), conf["vocab_size"],
                   zip_model.OnnxDecoderWrapper(model.decoder, model.joiner.decoder_proj),
                   zip_model.OnnxJoinerWrapper(model.joiner.output_linear))  # fmt: skip
    state = model.state_dict()
    torch.save({"model": {k: v.half() for k, v in state.items()} if tiny else state}, f"{folder}/{name}.pt")
    if tiny:
        deflate(f"{folder}/{name}.pt")
    np.savez_compressed(f"{folder}/{name}.npz", **{k: v.numpy() for k, v in out.items()})
    with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as f:
        f.write(flags + "\n")
    print(name, sum(p.numel() for p in model.parameters()), flags)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--only")
    p.add_argument("--tiny", action="store_true")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    tokens = ["<blk>", "<sos/eos>", "<unk>", *("\u2581" + chr(c) for c in range(97, 123)), *"etaoinshrdl"]
    for name in [args.only] if args.only else TINY if args.tiny else MODELS:
        vocab = MODELS[name][0].get("vocab_size", SMALL["vocab_size"])
        lines = [*tokens, *(f"w{i}" for i in range(vocab))][:vocab]
        with open(f"{args.out}/{name}.tokens", "w", encoding="utf-8") as f:
            f.writelines(f"{t} {i}\n" for i, t in enumerate(lines))
        make(args.out, name, args.tiny)


main()
