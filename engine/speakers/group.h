/* Which speakers of all windows are the same person. Pure. */
#ifndef STENO_SPEAKERS_GROUP_H
#define STENO_SPEAKERS_GROUP_H

#include "base/status.h"

/* A speaker of a window. */
struct steno_group_item {
    uint32_t window;
    uint32_t frames; /* of clean speech behind its vector */
    uint8_t speaker;
    int32_t cluster; /* out */
};

struct steno_group_items {
    struct steno_group_item *item; /* [n], by window */
    float *vector;                 /* [n, dim], finite; scaled to unit length by steno_group */
    size_t n, dim;
};

struct steno_group_rules {
    bool sherpa;      /* complete linkage of all items, as sherpa-onnx 2.0.1 */
    double threshold; /* cosine distance */
    int speakers, min_speakers, max_speakers; /* 0 = not known, no bound */
};

/* Give each item a cluster, from 0 up to *clusters - 1. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_group(struct steno_group_items *g,
                                    const struct steno_group_rules *rules, int *clusters,
                                    steno_err *err);

#endif
