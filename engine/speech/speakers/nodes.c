#include "speech/speakers/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/speakers/cluster.h"

#define BLOCK 2000    /* nodes of a block of the first stage */
#define FARTHEST 2.0f /* cosine distance */
#define SURE 0.3f     /* distance up to which the first stage merges */
#define PLAUSIBLE 0.4 /* a known number splits no cluster whose parts are nearer than this */
#define SPEAKER 2.0f  /* s of speech that make a cluster a speaker, where the number is known */

static steno_status no_memory_nodes(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

steno_status steno_nodes_add(struct steno_nodes *t, const float *unit, float seconds,
                             uint32_t window, steno_err *err)
{
    const size_t n = t->n + 1;
    if (STENO_RESERVE(&t->sum, &t->cap_sum, n * t->dim) ||
        STENO_RESERVE(&t->talk, &t->cap_talk, n * t->dim) ||
        STENO_RESERVE(&t->members, &t->cap_members, n) ||
        STENO_RESERVE(&t->seconds, &t->cap_seconds, n) ||
        STENO_RESERVE(&t->window, &t->cap_window, n))
        return no_memory_nodes(err);
    memcpy(t->sum + t->n * t->dim, unit, t->dim * sizeof *unit);
    for (size_t d = 0; d < t->dim; d++)
        t->talk[t->n * t->dim + d] = unit[d] * seconds;
    t->members[t->n] = 1;
    t->window[t->n] = window;
    t->seconds[t->n++] = seconds;
    return STENO_OK;
}

void steno_nodes_free(struct steno_nodes *t)
{
    free(t->sum);
    free(t->talk);
    free(t->members);
    free(t->seconds);
    free(t->window);
}

/* Node `from` joins node `to`, or takes its place if it is the first there. */
static void join_nodes(struct steno_nodes *t, size_t to, size_t from, bool first)
{
    for (size_t d = 0; d < t->dim; d++) {
        t->sum[to * t->dim + d] = t->sum[from * t->dim + d] + (first ? 0 : t->sum[to * t->dim + d]);
        t->talk[to * t->dim + d] =
            t->talk[from * t->dim + d] + (first ? 0 : t->talk[to * t->dim + d]);
    }
    t->members[to] = t->members[from] + (first ? 0 : t->members[to]);
    t->seconds[to] = t->seconds[from] + (first ? 0 : t->seconds[to]);
    t->window[to] = first ? t->window[from] : STENO_NODES_MERGED;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Nodes [from, from + n) of one window, which follow each other, get the largest distance there is.
 */
static void part_windows(const struct steno_nodes *t, size_t from, size_t n, float *distance)
{
    for (size_t i = 0; i < n; distance += n - 1 - i++)
        for (size_t j = i + 1; j < n && t->window[from + i] != STENO_NODES_MERGED &&
                               t->window[from + j] == t->window[from + i];
             j++)
            distance[j - i - 1] = FARTHEST;
}

/* The merges of nodes [from, from + n). */
static steno_status merges(const struct steno_nodes *t, size_t from, size_t n,
                           struct steno_merge *out, steno_err *err)
{
    float *distance = malloc((n * (n - 1) / 2 + 1) * sizeof *distance);
    float *mean = malloc(n * t->dim * sizeof *mean);
    steno_status st = distance && mean ? STENO_OK : no_memory_nodes(err);
    if (!st) {
        for (size_t i = 0; i < n; i++)
            for (size_t d = 0; d < t->dim; d++)
                mean[i * t->dim + d] = t->sum[(from + i) * t->dim + d] / t->members[from + i];
        steno_cluster_distances(mean, n, t->dim, distance);
        part_windows(t, from, n, distance);
        st = steno_cluster_merges(distance, n, t->members + from, out, err);
    }
    free(distance);
    free(mean);
    return st;
}

/* First stage: merge within blocks what is surely alike, and in any case half of each block. */
static steno_status merge_blocks(struct steno_nodes *t, steno_err *err)
{
    struct steno_merge *merge = malloc(BLOCK * sizeof *merge);
    uint32_t *label = malloc(BLOCK * sizeof *label);
    steno_status st = merge && label ? STENO_OK : no_memory_nodes(err);
    size_t made = 0;
    for (size_t from = 0, n; !st && from < t->n; from += n) {
        size_t k = 0, seen = 0;
        n = t->n - from < BLOCK ? t->n - from : BLOCK;
        st = merges(t, from, n, merge, err);
        while (!st && k + 1 < n && (merge[k].height < SURE || k < n / 2))
            k++;
        if (st)
            break;
        (void)steno_cluster_cut(merge, k, n, label);
        for (size_t i = 0; i < n; i++) { /* a label's first node comes no later than its place */
            join_nodes(t, made + label[i], from + i, label[i] == seen);
            seen += label[i] == seen;
        }
        made += seen;
    }
    if (!st)
        t->n = made;
    free(merge);
    free(label);
    return st;
}

/* ---- how many -------------------------------------------------------------------------------- */

struct cut {
    const struct steno_nodes *t;
    const struct steno_group_rules *r;
    const struct steno_merge *merge;
    uint32_t *label; /* [n] */
    float *seconds;  /* [n] of each cluster of the cut */
    size_t k;        /* clusters */
};

static size_t clusters_at(const struct cut *c, double threshold)
{
    size_t k = 0;
    while (k + 1 < c->t->n && (double)c->merge[k].height < threshold)
        k++;
    return c->t->n - k;
}

/* Cut into k clusters. Returns the number of those that talk long enough. */
static size_t cut_into(struct cut *c, size_t k)
{
    size_t large = 0;
    c->k = steno_cluster_cut(c->merge, c->t->n - k, c->t->n, c->label);
    memset(c->seconds, 0, c->k * sizeof *c->seconds);
    for (size_t i = 0; i < c->t->n; i++)
        c->seconds[c->label[i]] += c->t->seconds[i] * (float)c->r->share;
    for (size_t i = 0; i < c->k; i++)
        large += c->seconds[i] >= SPEAKER;
    return large;
}

/* Leave the `want` clusters that talk longest; the others get the label c->t->n. */
static void leave(struct cut *c, size_t want, bool only_large)
{
    while (c->k > 1) {
        size_t least = 0;
        for (size_t i = 1; i < c->k; i++)
            if (c->seconds[i] < c->seconds[least])
                least = i;
        if (c->k <= want && !(only_large && c->seconds[least] < SPEAKER))
            return;
        c->k--;
        c->seconds[least] = c->seconds[c->k];
        for (size_t i = 0; i < c->t->n; i++)
            c->label[i] = c->label[i] == least  ? (uint32_t)c->t->n
                          : c->label[i] == c->k ? (uint32_t)least
                                                : c->label[i];
    }
}

/* There are fewer: the first cut, from the top, with that many clusters that talk long. */
static void cut_fewer(struct cut *c, size_t want, size_t found)
{
    for (size_t k = want; k <= found; k++)
        if (cut_into(c, k) >= want) {
            leave(c, want, false);
            return;
        }
    (void)cut_into(c, want);
}

/* There are more: split where that gives one more cluster that talks long, unless its voice is too
 * near. */
static void cut_more(struct cut *c, size_t want, size_t found)
{
    const size_t most = clusters_at(c, PLAUSIBLE);
    size_t best = found, best_large = cut_into(c, found);
    for (size_t k = found + 1; k <= most && best_large < want; k++) {
        const size_t large = cut_into(c, k);
        if (large > best_large && large <= want) {
            best = k;
            best_large = large;
        }
    }
    (void)cut_into(c, best);
    if (best != found)
        leave(c, want, true);
}

static void cut(struct cut *c)
{
    const size_t found = clusters_at(c, c->r->threshold);
    const struct steno_group_rules *r = c->r;
    const size_t most = (size_t)(r->speakers ? r->speakers : r->max_speakers);
    const size_t least = (size_t)(r->speakers ? r->speakers : r->min_speakers);
    if (most && found > most)
        cut_fewer(c, most, found);
    else if (least && found < least)
        cut_more(c, least < c->t->n ? least : c->t->n, found);
    else
        (void)cut_into(c, found);
}

/* ---- means ----------------------------------------------------------------------------------- */

static steno_status write_means(const struct cut *c, float **mean, int *k, steno_err *err)
{
    const size_t dim = c->t->dim;
    float *m = calloc(c->k * dim, sizeof *m);
    if (!m)
        return no_memory_nodes(err);
    for (size_t i = 0; i < c->t->n; i++)
        for (size_t d = 0; c->label[i] < c->k && d < dim; d++)
            m[c->label[i] * dim + d] += c->t->talk[i * dim + d];
    steno_cluster_unit(m, c->k, dim);
    *mean = m;
    *k = (int)c->k;
    return STENO_OK;
}

steno_status steno_nodes_means(struct steno_nodes *t, const struct steno_group_rules *r,
                               float **mean, int *k, steno_err *err)
{
    struct cut c = {.t = t, .r = r};
    struct steno_merge *merge;
    steno_status st = STENO_OK;
    while (!st && t->n > STENO_NODES_MOST)
        st = merge_blocks(t, err);
    if (st)
        return st;
    c.merge = merge = malloc(t->n * sizeof *merge);
    c.label = malloc(t->n * sizeof *c.label);
    c.seconds = malloc(t->n * sizeof *c.seconds);
    st = merge && c.label && c.seconds ? merges(t, 0, t->n, merge, err) : no_memory_nodes(err);
    if (!st) {
        cut(&c);
        st = write_means(&c, mean, k, err);
    }
    free(merge);
    free(c.label);
    free(c.seconds);
    return st;
}
