/* What values of a network are over samples: ranges for static quantization, and how far a
 * quantized network is from the one it was made of. */
#ifndef STENO_CLI_CALIBRATE_H
#define STENO_CLI_CALIBRATE_H

#include "cli/samples.h"

enum range_method {
    RANGE_MINMAX,    /* smallest and largest */
    RANGE_PERCENTILE /* a share of the values lies outside, half of it at either end */
};

struct range {
    float lo, hi;
    bool seen;
};

/* Ranges of f32 outputs place[0..count) of n over the samples, into out[count]. percentile: within
 * (50, 100]. STENO_ERR_INVAL, with the last reason, when n refuses every sample. */
STENO_MUST steno_status calibrate(steno_network *n, const int *place, int count,
                                  const struct samples *s, enum range_method method,
                                  double percentile, struct range *out, steno_err *err);

/* Of one value in both networks. */
struct value_error {
    double max, sum, count; /* of |a - b| */
    double square, lost;    /* sum a^2, sum (a - b)^2 */
};
double value_error_mean(const struct value_error *e);
/* 10 log10 (sum a^2 / sum (a - b)^2); HUGE_VAL when nothing is lost. */
double value_error_db(const struct value_error *e);

/* Outputs a_place[i] of a and b_place[i] of b, f32, over the samples that a does not refuse (their
 * number in *used). STENO_ERR_INVAL when it refuses all. */
STENO_MUST steno_status compare_values(steno_network *a, const int *a_place, steno_network *b,
                                       const int *b_place, int count, const struct samples *s,
                                       struct value_error *out, int *used, steno_err *err);

#endif
