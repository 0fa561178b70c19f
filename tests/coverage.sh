#!/usr/bin/env bash
# Line coverage of the unit and operator tests, by gcovr.
set -eu
cd "$(dirname "$0")/.."
command -v gcovr >/dev/null || { echo "coverage: gcovr is not installed (apt-get install gcovr)"; exit 69; }
make -s -j"$(nproc)" B=build/coverage CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage tests
for t in build/coverage/tests/unit/test_* build/coverage/tests/ops/test_*; do
    case $t in *.o | *.d | *.gc*) continue ;; esac
    "$t" >/dev/null 2>&1 || echo "$t failed"
done
gcovr -r . --object-directory build/coverage -e 'tests/.*' -e 'build/.*' -s | tail -n 60
