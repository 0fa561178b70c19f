"""steno convert: NeMo's networks against recorded outputs of its PyTorch modules (tests/data/convert), and bad input.
TAP."""
import io
import json
import os
import sys
import tarfile
import zipfile

import numpy as np
import onnx
import yaml
from daemon import run_in_folders
from test_convert import DATA, RECORDING, ort, ours, steno

MODELS = ("conformer-ctc-char", "conformer-rnnt", "parakeet-tdt", "hybrid-tdt", "hybrid-streaming", "striding-streaming",
          "local-left-rnnt", "vggnet-ctc")
WEIGHTS = "model_weights.ckpt"
CONFIG = "model_config.yaml"


def metadata(path):
    return {x.key: x.value for x in onnx.load(path).metadata_props}


def close(got, want, what):
    assert got.shape == want.shape, f"{what}: {got.shape}, expected {want.shape}"
    difference = np.abs(got - want).max()
    assert difference < 1e-4, f"{what} differs by {difference}"


def whole(run, first, want, ctc, what):
    feed = {"audio_signal": want["feats"], "length": want["lengths"]}
    y, *lengths = run(first)(feed)
    lengths = lengths or [want["encoded_lengths"]]
    assert (lengths[0] == want["encoded_lengths"]).all(), lengths
    for row, n in enumerate(want["encoded_lengths"]):
        if ctc:
            close(y[row, :n], want["ctc"][row, :n], f"{what}: row {row} of CTC")
        else:
            close(y[row, :, :n], want["encoded"][row, :, :n], f"{what}: row {row}")
    if not ctc:
        y = run(first)({"audio_signal": want["feats"][:1, :, :41], "length": np.array([41])})[0]
        close(y, want["encoded_1"], f"{what}: one utterance")


def chunks(run, first, want, ctc, what):
    m = {k: int(v) for k, v in metadata(first).items() if v.isdigit()}
    window, rows = m["window_size"], len(want["feats"])
    channel = np.zeros([rows] + [m[f"cache_last_channel_dim{i}"] for i in (1, 2, 3)], "f4")
    time = np.zeros([rows] + [m[f"cache_last_time_dim{i}"] for i in (1, 2, 3)], "f4")
    length, out = np.zeros(rows, "i8"), []
    for at in range(0, want["feats"].shape[2] - window + 1, m["chunk_shift"]):
        feed = {"audio_signal": want["feats"][:, :, at:at + window], "length": np.full(rows, window),
                "cache_last_channel": channel, "cache_last_time": time, "cache_last_channel_len": length}
        y, _, channel, time, length = run(first)(feed)
        out.append(y)
    close(np.stack(out), want["steps_ctc" if ctc else "steps"], f"{what}: steps")
    close(channel, want["channel"], f"{what}: cache of attention")
    close(time, want["time"], f"{what}: cache of the convolutions")
    assert (length == want["length"]).all(), length


def transducer(run, out, want, what):
    ids = want["ids"].astype("i4")
    h = c = np.zeros_like(want["h"])
    ones, rows = np.ones(len(ids), "i4"), []
    for i in range(ids.shape[1]):
        feed = {"targets": ids[:, i:i + 1], "target_length": ones, "input_states_1": h, "input_states_2": c}
        y, _, h, c = run(f"{out}/decoder.onnx")(feed)
        rows.append(y)
    predicted = np.concatenate(rows, 2)
    close(predicted.transpose(0, 2, 1), want["predicted"], f"{what}: prediction network")
    close(h, want["h"], f"{what}: state h")
    close(c, want["c"], f"{what}: state c")
    feed = {"encoder_outputs": want["encoded"][:1, :, :4], "decoder_outputs": predicted[:1]}
    close(run(f"{out}/joiner.onnx")(feed)[0], want["joint"], f"{what}: joint network")


