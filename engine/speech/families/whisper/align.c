#include "speech/families/whisper/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEDIAN 7 /* columns of the filter */
#define SPAN 512 /* columns that are filtered at once: eight rows of them stay in L1 */

#define TOKENS 456 /* of a pass, at most */
#define STRIP 32   /* tokens whose scores are in memory at once */

/* One pass over the heads. */
struct steno_whisper_aligner {
    const struct steno_whisper *m;
    int32_t token[TOKENS];
    size_t pick[TOKENS], n; /* pieces of text */
    size_t rows, columns;   /* of the scores: all tokens of the pass */
    size_t first, kept;     /* rows that are aligned */
    float *scores;          /* [rows, columns] of one head */
    float *row;             /* [columns + MEDIAN - 1] */
    float *mean, *scale;    /* [columns] */
    float *sum;             /* [kept, columns] over the heads */
};

/* ---- one head ------------------------------------------------------------------------------ */

/* Each column to mean 0 and deviation 1 over the tokens. */
static void standardize(const steno_whisper_aligner *a)
{
    const steno_kernels *k = &a->m->kernels;
    const size_t n = a->columns;
    memset(a->mean, 0, n * sizeof *a->mean);
    memset(a->scale, 0, n * sizeof *a->scale);
    for (size_t r = 0; r < a->rows; r++)
        k->add_f32(a->mean, a->mean, 1, a->scores + r * n, 1, n);
    for (size_t c = 0; c < n; c++)
        a->mean[c] /= (float)a->rows;
    for (size_t r = 0; r < a->rows; r++) {
        float *x = a->scores + r * n;
        k->sub_f32(x, x, 1, a->mean, 1, n);
        k->mul_f32(a->row, x, 1, x, 1, n);
        k->add_f32(a->scale, a->scale, 1, a->row, 1, n);
    }
    for (size_t c = 0; c < n; c++)
        a->scale[c] = a->scale[c] > 0 ? 1 / sqrtf(a->scale[c] / (float)a->rows) : 0;
    for (size_t r = a->first; r < a->first + a->kept; r++)
        k->mul_f32(a->scores + r * n, a->scores + r * n, 1, a->scale, 1, n);
}

/* to [n] += medians of x[c, c + 7), n <= SPAN, by a sorting network that leaves out what the middle
 * does not need (Devillard, "Fast median search", 1998). */
static void add_medians(const steno_kernels *k, float *to, const float *x, size_t n)
{
    static const unsigned char order[][2] = {{0, 5}, {0, 3}, {1, 6}, {2, 4}, {0, 1}, {3, 5}, {2, 6},
                                             {2, 3}, {3, 6}, {4, 5}, {1, 4}, {1, 3}, {3, 4}};
    float room[MEDIAN + 1][SPAN], *v[MEDIAN], *spare = room[MEDIAN];
    for (size_t i = 0; i < MEDIAN; i++)
        v[i] = memcpy(room[i], x + i, n * sizeof *x);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        float **low = &v[order[i][0]], **high = &v[order[i][1]], *least = spare;
        k->min_f32(least, *low, 1, *high, 1, n);
        k->max_f32(*high, *low, 1, *high, 1, n);
        spare = *low;
        *low = least;
    }
    k->add_f32(to, to, 1, v[MEDIAN / 2], 1, n);
}

/* to += x, each number replaced by the median of the 7 around it, mirrored at the ends. */
static void add_filtered(const steno_whisper_aligner *a, float *to, const float *x)
{
    const size_t n = a->columns, half = MEDIAN / 2;
    if (n <= half) {
        a->m->kernels.add_f32(to, to, 1, x, 1, n);
        return;
    }
    memcpy(a->row + half, x, n * sizeof *x);
    for (size_t i = 1; i <= half; i++) {
        a->row[half - i] = x[i];
        a->row[half + n - 1 + i] = x[n - 1 - i];
    }
    for (size_t c = 0; c < n; c += SPAN)
        add_medians(&a->m->kernels, to + c, a->row + c, n - c < SPAN ? n - c : SPAN);
}

