#!/usr/bin/env python3
"""The decoders that wenet_checkpoint.py records, against ESPnet's TransformerDecoder with the same weights, and encoders
with absolute positions against ESPnet's: WeNet's were derived from them, and its norms add 1e-5 instead of 1e-12.

    wenet_espnet.py CHECKPOINTS

Prints the largest difference of each decoder, then of the encoder of whole utterances, of CHECKPOINTS/*.zip. Needs the PyPI packages torch (2.13.0) and espnet
(202511); ZOO as for espnet_checkpoint.py.
"""

import importlib.util
import io
import os
import sys
import zipfile
from pathlib import Path

spec = importlib.util.spec_from_file_location("zoo_espnet", os.environ["ZOO"])
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder  # noqa: E402
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder  # noqa: E402
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder  # noqa: E402


def decode(state, prefix, conf, blocks, memory, ids, lengths):
    own = {k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix)}
    vocab, d = own["embed.0.weight"].shape
    decoder = TransformerDecoder(vocab, d, attention_heads=conf["attention_heads"], linear_units=conf["linear_units"], num_blocks=blocks,
                                 normalize_before=conf.get("normalize_before", True)).eval()
    for module in decoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    missing = [k for k in decoder.state_dict() if k not in own and not k.endswith("linear_k.bias")]
    assert not missing, missing
    decoder.load_state_dict(dict(decoder.state_dict() | {k: torch.zeros_like(v) for k, v in decoder.state_dict().items()}, **own))
    memory = memory.expand(ids.size(0), -1, -1)
    with torch.no_grad():
        y = decoder(memory, torch.full((ids.size(0),), memory.size(1)), ids, lengths)[0]
    return torch.log_softmax(y, -1)


def encode(state, kind, conf, x):
    known = ("output_size", "attention_heads", "linear_units", "num_blocks", "input_layer", "normalize_before", "use_cnn_module", "cnn_module_kernel",
             "pos_enc_layer_type", "selfattention_layer_type")
    conf = {k: v for k, v in conf.items() if k in known}
    if kind == "conformer":
        encoder = ConformerEncoder(80, macaron_style=True, rel_pos_type="latest", **conf).eval()
    else:
        encoder = TransformerEncoder(80, **conf).eval()
    for module in encoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    own = {k[8:].replace("embed.linear.", "embed.out."): v for k, v in state.items() if k.startswith("encoder.") and "cmvn" not in k}
    own = {k.replace("embed.out.", "embed.out.0.") if k not in encoder.state_dict() else k: v for k, v in own.items()}
    if not conf.get("normalize_before", True):
        own = {k: v for k, v in own.items() if "after_norm" not in k}  # WeNet has it, and leaves it out
    encoder.load_state_dict(own)
    with torch.no_grad():
        return encoder(x, torch.tensor([x.size(1)]))[0].numpy()


def normalized(z, state, x):
    """The features behind global_cmvn, from the checkpoint or the file."""
    if "encoder.global_cmvn.mean" in state:
        return (x - state["encoder.global_cmvn.mean"]) * state["encoder.global_cmvn.istd"]
    if "global_cmvn" not in z.namelist():
        return x
    said = yaml.safe_load(z.read("global_cmvn"))
    mean = np.array(said["mean_stat"]) / said["frame_num"]
    istd = 1 / np.sqrt(np.array(said["var_stat"]) / said["frame_num"] - mean**2)
    return (x - torch.from_numpy(mean).float()) * torch.from_numpy(istd).float()


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.zip")):
        with zipfile.ZipFile(path) as z:
            state = torch.load(io.BytesIO(z.read("final.pt")))
            config = yaml.safe_load(z.read("train.yaml"))
        want, conf, said = np.load(path.with_suffix(".npz")), config["decoder_conf"], []
        memory, ids, lengths = (torch.from_numpy(want[k]) for k in ("encoder.203", "hyps", "lengths"))
        both = config["decoder"] == "bitransformer"
        sides = [("score", "decoder.left_decoder." if both else "decoder.", conf["num_blocks"], ids)]
        if both:
            back = ids.clone()
            for row, n in enumerate(lengths):
                back[row, 1:n] = ids[row, 1:n].flip(0)
            sides.append(("r_score", "decoder.right_decoder.", conf["r_num_blocks"], back))
        for key, prefix, blocks, tokens in sides:
            got = decode(state, prefix, conf, blocks, memory, tokens, lengths).numpy()
            said.append(max(float(np.abs(got[i, :n] - want[key][i, :n]).max()) for i, n in enumerate(lengths)))
        with zipfile.ZipFile(path) as z:
            if config["encoder_conf"].get("pos_enc_layer_type") == "abs_pos" or config["encoder"] == "transformer":
                x = normalized(z, state, torch.from_numpy(want["feats.203"]))
                y = encode(state, config["encoder"], config["encoder_conf"], x)
                said.append(float(np.abs(y - want["encoder.203"]).max()))
        print(path.stem, *(f"{v:.1e}" for v in said))
