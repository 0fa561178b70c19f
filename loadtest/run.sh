#!/usr/bin/env bash
# The measured runs of docs/log/ and docs/capacity.md.
#   run.sh [curve|limit|uploads|clip|idle|start|overload|full|storm|long]...   default: all but clip, storm and long
# Each starts a server of its own and writes JSON into OUT (build/load); curves.py puts them into tables, tests/bench/plots.py draws.
# Variables: MODEL (directory), THREADS ("1 2"), BATCH ("1 0": batching off, on), CURVE (numbers of
# streams), LIMIT_MS (300), CAPACITY (overload: instead of the measured one), STREAMS (300), STORM (1000 a second) and
# TURNS (2) of storm, SECONDS_LONG (3600) of long and clip, SET (settings of the server, "model.precision=int8 model.quantized=yes").
set -uo pipefail
cd "$(dirname "$0")/.." || exit 70
out=${OUT:-build/load}
LOG=$out/stenod.log
# shellcheck source=loadtest/server.sh
. loadtest/server.sh
wav=${WAV:-tests/data/digits.wav}
model=${MODEL:-}
name=$(basename "${model:-digits-en}")
mkdir -p "$out"
[ $# -gt 0 ] || set -- curve limit uploads idle start overload full
# numpy, onnx and matplotlib, for `full` and the plots: those of `make bench`
python() {
    # shellcheck source=tests/venv.sh
    . tests/venv.sh
    venv tests/bench/requirements.txt >&2 && build/venv/bin/python "$@"
}

# Live streams say the recording twice, 1.5 s of silence behind it each time, as one file: models of random
# weights do not say the same twice where frames lie elsewhere.
said=$out/said.wav
python3 - "$wav" "$said" <<'PY' || exit 70
import sys, wave
with wave.open(sys.argv[1]) as f, wave.open(sys.argv[2], "wb") as to:
    once = f.readframes(f.getnframes()) + bytes(int(1.5 * f.getframerate()) * f.getnchannels() * f.getsampwidth())
    to.setparams(f.getparams())
    to.writeframes(2 * once)
PY

# what the model hears alone is what it must hear under load; asked for once a server and file
declare -A heard
key="" # that curl and steno-load bring
hear() { # FILE
    [ -v "heard[$1]" ] ||
        heard[$1]=$(curl -fsS ${key:+-H "Authorization: Bearer $key"} --data-binary @"$1" "http://$at/v1/transcribe?format=text" | tr '\n' ' ' | sed 's/ *$//')
}
serve() { # THREADS BATCH [OPTION]...
    local threads=$1 batch=$2
    shift 2
    # shellcheck disable=SC2086
    start_server --threads "$threads" --set "pool.batch=$batch" ${model:+--model "$model"} ${SET:+$(printf -- '--set %s ' $SET)} \
        "$@" || exit 70
    heard=()
}
load() { # LABEL URL OPTION...
    local label=$1 url=$2 file=$wav
    shift 2
    case $url in ws:*) file=$said && set -- --gap-ms 0 --ramp 2 "$@" ;; esac
    hear "$file"
    "$B/loadtest/steno-load" --label "$label" --url "$url" --metrics "http://$at/metrics" --pid "$pid" \
        ${key:+--key "$key"} --expect "${heard[$file]}" --json "$out/$label.json" "$@" "$file"
}
p99() {
    python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); print(int(r["partial_ms"]["p99"]) if r["wrong"]+r["failed"]+r["refused"]==0 else 10**9)' "$out/$1.json"
}

curve() {
    local n t b
    for t in ${THREADS:-1 2}; do
        for b in ${BATCH:-1 0}; do
            serve "$t" "$b" --set pool.capacity=20000
            for n in ${CURVE:-16 64 128 256 512 768 1024}; do
                load "curve-$name-t$t-b$b-$n" "ws://$at/v1/stream" --users "$n" || true
                [ "$(p99 "curve-$name-t$t-b$b-$n")" -lt 2000 ] || break
            done
            stop_server
        done
    done
}

# The most streams whose p99 of partials stays below LIMIT_MS: doubling, then halving the interval.
limit() {
    local t b low high n
    for t in ${THREADS:-1 2}; do
        for b in ${BATCH:-1 0}; do
            low=0 high=0 n=${FIRST:-64}
            serve "$t" "$b" --set pool.capacity=20000
            while :; do
                load "limit-$name-t$t-b$b" "ws://$at/v1/stream" --users "$n" >/dev/null 2>&1
                if [ "$(p99 "limit-$name-t$t-b$b")" -le "${LIMIT_MS:-300}" ]; then
                    low=$n
                    cp "$out/limit-$name-t$t-b$b.json" "$out/best-$name-t$t-b$b.json"
                    [ "$high" = 0 ] && n=$((2 * n)) || n=$(((low + high) / 2))
                else
                    high=$n
                    n=$(((low + high) / 2))
                fi
                if [ "$high" != 0 ] && [ $((high - low)) -le $(((low + 15) / 16)) ]; then break; fi
                [ "$n" -lt 1 ] && break
            done
            echo "$name, $t threads, batch $([ "$b" = 1 ] && echo off || echo on): $low streams at p99 <= ${LIMIT_MS:-300} ms"
            stop_server
        done
    done
}

