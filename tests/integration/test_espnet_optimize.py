"""`steno optimize DIR -o DIR2` for every recorded directory of espnet_onnx, full/ and quantize/ at once. espnet_onnx
itself, on stock onnxruntime, loads DIR2 and gives the n-best list of DIR: the same ids, scores within 1e-3. And
`steno` gives the same results with DIR2 as with DIR, for files and live streams, full and quantized, one token
per step. TAP.

Runs if ../shared exists, otherwise it is skipped; the part with espnet_onnx runs if build/venv-espnet exists
(tests/espnet/venv.sh)."""
import json
import os
import subprocess
import sys
import tempfile

from espnet_env import PYTHON, missing

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STENO = os.path.join(os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release")), "steno")
SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))
READ_BACK = os.path.join(ROOT, "tests", "espnet", "read_back.py")
TINY, AUDIO = os.path.join(SHARED, "zoo", "tiny"), os.path.join(SHARED, "audio", "librispeech", "61-70968-0002.flac")
NAMES = ["espnet-conformer-op13", "espnet-transformer-op13", "espnet-stream-conformer-op13"]  # the complete ones


def check(name, folder, options):
    p = subprocess.run([PYTHON, READ_BACK, os.path.join(TINY, name), folder, AUDIO, *options], capture_output=True, text=True)
    said = (p.stdout + p.stderr).strip().splitlines()
    return p.returncode, said[-1] if said else "nothing said"


def transcribed(folder, *options):
    """The output of `steno transcribe`: lines of JSON, or the error."""
    form = "nbest" if "--compat" in options else "json"
    p = subprocess.run([STENO, "transcribe", "--model", folder, "--format", form, "--nbest", "3", *options, AUDIO], capture_output=True,
                       text=True)
    return [json.loads(line) for line in p.stdout.splitlines()] or p.stderr


def alike(a, b, most=3e-3):
    """Equal except for the last digits of numbers, because sums have another order."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(alike(a[k], b[k], most) for k in a if k not in ("file", "model"))
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(alike(x, y, most) for x, y in zip(a, b))
    return abs(a - b) < most if isinstance(a, float) and isinstance(b, float) else a == b


def by_steno(name, folder, kind):
    """Files, live streams, CTC alone, the compat mode. Returns None, or the difference."""
    flags = ["--quantized"] * (kind == "quantized")
    steps = [subprocess.run([STENO, "model", "info", *flags, d], capture_output=True, text=True).stdout for d in (os.path.join(TINY, name), folder)]
    steps = [[line for line in s.splitlines() if line.startswith("steps")] for s in steps]
    if steps[0] != steps[1] or not steps[0] or "whole" in steps[0][0]:
        return f"model info: {steps}"
    for options in (["--stream"], [], ["--no-endpoint", "--ctc-weight", "1", "--lm-weight", "0"], ["--compat", "espnet-onnx"]):
        a, b = (transcribed(d, *flags, *options) for d in (os.path.join(TINY, name), folder))
        # Without passes the last digits of attention differ, and in 8 bits one of them may round to the next integer.
        most = 0.1 if options[0:1] == ["--compat"] and kind == "quantized" else 3e-3
        if isinstance(a, str) or not any(e.get("text") or e.get("nbest") for e in a) or not alike(a, b, most):
            return f"{options}: {str(a)[:100]} and {str(b)[:100]}"
    return None


def main():
    for path, why in ((TINY, "no recorded models"), (AUDIO, "no recordings")):
        if not os.path.exists(path):
            print(f"1..1\nok 1 # SKIP {path} is not there: {why}")
            return 0
    bad, number = 0, 0
    print(f"1..{4 * len(NAMES)}")
    for name in NAMES:
        with tempfile.TemporaryDirectory() as tmp:
            folder = os.path.join(tmp, "m")
            done = subprocess.run([STENO, "optimize", os.path.join(TINY, name), "-o", folder], capture_output=True, text=True)
            for kind in ("full", "quantized"):
                number += 1
                wrong = done.stderr if done.returncode else by_steno(name, folder, kind)
                bad += wrong is not None
                print(f"{'not ok' if wrong else 'ok'} {number} - {name}, {kind}, by steno" + (f": {wrong[:300]}" if wrong else ""), flush=True)
                number += 1
                if missing():
                    print(f"ok {number} - {name}, {kind} # SKIP {missing()}")
                    continue
                options = (["--quantized"] if kind == "quantized" else []) + (["--streaming"] if "stream" in name else [])
                code, said = (1, done.stderr) if done.returncode else check(name, folder, options)
                bad += code != 0
                print(f"{'not ok' if code else 'ok'} {number} - {name}, {kind}: {said[:300]}", flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
