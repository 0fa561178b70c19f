/* The lines of a text, one after the other. Pure. */
#ifndef STENO_BASE_LINES_H
#define STENO_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct steno_lines {
    const char *p, *end; /* what is left of the text: set by the caller */
    const char *line;    /* the line taken last: n bytes, without the end of the line */
    size_t n, number;    /* number: of it, from 1 */
};

/* Take the next line, up to \n, \r\n or the end of the text. False: there is none. */
static inline bool steno_lines_next(struct steno_lines *l)
{
    const char *stop = l->p < l->end ? memchr(l->p, '\n', (size_t)(l->end - l->p)) : NULL;
    if (l->p >= l->end)
        return false;
    l->line = l->p;
    l->n = (size_t)((stop ? stop : l->end) - l->p);
    l->n -= l->n && l->line[l->n - 1] == '\r';
    l->p = stop ? stop + 1 : l->end;
    l->number++;
    return true;
}

#endif
