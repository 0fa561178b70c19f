"""Marks and capitals: `steno punctuate` on the recorded networks of ../shared/punctuation."""
import json
import os
import subprocess
import sys
import tempfile

from daemon import BUILD, SHARED, case, need, tap

STENO = os.path.join(BUILD, "steno")
NETWORKS = os.path.join(SHARED, "punctuation")
ENGLISH = os.path.join(NETWORKS, "online-cnn-bilstm")


def steno(*args, text="", **env):
    return subprocess.run([STENO, *args], input=text, capture_output=True, text=True, env=dict(os.environ, **env))


def recorded(network, i):
    with open(need(os.path.join(NETWORKS, network, "recorded.json")), encoding="utf-8") as f:
        row = json.load(f)[i]
    return row["in"], row["out"]


@case
def lines_get_marks():
    for network in ("online-cnn-bilstm", "ct-transformer"):
        plain, marked = recorded(network, 1)
        x = steno("punctuate", "--model", os.path.join(NETWORKS, network), text=plain + "\n\n" + plain)
        assert (x.returncode, x.stdout) == (0, marked + "\n\n" + marked + "\n"), x


@case
def fetched_networks_are_found():
    plain, marked = recorded("online-cnn-bilstm", 1)
    with tempfile.TemporaryDirectory() as data:
        os.makedirs(os.path.join(data, "models"))
        os.symlink(ENGLISH, os.path.join(data, "models", "punctuation-en"))
        for args in ((), ("--model", "punctuation-en")):
            x = steno("punctuate", *args, text=plain + "\n", STENO_DATA=data)
            assert (x.returncode, x.stdout) == (0, marked + "\n"), x


@case
def what_is_missing_is_named():
    with tempfile.TemporaryDirectory() as data:
        x = steno("punctuate", STENO_DATA=data)
        assert x.returncode == 74 and "steno model fetch punctuation-en" in x.stderr, x
        x = steno("punctuate", "--model", data)
        assert x.returncode == 74 and "has no network of the layouts of sherpa-onnx" in x.stderr, x
        if os.path.isdir(ENGLISH):
            os.symlink(os.path.join(ENGLISH, "model.onnx"), os.path.join(data, "model.onnx"))
            x = steno("punctuate", "--model", data)
            assert x.returncode == 74 and "bpe.vocab: No such file" in x.stderr, x


if __name__ == "__main__":
    sys.exit(tap())
