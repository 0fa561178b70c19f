#!/usr/bin/env bash
# The measured runs of docs/log/ and docs/capacity.md.
#   run.sh [curve|limit|uploads|clip|idle|start|overload|full|sherpa|storm|long]...   default: all but clip, storm and long
# Each run starts a server of its own and writes JSON to OUT (build/load). curves.py makes tables of it, tests/bench/plots.py draws them.
# Variables: MODEL (directory), THREADS ("1 2"), BATCH ("1 0": batching off, on), CURVE (numbers of
# streams), LIMIT_MS (300), CAPACITY (overload: instead of the measured one), STREAMS (300), STORM (1000 a second) and
# ROUNDS (2) of storm, SHERPA (directory of a transducer), SHERPA_WAV (16 kHz), FORMS ("int8 fp32") and SIDE ("1,4,16": streams) of sherpa, SECONDS_LONG (3600) of long and clip, SET (settings of the server, "model.precision=int8 model.quantized=yes").
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
[ $# -gt 0 ] || set -- curve limit uploads idle start overload full sherpa
# numpy, onnx and matplotlib for `full` and the plots, from the environment of `make bench`
python() {
    # shellcheck source=tests/venv.sh
    . tests/venv.sh
    venv tests/bench/requirements.txt >&2 && build/venv/bin/python "$@"
}

# Live streams play the recording twice, each time with 1.5 s of silence after it, as one file. A model with random
# weights would not give the same text for both halves, because its frames start at other samples.
said=$out/said.wav
python3 - "$wav" "$said" <<'PY' || exit 70
import sys, wave
with wave.open(sys.argv[1]) as f, wave.open(sys.argv[2], "wb") as to:
    once = f.readframes(f.getnframes()) + bytes(int(1.5 * f.getframerate()) * f.getnchannels() * f.getsampwidth())
    to.setparams(f.getparams())
    to.writeframes(2 * once)
PY

# The transcript without load is the one expected under load. It is fetched once per server and file.
declare -A expected
key="" # API key for curl and steno-load
expect() { # FILE
    [ -v "expected[$1]" ] ||
        expected[$1]=$(curl -fsS ${key:+-H "Authorization: Bearer $key"} --data-binary @"$1" "http://$at/v1/transcribe?format=text" | tr '\n' ' ' | sed 's/ *$//')
}
serve() { # THREADS BATCH [OPTION]...
    local threads=$1 batch=$2
    shift 2
    # shellcheck disable=SC2086
    start_server --threads "$threads" --set "pool.batch=$batch" ${model:+--model "$model"} ${SET:+$(printf -- '--set %s ' $SET)} \
        "$@" || exit 70
    expected=()
}
load() { # LABEL URL OPTION...
    local label=$1 url=$2 file=$wav
    shift 2
    case $url in ws:*) file=$said && set -- --gap-ms 0 --ramp 2 "$@" ;; esac
    expect "$file"
    "$B/loadtest/steno-load" --label "$label" --url "$url" --metrics "http://$at/metrics" --pid "$pid" \
        ${key:+--key "$key"} --expect "${expected[$file]}" --json "$out/$label.json" "$@" "$file"
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

# One user at a time shows what an answer takes beyond the model's work: the client's time minus the
# inference time in the server's log.
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

# A thousand silent WebSocket connections.
idle() {
    serve 2 0 --set websocket.idle_timeout=1h
    python3 loadtest/idle.py "${at%:*}" "${at##*:}" "$pid" "${SILENT:-1000}" | tee "$out/idle.txt"
    stop_server
}

start() {
    python3 loadtest/start.py "$B/stenod" ${model:+"$model"} | tee "$out/start.txt"
}

# Offers 0.9 times the capacity that the server states, then 3 times as much. As a rush: each client comes
# once, all within 2 s. And steady, for half a minute (STEADY s): a client that is done begins again, and a
# refused one comes back after Retry-After. The capacity is read while 3 times the idle server's capacity is
# offered, as the mean of five seconds: by then it includes what the clients take of the same machine.
stated() {
    curl -fsS "http://$at/metrics" | sed -n 's/^steno_stream_capacity{.*} //p'
}
overload() {
    local idle capacity kind part with
    for kind in rush steady; do
        serve 2 0 ${CAPACITY:+--set "pool.capacity=$CAPACITY"}
        while grep -q "until the cost of one" "$LOG" && ! grep -q "a live stream takes" "$LOG"; do sleep 0.1; done
        idle=$(stated)
        load "overload-$name-$kind-learn" "ws://$at/v1/stream" --users $((idle * 3)) --ramp 10 --seconds 25 --retry >/dev/null &
        sleep 22
        capacity=$(for _ in 1 2 3 4 5; do stated; sleep 1; done | awk '{ sum += $1 } END { print int(sum / NR) }')
        wait $!
        echo "$kind: stated capacity: idle $idle, with three times as many clients $capacity"
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
      f"{few['late_ms']['p99']:.1f} and {many['late_ms']['p99']:.1f} ms; served {few['ok']} and {many['ok']}, "
      f"refused {few['refused'] / few['seconds']:.0f} and {many['refused'] / many['seconds']:.0f} a second")
PY
    done
}

