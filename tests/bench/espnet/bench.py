"""`steno transcribe` against espnet_onnx (theirs.py) on one directory and recording: beam 10, ctc_weight 0.3, 30
steps (--steps N), with and without LM, case by case alternately. Times are processor seconds of the best of
several runs without loading, so that other work on the machine matters little. Memory is the peak of the whole
process, with loading.

    bench.py [--stream] --shared DIR --model DIR [--wav FILE] [--rows fp32,bf16,int8] [--runs N] [--cpu N]
             [--only steno|espnet_onnx] [--lm 0,0.6] [--steps N] [--seconds S] [--their-threads N]

--stream: a streaming directory against espnet_onnx's StreamingSpeech2Text (theirs_stream.py), which with every
block searches all audio so far again; maxlenratio 0.12, three tokens per second. Encoder: the time with CTC
alone, which needs no search.

Rows: fp32 and int8 against espnet_onnx's full and quantize networks; bf16 is the full networks with bf16 weights."""
import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile

import soundfile

SEARCH = ["--beam", "10", "--ctc-weight", "0.3", "--maxlenratio", "0.12"]
EIGHT = ["--precision", "int8"]
OURS = {"int8": [("int8, quantize/ as it is", ["--quantized"]), ("int8 of full/", EIGHT)]}
STENO = os.path.join(os.environ.get("STENO_BUILD", "build/release"), "steno")


def run(cmd, cpu):
    """Run a process pinned to one processor. Returns (stdout, stderr, peak MiB)."""
    def pin():
        os.sched_setaffinity(0, {cpu})
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        p = subprocess.Popen(cmd, stdout=out, stderr=err, preexec_fn=pin)
        _, status, usage = os.wait4(p.pid, 0)
        out.seek(0)
        err.seek(0)
        text, errors = out.read(), err.read()
    if status:
        sys.exit(f"{' '.join(cmd[:4])} ...: status {status}\n{errors[-2000:]}")
    return text, errors, usage.ru_maxrss / 1024


def steno(a, how, lm, search):
    cmd = [STENO, "transcribe", "--model", a.model, *how, *search, "--lm-weight", str(lm), "--penalty", "0", "--no-endpoint",
           "--format", "json", "--times"]
    _, err, peak = run(cmd + [a.wav] * a.runs, a.cpu)
    times = [float(x) for x in re.findall(r"s of audio, ([0-9.]+) s of processor", err)]
    assert len(times) == a.runs, err
    return min(times), peak


def theirs(a, tool, *args):
    """(seconds, encoder's seconds, peak MiB) of theirs.py or theirs_stream.py in a process of its own. theirs.py
    says what differs from shared/tools/time_espnet_onnx.py."""
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), tool)
    out, _, _ = run([sys.executable, tool, a.model, a.wav, *map(str, args), str(a.runs), str(a.their_threads)], a.cpu)
    t, e, mb = re.search(r"([0-9.]+) s, encoder ([0-9.]+) s, (\d+) MiB", out).groups()
    return float(t), float(e), int(mb)


def streams(a):
    found = {}
    audio = soundfile.info(a.wav).duration
    print("| weights | espnet_onnx s/s | its encoder | MiB | steno s/s | without search | MiB | times faster | encoder |")
    print("|---|---|---|---|---|---|---|---|---|")
    for precision in a.rows.split(","):
        kind = "int8" if precision == "int8" else "fp32"
        if a.only != "steno" and kind not in found:
            found[kind] = theirs(a, "theirs_stream.py", kind)
        o = found.get(kind)
        head = f"{o[0] / audio:.3f} | {o[1] / audio:.3f} | {o[2]}" if o else "- | - | -"
        if a.only == "espnet_onnx":
            print(f"| {kind} | {head} | - | - | - | - | - |", flush=True)
            continue
        for name, how in OURS.get(precision, [(precision, ["--precision", precision])]):
            t, mb = steno(a, how, 0.0, SEARCH)
            alone, _ = steno(a, how, 0.0, ["--ctc-weight", "1", "--beam", "1"])
            tail = f"{o[0] / t:.1f} | {o[1] / alone:.1f}" if o else "- | -"
            print(f"| {name} | {head} | {t / audio:.4f} | {alone / audio:.4f} | {mb:.0f} | {tail} |", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shared", required=True)
    ap.add_argument("--model", required=True)
    ap.add_argument("--wav")
    ap.add_argument("--rows", default="fp32,bf16,int8")
    ap.add_argument("--lm", default="0,0.6", help="weights of the language model")
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    ap.add_argument("--seconds", type=float, help="of the recording, from its start")
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--their-threads", type=int, default=1, help="0: as ONNX Runtime chooses")
    ap.add_argument("--stream", action="store_true")
    ap.add_argument("--only", choices=["steno", "espnet_onnx"])
    a = ap.parse_args()
    a.wav = os.path.abspath(a.wav or os.path.join(a.shared, "audio", "librispeech", "61-70968-0000.flac"))
    a.model = os.path.abspath(a.model)
    with tempfile.TemporaryDirectory() as folder:
        if a.seconds:
            x, rate = soundfile.read(a.wav, dtype="int16")
            a.wav = os.path.join(folder, "cut.wav")
            soundfile.write(a.wav, x[:int(a.seconds * rate)], rate)
        measure(a)


def measure(a):
    if a.stream:
        streams(a)
        return
    print("| weights | LM | espnet_onnx s | its encoder | MiB | steno s | MiB | times faster | of its memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    found = {}
    for precision in a.rows.split(","):
        for lm in map(float, a.lm.split(",")):
            kind = "int8" if precision == "int8" else "fp32"
            if a.only != "steno" and (kind, lm) not in found:
                found[kind, lm] = theirs(a, "theirs.py", a.steps, kind, lm)
            o = found.get((kind, lm))
            head = f"{o[0]:.2f} | {o[1]:.2f} | {o[2]}" if o else "- | - | -"
            if a.only == "espnet_onnx":
                print(f"| {kind} | {lm or '-'} | {head} | - | - | - | - |", flush=True)
                continue
            for name, how in OURS.get(precision, [(precision, ["--precision", precision])]):
                t, mb = steno(a, how, lm, ["--beam", "10", "--ctc-weight", "0.3", "--maxlenratio", str(-a.steps)])
                tail = f"{o[0] / t:.1f} | {mb / o[2]:.2f}" if o else "- | -"
                print(f"| {name} | {lm or '-'} | {head} | {t:.3f} | {mb:.0f} | {tail} |", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
