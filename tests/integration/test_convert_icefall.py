"""steno convert on icefall's checkpoints: networks against recorded outputs of the zipformer package (tests/data/convert),
against exports of icefall in ../shared/zoo/tiny out of which a checkpoint is made, and bad input. TAP."""
import functools
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch_file
from daemon import BUILD, SAN, SHARED, SLOW, Skip, need, run_in_folders
from onnx import numpy_helper
from test_convert import DATA, RECORDING, ort, ours, steno
from test_models import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "convert"))
import lstm_transducer  # noqa: E402
import zipformer1  # noqa: E402
from seeded import features, icefall_checkpoint  # noqa: E402

ZOO = os.path.join(SHARED, "zoo", "tiny")
HEADS = ("--num-heads", "2,4,2")
CHUNKS = (*HEADS, "--chunk-size", "8", "--left-context-frames", "16")
CTC = ("--use-transducer", "0", "--use-ctc", "1")
LIMIT = 1e-4


def close(what, value, want):
    assert value.shape == want.shape, f"{what}: {value.shape}, expected {want.shape}"
    difference = np.abs(value - want).max()
    assert difference < LIMIT, f"{what} differs by {difference}"


def convert(d, name, *args, tokens=None, content=None):
    """content: of the checkpoint, if it is not in tests/data."""
    out, path = f"{d}/{name}", f"{DATA}/{name}.pt"
    if content:
        path = f"{d}/{name}.pt"
        torch_file.save(path, {"model": content})
    said = steno("convert", path, "-o", out, "--tokens", tokens or f"{DATA}/zipformer.tokens", *args)[0]
    assert "icefall" in said, said
    files = sorted(os.listdir(out))
    for f in files:
        if f.endswith(".onnx"):
            onnx.checker.check_model(f"{out}/{f}", full_check=True)
    return out, files


def with_both_engines(*checks):
    """Two tests of each check, which takes a folder and an engine. With sanitizers only our engine's is of use."""

    def in_onnx_runtime(check, d):
        check(d, ort)

    def in_steno(check, d):
        os.mkdir(f"{d}/arrays")
        check(d, ours(f"{d}/arrays"))

    for check in checks:
        for engine in (in_steno,) if SAN else (in_onnx_runtime, in_steno):
            test = functools.partial(engine, check)
            test.__name__ = f"{check.__name__}_{engine.__name__}"
            yield test


def names_of(path):
    graph = onnx.load(path, load_external_data=False).graph
    return [i.name for i in graph.input], [o.name for o in graph.output]


def run(engine, path, feed):
    return dict(zip(names_of(path)[1], engine(path)(feed)))


def small_networks(engine, out, want):
    y = run(engine, f"{out}/decoder.onnx", {"y": want["y"]})["decoder_out"]
    close("decoder", y, want["decoder"])
    feed = {"encoder_out": want["frame"], "decoder_out": want["decoder"]}
    close("joiner", run(engine, f"{out}/joiner.onnx", feed)["logit"], want["joiner"])


def whole_recordings(d, engine):
    transducer_of(d, engine, "conformer-scaled")
    want = transducer_of(d, engine, "zipformer", *HEADS)
    os.mkdir(f"{d}/ctc")
    out, files = convert(f"{d}/ctc", "zipformer", *HEADS, *CTC)
    assert files == ["model.onnx", "tokens.txt"], files
    got = run(engine, f"{out}/model.onnx", {"x": want["x.131"], "x_lens": want["lens.131"]})
    close("ctc.131", got["log_probs"], want["ctc.131"])


def transducer_of(d, engine, name, *args):
    want = np.load(f"{DATA}/{name}.npz")
    out, files = convert(d, name, *args)
    assert files == ["decoder.onnx", "encoder.onnx", "joiner.onnx", "tokens.txt"], files
    for t in (57, 131):
        feed = {"x": want[f"x.{t}"], "x_lens": want[f"lens.{t}"]}
        got = run(engine, f"{out}/encoder.onnx", feed)
        close(f"{name}: encoder.{t}", got["encoder_out"], want[f"encoder.{t}"])
        assert (got["encoder_out_lens"] == want[f"encoder_lens.{t}"]).all(), got["encoder_out_lens"]
    small_networks(engine, out, want)
    return want


def first_states(path):
    inputs = onnx.load(path, load_external_data=False).graph.input
    kind = {onnx.TensorProto.FLOAT: "f4", onnx.TensorProto.INT64: "i8"}
    return {i.name: np.zeros([d.dim_value or 2 for d in i.type.tensor_type.shape.dim], kind[i.type.tensor_type.elem_type])
            for i in inputs if i.name != "x"}  # fmt: skip


def feed_chunks(engine, path, chunks, output):
    state, out = first_states(path), []
    for x in chunks:
        got = run(engine, path, {"x": x, **state})
        out.append(got[output])
        state = {name: got[f"new_{name}"] for name in state}
    return np.stack(out), state


