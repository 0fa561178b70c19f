#!/usr/bin/env bash
# make bench-espnet: `steno transcribe` and espnet_onnx on the same full-size model and recording, in turn, on one
# processor. Needs ../shared (graphs, their filler, the timing tool, recordings) and build/venv-espnet, made here once
# from the pinned lists. Arguments go to bench.py; with --stream first it is the streaming conformer.
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
lists=(tests/bench/espnet/requirements.txt tests/bench/espnet/requirements-nodeps.txt)
stamp=build/venv-espnet/.made
if ! cat "${lists[@]}" | cmp -s - "$stamp"; then
    echo "Making build/venv-espnet from ${lists[*]}"
    mkdir -p build
    [ -x build/venv-espnet/bin/pip ] || python3 -m venv build/venv-espnet
    build/venv-espnet/bin/pip install -q -r "${lists[0]}" >build/venv-espnet.log 2>&1 &&
        build/venv-espnet/bin/pip install -q --no-deps -r "${lists[1]}" >>build/venv-espnet.log 2>&1 ||
        { tail -n 5 build/venv-espnet.log; exit 1; }
    cat "${lists[@]}" >"$stamp"
fi
if [ ! -f "$models/$name/full/transformer_lm.onnx" ]; then
    mkdir -p "$models"
    build/venv-espnet/bin/python "$shared/zoo/fill_weights.py" "$shared/zoo/full/$name" "$models/$name"
fi
exec build/venv-espnet/bin/python tests/bench/espnet/bench.py --shared "$shared" --model "$models/$name" "$@"
