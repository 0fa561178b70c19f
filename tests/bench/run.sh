#!/usr/bin/env bash
# make bench: measures what is not measured yet (arguments as `bench.py measure`), then writes the table to
# build/bench/table.md and the plot to docs/img/length.svg.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv tests/bench/requirements.txt
build/venv/bin/python tests/bench/bench.py measure "$@"
build/venv/bin/python tests/bench/bench.py report --markdown build/bench/table.md --plot docs/img/length.svg
cat build/bench/table.md
