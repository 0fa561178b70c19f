/* Collects and prints the time per node of a network. */
#ifndef STENO_CLI_PROFILE_H
#define STENO_CLI_PROFILE_H

#include "nn/network/network.h"

struct profile_row {
    const char *type, *name, *layer; /* layer: from regions or names */
    double us;                       /* minimum over the runs */
    double flops, bytes;             /* of one run */
    double bound_us;                 /* minimum time for these flops and bytes on this machine */
    int nodes;
};
struct profile {
    struct profile_row *rows;   /* in running order */
    struct profile_row *kinds;  /* by operator, slowest first */
    struct profile_row *layers; /* in order of the model */
    char *names;                /* layers' names */
    int n_rows, n_kinds, n_layers;
    double us, flops, bytes, bound_us;
    double peak_flops, bandwidth; /* of the machine: per s, all threads */
};

/* Run `runs` times and collect. The caller sets peak_flops and bandwidth before. */
STENO_MUST steno_status profile_take(struct profile *p, steno_session *s, long runs,
                                     steno_err *err);
void profile_free(struct profile *p);
/* Print tables: operators, layers, the `slowest` slowest nodes. */
void profile_print(const struct profile *p, int slowest);
void profile_print_json(const struct profile *p);
/* Write Chrome's trace event format (about:tracing, Perfetto): one run of mean times. */
STENO_MUST steno_status profile_write_trace(const struct profile *p, const char *path,
                                            steno_err *err);

#endif
