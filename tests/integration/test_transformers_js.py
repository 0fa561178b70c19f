"""Granite Speech and Voxtral as transformers.js has them (family transformers_js), on small directories: texts, ids and prompts are those of
transformers 5.24 (tests/convert/hearing_models.py). TAP."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from daemon import ROOT, Skip, Stenod, case, converse, tap, wav
from toy_check import RATE, SPEECH, STENO, refused, transcribe

MODELS = os.path.join(ROOT, "tests", "data", "hearing")
GRANITE, VOXTRAL = (os.path.join(MODELS, n) for n in ("granite-speech-tiny", "voxtral-tiny"))


def rows(model):
    """-> (samples, arguments, text) of each recorded row"""
    asks = "--prompt" if model == GRANITE else "--language"
    with open(os.path.join(model, "expected.json"), encoding="utf-8") as f:
        for r in json.load(f):
            args = ([asks, r["asked"]] if r["asked"] else []) + (["--hotwords", r["hotwords"]] if r["hotwords"] else [])
            yield SPEECH[int(r["from"] * RATE):int(r["to"] * RATE)], args, r["text"].strip()


def texts(model, folder=None):
    return [transcribe(folder or model, part, *args)[1] for part, args, _ in rows(model)]


@case
def texts_are_those_of_transformers():
    for model, n in ((GRANITE, 9), (VOXTRAL, 8)):
        want = [text for _, _, text in rows(model)]
        assert texts(model) == want and len(want) == len(set(want)) == n, (texts(model), want)


@case
def a_language_is_part_of_voxtrals_prompt():
    for part, args, text in rows(VOXTRAL):
        if args:
            assert transcribe(VOXTRAL, part, "--language", "fr-CA") == ("fr", text)
    r = subprocess.run([STENO, "transcribe", "--model", VOXTRAL, "--language", "ja", os.path.join(ROOT, "tests", "data", "digits.wav")], capture_output=True, text=True, check=False)
    assert r.returncode and "language" in r.stderr, r


@case
def files_of_4_bits_are_taken_where_there_are_no_others():
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(GRANITE, d, dirs_exist_ok=True)
        for name in ("embed_tokens", "decoder_model_merged"):
            os.remove(os.path.join(d, "onnx", name + ".onnx"))
        info = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=True).stdout
        assert "audio_encoder.onnx, embed_tokens_q4.onnx, decoder_model_merged_q4.onnx" in info, info
        assert texts(GRANITE, d) == [text for _, _, text in rows(GRANITE)]


@case
def the_files_may_lie_beside_the_configuration():
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(VOXTRAL, d, dirs_exist_ok=True)
        for name in os.listdir(os.path.join(d, "onnx")):
            os.rename(os.path.join(d, "onnx", name), os.path.join(d, name.replace(".onnx", "_fp16.onnx")))
        os.rmdir(os.path.join(d, "onnx"))
        assert texts(VOXTRAL, d) == [text for _, _, text in rows(VOXTRAL)]


def as_others_export(path):
    """Caches in f16, position_ids and num_logits_to_keep."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    m = onnx.load(path)
    g = m.graph
    nodes = list(g.node)
    for values, word in ((g.input, "past_key_values"), (g.output, "present")):
        for v in values:
            if v.name.startswith(word):
                v.type.tensor_type.elem_type = TensorProto.FLOAT16
                for n in nodes:
                    side = n.input if word[0] == "p" and word[1] == "a" else n.output
                    for i, name in enumerate(side):
                        if name == v.name:
                            side[i] = name + ".f32"
                ends = (v.name, v.name + ".f32") if word == "past_key_values" else (v.name + ".f32", v.name)
                nodes.insert(0 if word == "past_key_values" else len(nodes),
                             helper.make_node("Cast", [ends[0]], [ends[1]], to=TensorProto.FLOAT if word == "past_key_values" else TensorProto.FLOAT16))
    for n in nodes:
        for i, name in enumerate(n.input):
            n.input[i] = "placed" if name == "inputs_embeds" else name
        for i, name in enumerate(n.output):
            n.output[i] = "all_logits" if name == "logits" else name
    nodes[0:0] = [helper.make_node("Cast", ["position_ids"], ["places"], to=TensorProto.FLOAT), helper.make_node("Unsqueeze", ["places", "last"], ["column"]),
                  helper.make_node("Mul", ["column", "zero"], ["nothing"]), helper.make_node("Add", ["inputs_embeds", "nothing"], ["placed"])]
    nodes += [helper.make_node("Neg", ["num_logits_to_keep"], ["from"]), helper.make_node("Unsqueeze", ["from", "first"], ["start"]),
              helper.make_node("Slice", ["all_logits", "start", "far", "one"], ["logits"])]
    g.initializer.extend(numpy_helper.from_array(v, n) for n, v in (("last", np_i64([-1])), ("first", np_i64([0])), ("far", np_i64([2**62])), ("one", np_i64([1]))))
    g.initializer.append(helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]))
    g.input.extend([helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["b", "n"]), helper.make_tensor_value_info("num_logits_to_keep", TensorProto.INT64, [])])
    del g.node[:]
    g.node.extend(nodes)
    onnx.save(m, path)


