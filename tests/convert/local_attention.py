"""Stands in for the package longformer, which ESPnet's LongformerEncoder imports and which is on no package index: the
attention of Beltagy et al., "Longformer: The Long-Document Transformer" (2020), section 3.1, without dilation and without global
tokens, as one matrix of all scores with a band. Names of weights are the package's."""

import sys
import types

import torch


class LongformerConfig:
    def __init__(self, **kw):
        self.__dict__.update(kw)


class LongformerSelfAttention(torch.nn.Module):
    def __init__(self, config, layer_id):
        super().__init__()
        self.heads, self.window = config.num_attention_heads, config.attention_window[layer_id]
        assert config.attention_mode == "sliding_chunks" and config.attention_dilation[layer_id] == 1
        for name in ("query", "key", "value", "query_global", "key_global", "value_global"):
            setattr(self, name, torch.nn.Linear(config.hidden_size, config.hidden_size))

    def forward(self, hidden_states, attention_mask, head_mask=None, output_attentions=False):
        b, t, d = hidden_states.shape
        assert t % (2 * self.window) == 0
        q, k, v = (f(hidden_states).view(b, t, self.heads, -1) for f in (self.query, self.key, self.value))
        scores = torch.einsum("bthd,bjhd->bhtj", q, k) / (d // self.heads) ** 0.5
        gone = attention_mask.reshape(b, t) < 0
        scores = scores - 10000.0 * gone[:, None, None]
        row = torch.arange(t)
        scores = scores.masked_fill((row[:, None] - row).abs() > self.window, -float("inf"))
        p = scores.softmax(-1).masked_fill(gone[:, None, :, None], 0)
        return torch.einsum("bhtj,bjhd->bthd", p, v).reshape(b, t, d), p


def install():
    """True if the package itself is there; else the stand-in gets its name."""
    try:
        import longformer.longformer  # noqa: F401

        return True
    except ImportError:
        package, module = types.ModuleType("longformer"), types.ModuleType("longformer.longformer")
        module.LongformerConfig, module.LongformerSelfAttention = LongformerConfig, LongformerSelfAttention
        package.longformer = module
        sys.modules.update({"longformer": package, "longformer.longformer": module})
        return False
