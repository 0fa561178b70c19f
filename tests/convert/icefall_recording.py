"""What the generators of icefall's recordings share. Needs PyTorch."""

import argparse
import os

import torch


def arguments(flag):
    """OUT, which is made, and the flag."""
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument(flag, action="store_true")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    return args


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def frames_of(seed, *shape):
    """Features of few different values, which compress."""
    return (normal(seed, *shape, 80) * 2).round() / 2


def small_networks(out, context, vocab, decoder, joiner, values=normal):
    """Record y, decoder, frame and joiner; values makes the frame."""
    out["y"] = torch.tensor([[-1] * (context - 1) + [0], [3] * context, [vocab - 1] * context])
    out["decoder"] = decoder(out["y"])
    out["frame"] = values(7, *out["decoder"].shape)
    out["joiner"] = joiner(out["frame"], out["decoder"])