def np_i64(values):
    import numpy as np
    return np.array(values, np.int64)


@case
def caches_of_half_precision_and_other_inputs_give_the_texts():
    try:
        import onnx  # noqa: F401
    except ImportError as e:
        raise Skip("the package onnx is not installed") from e
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(VOXTRAL, d, dirs_exist_ok=True)
        as_others_export(os.path.join(d, "onnx", "decoder_model_merged.onnx"))
        assert texts(VOXTRAL, d) == [text for _, _, text in rows(VOXTRAL)]


@case
def an_instruction_that_is_too_long_is_cut():
    """Of 1024 positions it has 128."""
    part = next(rows(GRANITE))[0]
    long, cut = (transcribe(GRANITE, part, "--prompt", "transcribe" + " the" * n)[1] for n in (900, 127))
    assert long == cut


@case
def the_server_serves_it():
    want = list(rows(VOXTRAL))
    with Stenod("model.dir=" + VOXTRAL, "model.precision=fp32", "pool.threads=2") as d:
        for part, args, text in want:
            status, _, body = d.request("POST", "/v1/transcribe" + ("?language=fr" if args else ""), wav(part.tobytes(), RATE), {"Content-Type": "audio/wav"})
            assert status == 200 and json.loads(body)["text"] == text, body
        live = converse(d.ws, [{"type": "start", "sample_rate": RATE, "language": "fr", "endpointing": False}, want[1][0].tobytes(), {"type": "end"}])
        final = [m for m in live.messages if m["type"] == "final"][-1]
        assert final["text"] == want[1][2] and final["language"] == "fr", final


@case
def what_does_not_fit_is_named():
    def spoil(name, old, new):
        def change(d):
            path = os.path.join(d, name)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            assert old in text, (name, old)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
        return change

    def drop(name):
        return lambda d: os.remove(os.path.join(d, name))
    refused(VOXTRAL, [(drop("onnx/audio_encoder.onnx"), "there is no audio_encoder*.onnx"), (drop("onnx/embed_tokens.onnx"), "there is no embed_tokens*.onnx"),
                      (drop("onnx/decoder_model_merged.onnx"), "there is no decoder_model_merged*.onnx"), (drop("tokenizer.json"), "tokenizer.json"),
                      (spoil("tokenizer.json", "[TRANSCRIBE]", "[WRITE]"), "there is no token [TRANSCRIBE]"),
                      (spoil("config.json", '"head_dim": 16', '"head_dim": 24'), "the caches do not fit the query"),
                      (spoil("config.json", '"max_position_embeddings": 1024', '"max_position_embeddings": 512'), "positions are too few"),
                      (spoil("config.json", '"num_key_value_heads": 1', '"num_key_value_heads": 2'), "one number of heads"),
                      (spoil("generation_config.json", '"eos_token_id": 2', '"eos_token_id": 9999'), "eos_token_id 9999"),
                      (spoil("generation_config.json", '"eos_token_id": 2', '"eos_token_id": [1, 2, 3]'), "expected eos_token_id, one number or two"),
                      (lambda d: shutil.copy(os.path.join(GRANITE, "onnx", "audio_encoder.onnx"), os.path.join(d, "onnx")), "expected one input, audio_values f32 [1,128,3000]"),
                      (lambda d: shutil.copy(os.path.join(d, "onnx", "audio_encoder.onnx"), os.path.join(d, "onnx", "decoder_model_merged.onnx")), "expected inputs_embeds f32")])
    refused(GRANITE, [(spoil("chat_template.jinja", "USER: ", "<|start_of_role|>"), "only Granite 4's turns")])


if __name__ == "__main__":
    sys.exit(tap())
