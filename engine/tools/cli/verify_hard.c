#include "tools/cli/verify_hard.h"

#include "nn/kernels/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DISTURBED 3 /* runs of A on disturbed inputs */

/* What one element of A is over all its runs. */
struct range {
    double first, low, high;
    int finite; /* runs in which it is finite */
};

double verify_element(const struct steno_tensor *t, size_t i)
{
    switch (t->dtype) {
    case STENO_F32:
        return (double)((const float *)t->data)[i];
    case STENO_F64:
        return ((const double *)t->data)[i];
    case STENO_F16:
        return (double)half_from_f16(((const uint16_t *)t->data)[i]);
    case STENO_BF16:
        return (double)half_from_bf16(((const uint16_t *)t->data)[i]);
    case STENO_I64:
        return (double)((const int64_t *)t->data)[i];
    case STENO_I32:
        return ((const int32_t *)t->data)[i];
    case STENO_I8:
        return ((const int8_t *)t->data)[i];
    case STENO_U8:
    case STENO_BOOL:
        return ((const uint8_t *)t->data)[i];
    default:
        return 0;
    }
}

static steno_status to_b(const struct verify_pair *p, int i, struct steno_tensor *t, int *k,
                         steno_err *err)
{
    const char *name = steno_network_input(p->n[0], i)->name;
    *k = steno_network_find_input(p->n[1], name);
    if (*k < 0)
        return steno_fail(err, STENO_ERR_INVAL, "B has no input '%s'", name);
    if (t->dtype == STENO_I64 && steno_network_input(p->n[1], *k)->dtype == STENO_I32) {
        for (size_t e = 0; e < steno_numel(t); e++)
            ((int32_t *)t->data)[e] = (int32_t)((int64_t *)t->data)[e];
        t->dtype = STENO_I32;
    }
    return STENO_OK;
}

steno_status verify_run_b(struct verify_pair *p, const struct cli_inputs *in, steno_err *err)
{
    struct steno_tensor *t = calloc((size_t)in->n + 1, sizeof *t);
    const char **name = calloc((size_t)in->n + 1, sizeof *name);
    steno_status st = t && name ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; !st && i < in->n; i++) {
        int k;
        t[i] = in->t[i];
        name[i] = steno_network_input(p->n[0], i)->name;
        st = to_b(p, i, &t[i], &k, err);
        if (!st && !p->ort)
            st = steno_session_set(p->s[1], k, &t[i], err);
    }
    if (!st)
        st =
            p->ort ? onnxruntime_run(p->ort, t, name, in->n, err) : steno_session_run(p->s[1], err);
    free(name);
    free(t);
    return st;
}

const struct steno_tensor *verify_output_b(const struct verify_pair *p, int i)
{
    return p->ort ? onnxruntime_get(p->ort, i) : steno_session_get(p->s[1], p->other[i]);
}

/* ---- the runs of A ---- */

static void note(struct range *r, double v, bool first)
{
    if (first)
        *r = (struct range){v, HUGE_VAL, -HUGE_VAL, 0};
    if (!isfinite(v))
        return;
    r->low = fmin(r->low, v);
    r->high = fmax(r->high, v);
    r->finite++;
}

/* Update the ranges of all outputs after a run of A. False: no memory, or other shapes than in the
 * first run. */
static bool note_outputs(const struct verify_pair *p, struct range **ranges, size_t *count,
                         bool first)
{
    for (int i = 0; i < p->n_out; i++) {
        const struct steno_tensor *t = steno_session_get(p->s[0], i);
        const size_t n = steno_numel(t);
        if (first) {
            count[i] = n;
            ranges[i] = calloc(n + 1, sizeof **ranges);
        }
        if (!ranges[i] || count[i] != n)
            return false;
        for (size_t e = 0; e < n; e++)
            note(&ranges[i][e], verify_element(t, e), first);
    }
    return true;
}

static steno_status inputs(struct cli_inputs *in, const struct verify_pair *p,
                           const struct cli_inputs_options *o, enum hard_kind kind, int *changed,
                           steno_err *err)
{
    steno_status st = cli_inputs_make(in, p->n[0], o, err);
    if (!st)
        *changed = hard_inputs_make(in, p->n[0], o, kind);
    return st;
}

