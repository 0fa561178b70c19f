#include "speech/families/nemo/transducer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "nn/network/run.h"
#include "speech/families/common/scores.h"

/* ---- binding --------------------------------------------------------------------------------- */

static bool is_whole_number(steno_dtype t)
{
    return t == STENO_I32 || t == STENO_I64;
}

static steno_status refuse(const struct steno_nemo_transducer *t, const char *what, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s", t->decoder_name, what);
}

static steno_status bind_decoder_transducer(struct steno_nemo_transducer *t, steno_err *err)
{
    int floats[4], n = 0, first = t->joiner ? 0 : 1;
    t->targets = t->length = t->enc = -1;
    for (int i = 0; i < steno_network_n_inputs(t->decoder); i++) {
        const struct steno_value *v = steno_network_input(t->decoder, i);
        if (is_whole_number(v->dtype) && v->shape.rank == 2)
            t->targets = i;
        else if (is_whole_number(v->dtype) && v->shape.rank == 1)
            t->length = i;
        else if (v->dtype == STENO_F32 && v->shape.rank == 3 && n < 4)
            floats[n++] = i;
        else
            n = 4;
    }
    if (t->targets < 0 || n != first + 2)
        return refuse(t,
                      t->joiner ? "expected inputs targets [N,1] and two states [L,N,H]"
                                : "expected inputs encoder_outputs [N,D,1], targets [N,1] and two "
                                  "states [L,N,H]",
                      err);
    t->enc = first ? floats[0] : -1;
    t->state[0] = floats[first];
    t->state[1] = floats[first + 1];
    n = 0;
    for (int i = 0; i < steno_network_n_outputs(t->decoder) && n < 4; i++)
        if (steno_network_output(t->decoder, i)->dtype == STENO_F32)
            floats[n++] = i;
    if (n != 3)
        return refuse(t, "expected outputs: scores and two states, all f32", err);
    t->out = floats[0];
    t->next[0] = floats[1];
    t->next[1] = floats[2];
    return STENO_OK;
}

static steno_status find_sizes(struct steno_nemo_transducer *t, steno_err *err)
{
    for (int i = 0; i < 2; i++) {
        const struct steno_shape *s = &steno_network_input(t->decoder, t->state[i])->shape;
        if (s->dim[0] < 1 || s->dim[2] < 1 || s->dim[0] > 64 || s->dim[2] > 65536 ||
            (i && (s->dim[0] != t->layers || s->dim[2] != t->hidden)))
            return refuse(t, "expected two states of the same fixed extents [L,N,H]", err);
        t->one_state |= s->dim[1] == 1;
        t->layers = s->dim[0];
        t->hidden = s->dim[2];
    }
    return STENO_OK;
}

static steno_status bind_joiner(const struct steno_nemo_transducer *t, steno_err *err)
{
    if (t->joiner && (steno_network_n_inputs(t->joiner) != 2 ||
                      steno_network_input(t->joiner, 0)->dtype != STENO_F32 ||
                      steno_network_input(t->joiner, 1)->dtype != STENO_F32 ||
                      steno_network_n_outputs(t->joiner) < 1))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs encoder_outputs and decoder_outputs, and an output",
                          t->joiner_name);
    return STENO_OK;
}

/* ---- sessions -------------------------------------------------------------------------------- */

struct steno_nemo_joint {
    const struct steno_nemo_transducer *t;
    steno_session *decoder, *joiner;
    void *block;                /* all of the following */
    size_t cap;                 /* rows */
    int64_t *targets, *lengths; /* [cap], as the network's type */
    float *state[2];            /* [L, cap, H] */
    float *enc, *pred;          /* [cap, D], [cap, H] */
};

static steno_status reserve_transducer(steno_nemo_joint *j, size_t n, steno_err *err)
{
    const struct steno_nemo_transducer *t = j->t;
    const size_t half = steno_aligned(n * (size_t)(t->layers * t->hidden) * sizeof(float));
    const size_t ids = steno_aligned(n * sizeof(int64_t));
    const size_t enc = steno_aligned(n * t->dim * sizeof(float));
    const size_t pred = steno_aligned(n * t->width * sizeof(float));
    char *p;
    if (n <= j->cap)
        return STENO_OK;
    p = steno_aligned_zeroed(2 * half + 2 * ids + enc + pred);
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", t->decoder_name);
    steno_aligned_free(j->block);
    j->block = p;
    j->state[0] = (float *)(void *)p;
    j->state[1] = (float *)(void *)(p + half);
    j->targets = (int64_t *)(void *)(p + 2 * half);
    j->lengths = (int64_t *)(void *)(p + 2 * half + ids);
    j->enc = (float *)(void *)(p + 2 * half + 2 * ids);
    j->pred = (float *)(void *)(p + 2 * half + 2 * ids + enc);
    j->cap = n;
    return STENO_OK;
}

static void put_transducer(void *to, steno_dtype type, size_t i, int32_t value)
{
    if (type == STENO_I64)
        ((int64_t *)to)[i] = value;
    else
        ((int32_t *)to)[i] = value;
}

