#include "tools/optimize/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BINS 2048

/* Runs of one network over samples. */
struct runs {
    steno_session *s;
    int used;
    steno_err why; /* the last refusal */
};

static steno_status begin_runs(struct runs *r, steno_network *n, steno_err *err)
{
    memset(r, 0, sizeof *r);
    return steno_session_open(&r->s, n, &(struct steno_session_options){.threads = 1}, err);
}

/* False: the network refuses this one. */
static bool run_sample(struct runs *r, const struct steno_samples *s, int i)
{
    if (s->set(s->arg, i, r->s, &r->why) || steno_session_run(r->s, &r->why))
        return false;
    r->used++;
    return true;
}

static steno_status some(const struct runs *r, const struct steno_samples *s, steno_err *err)
{
    if (r->used)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "the network refuses all of %d samples: %s", s->n,
                      s->n ? r->why.msg : "there are none");
}

/* ---- ranges ---- */

static void widen_range(const struct steno_tensor *t, struct steno_range *r)
{
    const float *x = t->data;
    size_t n = t->dtype == STENO_F32 ? steno_numel(t) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            r->broken++;
            continue;
        }
        r->lo = r->seen ? fminf(r->lo, x[i]) : x[i];
        r->hi = r->seen ? fmaxf(r->hi, x[i]) : x[i];
        r->seen = true;
    }
}

static void count_bins(const struct steno_tensor *t, const struct steno_range *r, double *bins)
{
    const float *x = t->data;
    size_t n = t->dtype == STENO_F32 && r->seen && r->hi > r->lo ? steno_numel(t) : 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            int b = (int)((double)(x[i] - r->lo) / (double)(r->hi - r->lo) * BINS);
            bins[b < 0 ? 0 : b >= BINS ? BINS - 1 : b]++;
        }
}

static void cut_share(struct steno_range *r, const double *bins, double percentile)
{
    double all = 0, out, sum = 0, step = (double)(r->hi - r->lo) / BINS;
    int from = 0, to = BINS;
    for (int i = 0; i < BINS; i++)
        all += bins[i];
    out = all * (1 - percentile / 100) / 2;
    while (from < BINS && sum + bins[from] <= out)
        sum += bins[from++];
    sum = 0;
    while (to > from + 1 && sum + bins[to - 1] <= out)
        sum += bins[--to];
    r->hi = (float)((double)r->lo + step * to);
    r->lo = (float)((double)r->lo + step * from);
}

steno_status steno_calibrate(steno_network *n, const int *place, int count,
                             const struct steno_samples *s, enum steno_range_method method,
                             double percentile, struct steno_range *out, steno_err *err)
{
    struct runs r;
    double *bins = calloc((size_t)count * BINS + 1, sizeof *bins);
    steno_status st =
        bins ? begin_runs(&r, n, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (st)
        goto out;
    memset(out, 0, (size_t)count * sizeof *out);
    for (int i = 0; i < s->n; i++)
        if (run_sample(&r, s, i))
            for (int k = 0; k < count; k++)
                widen_range(steno_session_get(r.s, place[k]), &out[k]);
    st = some(&r, s, err);
    for (int i = 0; !st && method != STENO_RANGE_MINMAX && i < s->n; i++)
        if (run_sample(&r, s, i))
            for (int k = 0; k < count; k++)
                count_bins(steno_session_get(r.s, place[k]), &out[k], bins + (size_t)k * BINS);
    for (int k = 0; !st && k < count; k++)
        if (method == STENO_RANGE_PERCENTILE && out[k].hi > out[k].lo)
            cut_share(&out[k], bins + (size_t)k * BINS, percentile);
    steno_session_close(r.s);
out:
    free(bins);
    return st;
}

/* ---- differences ---- */

double steno_value_error_mean(const struct steno_value_error *e)
{
    return e->count > 0 ? e->sum / e->count : 0;
}

double steno_value_error_db(const struct steno_value_error *e)
{
    return e->noise > 0 ? 10 * log10(fmax(e->signal, 1e-300) / e->noise) : HUGE_VAL;
}

static void add_error(struct steno_value_error *e, const struct steno_tensor *a,
                      const struct steno_tensor *b)
{
    const float *x = a->data, *y = b->data;
    size_t n =
        a->dtype == STENO_F32 && b->dtype == STENO_F32 && steno_shape_equal(&a->shape, &b->shape)
            ? steno_numel(a)
            : 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        if (!isfinite(d)) {
            e->broken += isfinite(x[i]);
            e->skipped += !isfinite(x[i]);
            continue;
        }
        e->max = fmax(e->max, d);
        e->sum += d;
        e->noise += d * d;
        e->signal += (double)x[i] * (double)x[i];
    }
    e->count += (double)n;
}

steno_status steno_values_compare(steno_network *a, const int *a_place, steno_network *b,
                                  const int *b_place, int count, const struct steno_samples *s,
                                  struct steno_value_error *out, int *used, steno_err *err)
{
    struct runs x = {NULL, 0, {0}}, y = {NULL, 0, {0}};
    steno_status st = begin_runs(&x, a, err);
    if (!st)
        st = begin_runs(&y, b, err);
    memset(out, 0, (size_t)count * sizeof *out);
    for (int i = 0; !st && i < s->n; i++) {
        if (!run_sample(&x, s, i))
            continue;
        if (!run_sample(&y, s, i))
            st = steno_fail(err, STENO_ERR_INTERNAL, "the quantized network refuses sample %d: %s",
                            i, y.why.msg);
        for (int k = 0; !st && k < count; k++)
            add_error(&out[k], steno_session_get(x.s, a_place[k]),
                      steno_session_get(y.s, b_place[k]));
    }
    if (!st)
        st = some(&x, s, err);
    *used = x.used;
    steno_session_close(x.s);
    steno_session_close(y.s);
    return st;
}
