/* Vectors that are clustered by average linkage, in two stages where they are many, and the means
 * of the clusters. Pure. */
#ifndef STENO_SPEAKERS_NODES_H
#define STENO_SPEAKERS_NODES_H

#include "speech/speakers/group.h"

/* Each node is some vectors that were merged; confined. Zeros but for dim: empty. */
struct steno_nodes {
    size_t n, dim;
    float *sum;       /* [n, dim] of its unit vectors */
    float *talk;      /* [n, dim] of them, each times its seconds */
    float *members;   /* [n] */
    float *seconds;   /* [n] */
    uint32_t *window; /* [n] that its one vector is of, or STENO_NODES_MERGED */
    size_t cap_sum, cap_talk, cap_members, cap_seconds, cap_window;
};

#define STENO_NODES_MOST 4000 /* of the last stage: 32 MB of distances */
#define STENO_NODES_MERGED UINT32_MAX

/* Add a vector [dim] of unit length. Two of one window, added one after the other, are two people:
 * they are as far apart as vectors can be. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_nodes_add(struct steno_nodes *t, const float *unit, float seconds,
                                        uint32_t window, steno_err *err);
/* Cluster them, find the number of clusters, and write the mean of each, weighted by seconds and
 * of unit length: *mean [*k, dim], which the caller frees. The nodes are merged. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_nodes_means(struct steno_nodes *t, const struct steno_group_rules *r,
                                          float **mean, int *k, steno_err *err);
void steno_nodes_free(struct steno_nodes *t);

#endif
