#!/bin/sh
# Install the missing Debian packages: deps.sh build|demo|check|clients|arm|deb|container (arm: only the cross compiler and the emulator).
# Prints what it installs; asks nothing; does nothing if all packages are installed.
set -eu

build="gcc make pkg-config scdoc libc6-dev libmicrohttpd-dev libwebsockets-dev libssl-dev libev-dev libjansson-dev
 libprotobuf-c-dev protobuf-c-compiler libopenblas-dev libopus-dev libogg-dev libvorbis-dev libmpg123-dev libsndfile1-dev
 libsoxr-dev libinih-dev libsystemd-dev libxxhash-dev libutf8proc-dev libkissfft-dev uthash-dev
 libyaml-dev zlib1g-dev libcurl4-openssl-dev libavformat-dev libavcodec-dev libswresample-dev
 libavutil-dev libseccomp-dev libsqlite3-dev libhiredis-dev"
demo="curl python3-pip"
arm="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
[ "$(uname -m)" = x86_64 ] || arm=""
check="abigail-tools apparmor curl ffmpeg g++ libcmocka-dev mypy python3 python3-venv git binutils shellcheck systemd valgrind dbus-daemon
 openssl nginx haproxy caddy redis-server libvo-amrwbenc0"

deb="debhelper dh-apparmor lintian dpkg-dev mmdebstrap git"
clients="openjdk-17-jdk-headless"
# Node.js from elsewhere does as well, and brings its own npm
command -v node >/dev/null 2>&1 || clients="$clients nodejs"
command -v npm >/dev/null 2>&1 || clients="$clients npm"
container="buildah mmdebstrap curl python3-minimal procps git"

case "${1:-build}" in
build) want=$build ;;
demo) want="$build $demo" ;;
check) want="$build $demo $check $arm" ;;
clients) want="$build $demo python3 python3-venv openssl $clients" ;;
arm) want=$arm ;;
deb) want="$build $deb" ;;
container) want=$container ;;
*) echo "usage: deps.sh build|demo|check|clients|arm|deb|container" >&2; exit 64 ;;
esac

missing=""
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not a Debian system: see to it that these packages' counterparts are installed:" $want
    exit 0
fi
for p in $want; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] ||
        missing="$missing $p"
done
[ -n "$missing" ] || exit 0

echo "Installing with apt:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "Not root and no sudo. Run as root: apt-get install$missing" >&2; exit 77; }
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    # shellcheck disable=SC2086 # a list of package names
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install >"$log" 2>&1 || {
    echo "Refreshing the package lists"
    $as_root apt-get update -qq >>"$log" 2>&1 || true
    install >>"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "apt could not install:$missing" >&2; exit 1; }
}
