#!/usr/bin/env bash
# The interface of the shared library, its functions and types, against that of the last release, as abidw recorded it in
# tests/data/abi. New functions are allowed, and what tests/data/abi/compatible.suppr says; any other change is not, since it may break compiled
# programs. TAP; skipped without abidiff or on another architecture.
#   tests/abi.sh            compare
#   tests/abi.sh --record   at a release: record the interface of the library that is built
set -u
cd "$(dirname "$0")/.." || exit 70
B=${STENO_BUILD:-${B:-build/release}}
soname=libsteno.so.$(sed -n 's/^#define STENO_ABI_VERSION \([0-9]*\).*/\1/p' engine/steno.h)
dump=tests/data/abi/$soname-$(uname -m).xml
command -v abidiff >/dev/null || { echo "1..0 # SKIP abidiff is not installed (package abigail-tools)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headers=()
for h in engine/steno.h engine/base/error.h engine/base/precision.h; do headers+=(--header-file "$h"); done
record() { # LIBRARY FILE: public types and exported functions alone
    abidw --drop-private-types "${headers[@]}" --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
        --type-id-style hash --out-file "$2" "$1"
}
if [ "${1:-}" = --record ]; then
    mkdir -p tests/data/abi
    record "$B/$soname" "$dump" && echo "$dump: $(grep -c '<function-decl' "$dump") functions"
    exit
fi
n=0
check() { # NAME STATUS OUTPUT
    n=$((n + 1))
    if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; sed 's/^/# /' <<<"$3"; fi
}
[ -f "$dump" ] || { echo "1..0 # SKIP no record for $(uname -m)"; exit 0; }
compare() { abidiff --no-added-syms --no-show-locs --suppressions tests/data/abi/compatible.suppr "$dump" "$1" 2>&1; } # RECORD
[ -f "$B/$soname" ] || { echo "1..0 # SKIP $B/$soname is not built"; exit 0; }
record "$B/$soname" "$work/now.xml"
check "the library's interface can be read" $? ""
grep -q "class-decl name='steno_err'" "$work/now.xml" ||
    { echo "ok 2 - types # SKIP $soname was built without debugging information (CFLAGS)"; echo "1..2"; exit 0; }
out=$(compare "$work/now.xml")
check "programs linked with the last release run with this library" $? "$out"

# The comparison sees what it should.
sed -E "s/(class-decl name='steno_err' size-in-bits=')[0-9]+/\18192/" "$work/now.xml" >"$work/size.xml"
out=$(compare "$work/size.xml")
check "a struct of another size is seen" $(($? == 0)) "no difference"
sed "/elf-symbol name='steno_version'/d; /<function-decl name='steno_version'/,/<\/function-decl>/d" "$work/now.xml" >"$work/less.xml"
out=$(compare "$work/less.xml")
check "a function that is gone is seen" $((($? & 8) == 0)) "$out"
echo "1..$n"
