/* Before: c1 = c2 (type, shape, bytes)      After: one value, one copy of the bytes. */
#include "nn/passes/passes.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { STRETCH = 1024, STRETCHES = 8 }; /* bytes, read from a large constant */

struct entry {
    uint64_t hash;
    size_t bytes;
    steno_value_id v;
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->v < y->v ? -1 : x->v > y->v;
}

/* Hash a few stretches of a large constant, so that the pass does not read all of a model's
 * weights. Constants with equal hashes are compared whole. */
static uint64_t fingerprint(const struct steno_tensor *t, const void *data, size_t bytes)
{
    XXH3_state_t s;
    size_t step = (bytes - STRETCH) / (STRETCHES - 1);
    if (bytes <= STRETCHES * STRETCH)
        return XXH3_64bits_withSeed(data, bytes, (uint64_t)t->dtype);
    XXH3_INITSTATE(&s);
    XXH3_64bits_reset_withSeed(&s, (uint64_t)t->dtype ^ bytes);
    for (size_t i = 0; i < STRETCHES; i++)
        XXH3_64bits_update(&s, (const char *)data + i * step, STRETCH);
    return XXH3_64bits_digest(&s);
}

static bool equal(const struct steno_graph *g, const struct entry *a, const struct entry *b)
{
    const struct steno_tensor *x = g->values[a->v].constant, *y = g->values[b->v].constant;
    return a->hash == b->hash && x->dtype == y->dtype && steno_shape_equal(&x->shape, &y->shape) &&
           (!a->bytes || !memcmp(x->data, y->data, a->bytes));
}

static size_t constants_list(struct steno_graph *g, struct entry *e)
{
    size_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const struct steno_tensor *t = g->values[v].constant;
        const void *data = t ? steno_constant_bytes(t) : NULL;
        size_t bytes;
        if (!data || !g->values[v].uses || g->values[v].is_output ||
            steno_shape_bytes(&t->shape, t->dtype, &bytes))
            continue;
        e[n].hash = fingerprint(t, data, bytes);
        if (bytes > STRETCHES * STRETCH)
            steno_graph_rest_map(g);
        e[n].bytes = bytes;
        e[n++].v = v;
    }
    return n;
}

steno_status steno_pass_constants(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    struct entry *e = calloc((size_t)g->n_values + 1, sizeof *e);
    size_t n;
    (void)env;
    if (!e)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    n = constants_list(g, e);
    qsort(e, n, sizeof *e, by_hash);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (!i || e[i].hash != e[first].hash) {
            first = i;
            continue;
        }
        if (!equal(g, &e[first], &e[i]))
            continue;
        steno_graph_replace_uses(g, e[i].v, e[first].v);
        g->values[e[first].v].uses += g->values[e[i].v].uses;
        g->values[e[i].v].uses = 0;
        steno_graph_drop_const(g, e[i].v);
        ++*changed;
    }
    free(e);
    return STENO_OK;
}
