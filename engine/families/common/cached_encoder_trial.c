#include "families/common/cached_encoder_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/common/noise.h"
#include "families/family.h"

static void fill(const struct steno_cached_encoder *e, steno_cached_encoder_batch *b, int i,
                 uint32_t seed)
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
        fill(steno_cached_encoder_batch_encoder(b), b, i, (uint32_t)i);
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

#define STEPS 2 /* the second step reads the states of the first */
/* Allowed difference of results x, relative to 1 + |x|, for networks that we do not know. Our own
 * kernels give a stream the same bits in every batch, in every precision
 * (tests/unit/test_batcher.c). OpenBLAS, at level blas, sums in another order in a batch. */
#define ERROR 1e-3f

static size_t values_of(const struct steno_cached_encoder *e,
                        const struct steno_cached_encoder_reader *r)
{
    return r->read ? r->values : (size_t)(e->shape.frames * e->shape.width);
}

/* Run STEPS of two streams as a batch, or of streams `from` to 1 alone. out: [2, values] of the
 * last step. */
static steno_status run_two(const struct steno_cached_encoder *e, steno_cached_encoder_batch *b,
                            const struct steno_cached_encoder_reader *r, bool batch, int from,
                            float *out, steno_err *err)
{
    struct steno_cached_encoder_state mem[2] = {{.fresh = true}, {.fresh = true}},
                                      *s[2] = {&mem[0], &mem[1]};
    const size_t values = values_of(e, r);
    int size = batch ? 2 : 1;
    steno_status st = STENO_OK;
    for (int k = 0; k < STEPS && !st; k++)
        for (int i = from; i < 2 && !st; i += size) {
            float *to = out + (size_t)i * values;
            const float *y;
            for (int at = 0; at < size; at++)
                fill(e, b, at, (uint32_t)(2 * k + i + at));
            st = steno_cached_encoder_batch_step(b, s + i, size, size, &y, err);
            if (!st && r->read)
                st = r->read(r->arg, y, (size_t)size, to, err);
            else if (!st)
                memcpy(to, y, (size_t)size * values * sizeof *y);
        }
    for (int i = 0; i < 2; i++)
        steno_cached_encoder_state_free(&mem[i]);
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

steno_status steno_cached_encoder_try(struct steno_cached_encoder *e, steno_cached_encoder_batch *b,
                                      const struct steno_cached_encoder_reader *r, steno_err *err)
{
    const size_t n = 2 * values_of(e, r);
    /* Each stream can widen the range of the other, so of quantized networks both are compared. Of
     * others one is: each step reads all weights, and loading takes as long as these steps. */
    const int from = r->exact ? 0 : 1;
    const size_t at = (size_t)from * values_of(e, r);
    float *out = calloc(2 * n, sizeof *out);
    steno_status st;
    if (!out)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = run_two(e, b, r, false, from, out, err);
    if (!st && e->batches)
        e->batches = !run_two(e, b, r, true, 0, out + n, NULL) &&
                     agree(out + at, out + n + at, n - at, r->exact ? 0 : ERROR);
    free(out);
    return st;
}
