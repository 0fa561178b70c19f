"""WeNet's networks in PyTorch, written for the tests: the names of the weights and the numbers are WeNet's
(wenet/transformer of wenet-e2e/wenet at 01546996), the code is not. Only inference, one utterance at a time."""

import math

import torch
from torch import nn
from torch.nn.functional import glu, log_softmax, pad, softmax

ACTIVATIONS = dict(relu=nn.ReLU, swish=nn.SiLU, gelu=nn.GELU, tanh=nn.Tanh)
SUBSAMPLINGS = dict(conv2d=((3, 2), (3, 2)), conv2d6=((3, 2), (5, 3)), conv2d8=((3, 2), (3, 2), (3, 2)), linear=())


def table(d, n=5000):
    by = torch.exp(torch.arange(0, d, 2, dtype=torch.float32) * -(math.log(10000.0) / d))
    angle = torch.arange(n, dtype=torch.float32)[:, None] * by
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(1, n, d)


class Attention(nn.Module):
    def __init__(self, heads, d, rel=False, key_bias=True):
        super().__init__()
        self.heads, self.rel = heads, rel
        self.linear_q, self.linear_v, self.linear_out = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.linear_k = nn.Linear(d, d, bias=key_bias)
        if rel:
            self.linear_pos = nn.Linear(d, d, bias=False)
            self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.zeros(heads, d // heads)) for _ in range(2))

    def split(self, x):
        return x.view(x.size(0), -1, self.heads, x.size(2) // self.heads).transpose(1, 2)

    def forward(self, q, kv, mask=None, positions=None, cache=None):
        """mask: [.., T, S] or [1, 1, S], True where a key counts. cache [1, heads, C, 2 n] -> new one, whole."""
        q, k, v = self.split(self.linear_q(q)), self.split(self.linear_k(kv)), self.split(self.linear_v(kv))
        if cache is not None:
            old_k, old_v = cache.chunk(2, -1)
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        if self.rel:
            p = self.split(self.linear_pos(positions))
            scores = (q + self.pos_bias_u[:, None]) @ k.transpose(2, 3) + (q + self.pos_bias_v[:, None]) @ p.transpose(2, 3)
        else:
            scores = q @ k.transpose(2, 3)
        scores = scores / math.sqrt(q.size(3))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        y = (softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
        return self.linear_out(y), torch.cat([k, v], -1)


class FeedForward(nn.Module):
    def __init__(self, d, ff, activation):
        super().__init__()
        self.w_1, self.w_2, self.activation = nn.Linear(d, ff), nn.Linear(ff, d), ACTIVATIONS[activation]()

    def forward(self, x):
        return self.w_2(self.activation(self.w_1(x)))


class Convolution(nn.Module):
    def __init__(self, d, kernel, activation, norm, causal, bias):
        super().__init__()
        self.past = kernel - 1 if causal else 0
        self.pointwise_conv1 = nn.Conv1d(d, 2 * d, 1, bias=bias)
        self.depthwise_conv = nn.Conv1d(d, d, kernel, padding=0 if causal else (kernel - 1) // 2, groups=d, bias=bias)
        self.norm = nn.LayerNorm(d) if norm == "layer_norm" else nn.BatchNorm1d(d)
        self.pointwise_conv2 = nn.Conv1d(d, d, 1, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x, cache):
        x = x.transpose(1, 2)
        if self.past:
            x = pad(x, (self.past, 0)) if cache is None else torch.cat([cache, x], 2)
        new = x[:, :, x.size(2) - self.past:]
        x = self.depthwise_conv(glu(self.pointwise_conv1(x), 1))
        if isinstance(self.norm, nn.LayerNorm):
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        else:
            x = self.norm(x)
        return self.pointwise_conv2(self.activation(x)).transpose(1, 2), new


class Layer(nn.Module):
    def residual(self, x, name, by, part):
        norm = getattr(self, name)
        x = x + by * part(norm(x) if self.before else x)
        return x if self.before else norm(x)


class ConformerLayer(Layer):
    def __init__(self, c):
        super().__init__()
        d, self.before, self.macaron, self.conv = c["output_size"], c["normalize_before"], c["macaron_style"], c["use_cnn_module"]
        self.self_attn = Attention(c["attention_heads"], d, c["pos_enc_layer_type"] == "rel_pos", c["key_bias"])
        self.feed_forward = FeedForward(d, c["linear_units"], c["activation_type"])
        self.norm_mha, self.norm_ff = nn.LayerNorm(d), nn.LayerNorm(d)
        if self.macaron:
            self.feed_forward_macaron, self.norm_ff_macaron = FeedForward(d, c["linear_units"], c["activation_type"]), nn.LayerNorm(d)
        if self.conv:
            self.conv_module = Convolution(d, c["cnn_module_kernel"], c["activation_type"], c["cnn_module_norm"], c["causal"], c["conv_bias"])
            self.norm_conv, self.norm_final = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask, positions, attention, convolution):
        new = [None, torch.zeros(1, x.size(2), 0)]

        def attend(y):
            y, new[0] = self.self_attn(y, y, mask, positions, attention)
            return y

        def convolve(y):
            y, new[1] = self.conv_module(y, convolution)
            return y

        by = 0.5 if self.macaron else 1
        if self.macaron:
            x = self.residual(x, "norm_ff_macaron", by, self.feed_forward_macaron)
        x = self.residual(x, "norm_mha", 1, attend)
        if self.conv:
            x = self.residual(x, "norm_conv", 1, convolve)
        x = self.residual(x, "norm_ff", by, self.feed_forward)
        return self.norm_final(x) if self.conv else x, *new


class TransformerLayer(Layer):
    def __init__(self, c):
        super().__init__()
        d, self.before = c["output_size"], c["normalize_before"]
        self.self_attn = Attention(c["attention_heads"], d, False, c["key_bias"])
        self.feed_forward = FeedForward(d, c["linear_units"], c["activation_type"])
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask, positions, attention, convolution):
        new = [None]

        def attend(y):
            y, new[0] = self.self_attn(y, y, mask, positions, attention)
            return y

        x = self.residual(self.residual(x, "norm1", 1, attend), "norm2", 1, self.feed_forward)
        return x, new[0], torch.zeros(1, x.size(2), 0)


class Subsampling(nn.Module):
    def __init__(self, bands, d, kind):
        super().__init__()
        self.kind, parts, channels = kind, [], 1
        for kernel, stride in SUBSAMPLINGS[kind]:
            parts += [nn.Conv2d(channels, d, kernel, stride), nn.ReLU()]
            bands, channels = (bands - kernel) // stride + 1, d
        if parts:
            self.conv = nn.Sequential(*parts)
        out = nn.Linear(channels * bands, d)
        if kind == "linear":
            self.out = nn.Sequential(out, nn.LayerNorm(d))
        elif kind == "conv2d":
            self.out = nn.Sequential(out)
        else:
            self.linear = out

    def forward(self, x):
        if self.kind != "linear":
            x = self.conv(x[:, None]).transpose(1, 2).flatten(2)
        return self.out(x) if self.kind in ("linear", "conv2d") else self.linear(x)


class Statistics(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.register_buffer("mean", torch.zeros(bands))
        self.register_buffer("istd", torch.ones(bands))


DEFAULTS = dict(attention_heads=4, linear_units=2048, num_blocks=6, input_layer="conv2d", normalize_before=True, macaron_style=True,
                use_cnn_module=True, cnn_module_kernel=15, causal=False, cnn_module_norm="batch_norm", conv_bias=True, key_bias=True)


class Encoder(nn.Module):
    def __init__(self, kind, bands, conf):
        super().__init__()
        conformer = kind == "conformer"
        c = dict(DEFAULTS, activation_type="swish" if conformer else "relu",
                 pos_enc_layer_type="rel_pos" if conformer else "abs_pos", **{}) | conf
        self.c, d = c, c["output_size"]
        self.global_cmvn = Statistics(bands)
        self.embed = Subsampling(bands, d, c["input_layer"])
        self.encoders = nn.ModuleList([(ConformerLayer if conformer else TransformerLayer)(c) for _ in range(c["num_blocks"])])
        self.after_norm = nn.LayerNorm(d)
        self.past = c["cnn_module_kernel"] - 1 if conformer and c["use_cnn_module"] and c["causal"] else 0

    def begin(self, x, offset, cached):
        x = self.embed((x - self.global_cmvn.mean) * self.global_cmvn.istd)
        kind, d = self.c["pos_enc_layer_type"], self.c["output_size"]
        pe = table(d)
        if kind == "no_pos":
            return x, None
        x = x * math.sqrt(d)
        if kind == "abs_pos":
            return x + pe[:, offset:offset + x.size(1)], None
        return x, pe[:, offset - cached:offset + x.size(1)]

    def forward(self, x):
        """A whole utterance."""
        x, positions = self.begin(x, 0, 0)
        for layer in self.encoders:
            x = layer(x, None, positions, None, None)[0]
        return self.after_norm(x) if self.c["normalize_before"] else x

    def forward_chunk(self, x, offset, required, attention, convolution, mask):
        """WeNet's function of this name: required >= 0 rows of the cache stay, < 0 all."""
        cached = attention.size(2)
        x, positions = self.begin(x, offset, cached)
        keys = cached + x.size(1)
        start = 0 if required < 0 else max(keys - required, 0)
        new_attention, new_convolution = [], []
        if mask is not None:
            mask = mask[:, None, :, :keys]
        for i, layer in enumerate(self.encoders):
            x, a, c = layer(x, mask, positions, attention[i:i + 1], convolution[i] if self.past else None)
            new_attention.append(a[:, :, start:])
            new_convolution.append(c)
        x = self.after_norm(x) if self.c["normalize_before"] else x
        return x, torch.cat(new_attention), torch.stack(new_convolution) if self.past else convolution


class DecoderLayer(Layer):
    def __init__(self, c, d):
        super().__init__()
        self.before = c["normalize_before"]
        self.self_attn, self.src_attn = (Attention(c["attention_heads"], d, False, c["key_bias"]) for _ in range(2))
        self.feed_forward = FeedForward(d, c["linear_units"], "relu")
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask, memory):
        x = self.residual(x, "norm1", 1, lambda y: self.self_attn(y, y, mask)[0])
        x = self.residual(x, "norm2", 1, lambda y: self.src_attn(y, memory)[0])
        return self.residual(x, "norm3", 1, self.feed_forward)


class Decoder(nn.Module):
    def __init__(self, vocab, d, conf, blocks):
        super().__init__()
        c = dict(DEFAULTS) | conf
        self.before, self.d = c["normalize_before"], d
        self.embed = nn.Sequential(nn.Embedding(vocab, d))
        self.decoders = nn.ModuleList([DecoderLayer(c, d) for _ in range(blocks)])
        self.after_norm = nn.LayerNorm(d)
        self.output_layer = nn.Linear(d, vocab)

    def forward(self, memory, ids, lengths):
        n = ids.size(1)
        mask = torch.ones(n, n, dtype=torch.bool).tril() & (torch.arange(n) < lengths[:, None])[:, None]
        x = self.embed(ids) * math.sqrt(self.d) + table(self.d)[:, :n]
        memory = memory.expand(ids.size(0), -1, -1)
        for layer in self.decoders:
            x = layer(x, mask[:, None], memory)
        return log_softmax(self.output_layer(self.after_norm(x) if self.before else x), -1)


class Ctc(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.ctc_lo = nn.Linear(d, vocab)

    def forward(self, x):
        return log_softmax(self.ctc_lo(x), -1)


class Model(nn.Module):
    def __init__(self, vocab, config):
        super().__init__()
        e, d = config["encoder_conf"], config["decoder_conf"]
        self.sos = self.eos = vocab - 1
        self.encoder = Encoder(config["encoder"], 80, e)
        self.ctc = Ctc(vocab, e["output_size"])
        self.both = config["decoder"] == "bitransformer"
        left = Decoder(vocab, e["output_size"], d, d["num_blocks"])
        if self.both:
            right = Decoder(vocab, e["output_size"], d, d["r_num_blocks"])
            self.decoder = nn.ModuleDict(dict(left_decoder=left, right_decoder=right))
        else:
            self.decoder = left

    def score(self, memory, hyps, lengths):
        """Log-probabilities [B, L, vocab] behind each token of hyps [B, L], which begin with sos and have `lengths`
        tokens; those from right to left too, or None."""
        if not self.both:
            return self.decoder(memory, hyps, lengths), None
        back = torch.full_like(hyps, self.eos)
        for row, (h, n) in enumerate(zip(hyps, lengths)):
            back[row, 0] = h[0]
            back[row, 1:n] = h[1:n].flip(0)
        return self.decoder["left_decoder"](memory, hyps, lengths), self.decoder["right_decoder"](memory, back, lengths)
