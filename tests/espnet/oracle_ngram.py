#!/usr/bin/env python3
"""Scores that KenLM, asked as ESPnet's scorer asks it (espnet/nets/scorers/ngram.py), gives the model
of tests/unit/test_ngram.c: prints its table."""
import re
import tempfile
from pathlib import Path

import kenlm

TOKENS = ["<blank>", "a", "b", "c", "</s>", "<unk>", "q"]
HISTORIES = [[], [1], [2], [1, 2], [1, 2, 1], [3], [0, 2], [6], [2, 6], [1, 2, 3, 1]]


def main():
    source = (Path(__file__).parent.parent / "unit/test_ngram.c").read_text()
    literal = source[source.index("text[] ="):]
    literal = literal[:literal.index(";")]
    arpa = "".join(bytes(s, "ascii").decode("unicode_escape")
                   for s in re.findall(r'"((?:[^"\\]|\\.)*)"', literal))
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "lm.arpa"
        path.write_text(arpa)
        model = kenlm.LanguageModel(str(path))
    for history in HISTORIES:
        state = kenlm.State()
        model.NullContextWrite(state)
        for word in ["<s>"] + [TOKENS[t] for t in history]:
            out = kenlm.State()
            model.BaseScore(state, word, out)
            state = out
        scores = [model.BaseScore(state, t, kenlm.State()) for t in TOKENS]
        print("    {%d, {%s}, {%s}}," % (len(history), ", ".join(map(str, history)) or "0",
                                       ", ".join("%.5f" % s for s in scores)))


if __name__ == "__main__":
    main()
