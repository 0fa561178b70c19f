"""Qwen3-ASR (family qwen3_asr) against ONNX Runtime with an own loop, on a small directory of random networks. TAP."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from unittest import mock


import toy_qwen_asr as toy
from daemon import ROOT, Stenod, case, converse, wav
from toy_check import RATE, SPEECH, STENO, main, pieces, refused, samples, transcribe

CODE = {"English": "en", "Spanish": "es", "None": "", None: ""}
PARTS = pieces((0, 4), (2, 5), (5, 11), (3, 3.5), (7, 9.13))


@case
def texts_and_languages_are_those_of_the_reference(model):
    reference, found = toy.Reference(model), set()
    for part in PARTS:
        language, text = reference(samples(part))
        assert transcribe(model, part) == (CODE[language], text), text
        found.add(language)
    assert {"English", "Spanish", "None"} <= found, "the recordings show little"


@case
def a_language_that_is_given_is_part_of_the_prompt(model):
    reference, other = toy.Reference(model), 0
    for part in PARTS:
        text = reference(samples(part), language="Spanish")[1]
        assert transcribe(model, part, "--language", "es-MX") == ("es", text), text
        other += text != reference(samples(part))[1]
    assert other


@case
def prompt_and_hotwords_are_the_context(model):
    reference, other = toy.Reference(model), 0
    for part in PARTS:
        for args, context in ((["--hotwords", "Kyiv :2, hello"], "Kyiv hello"), (["--prompt", " hello"], " hello"),
                              (["--prompt", "Kyiv", "--hotwords", "hello"], "Kyiv hello")):
            text = reference(samples(part), context)[1]
            assert transcribe(model, part, *args)[1] == text, (args, text)
            other += text != reference(samples(part))[1]
    assert other


@case
def a_context_that_is_too_long_is_cut(model):
    """Of 256 positions a context has 32."""
    words = "Kyiv" + " hello" * 60
    assert transcribe(model, PARTS[1], "--prompt", words)[1] == toy.Reference(model)(samples(PARTS[1]), "Kyiv" + " hello" * 31)[1]


@case
def caches_of_half_precision_and_of_any_length_give_the_text(_):
    with tempfile.TemporaryDirectory() as half, tempfile.TemporaryDirectory() as free:
        toy.write(half, cache_type=toy.F16)
        assert transcribe(half, PARTS[1])[1] == toy.Reference(half)(samples(PARTS[1]))[1]
        toy.write(free, positions=0)
        assert transcribe(free, SPEECH[:10 * RATE])[1] == toy.Reference(free)(samples(SPEECH[:10 * RATE]), positions=1024)[1]


@case
def caches_that_are_copied_with_the_new_rows_give_the_text(_):
    """Also for other runtimes: heads that queries share are one operator, whose function repeats them."""
    with tempfile.TemporaryDirectory() as d:
        model, out = os.path.join(d, "in"), os.path.join(d, "out")
        toy.write(model, form=toy.scattered)
        said = subprocess.run([STENO, "optimize", model, "-o", out], capture_output=True, text=True, check=True)
        assert "groups 2" in said.stdout + said.stderr, said
        want = toy.Reference(model)(samples(PARTS[1]))
        for folder in (model, out):
            assert toy.Reference(folder)(samples(PARTS[1])) == want and transcribe(folder, PARTS[1]) == (CODE[want[0]], want[1])


@case
def caches_are_read_where_they_are(model):
    path = os.path.join(model, "decoder.onnx")
    said = subprocess.run([STENO, "model", "info", path], capture_output=True, text=True, check=True).stdout
    assert re.search(r"PastAttention +0 +2\b", said) and re.search(r"Softmax +2 +0\b", said), said


@case
def an_optimized_directory_is_the_same_model(model):
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        subprocess.run([STENO, "optimize", model, "-o", out], capture_output=True, text=True, check=True)
        want = toy.Reference(model)(samples(PARTS[1]))
        assert toy.Reference(out)(samples(PARTS[1])) == want and transcribe(out, PARTS[1]) == (CODE[want[0]], want[1])


@case
def the_text_ends_where_the_caches_do(_):
    """The chunk is short enough that its text has room: 8 tokens a second, and 16."""
    with tempfile.TemporaryDirectory() as few:
        toy.write(few, positions=128)
        info = subprocess.run([STENO, "model", "info", few], capture_output=True, text=True, check=True).stdout
        assert "128 positions" in info and "a chunk of at most 3 s" in info, info
        assert transcribe(few, PARTS[1][:3 * RATE])[1] == toy.Reference(few)(samples(PARTS[1][:3 * RATE]), positions=128)[1]


@case
def the_server_serves_it(model):
    reference = toy.Reference(model)
    want = [reference(samples(part)) for part in PARTS]
    got = {}
    with Stenod("model.dir=" + model, "model.precision=fp32", "pool.threads=2") as d:
        def post(i):
            status, _, body = d.request("POST", "/v1/transcribe", wav(PARTS[i].tobytes(), RATE), {"Content-Type": "audio/wav"})
            got[i] = (status, json.loads(body))
        threads = [threading.Thread(target=post, args=(i,)) for i in range(len(PARTS))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i, (language, text) in enumerate(want):
            assert got[i][0] == 200 and got[i][1]["text"] == text and got[i][1]["language"] == CODE[language], got[i]
        live = converse(d.ws, [{"type": "start", "sample_rate": RATE, "language": "en", "endpointing": False}, PARTS[0].tobytes(), {"type": "end"}])
        final = [m for m in live.messages if m["type"] == "final"][-1]
        assert final["text"] == reference(samples(PARTS[0]), language="English")[1] and final["language"] == "en", final
        status, _, body = d.request("POST", "/v1/transcribe?language=en,de", wav(PARTS[0].tobytes(), RATE), {"Content-Type": "audio/wav"})
        assert status == 400 and b"one language" in body, body


@case
def a_fetched_one_is_served_by_its_name(model):
    """With its tokenizer in a folder, as in the catalogue's entry."""
    with tempfile.TemporaryDirectory() as data:
        catalogue = os.path.join(data, "catalogue.json")
        with open(catalogue, "w", encoding="utf-8") as f:
            json.dump({"models": [{"name": "toy", "family": "qwen3_asr", "about": "a test", "languages": "none", "license": "none", "bytes": 1000,
                                   "pick": ["*.onnx", "tokenizer/*.json"], "sources": [{"hub": "owner/toy", "revision": "main"}]}]}, f)
        with mock.patch.dict(os.environ, STENO_DATA=data, STENO_CATALOGUE=catalogue):
            subprocess.run([STENO, "model", "fetch", "toy", "--from", model], capture_output=True, check=True)
            want = toy.Reference(model)(samples(PARTS[1]))
            assert transcribe("toy", PARTS[1]) == (CODE[want[0]], want[1])
            with Stenod("model.dir=toy", "model.precision=fp32") as d:
                status, _, body = d.request("POST", "/v1/transcribe", wav(PARTS[1].tobytes(), RATE), {"Content-Type": "audio/wav"})
                assert status == 200 and json.loads(body)["text"] == want[1], body


