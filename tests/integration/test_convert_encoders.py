"""steno convert: every kind of ESPnet2's encoders against what PyTorch computed (tests/data/convert/encoders.npz), and configurations
that are refused. TAP."""
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
from daemon import SLOW, run_in_folders
from test_models import ROOT, STENO

sys.path.insert(0, os.path.join(ROOT, "tests/convert"))
import contextual  # noqa: E402
import seeded  # noqa: E402

RECORD, ABOUT = {}, {}
for record in ("encoders", "longformer", "triangle"):
    with np.load(os.path.join(ROOT, f"tests/data/convert/{record}.npz")) as recorded:
        RECORD.update({k: recorded[k] for k in recorded})
        ABOUT.update(json.loads(str(RECORD.pop("about"))))
TOKENS = ["<blank>", "<unk>", "a", "<sos/eos>"]


def steno(*args, want=0, out=False):
    p = subprocess.run([STENO, *args], capture_output=True, text=True, timeout=300 * SLOW, check=False)
    assert p.returncode == want, f"steno {' '.join(args)}: exit {p.returncode}, expected {want}: {p.stderr.strip()}"
    return p.stdout if out else p.stderr


def checkpoint(path, name, drop=None, **conf):
    """A packed model of the encoder and a CTC layer; conf: other values in encoder_conf."""
    about = ABOUT[name]
    shapes = {**about["weights"], "ctc.ctc_lo.weight": [len(TOKENS), 8], "ctc.ctc_lo.bias": [len(TOKENS)]}
    config = dict(token_list=TOKENS, token_type="char", frontend_conf=dict(n_mels=20), normalize=None,
                  encoder=about["encoder"], encoder_conf={**about["encoder_conf"], **conf}, decoder=None)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("meta.yaml", "files: {asr_model_file: model.pth}\nyaml_files: {asr_train_config: config.yaml}\n")
        z.writestr("config.yaml", json.dumps(config))   # JSON is YAML
        z.writestr("model.pth", seeded.torch_file({k: seeded.weight(k, s) for k, s in shapes.items() if k != drop}))
    return path


def whole(d, network, name, t):
    """Outputs of ONNX Runtime and steno for a whole utterance."""
    x, want = seeded.values(f"feats.{t}", 1, t, 20), RECORD[f"{name}.{t}"]
    theirs, length = onnxruntime.InferenceSession(network).run(None, {"feats": x})
    np.save(f"{d}/feats.npy", x)
    steno("run", network, "--input", f"feats={d}/feats.npy", "--output-dir", d)
    fill = 2 * max(ABOUT[name]["encoder_conf"].get("attention_windows", [0.5]))  # ESPnet adds up to fill - 1 rows
    assert 0 <= want.shape[1] - length[0] < fill, f"{name}: {length}, expected {want.shape[1]}"
    return theirs, np.load(f"{d}/0.npy")


def streamed(d, network, name, t):
    """The same for four blocks of a stream."""
    session, conf = onnxruntime.InferenceSession(network), ABOUT[name]["encoder_conf"]
    x, pe = seeded.values(f"feats.{t}", 1, t, 20), np.load(f"{d}/{name}/pe.npy")

    def ours(feed):
        args = []
        for key, value in feed.items():
            np.save(f"{d}/{key}.npy", value)
            args += ["--input", f"{key}={d}/{key}.npy"]
        steno("run", network, *args, "--output-dir", d)
        return [np.load(f"{d}/{i}.npy") for i in range(5)]

    return [contextual.run(call, conf, conf["num_blocks"], x, pe, 4) for call in (lambda feed: session.run(None, feed), ours)]


def equal_to_pytorch(d):
    for name in ABOUT:
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        streams = ABOUT[name]["encoder"].startswith("contextual")
        network = f"{d}/{name}/full/{'xformer' if streams else 'default'}_encoder.onnx"
        onnx.checker.check_model(network, full_check=True)
        for key in (k for k in RECORD if k.startswith(f"{name}.")):
            t, want = int(key.rsplit(".")[-1]), RECORD[key]
            for engine, y in zip(("ONNX Runtime", "steno"), (streamed if streams else whole)(d, network, name, t)):
                assert y.shape == want.shape, f"{name}: {y.shape}, expected {want.shape}"
                difference = np.abs(y - want).max()
                assert difference < 1e-4, f"{name}, {t} frames: {engine} differs by {difference}"


