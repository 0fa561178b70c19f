#!/usr/bin/env bash
# Text rules that a program can check. TAP.
set -u
cd "$(dirname "$0")/.." || exit 70
n=0
check() {
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; head -n 12 <<<"$2" | sed 's/^/# /'; fi
}
check "no trailing blanks or tabs in C" "$(git grep -nIE '[ 	]+$|	' -- '*.c' '*.h')"
check "no line of C has more than 100 columns" "$(git grep -nIE '^.{101,}' -- '*.c' '*.h' | cut -c 1-120)"
check "no retired word (tests/retired.txt; docs/glossary.md has the terms)" "$(grep -v '^#' tests/retired.txt |
    git grep -nIE -f - -- '*.c' '*.h' '*.md' '*.sh' '*.py' '*.scd' '*.conf' '*.yaml' ':!docs/glossary.md' ':!docs/log' ':!CHANGELOG.md' 2>&1)"
check "every folder of sources has a README" "$(git ls-files '*.c' | xargs -n1 dirname | sort -u | while read -r d; do
    [ -f "$d/README.md" ] || [ -f "$(dirname "$d")/README.md" ] || echo "$d"; done)"
check "links between documents lead somewhere" "$(python3 tests/links.py 2>&1)"
check "every function of the public header is documented for the manual's reader" "$(awk '/^STENO_API/ {if (prev !~ /\*\/$/ && prev !~ /;/ && prev !~ /^STENO_API/ && prev != "") print FILENAME": "$0} {prev=$0}' engine/steno.h)"
check "steno.conf(5) and the sample name every setting" "$(sed -n 's/^ROW([A-Z]*, [a-z_]*, "[a-z]*", "\([a-z_]*\)", "\([A-Z_]*\)".*/\1 \2/p' server/config_table.h |
    while read -r key env; do
        grep -q "^\*$key\* = " docs/man/steno.conf.5.scd && grep -q "\*$env\*" docs/man/steno.conf.5.scd || echo "man page: $key"
        grep -q "^#\?$key = \?" conf/steno.conf || echo "sample: $key"; done)"
check "docs/clients.md is what tests/clients.py prints" "$(python3 tests/clients.py 2>&1 | diff docs/clients.md - 2>&1)"
B=${STENO_BUILD:-build/release}
if [ -x "$B/steno" ]; then
    check "manual pages and documents name every option of the model families" "$("$B/steno" model options | while read -r _ name scope _; do
        grep -q "^\*$name\* = " docs/man/steno.conf.5.scd || echo "steno.conf(5): $name"
        grep -q -e "\*--${name//_/-}\*" docs/man/steno.1.scd || echo "steno(1): $name"
        grep -q "^#\?$name =" conf/steno.conf || echo "sample: $name"
        for f in configuration protocol server; do grep -q "\b$name\b" docs/$f.md || echo "docs/$f.md: $name ($scope)"; done
        for f in openapi asyncapi; do grep -q "\b$name:\|name: $name," docs/$f.yaml || echo "docs/$f.yaml: $name"; done; done)"
else
    n=$((n + 1)); echo "ok $n - options of the model families # SKIP $B/steno is not built"
fi
if command -v shellcheck >/dev/null 2>&1; then
    check "shell scripts pass shellcheck" "$(git ls-files '*.sh' .ci/run | xargs shellcheck -S warning -f gcc 2>&1)"
else
    n=$((n + 1)); echo "ok $n - shell scripts # SKIP shellcheck is not installed"
fi
echo "1..$n"
