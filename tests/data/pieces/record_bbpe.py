#!/usr/bin/env python3
"""Record how sherpa-onnx 2.0.1 writes a byte-level vocabulary: bbpe.json has tokens for the network
../shared/zoo/tiny/zipformer2-ctc-streaming (random weights) and texts of recordings. All pieces are whole characters:
bytes of none at the end of a word would decide about the space behind it in sherpa-onnx.
"""
import json
import os
import wave

import numpy
import sherpa_onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
MODEL = os.path.join(ROOT, "../shared/zoo/tiny/zipformer2-ctc-streaming/model.onnx")
LETTERS = [c for a, b in ((256, 287), (32, 126), (288, 305), (308, 318), (321, 328), (330, 382), (384, 422))
           for c in range(a, b + 1)]


def letters(text):
    return "".join(chr(LETTERS[b]) for b in text.encode())


def main():
    tokens = ["<blk>", "<sos/eos>", "<unk>"] + ["▁" + letters(c) for c in "一二三中大小人天地你我他们的了是在有不上"] + \
        [letters(c) for c in "十九很好"] + ["▁HE", "LLO", "▁A", "S", "T", "▁THE", "ING", "ED", "▁", "▁W", "ORLD", "▁ON", "E", "R", "N"]
    tokens += ["▁" + letters(c) for c in "年月日时分秒东西南北春夏秋冬风云水"]
    assert len(tokens) == 59
    path = "/tmp/bbpe_tokens.txt"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(tokens))
    recognizer = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(tokens=path, model=MODEL, num_threads=1)
    texts = {}
    for name in ("speech/jfk.wav", "speech/chinese.wav"):
        with wave.open(os.path.join(ROOT, "tests/data", name)) as w:
            x = numpy.frombuffer(w.readframes(w.getnframes()), numpy.int16).astype(numpy.float32) / 32768
        s = recognizer.create_stream()
        s.accept_waveform(16000, x)
        s.accept_waveform(16000, numpy.zeros(12800, numpy.float32))
        s.input_finished()
        while recognizer.is_ready(s):
            recognizer.decode_stream(s)
        texts[name] = recognizer.get_result(s)
    with open(os.path.join(HERE, "bbpe.json"), "w", encoding="utf-8") as f:
        json.dump({"made_with": "sherpa-onnx 2.0.1", "tokens": tokens, "texts": texts}, f, ensure_ascii=False, indent=1)


main()
