#!/usr/bin/env python3
"""NeMo checkpoints of random weights, as ModelPT.save_to packs them, and what NeMo's modules compute with them.

    nemo_checkpoint.py OUT [--only NAME] [--tiny]

Needs the PyPI packages torch (2.13.0), nemo_toolkit (3.0.0, without its dependencies), omegaconf, hydra-core,
lightning, sentencepiece. For each model: OUT/NAME.nemo and OUT/NAME.npz with inputs and outputs of the encoder (a
padded batch of two, and one utterance), CTC decoder, prediction network, joint network, and, where the encoder has
caches, of its steps. --tiny: few columns, packed with gzip as older checkpoints are, as tests/data/convert has them.
Features of --audio FILE (16 kHz) and greedy hypotheses from NeMo's modules are in OUT/NAME.json.
"""

import argparse
import functools
import importlib.abc
import importlib.machinery
import io
import json
import os
import sys
import tarfile
import tempfile
import types
from unittest import mock

import numpy as np
import nemo
import torch

# The modules below need only a part of NeMo. Its packages import every model, data loader and logger, and so many
# more packages: an empty package stands for each of them, and an object that does nothing for what is not used.
EMPTY = ("collections", "collections.asr", "collections.asr.modules", "collections.asr.modules.transformer", "collections.asr.models", "collections.asr.data",
         "collections.common", "collections.audio", "collections.audio.parts", "lightning")  # fmt: skip
UNUSED = ("nemo.utils.exp_manager", "nemo.lightning.one_logger_callback", "nemo.lightning.callback_group",
          "nemo.collections.asr.parts.preprocessing.perturb", "nemo.collections.common.tokenizers",
          "nemo.collections.asr.parts.context_biasing", "nemo.collections.asr.metrics", "pandas", "lhotse", "datasets",
          "kaldialign", "numba", "texterrors", "matplotlib", "soundfile", "kenlm", "tensorboard")  # fmt: skip


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        used = not any(name == u or name.startswith(u + ".") for u in UNUSED)
        return None if used else importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module):
        pass


for part in EMPTY:
    package = types.ModuleType(f"nemo.{part}")
    package.__path__ = [os.path.join(nemo.__path__[0], *part.split("."))]
    sys.modules[package.__name__] = package
sys.meta_path.insert(0, Unused())

import sentencepiece  # noqa: E402
import yaml  # noqa: E402
from nemo.collections.asr.modules.conformer_encoder import ConformerEncoder  # noqa: E402
from nemo.collections.asr.modules.conv_asr import ConvASRDecoder  # noqa: E402
from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint  # noqa: E402
from nemo.collections.asr.modules.transformer.transformer import TransformerDecoderNM  # noqa: E402
from nemo.collections.asr.parts.preprocessing.features import FilterbankFeatures  # noqa: E402
from nemo.collections.asr.parts.submodules.token_classifier import TokenClassifier  # noqa: E402
from nemo.collections.asr.parts.submodules.subsampling import ConvSubsampling, calc_length  # noqa: E402

FAST = dict(subsampling="dw_striding", subsampling_factor=8, subsampling_conv_channels=8, conv_kernel_size=9)
CACHED = dict(FAST, causal_downsampling=True, conv_context_size="causal", conv_norm_type="layer_norm",
              att_context_style="chunked_limited")  # fmt: skip