static void gather_states(steno_nemo_joint *j, const float *const *state, size_t n)
{
    const size_t layers = (size_t)j->t->layers, hidden = (size_t)j->t->hidden;
    for (size_t k = 0; k < 2; k++)
        for (size_t l = 0; l < layers; l++)
            for (size_t i = 0; i < n; i++) {
                float *to = j->state[k] + (l * n + i) * hidden;
                if (state[i])
                    memcpy(to, state[i] + (k * layers + l) * hidden, hidden * sizeof *to);
                else
                    memset(to, 0, hidden * sizeof *to);
            }
}

static steno_status scatter_states(const steno_nemo_joint *j, float *const *next, size_t n,
                                   steno_err *err)
{
    const size_t layers = (size_t)j->t->layers, hidden = (size_t)j->t->hidden;
    for (size_t k = 0; k < 2; k++) {
        const struct steno_tensor *y = steno_session_get(j->decoder, j->t->next[k]);
        if (y->dtype != STENO_F32 || steno_numel(y) != layers * n * hidden)
            return refuse(j->t, "a state has another size after a step", err);
        for (size_t l = 0; l < layers; l++)
            for (size_t i = 0; i < n; i++)
                memcpy(next[i] + (k * layers + l) * hidden,
                       (const float *)y->data + (l * n + i) * hidden, hidden * sizeof(float));
    }
    return STENO_OK;
}

/* Run the decoder on n tokens after their states; enc: for a network with both parts, else NULL. */
static steno_status run_decoder(steno_nemo_joint *j, const float *const *enc,
                                const float *const *state, const int32_t *token, size_t n,
                                steno_err *err)
{
    const struct steno_nemo_transducer *t = j->t;
    const int64_t rows = (int64_t)n;
    const int64_t ids[] = {rows, 1}, states[] = {t->layers, rows, t->hidden},
                  frames[] = {rows, (int64_t)t->dim, 1};
    const steno_dtype type = steno_network_input(t->decoder, t->targets)->dtype;
    const steno_dtype of_length =
        t->length < 0 ? STENO_I64 : steno_network_input(t->decoder, t->length)->dtype;
    struct steno_run r = steno_run_begin(j->decoder, t->decoder_name, err);
    steno_status st = reserve_transducer(j, n, err);
    if (st)
        return st;
    gather_states(j, state, n);
    for (size_t i = 0; i < n; i++) {
        put_transducer(j->targets, type, i, token[i]);
        put_transducer(j->lengths, of_length, i, 1);
        if (enc)
            memcpy(j->enc + i * t->dim, enc[i], t->dim * sizeof *j->enc);
    }
    steno_run_set(&r, t->targets, type, ids, 2, j->targets);
    steno_run_set(&r, t->length, of_length, ids, 1, j->lengths);
    for (int k = 0; k < 2; k++)
        steno_run_set(&r, t->state[k], STENO_F32, states, 3, j->state[k]);
    steno_run_set(&r, t->enc, STENO_F32, frames, 3, j->enc);
    return steno_run_end(&r);
}

static steno_status check_rows(const struct steno_tensor *y, size_t n, size_t width,
                               const char *name, steno_err *err)
{
    if (y->dtype != STENO_F32 || steno_numel(y) != n * width)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu numbers for %zu rows, expected %zu each",
                          name, steno_numel(y), n, width);
    return STENO_OK;
}

static steno_status predict_some(steno_nemo_joint *j, const float *const *state,
                                 const int32_t *token, size_t n, float *const *next,
                                 float *const *row, steno_err *err)
{
    const struct steno_nemo_transducer *t = j->t;
    const size_t floats = steno_nemo_state_size(t);
    const struct steno_tensor *y;
    steno_status st;
    for (size_t i = 0; i < n && !t->joiner; i++) { /* next may be where state is */
        row[i][0] = (float)token[i];
        row[i][1] = state[i] != NULL;
        if (state[i])
            memcpy(row[i] + 2, state[i], floats * sizeof **row);
    }
    st = run_decoder(j, NULL, state, token, n, err);
    if (!st && t->joiner) {
        y = steno_session_get(j->decoder, t->out);
        st = check_rows(y, n, t->width, t->decoder_name, err);
        for (size_t i = 0; i < n && !st; i++)
            memcpy(row[i], (const float *)y->data + i * t->width, t->width * sizeof **row);
    }
    return st ? st : scatter_states(j, next, n, err);
}

static steno_status join_both(steno_nemo_joint *j, const float *const *enc, const float *const *row,
                              size_t n, steno_err *err)
{
    const float *state[STENO_TDT_GROUP];
    int32_t token[STENO_TDT_GROUP];
    for (size_t i = 0; i < n; i++) {
        token[i] = (int32_t)row[i][0];
        state[i] = row[i][1] != 0 ? row[i] + 2 : NULL;
    }
    return run_decoder(j, enc, state, token, n, err);
}