# One user at a time tells what an answer takes beyond the work of the model: the client's time less what
# the server's log says of each request.
uploads() {
    serve "${UPLOAD_THREADS:-2}" 0 --set log.format=json --set log.level=info
    load "uploads-$name-1" "http://$at/v1/transcribe" --users 1 --sessions "${UPLOADS:-500}" --gap-ms 0 || true
    python3 - "$out/uploads-$name-1.json" "$LOG" <<'PY'
import json
import statistics
import sys
answer = json.load(open(sys.argv[1], encoding="utf-8"))["answer_ms"]["p50"]
lines = [json.loads(x) for x in open(sys.argv[2], encoding="utf-8") if '"event":"request"' in x and '"/v1/transcribe"' in x]
said = [1000 * x["inference_seconds"] for x in lines]
beyond = [1000 * (x["seconds"] - x["inference_seconds"]) for x in lines]
print(f"{len(lines)} uploads, one at a time, p50: answer {answer:.2f} ms, inference {statistics.median(said):.2f} ms, "
      f"{answer - statistics.median(said):.2f} ms beyond it ({statistics.median(beyond):.2f} of them in the server)")
PY
    load "uploads-$name-8" "http://$at/v1/transcribe" --users 8 --seconds 10 --gap-ms 0 || true
    stop_server
}

