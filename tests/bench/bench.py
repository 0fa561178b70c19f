#!/usr/bin/env python3
"""`make bench`: steno against ONNX Runtime. Each workload runs alternately in both, pinned to one core.

    bench.py measure [--only TEXT]... [--precision fp32|bf16|int8]... [--curve] [--again] [--rounds 5] [--seconds 2]
                     [--threads 1] [--core N]
    bench.py memory  [--only TEXT]... [--precision fp32|bf16|int8]... [--again]
    bench.py report [--markdown FILE] [--curves FILE.tsv]
    bench.py list

A round runs `steno bench` and then ONNX Runtime, each for about `--seconds`. The ratio of a row is the median
over the rounds of (ONNX Runtime's median / steno's median), so that a temporary load affects both. Above 1 steno
is faster. With one thread the times are processor time of that thread; on an otherwise idle machine that equals
wall time, and on a shared core only the own share counts. Every row is written to build/bench/results.json as
soon as it is measured, and is not measured again without --again. So an interrupted run continues where it
stopped.

`memory` measures what networks take to load and run once, for us and for ONNX Runtime (memory.py). It does not
use a clock.

bf16 compares our bf16 weights with ONNX Runtime's f32. int8 compares the f32 graph opened with --precision int8
with the graph made by ONNX Runtime's quantizer, which is further from f32
(tests/integration/test_int8_distance.py). Graphs without weights come from $STENO_SHARED (default ../shared) and
are filled with weights in build/bench/models.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import rows  # noqa: E402

SHARED = os.environ.get("STENO_SHARED", os.path.join(ROOT, "..", "shared"))
OUT = os.path.join(ROOT, "build", "bench")
RESULTS = os.path.join(OUT, "results.json")
TYPES = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(bool)": "?",
         "tensor(uint8)": "u1", "tensor(float16)": "f2", "tensor(double)": "f8"}


def model_path(name):
    """The path of a row's graph: in the repository, complete in the shared folder, or filled here first."""
    for path in (os.path.join(ROOT, name), os.path.join(SHARED, "models", name)):
        if os.path.exists(path):
            return path
    family = name.split("/")[0]
    source, filled = os.path.join(SHARED, "zoo", "full", family), os.path.join(OUT, "models", family)
    if not os.path.exists(os.path.join(OUT, "models", name)):
        if not os.path.isdir(source):
            return None
        subprocess.run([sys.executable, os.path.join(SHARED, "zoo", "fill_weights.py"), source, filled], check=True,
                       stdout=subprocess.DEVNULL)
    return os.path.join(OUT, "models", name)


def ort_session(path, threads):
    import onnxruntime as ort

    o = ort.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = threads, 1, 4
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def dims_of(info, shapes):
    """The extents of one input: from the row, or from the graph with its free dimensions named in the row, else 1."""
    if info.name in shapes:
        return list(shapes[info.name])
    return [d if isinstance(d, int) else shapes.get(d, 1) for d in info.shape]


def feeds(sess, shapes):
    import numpy as np

    rng, out = np.random.default_rng(0), {}
    for i in sess.get_inputs():
        dims, t = dims_of(i, shapes), np.dtype(TYPES[i.type])
        out[i.name] = rng.standard_normal(dims).astype(t) if t.kind == "f" else np.ones(dims, t)
    return out


def steno_command(path, sess, row, precision, threads, runs):
    cmd = [os.path.join(ROOT, "build", "release", "steno"), "bench", path, "--runs", str(runs), "--threads",
           str(threads), "--precision", precision, "--json"]
    for i in sess.get_inputs():
        cmd += ["--shape", f"{i.name}=" + "x".join(map(str, dims_of(i, row.shapes)))]
    if row.free_batch:
        cmd += ["--free-batch", ",".join(row.free_batch)]
    return cmd


def run_steno(cmd):
    """The command's JSON, or a text if it failed."""
    p = subprocess.run(cmd, capture_output=True, text=True, check=False)
    if p.returncode:
        return (p.stderr.strip().splitlines() or ["status %d" % p.returncode])[-1][:200]
    return json.loads(p.stdout)


def clock(sess, feed, runs, threads):
    now, t = time.thread_time if threads == 1 else time.perf_counter, []
    for _ in range(runs):
        begin = now()
        sess.run(None, feed)
        t.append((now() - begin) * 1e3)
    return t


def one_round(cmd_for, path, sess, feed, first_ms, a):
    """The medians of one round, after about a.seconds of runs of each."""
    runs = max(1 if first_ms > 1000 else 3, min(2000, round(a.seconds * 1e3 / first_ms)))
    ours = run_steno(cmd_for(path, runs))
    return ours, clock(sess, feed, runs, a.threads)


def paths(row, precision):
    """The graphs for steno and for ONNX Runtime."""
    return model_path(row.model), model_path(row.quantized if precision == "int8" else row.model)