def networks(d, engine):
    for name in MODELS:
        want = np.load(f"{DATA}/nemo-{name}.npz")
        for head in (h for h, key in (("ctc", "ctc"), ("transducer", "joint")) if key in want):
            for streaming in ("no", "yes") if "steps" in want else ("no",):
                what = f"{name}, {head}, streaming {streaming}"
                out = f"{d}/{name}-{head}-{streaming}"
                said = steno("convert", f"{DATA}/nemo-{name}.nemo", "-o", out, "--decoder", head, "--streaming", streaming)[0]
                assert "NeMo" in said, said
                for x in (x for x in os.listdir(out) if x.endswith(".onnx")):
                    onnx.checker.check_model(f"{out}/{x}", full_check=True)
                first = f"{out}/{'model' if head == 'ctc' else 'encoder'}.onnx"
                (chunks if streaming == "yes" else whole)(engine, first, want, head == "ctc", what)
                if head == "transducer":
                    transducer(engine, out, want, what)


def multitask(d, engine):
    """Canary: states of the encoder, scores of every token, memories after the last one."""
    want = np.load(f"{DATA}/nemo-canary.npz")
    out = f"{d}/canary"
    steno("convert", f"{DATA}/nemo-canary.nemo", "-o", out)
    for name in ("encoder", "decoder"):
        onnx.checker.check_model(f"{out}/{name}.onnx", full_check=True)
    states, n, mask = engine(f"{out}/encoder.onnx")({"x": want["feats"].transpose(0, 2, 1), "x_len": want["lengths"]})
    assert (n == want["encoded_lengths"]).all() and (mask.sum(1) == n).all(), (n, mask)
    for row, length in enumerate(n):
        close(states[row, :length], want["states"][row, :length], f"canary: row {row}")
    count, _, width = want["memories"].shape[1:]
    memories, rows = [np.zeros((1, 0, width), "f4")] * count, []
    for position, token in enumerate(want["aed_ids"][0]):
        feed = {"decoder_input_ids": np.array([[token, position]], "i4"), "enc_states": states[:1], "enc_mask": mask[:1]}
        feed |= {f"decoder_mems_list_{i}": m for i, m in enumerate(memories)}
        y, *memories = engine(f"{out}/decoder.onnx")(feed)
        rows.append(y)
    close(np.concatenate(rows, 1), want["scores"], "canary: scores")
    close(np.concatenate(memories), want["memories"][0], "canary: memories")


def sortformer(d, engine):
    """A step with and without a memory, the second with a chunk that is not filled."""
    want = np.load(f"{DATA}/nemo-sortformer.npz")
    out = f"{d}/sortformer"
    steno("convert", f"{DATA}/nemo-sortformer.nemo", "-o", out)
    assert os.listdir(out) == ["sortformer.onnx"]
    onnx.checker.check_model(f"{out}/sortformer.onnx", full_check=True)
    for step in "01":
        feed = {k: want[f"{k}_{step}"] for k in ("chunk", "chunk_lengths", "spkcache", "fifo")}
        feed |= {f"{k}_lengths": np.array([feed[k].shape[1]]) for k in ("spkcache", "fifo")}
        probs, rows, n = engine(f"{out}/sortformer.onnx")(feed)
        assert n == want[f"n_{step}"], n
        close(probs, want[f"probs_{step}"], f"sortformer, step {step}: probabilities")
        close(rows[:, :n[0]], want[f"rows_{step}"][:, :n[0]], f"sortformer, step {step}: embeddings")


def equal_in_onnx_runtime(d):
    networks(d, ort)
    multitask(d, ort)
    sortformer(d, ort)


def equal_in_steno(d):
    os.mkdir(f"{d}/arrays")
    networks(d, ours(f"{d}/arrays"))
    multitask(d, ours(f"{d}/arrays"))
    sortformer(d, ours(f"{d}/arrays"))


def local_attention_can_be_asked_for(d):
    """NeMo's change_attention_model takes the weights of rel_pos; limits beyond the ends hide nothing."""
    want = np.load(f"{DATA}/nemo-parakeet-tdt.npz")
    n = want["encoded_lengths"][0]
    for frames, same in (("64", True), ("2", False)):
        out = convert(d, "parakeet-tdt", "--local-attention", frames)[0]
        y = ort(f"{out}/encoder.onnx")({"audio_signal": want["feats"], "length": want["lengths"]})[0]
        difference = np.abs(y[0, :, :n] - want["encoded"][0, :, :n]).max()
        assert (difference < 1e-4) == same, f"{frames}: {difference}"


