/* What a tagger writes: tokens `name { key: "value" key: "value" }` with blanks between them, in
 * which " and \ of values have a \ before them. A verbalizer wants the keys of some tokens in an
 * order of its own: it is that of WeTextProcessing's token_parser.py for inverse normalization, as
 * wetext has it. Pure. */
#ifndef STENO_ITN_FIELDS_H
#define STENO_ITN_FIELDS_H

#include "base/buf.h"

/* A key with its value: where it lies in the tagged text and, with its token's name and braces
 * where it is the first or the last one, in the ordered text. */
struct steno_itn_field {
    uint32_t tagged, tagged_end;
    uint32_t ordered, ordered_end;
    uint32_t spoken, spoken_end; /* what was said; 0: for the holder of the list */
};

struct steno_itn_fields {
    struct steno_itn_field *field; /* in the order of the tagged text */
    size_t n, cap;
};

/* Write tagged text [n] in the verbalizer's order; out and f are emptied before. STENO_ERR_FORMAT:
 * it is no such text. STENO_ERR_LIMIT or STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_itn_fields_order(const char *text, size_t n, struct steno_buf *out,
                                               struct steno_itn_fields *f);

#endif
