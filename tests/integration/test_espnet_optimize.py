"""`steno optimize DIR -o DIR2` of every recorded directory of espnet_onnx, full/ and quantize/ at once: espnet_onnx itself, on
stock onnxruntime, loads DIR2 and gives the n-best list of DIR, ids the same, scores within 1e-3. TAP.

Runs where build/venv-espnet (tests/espnet/venv.sh) and ../shared are, else it is skipped."""
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
NAMES = ["espnet-conformer-op13", "espnet-transformer-op13", "espnet-stream-conformer-op13"]  # those that are complete


def check(name, folder, options):
    p = subprocess.run([PYTHON, READ_BACK, os.path.join(TINY, name), folder, AUDIO, *options], capture_output=True, text=True)
    said = (p.stdout + p.stderr).strip().splitlines()
    return p.returncode, said[-1] if said else "nothing said"


def main():
    if missing():
        print(f"1..1\nok 1 # SKIP {missing()}")
        return 0
    for path, why in ((TINY, "no recorded models"), (AUDIO, "no recordings")):
        if not os.path.exists(path):
            print(f"1..1\nok 1 # SKIP {path} is not there: {why}")
            return 0
    bad, number = 0, 0
    print(f"1..{2 * len(NAMES)}")
    for name in NAMES:
        with tempfile.TemporaryDirectory() as tmp:
            done = subprocess.run([STENO, "optimize", os.path.join(TINY, name), "-o", os.path.join(tmp, "m")], capture_output=True,
                                  text=True)
            for kind in ("full", "quantized"):
                number += 1
                options = (["--quantized"] if kind == "quantized" else []) + (["--streaming"] if "stream" in name else [])
                code, said = (1, done.stderr) if done.returncode else check(name, os.path.join(tmp, "m"), options)
                bad += code != 0
                print(f"{'not ok' if code else 'ok'} {number} - {name}, {kind}: {said[:300]}", flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
