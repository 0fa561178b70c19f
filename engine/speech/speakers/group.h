/* Which speakers of all windows are the same person. Pure.
 *
 * Vectors of short stretches are poor, so only long ones are clustered, by average linkage. Then
 * every speaker of a window goes to the cluster with the nearest mean, and those of one window to
 * different clusters. For means of unit vectors, 1 - their product is the mean distance of all
 * pairs, so items that were merged in a first stage count exactly as their members would: a long
 * recording is first clustered in blocks, up to a small distance, and never has all distances in
 * memory. docs/speakers.md says what else was tried. */
#ifndef STENO_SPEAKERS_GROUP_H
#define STENO_SPEAKERS_GROUP_H

#include "base/status.h"

/* A speaker of a window. */
struct steno_group_item {
    uint32_t window;
    float seconds;     /* of clean speech behind its vector */
    float new_seconds; /* of these, in no earlier window */
    uint8_t speaker;
    int32_t cluster; /* out */
};

struct steno_group_items {
    struct steno_group_item *item; /* [n], by window */
    float *vector;                 /* [n, dim], finite; scaled to unit length by steno_group */
    size_t n, dim;
};

struct steno_group_rules {
    double threshold; /* cosine distance */
    double share;     /* of an item's seconds that no other window has too: hop / window */
    int speakers, min_speakers, max_speakers; /* 0 = not known, no bound */
};

/* Give each item a cluster, from 0 up to *clusters - 1. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_group(struct steno_group_items *g,
                                    const struct steno_group_rules *rules, int *clusters,
                                    steno_err *err);

#endif
