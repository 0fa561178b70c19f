#!/usr/bin/env bash
# make plots: the figures of the documentation, from docs/data. Arguments go to plots.py.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv tests/bench/requirements.txt
build/venv/bin/python tests/bench/plots.py "$@"
