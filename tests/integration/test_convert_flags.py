"""steno convert: --int8, --bf16, --name, what is printed, exit codes. TAP."""
import os
import subprocess
import sys

import onnx
from daemon import SLOW, run_in_folders
from test_convert import DATA, RECORDING
from test_models import STENO

MODELS = ("conformer", "wenet-u2pp", "wavlm", "moonshine")


def steno(*args, want=0, data=None):
    env = os.environ | ({"STENO_DATA": data} if data else {})
    p = subprocess.run([STENO, *args], capture_output=True, text=True, timeout=300 * SLOW, check=False, env=env)
    assert p.returncode == want, f"steno {' '.join(args)}: exit {p.returncode}, expected {want}: {p.stderr.strip()}"
    return p.stdout, p.stderr


def files(d):
    return {os.path.relpath(os.path.join(base, n), d): os.path.getsize(os.path.join(base, n)) for base, _, names in os.walk(d) for n in names}


def operators(d):
    """Types, those in functions too; the number of nodes."""
    models = [onnx.load(f"{d}/{f}") for f in files(d) if f.endswith(".onnx")]
    nodes = [n.op_type for m in models for n in m.graph.node]
    return {*nodes, *(n.op_type for m in models for f in m.functions for n in f.node)}, len(nodes)


def weights_are_quantized_in_one_command(d):
    for name in MODELS:
        plain = steno("convert", f"{DATA}/{name}.zip", "-o", f"{d}/{name}")
        before, (_, count) = files(f"{d}/{name}"), operators(f"{d}/{name}")
        for flag in ("--int8", "--bf16"):
            out = f"{d}/{name}{flag}"
            said = steno("convert", f"{DATA}/{name}.zip", "-o", out, flag)
            after = files(out)
            assert after.keys() == before.keys(), (name, flag, after.keys() ^ before.keys())
            networks = [f for f in after if f.endswith(".onnx")]
            for f in networks:
                onnx.checker.check_model(f"{out}/{f}")
                assert f"{flag[2:]}: {f}, " in said[1], (f, said)
            types, n = operators(out)
            assert n < count, (name, flag, n, count)
            if flag == "--int8":
                assert "MatMulInteger" in types, (name, types)
            else:
                kinds = {t.data_type for f in networks for t in onnx.load(f"{out}/{f}").graph.initializer}
                assert onnx.TensorProto.BFLOAT16 in kinds, (name, kinds)
            assert sum(after[f] for f in networks) < sum(before[f] for f in networks)
            steno("transcribe", "--model", out, RECORDING)
        assert "converted: " in plain[1] and "written to" in plain[0]


def a_name_makes_a_model_of_the_directory_of_models(d):
    out, _ = steno("convert", f"{DATA}/wavlm.zip", "--name", "my-model", "--int8", data=f"{d}/data")
    place = f"{d}/data/models/my-model"
    assert f"written to {place}\n" in out and os.path.exists(f"{place}/vocab.json"), out
    assert os.listdir(f"{d}/data/models") == ["my-model"]
    steno("transcribe", "--model", "my-model", RECORDING, data=f"{d}/data")
    assert "is there already" in steno("convert", f"{DATA}/wavlm.zip", "--name", "my-model", want=73, data=f"{d}/data")[1]
    steno("convert", f"{DATA}/wavlm.zip", "-o", f"{d}/models", "--name", "other")
    assert os.path.exists(f"{d}/models/other/model.onnx")
    # a failure leaves nothing
    with open(f"{DATA}/wavlm.zip", "rb") as a, open(f"{d}/cut.zip", "wb") as b:
        b.write(a.read()[:-100])
    steno("convert", f"{d}/cut.zip", "--name", "cut", want=65, data=f"{d}/data")
    assert os.listdir(f"{d}/data/models") == ["my-model"]


def exit_codes_tell_what_is_wrong(d):
    assert "needs a checkpoint and -o or --name" in steno("convert", f"{DATA}/wavlm.zip", want=64)[1]
    assert "--int8 excludes --bf16" in steno("convert", f"{DATA}/wavlm.zip", "-o", d, "--int8", "--bf16", want=64)[1]
    assert "letters, digits" in steno("convert", f"{DATA}/wavlm.zip", "--name", "../x", want=64)[1]
    steno("convert", f"{d}/none.zip", "-o", f"{d}/out", want=66)
    steno("convert", f"{DATA}/wavlm.zip", "-o", f"{d}/no/such/folder", want=74)
    with open(f"{d}/text", "w", encoding="utf-8") as f:
        f.write("no checkpoint")
    steno("convert", f"{d}/text", "-o", f"{d}/out", want=65)
    out, err = steno("convert", f"{DATA}/wavlm.zip", "-o", f"{d}/quiet", "--quiet", "--bf16")
    assert not out and not err, (out, err)


TESTS = [weights_are_quantized_in_one_command, a_name_makes_a_model_of_the_directory_of_models, exit_codes_tell_what_is_wrong]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
