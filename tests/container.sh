#!/bin/sh
# Build the image of conf/container/Containerfile from HEAD with buildah, and try it: the daemon runs without root and
# transcribes an upload, and its health check passes. The base image is a Debian of mmdebstrap, so that no registry is needed.
# Root; a few minutes.
set -eu
cd "$(dirname "$0")/.."
tests/deps.sh container
[ "$(id -u)" = 0 ] || { echo "container: not root: nothing is built"; exit 77; }
work=$PWD/build/container
say() { printf '%s\n' "container: $*"; }
rm -rf "$work"
mkdir -p "$work/source"
git archive HEAD | tar -x -C "$work/source"

export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$work/images" --runroot "$work/run" --storage-driver vfs "$@"; }
sources=$(find /etc/apt -name '*.sources' -o -name sources.list | head -1)
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar" "$sources"
base=$(buildah from scratch)
buildah add -q "$base" "$work/base.tar" / >/dev/null
buildah commit -q "$base" steno-base >/dev/null
buildah rm "$base" >/dev/null
rm "$work/base.tar"

say "building, the log is $work/build.log"
buildah bud --pull-never --format docker --build-arg BASE=localhost/steno-base -t steno -f conf/container/Containerfile "$work/source" \
    >"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; exit 1; }
say "built: $(buildah images --format '{{.Size}}' localhost/steno)"

c=$(buildah from --pull-never localhost/steno)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$work/stenod.log
buildah run --user 10001:10001 --env STENO_LISTEN="127.0.0.1:$port" "$c" -- /usr/sbin/stenod >"$log" 2>&1 &
daemon=$!
trap 'pkill -u 10001 -x stenod || true; wait; buildah rm -a >/dev/null 2>&1 || true; rm -rf "$work"/images "$work"/run' EXIT # buildah passes no signal on
for _ in $(seq 300); do
    ! curl -fsS "http://127.0.0.1:$port/readyz" >/dev/null 2>&1 || break
    kill -0 $daemon 2>/dev/null || { cat "$log"; exit 1; }
    sleep 0.2
done
got=$(curl -fsS "http://127.0.0.1:$port/v1/transcribe?format=text" --data-binary @tests/data/digits.wav)
[ "$got" = "$(cat tests/data/digits.txt)" ] || { say "transcribed '$got'"; cat "$log"; exit 1; }
uid=$(ps -o uid= -C stenod | tr -d ' ' | grep -x 10001 | head -1)
[ "$uid" = 10001 ] || { say "stenod does not run as 10001"; exit 1; }
say "an upload is transcribed by a daemon with user 10001"
buildah inspect --type image localhost/steno | grep -q '"exec 3.*GET /healthz' || { say "the image has no health check"; exit 1; }
buildah run --user 10001:10001 "$c" -- /bin/bash -c "exec 3<>/dev/tcp/127.0.0.1/$port && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"
say "its health check passes"
