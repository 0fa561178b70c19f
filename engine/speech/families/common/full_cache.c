#include "speech/families/common/full_cache.h"

#include <string.h>

#include "base/arena.h"
#include "speech/families/common/part.h"
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

steno_status steno_full_cache_bind(struct steno_full_cache *d, const steno_network *net,
                                   const char *name, int axis, int vocab, steno_err *err)
{
    *d = (struct steno_full_cache){.net = net, .name = name, .axis = axis, .vocab = vocab};
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
    return d->dim[axis] <= STENO_FULL_CACHE_POSITIONS
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "%s: caches of %lld positions, at most %d", name,
                            (long long)d->dim[axis], STENO_FULL_CACHE_POSITIONS);
}

steno_status steno_full_cache_run_open(struct steno_full_cache_run *r,
                                       const struct steno_full_cache *d,
                                       const struct steno_shell_model *m, steno_network *encoder,
                                       steno_network *decoder, steno_err *err)
{
    steno_status st = steno_greedy_text_open(&r->text, d->vocab, err);
    r->d = d;
    if (!st)
        st = steno_shell_session_open(&r->encoder, m, encoder, err);
    return st ? st : steno_shell_session_open(&r->session, m, decoder, err);
}

void steno_full_cache_run_close(struct steno_full_cache_run *r)
{
    steno_session_close(r->session);
    steno_session_close(r->encoder);
    steno_greedy_text_close(&r->text);
    steno_aligned_free(r->zeros);
}

steno_status steno_full_cache_encode(struct steno_full_cache_run *r, size_t *frames, steno_err *err)
{
    const struct steno_full_cache *d = r->d;
    steno_status st = steno_session_run(r->encoder, err);
    for (int i = 0; i < 2 && !st; i++) {
        const struct steno_tensor *t = steno_session_get(r->encoder, i);
        if (t->shape.rank != 4)
            return steno_fail(err, STENO_ERR_FORMAT, "expected outputs [%lld,1,T,d]",
                              (long long)d->dim[0]);
        *frames = (size_t)t->shape.dim[2];
        st = steno_session_set(
            r->session, d->in[i ? STENO_FULL_CACHE_CROSS_V : STENO_FULL_CACHE_CROSS_K], t, err);
    }
    return st;
}

/* Caches of zeros. */
static steno_status clear_caches(struct steno_full_cache_run *r, int64_t positions, steno_err *err)
{
    const struct steno_full_cache *d = r->d;
    int64_t dim[5];
    size_t floats = 1;
    steno_status st;
    memcpy(dim, d->dim, sizeof dim);
    if (!dim[d->axis])
        dim[d->axis] = positions;
    for (int i = 0; i < 5; i++)
        floats *= (size_t)dim[i];
    if (floats > r->cap) {
        if (!steno_floats_reserve(&r->zeros, &r->cap, floats))
            return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
        memset(r->zeros, 0, r->cap * sizeof *r->zeros);
    }
    st = steno_part_set(r->session, d->in[STENO_FULL_CACHE_SELF_K], STENO_F32, dim, 5, r->zeros,
                        err);
    return st ? st
              : steno_part_set(r->session, d->in[STENO_FULL_CACHE_SELF_V], STENO_F32, dim, 5,
                               r->zeros, err);
}

/* The caches that the last run gave. */
static steno_status carry_caches(struct steno_full_cache_run *r, steno_err *err)
{
    const int *in = r->d->in;
    const steno_status st = steno_session_set(r->session, in[STENO_FULL_CACHE_SELF_K],
                                              steno_session_get(r->session, 1), err);
    return st ? st
              : steno_session_set(r->session, in[STENO_FULL_CACHE_SELF_V],
                                  steno_session_get(r->session, 2), err);
}

/* Read n tokens behind `offset` others: the scores [vocab] of what follows the last. */
static steno_status read_full_cache(struct steno_full_cache_run *r, const int64_t *tokens, size_t n,
                                    int64_t offset, const float **scores, steno_err *err)
{
    const struct steno_full_cache *d = r->d;
    const int64_t dim[] = {1, (int64_t)n}, one = 1;
    const int offset_in = d->in[STENO_FULL_CACHE_OFFSET];
    const int rank = steno_network_input(d->net, offset_in)->shape.rank;
    const struct steno_tensor *y;
    steno_status st =
        steno_part_set(r->session, d->in[STENO_FULL_CACHE_TOKENS], STENO_I64, dim, 2, tokens, err);
    if (!st)
        st = steno_part_set(r->session, offset_in, STENO_I64, &one, rank > 0, &offset, err);
    if (!st)
        st = steno_session_run(r->session, err);
    if (st)
        return st;
    y = steno_session_get(r->session, 0);
    if (y->dtype != STENO_F32 || steno_numel(y) != n * (size_t)d->vocab)
        return steno_fail(err, STENO_ERR_FORMAT, "%zu scores, expected those of %d tokens",
                          steno_numel(y) / n, d->vocab);
    *scores = (const float *)y->data + (n - 1) * (size_t)d->vocab;
    return steno_scores_check(*scores, (size_t)d->vocab, d->name, err);
}

steno_status steno_full_cache_write(struct steno_full_cache_run *r, const int64_t *prompt, size_t n,
                                    size_t most, int64_t positions, int32_t end, steno_err *err)
{
    const int64_t *tokens = prompt;
    int64_t token, offset = 0;
    steno_status st = steno_greedy_text_begin(&r->text, most, err);
    for (size_t i = 0; i < most && !st; i++) {
        const float *scores = NULL;
        st = i ? carry_caches(r, err) : clear_caches(r, positions, err);
        if (!st)
            st = read_full_cache(r, tokens, n, offset, &scores, err);
        if (st)
            return steno_fail_in(err, st, "%s", r->d->name);
        offset += (int64_t)n;
        token = steno_greedy_text_add(&r->text, scores, end);
        if (token == end)
            break;
        tokens = &token;
        n = 1;
    }
    return st;
}
