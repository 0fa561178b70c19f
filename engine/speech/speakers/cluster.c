#include "speech/speakers/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- distances ------------------------------------------------------------------------------- */

static size_t place_cluster(size_t n, size_t i, size_t j)
{
    return i < j ? n * i - i * (i + 1) / 2 + j - i - 1 : n * j - j * (j + 1) / 2 + i - j - 1;
}

void steno_cluster_unit(float *x, size_t n, size_t dim)
{
    for (; n--; x += dim) {
        double sum = 0;
        for (size_t k = 0; k < dim; k++)
            sum += (double)x[k] * (double)x[k];
        for (size_t k = 0; sum > 0 && k < dim; k++)
            x[k] = (float)((double)x[k] / sqrt(sum));
    }
}

static float dot(const float *a, const float *b, size_t dim)
{
    float sum[8] = {0};
    size_t k = 0;
    for (; k + 8 <= dim; k += 8)
        for (size_t i = 0; i < 8; i++)
            sum[i] += a[k + i] * b[k + i];
    for (; k < dim; k++)
        sum[0] += a[k] * b[k];
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

void steno_cluster_distances(const float *unit, size_t n, size_t dim, float *distance)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const float d = 1 - dot(unit + i * dim, unit + j * dim, dim);
            *distance++ = d > 0 ? d : 0;
        }
}

/* ---- merging --------------------------------------------------------------------------------- */

struct linkage {
    float *d;
    size_t n;
    float *weight; /* [n] of the cluster at this place_cluster; 0: merged into another */
};

/* The nearest cluster of i; of equals `favour`, so that a chain ends. */
static size_t nearest(const struct linkage *l, size_t i, size_t favour)
{
    size_t best = favour;
    float least = favour < l->n ? l->d[place_cluster(l->n, i, favour)] : INFINITY;
    for (size_t j = 0; j < l->n; j++) {
        if (j == i || l->weight[j] <= 0)
            continue;
        const float d = l->d[place_cluster(l->n, i, j)];
        if (d < least || best == l->n) {
            least = d;
            best = j;
        }
    }
    return best;
}

/* Cluster b takes a in. */
static void merge(struct linkage *l, size_t a, size_t b)
{
    const float wa = l->weight[a], wb = l->weight[b];
    for (size_t j = 0; j < l->n; j++) {
        if (j == a || j == b || l->weight[j] <= 0)
            continue;
        const float da = l->d[place_cluster(l->n, a, j)];
        float *db = &l->d[place_cluster(l->n, b, j)];
        *db = (wa * da + wb * *db) / (wa + wb);
    }
    l->weight[b] += wa;
    l->weight[a] = 0;
}

static void make_chain(struct linkage *l, uint32_t *chain, struct steno_merge *out)
{
    size_t len = 0, first = 0;
    for (size_t k = 0; k + 1 < l->n; k++) {
        if (!len) {
            while (l->weight[first] <= 0)
                first++;
            chain[len++] = (uint32_t)first;
        }
        for (;;) {
            const size_t at = chain[len - 1], before = len > 1 ? chain[len - 2] : l->n;
            const size_t next = nearest(l, at, before);
            if (next == before)
                break;
            chain[len++] = (uint32_t)next;
        }
        len -= 2;
        out[k] = (struct steno_merge){chain[len], chain[len + 1],
                                      l->d[place_cluster(l->n, chain[len], chain[len + 1])]};
        merge(l, chain[len], chain[len + 1]);
    }
}

struct keyed {
    struct steno_merge m;
    size_t at;
};

static int by_height(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;
    if (a->m.height != b->m.height)
        return a->m.height < b->m.height ? -1 : 1;
    return a->at < b->at ? -1 : 1; /* a merge comes after those of its parts */
}

static bool sort(struct steno_merge *m, size_t n)
{
    struct keyed *k = malloc((n ? n : 1) * sizeof *k);
    for (size_t i = 0; k && i < n; i++)
        k[i] = (struct keyed){m[i], i};
    if (k)
        qsort(k, n, sizeof *k, by_height);
    for (size_t i = 0; k && i < n; i++)
        m[i] = k[i].m;
    free(k);
    return k != NULL;
}

steno_status steno_cluster_merges(float *distance, size_t n, const float *weight,
                                  struct steno_merge *out, steno_err *err)
{
    struct linkage l = {.d = distance, .n = n};
    uint32_t *chain = malloc((n + 1) * sizeof *chain);
    bool done = false;
    l.weight = malloc((n + 1) * sizeof *l.weight);
    if (chain && l.weight) {
        for (size_t i = 0; i < n; i++)
            l.weight[i] = weight && weight[i] > 0 ? weight[i] : 1;
        make_chain(&l, chain, out);
        done = n < 2 || sort(out, n - 1);
    }
    free(chain);
    free(l.weight);
    return done ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "clusters: out of memory");
}

/* ---- cutting --------------------------------------------------------------------------------- */

static uint32_t root(uint32_t *up, uint32_t i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

size_t steno_cluster_cut(const struct steno_merge *m, size_t merges, size_t n, uint32_t *label)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        label[i] = (uint32_t)i;
    for (size_t k = 0; k < merges; k++) {
        const uint32_t a = root(label, m[k].a), b = root(label, m[k].b);
        label[a > b ? a : b] = a < b ? a : b; /* a root is its cluster's first item */
    }
    for (size_t i = 0; i < n; i++)
        label[i] = root(label, (uint32_t)i);
    /* Roots come first: when their number replaces them, later items still find it there. */
    for (size_t i = 0; i < n; i++)
        label[i] = label[i] == i ? (uint32_t)count++ : label[label[i]];
    return count;
}
