#!/bin/sh
# The work of `make install` and `make uninstall`; the Makefile calls it with its directories.
set -eu
what=$1 destdir=$2 bindir=$3 sbindir=$4 libdir=$5 includedir=$6 datadir=$7 mandir=$8 sysconfdir=$9
shift 9
unitdir=$1 build=$2 version=$3 prefix=$4 libexecdir=$5

put() { # MODE SOURCE TARGET
    if [ "$what" = install ]; then
        install -D -m "$1" "$2" "$destdir$3"
    else
        rm -f "$destdir$3"
    fi
}

put 755 "$build/steno" "$bindir/steno"
put 755 "$build/stenod" "$sbindir/stenod"
put 755 "$build/steno-decode" "$libexecdir/steno/steno-decode"
put 755 "$build/loadtest/steno-load" "$bindir/steno-load"
put 644 "$build/libsteno.a" "$libdir/libsteno.a"
soname=libsteno.so.$(sed -n 's/^#define STENO_ABI_VERSION \([0-9]*\).*/\1/p' engine/steno.h)
put 644 "$build/$soname" "$libdir/libsteno.so.$version"
for link in "$soname" libsteno.so; do
    rm -f "$destdir$libdir/$link"
    [ "$what" = uninstall ] || ln -s "libsteno.so.$version" "$destdir$libdir/$link"
done
put 644 "$build/include/steno/steno.h" "$includedir/steno/steno.h"

for pc in steno steno-static; do
    [ "$what" = uninstall ] || sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@INCLUDEDIR@|$includedir|" \
        -e "s|@VERSION@|$version|" "conf/$pc.pc.in" >"$build/$pc.pc"
    put 644 "$build/$pc.pc" "$libdir/pkgconfig/$pc.pc"
done

for page in docs/man/*.scd; do
    name=$(basename "$page" .scd)
    put 644 "build/man/$name" "$mandir/man${name##*.}/$name"
done

# units contain the daemon's installed path
for unit in systemd/*.service systemd/*.socket; do
    [ -f "$unit" ] || continue
    name=$(basename "$unit")
    [ "$what" = uninstall ] || sed -e "s|@SBINDIR@|$sbindir|g" -e "s|@SYSCONFDIR@|$sysconfdir|g" -e "s|@DATADIR@|$datadir|g" "$unit" >"$build/$name"
    put 644 "$build/$name" "$unitdir/$name"
done

# an administrator's own configuration is kept
if [ "$what" = install ] && [ -f conf/steno.conf ] && [ ! -e "$destdir$sysconfdir/steno/steno.conf" ]; then
    put 644 conf/steno.conf "$sysconfdir/steno/steno.conf"
fi
put 644 conf/steno.conf "$datadir/steno/steno.conf.sample"
put 644 conf/catalogue.json "$datadir/steno/catalogue.json"
put 644 conf/completion/steno.bash "$datadir/bash-completion/completions/steno"
for f in conf/models/*/*; do
    [ -f "$f" ] || continue
    put 644 "$f" "$datadir/steno/${f#conf/}"
done
if [ "$what" = uninstall ]; then
    find "$destdir$datadir/steno" "$destdir$includedir/steno" -depth -type d -empty -delete 2>/dev/null || true
fi
