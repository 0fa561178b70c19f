#include "loadtest/support/histogram.h"

#include <math.h>

#define SUB (1u << HISTOGRAM_BITS)
#define LARGEST ((1ull << 40) - 1)

/* Values below SUB have a bucket each. Above, the HISTOGRAM_BITS bits after the leading one choose
 * a bucket within the power of two. */
static unsigned bucket_of(uint64_t us)
{
    unsigned shift;
    if (us < SUB)
        return (unsigned)us;
    shift = 63 - (unsigned)__builtin_clzll(us) - HISTOGRAM_BITS;
    return ((shift + 1) << HISTOGRAM_BITS) + (unsigned)(us >> shift) - SUB;
}

/* The largest value of the bucket. */
static uint64_t upper(unsigned bucket)
{
    unsigned shift = bucket >> HISTOGRAM_BITS;
    if (!shift)
        return bucket;
    return ((uint64_t)(SUB + (bucket & (SUB - 1)) + 1) << (shift - 1)) - 1;
}

void histogram_add(struct histogram *h, double ms)
{
    double us = fmax(0, ms) * 1e3;
    h->count[bucket_of(us > (double)LARGEST ? LARGEST : (uint64_t)us)]++;
    h->n++;
    h->sum_ms += fmax(0, ms);
    h->max_ms = fmax(h->max_ms, ms);
}

double histogram_quantile(const struct histogram *h, double q)
{
    uint64_t rank = (uint64_t)ceil(q * (double)h->n), seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->count[i];
        if (seen && seen >= rank)
            return fmin((double)upper(i) * 1e-3, h->max_ms);
    }
    return 0;
}

double histogram_mean(const struct histogram *h)
{
    return h->n ? h->sum_ms / (double)h->n : 0;
}
