#include "speech/families/whisper/rules.h"

#include <math.h>
#include <string.h>

struct steno_whisper_rules steno_whisper_rules_default(const struct steno_whisper *m)
{
    return (struct steno_whisper_rules){.times = true,
                                        .no_blank = true,
                                        .suppress = m->suppressed,
                                        .n_suppress = m->n_suppressed,
                                        .max_initial = 50,
                                        .repetition_penalty = 1};
}

static void ban(float *x, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        x[i] = -INFINITY;
}

/* ---- repetition ---------------------------------------------------------------------------- */

static void penalize(float *x, const int32_t *seq, size_t n, float penalty)
{
    for (size_t i = 0; i < n; i++) {
        bool before = false; /* once for each piece */
        for (size_t j = 0; j < i && !before; j++)
            before = seq[j] == seq[i];
        if (!before)
            x[seq[i]] = x[seq[i]] < 0 ? x[seq[i]] * penalty : x[seq[i]] / penalty;
    }
}

/* Pieces that would complete an n-gram of `size` that is there. */
static void ban_ngrams(float *x, const int32_t *seq, size_t n, size_t size)
{
    const int32_t *tail;
    if (n < size)
        return;
    tail = seq + n + 1 - size;
    for (size_t i = 0; i + size <= n; i++)
        if (!memcmp(seq + i, tail, (size - 1) * sizeof *seq))
            x[seq[i + size - 1]] = -INFINITY;
}

/* ---- timestamps ---------------------------------------------------------------------------- */

/* Timestamps come in pairs, but for the first and the last, and do not go back. */
static void order_times(const struct steno_whisper *m, const int32_t *seq, size_t n, float *x)
{
    const int32_t first = m->special.first_time;
    const bool last = n && seq[n - 1] >= first, pair = n < 2 || seq[n - 2] >= first;
    int32_t newest = -1;
    if (last && pair)
        ban(x, first, m->dims.vocab);
    else if (last)
        ban(x, 0, m->special.eot);
    for (size_t i = 0; i < n; i++)
        newest = seq[i] >= first ? seq[i] : newest;
    if (newest >= 0)
        ban(x, first, newest + (last && !pair ? 0 : 1));
}

/* Where all timestamps together are likelier than any piece of text, a timestamp comes. */
static void prefer_times(const struct steno_whisper *m, float *x)
{
    const int64_t first = m->special.first_time;
    const float sum = m->kernels.log_sum_f32(x + first, (size_t)(m->dims.vocab - first));
    if (sum > m->kernels.max_reduce_f32(x, (size_t)first))
        ban(x, 0, first);
}

static void apply_times(const struct steno_whisper *m, const struct steno_whisper_rules *r,
                        const int32_t *seq, size_t n, float *x)
{
    const int64_t first = m->special.first_time;
    x[m->special.no_times] = -INFINITY;
    order_times(m, seq, n, x);
    if (!n) {
        ban(x, 0, first);
        if (r->max_initial >= 0 && first + r->max_initial + 1 < m->dims.vocab)
            ban(x, first + r->max_initial + 1, m->dims.vocab);
        return;
    }
    prefer_times(m, x);
}

void steno_whisper_rules_apply(const struct steno_whisper *m, const struct steno_whisper_rules *r,
                               const int32_t *seq, size_t n, float *x)
{
    if (r->repetition_penalty != 1)
        penalize(x, seq, n, r->repetition_penalty);
    if (r->no_repeat_ngram)
        ban_ngrams(x, seq, n, r->no_repeat_ngram);
    for (size_t i = 0; i < r->n_suppress; i++)
        if (r->suppress[i] >= 0 && r->suppress[i] < m->dims.vocab)
            x[r->suppress[i]] = -INFINITY;
    if (r->no_blank && !n) {
        for (size_t i = 0; i < m->n_not_first; i++)
            if (m->not_first[i] < m->dims.vocab)
                x[m->not_first[i]] = -INFINITY;
    }
    if (r->times)
        apply_times(m, r, seq, n, x);
}
