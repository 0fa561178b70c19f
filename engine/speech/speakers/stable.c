#include "speech/speakers/stable.h"
#include "speech/speakers/cluster.h"

#include <stdlib.h>
#include <string.h>

#define LONG_SECONDS 1.0f /* shorter items are not kept, as they are not clustered */
#define MOSTLY 0.8        /* of a label's seconds that are in a cluster, to merge it */

steno_status steno_stable_init(struct steno_stable *l, size_t dim,
                               const struct steno_stable_rules *rules, steno_err *err)
{
    const size_t most = STENO_STABLE_ITEMS + STENO_POWERSET_SPEAKERS;
    l->rules = *rules;
    l->items.dim = dim;
    l->items.item = calloc(most, sizeof *l->items.item);
    l->items.vector = calloc(most * dim, sizeof *l->items.vector);
    return l->items.item && l->items.vector
               ? STENO_OK
               : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
}

void steno_stable_free(struct steno_stable *l)
{
    free(l->items.item);
    free(l->items.vector);
}

int steno_stable_resolve(const struct steno_stable *l, int label)
{
    while (l->is[label] != label)
        label = l->is[label];
    return label;
}

/* Seconds of the items of each cluster that were told with each label. */
struct votes {
    double of[STENO_LIVE_SPEAKERS][STENO_LIVE_SPEAKERS]; /* [clusters, labels] */
    int label[STENO_LIVE_SPEAKERS];                      /* of each cluster */
};

static void count_votes(const struct steno_stable *l, struct votes *v)
{
    for (size_t i = 0; i < l->items.n; i++) {
        const int32_t c = l->items.item[i].cluster;
        if (l->shown[i] >= 0 && c >= 0 && c < STENO_LIVE_SPEAKERS)
            v->of[c][steno_stable_resolve(l, l->shown[i])] += (double)l->items.item[i].seconds;
    }
}

/* Give each cluster a label of its own: the greatest agreement first. */
static void name_clusters(const struct steno_stable *l, struct votes *v, int clusters)
{
    bool taken[STENO_LIVE_SPEAKERS] = {false};
    for (int c = 0; c < clusters; c++)
        v->label[c] = -1;
    for (;;) {
        double most = 0;
        int at = 0, label = 0;
        for (int c = 0; c < clusters; c++)
            for (int k = 0; k < l->n && v->label[c] < 0; k++)
                if (!taken[k] && v->of[c][k] > most)
                    most = v->of[c][k], at = c, label = k;
        if (!(most > 0))
            return;
        v->label[at] = label;
        taken[label] = true;
    }
}

/* The cluster that has most of a label's seconds, if these are enough to judge. -1: none. */
static int home(const struct steno_stable *l, const struct votes *v, int clusters, int label)
{
    double all = 0;
    int best = 0;
    for (int c = 0; c < clusters; c++) {
        all += v->of[c][label];
        best = v->of[c][label] > v->of[best][label] ? c : best;
    }
    return all > 0 && all >= l->rules.merge_after && v->of[best][label] >= MOSTLY * all ? best : -1;
}

/* Merge labels that are in one cluster into the earliest of them. */
static void merge_labels(struct steno_stable *l, struct votes *v, int clusters)
{
    for (int b = 1; b < l->n; b++) {
        const int c = l->is[b] == b ? home(l, v, clusters, b) : -1;
        int a = 0;
        while (a < b && (c < 0 || l->is[a] != a || home(l, v, clusters, a) != c))
            a++;
        if (a == b)
            continue;
        l->is[b] = a;
        l->merges[l->n_merges++] = (struct steno_live_merge){.speaker = b, .is = a};
        for (int k = 0; k < clusters; k++) {
            v->of[k][a] += v->of[k][b];
            v->of[k][b] = 0;
        }
    }
}

double steno_stable_voice(const struct steno_stable *l, int label, float *out)
{
    const struct steno_group_items *t = &l->items;
    double seconds = 0;
    memset(out, 0, t->dim * sizeof *out);
    for (size_t i = 0; i < t->n; i++) {
        if (l->shown[i] < 0 || steno_stable_resolve(l, l->shown[i]) != label)
            continue;
        for (size_t d = 0; d < t->dim; d++)
            out[d] += t->vector[i * t->dim + d] * t->item[i].seconds;
        seconds += (double)t->item[i].seconds;
    }
    steno_cluster_unit(out, 1, t->dim);
    return seconds;
}

int steno_stable_before(const struct steno_stable *l, const struct steno_stable_voice *v,
                        const bool *taken)
{
    size_t all = 0;
    int best = 0;
    for (int k = 0; k < l->n; k++) {
        all += v->had[k];
        best = v->had[k] > v->had[best] ? k : best;
    }
    return all && 2 * v->had[best] > all && !taken[best] ? best : -1;
}

