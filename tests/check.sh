#!/usr/bin/env bash
# Tests: all but the slow programs. check.sh [--slow] [--shared] [--long] [--only KIND] [--name REGEX] [--san LIST]
#   --slow: only the slow programs (below, by name)
#   --shared: only programs that read recorded data in ../shared, slow or not
#   --long: all programs; those of HTTP, faults and killed servers in their long forms
#   KIND: unit fuzz kernels scripts integration faults; REGEX: programs whose names it matches, slow or not
#   --san: all programs, built with sanitizers: address, undefined, thread
# STENO_AT_ONCE: how many programs run at once (two for each processor and one)
# STENO_LATER: a KIND that another run has, with sanitizers
# STENO_PASSED: a file to which integration tests add cases that passed, and which later runs leave out
# Every test program speaks TAP; the last line is "N passed, M failed[, K skipped]".
set -u
cd "$(dirname "$0")/.." || exit 70
export LC_ALL=C.UTF-8 # in Turkish "SKIP" is no "skip", and [a-z] has no i

san="" slow=0 long=0 only="" name_like="" shared=0
while [ $# -gt 0 ]; do
    case "$1" in
    --san) san=$2; shift ;;
    --slow) slow=1 ;;
    --long) long=1 ;;
    --only) only=$2; shift ;;
    --name) name_like=$2; shift ;;
    --shared) shared=1 ;;
    *) echo "check.sh: unknown option $1" >&2; exit 64 ;;
    esac
    shift
