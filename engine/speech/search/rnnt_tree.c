#include "speech/search/rnnt_tree.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define MAX_PREFIXES (1 << 26)
#define FULL 4096 /* fewer sequences or links: a collection does not pay */

/* ---- blocks of a row and a state ------------------------------------------------------------- */

/* Take a block that is not in use; there must be one. */
static void *pop_free(struct steno_transducer_pool *l)
{
    void *block = l->free;
    memcpy(&l->free, block, sizeof l->free);
    l->n_free--;
    return block;
}

static float *take_block(struct steno_transducer_pool *l)
{
    return l->free ? pop_free(l) : steno_aligned_alloc(l->floats * sizeof(float));
}

static void give_block(struct steno_transducer_pool *l, float *block)
{
    memcpy(block, &l->free, sizeof l->free);
    l->free = block;
    l->n_free++;
}

static size_t pool_bytes(const struct steno_transducer_pool *l, size_t blocks)
{
    return blocks * l->floats * sizeof(float);
}

/* Free blocks that are not in use, until all blocks together take at most `bytes`. */
static void trim(struct steno_transducer_pool *l, size_t bytes)
{
    while (l->free && pool_bytes(l, l->n_used + l->n_free) > bytes)
        steno_aligned_free(pop_free(l));
}

/* Rounded up to a multiple of what kernels read at once, and of a pointer. */
static size_t rounded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Free the rows of sequences that were last used before frame `oldest`. */
static void free_rows(struct steno_transducer_tree *t, uint32_t oldest)
{
    for (int k = 0; k < 2; k++) {
        struct steno_transducer_pool *l = &t->pool[k];
        size_t n = 0;
        for (size_t i = 0; i < l->n_used; i++) {
            struct steno_transducer_prefix *p = &t->p[l->owner[i]];
            if (p->seen >= oldest) {
                l->owner[n++] = l->owner[i];
                continue;
            }
            give_block(l, p->row[k]);
            p->row[k] = NULL;
        }
        l->n_used = n;
    }
}

void steno_transducer_tree_init(struct steno_transducer_tree *t, int32_t vocab, size_t row_bytes)
{
    *t = (struct steno_transducer_tree){.vocab = vocab, .row_bytes = row_bytes};
}

void steno_transducer_tree_free(struct steno_transducer_tree *t)
{
    free_rows(t, UINT32_MAX);
    for (int k = 0; k < 2; k++) {
        trim(&t->pool[k], 0);
        free(t->pool[k].owner);
    }
    free(t->p);
    free(t->links);
    steno_blocks_free(&t->batch);
}

static steno_status reserve_batch(struct steno_transducer_tree *t, size_t n)
{
    size_t cap = t->cap_batch ? t->cap_batch : 16;
    if (n <= t->cap_batch)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    steno_blocks_free(&t->batch);
    t->logp = steno_blocks_add(&t->batch, cap, (size_t)t->vocab * sizeof *t->logp);
    t->in = steno_blocks_add(&t->batch, cap, sizeof *t->in);
    t->enc = steno_blocks_add(&t->batch, cap, sizeof *t->enc);
    t->next = steno_blocks_add(&t->batch, cap, sizeof *t->next);
    t->row = steno_blocks_add(&t->batch, cap, sizeof *t->row);
    t->tokens = steno_blocks_add(&t->batch, cap, sizeof *t->tokens);
    t->todo = steno_blocks_add(&t->batch, cap, sizeof *t->todo);
    t->cap_batch = t->batch.failed ? 0 : cap;
    return t->batch.failed ? STENO_ERR_NOMEM : STENO_OK;
}

/* ---- sequences ----------------------------------------------------------------------------- */

static int32_t new_prefix(struct steno_transducer_tree *t)
{
    if (t->n == MAX_PREFIXES || STENO_RESERVE(&t->p, &t->cap, (size_t)t->n + 1))
        return -1;
    t->p[t->n] = (struct steno_transducer_prefix){.parent = -1, .child = -1, .sibling = -1};
    return t->n++;
}

steno_status steno_transducer_tree_start(struct steno_transducer_tree *t,
                                         const struct steno_transducer_nets *nets, int32_t first)
{
    free_rows(t, UINT32_MAX);
    t->nets = nets;
    t->first = first;
    t->n = t->n_links = 0;
    t->full = t->full_links = FULL;
    t->frame = 1;
    if (new_prefix(t) < 0)
        return STENO_ERR_NOMEM;
    t->p[0].length = 1;
    return STENO_OK;
}

int32_t steno_transducer_tree_child(struct steno_transducer_tree *t, int32_t p, int32_t token)
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

