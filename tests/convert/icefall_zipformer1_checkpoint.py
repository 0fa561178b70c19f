#!/usr/bin/env python3
"""What icefall's first Zipformer (pruned_transducer_stateless7 and _streaming) computes with the weights of zipformer1.py.

    icefall_zipformer1_checkpoint.py OUT [--large]

Needs the PyPI package torch (2.13.0). No package has the modules; they are written here after zipformer.py, scaling.py,
decoder.py and joiner.py of the recipes. OUT/zipformer1.npz: encoder.T, encoder_lens.T, ctc.T for batches of two recordings
of T frames; chunk and state.KIND.STACK: consecutive chunks of two streams and their last states; decoder, joiner.
--large: OUT/zipformer1-large.npz with the sizes of the LibriSpeech recipe, and OUT/zipformer1-large.pt.
"""

import numpy as np
import torch
import zipformer1
from icefall_recording import arguments, small_networks
from seeded import features, icefall_checkpoint, normal
from torch.nn.functional import conv1d, conv2d, embedding, glu, linear, log_softmax, pad


def double_swish(x):
    return x * torch.sigmoid(x - 1)


def positions(first, last, d):
    """Relative positions from first down to last."""
    x = torch.arange(first, last - 1, -1, dtype=torch.float32).unsqueeze(1)
    x = x * torch.exp(torch.arange(0, d, 2, dtype=torch.float32) * -(np.log(10000.0) / d))
    return torch.stack([x.sin(), x.cos()], -1).flatten(1)


