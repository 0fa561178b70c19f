/* Measured values, kept all, for exact quantiles. */
#ifndef STENO_LOADTEST_SAMPLES_H
#define STENO_LOADTEST_SAMPLES_H

#include <stddef.h>
#include <stdbool.h>

struct samples {
    double *v;
    size_t n, cap;
    bool sorted;
};

void samples_add(struct samples *s, double v); /* dropped when out of memory */
/* q in 0..1, nearest rank; 0 of nothing. */
double samples_quantile(struct samples *s, double q);
void samples_free(struct samples *s);

#endif
