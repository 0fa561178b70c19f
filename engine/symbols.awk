# Print what the public header says of the library's symbols.
#     awk -f engine/symbols.awk HEADER...                  lines "NAME VERSION", one per public function
#     awk -f engine/symbols.awk -v form=map HEADER...      a version script for the linker: these names and no others
#     awk -f engine/symbols.awk -v form=options HEADER...  options for the linker that take these functions from an archive
# A function is public if its declaration begins with STENO_API. Its version is STENO_0.1, or that of a comment
# "Since 0.2." directly before the declaration. A name never moves to another version.
function version_less(a, b,    x, y) { split(a, x, "."); split(b, y, "."); return x[1] + 0 < y[1] + 0 || (x[1] == y[1] && x[2] + 0 < y[2] + 0) }
/^\/\*/ { since = "0.1" }
match($0, /Since [0-9]+\.[0-9]+\./) { since = substr($0, RSTART + 6, RLENGTH - 7) }
/^STENO_API/ { declaration = "" ; open = 1 }
open { declaration = declaration " " $0 }
open && /;/ {
    open = 0
    sub(/\(.*/, "", declaration)
    match(declaration, /[a-z_0-9]+ *$/)
    name = substr(declaration, RSTART, RLENGTH)
    if (form == "options") print "-Wl,-u," name
    else if (form != "map") print name, "STENO_" since
    if (!(since in of)) versions[++n_versions] = since
    of[since] = of[since] "    " name ";\n"
    since = "0.1"
}
END {
    if (form != "map") exit
    for (i = 2; i <= n_versions; i++)
        for (k = i; k > 1 && version_less(versions[k], versions[k - 1]); k--) {
            v = versions[k]; versions[k] = versions[k - 1]; versions[k - 1] = v
        }
    for (i = 1; i <= n_versions; i++)
        printf "STENO_%s {\nglobal:\n%s%s}%s;\n", versions[i], of[versions[i]], i == 1 ? "local:\n    *;\n" : "", i == 1 ? "" : " STENO_" versions[i - 1]
}
