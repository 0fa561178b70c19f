/* steno verify: compare two networks on the same random inputs, or two models on the same
 * recordings. */
#include "cli/hypotheses.h"
#include "cli/inputs.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define EXIT_DIFFERS 1 /* as in diff(1) */

static const char usage[] =
    "Usage: steno verify A.onnx [B.onnx] [OPTION]...\n"
    "       steno verify --model DIR [--model DIR] --audio FILE [--audio FILE]...\n"
    "\n"
    "Runs A unchanged and B after the passes (without B: A both ways) on the same random inputs, "
    "at\n"
    "several lengths, and compares every output. With recordings it compares the texts of two\n"
    "models, or of one model with and without passes. Exit status 0 when all agree, 1 when they\n"
    "differ.\n";

struct verify {
    const char *path[2];
    struct cli_list models, audio;
    struct cli_inputs_options in;
    long samples, batch, seed, length;
    double rtol, atol;
    bool json;
    struct cli_network n;
};

struct difference {
    double max, sum, max_rel; /* max_rel: relative to the largest magnitude of the output in A */
    double count, within;
    char shape[96];
};

struct run {
    steno_network *n[2];
    steno_session *s[2];
    struct difference *out; /* by output of A */
    int *other;             /* index of the output of that name in B */
    int n_out, compared, skipped;
};

/* ---- comparing ---- */

