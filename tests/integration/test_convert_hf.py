"""steno convert of Hugging Face's checkpoints: networks and texts against what transformers computed (tests/data/convert), and bad input. TAP."""
import json
import os
import struct
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
from daemon import run_in_folders
from test_convert import DATA, ours, pack, steno

CTC = ("wav2vec2", "wav2vec2-stable", "hubert-batchnorm", "wavlm", "data2vec")
MOONSHINE = ("moonshine", "moonshine-old")
LENGTHS = (16000, 9001, 4000)


def chirp(n):
    """As tests/convert/hf_checkpoint.py."""
    t = np.arange(n) / 16000
    return (0.3 * np.sin(2 * np.pi * (150 + 900 * t) * t) + 0.2 * np.sin(11 * t) * np.sin(4000 * t)).astype("f4")


def wav(path, x):
    """In f32: no rounding."""
    d = x.astype("<f4").tobytes()
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", 36 + len(d)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, 16000, 64000, 4, 32))
        f.write(b"data" + struct.pack("<I", len(d)) + d)
    return path


def convert(name, d, *args):
    said = steno("convert", f"{DATA}/{name}.zip", "-o", f"{d}/{name}", *args)[0]
    assert "Hugging Face" in said, said
    return f"{d}/{name}"


def normalized(x, name):
    return x if "stable" in name else ((x - x.mean()) / np.sqrt(x.var() + 1e-7)).astype("f4")


def scores_are_those_of_transformers(d):
    os.mkdir(f"{d}/arrays")
    for name in CTC:
        model, want = f"{convert(name, d)}/model.onnx", np.load(f"{DATA}/{name}.npz")
        onnx.checker.check_model(model, full_check=True)
        session = onnxruntime.InferenceSession(model)
        for n in LENGTHS:
            feed = {"input_values": normalized(chirp(n), name)[None]}
            for who, y in (("ONNX Runtime", session.run(None, feed)[0]), ("steno", ours(f"{d}/arrays")(model)(feed)[0])):
                assert y.shape == want[f"y.{n}"].shape, (name, n, who, y.shape)
                difference = np.abs(y - want[f"y.{n}"]).max()
                assert difference < 1e-4, f"{name}, {n} samples, {who}: {difference}"


def texts_are_those_of_transformers(d):
    texts = set()
    for name in CTC:
        model, want = convert(name, d), np.load(f"{DATA}/{name}.npz")
        info = steno("model", "info", model)[0]
        assert ", wav2vec2, CTC" in info and "scores every 20 ms" in info, info
        for n in LENGTHS:
            got = steno("transcribe", "--model", model, wav(f"{d}/{n}.wav", chirp(n)))[0]
            assert got.split() == str(want[f"text.{n}"]).split(), (name, n, got, want[f"text.{n}"])
            texts.add(got)
    assert len(texts) > 8, texts


def beams_hotwords_and_times(d):
    model, x = convert("wav2vec2-stable", d), wav(f"{d}/x.wav", chirp(16000))
    many = json.loads(steno("transcribe", "--model", model, "--format", "json", "--beam", "8", "--nbest", "4", x)[0])
    best = many["segments"][0]
    assert len(best["alternatives"]) == 4 and best["alternatives"][0]["text"] == best["text"], best
    greedy = json.loads(steno("transcribe", "--model", model, "--format", "json", "--words", x)[0])["segments"][0]["words"]
    assert [w["word"] for w in greedy] == "AAA A OAH OEO".split(), greedy
    times = [t for w in greedy for t in (w["start"], w["end"])]
    assert times == sorted(times) and all(w["end"] > w["start"] for w in greedy), times
    plain = steno("transcribe", "--model", model, "--beam", "4", x)[0]
    biased = steno("transcribe", "--model", model, "--hotwords", "ah otoe :40", x)[0]
    assert "OTOE" not in plain and "OTOE" in biased, (plain, biased)