def chunks(d, engine):
    want = np.load(f"{DATA}/zipformer-causal.npz")
    out, _ = convert(d, "zipformer-causal", *CHUNKS)
    got, state = feed_chunks(engine, f"{out}/encoder.onnx", want["chunk.x"], "encoder_out")
    close("chunks", got, want["chunk.encoder"])
    for i, (name, value) in enumerate(state.items()):
        close(name, value, want[f"state.{i}"])
    small_networks(engine, out, want)
    os.mkdir(f"{d}/ctc")
    out, files = convert(f"{d}/ctc", "zipformer-causal", *CHUNKS, *CTC)
    assert files == ["model.onnx", "tokens.txt"], files
    got, _ = feed_chunks(engine, f"{out}/model.onnx", want["chunk.x"], "log_probs")
    close("chunks of CTC", got, want["chunk.ctc"])


# ---- Conformers ----

CAUSAL = ("--causal-convolution", "1")
CHUNK, LEFT, STEPS = 4, 6, 4


def conformer_chunks(d, engine):
    """The streaming layout of pruned_transducer_stateless5; the caller counts the frames."""
    want = np.load(f"{DATA}/conformer-scaled.npz")
    for name, right in (("chunk", 0), ("right", 2)):
        flags = (*CAUSAL, "--decode-chunk-size", str(CHUNK), "--left-context", str(LEFT), "--right-context", str(right))
        os.mkdir(f"{d}/{name}")
        out, _ = convert(f"{d}/{name}", "conformer-scaled", *flags)
        path, got, rows = f"{out}/encoder.onnx", [], 4 * (CHUNK + right + 2) + 3
        state = {k: v for k, v in first_states(path).items() if k != "processed_lens"}
        for i in range(STEPS):
            x = want["stream"][:, 4 * CHUNK * i : 4 * CHUNK * i + rows]
            y = run(engine, path, {"x": x, **state, "processed_lens": np.full(2, CHUNK * i)})
            got.append(y["encoder_out"])
            state = {k: y[f"new_{k}"] for k in state}
        close(f"{name}: encoder", np.stack(got), want[f"{name}.encoder"])
        close(f"{name}: frames before", state["cached_attn"], want[f"{name}.attn"])
        close(f"{name}: taps before", state["cached_conv"], want[f"{name}.conv"])
        meta = metadata(path)
        assert (meta["T"], meta["decode_chunk_len"], meta["pad_length"]) == (str(rows), "16", str(rows - 16)), meta


def ctc_of(d, engine, content, want, *flags):
    """want: by number of frames."""
    torch_file.save(f"{d}/conformer.pt", {"model": content})
    vocab = next(iter(want.values())).shape[-1]
    with open(f"{DATA}/zipformer.tokens", encoding="utf-8") as f, open(f"{d}/tokens.txt", "w", encoding="utf-8") as g:
        g.writelines(f.readlines()[:vocab])
    steno("convert", f"{d}/conformer.pt", "-o", f"{d}/ctc", *flags)
    onnx.checker.check_model(f"{d}/ctc/model.onnx", full_check=True)
    x = np.load(f"{DATA}/conformer-scaled.npz")
    for t, value in want.items():
        got = run(engine, f"{d}/ctc/model.onnx", {"x": x[f"x.{t}"], "x_lens": x[f"lens.{t}"]})
        close(f"ctc.{t}", got["log_probs"], value)
        assert (got["log_probs_len"] == x[f"encoder_lens.{t}"]).all(), got["log_probs_len"]


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def with_ctc_layer(root):
    """conformer-scaled as conformer_ctc2 ("") and conformer_ctc3 ("encoder.") name it; the joiner's projection is the
    CTC layer."""
    layer = "ctc_output_module.1" if root else "encoder_output_layer.1"
    out = {}
    for k, v in checkpoint("conformer-scaled").items():
        if k.startswith("encoder."):
            out[k if root else k.removeprefix("encoder.")] = v
        elif k.startswith("joiner.encoder_proj"):
            out[k.replace("joiner.encoder_proj", layer)] = v
    return out


def conformer_ctc(d, engine):
    want = np.load(f"{DATA}/conformer-ctc.npz")
    whole = checkpoint("conformer-ctc")
    ctc_of(d, engine, whole, {t: want[f"ctc.{t}"] for t in (57, 131)})
    behind = {k: v for k, v in whole.items() if not k.startswith("after_norm")}
    ctc_of(d, engine, behind, {t: want[f"after.{t}"] for t in (57, 131)})
    want = np.load(f"{DATA}/conformer-scaled.npz")
    for root, kind, flags in (("", "encoder", ()), ("encoder.", "encoder", ()), ("encoder.", "causal", CAUSAL)):
        ctc_of(d, engine, with_ctc_layer(root), {t: log_softmax(want[f"{kind}.{t}"]) for t in (57, 131)}, *flags)


def conformers(d, engine):
    conformer_chunks(d, engine)
    conformer_ctc(d, engine)


# ---- the first Zipformer ----


