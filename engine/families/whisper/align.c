#include "families/whisper/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEDIAN 7 /* columns of the filter */

/* What one pass over the heads works on. */
struct aligner {
    const struct steno_whisper *m;
    size_t rows, columns; /* of the scores: all tokens of the pass */
    size_t first, kept;   /* rows that are aligned */
    float *scores;        /* [rows, columns] of one head */
    float *filtered;      /* [columns] */
    float *sum;           /* [kept, columns] over the heads */
};

/* ---- one head ------------------------------------------------------------------------------ */

/* Each column to mean 0 and deviation 1 over the tokens. */
static void standardize(const struct aligner *a)
{
    for (size_t c = 0; c < a->columns; c++) {
        float *x = a->scores + c;
        float mean = 0, square = 0, scale;
        for (size_t r = 0; r < a->rows; r++)
            mean += x[r * a->columns];
        mean /= (float)a->rows;
        for (size_t r = 0; r < a->rows; r++) {
            const float d = x[r * a->columns] - mean;
            square += d * d;
        }
        scale = square > 0 ? 1 / sqrtf(square / (float)a->rows) : 0;
        for (size_t r = a->first; r < a->first + a->kept; r++)
            x[r * a->columns] = (x[r * a->columns] - mean) * scale;
    }
}

static float median7(const float *x, const size_t *at)
{
    float v[MEDIAN];
    for (size_t i = 0; i < MEDIAN; i++) {
        size_t j = i;
        for (; j > 0 && v[j - 1] > x[at[i]]; j--)
            v[j] = v[j - 1];
        v[j] = x[at[i]];
    }
    return v[MEDIAN / 2];
}

/* Median of 7 along time, mirrored at the ends. */
static void filter(const struct aligner *a, const float *x, float *y)
{
    const int64_t n = (int64_t)a->columns, half = MEDIAN / 2;
    for (int64_t c = 0; c < n; c++) {
        size_t at[MEDIAN];
        for (int64_t i = -half; i <= half; i++) {
            int64_t p = c + i;
            p = p < 0 ? -p : p >= n ? 2 * (n - 1) - p : p;
            at[i + half] = (size_t)p;
        }
        y[c] = n <= half ? x[c] : median7(x, at);
    }
}

static void add_head(const struct aligner *a)
{
    a->m->kernels.softmax_f32(a->scores, a->scores, a->rows, a->columns);
    standardize(a);
    for (size_t r = 0; r < a->kept; r++) {
        float *to = a->sum + r * a->columns;
        filter(a, a->scores + (a->first + r) * a->columns, a->filtered);
        for (size_t c = 0; c < a->columns; c++)
            to[c] += a->filtered[c];
    }
}

/* ---- dynamic time warping ------------------------------------------------------------------ */

enum { DIAGONAL, UP, LEFT };

/* Cheapest way from the first row and column to the last, rows and columns of x [n, m] one at a
 * time or both; the result is each row's first column. trace: [n + 1, m + 1], cost: [2, m + 1]. */
static void warp(const float *x, size_t n, size_t m, float scale, unsigned char *trace, float *cost,
                 int32_t *jump)
{
    float *before = cost, *now = cost + m + 1, *swap;
    for (size_t j = 0; j <= m; j++) {
        before[j] = j ? INFINITY : 0;
        trace[j] = LEFT;
    }
    for (size_t i = 1; i <= n; i++) {
        unsigned char *t = trace + i * (m + 1);
        now[0] = INFINITY;
        t[0] = UP;
        for (size_t j = 1; j <= m; j++) {
            const float c0 = before[j - 1], c1 = before[j], c2 = now[j - 1];
            t[j] = c0 < c1 && c0 < c2 ? DIAGONAL : c1 < c0 && c1 < c2 ? UP : LEFT;
            now[j] = (t[j] == DIAGONAL ? c0
                      : t[j] == UP     ? c1
                                       : c2) -
                     x[(i - 1) * m + j - 1] * scale;
        }
        swap = before;
        before = now;
        now = swap;
    }
    for (size_t i = n, j = m; i > 0;) {
        const unsigned char t = trace[i * (m + 1) + j];
        jump[i - 1] = j ? (int32_t)j - 1 : 0;
        i -= t != LEFT;
        j -= t != UP;
    }
}

