#include "speech/families/common/full_cache.h"

#include <string.h>

#include "base/arena.h"
#include "speech/families/common/piece_features.h"
#include "speech/families/common/scores.h"

static const char *const inputs[STENO_FULL_CACHE_INPUTS] = {
    "tokens",          "in_n_layer_self_k_cache", "in_n_layer_self_v_cache",
    "n_layer_cross_k", "n_layer_cross_v",         "offset"};

static bool is_cache(const struct steno_full_cache *d, const struct steno_value *v)
{
    if (v->dtype != STENO_F32 || v->shape.rank != 5)
        return false;
    for (int i = 0; i < 5; i++)
        if (i != 1 && v->shape.dim[i] != d->dim[i] && !(i == d->axis && !d->dim[i]))
            return false;
    return true;
}

static bool read_dims(struct steno_full_cache *d, const struct steno_value *v)
{
    if (v->shape.rank != 5)
        return false;
    for (int i = 0; i < 5; i++) {
        d->dim[i] = i == 1 ? 1 : v->shape.dim[i];
        if (i == d->axis && d->dim[i] < 0)
            d->dim[i] = 0;
        else if (d->dim[i] < 1)
            return false;
    }
    return true;
}

steno_status steno_full_cache_bind(struct steno_full_cache *d, const struct steno_part_file *p,
                                   int axis, int vocab, steno_err *err)
{
    const steno_network *net = p->net;
    const char *name = p->name;
    *d = (struct steno_full_cache){.name = name, .axis = axis, .vocab = vocab};
    for (int i = 0; i < STENO_FULL_CACHE_INPUTS; i++) {
        d->in[i] = steno_network_find_input(net, inputs[i]);
        if (d->in[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no input %s", name, inputs[i]);
    }
    if (steno_network_n_inputs(net) != STENO_FULL_CACHE_INPUTS ||
        steno_network_n_outputs(net) != 3 ||
        !read_dims(d, steno_network_input(net, d->in[STENO_FULL_CACHE_SELF_K])) ||
        !is_cache(d, steno_network_input(net, d->in[STENO_FULL_CACHE_SELF_K])) ||
        !is_cache(d, steno_network_input(net, d->in[STENO_FULL_CACHE_SELF_V])))
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: expected caches f32 of five dimensions, known but for the positions, "
            "and logits and both caches as outputs",
            name);
    d->offset_alone = !steno_network_input(net, d->in[STENO_FULL_CACHE_OFFSET])->shape.rank;
    return d->dim[axis] <= STENO_FULL_CACHE_POSITIONS
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "%s: caches of %lld positions, at most %d", name,
                            (long long)d->dim[axis], STENO_FULL_CACHE_POSITIONS);
}

enum { ENCODER, DECODER };

static const struct steno_full_cache *cache_of(const struct steno_full_cache_worker *w)
{
    return &((const struct steno_full_cache_model *)w->base.model)->cache;
}

steno_status steno_full_cache_worker_open(void *worker, const void *model, int max, steno_err *err)
{
    (void)max;
    return steno_greedy_text_open(&((struct steno_full_cache_worker *)worker)->text,
                                  ((const struct steno_full_cache_model *)model)->cache.vocab, err);
}

void steno_full_cache_worker_close(void *worker)
{
    struct steno_full_cache_worker *w = worker;
    steno_greedy_text_close(&w->text);
    steno_aligned_free(w->zeros);
}

steno_status steno_full_cache_encode(struct steno_full_cache_worker *w, struct steno_run *r,
                                     size_t *frames)
{
    const struct steno_full_cache *d = cache_of(w);
    steno_status st = steno_run_end(r);
    for (int i = 0; i < 2 && !st; i++) {
        const struct steno_tensor *t = steno_session_get(r->session, i);
        if (t->shape.rank != 4)
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: expected outputs [%lld,1,T,d]",
                              r->name, (long long)d->dim[0]);
        *frames = (size_t)t->shape.dim[2];
        st = steno_session_set(w->base.session[DECODER],
                               d->in[i ? STENO_FULL_CACHE_CROSS_V : STENO_FULL_CACHE_CROSS_K], t,
                               r->err);
    }
    return st;
}

/* Caches of zeros. */
static void clear_caches(struct steno_full_cache_worker *w, int64_t positions, struct steno_run *r)
{
    const struct steno_full_cache *d = cache_of(w);
    int64_t dim[5];
    size_t floats = 1;
    memcpy(dim, d->dim, sizeof dim);
    if (!dim[d->axis])
        dim[d->axis] = positions;
    for (int i = 0; i < 5; i++)
        floats *= (size_t)dim[i];
    if (floats > w->cap) {
        if (!steno_floats_reserve(&w->zeros, &w->cap, floats)) {
            r->st = steno_fail(r->err, STENO_ERR_NOMEM, "stream: out of memory");
            return;
        }
        memset(w->zeros, 0, w->cap * sizeof *w->zeros);
    }
    steno_run_set(r, d->in[STENO_FULL_CACHE_SELF_K], STENO_F32, dim, 5, w->zeros);
    steno_run_set(r, d->in[STENO_FULL_CACHE_SELF_V], STENO_F32, dim, 5, w->zeros);
}

/* Read n tokens behind `offset` others: the scores [vocab] of what follows the last. */
static steno_status read_full_cache(struct steno_full_cache_worker *w, const int64_t *tokens,
                                    size_t n, int64_t offset, int64_t positions,
                                    const float **scores, steno_err *err)
{
    const struct steno_full_cache *d = cache_of(w);
    const int64_t dim[] = {1, (int64_t)n}, one = 1;
    struct steno_run r = steno_shell_run(w, DECODER, err);
    const struct steno_tensor *y;
    steno_status st;
    if (!offset)
        clear_caches(w, positions, &r);
    for (int i = 0; i < 2 && offset; i++) /* those that the last run gave */
        steno_run_set_tensor(&r, d->in[STENO_FULL_CACHE_SELF_K + i],
                             steno_session_get(r.session, 1 + i));
    steno_run_set(&r, d->in[STENO_FULL_CACHE_TOKENS], STENO_I64, dim, 2, tokens);
    steno_run_set(&r, d->in[STENO_FULL_CACHE_OFFSET], STENO_I64, &one, !d->offset_alone, &offset);
    st = steno_run_end(&r);
    if (st)
        return st;
    y = steno_session_get(r.session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != n * (size_t)d->vocab)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu scores, expected those of %d tokens",
                          d->name, steno_numel(y) / n, d->vocab);
    *scores = (const float *)y->data + (n - 1) * (size_t)d->vocab;
    return steno_scores_check(*scores, (size_t)d->vocab, d->name, err);
}

steno_status steno_full_cache_write(struct steno_full_cache_worker *w, const int64_t *prompt,
                                    size_t n, size_t most, int64_t positions, int32_t end,
                                    steno_err *err)
{
    const int64_t *tokens = prompt;
    int64_t token = -1, offset = 0;
    steno_status st = steno_greedy_text_begin(&w->text, most, err);
    for (size_t i = 0; i < most && token != end && !st; i++) {
        const float *scores = NULL;
        st = read_full_cache(w, tokens, n, offset, positions, &scores, err);
        if (st)
            break;
        offset += (int64_t)n;
        token = steno_greedy_text_add(&w->text, scores, end);
        tokens = &token;
        n = 1;
    }
    return st;
}
