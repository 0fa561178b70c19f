#!/usr/bin/env python3
"""ESPnet2 checkpoints of random weights, as espnet2's pack writes them, and what PyTorch computes with them.

    espnet_checkpoint.py OUT [--only NAME] [--tiny]

Needs the PyPI packages torch (2.13.0) and espnet (202511). For each model: OUT/NAME.zip (meta.yaml, config.yaml,
*.pth) and OUT/NAME.npz: encoder input and output for several lengths, CTC, decoder and LM outputs step by step
(batch_score with its own cache). The stand-ins for packages that espnet imports and that are not used here come
from the generator of the ESPnet zoo, whose path ZOO names. --tiny: few columns and bands, packed with deflate, as
tests/data/convert has them.
"""

import argparse
import importlib.util
import io
import os
import sys
import zipfile

spec = importlib.util.spec_from_file_location("zoo_espnet", os.environ["ZOO"])
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from espnet2.asr.ctc import CTC  # noqa: E402
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder  # noqa: E402
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder  # noqa: E402
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder  # noqa: E402
from espnet2.lm.transformer_lm import TransformerLM  # noqa: E402

SMALL = dict(output_size=32, attention_heads=2, linear_units=64, num_blocks=2)
LATEST = dict(rel_pos_type="latest", pos_enc_layer_type="rel_pos", selfattention_layer_type="rel_selfattn")
MODELS = {
    "transformer": ("transformer", dict(SMALL), {}, None),
    "transformer-linear": ("transformer", dict(SMALL, input_layer="linear", normalize_before=False), {}, None),
    "conformer": ("conformer", dict(SMALL, macaron_style=True, cnn_module_kernel=7, **LATEST), {}, {}),
    "conformer-legacy": ("conformer", dict(SMALL, macaron_style=True, cnn_module_kernel=7), dict(normalize_before=False),
                         dict(pos_enc="sinusoidal")),
    "conformer-conv2d6": ("conformer", dict(SMALL, input_layer="conv2d6", activation_type="relu", cnn_module_kernel=5,
                                            **LATEST), {}, None),
    "conformer-conv2d8": ("conformer", dict(SMALL, input_layer="conv2d8", use_cnn_module=False,
                                            pos_enc_layer_type="abs_pos", selfattention_layer_type="selfattn",
                                            rel_pos_type="latest"), {}, None),
    "conformer-conv2d2": ("conformer", dict(SMALL, input_layer="conv2d2", macaron_style=True, **LATEST), {}, None),
    "conformer-conv2d1": ("conformer", dict(SMALL, input_layer="conv2d1", **LATEST), {}, None),
}  # fmt: skip
TOKENS = ["<blank>", "<unk>", "<space>", "'", *map(chr, range(65, 91)), "<sos/eos>"]


def randomize(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in [*module.named_parameters(), *module.named_buffers()]:
        if p.dtype != torch.float32 or name.endswith("melmat"):
            continue
        if name.endswith("running_var"):
            p.data.copy_(torch.rand(p.shape, generator=g) + 0.5)
        elif p.dim() >= 2:
            p.data.copy_(torch.randn(p.shape, generator=g) / np.sqrt(p[0].numel()))
        else:
            p.data.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0)
                         + 0.1 * torch.randn(p.shape, generator=g))  # fmt: skip
    return module.eval()


def decode_steps(module, memory, ids):
    """batch_score for growing prefixes of two hypotheses."""
    out, states = [], [None, None]
    for n in range(1, ids.shape[1] + 1):
        y, states = module.batch_score(ids[:, :n], states, memory)
        out.append(y.numpy())
    return np.stack(out)


def make(out, name, tiny):
    kind, conf, dec_conf, lm_conf = MODELS[name]
    bands = 20 if tiny else 80
    if tiny:
        conf = dict(conf, output_size=8, linear_units=8)
    torch.manual_seed(1)
    encoder = randomize(dict(transformer=TransformerEncoder, conformer=ConformerEncoder)[kind](bands, **conf), 1)
    d, n = conf["output_size"], len(TOKENS)
    dec = dict(attention_heads=conf["attention_heads"], linear_units=conf["linear_units"], num_blocks=2, **dec_conf)
    decoder = randomize(TransformerDecoder(n, d, **dec), 2)
    ctc = randomize(CTC(n, d), 3)
    model = torch.nn.ModuleDict(dict(encoder=encoder, decoder=decoder, ctc=ctc))
    state = model.state_dict()
    state["normalize.mean"], state["normalize.std"] = torch.randn(bands) - 5, torch.rand(bands) + 1
    config = dict(token_list=TOKENS, token_type="char", frontend="default", frontend_conf=dict(fs="16k", hop_length=160, n_mels=bands),
                  normalize="global_mvn", normalize_conf=dict(stats_file="exp/stats.npz"), encoder=kind,
                  encoder_conf=conf, decoder="transformer", decoder_conf=dec, model_conf=dict(ctc_weight=0.3))
    files, yamls = dict(asr_model_file="exp/asr/valid.acc.ave.pth"), dict(asr_train_config="exp/asr/config.yaml")
    packed = {"exp/asr/config.yaml": yaml.safe_dump(config), "exp/asr/valid.acc.ave.pth": state}
    record = {}
    ids = torch.tensor([[n - 1, 5, 9, 9, 2, 30], [n - 1, 7, 3, 12, 12, 4]])
    with torch.no_grad():
        for t in (27, 100) if tiny else (27, 41, 100, 257):
            x = torch.from_numpy(np.random.default_rng(t).standard_normal((1, t, bands)).astype(np.float32))
            record[f"feats.{t}"] = x.numpy()
            record[f"encoder.{t}"] = encoder(x, torch.tensor([t]))[0].numpy()
        memory = torch.from_numpy(record["encoder.100"])
        record["ctc"] = ctc.log_softmax(memory).numpy()
        record["ids"] = ids.numpy()
        record["decoder"] = decode_steps(decoder, memory.expand(2, -1, -1), ids)
        if lm_conf is not None:
            lm_conf = dict(**(dict(embed_unit=4, att_unit=8, head=2, unit=8, layer=1) if tiny else
                                dict(embed_unit=16, att_unit=32, head=2, unit=64, layer=2)), **lm_conf)
            lm = randomize(TransformerLM(n, **lm_conf), 4)
            record["lm"] = decode_steps(lm, memory, ids)
            files["lm_file"], yamls["lm_train_config"] = "exp/lm/valid.loss.ave.pth", "exp/lm/config.yaml"
            packed["exp/lm/config.yaml"] = yaml.safe_dump(dict(lm="transformer", lm_conf=lm_conf))
            packed["exp/lm/valid.loss.ave.pth"] = torch.nn.ModuleDict(dict(lm=lm)).state_dict()
    packed["meta.yaml"] = yaml.safe_dump(dict(files=files, yaml_files=yamls, espnet="202511"))
    with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_DEFLATED if tiny else zipfile.ZIP_STORED) as z:
        for path, content in packed.items():
            if not isinstance(content, str):
                buffer = io.BytesIO()
                torch.save(content, buffer)
                content = buffer.getvalue()
            z.writestr(path, content)
    np.savez_compressed(out / f"{name}.npz", **record)


if __name__ == "__main__":
    from pathlib import Path

    p = argparse.ArgumentParser()
    p.add_argument("out", type=Path)
    p.add_argument("--only", choices=MODELS)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for each in [a.only] if a.only else MODELS:
        make(a.out, each, a.tiny)
        print(each, file=sys.stderr)