static steno_status warp_all(const struct aligner *a, int32_t *jump, steno_err *err)
{
    const size_t columns = a->columns + 1;
    unsigned char *trace = malloc((a->kept + 1) * columns);
    float *cost = malloc(2 * columns * sizeof *cost);
    steno_status st = STENO_OK;
    if (trace && cost)
        warp(a->sum, a->kept, a->columns, 1 / (float)a->m->n_heads, trace, cost, jump);
    else
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(trace);
    free(cost);
    return st;
}

/* ---- the pass ------------------------------------------------------------------------------ */

/* Probability of each piece among those that are text. */
static void read_probabilities(const struct steno_whisper *m, const float *logits,
                               const int32_t *ids, size_t n, float *scratch, float *out)
{
    const size_t text = (size_t)m->special.eot;
    for (size_t i = 0; i < n; i++) {
        const float *x = logits + i * (size_t)m->dims.vocab;
        out[i] = expf(x[ids[i]] - steno_whisper_log_sum(m, x, text, scratch));
    }
}

static steno_status run_pass(steno_whisper_runner *r, steno_whisper_state *state,
                             const int32_t *start, size_t n_start, const int32_t *ids, size_t n,
                             struct steno_whisper_alignment *out, steno_err *err)
{
    const struct steno_whisper *m = steno_whisper_runner_model(r);
    int32_t *token = malloc((n_start + n + 2) * sizeof *token);
    size_t *pick = malloc((n + 1) * sizeof *pick);
    float *scratch = malloc((size_t)m->dims.vocab * sizeof *scratch);
    struct steno_whisper_ask ask = {
        .state = state, .token = token, .n = n_start + n + 2, .pick = pick, .n_pick = n};
    steno_status st =
        token && pick && scratch ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        memcpy(token, start, n_start * sizeof *token);
        token[n_start] = m->special.no_times;
        memcpy(token + n_start + 1, ids, n * sizeof *token);
        token[n_start + 1 + n] = m->special.eot;
        for (size_t i = 0; i < n; i++)
            pick[i] = n_start + i;
        st = steno_whisper_step(r, &ask, 1, err);
    }
    if (!st)
        read_probabilities(m, ask.logits, ids, n, scratch, out->probability);
    free(token);
    free(pick);
    free(scratch);
    return st;
}

static steno_status add_heads(steno_whisper_runner *r, steno_whisper_state *state,
                              struct aligner *a, int32_t *jump, steno_err *err)
{
    a->scores = malloc(a->rows * a->columns * sizeof *a->scores);
    a->filtered = malloc(a->columns * sizeof *a->filtered);
    a->sum = calloc(a->kept * a->columns, sizeof *a->sum);
    if (!a->scores || !a->filtered || !a->sum)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < a->m->n_heads; i++) {
        steno_whisper_cross_scores(r, state, a->m->heads[i], a->rows, a->columns, a->scores);
        add_head(a);
    }
    return warp_all(a, jump, err);
}

steno_status steno_whisper_align(steno_whisper_runner *r, steno_whisper_state *state,
                                 const int32_t *start, size_t n_start, const int32_t *ids, size_t n,
                                 size_t columns, struct steno_whisper_alignment *out,
                                 steno_err *err)
{
    struct aligner a = {.m = steno_whisper_runner_model(r),
                        .rows = n_start + n + 2,
                        .columns = columns ? columns : 1,
                        .first = n_start,
                        .kept = n + 1};
    steno_status st;
    *out = (struct steno_whisper_alignment){.n = n};
    out->jump = calloc(n + 1, sizeof *out->jump);
    out->probability = calloc(n + 1, sizeof *out->probability);
    st = out->jump && out->probability ? STENO_OK
                                       : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = run_pass(r, state, start, n_start, ids, n, out, err);
    if (!st)
        st = add_heads(r, state, &a, out->jump, err);
    free(a.scores);
    free(a.filtered);
    free(a.sum);
    if (st)
        steno_whisper_alignment_free(out);
    return st;
}

void steno_whisper_alignment_free(struct steno_whisper_alignment *a)
{
    free(a->jump);
    free(a->probability);
    *a = (struct steno_whisper_alignment){0};
}
