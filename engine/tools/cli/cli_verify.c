/* steno verify: compare two networks on the same random inputs, or two models on the same
 * recordings. */
#include "tools/cli/hypotheses.h"
#include "tools/cli/verify_hard.h"

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
    "several lengths, and on inputs at which wrong rewrites show: large and small numbers, zeros, "
    "an\n"
    "outlier, equal rows, NaN, infinities. Compares every output. --onnxruntime shows whether a "
    "file\n"
    "that steno optimize wrote is right there. With recordings it compares the\n"
    "texts of two models, or of one model with and without passes. Exit status 0 when all agree, "
    "1\n"
    "when they differ.\n";

struct verify {
    const char *path[2];
    struct cli_list models, audio;
    struct cli_inputs_options in;
    long samples, batch, seed, length;
    double rtol, atol;
    bool json, no_hard, onnxruntime;
    struct cli_network n;
};

struct difference {
    double max, sum, max_rel; /* max_rel: relative to the largest magnitude of the output in A */
    double count, within;
    char shape[96];
};

struct run {
    struct verify_pair p;
    struct difference *out; /* by output of A */
    int compared, skipped;
    int64_t shortest; /* of the lengths that A takes; 0: none yet */
    bool hard;        /* hard inputs were tried */
    struct verify_hard kind[HARD_KINDS];
};

/* ---- comparing ---- */

static bool comparable(const struct steno_tensor *t)
{
    return t->dtype == STENO_F32 || t->dtype == STENO_F64 || t->dtype == STENO_I64 ||
           t->dtype == STENO_I32 || t->dtype == STENO_F16 || t->dtype == STENO_BF16 ||
           steno_dtype_size(t->dtype) == 1;
}

/* Difference; 0 for two NaN and for equal infinities. */
static double distance(double a, double b)
{
    if ((isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && (a > 0) == (b > 0)))
        return 0;
    return isnan(a - b) ? HUGE_VAL : fabs(a - b);
}

static void compare_tensors(const struct verify *v, const struct steno_tensor *a,
                            const struct steno_tensor *b, struct difference *d)
{
    double scale = 0, worst = 0;
    size_t n = steno_numel(a);
    steno_shape_str(&a->shape, d->shape, sizeof d->shape);
    for (size_t i = 0; i < n; i++) {
        double x = verify_element(a, i), e = distance(x, verify_element(b, i));
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
    for (int i = 0; i < r->p.n_out; i++) {
        const struct steno_tensor *a = steno_session_get(r->p.s[0], i);
        const struct steno_tensor *b = verify_output_b(&r->p, i);
        const char *name = steno_network_output(r->p.n[0], i)->name;
        char x[96], y[96];
        if (a->dtype != b->dtype || !steno_shape_equal(&a->shape, &b->shape))
            return steno_fail(err, STENO_ERR_INVAL, "output '%s' is %s %s in A, %s %s in B", name,
                              steno_dtype_name(a->dtype), steno_shape_str(&a->shape, x, sizeof x),
                              steno_dtype_name(b->dtype), steno_shape_str(&b->shape, y, sizeof y));
        if (comparable(a))
            compare_tensors(v, a, b, &r->out[i]);
    }
    return STENO_OK;
}

/* ---- running ---- */

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
    st = cli_inputs_make(&in, r->p.n[0], &o, err);
    if (st)
        return st;
    if (cli_inputs_set(&in, r->p.s[0], &why) || steno_session_run(r->p.s[0], &why)) {
        fprintf(stderr, "steno: verify: length %lld is left out because A refuses it: %s\n",
                (long long)length, why.msg);
        r->skipped++;
    } else {
        st = verify_run_b(&r->p, &in, err);
        if (!st)
            st = compare_outputs(v, r, err);
        if (st)
            st = steno_fail_in(err, st, "length %lld", (long long)length);
        r->compared++;
        if (!r->shortest || length < r->shortest)
            r->shortest = length;
    }
    cli_inputs_free(&in);
    return st;
}

