"""steno convert of the networks that tell speakers apart: pyannote's and CAM++'s checkpoints against recorded ONNX files
(../shared/speakers) and, small ones of other sizes, ONNX Runtime against the engine; bad input. TAP."""
import os
import sys
import tempfile

import numpy as np
import onnx
import soundfile
from daemon import SHARED, case, need, tap
from test_convert import ort, ours, steno
from test_models import ROOT
from torch_file import Call, Repeated, save

sys.path.insert(0, os.path.join(ROOT, "tests/convert"))
from seeded import normal, weight  # noqa: E402

TMP = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with # until the end
SPEAKERS = os.path.join(SHARED, "speakers")
PYANNOTE = "models/pyannote-segmentation-3.0/"
CAMPPLUS = "models/campplus-zh-en-common-advanced/model.onnx"
META = {"model_type": "pyannote-segmentation-3.0", "sample_rate": "16000", "window_size": "32000", "num_speakers": "3",
        "powerset_max_classes": "2", "num_classes": "7", "receptive_field_size": "747", "receptive_field_shift": "270"}  # fmt: skip


class Built(Call):
    """An object with attributes."""
    def __init__(self, where, name, state):
        super().__init__(where, name)
        self.state = state

    def __reduce__(self):
        return (*self.call, self.state)


def seeded(shapes):
    return {n: weight(n, s) for n, s in shapes.items()}


def pyannote(**more):
    """A PyanNet of few units; more: weights."""
    first, shapes = "sincnet.conv1d.0.filterbank.", {"sincnet.wav_norm1d.weight": (1,), "sincnet.wav_norm1d.bias": (1,)}
    for i, (out, into) in enumerate(((4, 0), (3, 4), (5, 3))):
        shapes |= {f"sincnet.norm1d.{i}.{role}": (out,) for role in ("weight", "bias")}
        if into:
            shapes |= {f"sincnet.conv1d.{i}.weight": (out, into, 5), f"sincnet.conv1d.{i}.bias": (out,)}
    for i, way in ((i, way) for i in range(2) for way in ("", "_reverse")):
        shapes |= {f"lstm.weight_ih_l{i}{way}": (24, 12 if i else 5), f"lstm.weight_hh_l{i}{way}": (24, 6),
                   f"lstm.bias_ih_l{i}{way}": (24,), f"lstm.bias_hh_l{i}{way}": (24,)}  # fmt: skip
    shapes |= {"linear.0.weight": (8, 12), "linear.0.bias": (8,), "classifier.weight": (7, 8), "classifier.bias": (7,)}
    state = seeded(shapes) | {first + "low_hz_": np.array([[100], [900]], "f4"), first + "band_hz_": np.array([[200], [-9000]], "f4"),
                              first + "n_": (2 * np.pi * np.arange(-3, 0)[None] / 16000).astype("f4"),
                              first + "window_": np.hamming(7)[:3].astype("f4")}  # fmt: skip
    return state | more


def task(**more):
    return {"classes": ["a", "b", "c"], "powerset_max_classes": 2, "duration": 2.0, "problem": Call("pyannote.audio.core.task", "Problem", 1), **more}


def trained(state, sizes=None, **about):
    """As PyTorch Lightning wraps it."""
    hyper = {"sample_rate": 16000, "sincnet": {"stride": 10}} if sizes is None else sizes
    return {"state_dict": state, "hyper_parameters": hyper, "pyannote.audio": {
        "versions": {"torch": Call("torch.torch_version", "TorchVersion", "2.0")},
        "specifications": Built("pyannote.audio.core.task", "Specifications", task(**about))}}  # fmt: skip


def norms(name, d, affine=True):
    return {f"{name}.{role}": (d,) for role in ("weight", "bias", "running_mean", "running_var")[0 if affine else 2 :]}


