#!/usr/bin/env python3
"""Encoders of ESPnet2 with weights that follow from their names (seeded.py), and what PyTorch computes with them.

    espnet_encoders.py OUT.npz [--only NAME...]
        the recording tests/data/convert/encoders.npz
    espnet_encoders.py OUT.npz --only longformer longformer-windows
        the recording tests/data/convert/longformer.npz
    espnet_encoders.py --pack OUT [--only NAME...]
        checkpoints NAME.zip and recordings NAME.npz of more columns, for longer inputs, with a Transformer decoder and
        the hypotheses of ESPnet's beam search for five seconds of speech
    espnet_encoders.py --compare OUT STENO [--only NAME...]
        convert them with STENO and compare encoders (ONNX Runtime) and hypotheses (espnet_onnx and STENO; for streams
        espnet_onnx's stand for ESPnet's)

Needs the PyPI packages torch (2.13.0), espnet (202511) and espnet_onnx (0.2.1). ZOO names the generator of the ESPnet
zoo, which has the stand-ins for packages that espnet imports and that are not used here.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

spec = importlib.util.spec_from_file_location("zoo_espnet", os.environ["ZOO"])
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)

import contextual  # noqa: E402
import local_attention  # noqa: E402
import numpy as np  # noqa: E402
import seeded  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from espnet.nets.batch_beam_search import BatchBeamSearch  # noqa: E402
from espnet.nets.scorers.ctc import CTCPrefixScorer  # noqa: E402
from espnet2.asr.ctc import CTC  # noqa: E402
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder  # noqa: E402
from espnet2.asr.encoder.branchformer_encoder import BranchformerEncoder  # noqa: E402
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder  # noqa: E402
from espnet2.asr.encoder.contextual_block_conformer_encoder import ContextualBlockConformerEncoder  # noqa: E402
from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder  # noqa: E402
from espnet2.asr.encoder.e_branchformer_encoder import EBranchformerEncoder  # noqa: E402
from espnet2.asr.encoder.longformer_encoder import LongformerEncoder  # noqa: E402
from espnet2.asr.encoder.rnn_encoder import RNNEncoder  # noqa: E402
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder  # noqa: E402
from espnet2.asr.encoder.vgg_rnn_encoder import VGGRNNEncoder  # noqa: E402
from espnet2.asr.frontend.default import DefaultFrontend  # noqa: E402
from espnet2.layers.utterance_mvn import UtteranceMVN  # noqa: E402

SPEECH = Path(__file__).parents[1] / "data/speech/jfk.wav"
TOKENS = ["<blank>", "<unk>", "<space>", "'", *map(chr, range(65, 91)), "<sos/eos>"]
ABS = dict(pos_enc_layer_type="abs_pos", attention_layer_type="selfattn")
FORMER = dict(num_blocks=3, attention_heads=2, linear_units=16)
BRANCH = dict(num_blocks=2, attention_heads=2, cgmlp_linear_units=16, cgmlp_conv_kernel=7)
ENCODERS = {"branchformer": BranchformerEncoder, "e_branchformer": EBranchformerEncoder,
            "conformer": ConformerEncoder, "longformer": LongformerEncoder, "transformer": TransformerEncoder,
            "rnn": RNNEncoder, "vgg_rnn": VGGRNNEncoder,
            "contextual_block_conformer": ContextualBlockConformerEncoder,
            "contextual_block_transformer": ContextualBlockTransformerEncoder}
MODELS = {
    "branchformer-concat": ("branchformer", BRANCH),
    "branchformer-learned": ("branchformer", dict(BRANCH, merge_method="learned_ave", rel_pos_type="legacy",
                                                  use_linear_after_conv=True, gate_activation="tanh")),
    "branchformer-fixed": ("branchformer", dict(BRANCH, merge_method="fixed_ave", cgmlp_weight=[0.3, 0.0, 1.0],
                                                num_blocks=3, gate_activation="swish", **ABS)),
    "branchformer-fast": ("branchformer", dict(BRANCH, pos_enc_layer_type="scaled_abs_pos", input_layer="linear",
                                               attention_layer_type="fast_selfattn", gate_activation="selu")),
    "branchformer-attention": ("branchformer", dict(BRANCH, use_cgmlp=False, input_layer="conv2d8",
                                                    pos_enc_layer_type="scaled_abs_pos", attention_layer_type="selfattn")),
    "branchformer-cgmlp": ("branchformer", dict(BRANCH, use_attn=False, gate_activation="hardtanh")),
    "e-branchformer": ("e_branchformer", BRANCH),
    "e-branchformer-triangle": ("e_branchformer", dict(BRANCH, zero_triu=True)),
    "e-branchformer-macaron": ("e_branchformer", dict(BRANCH, use_ffn=True, macaron_ffn=True, linear_units=16, merge_conv_kernel=7,
                                                      layer_drop_rate=0.1, positionwise_layer_type="linear")),
    "e-branchformer-legacy": ("e_branchformer", dict(BRANCH, use_ffn=True, linear_units=12, rel_pos_type="legacy", max_pos_emb_len=3000,
                                                     ffn_activation_type="relu", gate_activation="relu", use_linear_after_conv=True,
                                                     input_layer="conv2d2")),
    "e-branchformer-absolute": ("e_branchformer", dict(BRANCH, use_ffn=True, macaron_ffn=True, linear_units=16, input_layer="conv2d8", **ABS)),
    "transformer-concat": ("transformer", dict(FORMER, concat_after=True, positionwise_layer_type="conv1d",
                                               positionwise_conv_kernel_size=3, input_layer="conv1d2")),
    "transformer-conditioned": ("transformer", dict(FORMER, interctc_layer_idx=[1, 2], interctc_use_conditioning=True,
                                                    qk_norm=True, use_flash_attn=False)),
    "conformer-concat": ("conformer", dict(FORMER, concat_after=True, positionwise_layer_type="conv1d-linear", rel_pos_type="latest",
                                           macaron_style=True, cnn_module_kernel=7, activation_type="hardtanh",
                                           normalize_before=False)),
    "conformer-triangle": ("conformer", dict(FORMER, zero_triu=True, rel_pos_type="legacy")),
    "conformer-conditioned": ("conformer", dict(FORMER, interctc_layer_idx=[2], interctc_use_conditioning=True, rel_pos_type="latest",
                                                positionwise_layer_type="conv1d", positionwise_conv_kernel_size=5,
                                                cnn_module_kernel=7, max_pos_emb_len=9000)),
    "e-branchformer-conditioned": ("e_branchformer", dict(BRANCH, interctc_layer_idx=[1], interctc_use_conditioning=True,
                                                          input_layer="conv1d3", qk_norm=True, **ABS)),
    "e-branchformer-conv1d1": ("e_branchformer", dict(BRANCH, input_layer="conv1d1", interctc_layer_idx=[1])),
    "blocks-transformer": ("contextual_block_transformer", dict(FORMER)),
    "blocks-transformer-concat": ("contextual_block_transformer", dict(FORMER, concat_after=True, normalize_before=False, block_size=20,
                                                                       hop_size=8, look_ahead=4, input_layer="conv2d6", ctx_pos_enc=False,
                                                                       positionwise_layer_type="conv1d",
                                                                       positionwise_conv_kernel_size=3)),
    "blocks-conformer": ("contextual_block_conformer", dict(FORMER, macaron_style=True, cnn_module_kernel=7)),
    "blocks-conformer-conv2d8": ("contextual_block_conformer", dict(FORMER, num_blocks=4, cnn_module_kernel=5, activation_type="relu",
                                                                    block_size=16, hop_size=8, look_ahead=8, input_layer="conv2d8",
                                                                    positionwise_layer_type="conv1d-linear")),
    "longformer": ("longformer", dict(FORMER, attention_windows=[2, 4, 4], attention_dilation=[1, 1, 1], cnn_module_kernel=7,
                                      macaron_style=True, selfattention_layer_type="lf_selfattn")),
    "longformer-windows": ("longformer", dict(FORMER, num_blocks=2, attention_windows=[3, 6], attention_dilation=[1, 1],
                                              input_layer="conv2d2", normalize_before=False, use_cnn_module=False,
                                              concat_after=True, interctc_layer_idx=[1], interctc_use_conditioning=True)),
    "rnn": ("rnn", dict(hidden_size=6)),
    "rnn-gru": ("rnn", dict(rnn_type="gru", bidirectional=False, num_layers=2, hidden_size=6, subsample=[1, 2])),
    "rnn-stacked": ("rnn", dict(use_projection=False, num_layers=2, hidden_size=6, subsample=None)),
    "vgg-rnn": ("vgg_rnn", dict(num_layers=1, hidden_size=6)),
    "vgg-rnn-gru": ("vgg_rnn", dict(rnn_type="gru", use_projection=False, num_layers=2, hidden_size=6, bidirectional=False)),
    "e-branchformer-fast": ("e_branchformer", dict(BRANCH, pos_enc_layer_type="scaled_abs_pos", attention_layer_type="fast_selfattn")),
}  # fmt: skip
# encoder_conf of ESPnet's recipes egs2/librispeech/asr1 (conf/tuning/train_asr_*.yaml); for --pack --only NAME
REL = dict(attention_heads=8, pos_enc_layer_type="rel_pos", rel_pos_type="latest", output_size=512, dropout_rate=0.1,
           positional_dropout_rate=0.1, attention_dropout_rate=0.1, input_layer="conv2d")
RECIPES = {
    "librispeech-conformer": ("conformer", dict(REL, linear_units=2048, num_blocks=12, normalize_before=True, macaron_style=True,
                                                selfattention_layer_type="rel_selfattn", activation_type="swish",
                                                use_cnn_module=True, cnn_module_kernel=31)),
    "librispeech-branchformer": ("branchformer", dict(REL, use_attn=True, attention_layer_type="rel_selfattn", use_cgmlp=True,
                                                      cgmlp_linear_units=3072, cgmlp_conv_kernel=31, use_linear_after_conv=False,
                                                      gate_activation="identity", merge_method="concat", cgmlp_weight=0.5,
                                                      attn_branch_drop_rate=0.0, num_blocks=18, stochastic_depth_rate=0.0)),
    "librispeech-e-branchformer": ("e_branchformer", dict(REL, attention_layer_type="rel_selfattn", cgmlp_linear_units=3072,
                                                          cgmlp_conv_kernel=31, use_linear_after_conv=False, gate_activation="identity",
                                                          num_blocks=17, layer_drop_rate=0.1, linear_units=1024,
                                                          positionwise_layer_type="linear", macaron_ffn=True, use_ffn=True,
                                                          merge_conv_kernel=31)),
    "owsm-e-branchformer": ("e_branchformer", dict(output_size=384, attention_heads=6, attention_layer_type="selfattn",
                                                   pos_enc_layer_type="abs_pos", rel_pos_type="latest", cgmlp_linear_units=1536,
                                                   cgmlp_conv_kernel=31, use_linear_after_conv=False, gate_activation="identity",
                                                   num_blocks=6, input_layer="conv2d", layer_drop_rate=0.0, linear_units=1536,
                                                   positionwise_layer_type="linear", use_ffn=True, macaron_ffn=True, merge_conv_kernel=31)),
}  # fmt: skip


def seed(name, module):
    """Give the module its weights; returns {name: shape} of them."""
    shapes = {}
    for key, p in module.state_dict().items():
        if p.dtype == torch.float32:
            p.copy_(torch.from_numpy(seeded.weight(f"{name}.{key}", p.shape)))
            shapes[f"{name}.{key}"] = list(p.shape)
    module.eval()
    return shapes


def build(kind, conf, bands, tokens):
    """The encoder and a CTC layer, with the layer that conditioned CTC adds."""
    encoder, ctc = ENCODERS[kind](bands, **conf), CTC(tokens, conf["output_size"])
    if conf.get("interctc_use_conditioning"):
        encoder.conditioning_layer = torch.nn.Linear(tokens, conf["output_size"])
    return encoder, ctc, seed("encoder", encoder), seed("ctc", ctc)


def encode(encoder, ctc, x, lengths):
    more = dict(ctc=ctc) if getattr(encoder, "interctc_use_conditioning", False) else {}
    y = encoder(x, lengths, **more)[0]
    return y[0] if isinstance(y, tuple) else y


def run(encoder, ctc, conf, name, bands, lengths):
    out = {}
    with torch.no_grad():
        if hasattr(encoder, "block_size"):
            parts, states, steps = [], None, contextual.frames(conf, 4)
            x = torch.from_numpy(seeded.values(f"feats.{sum(steps)}", 1, sum(steps), bands))
            for n in steps:
                y, _, states = encoder(x[:, :n], torch.tensor([n]), states, is_final=False, infer_mode=True)
                parts.append(y.numpy())
                x = x[:, n:]
            return {f"{name}.{sum(steps)}": np.concatenate(parts, 1)}
        for t in lengths:
            x = torch.from_numpy(seeded.values(f"feats.{t}", 1, t, bands))
            out[f"{name}.{t}"] = encode(encoder, ctc, x, torch.tensor([t])).numpy()
    return out


def record(path, names):
    out, about = {}, {}
    for name in names:
        kind, conf = MODELS[name]
        conf = dict(output_size=8, **conf)
        encoder, ctc, shapes, _ = build(kind, conf, 20, 4)
        about[name] = dict(encoder=kind, encoder_conf=conf, weights=shapes)
        out.update(run(encoder, ctc, conf, name, 20, (27, 100)))
    np.savez_compressed(path, about=np.array(json.dumps(about)), **out)


def pack(out, name):
    kind, conf = (MODELS | RECIPES)[name]
    conf = {"output_size": 32, **conf}
    d, n = conf["output_size"], len(TOKENS)
    encoder, ctc, shapes, ctc_shapes = build(kind, conf, 80, n)
    dec = dict(attention_heads=2, linear_units=64, num_blocks=2)
    decoder = TransformerDecoder(n, d, **dec)
    shapes |= {**seed("decoder", decoder), **ctc_shapes}
    for part in (decoder.output_layer, ctc.ctc_lo):  # scores of hypotheses lie apart
        part.weight.data *= 4
    state = {k: seeded.weight(k, s) for k, s in shapes.items()}
    state["decoder.output_layer.weight"] *= 4
    state["ctc.ctc_lo.weight"] *= 4
    config = dict(token_list=TOKENS, token_type="char", frontend="default", frontend_conf=dict(fs="16k", hop_length=160),
                  normalize=None if "blocks" in name else "utterance_mvn", encoder=kind, encoder_conf=conf, decoder="transformer", decoder_conf=dec)
    with zipfile.ZipFile(out / f"{name}.zip", "w") as z:
        z.writestr("meta.yaml", yaml.safe_dump(dict(files=dict(asr_model_file="model.pth"),
                                                    yaml_files=dict(asr_train_config="config.yaml"))))  # fmt: skip
        z.writestr("config.yaml", yaml.safe_dump(config))
        z.writestr("model.pth", seeded.torch_file(state))
    # streams are searched by runtimes alone
    hypotheses = np.array(json.dumps([] if "blocks" in name else search(encoder, decoder, ctc)))
    np.savez_compressed(out / f"{name}.npz", hypotheses=hypotheses, **run(encoder, ctc, conf, "encoder", 80, (27, 41, 100, 257)))


def search(encoder, decoder, ctc):
    """Token ids of the five best hypotheses."""
    n = len(TOKENS)
    x = torch.from_numpy(soundfile.read(SPEECH, dtype="float32")[0][None, :80000])
    with torch.no_grad():
        feats, lengths = UtteranceMVN()(*DefaultFrontend(fs="16k", hop_length=160)(x, torch.tensor([x.shape[1]])))
        memory = encode(encoder, ctc, feats, lengths)[0]
        beam = BatchBeamSearch(beam_size=5, weights=dict(decoder=0.7, ctc=0.3), vocab_size=n, sos=n - 1, eos=n - 1,
                               scorers=dict(decoder=decoder, ctc=CTCPrefixScorer(ctc=ctc, eos=n - 1)),
                               token_list=TOKENS, pre_beam_score_key="full")  # fmt: skip
        return [[int(i) for i in h.yseq] for h in beam(memory)[:5]]


def theirs_of(conf, speech):
    """Token ids that espnet_onnx finds with the model directory where we are: the five best; for streams the best."""
    from espnet_onnx import Speech2Text, StreamingSpeech2Text
    from espnet_onnx.asr.beam_search.batch_beam_search_online import BatchBeamSearchOnline

    weights = dict(decoder=0.7, ctc=0.3, length_bonus=0.0)
    if "block_size" not in conf:
        s = Speech2Text(model_dir=".")
        s.config.beam_search.beam_size = 5
        s._build_beam_search(s.scorers, weights)
        enc = s.encoder(speech=speech[None], speech_length=np.array([len(speech)]))[0]
        return [[int(i) for i in h.yseq] for h in s.beam_search((enc[0] if isinstance(enc, tuple) else enc)[0])[:5]]
    blocks = dict(zip(("block_size", "hop_size", "look_ahead"), contextual.sizes(conf)[1:]))
    s = StreamingSpeech2Text(model_dir=".", **blocks)
    s.config.beam_search.beam_size = 5
    s.beam_search = BatchBeamSearchOnline(s.config.beam_search, s.config.token, scorers=s.scorers, weights=weights, **blocks)
    return [[int(i) for i in s.simulate(speech)[0][3].yseq]]


def encoder_difference(folder, want, conf):
    import onnxruntime

    streams, worst = "block_size" in conf, 0
    net = onnxruntime.InferenceSession(folder / f"full/{'xformer' if streams else 'default'}_encoder.onnx")
    for key in want:
        if not key.startswith("encoder."):
            continue
        t = int(key.split(".")[1])
        x = seeded.values(f"feats.{t}", 1, t, 80)
        y = (contextual.run(lambda feed: net.run(None, feed), conf, conf["num_blocks"], x, np.load(folder / "pe.npy"), 4)
             if streams else net.run(None, dict(feats=x))[0])  # fmt: skip
        assert y.shape == want[key].shape, (y.shape, want[key].shape)
        worst = max(worst, np.abs(y - want[key]).max())
    return worst


def compare(out, name, steno):
    want, folder, wav = np.load(out / f"{name}.npz"), out / name, out / "speech.wav"
    kind, conf = (MODELS | RECIPES)[name]
    if kind.startswith("contextual"):
        conf = dict(zip(("block_size", "hop_size", "look_ahead"), contextual.sizes(conf)[1:])) | conf
    subprocess.run([steno, "convert", out / f"{name}.zip", "-o", folder], check=True, stdout=subprocess.DEVNULL)
    worst = encoder_difference(folder, want, conf)
    best, speech = json.loads(str(want["hypotheses"])), soundfile.read(SPEECH, dtype="float32")[0][:80000]
    soundfile.write(wav, speech, 16000, "FLOAT")
    os.chdir(folder)  # the paths in config.yaml are relative
    theirs = theirs_of(conf, speech)
    best = best or theirs
    said = subprocess.run([steno, "transcribe", "--model", ".", "--format", "nbest", "--nbest", "5", "--beam", "5",
                           "--compat", "espnet-onnx", "--ctc-weight", "0.3", wav], check=True, capture_output=True)  # fmt: skip
    ours = [h["token_ids"] for h in json.loads(said.stdout)["nbest"]][: len(best)]
    print(f"{name}: encoder {worst:.2g}; {len(best)} hypotheses of {len(best[0])} tokens, espnet_onnx "
          f"{'equal' if theirs == best else theirs}, steno {'equal' if ours == best else ours}", flush=True)  # fmt: skip
    return worst < 1e-4 and theirs == best and ours == best


if __name__ == "__main__":
    local_attention.install()
    p = argparse.ArgumentParser()
    p.add_argument("out", type=Path)
    p.add_argument("steno", nargs="?")
    p.add_argument("--compare", action="store_true")
    p.add_argument("--only", nargs="+", choices=MODELS | RECIPES)
    p.add_argument("--pack", action="store_true")
    a = p.parse_args()
    chosen = a.only or [m for m in MODELS if not m.startswith("longformer")]
    if a.compare:
        steno = os.path.abspath(a.steno)
        sys.exit(not all([compare(a.out.resolve(), each, steno) for each in chosen]))
    if not a.pack:
        record(a.out, chosen)
        sys.exit()
    a.out.mkdir(parents=True, exist_ok=True)
    for each in chosen:
        pack(a.out, each)
        print(each, file=sys.stderr)
