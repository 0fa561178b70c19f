"""SenseVoice from GGUF against the ONNX network whose weights it has, that of ../shared/zoo/tiny, and what transcribe.cpp and CrispASR say from the same file. TAP."""
import functools
import os

import sense_voice_gguf
from daemon import case
from gguf_check import ZOO, check_kinds, check_refused, check_same, lose, main, put, recordings, steno, transcribe

MODEL = os.path.join(ZOO, "sense-voice")
SIZES, SPECIAL = "stt.sensevoice.encoder.", "stt.sensevoice.special."
convert = functools.partial(sense_voice_gguf.convert, MODEL)
# transcribe.cpp 0.4.1 and CrispASR 0.8.45 on the first two recordings, behind the pieces of the first four frames, which they write. One of the pieces that
# stand for something else, <|en|>, transcribe.cpp drops everywhere.
PEERS = ("Gly hadatE inB myA<|en|> youre\uc774\u53ef\u00e9 in\u3092GG\uc774\u30e9 hadEpAtk\u8bf4xGA\u8bf4\u4e86GA\u53efpG\u3042GAG",
         "\uc774\u6211\u6211B\u8bf4G\u8bf4i\uc774\u6211\u5728ly\uc774ly\uc774ly\uc774 all\u3067\uc774\u00e9ly\u6211\uc774i<|woitn|>\u5728\uc774")


@case
def texts_times_and_tags_are_those_of_the_network(folder):
    convert(f"{folder}/transcribe.gguf", sense_voice_gguf.of_transcribe_cpp)
    for args in ((), ("--language", "zh"), ("--itn", "on")):
        check_same(f"{folder}/transcribe.gguf", MODEL, *args)
    convert(f"{folder}/crispasr.gguf", sense_voice_gguf.of_crispasr)
    for args in ((), ("--language", "ko", "--itn", "on")):
        check_same(f"{folder}/crispasr.gguf", MODEL, *args)


@case
def texts_are_those_of_transcribe_cpp_and_crispasr(folder):
    for program in ("transcribe", "crispasr"):
        for recording, text in zip(recordings(), PEERS):
            assert transcribe(f"{folder}/{program}.gguf", recording, "--itn", "on")["text"] == text


@case
def statistics_may_lie_beside_the_file(folder):
    def without(keys, tensors):
        for name in ("shift", "scale"):
            tensors.pop(f"sensevoice.cmvn_{name}", None)
    os.mkdir(f"{folder}/beside")
    model = f"{folder}/beside/model.gguf"
    for program in (sense_voice_gguf.of_sense_voice_cpp, sense_voice_gguf.of_crispasr):
        convert(model, program, without)
        r = steno("model", "info", model)
        assert r.returncode and "no statistics of frames (CMVN)" in r.stderr, r.stderr
        with open(f"{folder}/beside/am.mvn", "w", encoding="utf-8") as f:
            f.write(sense_voice_gguf.mvn(sense_voice_gguf.read(MODEL)[1]))
        check_same(model, MODEL)
        with open(f"{folder}/beside/am.mvn", "w", encoding="utf-8") as f:
            f.write("<Nnet>\n<AddShift> 560 560\n<LearnRateCoef> 0 [ 1 2 x ]\n")
        r = steno("model", "info", model)
        assert r.returncode and "<AddShift> is not followed by 560 numbers in brackets" in r.stderr, r.stderr
        os.remove(f"{folder}/beside/am.mvn")


@case
def elements_are_what_they_stand_for(folder):
    check_kinds(folder, lambda path, kind, rounded: convert(path, sense_voice_gguf.of_transcribe_cpp, None, kind, rounded))


@case
def a_file_says_what_it_is(folder):
    info = steno("model", "info", f"{folder}/transcribe.gguf").stdout
    assert "file       GGUF of transcribe.cpp" in info and "zh en yue ja ko" in info, info
    assert "file       GGUF of CrispASR" in steno("model", "info", f"{folder}/crispasr.gguf").stdout


@case
def faults_are_named(folder):
    def rows(keys, tensors):
        tensors["enc.embed.weight"] = tensors["enc.embed.weight"][:10]

    def empty(keys, _):
        keys["tokenizer.ggml.tokens"][5] = ""
    check_refused(folder, lambda path, change: convert(path, sense_voice_gguf.of_transcribe_cpp, change), (
        (lose("enc.encoders.0.attn.qkv.weight"), "'encoder.encoders.0.self_attn.linear_q_k_v.weight' is missing"),
        (lose("enc.tp_norm.bias"), "'encoder.tp_norm.bias' is missing"),
        (put(SIZES + "n_heads", 5), "32 columns in 5 heads"),
        (put(SIZES + "sanm_shift", 2), "sanm_shift' is missing or no number from 0 to 0"),
        (put(SIZES + "n_blocks", 4), "'encoder.encoders.2.norm1.weight' is missing"),
        (put("stt.frontend.hop_length", 80), "hop_length' is missing or no number from 160 to 160"),
        (put("stt.frontend.window", "povey"), "'povey', known: hamming"),
        (put(SPECIAL + "lang_ko", 16), "lang_ko' is missing or no number from 0 to 15"),
        (rows, "lang_ja' is missing or no number from 0 to 9"),
        (empty, "piece 5 is empty"),
        (put("tokenizer.ggml.tokens", ["a", "b"]), "'ctc.ctc_lo.weight' is [189,32]"),
        (put("general.architecture", "sensevoice-large"), "known: whisper, parakeet"),
        (lose(SIZES + "d_model"), "no GGUF file of SenseVoice")))


if __name__ == "__main__":
    main("sense-voice")