def first_zipformer(d, engine):
    """Five stacks, one of which is wider than the one before it, and one that sees an earlier one."""
    want, tokens = np.load(f"{DATA}/zipformer1.npz"), ("--tokens", f"{DATA}/zipformer.tokens")
    torch_file.save(f"{d}/first.pt", {"model": made("zipformer1")})
    steno("convert", f"{d}/first.pt", "-o", f"{d}/whole", *tokens)
    steno("convert", f"{d}/first.pt", "-o", f"{d}/ctc", *tokens, *CTC)
    steno("convert", f"{d}/first.pt", "-o", f"{d}/chunks", *tokens, *CAUSAL, "--num-left-chunks", str(zipformer1.LEFT_CHUNKS))
    for path in (f"{d}/whole/encoder.onnx", f"{d}/ctc/model.onnx", f"{d}/chunks/encoder.onnx"):
        onnx.checker.check_model(path, full_check=True)
    for t, lens in ((57, (57, 57)), (131, (131, 90))):
        feed = {"x": features(t, 2, t), "x_lens": np.array(lens)}
        got = run(engine, f"{d}/whole/encoder.onnx", feed)
        close(f"first: encoder.{t}", got["encoder_out"], want[f"encoder.{t}"])
        assert (got["encoder_out_lens"] == want[f"encoder_lens.{t}"]).all(), got["encoder_out_lens"]
        close(f"first: ctc.{t}", run(engine, f"{d}/ctc/model.onnx", feed)["log_probs"], want[f"ctc.{t}"])
    step = zipformer1.CHUNK_LEN
    x = features(3, 2, step * zipformer1.STEPS + 7)
    x = [x[:, step * i : step * i + step + 7] for i in range(zipformer1.STEPS)]
    got, state = feed_chunks(engine, f"{d}/chunks/encoder.onnx", x, "encoder_out")
    close("first: chunks", got, want["chunk"])
    for name, value in state.items():
        kind, stack = name.removeprefix("cached_").rsplit("_", 1)
        close(f"first: {name}", value, want[f"state.{kind}.{stack}"])
    small_networks(engine, f"{d}/whole", want)


# ---- LSTM transducers ----


def lstm(d, engine):
    """One frame in each call, with and without projections, against PyTorch's LSTM over all frames."""
    recorded = np.load(f"{DATA}/lstm-transducer.npz")
    x = features(3, 2, 4 * lstm_transducer.STEPS + 5)
    x = [x[:, 4 * i : 4 * i + 9] for i in range(lstm_transducer.STEPS)]
    for at, model in (("", lstm_transducer.SMALL), ("equal.", lstm_transducer.EQUAL)):
        want = {k.removeprefix(at): v for k, v in recorded.items() if k.startswith("equal.") == bool(at)}
        out, _ = convert(tempfile.mkdtemp(dir=d), "lstm", content=icefall_checkpoint(lstm_transducer.shapes(model)))
        got, state = feed_chunks(engine, f"{out}/encoder.onnx", x, "encoder_out")
        close(f"{at}encoder", np.concatenate(got, 1), want["encoder"])
        for name, value in state.items():
            close(f"{at}{name}", value, want[name])
        small_networks(engine, out, want)


def written_directories_are_served(d):
    for name, args, what in (("zipformer", HEADS, "offline zipformer2 transducer"),
                             ("zipformer-causal", CHUNKS, "streaming zipformer2 transducer"),
                             ("zipformer", (*HEADS, *CTC), "offline zipformer2_ctc CTC"),
                             ("zipformer-causal", (*CHUNKS, *CTC), "streaming zipformer2 CTC"),
                             ("conformer-scaled", (), "offline conformer transducer"),
                             ("conformer-scaled", CAUSAL, "streaming conformer transducer"),
                             ("conformer-ctc", (), "offline zipformer2_ctc CTC"),
                             ("zipformer1", (), "offline zipformer transducer"),
                             ("zipformer1", CTC, "offline zipformer2_ctc CTC"),
                             ("zipformer1", CAUSAL, "streaming zipformer transducer"),
                             ("lstm", (), "streaming lstm transducer"),
                             ("zipformer-causal", (*HEADS, "--chunk-size", "-1"), "offline zipformer2 transducer")):  # fmt: skip
        folder = tempfile.mkdtemp(dir=d)
        out, _ = convert(folder, name, *args, content=made(name))
        info = steno("model", "info", out)[0]
        assert what in info and "40 tokens" in info, info
        steno("transcribe", "--model", out, RECORDING)


def shifts_are_fused(d):
    """The shift of relative positions becomes one node in every layer, whatever the rate of its stack."""
    for name, args, layers in (("zipformer", HEADS, 4), ("conformer-scaled", (), 2), ("conformer-scaled", CAUSAL, 2),
                               ("zipformer1", (), 6), ("zipformer1", CAUSAL, 6)):  # fmt: skip
        out, _ = convert(tempfile.mkdtemp(dir=d), name, *args, content=made(name))
        said = steno("optimize", f"{out}/encoder.onnx", "-o", f"{d}/optimized.onnx")[0]
        passes = said.split("passes:")[1].split()
        assert passes[passes.index("relshift") + 1] == str(layers), f"{name} {args}: {said}"


# ---- a checkpoint made out of an export ----


def weights_of(path):
    """(operator, array) of each use of a weight, in the order of the graph."""
    graph = onnx.load(path).graph
    known = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    uses = []
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
        weights = [known[i] for i in node.input if i in known]
        if node.op_type != "Identity" and weights:
            uses.append((node.op_type, weights))
    return uses


