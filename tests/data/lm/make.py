#!/usr/bin/env python3
"""BERT and GPT-2 of the PyPI package transformers, exported by torch.onnx with random weights.

    python3 make.py DIR [--base]

Writes bert.onnx, gpt2.onnx and gpt2-past.onnx (with keys and values of earlier words) to DIR: two layers and a few units for
the tests, or with --base the sizes of bert-base-uncased and gpt2 for benchmarks. Needs the packages of requirements.txt in
this folder."""
import argparse
import os
import warnings

import onnx
import torch
from transformers import BertConfig, BertModel, DynamicCache, GPT2Config, GPT2LMHeadModel

warnings.filterwarnings("ignore")
BERT = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
        "max_position_embeddings": 16}
GPT2 = {"vocab_size": 20, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}


def shaken(model):
    """Randomize biases and norms. They start as zeros and ones, which passes would remove."""
    for p in model.parameters():
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    return model.eval()


class Bert(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.m = shaken(BertModel(config))

    def forward(self, ids, kinds, mask):
        y = self.m(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
        return y.last_hidden_state, y.pooler_output


class Gpt2(torch.nn.Module):
    def __init__(self, config, past):
        super().__init__()
        self.m, self.past = shaken(GPT2LMHeadModel(config)), past

    def forward(self, ids, mask, *past):
        cache = DynamicCache() if self.past else None
        for i in range(0, len(past), 2):
            cache.update(past[i], past[i + 1], i // 2)
        y = self.m(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=self.past)
        out = [y.logits]
        for i in range(len(past) // 2):
            out += y.past_key_values[i]
        return tuple(out)


def export(model, inputs, names, outputs, axes, path):
    torch.onnx.export(model, tuple(inputs), path, input_names=names, output_names=outputs, dynamic_axes=axes,
                      opset_version=17, dynamo=False)


def bert(config, path):
    ids = torch.randint(0, config.vocab_size, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    names = ["ids", "kinds", "mask"]
    export(Bert(config), [ids, torch.zeros_like(ids), mask], names, ["last", "pooled"],
           {**{n: {0: "b", 1: "s"} for n in [*names, "last"]}, "pooled": {0: "b"}}, path)


def gpt2(config, past, path):
    before, layers = 3 if past else 0, range(config.n_layer if past else 0)
    ids = torch.randint(0, config.vocab_size, (2, 5))
    mask = torch.ones(2, 5 + before, dtype=torch.long)
    cache = [torch.randn(2, config.n_head, before, config.n_embd // config.n_head) for _ in layers for _ in "kv"]
    names = [f"past_{c}{i}" for i in layers for c in "kv"]
    outputs = [f"present_{c}{i}" for i in layers for c in "kv"]
    axes = {"ids": {0: "b", 1: "s"}, "mask": {0: "b", 1: "n" if past else "s"}, "logits": {0: "b", 1: "s"},
            **{n: {0: "b", 2: "p"} for n in names}, **{n: {0: "b", 2: "n"} for n in outputs}}
    export(Gpt2(config, past), [ids, mask, *cache], ["ids", "mask", *names], ["logits", *outputs], axes, path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    ap.add_argument("--base", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(1)
    eager = {"attn_implementation": "eager"}
    bert(BertConfig(**eager, **({} if args.base else BERT)), os.path.join(args.dir, "bert.onnx"))
    config = GPT2Config(**eager, **({} if args.base else GPT2))
    gpt2(config, False, os.path.join(args.dir, "gpt2.onnx"))
    gpt2(config, True, os.path.join(args.dir, "gpt2-past.onnx"))


if __name__ == "__main__":
    main()
