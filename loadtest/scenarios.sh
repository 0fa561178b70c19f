#!/usr/bin/env bash
# The measured runs of docs/PERFORMANCE.md: a server of its own, the clients, figures as text and JSON.
#   scenarios.sh [streams|upload|curve]...   default: streams upload
# Variables: STREAMS (64), REPEAT (5), THREADS (2), OUT (build/load)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-build/load}
wav=tests/data/digits.wav
mkdir -p "$out"
[ $# -gt 0 ] || set -- streams upload

build/stenod --listen 127.0.0.1:0 --threads "${THREADS:-2}" --set limits.sessions=4096 \
    --set limits.connections=8192 --log-level notice 2>"$out/stenod.log" &
pid=$!
trap 'kill -TERM $pid 2>/dev/null; wait $pid || true' EXIT
url=""
for _ in $(seq 100); do
    url=$(sed -n 's|.*listening on http://||p' "$out/stenod.log" | head -n 1)
    [ -n "$url" ] && curl -fsS -o /dev/null "http://$url/readyz" 2>/dev/null && break
    sleep 0.1
done
# what the model hears alone is what it must hear under load
heard=$(curl -fsS --data-binary @"$wav" "http://$url/v1/transcribe?format=text" | tr '\n' ' ' | sed 's/ *$//')

echo "# $(date -u +%F) $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
for what in "$@"; do
    case $what in
    streams)
        echo "## ${STREAMS:-64} real-time streams"
        build/release/loadtest/wsload --url "ws://$url/v1/stream" --streams "${STREAMS:-64}" --repeat "${REPEAT:-5}" \
            --expect "$heard" --pid $pid --json "$out/streams.json" "$wav" || true
        ;;
    upload) # 103 times 5.824 s: ten minutes
        echo "## one upload of ten minutes"
        build/release/loadtest/httpload --url "http://$url/v1/transcribe" --requests 3 --repeat 103 --pid $pid \
            --json "$out/upload.json" "$wav" || true
        ;;
    curve)
        for n in 1 16 64 128 256 384 512; do
            echo "## $n real-time streams"
            build/release/loadtest/wsload --url "ws://$url/v1/stream" --streams $n --repeat 2 --ramp-ms 5 \
                --expect "$heard" --pid $pid --json "$out/curve-$n.json" "$wav" || true
        done
        ;;
    *)
        echo "scenarios.sh: unknown scenario $what" >&2
        exit 64
        ;;
    esac
done
