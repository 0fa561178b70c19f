/* steno optimize with fewer bits: finds the products, calibrates, rewrites them, and compares them
 * with f32. */
#include "tools/cli/optimize.h"
#include "tools/cli/recordings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANDOM_SAMPLES 4
#define SEED 1

static bool quantizes(const struct optimize *o)
{
    return o->precision != KEEP_FP32 || o->form != QUANTIZE_NONE || o->bits;
}

/* 16 bits come after the passes, 8 and 4 bits before the fusions: optimize/quantize.h. */
static bool after_passes(const struct optimize *o)
{
    return o->quantize.kind == STENO_QUANTIZE_F16 || o->quantize.kind == STENO_QUANTIZE_BF16;
}

/* Add a note unless the report has it: products are found twice with --layer-errors. */
static void add_note(struct optimize *o, const char *text)
{
    size_t i;
    json_t *old;
    json_array_foreach (o->notes, i, old)
        if (!strcmp(json_string_value(old), text))
            return;
    (void)json_array_append_new(o->notes, json_string(text));
}

static void put_counts(struct optimize *o, json_t *j, const struct steno_quantize_product *p)
{
    const struct {
        const char *name;
        size_t n;
    } counts[] = {{"overflow", p->counts.overflow},
                  {"underflow", p->counts.underflow},
                  {"infinite", p->counts.infinite},
                  {"nan", p->counts.nan}};
    char note[256];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        (void)json_object_set_new(j, counts[i].name, json_integer((json_int_t)counts[i].n));
    if (!p->kept || !(p->counts.overflow || p->counts.infinite || p->counts.nan))
        return;
    snprintf(note, sizeof note, "product %.120s stays in f32: %s (%zu)", p->node, p->kept,
             p->counts.overflow ? p->counts.overflow : p->counts.infinite + p->counts.nan);
    add_note(o, note);
}

static void on_product(void *arg, const struct steno_quantize_product *p)
{
    struct optimize *o = arg;
    json_t *j = json_pack("{s:s, s:s, s:I, s:I}", "node", p->node, "operator", p->op_type, "rows",
                          (json_int_t)p->rows, "columns", (json_int_t)p->columns);
    if (p->kept)
        (void)json_object_set_new(j, "kept", json_string(p->kept));
    else
        (void)json_object_set_new(j, "error", json_real(p->error));
    put_counts(o, j, p);
    if (!p->kept && o->quantize.kind == STENO_QUANTIZE_STATIC) {
        (void)json_object_set_new(j, "low", json_real((double)p->lo));
        (void)json_object_set_new(j, "high", json_real((double)p->hi));
    }
    if (!p->kept && !p->in_body) /* "y" is for layer errors and is removed afterwards */
        (void)json_object_set_new(j, "y", json_integer(p->y));
    (void)json_array_append_new(o->products, j);
}

/* ---- the network with observed values ---- */

struct observations {
    steno_network *net;
    struct steno_quantize_product *p;
    int n;
    int *place; /* [2 n]: inputs, then outputs of the products */
    struct samples s;
    struct steno_range *range; /* [n] */
};

static void observations_free(struct observations *l)
{
    steno_network_close(l->net);
    samples_free(&l->s);
    free(l->p);
    free(l->place);
    free(l->range);
}

static steno_status expose(steno_network *n, const struct observations *l, bool inputs, int *place,
                           steno_network **out, steno_err *err)
{
    struct steno_network_options run = {.opt_level = -1};
    int count = inputs ? 2 * l->n : l->n;
    steno_value_id *v = calloc((size_t)count + 1, sizeof *v);
    steno_status st = v ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; v && i < l->n; i++) {
        v[i] = inputs ? l->p[i].x : l->p[i].y;
        if (inputs)
            v[l->n + i] = l->p[i].y;
    }
    if (!st)
        st = steno_network_expose(n, v, count, &run, place, out, err);
    free(v);
    return st;
}

static steno_status samples_of(const struct optimize *o, const char *in, struct observations *l,
                               steno_err *err)
{
    steno_status st = STENO_OK;
    if (o->recorded_inputs)
        st = recorded_inputs_samples(o->recorded_inputs, in, l->net, &l->s, err);
    for (int i = 0; !st && !o->recorded_inputs && i < o->calibrate.n; i++)
        st = samples_npz(&l->s, l->net, o->calibrate.v[i], err);
    if (!st && !l->s.n && o->form != QUANTIZE_STATIC)
        st = samples_random(&l->s, l->net, RANDOM_SAMPLES, SEED, err);
    return st;
}

static steno_status set_sample(void *arg, int i, steno_session *s, steno_err *err)
{
    const struct samples *all = arg;
    return cli_inputs_set(&all->v[i], s, err);
}

