"""steno convert, WeNet: networks against recorded outputs of PyTorch (tests/data/convert/wenet-*, made by
tests/convert/wenet_checkpoint.py; CONVERT_WENET names a folder with more of them), and bad input. TAP."""
import collections
import glob
import io
import os
import pickle
import sys
import types
import zipfile

import numpy as np
import onnx
from daemon import run_in_folders
from test_convert import DATA, RECORDING, members, ort, ours, pack, refused, steno
from test_models import SHARED

LIMIT = 1e-4
ZOO = f"{SHARED}/zoo/tiny/wenet-ctc-streaming"
# input layer -> frames of features per frame of the encoder, and those it sees to the right
SUBSAMPLING = {"linear": (1, 0), "conv2d": (4, 6), "conv2d6": (6, 10), "conv2d8": (8, 14)}


def models():
    folder = os.environ.get("CONVERT_WENET", DATA)
    return [(p, np.load(p[:-4] + ".npz")) for p in sorted(glob.glob(f"{folder}/{'*' if 'CONVERT_WENET' in os.environ else 'wenet-*'}.zip"))]


def compare(path, differences, key, got, want):
    assert got.shape == want.shape, f"{path}: {key} is {got.shape}, expected {want.shape}"
    difference = float(np.abs(got - want).max()) if want.size else 0.0
    differences[key] = max(differences.get(key, 0), difference)
    assert difference < LIMIT, f"{path}: {key} differs by {difference}"


def converted(path, out, *args):
    said = steno("convert", path, "-o", out, *args)[0]
    assert "WeNet" in said, said
    for p in glob.glob(f"{out}/*.onnx"):
        onnx.checker.check_model(p, full_check=True)


def metadata(path):
    return {p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props}


def whole_utterances(path, want, out, engine, differences):
    converted(path, out, "--layout", "sherpa", "--chunk-size", "-1")
    assert sorted(os.listdir(out)) == ["model.onnx", "tokens.txt"], os.listdir(out)
    run = engine(f"{out}/model.onnx")
    lengths = [int(k[6:]) for k in want.files if k.startswith("feats.")]
    for t in lengths:
        y, n = run({"x": want[f"feats.{t}"], "x_lens": np.array([t])})
        compare(path, differences, "ctc", y, want[f"ctc.{t}"])
        assert n.tolist() == [y.shape[1]], n
    x = np.zeros((len(lengths), max(lengths), 80), "f4")
    for i, t in enumerate(lengths):
        x[i, :t] = want[f"feats.{t}"]
    y, n = run({"x": x, "x_lens": np.array(lengths)})
    for i, t in enumerate(lengths):
        assert n[i] == want[f"ctc.{t}"].shape[1], n
        compare(path, differences, "ctc of a batch", y[i : i + 1, : n[i]], want[f"ctc.{t}"])


