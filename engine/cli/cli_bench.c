/* steno bench: time of one network at given input shapes. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "cli/cli.h"
#include "kernels/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define MAX_SHAPES 256
#define WARM_UP 3

static const char usage[] =
    "Usage: steno bench MODEL.onnx [--shape NAME=AxBxC]...\n"
    "\n"
    "Times an ONNX network. Inputs without --shape get 1 for every free dimension; floats are "
    "random\n"
    "(seeded), integers and booleans 1.\n"
    "\n"
    "  --shape NAME=AxBxC   shape of a graph input; NAME= alone is a scalar\n"
    "  --runs N             timed runs, 20 by default, after 3 that do not count\n"
    "  --threads N          1 by default\n"
    "  --precision P        fp32\n"
    "  --cpu LEVEL          scalar, avx2, avx512, vnni, bf16 or native\n"
    "  --opt-level N        0 to 3 (default)\n"
    "  --disable-pass LIST  comma-separated passes to leave out\n"
    "  --only LIST          comma-separated passes to run, no others\n"
    "  --profile            time by operator and the 20 slowest nodes, after the timed runs\n"
    "  --json               one JSON object instead of text\n";

struct bench_options {
    const char *model;
    const char *shapes[MAX_SHAPES];
    int n_shapes;
    long runs;
    bool json, profile;
    struct steno_network_options net;
    struct steno_session_options sess;
};

struct bench_result {
    double min_ms, median_ms, mean_ms, p99_ms, load_ms, first_ms;
    double flops, peak;
    size_t arena, weights, nodes, misplans;
};

static bool parse_dims(const char *s, struct steno_shape *out)
{
    out->rank = 0;
    while (*s) {
        char *end;
        if (out->rank == STENO_MAX_RANK || *s < '0' || *s > '9')
            return false;
        out->dim[out->rank++] = strtoll(s, &end, 10);
        if (*end && (*end != 'x' || !end[1]))
            return false;
        s = *end ? end + 1 : end;
    }
    return true;
}

static steno_status shape_of(const struct bench_options *o, const struct steno_value *v,
                             struct steno_shape *out, steno_err *err)
{
    size_t n = strlen(v->name);
    for (int i = 0; i < o->n_shapes; i++) {
        if (strncmp(o->shapes[i], v->name, n) || o->shapes[i][n] != '=')
            continue;
        if (!parse_dims(o->shapes[i] + n + 1, out))
            return steno_fail(err, STENO_ERR_INVAL, "--shape '%s' is not NAME=AxBxC", o->shapes[i]);
        return STENO_OK;
    }
    *out = v->shape;
    if (out->rank < 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          "input '%s' needs --shape: the model says nothing "
                          "of its rank",
                          v->name);
    for (int d = 0; d < out->rank; d++)
        if (out->dim[d] < 0)
            out->dim[d] = 1;
    return STENO_OK;
}

/* Uniform in (-1.7, 1.7): variance 1. Numerical Recipes' 64-bit linear congruential generator. */
static float next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((float)(*state >> 40) / (float)(1 << 24) - 0.5f) * 3.4641f;
}

static void fill(struct steno_tensor *t, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        switch (t->dtype) {
        case STENO_F32:
            ((float *)t->data)[i] = next_random(seed);
            break;
        case STENO_F64:
            ((double *)t->data)[i] = (double)next_random(seed);
            break;
        case STENO_I64:
        case STENO_U64:
            ((int64_t *)t->data)[i] = 1;
            break;
        case STENO_I32:
        case STENO_U32:
            ((int32_t *)t->data)[i] = 1;
            break;
        case STENO_F16:
            ((uint16_t *)t->data)[i] = 0x3c00; /* 1.0 */
            break;
        case STENO_I16:
        case STENO_U16:
            ((int16_t *)t->data)[i] = 1;
            break;
        default:
            if (steno_dtype_size(t->dtype) == 1)
                ((uint8_t *)t->data)[i] = 1;
        }
}