def convert(d, name, *flags):
    out = f"{d}/{name}{''.join(flags)}"
    steno("convert", f"{DATA}/nemo-{name}.nemo", "-o", out, *flags)
    with open(f"{out}/tokens.txt", encoding="utf-8") as f:
        return out, f.read().split("\n")[:-1]


def every_written_directory_is_served(d):
    kinds = {"conformer-ctc-char": "nemo, CTC", "conformer-rnnt": "nemo, transducer",
             "parakeet-tdt": "nemo, transducer with durations (TDT)", "hybrid-streaming": "nemo_streaming, transducer",
             "striding-streaming": "nemo_streaming, CTC", "canary": "nemo, attention decoder (Canary)"}
    for name, kind in kinds.items():
        out, tokens = convert(d, name)
        info = steno("model", "info", out)[0]
        assert f"{kind}\n" in info and f"{len(tokens)} tokens" in info and "16 mel bins" in info, info
        text = json.loads(steno("transcribe", "--model", out, "--format", "json", RECORDING)[0])
        assert text["text"], text
    steno("convert", f"{DATA}/nemo-sortformer.nemo", "-o", f"{d}/sortformer")
    assert "up to 4 speakers" in steno("model", "info", f"{d}/sortformer")[0]
    assert steno("speakers", "--model", f"{d}/sortformer", RECORDING)[0].startswith("SPEAKER")


def tokens_are_those_of_the_tokenizer(d):
    chars = convert(d, "conformer-ctc-char")[1]
    assert chars[:2] == ["  0", "a 1"] and chars[-2:] == ["' 27", "<blk> 28"], chars
    wpe = convert(d, "conformer-rnnt")[1]
    assert wpe[1:6] == ["[UNK] 1", "▁one 2", "▁two 3", "ty 4", "teen 5"] and wpe[-1] == "<blk> 11", wpe
    out, bpe = convert(d, "parakeet-tdt")
    assert bpe[0] == "<unk> 0" and bpe[-1] == "<blk> 40", bpe
    with open(f"{out}/bpe.vocab", encoding="utf-8") as f:
        vocab = [x.split("\t") for x in f.read().split("\n")[:-1]]
    assert [f"{piece} {i}" for i, (piece, _) in enumerate(vocab)] == bpe[:-1]
    assert [float(score) for _, score in vocab[1:4]] == [0, -1, -2], vocab[:4]
    canary = convert(d, "canary")[1]
    assert canary[:3] == ["<unk> 0", "<|nospeech|> 1", "<pad> 2"] and canary[19:21] == ["<unk> 19", "▁t 20"], canary
    both = convert(d, "hybrid-tdt")[1]
    assert both[:40] == bpe[:-1] and both[40] == "<unk> 40" and both[-1] == "<blk> 74", both


def metadata_says_what_sherpa_asks_for(d):
    m = metadata(convert(d, "parakeet-tdt")[0] + "/encoder.onnx")
    assert m["model_type"] == "EncDecRNNTBPEModel" and "tdt" in m["url"] and m["vocab_size"] == "40", m
    assert m["normalize_type"] == "per_feature" and m["subsampling_factor"] == "8" and m["feat_dim"] == "16", m
    m = metadata(convert(d, "hybrid-streaming", "--decoder", "ctc", "--lookahead", "3")[0] + "/model.onnx")
    assert m["model_type"] == "EncDecHybridRNNTCTCBPEModel" and m["normalize_type"] == "", m
    assert (m["window_size"], m["chunk_shift"], m["cache_last_channel_dim2"]) == ("41", "32", "12"), m


def members(name):
    with tarfile.open(f"{DATA}/nemo-{name}.nemo") as tar:
        return {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar if m.isreg()}


