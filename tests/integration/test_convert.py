"""steno convert: networks against recorded outputs of ESPnet's PyTorch modules (tests/data/convert), and bad input. TAP."""
import functools
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
from daemon import SAN, SLOW, run_in_folders
from test_models import ROOT, STENO

DATA = os.path.join(ROOT, "tests/data/convert")
RECORDING = os.path.join(ROOT, "tests/data/speech/jfk.wav")
MODELS = ("conformer", "conformer-legacy", "transformer-linear")
NETWORKS = ("default_encoder", "ctc", "xformer_decoder", "transformer_lm")


def steno(*args, want=0):
    p = subprocess.run([STENO, *args], capture_output=True, text=True, timeout=300 * SLOW, check=False)
    assert p.returncode == want, f"steno {' '.join(args)}: exit {p.returncode}, expected {want}: {p.stderr.strip()}"
    return p.stdout, p.stderr


@functools.lru_cache(4)
def session(path, made):  # pylint: disable=unused-argument # a file may be written again
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait busily for these small networks
    return onnxruntime.InferenceSession(path, options)


def ort(path):
    return lambda feed: session(path, os.stat(path).st_mtime_ns).run(None, feed)


def ours(d):
    """The same with `steno run`."""
    def run(path):
        count = len(onnx.load(path, load_external_data=False).graph.output)

        def call(feed):
            args = []
            for name, value in feed.items():
                np.save(f"{d}/{name}.npy", value)
                args += ["--input", f"{name}={d}/{name}.npy"]
            steno("run", path, *args, "--output-dir", d)
            return [np.load(f"{d}/{i}.npy") for i in range(count)]
        return call
    return run


def steps(run, layers, width, ids, rows, **more):
    """Scores of growing prefixes; the cache begins with `rows` rows of zeros."""
    cache, out = [np.zeros((len(ids), rows, width), "f4")] * layers, []
    for n in range(1, ids.shape[1] + 1):
        y, *cache = run({"tgt": ids[:, :n], **more, **{f"cache_{i}": c for i, c in enumerate(cache)}})
        out.append(y)
    return np.stack(out)


def log_softmax(y):
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


def networks(d, name, engine):
    out, want = f"{d}/{name}", np.load(f"{DATA}/{name}.npz")
    said = steno("convert", f"{DATA}/{name}.zip", "-o", out)[0]
    assert "ESPnet2" in said, said
    present = [n for n in NETWORKS if os.path.exists(f"{out}/full/{n}.onnx")]
    assert present == list(NETWORKS[: 4 if "lm" in want else 3]), present
    for n in present:
        onnx.checker.check_model(f"{out}/full/{n}.onnx", full_check=True)
    path, got = f"{out}/full/%s.onnx", {}
    for t in (27, 100):
        got[f"encoder.{t}"], length = engine(path % "default_encoder")({"feats": want[f"feats.{t}"]})
        assert length == [want[f"encoder.{t}"].shape[1]], length
    got["ctc"] = engine(path % "ctc")({"x": want["encoder.100"]})[0]
    memory = np.repeat(want["encoder.100"], 2, 0)
    got["decoder"] = steps(engine(path % "xformer_decoder"), 2, 8, want["ids"], 1, memory=memory)
    if "lm" in want:
        got["lm"] = log_softmax(steps(engine(path % "transformer_lm"), 1, 8, want["ids"], 0))
    for key, value in got.items():
        difference = np.abs(value - want[key]).max()
        assert difference < 1e-4, f"{name}: {key} differs by {difference}"


def equal_in_onnx_runtime(d):
    for name in MODELS:
        networks(d, name, ort)


def equal_in_steno(d):
    os.mkdir(f"{d}/arrays")
    for name in MODELS:
        networks(d, name, ours(f"{d}/arrays"))


def a_written_directory_is_served(d):
    steno("convert", f"{DATA}/conformer.zip", "-o", f"{d}/m")
    info = steno("model", "info", f"{d}/m")[0]
    assert "decoder one token, lm one token" in info and "20 mel bins" in info, info
    steno("transcribe", "--model", f"{d}/m", RECORDING)
    stats = np.load(f"{d}/m/feats_stats.npz")
    assert stats["count"] == 1 and stats["sum"].shape == (20,), dict(stats)
    mean = stats["sum"] / stats["count"]
    assert (stats["sum_square"] - mean**2 > 0.99).all()


