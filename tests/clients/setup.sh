#!/usr/bin/env bash
# Install what tests/integration/test_clients_large.py runs: a JDK and Node.js (Debian), build/venv-clients (770 MB) and
# build/node-clients (32 MB). Does nothing where that has been done with the same lists.
set -eu
cd "$(dirname "$0")/../.."

tests/deps.sh clients
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv

stamp=build/venv-clients/.made
if ! cmp -s tests/clients/requirements.txt "$stamp"; then
    echo "Making build/venv-clients from tests/clients/requirements.txt (770 MB)"
    rm -rf build/venv-clients
    mkdir -p build
    python3 -m venv build/venv-clients
    build/venv-clients/bin/pip install -q -r tests/clients/requirements.txt
    cp tests/clients/requirements.txt "$stamp"
fi

stamp=build/node-clients/.made
if ! cmp -s tests/clients/package.json "$stamp"; then
    echo "Making build/node-clients from tests/clients/package.json"
    rm -rf build/node-clients
    mkdir -p build/node-clients
    cp tests/clients/package.json build/node-clients/
    (cd build/node-clients && npm install --silent --no-audit --no-fund)
    cp tests/clients/package.json "$stamp"
fi
