# Print the public header as one file, with the headers that it includes put in their places:
#     awk -f engine/header.awk engine/steno.h
function put(file,    line) {
    if (file in seen) return
    seen[file] = 1
    while ((getline line < file) > 0)
        if (line ~ /^#include "/) {
            split(line, part, "\"")
            put("engine/" part[2])
        } else
            print line
    close(file)
}
BEGIN { put(ARGV[1]); exit }
