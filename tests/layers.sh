#!/usr/bin/env bash
# The layering of the tree as tests: includes go one way, every header compiles alone, every global symbol of the
# library has the prefix, and the engine includes no header of sockets, HTTP or JSON. TAP.
set -u
cd "$(dirname "$0")/.." || exit 70
git rev-parse >/dev/null 2>&1 || { echo "1..0 # SKIP git cannot list the files (no clone, or another user's)"; exit 0; }
B=${STENO_BUILD:-build/release}
B=${B#"$PWD/"} # the folders above may have blanks
n=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { # NAME OUTPUT: passes when the output is empty
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else
        echo "not ok $n - $1"
        while IFS= read -r line; do echo "# $line"; done <<<"$2"
    fi
}

# folder -> folders that it may include from and link to, besides itself and base
declare -A may=(
    [base]="" [curl]="" [formats]="" [speech/store]="formats speech/text" [speech/audio]="" [speech/features]="nn/kernels" [speech/search]="" [speech/search/lm]="" [speech/text]="formats" [speech/itn]=""
    [speech/punctuation]="nn/network nn/exec nn/graph nn/kernels formats speech/text"
    [nn/graph]="" [nn/build]="nn/graph formats" [nn/kernels]="" [nn/onnx]="nn/graph"
    [nn/exec]="nn/graph nn/kernels"
    [nn/ops]="nn/graph nn/kernels nn/exec"
    [nn/rare_ops]="nn/graph nn/kernels nn/exec nn/ops" # beside the library: of the command and the tests
    [nn/passes]="nn/graph nn/kernels nn/exec nn/ops"
    [nn/network]="nn/graph nn/kernels nn/exec nn/ops nn/passes nn/onnx"
    [tools/optimize]="nn/graph nn/kernels nn/exec nn/ops nn/passes nn/onnx nn/network"
    [tools/convert]="formats tools/optimize nn/graph nn/build speech/text speech/families/nemo speech/families/moonshine" # networks are built and written, never run
    [speech/families]="speech/features speech/search speech/text" [speech/families/registry]="speech/families"
    [speech/families/common]="speech/families nn/network nn/exec nn/graph nn/kernels formats speech/features speech/search speech/search/lm speech/text"
    [speech/recognizer]="speech/itn speech/punctuation speech/families speech/families/registry speech/speakers speech/turn nn/network nn/exec nn/graph speech/features speech/search speech/text speech/audio speech/store"
    [speech/speakers]="nn/network nn/exec nn/graph nn/kernels formats speech/features speech/audio"
    [speech/turn]="nn/network nn/exec nn/graph nn/kernels speech/features speech/audio"
    [tools/decode]="speech/audio" # a program of its own
    [speech/pool]="speech/recognizer speech/families speech/search speech/text speech/audio speech/features"
)
# All families may use the same folders; no family uses another. The registry may use all families.
for d in engine/speech/families/*/; do
    d=${d#engine/} d=${d%/}
    [ "$d" != speech/families/common ] || continue
    may[$d]="speech/families speech/families/common nn/network nn/exec nn/graph nn/kernels formats speech/features speech/audio speech/search speech/search/lm speech/text"
    may[speech/families/registry]+=" $d"
done
may[speech/families/whisper]+=" nn/onnx nn/build" # weights in exported networks; networks out of weights
may[speech/families/nemo]+=" nn/build"
may[speech/families/moonshine]+=" nn/build"
may[speech/families/qwen_asr]+=" speech/families/llm" # what language models that hear have in common
may[speech/families/transformers_js]+=" speech/families/llm"
may[speech/families/funasr]+=" nn/build speech/families/llm"
may[speech/families/common]+=" nn/build" # weights of one file
# Operators and passes may use only these headers of exec: the plug-in header and its types.
plug_in=" nn/exec/op.h nn/exec/precision.h nn/exec/kv_cache.h "
folder_of() { # PATH below engine/: the longest folder name above that contains it; the registry, which names all families, counts as a folder
    local d=${1%/*}
    case $1 in speech/families/registry.*) echo speech/families/registry; return ;; esac
    while [ -z "${may[$d]+x}" ] && [[ $d == */* ]]; do d=${d%/*}; done
    echo "$d"
}
bad=""
while IFS=: read -r f inc; do
    f=${f#engine/}
    dir=$(folder_of "$f")
    case $f in tools/cli/*) continue ;; esac # may use all
    [ -n "${may[$dir]+x}" ] || { bad+="engine/$f: its folder is not in the table"$'\n'; continue; }
    case $inc in
    steno.h | steno_*.h) case $dir/$inc in speech/families/* | speech/recognizer/* | speech/pool/* | speech/speakers/* | speech/turn/* | speech/audio/steno_audio.h) continue ;; esac
        bad+="engine/$f includes $inc"$'\n'; continue ;;
    */*) ;;
    *) [ -f "engine/$inc" ] && bad+="engine/$f includes $inc"$'\n'; continue ;;
    esac
    [ -f "engine/$inc" ] || continue
    from=$(folder_of "$inc")
    case " base $dir ${may[$dir]} " in *" $from "*) ;; *) bad+="engine/$f includes $inc"$'\n' ;; esac
    case $dir:$from in nn/ops:nn/exec | nn/rare_ops:nn/exec | nn/passes:nn/exec) ;; *) continue ;; esac
    case $plug_in in *" $inc "*) ;; *) bad+="engine/$f includes $inc, which is exec's own"$'\n' ;; esac
