/* Durations in buckets of 1/128 of their value, so that quantiles of any number of values are
 * accurate to 0.8 % in constant memory: the idea of Gil Tene's HdrHistogram. Confined. */
#ifndef STENO_LOADTEST_HISTOGRAM_H
#define STENO_LOADTEST_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BITS 7 /* 2^7 buckets per power of two */
#define HISTOGRAM_BUCKETS ((40 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

struct histogram {
    uint64_t n;
    double sum_ms, max_ms;
    uint64_t count[HISTOGRAM_BUCKETS]; /* by microseconds, up to 2^40 */
};

void histogram_add(struct histogram *h, double ms); /* below 0 counts as 0 */
/* Return ms for q in 0..1: nearest rank, the upper edge of its bucket, at most the largest value; 0
 * if empty. */
double histogram_quantile(const struct histogram *h, double q);
double histogram_mean(const struct histogram *h);

#endif
