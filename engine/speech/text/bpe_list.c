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

bool steno_bpe_list_next(struct steno_bpe_list *l, size_t ids, struct steno_bpe_line *line)
{
    while (l->p < l->end) {
        const char *p = l->p, *stop = memchr(p, '\n', (size_t)(l->end - p));
        size_t n = (size_t)((stop ? stop : l->end) - p);
        l->p = stop ? stop + 1 : l->end;
        l->line++;
        n -= n && p[n - 1] == '\r';
        if (n) {
            read_line(p, n, ids, line);
            return true;
        }
    }
    return false;
}