/* True if some values have 8 bits: what NaN and infinities become there is not defined. */
static bool has_bytes(const steno_network *n)
{
    const struct steno_graph *g = steno_network_graph(n);
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].dtype == STENO_I8 || g->values[i].dtype == STENO_U8)
            return true;
    return false;
}

/* Type of 16 bits in which some node of either network computes, or STENO_DT_NONE. */
static steno_dtype halves(const struct run *r)
{
    steno_dtype found = STENO_DT_NONE;
    for (int k = 0; k < 2; k++) {
        const struct steno_graph *g = steno_network_graph(r->p.n[k]);
        for (int32_t i = 0; i < g->n_nodes; i++)
            for (int o = 0; o < g->nodes[i].n_out; o++) {
                steno_value_id v = g->nodes[i].out[o];
                steno_dtype t = v == STENO_NONE ? STENO_DT_NONE : g->values[v].dtype;
                if (!g->nodes[i].dead && (t == STENO_BF16 || (t == STENO_F16 && !found)))
                    found = t;
            }
    }
    return found;
}

/* Defaults: what 16 bits round after each operator at level 0, passes do not. */
static void settle_tolerance(struct verify *v, const struct run *r)
{
    const steno_dtype t = halves(r);
    const double by = t == STENO_BF16 ? 5e-2 : t == STENO_F16 ? 1e-2 : 1e-4;
    v->rtol = v->rtol < 0 ? by : v->rtol;
    v->atol = v->atol < 0 ? by : v->atol;
}

/* False where the results are not defined: NaN and infinities in 8 bits, and what only 16 bits make
 * infinite. */
static bool is_judged(enum hard_kind k, bool bytes, bool half)
{
    return !((bytes || half) && (k == HARD_NAN || k == HARD_INFINITY)) &&
           !(half && (k == HARD_LARGE || k == HARD_OUTLIER));
}

static steno_status hard_inputs(const struct verify *v, struct run *r, steno_err *err)
{
    const bool bytes = has_bytes(r->p.n[0]) || has_bytes(r->p.n[1]), half = halves(r) != 0;
    const struct verify_tolerance tolerance = {v->rtol, v->atol, bytes || half};
    struct cli_inputs_options o = v->in;
    steno_status st = STENO_OK;
    o.length = r->shortest;
    o.seed = (uint64_t)v->seed;
    r->hard = true;
    for (int k = 0; !st && k < HARD_KINDS; k++)
        if (is_judged((enum hard_kind)k, bytes, half))
            st = verify_hard_run(&r->p, &o, (enum hard_kind)k, &tolerance, &r->kind[k], err);
    return st;
}

static int64_t length_of(const struct verify *v, long i)
{
    static const int64_t lengths[] = {64, 100, 37, 150, 16, 203, 81, 128};
    if (v->length)
        return v->length;
    return lengths[(size_t)i % (sizeof lengths / sizeof lengths[0])];
}

static const char *file_b(const struct verify *v)
{
    return v->path[1] ? v->path[1] : v->path[0];
}

static steno_status open_both(const struct verify *v, struct run *r, steno_err *err)
{
    struct steno_network_options plain = v->n.net;
    steno_status st;
    plain.opt_level = 0;
    plain.disable_passes = plain.only_passes = NULL;
    plain.precision = STENO_FP32;
    st = steno_network_open(&r->p.n[0], v->path[0], &plain, err);
    if (!st)
        st = steno_network_open(&r->p.n[1], file_b(v), &v->n.net, err);
    for (int k = 0; !st && k < 2; k++)
        st = steno_session_open(&r->p.s[k], r->p.n[k], &v->n.sess, err);
    if (st)
        return st;
    r->p.n_out = steno_network_n_outputs(r->p.n[0]);
    r->out = calloc((size_t)r->p.n_out + 1, sizeof *r->out);
    r->p.name = calloc((size_t)r->p.n_out + 1, sizeof *r->p.name);
    r->p.other = calloc((size_t)r->p.n_out + 1, sizeof *r->p.other);
    if (!r->out || !r->p.name || !r->p.other)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < r->p.n_out; i++) {
        r->p.name[i] = steno_network_output(r->p.n[0], i)->name;
        r->p.other[i] = steno_network_find_output(r->p.n[1], r->p.name[i]);
        if (r->p.other[i] < 0)
            return steno_fail(err, STENO_ERR_INVAL, "B has no output '%s'", r->p.name[i]);
    }
    return v->onnxruntime ? onnxruntime_open(&r->p.ort, file_b(v), r->p.name, r->p.n_out, err)
                          : STENO_OK;
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