# encoder, heads (c: CTC, r: RNNT, t: TDT, a: attention decoder), tokenizer, prediction and joint networks, normalize
MODELS = {
    "unified-ctc": (dict(FAST, att_context_style="chunked_limited_with_rc", conv_context_style="dcc",
                         att_chunk_context_size=[[70], [1, 2], [0, 1]]), "c", "bpe", {}, "per_feature"),
    "conformer-ctc-char": (dict(subsampling="striding", subsampling_factor=4, subsampling_conv_channels=8,
                                untie_biases=False), "c", "char", {}, "per_feature"),
    "parakeet-tdt": (dict(FAST, use_bias=False, xscaling=False), "t", "bpe", dict(layers=2, dropout=0.2), "per_feature"),
    "conformer-rnnt": (dict(subsampling="stacking_norm", subsampling_factor=4, conv_norm_type="layer_norm",
                            conv_kernel_size=5, feat_out=12), "r", "wpe", dict(activation="tanh"), "per_feature"),
    "hybrid-tdt": (dict(FAST, att_context_size=[6, 3], self_attention_model="abs_pos", conv_context_size=[6, 2]), "ct",
                   "agg", dict(activation="sigmoid"), "NA"),
    "hybrid-streaming": (dict(CACHED, att_context_size=[[14, 1], [14, 0], [12, 3]]), "cr", "bpe", dict(dropout=0.2),
                         "NA"),
    "striding-streaming": (dict(CACHED, subsampling="striding", subsampling_factor=4, att_context_size=[8, 3],
                                conv_norm_type="batch_norm"), "c", "bpe", {}, "NA"),
    "local-ctc": (dict(FAST, self_attention_model="rel_pos_local_attn", att_context_size=[3, 3]), "c", "bpe", {}, "per_feature"),
    "local-left-rnnt": (dict(FAST, subsampling_factor=4, self_attention_model="rel_pos_local_attn",
                             att_context_size=[5, 2], untie_biases=False, use_bias=False), "r", "bpe", {}, "NA"),
    "local-right-ctc": (dict(FAST, subsampling_factor=4, self_attention_model="rel_pos_local_attn",
                             att_context_size=[1, 4]), "c", "bpe", {}, "NA"),
    "vggnet-ctc": (dict(subsampling="vggnet", subsampling_factor=4, subsampling_conv_channels=8), "c", "bpe", {}, "NA"),
    "conv1d-ctc": (dict(subsampling="striding_conv1d", subsampling_factor=4, subsampling_conv_channels=8), "c", "bpe", {}, "NA"),
    "dw-conv1d-ctc": (dict(subsampling="dw_striding_conv1d", subsampling_factor=8, subsampling_conv_channels=8), "c", "bpe", {},
                      "NA"),
    "canary": (dict(FAST, xscaling=False), "a", "canary", {}, "per_feature"),
    "canary-post": (FAST, "a", "canary-bpe", dict(pre_ln=False, hidden_act="gelu", learn_positional_encodings=True, more=4),
                    "per_feature"),
}  # fmt: skip
CHARACTERS = [" ", *map(chr, range(97, 123)), "'"]
MARKS = ["<|nospeech|>", "<pad>", "<|endoftext|>", "<|startoftranscript|>", "<|pnc|>", "<|nopnc|>", "<|startofcontext|>", "<|itn|>",
         "<|noitn|>", "<|timestamp|>", "<|notimestamp|>", "<|diarize|>", "<|nodiarize|>", "<|emo:undefined|>", "<|en|>", "<|de|>"]  # fmt: skip
PIECES = ["[PAD]", "[UNK]", "one", "two", "##ty", "##teen", "s", "##even", "##ix", "e", "##ight"]
DIGITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen twenty thirty hundred".split()


def randomize(module, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in [*module.named_parameters(), *module.named_buffers()]:
        if p.dtype != torch.float32 or name.endswith(("pos_enc.pe", "pos_enc")):
            continue
        if name.endswith("running_var"):
            p.data.copy_(torch.rand(p.shape, generator=g) + 0.5)
        elif p.dim() >= 2:
            p.data.copy_(torch.randn(p.shape, generator=g) / np.sqrt(p[0].numel()))
        else:
            p.data.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0)
                         + 0.1 * torch.randn(p.shape, generator=g))  # fmt: skip
    return module.eval()


def sentence_pieces(lines, count, marks=()):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, vocab_size=count, model_type="bpe", minloglevel=2,
        user_defined_symbols=list(marks), normalization_rule_name="identity", unk_id=0, bos_id=-1, eos_id=-1)  # fmt: skip
    return out.getvalue()


def pieces_of(model):
    s = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [s.id_to_piece(i) for i in range(len(s))]


