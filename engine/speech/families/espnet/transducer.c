/* The joint network takes n pairs of an encoder frame and a prediction, [n, d] each. Exported for
 * the searches "greedy" and "default" it takes one pair, [d] each; then it runs once per pair. */
#include "speech/families/espnet/transducer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/piece_features.h"
#include "nn/network/run.h"
#include "speech/families/common/scores.h"

struct steno_espnet_transducer {
    struct steno_espnet_transducer_options o;
    steno_espnet_rnn *prediction;
    steno_network *net;
    steno_session *joint;
    int enc, dec, out, rank;
    float *pairs[2]; /* encoder frames and predictions, [cap] floats each */
    size_t cap[2], width[2];
    steno_transducer *search;
    struct steno_transducer_options search_for;
};

static steno_status fail_transducer(const steno_espnet_transducer *t, const char *what,
                                    steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s", t->o.joint_name, what);
}

static steno_status bind_transducer(steno_espnet_transducer *t, steno_err *err)
{
    const struct steno_value *a, *b;
    t->enc = steno_network_find_input(t->net, "enc_out");
    t->dec = steno_network_find_input(t->net, "dec_out");
    t->out = steno_network_find_output(t->net, "joint_out");
    if (t->enc < 0 || t->dec < 0 || t->out < 0)
        return fail_transducer(t, "no inputs enc_out and dec_out, or no output joint_out", err);
    a = steno_network_input(t->net, t->enc);
    b = steno_network_input(t->net, t->dec);
    t->rank = a->shape.rank;
    if (a->dtype != STENO_F32 || b->dtype != STENO_F32 || b->shape.rank != t->rank || t->rank < 1 ||
        t->rank > 2)
        return fail_transducer(t, "enc_out and dec_out are not both f32 [d] or both f32 [n,d]",
                               err);
    return STENO_OK;
}

steno_status steno_espnet_transducer_open(steno_espnet_transducer **out, steno_network *prediction,
                                          steno_network *joint,
                                          const struct steno_espnet_transducer_options *opt,
                                          steno_err *err)
{
    struct steno_session_options so = {.threads = opt->threads};
    steno_espnet_transducer *t = calloc(1, sizeof *t);
    steno_status st;
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", opt->joint_name);
    t->o = *opt;
    t->net = joint;
    st = bind_transducer(t, err);
    if (!st)
        st = steno_espnet_rnn_open(&t->prediction, prediction, &opt->prediction,
                                   opt->prediction_name, err);
    if (!st)
        st = steno_session_open(&t->joint, joint, &so, err);
    if (st)
        steno_espnet_transducer_close(t);
    else
        *out = t;
    return st;
}

void steno_espnet_transducer_close(steno_espnet_transducer *t)
{
    if (!t)
        return;
    steno_espnet_rnn_close(t->prediction);
    steno_session_close(t->joint);
    steno_aligned_free(t->pairs[0]);
    steno_aligned_free(t->pairs[1]);
    steno_transducer_close(t->search);
    free(t);
}

/* ---- networks ------------------------------------------------------------------------------ */

static steno_status transducer_step(steno_espnet_rnn *r, const float *const *state,
                                    const int32_t *token, size_t n, float *const *next,
                                    float *const *row, size_t want, const char *name,
                                    steno_err *err)
{
    const float *y;
    size_t width;
    steno_status st = steno_espnet_rnn_step(r, state, token, n, next, &y, &width, err);
    if (st)
        return st;
    if (width != want)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: rows of %zu numbers, expected %zu", name,
                          width, want);
    for (size_t i = 0; i < n; i++)
        memcpy(row[i], y + i * width, width * sizeof **row);
    return STENO_OK;
}

static steno_status predict(void *self, const float *const *state, const int32_t *token, size_t n,
                            float *const *next, float *const *row, steno_err *err)
{
    steno_espnet_transducer *t = self;
    return transducer_step(t->prediction, state, token, n, next, row, t->width[1],
                           t->o.prediction_name, err);
}

static steno_status score_lm(void *self, const float *const *state, const int32_t *token, size_t n,
                             float *const *next, float *const *row, steno_err *err)
{
    steno_espnet_transducer *t = self;
    steno_status st = transducer_step(t->o.lm, state, token, n, next, row, (size_t)t->o.vocab,
                                      "language model", err);
    for (size_t i = 0; i < n && !st; i++)
        steno_log_softmax(row[i], (size_t)t->o.vocab, row[i]);
    return st;
}