static void print_hard(const struct run *r)
{
    int agree = 0, tried = 0;
    for (int k = 0; k < HARD_KINDS; k++) {
        const struct verify_hard *h = &r->kind[k];
        tried += h->ran;
        agree += h->ran && !h->differing;
        if (h->differing > 0)
            printf(
                "%s: %.0f of %.0f elements differ, first element %zu of '%s': %g in A, %g in B\n",
                hard_inputs_name((enum hard_kind)k), h->differing, h->judged, h->at,
                steno_network_output(r->p.n[0], h->output)->name, h->a, h->b);
    }
    if (r->hard)
        printf("%d of %d kinds of hard inputs agree\n", agree, tried);
}

static void print_text(const struct verify *v, const struct run *r)
{
    printf("%-28s %-16s %11s %11s %11s %9s\n", "output", "last shape", "max", "mean", "relative",
           "% within");
    for (int i = 0; i < r->p.n_out; i++) {
        const struct difference *d = &r->out[i];
        printf("%-28.60s %-16s %11.3g %11.3g %11.3g %9.3f\n",
               steno_network_output(r->p.n[0], i)->name, d->shape, d->max,
               d->count > 0 ? d->sum / d->count : 0, d->max_rel, percent(d));
    }
    printf("%d samples, %d left out; within %g + %g |A|\n", r->compared, r->skipped, v->atol,
           v->rtol);
    print_hard(r);
}

static json_t *hard_json(const struct run *r)
{
    json_t *all = json_array();
    for (int k = 0; k < HARD_KINDS; k++)
        if (r->kind[k].ran)
            (void)json_array_append_new(all, json_pack("{s:s, s:f, s:b}", "inputs",
                                                       hard_inputs_name((enum hard_kind)k),
                                                       "differing", r->kind[k].differing, "agrees",
                                                       r->kind[k].differing == 0));
    return all;
}

static void print_json(const struct run *r)
{
    json_t *outs = json_array(), *j;
    for (int i = 0; i < r->p.n_out; i++) {
        const struct difference *d = &r->out[i];
        (void)json_array_append_new(
            outs, json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "output",
                            steno_network_output(r->p.n[0], i)->name, "max",
                            isfinite(d->max) ? d->max : 1e308, "mean",
                            d->count > 0 && isfinite(d->sum) ? d->sum / d->count : 0, "relative",
                            isfinite(d->max_rel) ? d->max_rel : 1e308, "percent_within", percent(d),
                            "agrees", agrees(d)));
    }
    j = json_pack("{s:i, s:i, s:o, s:o}", "samples", r->compared, "left_out", r->skipped, "outputs",
                  outs, "hard_inputs", hard_json(r));
    (void)json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    puts("");
    json_decref(j);
}

