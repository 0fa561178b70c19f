"""The network: a small streaming Conformer with CTC.

The training form runs over whole utterances and the streaming form over one chunk with explicit state; both use the
same weights and give the same numbers. What makes that simple: everything before the first frame is zero (keys,
values, convolution input), in training as in a fresh stream, so no mask and no frame counter are needed.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import features

TOKENS = ["<blk>", "▁zero", "▁one", "▁two", "▁three", "▁four", "▁five", "▁six", "▁seven", "▁eight", "▁nine", "▁oh",
          "<unk>"]
BLANK, UNK = 0, 12

SUB = 4              # input frames for one output frame
CHUNK = 6            # output frames in a step
LEFT = 24            # output frames of left context in attention
OVERLAP = 3          # extra input frames that the two strided convolutions need
SHIFT = CHUNK * SUB
WINDOW = SHIFT + OVERLAP
KERNEL = 9           # causal depthwise convolution
DIM, HEADS, HIDDEN, LAYERS, BINS = 128, 4, 256, 4, 40
C1, C2 = 16, 32
FLOOR_DBFS = -70


GROUP = 4 * CHUNK    # queries that share a window of keys in training


class Windows(torch.autograd.Function):
    """[B, LEFT + n * GROUP, D] -> [B, n, LEFT + GROUP, D]: every group with the LEFT frames before it."""

    @staticmethod
    def forward(ctx, x):
        b, t, d = x.shape
        ctx.n = n = (t - LEFT) // GROUP
        return torch.cat([x[:, :n * GROUP].view(b, n, GROUP, d)[:, :, :LEFT], x[:, LEFT:].view(b, n, GROUP, d)], 2)

    @staticmethod
    def backward(ctx, grad):
        b, n, _, d = grad.shape
        out = F.pad(grad[:, :, LEFT:].reshape(b, n * GROUP, d), (0, 0, LEFT, 0))
        out[:, :n * GROUP] += grad[:, :, :LEFT].reshape(b, n * GROUP, d)
        return out


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.bias = nn.Parameter(torch.zeros(HEADS, CHUNK, LEFT + CHUNK))
        self.scale = (DIM // HEADS) ** -0.5

    def attend(self, q, kv, bias):
        """q [N, Q, DIM], kv [N, K, 2*DIM], bias [HEADS, Q, K] -> [N, Q, DIM]"""
        k, v = kv.split(DIM, -1)
        q, k, v = (x.unflatten(-1, (HEADS, DIM // HEADS)) for x in (q, k, v))
        w = torch.softmax(torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)) * self.scale + bias, -1)
        return torch.matmul(w, v.transpose(1, 2)).transpose(1, 2).flatten(2)

    def group_bias(self):
        """[HEADS, GROUP, LEFT + GROUP]: the bias of a chunk repeated along the band, minus infinity outside it."""
        i, j = torch.arange(GROUP)[:, None], torch.arange(LEFT + GROUP)[None]
        at = j - i // CHUNK * CHUNK
        out = self.bias[:, i % CHUNK, at.clamp(0, LEFT + CHUNK - 1)]
        return out.masked_fill((at < 0) | (at >= LEFT + CHUNK), float("-inf"))

    def forward(self, x):
        """x [B, n*CHUNK, DIM]: each chunk sees itself and LEFT frames before it."""
        b, t, _ = x.shape
        rest = -t % GROUP
        y = F.pad(self.qkv(self.norm(x)), (0, 0, LEFT, rest))
        q = y[:, LEFT:, :DIM].unflatten(1, (-1, GROUP)).flatten(0, 1)
        kv = Windows.apply(y[..., DIM:]).flatten(0, 1)
        return self.out(self.attend(q, kv, self.group_bias()).view(b, t + rest, DIM)[:, :t])

    def step(self, x, cache):
        q, kv = self.qkv(self.norm(x)).split([DIM, 2 * DIM], -1)
        kv = torch.cat([cache, kv], 1)
        return self.out(self.attend(q, kv, self.bias)), kv[:, CHUNK:]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.expand = nn.Linear(DIM, 2 * DIM)
        self.depth = nn.Conv1d(DIM, DIM, KERNEL, groups=DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, DIM)

    def inner(self, x):
        y, gate = self.expand(self.norm(x)).split(DIM, -1)
        return y * torch.sigmoid(gate)

    def outer(self, y):
        y = self.depth(y.transpose(1, 2)).transpose(1, 2)
        return self.out(F.silu(self.norm2(y)))

    def forward(self, x):
        return self.outer(F.pad(self.inner(x), (0, 0, KERNEL - 1, 0)))

    def step(self, x, cache):
        y = torch.cat([cache, self.inner(x)], 1)
        return self.outer(y), y[:, CHUNK:]


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return self.down(F.silu(self.up(self.norm(x))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff1, self.att, self.conv, self.ff2 = FeedForward(), Attention(), Convolution(), FeedForward()
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x, drop=0.0):
        x = x + 0.5 * F.dropout(self.ff1(x), drop, self.training)
        x = x + F.dropout(self.att(x), drop, self.training)
        x = x + F.dropout(self.conv(x), drop, self.training)
        return self.norm(x + 0.5 * F.dropout(self.ff2(x), drop, self.training))

    def step(self, x, kv, cv):
        x = x + 0.5 * self.ff1(x)
        y, kv = self.att.step(x, kv)
        x = x + y
        y, cv = self.conv.step(x, cv)
        x = x + y
        return self.norm(x + 0.5 * self.ff2(x)), kv, cv


class Digits(nn.Module):
    def __init__(self, phones=0, tap=2):
        super().__init__()
        self.register_buffer("floor", features.white(FLOOR_DBFS), persistent=False)
        self.register_buffer("mean", torch.zeros(BINS))
        self.register_buffer("scale", torch.ones(BINS))
        self.c1 = nn.Conv2d(1, C1, 3, 2)
        self.c2 = nn.Conv2d(C1, C2, 3, 2)
        self.proj = nn.Linear(C2 * 9, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, len(TOKENS))
        self.phone_head = nn.Linear(DIM, phones) if phones else None  # training only
        self.tap, self.drop = tap, 0.0

    def front(self, x):
        x = torch.log(torch.exp(x) + self.floor)  # acts like a floor of white noise: digital silence is no event
        x = ((x - self.mean) * self.scale).unsqueeze(1)
        x = F.relu(self.c2(F.relu(self.c1(x))))  # [B, C2, T', 9]
        return self.proj(x.transpose(1, 2).flatten(2))

    def forward(self, x):
        """x [B, n*SHIFT + OVERLAP, BINS] -> log probabilities [B, n*CHUNK, V] and phone log probabilities."""
        x = self.front(x)
        phones = None
        for i, block in enumerate(self.blocks):
            x = block(x, self.drop)
            if self.phone_head is not None and i + 1 == self.tap:
                phones = F.log_softmax(self.phone_head(x), -1)
        return F.log_softmax(self.head(x), -1), phones


class Stream(nn.Module):
    """One step of the same network: a window of features and the states in, log probabilities and new states out."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    @staticmethod
    def names():
        return [f"{kind}_{i}" for i in range(LAYERS) for kind in ("kv", "conv")]

    @staticmethod
    def states(n=1):
        return [torch.zeros(n, LEFT, 2 * DIM) if s.startswith("kv") else torch.zeros(n, KERNEL - 1, DIM)
                for s in Stream.names()]

    def forward(self, x, *states):
        x = self.net.front(x)
        new = []
        for i, block in enumerate(self.net.blocks):
            x, kv, cv = block.step(x, states[2 * i], states[2 * i + 1])
            new += [kv, cv]
        return (F.log_softmax(self.net.head(x), -1), *new)
