"""Whole streams beside sherpa-onnx on one core: encoder, decoder, joiner, features and search. Every measurement is a
process of its own, pinned to one core; ours and theirs alternate for some rounds, and the smallest processor time
counts. Times of streams are without loading the model; loading is a column of its own, ours with a warm cache of
packed weights.

    sherpa.py [--rounds 3] [--streams 1,4,16] [--beams 1,4] [--forms fp32,bf16,int8] [--seconds 10] MODEL FILE

MODEL: a directory with encoder, decoder, joiner (.onnx, .int8.onnx) and tokens.txt, such as the one that
../shared/zoo/fill_weights.py fills (random weights: speed does not depend on them). FILE: a 16 kHz WAV file. In bf16
only we round; sherpa-onnx runs the f32 files. Needs
sherpa-onnx 2.0.1 in this Python, and build/release/tests/bench/stream_speed."""
import argparse
import os
import subprocess
import sys
import time
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
OURS = os.path.join(ROOT, "build", "release", "tests", "bench", "stream_speed")


def theirs(model, form, beam, streams, seconds, path):
    """In a process of its own. Prints seconds of loading, and processor seconds per second of a stream."""
    import numpy as np
    import sherpa_onnx
    tail = ".int8.onnx" if form == "int8" else ".onnx"
    began = time.process_time()
    r = sherpa_onnx.OnlineRecognizer.from_transducer(
        tokens=f"{model}/tokens.txt", encoder=f"{model}/encoder{tail}", decoder=f"{model}/decoder.onnx",
        joiner=f"{model}/joiner{tail}", num_threads=1, max_active_paths=beam,
        decoding_method="modified_beam_search" if beam > 1 else "greedy_search")
    loaded = time.process_time() - began
    with wave.open(path) as w:
        rate = w.getframerate()
        pcm = np.frombuffer(w.readframes(int(seconds * rate)), np.int16).astype(np.float32) / 32768
    length = len(pcm) / rate
    s = [r.create_stream() for _ in range(streams)]

    def decode():
        while ready := [i for i in s if r.is_ready(i)]:
            r.decode_streams(ready)

    began = time.process_time()
    for at in range(0, len(pcm), rate // 10):
        for i in s:
            i.accept_waveform(rate, pcm[at:at + rate // 10])
        decode()
    for i in s:
        i.accept_waveform(rate, np.zeros(int(0.66 * rate), np.float32))
        i.input_finished()
    decode()
    for i in s:
        r.get_result(i)
    print(loaded, (time.process_time() - began) / (length * streams))


CACHE = os.path.join(ROOT, "build", "bench", "cache")


def measure(command):
    core = max(os.sched_getaffinity(0))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "STENO_CACHE": CACHE}
    os.makedirs(CACHE, exist_ok=True)
    out = subprocess.run(["taskset", "-c", str(core), *command], check=True, capture_output=True, text=True, env=env).stdout
    return [float(v) for v in out.split()[-2:]]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("file")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--streams", default="1,4,16")
    ap.add_argument("--beams", default="1,4")
    ap.add_argument("--forms", default="fp32,bf16,int8")
    ap.add_argument("--seconds", type=float, default=10)
    ap.add_argument("--theirs", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.theirs:
        form, beam, streams = a.theirs.split(",")
        return theirs(a.model, form, int(beam), int(streams), a.seconds, a.file)
    print("| form | beam | streams | ours, % of a core | sherpa-onnx | ratio | load, ours | sherpa-onnx, s |")
    print("|---|---|---|---|---|---|---|---|")
    for form in a.forms.split(","):
        for beam in a.beams.split(","):
            for streams in a.streams.split(","):
                best = {}
                for _ in range(a.rounds):
                    for side, command in (
                            ("ours", [OURS, a.model, form, beam, streams, str(a.seconds), a.file]),
                            ("theirs", [sys.executable, __file__, "--theirs", f"{form},{beam},{streams}", "--seconds",
                                        str(a.seconds), a.model, a.file])):
                        got = measure(command)
                        best[side] = [min(x, y) for x, y in zip(got, best.get(side, got))]
                ours, them = best["ours"], best["theirs"]
                print(f"| {form} | {beam} | {streams} | {100 * ours[1]:.2f} | {100 * them[1]:.2f} | "
                      f"{them[1] / ours[1]:.1f} | {ours[0]:.2f} | {them[0]:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
