#!/usr/bin/env bash
# Instruction counts of small fixed workloads (valgrind --tool=callgrind, level avx2) against tests/counts.txt. A count
# does not depend on the machine's load. A workload that grew by more than 3 % fails; if the growth is intended, write
# the new count to the file with a note. TAP; skipped if valgrind or the compiler of the counts is absent.
#   tests/counts.sh [--write]     --write: put today's counts into the file and keep the notes
set -u
cd "$(dirname "$0")/.." || exit 70
file=tests/counts.txt
steno=build/release/steno
compiler=$(gcc -dumpfullversion 2>/dev/null)
made_with=$(sed -n 's/^# gcc //p' "$file")
skip() { echo "1..0 # SKIP $1"; exit 0; }
command -v valgrind >/dev/null || skip "valgrind is absent"
[ -x "$steno" ] || skip "no release build"
[ "${1:-}" = --write ] || [ "$compiler" = "$made_with" ] || skip "counts are of gcc $made_with, this is $compiler"
readelf --debug-dump=info build/release/engine/base/status.o 2>/dev/null | grep -q "DW_AT_producer.* -O2" || skip "built with other options (CFLAGS)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

counted() { # [VALGRIND OPTION]... COMMAND...: instructions of one process
    STENO_CPU=avx2 valgrind --tool=callgrind --callgrind-out-file="$work/calls" "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}
# Instructions of one run of a network: the last of four in one process, each with its own dump. Nothing else is
# counted.
per_run() { # MODEL [OPTION]...
    rm -f "$work"/calls.*
    counted --toggle-collect=steno_session_run --dump-after=steno_session_run "$steno" bench "$@" --runs 1 >"$work/all"
    sed -n 's/^totals: //p' "$work/calls.4"
}
count() { # NAME
    case $1 in
    encoder) per_run conf/models/digits-en/encoder.onnx ;;
    encoder-4)
        set -- --shape x=4x27x40 # valgrind computes each FMA in C, so sixteen streams take 24 s of a processor, four 7
        for i in 0 1 2 3; do
            set -- "$@" --shape "kv_$i=4x24x256" --shape "conv_$i=4x8x128"
        done
        per_run conf/models/digits-en/encoder.onnx "$@"
        ;;
    load) counted "$steno" model info conf/models/digits-en/encoder.onnx ;;
    esac
}

out=$work/file
n=0 failed=0
while read -r name want note; do
    case $name in '' | '#') echo "$name $want $note" | sed 's/^ *$//' >>"$out"; continue ;; esac
    got=$(count "$name")
    n=$((n + 1))
    echo "$name $got $note" | sed 's/ *$//' >>"$out"
    if [ -z "$got" ] || [ $((got * 100)) -gt $((want * 103)) ]; then
        echo "not ok $n - $name: ${got:-nothing was counted}, $want before"
        failed=1
    else
        echo "ok $n - $name: $got instructions, $want before"
        [ $((got * 100)) -ge $((want * 97)) ] || echo "# fewer: tests/counts.sh --write keeps it"
    fi
done <"$file"
echo "1..$n"
if [ "${1:-}" = --write ]; then
    sed "s/^# gcc .*/# gcc $compiler/" "$out" >"$file"
    exit 0
fi
exit $failed
