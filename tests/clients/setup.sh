#!/usr/bin/env bash
# Install what tests/integration/test_clients_large.py runs: a JDK and Node.js (Debian), build/venv-clients (770 MB),
# build/venv-clients-more (130 MB) and build/node-clients (32 MB). Does nothing where that has been done with the same lists.
set -eu
cd "$(dirname "$0")/../.."

tests/deps.sh clients
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv

# packages NAME LIST: make build/NAME from tests/clients/LIST
packages() {
    local stamp=build/$1/.made list=tests/clients/$2
    if ! cmp -s "$list" "$stamp"; then
        echo "Making build/$1 from $list"
        rm -rf "build/$1"
        mkdir -p build
        python3 -m venv "build/$1"
        "build/$1/bin/pip" install -q -r "$list"
        cp "$list" "$stamp"
    fi
}
packages venv-clients requirements.txt
packages venv-clients-more requirements-more.txt

stamp=build/node-clients/.made
if ! cmp -s tests/clients/package.json "$stamp"; then
    echo "Making build/node-clients from tests/clients/package.json"
    rm -rf build/node-clients
    mkdir -p build/node-clients
    cp tests/clients/package.json build/node-clients/
    (cd build/node-clients && npm install --silent --no-audit --no-fund)
    cp tests/clients/package.json "$stamp"
fi
