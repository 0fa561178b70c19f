"""Canary from GGUF against the ONNX networks whose weights it has, those of ../shared/zoo/tiny. TAP."""
import functools
import os

import canary_gguf
from daemon import case
from gguf_check import ZOO, alike, check_kinds, check_refused, check_same, lose, main, put, recordings, steno, transcribe

MODEL = os.path.join(ZOO, "nemo-canary")
K, E, D, F, C = canary_gguf.K, canary_gguf.E, canary_gguf.D, canary_gguf.F, canary_gguf.C
convert = functools.partial(canary_gguf.convert, MODEL)


@case
def texts_are_those_of_the_networks(folder):
    convert(f"{folder}/transcribe.gguf", canary_gguf.of_transcribe_cpp)
    for args in ((), ("--language", "de"), ("--target-language", "fr")):
        check_same(f"{folder}/transcribe.gguf", MODEL, *args)


@case
def one_vocabulary_begins_with_an_empty_word(folder):
    """NeMo writes the empty context of canary-1b-v2 as one piece; CrispASR's files are of that model."""
    def change(keys, _):
        keys[K + "tokenizer.single_sp"] = True
        keys["tokenizer.ggml.tokens"][-1] = "\u2581"
    convert(f"{folder}/single.gguf", canary_gguf.of_transcribe_cpp, change)
    convert(f"{folder}/crispasr.gguf", canary_gguf.of_crispasr, change)
    others = 0
    for recording in recordings():
        said = transcribe(f"{folder}/single.gguf", recording)
        assert alike(said, transcribe(f"{folder}/crispasr.gguf", recording))
        others += said["text"] != transcribe(MODEL, recording)["text"]
    assert others


@case
def elements_are_what_they_stand_for(folder):
    check_kinds(folder, lambda path, kind, rounded: convert(path, canary_gguf.of_transcribe_cpp, None, kind, rounded), recordings()[2])


@case
def a_file_says_what_it_is(folder):
    for name in ("transcribe", "crispasr"):
        info = steno("model", "info", f"{folder}/{name}.gguf").stdout
        assert "attention decoder (Canary)" in info and "languages  en es de fr" in info and "4 memories of 32" in info, info


@case
def faults_are_named(folder):
    def rows(_, tensors):
        tensors["dec.embed.token.weight"] = tensors["dec.embed.token.weight"][:100]

    def mark(keys, _):
        keys["tokenizer.ggml.tokens"][14] = "<|emo:happy|>"
    check_refused(folder, lambda path, change: convert(path, canary_gguf.of_transcribe_cpp, change), (
        (lose("dec.layer.1.cross_attn.k.weight"), "layers.1.second_sub_layer.key_net.weight' is missing"),
        (lose("enc.blocks.1.conv.bn.running_var"), "'encoder.layers.1.conv.batch_norm.running_var' is missing"),
        (put(K + "tokenizer.prompt_format", "canary"), "'canary', known: canary2"),
        (put(D + "learn_positional_encodings", True), "learn_positional_encodings' is missing or no number from 0 to 0"),
        (put(D + "n_heads", 5), "32 columns of the decoder in 5 heads"),
        (put(D + "n_layers", 3), "layers.2.layer_norm_1.weight' is missing"),
        (put(D + "activation", "mish"), "'mish', known: relu"),
        (put(F + "n_fft", 400), "n_fft"),
        (rows, "100 rows of the embedding for 133 pieces"),
        (mark, "the vocabulary has no <|emo:undefined|>")))
    check_refused(folder, lambda path, change: convert(path, canary_gguf.of_crispasr, change), (
        (lose("decoder.layers.0.sa_out.bias"), "first_sub_layer.out_projection.bias' is missing"), (put(C + "win_length", 512), "canary.win_length' is missing or no number from 400")))


if __name__ == "__main__":
    main("nemo-canary")
