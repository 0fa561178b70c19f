#!/usr/bin/env python3
"""Checkpoints of random weights as icefall's pruned_transducer_stateless2 to 5 write them (a Conformer with scaled
weights), and what they compute.

    icefall_conformer_checkpoint.py OUT [--tiny]

Needs the PyPI packages torch (2.13.0) and espnet (202511). No package has icefall's modules: attention with relative
positions is ESPnet's, the rest is written here after conformer.py, scaling.py, decoder.py and joiner.py of these
recipes. For each model: OUT/NAME.pt ({"model": state_dict}) and OUT/NAME.npz: x.T, lens.T, encoder.T, encoder_lens.T
for batches of two, y, decoder, frame, joiner. --tiny: narrow, in 16 bits, as tests/data/convert has it.
"""

import argparse
import os

import numpy as np
import torch
from espnet.nets.pytorch_backend.transformer.attention import RelPositionMultiHeadedAttention
from espnet.nets.pytorch_backend.transformer.embedding import RelPositionalEncoding
from torch.nn.functional import conv1d, conv2d, embedding, glu, linear

MODELS = {
    "conformer-scaled": dict(d=32, heads=4, ff=48, layers=2, kernel=7, conv=(8, 32, 128), decoder=24, joiner=20, context=2),
    "conformer-scaled-context1": dict(d=32, heads=2, ff=48, layers=1, kernel=15, conv=(8, 32, 128), decoder=24, joiner=20,
                                      context=1),
    "conformer-scaled-large": dict(d=512, heads=8, ff=2048, layers=12, kernel=31, conv=(8, 32, 128), decoder=512,
                                   joiner=512, context=2),
}  # fmt: skip
TINY = dict(d=8, heads=2, ff=12, layers=2, kernel=7, conv=(2, 3, 8), decoder=16, joiner=12, context=2)
VOCAB = 40


class Weights:
    """A state dictionary that is being made: each weight with its logarithmic scale, as ScaledLinear has it."""

    def __init__(self, seed, half):
        self.state, self.g, self.half = {}, torch.Generator().manual_seed(seed), half

    def put(self, name, value):
        if self.half:
            value = value.half().float()
        self.state[name] = value

    def scaled(self, name, *shape, gain=1.0):
        self.put(name, torch.randn(shape, generator=self.g) * gain)
        self.put(f"{name}_scale", torch.randn((), generator=self.g) * 0.3 - (0.5 * np.log(np.prod(shape[1:])) if len(shape) > 1 else 1))

    def layer(self, name, *shape, bias=True):
        self.scaled(f"{name}.weight", *shape)
        if bias:
            self.scaled(f"{name}.bias", shape[0])


def make_weights(a, half):
    w, d = Weights(a["d"] + a["heads"], half), a["d"]
    for i, (n_in, n_out) in zip((0, 3, 6), zip((1, *a["conv"]), a["conv"])):
        w.layer(f"encoder.encoder_embed.conv.{i}", n_out, n_in, 3, 3)
    w.layer("encoder.encoder_embed.out", d, 19 * a["conv"][2])
    w.put("encoder.encoder_embed.out_norm.eps", torch.tensor(np.log(0.25), dtype=torch.float32))
    for i in range(a["layers"]):
        at = f"encoder.encoder.layers.{i}"
        w.layer(f"{at}.self_attn.in_proj", 3 * d, d)
        w.layer(f"{at}.self_attn.out_proj", d, d)
        w.layer(f"{at}.self_attn.linear_pos", d, d, bias=False)
        for bias in ("u", "v"):
            w.scaled(f"{at}.self_attn.pos_bias_{bias}", a["heads"], d // a["heads"])
        for name in ("feed_forward", "feed_forward_macaron"):
            w.layer(f"{at}.{name}.0", a["ff"], d)
            w.layer(f"{at}.{name}.4", d, a["ff"])
        w.layer(f"{at}.conv_module.pointwise_conv1", 2 * d, d, 1)
        w.layer(f"{at}.conv_module.depthwise_conv", d, 1, a["kernel"])
        w.layer(f"{at}.conv_module.pointwise_conv2", d, d, 1)
        w.put(f"{at}.norm_final.eps", torch.randn((), generator=w.g) * 0.5)
    w.put("decoder.embedding.weight", torch.randn(VOCAB, a["decoder"], generator=w.g))
    w.put("decoder.embedding.scale", torch.tensor(0.2))
    if a["context"] > 1:
        w.layer("decoder.conv", a["decoder"], 1, a["context"], bias=False)
    w.layer("joiner.encoder_proj", a["joiner"], d)
    w.layer("joiner.decoder_proj", a["joiner"], a["decoder"])
    w.layer("joiner.output_linear", VOCAB, a["joiner"])
    w.layer("simple_am_proj", VOCAB, d)
    w.layer("simple_lm_proj", VOCAB, a["decoder"])
    return w.state


def double_swish(x):
    return x * torch.sigmoid(x - 1)


def basic_norm(x, eps):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps.exp()) ** -0.5


