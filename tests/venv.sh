# shellcheck shell=bash
# The Python environment of the integration tests and benchmarks: build/venv, made once from the pinned lists. Sourced,
# in the repository's root.

# venv [FILE]...: install the packages of tests/requirements.txt and of every FILE.
venv() {
    local stamp=build/venv/.made
    local -a lists=(tests/requirements.txt)
    if [ ! -f "$stamp" ] || ! cmp -s "${lists[0]}" "$stamp"; then
        echo "Making build/venv from tests/requirements.txt"
        rm -rf build/venv
        mkdir -p build
        if ! { python3 -m venv build/venv && build/venv/bin/pip install -q -r "${lists[0]}"; } >build/venv.log 2>&1; then
            tail -n 5 build/venv.log
            return 1
        fi
        cp "${lists[0]}" "$stamp"
    fi
    for list in "$@"; do
        stamp=build/venv/.made.$(basename "$(dirname "$list")")
        cmp -s "$list" "$stamp" && continue
        if ! build/venv/bin/pip install -q -r "$list" >>build/venv.log 2>&1; then
            tail -n 5 build/venv.log
            return 1
        fi
        cp "$list" "$stamp"
    done
}
