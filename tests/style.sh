#!/usr/bin/env bash
# Text rules that a program can check. TAP.
set -u
cd "$(dirname "$0")/.." || exit 70
git rev-parse >/dev/null 2>&1 || { echo "1..0 # SKIP git cannot list the files (no clone, or another user's)"; exit 0; }
n=0
check() {
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; head -n 12 <<<"$2" | sed 's/^/# /'; fi
}
check "no trailing blanks or tabs in C" "$(git grep -nIE '[ 	]+$|	' -- '*.c' '*.h')"
check "no line of C has more than 100 columns" "$(git grep -nIE '^.{101,}' -- '*.c' '*.h' | cut -c 1-120)"
check "no retired word (tests/retired.txt; docs/glossary.md has the terms)" "$(grep -v '^#' tests/retired.txt |
    git grep -nIP -f - -- '*.c' '*.h' '*.md' '*.sh' '*.py' '*.scd' '*.conf' '*.yaml' ':!docs/glossary.md' ':!docs/log' ':!CHANGELOG.md' 2>&1)"
check "every folder of sources has a README" "$(git ls-files '*.c' | xargs dirname | sort -u | while read -r d; do
    [ -f "$d/README.md" ] || [ -f "$(dirname "$d")/README.md" ] || echo "$d"; done)"
check "every function of the public header is documented for the manual's reader" "$(awk '/^STENO_API/ {if (prev !~ /\*\/$/ && prev !~ /;/ && prev !~ /^STENO_API/ && prev != "") print FILENAME": "$0} {prev=$0}' engine/steno.h)"
if command -v shellcheck >/dev/null 2>&1; then
    check "shell scripts pass shellcheck" "$(git ls-files '*.sh' .ci/run | xargs shellcheck -S warning -f gcc 2>&1)"
else
    n=$((n + 1)); echo "ok $n - shell scripts # SKIP shellcheck is not installed"
fi
echo "1..$n"
