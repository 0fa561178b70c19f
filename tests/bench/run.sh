#!/usr/bin/env bash
# make bench: measures all rows that are not measured yet, then writes the tables build/bench/table.md and
# build/bench/length.tsv and draws build/bench/length.svg, all from build/bench/results.json. Arguments (those of
# `bench.py measure`) restrict the measurement. Without arguments: every workload in three precisions with memory, the
# curves over lengths, and two threads for the rows that ask for it.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv tests/bench/requirements.txt
bench() { build/venv/bin/python tests/bench/bench.py "$@"; }
if [ $# -gt 0 ]; then
    bench measure "$@"
else
    bench measure --precision fp32 --precision bf16 --precision int8
    bench memory --precision fp32 --precision bf16 --precision int8
    bench measure --precision fp32 --precision int8 --curve --only T=
    for frames in 1000 3000; do bench measure --precision fp32 --threads 2 --only "T=$frames"; done
fi
bench report --markdown build/bench/table.md --curves build/bench/length.tsv
cat build/bench/table.md
if [ "$(wc -l <build/bench/length.tsv)" -gt 2 ]; then
    build/venv/bin/python tests/bench/plots.py --data build/bench --out build/bench length
    echo "To publish the curves: cp build/bench/length.tsv docs/data && make plots"
fi
