#include "nn/passes/put.h"

#include "nn/ops/registry.h"

#include <string.h>

/* Describe n, whose lists have room. */
static steno_status fill_in(struct steno_node *n, const struct steno_pass_node *y,
                            const struct steno_attr *more, steno_err *err)
{
    n->opset = y->opset;
    n->op = steno_op_find(y->domain, y->type, y->opset);
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = y->in.v[i];
    for (int i = 0; i < n->n_out; i++)
        n->out[i] = y->out.v[i];
    for (int i = 0; i < n->n_attr; i++)
        n->attr[i] = i < y->attr.n ? y->attr.v[i] : more[i - y->attr.n];
    return n->op ? STENO_OK
                 : steno_fail(err, STENO_ERR_INTERNAL, "there is no operator %s@%d", y->type,
                              y->opset);
}

steno_status steno_pass_put(struct steno_graph *g, const char *name,
                            const struct steno_pass_node *y, steno_err *err)
{
    const int32_t region = y->region_of ? y->region_of->region : STENO_NONE;
    const struct steno_attr *more = y->attrs_of ? y->attrs_of->attr : NULL; /* nodes may move */
    int32_t at;
    steno_status st = steno_graph_add_node(g, y->domain, y->type, name, y->in.n, y->out.n,
                                           y->attr.n + (more ? y->attrs_of->n_attr : 0), &at, err);
    if (st)
        return st;
    g->nodes[at].region = region;
    return fill_in(&g->nodes[at], y, more, err);
}

steno_status steno_pass_put_cast(struct steno_graph *g, const char *name, steno_value_id from,
                                 steno_value_id to, steno_dtype t, steno_err *err)
{
    return steno_pass_put(g, name,
                          STENO_NODE("", "Cast", 13, .in = STENO_VALUES(from),
                                     .out = STENO_VALUES(to),
                                     .attr = STENO_ATTRS(STENO_INT_ATTR("to", t))),
                          err);
}

steno_status steno_pass_become(struct steno_graph *g, struct steno_node *n,
                               const struct steno_pass_node *y, steno_err *err)
{
    const struct steno_attr *more = y->attrs_of ? y->attrs_of->attr : NULL;
    n->n_in = y->in.n;
    n->n_out = y->out.n;
    n->n_attr = y->attr.n + (more ? y->attrs_of->n_attr : 0);
    n->in = steno_graph_alloc(g, (size_t)n->n_in + 1, sizeof *n->in, err);
    n->out = steno_graph_alloc(g, (size_t)n->n_out + 1, sizeof *n->out, err);
    n->attr = steno_graph_alloc(g, (size_t)n->n_attr + 1, sizeof *n->attr, err);
    n->domain = y->domain;
    n->op_type = y->type;
    return n->in && n->out && n->attr ? fill_in(n, y, more, err) : STENO_ERR_NOMEM;
}

steno_status steno_pass_set_attr(struct steno_graph *g, struct steno_node *n,
                                 const struct steno_attr *a, steno_err *err)
{
    struct steno_attr *list = steno_graph_alloc(g, (size_t)n->n_attr + 1, sizeof *list, err);
    int at = 0;
    if (!list)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < n->n_attr; i++)
        list[i] = n->attr[i];
    while (at < n->n_attr && strcmp(list[at].name, a->name))
        at++;
    list[at] = *a;
    n->attr = list;
    n->n_attr += at == n->n_attr;
    return STENO_OK;
}

/* ---- several nodes ---- */

void steno_pass_write(struct steno_pass_writer *w, const struct steno_pass_node *y)
{
    if (!w->st)
        w->st = steno_pass_put(w->g, w->name, y, w->err);
}

steno_value_id steno_pass_new_value(struct steno_pass_writer *w)
{
    steno_value_id v = STENO_NONE;
    if (!w->st)
        w->st = steno_graph_add_value(w->g, w->name, &v, w->err);
    return v;
}

steno_value_id steno_pass_write_new(struct steno_pass_writer *w, const struct steno_pass_node *y)
{
    const steno_value_id out = steno_pass_new_value(w);
    struct steno_pass_node with = *y;
    with.out = (struct steno_pass_values){&out, 1};
    steno_pass_write(w, &with);
    return out;
}

steno_value_id steno_pass_new_const(struct steno_pass_writer *w, const char *name, steno_dtype t,
                                    int rank, const int64_t *dim, const void *data)
{
    struct steno_tensor c = {
        .dtype = t, .shape = {.rank = rank}, .data = (void *)(uintptr_t)data /* is copied */};
    steno_value_id v = STENO_NONE;
    for (int i = 0; i < rank; i++)
        c.shape.dim[i] = dim[i];
    if (!w->st)
        w->st = steno_graph_add_const(w->g, name, &c, false, &v, w->err);
    return v;
}

steno_value_id steno_pass_new_ints(struct steno_pass_writer *w, const char *name, int n,
                                   const int64_t *v)
{
    return steno_pass_new_const(w, name, STENO_I64, 1, &(int64_t){n}, v);
}

void steno_pass_write_swapped(struct steno_pass_writer *w, steno_value_id from, steno_value_id to)
{
    static const int64_t swap[] = {0, 2, 1};
    steno_pass_write(w, STENO_NODE("", "Transpose", 13, .in = STENO_VALUES(from),
                                   .out = STENO_VALUES(to),
                                   .attr = STENO_ATTRS(STENO_INTS_ATTR("perm", 3, swap))));
}

void steno_pass_write_product(struct steno_pass_writer *w, steno_value_id x, steno_value_id matrix,
                              steno_value_id bias, steno_value_id y)
{
    const steno_value_id product = bias == STENO_NONE ? y : steno_pass_new_value(w);
    steno_pass_write(w, STENO_NODE("", "MatMul", 13, .in = STENO_VALUES(x, matrix),
                                   .out = STENO_VALUES(product)));
    if (bias != STENO_NONE)
        steno_pass_write(w, STENO_NODE("", "Add", 14, .in = STENO_VALUES(product, bias),
                                       .out = STENO_VALUES(y)));
}

void steno_pass_write_scaled(struct steno_pass_writer *w, steno_value_id sum, steno_value_id sx,
                             steno_value_id sw, steno_value_id bias, steno_value_id y)
{
    const steno_value_id product = bias == STENO_NONE ? y : steno_pass_new_value(w);
    const steno_value_id real =
        steno_pass_write_new(w, STENO_NODE("", "Cast", 13, .in = STENO_VALUES(sum),
                                           .attr = STENO_ATTRS(STENO_INT_ATTR("to", STENO_F32))));
    const steno_value_id by =
        steno_pass_write_new(w, STENO_NODE("", "Mul", 13, .in = STENO_VALUES(sx, sw)));
    steno_pass_write(
        w, STENO_NODE("", "Mul", 13, .in = STENO_VALUES(real, by), .out = STENO_VALUES(product)));
    if (bias != STENO_NONE)
        steno_pass_write(w, STENO_NODE("", "Add", 13, .in = STENO_VALUES(product, bias),
                                       .out = STENO_VALUES(y)));
}

void steno_pass_write_slice(struct steno_pass_writer *w, steno_value_id x,
                            const int64_t *const v[4], int n, steno_value_id out)
{
    steno_value_id in[5] = {x, STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE};
    for (int k = 0; k < 4; k++)
        if (v[k])
            in[k + 1] = steno_pass_new_ints(w, "slice", n, v[k]);
    steno_pass_write(
        w, STENO_NODE("", "Slice", 13, .in = {in, v[3] ? 5 : 4}, .out = STENO_VALUES(out)));
}
