#!/usr/bin/env bash
# The kernels of AArch64 (engine/nn/kernels/arm) on this machine: cross-compiled, and checked under qemu-user by the
# same kcheck as the others. TAP; skipped if the compiler or the emulator is absent (tests/deps.sh arm installs both).
# Levels: neon (with the scalar kernels that it takes over) and dotprod. The others of level scalar, which no AArch64 runs by itself,
# are the same C that kcheck compares on x86-64: `make check-long` has them, and any option (--level scalar).
#   tests/arm.sh [KCHECK OPTION]...
set -u
cd "$(dirname "$0")/.." || exit 70
cc=aarch64-linux-gnu-gcc
out=build/arm
skip() { echo "1..0 # SKIP $1 (tests/deps.sh arm)"; exit 0; }
command -v "$cc" >/dev/null || skip "$cc is absent"
command -v qemu-aarch64 >/dev/null || skip "qemu-aarch64 is absent"

# shellcheck source=tests/build_kcheck.sh
. tests/build_kcheck.sh
sources() {
    for f in engine/nn/kernels/*.c engine/nn/kernels/scalar/*.c engine/nn/kernels/arm/*.c; do
        case $f in
        *_dotprod.c) echo "$f -O3 -march=armv8.2-a+dotprod" ;;
        *) echo "$f -O3" ;;
        esac
    done
    echo "engine/base/cpu.c -O2"
    kcheck_sources
}
build_kcheck "$(sources)" -static
[ "$#${STENO_TEST_LONG:-0}" != 00 ] || set -- --level neon,dotprod
exec qemu-aarch64 -cpu max "$out/kcheck" "$@"
