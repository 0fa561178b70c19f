"""Every kind of model that espnet_onnx exports, made and decoded by espnet_onnx itself (tests/espnet),
against steno: the same token ids, scores within 1e-3. TAP.

Runs where build/venv-espnet is (tests/espnet/venv.sh makes it; it takes 1.5 GB), else it is skipped."""
import os
import subprocess
import sys
import tempfile

from espnet_env import PYTHON, missing

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STENO = os.path.join(os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release")), "steno")
TESTS = os.path.join(ROOT, "tests", "espnet")


def renumber(runs):
    """Several runs' TAP as one."""
    lines = [line for r in runs for line in r.stdout.splitlines() if not line.startswith("1..")]
    print("1..%d" % sum(" - " in line and not line.startswith("#") for line in lines))
    n = 0
    for line in lines:
        if not line.startswith("#"):
            n += 1
            head, tail = line.split(" - ", 1)
            line = "%s %d - %s" % (head.rsplit(" ", 1)[0], n, tail)
        print(line)
    return max(r.returncode for r in runs)


def main():
    if missing():
        print(f"1..1\nok 1 # SKIP {missing()}")
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        made = subprocess.run([PYTHON, os.path.join(TESTS, "generate.py"), tmp,
                               os.path.join(ROOT, "tests", "data", "digits.wav")] + sys.argv[1:],
                              capture_output=True, text=True)
        if made.returncode:
            print("1..1\nnot ok 1 - models and references are made")
            print("".join("# %s\n" % line for line in made.stderr.splitlines()[-5:]))
            return 1
        compare = [sys.executable, os.path.join(TESTS, "compare.py")]
        return renumber([subprocess.run(compare + more + [STENO, tmp], capture_output=True, text=True)
                         for more in ([], ["--optimize"])])


if __name__ == "__main__":
    sys.exit(main())