static void set_side(steno_espnet_transducer *t, int side, int input, const float *const *row,
                     size_t n, struct steno_run *run)
{
    const size_t width = t->width[side];
    const int64_t dim[] = {(int64_t)n, (int64_t)width};
    if (!run->st && !steno_floats_reserve(&t->pairs[side], &t->cap[side], n * width))
        run->st = steno_fail(run->err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !run->st; i++)
        memcpy(t->pairs[side] + i * width, row[i], width * sizeof **row);
    steno_run_set(run, input, STENO_F32, dim + 2 - t->rank, t->rank, t->pairs[side]);
}

static steno_status join_some(steno_espnet_transducer *t, const float *const *enc,
                              const float *const *row, size_t n, float *out, steno_err *err)
{
    size_t want = n * (size_t)t->o.vocab;
    const struct steno_tensor *y;
    struct steno_run run = steno_run_begin(t->joint, t->o.joint_name, err);
    set_side(t, 0, t->enc, enc, n, &run);
    set_side(t, 1, t->dec, row, n, &run);
    if (steno_run_end(&run))
        return run.st;
    y = steno_session_get(t->joint, t->out);
    if (y->dtype != STENO_F32 || steno_numel(y) != want)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: joint_out has %zu scores for %zu pairs, the token list has %d entries",
            t->o.joint_name, steno_numel(y), n, (int)t->o.vocab);
    memcpy(out, y->data, want * sizeof *out);
    return steno_scores_check(out, want, t->o.joint_name, err);
}

static steno_status join_transducer(void *self, const float *const *enc, const float *const *row,
                                    size_t n, float *out, steno_err *err)
{
    steno_espnet_transducer *t = self;
    steno_status st = STENO_OK;
    if (t->rank == 2)
        return join_some(t, enc, row, n, out, err);
    for (size_t i = 0; i < n && !st; i++)
        st = join_some(t, enc + i, row + i, 1, out + i * (size_t)t->o.vocab, err);
    return st;
}

/* ---- one utterance ------------------------------------------------------------------------- */

/* Find the width of the prediction network's output with one step. */
static steno_status find_width(steno_espnet_transducer *t, steno_err *err)
{
    const float *none = NULL, *y;
    const int32_t blank = 0;
    float *state = malloc((steno_espnet_rnn_state_size(t->prediction) + 1) * sizeof *state);
    steno_status st;
    if (!state)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", t->o.prediction_name);
    st = steno_espnet_rnn_step(t->prediction, &none, &blank, 1, &state, &y, &t->width[1], err);
    free(state);
    return st;
}

steno_status steno_espnet_transducer_nets(steno_espnet_transducer *t, size_t dim, bool lm,
                                          struct steno_transducer_nets *out, steno_err *err)
{
    t->width[0] = dim;
    if (!t->width[1]) {
        steno_status st = find_width(t, err);
        if (st)
            return st;
    }
    *out = (struct steno_transducer_nets){.self = t,
                                          .state = steno_espnet_rnn_state_size(t->prediction),
                                          .width = t->width[1],
                                          .lm_state =
                                              t->o.lm ? steno_espnet_rnn_state_size(t->o.lm) : 0,
                                          .predict = predict,
                                          .join = join_transducer,
                                          .lm = t->o.lm && lm ? score_lm : NULL};
    return STENO_OK;
}

steno_status steno_espnet_transducer_run(steno_espnet_transducer *t,
                                         const struct steno_transducer_options *search,
                                         const float *rows, size_t n, size_t dim,
                                         steno_transducer **result, steno_err *err)
{
    struct steno_transducer_nets nets;
    steno_status st = STENO_OK;
    if (!t->search || memcmp(&t->search_for, search, sizeof *search) != 0) {
        steno_transducer *made = NULL;
        st = steno_transducer_open(&made, search, err);
        if (st)
            return st;
        steno_transducer_close(t->search);
        t->search = made;
        memcpy(&t->search_for, search, sizeof *search);
    }
    st = steno_espnet_transducer_nets(t, dim, search->lm_weight != 0, &nets, err);
    if (!st)
        st = steno_transducer_run(t->search, &nets, rows, n, dim, err);
    *result = t->search;
    return st;
}

size_t steno_espnet_transducer_bytes(const steno_espnet_transducer *t)
{
    return steno_espnet_rnn_bytes(t->prediction) + steno_session_arena_bytes(t->joint) +
           (t->cap[0] + t->cap[1]) * sizeof(float);
}
