#include "speech/text/bpe_list.h"

#include <string.h>

static void read_line(const char *p, size_t n, size_t ids, struct steno_bpe_line *line)
{
    const char *blank = memchr(p, ' ', n);
    size_t at = blank ? (size_t)(blank - p) + 1 : n, id = 0;
    *line = (struct steno_bpe_line){.text = p};
    if (at == n)
        return;
    for (; at < n && p[at] >= '0' && p[at] <= '9' && id < ids; at++)
        id = id * 10 + (size_t)(p[at] - '0');
    line->n = at == n && id < ids ? (size_t)(blank - p) : 0;
    line->id = id;
}

bool steno_bpe_list_next(struct steno_lines *l, size_t ids, struct steno_bpe_line *line)
{
    while (steno_lines_next(l))
        if (l->n) {
            read_line(l->line, l->n, ids, line);
            return true;
        }
    return false;
}
