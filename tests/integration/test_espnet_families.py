"""Every kind of model that espnet_onnx exports, made and decoded by espnet_onnx itself (tests/espnet), against
steno: the same token ids, scores within 1e-3. TAP.

Runs if build/venv-espnet exists (made by tests/espnet/venv.sh, 1.5 GB); otherwise it is skipped."""
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import soundfile

from daemon import Stenod, converse
from espnet_env import PYTHON, missing

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STENO = os.path.join(os.environ.get("STENO_BUILD", os.path.join(ROOT, "build", "release")), "steno")
TESTS = os.path.join(ROOT, "tests", "espnet")


def renumber(runs):
    """The TAP of several runs as one."""
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


def final(d, data):
    """The final text of a live stream of the samples."""
    pieces = [data[i:i + 6400] for i in range(0, len(data), 6400)]
    start = {"type": "start", "encoding": "s16le", "sample_rate": 16000, "endpointing": False, "maxlenratio": 0.3}
    got = converse(d.ws, [start, *pieces, {"type": "end"}]).messages
    return [m["text"] for m in got if m["type"] == "final"]


def together(root):
    """Streams of one worker, whose searches use the same networks alternately, give the same results as each stream
    alone. TAP."""
    lines, failed = [], False
    data = soundfile.read(os.path.join(root, "speech.wav"), dtype="int16")[0].tobytes()
    voices = [data, data[32000:128000], data[64000:]]
    for case in sorted(n for n in os.listdir(root) if n.startswith("stream_")):
        with Stenod(f"model.dir={os.path.join(root, case)}", "pool.threads=1", "pool.capacity=16") as d:
            alone = [final(d, v) for v in voices]
            with ThreadPoolExecutor(2 * len(voices)) as pool:
                same = list(pool.map(lambda v: final(d, v), voices + voices)) == alone + alone
        failed = failed or not same or not all(alone)
        lines.append("%s 0 - %s, several streams in turn" % ("ok" if same and all(alone) else "not ok", case))
    return SimpleNamespace(stdout="\n".join(lines), returncode=int(failed))


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
                         for more in ([], ["--optimize"])] + [together(tmp)])


if __name__ == "__main__":
    sys.exit(main())
