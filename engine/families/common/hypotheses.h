/* A list of hypotheses that owns what they are made of: for families whose searches do not keep
 * their results until the stream has read them. Confined. */
#ifndef STENO_FAMILIES_COMMON_HYPOTHESES_H
#define STENO_FAMILIES_COMMON_HYPOTHESES_H

#include "base/buf.h"
#include "families/family.h"

struct steno_hypothesis_list {
    struct steno_hypothesis *h; /* [n], complete after steno_hypothesis_list_finish */
    struct steno_hypothesis_part *parts;
    struct steno_span *spans;
    int32_t *ids;
    size_t n, cap, n_spans, cap_spans, n_ids, cap_ids;
    struct steno_buf text; /* texts, each terminated */
};

void steno_hypothesis_list_init(struct steno_hypothesis_list *l);
void steno_hypothesis_list_free(struct steno_hypothesis_list *l);
void steno_hypothesis_list_clear(struct steno_hypothesis_list *l);
/* Append copies of spans [n] and ids [n_ids] (NULL: none). STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hypothesis_list_add(struct steno_hypothesis_list *l,
                                                  const struct steno_span *spans, size_t n,
                                                  const int32_t *ids, size_t n_ids, double score);
/* The one added last has a text of its own: what is written to l->text from now on, with a zero
 * behind it. */
void steno_hypothesis_list_begin_text(struct steno_hypothesis_list *l);
/* All are added: l->h can be read. */
void steno_hypothesis_list_finish(struct steno_hypothesis_list *l);

#endif
