#include "decoder/transducer_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PREFIXES (1 << 26)

steno_status steno_ttree_init(struct steno_ttree *t, int32_t vocab)
{
    *t = (struct steno_ttree){.vocab = vocab, .mem = steno_arena_new(0)};
    return t->mem ? STENO_OK : STENO_ERR_NOMEM;
}

static void free_batch(struct steno_ttree *t)
{
    free(t->logp);
    free(t->in);
    free(t->enc);
    free(t->next);
    free(t->row);
    free(t->tokens);
    free(t->todo);
}

void steno_ttree_free(struct steno_ttree *t)
{
    steno_arena_free(t->mem);
    free(t->p);
    free(t->links);
    free_batch(t);
}

static steno_status reserve_batch(struct steno_ttree *t, size_t n)
{
    size_t cap = t->cap_batch ? t->cap_batch : 16, cells;
    if (n <= t->cap_batch)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    if (!steno_mul_size(cap, (size_t)t->vocab * sizeof(float), &cells))
        return STENO_ERR_NOMEM;
    free_batch(t);
    t->logp = malloc(cells);
    t->in = malloc(cap * sizeof *t->in);
    t->enc = malloc(cap * sizeof *t->enc);
    t->next = malloc(cap * sizeof *t->next);
    t->row = malloc(cap * sizeof *t->row);
    t->tokens = malloc(cap * sizeof *t->tokens);
    t->todo = malloc(cap * sizeof *t->todo);
    t->cap_batch = cap;
    if (t->logp && t->in && t->enc && t->next && t->row && t->tokens && t->todo)
        return STENO_OK;
    t->cap_batch = 0;
    return STENO_ERR_NOMEM;
}

/* ---- sequences ----------------------------------------------------------------------------- */

static int32_t new_prefix(struct steno_ttree *t)
{
    if (t->n == t->cap) {
        int32_t cap = t->cap ? 2 * t->cap : 1024;
        struct steno_tprefix *p =
            cap > MAX_PREFIXES ? NULL : realloc(t->p, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        t->p = p;
        t->cap = cap;
    }
    t->p[t->n] = (struct steno_tprefix){.parent = -1, .child = -1, .sibling = -1};
    return t->n++;
}

steno_status steno_ttree_start(struct steno_ttree *t, const struct steno_transducer_nets *nets,
                               int32_t first)
{
    steno_arena_reset(t->mem);
    t->nets = nets;
    t->first = first;
    t->n = t->n_links = 0;
    if (new_prefix(t) < 0)
        return STENO_ERR_NOMEM;
    t->p[0].length = 1;
    return STENO_OK;
}

int32_t steno_ttree_child(struct steno_ttree *t, int32_t p, int32_t token)
{
    int32_t c;
    for (c = t->p[p].child; c >= 0; c = t->p[c].sibling)
        if (t->p[c].token == token)
            return c;
    c = new_prefix(t);
    if (c < 0)
        return -1;
    t->p[c].parent = p;
    t->p[c].token = token;
    t->p[c].length = t->p[p].length + 1;
    t->p[c].sibling = t->p[p].child;
    t->p[p].child = c;
    return c;
}

int32_t steno_ttree_link(struct steno_ttree *t, int32_t before, size_t frame, float logp)
{
    if (t->n_links == t->cap_links) {
        int32_t cap = t->cap_links ? 2 * t->cap_links : 1024;
        struct steno_tlink *p =
            cap > MAX_PREFIXES ? NULL : realloc(t->links, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        t->links = p;
        t->cap_links = cap;
    }
    t->links[t->n_links] =
        (struct steno_tlink){.before = before, .frame = (int32_t)frame, .logp = logp};
    return t->n_links++;
}

int32_t steno_ttree_head(const struct steno_ttree *t, int32_t p, uint32_t length)
{
    while (p >= 0 && t->p[p].length > length)
        p = t->p[p].parent;
    return p;
}

/* ---- networks ------------------------------------------------------------------------------ */

static steno_status oom(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "transducer search: out of memory");
}

/* Which of the sequences lack a row, each once, into todo. */
static size_t find_missing(struct steno_ttree *t, const int32_t *p, size_t n, bool lm)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const struct steno_tprefix *x = &t->p[p[i]];
        size_t k = 0;
        if (lm ? x->lm_row != NULL : x->row != NULL)
            continue;
        while (k < m && t->todo[k] != p[i])
            k++;
        if (k == m)
            t->todo[m++] = p[i];
    }
    return m;
}

/* Rows and states of the m sequences in todo. Their parents have theirs: a sequence is only made by
 * extending one that has been looked at. */
static steno_status compute(struct steno_ttree *t, size_t m, bool lm, steno_err *err)
{
    const struct steno_transducer_nets *x = t->nets;
    size_t width = lm ? (size_t)t->vocab : x->width, state = lm ? x->lm_state : x->state;
    steno_status st;
    if (!m)
        return STENO_OK;
    for (size_t i = 0; i < m; i++) {
        const struct steno_tprefix *p = &t->p[t->todo[i]];
        const struct steno_tprefix *up = p->parent < 0 ? NULL : &t->p[p->parent];
        t->in[i] = !up ? NULL : lm ? up->lm_state : up->state;
        t->tokens[i] = !up && lm ? t->first : p->token;
        t->row[i] = steno_arena_alloc_tensor(t->mem, width * sizeof(float));
        t->next[i] = steno_arena_alloc_tensor(t->mem, state * sizeof(float));
        if (!t->row[i] || !t->next[i])
            return oom(err);
    }
    st = (lm ? x->lm : x->predict)(x->self, t->in, t->tokens, m, t->next, t->row, err);
    for (size_t i = 0; i < m && !st; i++) {
        struct steno_tprefix *p = &t->p[t->todo[i]];
        *(lm ? &p->lm_row : &p->row) = t->row[i];
        *(lm ? &p->lm_state : &p->state) = t->next[i];
    }
    return st;
}

steno_status steno_ttree_predict(struct steno_ttree *t, const int32_t *p, size_t n, steno_err *err)
{
    if (reserve_batch(t, n))
        return oom(err);
    return compute(t, find_missing(t, p, n, false), false, err);
}

steno_status steno_ttree_ask_lm(struct steno_ttree *t, const int32_t *p, size_t n, steno_err *err)
{
    if (!t->nets->lm)
        return STENO_OK;
    if (reserve_batch(t, n))
        return oom(err);
    return compute(t, find_missing(t, p, n, true), true, err);
}

/* In place; false when it is not a distribution. */
static bool log_softmax(float *x, size_t n)
{
    double sum = 0;
    float max = x[0], off;
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)(x[i] - max));
    off = max + (float)log(sum);
    for (size_t i = 0; i < n; i++)
        x[i] -= off;
    return isfinite(off);
}

steno_status steno_ttree_join(struct steno_ttree *t, const float *const *enc, const int32_t *p,
                              size_t n, steno_err *err)
{
    size_t v = (size_t)t->vocab;
    steno_status st = steno_ttree_predict(t, p, n, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        t->in[i] = t->p[p[i]].row;
    st = t->nets->join(t->nets->self, enc, t->in, n, t->logp, err);
    for (size_t i = 0; i < n && !st; i++)
        if (!log_softmax(t->logp + i * v, v))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "transducer search: the scores of token %u are no distribution",
                            (unsigned)t->p[p[i]].length);
    return st;
}
