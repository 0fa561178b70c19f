#!/usr/bin/env bash
# Make build/venv-espnet: the packages that generate.py needs (about 1.5 GB installed, with torch for CPUs only).
set -euo pipefail
cd "$(dirname "$0")/../.."
stamp=build/venv-espnet/.made
cmp -s tests/espnet/requirements.txt "$stamp" && exit 0
rm -rf build/venv-espnet
mkdir -p build
python3 -m venv build/venv-espnet
pip=build/venv-espnet/bin/pip
$pip install -q torch==2.13.0
$pip install -q -r tests/espnet/requirements.txt
$pip install -q --no-deps espnet==202511 espnet_onnx==0.2.1
cp tests/espnet/requirements.txt "$stamp"
