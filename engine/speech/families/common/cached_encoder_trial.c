#include "speech/families/common/cached_encoder_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/noise.h"
#include "speech/families/family.h"

static void fill_cached_encoder_trial(const struct steno_cached_encoder *e,
                                      steno_cached_encoder_batch *b, int i, uint32_t seed)
{
    steno_noise_fill(steno_cached_encoder_batch_x(b, i), steno_cached_encoder_window(e), seed);
}

/* ---- timing ---------------------------------------------------------------------------------- */

struct trial {
    steno_cached_encoder_batch *batch;
    struct steno_cached_encoder_state state[STENO_BATCH_MAX];
};

steno_status steno_cached_encoder_trial_open(void **trial, steno_cached_encoder_batch *b,
                                             steno_err *err)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    t->batch = b;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        t->state[i].fresh = true;
    for (int i = 0; i < steno_cached_encoder_batch_max(b); i++)
        fill_cached_encoder_trial(steno_cached_encoder_batch_encoder(b), b, i, (uint32_t)i);
    *trial = t;
    return STENO_OK;
}

steno_status steno_cached_encoder_trial_run(void *trial, int size, steno_err *err)
{
    struct trial *t = trial;
    struct steno_cached_encoder_state *s[STENO_BATCH_MAX];
    const float *y;
    for (int i = 0; i < size; i++)
        s[i] = &t->state[i];
    return steno_cached_encoder_batch_step(t->batch, s, size, size, &y, err);
}

void steno_cached_encoder_trial_close(void *trial)
{
    struct trial *t = trial;
    if (!t)
        return;
    for (int i = 0; i < STENO_BATCH_MAX; i++)
        steno_cached_encoder_state_free(&t->state[i]);
    free(t);
}

/* ---- the test at load ------------------------------------------------------------------------ */

/* Allowed difference of results x, relative to 1 + |x|, for networks that we do not know. Our own
 * kernels give a stream the same bits in every batch, in every precision
 * (tests/unit/test_batcher.c). OpenBLAS, at level blas, sums in another order in a batch. */
#define ERROR 1e-3f

static size_t values_of(const struct steno_cached_encoder *e,
                        const struct steno_cached_encoder_reader *r)
{
    return r->read ? r->values : (size_t)(e->shape.frames * e->shape.width);
}

/* The trial of one network. */
struct test {
    const struct steno_cached_encoder *e;
    steno_cached_encoder_batch *b;
    const struct steno_cached_encoder_reader *r;
};

/* Step n streams, from stream `first` on, whose windows are those of step k. out: [n, values]. */
static steno_status cached_encoder_trial_step(const struct test *t,
                                              struct steno_cached_encoder_state *s, int first,
                                              int n, int k, float *out, steno_err *err)
{
    struct steno_cached_encoder_state *of[2] = {s, s + 1};
    const float *y;
    steno_status st;
    for (int i = 0; i < n; i++)
        fill_cached_encoder_trial(t->e, t->b, i, (uint32_t)(2 * k + first + i));
    st = steno_cached_encoder_batch_step(t->b, of, n, n, &y, err);
    if (!st && t->r->read)
        return t->r->read(t->r->arg, y, (size_t)n, out, err);
    if (!st)
        memcpy(out, y, (size_t)n * values_of(t->e, t->r) * sizeof *y);
    return st;
}

/* Both steps of stream i alone, so that what a network cannot do shows. */
static steno_status run_alone(const struct test *t, int i, float *out, steno_err *err)
{
    struct steno_cached_encoder_state s = {.fresh = true};
    steno_status st = STENO_OK;
    for (int k = 0; k < 2 && !st; k++) /* the second step reads the states of the first */
        st = cached_encoder_trial_step(t, &s, i, 1, k, out, err);
    steno_cached_encoder_state_free(&s);
    return st;
}

static steno_status run_both(const struct test *t, float *out, steno_err *err)
{
    struct steno_cached_encoder_state s[2] = {{.fresh = true}, {.fresh = true}};
    steno_status st = STENO_OK;
    for (int k = 0; k < 2 && !st; k++)
        st = cached_encoder_trial_step(t, s, 0, 2, k, out, err);
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&s[i]);
    return st;
}

static bool agree(const float *a, const float *b, size_t n, float error)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= error * (1 + fabsf(a[i]))) &&
            memcmp(&a[i], &b[i], sizeof *a) != 0) /* equal -inf or NaN */
            return false;
    return true;
}

/* Of quantized networks: each stream can widen the range of the other, so both are compared. */
static steno_status try_exact(const struct test *t, float *out, bool *same, steno_err *err)
{
    const size_t n = values_of(t->e, t->r);
    steno_status st = run_alone(t, 0, out, err);
    if (!st)
        st = run_alone(t, 1, out + n, err);
    *same = !st && t->e->batches && !run_both(t, out + 2 * n, NULL) &&
            agree(out, out + 2 * n, 2 * n, 0);
    return st;
}

/* Of others one stream is, in its second cached_encoder_trial_step, which it takes alone with the
 * states that a first step of both left: each step reads all weights, and loading takes as long as
 * these steps. */
static steno_status try_near(const struct test *t, float *out, bool *same, steno_err *err)
{
    const size_t n = values_of(t->e, t->r);
    struct steno_cached_encoder_state s[2] = {{.fresh = true}, {.fresh = true}}, copy = {NULL};
    steno_status st = STENO_OK;
    *same = false;
    if (!t->e->batches)
        return run_alone(t, 1, out, err);
    if (cached_encoder_trial_step(t, s, 0, 2, 0, out, NULL)) { /* no batches */
        st = run_alone(t, 1, out, err);
    } else if (!(copy.data = steno_aligned_alloc(t->e->state_bytes + 1))) {
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    } else {
        memcpy(copy.data, s[1].data, t->e->state_bytes);
        st = cached_encoder_trial_step(t, &copy, 1, 1, 1, out + 2 * n, err);
        *same = !st && !cached_encoder_trial_step(t, s, 0, 2, 1, out, NULL) &&
                agree(out + 2 * n, out + n, n, ERROR);
    }
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&s[i]);
    steno_cached_encoder_state_free(&copy);
    return st;
}

steno_status steno_cached_encoder_try(struct steno_cached_encoder *e, steno_cached_encoder_batch *b,
                                      const struct steno_cached_encoder_reader *r, steno_err *err)
{
    const struct test t = {e, b, r};
    float *out = calloc(4 * values_of(e, r), sizeof *out);
    bool same = false;
    steno_status st;
    if (!out)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = r->exact ? try_exact(&t, out, &same, err) : try_near(&t, out, &same, err);
    if (!st)
        e->batches = same;
    free(out);
    return st;
}
