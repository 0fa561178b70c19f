"""Cohere Transcribe (family cohere) against ONNX Runtime with an own loop, on a small directory of random networks. TAP."""
import json
import os
import shutil
import tempfile

import toy_cohere as toy
from daemon import Stenod, case, wav
from toy_check import RATE, SPEECH, main, pieces, refused, samples, transcribe

PARTS = pieces((0, 4), (2, 5), (5, 11), (7, 9.13))


def reference(model, part, *args, **options):
    ids = toy.Reference(model)(samples(part), *args, **options)
    return toy.pieces(ids).strip()


@case
def texts_are_those_of_the_reference(model):
    texts = set()
    for part in PARTS:
        for language in ("en", "de", "ja"):
            text = reference(model, part, language)
            assert transcribe(model, part, "--language", language) == (language if text else "", text), text
            texts.add(text)
        assert transcribe(model, part)[1] == reference(model, part), "English without a language"
    assert len(texts) > 2 * len(PARTS), "the language is of no consequence"


@case
def numbers_are_written_in_digits_or_not(model):
    words = [reference(model, part, itn=False) for part in PARTS]
    assert [transcribe(model, part, "--itn", "off")[1] for part in PARTS] == words
    assert words != [reference(model, part) for part in PARTS]


@case
def caches_may_leave_their_length_open(_):
    with tempfile.TemporaryDirectory() as free:
        toy.write(free, free=True)
        part = SPEECH[5 * RATE:13 * RATE]
        assert transcribe(free, part)[1] == reference(free, part, positions=60)


@case
def the_server_serves_it(model):
    with Stenod("model.dir=" + model, "model.precision=fp32") as d:
        def post(query):
            status, _, body = d.request("POST", "/v1/transcribe" + query, wav(PARTS[1].tobytes(), RATE), {"Content-Type": "audio/wav"})
            return status, json.loads(body)
        status, r = post("?language=de&itn=off")
        assert status == 200 and r["text"] == reference(model, PARTS[1], "de", itn=False) and r["language"] == "de", r
        status, r = post("?language=sw")
        assert status == 400 and "language" in r["error"]["message"], r


@case
def what_does_not_fit_is_named(model):
    def tokens_without(token):
        def spoil(d):
            with open(os.path.join(d, "tokens.txt"), encoding="utf-8") as f:
                text = f.read().replace(token, "<none>")
            with open(os.path.join(d, "tokens.txt"), "w", encoding="utf-8") as f:
                f.write(text)
        return spoil
    refused(model, ((tokens_without("<|noitn|>"), "tokens.txt: there is no <|noitn|>"),
                    (tokens_without("<|endoftext|>"), "tokens.txt: there is no <|endoftext|>"),
                    (lambda d: shutil.copy(os.path.join(d, "encoder.onnx"), os.path.join(d, "decoder.onnx")), "decoder.onnx: there is no input tokens"),
                    (lambda d: os.remove(os.path.join(d, "decoder.onnx")), "decoder")))


if __name__ == "__main__":
    main(toy.write)
