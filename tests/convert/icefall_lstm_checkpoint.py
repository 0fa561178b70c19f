#!/usr/bin/env python3
"""What icefall's LSTM transducer (lstm_transducer_stateless2) computes with the weights of lstm_transducer.py.

    icefall_lstm_checkpoint.py OUT [--large]

Needs the PyPI package torch (2.13.0), whose LSTM with projections is in the reference; the rest is written here after
lstm.py, scaling.py, decoder.py and joiner.py of the recipe. OUT/lstm-transducer.npz, for the models SMALL and EQUAL (with
"equal." in front): encoder, of the frames of two streams at once; state0, state1 after them; y, decoder, frame, joiner.
--large: OUT/lstm-transducer-large.npz with the sizes of the recipe, and OUT/lstm-transducer-large.pt.
"""

import lstm_transducer
import numpy as np
import torch
from icefall_recording import arguments, small_networks
from seeded import features, icefall_checkpoint, normal
from torch.nn.functional import conv1d, conv2d, embedding, linear


def double_swish(x):
    return x * torch.sigmoid(x - 1)


class Model:
    def __init__(self, a):
        self.a, self.s = a, {k: torch.from_numpy(v) for k, v in icefall_checkpoint(lstm_transducer.shapes(a)).items()}

    def get(self, name):
        return self.s[name] * self.s[f"{name}_scale"].exp()

    def pair(self, at):
        return self.get(f"{at}.weight"), self.get(f"{at}.bias")

    def norm(self, at, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.s[f"{at}.eps"].exp()) ** -0.5

    def encoder(self, x):
        x = x.unsqueeze(1)
        for i in (0, 3, 6):
            x = double_swish(conv2d(x, *self.pair(f"encoder.encoder_embed.conv.{i}"), stride=2 if i else 1))
        x = linear(x.transpose(1, 2).flatten(2), *self.pair("encoder.encoder_embed.out"))
        x, states = self.norm("encoder.encoder_embed.out_norm", x).transpose(0, 1), []
        for i in range(self.a["layers"]):
            at, d, units = f"encoder.encoder.layers.{i}", self.a["d"], self.a["units"]
            lstm = torch.nn.LSTM(d, units, proj_size=d if units > d else 0)
            for name, p in lstm.named_parameters():
                p.data.copy_(self.get(f"{at}.lstm.{name}"))
            y, state = lstm(x)
            states.append(state)
            x = x + y
            y = double_swish(linear(x, *self.pair(f"{at}.feed_forward.0")))
            x = self.norm(f"{at}.norm_final", x + linear(y, *self.pair(f"{at}.feed_forward.4")))
        states = [torch.cat([s[i] for s in states]) for i in (0, 1)]
        return linear(x.transpose(0, 1), *self.pair("joiner.encoder_proj")), states

    def decoder(self, y):
        x = embedding(y.clamp(min=0), self.s["decoder.embedding.weight"]) * self.s["decoder.embedding.scale"].exp()
        x = x * (y >= 0).unsqueeze(-1)
        x = conv1d(x.transpose(1, 2), self.get("decoder.conv.weight"), groups=self.a["decoder"]).transpose(1, 2)
        return linear(torch.relu(x).squeeze(1), *self.pair("joiner.decoder_proj"))

    def joiner(self, frame, decoder):
        return linear(torch.tanh(frame + decoder), *self.pair("joiner.output_linear"))


@torch.no_grad()
def record(a):
    model, out = Model(a), {}
    x = torch.from_numpy(features(3, 2, 4 * lstm_transducer.STEPS + 5))
    out["encoder"], (out["state0"], out["state1"]) = model.encoder(x)
    small_networks(out, a["context"], a["vocab"], model.decoder, model.joiner, lambda *of: torch.from_numpy(normal(*of)))
    return model, {k: v.numpy() for k, v in out.items()}


def main():
    args = arguments("--large")
    model, out = record(lstm_transducer.LARGE if args.large else lstm_transducer.SMALL)
    name = "lstm-transducer-large" if args.large else "lstm-transducer"
    if args.large:
        torch.save({"model": model.s}, f"{args.out}/{name}.pt")
    else:
        out |= {f"equal.{k}": v for k, v in record(lstm_transducer.EQUAL)[1].items()}
    np.savez_compressed(f"{args.out}/{name}.npz", **out)
    print(name, sum(v.numel() for v in model.s.values()))


main()
