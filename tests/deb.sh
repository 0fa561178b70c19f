#!/bin/sh
# Build the Debian packages of HEAD in build/deb and check them with lintian. Then, in a fresh Debian made by mmdebstrap:
# install them as an older version, upgrade, run debian/tests, downgrade and upgrade with a changed configuration, install
# the same version again, remove, purge, and look for files that stay behind.
#     tests/deb.sh [--twice] [--no-chroot]
# --twice: build them a second time in a folder of another name, with another time zone, language, umask and number of
# jobs, and compare every package, program and library, and the Python wheel, byte by byte. JOBS: compilers at a time.
set -eu
cd "$(dirname "$0")/.."
twice="" chroot=1
for option; do
    case $option in
    --twice) twice=1 ;;
    --no-chroot) chroot="" ;;
    *) echo "usage: deb.sh [--twice] [--no-chroot]" >&2; exit 64 ;;
    esac
done
tests/deps.sh deb
out=$PWD/build/deb
commit=$(git rev-parse HEAD) # also of the second build, whatever is committed meanwhile
version=$(sed -n 's/^VERSION := //p' Makefile)
say() { printf '%s\n' "deb: $*"; }

# build FOLDER JOBS: HEAD in FOLDER/steno-VERSION, the packages in FOLDER, with no compiler cache
build() {
    mkdir -p "$1"
    git archive --prefix="steno-$version/" "$commit" | tar -x -C "$1"
    say "building in $1, the log is $1/build.log"
    (cd "$1/steno-$version" && CCACHE_DISABLE=1 dpkg-buildpackage -us -uc -b -j"$2" >"$1/build.log" 2>&1) || { tail -20 "$1/build.log"; exit 1; }
}

rm -rf "$out"
jobs=${JOBS:-$(nproc)} second=
again=$out/a-second-folder-with-a-longer-name
if [ "$twice" ]; then
    (umask 077 && TZ=Pacific/Auckland LC_ALL=C.UTF-8 LANG=C.UTF-8 build "$again" "$((jobs + 1))") &
    second=$!
fi
build "$out" "$jobs"
[ -z "$second" ] || wait "$second"
lintian --allow-root --fail-on error,warning "$out"/*.changes
say "lintian has no error and no warning"

if [ "$twice" ]; then
    same=0 differ=""
    for d in "$out" "$again"; do
        (cd "$d/steno-$version" && mkdir -p ../wheel && SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -STimestamp) python3 engine/python/build_wheel.py ../wheel >/dev/null)
    done
    for f in "$out"/*.deb "$out"/wheel/*.whl "$out/steno-$version"/build/release/*.a "$out/steno-$version"/build/release/*.so.* \
        "$out/steno-$version"/build/release/steno "$out/steno-$version"/build/release/stenod "$out/steno-$version"/build/release/steno-decode \
        "$out/steno-$version"/build/release/loadtest/steno-load "$out/steno-$version"/build/man/*; do
        other=$again${f#"$out"}
        if cmp -s "$f" "$other"; then same=$((same + 1)); else differ="$differ ${f#"$out"/}"; fi
    done
    if [ "$differ" ]; then
        say "two builds differ in:$differ"
        exit 1
    fi
    (cd "$out" && sha256sum ./*.deb wheel/*.whl)
    say "two builds give the same bytes: $same packages, programs, libraries, manual pages and a wheel"
    rm -rf "$again"
fi
[ "$chroot" ] || exit 0
[ "$(id -u)" = 0 ] || { say "not root: the packages are not installed"; exit 0; }

# The same packages as an older version, with another line in the daemon's configuration.
old=$version~1
mkdir -p "$out/old"
for deb in "$out"/*.deb; do
    case $deb in *dbgsym*) continue ;; esac
    tree=$out/old/tree
    rm -rf "$tree"
    dpkg-deb -R "$deb" "$tree"
    sed -i -e "s/^Version: .*/Version: $old/" -e "s/(= $version)/(= $old)/g" "$tree/DEBIAN/control"
    [ ! -f "$tree/etc/steno/steno.conf" ] || sed -i '1i # an older file' "$tree/etc/steno/steno.conf"
    dpkg-deb --root-owner-group -b "$tree" "$out/old" >/dev/null
done
rm -rf "$out/old/tree"

root=$out/root
sources=$(find /etc/apt -name '*.sources' -o -name sources.list | head -1)
mmdebstrap --quiet --variant=apt --mode=root bookworm "$root" "$sources"
mkdir "$root/packages" "$root/source"
cp -r "$out/old" "$root/packages/old"
cp "$out"/*.deb "$root/packages/"
rm -f "$root"/packages/*dbgsym*
cp -r "$out/steno-$version/tests" "$out/steno-$version/debian" "$root/source/"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1"; }
apt() { inside "apt-get -qq $* >/apt.log 2>&1 || { cat /apt.log; exit 1; }"; }
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # there is no init to start services
chmod 755 "$root/usr/sbin/policy-rc.d"
apt "update"
apt "install -y --no-install-recommends curl gcc libc6-dev pkg-config"
files() { (cd "$root" && find etc lib usr var -xdev | sort); }
files >"$out/before"

apt "install -y --no-install-recommends /packages/old/*.deb"
[ "$(inside 'dpkg-query -W -f "\${Version}" stenod')" = "$old" ]
say "installed as $old"
apt "install -y --no-install-recommends /packages/*.deb"
[ "$(inside 'dpkg-query -W -f "\${Version}" stenod')" = "$version" ]
inside '! grep -q "an older file" /etc/steno/steno.conf'
inside 'cd /source && debian/tests/service'
inside 'cd /source && debian/tests/library'
say "upgraded to $version: the unchanged configuration is the new one, the service answers, programs compile with the library"

# An administrator's changes stay, also in a downgrade and upgrade.
inside 'echo "# ours" >>/etc/steno/steno.conf'
apt "install -y --allow-downgrades --no-install-recommends -o Dpkg::Options::=--force-confold /packages/old/*.deb"
apt "install -y --no-install-recommends -o Dpkg::Options::=--force-confold /packages/*.deb"
inside 'grep -q "# ours" /etc/steno/steno.conf'
apt "install -y --reinstall /packages/*.deb"
inside 'grep -q "# ours" /etc/steno/steno.conf'
inside 'cd /source && debian/tests/service'
apt "remove -y stenod"
inside 'test -e /etc/steno/steno.conf'
say "an administrator's configuration stays through upgrades and removal"
apt "purge -y stenod steno libsteno-dev libsteno0 steno-models-digits"
files >"$out/after"
if comm -13 "$out/before" "$out/after" | grep -E '/(lib)?steno' | grep -v -E '/(var/lib/dpkg|usr/share/doc)/'; then
    say "these files stay after purge"
    exit 1
fi
rm -rf "$root"
say "purged: nothing stays"