static steno_status set_inputs(const struct bench_options *o, steno_network *n, steno_session *s,
                               void **data, steno_err *err)
{
    uint64_t seed = 1;
    for (int i = 0; i < steno_network_n_inputs(n); i++) {
        const struct steno_value *v = steno_network_input(n, i);
        struct steno_tensor t = {.dtype = v->dtype};
        size_t bytes;
        steno_status st = shape_of(o, v, &t.shape, err);
        if (st)
            return st;
        if (steno_shape_bytes(&t.shape, t.dtype, &bytes) || !(data[i] = steno_aligned_alloc(bytes)))
            return steno_fail(err, STENO_ERR_NOMEM, "input '%s' is too large", v->name);
        t.data = data[i];
        fill(&t, steno_numel(&t), &seed);
        st = steno_session_set(s, i, &t, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status check_shapes(const struct bench_options *o, steno_network *n, steno_err *err)
{
    for (int i = 0; i < o->n_shapes; i++) {
        const char *eq = strchr(o->shapes[i], '=');
        char name[256];
        if (!eq || (size_t)(eq - o->shapes[i]) >= sizeof name)
            return steno_fail(err, STENO_ERR_INVAL, "--shape '%s' is not NAME=AxBxC", o->shapes[i]);
        memcpy(name, o->shapes[i], (size_t)(eq - o->shapes[i]));
        name[eq - o->shapes[i]] = '\0';
        if (steno_network_find_input(n, name) < 0)
            return steno_fail(err, STENO_ERR_INVAL, "the network has no input '%s'", name);
    }
    return STENO_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static steno_status time_runs(steno_session *s, long runs, double *ms, struct bench_result *r,
                              steno_err *err)
{
    double sum = 0;
    for (long i = -WARM_UP; i < runs; i++) {
        int64_t t = steno_now_ns();
        steno_status st = steno_session_run(s, err);
        double d = (double)(steno_now_ns() - t) / 1e6;
        if (st)
            return st;
        if (i == -WARM_UP)
            r->first_ms = d;
        if (i >= 0) {
            ms[i] = d;
            sum += d;
        }
    }
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    r->min_ms = ms[0];
    r->median_ms = runs % 2 ? ms[runs / 2] : (ms[runs / 2 - 1] + ms[runs / 2]) / 2;
    r->p99_ms = ms[(size_t)ceil((double)runs * 0.99) - 1];
    r->mean_ms = sum / (double)runs;
    return STENO_OK;
}

static void print_text(const struct bench_options *o, const struct bench_result *r)
{
    double gflops = r->flops / (r->median_ms * 1e6);
    printf("%s, %d thread%s\n", o->model, o->sess.threads, o->sess.threads > 1 ? "s" : "");
    printf("  load     %9.3f ms, first run %.3f ms, %zu nodes\n", r->load_ms, r->first_ms,
           r->nodes);
    printf("  median   %9.3f ms, min %.3f, mean %.3f, p99 %.3f (%ld runs)\n", r->median_ms,
           r->min_ms, r->mean_ms, r->p99_ms, o->runs);
    printf("  products %9.3f GFLOP, %.1f GFLOP/s, %.0f %% of this machine's peak\n", r->flops / 1e9,
           gflops, 100 * gflops * 1e9 / (r->peak * o->sess.threads));
    printf("  memory   weights %.2f MiB, activations %.2f MiB\n", (double)r->weights / 1048576,
           (double)r->arena / 1048576);
}

static void print_json(const struct bench_options *o, const struct bench_result *r)
{
    char cpu[128], levels[128];
    unsigned mask = 0;
    double gflops = r->flops / (r->median_ms * 1e6);
    if (steno_cpu_choose(o->net.cpu, &mask, NULL))
        mask = 0;
    steno_cpu_name(cpu, sizeof cpu);
    for (char *p = cpu; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = ' ';
    printf("{\"min_ms\": %.6f, \"median_ms\": %.6f, \"mean_ms\": %.6f, \"p99_ms\": %.6f, "
           "\"load_ms\": %.3f, \"first_ms\": %.3f, \"runs\": %ld, \"threads\": %d, "
           "\"precision\": \"fp32\", \"gflop\": %.6f, \"gflops\": %.3f, \"peak_gflops\": %.3f, "
           "\"peak_fraction\": %.4f, \"arena_bytes\": %zu, \"weights_bytes\": %zu, \"nodes\": %zu, "
           "\"misplans\": %zu, "
           "\"cpu\": \"%s\", \"level\": \"%s\"}\n",
           r->min_ms, r->median_ms, r->mean_ms, r->p99_ms, r->load_ms, r->first_ms, o->runs,
           o->sess.threads, r->flops / 1e9, gflops, r->peak / 1e9,
           r->peak > 0 ? gflops * 1e9 / (r->peak * o->sess.threads) : 0.0, r->arena, r->weights,
           r->nodes, r->misplans, cpu, steno_cpu_str(mask, levels, sizeof levels));
}

/* ---- --profile ---- */

#define MAX_KINDS 128
#define SLOWEST 20

struct kind {
    const char *type;
    double us, flops;
    int nodes;
};

static int by_time(const void *a, const void *b)
{
    double x = ((const struct kind *)a)->us, y = ((const struct kind *)b)->us;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int rows_by_time(const void *a, const void *b)
{
    int64_t x = ((const struct steno_profile_row *)a)->ns;
    int64_t y = ((const struct steno_profile_row *)b)->ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void add_kind(struct kind *kinds, int *n, const struct steno_profile_row *r)
{
    int k = 0;
    while (k < *n && strcmp(kinds[k].type, r->node->op_type))
        k++;
    if (k == MAX_KINDS)
        return;
    if (k == *n)
        kinds[(*n)++].type = r->node->op_type;
    kinds[k].us += (double)r->ns / 1e3 / (double)r->runs;
    kinds[k].flops += r->flops;
    kinds[k].nodes++;
}

static void print_profile(struct steno_profile_row *rows, int n)
{
    struct kind kinds[MAX_KINDS] = {0};
    double total = 0;
    int n_kinds = 0;
    for (int i = 0; i < n; i++) {
        add_kind(kinds, &n_kinds, &rows[i]);
        total += (double)rows[i].ns / 1e3 / (double)rows[i].runs;
    }
    qsort(kinds, (size_t)n_kinds, sizeof kinds[0], by_time);
    qsort(rows, (size_t)n, sizeof *rows, rows_by_time);
    printf("\n  operator                     nodes         us      %%   GFLOP/s\n");
    for (int i = 0; i < n_kinds; i++)
        printf("  %-28s %5d %10.2f %6.1f %9.1f\n", kinds[i].type, kinds[i].nodes, kinds[i].us,
               100 * kinds[i].us / total, kinds[i].flops / (kinds[i].us * 1e3));
    printf("\n  slowest nodes\n");
    for (int i = 0; i < n && i < SLOWEST; i++) {
        double us = (double)rows[i].ns / 1e3 / (double)rows[i].runs;
        printf("  %-28s %10.2f us %9.1f GFLOP/s  %.60s\n", rows[i].node->op_type, us,
               rows[i].flops / (us * 1e3), rows[i].node->name);
    }
}

static steno_status profile(const struct bench_options *o, steno_session *s, steno_err *err)
{
    struct steno_profile_row *rows, r;
    steno_status st = STENO_OK;
    int n = 0;
    steno_session_set_profile(s, true);
    for (long i = 0; !st && i < o->runs; i++)
        st = steno_session_run(s, err);
    steno_session_set_profile(s, false);
    if (st)
        return st;
    while (steno_session_profile(s, n, &r))
        n++;
    rows = calloc((size_t)n + 1, sizeof *rows);
    if (!rows)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < n; i++)
        (void)steno_session_profile(s, i, &rows[i]);
    print_profile(rows, n);
    free(rows);
    return STENO_OK;
}

static steno_status measure(const struct bench_options *o, steno_network *n, double *ms,
                            struct bench_result *r, steno_err *err)
{
    steno_session *s = NULL;
    void **data = calloc((size_t)steno_network_n_inputs(n) + 1, sizeof *data);
    steno_kernels k;
    unsigned mask;
    steno_status st =
        data ? check_shapes(o, n, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_session_open(&s, n, &o->sess, err);
    if (!st)
        st = set_inputs(o, n, s, data, err);
    if (!st)
        st = time_runs(s, o->runs, ms, r, err);
    if (!st)
        st = steno_cpu_choose(o->net.cpu, &mask, err);
    if (!st) {
        steno_kernels_init(&k, mask);
        r->peak = steno_peak_flops(&k);
        r->flops = steno_session_flops(s);
        r->arena = steno_session_arena_bytes(s);
        r->weights = steno_network_weight_bytes(n);
        r->misplans = steno_session_misplans(s);
        if (o->profile && !o->json)
            st = profile(o, s, err);
        r->nodes = steno_graph_count_nodes(steno_network_graph(n));
    }
    steno_session_close(s);
    for (int i = 0; data && i < steno_network_n_inputs(n); i++)
        steno_aligned_free(data[i]);
    free(data);
    return st;
}

static int bench(const struct bench_options *o)
{
    steno_err err = {0};
    steno_network *n = NULL;
    struct bench_result r = {0};
    double *ms = calloc((size_t)o->runs, sizeof *ms);
    int64_t t = steno_now_ns();
    steno_status st = ms ? steno_network_open(&n, o->model, &o->net, &err)
                         : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    r.load_ms = (double)(steno_now_ns() - t) / 1e6;
    if (!st)
        st = measure(o, n, ms, &r, &err);
    if (!st && o->json)
        print_json(o, &r);
    else if (!st)
        print_text(o, &r);
    steno_network_close(n);
    free(ms);
    return st ? cli_fail(&err) : EX_OK;
}

static int parse(int argc, char **argv, struct bench_options *o)
{
    static const char *const names[] = {
        "--shape",     "--runs",         "--threads", "--precision", "--cpu",
        "--opt-level", "--disable-pass", "--only", "!--json",   "!--profile",  NULL};
    struct cli_args a = {.argc = argc, .at = 1, .argv = argv};
    const char *v;
    long n;
    int c;
    while ((c = cli_next(&a, names, &v)) != CLI_END) {
        bool ok = true;
        switch (c) {
        case 0:
            if (o->n_shapes == MAX_SHAPES)
                return cli_usage("more than %d --shape options", MAX_SHAPES);
            o->shapes[o->n_shapes++] = v;
            break;
        case 1:
            ok = cli_int("--runs", v, 1, 1000000, &o->runs);
            break;
        case 2:
            if ((ok = cli_int("--threads", v, 1, 1024, &n)))
                o->sess.threads = (int)n;
            break;
        case 3:
            ok = cli_precision(v, &o->net.precision);
            break;
        case 4:
            o->net.cpu = v;
            break;
        case 5:
            if ((ok = cli_int("--opt-level", v, 0, 3, &n)))
                o->net.opt_level = (int)n;
            break;
        case 6:
            o->net.disable_passes = v;
            break;
        case 7:
            o->net.only_passes = v;
            break;
        case 8:
            o->json = true;
            break;
        case 9:
            o->profile = true;
            break;
        case CLI_POSITIONAL:
            if (o->model)
                return cli_usage("bench takes one model, '%s' is a second", v);
            o->model = v;
            break;
        case CLI_HELP:
            fputs(usage, stdout);
            return -1;
        default:
            ok = false;
        }
        if (!ok)
            return EX_USAGE;
    }
    return o->model ? EX_OK : cli_usage("bench needs a model");
}

int cli_bench(int argc, char **argv)
{
    struct bench_options o = {.runs = 20, .net.opt_level = -1, .sess.threads = 1};
    int rc = parse(argc, argv, &o);
    if (rc == EX_OK)
        rc = cli_readable(o.model);
    if (rc == EX_OK)
        rc = bench(&o);
    return rc < 0 ? EX_OK : rc;
}