def served(d):
    """A written directory opens, and a recording goes through it; blocks of several streams run at once."""
    for name in ABOUT:
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        steno("transcribe", "--model", f"{d}/{name}", os.path.join(ROOT, "tests/data/speech/jfk.wav"))
    for name in ("blocks-transformer", "blocks-conformer"):
        said = steno("model", "info", f"{d}/{name}", out=True)
        assert "of several streams at once" in said, said


def refused(d, name, part, **conf):
    err = steno("convert", checkpoint(f"{d}/bad.zip", name, **conf), "-o", f"{d}/out", want=65)
    assert part in err, f"'{err.strip()}' without '{part}'"
    assert not os.path.exists(f"{d}/out/config.yaml")


def bad_configurations_of_branchformers_are_named(d):
    name = "branchformer-concat"
    refused(d, name, "merge_method: sum; known: concat, learned_ave, fixed_ave", merge_method="sum")
    refused(d, name, "gate_activation: gelu; known: identity", gate_activation="gelu")
    refused(d, name, "use_attn: false and use_cgmlp: false do not fit", use_attn=False, use_cgmlp=False)
    refused(d, name, "even cgmlp_conv_kernel", cgmlp_conv_kernel=8)
    refused(d, name, "length of cgmlp_weight", cgmlp_weight=[0.5])
    refused(d, name, "entry of cgmlp_weight", cgmlp_weight=[0.5, 1.5])
    refused(d, name, "rel_pos; known: abs_pos and scaled_abs_pos with", attention_layer_type="selfattn")
    refused(d, name, "input_layer: embed; known: conv1d1", input_layer="embed")
    refused(d, name, "input_layer: null; known: conv1d1", input_layer=None)
    refused(d, name, "cgmlp_magic is not known", cgmlp_magic=1)
    refused(d, name, "is missing: encoder_conf asks for it", use_linear_after_conv=True)
    refused(d, name, "encoder_conf asks for [32,8]", cgmlp_linear_units=32)
    refused(d, name, "more than the 1 blocks", num_blocks=1)
    refused(d, name, "'encoder.encoders.1.merge_proj.bias' is missing", drop="encoder.encoders.1.merge_proj.bias")


def bad_configurations_of_e_branchformers_are_named(d):
    name = "e-branchformer-macaron"
    refused(d, name, "even merge_conv_kernel", merge_conv_kernel=4)
    refused(d, name, "ffn_activation_type: gelu; known: hardtanh", ffn_activation_type="gelu")
    refused(d, name, "positionwise_layer_type: conv1d; known: linear", positionwise_layer_type="conv1d")
    refused(d, name, "max_pos_emb_len is '100', expected", max_pos_emb_len=100)
    refused(d, name, "'encoder.conditioning_layer.weight' is missing: interctc_use_conditioning asks", interctc_use_conditioning=True,
            interctc_layer_idx=[1])
    refused(d, name, "an entry of interctc_layer_idx", interctc_use_conditioning=True, interctc_layer_idx=[2])
    refused(d, name, "depthwise_conv_fusion.weight' is [16,1,7], encoder_conf asks for [16,1,3]", merge_conv_kernel=3)


def bad_configurations_of_formers_are_named(d):
    name = "conformer-concat"
    refused(d, name, "positionwise_layer_type: conv2d; known: linear, conv1d, conv1d-linear", positionwise_layer_type="conv2d")
    refused(d, name, "even positionwise_conv_kernel_size", positionwise_conv_kernel_size=2)
    refused(d, name, "activation_type: gelu; known: hardtanh", activation_type="gelu")
    refused(d, name, "conv; known: abs_pos and scaled_abs_pos", pos_enc_layer_type="conv")
    refused(d, name, "'encoder.encoders.0.concat_linear.weight' is missing", drop="encoder.encoders.0.concat_linear.weight")