def moonshine_is_that_of_transformers(d):
    os.mkdir(f"{d}/arrays")
    for name in MOONSHINE:
        model, want = convert(name, d), np.load(f"{DATA}/{name}.npz")
        for part in ("encoder_model", "decoder_model_merged"):
            onnx.checker.check_model(f"{model}/{part}.onnx", full_check=True)
        runs = {"steno": ours(f"{d}/arrays")}
        runs["ONNX Runtime"] = lambda path: lambda feed: onnxruntime.InferenceSession(path).run(None, feed)
        inputs = onnx.load(f"{model}/decoder_model_merged.onnx").graph.input
        empty = {i.name: np.zeros((1, i.type.tensor_type.shape.dim[1].dim_value, 0, i.type.tensor_type.shape.dim[3].dim_value), "f4")
                 for i in inputs if i.name.startswith("past")}
        for n in LENGTHS:
            for who, run in runs.items():
                encoded = run(f"{model}/encoder_model.onnx")({"input_values": chirp(n)[None]})[0]
                difference, past = np.abs(encoded - want[f"x.{n}"]).max(), empty
                for k, token in enumerate(want[f"ids.{n}"][:-1]):
                    y, *past = run(f"{model}/decoder_model_merged.onnx")(
                        {"input_ids": np.array([[token]]), "encoder_hidden_states": encoded, "use_cache_branch": np.array([k > 0]), **past})
                    difference, past = max(difference, np.abs(y[0, 0] - want[f"y.{n}"][k]).max()), dict(zip(empty, past))
                    if k == 2 and who == "steno":
                        break  # a process each
                assert difference < 1e-4, f"{name}, {n} samples, {who}: {difference}"
            got = steno("transcribe", "--model", model, wav(f"{d}/{n}.wav", chirp(n)))[0]
            got = got.replace("<unk>", "").replace("\ufffd", "")
            assert got.split() == str(want[f"text.{n}"]).split(), (name, n, got, want[f"text.{n}"])
        assert ", moonshine v2" in steno("model", "info", model)[0]


def members(name):
    with zipfile.ZipFile(f"{DATA}/{name}.zip") as z:
        return {n: z.read(n) for n in z.namelist()}


def changed(content, **keys):
    return content | {"config.json": json.dumps(json.loads(content["config.json"]) | keys)}


def refused(d, content, part, code=65):
    err = steno("convert", pack(f"{d}/bad.zip", content), "-o", f"{d}/out", want=code)[1]
    assert part in err, f"'{err.strip()}' without '{part}'"
    assert not os.path.exists(f"{d}/out/config.json")


