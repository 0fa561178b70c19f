#!/usr/bin/env python3
"""`steno transcribe --compat espnet-onnx` against the results recorded by generate.py.

    compare.py [--optimize] STENO DIR [NAME...]

TAP, one line per model: the same token ids in the same order and scores within 1e-3; for the quantized networks
the best hypothesis. If the reference says "no compat", the same texts and scores without --compat. --optimize:
with the output of `steno optimize` for the model's directory.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run(steno, model, wav, options, count, compat, more=()):
    cmd = [steno, "transcribe", "--model", str(model), "--format", "nbest" if compat else "json", "--nbest", str(count)]
    cmd += ["--compat", "espnet-onnx"] if compat else ["--no-endpoint"]
    names = dict(beam_size="--beam", ctc_weight="--ctc-weight", lm_weight="--lm-weight",
                 maxlenratio="--maxlenratio")
    for key, value in options.items():
        cmd += [names[key], str(value)]
    done = subprocess.run([*cmd, *more, str(wav)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(cmd), done.stderr.strip()))
    answer = json.loads(done.stdout)
    if compat:
        return answer["nbest"]
    return answer["segments"][0].get("alternatives", answer["segments"])    # a single one has no score


def differs(want, got):
    """None, or the first difference. Equally good hypotheses may come in any order."""
    for i, w in enumerate(want):
        if i >= len(got):
            return "%d hypotheses, expected %d" % (len(got), len(want))
        g = got[i]
        if abs(g.get("score", w["score"]) - w["score"]) > 1e-3 + 1e-6 * abs(w["score"]):   # sums in f32
            return "hypothesis %d has score %.5f, expected %.5f" % (i, g["score"], w["score"])
        if "token_ids" not in g:        # no compat: texts, with one space between words
            if g["text"].split() != w["text"].split():
                return "alternative %d is '%s', expected '%s'" % (i, g["text"], w["text"])
        elif list(g["token_ids"]) != w["yseq"]:
            return "hypothesis %d is %s, expected %s" % (i, g["token_ids"], w["yseq"])
    return None


def differs_live(steno, model, wav, row):
    """The final of a live stream has the same text, and partials came before it."""
    options = [str(x) for k, v in row["options"].items() for x in ("--" + k.split("_size")[0].replace("_", "-"), v)]
    done = subprocess.run([steno, "transcribe", "--model", str(model), "--format", "json", "--stream", "--no-endpoint", *options, str(wav)],
                          capture_output=True, text=True, timeout=300)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    finals = [e["text"].split() for e in events if e["type"] == "final"]
    if done.returncode or finals != [row["nbest"][0]["text"].split()] or not any(e["type"] == "partial" for e in events):
        return "live: %s, expected '%s' %s" % (finals, row["nbest"][0]["text"], done.stderr[:200])
    return None


def differs_quantized(steno, model, wav, ref):
    """The same for the best hypothesis of quantize/, with scores within 0.15."""
    want = ref["best"]
    got = run(steno, model, wav, ref["options"], 1, True, ["--quantized"])[0]
    if list(got["token_ids"]) != want["yseq"] or not abs(got["score"] - want["score"]) < 0.15:
        return "quantized: %s, expected %s" % (got, want)
    return None


def optimized(steno, model, tmp):
    out = Path(tmp) / model.name
    done = subprocess.run([steno, "optimize", str(model), "-o", str(out)], capture_output=True,
                          text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return out


def check(steno, root, case, optimize):
    """None, or the difference."""
    ref = json.loads((root / case / "nbest.json").read_text())
    with tempfile.TemporaryDirectory() as tmp:
        model = optimized(steno, root / case, tmp) if optimize else root / case
        for row in ref["rows"]:
            count = row["options"].get("beam_size", 1000)
            got = run(steno, model, root / "speech.wav", row["options"],
                      min(len(row["nbest"]), count), "no compat" not in ref["reference"])
            why = differs(row["nbest"][:count], got)
            if not why and "by blocks" in ref["reference"]:
                why = differs_live(steno, model, root / "speech.wav", row)
            if why:
                return "%s: %s" % (row["options"], why)
        if ref.get("quantized"):
            return differs_quantized(steno, model, root / "speech.wav", ref["quantized"])
    return None


def main():
    optimize = "--optimize" in sys.argv
    steno, root, *names = [a for a in sys.argv[1:] if a != "--optimize"]
    root = Path(root)
    cases = sorted(p.parent.name for p in root.glob("*/nbest.json"))
    cases = [c for c in cases if not names or c in names]
    print("1..%d" % len(cases))
    failed = 0
    for n, case in enumerate(cases, 1):
        reference = json.loads((root / case / "nbest.json").read_text())["reference"]
        try:
            why = check(steno, root, case, optimize)
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as e:
            why = str(e)
        failed += why is not None
        print("%s %d - %s%s, as %s" % ("not ok" if why else "ok", n, case,
                                     ", optimized" if optimize else "", reference))
        if why:
            print("# %s" % why[:600])
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
