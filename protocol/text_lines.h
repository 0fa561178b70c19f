/* The lines of a text that is to be found in a recording. Pure. */
#ifndef STENO_PROTOCOL_TEXT_LINES_H
#define STENO_PROTOCOL_TEXT_LINES_H

#include "steno.h"

struct steno_text_lines {
    struct steno_line *lines; /* [n], of `text` */
    size_t n;
    char *text;
};

/* Copy text [bytes] and cut it at line feeds; a carriage return before one goes too. Zero bytes are
 * no text: STENO_ERR_INVAL; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_text_lines_cut(struct steno_text_lines *out, const char *text,
                                             size_t bytes, steno_err *err);
void steno_text_lines_free(struct steno_text_lines *l);

#endif