def pack(path, content, **options):
    with tarfile.open(path, "w", **options) as tar:
        for name, value in content.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(value)
            tar.addfile(info, io.BytesIO(value))
    return path


def other_archives_and_a_directory_do_as_well(d):
    content = members("parakeet-tdt")
    os.mkdir(f"{d}/in")
    for name, value in content.items():
        with open(f"{d}/in/{name}", "wb") as f:
            f.write(value)
    with zipfile.ZipFile(f"{d}/x.zip", "w") as z:
        for name, value in content.items():
            z.writestr(name, value)
    pack(f"{d}/gnu.nemo", content, format=tarfile.GNU_FORMAT)
    pack(f"{d}/pax.nemo", content | {"n" * 150: b""}, format=tarfile.PAX_FORMAT)
    want = None
    for source in ("in", "x.zip", "gnu.nemo", "pax.nemo"):
        steno("convert", f"{d}/{source}", "-o", f"{d}/out-{source}")
        got = [open(f"{d}/out-{source}/{n}", "rb").read() for n in ("tokens.txt", "decoder.onnx", "joiner.onnx")]
        assert want in (None, got), source
        want = got


def keys_of_training_change_nothing(d):
    """Parakeet unified: limits of attention and convolutions that NeMo draws in training alone."""
    content = members("parakeet-tdt")
    for path, value in (("encoder.att_context_style", "chunked_limited_with_rc"), ("encoder.conv_context_style", "dcc"),
                        ("encoder.att_chunk_context_size", [[70], [1, 2], [0, 1]]), ("encoder.dropout_att", 0.3),
                        ("preprocessor.dither", 0.5), ("preprocessor.log_zero_guard_value", 5.96e-08)):
        content = changed(content, path, value)
    steno("convert", pack(f"{d}/parakeet-tdt.nemo", content), "-o", f"{d}/a")
    steno("convert", pack(f"{d}/parakeet-tdt.nemo", members("parakeet-tdt")), "-o", f"{d}/b")
    a, b = (open(f"{d}/{x}/encoder.onnx", "rb").read() for x in "ab")
    assert a == b


def refused(d, content, part, code, *flags):
    err = steno("convert", pack(f"{d}/bad.nemo", content), "-o", f"{d}/out", *flags, want=code)[1]
    assert part in err, f"'{err.strip()}' without '{part}'"
    assert not os.path.exists(f"{d}/out/tokens.txt")


def changed(content, path, value):
    """The checkpoint with another value, or without the key ("gone"), in its configuration."""
    config = yaml.safe_load(content[CONFIG])
    *above, key = path.split(".")
    at = config
    for k in above:
        at = at[k]
    at[key] = value
    if value == "gone":
        del at[key]
    return content | {CONFIG: yaml.safe_dump(config, sort_keys=False).encode()}


