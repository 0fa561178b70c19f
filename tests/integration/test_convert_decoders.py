"""steno convert: recurrent decoders, transducers and language models of ESPnet2 against recorded outputs of its PyTorch modules
(tests/data/convert). TAP."""
import os
import sys

import numpy as np
import onnx
from daemon import DIGITS, SAN, run_in_folders
from test_convert import DATA, changing, log_softmax, members, ort, ours, refused, steno

LANGUAGE_MODELS = ("lm-gru", "lm-relu", "rnn-location", "transducer-lstm")
ATTENTIONS = ("rnn-location", "rnn-dot", "rnn-noatt", "rnn-coverage", "rnn-coverage-location", "rnn-gru",
              "rnn-location2d", "rnn-heads-dot", "rnn-heads-add", "rnn-heads-location", "rnn-heads-resolutions")
TRANSDUCERS = ("transducer-lstm", "transducer-gru")
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


def transducers(d, engine):
    for name in TRANSDUCERS:
        path, want = convert(d, name)
        rows = rnn_steps(engine(path % "transducer_encoder"), path % "transducer_encoder", "labels", want["ids"])
        close(name, rows, want["prediction"])
        joint = engine(path % "joint_network")
        got = [[joint({"enc_out": want["memory"][0, n], "dec_out": row})[0] for row in want["prediction"][n]]
               for n in range(len(rows))]  # fmt: skip
        close(name, np.array(got), want["joint"])


def attention_decoders(d, engine):
    for name in ATTENTIONS:
        path, want = convert(d, name)
        graph, memory = onnx.load(path % "rnn_decoder").graph, want["memory"]
        layers = sum(i.name.startswith("z_prev") for i in graph.input)
        units = graph.input[1].type.tensor_type.shape.dim[1].dim_value
        run, got = engine(path % "rnn_decoder"), []
        fixed = {"enc_h_0": memory}
        if name != "rnn-noatt":
            fixed["pceh_0"] = engine(path % "predecoder_0")({"enc_h": memory})[0]
        for ids in want["ids"]:
            z, c = ([np.zeros((1, units), "f4")] * layers for _ in "zc")
            a = np.full((1, memory.shape[1]), 1 / memory.shape[1], "f4")
            a, each = a[None] if "coverage" in name else a, []
            for token in ids:
                feed = {"vy": [token], **{f"z_prev_{i}": x for i, x in enumerate(z)},
                        **{f"c_prev_{i}": x for i, x in enumerate(c)}, "a_prev_0": a, **fixed}  # fmt: skip
                names = [i.name for i in graph.input]
                logp, *after = run({k: np.asarray(v) for k, v in feed.items() if k in names})
                c, z, a = after[:layers], after[layers : 2 * layers], after[-1]
                each.append(logp)
            got.append(each)
        close(name, np.stack(got, 1), want["decoder"])


def all_networks(d, engine):
    attention_decoders(d, engine)
    language_models(d, engine)
    transducers(d, engine)


def equal_in_onnx_runtime(d):
    all_networks(d, ort)


def equal_in_steno(d):
    os.mkdir(f"{d}/arrays")
    all_networks(d, ours(f"{d}/arrays"))


def written_directories_are_served(d):
    for name in {*LANGUAGE_MODELS, *ATTENTIONS, *TRANSDUCERS}:
        convert(d, name)
        with_lm = os.path.exists(f"{d}/{name}/full/seq_rnnlm.onnx")
        steno("transcribe", "--model", f"{d}/{name}", "--beam", "3", *(["--lm-weight", "0.5"] if with_lm else []), DIGITS)


def bad_configurations_are_named(d):
    lm = changing(members("lm-gru"), "exp/lm/config.yaml")
    refused(d, lm("lm: seq_rnn", "lm: rwkv"), "lm: rwkv; known: transformer, seq_rnn", 65)
    refused(d, lm("rnn_type: gru", "rnn_type: sru"), "lm_conf.rnn_type: sru; known: lstm, gru", 65)
    refused(d, lm("nhid: 7", "nhid: 8"), "asks for", 65)
    refused(d, lm("nhid: 7", "nlayers: 3"), "asks for", 65)
    refused(d, lm("nhid: 7", "nhid: 7\n  nlayers: 3"), "'lm.rnn.weight_ih_l2' is missing: lm_conf asks for it", 65)
    refused(d, lm("nhid: 7", "projection: 7"), "lm_conf.projection is not known", 65)

    asr = changing(members("transducer-gru"))
    refused(d, asr("decoder: transducer", "decoder: mlm"), "decoder: mlm; known: transformer, rnn, transducer", 65)
    refused(d, asr("rnn_type: gru", "rnn_type: rnn_tanh"), "decoder_conf.rnn_type: rnn_tanh; known: lstm, gru", 65)
    refused(d, asr("joint_activation_type: relu", "joint_activation_type: mish"), "mish; known: tanh, relu", 65)
    refused(d, asr("joint_space_size: 6", "joint_space_size: 7"), "[6,8], joint_net_conf asks for [7,8]", 65)
    refused(d, asr("joint_space_size: 6", "dropout: 6"), "joint_net_conf.dropout is not known", 65)
    refused(d, asr("hidden_size: 8", "hidden_size: 9"), "decoder_conf asks for", 65)
    refused(d, asr("ctc_weight: 0.3", "transducer_multi_blank_durations: [2]"), "transducer_multi_blank_durations", 65)
    rnn = changing(members("rnn-coverage"))
    refused(d, rnn("atype: coverage", "atype: location_recurrent"), "atype: location_recurrent; known: noatt, dot, add, location", 65)
    refused(d, rnn("atype: coverage", "atype: location"), "'decoder.att_list.0.loc_conv.weight' is missing", 65)
    refused(d, rnn("adim: 6", "adim: 7"), "decoder_conf asks for", 65)
    refused(d, rnn("adim: 6", "heads: 7"), "decoder_conf.att_conf.heads is not known", 65)
    refused(d, rnn("hidden_size: 8", "replace_sos: true"), "replace_sos: true; known: false", 65)
    refused(d, rnn("hidden_size: 8", "num_layers: 65"), "num_layers", 65)
    both = members("transducer-lstm")
    both["exp/lm/config.yaml"] = b"lm: transformer\nlm_conf: {}\n"
    refused(d, both, "transformer, with a transducer", 65)


TESTS = [equal_in_onnx_runtime, equal_in_steno, written_directories_are_served, bad_configurations_are_named]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS, {equal_in_onnx_runtime: "the plain build compares"} if SAN else {}))
