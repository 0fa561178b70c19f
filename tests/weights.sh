# shellcheck shell=bash
# Whisper's weights for the tests that need real ones: models of this user, as `make demo` and `steno model fetch` leave
# them. Sourced, in the repository's root, after the build and before STENO_DATA names another directory of models.

# use_weights NAME: set STENO_WHISPER_NAME, unless it is set, to the directory of the model. Says what to do if there is none.
use_weights() {
    local variable dir
    variable=STENO_WHISPER_$(tr 'a-z.' 'A-Z_' <<<"$1")
    [ -z "${!variable:-}" ] || return 0
    if [ -e "build/models/$1" ]; then
        dir=$PWD/build/models/$1
    else
        dir=$(build/steno model list | awk -v name="$1" '$1 == name && $NF ~ "^/" { print $NF }')
    fi
    if [ -n "$dir" ]; then
        export "$variable=$dir"
    else
        echo "Tests that need Whisper's $1 are skipped: 'build/steno model fetch $1' downloads it"
    fi
}
