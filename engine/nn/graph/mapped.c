/* Constants that stay in the model's file until their elements are needed. */
#include "nn/graph/mapped.h"

#include "base/pages.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__) /* all from the heap, so that over-reads show */
#define PAGED SIZE_MAX
#else
/* from this size on, memory comes from the system and goes straight back to it */
#define PAGED ((size_t)1 << 20)
#endif

#define READ_BLOCK ((size_t)1 << 20) /* bytes of the file that are resident while it is read */

struct steno_constant *steno_constant_of(const struct steno_tensor *t)
{
    struct steno_constant *c;
    /* `t` is the first member; steno_value.constant is const outside of graph/ */
    memcpy(&c, &t, sizeof c);
    return c;
}

void steno_constant_release(struct steno_constant *c)
{
    if (c->paged)
        steno_pages_free(c->owned, c->paged);
    else
        steno_aligned_free(c->owned);
    c->owned = NULL;
    c->paged = 0;
    if (c->maker) /* any pointer but NULL: the elements are known */
        memcpy(&c->t.data, &c->maker, sizeof c->t.data);
    else
        memcpy(&c->t.data, c->join ? &c->join->part[0].file : &c->file, sizeof c->t.data);
}

/* Copy the elements of c from its file. Pages of the graph's map are released as they are read: at
 * the end of a load, when nearly all memory is taken, a table would be resident twice. */
static void copy_in(struct steno_constant *c, const struct steno_graph *g)
{
    const char *from = c->file, *map = g ? g->map.p : NULL;
    const bool mapped = map && from >= map && from < map + g->map.n;
    for (size_t at = 0, n; at < c->bytes; at += n) {
        n = mapped && c->bytes - at > READ_BLOCK ? READ_BLOCK : c->bytes - at;
        memcpy((char *)c->owned + at, from + at, n);
        if (mapped && c->bytes >= PAGED) {
            const size_t skip = (size_t)(from + at - map) & (STENO_PAGE_LARGE - 1);
            steno_pages_rest(from + at - skip, n + skip);
        }
    }
}

/* g: the graph that may own the map, or NULL. */
static steno_status fetch(struct steno_constant *c, const struct steno_graph *g, steno_err *err)
{
    size_t total;
    if ((!c->file && !c->join && !c->maker) || c->owned)
        return STENO_OK;
    if (c->bytes >= PAGED) {
        if (!steno_add_size(c->bytes, STENO_OVERREAD, &total))
            return steno_fail(err, STENO_ERR_LIMIT, "a constant of %zu bytes", c->bytes);
        c->owned = steno_pages_new(total);
        c->paged = c->owned ? total : 0;
    } else {
        c->owned = steno_aligned_alloc(c->bytes);
    }
    if (!c->owned)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a constant of %zu bytes",
                          c->bytes);
    c->t.data = c->owned;
    if (c->maker) {
        if (!c->maker->make(c->maker->arg, c->owned)) {
            steno_constant_release(c);
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a constant");
        }
    } else if (c->join) {
        steno_join_make(c->join, steno_dtype_size(c->t.dtype), c->owned);
    } else {
        copy_in(c, g);
    }
    return STENO_OK;
}

steno_status steno_constant_fetch(const struct steno_tensor *constant, steno_err *err)
{
    return fetch(steno_constant_of(constant), NULL, err);
}

const void *steno_constant_bytes(const struct steno_tensor *constant)
{
    const struct steno_constant *c = steno_constant_of(constant);
    if ((c->maker && !c->owned) || (c->join && steno_constant_fetch(constant, NULL)))
        return NULL;
    return constant->data;
}

steno_status steno_graph_fetch(struct steno_graph *g, steno_value_id v, steno_err *err)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    return t ? fetch(steno_constant_of(t), steno_graph_root(g), err) : STENO_OK;
}

void steno_graph_unfetch(struct steno_graph *g, steno_value_id v)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    if (t &&
        (steno_constant_of(t)->file || steno_constant_of(t)->join || steno_constant_of(t)->maker))
        steno_constant_release(steno_constant_of(t));
}

void steno_graph_take_map(struct steno_graph *g, const struct steno_map *map)
{
    g->map = *map;
}

steno_status steno_graph_set_mapped(struct steno_graph *g, steno_value_id v,
                                    const struct steno_tensor *t, steno_err *err)
{
    steno_status st = steno_graph_set_const(g, v, t, false, err);
    if (!st)
        steno_constant_of(g->values[v].constant)->file = t->data;
    return st;
}

steno_status steno_graph_add_made(struct steno_graph *g, const char *name,
                                  const struct steno_tensor *t, const struct steno_maker *maker,
                                  steno_value_id *out, steno_err *err)
{
    struct steno_maker *kept = steno_graph_alloc(g, 1, sizeof *kept, err);
    struct steno_tensor c = *t;
    steno_value_id v;
    steno_status st;
    if (!kept)
        return STENO_ERR_NOMEM;
    *kept = *maker;
    c.data = kept;
    st = steno_graph_add_value(g, name, &v, err);
    if (!st)
        st = steno_graph_set_const(g, v, &c, false, err);
    if (st)
        return st;
    steno_constant_of(g->values[v].constant)->maker = kept;
    *out = v;
    return STENO_OK;
}

void steno_graph_rest_map(struct steno_graph *g)
{
    const struct steno_graph *r = steno_graph_root(g);
    if (r->map.n)
        steno_pages_rest(r->map.p, r->map.n);
}

steno_status steno_graph_unmap(struct steno_graph *g, steno_err *err)
{
    for (int32_t i = 0; i < g->n_consts; i++) {
        steno_status st = g->consts[i]->refs > 0 ? fetch(g->consts[i], g, err) : STENO_OK;
        if (st)
            return st;
        g->consts[i]->file = NULL;
        g->consts[i]->join = NULL;
        g->consts[i]->maker = NULL;
    }
    steno_map_close(&g->map);
    return STENO_OK;
}