def members(name):
    with zipfile.ZipFile(f"{DATA}/{name}.zip") as z:
        return {n: z.read(n) for n in z.namelist()}


def pack(path, content):
    with zipfile.ZipFile(path, "w") as z:
        for name, value in content.items():
            z.writestr(name, value)
    return path


def a_directory_does_as_well(d):
    content = members("transformer-linear")
    for name, value in content.items():
        os.makedirs(os.path.dirname(f"{d}/in/{name}") or f"{d}/in", exist_ok=True)
        with open(f"{d}/in/{name}", "wb") as f:
            f.write(value)
    steno("convert", f"{d}/in", "-o", f"{d}/a")
    steno("convert", f"{d}/in/exp/asr", "-o", f"{d}/b")  # without meta.yaml: config.yaml and one *.pth
    steno("convert", f"{DATA}/transformer-linear.zip", "-o", f"{d}/c")
    for n in ("config.yaml", "feats_stats.npz", *(f"full/{x}.onnx" for x in NETWORKS[:3])):
        a, b, c = (open(f"{d}/{x}/{n}", "rb").read() for x in "abc")
        assert a == b == c, n


def refused(d, content, part, code):
    err = steno("convert", pack(f"{d}/bad.zip", content), "-o", f"{d}/out", want=code)[1]
    assert part in err, f"'{err.strip()}' without '{part}'"
    assert not os.path.exists(f"{d}/out/config.yaml")


def changing(base, path="exp/asr/config.yaml"):
    """The members of a packed model with another text in one of them: a function of old and new."""
    def change(old, new):
        text = base[path].decode()
        assert old in text, old
        return base | {path: text.replace(old, new)}
    return change


def bad_configurations_are_named(d):
    base = members("conformer")
    asr = changing(base)
    refused(d, asr("encoder: conformer", "encoder: multiconvformer"), "known: transformer, conformer, longformer", 65)
    refused(d, asr("decoder: transformer", "decoder: mlm"), "decoder: mlm; known: transformer", 65)
    refused(d, asr("num_blocks: 2", "num_blocks: 3"), "is missing: encoder_conf asks for it", 65)
    refused(d, asr("num_blocks: 2", "num_blocks: 1"), "more than the 1 blocks", 65)
    refused(d, asr("output_size: 8", "output_size: 10"), "[8,1,3,3], encoder_conf asks for [10,1,3,3]", 65)
    refused(d, asr("macaron_style: true", "magic: true"), "encoder_conf.magic is not known", 65)
    refused(d, asr("- A\n", ""), "token_list asks for", 65)
    refused(d, asr("n_mels: 20", "n_mels: 40"), "asks for", 65)
    refused(d, {k: v for k, v in base.items() if "lm" not in k}, "is missing", 74)
    refused(d, {"readme": "x"}, "known are ESPnet2 models", 65)


def hostile_archives_are_refused(d):
    base = members("conformer")
    pth = "exp/asr/valid.acc.ave.pth"
    with zipfile.ZipFile(io.BytesIO(base[pth])) as z:
        inner = {n: z.read(n) for n in z.namelist()}
    evil = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
    name = next(n for n in inner if n.endswith("data.pkl"))
    b = io.BytesIO()
    pack(b, inner | {name: evil})
    refused(d, base | {pth: b.getvalue()}, "names os.system", 65)
    for cut in (1, 100, len(base[pth]) // 2, len(base[pth]) - 1):
        refused(d, base | {pth: base[pth][:cut]}, pth, 65)
    climbing = base | {"meta.yaml": base["meta.yaml"].decode().replace(pth, "../../../etc/passwd")}
    refused(d, climbing, "passwd is missing", 74)
    whole = open(f"{DATA}/conformer.zip", "rb").read()
    for cut in range(0, len(whole), 997):
        with open(f"{d}/cut.zip", "wb") as f:
            f.write(whole[:cut])
        steno("convert", f"{d}/cut.zip", "-o", f"{d}/out", want=65)


TESTS = [equal_in_onnx_runtime, equal_in_steno, a_written_directory_is_served, a_directory_does_as_well,
         bad_configurations_are_named, hostile_archives_are_refused]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS, {equal_in_onnx_runtime: "the plain build compares"} if SAN else {}))
