"""Draw latency against the number of streams from the JSON files of `scenarios.sh curve`.

    plot.py OUT.svg build/load/curve-*.json        (needs matplotlib)
"""
import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

runs = sorted((json.load(open(f, encoding="utf-8")) for f in sys.argv[2:]), key=lambda r: r["streams"])
n = [r["streams"] for r in runs]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
for q, style in (("p50", "o-"), ("p95", "s-"), ("p99", "^-")):
    left.plot(n, [r["answer_ms"][q] for r in runs], style, label=q)
left.set(yscale="log", xlabel="real-time streams", ylabel="latency of answers, ms")
left.set_xticks([i for i in n if i >= 64])
left.legend()
right.plot(n, [100 * r["server_cpu_seconds"] / r["seconds"] for r in runs], "o-", label="CPU, % of one core")
right.plot(n, [r["server_rss_mib"] for r in runs], "s-", label="memory, MiB")
right.set(xlabel="real-time streams", ylim=0)
right.set_xticks([i for i in n if i >= 64])
right.legend()
fig.tight_layout()
fig.savefig(sys.argv[1])
