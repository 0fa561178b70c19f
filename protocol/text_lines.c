#include "protocol/text_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

steno_status steno_text_lines_cut(struct steno_text_lines *out, const char *text, size_t bytes,
                                  steno_err *err)
{
    struct steno_text_lines l = {0};
    size_t n = 1;
    if (memchr(text, '\0', bytes))
        return steno_fail(err, STENO_ERR_INVAL, "text: it has zero bytes");
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    l.text = malloc(bytes + 1);
    l.lines = calloc(n, sizeof *l.lines);
    if (!l.text || !l.lines) {
        steno_text_lines_free(&l);
        return steno_fail(err, STENO_ERR_NOMEM, "text: out of memory");
    }
    memcpy(l.text, text, bytes);
    l.text[bytes] = '\0';
    for (char *at = l.text; at;) {
        char *end = strchr(at, '\n');
        if (end && end > at && end[-1] == '\r')
            end[-1] = '\0';
        if (end)
            *end++ = '\0';
        l.lines[l.n++].text = at;
        at = end;
    }
    *out = l;
    return STENO_OK;
}

void steno_text_lines_free(struct steno_text_lines *l)
{
    free(l->lines);
    free(l->text);
    *l = (struct steno_text_lines){0};
}
