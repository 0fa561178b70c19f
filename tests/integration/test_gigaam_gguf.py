"""GigaAM 3 from GGUF against the ONNX networks whose weights it has, those of ../shared/zoo/tiny, and what CrispASR says from the same file. TAP."""
import functools
import os

import gigaam_gguf
from daemon import case
from gguf_check import ZOO, check_kinds, check_refused, check_same, lose, main, put, recordings, steno, transcribe

MODEL = os.path.join(ZOO, "giga-am-v3-rnnt")
E, K, F, C = gigaam_gguf.E, gigaam_gguf.K, gigaam_gguf.F, gigaam_gguf.C
convert = functools.partial(gigaam_gguf.convert, MODEL)
# CrispASR 0.8.45 on the first two recordings: CTC with a head of random weights, window and filters not rounded. transcribe.cpp 0.4.1 has two other letters in
# each.
CRISPASR = ("\u0437\u0430\u044f\u0437\u0435\u0432\u0437\u044b\u0437\u043b\u0437\u044b\u0430\u0437\u0435\u0437\u0430\u0437\u0435\u0437\u0430\u0437\u0432\u0430"
            "\u0437\u0430\u0437\u0432\u0437\u0430\u043b\u0437\u044f\u0437\u0433\u0437\u0433\u0430\u0437\u044b\u0437\u0430\u0437\u0430\u0437\u0430\u0437\u044b\u0437\u0433",
            "\u043a\u0437\u044a\u043b\u044f\u0437\u044a\u0437\u043b\u0432\u043a\u0437\u0435\u0437\u0430\u0437\u0435\u0437\u0432\u0430"
            "\u0437\u0433\u0437\u0430\u0437\u043b\u0437\u043b\u0437\u0430\u0437\u0433")


def exact(_, tensors):
    """window and filters that are not in bfloat16"""
    for name, x in zip([n for n in tensors if n.startswith(("frontend.", "preprocessor."))], gigaam_gguf.front()):
        tensors[name] = x


@case
def words_and_times_are_those_of_the_networks(folder):
    for name, program in (("transcribe", gigaam_gguf.of_transcribe_cpp), ("crispasr", gigaam_gguf.of_crispasr)):
        convert(f"{folder}/{name}.gguf", program)
        check_same(f"{folder}/{name}.gguf", MODEL)


@case
def ctc_writes_what_crispasr_writes(folder):
    for program in (gigaam_gguf.of_transcribe_cpp, gigaam_gguf.of_crispasr):
        convert(f"{folder}/ctc.gguf", program, True, exact)
        for recording, text in zip(recordings(), CRISPASR):
            assert transcribe(f"{folder}/ctc.gguf", recording)["text"] == text, program


@case
def elements_are_what_they_stand_for(folder):
    check_kinds(folder, lambda path, kind, rounded: convert(path, gigaam_gguf.of_transcribe_cpp, True, None, kind, rounded))


@case
def a_file_says_what_it_is(folder):
    info = steno("model", "info", f"{folder}/crispasr.gguf").stdout
    assert "transducer, GigaAM 3" in info and "languages  ru" in info and "64 mel bins" in info, info
    assert "nemo, CTC, GigaAM 3" in steno("model", "info", f"{folder}/ctc.gguf").stdout


@case
def faults_are_named(folder):
    check_refused(folder, lambda path, change: convert(path, gigaam_gguf.of_transcribe_cpp, False, change), (
        (lose("enc.blocks.1.conv.ln.weight"), "'encoder.layers.1.conv.batch_norm.weight' is missing"),
        (put(E + "self_attention_model", "rel_pos"), "'rel_pos', known: rotary"),
        (put(E + "conv_norm_type", "batch_norm"), "'batch_norm', known: layer_norm"),
        (put(E + "subs_kernel_size", 3), "subs_kernel_size' is missing or no number from 5 to 5"),
        (put(E + "n_heads", 8), "40 columns in 8 heads"),
        (put(F + "center", True), "center' is missing or no number from 0 to 0"),
        (put(F + "n_fft", 400), "n_fft' is missing or no number from 320 to 320"),
        (put(K + "head_kind", "ssl"), "'ssl', known: ctc rnnt"),
        (put("tokenizer.ggml.blank_token_id", 0), "blank_token_id is not that of the last of 34 pieces")))
    check_refused(folder, lambda path, change: convert(path, gigaam_gguf.of_crispasr, False, change), (
        (lose("decoder.lstm.0.b_hh"), "bias_hh_l0' is missing"),
        (put(C + "blank_id", 7), "gigaam.blank_id is not 33"),
        (lose(C + "mel_center"), "mel_center' is missing")))


if __name__ == "__main__":
    main("giga-am-v3-rnnt")