class Checkpoint:
    """Weights by their names in the state dictionary, taken from uses in the order of the modules' forward()."""

    def __init__(self, uses):
        self.uses, self.state = iter(uses), {}

    def take(self, *kinds):
        kind, weights = next(self.uses)
        assert kind in kinds, f"{kind} where {kinds} should be"
        return weights

    def linear(self, name, bias=True):
        self.state[f"{name}.weight"] = self.take("MatMul")[0].T
        if bias:
            self.state[f"{name}.bias"] = self.take("Add")[0]

    def conv(self, name):
        self.state[f"{name}.weight"], *bias = self.take("Conv")
        if bias:
            self.state[f"{name}.bias"] = bias[0]

    def norm(self, name):
        self.state[f"{name}.bias"] = self.take("Sub")[0]
        self.state[f"{name}.log_scale"] = self.take("Exp")[0]

    def convolution(self, name, causal):
        self.linear(f"{name}.in_proj")
        if causal:
            self.conv(f"{name}.depthwise_conv.causal_conv")
            self.conv(f"{name}.depthwise_conv.chunkwise_conv")
            edges = [self.take("Concat", "Slice")[0], self.take("Concat", "Slice")[0]]
            self.state[f"{name}.depthwise_conv.chunkwise_conv_scale"] = np.stack(edges)
        else:
            self.conv(f"{name}.depthwise_conv")
        self.linear(f"{name}.out_proj")

    def layer(self, at, causal):
        def both(name):
            self.linear(f"{at}.{name}.in_proj")
            self.linear(f"{at}.{name}.out_proj")

        self.linear(f"{at}.self_attn_weights.in_proj")
        self.linear(f"{at}.self_attn_weights.linear_pos", bias=False)
        for name in ("feed_forward1", "nonlin_attention", "self_attn1"):
            both(name)
        self.convolution(f"{at}.conv_module1", causal)
        both("feed_forward2")
        self.state[f"{at}.bypass_mid.bypass_scale"] = self.take("Mul")[0]
        both("self_attn2")
        self.convolution(f"{at}.conv_module2", causal)
        both("feed_forward3")
        self.norm(f"{at}.norm")
        self.state[f"{at}.bypass.bypass_scale"] = self.take("Mul")[0]

    def encoder(self, layers, causal):
        for i in (0, 4, 7):
            self.conv(f"encoder_embed.conv.{i}")
        for part in ("depthwise_conv", "pointwise_conv1", "pointwise_conv2"):
            self.conv(f"encoder_embed.convnext.{part}")
        self.linear("encoder_embed.out")
        self.norm("encoder_embed.out_norm")
        for i, n in enumerate(layers):
            at = f"encoder.encoders.{i}"
            if i:  # softmax of the logarithms of its results gives them again
                self.state[f"{at}.downsample.bias"] = np.log(self.take("Mul")[0].ravel())
            for k in range(n):
                self.layer(f"{at}.{'encoder.' if i else ''}layers.{k}", causal)
            if i:
                self.state[f"{at}.out_combiner.bypass_scale"] = self.take("Mul")[0]
        self.state["encoder.downsample_output.bias"] = np.log(self.take("Mul")[0].ravel())


def constants_of(path):
    """(operator, array) of each use of a weight or of a constant of one number, and of no weight but the norms' epsilon."""
    graph = onnx.load(path).graph
    known = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    means = {n.output[0] for n in graph.node if n.op_type == "ReduceMean"}
    for node in graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    weights = {i.name for i in graph.initializer}
    uses = []
    for node in graph.node:
        mean = node.op_type == "Add" and means & set(node.input)
        found = [known[i] for i in node.input if i in (known if mean else weights)]
        if found:
            uses.append(("Epsilon" if mean else node.op_type, found))
    return uses


class FirstCheckpoint(Checkpoint):
    """The first Zipformer (pruned_transducer_stateless7), in the order of its forward()."""

    def both(self, name):
        self.linear(f"{name}.in_proj")
        self.linear(f"{name}.out_proj")

    def convolution(self, name, causal=True):
        for part in ("pointwise_conv1", "depthwise_conv", "pointwise_conv2"):
            self.conv(f"{name}.{part}")

    def layer(self, at, causal=True):
        self.both(f"{at}.feed_forward1")
        self.linear(f"{at}.pooling.proj", bias=False)
        self.linear(f"{at}.self_attn.in_proj")
        self.linear(f"{at}.self_attn.linear_pos", bias=False)
        self.linear(f"{at}.self_attn.out_proj")
        self.convolution(f"{at}.conv_module1")
        self.both(f"{at}.feed_forward2")
        self.linear(f"{at}.self_attn.in_proj2", bias=False)
        self.linear(f"{at}.self_attn.out_proj2")
        self.convolution(f"{at}.conv_module2")
        self.both(f"{at}.feed_forward3")
        self.state[f"{at}.norm_final.eps"] = np.array(np.log(self.take("Epsilon")[0]))
        self.state[f"{at}.bypass_scale"] = self.take("Mul")[0]

    def encoder(self, layers, causal=True):
        for i in (0, 3, 6):
            self.conv(f"encoder.encoder_embed.conv.{i}")
        self.linear("encoder.encoder_embed.out")
        for i, n in enumerate(layers):
            at = f"encoder.encoders.{i}"
            if i:
                self.state[f"{at}.downsample.query"] = self.take("Mul")[0]
            for k in range(n):
                self.layer(f"{at}.{'encoder.' if i else ''}layers.{k}")
            if i:
                self.state[f"{at}.upsample.bias"] = self.take("Add")[0][:, 0]
                self.state[f"{at}.out_combiner.weight1"] = self.take("Mul")[0]
                self.take("Mul")  # 1 - weight1
        self.state["encoder.downsample_output.query"] = self.take("Mul")[0]


