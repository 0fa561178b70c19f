#!/usr/bin/env python3
"""ESPnet2 checkpoints with recurrent decoders, transducers and recurrent language models, as espnet_checkpoint.py makes
them for Transformers: OUT/NAME.zip of random weights, and OUT/NAME.npz with what PyTorch computes with them.

    espnet_decoders.py OUT [--only NAME] [--tiny]

Needs the same packages and ZOO. The encoder is a small Transformer. --tiny: as tests/data/convert has them.
"""

import argparse
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import yaml
from espnet_checkpoint import TOKENS, decode_steps, randomize, torch
from espnet2.asr.ctc import CTC
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transducer_decoder import TransducerDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from espnet2.asr_transducer.joint_network import JointNetwork
from espnet2.lm.seq_rnn_lm import SequentialRNNLM

V = len(TOKENS)


def attention(atype, **more):
    own = {k: more.pop(k) for k in ("awin", "aheads") if k in more}
    return dict(att_conf=dict(atype=atype, adim=6, aconv_chans=3, aconv_filts=4, **own), **more)


XFORMER = dict(attention_heads=2, linear_units=8, num_blocks=1)
# name: decoder, decoder_conf, joint_net_conf, lm_conf
MODELS = {
    "lm-lstm": ("transformer", XFORMER, None, dict(rnn_type="lstm", nlayers=2)),
    "lm-gru": ("transformer", XFORMER, None, dict(rnn_type="gru", nhid=7)),
    "lm-tanh": ("transformer", XFORMER, None, dict(rnn_type="RNN_TANH", nlayers=1, tie_weights=True)),
    "lm-relu": ("transformer", XFORMER, None, dict(rnn_type="rnn_relu", nlayers=3)),
    "rnn-location": ("rnn", attention("location", num_layers=2), None, dict(rnn_type="lstm", nlayers=1)),
    "rnn-dot": ("rnn", attention("dot"), None, None),
    "rnn-add": ("rnn", attention("add", context_residual=True), None, None),
    "rnn-noatt": ("rnn", attention("noatt"), None, None),
    "rnn-coverage": ("rnn", attention("coverage"), None, None),
    "rnn-coverage-location": ("rnn", attention("coverage_location", num_layers=2, context_residual=True), None, None),
    "rnn-gru": ("rnn", attention("location", rnn_type="gru", num_layers=2), None, None),
    "rnn-location2d": ("rnn", attention("location2d", num_layers=2, awin=3), None, None),
    "rnn-heads-dot": ("rnn", attention("multi_head_dot", aheads=2), None, None),
    "rnn-heads-add": ("rnn", attention("multi_head_add", aheads=3, context_residual=True), None, None),
    "rnn-heads-location": ("rnn", attention("multi_head_loc", aheads=2), None, None),
    "rnn-heads-resolutions": ("rnn", attention("multi_head_multi_res_loc", aheads=3), None, None),
    "transducer-lstm": ("transducer", dict(num_layers=2), {}, dict(rnn_type="lstm")),
    "transducer-gru": ("transducer", dict(rnn_type="gru"), dict(joint_activation_type="relu", lin_dec_bias=False), None),
}


def build_decoder(kind, conf, d):
    if kind == "rnn":
        return RNNDecoder(V, d, **conf)
    return TransducerDecoder(V, **conf) if kind == "transducer" else TransformerDecoder(V, d, **conf)


def rnn_steps(module, memory, ids):
    """score for growing prefixes of each hypothesis."""
    out = []
    for y in ids:
        state = module.init_state(memory)
        each = []
        for n in range(1, len(y) + 1):
            logp, state = module.score(y[:n], state, memory)
            if isinstance(state["a_prev"], list):     # ESPnet appends to the list of the step before
                state["a_prev"] = list(state["a_prev"])
            each.append(logp.numpy())
        out.append(each)
    return np.stack(out, 1)


def transducer_steps(module, joint, memory, ids):
    """Outputs of the prediction network [steps, B, d], and the joint network's over some frames [steps, B, V]."""
    state, rows, scores = module.init_state(len(ids)), [], []
    for n in range(ids.shape[1]):
        row, state = module.rnn_forward(module.embed(ids[:, n : n + 1]), state)
        rows.append(row[:, 0].numpy())
        scores.append(joint(memory[n].expand(len(ids), -1), row[:, 0]).numpy())
    return np.stack(rows), np.stack(scores)


def make(out, name, tiny):
    kind, dec, joint_conf, lm_conf = MODELS[name]
    d, bands = (8, 20) if tiny else (32, 80)
    conf = dict(output_size=d, attention_heads=2, linear_units=d, num_blocks=1, input_layer="linear")
    encoder = randomize(TransformerEncoder(bands, **conf), 1)
    dec = dec if kind == "transformer" else dict(dec, hidden_size=d)
    decoder = randomize(build_decoder(kind, dec, d), 2)
    parts = dict(encoder=encoder, ctc=randomize(CTC(V, d), 3), decoder=decoder)
    config = dict(token_list=TOKENS, token_type="char", frontend="default",
                  frontend_conf=dict(fs="16k", hop_length=160, n_mels=bands), normalize="utterance_mvn", normalize_conf={},
                  encoder="transformer", encoder_conf=conf, decoder=kind, decoder_conf=dec,
                  model_conf=dict(ctc_weight=0.3))  # fmt: skip
    if joint_conf is not None:
        config["joint_net_conf"] = dict(joint_conf, joint_space_size=6)
        parts["joint_network"] = joint = randomize(JointNetwork(V, d, d, **config["joint_net_conf"]), 5)
    files, yamls = dict(asr_model_file="exp/asr/valid.acc.ave.pth"), dict(asr_train_config="exp/asr/config.yaml")
    packed = {"exp/asr/config.yaml": yaml.safe_dump(config),
              "exp/asr/valid.acc.ave.pth": torch.nn.ModuleDict(parts).state_dict()}  # fmt: skip
    record = {}
    ids = torch.tensor([[V - 1, 5, 9, 9, 2, 30], [V - 1, 7, 3, 12, 12, 4]])
    with torch.no_grad():
        x = torch.from_numpy(np.random.default_rng(1).standard_normal((1, 25, bands)).astype(np.float32))
        memory = encoder(x, torch.tensor([25]))[0]
        record["memory"], record["ids"] = memory.numpy(), ids.numpy()
        if kind == "rnn":
            record["decoder"] = rnn_steps(decoder, memory[0], ids)
        if kind == "transducer":
            record["prediction"], record["joint"] = transducer_steps(decoder, joint, memory[0], ids)
        if lm_conf is not None:
            lm_conf = dict(lm_conf, unit=6 if tiny else 24)
            lm = randomize(SequentialRNNLM(V, **lm_conf), 4)
            record["lm"] = decode_steps(lm, memory, ids)
            files["lm_file"], yamls["lm_train_config"] = "exp/lm/valid.loss.ave.pth", "exp/lm/config.yaml"
            packed["exp/lm/config.yaml"] = yaml.safe_dump(dict(lm="seq_rnn", lm_conf=lm_conf))
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
    p = argparse.ArgumentParser()
    p.add_argument("out", type=Path)
    p.add_argument("--only", choices=MODELS)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for each in [a.only] if a.only else MODELS:
        make(a.out, each, a.tiny)
        print(each, file=sys.stderr)