def bad_checkpoints_are_named(d):
    base = members("moonshine")
    refused(d, changed(base, decoder_num_key_value_heads=1), "known: one number of heads, of an even width")
    refused(d, changed(base, eos_token_id=7), "eos_token_id: 7; known: 2")
    refused(d, changed(base, rope_parameters={"rope_type": "yarn"}), "rope_type: yarn; known: default")
    refused(d, changed(base, rope_scaling={"factor": 2}), "rope_scaling: a list or object; known: null")
    refused(d, changed(base, attention_bias=True), "self_attn.q_proj.bias' is missing")
    refused(d, changed(base, decoder_num_hidden_layers=1), "belongs to a part that is not known")
    refused(d, base | {"preprocessor_config.json": b'{"do_normalize": true}'}, "do_normalize: true; known: false")
    refused(d, base | {"tokenizer.json": b'{"model": {"vocab": []}}'}, "there is no model.vocab")
    refused(d, base | {"tokenizer.json": b'{"model": {"vocab": {"a": "b"}}}'}, "a token without a number")
    refused(d, {n: v for n, v in base.items() if n != "tokenizer.json"}, "tokenizer.json is missing", 74)
    base = members("wavlm")
    refused(d, changed(base, model_type="sew"), "model_type: sew; known: wav2vec2, hubert, wavlm")
    refused(d, changed(base, model_type="wav2vec2"), "'wav2vec2.feature_extractor.conv_layers.0.conv.weight' is missing")
    refused(d, changed(base, add_adapter=True), "add_adapter: true; known: false")
    refused(d, changed(base, adapter_attn_dim=16), "adapter_attn_dim: 16; known: null")
    refused(d, changed(base, feat_extract_norm="batch"), "feat_extract_norm: batch; known: group, layer")
    refused(d, changed(base, hidden_act="gelu_new"), "activation 'gelu_new'")
    refused(d, changed(base, hidden_size=18), "config.json asks for [18")
    refused(d, changed(base, num_hidden_layers=3), "is missing")
    refused(d, changed(base, num_hidden_layers=1), "belongs to a part that is not known")
    refused(d, changed(base, conv_dim=[8, 8]), "conv_dim has 2 entries, conv_kernel 3")
    refused(d, changed(base, num_attention_heads=3), "does not divide by num_attention_heads 3")
    refused(d, changed(base, vocab_size="12"), "vocab_size is not a whole number")
    refused(d, changed(base, layer_norm_eps=7), "layer_norm_eps is not a number in its range")
    refused(d, {n: v for n, v in base.items() if n != "vocab.json"}, "vocab.json is missing", 74)
    refused(d, base | {"config.json": b"{"}, "config.json")
    weights = base["model.safetensors"]
    for cut in (0, 5, 100, len(weights) // 2, len(weights) - 1):
        refused(d, base | {"model.safetensors": weights[:cut]}, "model.safetensors")
    index = {"weight_map": {"a": "../../etc/passwd"}}
    bad = {n: v for n, v in base.items() if n != "model.safetensors"} | {"model.safetensors.index.json": json.dumps(index)}
    refused(d, bad, "passwd is missing", 74)


def shards_do_as_well(d):
    base = members("wavlm")
    weights = base.pop("model.safetensors")
    n = struct.unpack("<Q", weights[:8])[0]
    head, data = json.loads(weights[8 : 8 + n]), weights[8 + n :]
    head.pop("__metadata__", None)
    names, where = sorted(head), {}
    for i, part in enumerate((names[::2], names[1::2])):
        new, body = {}, b""
        for name in part:
            a, b = head[name]["data_offsets"]
            new[name] = head[name] | {"data_offsets": [len(body), len(body) + b - a]}
            body += data[a:b]
            where[name] = f"model-{i}.safetensors"
        text = json.dumps(new).encode()
        base[f"model-{i}.safetensors"] = struct.pack("<Q", len(text)) + text + body
    steno("convert", pack(f"{d}/s.zip", base | {"model.safetensors.index.json": json.dumps({"weight_map": where})}), "-o", f"{d}/s")
    whole = convert("wavlm", d)
    with open(f"{d}/s/model.onnx", "rb") as a, open(f"{whole}/model.onnx", "rb") as b:
        assert a.read() == b.read()


def bad_directories_are_named(d):
    model = convert("wav2vec2", d)
    x = wav(f"{d}/x.wav", chirp(4000))

    def fails(name, change, part):
        with open(f"{model}/{name}", encoding="utf-8") as f:
            old = f.read()
        with open(f"{model}/{name}", "w", encoding="utf-8") as f:
            json.dump(change(json.loads(old)), f)
        err = steno("transcribe", "--model", model, x, want=65)[1]
        assert part in err, f"'{err.strip()}' without '{part}'"
        with open(f"{model}/{name}", "w", encoding="utf-8") as f:
            f.write(old)

    fails("vocab.json", lambda v: {}, "no vocabulary")
    fails("vocab.json", lambda v: {"a": -1}, "expected \"piece\": id")
    fails("vocab.json", lambda v: {"eng": v, "deu": v}, "vocabularies of 2 languages (eng, ...)")
    fails("tokenizer_config.json", lambda v: {"pad_token": "[PAD]", "added_tokens_decoder": {"99": {"content": "[PAD]"}}},
          "the blank is 99 of 12 scores")
    fails("preprocessor_config.json", lambda v: v | {"sampling_rate": 8000}, "sampling_rate is not 16000")
    fails("config.json", lambda v: v | {"conv_stride": []}, "conv_stride is no list")
    fails("config.json", lambda v: v | {"conv_stride": [5]}, "do not fit together")
    steno("transcribe", "--model", model, x)


def a_checkpoint_in_the_place_of_a_model_says_what_to_do(d):
    with zipfile.ZipFile(f"{DATA}/wavlm.zip") as z:
        z.extractall(f"{d}/in")
    x = wav(f"{d}/x.wav", chirp(4000))
    assert f"'steno convert {d}/in -o DIR' makes a model of it" in steno("transcribe", "--model", f"{d}/in", x, want=65)[1]
    steno("convert", f"{d}/in", "-o", f"{d}/in")  # the networks lie beside the checkpoint then
    steno("transcribe", "--model", f"{d}/in", x)
    assert json.load(open(f"{d}/in/config.json", encoding="utf-8"))["model_type"] == "wavlm"


TESTS = [scores_are_those_of_transformers, texts_are_those_of_transformers, beams_hotwords_and_times,
         moonshine_is_that_of_transformers, bad_checkpoints_are_named,
         shards_do_as_well, bad_directories_are_named,
         a_checkpoint_in_the_place_of_a_model_says_what_to_do]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
