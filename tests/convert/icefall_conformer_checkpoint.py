#!/usr/bin/env python3
"""Checkpoints of random weights as icefall's Conformer recipes write them, and what they compute.

    icefall_conformer_checkpoint.py OUT [--tiny]

Needs the PyPI packages torch (2.13.0) and espnet (202511). No package has icefall's modules: attention with relative
positions is ESPnet's, the rest is written here after conformer.py, scaling.py, decoder.py and joiner.py of the
recipes. For each model: OUT/NAME.pt ({"model": state_dict}) and OUT/NAME.npz.

conformer-scaled: pruned_transducer_stateless2 to 5, a transducer with scaled weights. x.T, lens.T, encoder.T,
encoder_lens.T for batches of two, causal.T with causal convolutions; of the features `stream` chunk.encoder, chunk.attn,
chunk.conv: consecutive chunks of CHUNK frames with LEFT before them and the states afterwards, right.*: the same with
RIGHT frames after them; y, decoder, frame, joiner. Chunks are computed by a mask over the whole stream as well, which gives the same.

conformer-ctc: conformer_ctc, with layer norms, CTC and an attention decoder (its names alone). Of the same x and lens: ctc.T, ctc_lens.T;
after.T: without after_norm, so with norms behind the parts. One recording alone is computed with ESPnet's
ConformerEncoder as well, which gives the same.

--tiny: narrow, in 16 bits, as tests/data/convert has it.
"""

import numpy as np
import torch
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
from espnet.nets.pytorch_backend.transformer.attention import RelPositionMultiHeadedAttention
from espnet.nets.pytorch_backend.transformer.embedding import RelPositionalEncoding
from icefall_recording import arguments, frames_of, small_networks
from torch.nn.functional import batch_norm, conv1d, conv2d, embedding, glu, layer_norm, linear, log_softmax, pad, relu, silu

MODELS = {
    "conformer-scaled": dict(d=32, heads=4, ff=48, layers=2, kernel=7, conv=(8, 32, 128), decoder=24, joiner=20, context=2),
    "conformer-scaled-context1": dict(d=32, heads=2, ff=48, layers=1, kernel=15, conv=(8, 32, 128), decoder=24, joiner=20,
                                      context=1),
    "conformer-scaled-large": dict(d=512, heads=8, ff=2048, layers=12, kernel=31, conv=(8, 32, 128), decoder=512,
                                   joiner=512, context=2),
}  # fmt: skip
CTC_MODELS = {
    "conformer-ctc": dict(d=32, heads=4, ff=48, layers=2, kernel=7, conv=(32, 32)),
    "conformer-ctc-large": dict(d=512, heads=8, ff=2048, layers=12, kernel=31, conv=(512, 512)),
}  # fmt: skip
TINY_CTC = dict(d=8, heads=2, ff=12, layers=2, kernel=7, conv=(8, 8))
CHUNK, LEFT, RIGHT, STEPS = 4, 6, 2, 4
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


