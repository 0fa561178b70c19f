"""The tables of bench.py's results."""
import sys

import rows


def machine(results):
    measured = [r for r in results.values() if "ratio" in r]
    if not measured:
        return "Nothing is measured yet."
    last = max(measured, key=lambda r: r["date"])
    loads = sorted(r["load"] for r in measured)
    return (f"{last['cpu']}, level {last['level']}; ONNX Runtime {last['onnxruntime']}; load average "
            f"{loads[0]:.1f} to {loads[-1]:.1f}, median {loads[len(loads) // 2]:.1f}; commits "
            f"{', '.join(sorted({r['commit'] for r in measured}))}.")


def line(name, precision, r, wanted):
    if "refused" in r:
        return f"| {name} | {precision} | | | {r['refused']} | {wanted or ''} | |"
    spread = f"{min(r['ratios']):.2f}–{max(r['ratios']):.2f}"
    return (f"| {name} | {precision} | {r['steno_ms']:.3f} | {r['ort_ms']:.3f} | {r['ratio']:.2f} ({spread}) | "
            f"{wanted or ''} | {100 * r['peak_fraction']:.0f} % |")


def table(results):
    out = [machine(results), "",
           "| workload | precision | steno ms | ONNX Runtime ms | ratio (rounds) | wanted | of peak |",
           "|---|---|---|---|---|---|---|"]
    for row in rows.TABLE:
        for precision in ("fp32", "bf16", "int8"):
            for threads in ("", " 2 threads"):
                r = results.get(f"{row.name} {precision}{threads}")
                if r:
                    wanted = None if threads else row.wanted.get(precision)
                    out.append(line(row.name + threads, precision, r, wanted))
    return "\n".join(out) + "\n"


def limits(results):
    """The limit of the machine: all operations at the peak rate measured in registers, and all bytes that nodes read
    and write at memory speed. The larger of the two is the limit, as if both overlapped and nothing else took
    time. ONNX Runtime's share refers to the same limit; in the rows of bf16 it runs in f32, but the limit is that of
    bf16. Winograd's convolutions count as plain sums, and everything counts at the peak of the weights' precision.
    Where convolutions are a third, the limit in f32 and bf16 is about 15 % above the actual work
    (docs/log/2026-11-25.md counts it)."""
    out = ["", "| workload | precision | GFLOP | at the peak ms | bytes ms | share reached | ONNX Runtime's share | "
           "ratio at the limit | wanted |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows.TABLE:
        for precision in ("fp32", "bf16", "int8"):
            r = results.get(f"{row.name} {precision}", {})
            if "ratio" not in r or "moved" not in r:
                continue
            sums, reads = r["gflop"] / r["peak_gflops"] * 1e3, r["moved"] / r["read_speed"] * 1e3
            least = max(sums, reads)
            out.append(f"| {row.name} | {precision} | {r['gflop']:.3g} | {sums:.3g} | {reads:.3g} | "
                       f"{100 * least / r['steno_ms']:.0f} % | {100 * least / r['ort_ms']:.0f} % | "
                       f"{r['ort_ms'] / least:.1f} | {row.wanted.get(precision, '')} |")
    return "\n".join(out) + "\n"


def memory(results):
    """The goals: a peak of at most 1.1 times the packed weights, the arena and the inputs outside it (for small
    networks plus the program's own few MiB), and an arena of at most half of ONNX Runtime's."""
    out = ["", "| MiB | precision | packed weights | arena | inputs | peak | share of 1.1 weights + arena + inputs | "
           "ONNX Runtime: peak | arena | arena, share of its |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows.TABLE:
        for precision in ("fp32", "bf16", "int8"):
            r = results.get(f"{row.name} {precision} memory")
            if not r:
                continue
            mib = [f"{r[k] / 2**20:.1f}" for k in ("weights", "arena", "inputs", "peak", "ort_peak", "ort_arena")]
            out.append(f"| {row.name} | {precision} | {' | '.join(mib[:4])} | "
                       f"{r['peak'] / (1.1 * r['weights'] + r['arena'] + r['inputs']):.2f} | {mib[4]} | {mib[5]} | "
                       f"{r['arena'] / max(r['ort_arena'], 1):.2f} |")
    return "\n".join(out) + "\n" if len(out) > 3 else ""


def scaling(results):
    """Rows measured with one thread and with two."""
    pairs = [(name, results[name], results[name + " 2 threads"]) for name in sorted(results)
             if "ratio" in results[name] and "ratio" in results.get(name + " 2 threads", {})]
    if not pairs:
        return ""
    out = ["", "| workload | 1 thread ms | 2 threads ms | times |", "|---|---|---|---|"]
    out += [f"| {name} | {a['steno_ms']:.1f} | {b['steno_ms']:.1f} | {a['steno_ms'] / b['steno_ms']:.2f} |"
            for name, a, b in pairs]
    return "\n".join(out) + "\n"


def curves(results, path):
    """Time against length, as plots.py reads it: one line per network, precision and number of frames."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"# {machine(results)}\nnetwork\tprecision\tframes\tsteno_ms\tort_ms\n")
        for name, curve in rows.CURVES.items():
            for precision in ("fp32", "int8"):
                for row in curve:
                    r = results.get(f"{row.name} {precision}", {})
                    if "ratio" in r:
                        f.write(f"{name}\t{precision}\t{row.shapes['feats'][1]}\t{r['steno_ms']:.4g}\t{r['ort_ms']:.4g}\n")


def write(results, markdown, tsv):
    text = table(results) + limits(results) + memory(results) + scaling(results)
    if markdown:
        with open(markdown, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        sys.stdout.write(text)
    if tsv:
        curves(results, tsv)
