#!/usr/bin/env bash
# CPUs with fewer instructions than the build machine. No object except kernels has an AVX instruction: code that runs
# on every CPU is compiled for the baseline. And the command transcribes on emulated CPUs: with the baseline alone
# (x86-64-v1), without AVX and without AVX-512. TAP.
set -u
cd "$(dirname "$0")/.." || exit 70
B=${STENO_BUILD:-build/release}
export STENO_DATA=${STENO_DATA:-$PWD/$B/data} # not a model that this user has fetched
unset OPENBLAS_CORETYPE                       # it would choose kernels that the emulated CPU does not have
[ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP not x86-64"; exit 0; }
n=0
result() { # NAME [WHAT IS WRONG]
    n=$((n + 1))
    if [ -z "${2:-}" ]; then echo "ok $n - $1"; else
        echo "not ok $n - $1"
        while IFS= read -r line; do echo "# $line"; done <<<"$2"
    fi
}

avx() { # OBJECT...: the objects with such an instruction, and the first instruction of each
    objdump -d --no-show-raw-insn "$@" | grep -P 'file format|^ +[0-9a-f]+:\tv[a-z0-9]+ .*%[xyz]mm' |
        awk -v folder="$B/" '/file format/ { object = substr($1, length(folder) + 1); next } object != "" { print object $0; object = "" }'
}
kernels=(-path '*/kernels/x86/*' -o -path '*/tests/kernels/evex_*')
mapfile -t all < <(find "$B" -name '*.o' ! \( "${kernels[@]}" \) | sort)
[ ${#all[@]} -gt 100 ] && bad=$(avx "${all[@]}") || bad="no objects below $B"
result "${#all[@]} objects have no AVX" "$bad"
[ -n "$(avx "$B"/engine/nn/kernels/x86/gemm_avx2.o)" ] && bad="" || bad="not seen in gemm_avx2.o"
result "AVX is seen where it is" "$bad"

if ! command -v qemu-x86_64 >/dev/null; then
    echo "ok $((n + 1)) - emulated CPUs # SKIP qemu-x86_64 is absent (tests/deps.sh arm)"
    echo "1..$((n + 1))"
    exit 0
fi
for run in qemu64,-pni,-cx16:fp32 Nehalem:fp32 Nehalem:bf16 Nehalem:int8 Haswell:bf16 Haswell:int8; do
    cpu=${run%:*} precision=${run#*:}
    got=$(timeout 1200 qemu-x86_64 -cpu "$cpu" "$B/steno" transcribe --precision "$precision" \
        --model conf/models/digits-en tests/data/digits.wav 2>&1)
    rc=$?
    got=$(grep -v '^qemu-x86_64: warning' <<<"$got") # warnings about features that neither CPU has
    [ "$rc:$got" = "0:$(cat tests/data/digits.txt)" ] && bad="" || bad="status $rc: $got"
    result "${cpu%%,*} transcribes in $precision" "$bad"
done
# Large products go to OpenBLAS on CPUs without AVX2. Its kernels for the K8 that qemu64 claims to be use 3DNow!.
model=conf/models/digits-en/encoder.onnx
shapes=$("$B/steno" model info $model | sed -nE 's/^input +([a-z0-9_]+) +[a-z0-9]+ +\[N, ([0-9, ]+)\].*/--shape \1=8x\2/p' | sed 's/, /x/g')
for cpu in qemu64 Nehalem; do
    # shellcheck disable=SC2086 # a list of options
    got=$(timeout 1200 qemu-x86_64 -cpu $cpu "$B/steno" bench $model --precision fp32 --runs 1 $shapes 2>&1)
    rc=$?
    [ -n "$shapes" ] && [ $rc = 0 ] && bad="" || bad="status $rc: $got"
    result "$cpu computes large products" "$bad"
done
echo "1..$n"
