#!/usr/bin/env bash
# make bench-espnet: `steno transcribe` and espnet_onnx on the same full-size model and recording, alternately, on one
# processor. Needs ../shared (graphs, their filler, the timing tool, recordings) and build/venv-espnet, which
# tests/espnet/venv.sh makes. Arguments go to bench.py; --stream as the first one selects the streaming conformer.
set -eu
cd "$(dirname "$0")/../../.."
shared=${STENO_SHARED:-../shared}
models=${STENO_ESPNET_MODELS:-build/bench/espnet-models}
name=espnet-conformer-op13
[ "${1:-}" != --stream ] || name=espnet-stream-conformer-op13
if [ ! -d "$shared/zoo/full/$name" ]; then
    echo "SKIP: $shared/zoo/full/$name is not there: no full-size model to measure"
    exit 0
fi
tests/espnet/venv.sh
if [ ! -f "$models/$name/full/transformer_lm.onnx" ]; then
    mkdir -p "$models"
    build/venv-espnet/bin/python "$shared/zoo/fill_weights.py" "$shared/zoo/full/$name" "$models/$name"
fi
exec build/venv-espnet/bin/python tests/bench/espnet/bench.py --shared "$shared" --model "$models/$name" "$@"
