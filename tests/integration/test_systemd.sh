#!/usr/bin/env bash
# systemd accepts the units without complaint, and their exposure score stays low. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 70
echo "1..5"
if ! command -v systemd-analyze >/dev/null; then
    for i in 1 2 3 4 5; do echo "ok $i - units # SKIP systemd-analyze is not installed"; done
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build=${STENO_BUILD:-$PWD/build/release}
# as installed, with the installed paths: a root with the program and this system's targets
units=$dir/usr/lib/systemd/system
mkdir -p "$dir/usr/sbin" "$units"
ln "$build/stenod" "$dir/usr/sbin/stenod" 2>/dev/null || cp "$build/stenod" "$dir/usr/sbin/stenod"
cp -r /lib/systemd/system/*.target "$units"
install -D /bin/sh "$dir/bin/sh" # for ExecReload
for unit in systemd/stenod.service systemd/stenod.socket; do
    sed -e "s|@SBINDIR@|/usr/sbin|g" -e "s|@SYSCONFDIR@|/etc|g" -e "s|@DATADIR@|/usr/share|g" "$unit" >"$units/${unit#*/}"
done
bad=0
result() { # NUMBER NAME OUTPUT
    if [ -z "$3" ]; then echo "ok $1 - $2"; else
        bad=1
        echo "not ok $1 - $2"
        while IFS= read -r line; do echo "# $line"; done <<<"$3"
    fi
}
out=$(systemd-analyze verify --man=no --root="$dir" stenod.service stenod.socket 2>&1) ||
    out="status $?: $out"
result 1 "systemd-analyze verify of the installed units has nothing to say" "$out"
level=$(systemd-analyze security --offline=true --no-pager "$units/stenod.service" 2>/dev/null |
    sed -n 's/.*exposure level for stenod.service: \([0-9.]*\).*/\1/p')
echo "# exposure level ${level:-unknown}"
out=""
awk -v l="${level:-9}" 'BEGIN {exit !(l <= 1.5)}' || out="exposure level ${level:-unknown}, wanted at most 1.5"
result 2 "exposure level is low" "$out"
out=""
grep -q "${level:-unknown}" docs/systemd.md 2>/dev/null || out="docs/systemd.md does not say ${level:-unknown}"
result 3 "the documented exposure level is the measured one" "$out"

# The profile is not in force here. AppArmor's parser shows each path of a rule as a regular expression, and every path that the
# service opens must match one: "/dir/**" is what is below the directory, without the directory.
if command -v apparmor_parser >/dev/null; then
    out=$(apparmor_parser -Q -K -T -D rule-exprs debian/apparmor/usr.sbin.stenod 2>&1) && status=0 || status=$?
    rules=$(sed -n 's/^aare: .* -> *\(\/.*\)$/^\1$/p' <<<"$out")
    [ $status != 0 ] || out=""
    [ -n "$rules" ] || out="no rules: $out"
    for path in /etc/steno/steno.conf /usr/share/steno/models/ /usr/share/steno/models/digits-en/encoder.onnx /var/lib/steno/models/ \
        /var/lib/steno/ /var/lib/private/steno-jobs/ /var/lib/private/steno-jobs/jobs.db-wal /var/lib/steno-jobs/ /var/lib/steno-voices/ /var/lib/private/steno-voices/open/ /var/lib/private/steno-voices/open/Ann.voice.new \
        /var/lib/private/steno-state/usage \
        /var/cache/private/steno/cost /run/steno/admin.sock /etc/ssl/certs/ca-certificates.crt /proc/1/fd/ /usr/libexec/steno/steno-decode; do
        grep -qP -f <(echo "$rules" | paste -sd '|') <<<"$path" || out="$out
no rule for $path"
    done
    ! grep -qP -f <(echo "$rules" | paste -sd '|') <<</etc/shadow || out="$out
a rule for /etc/shadow"
    result 4 "the AppArmor profile has a rule for every path that the service opens" "$out"
else
    echo "ok 4 - the AppArmor profile # SKIP apparmor_parser is absent (package apparmor)"
fi

# purge: DPKG_ROOT is dpkg's own way to name another root
for d in lib/private/steno-jobs/audio lib/private/steno-voices/open lib/private/steno-state cache/private/steno lib/steno/models/base; do
    mkdir -p "$dir/var/$d"
    touch "$dir/var/$d/file"
done
for d in lib/steno-jobs lib/steno-voices lib/steno-state cache/steno; do ln -s "private/${d#*/}" "$dir/var/$d"; done
out=$(DPKG_ROOT=$dir sh debian/stenod.postrm remove 2>&1)
[ -e "$dir/var/lib/steno-jobs/audio/file" ] || out="$out removing took jobs"
out=$out$(DPKG_ROOT=$dir sh debian/stenod.postrm purge 2>&1)
left=$(cd "$dir/var" && find . -name '*steno-*' -o -path './cache/*' -name '*steno*' | sort)
[ -e "$dir/var/lib/steno/models/base/file" ] || out="$out purging took models"
result 5 "purging removes jobs, transcripts, voice prints, the use of keys and the cache, and no models" "$out$left"
exit $bad
