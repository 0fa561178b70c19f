"""What the tests of GGUF files have in common: the program on recordings of ../shared."""
import json
import os
import subprocess
import sys
import tempfile

from daemon import SHARED, tap
from toy_check import STENO

ZOO = os.path.join(SHARED, "zoo", "tiny")
SPEECH = os.path.join(SHARED, "audio", "librispeech")
KINDS = ("F16", "BF16", "Q8_0", "Q4_0")


def steno(*args):
    return subprocess.run([STENO, *args], capture_output=True, text=True, check=False)


def transcribe(model, recording, *args):
    r = steno("transcribe", "--model", model, "--precision", "fp32", "--no-endpoint", "--format", "json", *args, recording)
    assert r.returncode == 0, r.stderr
    said = json.loads(r.stdout)
    said.pop("model", None)
    return said


def recordings():
    return [os.path.join(SPEECH, f) for f in sorted(os.listdir(SPEECH)) if f.endswith(".flac")]


def alike(a, b):
    """Equal, but for the last digit of confidences."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return abs(a - b) < 2e-3 if isinstance(a, float) else a == b


def check_same(model, zoo, *args):
    """A file says what the networks say whose weights it has, in every recording."""
    texts = set()
    for recording in recordings():
        said = transcribe(model, recording, *args)
        assert alike(said, transcribe(zoo, recording, *args)), (model, recording, args)
        texts.add(said["text"])
    assert len(texts) > 2, texts


def check_kinds(folder, convert, recording=None):
    """convert(path, kind, rounded) writes a model: each kind of elements is what it stands for."""
    recording = recording or recordings()[0]
    plain = f"{folder}/plain.gguf"
    convert(plain, "F32", False)
    texts = {transcribe(plain, recording)["text"]}
    for kind in KINDS:
        for rounded in (False, True):
            convert(f"{folder}/{rounded}.gguf", kind, rounded)
        said, wanted = [transcribe(f"{folder}/{rounded}.gguf", recording) for rounded in (False, True)]
        assert said == wanted, (kind, said["text"], wanted["text"])
        texts.add(said["text"])
    assert len(texts) > 1  # 4 bits are not 32


def check_refused(folder, convert, faults):
    """convert(path, change) writes a model; faults: (change(keys, tensors), a part of the message)"""
    for change, message in faults:
        convert(f"{folder}/bad.gguf", change)
        r = steno("model", "info", f"{folder}/bad.gguf")
        assert r.returncode and message in r.stderr, (message, r.stderr)


def put(name, value):
    """Sets a key."""
    return lambda keys, _: keys.update({name: value})


def lose(name):
    """Takes a key or a tensor away."""
    def change(keys, tensors):
        del (keys if name in keys else tensors)[name]
    return change


def main(model):
    """Run the cases, which need the model of ../shared/zoo/tiny."""
    if not os.path.isdir(os.path.join(ZOO, model)):
        print("1..0 # SKIP ../shared/zoo/tiny is not there")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        code = tap(folder)
    sys.exit(code)
