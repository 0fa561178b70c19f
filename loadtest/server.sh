#!/usr/bin/env bash
# Sourced by the scripts here. start_server [STENOD OPTION]... starts a server on a free port and sets $pid
# and $at (HOST:PORT). It is stopped at exit. Variables: B (build/release), LOG (the server's log).
B=${B:-build/release}
LOG=${LOG:-build/load/stenod.log}
export STENO_DATA=${STENO_DATA:-$PWD/$B/data} # not the models that this user has fetched
start_server() {
    mkdir -p "$(dirname "$LOG")"
    "$B/stenod" --listen 127.0.0.1:0 --set limits.sessions=20000 --set limits.connections=40000 \
        --log-level notice "$@" 2>"$LOG" &
    pid=$!
    trap stop_server EXIT
    for _ in $(seq 300); do
        at=$(sed -n 's|.*listening on http://\([^" ]*\).*|\1|p' "$LOG" | head -n 1) # in text and JSON lines
        if [ -n "$at" ] && curl -fsS -o /dev/null "http://$at/readyz" 2>/dev/null; then return 0; fi
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    cat "$LOG" >&2
    echo "the server did not start" >&2
    return 1
}
# Stops the server; its exit status is in $stopped.
stop_server() {
    trap - EXIT
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    export stopped=$?
}
machine() {
    echo "$(date -u +%F) $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
}
