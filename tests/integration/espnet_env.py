"""The Python that has espnet_onnx: build/venv-espnet, made by tests/espnet/venv.sh."""
import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PYTHON = os.path.join(ROOT, "build", "venv-espnet", "bin", "python")
WANTED = os.path.join(ROOT, "tests", "espnet", "requirements.txt")
MADE = os.path.join(ROOT, "build", "venv-espnet", ".made")


def missing():
    """The reason why tests with espnet_onnx cannot run here, or None."""
    if not os.path.exists(PYTHON):
        return "no build/venv-espnet; tests/espnet/venv.sh makes it"
    with open(WANTED, encoding="utf-8") as wanted:
        if not os.path.exists(MADE) or open(MADE, encoding="utf-8").read() != wanted.read():
            return "build/venv-espnet is of other requirements; tests/espnet/venv.sh makes it anew"
    return None