def bad_configurations_are_named(d):
    base = members("parakeet-tdt")
    for path, value, part in (
            ("target", "nemo.models.EncDecTransfModelBPE", "target: EncDecTransfModelBPE; known: EncDecCTCModel,"),
            ("target", "nemo.models.EncDecMultiTaskModel", "transf_decoder._target_ is missing"),
            ("target", "gone", "target is missing"),
            ("encoder._target_", "x.SqueezeformerEncoder", "SqueezeformerEncoder; known: ConformerEncoder"),
            ("encoder.magic", 1, "encoder.magic is not known"),
            ("encoder.n_layers", 3, "'encoder.layers.2.norm_feed_forward1.weight' is missing: encoder asks for it"),
            ("encoder.n_layers", 1, "more than the 1 layers"),
            ("encoder.n_layers", "gone", "encoder.n_layers is missing"),
            ("encoder.d_model", 10, "the networks before it have 4 and 10"),
            ("encoder.n_heads", 3, "n_heads 3 do not fit together"),
            ("encoder.feat_in", 80, "feat_in 80 of 16 features"),
            ("encoder.use_bias", True, "linear1.bias' is missing"),
            ("encoder.subsampling", "pooling", "pooling; known: dw_striding"),
            ("encoder.subsampling", "vggnet", "'encoder.pre_encode.conv.2.weight' is [8,1,3,3], encoder asks for [8,8,3,3]"),
            ("encoder.subsampling_factor", 6, "6; known: powers of two"),
            ("encoder.self_attention_model", "rel_pos_global", "known: rel_pos"),
            ("encoder.self_attention_model", "rel_pos_local_attn", "rel_pos_local_attn needs a limit on both sides"),
            ("encoder.global_tokens", 1, "global_tokens: 1; known: 0"),
            ("encoder.conv_norm_type", "group_norm4", "known: batch_norm"),
            ("encoder.conv_context_size", [1, 1], "conv_context_size is neither"),
            ("encoder.reduction_factor", 2, "reduction_factor: 2; known: 1"),
            ("encoder.att_context_size", [1, 2, 3], "att_context_size is no pair"),
            ("preprocessor.window_size", 0.02, "window_size: 0.02; known: 0.025"),
            ("preprocessor.normalize", "all_features", "known: per_feature"),
            ("preprocessor.preemph", None, "preemph: null; known: 0.97"),
            ("preprocessor.magic", 1, "preprocessor.magic is not known"),
            ("decoder._target_", "x.StatelessTransducerDecoder", "known: RNNTDecoder"),
            ("decoder.blank_as_pad", False, "blank_as_pad: false; known: true"),
            ("decoder.prednet.pred_rnn_layers", 3, "weight_ih_l2' is missing: decoder.prednet"),
            ("joint.jointnet.activation", "gelu", "known: relu"),
            ("joint.num_extra_outputs", 4, "has 5 entries, joint.num_extra_outputs is 4"),
            ("decoding.model_type", "multiblank", "multiblank; known: rnnt"),
            ("decoding.durations", [0, 1, 2, 4, 8], "known: 0, 1, 2"),
            ("tokenizer.type", "yttm", "yttm; known: bpe"),
            ("tokenizer.model_path", "nemo:gone.model", "gone.model is missing")):
        refused(d, changed(base, path, value), part, 74 if "gone.model" in part else 65)
    canary = members("canary")
    for path, value, part in (
            ("prompt_format", "canary", "prompt_format: canary; known: canary2"),
            ("transf_encoder.num_layers", 2, "transf_encoder.num_layers: 2; known: 0"),
            ("transf_decoder.config_dict.num_layers", 1, "more than the 1 layers of transf_decoder"),
            ("transf_decoder.config_dict.num_layers", 3, "'transf_decoder._decoder.layers.2.layer_norm_1.weight' is missing"),
            ("transf_decoder.config_dict.num_layers", 65, "num_layers"),
            ("transf_decoder.config_dict.num_attention_heads", 3, "3 heads of 8 columns"),
            ("transf_decoder.config_dict.hidden_act", "silu", "silu; known: relu|gelu"),
            ("transf_decoder.config_dict.magic", 1, "config_dict.magic is not known"),
            ("transf_decoder.pre_ln_final_layer_norm", False, "final_layer_norm"),
            ("model_defaults.lm_dec_hidden", 16, "lm_dec_hidden 16; the networks have 8 and 8"),
            ("head.num_layers", 2, "head.num_layers: 2; known: 1"),
            ("head._target_", "x.LinearHead", "LinearHead; known: TokenClassifier")):
        refused(d, changed(canary, path, value), part, 65)
    refused(d, canary, "has an attention decoder alone", 64, "--decoder", "ctc")
    speakers = members("sortformer")
    for path, value, part in (
            ("streaming_mode", False, "streaming_mode: false; known: true"),
            ("preprocessor.normalize", "per_feature", "normalize: per_feature; known: NA"),
            ("transformer_encoder._target_", "x.ConformerEncoder", "ConformerEncoder; known: TransformerEncoder"),
            ("transformer_encoder.pre_ln", True, "pre_ln: true; known: false"),
            ("transformer_encoder.num_layers", 2, "more than the 2 layers of transformer_encoder"),
            ("transformer_encoder.num_layers", 4, "'transformer_encoder.layers.3.first_sub_layer.query_net.weight' is missing"),
            ("transformer_encoder.num_attention_heads", 3, "3 heads"),
            ("sortformer_modules.num_spks", 3, "[4,8], sortformer_modules asks for"),
            ("sortformer_modules.tf_d_model", 12, "tf_d_model 12 of 8"),
            ("sortformer_modules.sil_threshold", 0.5, "sil_threshold: 0.5; known: 0.2")):
        refused(d, changed(speakers, path, value), part, 65)
    refused(d, speakers, "a Sortformer has neither", 64, "--decoder", "ctc")
    vocabulary = [str(i) for i in range(29)]
    char = members("conformer-ctc-char")
    refused(d, changed(char, "decoder.vocabulary", vocabulary), "the vocabulary asks for [30,", 65)
    refused(d, changed(char, "decoder.vocabulary", []), "has tokens", 65)
    refused(d, {k: v for k, v in char.items() if k != WEIGHTS}, "model_weights.ckpt is missing", 74)
    refused(d, changed(char, "encoder.d_model", 10), "encoder asks for", 65)