def checkpoint_of(folder, layers, causal):
    c = FirstCheckpoint(constants_of(f"{folder}/encoder.onnx")) if causal == "first" else None
    ctc = not os.path.exists(f"{folder}/encoder.onnx")
    c = c or Checkpoint(weights_of(f"{folder}/{'model' if ctc else 'encoder'}.onnx"))
    c.encoder(layers, causal)
    c.linear("ctc_output.1" if ctc else "joiner.encoder_proj")
    assert next(c.uses, None) is None, "weights were left over"
    if not ctc:
        c.uses = iter(weights_of(f"{folder}/decoder.onnx"))
        c.state["decoder.embedding.weight"] = c.take("Gather")[0]
        c.conv("decoder.conv")
        for name, file in (("decoder_proj", None), ("output_linear", "joiner")):
            if file:
                c.uses = iter(weights_of(f"{folder}/{file}.onnx"))
            kind, (weight, *bias) = next(c.uses)
            if kind == "Gemm":
                c.state[f"joiner.{name}.weight"], c.state[f"joiner.{name}.bias"] = weight, bias[0]
            else:
                c.state[f"joiner.{name}.weight"] = weight.T
                c.state[f"joiner.{name}.bias"] = c.take("Add")[0]
    return c.state


ZOO_MODELS = {
    "zipformer1-transducer-streaming": ((1, 2), "first", ("--causal-convolution", "1")),
    "zipformer2-transducer-offline": ((1, 1, 1), False, ("--query-head-dim", "8")),
    "zipformer2-ctc-offline": ((1, 2, 1), False, ("--query-head-dim", "8")),
    "zipformer2-transducer-streaming": ((1, 2, 1), True, ("--query-head-dim", "8", "--left-context-frames", "64")),
    "zipformer2-ctc-streaming": ((1, 2, 1), True, ("--query-head-dim", "8", "--left-context-frames", "64")),
}  # fmt: skip


def metadata(path):
    return {p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props}


def converted_export(d, name):
    layers, causal, flags = ZOO_MODELS[name]
    torch_file.save(f"{d}/pretrained.pt", {"model": checkpoint_of(f"{ZOO}/{name}", layers, causal)})
    out = f"{d}/{name}"
    steno("convert", f"{d}/pretrained.pt", "-o", out, "--tokens", f"{ZOO}/{name}/tokens.txt", *flags)
    return out


def equal_to_export(d, name, engine):
    out, causal = converted_export(d, name), ZOO_MODELS[name][1]
    file = "encoder" if os.path.exists(f"{ZOO}/{name}/encoder.onnx") else "model"
    theirs, mine = f"{ZOO}/{name}/{file}.onnx", f"{out}/{file}.onnx"
    assert names_of(theirs) == names_of(mine)
    a, b = metadata(theirs), metadata(mine)
    assert {k: v for k, v in a.items() if k != "comment"} == {k: v for k, v in b.items() if k != "comment"}, (a, b)
    feats = np.random.default_rng(5).standard_normal((2, 333, 80), "f4")
    if causal:
        frames = int(a["decode_chunk_len"])
        x = [feats[:, frames * i : frames * i + int(a["T"])] for i in range(9)]
        got, want = (feed_chunks(engine, p, x, names_of(p)[1][0]) for p in (mine, theirs))
        close(f"{name}: output", got[0], want[0])
        for key, value in want[1].items():
            close(f"{name}: {key}", got[1][key], value)
    else:
        for n in (9, 100, 333):
            feed = {"x": feats[:, :n], "x_lens": np.array([n, max(9, n - 40)])}
            got, want = run(engine, mine, feed), run(engine, theirs, feed)
            for key, value in want.items():
                close(f"{name}: {key} of {n} frames", got[key], value)
    for file in ("decoder", "joiner"):
        if os.path.exists(f"{out}/{file}.onnx"):
            rng = np.random.default_rng(3)
            inputs = onnx.load(f"{out}/{file}.onnx").graph.input
            feed = {i.name: rng.integers(-1, 40, (5, 2)) if i.name == "y" else
                    rng.standard_normal((5, i.type.tensor_type.shape.dim[1].dim_value), "f4") for i in inputs}
            got, want = run(engine, f"{out}/{file}.onnx", feed), run(engine, f"{ZOO}/{name}/{file}.onnx", feed)
            for key, value in want.items():
                close(f"{name}: {key}", got[key], value)


def equal_to_exports_of_icefall(d):
    need(ZOO)
    for name in ZOO_MODELS:
        equal_to_export(d, name, ort)


