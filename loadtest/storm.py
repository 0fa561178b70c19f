"""What a storm of refusals costs: storm.py PREFIX ROUNDS reads the files of `run.sh storm`, prints the figures
(quantiles: the median over the rounds) and writes them to PREFIX.json."""
import json
import os
import sys
from statistics import median


def read(name):
    path = f"{sys.argv[1]}-{name}.json"
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


rounds = range(1, int(sys.argv[2]) + 1)
alone, beside, storms, quiet, busy = ([read(f"{what}-{n}") for n in rounds] for what in (
    "streams-0", "streams-1", "storm", "ticks-0", "ticks-1"))
refused = sum(r["refused"] for r in storms)
figures = {
    "refused_a_second": refused / sum(r["seconds"] for r in storms),
    # processor time of the refusing threads, minus the same without the storm
    "server_us_a_refusal_beside_streams": 1e6 * (sum(busy) - sum(quiet)) / os.sysconf("SC_CLK_TCK") / refused,
    "partial_p50_ms": [median([r["partial_ms"]["p50"] for r in runs]) for runs in (alone, beside)],
    "partial_p99_ms": [median([r["partial_ms"]["p99"] for r in runs]) for runs in (alone, beside)],
    "late_p99_ms": [median([r["late_ms"]["p99"] for r in runs]) for runs in (alone, beside)],
    "bad": sum(r["wrong"] + r["failed"] + r["refused"] for r in alone + beside),
    "storm_failed": sum(r["failed"] + r["wrong"] for r in storms),
}
cost = read("cost")
if cost:
    figures["flat_out_a_second"] = cost["refused"] / cost["seconds"]
    figures["server_us_a_refusal"] = 1e6 * cost["server"]["cpu_seconds"] / cost["refused"]
with open(sys.argv[1] + ".json", "w", encoding="utf-8") as f:
    json.dump(figures, f, indent=2)
p50, p99, late = (figures[k] for k in ("partial_p50_ms", "partial_p99_ms", "late_p99_ms"))
print(f"{os.path.basename(sys.argv[1])}: " + (
    f"flat out {figures['flat_out_a_second']:.0f} refusals a second, {figures['server_us_a_refusal']:.0f} us of the "
    f"server's processor time each; " if cost else "") +
      f"{figures['refused_a_second']:.0f} a second beside {beside[0]['users']} streams, "
      f"{figures['server_us_a_refusal_beside_streams']:.0f} us each; partials p50 {p50[0]:.1f} and {p50[1]:.1f}, p99 "
      f"{p99[0]:.1f} and {p99[1]:.1f} ms, {p99[1] / p99[0]:.2f} times; this program's lateness, p99, {late[0]:.1f} and "
      f"{late[1]:.1f} ms; {figures['bad']} bad streams, {figures['storm_failed']} requests of the storm neither "
      f"refused nor correct")
