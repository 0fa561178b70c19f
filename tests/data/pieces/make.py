#!/usr/bin/env python3
"""Train three small SentencePiece models and record how they cut words. Needs sentencepiece (recorded with 0.2.3).

bpe, unigram: words of this repository's docs. bbpe: the same and random Chinese characters, as icefall prepares them
for byte-level BPE (icefall/byte_utils.py, byte_encode; icefall/utils.py, tokenize_by_CJK_char). A row of NAME.tsv is a
phrase, a tab, and its pieces.
"""
import glob
import io
import os
import random
import re

import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
LETTERS = [c for a, b in ((256, 287), (32, 126), (288, 305), (308, 318), (321, 328), (330, 382), (384, 422))
           for c in range(a, b + 1)]
CJK = re.compile("([\u1100-\u11ff\u2e80-\ua4cf\ua840-\uD7AF\uF900-\uFAFF\uFE30-\uFE4F\uFF65-\uFFDC\U00020000-\U0002FFFF])")


def byte_level(text):
    apart = " ".join(w for w in (w.strip() for w in CJK.split(text.upper())) if w)
    return "".join(chr(LETTERS[b]) for b in apart.encode())


def train(name, lines, kind, size, **more):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=size, character_coverage=1.0,
        normalization_rule_name="identity", bos_id=-1, eos_id=-1, num_threads=1, minloglevel=2, **more)
    with open(os.path.join(HERE, name + ".model"), "wb") as f:
        f.write(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def record(name, model, phrases, prepare=lambda p: p):
    with open(os.path.join(HERE, name + ".tsv"), "w", encoding="utf-8") as f:
        for p in phrases:
            f.write(f"{p}\t{' '.join(model.encode(prepare(p), out_type=str))}\n")


def main():
    rng = random.Random(36)
    text = " ".join(open(p, encoding="utf-8").read() for p in sorted(glob.glob(os.path.join(HERE, "../../../docs/*.md"))))
    words = re.findall("[a-z]{2,}", text.lower())
    rare = sorted(set(w for w in words if len(w) > 4))
    rng.shuffle(rare)
    lines = [" ".join(words[i:i + 12]) for i in range(0, len(words), 12)]
    for kind in ("bpe", "unigram"):
        more = {"unk_id": 0} if kind == "bpe" else {"unk_id": 2, "user_defined_symbols": ["<blk>", "<sos/eos>"]}
        record(kind, train(kind, lines, kind, 300, **more), rare[:150])
    common = [chr(0x4E00 + int(rng.paretovariate(0.6)) * 7 % 5000) for _ in range(4000)]
    chinese = ["".join(common[i:i + 10]) for i in range(0, len(common), 10)]
    mixed = [byte_level(c + " " + a) for a, c in zip(lines, chinese)]
    bbpe = train("bbpe", mixed, "unigram", 420, unk_id=2, user_defined_symbols=["<blk>", "<sos/eos>"])
    phrases = ["".join(rng.sample(common, 3)) for _ in range(40)] + rare[150:190] + \
        [f"{rare[i]} {''.join(rng.sample(common, 2))}{rare[i + 1]}" for i in range(20)]
    record("bbpe", bbpe, phrases, byte_level)


main()