def decoded_as_recorded(d):
    """The unit test that decodes the zoo's models as sherpa-onnx did (decode.json), with the float networks replaced."""
    program = os.path.join(BUILD, "tests", "unit", "test_icefall_zoo")
    need(ZOO, program)
    if SAN:
        raise Skip("the plain build does; with sanitizers the test decodes the zoo's own networks")
    tiny = f"{d}/shared/zoo/tiny"
    os.makedirs(tiny)
    os.symlink(os.path.abspath(f"{SHARED}/audio"), f"{d}/shared/audio")
    for model in os.listdir(ZOO):
        if model not in ZOO_MODELS:
            os.symlink(os.path.abspath(f"{ZOO}/{model}"), f"{tiny}/{model}")
            continue
        out = converted_export(d, model)
        os.mkdir(f"{tiny}/{model}")
        for file in os.listdir(f"{ZOO}/{model}"):
            own = os.path.exists(f"{out}/{file}")
            os.symlink(os.path.abspath(f"{out if own else f'{ZOO}/{model}'}/{file}"), f"{tiny}/{model}/{file}")
    p = subprocess.run([program], env={**os.environ, "STENO_SHARED": f"{d}/shared"}, capture_output=True, text=True,
                       timeout=600 * SLOW, check=False)
    bad = [line for line in p.stdout.splitlines() if line.startswith("not ok")]
    assert p.returncode == 0 and not bad, f"{bad} {p.stderr[-500:]}"


# ---- bad input ----


def made(name):
    """A checkpoint whose weights follow from their names; None: it is in tests/data."""
    if name == "zipformer1":
        return icefall_checkpoint(zipformer1.shapes(zipformer1.SMALL))
    return icefall_checkpoint(lstm_transducer.shapes(lstm_transducer.SMALL)) if name == "lstm" else None


def checkpoint(name="zipformer"):
    return made(name) or torch_file.load(f"{DATA}/{name}.pt")["model"]


def refused(d, content, part, code, *args, packed=False):
    """content: a checkpoint, or the bytes of a file."""
    if isinstance(content, bytes):
        with open(f"{d}/bad.pt", "wb") as f:
            f.write(content)
    else:
        torch_file.save(f"{d}/bad.pt", content, packed)
    if "--tokens" not in args:
        args = ("--tokens", f"{DATA}/zipformer.tokens", *args)
    err = steno("convert", f"{d}/bad.pt", "-o", f"{d}/out", *args, want=code)[1]
    assert part in err, f"'{err.strip()}' without '{part}'"
    assert not os.path.exists(f"{d}/out/tokens.txt"), "tokens.txt was written"
    return err


def every_weight_is_asked_for(d):
    """Each weight that is left out or has another shape is named; those of the training alone are not missed."""
    unread = ("simple_am_proj", "simple_lm_proj", "ctc_output")
    # of another length: another factor; none: a context of 1
    other_models = (("downsample.bias", "upsample.bias"), "decoder.conv.weight")
    for name, flags in (("zipformer", HEADS), ("zipformer-causal", CHUNKS), ("conformer-scaled", ()), ("conformer-ctc", ()),
                        ("zipformer1", CAUSAL), ("lstm", ())):  # fmt: skip
        whole = checkpoint(name)
        layer = [k for k in whole if ".layers.1." in k]
        assert layer
        # one layer, and all that is in no layer
        for key in [k for k in whole if k in layer or ".layers." not in k][:: 5 if SLOW > 1 else 1]:
            if key.startswith(unread) or (key in layer and key.endswith("layers.1.bypass_scale")):
                continue
            if name == "conformer-ctc" and key.startswith("decoder") or key.endswith("num_batches_tracked"):
                continue
            if name in ("conformer-scaled", "lstm") and key.endswith("scale"):
                continue  # weights may have none
            short = key.rsplit(".", 1)[0]
            if key != other_models[1]:
                err = refused(d, {"model": {k: v for k, v in whole.items() if k != key}}, "", 65, *flags)
                assert short.rsplit(".", 1)[-1] in err or "layers" in err or "Zipformer" in err, f"{name}: {key}: {err}"
            refused(d, {"model": whole | {f"{short}.extra": whole[key]}}, f"{short}.extra' is no weight of a", 65, *flags)
            if key.endswith(other_models[0]):
                continue
            wider = np.concatenate([whole[key], whole[key]]) if whole[key].ndim else np.stack([whole[key]] * 2)
            refused(d, {"model": whole | {key: wider}}, "", 65, *flags)
        for key in whole:
            if key.startswith(unread):
                torch_file.save(f"{d}/ok.pt", {"model": {k: v for k, v in whole.items() if k != key}})
                steno("convert", f"{d}/ok.pt", "-o", f"{d}/ok", "--tokens", f"{DATA}/zipformer.tokens", *flags)


