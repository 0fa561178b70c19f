"""Canary in onnx-asr's layout: its inputs and outputs (onnx_asr/models/nemo.py) around the networks of
../shared/zoo/tiny/nemo-canary, which decode the same then. TAP."""
import json
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, ROOT, SHARED, Stenod, case, tap

STENO = os.path.join(BUILD, "steno")
ZOO = os.path.join(SHARED, "zoo", "tiny", "nemo-canary")
JFK = os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")
LAYERS, HIDDEN = 4, 32


def wrap(d, suffix=""):
    """Write encoder-model and decoder-model. The decoder takes one token at a time: the zoo's does."""
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper

    def value(name, t, shape):
        return helper.make_tensor_value_info(name, t, shape)

    def save(model, name, inputs, before, outputs, after):
        g = model.graph
        g.node.extend(after)
        for i, n in enumerate(before):
            g.node.insert(i, n)
        del g.input[:], g.output[:]
        g.input.extend(inputs)
        g.output.extend(outputs)
        del model.metadata_props[:]
        g.initializer.extend([numpy_helper.from_array(np.array([2]), "two"), numpy_helper.from_array(np.array([0]), "none"),
                              numpy_helper.from_array(np.array([1, 1]), "ones")])
        onnx.save(model, os.path.join(d, f"{name}{suffix}.onnx"))

    node = helper.make_node
    save(onnx.load(os.path.join(ZOO, f"encoder{suffix}.onnx")), "encoder-model",
         [value("audio_signal", T.FLOAT, ["N", 128, "T"]), value("length", T.INT64, ["N"])],
         [node("Transpose", ["audio_signal"], ["x"], perm=[0, 2, 1]), node("Identity", ["length"], ["x_len"])],
         [value("encoder_embeddings", T.FLOAT, ["N", "U", HIDDEN]), value("encoder_mask", T.INT64, ["N", "U"])],
         [node("Identity", ["enc_states"], ["encoder_embeddings"]), node("Cast", ["enc_mask"], ["encoder_mask"], to=T.INT64)])
    layers = range(LAYERS)
    save(onnx.load(os.path.join(ZOO, f"decoder{suffix}.onnx")), "decoder-model",
         [value("input_ids", T.INT64, ["N", 1]), value("encoder_embeddings", T.FLOAT, ["N", "U", HIDDEN]),
          value("encoder_mask", T.INT64, ["N", "U"]), value("decoder_mems", T.FLOAT, [LAYERS, "N", "P", HIDDEN])],
         [node("Shape", ["decoder_mems"], ["mems_shape"]), node("Gather", ["mems_shape", "two"], ["past"]),
          node("Reshape", ["past", "ones"], ["position"]), node("Concat", ["input_ids", "position"], ["pair"], axis=1),
          node("Cast", ["pair"], ["decoder_input_ids"], to=T.INT32), node("Cast", ["encoder_mask"], ["enc_mask"], to=T.BOOL),
          node("Identity", ["encoder_embeddings"], ["enc_states"]),
          node("Split", ["decoder_mems"], [f"mem_{i}" for i in layers], axis=0),
          *(node("Squeeze", [f"mem_{i}", "none"], [f"decoder_mems_list_{i}"]) for i in layers)],
         [value("logits", T.FLOAT, ["N", 1, "V"]), value("decoder_hidden_states", T.FLOAT, [LAYERS, "N", "Q", HIDDEN])],
         [*(node("Unsqueeze", [f"next_decoder_mem_list_{i}", "none"], [f"next_{i}"]) for i in layers),
          node("Concat", [f"next_{i}" for i in layers], ["decoder_hidden_states"], axis=0)])


def make(d, suffix=""):
    wrap(d, suffix)
    with open(os.path.join(ZOO, "tokens.txt"), encoding="utf-8") as f, open(os.path.join(d, "vocab.txt"), "w", encoding="utf-8") as t:
        t.write(f.read())
    with open(os.path.join(d, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"model_type": "nemo-conformer-aed", "features_size": 128, "subsampling_factor": 8,
                   "max_sequence_length": 1024}, f)


def transcribed(model, *args):
    r = subprocess.run([STENO, "transcribe", "--model", model, "--frontend", "sherpa", *args, JFK], capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


@case
def both_layouts_decode_the_same(_):
    for suffix in ("", ".int8"):
        with tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as sherpa:
            make(d, suffix)
            for name in (f"encoder{suffix}.onnx", f"decoder{suffix}.onnx", "tokens.txt"):
                os.symlink(os.path.join(ZOO, name), os.path.join(sherpa, name))
            for args in ((), ("--language", "de", "--target-language", "en"), ("--target-language", "fr")):
                args += ("--precision", "fp32")  # rounds as the files say: another order of the nodes changes nothing
                want = transcribed(sherpa, *args)
                assert len(want) > 100 and transcribed(d, *args) == want, (suffix, args, want)
            info = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=True).stdout
            assert "Canary" in info and "en" in info, info


@case
def uploads_share_runs_and_give_the_same(_):
    with tempfile.TemporaryDirectory() as d, open(JFK, "rb") as f:
        make(d)
        want, wav = transcribed(d).split(), f.read()
        assert len(want) > 10, want
        with Stenod(f"model.dir={d}", "model.frontend=sherpa") as s:
            status, _, body = s.request("POST", "/v1/transcribe", wav, {"Content-Type": "audio/wav"})
            assert status == 200 and json.loads(body)["text"].split() == want, body


@case
def what_contradicts_is_named(_):
    with tempfile.TemporaryDirectory() as d:
        make(d)
        os.remove(os.path.join(d, "decoder-model.onnx"))
        os.symlink(os.path.join(ZOO, "encoder.onnx"), os.path.join(d, "decoder-model.onnx"))
        r = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=False)
        assert r.returncode and "decoder-model.onnx" in r.stderr and "encoder_embeddings" in r.stderr, r.stderr


if __name__ == "__main__":
    try:
        import onnx  # noqa: F401
    except ImportError:
        print("1..0 # SKIP the package onnx is not there")
        sys.exit(0)
    if not os.path.isdir(ZOO):
        print("1..0 # SKIP ../shared/zoo/tiny is not there")
        sys.exit(0)
    sys.exit(tap(None))
