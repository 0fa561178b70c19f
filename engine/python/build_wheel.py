"""Build the wheel of steno-asr: PEP 517's backend, and a program: build_wheel.py DIRECTORY.

The wheel has the package and libsteno.so of build/release, without debug information; STENO_WHEEL_LIBRARY names another
library, STRIP another strip, STENO_WHEEL_LICENSES a directory of further licences. Libraries of the system stay outside and
are found by name; tests/manylinux.sh puts them into the wheel. The same inputs and SOURCE_DATE_EPOCH give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FIRST_DATE = 315532800  # 1980-01-01: zip has nothing earlier

Settings = dict[str, "str | list[str] | None"]


def find(pattern: str, file: Path) -> str:
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise RuntimeError(f"{file}: nothing matches {pattern}")
    return match.group(1)


def version() -> str:
    return find(r"^VERSION := (\S+)", ROOT / "Makefile")


def soname() -> str:
    return "libsteno.so." + find(r"^#define STENO_ABI_VERSION (\d+)", ROOT / "engine/steno.h")


def library() -> bytes:
    """The shared library without debug information."""
    path = Path(os.environ.get("STENO_WHEEL_LIBRARY") or ROOT / "build/release" / soname())
    if not path.is_file():
        raise RuntimeError(f"{path} is not there: run make first")
    with tempfile.TemporaryDirectory() as scratch:
        to = Path(scratch) / "library"
        subprocess.run([os.environ.get("STRIP") or "strip", "--strip-unneeded", "-o", to, path], check=True)
        return to.read_bytes()


def metadata() -> str:
    return f"""Metadata-Version: 2.1
Name: steno-asr
Version: {version()}
Summary: Speech recognition: the engine of steno
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text(encoding="utf-8")}"""


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def build_wheel(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    platform = re.sub(r"[-.]", "_", os.environ.get("STENO_WHEEL_PLATFORM") or sysconfig.get_platform())
    tag = f"py3-none-{platform}"
    info = f"steno_asr-{version()}.dist-info"
    files = {f"steno_asr/{p.name}": p.read_bytes() for p in sorted((HERE / "steno_asr").iterdir()) if p.is_file()}
    files[f"steno_asr/{soname()}"] = library()
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: steno {version()}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    if os.environ.get("STENO_WHEEL_LICENSES"):
        for p in sorted(Path(os.environ["STENO_WHEEL_LICENSES"]).iterdir()):
            files[f"{info}/licenses/{p.name}"] = p.read_bytes()
    record = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH") or FIRST_DATE), FIRST_DATE))[:6]
    name = f"steno_asr-{version()}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w") as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix
            entry.external_attr = (0o100755 if ".so" in path else 0o100644) << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    raise RuntimeError("the source archive is that of steno: make dist")


if __name__ == "__main__":
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1]))
