#include "speakers/group.h"

#include <stdlib.h>

#include "speakers/cluster.h"

static int bounded(const struct steno_group_rules *r, size_t n)
{
    const int found = n < INT32_MAX ? (int)n : INT32_MAX;
    if (r->speakers)
        return r->speakers;
    if (r->min_speakers && found < r->min_speakers)
        return r->min_speakers;
    return r->max_speakers && found > r->max_speakers ? r->max_speakers : found;
}

static steno_status as_sherpa(struct steno_group_items *g, const struct steno_group_rules *r,
                              int *clusters, steno_err *err)
{
    float *distance = malloc((g->n * (g->n - 1) / 2 + 1) * sizeof *distance);
    struct steno_merge *merge = malloc(g->n * sizeof *merge);
    uint32_t *label = malloc(g->n * sizeof *label);
    steno_status st = distance && merge && label
                          ? STENO_OK
                          : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    if (!st) {
        steno_cluster_distances(g->vector, g->n, g->dim, distance);
        st = steno_cluster_merges(distance, g->n, STENO_LINKAGE_COMPLETE, NULL, merge, err);
    }
    if (!st) {
        size_t merges = 0, k;
        while (merges + 1 < g->n && (double)merge[merges].height < r->threshold)
            merges++;
        k = (size_t)bounded(r, g->n - merges);
        merges = k > g->n || k < 2 ? g->n - 1 : g->n - k;
        *clusters = (int)steno_cluster_cut(merge, merges, g->n, label);
        for (size_t i = 0; i < g->n; i++)
            g->item[i].cluster = (int32_t)label[i];
    }
    free(distance);
    free(merge);
    free(label);
    return st;
}

steno_status steno_group(struct steno_group_items *g, const struct steno_group_rules *rules,
                         int *clusters, steno_err *err)
{
    *clusters = 0;
    if (!g->n)
        return STENO_OK;
    steno_cluster_unit(g->vector, g->n, g->dim);
    return as_sherpa(g, rules, clusters, err);
}