def bad_options_are_named(d):
    whole, causal = {"model": checkpoint()}, {"model": checkpoint("zipformer-causal")}
    refused(d, whole, "no shape tells the number of heads of stack 1: give --num-heads", 64)
    refused(d, whole, "stack 1: 3 heads do not divide its 16 columns of queries", 64, "--num-heads", "3")
    refused(d, whole, "--num-heads: 2 numbers, but", 64, "--num-heads", "2,4")
    refused(d, whole, "is not a list of 1 to 16 numbers of at least 1", 64, "--num-heads", "2,x,4")
    refused(d, whole, "is not a list of 1 to 16 numbers", 64, "--num-heads", ",".join("2" * 17))
    refused(d, whole, "--query-head-dim: stack 2: 16, but", 64, *HEADS, "--query-head-dim", "8,16,8")
    refused(d, whole, "--num-encoder-layers: stack 2: 3, but", 64, *HEADS, "--num-encoder-layers", "1,3,1")
    refused(d, whole, "--encoder-dim: stack 1: 192, but", 64, *HEADS, "--encoder-dim", "192,256,384")
    for option, value in (("--value-head-dim", "99,99,99"), ("--pos-head-dim", "99,99,99"), ("--cnn-module-kernel", "99,99,99"), ("--decoder-dim", "99"), ("--joiner-dim", "99")):
        refused(d, whole, f"{option}: ", 64, *HEADS, option, value)
    refused(d, whole, "--downsampling-factor: 6 numbers", 64, *HEADS, "--downsampling-factor", "1,2,4,8,4,2")
    refused(d, whole, "--context-size: 1, but", 64, *HEADS, "--context-size", "1")
    refused(d, whole, "--causal 1: the convolutions in", 64, *HEADS, "--causal", "1")
    refused(d, whole, "--causal: 'maybe' is neither 1 nor 0", 64, *HEADS, "--causal", "maybe")
    refused(d, whole, "are not causal, so it takes whole recordings", 64, *HEADS, "--chunk-size", "16")
    refused(d, whole, "there is nothing to write", 64, *HEADS, "--use-transducer", "0")
    refused(d, whole, "has no 'model_avg'", 64, *HEADS, "--use-averaged-model", "1")
    refused(d, whole, "--layout: checkpoints of icefall take no such option", 64, *HEADS, "--layout", "sherpa")
    refused(d, causal, "give one number, that of the model to write", 64, *HEADS, "--chunk-size", "16,32,64,-1")
    refused(d, causal, "not multiples of stack 3's downsampling, 4", 64, *HEADS, "--chunk-size", "6")
    refused(d, causal, "not multiples of stack 3's", 64, *CHUNKS[:4], "--left-context-frames", "18")
    refused(d, causal, "expected 2 to 4096", 64, *HEADS, "--chunk-size", "0")
    conformer = {"model": checkpoint("conformer-scaled")}
    refused(d, conformer, "--chunk-size: ", 64, "--chunk-size", "16")
    refused(d, conformer, "--left-context: only with --causal-convolution 1", 64, "--left-context", "16")
    refused(d, conformer, "expected 1 to 4096 (or -1", 64, *CAUSAL, "--decode-chunk-size", "0")
    refused(d, conformer, "0 to 4096", 64, *CAUSAL, "--right-context", "5000")
    refused(d, {"model": with_ctc_layer("encoder.")}, "no layout for chunks of a Conformer with CTC", 64, *CAUSAL,
            "--decode-chunk-size", "16")  # fmt: skip
    first = {"model": checkpoint("zipformer1")}
    refused(d, first, "--chunk-size: ", 64, "--chunk-size", "16")
    refused(d, first, "is a Zipformer of pruned_transducer_stateless7, which has none", 64, "--pos-dim", "48")
    refused(d, first, "--num-left-chunks: only with --causal-convolution 1", 64, "--num-left-chunks", "2")
    refused(d, first, "no layout for chunks of the first Zipformer with CTC", 64, *CAUSAL, *CTC)
    refused(d, first, "no multiple of the downsampling, 8", 64, *CAUSAL, "--decode-chunk-len", "24")
    refused(d, first, "expected 4 to 8192 and 1 to 1024", 64, *CAUSAL, "--decode-chunk-len", "0")
    refused(d, first, "3 heads do not divide its 8 columns of values", 64, "--num-heads", "3")
    refused(d, first, "--feedforward-dim: stack 1: 32, but", 64, "--feedforward-dim", "32")
    refused(d, {"model": checkpoint("lstm")}, "is an LSTM transducer, which has none", 64, *CAUSAL)
    refused(d, {"model": checkpoint("lstm")}, "--encoder-dim: 512, but", 64, "--encoder-dim", "512")
    plain = checkpoint("conformer-ctc")
    refused(d, {"model": {f"encoder.{k}": v for k, v in plain.items()}}, "a Conformer transducer without scaled weights", 65)
    refused(d, {"model": plain}, "--causal-convolution 1: Conformers with batch normalization", 64, *CAUSAL)
    refused(d, conformer, "is a Conformer, which has none", 64, "--use-ctc", "1")
    refused(d, conformer, "--num-heads: 8, but", 64, "--num-heads", "8")
    no_ctc = {k: v for k, v in checkpoint().items() if not k.startswith("ctc_output")}
    refused(d, {"model": no_ctc}, "'model.ctc_output.1.weight' is missing", 65, *HEADS, *CTC)
    refused(d, {"model": {"conv.weight": np.zeros((3, 3), "f4")}}, "this is no Zipformer and no Conformer of icefall", 65)
    refused(d, {"model": {"encoder_embed.conv.0.weight": np.zeros((8, 1, 3, 3), "f4"),
                          "encoder.encoder_layers.0.norm_final.weight": np.zeros(8, "f4")}},
            "is missing, so this is no Zipformer of icefall", 65)  # fmt: skip