static struct steno_samples samples_to_run(struct observations *l)
{
    return (struct steno_samples){l->s.n, set_sample, &l->s};
}

static bool range_of(void *arg, steno_value_id x, float *lo, float *hi)
{
    const struct observations *l = arg;
    for (int i = 0; i < l->n; i++)
        if (l->p[i].x == x && l->range[i].seen) {
            *lo = l->range[i].lo;
            *hi = l->range[i].hi;
            return true;
        }
    return false;
}

static steno_status look_at_network(struct optimize *o, const char *in, steno_network *n,
                                    struct observations *l, steno_err *err)
{
    struct steno_samples samples;
    steno_status st = steno_network_products(n, &o->quantize, &l->p, &l->n, err);
    if (!st) {
        l->place = calloc((size_t)l->n * 2 + 1, sizeof *l->place);
        l->range = calloc((size_t)l->n + 1, sizeof *l->range);
        if (!l->place || !l->range)
            st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    if (!st && l->n)
        st = expose(n, l, true, l->place, &l->net, err);
    if (!st && l->n)
        st = samples_of(o, in, l, err);
    if (st || !l->n || o->form != QUANTIZE_STATIC)
        return st;
    if (!l->s.n) {
        (void)json_array_append_new(o->notes,
                                    json_string("no recording reached this network in the form it "
                                                "has in its file: it is quantized dynamically"));
        o->quantize.kind = STENO_QUANTIZE_DYNAMIC;
        return samples_random(&l->s, l->net, RANDOM_SAMPLES, SEED, err);
    }
    samples = samples_to_run(l);
    return steno_calibrate(l->net, l->place, l->n, &samples, (enum steno_range_method)o->method,
                           o->percentile, l->range, err);
}

/* ---- error of each layer ---- */

static void put_error(json_t *product, const struct steno_value_error *e)
{
    double db = steno_value_error_db(e);
    (void)json_object_set_new(product, "max", json_real(e->max));
    (void)json_object_set_new(product, "mean", json_real(steno_value_error_mean(e)));
    (void)json_object_set_new(product, "snr_db", json_real(isfinite(db) ? db : 999));
    (void)json_object_set_new(product, "not_finite", json_integer((json_int_t)e->broken));
    (void)json_object_set_new(product, "not_finite_in_f32", json_integer((json_int_t)e->skipped));
}

/* The product whose output is y, or NULL. */
static json_t *product_of(const struct optimize *o, steno_value_id y)
{
    size_t k;
    json_t *p;
    json_array_foreach (o->products, k, p)
        if (json_is_integer(json_object_get(p, "y")) &&
            json_integer_value(json_object_get(p, "y")) == y)
            return p;
    return NULL;
}

static void put_broken_inputs(struct optimize *o, const struct observations *l)
{
    for (int i = 0; l->range && i < l->n; i++) {
        json_t *p = l->range[i].broken ? product_of(o, l->p[i].y) : NULL;
        if (p)
            (void)json_object_set_new(p, "input_not_finite",
                                      json_integer((json_int_t)l->range[i].broken));
    }
}

static steno_status layer_errors(struct optimize *o, steno_network *n, struct observations *l,
                                 steno_err *err)
{
    int *place = calloc((size_t)l->n + 1, sizeof *place), used = 0;
    struct steno_value_error *e = calloc((size_t)l->n + 1, sizeof *e);
    const struct steno_samples samples = samples_to_run(l);
    steno_network *q = NULL;
    char note[256];
    steno_err why = {0};
    steno_status st = place && e ? expose(n, l, false, place, &q, err)
                                 : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st &&
        steno_values_compare(l->net, l->place + l->n, q, place, l->n, &samples, e, &used, &why)) {
        if (o->calibrate.n && o->quantize.kind == STENO_QUANTIZE_STATIC)
            st = steno_fail(err, why.code, "%s", why.msg);
        snprintf(note, sizeof note, "no errors by layer: %.200s", why.msg);
        (void)json_array_append_new(o->notes, json_string(note));
        goto out;
    }
    for (int i = 0; !st && i < l->n; i++) {
        json_t *p = product_of(o, l->p[i].y);
        if (!p)
            continue;
        put_error(p, &e[i]);
        if (e[i].broken) {
            snprintf(note, sizeof note,
                     "product %.100s: %zu outputs are infinite or NaN in this form and finite in "
                     "f32; --exclude keeps it",
                     json_string_value(json_object_get(p, "node")), e[i].broken);
            add_note(o, note);
        }
    }
    if (!st) {
        snprintf(note, sizeof note, "outputs of products against f32 over %d %s samples", used,
                 o->calibrate.n ? "calibration" : "random");
        (void)json_array_append_new(o->notes, json_string(note));
    }
out:
    steno_network_close(q);
    free(place);
    free(e);
    return st;
}

/* ---- the whole ---- */

