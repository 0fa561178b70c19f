"""steno convert: every kind of ESPnet2's encoders against what PyTorch computed (tests/data/convert/encoders.npz), and configurations
that are refused. TAP."""
import json
import os
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from daemon import SLOW
from test_models import ROOT, STENO

sys.path.insert(0, os.path.join(ROOT, "tests/convert"))
import seeded  # noqa: E402

RECORD = np.load(os.path.join(ROOT, "tests/data/convert/encoders.npz"))
ABOUT = json.loads(str(RECORD["about"]))
TOKENS = ["<blank>", "<unk>", "a", "<sos/eos>"]


def steno(*args, want=0):
    p = subprocess.run([STENO, *args], capture_output=True, text=True, timeout=300 * SLOW, check=False)
    assert p.returncode == want, f"steno {' '.join(args)}: exit {p.returncode}, expected {want}: {p.stderr.strip()}"
    return p.stderr


def checkpoint(path, name, drop=None, **conf):
    """A packed model of the encoder and a CTC layer; conf: other values in encoder_conf."""
    about = ABOUT[name]
    shapes = {**about["weights"], "ctc.ctc_lo.weight": [len(TOKENS), 8], "ctc.ctc_lo.bias": [len(TOKENS)]}
    config = dict(token_list=TOKENS, token_type="char", frontend_conf=dict(n_mels=20), normalize="utterance_mvn",
                  encoder=about["encoder"], encoder_conf={**about["encoder_conf"], **conf}, decoder=None)
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("meta.yaml", "files: {asr_model_file: model.pth}\nyaml_files: {asr_train_config: config.yaml}\n")
        z.writestr("config.yaml", json.dumps(config))   # JSON is YAML
        z.writestr("model.pth", seeded.torch_file({k: seeded.weight(k, s) for k, s in shapes.items() if k != drop}))
    return path


def equal_to_pytorch(d):
    for name in ABOUT:
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        network = f"{d}/{name}/full/default_encoder.onnx"
        onnx.checker.check_model(network, full_check=True)
        session = onnxruntime.InferenceSession(network)
        for t in (27, 100):
            x, want = seeded.values(f"feats.{t}", 1, t, 20), RECORD[f"{name}.{t}"]
            theirs, length = session.run(None, {"feats": x})
            np.save(f"{d}/feats.npy", x)
            steno("run", network, "--input", f"feats={d}/feats.npy", "--output-dir", d)
            assert length == [want.shape[1]], f"{name}: {length}, expected {want.shape[1]}"
            for engine, y in (("ONNX Runtime", theirs), ("steno", np.load(f"{d}/0.npy"))):
                assert y.shape == want.shape, f"{name}: {y.shape}, expected {want.shape}"
                difference = np.abs(y - want).max()
                assert difference < 1e-4, f"{name}, {t} frames: {engine} differs by {difference}"


def served(d):
    """A written directory opens, and a recording goes through it."""
    for name in ABOUT:
        steno("convert", checkpoint(f"{d}/in.zip", name), "-o", f"{d}/{name}")
        steno("transcribe", "--model", f"{d}/{name}", os.path.join(ROOT, "tests/data/speech/jfk.wav"))


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
    refused(d, name, "input_layer: embed; known: conv2d", input_layer="embed")
    refused(d, name, "input_layer: null; known: conv2d", input_layer=None)
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
    refused(d, name, "interctc_use_conditioning: true; known: false", interctc_use_conditioning=True)
    refused(d, name, "depthwise_conv_fusion.weight' is [16,1,7], encoder_conf asks for [16,1,3]", merge_conv_kernel=3)


TESTS = [equal_to_pytorch, served, bad_configurations_of_branchformers_are_named, bad_configurations_of_e_branchformers_are_named]

if __name__ == "__main__":
    failed = 0
    for n, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
                print(f"ok {n} - {test.__name__}")
            except (AssertionError, OSError, KeyError) as e:
                failed += 1
                print(f"not ok {n} - {test.__name__}\n# {e}")
    print(f"1..{len(TESTS)}")
    sys.exit(failed > 0)
