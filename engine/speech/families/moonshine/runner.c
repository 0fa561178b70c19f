/* Runs of the networks. The decoder's first step leaves keys and values of four kinds for each
 * layer: of the text so far (key, value), and of the encoder's frames. The latter stay where the
 * first step's session has them. The former are inputs of the next step, whose session alternates
 * between two buffers. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/scores.h"
#include "speech/families/moonshine/model.h"

#define SHORTEST 1600 /* samples: the convolutions of the front end reach over 895 */

struct steno_moonshine_runner {
    const struct steno_moonshine *m;
    steno_session *preprocess, *encoder, *first, *next;
    const struct steno_tensor *encoded; /* [1, frames, width], of the encoder's session */
    size_t samples;
    struct steno_ones ones;
};

steno_status steno_moonshine_runner_open(steno_moonshine_runner **out,
                                         const struct steno_moonshine *m, steno_err *err)
{
    steno_moonshine_runner *r = calloc(1, sizeof *r);
    steno_status st = STENO_OK;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    r->m = m;
    if (!m->merged)
        st = steno_shell_session_open(&r->preprocess, &m->base, m->preprocess.net, err);
    if (!st)
        st = steno_shell_session_open(&r->encoder, &m->base, m->encoder.net, err);
    if (!st)
        st = steno_shell_session_open(&r->first, &m->base, m->first.net, err);
    if (!st)
        st = steno_shell_session_open(&r->next, &m->base, m->merged ? m->first.net : m->next.net,
                                      err);
    if (st)
        steno_moonshine_runner_close(r);
    else
        *out = r;
    return st;
}

void steno_moonshine_runner_close(steno_moonshine_runner *r)
{
    if (!r)
        return;
    steno_session_close(r->preprocess);
    steno_session_close(r->encoder);
    steno_session_close(r->first);
    steno_session_close(r->next);
    free(r->ones.data);
    free(r);
}

static steno_status run_runner(steno_session *s, const struct steno_part_file *p, steno_err *err)
{
    const steno_status st = steno_session_run(s, err);
    return st ? steno_fail_in(err, st, "%s", p->name) : STENO_OK;
}

/* Output 0, which must be f32 [1, n, width]. */
static steno_status get_rows(const steno_session *s, const struct steno_part_file *p,
                             const struct steno_tensor **out, steno_err *err)
{
    const struct steno_tensor *t = steno_session_get(s, 0);
    char shape[64];
    if (t && t->dtype == STENO_F32 && t->shape.rank == 3 && t->shape.dim[0] == 1) {
        *out = t;
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_FORMAT, "%s: the output is %s%s, expected f32 [1,n,width]",
                      p->name, t ? steno_dtype_name(t->dtype) : "missing",
                      t ? steno_shape_str(&t->shape, shape, sizeof shape) : "");
}

/* ---- encoder --------------------------------------------------------------------------------- */

static steno_status encode_v1(steno_moonshine_runner *r, const float *pcm, size_t n, steno_err *err)
{
    const int64_t samples[] = {1, (int64_t)n}, one = 1;
    const struct steno_tensor *features = NULL;
    int32_t rows;
    steno_status st = steno_part_set(r->preprocess, 0, STENO_F32, samples, 2, pcm, err);
    if (!st)
        st = run_runner(r->preprocess, &r->m->preprocess, err);
    if (!st)
        st = get_rows(r->preprocess, &r->m->preprocess, &features, err);
    if (st)
        return st;
    rows = (int32_t)features->shape.dim[1];
    st = steno_session_set(r->encoder, 0, features, err);
    if (!st)
        st = steno_part_set(r->encoder, 1, STENO_I32, &one, 1, &rows, err);
    return st ? st : run_runner(r->encoder, &r->m->encoder, err);
}

static steno_status encode_v2(steno_moonshine_runner *r, const float *pcm, size_t n, steno_err *err)
{
    const int64_t samples[] = {1, (int64_t)n};
    const int mask = steno_network_find_input(r->m->encoder.net, "attention_mask");
    const int x = steno_network_find_input(r->m->encoder.net, "input_values");
    steno_status st = steno_part_set(r->encoder, x, STENO_F32, samples, 2, pcm, err);
    if (!st && mask >= 0)
        st = steno_part_set_ones(r->encoder, mask, STENO_I64, n, &r->ones, err);
    return st ? st : run_runner(r->encoder, &r->m->encoder, err);
}

