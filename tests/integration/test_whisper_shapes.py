"""Whisper of other shapes than tiny and base: 128 mel bands and 100 languages as large-v3 has, few decoder layers as
turbo and distil models have. Random weights (tests/bench/whisper_random.py); the encoder and the log-mel in f32 equal
those of ../shared/zoo/whisper/wnp.py, a Whisper in numpy, at every kernel level. TAP."""
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
ZOO = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared")) + "/zoo/whisper"
SPEED = os.path.join(ROOT, "build", "release", "tests", "bench", "whisper_speed")
SHAPES = {"large-v3": "--state 128 --heads 2 --layers 2 --text-layers 2 --mels 128 --vocab 51866",
          "turbo": "--state 192 --heads 3 --layers 3 --text-layers 1 --mels 128 --vocab 51866",
          "distil.en": "--state 128 --heads 2 --layers 2 --text-layers 1 --mels 80 --vocab 51864"}


def noise(n):
    x, out = 1, np.empty(n, np.float32)
    for i in range(n):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = (x >> 8) * 2.0**-24
    return out


def differences(directory, level, wnp):
    model = wnp.Whisper(directory)
    mels, d = model.W["encoder/conv1/weight"].shape[1], model.d
    path = os.path.join(directory, "out.f32")
    subprocess.run([SPEED, directory, "fp32", level, "1", path], check=True, stdout=subprocess.DEVNULL)
    ours = np.fromfile(path, "<f4")
    mel = (-4 + 3 * noise(3000 * mels)).reshape(3000, mels).astype("f4")
    rows = model.encode((np.maximum(mel, -4).T + 4) / 4)
    wanted = wnp.log_mel(noise(32000) - 0.5, mels)[:, :200].T
    have = ours[1500 * d :].reshape(200, mels)
    have = (np.maximum(have, have.max() - 8) + 4) / 4
    return np.abs(ours[: 1500 * d].reshape(1500, d) - rows).max(), np.abs(have - wanted).max()


def main():
    if not os.path.exists(ZOO + "/wnp.py") or not os.path.exists(SPEED):
        print("1..0 # SKIP needs ../shared/zoo/whisper/wnp.py and build/release/tests/bench/whisper_speed")
        return 0
    sys.path.insert(0, ZOO)
    import wnp
    cases = [(name, level) for name in SHAPES for level in ("", "avx2")]
    wrong = 0
    print(f"1..{len(cases)}")
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, level) in enumerate(cases, 1):
            directory = os.path.join(scratch, name)
            if not os.path.exists(directory):
                subprocess.run([sys.executable, os.path.join(HERE, "..", "bench", "whisper_random.py"), directory,
                                "--type", "float32", *SHAPES[name].split()], check=True)
            encoder, mel = differences(directory, level, wnp)
            good = encoder < 1e-3 and mel < 1e-4
            print("ok" if good else "not ok", number, "-", name, level or "all", f"encoder {encoder:.1e} mel {mel:.1e}")
            wrong += not good
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
