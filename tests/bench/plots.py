#!/usr/bin/env python3
"""`make plots`: draw the figures of the documentation from their data. Measures nothing.

    plots.py [--data docs/data] [--out docs/img] [length] [streams] [whisper] [latency]

Reads DATA/NAME.tsv and writes OUT/NAME.svg; without names, every figure. Lines that begin with # name the source
of the numbers and are printed below the figure. The same data give the same file, byte for byte.

    length.tsv   network precision frames steno_ms ort_ms: written by bench.py report --curves
    streams.tsv  series streams p50_ms p99_ms cpu_percent mean_batch: written by loadtest/curves.py together with
                 streams-time.tsv (series streams second batch), which is a fourth panel if it exists
    whisper.tsv  model work precision ratio: the table of docs/whisper.md, measured by tests/bench/whisper.py
    latency.tsv  model end ttfs_p50_ms ttfs_p95_ms whole_p50_ms: the tables of docs/latency.md, measured by loadtest/latency.py
"""
import argparse
import csv
import os

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def read(path):
    """The rows of a table as dictionaries, and its comments as one text."""
    with open(path, encoding="utf-8", newline="") as f:
        lines = f.read().splitlines()
    comment = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")), comment


def by(rows, *keys):
    """Rows grouped by the values of some columns, in the order of the file."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in keys), []).append(row)
    return groups


def numbers(rows, key):
    return [float(r[key]) for r in rows]


def finish(fig, comment, path):
    fig.tight_layout(rect=(0, 0.05 if comment else 0, 1, 1))
    if comment:
        fig.text(0.01, 0.015, comment, fontsize=7, color="grey")
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def length(data, path):
    """Time per frame of large encoders against the number of frames."""
    rows, comment = read(os.path.join(data, "length.tsv"))
    networks = by(rows, "network")
    if not networks:
        raise SystemExit("length.tsv: no rows")
    fig, axes = plt.subplots(1, len(networks), figsize=(4.5 * len(networks), 3.8), squeeze=False)
    for ax, ((network,), of_network) in zip(axes[0], networks.items()):
        frames = sorted({int(r["frames"]) for r in of_network})
        for (precision,), group in by(of_network, "precision").items():
            t = numbers(group, "frames")
            for who, key, color in (("steno", "steno_ms", "C0"), ("ONNX Runtime", "ort_ms", "C1")):
                ax.plot(t, [ms / n for ms, n in zip(numbers(group, key), t)], "o" + ("--" if precision == "int8" else "-"),
                        color=color, label=f"{who} {precision}", markersize=3)
        ax.set(title=network, xscale="log", xlabel="feature frames T", ylabel="ms per frame", ylim=0)
        ax.set_xticks(frames, [str(t) for t in frames], fontsize=7)
        ax.minorticks_off()
        ax.legend(fontsize=7)
    finish(fig, comment, path)


def batches_over_time(ax, rows):
    for (series, streams), group in by([r for r in rows if float(r["batch"]) > 0], "series", "streams").items():
        ax.plot(numbers(group, "second"), numbers(group, "batch"), label=f"{streams} streams, {series}")
    ax.set(xlabel="seconds", ylabel="streams per run of the network", ylim=0)
    ax.legend()


def streams(data, path):
    """Latency, processor time and batch size against the number of live streams."""
    rows, comment = read(os.path.join(data, "streams.tsv"))
    over_time = os.path.join(data, "streams-time.tsv")
    panels = 4 if os.path.exists(over_time) else 3
    with matplotlib.rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        fig, (latency, cpu, batch, *rest) = plt.subplots(1, panels, figsize=(4 * panels, 3.8))
        for (series,), group in by(rows, "series").items():
            n = numbers(group, "streams")
            line, = latency.plot(n, numbers(group, "p99_ms"), "o-", label=series)
            latency.plot(n, numbers(group, "p50_ms"), ":", color=line.get_color())
            cpu.plot(n, numbers(group, "cpu_percent"), "o-", color=line.get_color())
            batch.plot(n, numbers(group, "mean_batch"), "o-", color=line.get_color())
        latency.axhline(300, color="grey", lw=0.8, ls="--")
        latency.set(yscale="log", xlabel="real-time streams", ylabel="latency of partials, ms (line p99, dots p50)")
        cpu.set(xlabel="real-time streams", ylabel="processor time, % of a core per stream", ylim=0)
        batch.set(xlabel="real-time streams", ylabel="streams per run of the network", ylim=0)
        latency.legend()
        if rest:
            batches_over_time(rest[0], read(over_time)[0])
        finish(fig, comment, path)


def whisper(data, path):
    """How many times the processor time of steno another program takes, by kind of work."""
    rows, comment = read(os.path.join(data, "whisper.tsv"))
    models = by(rows, "model")
    colors = {"f32": "C0", "bf16": "C2", "int8": "C1"}
    fig, axes = plt.subplots(1, len(models), figsize=(5 * len(models), 4.2), squeeze=False, sharex=True)
    for ax, ((model,), of_model) in zip(axes[0], models.items()):
        at, ticks, names = 0.0, [], []
        for (work,), group in by(of_model, "work").items():
            places = [at + i for i in range(len(group))]
            bars = ax.barh(places, numbers(group, "ratio"), color=[colors[r["precision"]] for r in group])
            ax.bar_label(bars, fontsize=7, padding=2)
            ticks.append(sum(places) / len(places))
            names.append(work)
            at = places[-1] + 2
        ax.axvline(1, color="grey", lw=0.8, ls="--")
        ax.set(title=model, xlabel="times as fast as faster-whisper", xlim=(0, 1.12 * max(numbers(rows, "ratio"))))
        ax.set_yticks(ticks, names, fontsize=8)
        ax.invert_yaxis()
    axes[0][-1].legend(handles=[plt.Rectangle((0, 0), 1, 1, color=c, label=p) for p, c in colors.items()], fontsize=8, loc="lower right")
    finish(fig, comment, path)


def latency(data, path):
    """When the final is there, and when all its words are, by what ends a turn."""
    rows, comment = read(os.path.join(data, "latency.tsv"))
    models = by(rows, "model")
    fig, axes = plt.subplots(len(models), 1, figsize=(8, 0.9 + 0.45 * len(rows)), sharex=True, squeeze=False,
                             height_ratios=[len(group) for group in models.values()])
    for ax, ((model,), group) in zip(axes[:, 0], models.items()):
        median = numbers(group, "ttfs_p50_ms")
        late = [max(0, p95 - p50) for p50, p95 in zip(median, numbers(group, "ttfs_p95_ms"))]
        ax.barh(range(len(group)), median, xerr=[[0] * len(group), late], color="C0", capsize=3, label="final: median, and to p95")
        for place, m in enumerate(median):
            ax.text(8, place, f"{m:.0f} ms", fontsize=8, color="white", va="center")
        ax.plot(numbers(group, "whole_p50_ms"), range(len(group)), "D", color="C1", markersize=5, label="all its words are shown: median")
        ax.set_yticks(range(len(group)), [r["end"] for r in group], fontsize=8)
        ax.invert_yaxis()
        ax.set(title=model)
    axes[-1][0].set(xlabel="ms from the end of speech", xlim=0)
    axes[0][0].legend(fontsize=8)
    finish(fig, comment, path)


FIGURES = {"length": length, "streams": streams, "whisper": whisper, "latency": latency}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default="docs/data")
    ap.add_argument("--out", default="docs/img")
    ap.add_argument("figure", nargs="*", help=" ".join(FIGURES))
    a = ap.parse_args()
    for name in a.figure or FIGURES:
        if name not in FIGURES:
            ap.error(f"no figure {name}: {' '.join(FIGURES)}")
    os.makedirs(a.out, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "steno"  # so that the same numbers give the same file
    for name in a.figure or FIGURES:
        path = os.path.join(a.out, name + ".svg")
        FIGURES[name](a.data, path)
        print(f"drawn: {path}")


if __name__ == "__main__":
    main()
