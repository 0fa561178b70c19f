"""Write the results of `loadtest/run.sh curve` as tables for tests/bench/plots.py: latency, processor time and batch size
against the number of streams, and the batch size over time in each series' run with the most streams.

    curves.py OUT build/load/curve-*.json        writes OUT/streams.tsv and OUT/streams-time.tsv

Files are grouped by the part of their label before the last dash: curve-MODEL-tTHREADS-bBATCH-N.
"""
import json
import os
import re
import sys


def name_of(key):
    m = re.match(r"curve-(.*)-t(\d+)-b(\d+)$", key)
    if not m:
        return key
    threads = "1 thread" if m[2] == "1" else f"{m[2]} threads"
    return f"{threads}, {'alone' if m[3] == '1' else 'in batches'}"


def write(path, header, rows):
    with open(path, "w", encoding="utf-8") as f:
        for row in [header, *rows]:
            f.write("\t".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) + "\n")


def main():
    out, groups = sys.argv[1], {}
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as f:
            r = json.load(f)
        groups.setdefault(r["label"].rsplit("-", 1)[0], []).append(r)
    curves, over_time = [], []
    for key in sorted(groups):
        runs = sorted(groups[key], key=lambda r: r["users"])
        curves += [(name_of(key), r["users"], float(r["partial_ms"]["p50"]), float(r["partial_ms"]["p99"]),
                    100.0 * r["server"]["cpu_seconds"] / r["audio_seconds"], float(r["server"]["mean_batch"])) for r in runs]
        over_time += [(name_of(key), runs[-1]["users"], float(p["t"]), float(p["batch"])) for p in runs[-1].get("timeline", [])]
    write(os.path.join(out, "streams.tsv"), ("series", "streams", "p50_ms", "p99_ms", "cpu_percent", "mean_batch"), curves)
    write(os.path.join(out, "streams-time.tsv"), ("series", "streams", "second", "batch"), over_time)


main()