static void add_head(const steno_whisper_aligner *a)
{
    a->m->kernels.softmax_f32(a->scores, a->scores, a->rows, a->columns);
    standardize(a);
    for (size_t r = 0; r < a->kept; r++)
        add_filtered(a, a->sum + r * a->columns, a->scores + (a->first + r) * a->columns);
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

static steno_status warp_all(const steno_whisper_aligner *a, int32_t *jump, steno_err *err)
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
static steno_status read_probabilities(const steno_whisper_aligner *a, steno_whisper_runner *r,
                                       const struct steno_whisper_ask *ask, float *out,
                                       steno_err *err)
{
    const int32_t *ids = a->token + a->first + 1;
    const size_t text = (size_t)a->m->special.eot, vocab = (size_t)a->m->dims.vocab;
    for (size_t from = 0, n; from < a->n; from += n) {
        const float *x = NULL;
        steno_status st;
        n = a->n - from < STRIP ? a->n - from : STRIP;
        st = steno_whisper_scores(r, ask, from, n, &x, err);
        if (st)
            return st;
        for (size_t i = from; i < from + n; i++, x += vocab)
            out[i] = expf(x[ids[i]] - a->m->kernels.log_sum_f32(x, text));
    }
    return STENO_OK;
}

steno_status steno_whisper_aligner_open(steno_whisper_aligner **out, const struct steno_whisper *m,
                                        steno_err *err)
{
    steno_whisper_aligner *a = calloc(1, sizeof *a);
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    a->m = m;
    *out = a;
    return STENO_OK;
}

void steno_whisper_aligner_close(steno_whisper_aligner *a)
{
    free(a);
}

steno_status steno_whisper_aligner_ask(steno_whisper_aligner *a, steno_whisper_state *state,
                                       const int32_t *start, size_t n_start, const int32_t *ids,
                                       size_t n, size_t columns, struct steno_whisper_ask *ask,
                                       steno_err *err)
{
    a->n = n;
    a->rows = n_start + n + 2;
    a->columns = columns ? columns : 1;
    a->first = n_start;
    a->kept = n + 1;
    if (a->rows > TOKENS || a->rows > (size_t)a->m->dims.text_ctx)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%zu pieces to align, the decoder has %lld positions", a->rows,
                          (long long)a->m->dims.text_ctx);
    memcpy(a->token, start, n_start * sizeof *start);
    a->token[n_start] = a->m->special.no_times;
    memcpy(a->token + n_start + 1, ids, n * sizeof *ids);
    a->token[n_start + 1 + n] = a->m->special.eot;
    for (size_t i = 0; i < n; i++)
        a->pick[i] = n_start + i;
    *ask = (struct steno_whisper_ask){.state = state,
                                      .token = a->token,
                                      .n = a->rows,
                                      .pick = a->pick,
                                      .n_pick = n,
                                      .later = true};
    return STENO_OK;
}

static steno_status add_heads(steno_whisper_aligner *a, const steno_whisper_runner *r,
                              const struct steno_whisper_ask *ask, int32_t *jump, steno_err *err)
{
    a->mean = a->row + a->columns + MEDIAN - 1;
    a->scale = a->mean + a->columns;
    for (size_t i = 0; i < a->m->n_heads; i++) {
        steno_whisper_cross_scores(r, ask, i, a->columns, a->scores);
        add_head(a);
    }
    return warp_all(a, jump, err);
}

steno_status steno_whisper_aligner_jumps(steno_whisper_aligner *a, steno_whisper_runner *r,
                                         const struct steno_whisper_ask *ask, int32_t *jump,
                                         steno_err *err)
{
    steno_status st;
    a->scores = malloc(a->rows * a->columns * sizeof *a->scores);
    a->row = malloc((3 * a->columns + MEDIAN - 1) * sizeof *a->row);
    a->sum = calloc(a->kept * a->columns, sizeof *a->sum);
    st = a->scores && a->row && a->sum ? add_heads(a, r, ask, jump, err)
                                       : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(a->scores);
    free(a->row);
    free(a->sum);
    a->scores = a->row = a->sum = NULL;
    return st;
}

steno_status steno_whisper_aligner_take(steno_whisper_aligner *a, steno_whisper_runner *r,
                                        const struct steno_whisper_ask *ask,
                                        struct steno_whisper_alignment *out, steno_err *err)
{
    steno_status st;
    *out = (struct steno_whisper_alignment){.n = a->n};
    out->jump = calloc(a->n + 1, sizeof *out->jump);
    out->probability = calloc(a->n + 1, sizeof *out->probability);
    st = out->jump && out->probability ? STENO_OK
                                       : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = read_probabilities(a, r, ask, out->probability, err);
    if (!st)
        st = steno_whisper_aligner_jumps(a, r, ask, out->jump, err);
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
