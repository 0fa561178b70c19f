/* Runs of the networks. The decoder's first step leaves keys and values of four kinds for each
 * layer: of the text so far (key, value), and of the encoder's frames. The latter stay where the
 * first step's session has them. The former are inputs of the next step, whose session alternates
 * between two buffers. */
#include "speech/families/common/scores.h"
#include "speech/families/moonshine/model.h"

#define SHORTEST 1600 /* samples: the convolutions of the front end reach over 895 */

static const struct steno_moonshine *model_of(const struct steno_moonshine_runner *r)
{
    return r->base.model;
}

/* End a run whose output 0 must be f32 [1, n, width]. */
static steno_status run_rows(struct steno_run *run, const struct steno_tensor **out)
{
    const struct steno_tensor *t;
    char shape[64];
    steno_status st = steno_run_end(run);
    if (st)
        return st;
    t = steno_session_get(run->session, 0);
    if (t && t->dtype == STENO_F32 && t->shape.rank == 3 && t->shape.dim[0] == 1) {
        *out = t;
        return STENO_OK;
    }
    return steno_fail(run->err, STENO_ERR_FORMAT,
                      "%s: the output is %s%s, expected f32 [1,n,width]", run->name,
                      t ? steno_dtype_name(t->dtype) : "missing",
                      t ? steno_shape_str(&t->shape, shape, sizeof shape) : "");
}

/* ---- encoder --------------------------------------------------------------------------------- */

static steno_status encode_v1(struct steno_moonshine_runner *r, const float *pcm, size_t n,
                              steno_err *err)
{
    const int64_t samples[] = {1, (int64_t)n}, one = 1;
    struct steno_run pre = steno_shell_run(r, STENO_MOONSHINE_PREPROCESS, err);
    struct steno_run run = steno_shell_run(r, STENO_MOONSHINE_ENCODER, err);
    const struct steno_tensor *features;
    int32_t rows;
    steno_status st;
    steno_run_set(&pre, 0, STENO_F32, samples, 2, pcm);
    st = run_rows(&pre, &features);
    if (st)
        return st;
    rows = (int32_t)features->shape.dim[1];
    steno_run_set_tensor(&run, 0, features);
    steno_run_set(&run, 1, STENO_I32, &one, 1, &rows);
    return run_rows(&run, &r->encoded);
}

static steno_status encode_v2(struct steno_moonshine_runner *r, const float *pcm, size_t n,
                              steno_err *err)
{
    const steno_network *net = model_of(r)->base.part[STENO_MOONSHINE_ENCODER].net;
    const int64_t samples[] = {1, (int64_t)n};
    struct steno_run run = steno_shell_run(r, STENO_MOONSHINE_ENCODER, err);
    steno_run_set(&run, steno_network_find_input(net, "input_values"), STENO_F32, samples, 2, pcm);
    steno_run_set_ones(&run, steno_network_find_input(net, "attention_mask"), STENO_I64, n,
                       &r->ones);
    return run_rows(&run, &r->encoded);
}

steno_status steno_moonshine_encode(struct steno_moonshine_runner *r, const float *pcm, size_t n,
                                    size_t *frames, steno_err *err)
{
    steno_status st;
    *frames = 0;
    if (n < SHORTEST)
        return STENO_OK;
    st = model_of(r)->merged ? encode_v2(r, pcm, n, err) : encode_v1(r, pcm, n, err);
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

/* The states of the step before step i as inputs of it: state k is output 1 + k. Before step 0
 * there are none: it computes them. */
static void set_states_runner(struct steno_moonshine_runner *r, size_t i, int first_input,
                              struct steno_run *run)
{
    const struct steno_moonshine *m = model_of(r);
    const steno_session *before = i == 1 ? r->base.session[STENO_MOONSHINE_FIRST] : run->session;
    static const float nothing[16];
    const int64_t dim[] = {1, (int64_t)m->heads, 0, (int64_t)m->head_dim};
    for (int k = 0; k < m->n_states; k++)
        if (!i)
            steno_run_set(run, first_input + k, STENO_F32, dim, 4, nothing);
        else if (i == 1 || !is_cross(k)) /* those of the frames are set by step 1 */
            steno_run_set_tensor(run, first_input + k, steno_session_get(before, 1 + k));
}

/* Token, encoder's frames and length as of v1. */
static steno_status run_v1(struct steno_moonshine_runner *r, struct steno_run *run, size_t i,
                           int32_t token, const struct steno_tensor **y)
{
    static const int64_t one[] = {1, 1};
    const int32_t length = (int32_t)i + 1;
    steno_run_set(run, 0, STENO_I32, one, 2, &token);
    if (i < 2)
        steno_run_set_tensor(run, 1, r->encoded);
    steno_run_set(run, 2, STENO_I32, one, 1, &length);
    if (i)
        set_states_runner(r, i, 3, run);
    return run_rows(run, y);
}

static steno_status run_v2(struct steno_moonshine_runner *r, struct steno_run *run, size_t i,
                           int64_t token, const struct steno_tensor **y)
{
    static const int64_t one[] = {1, 1};
    static const bool flags[] = {false, true};
    const steno_network *net = model_of(r)->base.part[STENO_MOONSHINE_FIRST].net;
    steno_run_set(run, steno_network_find_input(net, "input_ids"), STENO_I64, one, 2, &token);
    if (i < 2) {
        steno_run_set_tensor(run, steno_network_find_input(net, "encoder_hidden_states"),
                             r->encoded);
        steno_run_set(run, steno_network_find_input(net, "use_cache_branch"), STENO_BOOL, one, 1,
                      &flags[i > 0]);
        /* exports with masks have them in samples (transformers, modeling_moonshine.py) */
        steno_run_set_ones(run, steno_network_find_input(net, "encoder_attention_mask"), STENO_I64,
                           r->samples, &r->ones);
    }
    set_states_runner(r, i, steno_network_find_input(net, "past_key_values.0.decoder.key"), run);
    return run_rows(run, y);
}

steno_status steno_moonshine_decode(struct steno_moonshine_runner *r, size_t i, int32_t token,
                                    const float **scores, steno_err *err)
{
    const struct steno_moonshine *m = model_of(r);
    const int part = i && !m->merged ? STENO_MOONSHINE_NEXT : STENO_MOONSHINE_FIRST;
    struct steno_run run = steno_shell_run(r, part, err);
    const struct steno_tensor *y = NULL;
    steno_status st;
    if (i && m->merged)
        run.session = r->next;
    st = m->merged ? run_v2(r, &run, i, token, &y) : run_v1(r, &run, i, token, &y);
    if (st)
        return st;
    if (y->shape.dim[1] != 1 || y->shape.dim[2] != m->vocab)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: scores [%lld,%lld] of one token, but tokens.txt has %d pieces",
                          run.name, (long long)y->shape.dim[1], (long long)y->shape.dim[2],
                          m->vocab);
    *scores = y->data;
    return steno_scores_check(*scores, (size_t)m->vocab, run.name, err);
}