def make_ctc_weights(a, half):
    """conformer_ctc."""
    w, d = Weights(a["d"] + a["heads"] + 1, half), a["d"]

    def layer(name, *shape, bias=True):
        w.put(f"{name}.weight", torch.randn(shape, generator=w.g) / np.prod(shape[1:]) ** 0.5)
        if bias:
            w.put(f"{name}.bias", torch.randn(shape[0], generator=w.g) * 0.1)

    def norm(name, n, batch=False):
        w.put(f"{name}.weight", 1 + torch.randn(n, generator=w.g) * 0.1)
        w.put(f"{name}.bias", torch.randn(n, generator=w.g) * 0.1)
        if batch:
            w.put(f"{name}.running_mean", torch.randn(n, generator=w.g) * 0.2)
            w.put(f"{name}.running_var", torch.rand(n, generator=w.g) + 0.5)
            w.state[f"{name}.num_batches_tracked"] = torch.tensor(7)

    norm("feat_batchnorm", 80, batch=True)
    for i, (n_in, n_out) in zip((0, 2), zip((1, *a["conv"]), a["conv"])):
        layer(f"encoder_embed.conv.{i}", n_out, n_in, 3, 3)
    layer("encoder_embed.out", d, 19 * a["conv"][1])
    for i in range(a["layers"]):
        at = f"encoder.layers.{i}"
        layer(f"{at}.self_attn.in_proj", 3 * d, d)
        layer(f"{at}.self_attn.out_proj", d, d)
        layer(f"{at}.self_attn.linear_pos", d, d, bias=False)
        for bias in ("u", "v"):
            w.put(f"{at}.self_attn.pos_bias_{bias}", torch.randn(a["heads"], d // a["heads"], generator=w.g) * 0.3)
        for name in ("feed_forward", "feed_forward_macaron"):
            layer(f"{at}.{name}.0", a["ff"], d)
            layer(f"{at}.{name}.3", d, a["ff"])
        layer(f"{at}.conv_module.pointwise_conv1", 2 * d, d, 1)
        layer(f"{at}.conv_module.depthwise_conv", d, 1, a["kernel"])
        norm(f"{at}.conv_module.norm", d, batch=True)
        layer(f"{at}.conv_module.pointwise_conv2", d, d, 1)
        for name in ("ff_macaron", "ff", "mha", "conv", "final"):
            norm(f"{at}.norm_{name}", d)
    norm("after_norm", d)
    layer("encoder_output_layer.1", VOCAB, d)
    layer("decoder_embed", VOCAB, d, bias=False)
    layer("decoder.layers.0.self_attn.out_proj", d, d)
    layer("decoder_output_layer", VOCAB, d)
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
        return m(x, x, x, pos, ~mask)

    def feed_forward(self, at, x):
        return linear(double_swish(linear(x, *self.pair(f"{at}.0"))), *self.pair(f"{at}.4"))

    def convolution(self, at, x, mask, causal=False):
        x = self.depthwise(at, self.gated(at, x).masked_fill(mask.unsqueeze(1), 0.0), causal)
        return self.projected(at, x)

    def gated(self, at, x):
        return glu(conv1d(x.transpose(1, 2), *self.pair(f"{at}.pointwise_conv1")), dim=1)

    def depthwise(self, at, x, causal):
        k = self.a["kernel"]
        return self.filtered(at, pad(x, (k - 1, 0) if causal else (k // 2, k // 2)))

    def filtered(self, at, x):
        return double_swish(conv1d(x, *self.pair(f"{at}.depthwise_conv"), groups=self.a["d"]))

    def projected(self, at, x):
        return conv1d(x, *self.pair(f"{at}.pointwise_conv2")).transpose(1, 2)

    def chunk_attention(self, at, x, past, visible):
        """x [N,T,d] sees past [N,left,d] and itself; visible: of the past, the last ones."""
        n, t, d = x.shape
        h, left = self.a["heads"], past.size(1)
        weight, bias = self.pair(f"{at}.in_proj")
        every = torch.cat([past, x], 1)
        q = linear(x, weight[:d], bias[:d]).view(n, t, h, -1) * (d / h) ** -0.5
        k, v = (linear(every, weight[i * d : i * d + d], bias[i * d : i * d + d]).view(n, t + left, h, -1) for i in (1, 2))
        place = torch.arange(left, left + t).unsqueeze(1) - torch.arange(left + t)  # of a query minus that of a key
        by = torch.exp(torch.arange(0, d, 2) * -(np.log(10000.0) / d))
        pos = torch.stack([(place.unsqueeze(-1) * by).sin(), (place.unsqueeze(-1) * by).cos()], -1).flatten(-2)
        pos = linear(pos, self.get(f"{at}.linear_pos.weight")).view(t, left + t, h, -1)
        scores = torch.einsum("nthc,nshc->nhts", q + self.get(f"{at}.pos_bias_u"), k)
        scores = scores + torch.einsum("nthc,tshc->nhts", q + self.get(f"{at}.pos_bias_v"), pos)
        scores[..., : left - visible] = -torch.inf
        y = torch.einsum("nhts,nshc->nthc", scores.softmax(-1), v).flatten(2)
        return linear(y, *self.pair(f"{at}.out_proj"))

    def chunk_convolution(self, at, x, taps):
        every = torch.cat([taps, self.gated(at, x)], 2)
        return self.projected(at, self.filtered(at, every)), every

    def chunk(self, x, attn, conv, done, right):
        """Frames of a chunk; attn, conv: lists of the layers' states, which change."""
        x = self.embed(x)[:, 1:-1]
        for i in range(self.a["layers"]):
            at = f"encoder.encoder.layers.{i}"
            x = x + self.feed_forward(f"{at}.feed_forward_macaron", x)
            every = torch.cat([attn[i], x], 1)
            x = x + self.chunk_attention(f"{at}.self_attn", x, attn[i], min(done, LEFT))
            attn[i] = every[:, CHUNK : CHUNK + LEFT]
            y, every = self.chunk_convolution(f"{at}.conv_module", x, conv[i])
            conv[i] = every[:, :, CHUNK : CHUNK + self.a["kernel"] - 1]
            x = x + y
            x = x + self.feed_forward(f"{at}.feed_forward", x)
            x = basic_norm(x, self.get(f"{at}.norm_final.eps"))
        return linear(x[:, :CHUNK], *self.pair("joiner.encoder_proj"))

    def masked_stream(self, x):
        """The same of all chunks at once, without right context."""
        x = self.embed(x)[:, 1:-1]
        t = torch.arange(x.size(1))
        begin = (t // CHUNK * CHUNK).unsqueeze(1)
        hidden = (t < begin - LEFT) | (t >= begin + CHUNK)
        pos = RelPositionalEncoding(self.a["d"], 0.0).eval()(x)[1]
        return self.layers(x, pos, hidden.unsqueeze(0), torch.zeros(1, x.size(1), dtype=torch.bool), True)

    def embed(self, x):
        at = "encoder.encoder_embed"
        x = double_swish(conv2d(x.unsqueeze(1), *self.pair(f"{at}.conv.0"), padding=1))
        for i in (3, 6):
            x = double_swish(conv2d(x, *self.pair(f"{at}.conv.{i}"), stride=2))
        x = linear(x.transpose(1, 2).flatten(2), *self.pair(f"{at}.out"))
        return basic_norm(x, self.get(f"{at}.out_norm.eps"))

    def encoder(self, x, lens, causal=False):
        x = self.embed(x)
        lens = ((lens - 1) // 2 - 1) // 2
        mask = torch.arange(x.size(1)) >= lens.unsqueeze(1)
        pos = RelPositionalEncoding(self.a["d"], 0.0).eval()(x)[1]
        return self.layers(x, pos, mask.unsqueeze(1), mask, causal), lens

    def layers(self, x, pos, hidden, padding, causal):
        for i in range(self.a["layers"]):
            at = f"encoder.encoder.layers.{i}"
            x = x + self.feed_forward(f"{at}.feed_forward_macaron", x)
            x = x + self.attention(f"{at}.self_attn", x, pos, hidden)
            x = x + self.convolution(f"{at}.conv_module", x, padding, causal)
            x = x + self.feed_forward(f"{at}.feed_forward", x)
            x = basic_norm(x, self.get(f"{at}.norm_final.eps"))
        return linear(x, *self.pair("joiner.encoder_proj"))

    def decoder(self, y):
        x = embedding(y.clamp(min=0), self.get("decoder.embedding.weight")) * self.s["decoder.embedding.scale"].exp()
        x = x * (y >= 0).unsqueeze(-1)
        if self.a["context"] > 1:
            x = conv1d(x.transpose(1, 2), self.get("decoder.conv.weight"), groups=self.a["decoder"]).transpose(1, 2)
        return linear(torch.relu(x).squeeze(1), *self.pair("joiner.decoder_proj"))

    def joiner(self, frame, decoder):
        return linear(torch.tanh(frame + decoder), *self.pair("joiner.output_linear"))


class CtcModel(Model):
    """conformer_ctc."""

    def attention(self, at, x, pos, mask):
        root = self.a["heads"] ** 0.5 / self.a["d"] ** 0.5
        saved = {k: self.s[k] for k in (f"{at}.pos_bias_u", f"{at}.pos_bias_v")}
        self.s.update({k: v * root for k, v in saved.items()})  # here they are added to what is not divided yet
        y = super().attention(at, x, pos, mask)
        self.s.update(saved)
        return y

    def feed_forward(self, at, x):
        return linear(silu(linear(x, *self.pair(f"{at}.0"))), *self.pair(f"{at}.3"))

    def depthwise(self, at, x, causal):
        # conv1d pads itself: padding before it changes the last bits of wide models
        x = conv1d(x, *self.pair(f"{at}.depthwise_conv"), padding=self.a["kernel"] // 2, groups=self.a["d"])
        return silu(self.batch_norm(f"{at}.norm", x))

    def batch_norm(self, at, x):
        return batch_norm(x, self.get(f"{at}.running_mean"), self.get(f"{at}.running_var"), *self.pair(at))

    def norm(self, at, x):
        return layer_norm(x, x.shape[-1:], *self.pair(at))

    def ctc(self, x, lens, after=False):
        x = self.batch_norm("feat_batchnorm", x.transpose(1, 2)).transpose(1, 2).unsqueeze(1)
        for i in (0, 2):
            x = relu(conv2d(x, *self.pair(f"encoder_embed.conv.{i}"), stride=2))
        x = linear(x.transpose(1, 2).flatten(2), *self.pair("encoder_embed.out"))
        lens = ((lens - 1) // 2 - 1) // 2
        mask = torch.arange(x.size(1)) >= lens.unsqueeze(1)
        x, pos = RelPositionalEncoding(self.a["d"], 0.0).eval()(x)
        for i in range(self.a["layers"]):
            at = f"encoder.layers.{i}"
            for name, norm, by, f in (("feed_forward_macaron", "norm_ff_macaron", 0.5, self.feed_forward),
                                      ("self_attn", "norm_mha", 1, lambda a, y: self.attention(a, y, pos, mask.unsqueeze(1))),
                                      ("conv_module", "norm_conv", 1, lambda a, y: self.convolution(a, y, mask)),
                                      ("feed_forward", "norm_ff", 0.5, self.feed_forward)):  # fmt: skip
                y = f(f"{at}.{name}", x if after else self.norm(f"{at}.{norm}", x))
                x = self.norm(f"{at}.{norm}", x + by * y) if after else x + by * y
            x = x if after else self.norm(f"{at}.norm_final", x)
        x = x if after else self.norm("after_norm", x)
        return log_softmax(linear(x, *self.pair("encoder_output_layer.1")), -1), lens

    def espnet(self, x):
        """One recording by ESPnet's encoder."""
        a, d, state = self.a, self.a["d"], {}
        m = ConformerEncoder(80, output_size=d, attention_heads=a["heads"], linear_units=a["ff"], num_blocks=a["layers"],
                             macaron_style=True, rel_pos_type="latest", pos_enc_layer_type="rel_pos",
                             selfattention_layer_type="rel_selfattn", cnn_module_kernel=a["kernel"]).eval()  # fmt: skip
        rename = {"feed_forward.0": "feed_forward.w_1", "feed_forward.3": "feed_forward.w_2", "encoder.layers": "encoders",
                  "feed_forward_macaron.0": "feed_forward_macaron.w_1", "feed_forward_macaron.3": "feed_forward_macaron.w_2",
                  "encoder_embed.conv": "embed.conv", "encoder_embed.out": "embed.out.0",
                  "self_attn.out_proj": "self_attn.linear_out"}  # fmt: skip
        for name, value in self.s.items():
            if name.startswith(("decoder", "encoder_output", "feat_")):
                continue
            if ".in_proj." in name:
                for i, part in enumerate("qkv"):
                    key = name.replace("encoder.layers", "encoders").replace("in_proj", f"linear_{part}")
                    state[key] = value[i * d : i * d + d]
                continue
            for old, new in rename.items():
                name = name.replace(old, new)
            state[name] = value
        m.load_state_dict(state, strict=True)
        for part in m.modules():
            if isinstance(part, torch.nn.LayerNorm):
                part.eps = 1e-5  # PyTorch's default, as in icefall; ESPnet has 1e-12
        x = self.batch_norm("feat_batchnorm", x.transpose(1, 2)).transpose(1, 2)
        return log_softmax(linear(m(x, torch.tensor([x.size(1)]))[0], *self.pair("encoder_output_layer.1")), -1)


def save(folder, name, state, out, tiny):
    torch.save({"model": {k: v.half() if v.is_floating_point() else v for k, v in state.items()} if tiny else state},
               f"{folder}/{name}.pt")  # fmt: skip
    np.savez_compressed(f"{folder}/{name}.npz", **{k: v.numpy() for k, v in out.items()})
    print(name, sum(v.numel() for v in state.values()))


@torch.no_grad()
def make_ctc(folder, name, a, tiny):
    state, out = make_ctc_weights(a, tiny), {}
    model = CtcModel(a, state)
    for frames, lens in ((57, (57, 57)), (131, (131, 90))):
        x, lens = frames_of(frames, 2, frames), torch.tensor(lens)
        out[f"ctc.{frames}"], out[f"ctc_lens.{frames}"] = model.ctc(x, lens)
        out[f"after.{frames}"], _ = model.ctc(x, lens, after=True)
        alone = model.espnet(x[:1])
        assert (alone - out[f"ctc.{frames}"][:1]).abs().max() < 1e-5
    save(folder, name, state, out, tiny)


def make_chunks(model, out, at, right):
    a, rows = model.a, 4 * (CHUNK + right + 2) + 3
    stream = out["stream"] = frames_of(3, 2, 4 * (CHUNK * STEPS + RIGHT + 2) + 3)
    attn = [torch.zeros(2, LEFT, a["d"]) for _ in range(a["layers"])]
    conv = [torch.zeros(2, a["d"], a["kernel"] - 1) for _ in range(a["layers"])]
    x = [stream[:, 4 * CHUNK * i : 4 * CHUNK * i + rows] for i in range(STEPS)]
    y = [model.chunk(x[i], attn, conv, i * CHUNK, right) for i in range(STEPS)]
    if not right:
        assert (model.masked_stream(stream)[:, : CHUNK * STEPS] - torch.cat(y, 1)).abs().max() < 2e-5
    out[f"{at}.encoder"] = torch.stack(y)
    out[f"{at}.attn"], out[f"{at}.conv"] = torch.stack(attn).transpose(1, 2), torch.stack(conv).permute(0, 3, 1, 2)


@torch.no_grad()
def make(folder, name, a, tiny):
    state, out = make_weights(a, tiny), {}
    model = Model(a, state)
    for frames, lens in ((57, (57, 57)), (131, (131, 90))):
        x = frames_of(frames, 2, frames)
        out[f"x.{frames}"], out[f"lens.{frames}"] = x, torch.tensor(lens)
        out[f"encoder.{frames}"], out[f"encoder_lens.{frames}"] = model.encoder(x, torch.tensor(lens))
        out[f"causal.{frames}"], _ = model.encoder(x, torch.tensor(lens), True)
    make_chunks(model, out, "chunk", 0)
    make_chunks(model, out, "right", RIGHT)
    small_networks(out, a["context"], VOCAB, model.decoder, model.joiner)
    save(folder, name, state, out, tiny)


def main():
    args = arguments("--tiny")
    for name, a in {"conformer-scaled": TINY}.items() if args.tiny else MODELS.items():
        make(args.out, name, a, args.tiny)
    for name, a in {"conformer-ctc": TINY_CTC}.items() if args.tiny else CTC_MODELS.items():
        make_ctc(args.out, name, a, args.tiny)


main()
