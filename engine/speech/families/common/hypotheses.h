/* A list of hypotheses that owns their tokens, spans and texts. It is for families whose searches
 * do not keep their results until the stream has read them. Confined. */
#ifndef STENO_FAMILIES_COMMON_HYPOTHESES_H
#define STENO_FAMILIES_COMMON_HYPOTHESES_H

#include "base/buf.h"
#include "speech/families/family.h"

struct steno_hypothesis_list {
    struct steno_hypothesis *h; /* [n], complete after steno_hypothesis_list_finish */
    struct steno_hypothesis_part *parts;
    struct steno_span *spans;
    int32_t *ids;
    size_t n, cap, n_spans, cap_spans, n_ids, cap_ids;
    struct steno_buf text; /* texts, each zero-terminated */
};

void steno_hypothesis_list_init(struct steno_hypothesis_list *l);
void steno_hypothesis_list_free(struct steno_hypothesis_list *l);
void steno_hypothesis_list_clear(struct steno_hypothesis_list *l);
/* Append a hypothesis with copies of spans [n] and ids [n_ids] (NULL: none). STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hypothesis_list_add(struct steno_hypothesis_list *l,
                                                  const struct steno_span *spans, size_t n,
                                                  const int32_t *ids, size_t n_ids, double score);
/* Append copies of the spans and scores of h [n]. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hypothesis_list_add_all(struct steno_hypothesis_list *l,
                                                      const struct steno_hypothesis *h, size_t n);
/* Give the last hypothesis a text of its own: the caller appends it to l->text from here on, with a
 * terminating zero. */
void steno_hypothesis_list_begin_text(struct steno_hypothesis_list *l);
/* Complete l->h, when all hypotheses are in. */
void steno_hypothesis_list_finish(struct steno_hypothesis_list *l);

#endif