def make_tokenizer(kind, files):
    """The section `tokenizer`, or None, and the tokens; adds its files."""
    if kind == "char":
        return None, CHARACTERS
    if kind == "wpe":
        files["0f_vocab.txt"] = "\n".join(PIECES).encode() + b"\n"
        return dict(dir="/models/tok", type="wpe", vocab_path="nemo:0f_vocab.txt"), PIECES
    marks = MARKS if kind == "canary-bpe" else ()
    files["1a_tokenizer.model"] = sentence_pieces(DIGITS * 20, 40 + len(marks), marks)
    one = dict(dir="/models/tok", type="bpe", model_path="nemo:1a_tokenizer.model")
    tokens = pieces_of(files["1a_tokenizer.model"])
    if kind in ("bpe", "canary-bpe"):
        return one, tokens
    if kind == "canary":
        files["0c_tokenizer.model"] = sentence_pieces(["a"], len(MARKS) + 3, MARKS)
        special = dict(one, model_path="nemo:0c_tokenizer.model")
        return dict(type="agg", langs=dict(spl_tokens=special, en=one)), pieces_of(files["0c_tokenizer.model"]) + tokens
    files["2b_tokenizer.model"] = sentence_pieces([w[::-1] for w in DIGITS] * 20, 34)
    two = dict(one, model_path="nemo:2b_tokenizer.model")
    return dict(type="agg", langs=dict(en=one, back=two)), tokens + pieces_of(files["2b_tokenizer.model"])


def decode_steps(decoder, ids):
    """Outputs of the prediction network token by token, each row a hypothesis of its own."""
    out, state = [], decoder.initialize_state(torch.zeros(len(ids), 1))
    for i in range(ids.shape[1]):
        y, state = decoder.predict(ids[:, i : i + 1], state=state, add_sos=False)
        out.append(y)
    return torch.cat(out, 1), state


def joint_rows(joint, encoded, predicted):
    """[B,T,D], [B,U,H] -> scores without a softmax, as NeMo exports them."""
    joint.log_softmax = False
    return joint.joint_after_projection(joint.project_encoder(encoded), joint.project_prednet(predicted))


def greedy(decoder, joint, encoded, durations):
    """Ids of one utterance [1,T,D]: sherpa-onnx's loop."""
    blank, out, t = decoder.blank_idx, [], 0
    predicted, state = decoder.predict(torch.tensor([[blank]]), state=decoder.initialize_state(torch.zeros(1, 1)),
                                       add_sos=False)  # fmt: skip
    limit, here = (5 if durations else 10), 0
    while t < encoded.shape[1]:
        scores = joint_rows(joint, encoded[:, t : t + 1], predicted)[0, 0, 0]
        y = int(scores[: blank + 1].argmax())
        skip = int(scores[blank + 1 :].argmax()) if durations else int(y == blank)
        if y != blank:
            out.append(y)
            here += 1
            predicted, state = decoder.predict(torch.tensor([[y]]), state=state, add_sos=False)
        if skip:
            here = 0
        if here >= limit or (y == blank and not skip):
            skip, here = 1, 0
        t += skip
    return out


def collapse(ids, blank):
    return [int(y) for i, y in enumerate(ids) if y != blank and (not i or y != ids[i - 1])]


