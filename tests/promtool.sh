# shellcheck shell=bash
# promtool of Debian's prometheus, unpacked under build/: installing the package would start a server. Sourced, from the
# repository's root. Where it cannot be had, the tests that need it say so.

# promtool: build/promtool/promtool is there.
promtool() {
    [ -x build/promtool/promtool ] && return
    command -v apt-get >/dev/null 2>&1 || return
    echo "Unpacking promtool from Debian's package prometheus into build/promtool"
    mkdir -p build/promtool
    (cd build/promtool && apt-get download -qq prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb |
        tar -xO ./usr/bin/promtool >promtool.new && chmod +x promtool.new && mv promtool.new promtool) \
        >build/promtool.log 2>&1 || tail -n 3 build/promtool.log
    rm -f build/promtool/*.deb
}
