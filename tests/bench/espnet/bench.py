"""`steno transcribe` against espnet_onnx (shared/tools/time_espnet_onnx.py) on one directory and recording: beam 10,
ctc_weight 0.3, 30 steps, with and without LM. Processor seconds of the best of several runs, loading not counted on
either side, so that other work on the machine matters little; peak memory of the whole process, loading included.

    bench.py --shared DIR --model DIR [--wav FILE] [--rows fp32,bf16,int8] [--runs N] [--cpu N] [--only steno|espnet_onnx]

Rows: fp32 and int8 against espnet_onnx's full and quantize networks; bf16 is the full ones with weights in bf16."""
import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile

STENO = os.path.join(os.environ.get("STENO_BUILD", "build/release"), "steno")
# The tool takes perf_counter; processor time of the process is what is wanted here.
SHIM = ("import runpy, sys, time; time.perf_counter = time.process_time; "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')")


def run(cmd, cpu):
    """(stdout, stderr, peak MiB) of a process that may use one processor."""
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


def steno(a, precision, lm):
    cmd = [STENO, "transcribe", "--model", a.model, "--beam", "10", "--ctc-weight", "0.3", "--lm-weight", str(lm), "--penalty",
           "0", "--maxlenratio", "-30", "--no-endpoint", "--format", "json", "--times"]
    cmd += ["--quantized"] if precision == "int8" else ["--precision", precision]
    _, err, peak = run(cmd + [a.wav] * a.runs, a.cpu)
    times = [float(x) for x in re.findall(r"s of audio, ([0-9.]+) s of processor", err)]
    assert len(times) == a.runs, err
    return min(times), peak


def espnet_onnx(a):
    """{(precision, lm): (seconds, peak MiB so far)}"""
    tool = os.path.join(a.shared, "tools", "time_espnet_onnx.py")
    out, _, _ = run([sys.executable, "-c", SHIM, os.path.abspath(tool), a.model, a.wav, "30"], a.cpu)
    rows = re.findall(r"(fp32|int8) lm ([0-9.]+): ([0-9.]+) s total, encoder ([0-9.]+) s.*maxrss (\d+) MB", out)
    assert len(rows) == 4, out
    return {(p, float(lm)): (float(t), float(e), int(mb)) for p, lm, t, e, mb in rows}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shared", required=True)
    ap.add_argument("--model", required=True)
    ap.add_argument("--wav")
    ap.add_argument("--rows", default="fp32,bf16,int8")
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    ap.add_argument("--only", choices=["steno", "espnet_onnx"])
    a = ap.parse_args()
    a.wav = os.path.abspath(a.wav or os.path.join(a.shared, "audio", "librispeech", "61-70968-0000.flac"))
    a.model = os.path.abspath(a.model)
    theirs = espnet_onnx(a) if a.only != "steno" else {}
    if a.only == "espnet_onnx":
        for (p, lm), (t, e, mb) in theirs.items():
            print(f"espnet_onnx {p} lm {lm}: {t:.3f} s, encoder {e:.3f} s, {mb} MiB so far")
        return
    print("| weights | LM | espnet_onnx s | MiB so far | steno s | MiB | times faster | of its memory |")
    print("|---|---|---|---|---|---|---|---|")
    for precision in a.rows.split(","):
        for lm in (0.0, 0.6):
            t, mb = steno(a, precision, lm)
            o = theirs.get(("int8" if precision == "int8" else "fp32", lm))
            tail = f"{o[0] / t:.2f} | {mb / o[2]:.2f}" if o else "- | -"
            print(f"| {precision} | {lm or '-'} | {o[0] if o else '-'} | {o[2] if o else '-'} | {t:.3f} | {mb:.0f} | {tail} |", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
