#!/usr/bin/env bash
# Builds kernels and kcheck for another target than the Makefile's. Sourced by arm.sh and emulated.sh.

# The sources of kcheck that every target has, as lines "SOURCE OPTION...".
kcheck_sources() {
    for f in engine/base/status.c engine/base/arena.c engine/base/pages.c tests/kernels/*.c; do
        case $f in */bench*.c | */evex_*vnni.c) ;; *) echo "$f -O2" ;; esac # with -O3 gcc 12.2 for AArch64 crashes on check_rows.c
    done
}

compile_kernel() { # SOURCE OPTION...: compile to $out, unless a newer object exists
    local from=$1 to
    to=$out/$(echo "${from%.c}" | tr / _).o
    shift
    [ "$to" -nt "$from" ] && [ -z "$(find engine tests/kernels tests/emulated -name '*.h' -newer "$to" -print -quit)" ] && return
    # shellcheck disable=SC2086
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DKCHECK_NO_BENCH -fno-math-errno -ffp-contract=off ${all:-} -Iengine -I. \
        -Wall -Wextra -Werror "$@" -c -o "$to" "$from"
}

# build_kcheck LINES [LINK OPTION]...: build $out/kcheck from LINES "SOURCE OPTION..." with $cc, and with the options
# $all if that is exported.
build_kcheck() {
    local list=$1 o
    shift
    export cc out
    export -f compile_kernel
    mkdir -p "$out"
    for o in "$out"/*.o; do # its source does not exist any more
        case " $(echo "$list" | sed 's/\.c .*//' | tr '/\n' '_ ') " in *" $(basename "$o" .o) "*) ;; *) rm -f "$o" ;; esac
    done
    echo "$list" | xargs -P "$(nproc)" -d '\n' -I {} bash -c 'compile_kernel {}' &&
        $cc "$out"/*.o -o "$out/kcheck" "$@" -lm -ldl -lpthread 2>"$out/link.log" && return
    cat "$out/link.log" 2>/dev/null
    echo "Bail out! kcheck is not built"
    exit 1
}
