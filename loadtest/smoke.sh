#!/usr/bin/env bash
# A server on a free port and STREAMS (500) real-time streams for about 15 seconds. Fails if a
# transcript is wrong, a stream fails or is refused, or p99 of partials exceeds MAX_P99 (300) ms.
# The last line has the figures.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 70
out=build/load
LOG=$out/smoke-stenod.log
# shellcheck source=loadtest/server.sh
. loadtest/server.sh
streams=${STREAMS:-500}
start_server ${THREADS:+--threads "$THREADS"} --set pool.capacity=20000 || exit 70
"$B/loadtest/steno-load" --url "ws://$at/v1/stream" --metrics "http://$at/metrics" --pid "$pid" \
    --users "$streams" --say 2 --gap-ms 1500 --ramp 1 --max-p99 "${MAX_P99:-300}" \
    --json "$out/smoke.json" tests/data/digits.wav
rc=$?
stop_server
[ "$stopped" = 0 ] || { echo "the server stopped with status $stopped"; rc=70; }
python3 - "$out/smoke.json" $rc "$(machine)" <<'PY'
import json
import sys
r = json.load(open(sys.argv[1], encoding="utf-8"))
bad = r["wrong"] + r["failed"] + r["refused"]
print(f"loadtest-smoke: {'ok' if sys.argv[2] == '0' else 'FAILED'}: {r['users']} streams, {bad} bad, partials p50 "
      f"{r['partial_ms']['p50']:.1f} p99 {r['partial_ms']['p99']:.1f} ms, finals p99 {r['final_ms']['p99']:.1f} ms, "
      f"server {100 * r['server']['cpu_seconds'] / r['seconds']:.0f} % of a core, {r['server']['peak_rss_mib']:.0f} MiB, "
      f"batches of {r['server']['mean_batch']:.1f}; {sys.argv[3]}")
PY
exit $rc