def hostile_files_are_refused(d):
    whole = checkpoint()
    for name in ("conformer-scaled", "zipformer"):  # stored and packed
        with open(f"{DATA}/{name}.pt", "rb") as f:
            content = f.read()
        for cut in [*range(0, len(content), len(content) // 60), len(content) - 1]:
            refused(d, content[:cut], "", 65)
    refused(d, {"model": whole, "hook": torch_file.Call("os", "system", "true")}, "system, which is neither a tensor nor plain data", 65, *HEADS)
    key = "encoder.encoders.1.encoder.layers.0.feed_forward1.in_proj.weight"
    refused(d, {"model": whole | {key: torch_file.Repeated(whole[key])}}, f"'model.{key}' repeats its elements", 65, *HEADS)


def tokens_come_from_where_icefall_has_them(d):
    content, repository = {"model": checkpoint()}, f"{d}/repository"
    for folder in ("exp", "data/lang_bpe_40"):
        os.makedirs(f"{repository}/{folder}")
    with open(f"{DATA}/zipformer.tokens", encoding="utf-8") as f:
        lines = f.read().splitlines()

    def write(path, lines):
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lines)

    torch_file.save(f"{repository}/exp/pretrained.pt", content)
    said = steno("convert", repository, "-o", f"{d}/out", *HEADS, want=74)[1]
    assert "no tokens.txt or bpe.model beside it" in said and "--tokens FILE" in said, said
    write(f"{repository}/data/lang_bpe_40/tokens.txt", [*lines, "#0 40", "#1 41"])
    steno("convert", repository, "-o", f"{d}/out", *HEADS)
    with open(f"{d}/out/tokens.txt", encoding="utf-8") as f:
        assert f.read().splitlines() == lines
    os.remove(f"{d}/out/tokens.txt")
    write(f"{d}/few.txt", lines[:-1])
    refused(d, content, "39 tokens, but", 65, *HEADS, "--tokens", f"{d}/few.txt")
    write(f"{d}/many.txt", [*lines, "word 40"])
    refused(d, content, "41 tokens, but", 65, *HEADS, "--tokens", f"{d}/many.txt")
    refused(d, content, "--tokens", 74, *HEADS, "--tokens", f"{d}/none.txt")
    pieces = [line.rsplit(" ", 1)[0] for line in lines]
    with open(f"{repository}/data/lang_bpe_40/bpe.model", "wb") as f:
        f.write(sentence_piece_model(pieces))
    os.remove(f"{repository}/data/lang_bpe_40/tokens.txt")
    steno("convert", f"{repository}/exp", "-o", f"{d}/out", *HEADS)
    with open(f"{d}/out/tokens.txt", encoding="utf-8") as f:
        assert f.read().splitlines() == lines
    with open(f"{d}/out/bpe.vocab", encoding="utf-8") as f:
        assert f.read().splitlines() == [f"{p}\t{-i / 2:g}" for i, p in enumerate(pieces)]
    assert "hotwords by" in steno("model", "info", f"{d}/out")[0]


def sentence_piece_model(pieces):
    """A ModelProto: each piece with its score and type (2: unknown, 3: control, 1: normal)."""
    out = b""
    for i, piece in enumerate(pieces):
        text, kind = piece.encode(), 2 if piece == "<unk>" else 3 if piece.startswith("<") else 1
        body = b"\x0a" + bytes([len(text)]) + text + b"\x15" + np.float32(-i / 2).tobytes() + b"\x18" + bytes([kind])
        out += b"\x0a" + bytes([len(body)]) + body
    return out


def checkpoints_of_a_training_are_read(d):
    """epoch-N.pt: the optimizer and the options beside the weights do not matter; model_avg if it is asked for."""
    whole = {k: v.astype("f4") for k, v in checkpoint().items()}
    other = {k: v * np.float32(1.25) if v.ndim else v for k, v in whole.items()}
    torch_file.save(f"{d}/epoch-3.pt", {
        "model": whole, "model_avg": other, "optimizer": {"state": {0: {"step": 5, "delta": whole["joiner.encoder_proj.weight"]}},
                                                          "param_groups": [{"lr": 0.045, "params": [0, 1]}]},
        "scheduler": {"epoch": 3}, "grad_scaler": {}, "sampler": None, "exp_dir": torch_file.Call("pathlib", "PosixPath", "exp"),
        "env_info": {"torch-version": "2.0.1"}, "best_valid_loss": float("inf"), "cur_epoch": 3})  # fmt: skip
    feed = {"encoder_out": np.ones((1, 12), "f4"), "decoder_out": np.ones((1, 12), "f4")}
    for flags, state in (((), whole), (("--use-averaged-model", "1"), other)):
        steno("convert", f"{d}/epoch-3.pt", "-o", f"{d}/out", "--tokens", f"{DATA}/zipformer.tokens", *HEADS, *flags)
        y = run(ort, f"{d}/out/joiner.onnx", feed)["logit"][0]
        want = state["joiner.output_linear.weight"] @ np.tanh(np.full(12, 2, "f4")) + state["joiner.output_linear.bias"]
        assert np.abs(y - want).max() < 1e-5, flags
    torch_file.save(f"{d}/weights.pt", whole)  # the weights alone
    steno("convert", f"{d}/weights.pt", "-o", f"{d}/alone", "--tokens", f"{DATA}/zipformer.tokens", *HEADS)


TESTS = [*with_both_engines(whole_recordings, chunks, conformers, first_zipformer, lstm),
         written_directories_are_served, shifts_are_fused, equal_to_exports_of_icefall, decoded_as_recorded, every_weight_is_asked_for, bad_options_are_named,
         hostile_files_are_refused, tokens_come_from_where_icefall_has_them, checkpoints_of_a_training_are_read]  # fmt: skip

if __name__ == "__main__":
    sys.exit(run_in_folders([t for t in TESTS if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]))