steno_status steno_moonshine_encode(steno_moonshine_runner *r, const float *pcm, size_t n,
                                    size_t *frames, steno_err *err)
{
    steno_status st;
    *frames = 0;
    if (n < SHORTEST)
        return STENO_OK;
    st = r->m->merged ? encode_v2(r, pcm, n, err) : encode_v1(r, pcm, n, err);
    if (!st)
        st = get_rows(r->encoder, &r->m->encoder, &r->encoded, err);
    if (st)
        return st;
    r->samples = n;
    *frames = (size_t)r->encoded->shape.dim[1];
    return STENO_OK;
}

/* ---- decoder --------------------------------------------------------------------------------- */

/* Whether state k is of the encoder's frames. */
static bool is_cross(int k)
{
    return k % 4 >= 2;
}

/* The states of the step before step i as inputs of it: state k is output 1 + k. */
static steno_status set_states_runner(steno_moonshine_runner *r, size_t i, int first_input,
                                      steno_err *err)
{
    steno_status st = STENO_OK;
    for (int k = 0; k < r->m->n_states && !st; k++) {
        if (i > 1 && is_cross(k))
            continue; /* set by step 1 */
        st = steno_session_set(r->next, first_input + k,
                               steno_session_get(i == 1 ? r->first : r->next, 1 + k), err);
    }
    return st;
}

/* Token, encoder's frames and length as of v1. */
static steno_status set_v1(steno_moonshine_runner *r, steno_session *s, size_t i,
                           const int32_t *token, const int32_t *length, steno_err *err)
{
    static const int64_t one[] = {1, 1};
    steno_status st = steno_part_set(s, 0, STENO_I32, one, 2, token, err);
    if (!st && i < 2)
        st = steno_session_set(s, 1, r->encoded, err);
    if (!st)
        st = steno_part_set(s, 2, STENO_I32, one, 1, length, err);
    return !st && i ? set_states_runner(r, i, 3, err) : st;
}

static int runner_input(const steno_moonshine_runner *r, const char *name)
{
    return steno_network_find_input(r->m->first.net, name);
}

/* No states: the first step computes them. */
static steno_status set_empty_states(steno_moonshine_runner *r, int first_input, steno_err *err)
{
    static const float nothing[16];
    const int64_t dim[] = {1, (int64_t)r->m->heads, 0, (int64_t)r->m->head_dim};
    steno_status st = STENO_OK;
    for (int k = 0; k < r->m->n_states && !st; k++)
        st = steno_part_set(r->first, first_input + k, STENO_F32, dim, 4, nothing, err);
    return st;
}

static steno_status set_v2(steno_moonshine_runner *r, steno_session *s, size_t i,
                           const int64_t *token, const bool *cached, steno_err *err)
{
    static const int64_t one[] = {1, 1};
    const int mask = runner_input(r, "encoder_attention_mask");
    const int states = runner_input(r, "past_key_values.0.decoder.key");
    steno_status st =
        steno_part_set(s, runner_input(r, "input_ids"), STENO_I64, one, 2, token, err);
    if (!st && i < 2)
        st = steno_session_set(s, runner_input(r, "encoder_hidden_states"), r->encoded, err);
    if (!st && i < 2)
        st =
            steno_part_set(s, runner_input(r, "use_cache_branch"), STENO_BOOL, one, 1, cached, err);
    /* exports with masks have them in samples (transformers, modeling_moonshine.py) */
    if (!st && i < 2 && mask >= 0)
        st = steno_part_set_ones(s, mask, STENO_I64, r->samples, &r->ones, err);
    if (st)
        return st;
    return i ? set_states_runner(r, i, states, err) : set_empty_states(r, states, err);
}

steno_status steno_moonshine_decode(steno_moonshine_runner *r, size_t i, int32_t token,
                                    const float **scores, steno_err *err)
{
    static const bool flags[] = {false, true};
    const struct steno_moonshine *m = r->m;
    const struct steno_part_file *p = i && !m->merged ? &m->next : &m->first;
    steno_session *s = i ? r->next : r->first;
    const int32_t length = (int32_t)i + 1;
    const int64_t wide = token;
    const struct steno_tensor *y = NULL;
    steno_status st = m->merged ? set_v2(r, s, i, &wide, &flags[i > 0], err)
                                : set_v1(r, s, i, &token, &length, err);
    if (st)
        return steno_fail_in(err, st, "%s", p->name);
    st = run_runner(s, p, err);
    if (!st)
        st = get_rows(s, p, &y, err);
    if (st)
        return st;
    if (y->shape.dim[1] != 1 || y->shape.dim[2] != m->vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: scores [%lld,%lld] of one token, but tokens.txt has %d pieces",
                          p->name, (long long)y->shape.dim[1], (long long)y->shape.dim[2],
                          m->vocab);
    *scores = y->data;
    return steno_scores_check(*scores, (size_t)m->vocab, p->name, err);
}
