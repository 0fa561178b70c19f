#!/usr/bin/env python3
"""KenLM's scores for the model of tests/unit/test_ngram.c, called as ESPnet's scorer calls it
(espnet/nets/scorers/ngram.py). Prints the table of the test, and checks that the binaries of the model
(tests/data/ngram) give the same scores. --arpa FILE writes the model, for build_binary."""
import argparse
import re
import sys
import tempfile
from pathlib import Path

import kenlm

TESTS = Path(__file__).parent.parent
TOKENS = ["<blank>", "a", "b", "c", "</s>", "<unk>", "q"]
HISTORIES = [[], [1], [2], [1, 2], [1, 2, 1], [3], [0, 2], [6], [2, 6], [1, 2, 3, 1]]


def arpa():
    source = (TESTS / "unit/test_ngram.c").read_text()
    literal = source[source.index("text[] ="):]
    literal = literal[:literal.index(";")]
    return "".join(bytes(s, "ascii").decode("unicode_escape")
                   for s in re.findall(r'"((?:[^"\\]|\\.)*)"', literal))


def table(path):
    model = kenlm.LanguageModel(str(path))
    rows = []
    for history in HISTORIES:
        state = kenlm.State()
        model.NullContextWrite(state)
        for word in ["<s>"] + [TOKENS[t] for t in history]:
            out = kenlm.State()
            model.BaseScore(state, word, out)
            state = out
        rows.append([model.BaseScore(state, t, kenlm.State()) for t in TOKENS])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arpa", type=Path)
    args = parser.parse_args()
    if args.arpa:
        args.arpa.write_text(arpa())
        return
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "lm.arpa"
        path.write_text(arpa())
        rows = table(path)
    for history, scores in zip(HISTORIES, rows):
        print("    {%d, {%s}, {%s}}," % (len(history), ", ".join(map(str, history)) or "0",
                                       ", ".join("%.5f" % s for s in scores)))
    for name in "probing.bin", "trie.bin":
        got = table(TESTS / "data/ngram" / name)
        worst = max(abs(a - b) for x, y in zip(rows, got) for a, b in zip(x, y))
        print("/* %s: differs by %.1g at most */" % (name, worst))
        if worst > 1e-5:
            sys.exit(1)


if __name__ == "__main__":
    main()