def attention_decoder(net, width, wide, vocab, seed):
    """Decoder, head, projection of a multitask model; their section; rows of the embedding."""
    hidden, rows = width + net.get("more", 0), -(-vocab // 8) * 8
    conf = dict(max_sequence_length=16 * width, num_token_types=0, embedding_dropout=0.1,
                learn_positional_encodings=net.get("learn_positional_encodings", False), hidden_size=hidden,
                inner_size=2 * hidden, num_layers=2, num_attention_heads=2, ffn_dropout=0.1, attn_score_dropout=0.1,
                attn_layer_dropout=0.1, hidden_act=net.get("hidden_act", "relu"), pre_ln=net.get("pre_ln", True))  # fmt: skip
    decoder = randomize(TransformerDecoderNM(vocab_size=rows, **conf), seed)
    head = randomize(TokenClassifier(hidden_size=hidden, num_classes=rows), seed + 1)
    head.mlp.layer0.weight = decoder.embedding.token_embedding.weight
    head.mlp.log_softmax = False
    proj = randomize(torch.nn.Linear(wide, hidden), seed + 2) if hidden != wide else torch.nn.Identity()
    return decoder, head, proj, dict(conf, vocab_size="None")


def attention_steps(decoder, head, proj, encoded, n, ids):
    """What the multitask model computes for one utterance: states, scores of each step, memories after the last one."""
    states = proj(encoded.transpose(1, 2))
    mask = (torch.arange(states.shape[1])[None] < n[:, None]).float()
    decoder.return_mems = True
    hidden = decoder(input_ids=ids, decoder_mask=torch.ones(ids.shape), encoder_embeddings=states[:1], encoder_mask=mask[:1])
    return states, head(hidden_states=hidden[:, -1]), hidden


PROMPT = ("startofcontext", "startoftranscript", "emo:undefined", "en", "en", "pnc", "noitn", "notimestamp", "nodiarize")


def attention_greedy(model, tokens, encoded, n, most):
    ids = [tokens.index(f"<|{name}|>") for name in PROMPT]
    while len(ids) < most + len(PROMPT):
        scores = attention_steps(*model["aed"], encoded, n, torch.tensor([ids]))[1][0, -1, : len(tokens)]
        ids.append(int(scores.argmax()))
        if tokens[ids[-1]] == "<|endoftext|>":
            return ids[len(PROMPT) : -1]
    return ids[len(PROMPT) :]


def pack(path, files, tiny):
    with tarfile.open(path, "w:gz" if tiny else "w") as tar:
        folder = tarfile.TarInfo(".")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def one_by_one(encoder, feats, lengths):
    """forward_internal of subsamplings that NeMo 3.0.0 builds and then fails to run: its layers one after the other, as
    in NeMo 2, and each utterance alone, since those did not hide padding."""

    def forward(self, x, lengths):
        n = calc_length(lengths, self._left_padding + self._right_padding, self._kernel_size, self._stride, self._ceil_mode,
                        self._sampling_num)  # fmt: skip
        if not self.conv2d_subsampling:
            return torch.nn.Sequential.forward(self.conv, x.transpose(1, 2)).transpose(1, 2), n
        x = torch.nn.Sequential.forward(self.conv, x.unsqueeze(1))
        return self.out(x.transpose(1, 2).flatten(2)), n

    with mock.patch.object(ConvSubsampling, "forward", forward):
        rows = [encoder.forward_internal(x[None, :, :n], n[None]) for x, n in zip(feats, lengths)]
    n = torch.cat([r[1] for r in rows])
    return torch.stack([torch.nn.functional.pad(r[0][0], (0, int(n.max()) - r[0].shape[2])) for r in rows]), n


def streaming_steps(encoder, feats):
    """Chunks of forward_for_export, which a caller feeds with caches from zero on."""
    cfg = encoder.streaming_cfg
    window, shift = cfg.chunk_size[1] + cfg.pre_encode_cache_size[1], cfg.shift_size[1]
    channel, time, length = encoder.get_initial_cache_state(batch_size=len(feats))
    channel, time, out = channel.transpose(0, 1), time.transpose(0, 1), []
    for at in range(0, feats.shape[2] - window + 1, shift):
        y, n, channel, time, length = encoder.forward_for_export(
            feats[:, :, at : at + window], torch.full((len(feats),), window), channel, time, length)  # fmt: skip
        out.append(y)
    return torch.stack(out), channel, time, length


def greedy_of(model, feats, tokens):
    """{kind: ids} of one recording's features [1,F,T]."""
    out = {}
    encoded, n = model["encoder"].forward_internal(feats, torch.tensor([feats.shape[2]]))
    if "aed" in model:
        out["aed"] = attention_greedy(model, tokens, encoded, n, 30 * feats.shape[2] // 100 + 1)
    if "ctc" in model:
        out["ctc"] = collapse(model["ctc"](encoder_output=encoded)[0].argmax(-1).tolist(), model["blank"])
    if "joint" in model:
        out["transducer"] = greedy(model["decoder"], model["joint"], encoded.transpose(1, 2), model["durations"])
    if model["streaming"]:
        left = torch.nn.functional.pad(feats, (model["encoder"].subsampling_factor + 1, 0))
        y = torch.cat(list(streaming_steps(model["encoder"], left)[0]), 2)
        if "ctc" in model:
            out["streaming-ctc"] = collapse(model["ctc"](encoder_output=y)[0].argmax(-1).tolist(), model["blank"])
        if "joint" in model:
            out["streaming-transducer"] = greedy(model["decoder"], model["joint"], y.transpose(1, 2), 0)
    return out


@torch.no_grad()
def make(out, name, tiny, audio):
    conf, heads, kind, net, normalize = MODELS[name]
    width, bands = (8, 16) if tiny else (32, 80)
    transducer, durations = set(heads) & set("rt"), 5 if "t" in heads else 0
    encoder_conf = dict(feat_in=bands, n_layers=2, d_model=width, n_heads=2, ff_expansion_factor=2,
                        pos_emb_max_len=200 if tiny else 1000, **{"conv_kernel_size": 7, "feat_out": -1, **conf})  # fmt: skip
    files = {}
    tokenizer, tokens = make_tokenizer(kind, files)
    vocab = len(tokens)
    encoder = randomize(ConformerEncoder(**encoder_conf), 1)
    wide = encoder._feat_out
    whole = torch.nn.ModuleDict(dict(encoder=encoder))  # its state dict has the names of NeMo's models
    model = dict(encoder=encoder, blank=vocab, durations=durations, streaming="caus" in str(conf))
    ctc_conf = dict(_target_="nemo.collections.asr.modules.ConvASRDecoder", feat_in=wide, num_classes=vocab,
                    vocabulary=list(tokens))  # fmt: skip
    config = dict(sample_rate=16000, log_prediction=True,
                  preprocessor=dict(_target_="nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
                                    sample_rate=16000, normalize=normalize, window_size=0.025, window_stride=0.01,
                                    window="hann", features=bands, n_fft=512, log=True, frame_splicing=1, dither=1e-05,
                                    pad_to=0, pad_value=0.0),
                  encoder=dict(_target_="nemo.collections.asr.modules.ConformerEncoder", **encoder_conf),
                  nemo_version="3.0.0")  # fmt: skip
    if tokenizer:
        config["tokenizer"] = tokenizer
    feats = torch.randn((2, bands, 75), generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([75, 50])
    feats[1, :, 50:] = 0
    want = dict(feats=feats, lengths=lengths)
    odd = conf.get("subsampling", "").endswith(("vggnet", "conv1d"))
    forward = functools.partial(one_by_one, encoder) if odd else encoder.forward_internal
    want["encoded"], want["encoded_lengths"] = forward(feats, lengths)
    want["encoded_1"] = forward(feats[:1, :, :41], torch.tensor([41]))[0]
    bpe = "" if kind == "char" else "BPE"
    if "c" in heads:
        ctc = randomize(ConvASRDecoder(feat_in=wide, num_classes=vocab, vocabulary=list(tokens)), 2)
        want["ctc"] = ctc(encoder_output=want["encoded"])
        whole["ctc_decoder" if transducer else "decoder"] = ctc
        config["target"] = f"nemo.collections.asr.models.ctc_bpe_models.EncDecCTCModel{bpe}"
        config.update(dict(aux_ctc=dict(decoder=ctc_conf)) if transducer else dict(decoder=ctc_conf))
        model["ctc"] = ctc
    if transducer:
        hidden = width // 2
        prednet = dict(pred_hidden=hidden, pred_rnn_layers=net.get("layers", 1), t_max=None, dropout=net.get("dropout", 0))
        jointnet = dict(joint_hidden=hidden + 2, activation=net.get("activation", "relu"), dropout=net.get("dropout", 0),
                        encoder_hidden=wide, pred_hidden=hidden)  # fmt: skip
        decoder = randomize(RNNTDecoder(prednet=prednet, vocab_size=vocab), 4)
        decoder.prediction["embed"].weight.data[vocab] = 0  # the padding row, which training leaves at zero
        joint = randomize(RNNTJoint(jointnet=jointnet, num_classes=vocab, vocabulary=list(tokens), num_extra_outputs=durations), 5)
        ids = torch.tensor([[vocab, 1, 5, 2, 2], [vocab, 7, 3, 1, 0]])
        want["ids"] = ids
        want["predicted"], (want["h"], want["c"]) = decode_steps(decoder, ids)
        want["joint"] = joint_rows(joint, want["encoded"][:1, :, :4].transpose(1, 2), want["predicted"][:1])
        whole.update(dict(decoder=decoder, joint=joint))
        hybrid = "HybridRNNTCTC" if "c" in heads else "RNNT"
        config["target"] = f"nemo.collections.asr.models.hybrid_models.EncDec{hybrid}{bpe}Model"
        config["decoder"] = dict(_target_="nemo.collections.asr.modules.RNNTDecoder", normalization_mode=None,
                                 random_state_sampling=False, blank_as_pad=True, prednet=prednet, vocab_size=vocab)  # fmt: skip
        config["joint"] = dict(_target_="nemo.collections.asr.modules.RNNTJoint", log_softmax=None, jointnet=jointnet,
                               num_classes=vocab, vocabulary=list(tokens), num_extra_outputs=durations)  # fmt: skip
        config["decoding"] = dict(strategy="greedy_batch", model_type="tdt" if durations else "rnnt",
                                  durations=list(range(durations)), greedy=dict(max_symbols=10))  # fmt: skip
        model |= dict(decoder=decoder, joint=joint)
    if "a" in heads:
        decoder, head, proj, section = attention_decoder(net, width, wide, vocab, 4)
        ids = torch.tensor([[9, 4, 20, 5, 1, 30, 30]])
        want["aed_ids"] = ids
        want["states"], want["scores"], want["memories"] = attention_steps(
            decoder, head, proj, want["encoded"], want["encoded_lengths"], ids)
        want["scores"] = want["scores"][..., :vocab]
        model["aed"] = decoder, head, proj
        whole.update(dict(transf_decoder=decoder, log_softmax=head, encoder_decoder_proj=proj))
        hidden = section["hidden_size"]
        config |= dict(
            target="nemo.collections.asr.models.aed_multitask_models.EncDecMultiTaskModel", prompt_format="canary2",
            model_defaults=dict(asr_enc_hidden=wide, lm_enc_hidden=512, lm_dec_hidden=hidden),
            transf_encoder=dict(_target_="nemo.collections.asr.modules.transformer.TransformerEncoder", num_layers=0),
            transf_decoder=dict(_target_="nemo.collections.asr.modules.transformer.get_nemo_transformer", model_name=None,
                                pretrained=False, encoder=None, pre_ln_final_layer_norm=True, config_dict=section),
            head=dict(_target_="nemo.collections.asr.parts.submodules.token_classifier.TokenClassifier", num_layers=1,
                      activation="relu", log_softmax=True, hidden_size=hidden, num_classes="None", dropout=0.0))  # fmt: skip
    if model["streaming"]:
        want["steps"], *caches = streaming_steps(encoder, feats)
        want |= dict(zip(("channel", "time", "length"), caches))
        if "c" in heads:
            want["steps_ctc"] = torch.stack([model["ctc"](encoder_output=y) for y in want["steps"]])
    weights = io.BytesIO()
    torch.save(whole.state_dict(), weights)
    files = {"model_config.yaml": yaml.safe_dump(config, sort_keys=False).encode(), "model_weights.ckpt": weights.getvalue(), **files}
    pack(f"{out}/{name}.nemo", files, tiny)
    np.savez_compressed(f"{out}/{name}.npz", **{k: v.numpy() for k, v in want.items()})
    if audio:
        import wave

        with wave.open(audio) as w:
            x = torch.tensor(np.frombuffer(w.readframes(w.getnframes()), "i2").astype("f4") / 32768)[None]
        front = FilterbankFeatures(16000, 400, 160, "hann", normalize, 512, nfilt=bands, dither=0, pad_to=0).eval()
        y, n = front(x, torch.tensor([x.shape[1]]))
        y = y[:, :, : int(n[0])]
        result = dict(tokens=tokens, **greedy_of(model, y, tokens))
        with open(f"{out}/{name}.json", "w", encoding="utf-8") as f:
            json.dump(result, f, ensure_ascii=False)


@torch.no_grad()
def make_sortformer(out, name, tiny):
    """A streaming Sortformer, and what one step of it computes of a memory and a chunk."""
    from nemo.collections.asr.modules.sortformer_modules import SortformerModules
    from nemo.collections.asr.modules.transformer.transformer_encoders import TransformerEncoder

    width, hidden, layers, bands = (16, 8, 2, 80) if tiny else (512, 192, 17, 128)
    encoder_conf = dict(FAST, feat_in=bands, feat_out=-1, n_layers=layers, d_model=width, n_heads=2 if tiny else 8, ff_expansion_factor=4,
                        conv_kernel_size=9, pos_emb_max_len=1000 if tiny else 5000)  # fmt: skip
    if not tiny:
        encoder_conf["subsampling_conv_channels"] = 256
    transformer_conf = dict(num_layers=3 if tiny else 18, hidden_size=hidden, inner_size=4 * hidden, num_attention_heads=2 if tiny else 8,
                            attn_score_dropout=0.5, attn_layer_dropout=0.5, ffn_dropout=0.5, hidden_act="relu", pre_ln=False,
                            pre_ln_final_layer_norm=True)  # fmt: skip
    modules_conf = dict(num_spks=4, dropout_rate=0.5, fc_d_model=width, tf_d_model=hidden, subsampling_factor=8, spkcache_len=188, fifo_len=0,
                        chunk_len=188, spkcache_update_period=188, chunk_left_context=1, chunk_right_context=1, spkcache_sil_frames_per_spk=3,
                        scores_add_rnd=0, causal_attn_rate=0.5, causal_attn_rc=7)  # fmt: skip
    encoder = randomize(ConformerEncoder(**encoder_conf), 1)
    transformer = randomize(TransformerEncoder(**transformer_conf), 2)
    modules = randomize(SortformerModules(**modules_conf), 3)
    g = torch.Generator().manual_seed(4)
    want = {}
    for step, (frames, real, cached, queued) in enumerate(((96, 96, 0, 0), (64, 57, 20, 7))):
        chunk, length = torch.randn((1, frames, bands), generator=g), torch.tensor([real])
        chunk[:, real:] = 0
        cache, queue = (torch.randn((1, n, width), generator=g) for n in (cached, queued))
        rows, n = encoder.pre_encode(x=chunk, lengths=length)
        total = cached + queued + n.to(torch.int64)
        x, total = encoder(audio_signal=torch.cat([cache, queue, rows], 1), length=total, bypass_pre_encode=True)
        mask = SortformerModules.length_to_mask(total, x.shape[2])
        x = transformer(encoder_states=modules.encoder_proj(x.transpose(1, 2)), encoder_mask=mask)
        probs = modules.forward_speaker_sigmoids(x) * mask.unsqueeze(-1)
        want |= {f"{k}_{step}": v for k, v in dict(chunk=chunk, chunk_lengths=length, spkcache=cache, fifo=queue, probs=probs, rows=rows,
                                                   n=n.to(torch.int64)).items()}  # fmt: skip
    config = dict(sample_rate=16000, streaming_mode=True, async_streaming=False, max_num_of_spks=4,
                  target="nemo.collections.asr.models.sortformer_diar_models.SortformerEncLabelModel",
                  preprocessor=dict(_target_="nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor", normalize="NA", window_size=0.025,
                                    sample_rate=16000, window_stride=0.01, window="hann", features=bands, n_fft=512, frame_splicing=1,
                                    dither=1e-05),
                  model_defaults=dict(fc_d_model=width, tf_d_model=hidden),
                  encoder=dict(_target_="nemo.collections.asr.modules.ConformerEncoder", **encoder_conf),
                  transformer_encoder=dict(_target_="nemo.collections.asr.modules.transformer.transformer_encoders.TransformerEncoder",
                                           **transformer_conf),
                  sortformer_modules=dict(_target_="nemo.collections.asr.modules.sortformer_modules.SortformerModules", **modules_conf),
                  nemo_version="3.0.0")  # fmt: skip
    whole = torch.nn.ModuleDict(dict(encoder=encoder, transformer_encoder=transformer, sortformer_modules=modules))
    weights = io.BytesIO()
    torch.save(whole.state_dict(), weights)
    pack(f"{out}/{name}.nemo", {"model_config.yaml": yaml.safe_dump(config, sort_keys=False).encode(), "model_weights.ckpt": weights.getvalue()}, tiny)
    np.savez_compressed(f"{out}/{name}.npz", **{k: v.numpy() for k, v in want.items()})


if __name__ == "__main__":
    args = argparse.ArgumentParser()
    args.add_argument("out")
    args.add_argument("--only")
    args.add_argument("--tiny", action="store_true")
    args.add_argument("--audio")
    args = args.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for model_name in [args.only] if args.only else [*MODELS, "sortformer"]:
        if model_name == "sortformer":
            make_sortformer(args.out, model_name, args.tiny)
        else:
            make(args.out, model_name, args.tiny, args.audio)
        print(model_name)