def chunks(run, meta, names, scalar, x, by, right):
    """The outputs of all chunks, and the caches behind them; names: x, attention, convolution, mask."""
    number = (lambda v: np.array(v)) if scalar else (lambda v: np.array([v]))
    chunk, left, d = int(meta["chunk_size"]), int(meta["left_chunks"]), int(meta["output_size"])
    heads, blocks, past = int(meta["head"]), int(meta["num_blocks"]), int(meta["cnn_module_kernel"]) - 1
    cached, out = chunk * left, []
    attention, convolution = np.zeros((blocks, heads, cached, 2 * d // heads), "f4"), np.zeros((blocks, 1, d, past), "f4")
    for n, at in enumerate(range(0, x.shape[1] - right, chunk * by)):
        mask = np.ones((1, 1, cached + chunk), bool)
        mask[..., : max(left - n, 0) * chunk] = False
        feed = {names[0]: x[:, at : at + (chunk - 1) * by + right + 1], "offset": number(cached + n * chunk),
                "required_cache_size": number(cached), names[1]: attention, names[2]: convolution, names[3]: mask}
        y, attention, convolution = run(feed)
        out.append(y)
    return np.concatenate(out, 1), attention, convolution


def last_features(want):
    return want[f"feats.{max(int(k[6:]) for k in want.files if k.startswith('feats.'))}"]


def check_caches(path, want, differences, attention, convolution):
    compare(path, differences, "attention cache", attention, want["attention"])
    if want["past"]:
        compare(path, differences, "convolution cache", convolution, want["convolution"])


def streaming(path, want, out, engine, differences):
    converted(path, out, "--layout", "sherpa")
    assert sorted(os.listdir(out)) == ["model-streaming.onnx", "tokens.txt"], os.listdir(out)
    meta = metadata(f"{out}/model-streaming.onnx")
    assert meta["model_type"] == "wenet_ctc" and meta["chunk_size"] == str(want["chunk"]), meta
    y, attention, convolution = chunks(engine(f"{out}/model-streaming.onnx"), meta, ("x", "attn_cache", "conv_cache", "attn_mask"),
                                       False, last_features(want), int(meta["subsampling_factor"]), int(meta["right_context"]))
    compare(path, differences, "chunks", y, want["chunk_ctc"])
    check_caches(path, want, differences, attention, convolution)


# Inputs and outputs in the order in which WeNet's runtime (onnx_asr_model.cc) passes and takes them.
ENDS = {
    "encoder": (["chunk", "offset", "required_cache_size", "att_cache", "cnn_cache", "att_mask"], ["output", "r_att_cache", "r_cnn_cache"]),
    "ctc": (["hidden"], ["probs"]),
    "decoder": (["hyps", "hyps_lens", "encoder_out"], ["score", "r_score"]),
}
KEYS = ("output_size", "num_blocks", "head", "cnn_module_kernel", "subsampling_rate", "right_context", "sos_symbol", "eos_symbol",
        "is_bidirectional_decoder", "chunk_size", "left_chunks")


def check_ends(out, whole):
    for name, (inputs, outputs) in ENDS.items():
        g = onnx.load(f"{out}/{name}.onnx").graph
        expected = [i for i in inputs if not whole or i not in ("required_cache_size", "att_mask")]
        assert [i.name for i in g.input] == expected, [i.name for i in g.input]
        assert [o.name for o in g.output] == outputs, [o.name for o in g.output]
        for i in g.input:
            assert (i.name in ("offset", "required_cache_size")) == (not i.type.tensor_type.shape.dim), i


def runtime(path, want, out, engine, differences):
    """WeNet's own layout, the default."""
    converted(path, out)
    assert sorted(os.listdir(out)) == ["ctc.onnx", "decoder.onnx", "encoder.onnx", "units.txt"], os.listdir(out)
    meta = metadata(f"{out}/encoder.onnx")
    assert all(meta[k].lstrip("-").isdigit() for k in KEYS), meta
    check_ends(out, "chunks" not in want)
    run, x = engine(f"{out}/encoder.onnx"), last_features(want)
    if "chunks" in want:
        y, attention, convolution = chunks(run, meta, ("chunk", "att_cache", "cnn_cache", "att_mask"), True, x,
                                           int(meta["subsampling_rate"]), int(meta["right_context"]))
        compare(path, differences, "chunks of the encoder", y, want["chunks"])
        check_caches(path, want, differences, attention, convolution)
        compare(path, differences, "ctc by itself", engine(f"{out}/ctc.onnx")({"hidden": want["chunks"]})[0], want["chunk_ctc"])
    else:
        d, heads, blocks = int(meta["output_size"]), int(meta["head"]), int(meta["num_blocks"])
        assert meta["chunk_size"] == "-1" == meta["left_chunks"], meta
        y = run({"chunk": x, "offset": np.array(0), "att_cache": np.zeros((blocks, heads, 0, 2 * d // heads), "f4"),
                 "cnn_cache": np.zeros((blocks, 1, d, int(meta["cnn_module_kernel"]) - 1), "f4")})[0]
        compare(path, differences, "encoder", y, want[f"encoder.{x.shape[1]}"])
    score, back = engine(f"{out}/decoder.onnx")({"hyps": want["hyps"], "hyps_lens": want["lengths"], "encoder_out": want["encoder.203"]})
    compare(path, differences, "decoder", score, want["score"])
    assert meta["is_bidirectional_decoder"] == str(int("r_score" in want)), meta
    if "r_score" in want:
        compare(path, differences, "decoder from the right", back, want["r_score"])


def networks(d, engine):
    found = models()
    assert len(found) >= 3, found
    for i, (path, want) in enumerate(found):
        differences = {}
        if "static_chunk_size" not in members_of(path)["train.yaml"].decode():
            whole_utterances(path, want, f"{d}/{i}.whole", engine, differences)
        if "chunks" in want:
            streaming(path, want, f"{d}/{i}.streaming", engine, differences)
        runtime(path, want, f"{d}/{i}.runtime", engine, differences)
        print("#", os.path.basename(path), ", ".join(f"{k} {v:.1e}" for k, v in differences.items()))


def members_of(path):
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def equal_in_onnx_runtime(d):
    networks(d, ort)


def equal_in_steno(d):
    os.mkdir(f"{d}/arrays")
    networks(d, ours(f"{d}/arrays"))


def state_of_export(model):
    """The state dictionary of the zoo's export, which has short names: its constants in the order of the graph."""
    values = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    kinds = {o: n.op_type for n in model.graph.node for o in n.output}
    users = {}
    for n in model.graph.node:
        for i in n.input:
            users.setdefault(i, n)

    def rest(name):  # what is added to the product with this matrix
        out = users[name].output[0]
        return next(i for i in users[out].input if i != out)

    order = sorted(values, key=lambda v: int(v[1:]))
    convolutions = [n for n in model.graph.node if n.op_type == "Conv"]
    products = [n for n in order if values[n].ndim == 2 and users[n].op_type == "MatMul"]
    norms = [(n.input[0], n) for n in model.graph.node if n.op_type == "Mul" and any(
        i in values and values[i].shape == (16,) and kinds.get(j) == "Div" for i, j in (n.input, n.input[::-1]))]
    assert len(convolutions) == 2 + 3 * 3 and len(products) == 1 + 3 * 9 + 1, (len(convolutions), len(products))
    state = {"encoder.global_cmvn.mean": values["t1"], "encoder.global_cmvn.istd": values["t3"]}

    def linear(name, weight, bias=True):
        state[f"{name}.weight"] = values[weight].T
        if bias:
            state[f"{name}.bias"] = values[rest(weight)]

    def convolution(name, n):
        state[f"{name}.weight"], state[f"{name}.bias"] = values[n.input[1]], values[n.input[2]]

    def norm(name, pair):
        n = pair[1]
        state[f"{name}.weight"] = values[next(i for i in n.input if i in values)]
        state[f"{name}.bias"] = values[next(i for i in users[n.output[0]].input if i in values)]

    convolution("encoder.embed.conv.0", convolutions[0])
    convolution("encoder.embed.conv.2", convolutions[1])
    linear("encoder.embed.out.0", products[0])
    biases = [n for n in order if values[n].shape == (2, 8)]
    for i in range(3):
        p, m, at = f"encoder.encoders.{i}", products[1 + 9 * i :], 6 * i
        for k, name in enumerate(["feed_forward_macaron.w_1", "feed_forward_macaron.w_2", "self_attn.linear_q", "self_attn.linear_k",
                                  "self_attn.linear_v", "self_attn.linear_pos", "self_attn.linear_out", "feed_forward.w_1",
                                  "feed_forward.w_2"]):
            linear(f"{p}.{name}", m[k], "pos" not in name)
        state[f"{p}.self_attn.pos_bias_u"], state[f"{p}.self_attn.pos_bias_v"] = (values[b] for b in biases[2 * i : 2 * i + 2])
        for k, name in enumerate(["pointwise_conv1", "depthwise_conv", "pointwise_conv2"]):
            convolution(f"{p}.conv_module.{name}", convolutions[2 + 3 * i + k])
        for k, name in enumerate(["norm_ff_macaron", "norm_mha", "norm_conv", "conv_module.norm", "norm_ff", "norm_final"]):
            norm(f"{p}.{name}", norms[at + k])
    norm("encoder.after_norm", norms[18])
    linear("ctc.ctc_lo", products[-1])
    return state


def save_state(state):
    """The bytes of torch.save(state) without PyTorch: a ZIP of a pickle that rebuilds tensors and of their elements."""
    names = {"torch": "FloatStorage", "torch._utils": "_rebuild_tensor_v2"}
    before = {m: sys.modules.get(m) for m in names}
    made = {m: type(n, (), {"__module__": m, "__qualname__": n}) for m, n in names.items()}

    class Tensor:
        def __init__(self, key, x):
            self.key, self.x = key, x

        def __reduce_ex__(self, _):
            strides = tuple(s // self.x.itemsize for s in self.x.strides)
            return made["torch._utils"], (Storage(self.key, self.x.size), 0, self.x.shape, strides, False, collections.OrderedDict())

    class Storage:
        def __init__(self, key, n):
            self.key, self.n = key, n

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return ("storage", made["torch"], obj.key, "cpu", obj.n) if isinstance(obj, Storage) else None

    try:
        for m, n in names.items():
            sys.modules[m] = types.ModuleType(m)
            setattr(sys.modules[m], n, made[m])
        arrays = {k: np.ascontiguousarray(v, "f4") for k, v in state.items()}
        data = io.BytesIO()
        Pickler(data, 2).dump({k: Tensor(str(i), v) for i, (k, v) in enumerate(arrays.items())})
    finally:
        for m, was in before.items():
            if was is None:
                del sys.modules[m]
            else:
                sys.modules[m] = was
    out = io.BytesIO()
    pack(out, {"final/data.pkl": data.getvalue(), "final/version": "3\n",
               **{f"final/data/{i}": v.tobytes() for i, v in enumerate(arrays.values())}})
    return out.getvalue()


def equal_to_the_export_of_the_zoo(d):
    """A checkpoint out of an export of WeNet's own modules: the converted network against that export."""
    model = onnx.load(f"{ZOO}/model.onnx")
    tokens = open(f"{ZOO}/tokens.txt", encoding="utf-8").read()
    conf = """encoder: conformer
encoder_conf: {output_size: 16, attention_heads: 2, linear_units: 32, num_blocks: 3, cnn_module_kernel: 8, causal: true,
  use_dynamic_chunk: true, cnn_module_norm: layer_norm}
decoder: transformer
decoder_conf: {attention_heads: 2, linear_units: 32, num_blocks: 1}
input_dim: 80
output_dim: 59
"""
    checkpoint = pack(f"{d}/zoo.zip", {"train.yaml": conf, "final.pt": save_state(state_of_export(model)), "units.txt": tokens})
    converted(checkpoint, f"{d}/m", "--layout", "sherpa")
    ours_too = onnx.load(f"{d}/m/model-streaming.onnx")  # the zoo's table of positions has noise, as its weights have
    tables = [i for i in ours_too.graph.initializer if list(i.dims) == [1, 5000, 16]]
    assert len(tables) == 1
    tables[0].raw_data = onnx.numpy_helper.to_array(next(i for i in model.graph.initializer if i.name == "t65")).tobytes()
    onnx.save(ours_too, f"{d}/m/model-streaming.onnx")
    meta, ref = metadata(f"{d}/m/model-streaming.onnx"), metadata(f"{ZOO}/model.onnx")
    assert meta == ref, (meta, ref)
    want = np.load(f"{ZOO}/ref.npz")
    x = want["feats_x32768"][None]
    recorded = (np.concatenate([want[f"log_probs_{i}"] for i in range(6)], 1), want["next_att_cache_last"], want["next_conv_cache_last"])
    names = ("x", "attn_cache", "conv_cache", "attn_mask")
    for path in (f"{d}/m/model-streaming.onnx", f"{ZOO}/model.onnx"):
        differences = {}
        for key, got, known in zip(("scores", "attention cache", "convolution cache"), chunks(ort(path), meta, names, False, x, 4, 6), recorded):
            compare(path, differences, key, got, known)
        print("#", path.split("/")[-2], ", ".join(f"{k} {v:.1e}" for k, v in differences.items()))
    for name in ("beckett", "two_cities_16k"):
        texts = [steno("transcribe", "--precision", "fp32", "--model", m, f"{SHARED}/audio/speech/{name}.wav")[0] for m in (f"{d}/m", ZOO)]
        assert texts[0] == texts[1] and texts[0].strip(), texts


def written_directories_are_served(d):
    steno("convert", f"{DATA}/wenet-u2pp.zip", "-o", f"{d}/s", "--layout", "sherpa")
    info = steno("model", "info", f"{d}/s")[0]
    assert "640 ms" in info and "attention  4 chunks back" in info, info
    streamed = steno("transcribe", "--model", f"{d}/s", RECORDING)[0]
    assert streamed.strip(), streamed
    steno("convert", f"{DATA}/wenet-offline.zip", "-o", f"{d}/w", "--layout", "sherpa")
    assert "whole segments" in steno("model", "info", f"{d}/w")[0]
    assert steno("transcribe", "--model", f"{d}/w", RECORDING)[0].strip()


def a_directory_does_as_well(d):
    os.mkdir(f"{d}/in")
    for name, value in members("wenet-u2pp").items():
        with open(f"{d}/in/{'lang_char.txt' if name == 'units.txt' else name.replace('final', 'avg_30')}", "wb") as f:
            f.write(value)
    with open(f"{d}/in/train_bpe.model", "wb") as f:
        f.write(b"pieces")
    steno("convert", f"{d}/in", "-o", f"{d}/a")
    steno("convert", f"{DATA}/wenet-u2pp.zip", "-o", f"{d}/b")
    for n in ("encoder.onnx", "ctc.onnx", "decoder.onnx", "units.txt"):
        a, b = (open(f"{d}/{x}/{n}", "rb").read() for x in "ab")
        assert a == b, n
    assert open(f"{d}/a/bpe.model", "rb").read() == b"pieces"


def bad_configurations_are_named(d):
    def refuse(name, old, new, part, code=65, file="train.yaml"):
        base = members(name)
        changed = base[file].decode()
        assert old in changed, old
        refused(d, base | {file: changed.replace(old, new)}, part, code)
        assert not os.path.exists(f"{d}/out/units.txt")

    u = "wenet-u2pp"
    refuse(u, "encoder: conformer", "encoder: squeezeformer", "encoder: squeezeformer; known: conformer|transformer")
    refuse(u, "decoder: bitransformer", "decoder: rnn", "known: transformer|bitransformer")
    refuse(u, "num_blocks: 2", "num_blocks: 3", "'encoder.encoders.2.norm_ff_macaron.weight' is missing")
    refuse(u, "num_blocks: 2", "num_blocks: 1", "more than the 1 blocks of encoder_conf.num_blocks")
    refuse(u, "output_size: 8", "output_size: 10", "is [8,1,3,3], encoder_conf asks for [10,1,3,3]")
    refuse(u, "causal: true", "magic: true", "encoder_conf.magic is not known")
    refuse(u, "rel_pos", "rope_pos", "pos_enc_layer_type: rope_pos; known: rel_pos|abs_pos|no_pos")
    refuse(u, "pos_enc_layer_type: rel_pos", "pos_enc_layer_type: abs_pos", "relative attention with")
    refuse("wenet-transformer", "input_layer: conv2d6", "input_layer: conv1d2", "known: conv2d|conv2d6|conv2d8|linear")
    refuse(u, "cnn_module_norm: layer_norm", "cnn_module_norm: rms_norm", "known: batch_norm|layer_norm")
    refuse(u, "r_num_blocks: 1", "src_attention: false", "src_attention: false; known: true")
    refuse(u, "input_dim: 80", "predictor: rnn", "predictor: a model with this")
    refuse(u, "input_dim: 80", "input_dim: 40", "input_dim: 40; known: 80")
    refuse(u, "output_dim: 31", "output_dim: 30", "31 tokens, train.yaml's output_dim is 30")
    refuse(u, "A 3\n", "A 77\n", "the highest id is 77", file="units.txt")
    refuse(u, "A 3\n", "A\n", "line 4: expected a token and its id", file="units.txt")
    refuse(u, "<blank>", "<blk>", "<blank> is -1", file="units.txt")
    refuse("wenet-transformer", "frame_num", "frames", "frame_num is no number", file="global_cmvn")
    refuse("wenet-offline", " 0 ]", " 0", "and ]", file="global_cmvn")
    refuse("wenet-offline", "[", "(", "neither JSON nor", file="global_cmvn")
    base = members("wenet-transformer")
    refused(d, {k: v for k, v in base.items() if k != "global_cmvn"}, "global_cmvn is missing", 74)
    refused(d, {k: v for k, v in base.items() if k != "units.txt"}, "the tokens are missing", 74)
    refused(d, base | {"final.pt": base["final.pt"][:5000]}, "final.pt", 65)


def flags_that_do_not_fit_are_named(d):
    def no(name, part, *args):
        err = steno("convert", f"{DATA}/{name}.zip", "-o", f"{d}/out", *args, want=64)[1]
        assert part in err, err

    no("wenet-u2pp", "expected sherpa or wenet", "--layout", "k2")
    no("wenet-u2pp", "a chunk has frames", "--chunk-size", "0")
    no("wenet-u2pp", "expected -1 to 1024", "--chunk-size", "many")
    no("wenet-u2pp", "at least one", "--layout", "sherpa", "--left-chunks", "0")
    no("wenet-u2pp", "has no chunks before it", "--chunk-size", "-1", "--left-chunks", "2")
    no("wenet-offline", "the model does not stream", "--chunk-size", "16")
    steno("convert", f"{DATA}/wenet-u2pp.zip", "-o", f"{d}/a", "--chunk-size", "8", "--left-chunks", "2")
    assert "320 ms" in steno("model", "info", f"{d}/a")[0]


TESTS = [equal_in_onnx_runtime, equal_in_steno, equal_to_the_export_of_the_zoo, written_directories_are_served, a_directory_does_as_well,
         bad_configurations_are_named, flags_that_do_not_fit_are_named]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS, {} if os.path.exists(ZOO) else {equal_to_the_export_of_the_zoo: f"{ZOO} is not there"}))
