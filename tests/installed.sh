#!/usr/bin/env bash
# `make install DESTDIR=`: which files arrive, that they work from there, and that uninstall removes them. TAP.
set -u
cd "$(dirname "$0")/.." || exit 70
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
n=0
check() {
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; [ -z "${3:-}" ] || sed 's/^/# /' <<<"$3"; fi
}
out=$(make -s install DESTDIR="$root" PREFIX=/usr 2>&1)
check $? "install into DESTDIR" "$out"
missing=""
for f in bin/steno bin/steno-load sbin/stenod libexec/steno/steno-decode lib/libsteno.a lib/pkgconfig/steno.pc include/steno/steno.h \
    share/man/man1/steno.1 share/man/man1/steno-load.1 share/man/man8/stenod.8 share/man/man5/steno.conf.5 \
    lib/systemd/system/stenod.service lib/systemd/system/stenod.socket share/steno/steno.conf.sample share/steno/catalogue.json \
    share/bash-completion/completions/steno share/steno/models/digits-en/model.conf \
    share/steno/models/digits-en/encoder.onnx share/steno/models/digits-en/tokens.txt; do
    [ -f "$root/usr/$f" ] || missing+="$f "
done
[ -z "$missing" ]; check $? "every file arrives" "missing: $missing"
got=$(cd / && "$root/usr/bin/steno" transcribe --model "$root/usr/share/steno/models/digits-en" "$OLDPWD/tests/data/digits.wav" 2>&1)
[ "$got" = "$(cat tests/data/digits.txt)" ]; check $? "the installed command transcribes the sample" "$got"
got=$(cd / && env -u STENO_DECODE "$root/usr/bin/steno" transcribe --model "$root/usr/share/steno/models/digits-en" "$OLDPWD/tests/data/containers/chirp.webm" 2>&1)
check $? "the installed command finds steno-decode" "$got"

flags=$(PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" pkg-config --cflags steno 2>&1 | sed "s|$root$root|$root|g")
libs=$(PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" pkg-config --libs steno 2>&1)
model=$root/usr/share/steno/models/digits-en
user() { # NAME COMPILER...: tests/installed/transcribe.c, compiled only with the installed files
    local out name=$1
    shift
    # shellcheck disable=SC2086
    out=$("$@" -Wall -Wextra -Wpedantic -Werror ${flags} -o "$root/user" tests/installed/transcribe.c -x none -L"$root/usr/lib" $libs 2>&1 &&
        "$root/user" "$model" tests/data/digits.wav 2>&1)
    [ "$(sed 's/ ([0-9]* tokens)$//' <<<"$out" | tr '\n' ' ' | sed 's/ $//')" = "$(cat tests/data/digits.txt)" ]
    check $? "$name" "$out"
}
user "a C program builds and runs with steno.pc" gcc -std=c11
user "a C++ program builds and runs with steno.pc" g++ -std=c++17 -x c++
make -s uninstall DESTDIR="$root" PREFIX=/usr >/dev/null 2>&1
left=$(find "$root/usr" "$root/etc" -type f ! -path '*/etc/steno/steno.conf' 2>/dev/null | head -n 5)
[ -z "$left" ]; check $? "uninstall leaves only the administrator's configuration" "$left"
echo "1..$n"
