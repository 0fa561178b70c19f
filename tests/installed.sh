#!/usr/bin/env bash
# `make install DESTDIR=`: which files arrive, that they work from there, and that uninstall removes them. TAP.
set -u
export LC_ALL=C.UTF-8
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
for f in bin/steno bin/steno-load sbin/stenod libexec/steno/steno-decode lib/libsteno.a lib/libsteno.so lib/pkgconfig/steno.pc \
    lib/pkgconfig/steno-static.pc include/steno/steno.h \
    share/man/man1/steno.1 share/man/man1/steno-load.1 share/man/man8/stenod.8 share/man/man5/steno.conf.5 \
    lib/systemd/system/stenod.service lib/systemd/system/stenod.socket share/steno/steno.conf.sample share/steno/catalogue.json \
    share/bash-completion/completions/steno share/steno/models/digits-en/model.conf \
    share/steno/models/digits-en/encoder.onnx share/steno/models/digits-en/tokens.txt; do
    [ -f "$root/usr/$f" ] || missing+="$f "
done
[ -z "$missing" ]; check $? "every file arrives" "missing: $missing"
got=$(cd / && "$root/usr/bin/steno" transcribe --model "$root/usr/share/steno/models/digits-en" "$OLDPWD/tests/data/digits.wav" 2>&1)
[ "$got" = "$(cat tests/data/digits.txt)" ]; check $? "the installed command transcribes the sample" "$got"
got=$(cd / && STENO_DATA=$root "$root/usr/bin/steno" transcribe "$OLDPWD/tests/data/digits.wav" 2>&1)
[ "$got" = "$(cat tests/data/digits.txt)" ]; check $? "it finds the model beside it, though it was built for another prefix" "$got"
got=$(cd / && env -u STENO_DECODE "$root/usr/bin/steno" transcribe --model "$root/usr/share/steno/models/digits-en" "$OLDPWD/tests/data/containers/chirp.webm" 2>&1)
check $? "the installed command finds steno-decode" "$got"

# The library shows the functions of steno.h, and nothing else.
so=$root/usr/lib/libsteno.so
want=$(grep -hE '^STENO_API' "$root/usr/include/steno/steno.h" | grep -oE '\bsteno_[a-z0-9_]+\(' | tr -d '(' | sort)
got=$(nm -D --defined-only --without-symbol-versions "$so" 2>&1 | awk '$2 != "A" {print $3}' | sort)
[ -n "$want" ] && [ "$want" = "$got" ]; check $? "the shared library exports the $(wc -w <<<"$want") functions of steno.h alone" "$(diff <(echo "$want") <(echo "$got"))"
got=$(sed -n 's/^ \(steno_[a-z0-9_]*\)@.*/\1/p' debian/libsteno0.symbols | sort)
[ "$want" = "$got" ]; check $? "debian/libsteno0.symbols names them" "$(diff <(echo "$want") <(echo "$got"))"
got=$(nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | grep -v '@@STENO_0\.[0-9]*$')
[ -z "$got" ]; check $? "every exported function has a version" "$got"
abi=$(sed -n 's/^#define STENO_ABI_VERSION \([0-9]*\).*/\1/p' "$root/usr/include/steno/steno.h")
got=$(readelf -d "$so" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
[ "$got" = "libsteno.so.$abi" ]; check $? "the library's name is libsteno.so.$abi" "$got"
got=$(readelf -d "$so" | grep -E 'TEXTREL|RPATH|RUNPATH')
[ -z "$got" ]; check $? "the library has no text relocations and no search path" "$got"

# Strangers' programs, compiled with the installed files alone.
mkdir "$root/programs"
cp engine/examples/* "$root/programs"
model=$root/usr/share/steno/models/digits-en
digits=$PWD/tests/data/digits.wav
# The system's own folders are not left out of the options, since they stand for those below $root, which may have blanks:
# programs are compiled beside them.
pc() {
    PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" pkg-config "$@" |
        sed -E "s,-([IL])/usr/(lib|include)( |$),-\1../usr/\2 ,g"
}
for kind in steno steno-static; do
    for program in transcribe.c live.cpp; do
        case $program in *.cpp) compiler="g++ -std=c++11" ;; *) compiler="gcc -std=c11" ;; esac
        rm -f "$root/user"
        # shellcheck disable=SC2046,SC2086 # lists of options
        out=$(cd "$root/programs" && $compiler -Wall -Wextra -Wpedantic -Werror "$program" $(pc --cflags --libs $kind) -o "$root/user" 2>&1)
        check $? "$program compiles with pkg-config $kind" "$out"
        case $(readelf -d "$root/user" 2>&1 | grep -c "libsteno.so.$abi") in 0) got=steno-static ;; *) got=steno ;; esac
        [ $got = $kind ]; check $? "$program is linked with $kind" "$got"
        case $program in
        transcribe.c)
            got=$(LD_LIBRARY_PATH=$root/usr/lib "$root/user" "$model" "$digits" 2>&1)
            want=$("$root/usr/bin/steno" transcribe --words --model "$model" "$digits" | awk '{print $1, $2, $4}')
            ;;
        *)
            got=$(tail -c +45 "$digits" | LD_LIBRARY_PATH=$root/usr/lib "$root/user" "$model" 8000 2>&1)
            want=$("$root/usr/bin/steno" transcribe --stream --precision fp32 --model "$model" "$digits" | cut -d ' ' -f 2- | grep '^final')
            got=$(sort -u <<<"$got" | grep -c '^partial ..') # partials that have text
            [ "$got" -gt 3 ]; check $? "$program shows partials" "$got"
            got=$(tail -c +45 "$digits" | LD_LIBRARY_PATH=$root/usr/lib "$root/user" "$model" 8000 2>&1 | grep '^final')
            ;;
        esac
        [ -n "$want" ] && [ "$got" = "$want" ]; check $? "$program prints what the command hears" "$(diff <(echo "$want") <(echo "$got"))"
    done
done
got=$(LD_LIBRARY_PATH=$root/usr/lib "$root/user" /nowhere 8000 </dev/null 2>&1)
case $? in 0) false ;; *) grep -q /nowhere <<<"$got" ;; esac; check $? "a model that is not there is an error with its name" "$got"
make -s uninstall DESTDIR="$root" PREFIX=/usr >/dev/null 2>&1
left=$(find "$root/usr" "$root/etc" ! -type d ! -path '*/etc/steno/steno.conf' 2>/dev/null | head -n 5)
[ -z "$left" ]; check $? "uninstall leaves only the administrator's configuration" "$left"
echo "1..$n"