done < <(git ls-files 'engine/*/*.[ch]' | xargs grep -oE '^ *# *include "[^"]*"' | sed -E 's/:.*"(.*)"/:\1/')
check "engine folders include only the layers below them" "${bad%$'\n'}"

# Lines "FOLDER MAY..."; a folder that reaches itself is part of a cycle.
bad=$(for d in "${!may[@]}"; do echo "$d ${may[$d]}"; done | awk '
    { for (i = 2; i <= NF; i++) reach[$1, $i] = 1; all[$1] = 1 }
    END {
        for (k in all) for (a in all) for (b in all) if ((a, k) in reach && (k, b) in reach) reach[a, b] = 1
        for (a in all) if ((a, a) in reach) print a " may come back to itself"
    }')
check "the table of layers has no cycle" "$bad"

kernels() { # FOLDERS WHAT: lines in these folders that include from kernels/WHAT/
    local d
    for d in $1; do grep -nE "^ *# *include \"nn/kernels/($2)/" engine/nn/kernels/"$d"/*.[ch]; done
}
bad=$(kernels "tmpl scalar arm" x86; kernels "tmpl scalar x86" arm; kernels scalar tmpl)
check "kernels of one ISA, templates and scalar kernels include nothing of another ISA" "$bad"

bad=$(git ls-files 'engine/*.[ch]' | grep -v '^engine/tools/cli/' |
    xargs grep -nE '^ *# *include [<"](microhttpd|libwebsockets|jansson|sys/socket|netinet/|arpa/)')
check "the engine knows no sockets, HTTP or JSON" "$bad"

bad=$(grep -nE '^ *# *include [<"](microhttpd|libwebsockets|sys/socket|netinet/|pthread|server/)' protocol/*.[ch] 2>/dev/null)
bad+=$(grep -nE '^ *# *include "' protocol/*.[ch] 2>/dev/null | grep -vE '"(base/|protocol/|steno)')
check "protocol is pure: no sockets, threads or engine internals" "$bad"

# Rooms of the daemon, each above those that it uses: room -> rooms that it may include from, besides itself. main, check
# and options, which lie beside them, may use all.
declare -A room_may=(
    [base]="" [port]="base"
    [core]="base port"
    [watch]="base port core"
    [http]="base port core watch"
    [jobs]="base port core watch http"
    [live]="base port core watch http jobs" # jobs/redis*: sessions that another machine goes on with
)
bad=""
while IFS=: read -r f inc; do
    f=${f#server/} inc=${inc#server/}
    case $f in main.c | check.[ch] | options.[ch]) continue ;; esac
    room=${f%%/*} from=${inc%%/*}
    case " $room ${room_may[$room]-} " in *" $from "*) continue ;; esac
    bad+="server/$f includes server/$inc"$'\n'
done < <(git ls-files 'server/*.[ch]' | xargs grep -oE '^ *# *include "server/[^"]*"' | sed -E 's/:.*"(.*)"/:\1/')
check "rooms of the daemon include only the rooms below them" "${bad%$'\n'}"

bad=$(git grep -nE '^ *# *include "cli/' -- server)
check "the daemon has nothing of the command" "$bad"

bad=$(grep -nE '^ *# *include "(nn|optimize)/' server/*.[ch] server/*/*.[ch] 2>/dev/null)
check "the server reaches the networks only through streams and the pool" "$bad"

bad=""
flags="-std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Iengine -I. -I$B/gen"
flags+=" $(pkg-config --cflags libmicrohttpd libwebsockets jansson libprotobuf-c opus ogg sndfile soxr inih kissfft-float libsystemd cmocka 2>/dev/null)"
# A header that some source of the build includes before anything else has compiled alone there.
first=" $(git ls-files 'engine/*.c' 'server/*.c' 'protocol/*.c' 'loadtest/*.c' 'tests/unit/*.c' ':!engine/nn/kernels/arm' ':!engine/python' |
    xargs awk 'FNR == 1 { seen = 0 } /^ *# *[a-z]/ && !seen { seen = 1; if (match($0, /"[^"]*"/)) print substr($0, RSTART + 1, RLENGTH - 2) }' | xargs) "
