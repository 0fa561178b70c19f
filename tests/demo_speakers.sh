#!/usr/bin/env bash
# Who said what, after `make all`: the text of a dialogue by speaker, and who speaks when. demo_speakers.sh [FILE]; without
# one, a dialogue made of two recordings of tests/data. The networks that tell speakers apart are fetched unless they are
# there, and so is tiny.en unless STENO_MODEL names another model.
set -euo pipefail
cd "$(dirname "$0")/.."
fetch() { # NAME WHY
    build/steno model fetch "$1" >/dev/null || {
        echo "$1 could not be fetched: $2. docs/fetching.md tells how to bring it to a machine without a network." >&2
        exit 1
    }
}
run() {
    echo
    echo "\$ $*"
    "$@"
}

fetch speakers "two networks that tell speakers apart"
if [ -z "${STENO_MODEL:-}" ]; then
    fetch tiny.en "a model for English speech"
    export STENO_MODEL=tiny.en
fi
wav=${1:-build/dialogue.wav}
[ $# -gt 0 ] || python3 tests/dialogue.py "$wav"
run build/steno transcribe --speakers auto "$wav"
run build/steno speakers "$wav"