static steno_status quantize(struct optimize *o, const char *in, steno_network *n, bool measure,
                             steno_err *err)
{
    struct observations l = {.net = NULL};
    bool look_first = o->form == QUANTIZE_STATIC || (measure && o->layer_errors);
    int changed;
    steno_status st = after_passes(o) ? STENO_OK : steno_network_split(n, &o->quantize, err);
    if (!st && look_first)
        st = look_at_network(o, in, n, &l, err);
    o->quantize.range = range_of;
    o->quantize.range_arg = &l;
    if (!st)
        st = steno_network_quantize(n, &o->quantize, &changed, err);
    if (!st && look_first && l.n && o->layer_errors)
        st = layer_errors(o, n, &l, err);
    if (!st)
        put_broken_inputs(o, &l);
    observations_free(&l);
    return st;
}

static steno_status open_basic(struct optimize *o, const char *in, steno_network **out,
                               steno_err *err)
{
    struct steno_network_options basic = o->n.net;
    basic.opt_level = 1;
    basic.disable_passes = basic.only_passes = NULL;
    return steno_network_open(out, in, &basic, err);
}

/* With 16 bits, errors by layer are those of the same weights rounded before the passes. */
static steno_status measure_half(struct optimize *o, const char *in, steno_err *err)
{
    steno_network *n = NULL;
    steno_status st = open_basic(o, in, &n, err);
    if (!st)
        st = quantize(o, in, n, true, err);
    steno_network_close(n);
    return st;
}

static steno_status open_half(struct optimize *o, const char *in, steno_network **out,
                              steno_err *err)
{
    json_t *layers = NULL;
    steno_status st = STENO_OK;
    if (o->layer_errors) {
        st = measure_half(o, in, err);
        layers = json_copy(o->products);
        json_array_clear(o->products);
    }
    if (!st)
        st = steno_network_open(out, in, &o->n.net, err);
    if (!st)
        st = quantize(o, in, *out, false, err);
    if (!st && layers) {
        json_array_clear(o->products);
        (void)json_array_extend(o->products, layers);
    }
    json_decref(layers);
    return st;
}

steno_status optimize_open(struct optimize *o, const char *in, steno_network **out, steno_err *err)
{
    size_t i;
    json_t *p;
    enum steno_quantize_kind kind = o->quantize.kind;
    steno_status st;
    o->quantize.report = on_product;
    o->quantize.report_arg = o;
    if (!quantizes(o))
        return steno_network_open(out, in, &o->n.net, err);
    if (after_passes(o)) {
        st = open_half(o, in, out, err);
    } else {
        st = open_basic(o, in, out, err);
        if (!st)
            st = quantize(o, in, *out, true, err);
        if (!st)
            st = steno_network_passes_again(*out, &o->n.net, err);
    }
    json_array_foreach (o->products, i, p)
        (void)json_object_del(p, "y");
    o->quantize.kind = kind;
    return st ? steno_fail_in(err, st, "%s", in) : STENO_OK;
}

/* ---- recordings ---- */

/* Find the model directory of a network: its folder or the parent of that. */
static steno_status directory_of_model(struct optimize *o, char *dir, size_t size, steno_err *err)
{
    char path[PATH_MAX];
    struct steno_model_options mo = {.plain = true};
    steno_err why = {0};
    if (!realpath(o->in, path) || snprintf(dir, size, "%s", path) >= (int)size)
        return steno_fail(err, STENO_ERR_IO, "%s: cannot be found", o->in);
    for (int up = 0; up < (o->directory ? 1 : 2); up++) {
        steno_model *m = NULL;
        char *slash = strrchr(dir, '/');
        if (!o->directory && slash)
            *slash = '\0';
        if (*dir && !steno_model_open(&m, dir, &mo, &why)) {
            steno_model_close(m);
            return STENO_OK;
        }
    }
    return steno_fail(err, STENO_ERR_INVAL,
                      "%s: recordings need the model directory that it is of: %s", o->in, why.msg);
}

steno_status optimize_record_inputs(struct optimize *o, steno_err *err)
{
    char dir[PATH_MAX];
    int recordings = 0;
    steno_status st;
    for (int i = 0; i < o->calibrate.n; i++)
        recordings += recordings_are(o->calibrate.v[i]);
    if (!recordings)
        return o->directory && o->calibrate.n
                   ? steno_fail(err, STENO_ERR_INVAL,
                                "a model directory is calibrated by recordings, not by arrays")
                   : STENO_OK;
    if (recordings != o->calibrate.n)
        return steno_fail(err, STENO_ERR_INVAL,
                          "--calibrate takes recordings or .npz files, not both");
    st = directory_of_model(o, dir, sizeof dir, err);
    return st ? st : recorded_inputs_open(&o->recorded_inputs, dir, &o->calibrate, err);
}
