#!/usr/bin/env bash
# The longest files and functions. A report; it never fails.
cd "$(dirname "$0")/.." || exit 70
echo "files over 800 lines:"
git ls-files '*.c' '*.h' | xargs wc -l | awk '$2 != "total" && $1 > 800' | sort -rn
echo "functions over 100 lines:"
git ls-files '*.c' | while read -r f; do
    awk -v f="$f" '/^[a-zA-Z].*\)$/ {name=$0; start=NR} /^{/ {open=NR} /^}/ {if (open && NR-open > 100) printf "%5d %s: %s\n", NR-open, f, name; open=0}' "$f"
done | sort -rn | head -n 30
