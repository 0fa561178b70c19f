"""Fun-ASR-Nano (family funasr_nano) against ONNX Runtime with an own loop, on a small directory of random networks; and that loop against
sherpa-onnx, where the package is installed. TAP."""
import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

import toy_funasr_nano as toy
from daemon import Skip, Stenod, case, converse, wav
from toy_check import RATE, SPEECH, STENO, main, pieces, refused, samples, transcribe

PARTS = pieces((0, 4), (2, 5), (5, 11), (3, 3.5), (7, 9.13), (1, 2.7), (4, 8.2))


@case
def texts_are_those_of_the_reference(model):
    reference = toy.Reference(model)
    texts = [reference(samples(part)) for part in PARTS]
    assert [transcribe(model, part) for part in PARTS] == [("", text) for text in texts]
    assert len(set(texts)) > 3 and max(len(t.split()) for t in texts) > 8, texts


@case
def language_digits_and_context_are_the_prompt(model):
    reference, other = toy.Reference(model), 0
    for part in PARTS:
        plain = reference(samples(part))
        for args, wish in ((["--language", "en-US"], {"language": "英文"}), (["--language", "zh"], {"language": "中文"}), (["--itn", "off"], {"itn": False}),
                           (["--hotwords", "Kyiv :2, hello world"], {"words": ["Kyiv", "hello world"]}),
                           (["--prompt", "A meeting.", "--hotwords", "Kyiv", "--language", "ja", "--itn", "off"],
                            {"prompt": "A meeting.", "words": ["Kyiv"], "language": "日文", "itn": False}),
                           (["--prompt", "A meeting."], {"prompt": "A meeting."})):
            text = reference(samples(part), **wish)
            code = args[args.index("--language") + 1][:2] if "--language" in args and text else ""
            assert transcribe(model, part, *args) == (code, text), (args, text)
            other += text != plain
    assert other > 6, other


@case
def the_reference_is_sherpa_onnx(model):
    """With its front end and the position that it leaves out. 2.0.1: 35 of 35."""
    try:
        import sherpa_onnx
    except ImportError as e:
        raise Skip("the package sherpa-onnx is not installed") from e
    reference = toy.Reference(model, trained=False)
    for part in PARTS:
        most = len(part) * 8 // RATE + 16
        for theirs, wish in (({}, {}), ({"language": "英文"}, {"language": "英文"}), ({"itn": False}, {"itn": False}),
                             ({"hotwords": "Kyiv, hello world"}, {"words": ["Kyiv", "hello world"]}),
                             ({"hotwords": "C++,你好", "language": "中文"}, {"words": ["C++", "你好"], "language": "中文"})):
            r = sherpa_onnx.OfflineRecognizer.from_funasr_nano(
                *(os.path.join(model, n) for n in ("encoder_adaptor.onnx", "llm.onnx", "embedding.onnx", toy.FOLDER)), user_prompt="语音转写：", max_new_tokens=most, **theirs)
            s = r.create_stream()
            s.accept_waveform(RATE, samples(part))
            r.decode_stream(s)
            assert " ".join(s.result.text.replace("<think>", "").split()) == " ".join(reference(samples(part), **wish).split()), (theirs, s.result.text)


@case
def a_context_that_is_too_long_is_cut(model):
    """Of 512 positions it has 64, which are " hello" here."""
    words = " hello" * 100
    assert transcribe(model, PARTS[1], "--prompt", words)[1] == transcribe(model, PARTS[1], "--prompt", words[:6 * 80])[1]


@case
def caches_of_half_precision_and_of_any_length_give_the_text(_):
    for options in ({"cache_type": toy.F16}, {"positions": 0}, {"positions": 0, "max_total_len": 400}):
        with tempfile.TemporaryDirectory() as d:
            toy.write(d, **options)
            assert transcribe(d, PARTS[1])[1] == toy.Reference(d)(samples(PARTS[1])), options
            info = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=True).stdout
            assert f"{options.get('max_total_len', 512)} positions" in info, info


@case
def files_of_8_bits_are_taken_where_they_are(model):
    with tempfile.TemporaryDirectory() as d:
        toy.as_8_bits(model, d)
        info = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=True).stdout
        assert "encoder_adaptor.int8.onnx, embedding.int8.onnx, llm.int8.onnx, 8 bits" in info, info
        reference = toy.Reference(d)
        same = sum(transcribe(d, part)[1] == reference(samples(part)) for part in PARTS)
        assert same >= len(PARTS) - 2, same
        for name in ("encoder_adaptor.onnx", "llm.onnx", "embedding.onnx"):
            shutil.copy(os.path.join(model, name), d)
        assert transcribe(d, PARTS[0])[1] == toy.Reference(model)(samples(PARTS[0])), "--precision fp32 takes the others"


