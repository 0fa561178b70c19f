/* Durations in buckets that are 1/128 of their value wide, so that quantiles of any number of them
 * are right to 0.8 % and take constant memory: the idea of Gil Tene's HdrHistogram. Confined. */
#ifndef STENO_LOADTEST_HISTOGRAM_H
#define STENO_LOADTEST_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BITS 7 /* 2^7 buckets to a power of two */
#define HISTOGRAM_BUCKETS ((40 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

struct histogram {
    uint64_t n;
    double sum_ms, max_ms;
    uint64_t count[HISTOGRAM_BUCKETS]; /* by microseconds, up to 2^40 */
};

void histogram_add(struct histogram *h, double ms); /* below 0 counts as 0 */
/* ms; q in 0..1, nearest rank, the upper edge of its bucket, at most the largest value; 0 of
 * nothing. */
double histogram_quantile(const struct histogram *h, double q);
double histogram_mean(const struct histogram *h);

#endif
