#!/usr/bin/env bash
# Static checks. Tools that are not installed are named and left out.
set -u
cd "$(dirname "$0")/.." || exit 70
bad=0
have() { command -v "$1" >/dev/null 2>&1 || { echo "lint: $1 is not installed, left out"; return 1; }; }
mapfile -t c < <(git ls-files '*.c')
mapfile -t sh < <(git ls-files '*.sh' .ci/run)
bash tests/layers.sh | grep '^not ok' && bad=1
have shellcheck && { shellcheck -S warning "${sh[@]}" || bad=1; }
have codespell && { codespell -q 3 -L ot,te,fo,nd,ans,wit,inout,clen,numer,datas -S 'conf/models/*,tests/fuzz/*,*.svg,LICENSE' . || bad=1; }
have cppcheck && { cppcheck -q --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
    --suppress=normalCheckLevelMaxBranches --error-exitcode=1 -Iengine -I. "${c[@]}" || bad=1; }
if have clang-tidy-14; then
    read -ra flags < <(pkg-config --cflags libmicrohttpd libwebsockets opus ogg kissfft-float libprotobuf-c)
    flags+=(-std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Iengine -I. -Ibuild/release/gen
        '-DSTENO_VERSION="x"' '-DSTENO_DATADIR="x"' '-DSTENO_SYSCONFDIR="x"')
    for f in "${c[@]}"; do
        case $f in *_avx2.c | *_avx512.c | *_vnni.c | *_bf16.c) continue ;; esac
        clang-tidy-14 --quiet --checks='-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions,-bugprone-reserved-identifier,clang-analyzer-core.*,clang-analyzer-unix.*' \
            --warnings-as-errors='clang-analyzer-*' "$f" -- "${flags[@]}" 2>/dev/null || bad=1
    done
fi
exit $bad