done
export STENO_TEST_LONG=$long
variant=${san:-release}
variant=${variant//,/-}
B=build/$variant
export STENO_BUILD=$PWD/$B
[ -z "$san" ] || export STENO_SAN=$san
# libraries that allocate once and never free are not our leaks; see tests/lsan.supp
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
export ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:halt_on_error=0:exitcode=66"
export OPENBLAS_NUM_THREADS=1
unset STENO_MODEL

tests/deps.sh check || exit 1
(: </dev/udp/127.0.0.1/9) 2>/dev/null || echo "127.0.0.1 cannot be reached, so tests of sockets will fail: ip link set lo up"
echo "Building ($variant)"
mkdir -p build
make -s -j"$(nproc)" ${san:+SAN=$san} all tests >build/check-build.log 2>&1 || {
    tail -n 40 build/check-build.log
    echo "0 passed, 1 failed"
    exit 1
}

# shellcheck source=tests/weights.sh
. tests/weights.sh
if [ -z "$san" ]; then
    use_weights tiny.en
    use_weights base
else
    # toy models run the same code
    echo "Tests that need Whisper's weights are skipped: with sanitizers they take too long"
    export STENO_WHISPER_TINY_EN=${STENO_WHISPER_TINY_EN:-none} STENO_WHISPER_BASE=${STENO_WHISPER_BASE:-none}
fi
export STENO_DATA=$PWD/$B/data # no other models that this user has fetched

# shellcheck source=tests/venv.sh
. tests/venv.sh
# shellcheck source=tests/promtool.sh
. tests/promtool.sh

logs=$(mktemp -d)
chmod 711 "$logs" # programs of other users have their folders in it, too
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0 skipped=0

# Run one program under a time limit, with its output in a file: job NAME SECONDS COMMAND...
job() {
    local name=$1 limit=$2 out
    shift 2
    out="$logs/${name//\//_}"
    local TIMEFORMAT='%1R %1U %1S' TMPDIR=$logs/t$BASHPID # short: sockets lie in it
    mkdir -m 1777 "$TMPDIR"
    {
        time CMOCKA_MESSAGE_OUTPUT=TAP TMPDIR=$TMPDIR timeout -k 5 "$limit" "$@" >"$out.out" 2>"$out.err" </dev/null
        echo $? >"$out.rc"
    } 2>"$out.s"
    rm -rf "$TMPDIR"
}

# Add a program's TAP to the totals; print failures, and reasons for skipping.
tally() {
    local name=$1 out rc ok bad skip plan took user kernel
    out="$logs/${name//\//_}"
    rc=$(cat "$out.rc")
    # cmocka prints "not ok N # SKIP name" for a skipped test; "1..0 # SKIP why" means that a program skips all its
    # tests
    skip=$(grep -ciE '^((not )?ok |1\.\.0 ).*# skip' "$out.out")
    bad=$(grep '^not ok ' "$out.out" | grep -vciE '# skip')
    ok=$(grep '^ok ' "$out.out" | grep -vciE '# skip')
    plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out.out" | awk '{s+=$1} END {print s+0}')
    if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then
        bad=1
        if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then echo "FAIL $name: time limit"; else echo "FAIL $name: exit status $rc"; fi
        tail -n 25 "$out.err"
    elif [ $((ok + bad + skip)) -lt "$plan" ]; then
        bad=$((bad + 1))
        echo "FAIL $name: $((ok + bad + skip - 1)) results of $plan planned"
        tail -n 25 "$out.err"
    elif [ "$bad" -gt 0 ]; then
        grep -viE '# skip' "$out.out" | grep -A 12 '^not ok ' | sed "s|^not ok|FAIL $name:|" | head -n 60
        tail -n 15 "$out.err"
    fi
    if [ $((ok + bad + skip)) = 0 ]; then
        bad=1
        echo "FAIL $name: printed no test result"
    fi
    [ "$skip" = 0 ] || grep -iE '^((not )?ok |1\.\.0 ).*# skip' "$out.out" | sed -E "s,^((not )?ok|1\.\.0) *[0-9]* *,skip $name: ," | head -n 5
    read -r took user kernel < <(tail -n 1 "$out.s")
    printf '  %-34s %4d passed %3d failed %3d skipped %7s s, %6.1f of a processor\n' "$name" "$ok" "$bad" "$skip" "$took" \
        "$(awk -v u="$user" -v k="$kernel" 'BEGIN {print u + k}')"
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

# Programs wait in a queue, as lines "NAME SECONDS COMMAND...". Long ones come first, so that little is left to wait for
# at the end. Some sleep more than they work (integration), others never sleep. They are mixed, so that two for each
# processor and one more keep all busy.
longest="integration/test_whisper_parity integration/test_jobs_redis integration/test_scale unit/test_turns unit/test_whisper_early
    integration/test_convert_icefall integration/test_jobs arm isa emulated integration/test_espnet_families integration/test_ws integration/test_optimize
    kernels/kcheck counts unit/test_whisper_transcribe integration/test_soak_speech integration/test_whisper_live
    integration/test_whisper_requests unit/test_whisper_stream unit/test_whisper_options unit/test_whisper_together integration/test_models unit/test_pass_large integration/test_espnet_optimize integration/test_faults integration/test_conformance"
# What a contributor does not wait for: emulated processors, pairs with other programs on real weights, Redis that fails.
slow_programs="arm emulated isa integration/test_faults integration/test_jobs_redis integration/test_scale integration/test_soak_speech
    integration/test_whisper_parity integration/test_whisper_requests unit/test_whisper_early unit/test_whisper_transcribe"
limit=3600 # s: only a hanging program takes this long, even on a busy machine (test_optimize with sanitizers: 46 s, and 370 s at a load of 25)
queue=()
want() { { [ -z "$only" ] || [ "$only" = "$1" ]; } && [ "${STENO_LATER:-}" != "$1" ]; }
programs() { # KIND FOLDER...: the programs that are built, and whose source is still there
    local p
    for p in $(printf "$B/tests/%s/* " "${@:2}"); do
        [ -x "$p" ] && [ "${p%.o}" = "$p" ] && [ "${p%.d}" = "$p" ] && [ "${p%.so}" = "$p" ] && [ -f "${p#"$B"/}.c" ] || continue
        case $1 in
        fuzz) echo "fuzz/${p##*/fuzz_} $limit $p --tap tests/fuzz/${p##*/fuzz_}" ;;
        *) echo "${p#"$B"/tests/} $limit $p" ;;
        esac
    done
}