int32_t steno_transducer_tree_link(struct steno_transducer_tree *t, int32_t before, size_t frame,
                                   float logp)
{
    if (t->n_links == MAX_PREFIXES ||
        STENO_RESERVE(&t->links, &t->cap_links, (size_t)t->n_links + 1))
        return -1;
    t->links[t->n_links] =
        (struct steno_transducer_link){.before = before, .frame = (int32_t)frame, .logp = logp};
    return t->n_links++;
}

int32_t steno_transducer_tree_head(const struct steno_transducer_tree *t, int32_t p,
                                   uint32_t length)
{
    while (p >= 0 && t->p[p].length > length)
        p = t->p[p].parent;
    return p;
}

/* ---- collection ----------------------------------------------------------------------------- */

bool steno_transducer_tree_rows_due(struct steno_transducer_tree *t)
{
    t->frame++;
    return pool_bytes(&t->pool[0], t->pool[0].n_used) + pool_bytes(&t->pool[1], t->pool[1].n_used) >
           t->row_bytes;
}

/* A row is computed from the state before it, so the parent's row is kept too. */
void steno_transducer_tree_mark_rows(struct steno_transducer_tree *t, int32_t p)
{
    int32_t up = t->p[p].parent;
    t->p[p].seen = t->frame;
    if (up >= 0)
        t->p[up].seen = t->frame;
}

/* Rows of the last frame are likely to be used again, so they are kept. If they alone take more
 * than half of the room, only the rows of continuing hypotheses are kept. */
void steno_transducer_tree_sweep(struct steno_transducer_tree *t)
{
    size_t bytes = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < t->pool[k].n_used; i++)
            bytes +=
                t->p[t->pool[k].owner[i]].seen + 1 >= t->frame ? pool_bytes(&t->pool[k], 1) : 0;
    free_rows(t, bytes > t->row_bytes / 2 ? t->frame : t->frame - 1);
    for (int k = 0; k < 2; k++)
        trim(&t->pool[k], t->row_bytes);
}

bool steno_transducer_tree_due(struct steno_transducer_tree *t)
{
    if (t->n < t->full && t->n_links < t->full_links)
        return false;
    for (int32_t i = 0; i < t->n; i++)
        t->p[i].moved = -1;
    for (int32_t i = 0; i < t->n_links; i++)
        t->links[i].moved = -1;
    return true;
}

static void mark_prefix(struct steno_transducer_tree *t, int32_t p)
{
    for (; p >= 0 && t->p[p].moved < 0; p = t->p[p].parent)
        t->p[p].moved = 0;
}

void steno_transducer_tree_mark(struct steno_transducer_tree *t, int32_t p, int32_t link)
{
    mark_prefix(t, p);
    for (; link >= 0 && t->links[link].moved < 0; link = t->links[link].before)
        t->links[link].moved = 0;
}

/* Sequences with a row are kept too. */
void steno_transducer_tree_number(struct steno_transducer_tree *t)
{
    int32_t n = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < t->pool[k].n_used; i++)
            mark_prefix(t, t->pool[k].owner[i]);
    for (int32_t i = 0; i < t->n; i++) { /* a parent comes before its children */
        struct steno_transducer_prefix *p = &t->p[i];
        if (p->moved < 0)
            continue;
        p->moved = n++;
        p->parent = p->parent < 0 ? -1 : t->p[p->parent].moved;
    }
    n = 0;
    for (int32_t i = 0; i < t->n_links; i++) {
        struct steno_transducer_link *l = &t->links[i];
        if (l->moved < 0)
            continue;
        l->moved = n++;
        l->before = l->before < 0 ? -1 : t->links[l->before].moved;
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < t->pool[k].n_used; i++)
            t->pool[k].owner[i] = t->p[t->pool[k].owner[i]].moved;
}

void steno_transducer_tree_place(const struct steno_transducer_tree *t, int32_t *p, int32_t *link)
{
    *p = t->p[*p].moved;
    *link = *link < 0 ? -1 : t->links[*link].moved;
}

/* The number at which the next collection is worthwhile. */
static int32_t full(int32_t n)
{
    return n < MAX_PREFIXES / 2 ? n + n / 2 + FULL : MAX_PREFIXES;
}

void steno_transducer_tree_compact(struct steno_transducer_tree *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_links; i++)
        if (t->links[i].moved >= 0)
            t->links[n++] = t->links[i];
    t->n_links = n;
    t->full_links = full(n);
    n = 0;
    for (int32_t i = 0; i < t->n; i++) {
        struct steno_transducer_prefix x = t->p[i];
        if (x.moved < 0)
            continue;
        x.child = x.sibling = -1;
        if (x.parent >= 0) {
            x.sibling = t->p[x.parent].child;
            t->p[x.parent].child = n;
        }
        t->p[n++] = x;
    }
    t->n = n;
    t->full = full(n);
}

