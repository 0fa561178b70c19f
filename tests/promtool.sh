# shellcheck shell=bash
# promtool of Debian's package prometheus, unpacked below build/; installing the package would start a server. Sourced,
# in the repository's root. If it is unavailable, the tests that need it say so.

# promtool: makes build/promtool/promtool.
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
