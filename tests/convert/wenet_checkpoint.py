#!/usr/bin/env python3
"""WeNet checkpoints of random weights, and what PyTorch computes with them (wenet_model.py).

    wenet_checkpoint.py OUT [--only NAME] [--tiny]

Needs the PyPI packages torch (2.13.0), numpy and pyyaml. For each model: OUT/NAME.zip (train.yaml, final.pt,
units.txt, global_cmvn) and OUT/NAME.npz: inputs and outputs of the encoder for whole utterances and by chunks, of
CTC and of the decoder. --tiny: the three models that tests/data/convert has.
"""

import argparse
import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
import yaml
from wenet_model import Model

SMALL = dict(output_size=32, attention_heads=2, linear_units=64, num_blocks=2)
TINY = dict(output_size=8, attention_heads=2, linear_units=8, num_blocks=2)
STREAM = dict(use_dynamic_chunk=True, causal=True)
U2PP = dict(cnn_module_kernel=8, cnn_module_norm="layer_norm", pos_enc_layer_type="rel_pos", selfattention_layer_type="rel_selfattn", **STREAM)
U2 = dict(decoder="transformer")
# name -> encoder, its configuration beside sizes, statistics are in, other changes
MODELS = {
    "wenet-u2pp": ("conformer", U2PP, "checkpoint", {}),
    "wenet-transformer": ("transformer", dict(input_layer="conv2d6", use_dynamic_chunk=True), "json", U2),
    "wenet-offline": ("conformer", dict(input_layer="conv2d8", cnn_module_kernel=7, macaron_style=False), "kaldi", U2),
    "static": ("conformer", dict(static_chunk_size=8, causal=True, cnn_module_kernel=5), "json", U2),
    "norms-after": ("conformer", dict(normalize_before=False, cnn_module_kernel=8, **STREAM), "json", {}),
    "linear": ("conformer", dict(input_layer="linear", cnn_module_kernel=6, cnn_module_norm="layer_norm", activation_type="gelu",
                                 **STREAM), "none", {}),
    "absolute": ("conformer", dict(pos_enc_layer_type="abs_pos", selfattention_layer_type="selfattn", use_cnn_module=False,
                                   **STREAM), "json", {}),
    "no-positions": ("conformer", dict(pos_enc_layer_type="no_pos", selfattention_layer_type="selfattn", conv_bias=False,
                                       key_bias=False, cnn_module_kernel=3, **STREAM), "json", dict(key_bias=False)),
    "symmetric": ("conformer", dict(pos_enc_layer_type="abs_pos", selfattention_layer_type="selfattn", input_layer="conv2d8",
                                    cnn_module_kernel=7), "json", {}),
    "transformer-after": ("transformer", dict(normalize_before=False), "json", {}),
}  # fmt: skip
LETTERS = ["<blank>", "<unk>", "'", *map(chr, range(65, 91)), "▁", "<sos/eos>"]


def randomize(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in [*module.named_parameters(), *module.named_buffers()]:
        if p.dtype != torch.float32:
            continue
        if name.endswith("running_var"):
            p.data.copy_(torch.rand(p.shape, generator=g) + 0.5)
        elif name.endswith("istd"):
            p.data.copy_(torch.rand(p.shape, generator=g) * 0.2 + 0.2)
        elif name.endswith("cmvn.mean"):
            p.data.copy_(torch.randn(p.shape, generator=g) + 10)
        elif p.dim() >= 2:
            p.data.copy_(torch.randn(p.shape, generator=g) / np.sqrt(p[0].numel()))
        else:
            p.data.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0) + 0.1 * torch.randn(p.shape, generator=g))
    return module.eval()


def statistics(kind, encoder):
    """global_cmvn whose mean and deviation are those of the encoder, to the bit that f32 has of them."""
    frames = 1000
    mean, istd = encoder.global_cmvn.mean.double().numpy(), encoder.global_cmvn.istd.double().numpy()
    total, squares = mean * frames, (istd**-2 + mean**2) * frames
    if kind == "json":
        return json.dumps(dict(mean_stat=total.tolist(), var_stat=squares.tolist(), frame_num=frames))
    return " [\n  " + " ".join(map(repr, total.tolist())) + f" {frames}\n  " + " ".join(map(repr, squares.tolist())) + " 0 ]\n"


