/* What values of a network are over samples: ranges for static quantization, and how far a
 * quantized network is from the one it was made of. */
#ifndef STENO_OPTIMIZE_CALIBRATE_H
#define STENO_OPTIMIZE_CALIBRATE_H

#include "nn/network/network.h"

/* What a network is run with: set gives sample i of n to a session, whose inputs are those of the
 * network, or says why that cannot be. */
struct steno_samples {
    int n;
    steno_status (*set)(void *arg, int i, steno_session *s, steno_err *err);
    void *arg;
};

enum steno_range_method {
    STENO_RANGE_MINMAX,    /* smallest and largest */
    STENO_RANGE_PERCENTILE /* a share of the values lies outside, half of it at either end */
};

struct steno_range {
    float lo, hi;
    bool seen;
    size_t broken; /* elements that are infinite or NaN, which do not count */
};

/* Ranges of f32 outputs place[0..count) of n over the samples, into out[count]. percentile: within
 * (50, 100]. STENO_ERR_INVAL, with the last reason, when n refuses every sample. */
STENO_MUST steno_status steno_calibrate(steno_network *n, const int *place, int count,
                                        const struct steno_samples *s,
                                        enum steno_range_method method, double percentile,
                                        struct steno_range *out, steno_err *err);

/* Of one value in both networks. */
struct steno_value_error {
    double max, sum, count; /* of |a - b| */
    double signal, noise;   /* sum a^2, sum (a - b)^2 */
    size_t broken;          /* a is finite, b is not */
    size_t skipped;         /* a is not finite */
};
double steno_value_error_mean(const struct steno_value_error *e);
/* 10 log10 (sum a^2 / sum (a - b)^2); HUGE_VAL without noise. */
double steno_value_error_db(const struct steno_value_error *e);

/* Outputs a_place[i] of a and b_place[i] of b, f32, over the samples that a does not refuse (their
 * number in *used). STENO_ERR_INVAL when it refuses all. */
STENO_MUST steno_status steno_values_compare(steno_network *a, const int *a_place, steno_network *b,
                                             const int *b_place, int count,
                                             const struct steno_samples *s,
                                             struct steno_value_error *out, int *used,
                                             steno_err *err);

#endif
