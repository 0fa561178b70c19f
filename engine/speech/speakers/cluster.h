/* Agglomerative clustering of vectors by cosine distance. Pure. */
#ifndef STENO_SPEAKERS_CLUSTER_H
#define STENO_SPEAKERS_CLUSTER_H

#include "base/status.h"

struct steno_merge {
    uint32_t a, b; /* an item of each of the two clusters */
    float height;  /* their distance */
};

/* Write the n - 1 merges of n items, by height: the distance of two clusters is the mean over all
 * pairs of their members. distance: [n (n - 1) / 2], of items i < j at n i - i (i + 1) / 2 + j - i
 * - 1; it is overwritten. weight: [n], of each item in a mean, or NULL. O(n^2) by chains of nearest
 * neighbours (Muellner, "Modern hierarchical, agglomerative clustering algorithms", 2011).
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cluster_merges(float *distance, size_t n, const float *weight,
                                             struct steno_merge *out, steno_err *err);
/* Apply the first `merges` of them. label: [n], numbered by first appearance. Returns the number of
 * clusters. */
size_t steno_cluster_cut(const struct steno_merge *merge, size_t merges, size_t n, uint32_t *label);

/* Condensed distances max(0, 1 - cosine) of n vectors of unit length [n, dim]; a vector of zeros is
 * at distance 1 from all. */
void steno_cluster_distances(const float *unit, size_t n, size_t dim, float *distance);
/* Scale vectors [n, dim] to unit length; zeros stay. */
void steno_cluster_unit(float *x, size_t n, size_t dim);

#endif
