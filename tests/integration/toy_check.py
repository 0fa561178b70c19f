"""What the tests of small directories of random networks have in common."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from daemon import BUILD, ROOT, pcm, tap, wav

STENO = os.path.join(BUILD, "steno")
BYTES, RATE = pcm(os.path.join(ROOT, "tests", "data", "speech", "jfk.wav"))
SPEECH = np.frombuffer(BYTES, np.int16)


def pieces(*spans):
    """Of the speech, from and to seconds."""
    return [SPEECH[int(a * RATE):int(b * RATE)] for a, b in spans]


def samples(part):
    return part.astype(np.float32) / 32768


def transcribe(model, part, *args):
    """-> (code of the language, text) of part, samples of 16 bits"""
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        f.write(wav(part.tobytes(), RATE))
        f.flush()
        r = subprocess.run([STENO, "transcribe", "--model", model, "--precision", "fp32", "--no-endpoint", "--format", "json", *args, f.name],
                           capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    said = json.loads(r.stdout)
    return said["language"], said["text"]


def refused(model, faults):
    """faults: (what spoils a copy of the directory, a part of the message)"""
    for spoil, message in faults:
        with tempfile.TemporaryDirectory() as d:
            shutil.copytree(model, d, dirs_exist_ok=True)
            spoil(d)
            r = subprocess.run([STENO, "model", "info", d], capture_output=True, text=True, check=False)
            assert r.returncode and message in r.stderr, (message, r.stderr)


def main(write):
    """Run the cases on the directory that write(folder) makes."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        print("1..0 # SKIP the package onnxruntime is not installed")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        code = tap(folder)
    sys.exit(code)
