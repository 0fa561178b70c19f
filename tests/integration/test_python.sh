#!/usr/bin/env bash
# The Python package: the wheel that pip builds without network, in a fresh environment. TAP.
# not under sanitizers: Python itself is not built with them
set -u
cd "$(dirname "$0")/../.." || exit 70
B=${STENO_BUILD:-$PWD/build/release}
python=${STENO_PYTHON:-build/venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
check() { # NAME STATUS OUTPUT
    n=$((n + 1))
    if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; sed 's/^/# /' <<<"$3"; fi
}
soname=libsteno.so.$(sed -n 's/^#define STENO_ABI_VERSION \([0-9]*\).*/\1/p' engine/steno.h)
export STENO_WHEEL_LIBRARY=$B/$soname SOURCE_DATE_EPOCH=1700000000
unset STENO_LIBRARY STENO_MODEL

export PYTHONDONTWRITEBYTECODE=1
before=$(find engine/python | sort)
out=$(python3 -m venv "$work/venv" 2>&1)
check "a fresh environment" $? "$out"
pip() { "$work/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
out=$(pip wheel -q --no-index --no-deps -w "$work/one" engine/python 2>&1)
check "pip builds the wheel without an index" $? "$out"
mkdir "$work/two"
out=$("$work/venv/bin/python" engine/python/build_wheel.py "$work/two" 2>&1) && out=$(diff -r "$work/one" "$work/two" 2>&1)
check "build_wheel.py makes the same bytes" $? "$out"
out=$(pip install -q --no-index "$work"/one/*.whl 2>&1 && pip check 2>&1)
check "pip installs the wheel" $? "$out"
site=$("$work/venv/bin/python" -c 'import steno_asr, pathlib; print(pathlib.Path(steno_asr.__file__).parent)')
out=$(find "$site" -name '*.so*' | sed 's,.*/,,')
[ "$out" = "$soname" ]; check "libsteno is the only library in it" $? "$out"
out=$(diff <(echo "$before") <(find engine/python | sort))
check "building leaves nothing in the sources" $? "$out"

# numbered after the checks above
renumber() { # FILE
    local line
    while IFS= read -r line; do
        if [[ $line =~ ^(not\ )?ok\ [0-9]+ ]]; then
            n=$((n + 1))
            echo "${BASH_REMATCH[1]:-}ok $n - ${line#*- }"
        elif [[ $line != 1..* ]]; then
            echo "$line"
        fi
    done <"$1"
}
model=$PWD/conf/models/digits-en
"$work/venv/bin/python" tests/python/check.py "$B/steno" "$model" >"$work/out" 2>&1
renumber "$work/out"
out=$(PYTHONPATH=$(dirname "$site") NEED_NUMPY=1 "$python" tests/python/check.py "$B/steno" "$model" 2>&1)
check "the same with numpy" $? "$(grep -v '^ok' <<<"$out")"
out=$("$work/venv/bin/python" tests/python/layout.py "$B/include/steno/steno.h" "$work" 2>&1)
check "structs and constants are those of steno.h" $? "$out"
if command -v mypy >/dev/null; then
    out=$(cd engine/python && mypy --cache-dir "$work/mypy" 2>&1)
    check "the package passes mypy --strict" $? "$out"
else
    n=$((n + 1))
    echo "ok $n - the package's types # SKIP mypy is not installed"
fi
echo "1..$n"
