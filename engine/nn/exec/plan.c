#include "nn/exec/plan.h"

#include "base/arena.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const struct steno_interval *x = *(struct steno_interval *const *)a;
    const struct steno_interval *y = *(struct steno_interval *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y; /* a total order, so that the plan is deterministic */
}

static bool meet(const struct steno_interval *a, const struct steno_interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Offset for v among `placed`, which is sorted by offset. */
static size_t best_gap(struct steno_interval *const *placed, size_t n,
                       const struct steno_interval *v)
{
    size_t end = 0, best = SIZE_MAX, best_room = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct steno_interval *p = placed[i];
        if (!meet(p, v))
            continue;
        if (p->offset > end) {
            size_t room = p->offset - end;
            if (room >= v->bytes && room < best_room) {
                best = end;
                best_room = room;
            }
        }
        if (p->offset + p->bytes > end)
            end = p->offset + p->bytes;
    }
    return best != SIZE_MAX ? best : end;
}

static void insert(struct steno_interval **placed, size_t n, struct steno_interval *v)
{
    size_t i = n;
    while (i && placed[i - 1]->offset > v->offset) {
        placed[i] = placed[i - 1];
        i--;
    }
    placed[i] = v;
}

steno_status steno_plan_place(struct steno_interval *v, size_t n, size_t *total)
{
    struct steno_interval **order = calloc(n + 1, sizeof *order);
    struct steno_interval **placed = calloc(n + 1, sizeof *placed);
    size_t sum = 0, m = 0, end = 0;
    steno_status st = order && placed ? STENO_OK : STENO_ERR_NOMEM;
    for (size_t i = 0; !st && i < n; i++) {
        size_t up = 0;
        v[i].offset = 0;
        if (!v[i].bytes)
            continue;
        if (!steno_add_size(v[i].bytes, STENO_ALIGN - 1, &up) || !steno_add_size(sum, up, &sum) ||
            sum > INT64_MAX)
            st = STENO_ERR_LIMIT;
        v[i].bytes = up & ~(size_t)(STENO_ALIGN - 1);
        order[m++] = &v[i];
    }
    if (!st) {
        qsort(order, m, sizeof *order, by_size);
        for (size_t i = 0; i < m; i++) {
            order[i]->offset = best_gap(placed, i, order[i]);
            insert(placed, i, order[i]);
            if (order[i]->offset + order[i]->bytes > end)
                end = order[i]->offset + order[i]->bytes;
        }
        *total = end;
    }
    free(order);
    free(placed);
    return st;
}