static int verify_networks(struct verify *v)
{
    struct run r = {.compared = 0};
    steno_err err = {0};
    steno_status st = open_both(v, &r, &err);
    int rc = EX_OK;
    if (!st)
        settle_tolerance(v, &r);
    for (long i = 0; !st && i < v->samples; i++)
        st = sample(v, &r, length_of(v, i), (uint64_t)(v->seed + i), &err);
    if (!st && !r.compared)
        st = steno_fail(&err, STENO_ERR_INVAL,
                        "verify: A ran at no length: give --length, --shape or --value");
    if (!st && !v->no_hard)
        st = hard_inputs(v, &r, &err);
    if (!st && v->json)
        print_json(&r);
    else if (!st)
        print_text(v, &r);
    for (int i = 0; !st && i < r.p.n_out; i++)
        if (!agrees(&r.out[i]))
            rc = EXIT_DIFFERS;
    for (int k = 0; !st && k < HARD_KINDS; k++)
        if (r.kind[k].differing > 0)
            rc = EXIT_DIFFERS;
    for (int k = 0; k < 2; k++) {
        steno_session_close(r.p.s[k]);
        steno_network_close(r.p.n[k]);
    }
    onnxruntime_close(r.p.ort);
    free(r.out);
    free(r.p.name);
    free(r.p.other);
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
        .samples = 5, .batch = 1, .seed = 1, .rtol = -1, .atol = -1, .n = CLI_NETWORK_INIT};
    const struct cli_option options[] = {
        {"--samples", CLI_NUMBER, "N", &v.samples, 1, 1000000,
         "number of random inputs, 5 by default"},
        {"--length", CLI_NUMBER, "N", &v.length, 1, 1000000,
         "extent of free dimensions except the batch; several in turn by default"},
        {"--batch", CLI_NUMBER, "N", &v.batch, 1, 100000, "1 by default"},
        {"--seed", CLI_NUMBER, "N", &v.seed, 0, 1000000000,
         "seed of the random inputs, 1 by default"},
        {"--rtol", CLI_REAL, "X", &v.rtol, 0, 0,
         "allowed difference relative to A, by default 1e-4; where a network\ncomputes in f16 "
         "1e-2, "
         "in bf16 5e-2"},
        {"--atol", CLI_REAL, "X", &v.atol, 0, 0, "allowed absolute difference, likewise"},
        {"--onnxruntime", CLI_FLAG, NULL, &v.onnxruntime, 0, 0,
         "run B in ONNX Runtime, which python3 (or $STENO_PYTHON) has as a package"},
        {"--no-hard-inputs", CLI_FLAG, NULL, &v.no_hard, 0, 0, "random inputs only"},
        {"--model", CLI_MANY, "DIR", &v.models, 0, 0, "a model directory; one or two"},
        {"--audio", CLI_MANY, "FILE", &v.audio, 0, 0, "a recording, or a folder of recordings"},
        {"--json", CLI_FLAG, NULL, &v.json, 0, 0, "one JSON object instead of the table"},
        CLI_INPUTS_OPTIONS(&v.in),
        CLI_NETWORK_OPTIONS(&v.n),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, v.path, 2, &n);
    rc = cli_network_resolve(&v.n, rc);
    v.in.batch = v.batch;
    if (rc == EX_OK && v.models.n && (v.models.n > 2 || !v.audio.n || n))
        rc = cli_usage("verify takes one or two --model with --audio, and no files then");
    if (rc == EX_OK && !v.models.n && (!n || v.audio.n))
        rc = cli_usage("verify needs a network, or --model and --audio");
    if (rc == EX_OK && v.models.n)
        rc = cli_idle("verify",
                      "--samples, --length, --batch, --seed, --rtol, --atol, --onnxruntime, "
                      "--no-hard-inputs, --shape, --value, --precision, --cache, --free-batch, "
                      "--opt-level, --disable-pass, --only",
                      "is for networks, not for --model");
    if (rc == EX_OK)
        rc = cli_all_readable(v.path, n);
    if (rc == EX_OK)
        rc = cli_all_readable(v.models.v, v.models.n);
    if (rc == EX_OK)
        rc = cli_all_readable(v.audio.v, v.audio.n);
    if (rc == EX_OK)
        rc = v.models.n ? verify_models(&v) : verify_networks(&v);
    cli_list_free(&v.models);
    cli_list_free(&v.audio);
    cli_list_free(&v.in.shapes);
    cli_list_free(&v.in.values);
    return rc;
}
