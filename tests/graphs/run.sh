#!/usr/bin/env bash
# Random graphs: run.sh --minutes M | --count N [--from SEED]. Without --from the seeds are other ones each time; the last
# line names them. Graphs that fail are made smaller and stored in build/graphs/<seed>. B: the folder of the build.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv || exit 69
[[ " $* " == *" --from "* ]] || set -- "$@" --from "$((RANDOM * 100000))"
exec build/venv/bin/python tests/graphs/fuzz_graphs.py --runner "${B:-build/release}/tests/graphs/runner" --store build/graphs "$@"