if want scripts && [ -z "$san" ]; then
    for s in tests/abi.sh tests/arm.sh tests/counts.sh tests/docs.py tests/emulated.sh tests/installed.sh tests/isa.sh tests/layers.sh tests/style.sh; do
        case $s in *.py) run="python3 $s" ;; *) run="bash $s" ;; esac
        [ -f "$s" ] && queue+=("$(basename "${s%.*}") $limit $run")
    done
fi
integration=() # those that --name asks for: without one, nothing of Python is installed
for t in tests/integration/test_*.py tests/integration/test_*.sh; do
    name=${t%.*}
    [[ ${name#tests/} =~ $name_like ]] && integration+=("$t")
done
if want integration && [ ${#integration[@]} -gt 0 ]; then
    promtool
    if venv; then
        py=$PWD/build/venv/bin/python
    else
        echo "FAIL build/venv could not be made: the integration tests run without it"
        failed=$((failed + 1))
        py=python3
    fi
    export STENO_PYTHON=$py
    for t in "${integration[@]}"; do
        # comparisons with other systems find no memory errors that other tests do not find
        if [ -n "$san" ] && grep -q '^# not under sanitizers' "$t"; then continue; fi
        case $t in *.py) run="${py#"$PWD/"} $t" ;; *) run="bash $t" ;; esac
        queue+=("integration/$(basename "${t%.*}") $limit $run")
    done
fi
for kind in kernels faults unit fuzz; do
    want $kind || continue
    folders=$kind
    [ $kind = unit ] && folders="ops unit"
    # shellcheck disable=SC2086 # several folders
    mapfile -t -O "${#queue[@]}" queue < <(programs $kind $folders)
done

keep() { # from the queue the programs for whose names a command is true: keep COMMAND...
    mapfile -t queue < <(printf '%s\n' "${queue[@]}" | while read -r line; do
        ! "$@" "${line%% *}" || echo "$line"
    done)
}
is_slow() { grep -qw -- "$1" <<<"$slow_programs"; }
is_quick() { ! is_slow "$1"; }
reads_shared() { case $readers in *" $1 "*) ;; *) false ;; esac; }
if [ "$shared" = 1 ]; then
    # By their sources: more than these would do no harm.
    readers=" $(grep -lE 'SHARED|shared/|zoo|support/(shared|whisper_models)\.h' tests/*/test_* |
        sed 's,^tests/,,; s,\.[a-z]*$,,' | tr '\n' ' ')"
    keep reads_shared
elif [ "$slow" = 1 ]; then
    keep is_slow
elif [ "$long" = 0 ] && [ -z "$san$only$name_like" ]; then
    keep is_quick
    echo "Left to 'make check-slow': $(xargs <<<"$slow_programs")"
fi

ordered=() sleepers=() workers=()
for name in $longest; do
    for line in "${queue[@]}"; do [ "${line%% *}" != "$name" ] || ordered+=("$line"); done
done
for line in "${queue[@]}"; do
    case " ${longest//$'\n'/ } " in *" ${line%% *} "*) continue ;; esac
    case $line in integration/*) sleepers+=("$line") ;; *) workers+=("$line") ;; esac
done
for ((i = 0; i < ${#sleepers[@]} || i < ${#workers[@]}; i++)); do
    [ "$i" -ge ${#sleepers[@]} ] || ordered+=("${sleepers[i]}")
    [ "$i" -ge ${#workers[@]} ] || ordered+=("${workers[i]}")
done

declare -A name_of
running=0 at_once=${STENO_AT_ONCE:-$((2 * $(nproc) + 1))}
reap() {
    local pid
    wait -n -p pid
    tally "${name_of[$pid]}"
    running=$((running - 1))
}
for line in "${ordered[@]}"; do
    [[ ${line%% *} =~ $name_like ]] || continue
    [ "$running" -lt "$at_once" ] || reap
    # shellcheck disable=SC2086 # the command line is split on purpose
    job $line &
    name_of[$!]=${line%% *}
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do reap; done

line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ]
