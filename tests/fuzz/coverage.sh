#!/usr/bin/env bash
# Which parts of each parser the inputs of its fuzz target reach: clang 14, line and region coverage of the files that a
# line "covers:" in fuzz_NAME.c names. The inputs are those of tests/fuzz/NAME with the variations of `make check`.
#   tests/fuzz/coverage.sh [--more DIR] [--uncovered] [TARGET...]
#   --more DIR: also the inputs of DIR/NAME, unchanged (a fuzzer's corpus); --uncovered: the lines that no input reached
set -euo pipefail
cd "$(dirname "$0")/../.."
more="" uncovered=""
while [ $# -gt 0 ]; do
    case $1 in
    --more) more=$2; shift 2 ;;
    --uncovered) uncovered=1; shift ;;
    *) break ;;
    esac
done
for tool in clang-14 llvm-profdata-14 llvm-cov-14; do
    command -v $tool >/dev/null || { echo "coverage: $tool is not installed (apt-get install clang-14 llvm-14 libclang-rt-14-dev)"; exit 69; }
done
B=build/cover
cc=clang-14
command -v ccache >/dev/null && cc="ccache clang-14"
make -s -j"$(nproc)" B=$B CC="$cc" CFLAGS="-O1 -g -fprofile-instr-generate -fcoverage-mapping" LDFLAGS=-fprofile-instr-generate fuzzers
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
printf '%-13s %6s  %-34s %14s %14s\n' target inputs file lines regions
for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    name=${name%.c}
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    read -ra files < <(sed -n 's|^/\* covers: \(.*\) \*/|\1|p' "$source" | paste -sd' ') || continue
    program=$B/tests/fuzz/fuzz_$name
    LLVM_PROFILE_FILE=$profiles/$name.raw "$program" "tests/fuzz/$name" >/dev/null 2>&1
    raw=("$profiles/$name.raw")
    inputs=$(find "tests/fuzz/$name" -type f ! -name 'README*' | wc -l)
    if [ -n "$more" ] && [ -d "$more/$name" ]; then
        LLVM_PROFILE_FILE=$profiles/$name.more.raw "$program" --plain "$more/$name" >/dev/null 2>&1
        raw+=("$profiles/$name.more.raw")
        inputs=$((inputs + $(find "$more/$name" -type f | wc -l)))
    fi
    llvm-profdata-14 merge -o "$profiles/$name" "${raw[@]}"
    # columns: file, regions, missed, share, functions, missed, share, lines, missed, share
    llvm-cov-14 report "$program" -instr-profile "$profiles/$name" "${files[@]}" |
        awk -v name="$name" -v inputs="$inputs" -v files="${files[*]}" '
            BEGIN { n = split(files, f, " ") }
            $2 ~ /^[0-9]+$/ && $1 != "TOTAL" {
                file = $1 # without their common prefix
                for (i = 1; i <= n; i++) if (index(file, f[i]) || substr(f[i], length(f[i]) - length(file) + 1) == file) file = f[i]
                printf "%-13s %6d  %-34s %5d %8s %5d %8s\n", name, inputs, file, $8, $10, $2, $4
            }'
    [ -z "$uncovered" ] || llvm-cov-14 show "$program" -instr-profile "$profiles/$name" -show-line-counts-or-regions \
        "${files[@]}" | awk '/^[^ ].*:$/ {file = $0} /^ +[0-9]+\| +0\|/ {print file $0}'
done
