#!/usr/bin/env bash
# Everything that `make` builds, and unit tests, for AArch64: cross-compiled with Debian's arm64 libraries and run under
# qemu-user, also a program that uses the shared library. TAP; skipped if the compiler, the emulator or the libraries are absent.
#   tests/arm_engine.sh --fetch         once: the libraries (450 MB unpacked) into build/arm/root; nothing is installed
#   tests/arm_engine.sh [UNIT TEST]...  default: tests that depend on the machine, and recorded networks
set -u
cd "$(dirname "$0")/.." || exit 70
out=build/arm
root=$PWD/$out/root
lib=$root/usr/lib/aarch64-linux-gnu
skip() { echo "1..0 # SKIP $1"; exit 0; }

# What the build needs (tests/deps.sh), as packages of another architecture, with package lists and a status apart from
# the system's.
fetch() {
    local apt=$PWD/$out/apt build names deb
    build=$(sed -n '/^build="/,/"$/p' tests/deps.sh)
    names=$(grep -oE '[a-z0-9+.-]+-dev' <<<"$build" | grep -v '^libc6-dev$')
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root"
    : >"$apt/status"
    get() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::Lists="$apt/lists" \
            -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Debug::NoLocking=1 "$@"
    }
    # shellcheck disable=SC2086 # a list of package names
    get update && get install --download-only -y --no-install-recommends $names libcmocka-dev || exit 1
    for deb in "$apt"/archives/*.deb; do
        case $deb in */libc6-dev_* | */linux-libc-dev_* | */libcrypt-dev_*) continue ;; esac # the cross compiler brings these itself
        dpkg-deb -x "$deb" "$root" || exit 1
    done
}

[ "${1:-}" != --fetch ] || { fetch; exit; }
command -v aarch64-linux-gnu-gcc >/dev/null || skip "aarch64-linux-gnu-gcc is absent (tests/deps.sh arm)"
command -v qemu-aarch64 >/dev/null || skip "qemu-aarch64 is absent (tests/deps.sh arm)"
[ -d "$lib" ] || skip "no arm64 libraries (tests/arm_engine.sh --fetch)"
[ $# -gt 0 ] || set -- cpu threads session

libs=$lib:$lib/openblas-pthread
b=$out/engine
if ! PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$lib/pkgconfig:$root/usr/share/pkgconfig:$lib/openblas-pthread/pkgconfig \
    make -s -j"${JOBS:-$(nproc)}" B="$b" CC=aarch64-linux-gnu-gcc CFLAGS="-O2 -g1" CI=1 \
    CPPFLAGS="-isystem $root/usr/include/aarch64-linux-gnu -isystem $root/usr/include" \
    LDFLAGS="-L$lib -L$lib/openblas-pthread -Wl,-rpath-link,$libs:$root/lib/aarch64-linux-gnu" \
    all "${@/#/$b/tests/unit/test_}" >"$out/make.log" 2>&1; then
    grep -v '^  ' "$out/make.log"
    exit 1
fi

# shellcheck disable=SC2317 # called through check
run() { qemu-aarch64 -cpu max -L "$root" -E LD_LIBRARY_PATH="$libs" "$@"; }
n=0 failed=0
check() { # NAME COMMAND...
    local name=$1
    n=$((n + 1))
    shift
    if "$@" >"$out/output.log" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        failed=1
        sed 's/^/# /' "$out/output.log"
    fi
}
# LEVEL PRECISION: the shipped model gives the recording's words
hears() { # LEVEL PRECISION: the shipped model, the recording's words
    [ "$(run "$b/steno" transcribe --model conf/models/digits-en --cpu "$1" --precision "$2" tests/data/digits.wav | tee /dev/stderr)" = \
        "$(cat tests/data/digits.txt)" ]
}
# An encoder of the zoo on 100 recorded frames, against ONNX Runtime's result.
zoo=${STENO_SHARED:-../shared}/zoo/tiny
py=build/venv/bin/python
# shellcheck disable=SC2317
recorded() { # LEVEL
    $py -c 'import numpy as np, sys; np.save(sys.argv[1], np.load(sys.argv[2])["encoder.T100/feats"])' \
        "$out/feats.npy" "$zoo/espnet-inputs.npz" || return 1
    run "$b/steno" run "$zoo/espnet-conformer-op13/full/default_encoder.onnx" --cpu "$1" --input feats="$out/feats.npy" \
        --output-dir "$out/rows" || return 1
    $py -c 'import numpy as np, sys
worst = np.abs(np.load(sys.argv[1]) - np.load(sys.argv[2])["encoder.T100/full/encoder_out"]).max()
print("largest difference", worst)
sys.exit(not worst < 1e-4)' "$out/rows/0.npy" "$zoo/espnet-conformer-op13/ref.npz"
}
programs() { # every program starts, and the daemon reads its configuration
    run "$b/steno" --version && run "$b/stenod" --version && run "$b/loadtest/steno-load" --help >"$out/help" && [ -s "$out/help" ] &&
        run "$b/stenod" --check-config --config conf/steno.conf --model conf/models/digits-en --listen 127.0.0.1:0
}
check "every program runs" programs
shared() { # the example, with the shared library
    aarch64-linux-gnu-gcc -std=c11 -I"$b/include" engine/examples/transcribe.c -o "$b/example" "$b"/libsteno.so.* -L"$lib" \
        -Wl,-rpath-link,"$libs:$root/lib/aarch64-linux-gnu" &&
        run -E LD_LIBRARY_PATH="$b:$libs" "$b/example" conf/models/digits-en tests/data/digits.wav | tee /dev/stderr | awk '{print $3}' | paste -sd ' ' |
        cmp - tests/data/digits.txt
}
check "a program with the shared library hears the digits" shared
for precision in fp32 bf16 int8; do
    check "digits-en at level dotprod in $precision" hears dotprod $precision
done
check "digits-en at level neon in int8" hears neon int8
check "digits-en at level scalar in fp32" hears scalar fp32
if [ -d "$zoo" ] && [ -x "$py" ]; then
    for level in scalar neon dotprod; do
        check "a recorded conformer at level $level" recorded "$level"
    done
fi
for t in "$@"; do
    check "unit test $t" run "$b/tests/unit/test_$t"
done
echo "1..$n"
exit $failed