def bad_configurations_of_blocks_are_named(d):
    name = "blocks-conformer"
    refused(d, name, "input_layer: linear; known: conv2d, conv2d6, conv2d8", input_layer="linear")
    refused(d, name, "block_size is '0', expected", block_size=0)
    refused(d, name, "block_size, hop_size and look_ahead do not fit", hop_size=25)
    refused(d, name, "init_average: false; known: true", init_average=False)
    refused(d, name, "more than the 2 blocks", num_blocks=2)
    refused(d, name, "'encoder.encoders.2.norm_conv.bias' is missing", drop="encoder.encoders.2.norm_conv.bias")


def attention_within_a_window_is_one_node(d):
    for name, blocks in (("longformer", 3), ("longformer-windows", 2)):
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        nodes = onnx.load(f"{d}/{name}/full/default_encoder.onnx").graph.node
        assert sum(n.op_type.startswith("LocalAttention") for n in nodes) == blocks, [n.op_type for n in nodes]
        steps = steno("profile", f"{d}/{name}/full/default_encoder.onnx", "--shape", "feats=1x60x20", "--runs", "1", out=True)
        assert steps.count("LocalAttention ") >= blocks, steps


def bad_configurations_of_longformers_are_named(d):
    name = "longformer"
    refused(d, name, "attention_windows and num_blocks do not fit", attention_windows=[4, 4])
    refused(d, name, "attention_windows and num_blocks do not fit", attention_windows=4)
    refused(d, name, "one that does not divide it", attention_windows=[4, 3, 4])
    refused(d, name, "attention_windows: 1; known: 2 to 2048", attention_windows=[4, 1, 4])
    refused(d, name, "attention_windows: x; known: 2 to 2048", attention_windows=[4, "x", 4])
    refused(d, name, "attention_dilation: 2; known: 1", attention_dilation=[1, 2, 1])
    refused(d, name, "attention_mode: tvm; known: sliding_chunks", attention_mode="tvm")
    refused(d, name, "selfattention_layer_type: selfattn; known: lf_selfattn", selfattention_layer_type="selfattn")
    refused(d, name, "pos_enc_layer_type: rel_pos; known: abs_pos", pos_enc_layer_type="rel_pos")
    refused(d, name, "input_layer: conv1d2; known: linear, conv2d", input_layer="conv1d2")
    refused(d, name, "'encoder.encoders.1.self_attn.attention_layer.key.bias' is missing",
            drop="encoder.encoders.1.self_attn.attention_layer.key.bias")


def bad_configurations_of_recurrent_encoders_are_named(d):
    refused(d, "rnn-gru", "rnn_type: rnn; known: lstm, gru", rnn_type="rnn")
    refused(d, "rnn-gru", "subsample: 3; known: 1 and 2", subsample=[3])
    refused(d, "rnn-gru", "subsample, which is no list", subsample=2)
    refused(d, "rnn-gru", "more than the 1 layers", num_layers=1)
    refused(d, "rnn-stacked", "more than the 1 layers", num_layers=1)
    refused(d, "rnn-stacked", "'encoder.enc.0.birnn0.weight_ih_l0' is missing", use_projection=True)
    refused(d, "vgg-rnn", "in_channel: 2; known: 1", in_channel=2)
    refused(d, "vgg-rnn", "'encoder.enc.0.conv2_1.bias' is missing", drop="encoder.enc.0.conv2_1.bias")


def streams_end_with_the_text_of_the_file(d):
    for name in ("blocks-transformer", "blocks-conformer-conv2d8"):
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        texts = []
        for more in ([], ["--stream"]):
            said = steno("transcribe", "--model", f"{d}/{name}", "--format", "json", "--no-endpoint", *more,
                         os.path.join(ROOT, "tests/data/speech/jfk.wav"), out=True)
            events = [json.loads(line) for line in said.splitlines()]
            if more and "conformer" in name:
                assert events[0]["type"] == "partial", events[0]
            texts.append(" ".join(e["text"] for e in events if e.get("type", "final") == "final" and "text" in e).split())
        assert texts[0] == texts[1] and texts[0], texts


TESTS = [equal_to_pytorch, attention_within_a_window_is_one_node, bad_configurations_of_longformers_are_named, served, streams_end_with_the_text_of_the_file, bad_configurations_of_recurrent_encoders_are_named,
         bad_configurations_of_formers_are_named, bad_configurations_of_blocks_are_named,
         bad_configurations_of_branchformers_are_named, bad_configurations_of_e_branchformers_are_named]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