def measure(row, precision, a):
    path, their_path = paths(row, precision)
    if not path or not their_path:
        return None
    sess = ort_session(their_path, a.threads)
    alone = {**row.shapes, **row.alone}
    feed, ours_at = feeds(sess, alone), precision
    clock(sess, feed, 1, a.threads)
    first_ms = min(clock(sess, feed, 1, a.threads))

    def cmd_for(model, runs):
        return steno_command(model, sess, row, ours_at, a.threads, runs)

    key = "cpu_ms" if a.threads == 1 else "median_ms"
    ratios, ours_ms, ort_ms = [], [], []
    for _ in range(a.rounds):
        ours, theirs = one_round(cmd_for, path, sess, feed, first_ms, a)
        if isinstance(ours, str):
            return {"refused": ours}
        theirs = [t * row.per for t in theirs]
        ratios.append(statistics.median(theirs) / ours[key])
        ours_ms.append(ours[key])
        ort_ms.append(statistics.median(theirs))
    return {"ratio": statistics.median(ratios), "ratios": ratios, **profile(cmd_for(path, 1)),
            "steno_ms": statistics.median(ours_ms), "ort_ms": statistics.median(ort_ms), "steno_min": min(ours_ms),
            "ort_min": min(ort_ms), "gflop": ours["gflop"], "peak_gflops": ours["peak_gflops"],
            "peak_fraction": ours["gflop"] / statistics.median(ours_ms) * 1e3 / ours["peak_gflops"],
            "arena": ours["arena_bytes"], "weights": ours["weights_bytes"],
            "nodes": ours["nodes"], "misplans": ours["misplans"], "level": ours["level"], "cpu": ours["cpu"],
            "rounds": a.rounds, "threads": a.threads}


def profile(cmd):
    """What `steno profile` reports for a bench command's network: the bytes that its nodes read and write, with
    weights as packed, and the bytes per second that one core reads from memory."""
    cmd = [cmd[0], "profile", *cmd[2:]]
    cmd[cmd.index("--runs") + 1] = "1"
    p = json.loads(subprocess.run(cmd, capture_output=True, text=True, check=True).stdout)
    return {"moved": p["mbytes"] * 1e6, "read_speed": p["limit_gbytes_per_s"] * 1e9}


def commit():
    p = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return p.stdout.strip()


def load(path=RESULTS):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(results):
    with open(RESULTS + ".new", "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1, sort_keys=True)
    os.replace(RESULTS + ".new", RESULTS)


def selected(a):
    for row in [*rows.TABLE, *([r for c in rows.CURVES.values() for r in c] if a.curve else [])]:
        for precision in a.precision or ["fp32"]:
            if (precision != "int8" or row.quantized) and all(t in row.name for t in a.only):
                yield row, precision


def command_measure(a):
    os.makedirs(OUT, exist_ok=True)
    os.sched_setaffinity(0, {a.core} if a.threads == 1 else set(range(a.threads)))
    results = load()
    for row, precision in selected(a):
        key = f"{row.name} {precision}" + ("" if a.threads == 1 else f" {a.threads} threads")
        if key in results and not a.again:
            continue
        before = os.getloadavg()[0]
        r = measure(row, precision, a)
        if r is None:
            print(f"{key}: no such graph under {SHARED}")
            continue
        import onnxruntime

        r.update(load=before, commit=commit(), date=time.strftime("%Y-%m-%d"), onnxruntime=onnxruntime.__version__,
                 python=platform.python_version())
        results = {**load(), key: r}
        save(results)
        print(f"{key}: " + (f"{r['refused']}" if "refused" in r else
                            f"steno {r['steno_ms']:.3f} ms, onnxruntime {r['ort_ms']:.3f} ms, ratio {r['ratio']:.2f}"),
              flush=True)


def command_memory(a):
    import memory

    os.makedirs(OUT, exist_ok=True)
    a.curve = False
    for row, precision in selected(a):
        key = f"{row.name} {precision} memory"
        path, their_path = paths(row, precision)
        if (key in load() and not a.again) or not path or not their_path:
            continue
        sess = ort_session(their_path, 1)
        cmd = steno_command(path, sess, row, precision, 1, 1)
        inputs = sum(v.nbytes for v in feeds(sess, row.shapes).values())
        del sess
        theirs = {**row.shapes, **row.alone} if row.free_batch else row.shapes
        r = {**memory.ours(cmd), **memory.theirs(their_path, theirs), "inputs": inputs, "commit": commit(), "date": time.strftime("%Y-%m-%d")}
        save({**load(), key: r})
        print(f"{key}: peak {r['peak'] / 2**20:.1f} MiB, weights {r['weights'] / 2**20:.1f}, arena "
              f"{r['arena'] / 2**20:.2f}; onnxruntime {r['ort_peak'] / 2**20:.1f}, {r['ort_arena'] / 2**20:.2f}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="command", required=True)
    m = sub.add_parser("measure", help="measure what is not measured yet")
    m.add_argument("--only", action="append", default=[], help="rows whose name holds this text (all of several)")
    m.add_argument("--precision", action="append", choices=["fp32", "bf16", "int8"])
    m.add_argument("--curve", action="store_true", help="also the curve over lengths")
    m.add_argument("--again", action="store_true", help="measure what is there already, too")
    m.add_argument("--rounds", type=int, default=5)
    m.add_argument("--seconds", type=float, default=2.0)
    m.add_argument("--threads", type=int, default=1)
    m.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    k = sub.add_parser("memory", help="peaks of loading and running once, where they are not measured yet")
    k.add_argument("--only", action="append", default=[], help="rows whose name holds this text (all of several)")
    k.add_argument("--precision", action="append", choices=["fp32", "bf16", "int8"])
    k.add_argument("--again", action="store_true", help="measure what is there already, too")
    r = sub.add_parser("report", help="the tables of what is measured")
    r.add_argument("--markdown", help="instead of standard output")
    r.add_argument("--curves", help="time against length, for plots.py")
    sub.add_parser("list", help="names of the rows")
    a = ap.parse_args()
    if a.command == "measure":
        command_measure(a)
    elif a.command == "memory":
        command_memory(a)
    elif a.command == "list":
        print("\n".join(r.name for r in rows.TABLE))
    else:
        import report

        report.write(load(), a.markdown, a.curves)


if __name__ == "__main__":
    main()