def campplus(**more):
    """A CAM++ of few columns, with one layer or two in a block."""
    shapes = {"head.conv1.weight": (2, 1, 3, 3), "head.conv2.weight": (2, 2, 3, 3)} | norms("head.bn1", 2) | norms("head.bn2", 2)
    for name in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        for i in (1, 2):
            shapes |= {f"head.{name}.conv{i}.weight": (2, 2, 3, 3)} | norms(f"head.{name}.bn{i}", 2)
        if name.endswith("0"):
            shapes |= {f"head.{name}.shortcut.0.weight": (2, 2, 1, 1)} | norms(f"head.{name}.shortcut.1", 2)
    shapes |= {"xvector.tdnn.linear.weight": (6, 20, 5)} | norms("xvector.tdnn.nonlinear.batchnorm", 6)
    d = 6
    for block, layers in ((1, 2), (2, 1), (3, 1)):
        for i in range(1, layers + 1):
            at = f"xvector.block{block}.tdnnd{i}."
            shapes |= norms(at + "nonlinear1.batchnorm", d) | norms(at + "nonlinear2.batchnorm", 5)
            shapes |= {at + "linear1.weight": (5, d, 1), at + "cam_layer.linear_local.weight": (4, 5, 3),
                       at + "cam_layer.linear1.weight": (3, 5, 1), at + "cam_layer.linear1.bias": (3,),
                       at + "cam_layer.linear2.weight": (4, 3, 1), at + "cam_layer.linear2.bias": (4,)}  # fmt: skip
            d += 4
        shapes |= norms(f"xvector.transit{block}.nonlinear.batchnorm", d) | {f"xvector.transit{block}.linear.weight": (d // 2, d, 1)}
        d //= 2
    shapes |= norms("xvector.out_nonlinear.batchnorm", d) | norms("xvector.dense.nonlinear.batchnorm", 7, affine=False)
    shapes |= {"xvector.dense.linear.weight": (7, 2 * d, 1)}
    return seeded(shapes) | {"head.bn1.num_batches_tracked": np.array(7)} | more


def folder(name):
    d = os.path.join(TMP.name, name)
    os.makedirs(d, exist_ok=True)
    return d


def converted(name, content):
    d = folder(name)
    save(f"{d}/x.pt", content)
    said = steno("convert", f"{d}/x.pt", "-o", f"{d}/out")[0]
    assert "speaker networks" in said, said
    made = os.listdir(f"{d}/out")
    assert len(made) == 1, made
    model = onnx.load(f"{d}/out/{made[0]}")
    onnx.checker.check_model(model, full_check=True)
    return f"{d}/out/{made[0]}", {m.key: m.value for m in model.metadata_props}


def same(path, feeds):
    d = folder("run")
    for x in feeds:
        want, got = ort(path)({"x": x})[0], ours(d)(path)({"x": x})[0]
        assert want.shape == got.shape and np.isfinite(want).all() and abs(want - got).max() < 1e-4, abs(want - got).max()


@case
def networks_of_other_sizes_are_made():
    path, meta = converted("small-segmentation", trained(pyannote()))
    assert meta.items() >= META.items(), meta
    same(path, [normal(1, 1, 1, 32000), normal(2, 2, 1, 5000)])
    assert ort(path)({"x": normal(1, 1, 1, 32000)})[0].shape == (1, 116, 7)
    path, meta = converted("small-embedding", campplus())
    assert meta["framework"] == "3d-speaker" and meta["output_dim"] == "7" and meta["feature_normalize_type"] == "global-mean", meta
    same(path, [normal(t, 1, t, 80) for t in (40, 199, 200, 201, 437)])


@case
def the_published_segmentation_network_is_the_recorded_one():
    pt = need(os.path.join(SPEAKERS, PYANNOTE, "pytorch_model.bin"))
    d = folder("pyannote")
    steno("convert", os.path.dirname(pt), "-o", d)
    assert os.listdir(d) == ["segmentation.onnx"]
    recorded = np.load(os.path.join(SPEAKERS, "refs/segmentation.npz"))
    theirs = {m.key: m.value for m in onnx.load(os.path.join(SPEAKERS, PYANNOTE, "model.onnx")).metadata_props}
    meta = {m.key: m.value for m in onnx.load(f"{d}/segmentation.onnx").metadata_props}
    assert meta.items() <= theirs.items() and meta.keys() >= META.keys(), meta
    for key in recorded:
        name, first = key.rsplit("_", 1)
        pcm = soundfile.read(os.path.join(SPEAKERS, f"recordings/{name}.flac"), dtype="float32")[0]
        x = np.pad(pcm[int(first) :], (0, 160000))[None, None, :160000]
        off = abs(ort(f"{d}/segmentation.onnx")({"x": x})[0][0] - recorded[key]).max()
        assert off < 1e-5, (key, off)


@case
def campplus_is_the_recorded_network():
    """Its checkpoint is in no repository: made of the recorded network's weights, which have their PyTorch names."""
    theirs = need(os.path.join(SPEAKERS, CAMPPLUS))
    state = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(theirs).graph.initializer
             if "." in i.name and not i.name.startswith("xvector.dense.nonlinear.batchnorm.") or "dense" in i.name and "running" in i.name}  # fmt: skip
    path, meta = converted("campplus", state)
    assert meta["output_dim"] == "192" and meta["sample_rate"] == "16000" and meta["normalize_samples"] == "0", meta
    x = np.load(os.path.join(SPEAKERS, "refs/embeddings.npz"))
    for feed in (x["input_0"][None], normal(3, 1, 431, 80)):
        off = abs(ort(path)({"x": feed})[0] - ort(theirs)({"x": feed})[0]).max()
        assert off < 1e-5, off


@case
def a_directory_with_both_gives_both():
    d = folder("both")
    save(f"{d}/pytorch_model.bin", trained(pyannote()))
    save(f"{d}/voice.pt", campplus())
    with open(f"{d}/notes.pt", "w", encoding="utf-8") as f:
        f.write("none of ours")
    steno("convert", d, "-o", f"{d}/out")
    assert sorted(os.listdir(f"{d}/out")) == ["embedding.onnx", "segmentation.onnx"]
    save(f"{d}/other.ckpt", trained(pyannote()))
    err = steno("convert", d, "-o", f"{d}/out", want=64)[1]
    assert "pytorch_model.bin is a second checkpoint of its kind" in err or "other.ckpt is a second" in err, err
    err = steno("convert", f"{d}/voice.pt", "-o", f"{d}/out", "--chunk-size", "4", want=64)[1]
    assert "speaker networks take no such option" in err, err


@case
def bad_checkpoints_are_named():
    d = folder("bad")

    def refused(part, content, code=65):
        save(f"{d}/x.pt", content)
        err = steno("convert", f"{d}/x.pt", "-o", f"{d}/out", want=code)[1]
        assert part in err and "x.pt" in err, f"'{err.strip()}' without '{part}'"

    filters, layer = "sincnet.conv1d.0.filterbank.", "xvector.block1.tdnnd1."
    refused("'state_dict.linear.0.bias' is missing", trained({n: x for n, x in pyannote().items() if n != "linear.0.bias"}))
    refused("'state_dict.lstm.weight_hh_l0' is missing or has another shape", trained({n: x for n, x in pyannote().items() if "_hh_l0" not in n}))
    refused("asks for [7,8]", trained(pyannote(**{"classifier.weight": weight("c", (6, 8))})))
    refused("'state_dict.extra.weight' is no weight of a PyanNet", trained(pyannote(**{"extra.weight": weight("e", (3, 3))})))
    refused("n_' is missing or has another shape", trained(pyannote(**{filters + "n_": weight("n", (3,))})))
    refused("n_' is [2,3]", trained(pyannote(**{filters + "n_": weight("n", (2, 3))})))
    refused("low_hz_' is missing or", trained(pyannote(**{filters + "low_hz_": np.zeros((0, 1), "f4")})))
    refused("low_hz_' is missing or", trained(pyannote(**{filters + "low_hz_": Repeated(np.zeros((1 << 20, 1), "f4"))})))
    refused("repeats its elements", trained(pyannote(**{filters + "low_hz_": Repeated(np.zeros((2, 1), "f4"))})))
    refused("hyper_parameters.sincnet.stride is no number from 1 to 1000", trained(pyannote(), {"sample_rate": 16000, "sincnet": {"stride": 0}}))
    refused("hyper_parameters.sample_rate is no number", trained(pyannote(), {"sincnet": {"stride": 10}}))
    refused("specifications.classes does not name 1 to 8 speakers", trained(pyannote(), classes=[]))
    refused("specifications.classes does not name 1 to 8 speakers", trained(pyannote(), classes=list("abcdefghi")))
    refused("powerset_max_classes is no number from 1 to 3", trained(pyannote(), powerset_max_classes=4))
    refused("duration is no number from 1 to 60", trained(pyannote(), duration=float("nan")))
    refused("duration is no number from 1 to 60", trained(pyannote(), duration=1e300))
    refused("asks for [4,8]", trained(pyannote(), powerset_max_classes=1))
    refused("'head.bn2.running_var' is missing", {n: x for n, x in campplus().items() if n != "head.bn2.running_var"})
    refused("'xvector.block3.tdnnd1.linear1.weight' is missing or has", {n: x for n, x in campplus().items() if "block3.tdnnd1.linear1" not in n})
    refused("is no weight of a CAM++", campplus(**{"xvector.block1.tdnnd4.linear1.weight": weight("l", (5, 14, 1))}))
    refused(layer + "linear1.weight' is [5,7,1]", campplus(**{layer + "linear1.weight": weight("l", (5, 7, 1))}))
    refused("can be converted", {n: x for n, x in campplus().items() if n != layer + "cam_layer.linear1.weight"})
    refused("posix.system", trained(pyannote(), more=Call("posix", "system", "true")))
    refused("attributes that are no dictionary", {**trained(pyannote()), "pyannote.audio": {
        "specifications": Built("pyannote.audio.core.task", "Specifications", (1, 2))}})  # fmt: skip


@case
def files_that_are_cut_short_are_refused():
    d = folder("cut")
    save(f"{d}/whole.pt", trained(pyannote()))
    with open(f"{d}/whole.pt", "rb") as f:
        whole = f.read()
    for n in (1, 900, len(whole) // 2, len(whole) - 1):
        with open(f"{d}/x.pt", "wb") as f:
            f.write(whole[:n])
        steno("convert", f"{d}/x.pt", "-o", f"{d}/out", want=65)


if __name__ == "__main__":
    sys.exit(tap())