static steno_status run_a(struct verify_pair *p, const struct cli_inputs_options *o,
                          enum hard_kind kind, double by, struct range **ranges, size_t *count,
                          bool *ran, steno_err *err)
{
    steno_status st = STENO_OK;
    *ran = true;
    for (int k = 0; !st && *ran && k <= DISTURBED; k++) {
        struct cli_inputs in = {.n = 0};
        steno_err why = {0};
        int changed;
        st = inputs(&in, p, o, kind, &changed, err);
        if (st)
            return st;
        if (k)
            hard_inputs_disturb(&in, (uint64_t)k, by);
        *ran = changed && !cli_inputs_set(&in, p->s[0], &why) && !steno_session_run(p->s[0], &why);
        if (*ran && !note_outputs(p, ranges, count, !k)) /* shapes depend on values */
            *ran = false;
        cli_inputs_free(&in);
    }
    return st;
}

/* ---- B ---- */

/* least: a lower bound of the spread. */
static bool agrees(const struct range *r, double b, double row, double least,
                   const struct verify_tolerance *t)
{
    const double spread = fmax(r->high - r->low, least);
    if (!r->finite)
        return !isfinite(b);
    if (r->finite <= DISTURBED)
        return true;
    return fabs(b - r->first) <= t->rtol * fabs(r->first) + t->atol * row + 4 * spread;
}

static double largest_range(const struct range *r, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (r[i].finite > DISTURBED)
            most = fmax(most, fabs(r[i].first));
    return most;
}

static double largest_spread(const struct range *r, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (r[i].finite > DISTURBED)
            most = fmax(most, r[i].high - r[i].low);
    return most;
}

static steno_status compare_ranges(const struct verify_pair *p, struct range **ranges,
                                   const size_t *count, const struct verify_tolerance *tolerance,
                                   struct verify_hard *out, steno_err *err)
{
    for (int i = 0; i < p->n_out; i++) {
        const struct steno_tensor *t = verify_output_b(p, i);
        const int rank = t->shape.rank;
        const size_t row = rank && count[i] ? (size_t)t->shape.dim[rank - 1] : 1;
        const double least = tolerance->coarse ? largest_spread(ranges[i], count[i]) : 0;
        double scale = 0;
        if (steno_numel(t) != count[i])
            return steno_fail(err, STENO_ERR_INVAL, "output '%s' has another shape in B",
                              steno_network_output(p->n[0], i)->name);
        for (size_t e = 0; e < count[i]; e++) {
            const double b = verify_element(t, e);
            if (e % row == 0)
                scale = largest_range(ranges[i] + e, row);
            out->judged++;
            if (agrees(&ranges[i][e], b, scale, least, tolerance))
                continue;
            if (!out->differing++) {
                out->output = i;
                out->at = e;
                out->a = ranges[i][e].first;
                out->b = b;
            }
        }
    }
    return STENO_OK;
}

steno_status verify_hard_run(struct verify_pair *p, const struct cli_inputs_options *o,
                             enum hard_kind kind, const struct verify_tolerance *tolerance,
                             struct verify_hard *out, steno_err *err)
{
    struct range **ranges = calloc((size_t)p->n_out + 1, sizeof *ranges);
    size_t *count = calloc((size_t)p->n_out + 1, sizeof *count);
    struct cli_inputs in = {.n = 0};
    steno_status st =
        ranges && count ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    int changed;
    memset(out, 0, sizeof *out);
    if (!st)
        st = run_a(p, o, kind, tolerance->coarse ? 1e-3 : 1e-6, ranges, count, &out->ran, err);
    if (!st && out->ran)
        st = inputs(&in, p, o, kind, &changed, err);
    if (!st && out->ran)
        st = verify_run_b(p, &in, err);
    if (!st && out->ran)
        st = compare_ranges(p, ranges, count, tolerance, out, err);
    if (st)
        st = steno_fail_in(err, st, "%s", hard_inputs_name(kind));
    cli_inputs_free(&in);
    for (int i = 0; ranges && i < p->n_out; i++)
        free(ranges[i]);
    free(ranges);
    free(count);
    return st;
}
