#!/usr/bin/env bash
# The wheel that PyPI takes, in build/manylinux: that of `make wheel` with the libraries that it uses (auditwheel), their licences,
# and the tag of the oldest glibc that it runs on. As root it is tried in a fresh Debian that has Python and none of these libraries.
#     tests/manylinux.sh [--no-chroot]
set -eu
cd "$(dirname "$0")/.."
B=${B:-build/release}
# shellcheck source=tests/venv.sh
. tests/venv.sh
venv tests/python/requirements.txt
say() { printf '%s\n' "manylinux: $*"; }
out=$PWD/build/manylinux
rm -rf "$out"
mkdir -p "$out/plain" "$out/licenses"
export STENO_WHEEL_LICENSES=$out/licenses
STENO_WHEEL_LIBRARY=$(echo "$B"/libsteno.so.*[0-9])
export STENO_WHEEL_LIBRARY

# The texts under which Debian distributes the libraries. glibc and zlib stay the system's, as every manylinux requires.
while read -r library; do
    file=$(realpath "$library")
    owner=$(dpkg -S "$file" "${file#/usr}" 2>/dev/null | sed 's/:.*//;q') # /lib is a link to /usr/lib
    [ "$owner" ] || { say "no package has $library"; exit 1; }
    case $owner in libc6 | libgcc-s1 | zlib1g) continue ;; esac
    cp "/usr/share/doc/$owner/copyright" "$out/licenses/$owner"
done < <(ldd "$STENO_WHEEL_LIBRARY" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p')

python3 engine/python/build_wheel.py "$out/plain" >/dev/null
repair() { PATH=$PWD/build/venv/bin:$PATH build/venv/bin/auditwheel repair -w "$1" "$out"/plain/*.whl >"$out/auditwheel.log" 2>&1 || { cat "$out/auditwheel.log"; exit 1; }; }
repair "$out"
repair "$out/again"
cmp "$out"/*.whl "$out"/again/*.whl
wheel=$(basename "$out"/*.whl)
case $wheel in *-py3-none-manylinux_2_[0-9]*.whl) ;; *) say "auditwheel has made $wheel"; exit 1 ;; esac
say "$wheel, $(stat -c %s "$out/$wheel") bytes, $(find "$out/licenses" -type f | wc -l) libraries' licences; two builds are equal"
[ "${1:-}" != --no-chroot ] || exit 0
[ "$(id -u)" = 0 ] || { say "not root: it is not tried"; exit 0; }

command -v mmdebstrap >/dev/null || tests/deps.sh deb
root=$out/root
sources=$(find /etc/apt -name '*.sources' -o -name sources.list | head -1)
mmdebstrap --quiet --variant=minbase --include=python3-venv --mode=root bookworm "$root" "$sources"
mkdir "$root/try"
cp -r "$out/$wheel" conf/models/digits-en tests/data/digits.wav "$root/try/"
if chroot "$root" ldconfig -p | grep -E 'lib(soxr|protobuf-c|opus|sndfile|openblas|gomp)\.'; then say "the fresh Debian has these"; exit 1; fi
cat >"$root/try/try.py" <<'END'
import steno_asr

with steno_asr.Model("/try/digits-en") as model:
    print(model.transcribe("/try/digits.wav").text)
END
inside() { chroot "$root" env LC_ALL=C.UTF-8 PATH=/usr/bin:/bin "$@"; }
inside python3 -m venv /try/venv
inside /try/venv/bin/pip install -q --no-index --disable-pip-version-check "/try/$wheel"
for level in "" scalar; do # scalar: without OpenBLAS's products of matrices
    got=$(inside env ${level:+STENO_CPU=$level} /try/venv/bin/python /try/try.py)
    [ "$got" = "$(cat tests/data/digits.txt)" ] || { say "it hears '$got'"; exit 1; }
done
rm -rf "$root" "$out/again"
say "it transcribes in a fresh Debian 12 that has Python alone"