/* The label that is not taken whose items before `n` are nearest to item i on the mean: *distance
 * is that. -1: none. */
static int nearest_label(const struct steno_stable *l, size_t n, size_t i, const bool *taken,
                         double *distance)
{
    const struct steno_group_items *t = &l->items;
    double sum[STENO_LIVE_SPEAKERS] = {0};
    size_t count[STENO_LIVE_SPEAKERS] = {0};
    int best = -1;
    for (size_t j = 0; j < n; j++) {
        const int label = l->shown[j] < 0 ? -1 : steno_stable_resolve(l, l->shown[j]);
        if (label < 0 || taken[label])
            continue;
        for (size_t d = 0; d < t->dim; d++)
            sum[label] += (double)(t->vector[i * t->dim + d] * t->vector[j * t->dim + d]);
        count[label]++;
    }
    for (int k = 0; k < l->n; k++)
        if (count[k] && (best < 0 || 1 - sum[k] / (double)count[k] < *distance)) {
            *distance = 1 - sum[k] / (double)count[k];
            best = k;
        }
    return best;
}

/* The label of a voice whose cluster has none: the one that it had, the nearest, or a new one. i:
 * its item, of those from `first` on. -1: there are no more. */
static int find_label(struct steno_stable *l, const struct steno_stable_voice *v, size_t i,
                      size_t first, const bool *taken)
{
    double distance = 2;
    const int had = steno_stable_before(l, v, taken);
    const int near = had < 0 ? nearest_label(l, first, i, taken, &distance) : had;
    const bool may = l->n < l->rules.max_speakers && (!l->n || v->seconds >= l->rules.first);
    if (had >= 0 || !may || (near >= 0 && distance < l->rules.apart))
        return near;
    l->is[l->n] = l->n;
    return l->n++;
}

/* Keep item i as the next. */
static void keep_item(struct steno_stable *l, size_t i)
{
    struct steno_group_items *t = &l->items;
    t->item[t->n] = t->item[i];
    l->shown[t->n] = l->shown[i];
    memmove(t->vector + t->n * t->dim, t->vector + i * t->dim, t->dim * sizeof *t->vector);
    t->n++;
}

/* Make room: two items of a label that follow each other become one. */
static void halve_items(struct steno_stable *l)
{
    struct steno_group_items *t = &l->items;
    const size_t n = t->n;
    ptrdiff_t first[STENO_LIVE_SPEAKERS];
    for (int k = 0; k < STENO_LIVE_SPEAKERS; k++)
        first[k] = -1;
    t->n = 0;
    for (size_t i = 0; i < n; i++) {
        const int label = l->shown[i] < 0 ? -1 : steno_stable_resolve(l, l->shown[i]);
        if (label < 0)
            continue;
        if (first[label] < 0) {
            first[label] = (ptrdiff_t)t->n;
            keep_item(l, i);
            continue;
        }
        for (size_t d = 0; d < t->dim; d++)
            t->vector[(size_t)first[label] * t->dim + d] += t->vector[i * t->dim + d];
        t->item[first[label]].seconds += t->item[i].seconds;
        first[label] = -1;
    }
}

steno_status steno_stable_take(struct steno_stable *l, struct steno_stable_voice *v, size_t first,
                               steno_err *err)
{
    struct steno_group_items *t = &l->items;
    const struct steno_group_rules rules = {.threshold = l->rules.threshold,
                                            .share = l->rules.share,
                                            .max_speakers = l->rules.max_speakers};
    struct votes votes = {0};
    bool taken[STENO_LIVE_SPEAKERS] = {false};
    int clusters;
    const size_t n = t->n;
    steno_status st = steno_group(t, &rules, &clusters, err);
    if (st) {
        t->n = first;
        return st;
    }
    for (size_t i = first; i < n; i++)
        l->shown[i] = -1;
    count_votes(l, &votes);
    clusters = clusters < STENO_LIVE_SPEAKERS ? clusters : STENO_LIVE_SPEAKERS;
    merge_labels(l, &votes, clusters);
    name_clusters(l, &votes, clusters);
    for (int named = 1; named >= 0; named--)
        for (size_t i = first; i < n; i++) {
            struct steno_stable_voice *who = &v[t->item[i].speaker];
            const int32_t c = t->item[i].cluster;
            const int label = c >= 0 && c < clusters ? votes.label[c] : -1;
            if (!who->fresh || (label >= 0) != named)
                continue;
            who->label = named ? label : find_label(l, who, i, first, taken);
            if (who->label >= 0)
                taken[who->label] = true;
            l->shown[i] = who->label;
        }
    t->n = first;
    for (size_t i = first; i < n; i++)
        if (t->item[i].seconds >= LONG_SECONDS)
            keep_item(l, i);
    if (t->n >= STENO_STABLE_ITEMS)
        halve_items(l);
    return STENO_OK;
}
