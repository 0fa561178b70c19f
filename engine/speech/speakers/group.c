#include "speech/speakers/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/cluster.h"
#include "speech/speakers/nodes.h"
#include "speech/speakers/powerset.h"

#define LONG_SECONDS 1.0f /* shorter items are not clustered */

/* ---- the nearest means, different ones in a window ------------------------------------------- */

struct choice {
    const float *mean; /* [k, dim] of unit length */
    int k;
    size_t dim, n;                                                   /* items of the window */
    int candidate[STENO_POWERSET_SPEAKERS][STENO_POWERSET_SPEAKERS]; /* the n nearest of each */
    float cosine[STENO_POWERSET_SPEAKERS][STENO_POWERSET_SPEAKERS];
    int n_candidates;
    int now[STENO_POWERSET_SPEAKERS], best[STENO_POWERSET_SPEAKERS];
    float best_sum;
};

static void find_candidates(struct choice *c, size_t i, const float *vector)
{
    const int most = c->k < (int)c->n ? c->k : (int)c->n;
    int have = 0;
    for (int k = 0; k < c->k; k++) {
        float cosine = 0;
        int at = have;
        for (size_t d = 0; d < c->dim; d++)
            cosine += vector[d] * c->mean[(size_t)k * c->dim + d];
        for (; at > 0 && c->cosine[i][at - 1] < cosine; at--)
            if (at < most) {
                c->cosine[i][at] = c->cosine[i][at - 1];
                c->candidate[i][at] = c->candidate[i][at - 1];
            }
        if (at < most) {
            c->cosine[i][at] = cosine;
            c->candidate[i][at] = k;
            have += have < most;
        }
    }
    c->n_candidates = most;
}

/* Try all ways in which items from i on take different means. With fewer means than items some
 * have none. */
static void choose_group(struct choice *c, size_t i, float sum)
{
    if (i == c->n) {
        if (sum > c->best_sum) {
            c->best_sum = sum;
            memcpy(c->best, c->now, sizeof c->best);
        }
        return;
    }
    for (int q = 0; q < c->n_candidates; q++) {
        bool taken = false;
        c->now[i] = c->candidate[i][q];
        for (size_t j = 0; j < i; j++)
            taken |= c->now[j] == c->now[i];
        if (!taken)
            choose_group(c, i + 1, sum + c->cosine[i][q]);
    }
    if (c->k < (int)c->n) {
        c->now[i] = -1;
        choose_group(c, i + 1, sum - 10);
    }
}

static void assign(struct steno_group_items *g, const float *mean, int k)
{
    for (size_t i = 0, n; i < g->n; i += n) {
        struct choice c = {.mean = mean, .k = k, .dim = g->dim, .best_sum = -INFINITY};
        for (n = 1; i + n < g->n && n < STENO_POWERSET_SPEAKERS &&
                    g->item[i + n].window == g->item[i].window;)
            n++;
        c.n = n;
        for (size_t j = 0; j < n; j++)
            find_candidates(&c, j, g->vector + (i + j) * g->dim);
        choose_group(&c, 0, 0);
        for (size_t j = 0; j < n; j++)
            g->item[i + j].cluster = c.best[j] >= 0 ? c.best[j] : c.candidate[j][0];
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

steno_status steno_group(struct steno_group_items *g, const struct steno_group_rules *rules,
                         int *clusters, steno_err *err)
{
    struct steno_nodes nodes = {.dim = g->dim};
    float *mean = NULL;
    size_t n_long = 0;
    steno_status st = STENO_OK;
    *clusters = 0;
    if (!g->n)
        return STENO_OK;
    steno_cluster_unit(g->vector, g->n, g->dim);
    for (size_t i = 0; i < g->n; i++)
        n_long += g->item[i].seconds >= LONG_SECONDS;
    for (size_t i = 0; !st && i < g->n; i++)
        if (n_long < 2 || g->item[i].seconds >= LONG_SECONDS)
            st = steno_nodes_add(&nodes, g->vector + i * g->dim, g->item[i].seconds,
                                 g->item[i].window, err);
    if (!st)
        st = steno_nodes_means(&nodes, rules, &mean, clusters, err);
    if (!st)
        assign(g, mean, *clusters);
    free(mean);
    steno_nodes_free(&nodes);
    return st;
}
