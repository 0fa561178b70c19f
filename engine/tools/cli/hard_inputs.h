/* Inputs at which wrong rewrites of a network show: numbers from 1e-30 to 1e30, zeros, NaN,
 * infinities, a single outlier, rows of equal numbers. For `steno verify`. */
#ifndef STENO_CLI_HARD_INPUTS_H
#define STENO_CLI_HARD_INPUTS_H

#include "tools/cli/inputs.h"

enum hard_kind {
    HARD_LARGE,   /* 1e30 */
    HARD_HUNDRED, /* 100 */
    HARD_SMALL,   /* 1e-30 */
    HARD_ZEROS,
    HARD_OUTLIER, /* one number of 1000 */
    HARD_EQUAL,   /* equal numbers along the last axis */
    HARD_OFFSET,  /* 50 more */
    HARD_NAN,     /* one */
    HARD_INFINITY,
    HARD_KINDS
};

/* Text for reports. */
const char *hard_inputs_name(enum hard_kind kind);
/* Change the f32 and f64 inputs that cli_inputs_make made, except those of --value. Returns the
 * number of inputs that it changed. */
int hard_inputs_make(struct cli_inputs *in, const steno_network *n,
                     const struct cli_inputs_options *o, enum hard_kind kind);
/* Change each number of those inputs at random, either way, by up to the relative amount `by`. */
void hard_inputs_disturb(struct cli_inputs *in, uint64_t seed, double by);

#endif
