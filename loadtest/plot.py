"""Draw the curves of `loadtest/run.sh curve`: latency, processor time and batch size against the number of streams,
and, over time, the batches of each group's run of most streams.

    plot.py OUT.svg build/load/curve-*.json        (needs matplotlib)

Files are grouped by the part of their label before the last dash: curve-MODEL-tTHREADS-bBATCH-N.
"""
import json
import re
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def name_of(key):
    m = re.match(r"curve-(.*)-t(\d+)-b(\d+)$", key)
    if not m:
        return key
    threads = "1 thread" if m[2] == "1" else f"{m[2]} threads"
    return f"{threads}, {'alone' if m[3] == '1' else 'in batches'}"


def main():
    groups = {}
    for f in sys.argv[2:]:
        with open(f, encoding="utf-8") as g:
            r = json.load(g)
        groups.setdefault(r["label"].rsplit("-", 1)[0], []).append(r)
    matplotlib.rcParams.update({"svg.hashsalt": "steno", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    fig, (latency, cpu, batch, time) = plt.subplots(1, 4, figsize=(15, 3.6))
    for key in sorted(groups):
        runs = sorted(groups[key], key=lambda r: r["users"])
        n = [r["users"] for r in runs]
        line, = latency.plot(n, [r["partial_ms"]["p99"] for r in runs], "o-", label=name_of(key))
        latency.plot(n, [r["partial_ms"]["p50"] for r in runs], ":", color=line.get_color())
        cpu.plot(n, [100 * r["server"]["cpu_seconds"] / r["audio_seconds"] for r in runs], "o-", color=line.get_color())
        batch.plot(n, [r["server"]["mean_batch"] for r in runs], "o-", color=line.get_color())
        points = [p for p in runs[-1].get("timeline", []) if p["batch"] > 0]
        time.plot([p["t"] for p in points], [p["batch"] for p in points], color=line.get_color(), label=f"{n[-1]} streams")
    latency.axhline(300, color="grey", lw=0.8, ls="--")
    latency.set(yscale="log", xlabel="real-time streams", ylabel="latency of partials, ms (line p99, dots p50)")
    cpu.set(xlabel="real-time streams", ylabel="processor time, % of a core per stream", ylim=0)
    batch.set(xlabel="real-time streams", ylabel="streams per run of the network", ylim=0)
    time.set(xlabel="seconds", ylabel="streams per run of the network", ylim=0)
    latency.legend()
    time.legend()
    fig.tight_layout()
    fig.savefig(sys.argv[1], metadata={"Date": None})


main()
