#!/usr/bin/env bash
# The main use: build, fetch a model unless there is one, start the server, transcribe a recording by upload and as a
# live stream, show the metrics, stop. No key, no configuration, no second terminal. demo.sh [FILE.wav]; STENO_MODEL
# chooses the model (digits-en: nothing is fetched).
set -euo pipefail
cd "$(dirname "$0")/.."
wav=${1:-}

tests/deps.sh demo

# ---- build, with one progress line -----------------------------------------------------------
mkdir -p build
total=$(make -n all build/release/loadtest/wsclient 2>/dev/null | grep -cE "printf '  %-7s" || true)
done_steps=0
show() { if [ -t 1 ]; then printf '\r\033[K%s' "$1"; fi; }
started=$SECONDS
printf 'Building steno (%d steps)\n' "$total"
{ make -j"$(nproc)" all build/release/loadtest/wsclient 2>build/demo-build.err && echo BUILD-OK; } |
    while IFS= read -r line; do
        case $line in
        BUILD-OK) : >build/.demo-ok ;;
        "  "*)
            done_steps=$((done_steps + 1))
            show "  [$done_steps/$total]${line}"
            if [ ! -t 1 ] && [ $((done_steps % 40)) = 0 ]; then echo "  [$done_steps/$total]"; fi
            ;;
        esac
    done || true
show ""
[ -f build/.demo-ok ] || { tail -n 30 build/demo-build.err >&2; echo "The build failed." >&2; exit 1; }
rm -f build/.demo-ok
echo "Built in $((SECONDS - started)) s."

# ---- model -----------------------------------------------------------------------------------
# One of the catalogue if there is a network, and it stays for the next time; else the one that ships.
fetched() { build/steno model list | awk -v name="$1" 'NR > 1 && $NF ~ "^/" && (name == "" ? $1 != "silero-vad" && $1 != "speakers" && $1 != "smart-turn" : $1 == name) { found = 1 } END { exit !found }'; }
if [ -z "${STENO_MODEL:-}" ] && ! fetched ""; then
    echo
    echo "A model for English speech: 71 MB to download. It stays on this machine for the next start;"
    echo "'build/steno model remove tiny.en' deletes it."
    build/steno model fetch tiny.en >/dev/null || {
        echo "No model could be fetched, so this is digits-en, the model that ships: it knows spoken digits only."
        echo "docs/fetching.md tells how to bring a model to a machine without a network."
    }
fi

# ---- start -----------------------------------------------------------------------------------
log=build/demo-stenod.log
: >"$log"
build/stenod --listen 127.0.0.1:0 2>>"$log" &
pid=$!
trap 'kill -KILL $pid 2>/dev/null || true' EXIT
url=""
for _ in $(seq 600); do
    url=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$log" | head -n 1)
    [ -n "$url" ] && curl -fsS -o /dev/null "$url/readyz" 2>/dev/null && break
    kill -0 $pid 2>/dev/null || { cat "$log" >&2; echo "stenod stopped before it was ready." >&2; exit 1; }
    sleep 0.1
done
curl -fsS -o /dev/null "$url/readyz" || { cat "$log" >&2; echo "stenod did not become ready." >&2; exit 1; }
model=$(curl -fsS "$url/v1/models" | sed 's/.*"data":\[{"id":"\([^"]*\)".*/\1/')
echo
echo "stenod is ready at $url (process $pid). It serves $model."
[ -n "$wav" ] || { [ "$model" = digits-en ] && wav=tests/data/digits.wav || wav=tests/data/speech/jfk.wav; }

# ---- upload ----------------------------------------------------------------------------------
echo
echo "\$ curl $url/v1/audio/transcriptions -F file=@$wav -F model=$model"
curl -fsS "$url/v1/audio/transcriptions" -F "file=@$wav" -F "model=$model"
echo
echo
echo "The same recording as a live stream over WebSocket, at the pace of real time:"
build/release/loadtest/wsclient --url "ws${url#http}/v1/stream" "$wav"

# ---- another language ------------------------------------------------------------------------
case $model in
digits-en | *.en) ;;
*)
    echo
    echo "This model knows 99 languages and finds out which one it hears:"
    echo "\$ curl $url/v1/audio/transcriptions -F file=@tests/data/speech/chinese.wav -F model=$model"
    curl -fsS "$url/v1/audio/transcriptions" -F file=@tests/data/speech/chinese.wav -F "model=$model"
    echo
    echo "In English:"
    echo "\$ curl $url/v1/audio/translations -F file=@tests/data/speech/chinese.wav -F model=$model"
    curl -fsS "$url/v1/audio/translations" -F file=@tests/data/speech/chinese.wav -F "model=$model"
    echo
    ;;
esac
[ "$model" != tiny.en ] || {
    echo
    echo "'build/steno model fetch base' (133 MB) adds 98 more languages."
}

echo
echo "\$ curl $url/metrics | grep steno_ | head"
# head may close the pipe before grep has finished
{ curl -fsS "$url/metrics" | grep -E '^steno_.* [0-9.e+-]+$' | grep -vE ' 0$|_bucket|_info' | head -n 10; } || true

# ---- stop ------------------------------------------------------------------------------------
kill -TERM $pid
rc=0
wait $pid || rc=$?
trap - EXIT
echo
echo "stenod stopped on SIGTERM with status $rc."
echo
echo "'make demo-speakers' shows who said what in a dialogue (81 MB to download once)."
exit $rc