/* ---- networks ------------------------------------------------------------------------------ */

static steno_status oom(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "transducer search: out of memory");
}

/* The sequences that lack a row, each once, into todo. Returns their number. */
static size_t find_missing(struct steno_transducer_tree *t, const int32_t *p, size_t n, int which)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        struct steno_transducer_prefix *x = &t->p[p[i]];
        size_t k = 0;
        x->seen = t->frame;
        if (x->row[which])
            continue;
        while (k < m && t->todo[k] != p[i])
            k++;
        if (k == m)
            t->todo[m++] = p[i];
    }
    return m;
}

/* The networks decide the size of the pool's blocks. */
static void set_size(struct steno_transducer_pool *l, size_t floats)
{
    if (l->floats == floats)
        return;
    assert(!l->n_used); /* one utterance uses one set of networks */
    trim(l, 0);
    l->floats = floats;
}

/* Compute rows and states of the m sequences in todo. Their parents have theirs: a sequence is only
 * made by extending one whose row was computed, and the rows of the parents of continuing
 * hypotheses are kept (steno_transducer_tree_mark_rows). */
static steno_status compute_rows_of_tree(struct steno_transducer_tree *t, size_t m, int which,
                                         steno_err *err)
{
    const struct steno_transducer_nets *x = t->nets;
    const bool lm = which == STENO_TRANSDUCER_TREE_LM;
    const size_t width = rounded(lm ? (size_t)t->vocab : x->width);
    steno_status st = STENO_OK;
    size_t made = 0;
    if (!m)
        return STENO_OK;
    set_size(&t->pool[which], width + rounded(lm ? x->lm_state : x->state));
    if (STENO_RESERVE(&t->pool[which].owner, &t->pool[which].cap, t->pool[which].n_used + m))
        return oom(err);
    for (; made < m; made++) {
        const struct steno_transducer_prefix *p = &t->p[t->todo[made]];
        const struct steno_transducer_prefix *up = p->parent < 0 ? NULL : &t->p[p->parent];
        assert(!up || up->row[which]);
        t->in[made] = up ? up->row[which] + width : NULL;
        t->tokens[made] = !up && lm ? t->first : p->token;
        t->row[made] = take_block(&t->pool[which]);
        if (!t->row[made])
            break;
        t->next[made] = t->row[made] + width;
    }
    st = made < m ? oom(err)
                  : (lm ? x->lm : x->predict)(x->self, t->in, t->tokens, m, t->next, t->row, err);
    for (size_t i = 0; i < made; i++) {
        if (st) {
            give_block(&t->pool[which], t->row[i]);
            continue;
        }
        t->p[t->todo[i]].row[which] = t->row[i];
        t->pool[which].owner[t->pool[which].n_used++] = t->todo[i];
    }
    return st;
}

steno_status steno_transducer_tree_predict(struct steno_transducer_tree *t, const int32_t *p,
                                           size_t n, steno_err *err)
{
    if (reserve_batch(t, n))
        return oom(err);
    return compute_rows_of_tree(t, find_missing(t, p, n, STENO_TRANSDUCER_TREE_PREDICTION),
                                STENO_TRANSDUCER_TREE_PREDICTION, err);
}

steno_status steno_transducer_tree_score_lm(struct steno_transducer_tree *t, const int32_t *p,
                                            size_t n, steno_err *err)
{
    if (!t->nets->lm)
        return STENO_OK;
    if (reserve_batch(t, n))
        return oom(err);
    return compute_rows_of_tree(t, find_missing(t, p, n, STENO_TRANSDUCER_TREE_LM),
                                STENO_TRANSDUCER_TREE_LM, err);
}

/* In place; false if it is not a distribution. */
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

steno_status steno_transducer_tree_join(struct steno_transducer_tree *t, const float *const *enc,
                                        const int32_t *p, size_t n, steno_err *err)
{
    size_t v = (size_t)t->vocab;
    steno_status st = steno_transducer_tree_predict(t, p, n, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        t->in[i] = t->p[p[i]].row[STENO_TRANSDUCER_TREE_PREDICTION];
    st = t->nets->join(t->nets->self, enc, t->in, n, t->logp, err);
    for (size_t i = 0; i < n && !st; i++)
        if (!log_softmax(t->logp + i * v, v))
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "transducer search: the scores of token %u are not a distribution",
                            (unsigned)t->p[p[i]].length);
    return st;
}