@case
def weights_of_4_bits_give_the_text(model):
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(model, d, dirs_exist_ok=True)
        toy.as_4_bits(os.path.join(d, "llm.onnx"))
        reference = toy.Reference(d)
        texts = [reference(samples(part)) for part in PARTS]
        assert [transcribe(d, part)[1] for part in PARTS] == texts and texts != [toy.Reference(model)(samples(part)) for part in PARTS]


@case
def an_optimized_directory_is_the_same_model(model):
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        subprocess.run([STENO, "optimize", model, "-o", out], capture_output=True, text=True, check=True)
        want = toy.Reference(model)(samples(PARTS[1]))
        assert toy.Reference(out)(samples(PARTS[1])) == want and transcribe(out, PARTS[1])[1] == want


@case
def long_recordings_are_cut_to_what_the_caches_hold(model):
    info = subprocess.run([STENO, "model", "info", model], capture_output=True, text=True, check=True).stdout
    assert "languages  zh en ja\n" in info and "a chunk of at most 8 s" in info, info
    with Stenod("model.dir=" + model, "model.precision=fp32") as d:
        status, _, body = d.request("POST", "/v1/transcribe", wav(np.tile(SPEECH, 3).tobytes(), RATE), {"Content-Type": "audio/wav"})
        r = json.loads(body)
        assert status == 200 and len(r["segments"]) > 3 and max(s["end"] - s["start"] for s in r["segments"]) < 10, body


@case
def the_model_of_31_languages_says_so(_):
    with tempfile.TemporaryDirectory() as d:
        toy.write(d, comment="FunAudioLLM/Fun-ASR-MLT-Nano-2512")
        text = toy.Reference(d)(samples(PARTS[0]), language="韩文")
        assert transcribe(d, PARTS[0], "--language", "ko") == ("ko", text)


@case
def the_server_serves_it(model):
    reference = toy.Reference(model)
    with Stenod("model.dir=" + model, "model.precision=fp32", "pool.threads=2") as d:
        for i, part in enumerate(PARTS):
            status, _, body = d.request("POST", "/v1/transcribe?language=en&itn=off", wav(part.tobytes(), RATE), {"Content-Type": "audio/wav"})
            r = json.loads(body)
            assert status == 200 and (r["text"], r["language"]) == (reference(samples(part), language="英文", itn=False), "en"), (i, r)
        live = converse(d.ws, [{"type": "start", "sample_rate": RATE, "endpointing": False}, PARTS[0].tobytes(), {"type": "end"}])
        assert [m for m in live.messages if m["type"] == "final"][-1]["text"] == reference(samples(PARTS[0]))
        for query in ("language=ko", "language=en,ja"):
            status, _, body = d.request("POST", "/v1/transcribe?" + query, wav(PARTS[0].tobytes(), RATE), {"Content-Type": "audio/wav"})
            assert status == 400 and b"language" in body, body


@case
def what_does_not_fit_is_named(model):
    def path(d, *name):
        return os.path.join(d, *name)

    def other_rows(d):
        toy.embedding(path(d, "embedding.onnx"), np.zeros((toy.VOCAB, toy.D + 1), np.float32))

    def without_end(d):
        with open(path(d, toy.FOLDER, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump({"added_tokens": [{"id": toy.MARK["<|im_start|>"], "content": "<|im_start|>"}]}, f)

    def other_front(d):
        toy.set_meta(path(d, "encoder_adaptor.onnx"), model_type="sense_voice_encoder_adaptor", lfr_window_size=7)
    refused(model, [(lambda d: os.remove(path(d, "llm.onnx")), "there is no llm*.onnx"),
                    (lambda d: os.remove(path(d, "embedding.onnx")), "there is no embedding*.onnx"),
                    (lambda d: os.remove(path(d, "encoder_adaptor.onnx")), "there is no encoder_adaptor*.onnx"),
                    (lambda d: os.remove(path(d, toy.FOLDER, "vocab.json")), "there is no folder with vocab.json and tokenizer.json"),
                    (without_end, "there is no token <|im_end|>"),
                    (other_front, "metadata: lfr_window_shift is missing"),
                    (other_rows, "embeddings of 33 values, but rows of 32"),
                    (lambda d: shutil.copy(path(d, "embedding.onnx"), path(d, "llm.onnx")), "llm.onnx: expected embeddings, mask, positions"),
                    (lambda d: shutil.copy(path(d, "llm.onnx"), path(d, "embedding.onnx")), "embedding.onnx: expected one input, ids"),
                    (lambda d: shutil.copy(path(d, "llm.onnx"), path(d, "encoder_adaptor.onnx")), "encoder_adaptor.onnx: "),
                    (lambda d: toy.llm(path(d, "llm.onnx"), 128, toy.F32), "128 positions, which a prompt of"),
                    (lambda d: toy.llm(path(d, "llm.onnx"), 0, toy.F32, max_total_len=10), "caches of 10 positions, expected 64 to 65536")])


if __name__ == "__main__":
    main(toy.write)