static double element(const struct steno_tensor *t, size_t i)
{
    switch (t->dtype) {
    case STENO_F32:
        return (double)((const float *)t->data)[i];
    case STENO_F64:
        return ((const double *)t->data)[i];
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

static bool comparable(const struct steno_tensor *t)
{
    return t->dtype == STENO_F32 || t->dtype == STENO_F64 || t->dtype == STENO_I64 ||
           t->dtype == STENO_I32 || steno_dtype_size(t->dtype) == 1;
}

/* Difference; 0 for two NaN and for equal infinities. */
static double distance(double a, double b)
{
    if ((isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && (a > 0) == (b > 0)))
        return 0;
    return isnan(a - b) ? HUGE_VAL : fabs(a - b);
}

static void compare(const struct verify *v, const struct steno_tensor *a,
                    const struct steno_tensor *b, struct difference *d)
{
    double scale = 0, worst = 0;
    size_t n = steno_numel(a);
    steno_shape_str(&a->shape, d->shape, sizeof d->shape);
    for (size_t i = 0; i < n; i++) {
        double x = element(a, i), e = distance(x, element(b, i));
        if (isfinite(x))
            scale = fmax(scale, fabs(x));
        worst = fmax(worst, e);
        d->sum += e;
        d->within += e <= v->atol + v->rtol * (isfinite(x) ? fabs(x) : 0);
    }
    d->count += (double)n;
    d->max = fmax(d->max, worst);
    d->max_rel = fmax(d->max_rel, worst / fmax(scale, 1e-30));
}

static steno_status compare_outputs(const struct verify *v, struct run *r, steno_err *err)
{
    for (int i = 0; i < r->n_out; i++) {
        const struct steno_tensor *a = steno_session_get(r->s[0], i);
        const struct steno_tensor *b = steno_session_get(r->s[1], r->other[i]);
        const char *name = steno_network_output(r->n[0], i)->name;
        char x[96], y[96];
        if (a->dtype != b->dtype || !steno_shape_equal(&a->shape, &b->shape))
            return steno_fail(err, STENO_ERR_INVAL, "output '%s' is %s %s in A, %s %s in B", name,
                              steno_dtype_name(a->dtype), steno_shape_str(&a->shape, x, sizeof x),
                              steno_dtype_name(b->dtype), steno_shape_str(&b->shape, y, sizeof y));
        if (comparable(a))
            compare(v, a, b, &r->out[i]);
    }
    return STENO_OK;
}

/* ---- running ---- */

/* Give A's tensors to B's inputs by name. 64-bit integers become 32-bit ones where B wants that. */
static steno_status set_b(struct run *r, const struct cli_inputs *in, steno_err *err)
{
    for (int i = 0; i < in->n; i++) {
        const char *name = steno_network_input(r->n[0], i)->name;
        int k = steno_network_find_input(r->n[1], name);
        struct steno_tensor t = in->t[i];
        steno_status st;
        if (k < 0)
            return steno_fail(err, STENO_ERR_INVAL, "B has no input '%s'", name);
        if (t.dtype == STENO_I64 && steno_network_input(r->n[1], k)->dtype == STENO_I32) {
            for (size_t e = 0; e < steno_numel(&t); e++) /* in place: A has run already */
                ((int32_t *)t.data)[e] = (int32_t)((int64_t *)t.data)[e];
            t.dtype = STENO_I32;
        }
        st = steno_session_set(r->s[1], k, &t, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* Run one sample. When A refuses its inputs, the sample is left out and is no difference. */
static steno_status sample(const struct verify *v, struct run *r, int64_t length, uint64_t seed,
                           steno_err *err)
{
    struct cli_inputs_options o = v->in;
    struct cli_inputs in = {.n = 0};
    steno_err why = {0};
    steno_status st;
    o.length = length;
    o.seed = seed;
    st = cli_inputs_make(&in, r->n[0], &o, err);
    if (st)
        return st;
    if (cli_inputs_set(&in, r->s[0], &why) || steno_session_run(r->s[0], &why)) {
        fprintf(stderr, "steno: verify: length %lld is left out because A refuses it: %s\n",
                (long long)length, why.msg);
        r->skipped++;
    } else {
        st = set_b(r, &in, err);
        if (!st)
            st = steno_session_run(r->s[1], err);
        if (!st)
            st = compare_outputs(v, r, err);
        if (st)
            st = steno_fail_in(err, st, "length %lld", (long long)length);
        r->compared++;
    }
    cli_inputs_free(&in);
    return st;
}

static int64_t length_of(const struct verify *v, long i)
{
    static const int64_t lengths[] = {64, 100, 37, 150, 16, 203, 81, 128};
    if (v->length)
        return v->length;
    return lengths[(size_t)i % (sizeof lengths / sizeof lengths[0])];
}

static steno_status open_both(const struct verify *v, struct run *r, steno_err *err)
{
    struct steno_network_options plain = v->n.net;
    steno_status st;
    plain.opt_level = 0;
    plain.disable_passes = plain.only_passes = NULL;
    plain.precision = STENO_FP32;
    st = steno_network_open(&r->n[0], v->path[0], &plain, err);
    if (!st)
        st = steno_network_open(&r->n[1], v->path[1] ? v->path[1] : v->path[0], &v->n.net, err);
    for (int k = 0; !st && k < 2; k++)
        st = steno_session_open(&r->s[k], r->n[k], &v->n.sess, err);
    if (st)
        return st;
    r->n_out = steno_network_n_outputs(r->n[0]);
    r->out = calloc((size_t)r->n_out + 1, sizeof *r->out);
    r->other = calloc((size_t)r->n_out + 1, sizeof *r->other);
    if (!r->out || !r->other)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < r->n_out; i++) {
        const char *name = steno_network_output(r->n[0], i)->name;
        r->other[i] = steno_network_find_output(r->n[1], name);
        if (r->other[i] < 0)
            return steno_fail(err, STENO_ERR_INVAL, "B has no output '%s'", name);
    }
    return STENO_OK;
}

/* ---- reports ---- */

static bool agrees(const struct difference *d)
{
    return d->within >= d->count;
}

static double percent(const struct difference *d)
{
    return d->count > 0 ? 100 * d->within / d->count : 100;
}

static void print_text(const struct verify *v, const struct run *r)
{
    printf("%-28s %-16s %11s %11s %11s %9s\n", "output", "last shape", "max", "mean", "relative",
           "% within");
    for (int i = 0; i < r->n_out; i++) {
        const struct difference *d = &r->out[i];
        printf("%-28.60s %-16s %11.3g %11.3g %11.3g %9.3f\n",
               steno_network_output(r->n[0], i)->name, d->shape, d->max,
               d->count > 0 ? d->sum / d->count : 0, d->max_rel, percent(d));
    }
    printf("%d samples, %d left out; within %g + %g |A|\n", r->compared, r->skipped, v->atol,
           v->rtol);
}

static void print_json(const struct run *r)
{
    json_t *outs = json_array(), *j;
    for (int i = 0; i < r->n_out; i++) {
        const struct difference *d = &r->out[i];
        (void)json_array_append_new(
            outs, json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "output",
                            steno_network_output(r->n[0], i)->name, "max",
                            isfinite(d->max) ? d->max : 1e308, "mean",
                            d->count > 0 && isfinite(d->sum) ? d->sum / d->count : 0, "relative",
                            isfinite(d->max_rel) ? d->max_rel : 1e308, "percent_within", percent(d),
                            "agrees", agrees(d)));
    }
    j = json_pack("{s:i, s:i, s:o}", "samples", r->compared, "left_out", r->skipped, "outputs",
                  outs);
    (void)json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    puts("");
    json_decref(j);
}

static int verify_networks(const struct verify *v)
{
    struct run r = {.n_out = 0};
    steno_err err = {0};
    steno_status st = open_both(v, &r, &err);
    int rc = EX_OK;
    for (long i = 0; !st && i < v->samples; i++)
        st = sample(v, &r, length_of(v, i), (uint64_t)(v->seed + i), &err);
    if (!st && !r.compared)
        st = steno_fail(&err, STENO_ERR_INVAL,
                        "verify: A ran at no length: give --length, --shape or --value");
    if (!st && v->json)
        print_json(&r);
    else if (!st)
        print_text(v, &r);
    for (int i = 0; !st && i < r.n_out; i++)
        if (!agrees(&r.out[i]))
            rc = EXIT_DIFFERS;
    for (int k = 0; k < 2; k++) {
        steno_session_close(r.s[k]);
        steno_network_close(r.n[k]);
    }
    free(r.out);
    free(r.other);
    return st ? cli_fail(&err) : rc;
}

/* ---- recordings ---- */

static int verify_models(const struct verify *v)
{
    struct hypotheses h = {.audio = &v->audio, .cpu = v->n.net.cpu, .threads = (int)v->n.threads};
    steno_err err = {0};
    steno_status st;
    h.dir[0] = v->models.v[0];
    h.dir[1] = v->models.n > 1 ? v->models.v[1] : v->models.v[0];
    h.plain = v->models.n == 1;
    st = hypotheses_compare(&h, stdout, v->json, &err);
    if (st)
        return cli_fail(&err);
    return h.differing ? EXIT_DIFFERS : EX_OK;
}

int cli_verify(int argc, char **argv)
{
    struct verify v = {
        .samples = 5, .batch = 1, .seed = 1, .rtol = 1e-4, .atol = 1e-4, .n = CLI_NETWORK_INIT};
    const struct cli_option options[] = {
        {"--samples", CLI_NUMBER, "N", &v.samples, 1, 1000000,
         "number of random inputs, 5 by default"},
        {"--length", CLI_NUMBER, "N", &v.length, 1, 1000000,
         "extent of free dimensions except the batch; several in turn by default"},
        {"--batch", CLI_NUMBER, "N", &v.batch, 1, 100000, "1 by default"},
        {"--seed", CLI_NUMBER, "N", &v.seed, 0, 1000000000,
         "seed of the random inputs, 1 by default"},
        {"--rtol", CLI_REAL, "X", &v.rtol, 0, 0,
         "allowed difference relative to A, 1e-4 by default"},
        {"--atol", CLI_REAL, "X", &v.atol, 0, 0, "allowed absolute difference, 1e-4 by default"},
        {"--model", CLI_MANY, "DIR", &v.models, 0, 0, "a model directory; one or two"},
        {"--audio", CLI_MANY, "FILE", &v.audio, 0, 0, "a recording, or a folder of recordings"},
        {"--json", CLI_FLAG, NULL, &v.json, 0, 0, "one JSON object instead of the table"},
        CLI_INPUTS_OPTIONS(&v.in),
        CLI_NETWORK_OPTIONS(&v.n),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, v.path, 2, &n);
    cli_network_resolve(&v.n);
    v.in.batch = v.batch;
    if (rc == EX_OK && v.models.n && (v.models.n > 2 || !v.audio.n || n))
        rc = cli_usage("verify takes one or two --model with --audio, and no files then");
    if (rc == EX_OK && !v.models.n && (!n || v.audio.n))
        rc = cli_usage("verify needs a network, or --model and --audio");
    for (int i = 0; rc == EX_OK && i < n; i++)
        rc = cli_readable(v.path[i]);
    if (rc == EX_OK)
        rc = v.models.n ? verify_models(&v) : verify_networks(&v);
    cli_list_free(&v.models);
    cli_list_free(&v.audio);
    cli_list_free(&v.in.shapes);
    cli_list_free(&v.in.values);
    return rc < 0 ? EX_OK : rc;
}
