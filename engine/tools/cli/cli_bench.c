/* steno bench: time of one network at given input shapes. */
#include "base/clock.h"
#include "base/cpu.h"
#include "tools/cli/inputs.h"
#include "nn/ops/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define WARM_UP 3

static const char usage[] =
    "Usage: steno bench MODEL.onnx [--shape NAME=AxBxC]...\n"
    "\n"
    "Times an ONNX network. Inputs without --shape get 1 for every free dimension; floats are\n"
    "random (seeded), integers 1, or random rows where they select rows of a table.\n"
    "steno profile shows where the time goes.\n";

struct bench_options {
    const char *model;
    long runs;
    bool json;
    struct cli_inputs_options in;
    struct cli_network n;
};

struct bench_result {
    double min_ms, median_ms, mean_ms, p99_ms, load_ms, first_ms;
    double cpu_ms; /* median of this thread's processor time: all of it with one thread */
    double flops, peak;
    size_t arena, weights, nodes, misplans;
    struct steno_precision_report precision;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *sorted, long n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ms: [2 * runs], the second half for processor times. */
static steno_status time_runs(steno_session *s, long runs, double *ms, struct bench_result *r,
                              steno_err *err)
{
    double sum = 0, *cpu = ms + runs;
    for (long i = -WARM_UP; i < runs; i++) {
        int64_t t = steno_now_ns(), own = steno_thread_ns();
        steno_status st = steno_session_run(s, err);
        double d = (double)(steno_now_ns() - t) / 1e6;
        if (st)
            return st;
        if (i == -WARM_UP)
            r->first_ms = d;
        if (i >= 0) {
            ms[i] = d;
            cpu[i] = (double)(steno_thread_ns() - own) / 1e6;
            sum += d;
        }
    }
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    qsort(cpu, (size_t)runs, sizeof *cpu, by_value);
    r->cpu_ms = median(cpu, runs);
    r->min_ms = ms[0];
    r->median_ms = median(ms, runs);
    r->p99_ms = ms[(size_t)ceil((double)runs * 0.99) - 1];
    r->mean_ms = sum / (double)runs;
    return STENO_OK;
}

static void print_text(const struct bench_options *o, const struct bench_result *r)
{
    double gflops = r->flops / (r->median_ms * 1e6);
    printf("%s, %d thread%s\n", o->model, o->n.sess.threads, o->n.sess.threads > 1 ? "s" : "");
    printf("  load     %9.3f ms, first run %.3f ms, %zu nodes\n", r->load_ms, r->first_ms,
           r->nodes);
    printf("  median   %9.3f ms, min %.3f, mean %.3f, p99 %.3f (%ld runs)\n", r->median_ms,
           r->min_ms, r->mean_ms, r->p99_ms, o->runs);
    printf("  products %9.3f GFLOP, %.1f GFLOP/s, %.0f %% of this machine's peak\n", r->flops / 1e9,
           gflops, 100 * gflops * 1e9 / (r->peak * o->n.sess.threads));
    printf("  memory   weights %.2f MiB, activations %.2f MiB\n", (double)r->weights / 1048576,
           (double)r->arena / 1048576);
    if (r->precision.lowered)
        printf("  %-8s %d of %d products, weights off by %.3f %% rms, worst %.3f %% (%s)\n",
               steno_precision_name(r->precision.kept), r->precision.lowered, r->precision.products,
               100 * r->precision.error, 100 * r->precision.worst, r->precision.worst_node);
    if (r->precision.overflowed)
        printf("  f32      %d products whose weights overflow in %s, first %s\n",
               r->precision.overflowed, steno_precision_name(r->precision.kept),
               r->precision.overflowed_node);
}

static void print_json(const struct bench_options *o, const struct bench_result *r)
{
    char cpu[128], levels[128];
    unsigned mask = 0;
    double gflops = r->flops / (r->median_ms * 1e6);
    if (steno_cpu_choose(o->n.net.cpu, &mask, NULL))
        mask = 0;
    steno_cpu_name(cpu, sizeof cpu);
    for (char *p = cpu; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = ' ';
    printf(
        "{\"min_ms\": %.6f, \"median_ms\": %.6f, \"mean_ms\": %.6f, \"p99_ms\": %.6f, "
        "\"cpu_ms\": %.6f, \"load_ms\": %.3f, \"first_ms\": %.3f, \"runs\": %ld, \"threads\": %d, "
        "\"precision\": \"%s\", \"gflop\": %.6f, \"gflops\": %.3f, \"peak_gflops\": %.3f, "
        "\"peak_fraction\": %.4f, \"arena_bytes\": %zu, \"weights_bytes\": %zu, \"nodes\": %zu, "
        "\"misplans\": %zu, "
        "\"cpu\": \"%s\", \"level\": \"%s\"}\n",
        r->min_ms, r->median_ms, r->mean_ms, r->p99_ms, r->cpu_ms, r->load_ms, r->first_ms, o->runs,
        o->n.sess.threads, steno_precision_name(o->n.net.precision), r->flops / 1e9, gflops,
        r->peak / 1e9, r->peak > 0 ? gflops * 1e9 / (r->peak * o->n.sess.threads) : 0.0, r->arena,
        r->weights, r->nodes, r->misplans, cpu, steno_cpu_str(mask, levels, sizeof levels));
}

static steno_status measure(const struct bench_options *o, const struct cli_opened *x, double *ms,
                            struct bench_result *r, steno_err *err)
{
    steno_kernels k;
    unsigned mask;
    steno_status st = time_runs(x->s, o->runs, ms, r, err);
    if (!st)
        st = steno_cpu_choose(o->n.net.cpu, &mask, err);
    if (st)
        return st;
    steno_kernels_init(&k, mask);
    r->load_ms = x->load_ms;
    r->peak = cli_network_peak(steno_network_precision(x->n), &k);
    r->flops = steno_session_flops(x->s);
    r->arena = steno_session_arena_bytes(x->s) + steno_session_plan_constant_bytes(x->s);
    r->weights = steno_network_weight_bytes(x->n);
    r->precision = *steno_network_precision(x->n);
    r->misplans = steno_session_misplans(x->s);
    r->nodes = steno_graph_count_nodes(steno_network_graph(x->n));
    return STENO_OK;
}

static int bench(const struct bench_options *o)
{
    steno_err err = {0};
    struct cli_opened x = {0};
    struct bench_result r = {0};
    double *ms = calloc((size_t)o->runs, 2 * sizeof *ms);
    steno_status st = ms ? cli_opened_open(&x, o->model, &o->n, &o->in, &err)
                         : steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = measure(o, &x, ms, &r, &err);
    if (!st && o->json)
        print_json(o, &r);
    else if (!st)
        print_text(o, &r);
    cli_opened_close(&x);
    free(ms);
    return st ? cli_fail(&err) : EX_OK;
}

int cli_bench(int argc, char **argv)
{
    struct bench_options o = {
        .runs = 20, .in = {.batch = 1, .length = 1, .seed = 1}, .n = CLI_NETWORK_INIT};
    const struct cli_option options[] = {
        CLI_INPUTS_OPTIONS(&o.in),
        {"--runs", CLI_NUMBER, "N", &o.runs, 1, 1000000,
         "timed runs after 3 for warm-up, 20 by default"},
        {"--json", CLI_FLAG, NULL, &o.json, 0, 0, "one JSON object instead of text"},
        CLI_NETWORK_OPTIONS(&o.n),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &o.model, 1, &n);
    rc = cli_network_resolve(&o.n, rc);
    if (rc == EX_OK && !o.model)
        rc = cli_usage("bench needs a model");
    if (rc == EX_OK)
        rc = cli_readable(o.model);
    if (rc == EX_OK)
        rc = bench(&o);
    cli_list_free(&o.in.shapes);
    cli_list_free(&o.in.values);
    return rc;
}
