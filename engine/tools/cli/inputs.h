/* Synthetic inputs of a network, for bench, profile and verify. Shapes come from --shape and the
 * model; elements are random from a seed, within the range that the graph allows. */
#ifndef STENO_CLI_INPUTS_H
#define STENO_CLI_INPUTS_H

#include "tools/cli/options.h"

struct cli_inputs_options {
    struct cli_list shapes; /* "NAME=AxBxC" */
    struct cli_list values; /* "NAME=N": value of every element */
    int64_t batch;          /* for a free first dimension of rank >= 2 */
    int64_t length;         /* for every other free dimension */
    uint64_t seed;
};
#define CLI_INPUTS_OPTIONS(I)                                                                      \
    CLI_ROW("--shape", CLI_MANY, "NAME=AxBxC", &(I)->shapes, 0, 0,                                 \
            "shape of a graph input; NAME= alone is a scalar"),                                    \
        CLI_ROW("--value", CLI_MANY, "NAME=N", &(I)->values, 0, 0,                                 \
                "value of every element of a graph input")

struct cli_inputs {
    struct steno_tensor *t; /* one per graph input; data is owned */
    int n;
};
/* The text after "NAME=" for this input, or NULL. */
const char *cli_inputs_given(const struct cli_list *l, const char *name);
/* Make the inputs. Floats have mean 0 and variance 1. Integers that select rows of a constant are
 * within its range, those called lengths are `length`, and others are 1, like booleans.
 * STENO_ERR_INVAL names an option that is not an input, or an input without a shape. */
STENO_MUST steno_status cli_inputs_make(struct cli_inputs *in, const steno_network *n,
                                        const struct cli_inputs_options *o, steno_err *err);
STENO_MUST steno_status cli_inputs_set(const struct cli_inputs *in, steno_session *s,
                                       steno_err *err);
void cli_inputs_free(struct cli_inputs *in);

/* A network with inputs, ready to run. */
struct cli_opened {
    steno_network *n;
    steno_session *s;
    struct cli_inputs in;
    double load_ms;
};
/* Open it. *o: zeros; to be closed in any case. */
STENO_MUST steno_status cli_opened_open(struct cli_opened *o, const char *path,
                                        const struct cli_network *how,
                                        const struct cli_inputs_options *in, steno_err *err);
void cli_opened_close(struct cli_opened *o);

#endif