class Model:
    """Time first: [T, N, columns]. States are given for chunks: they change."""

    def __init__(self, a):
        self.a, self.s = a, {k: torch.from_numpy(v) for k, v in icefall_checkpoint(zipformer1.shapes(a)).items()}

    def linear(self, at, x):
        return linear(x, self.s[f"{at}.weight"], self.s.get(f"{at}.bias"))

    def conv(self, at, x, **options):
        f = conv2d if x.dim() == 4 else conv1d
        return f(x, self.s[f"{at}.weight"], self.s[f"{at}.bias"], **options)

    def embed(self, x):
        x = double_swish(self.conv("encoder.encoder_embed.conv.0", x.unsqueeze(1), padding=(0, 1)))
        x = double_swish(self.conv("encoder.encoder_embed.conv.3", x, stride=2))
        x = double_swish(self.conv("encoder.encoder_embed.conv.6", x, stride=(1, 2)))
        return self.linear("encoder.encoder_embed.out", x.transpose(1, 2).flatten(2)).transpose(0, 1)

    def feed_forward(self, at, x):
        return self.linear(f"{at}.out_proj", double_swish(self.linear(f"{at}.in_proj", x)))

    def pooling(self, at, x, hidden, state):
        if state is None:
            seen = (~hidden).float().t().unsqueeze(-1)
            x = (x * seen / seen.sum(0)).sum(0, keepdim=True)
        else:
            count = torch.arange(1, len(x) + 1).unsqueeze(1) + state["len"]
            x = (x.cumsum(0) + (state["avg"] * state["len"].unsqueeze(1))) / count.unsqueeze(2)
            state["len"], state["avg"] = state["len"] + len(x), x[-1]
        return self.linear(f"{at}.proj", x)

    def kept(self, x, state, name):
        if state is None:
            return x
        x = torch.cat([state[name], x])
        state[name] = x[-len(state[name]) :]
        return x

    def attention_weights(self, at, x, hidden, state):
        t, n, d = x.shape
        h, att = self.a["heads"], self.a["attention"]
        q, k, v, p = self.linear(f"{at}.in_proj", x).split([att, att, att // 2, 4 * h], -1)
        k, v = self.kept(k, state, "key"), self.kept(v, state, "val")
        left = len(k) - t
        pos = self.linear(f"{at}.linear_pos", positions(left + t - 1, 1 - t, d)).view(-1, h, 4)
        place = left + torch.arange(t).unsqueeze(1) - torch.arange(left + t)  # of the query minus that of the key
        pos = pos[left + t - 1 - place]
        scores = torch.einsum("tnhc,snhc->nhts", q.view(t, n, h, -1), k.view(left + t, n, h, -1))
        scores = scores + torch.einsum("tnhc,tshc->nhts", p.view(t, n, h, 4), pos)
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None, None], -torch.inf)
        return scores.softmax(-1), v

    def weigh(self, at, weights, v):
        v = v.view(*v.shape[:2], self.a["heads"], -1)
        return self.linear(at, torch.einsum("nhts,snhc->tnhc", weights, v).flatten(2))

    def convolution(self, at, x, hidden, state, name):
        x = glu(self.conv(f"{at}.pointwise_conv1", x.permute(1, 2, 0)), dim=1)
        k = self.a["kernel"]
        if state is None:
            x = pad(x.masked_fill(hidden.unsqueeze(1), 0.0), (k // 2, k // 2))
        else:
            x = torch.cat([state[name], x], 2)
            state[name] = x[..., 1 - k :]
        x = double_swish(self.conv(f"{at}.depthwise_conv", x, groups=x.size(1)))
        return self.conv(f"{at}.pointwise_conv2", x).permute(2, 0, 1)

    def layer(self, at, x, hidden, state):
        first = x
        x = x + self.feed_forward(f"{at}.feed_forward1", x)
        x = x + self.pooling(f"{at}.pooling", x, hidden, state)
        weights, v = self.attention_weights(f"{at}.self_attn", x, hidden, state)
        x = x + self.weigh(f"{at}.self_attn.out_proj", weights, v)
        x = x + self.convolution(f"{at}.conv_module1", x, hidden, state, "conv1")
        x = x + self.feed_forward(f"{at}.feed_forward2", x)
        v = self.kept(self.linear(f"{at}.self_attn.in_proj2", x), state, "val2")
        x = x + self.weigh(f"{at}.self_attn.out_proj2", weights, v)
        x = x + self.convolution(f"{at}.conv_module2", x, hidden, state, "conv2")
        x = x + self.feed_forward(f"{at}.feed_forward3", x)
        x = x * (x.pow(2).mean(-1, keepdim=True) + self.s[f"{at}.norm_final.eps"].exp()) ** -0.5
        return first + (x - first) * self.s[f"{at}.bypass_scale"]

    def downsample(self, at, x, by):
        t, n, d = x.shape
        x = torch.cat([x, x[-1:].expand(-t % by, -1, -1)]).reshape(-1, by, n, d)
        y = (x * (x * self.s[f"{at}.query"]).sum(-1, keepdim=True).softmax(1)).sum(1)
        if f"{at}.extra_proj.weight" in self.s:
            y = torch.cat([y, self.linear(f"{at}.extra_proj", x.permute(0, 2, 1, 3).flatten(2))], 2)
        return y

    def combine(self, at, x, y):
        w = self.s[f"{at}.weight1"]
        return pad(x * w, (0, y.size(2) - x.size(2))) + y * (1 - w)

    def encoder(self, x, hidden=None, states=None):
        x, outputs = self.embed(x), []
        for i, by in enumerate(self.a["by"]):
            at, k = f"encoder.encoders.{i}", zipformer1.skipped_to(self.a["by"], i)
            if k is not None:
                x = self.combine(f"encoder.skip_modules.{i}", outputs[k], x)
            before = x
            if by > 1:
                x = self.downsample(f"{at}.downsample", x, by)
            for layer in range(self.a["layers"][i]):
                x = self.layer(f"{at}.{'encoder.' if by > 1 else ''}layers.{layer}", x,
                               None if hidden is None else hidden[:, ::by], states and states[i][layer])  # fmt: skip
            if by > 1:
                x = (x.unsqueeze(1) + self.s[f"{at}.upsample.bias"].unsqueeze(1)).flatten(0, 1)[: len(before)]
                x = self.combine(f"{at}.out_combiner", before, x)
            outputs.append(x)
        return self.downsample("encoder.downsample_output", x, 2).transpose(0, 1)

    def first_states(self, n):
        a, left = self.a, zipformer1.CHUNK_LEN // 2 * zipformer1.LEFT_CHUNKS
        return [[{"len": torch.zeros(n, dtype=torch.int64), "avg": torch.zeros(n, d), "key": torch.zeros(left // by, n, a["attention"]),
                  "val": torch.zeros(left // by, n, a["attention"] // 2), "val2": torch.zeros(left // by, n, a["attention"] // 2),
                  "conv1": torch.zeros(n, d, a["kernel"] - 1), "conv2": torch.zeros(n, d, a["kernel"] - 1)} for _ in range(layers)]
                for d, by, layers in zip(a["d"], a["by"], a["layers"])]  # fmt: skip

    def decoder(self, y):
        x = embedding(y.clamp(min=0), self.s["decoder.embedding.weight"]) * (y >= 0).unsqueeze(-1)
        x = conv1d(x.transpose(1, 2), self.s["decoder.conv.weight"], groups=self.a["decoder"] // 4).transpose(1, 2)
        return self.linear("joiner.decoder_proj", torch.relu(x).squeeze(1))

    def joiner(self, frame, decoder):
        return self.linear("joiner.output_linear", torch.tanh(frame + decoder))


@torch.no_grad()
def record(a):
    model, out = Model(a), {}
    for frames, lens in ((57, (57, 57)), (131, (131, 90))):
        x, lens = torch.from_numpy(features(frames, 2, frames)), (torch.tensor(lens) - 7) // 2
        y = model.encoder(x, torch.arange(int(lens.max())) >= lens.unsqueeze(1))
        out[f"encoder.{frames}"], out[f"encoder_lens.{frames}"] = model.linear("joiner.encoder_proj", y), (lens + 1) // 2
        out[f"ctc.{frames}"] = log_softmax(model.linear("ctc_output.1", y), -1)
    step, chunks, states = zipformer1.CHUNK_LEN, [], model.first_states(2)
    x = torch.from_numpy(features(3, 2, step * zipformer1.STEPS + 7))
    for i in range(zipformer1.STEPS):
        chunks.append(model.linear("joiner.encoder_proj", model.encoder(x[:, step * i : step * i + step + 7], None, states)))
    out["chunk"] = torch.stack(chunks)
    for i, layers in enumerate(states):
        for name in layers[0]:
            out[f"state.{name}.{i}"] = torch.stack([s[name] for s in layers])
    small_networks(out, a["context"], a["vocab"], model.decoder, model.joiner, lambda *of: torch.from_numpy(normal(*of)))
    return model, {k: v.numpy() for k, v in out.items()}


def main():
    args = arguments("--large")
    name = "zipformer1-large" if args.large else "zipformer1"
    model, out = record(zipformer1.LARGE if args.large else zipformer1.SMALL)
    np.savez_compressed(f"{args.out}/{name}.npz", **out)
    if args.large:
        torch.save({"model": model.s}, f"{args.out}/{name}.pt")
    print(name, sum(v.numel() for v in model.s.values()))


main()