def flags_that_do_not_fit_are_named(d):
    base = members("parakeet-tdt")
    for flags, part in ((["--decoder", "ctc"], "--decoder ctc: the model has a transducer alone"),
                        (["--decoder", "x"], "neither ctc nor transducer"),
                        (["--streaming", "yes"], "att_context_size is not limited"),
                        (["--streaming", "1"], "neither yes nor no"),
                        (["--lookahead", "2"], "att_context_size has none"),
                        (["--lookahead", "-2"], "not a number of frames"),
                        (["--local-attention", "0"], "not a number of frames from 1"),
                        (["--local-attention", "4", "--streaming", "yes"], "local attention has no caches")):
        refused(d, base, part, 64, *flags)
    refused(d, members("hybrid-tdt"), "self_attention_model is abs_pos", 64, "--local-attention", "128")
    refused(d, members("hybrid-streaming"), "att_context_size has 1, 0, 3", 64, "--lookahead", "2")


def hostile_archives_are_refused(d):
    base = members("conformer-ctc-char")
    with zipfile.ZipFile(io.BytesIO(base[WEIGHTS])) as z:
        inner = {n: z.read(n) for n in z.namelist()}
    name = next(n for n in inner if n.endswith("data.pkl"))
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        for n, value in (inner | {name: b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."}).items():
            z.writestr(n, value)
    refused(d, base | {WEIGHTS: b.getvalue()}, "names os.system", 65)
    for cut in (1, 100, len(base[WEIGHTS]) // 2, len(base[WEIGHTS]) - 1):
        refused(d, base | {WEIGHTS: base[WEIGHTS][:cut]}, WEIGHTS, 65)
    climbing = changed(members("parakeet-tdt"), "tokenizer.model_path", "nemo:../../../../etc/passwd")
    refused(d, climbing, "passwd is missing", 74)
    packed = open(f"{DATA}/nemo-conformer-ctc-char.nemo", "rb").read()
    plain = open(pack(f"{d}/plain.nemo", base), "rb").read()
    end = len(plain.rstrip(b"\0"))
    cuts = [packed[:n] for n in range(0, len(packed), 1499)] + [plain[:n] for n in range(0, end, 8192 - 13)]
    for content in cuts:
        with open(f"{d}/cut.nemo", "wb") as f:
            f.write(content)
        steno("convert", f"{d}/cut.nemo", "-o", f"{d}/out", want=65)


TESTS = [equal_in_onnx_runtime, equal_in_steno, local_attention_can_be_asked_for, every_written_directory_is_served, tokens_are_those_of_the_tokenizer,
         metadata_says_what_sherpa_asks_for, other_archives_and_a_directory_do_as_well,
         keys_of_training_change_nothing, bad_configurations_are_named,
         flags_that_do_not_fit_are_named, hostile_archives_are_refused]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
