#!/bin/sh
# Build the Debian packages of HEAD in build/deb and check them with lintian. Then, in a fresh Debian made by mmdebstrap:
# install them, run debian/tests/service, upgrade to the same version, purge, and look for files that stay behind.
#     tests/deb.sh [--no-chroot]
set -eu
cd "$(dirname "$0")/.."
tests/deps.sh deb
out=$PWD/build/deb
version=$(sed -n 's/^VERSION := //p' Makefile)
say() { printf '%s\n' "deb: $*"; }

rm -rf "$out"
mkdir -p "$out"
git archive --prefix="steno-$version/" HEAD | tar -x -C "$out"
say "building, the log is $out/build.log"
(cd "$out/steno-$version" && dpkg-buildpackage -us -uc -b -j"$(nproc)" >"$out/build.log" 2>&1) || { tail -20 "$out/build.log"; exit 1; }
lintian --allow-root --fail-on error,warning "$out"/*.changes
say "lintian has no error and no warning"
[ "${1:-}" != --no-chroot ] || exit 0
[ "$(id -u)" = 0 ] || { say "not root: the packages are not installed"; exit 0; }

root=$out/root
sources=$(find /etc/apt -name '*.sources' -o -name sources.list | head -1)
mmdebstrap --quiet --variant=apt --mode=root bookworm "$root" "$sources"
mkdir "$root/packages" "$root/source"
cp "$out"/*.deb "$root/packages/"
rm -f "$root"/packages/*dbgsym*
cp -r "$out/steno-$version/tests" "$out/steno-$version/debian" "$root/source/"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1"; }
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # there is no init to start services
chmod 755 "$root/usr/sbin/policy-rc.d"
inside 'apt-get -qq update; apt-get -qq install -y --no-install-recommends curl >/dev/null'
(cd "$root" && find etc lib usr var -xdev | sort) >"$out/before"
inside 'apt-get -qq install -y --no-install-recommends /packages/*.deb >/dev/null 2>&1'
say "installed"
inside 'cd /source && debian/tests/service'
inside 'test -e /usr/lib/*/pkgconfig/steno.pc'
inside 'apt-get -qq install -y --reinstall /packages/*.deb >/dev/null 2>&1'
inside 'apt-get -qq purge -y stenod steno libsteno-dev libsteno0 steno-models-digits >/dev/null 2>&1'
(cd "$root" && find etc lib usr var -xdev | sort) >"$out/after"
if comm -13 "$out/before" "$out/after" | grep -E '/steno|stenod' | grep -v -E '/(var/lib/dpkg|usr/share/doc)/'; then
    say "these files stay after purge"
    exit 1
fi
rm -rf "$root"
say "installed, tested, installed again, purged: nothing of it stays"
