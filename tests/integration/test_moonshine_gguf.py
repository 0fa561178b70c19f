"""Moonshine from GGUF against the ONNX networks whose weights it has, those of ../shared/zoo/tiny. TAP."""
import os

import moonshine_gguf
from daemon import case
from gguf_check import ZOO, alike, check_refused, check_same, lose, main, put, recordings, steno, transcribe

MODEL = os.path.join(ZOO, "moonshine-v2")
K, C = moonshine_gguf.K, moonshine_gguf.C


def convert(*args):
    moonshine_gguf.convert(MODEL, *args)


def of_crispasr(folder, name, *args):
    """-> the file in a directory of its own, with its vocabulary"""
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    convert(f"{folder}/{name}/model.gguf", moonshine_gguf.of_crispasr, *args)
    with open(f"{folder}/{name}/tokenizer.bin", "wb") as f:
        f.write(moonshine_gguf.tokenizer_bin(MODEL))
    return f"{folder}/{name}/model.gguf"


@case
def texts_are_those_of_the_networks(folder):
    moonshine_gguf.without_bias(MODEL, f"{folder}/zoo", False)
    check_same(of_crispasr(folder, "crispasr"), f"{folder}/zoo")


@case
def the_embedding_is_the_last_layer_where_there_is_no_other(folder):
    moonshine_gguf.without_bias(MODEL, f"{folder}/tied", True)
    convert(f"{folder}/transcribe.gguf", moonshine_gguf.of_transcribe_cpp)
    for recording in recordings():
        said = transcribe(f"{folder}/transcribe.gguf", recording)
        assert said.pop("language") == "en" and said["text"]
        assert alike(said, {k: v for k, v in transcribe(f"{folder}/tied", recording).items() if k != "language"})


@case
def crispasr_has_its_vocabulary_beside_the_file(folder):
    convert(f"{folder}/alone.gguf", moonshine_gguf.of_crispasr)
    r = steno("model", "info", f"{folder}/alone.gguf")
    assert r.returncode and "tokenizer.bin" in r.stderr, r.stderr


@case
def elements_are_what_they_stand_for(folder):
    for kind in ("F16", "BF16"):  # the rows are no whole blocks
        files = [of_crispasr(folder, f"{kind}{rounded}", None, kind, rounded) for rounded in (False, True)]
        for recording in recordings():
            assert alike(transcribe(files[0], recording), transcribe(files[1], recording)), kind


@case
def a_file_says_what_it_is(folder):
    info = steno("model", "info", f"{folder}/transcribe.gguf").stdout
    assert "file       GGUF of transcribe.cpp" in info and "languages  en" in info and "2 layers, 117 pieces" in info, info
    assert "file       GGUF of CrispASR" in steno("model", "info", f"{folder}/crispasr/model.gguf").stdout


@case
def faults_are_named(folder):
    check_refused(folder, lambda path, change: convert(path, moonshine_gguf.of_transcribe_cpp, change), (
        (lose("dec.blocks.1.cross_attn.k.weight"), "'model.decoder.layers.1.encoder_attn.k_proj.weight' is missing"),
        (lose("enc.conv.norm.bias"), "'model.encoder.groupnorm.bias' is missing"),
        (put(K + "decoder.n_kv_heads", 1), "of decoder 3 (keys 1)"),
        (put(K + "encoder.d_model", 40), "40 and 36 columns"),
        (put(K + "partial_rotary_factor", 1.5), "are missing, or no numbers from 0 to 1"),
        (put(K + "encoder.activation", "mish"), "'mish', known: gelu silu relu"),
        (put(K + "eos_token_id", 0), "eos_token_id' is missing or no number from 2 to 2"),
        (put(K + "decoder.vocab_size", 116), "is [117,36]"),
        (put("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>"]), "3 pieces, the embedding has 117 rows"),
        (put("general.architecture", "moonshine_streaming"), "architecture 'moonshine_streaming'; known: whisper"),
        (lose(K + "encoder.d_model"), "no GGUF file of Moonshine")))


if __name__ == "__main__":
    main("moonshine-v2")
