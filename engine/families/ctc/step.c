/* Steps of ctc_streaming networks: workers, batches of streams, trials on noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/common/noise.h"
#include "families/ctc/internal.h"

struct worker {
    const struct steno_ctc_model *model;
    steno_cached_encoder_batch *batch;
    int max;
};

steno_status steno_ctc_worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct steno_ctc_model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st =
        w ? steno_cached_encoder_batch_open(&w->batch, &m->encoder, max, m->threads, err)
          : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (st) {
        free(w);
        return st;
    }
    w->model = m;
    w->max = m->encoder.batches ? max : 1;
    *worker = w;
    return STENO_OK;
}

void steno_ctc_worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_cached_encoder_batch_close(w->batch);
    free(w);
}

static size_t window_of(const struct steno_cached_encoder *e)
{
    return (size_t)(e->shape.window * e->shape.bins);
}

void steno_ctc_step(void *worker, struct steno_step_item *items, size_t n, int size,
                    struct steno_network_time *spent)
{
    struct worker *w = worker;
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state *state[STENO_BATCH_MAX];
    const float *scores = NULL;
    steno_err why = {0};
    steno_status st;
    for (size_t i = 0; i < n; i++) {
        struct steno_ctc_stream *s = items[i].state;
        memcpy(steno_cached_encoder_batch_x(w->batch, (int)i), items[i].window,
               window_of(e) * sizeof *items[i].window);
        state[i] = &s->encoder;
    }
    steno_network_time_begin(spent);
    st = steno_cached_encoder_batch_step(w->batch, state, (int)n, size, &scores, &why);
    steno_network_time_end(spent);
    for (size_t i = 0; i < n; i++) {
        struct steno_ctc_stream *s = items[i].state;
        items[i].st = st;
        if (st && items[i].err)
            *items[i].err = why;
        s->scores = st ? NULL : scores + (int64_t)i * e->shape.frames * e->shape.width;
        s->left = st ? 0 : e->shape.frames;
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    struct worker *worker;
    struct steno_cached_encoder_state state[STENO_BATCH_MAX];
};

steno_status steno_ctc_trial_open(void **trial, void *worker, steno_err *err)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    t->worker = worker;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->state[i].fresh = true;
    for (int i = 0; i < t->worker->max; i++)
        steno_noise_fill(steno_cached_encoder_batch_x(t->worker->batch, i),
                         window_of(&t->worker->model->encoder), (uint32_t)i);
    *trial = t;
    return STENO_OK;
}

steno_status steno_ctc_trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    struct steno_cached_encoder_state *s[STENO_BATCH_MAX];
    const float *scores;
    for (int i = 0; i < size; i++)
        s[i] = &t->state[i];
    return steno_cached_encoder_batch_step(t->worker->batch, s, size, size, &scores, err);
}

void steno_ctc_trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_cached_encoder_state_free(&t->state[i]);
    free(t);
}

/* ---- the trial at load ----------------------------------------------------------------------- */

#define TRIAL_STEPS 2 /* the second step reads the states of the first */
/* Allowed difference of log-probabilities x, relative to 1 + |x|, for networks that we do not know.
 * Our own kernels give a stream the same bits in every batch, in every precision
 * (tests/unit/test_batcher.c). OpenBLAS, at level blas, sums in another order in a batch. */
#define TRIAL_ERROR 1e-3f

/* Run TRIAL_STEPS of two streams, alone or as a batch. scores: [2, frames, vocab] of the last step.
 */
static steno_status run_two(struct worker *w, bool batch, float *scores, steno_err *err)
{
    const struct steno_cached_encoder *e = &w->model->encoder;
    struct steno_cached_encoder_state mem[2] = {{.fresh = true}, {.fresh = true}},
                                      *s[2] = {&mem[0], &mem[1]};
    size_t each = (size_t)(e->shape.frames * e->shape.width);
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < TRIAL_STEPS && !st; k++)
        for (int i = 0; i < 2 && !st; i += size) {
            const float *y;
            for (int at = 0; at < size; at++)
                steno_noise_fill(steno_cached_encoder_batch_x(w->batch, at), window_of(e),
                                 (uint32_t)(2 * k + i + at));
            st = steno_cached_encoder_batch_step(w->batch, s + i, size, size, &y, err);
            if (!st)
                memcpy(scores + (size_t)i * each, y, (size_t)size * each * sizeof *y);
        }
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&mem[i]);
    return st;
}

static bool agree(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= TRIAL_ERROR * (1 + fabsf(a[i]))) &&
            memcmp(&a[i], &b[i], sizeof *a) != 0) /* equal -inf or NaN */
            return false;
    return true;
}

steno_status steno_ctc_try(struct steno_ctc_model *m, steno_err *err)
{
    size_t n = 2 * (size_t)(m->encoder.shape.frames * m->encoder.shape.width);
    float *scores = calloc(2 * n, sizeof *scores);
    void *w = NULL;
    steno_status st = scores ? steno_ctc_worker_open(&w, m, 2, err)
                             : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = run_two(w, false, scores, err);
    if (!st && m->encoder.batches)
        m->encoder.batches = !run_two(w, true, scores + n, NULL) && agree(scores, scores + n, n);
    steno_ctc_worker_close(w);
    free(scores);
    return st ? steno_fail_in(err, st, "%s/%s", m->dir, m->conf.network) : STENO_OK;
}
