#!/usr/bin/env bash
# libFuzzer builds of the fuzz targets. Each runs for some time: run.sh [TARGET...]  (SECONDS_EACH=60)
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v clang-14 >/dev/null || ! ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer* >/dev/null 2>&1; then
    echo "fuzz: clang 14 and its run-time are not installed (apt-get install clang-14 libclang-rt-14-dev)"
    exit 69
fi
seconds=${SECONDS_EACH:-60}
make -j"$(nproc)" CC=clang-14 FUZZ=1 fuzzers
for bin in build/fuzzer/tests/fuzz/fuzz_*; do
    case $bin in *.o | *.d) continue ;; esac
    name=${bin##*/fuzz_}
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    work=build/fuzzer/corpus/$name
    mkdir -p "$work" "tests/fuzz/$name"
    echo "== $name, $seconds s"
    "$bin" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="$work/" \
        -print_final_stats=1 "$work" "tests/fuzz/$name" 2>&1 | tail -n 8
done