# How many streams of a full-size streaming Conformer (512 x 12, chunks of 6 encoder frames, random weights) one
# thread carries, batching off and on, in the precisions of FULL ("bf16 int8").
full() {
    local precision model=$out/conformer-512x12 name
    [ -f "$model/model.conf" ] || python loadtest/make_model.py "$model" || return 0
    for precision in ${FULL:-bf16 int8}; do
        name=conformer-512x12-$precision
        THREADS=1 BATCH=${BATCH:-1 0} FIRST=${FIRST:-16} SET="model.precision=$precision" limit
    done
}

# Real-time streams per core, stenod and sherpa-onnx with the same clients in one run (beside_sherpa.py). Without SHERPA: the
# Zipformer of 66 M of ../shared with random weights, on which speed does not depend.
sherpa() {
    local form dir=${SHERPA:-$out/zipformer2-66m} file=${SHERPA_WAV:-../shared/audio/speech/beckett.wav}
    if [ ! -d "$dir" ]; then
        [ -z "${SHERPA:-}" ] && [ -f ../shared/zoo/fill_weights.py ] || { echo "no model: set SHERPA" && return; }
        python ../shared/zoo/fill_weights.py ../shared/zoo/full/zipformer2-66m "$dir" || return
    fi
    # shellcheck source=tests/venv.sh
    . tests/venv.sh
    venv loadtest/requirements.txt >&2 || return
    for form in ${FORMS:-int8 fp32}; do
        B=$B python loadtest/beside_sherpa.py --form "$form" --streams "${SIDE:-1,4,16}" --json "$out/sherpa-$form.json" "$dir" "$file"
    done
}

# Processor time, in clock ticks, of the threads that refuse. Admitted streams do not use them.
refusal_ticks() {
    cat "/proc/$pid/task/"*/stat | awk '$2 ~ /acceptor|MHD/ { sum += $14 + $15 } END { print sum }'
}
beside() { # KIND URL ROUND WITH(0: the streams alone, 1: the storm too)
    local url=$2 is=storm-$name-$1 waits=() ticks
    ticks=$(refusal_ticks)
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
    echo $(($(refusal_ticks) - ticks)) >"$out/$is-ticks-$4-$3.json"
}
# Storms of requests that are refused: handshakes and uploads of an API key above its quota (429), uploads above
# limits.uploads (503). First at full speed on an otherwise idle server: the processor time per refusal. Then STORM per
# second beside STREAMS live streams, alternating with the streams alone: the effect on their partials. In the run with
# limits.uploads, admitted uploads run beside the streams both times.
storm() {
    local own="key of the streams" storms="key of the storm" places=4 kind url round with
    printf '[streams]\nkey = %s\n[storm]\nkey = %s\nrequests_per_minute = 1\n' "$own" "$storms" >"$out/keys"
    serve 2 0 --set auth.keys="$out/keys" --set limits.uploads=$places --set pool.capacity=20000
    for kind in quota-ws quota-rest uploads; do
        url=http://$at/v1/transcribe
        [ $kind = quota-ws ] && url=ws://$at/v1/stream
        key=$own
        expect "$wav"
        expect "$said"
        if [ $kind != uploads ]; then
            key=$storms
            load "storm-$name-$kind-cost" "$url" --users 64 --seconds 5 --gap-ms 0 --ramp 0.1 >/dev/null 2>&1
        fi
        for round in $(seq "${ROUNDS:-2}"); do
            for with in 0 1; do beside $kind "$url" "$round" $with; done
        done
        python3 loadtest/storm.py "$out/storm-$name-$kind" "${ROUNDS:-2}"
    done
    key=""
    stop_server
}

# One stream of an hour at full speed: cost of each ten minutes, and memory.
long() {
    serve 1 0
    "${PYTHON:-build/venv/bin/python}" loadtest/long.py "ws://$at/v1/stream" "$pid" "$wav" "${SECONDS_LONG:-3600}" |
        tee "$out/long-$name.txt"
    stop_server
}

echo "# $(machine)"
for what in "$@"; do
    case $what in
    curve | limit | uploads | clip | idle | start | overload | full | sherpa | storm | long) echo "## $what" && $what ;;
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