static steno_status join_apart(steno_nemo_joint *j, const float *const *enc,
                               const float *const *row, size_t n, steno_err *err)
{
    const struct steno_nemo_transducer *t = j->t;
    const int64_t frames[] = {(int64_t)n, (int64_t)t->dim, 1},
                  rows[] = {(int64_t)n, (int64_t)t->width, 1};
    struct steno_run r = steno_run_begin(j->joiner, t->joiner_name, err);
    steno_status st = reserve_transducer(j, n, err);
    for (size_t i = 0; i < n && !st; i++) {
        memcpy(j->enc + i * t->dim, enc[i], t->dim * sizeof *j->enc);
        memcpy(j->pred + i * t->width, row[i], t->width * sizeof *j->pred);
    }
    if (st)
        return st;
    steno_run_set(&r, 0, STENO_F32, frames, 3, j->enc);
    steno_run_set(&r, 1, STENO_F32, rows, 3, j->pred);
    return steno_run_end(&r);
}

static steno_status join_some(steno_nemo_joint *j, const float *const *enc, const float *const *row,
                              size_t n, float *out, steno_err *err)
{
    const struct steno_nemo_transducer *t = j->t;
    const char *name = t->joiner ? t->joiner_name : t->decoder_name;
    steno_status st = t->joiner ? join_apart(j, enc, row, n, err) : join_both(j, enc, row, n, err);
    const struct steno_tensor *y;
    if (st)
        return st;
    y = t->joiner ? steno_session_get(j->joiner, 0) : steno_session_get(j->decoder, t->out);
    st = check_rows(y, n, t->outputs, name, err);
    if (st)
        return st;
    memcpy(out, y->data, n * t->outputs * sizeof *out);
    return steno_scores_check(out, n * t->outputs, name, err);
}

static steno_status predict(void *self, const float *const *state, const int32_t *token, size_t n,
                            float *const *next, float *const *row, steno_err *err)
{
    steno_nemo_joint *j = self;
    const size_t some = j->t->alone || j->t->one_state ? 1 : n;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i += some)
        st = predict_some(j, state + i, token + i, some, next + i, row + i, err);
    return st;
}

static steno_status join_transducer(void *self, const float *const *enc, const float *const *row,
                                    size_t n, float *out, steno_err *err)
{
    steno_nemo_joint *j = self;
    const size_t some = j->t->alone || (!j->t->joiner && j->t->one_state) ? 1 : n;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i += some)
        st = join_some(j, enc + i, row + i, some, out + i * j->t->outputs, err);
    return st;
}

steno_status steno_nemo_joint_open(steno_nemo_joint **out, const struct steno_nemo_transducer *t,
                                   int threads, steno_err *err)
{
    const struct steno_session_options so = {.threads = threads};
    steno_nemo_joint *j = calloc(1, sizeof *j);
    steno_status st;
    if (!j)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", t->decoder_name);
    j->t = t;
    st = steno_session_open(&j->decoder, t->decoder, &so, err);
    if (!st && t->joiner)
        st = steno_session_open(&j->joiner, t->joiner, &so, err);
    if (st)
        steno_nemo_joint_close(j);
    else
        *out = j;
    return st;
}

void steno_nemo_joint_close(steno_nemo_joint *j)
{
    if (!j)
        return;
    steno_session_close(j->decoder);
    steno_session_close(j->joiner);
    steno_aligned_free(j->block);
    free(j);
}

struct steno_transducer_nets steno_nemo_joint_nets(steno_nemo_joint *j)
{
    return (struct steno_transducer_nets){.self = j,
                                          .state = steno_nemo_state_size(j->t),
                                          .width = steno_nemo_row_size(j->t),
                                          .predict = predict,
                                          .join = join_transducer};
}

/* One step of each network on zeros, whose outputs say how wide rows are. */
static steno_status try_step(struct steno_nemo_transducer *t, steno_nemo_joint *j, steno_err *err)
{
    const float *none = NULL;
    const int32_t token = 0;
    const float *enc, *row;
    float *zeros = calloc(t->dim, sizeof *zeros);
    steno_status st = zeros ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    enc = zeros;
    if (!st)
        st = run_decoder(j, t->joiner ? NULL : &enc, &none, &token, 1, err);
    if (!st && t->joiner) {
        const struct steno_tensor *y = steno_session_get(j->decoder, t->out);
        t->width = steno_numel(y);
        j->cap = 0; /* rows have a width now */
        row = y->data;
        st = join_apart(j, &enc, &row, 1, err);
        if (!st)
            t->outputs = steno_numel(steno_session_get(j->joiner, 0));
    } else if (!st) {
        t->outputs = steno_numel(steno_session_get(j->decoder, t->out));
    }
    free(zeros);
    return st;
}

steno_status steno_nemo_transducer_bind(struct steno_nemo_transducer *t, size_t dim, steno_err *err)
{
    steno_nemo_joint *j = NULL;
    steno_status st = bind_decoder_transducer(t, err);
    t->dim = dim;
    t->width = 0;
    if (!st)
        st = find_sizes(t, err);
    if (!st)
        st = bind_joiner(t, err);
    if (!st)
        st = steno_nemo_joint_open(&j, t, 1, err);
    if (!st)
        st = try_step(t, j, err);
    steno_nemo_joint_close(j);
    return st;
}