for h in $(git ls-files '*.h'); do
    case $h in *_tmpl.h | *_table.h) continue ;; esac # included several times, for their macros
    case $first in *" $h "* | *" ${h#engine/} "*) continue ;; esac
    isa="" cc=gcc with=$flags
    case $h in *avx2*) isa="-mavx2 -mfma -mf16c" ;; *avx512*) isa="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma" ;; esac
    case $h in tests/emulated/*) isa="-Itests/emulated -mavx2 -mfma -mf16c -w" ;; esac
    case $h in engine/nn/kernels/arm/*) cc=aarch64-linux-gnu-gcc with="-std=c11 -Iengine" ;; esac
    command -v "$cc" >/dev/null || continue # tests/deps.sh arm
    # shellcheck disable=SC2086
    out=$(printf '#include "%s"\n' "$PWD/$h" | "$cc" $with $isa -fsyntax-only -x c - 2>&1) || bad+="$h: $(head -n 2 <<<"$out")"$'\n'
done
check "every header compiles alone" "${bad%$'\n'}"

# Symbols: an object may refer only to folders that its own folder may use. Output of protoc-c belongs to the folder of
# its .proto.
objects() {
    git ls-files 'engine/*.c' | grep -v '^engine/tools/cli/' | sed "s|\(.*\)\.c$|$B/\1.o|" | xargs ls 2>/dev/null
    ls "$B"/gen/*.o
}
pairs() { # of lines "FOLDER OBJECT": FROM<tab>TO<tab>OBJECT SYMBOL for every symbol that an object of one folder uses from another
    cat >"$work/objects"
    sed 's/^[^ ]* //' "$work/objects" | xargs nm -gA 2>/dev/null | awk '
        NR == FNR { folder[$2] = $1; next }
        { o = substr($0, 1, index($0, ":") - 1); print folder[o], o, $(NF - 1), $NF }' "$work/objects" - | awk '
        $3 == "U" { n++; from[n] = $1; object[n] = $2; symbol[n] = $4; next }
        { in_folder[$4] = $1 }
        END {
            for (i = 1; i <= n; i++) if (symbol[i] in in_folder && in_folder[symbol[i]] != from[i])
                print from[i] "\t" in_folder[symbol[i]] "\t" object[i] " " symbol[i]
        }'
}
link_pairs() {
    local o d
    while read -r o; do
        d=${o#"$B"/}
        case $d in gen/onnx*) d=nn/onnx ;; gen/sentence*) d=speech/text ;; engine/*/*) d=$(folder_of "${d#engine/}") ;; *) continue ;; esac
        echo "$d $o"
    done < <(objects) | pairs
}
if [ -f "$B/libsteno.a" ]; then
    bad=""
    while IFS=$'\t' read -r from to what; do
        case " base ${may[$from]-} " in *" $to "*) ;; *) bad+="$from -> $to: $what"$'\n' ;; esac
    done < <(link_pairs)
    check "engine folders link only to the layers below them" "${bad%$'\n'}"
    if [ -f "$B/stenod" ] && [ -f "$B/libsteno-optimize.a" ]; then
        for other in optimize rare-ops; do
            bad=$(comm -12 <(nm "$B/stenod" | awk '{print $NF}' | sort -u) \
                <(nm -g --defined-only "$B/libsteno-$other.a" 2>&1 | awk 'NF == 3 && $3 ~ /^steno_/ {print $3}' | sort -u))
            check "the daemon has nothing of libsteno-$other.a" "$bad"
        done
    fi
    bad=""
    while IFS=$'\t' read -r from to what; do
        [ "$from" != server ] || continue # main, check and options
        case " ${room_may[$from]-} " in *" $to "*) ;; *) bad+="$from -> $to: $what"$'\n' ;; esac
    done < <(for o in "$B"/server/*.o "$B"/server/*/*.o; do
        d=${o%/*}
        c=${o#"$B"/} c=${c%.o}.c
        [ -f "$c" ] || continue # of a file that has moved
        echo "${d##*/} $o"
    done | pairs)
    check "rooms of the daemon link only to the rooms below them" "${bad%$'\n'}"
    circles() { # OBJECT...: files among them that call each other in a circle
        local o c
        for o in "$@"; do
            c=${o#"$B"/} c=${c%.o}.c
            [ ! -f "$c" ] || echo "$c $o"
        done | pairs | cut -f 1,2 | sort -u | { tsort >/dev/null; } 2>&1
    }
    check "files of the daemon's rooms call each other in one direction" "$(circles "$B"/server/*/*.o)"
    check "files of protocol call each other in one direction" "$(circles "$B"/protocol/*.o)"
    bad=$(nm -g --defined-only "$B"/libsteno{,-optimize,-rare-ops}.a 2>/dev/null | awk 'NF==3 && $3 !~ /^(_?steno_|_*onnx__|onnx_|__odr_asan|__asan|__gcov)/ {print $3}' | sort -u | head -n 20)
    check "every global symbol of the library has the prefix" "$bad"
    # one variable is a thread's own: see engine/base/threads.c
    bad=$(nm "$B"/libsteno{,-optimize,-rare-ops}.a 2>/dev/null | awk '$2 ~ /^[BbDdCc]$/ && $3 !~ /(^steno_thread_beats$|\.rel|^__|descriptor|_default_value|onnx__)/ {print $2, $3}' | grep -vE '^[dD] .*(\.[0-9]+)?$' | sort -u | head -n 20)
    check "the engine has no zero-initialised writable file-scope state" "$bad"
else
    n=$((n + 1)); echo "ok $n - symbols # SKIP $B/libsteno.a is not built"
fi

bad=$(git grep -nE '\b(strcpy|strcat|sprintf|vsprintf|atoi|atol|atof|strtok|alloca|gets|system)\(' -- 'engine/*.[ch]' 'server/*.[ch]' 'protocol/*.[ch]' 'loadtest/*.[ch]' | grep -vE '^\S+:\s*(/?\*|//)')
check "no banned calls" "$bad"
bad=$(git grep -nE '\babort\(|\bexit\(' -- 'engine/*.[ch]' 'protocol/*.[ch]' ':!engine/tools/cli' | grep -vE '_exit\(|[a-z]exit\(')
check "the engine never ends the process" "$bad"
bad=$(git grep -nIE '/(work|root|home)/[a-z]' -- . ':!LICENSE' | head -n 10)
check "no paths of a developer's machine" "$bad"
echo "1..$n"
