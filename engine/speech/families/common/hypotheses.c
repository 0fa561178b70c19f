#include "speech/families/common/hypotheses.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#define MAX_TEXT ((size_t)64 << 20)
#define NO_TEXT SIZE_MAX

struct steno_hypothesis_part {
    size_t spans, ids, text; /* offsets of the first one */
};

void steno_hypothesis_list_init(struct steno_hypothesis_list *l)
{
    *l = (struct steno_hypothesis_list){0};
    steno_buf_init(&l->text, MAX_TEXT);
}

void steno_hypothesis_list_free(struct steno_hypothesis_list *l)
{
    free(l->h);
    free(l->parts);
    free(l->spans);
    free(l->ids);
    steno_buf_free(&l->text);
}

void steno_hypothesis_list_clear(struct steno_hypothesis_list *l)
{
    l->n = l->n_spans = l->n_ids = 0;
    steno_buf_reset(&l->text);
}

static bool reserve_hypotheses(struct steno_hypothesis_list *l, size_t spans, size_t ids)
{
    size_t cap = l->cap;
    return !STENO_RESERVE(&l->h, &cap, l->n + 1) && !STENO_RESERVE(&l->parts, &l->cap, l->n + 1) &&
           !STENO_RESERVE(&l->spans, &l->cap_spans, l->n_spans + spans + 1) &&
           !STENO_RESERVE(&l->ids, &l->cap_ids, l->n_ids + ids + 1); /* never NULL */
}

steno_status steno_hypothesis_list_add(struct steno_hypothesis_list *l,
                                       const struct steno_span *spans, size_t n, const int32_t *ids,
                                       size_t n_ids, double score)
{
    if (!reserve_hypotheses(l, n, n_ids))
        return STENO_ERR_NOMEM;
    l->parts[l->n] = (struct steno_hypothesis_part){l->n_spans, l->n_ids, NO_TEXT};
    l->h[l->n] = (struct steno_hypothesis){.n = n, .n_ids = ids ? n_ids : 0, .score = score};
    if (n)
        memcpy(l->spans + l->n_spans, spans, n * sizeof *spans);
    if (ids && n_ids)
        memcpy(l->ids + l->n_ids, ids, n_ids * sizeof *ids);
    l->n_spans += n;
    l->n_ids += ids ? n_ids : 0;
    l->n++;
    return STENO_OK;
}

steno_status steno_hypothesis_list_add_all(struct steno_hypothesis_list *l,
                                           const struct steno_hypothesis *h, size_t n)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = steno_hypothesis_list_add(l, h[i].spans, h[i].n, NULL, 0, h[i].score);
    return st;
}

void steno_hypothesis_list_begin_text(struct steno_hypothesis_list *l)
{
    l->parts[l->n - 1].text = l->text.len;
}

void steno_hypothesis_list_finish(struct steno_hypothesis_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct steno_hypothesis_part *p = &l->parts[i];
        l->h[i].spans = l->spans + p->spans;
        l->h[i].ids = l->h[i].n_ids ? l->ids + p->ids : NULL;
        l->h[i].text = p->text == NO_TEXT ? NULL : l->text.data + p->text;
    }
}
