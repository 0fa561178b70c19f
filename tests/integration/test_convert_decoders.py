"""steno convert: recurrent decoders, transducers and language models of ESPnet2 against recorded outputs of its PyTorch modules
(tests/data/convert). TAP."""
import os
import sys
import tempfile

import numpy as np
import onnx
from test_convert import DATA, RECORDING, log_softmax, members, ort, ours, refused, steno

LANGUAGE_MODELS = ("lm-gru", "lm-relu")
LIMIT = 1e-4


def convert(d, name):
    """The written directory's networks, and what PyTorch computed."""
    out = f"{d}/{name}"
    steno("convert", f"{DATA}/{name}.zip", "-o", out)
    for file in os.listdir(f"{out}/full"):
        onnx.checker.check_model(f"{out}/full/{file}", full_check=True)
    return f"{out}/full/%s.onnx", np.load(f"{DATA}/{name}.npz")


def close(what, got, want):
    difference = np.abs(got - want).max()
    assert got.shape == want.shape and difference < LIMIT, f"{what} differs by {difference}"


def states_of(path, batch):
    """Zeros for the states of a recurrent network."""
    inputs = onnx.load(path).graph.input[1:]
    return {i.name: np.zeros([x.dim_value or batch for x in i.type.tensor_type.shape.dim], "f4") for i in inputs}


def rnn_steps(run, path, token, ids):
    """Outputs of one token at a time of two hypotheses."""
    states, out = states_of(path, len(ids)), []
    for n in range(ids.shape[1]):
        y, *after = run({token: ids[:, n : n + 1], **states})
        states = dict(zip(states, after))
        out.append(y[:, 0])
    return np.stack(out)


def language_models(d, engine):
    for name in LANGUAGE_MODELS:
        path, want = convert(d, name)
        path = path % "seq_rnnlm"
        close(name, log_softmax(rnn_steps(engine(path), path, "x", want["ids"])), want["lm"])


def equal_in_onnx_runtime(d):
    language_models(d, ort)


def equal_in_steno(d):
    os.mkdir(f"{d}/arrays")
    language_models(d, ours(f"{d}/arrays"))


def written_directories_are_served(d):
    for name in LANGUAGE_MODELS:
        convert(d, name)
        steno("transcribe", "--model", f"{d}/{name}", "--beam", "3", "--lm-weight", "0.5", RECORDING)


def bad_configurations_are_named(d):
    base = members("lm-gru")

    def lm(old, new):
        changed = base["exp/lm/config.yaml"].decode()
        assert old in changed, old
        return base | {"exp/lm/config.yaml": changed.replace(old, new)}

    refused(d, lm("lm: seq_rnn", "lm: rwkv"), "lm: rwkv; known: transformer, seq_rnn", 65)
    refused(d, lm("rnn_type: gru", "rnn_type: sru"), "lm_conf.rnn_type: sru; known: lstm, gru", 65)
    refused(d, lm("nhid: 7", "nhid: 8"), "asks for", 65)
    refused(d, lm("nhid: 7", "nlayers: 3"), "asks for", 65)
    refused(d, lm("nhid: 7", "nhid: 7\n  nlayers: 3"), "'lm.rnn.weight_ih_l2' is missing: lm_conf asks for it", 65)
    refused(d, lm("nhid: 7", "projection: 7"), "lm_conf.projection is not known", 65)


TESTS = [equal_in_onnx_runtime, equal_in_steno, written_directories_are_served, bad_configurations_are_named]

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
