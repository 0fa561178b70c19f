#!/usr/bin/env bash
# The kernels of AArch64 (engine/kernels/arm) on this machine: cross-compiled and checked under qemu-user by the same
# kcheck as the others, every level (scalar, neon, dotprod). TAP; skipped where compiler or emulator are absent
# (tests/deps.sh arm installs both).
#   tests/arm.sh [KCHECK OPTION]...
set -u
cd "$(dirname "$0")/.." || exit 70
cc=aarch64-linux-gnu-gcc
out=build/arm
skip() { echo "1..0 # SKIP $1 (tests/deps.sh arm)"; exit 0; }
command -v "$cc" >/dev/null || skip "$cc is absent"
command -v qemu-aarch64 >/dev/null || skip "qemu-aarch64 is absent"

compile() { # SOURCE [OPTION]...
    local from=$1 to
    to=$out/$(echo "${from%.c}" | tr / _).o
    shift
    [ "$to" -nt "$from" ] && [ -z "$(find engine tests/kernels -name '*.h' -newer "$to" -print -quit)" ] && return
    "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DKCHECK_NO_BENCH -O3 -fno-math-errno -Iengine -I. \
        -Wall -Wextra -Werror "$@" -c -o "$to" "$from" || exit 1
}
mkdir -p "$out"
for f in engine/kernels/*.c engine/kernels/scalar/*.c engine/kernels/arm/*.c; do
    case $f in
    */scalar/*) compile "$f" -ffp-contract=off ;;
    *_dotprod.c) compile "$f" -ffp-contract=fast -march=armv8.2-a+dotprod ;;
    *) compile "$f" -ffp-contract=fast ;;
    esac
done
for f in engine/base/cpu.c engine/base/status.c engine/base/arena.c engine/base/pages.c tests/kernels/*.c; do
    case $f in */bench*.c) continue ;; esac
    compile "$f" -ffp-contract=off -O2 # -O3: internal error of gcc 12.2 in tests/kernels/check_rows.c
done
"$cc" -static -o "$out/kcheck" "$out"/*.o -lm -ldl 2>"$out/link.log" || { cat "$out/link.log"; exit 1; }
exec qemu-aarch64 -cpu max "$out/kcheck" "$@"
