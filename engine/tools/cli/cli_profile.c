/* steno profile: show where the time of a network goes. */
#include "base/cpu.h"
#include "tools/cli/inputs.h"
#include "tools/cli/profile.h"
#include "nn/kernels/peak.h"

#include <stdio.h>
#include <sysexits.h>

static const char usage[] =
    "Usage: steno profile MODEL.onnx [--shape NAME=AxBxC]...\n"
    "\n"
    "Prints the time by operator, by layer and of the slowest nodes, with rates and the share of\n"
    "this machine's limit: the larger of the times that the arithmetic and the bytes would take "
    "at\n"
    "the peak. With one thread it is processor time. Inputs are those of steno bench.\n";

struct profile_options {
    const char *model, *trace;
    long runs, slowest;
    bool json;
    struct cli_inputs_options in;
    struct cli_network n;
};

static steno_status profile_network(const struct profile_options *o, const steno_network *n,
                                    steno_session *s, steno_err *err)
{
    struct profile p = {.n_rows = 0};
    steno_kernels k;
    unsigned mask;
    steno_status st = steno_cpu_choose(o->n.net.cpu, &mask, err);
    if (st)
        return st;
    steno_kernels_init(&k, mask);
    p.peak_flops = cli_network_peak(steno_network_precision(n), &k) * o->n.sess.threads;
    p.bandwidth = steno_peak_bandwidth();
    st = steno_session_run(s, err); /* makes the plan */
    if (!st)
        st = profile_take(&p, s, o->runs, err);
    if (!st && o->json)
        profile_print_json(&p);
    else if (!st)
        profile_print(&p, (int)o->slowest);
    if (!st && o->trace)
        st = profile_write_trace(&p, o->trace, err);
    profile_free(&p);
    return st;
}

static int profile(const struct profile_options *o)
{
    steno_err err = {0};
    struct cli_opened x = {0};
    steno_status st = cli_opened_open(&x, o->model, &o->n, &o->in, &err);
    if (!st)
        st = profile_network(o, x.n, x.s, &err);
    cli_opened_close(&x);
    return st ? cli_fail(&err) : EX_OK;
}

int cli_profile(int argc, char **argv)
{
    struct profile_options o = {.runs = 20,
                                .slowest = 20,
                                .in = {.batch = 1, .length = 1, .seed = 1},
                                .n = CLI_NETWORK_INIT};
    const struct cli_option options[] = {
        CLI_INPUTS_OPTIONS(&o.in),
        {"--runs", CLI_NUMBER, "N", &o.runs, 1, 1000000, "timed runs, 20 by default"},
        {"--slowest", CLI_NUMBER, "N", &o.slowest, 0, 1000000,
         "number of listed nodes, 20 by default"},
        {"--json", CLI_FLAG, NULL, &o.json, 0, 0, "every node, as one JSON object"},
        {"--trace", CLI_TEXT, "FILE", &o.trace, 0, 0,
         "also write FILE for chrome://tracing or Perfetto"},
        CLI_NETWORK_OPTIONS(&o.n),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &o.model, 1, &n);
    rc = cli_network_resolve(&o.n, rc);
    if (rc == EX_OK && !o.model)
        rc = cli_usage("profile needs a model");
    if (rc == EX_OK)
        rc = cli_readable(o.model);
    if (rc == EX_OK)
        rc = profile(&o);
    cli_list_free(&o.in.shapes);
    cli_list_free(&o.in.values);
    return rc;
}
