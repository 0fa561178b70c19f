"""Streaming Parakeets from GGUF against the ONNX networks whose weights they have, those of ../shared/zoo/tiny, and what sherpa-onnx recorded of these. TAP."""
import json
import os
import sys
import tempfile

import nemo_gguf
from daemon import case, tap
from gguf_check import SPEECH, ZOO, check_same, recordings, steno, transcribe

MODELS = ("nemotron-3.5-streaming", "nemo-rnnt-streaming")
E, P = nemo_gguf.E, nemo_gguf.P


@case
def words_and_times_are_those_of_the_networks(folder):
    for name in MODELS:
        check_same(f"{folder}/{name}.gguf", os.path.join(ZOO, name))


@case
def texts_are_those_that_sherpa_onnx_recorded(folder):
    for name in MODELS:
        with open(os.path.join(ZOO, name, "decode.json"), encoding="utf-8") as f:
            sets = json.load(f)["sets"]
        rows = next(v for k, v in sets.items() if k.startswith("fp32 greedy"))
        tried = 0
        for row, said in rows.items():
            file, _, language = row.partition("|")
            recording = os.path.join(SPEECH, file + ".flac")
            if not os.path.exists(recording) or language == "xx-YY":  # steno refuses a language that is none
                continue
            language = language.strip("<> '\"")
            args = ["--language", language] if language not in ("", "None", "auto") else []
            text = transcribe(f"{folder}/{name}.gguf", recording, "--frontend", "sherpa", *args)["text"]
            # a shorter silence follows there
            assert " ".join(text.split()).startswith(" ".join(said["text"].split())), (name, row, text, said["text"])
            tried += len(said["text"]) > 0
        assert tried > 2


@case
def a_language_is_the_prompt(folder):
    model, zoo, others = f"{folder}/{MODELS[0]}.gguf", os.path.join(ZOO, MODELS[0]), 0
    for recording in recordings():
        alone = transcribe(model, recording)
        for language in ("de", "en-GB", "th"):
            said = transcribe(model, recording, "--language", language)
            assert said == transcribe(zoo, recording, "--language", language), language
            others += said["text"] != alone["text"]
    assert others
    info = steno("model", "info", model).stdout
    assert "detected where none is named" in info and " de el en " in info, info


@case
def crispasr_writes_the_same_model(folder):
    model, zoo = f"{folder}/crispasr.gguf", os.path.join(ZOO, MODELS[0])
    nemo_gguf.convert(zoo, model, nemo_gguf.of_crispasr)
    for recording in recordings():
        for args in ((), ("--language", "de")):
            assert transcribe(model, recording, *args) == transcribe(zoo, recording, *args), (recording, args)
    assert transcribe(model, recordings()[0], "--lookahead", "0") == transcribe(f"{folder}/{MODELS[0]}.gguf", recordings()[0], "--lookahead", "0")
    for key, value, message in (("att_context_style", "regular", "known: layer_norm or batch_norm, chunked_limited"), ("prompt_ids", [1], "no lists of one length"),
                                ("att_context_left", [16], "att_context_*: known"), ("causal_downsampling", False, "no number from 1 to 1")):
        def spoil(keys, tensors, key=key, value=value):
            nemo_gguf.of_crispasr(keys, tensors)
            keys["nemotron." + key] = value
        nemo_gguf.convert(zoo, f"{folder}/bad.gguf", spoil)
        r = steno("model", "info", f"{folder}/bad.gguf")
        assert r.returncode and message in r.stderr, (message, r.stderr)


@case
def parakeet_cpp_writes_the_same_models(folder):
    model = f"{folder}/parakeet_cpp.gguf"
    for name in MODELS:
        zoo = os.path.join(ZOO, name)
        nemo_gguf.convert(zoo, model, nemo_gguf.of_parakeet_cpp)
        for recording in recordings():
            said = transcribe(model, recording)
            assert said["text"] == transcribe(zoo, recording)["text"] and said["text"], (name, recording)
    for key, value, message in (("arch", "aed", "known: tdt hybrid_tdt_ctc rnnt"), ("encoder.conv_causal", False, "no number from 1 to 1"),
                                ("preprocessor.normalize", "per_feature", "needs whole recordings"), ("preprocessor.preemph", 0.5, "is not 0.97"),
                                ("encoder.att_context_presets", [16, 3, 16], "att_context_*: known"), ("blank_id", 5, "parakeet.blank_id is not")):
        def spoil(keys, tensors, key=key, value=value):
            nemo_gguf.of_parakeet_cpp(keys, tensors)
            keys["parakeet." + key] = value
        nemo_gguf.convert(os.path.join(ZOO, MODELS[0]), f"{folder}/bad.gguf", spoil)
        r = steno("model", "info", f"{folder}/bad.gguf")
        assert r.returncode and message in r.stderr, (message, r.stderr)


@case
def a_chunk_is_chosen_by_its_lookahead(folder):
    model = f"{folder}/{MODELS[0]}.gguf"
    assert "streaming: 320 ms" in steno("model", "info", model).stdout
    said = [transcribe(model, recordings()[0], *args)["text"] for args in ((), ("--lookahead", "3"), ("--lookahead", "0"))]
    assert said[0] == said[1] != said[2], said
    for where, message in ((model, "lookahead 7: the file has 3, 0"), (os.path.join(ZOO, MODELS[0]), "the networks are files, made for one chunk")):
        r = steno("transcribe", "--model", where, "--lookahead", "7", recordings()[0])
        assert r.returncode and message in r.stderr, r.stderr


@case
def what_is_not_served_is_named(folder):
    def kinds(keys, _):
        keys[E + "spk_kernel_type"] = "ff"

    def unified(keys, _):
        keys[E + "att_context_style"] = "chunked_limited_with_rc"

    def prompts(keys, _):
        keys[P + "prompt.dictionary.locales"] = keys[P + "prompt.dictionary.locales"][1:]
    for change, message in ((kinds, "a Parakeet for one of several speakers"), (unified, "conv_context_left is 8, known: 4"),
                            (prompts, "are no lists of one length")):
        nemo_gguf.convert(os.path.join(ZOO, MODELS[0]), f"{folder}/bad.gguf", change)
        r = steno("model", "info", f"{folder}/bad.gguf")
        assert r.returncode and message in r.stderr, (message, r.stderr)


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(ZOO, MODELS[0])):
        print("1..0 # SKIP ../shared/zoo/tiny is not there")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as made:
        for model_name in MODELS:
            nemo_gguf.convert(os.path.join(ZOO, model_name), f"{made}/{model_name}.gguf")
        code = tap(made)
    sys.exit(code)
