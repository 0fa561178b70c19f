#!/usr/bin/env bash
# The kernels of those levels of x86-64 that this CPU has not: compiled with instructions that are C (tests/emulated) and
# checked by the same kcheck as the others. TAP; skipped where none is missing, without AVX2, or without GCC.
#   tests/emulated.sh [KCHECK OPTION]...        with options: all levels are emulated
set -u
cd "$(dirname "$0")/.." || exit 70
cc=${CC:-gcc}
out=build/emulated B=build/release
has() { grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$1"; }
missing="" native=" avx2 "
avx2="-mavx2 -mfma -mf16c"
emulated="-iquote tests/emulated -Itests/emulated"
skip() { echo "1..0 # SKIP $1"; exit 0; }
[ "$(uname -m)" = x86_64 ] || skip "no x86-64"
has avx2 || skip "this CPU has no AVX2"
for l in avxvnni:avx_vnni avx512:avx512bw vnni:avx512_vnni bf16:avx512_bf16 amx:amx_tile; do
    if has "${l#*:}"; then native="$native${l%:*} "; else missing=$missing,${l%:*}; fi
done
! has avx512_vnni || missing=${missing#,avxvnni} # kcheck has it by the other encoding
[ -n "$missing$*" ] || skip "this CPU has every level"
$cc --version 2>/dev/null | grep -q 'Free Software' || skip "$cc is no GCC"

[ $# = 0 ] || native=
# shellcheck source=tests/build_kcheck.sh
. tests/build_kcheck.sh
# An object of the build, where there is one, is as good as one of our own: of all files but those of missing levels.
built=()
for f in engine/nn/kernels/*.c engine/nn/kernels/scalar/*.c engine/nn/kernels/x86/*.c; do
    level=${f##*_} level=${level%.c}
    case $f in */x86/*) [[ $native == *" $level "* ]] || continue ;; esac
    [ $# != 0 ] || [ ! -f "$B/${f%.c}.o" ] || built+=("$B/${f%.c}.o")
done
sources() {
    for f in engine/nn/kernels/*.c engine/nn/kernels/scalar/*.c engine/nn/kernels/x86/*.c tests/kernels/evex_*vnni.c; do
        case " ${built[*]} " in *" $B/${f%.c}.o "*) continue ;; esac
        case $f in engine/nn/kernels/*.c) [[ $f == */x86/* ]] || { echo "$f -O2" && continue; } ;; esac
        level=${f##*_} level=${level%.c}
        case $native in *" $level "*) echo "$f -O1 -march=native" && continue ;; esac # five times as fast to compile
        case $f in *avx2.c | *avxvnni.c | */evex_*vnni.c) with= ;; *) with='-DV_REGISTER=\"m\"' ;; esac # no register has 512 bits
        echo "$f -O1 $avx2 $with $emulated"
    done
    echo "engine/base/cpu.c -O2 -Dsteno_cpu_detect=emulated_real_detect"
    echo "tests/emulated/cpu.c -O2 $avx2 $emulated"
    kcheck_sources
}
export all="-Wno-psabi -Wno-maybe-uninitialized"
build_kcheck "$(sources)" "${built[@]}"
[ $# != 0 ] || set -- --level "${missing#,}"
exec "$out/kcheck" "$@"
