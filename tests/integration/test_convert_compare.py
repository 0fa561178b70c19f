"""steno convert: the five best hypotheses of ESPnet, of espnet_onnx and of steno (tests/convert/espnet_compare.py). TAP.

Runs if build/venv-espnet exists (made by tests/espnet/venv.sh, 1.5 GB); otherwise it is skipped."""
import os
import subprocess
import sys
import tempfile
import wave

from espnet_env import PYTHON, missing
from test_convert import DATA, RECORDING, ROOT, STENO

RUNS = ((["--beam", "5"], ("conformer", "lm-gru", "transducer-lstm", "transducer-gru")),
        # ESPnet's search for RNN decoders, which have no batch form there, is another one with CTC
        (["--beam", "1", "--ctc", "0"], ("rnn-location", "rnn-coverage", "rnn-gru")))  # fmt: skip


def main():
    why = missing()
    if why:
        print(f"1..1\nok 1 # SKIP {why}")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as d:
        with wave.open(RECORDING) as whole, wave.open(f"{d}/speech.wav", "wb") as part:
            part.setparams(whole.getparams())
            part.writeframes(whole.readframes(2 * whole.getframerate()))
        for n, (options, names) in enumerate(RUNS, 1):
            p = subprocess.run([PYTHON, os.path.join(ROOT, "tests/convert/espnet_compare.py"), "--steno", STENO, *options,
                                f"{d}/speech.wav", *(f"{DATA}/{name}.zip" for name in names)],
                               capture_output=True, text=True, check=False)  # fmt: skip
            failed += p.returncode != 0
            print(f"{'not ok' if p.returncode else 'ok'} {n} - hypotheses of {', '.join(names)}")
            print("".join(f"# {line}\n" for line in (p.stdout if p.stdout else p.stderr[-500:]).splitlines()), end="", flush=True)
    print(f"1..{len(RUNS)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