def chunks(encoder, x, chunk, left):
    """Outputs of chunks as the runtimes feed them, the last one shorter; and the last caches."""
    c = encoder.c
    by = {"conv2d": 4, "conv2d6": 6, "conv2d8": 8, "linear": 1}[c["input_layer"]]
    right = {"conv2d": 6, "conv2d6": 10, "conv2d8": 14, "linear": 0}[c["input_layer"]]
    window, shift, cached = (chunk - 1) * by + right + 1, chunk * by, chunk * left
    attention = torch.zeros(c["num_blocks"], c["attention_heads"], cached, 2 * c["output_size"] // c["attention_heads"])
    convolution = torch.zeros(c["num_blocks"], 1, c["output_size"], encoder.past)
    out, n = [], 0
    for at in range(0, x.size(1) - right, shift):
        mask = torch.ones(1, 1, cached + chunk, dtype=torch.bool)
        mask[..., : max(left - n, 0) * chunk] = False
        y, attention, convolution = encoder.forward_chunk(x[:, at:at + window], cached + n * chunk, cached, attention, convolution, mask)
        out.append(y)
        n += 1
    return torch.cat(out, 1), attention, convolution


def make(out, name, tiny):
    kind, conf, where, more = MODELS[name]
    conf = dict(TINY if tiny else SMALL, **conf)
    decoder = more.get("decoder", "bitransformer")
    decoder_conf = dict(attention_heads=2, linear_units=conf["linear_units"], num_blocks=2 if not tiny else 1,
                        **(dict(r_num_blocks=1) if decoder == "bitransformer" else {}),
                        **{k: v for k, v in more.items() if k != "decoder"})
    vocab = len(LETTERS)
    config = dict(encoder=kind, encoder_conf=conf, decoder=decoder, decoder_conf=decoder_conf, input_dim=80, output_dim=vocab,
                  model_conf=dict(ctc_weight=0.3, lsm_weight=0.1, length_normalized_loss=False, reverse_weight=0.3),
                  cmvn_file=None if where == "none" else "exp/global_cmvn", is_json_cmvn=where == "json",
                  dataset_conf=dict(fbank_conf=dict(num_mel_bins=80, frame_shift=10, frame_length=25, dither=1.0)))
    model = randomize(Model(vocab, config), 1)
    if where == "none":
        model.encoder.global_cmvn.mean.zero_()
        model.encoder.global_cmvn.istd.fill_(1)
    elif where != "checkpoint":  # as WeNet reads them back
        s = statistics("json", model.encoder)
        s = json.loads(s)
        mean = np.array(s["mean_stat"]) / s["frame_num"]
        model.encoder.global_cmvn.mean.copy_(torch.from_numpy(mean))
        model.encoder.global_cmvn.istd.copy_(torch.from_numpy(1 / np.sqrt(np.array(s["var_stat"]) / s["frame_num"] - mean**2)))
    state = {k: v for k, v in model.state_dict().items() if where == "checkpoint" or "cmvn" not in k}
    record = dict(chunk=np.int64(conf.get("static_chunk_size", 16)), past=np.int64(model.encoder.past))
    generator = np.random.default_rng(5)
    with torch.no_grad():
        for t in (60, 203) if tiny else (27, 60, 203, 457):
            x = torch.from_numpy((np.round(generator.standard_normal((1, t, 80)) * 6) / 2 + 10).astype(np.float32))
            record[f"feats.{t}"] = x.numpy()
            y = model.encoder(x)
            record[f"encoder.{t}"], record[f"ctc.{t}"] = y.numpy(), model.ctc(y).numpy()
        if conf.get("use_dynamic_chunk") or conf.get("static_chunk_size"):
            y, attention, convolution = chunks(model.encoder, x, int(record["chunk"]), 4)
            record["chunks"], record["chunk_ctc"] = y.numpy(), model.ctc(y).numpy()
            record["attention"], record["convolution"] = attention.numpy(), convolution.numpy()
        hyps = torch.tensor([[vocab - 1, 5, 9, 9, 2, 30], [vocab - 1, 7, 3, 12, 0, 0], [vocab - 1, 0, 0, 0, 0, 0]])
        lengths = torch.tensor([6, 4, 1])
        score, back = model.score(torch.from_numpy(record["encoder.203"]), hyps, lengths)
        record |= dict(hyps=hyps.numpy(), lengths=lengths.numpy(), score=score.numpy())
        if back is not None:
            record["r_score"] = back.numpy()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    packed = {"train.yaml": yaml.safe_dump(config), "final.pt": buffer.getvalue(),
              "units.txt": "".join(f"{t} {i}\n" for i, t in enumerate(LETTERS))}
    if where in ("json", "kaldi"):
        packed["global_cmvn"] = statistics(where, model.encoder)
    with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_DEFLATED if tiny else zipfile.ZIP_STORED) as z:
        for path, content in packed.items():
            z.writestr(path, content)
    np.savez_compressed(out / f"{name}.npz", **record)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("out", type=Path)
    p.add_argument("--only", choices=MODELS)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for each in [a.only] if a.only else list(MODELS)[: 3 if a.tiny else None]:
        make(a.out, each, a.tiny)
        print(each, file=sys.stderr)