# A clip of two seconds, one upload at a time: alone, then beside an upload of an hour.
clip() {
    local url part hour wav=$out/clip.wav
    python3 - "${WAV:-tests/data/digits.wav}" "$out/clip.wav" 2 "$out/hour.wav" "${SECONDS_LONG:-3600}" <<'PY'
import sys, wave
with wave.open(sys.argv[1]) as f:
    once = f.readframes(f.getnframes())
    for path, seconds in zip(sys.argv[2::2], sys.argv[3::2]):
        with wave.open(path, "wb") as to:
            to.setparams(f.getparams())
            n = int(seconds) * f.getframerate() * f.getsampwidth() * f.getnchannels()
            to.writeframes((once * (n // len(once) + 1))[:n])
PY
    serve "${UPLOAD_THREADS:-1}" 0 --set limits.body=1G --set limits.request_timeout=86400
    url=http://$at/v1/transcribe
    for part in alone beside; do
        if [ $part = beside ]; then
            curl -sS -o "$out/hour.json" --data-binary @"$out/hour.wav" "$url" &
            hour=$!
            while kill -0 $hour 2>/dev/null && ! curl -fsS "http://$at/metrics" | grep -q '^steno_workers_busy [1-9]'; do sleep 0.05; done
        fi
        load "clip-$name-$part" "$url" --users 1 --sessions "${CLIPS:-50}" --think-ms 20 --gap-ms 0 || true
    done
    kill $hour 2>/dev/null || echo "the hour was over before the last clip was answered: SECONDS_LONG=14400 CLIPS=10"
    stop_server
}

# Silent sockets: a thousand WebSocket connections that say nothing.
idle() {
    serve 2 0 --set websocket.idle_timeout=1h
    python3 loadtest/idle.py "${at%:*}" "${at##*:}" "$pid" "${SILENT:-1000}" | tee "$out/idle.txt"
    stop_server
}

start() {
    python3 loadtest/start.py "$B/stenod" ${model:+"$model"} | tee "$out/start.txt"
}

# What the server says it can carry: 0.9 of it, then 3 times as much offered. Once as a rush: each comes
# once, all within 2 s. Once for half a minute (STEADY s): who is through begins anew, who is refused comes
# back when Retry-After says. What it says is asked while 3 times as much as it said at rest is offered, the
# mean of the last five seconds: by then it knows what the clients take of the same machine.
stated() {
    curl -fsS "http://$at/metrics" | sed -n 's/^steno_stream_capacity{.*} //p'
}
overload() {
    local rest capacity kind part with
    for kind in rush steady; do
        serve 2 0 ${CAPACITY:+--set "pool.capacity=$CAPACITY"}
        while grep -q "until it is known" "$LOG" && ! grep -q "a live stream takes" "$LOG"; do sleep 0.1; done
        rest=$(stated)
        load "overload-$name-$kind-learn" "ws://$at/v1/stream" --users $((rest * 3)) --ramp 10 --seconds 25 --retry >/dev/null &
        sleep 22
        capacity=$(for _ in 1 2 3 4 5; do stated; sleep 1; done | awk '{ sum += $1 } END { print int(sum / NR) }')
        wait $!
        echo "$kind: stated at rest $rest, with three times as many at the door $capacity"
        with="--ramp 2"
        [ $kind = rush ] || with="--ramp 15 --seconds ${STEADY:-30} --retry"
        for part in 9 30; do
            # shellcheck disable=SC2086
            load "overload-$name-$kind-$part" "ws://$at/v1/stream" --users $((capacity * part / 10)) $with || true
            curl -fsS "http://$at/metrics" | grep -E '^steno_(stream_capacity|sessions_rejected_total.*(capacity|sessions))' || true
        done
        stop_server
        python3 - "$kind, capacity $capacity" "$out/overload-$name-$kind-9.json" "$out/overload-$name-$kind-30.json" <<'PY'
import json
import sys
few, many = (json.load(open(f, encoding="utf-8")) for f in sys.argv[2:])
print(f"{sys.argv[1]}: p99 of partials {few['partial_ms']['p99']:.1f} and {many['partial_ms']['p99']:.1f} ms, "
      f"{many['partial_ms']['p99'] / few['partial_ms']['p99']:.2f} times; this program's lateness, p99, "
      f"{few['late_ms']['p99']:.1f} and {many['late_ms']['p99']:.1f} ms; taken {few['ok']} and {many['ok']}, "
      f"refused {few['refused'] / few['seconds']:.0f} and {many['refused'] / many['seconds']:.0f} a second")
PY
    done
}

# How many streams of a full-size streaming Conformer (512 x 12, chunks of 6 rows, random weights) one thread
# carries, batching off and on, in the precisions of FULL ("bf16 int8").
full() {
    local precision model=$out/conformer-512x12 name
    [ -f "$model/model.conf" ] || python loadtest/make_model.py "$model" || return 0
    for precision in ${FULL:-bf16 int8}; do
        name=conformer-512x12-$precision
        THREADS=1 BATCH=${BATCH:-1 0} FIRST=${FIRST:-16} SET="model.precision=$precision" limit
    done
}

# Processor time of the threads that refuse, which no stream uses once it is let in, in clock ticks.
door_ticks() {
    cat "/proc/$pid/task/"*/stat | awk '$2 ~ /acceptor|MHD/ { sum += $14 + $15 } END { print sum }'
}
beside() { # KIND URL TURN WITH(0: the streams alone, 1: the storm too)
    local url=$2 is=storm-$name-$1 waits=() ticks
    ticks=$(door_ticks)
    key=$own
    if [ "$1" = uploads ]; then
        load "$is-places" "$url" --users "$places" --seconds 15 --gap-ms 0 >/dev/null 2>&1 &
        waits+=($!)
    fi
    load "$is-streams-$4-$3" "ws://$at/v1/stream" --users "${STREAMS:-300}" >/dev/null &
    waits+=($!)
    [ "$1" = uploads ] || key=$storms
    [ "$4" = 0 ] || load "$is-storm-$3" "$url" --users 100 --seconds 15 --gap-ms 0 --ramp 0.1 \
        --think-ms $((100000 / ${STORM:-1000})) >/dev/null 2>&1
    wait "${waits[@]}"
    echo $(($(door_ticks) - ticks)) >"$out/$is-ticks-$4-$3.json"
}
# Storms of requests that are refused: handshakes and uploads of an API key beyond its quota (429), uploads beyond
# limits.uploads (503). First flat out with nobody else there: the server's processor time of a refusal. Then STORM a
# second of them beside STREAMS live streams, in turns with the streams alone: what it does to their partials. Uploads
# beyond their places have those that are in them beside them in both turns.
storm() {
    local own="key of the streams" storms="key of the storm" places=4 kind url turn with
    printf '[streams]\nkey = %s\n[storm]\nkey = %s\nrequests_per_minute = 1\n' "$own" "$storms" >"$out/keys"
    serve 2 0 --set auth.keys="$out/keys" --set limits.uploads=$places --set pool.capacity=20000
    for kind in quota-ws quota-rest uploads; do
        url=http://$at/v1/transcribe
        [ $kind = quota-ws ] && url=ws://$at/v1/stream
        key=$own
        hear "$wav"
        hear "$said"
        if [ $kind != uploads ]; then
            key=$storms
            load "storm-$name-$kind-cost" "$url" --users 64 --seconds 5 --gap-ms 0 --ramp 0.1 >/dev/null 2>&1
        fi
        for turn in $(seq "${TURNS:-2}"); do
            for with in 0 1; do beside $kind "$url" "$turn" $with; done
        done
        python3 loadtest/storm.py "$out/storm-$name-$kind" "${TURNS:-2}"
    done
    key=""
    stop_server
}

# One stream of an hour, flat out: cost of each ten minutes, memory.
long() {
    serve 1 0
    "${PYTHON:-build/venv/bin/python}" loadtest/long.py "ws://$at/v1/stream" "$pid" "$wav" "${SECONDS_LONG:-3600}" |
        tee "$out/long-$name.txt"
    stop_server
}

echo "# $(machine)"
for what in "$@"; do
    case $what in
    curve | limit | uploads | clip | idle | start | overload | full | storm | long) echo "## $what" && $what ;;
    *)
        echo "run.sh: unknown run $what" >&2
        exit 64
        ;;
    esac
done
curves=$(ls "$out"/curve-"$name"-*.json 2>/dev/null)
if [ -n "$curves" ]; then
    # shellcheck disable=SC2086,SC2015
    python loadtest/curves.py "$out" $curves && python tests/bench/plots.py --data "$out" --out "$out" streams || echo "not drawn" >&2
fi