class Model:
    def __init__(self, a, state):
        self.a, self.s = a, state

    def get(self, name):
        scale = self.s.get(f"{name}_scale")
        return self.s[name] * scale.exp() if scale is not None else self.s[name]

    def pair(self, name):
        return self.get(f"{name}.weight"), self.get(f"{name}.bias")

    def attention(self, at, x, pos, mask):
        d, h = self.a["d"], self.a["heads"]
        m = RelPositionMultiHeadedAttention(h, d, 0.0).eval()
        weight, bias = self.pair(f"{at}.in_proj")
        for i, part in enumerate((m.linear_q, m.linear_k, m.linear_v)):
            part.weight.data, part.bias.data = weight[i * d : (i + 1) * d], bias[i * d : (i + 1) * d]
        m.linear_out.weight.data, m.linear_out.bias.data = self.pair(f"{at}.out_proj")
        m.linear_pos.weight.data = self.get(f"{at}.linear_pos.weight")
        # icefall adds its biases to a query that is divided by sqrt(d) already, ESPnet divides the scores
        m.pos_bias_u.data = self.get(f"{at}.pos_bias_u") * (d / h) ** 0.5
        m.pos_bias_v.data = self.get(f"{at}.pos_bias_v") * (d / h) ** 0.5
        return m(x, x, x, pos, ~mask.unsqueeze(1))

    def feed_forward(self, at, x):
        return linear(double_swish(linear(x, *self.pair(f"{at}.0"))), *self.pair(f"{at}.4"))

    def convolution(self, at, x, mask):
        x = glu(conv1d(x.transpose(1, 2), *self.pair(f"{at}.pointwise_conv1")), dim=1)
        x = x.masked_fill(mask.unsqueeze(1), 0.0)
        k = self.a["kernel"]
        x = double_swish(conv1d(x, *self.pair(f"{at}.depthwise_conv"), padding=k // 2, groups=self.a["d"]))
        return conv1d(x, *self.pair(f"{at}.pointwise_conv2")).transpose(1, 2)

    def encoder(self, x, lens):
        at = "encoder.encoder_embed"
        x = double_swish(conv2d(x.unsqueeze(1), *self.pair(f"{at}.conv.0"), padding=1))
        for i in (3, 6):
            x = double_swish(conv2d(x, *self.pair(f"{at}.conv.{i}"), stride=2))
        x = linear(x.transpose(1, 2).flatten(2), *self.pair(f"{at}.out"))
        x = basic_norm(x, self.get(f"{at}.out_norm.eps"))
        lens = ((lens - 1) // 2 - 1) // 2
        mask = torch.arange(x.size(1)) >= lens.unsqueeze(1)
        pos = RelPositionalEncoding(self.a["d"], 0.0).eval()(x)[1]
        for i in range(self.a["layers"]):
            at = f"encoder.encoder.layers.{i}"
            x = x + self.feed_forward(f"{at}.feed_forward_macaron", x)
            x = x + self.attention(f"{at}.self_attn", x, pos, mask)
            x = x + self.convolution(f"{at}.conv_module", x, mask)
            x = x + self.feed_forward(f"{at}.feed_forward", x)
            x = basic_norm(x, self.get(f"{at}.norm_final.eps"))
        return linear(x, *self.pair("joiner.encoder_proj")), lens

    def decoder(self, y):
        x = embedding(y.clamp(min=0), self.get("decoder.embedding.weight")) * self.s["decoder.embedding.scale"].exp()
        x = x * (y >= 0).unsqueeze(-1)
        if self.a["context"] > 1:
            x = conv1d(x.transpose(1, 2), self.get("decoder.conv.weight"), groups=self.a["decoder"]).transpose(1, 2)
        return linear(torch.relu(x).squeeze(1), *self.pair("joiner.decoder_proj"))


@torch.no_grad()
def make(folder, name, a, tiny):
    state, out = make_weights(a, tiny), {}
    model = Model(a, state)
    for frames, lens in ((57, (57, 57)), (131, (131, 90))):
        x = (torch.randn(2, frames, 80, generator=torch.Generator().manual_seed(frames)) * 2).round() / 2
        out[f"x.{frames}"], out[f"lens.{frames}"] = x, torch.tensor(lens)
        out[f"encoder.{frames}"], out[f"encoder_lens.{frames}"] = model.encoder(x, torch.tensor(lens))
    context = a["context"]
    out["y"] = torch.tensor([[-1] * (context - 1) + [0], [3] * context, [VOCAB - 1] * context])
    out["decoder"] = model.decoder(out["y"])
    out["frame"] = torch.randn(out["decoder"].shape, generator=torch.Generator().manual_seed(7))
    out["joiner"] = linear(torch.tanh(out["frame"] + out["decoder"]), *model.pair("joiner.output_linear"))
    torch.save({"model": {k: v.half() for k, v in state.items()} if tiny else state}, f"{folder}/{name}.pt")
    np.savez_compressed(f"{folder}/{name}.npz", **{k: v.numpy() for k, v in out.items()})
    print(name, sum(v.numel() for v in state.values()))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--tiny", action="store_true")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, a in {"conformer-scaled": TINY}.items() if args.tiny else MODELS.items():
        make(args.out, name, a, args.tiny)


main()