@case
def what_does_not_fit_is_named(model):
    def spoil(d, name, change):
        path = os.path.join(d, name)
        with open(path, encoding="utf-8") as f:
            text = change(f.read())
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    tokenizer = os.path.join("tokenizer", "tokenizer_config.json")
    r = subprocess.run([STENO, "transcribe", "--model", model, "--prefix", "hello", os.path.join(ROOT, "tests", "data", "speech", "jfk.wav")], capture_output=True, text=True, check=False)
    assert r.returncode and "prefix: models like" in r.stderr, "only Whisper's text can begin with it: " + r.stderr
    refused(model, [(lambda d: os.remove(os.path.join(d, tokenizer)), "tokenizer_config.json: No such file"),
                    (lambda d: spoil(d, tokenizer, lambda s: s.replace("<asr_text>", "<text>")), "there is no token <asr_text>"),
                    (lambda d: spoil(d, tokenizer, lambda s: s.replace('"content"', '"text"')), "line 1: expected a number below"),
                    (lambda d: spoil(d, tokenizer, lambda s: "{}"), "there is no added_tokens_decoder"),
                    (lambda d: spoil(d, os.path.join("tokenizer", "vocab.json"), lambda s: "{"), "vocab.json"),
                    (lambda d: shutil.copy(os.path.join(d, "encoder.onnx"), os.path.join(d, "decoder.onnx")), "decoder.onnx: expected ids, rows of audio"),
                    (lambda d: toy.decoder(os.path.join(d, "decoder.onnx"), 40, toy.F32), "caches of 40 positions, expected 64 to 65536"),
                    (lambda d: os.remove(os.path.join(d, "encoder.onnx")), "encoder")])


if __name__ == "__main__":
    main(toy.write)
