/* The exported graph takes the whole prefix and, for each layer, that layer's outputs for all
 * positions but the newest. It computes keys and values of all positions again:
 *     X_0 = embedding of the prefix, X_i = rows of [cache_(i-1), newest row of layer i-1]
 *     new = X_i[-1] + Attention(Linear(norm(X_i)[-1]), Linear(norm(X_i)))
 * All nodes before attention work on each position of X_i by itself. So the same nodes compute
 * query, key and value of the newest position from the last row of X_i, and earlier runs computed
 * those of earlier positions. Only the sums in attention are taken in another order.
 *
 * The proof computes masks and tables of positions for two hypotheses of five tokens and compares
 * the results, as nn/passes/curve.h does for curves. */
#include "nn/passes/incremental.h"
#include "nn/passes/incremental_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- finding the parts --------------------------------------------------------------------- */

static steno_status find_ends(struct cut *c)
{
    struct steno_graph *g = c->g;
    int out = 0;
    c->tgt = c->memory = c->y = c->mask = STENO_NONE;
    for (int i = 0; i < g->n_inputs; i++) {
        const char *name = g->values[g->inputs[i]].name;
        if (!strcmp(name, "tgt"))
            c->tgt = g->inputs[i];
        else if (!strcmp(name, "memory"))
            c->memory = g->inputs[i];
        else if (!strstr(name, "cache") || c->n_layers == MAX_LAYERS)
            return steno_cut_refuse(c, "an input of unknown use", name);
        else
            c->layer[c->n_layers++].cache = g->inputs[i];
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const char *name = g->values[g->outputs[i]].name;
        if (!strcmp(name, "y"))
            c->y = g->outputs[i];
        else if (!strstr(name, "cache") || out == c->n_layers)
            return steno_cut_refuse(c, "an output of unknown use", name);
        else
            c->layer[out++].out = g->outputs[i];
    }
    if (c->tgt == STENO_NONE || c->y == STENO_NONE || out != c->n_layers || !out)
        return steno_cut_refuse(c, "tgt, y or caches are missing", "");
    return STENO_OK;
}

static void mark_incremental(struct cut *c)
{
    struct steno_graph *g = c->g;
    c->dep[c->tgt] = DEP_TGT;
    if (c->memory != STENO_NONE)
        c->dep[c->memory] = DEP_MEMORY;
    for (int i = 0; i < c->n_layers; i++)
        c->dep[c->layer[i].cache] = DEP_CACHE;
    for (int32_t i = 0; i < g->n_nodes; i++) { /* topological order */
        const struct steno_node *n = &g->nodes[i];
        unsigned char d = 0;
        for (int k = 0; k < n->n_in && !n->dead; k++)
            d |= n->in[k] == STENO_NONE ? 0 : c->dep[n->in[k]];
        for (int k = 0; k < n->n_out && !n->dead; k++)
            if (n->out[k] != STENO_NONE)
                c->dep[n->out[k]] |= d;
    }
}

/* out_cache_i = Concat(cache_i, newest) along the positions. */
static steno_status find_rows(struct cut *c)
{
    for (int i = 0; i < c->n_layers; i++) {
        struct layer *l = &c->layer[i];
        const struct steno_node *n = steno_pass_producer(c->g, l->out);
        int64_t axis = n ? steno_node_int(n, "axis", 0) : 0;
        if (!steno_pass_is(n, "Concat") || n->n_in != 2 || n->in[0] != l->cache ||
            (axis != 1 && axis != -2) || c->g->values[l->out].shape.rank != 3 ||
            c->g->values[l->cache].uses != 1)
            return steno_cut_refuse(c, "a cache is not its input and one new row",
                                    c->g->values[l->out].name);
        l->newest = n->in[1];
    }
    return STENO_OK;
}

static steno_status take_attention(struct cut *c, int32_t at, int *n_self)
{
    const struct steno_node *n = &c->g->nodes[at];
    unsigned char d = c->dep[n->in[1]];
    struct layer *l;
    if (steno_node_int(n, "apart", 0) || n->n_in < 7 || n->in[4] != STENO_NONE ||
        n->in[5] != STENO_NONE || n->in[6] != STENO_NONE)
        return steno_cut_refuse(c, "attention with a separate axis of heads or relative positions",
                                n->name);
    if (steno_node_int(n, "no_nan", 0))
        return steno_cut_refuse(c, "attention that replaces NaN", n->name);
    if (d & (DEP_TGT | DEP_CACHE)) {
        if (*n_self == c->n_layers)
            return steno_cut_refuse(c, "more self attentions than caches", n->name);
        l = &c->layer[(*n_self)++];
        l->self = at;
        l->cross = STENO_NONE;
        if (n->in[3] == STENO_NONE)
            return STENO_OK;
        if ((c->mask != STENO_NONE && c->mask != n->in[3]) || c->dep[n->in[3]] != DEP_TGT ||
            c->g->values[n->in[3]].dtype != STENO_F32)
            return steno_cut_refuse(c, "an unknown kind of mask", n->name);
        c->mask = n->in[3];
        return STENO_OK;
    }
    if (d != DEP_MEMORY || !*n_self || n->in[3] != STENO_NONE ||
        c->layer[*n_self - 1].cross != STENO_NONE)
        return steno_cut_refuse(c, "attention to something other than prefix and memory", n->name);
    c->layer[*n_self - 1].cross = at;
    c->n_cross++;
    return STENO_OK;
}

static steno_status find_attention(struct cut *c)
{
    int n_self = 0;
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < c->g->n_nodes && !st; i++)
        if (!c->g->nodes[i].dead && steno_pass_is_ours(&c->g->nodes[i], "Attention"))
            st = take_attention(c, i, &n_self);
    if (!st && n_self != c->n_layers)
        st = steno_cut_refuse(c, "fewer self attentions than caches", "");
    if (!st && c->n_cross != (c->memory == STENO_NONE ? 0 : c->n_layers))
        st = steno_cut_refuse(c, "not every layer attends to the memory", "");
    return st;
}

/* ---- rewriting ----------------------------------------------------------------------------- */

static steno_status add_position(struct cut *c, steno_value_id *out)
{
    steno_status st = steno_graph_add_value(c->g, "position", out, c->err);
    if (st)
        return st;
    c->g->values[*out].dtype = STENO_I64;
    c->g->values[*out].shape = (struct steno_shape){.rank = 1, .dim = {STENO_DIM_ANY}};
    return STENO_OK;
}

/* Make keys and values of an attention one value: both are columns of it already, or they are
 * concatenated. */
static steno_status join_incremental(struct cut *c, int32_t at, steno_value_id *out, int64_t *width)
{
    struct steno_graph *g = c->g;
    const struct steno_node *n = &g->nodes[at];
    steno_status st;
    int64_t k = g->values[n->in[1]].shape.rank == 3 ? g->values[n->in[1]].shape.dim[2] : -1;
    int64_t v = g->values[n->in[2]].shape.rank == 3 ? g->values[n->in[2]].shape.dim[2] : -1;
    if (k < 1 || v < 1)
        return steno_cut_refuse(c, "keys or values of unknown width", n->name);
    *width = k;
    *out = n->in[1];
    if (n->in[1] == n->in[2])
        return STENO_OK;
    st = steno_graph_add_value(g, "", out, c->err);
    if (st)
        return st;
    g->values[*out].dtype = STENO_F32;
    *width = k + v;
    return steno_pass_put(g, n->name,
                          STENO_NODE("", "Concat", 13, .in = STENO_VALUES(n->in[1], n->in[2]),
                                     .out = STENO_VALUES(*out),
                                     .attr = STENO_ATTRS(STENO_INT_ATTR("axis", 2)),
                                     .region_of = n),
                          c->err);
}

/* Turn node n, an Attention, into a CachedAttention of layer i. */
static steno_status reshape_node(struct cut *c, struct steno_node *n, int i, int64_t k_width)
{
    static const char *const names[] = {"heads", "size", "v_size", "q_at", "k_at", "v_at"};
    struct steno_attr a[8] = {[6] = STENO_INT_ATTR("layer", i),
                              [7] = STENO_FLOAT_ATTR("scale", steno_node_float(n, "scale", 1))};
    const bool joined = n->in[1] != n->in[2];
    for (int k = 0; k < 6; k++)
        a[k] = (struct steno_attr)STENO_INT_ATTR(names[k], steno_node_int(n, names[k], 0) +
                                                               (k == 5 && joined ? k_width : 0));
    return steno_pass_become(c->g, n,
                             STENO_NODE("ai.steno.run", "CachedAttention", 1,
                                        .in = STENO_VALUES(n->in[0], STENO_NONE, STENO_NONE),
                                        .out = STENO_VALUES(n->out[0]), .attr = {a, 8}),
                             c->err);
}

static void cut_rows(struct cut *c, const struct layer *l, steno_value_id x)
{
    struct steno_graph *g = c->g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        if (steno_cut_is_slice(c, n, 1) && n->in[0] == l->out) {
            steno_graph_replace_uses(g, n->out[0], x);
            n->dead = true;
        }
        for (int k = 0; k < n->n_in && !n->dead; k++)
            if (n->in[k] == l->out)
                n->in[k] = x;
    }
}

/* Drop Slices that take the last of one position. */
static void drop_slices(struct cut *c)
{
    struct steno_graph *g = c->g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->dead || !steno_cut_is_slice(c, n, -1) || g->values[n->out[0]].is_output ||
            g->values[n->in[0]].shape.rank != 3 || g->values[n->in[0]].dtype != STENO_F32)
            continue;
        steno_graph_replace_uses(g, n->out[0], n->in[0]);
        n->dead = true;
    }
}

/* Replace table[:, :L] with its rows at `position` [B], as [B, 1, d]: each hypothesis has its own
 * length. */
static steno_status cut_tables(struct cut *c, steno_value_id position)
{
    struct steno_graph *g = c->g;
    struct steno_pass_writer w = {g, "position", c->err, STENO_OK};
    for (int32_t i = 0, n_nodes = g->n_nodes; i < n_nodes && !w.st; i++) {
        struct steno_node *n = &g->nodes[i];
        const steno_value_id out = n->n_out ? n->out[0] : STENO_NONE;
        const struct steno_tensor *table;
        steno_value_id rows, shape;
        if (n->dead || !steno_cut_is_table(c, n))
            continue;
        table = steno_pass_const(g, n, 0);
        rows = steno_pass_new_value(&w);
        shape = steno_pass_new_ints(&w, "position shape", 3,
                                    (const int64_t[]){-1, 1, table->shape.dim[2]});
        if (w.st)
            break;
        g->values[rows].dtype = STENO_F32;
        n->region = STENO_NONE;
        w.st = steno_pass_become(
            g, n,
            STENO_NODE("", "Gather", 13, .in = STENO_VALUES(n->in[0], position),
                       .out = STENO_VALUES(rows), .attr = STENO_ATTRS(STENO_INT_ATTR("axis", 1))),
            c->err);
        steno_pass_write(&w, STENO_NODE("", "Reshape", 13, .in = STENO_VALUES(rows, shape),
                                        .out = STENO_VALUES(out)));
    }
    return w.st;
}

static steno_status find_tables(struct cut *c)
{
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < c->g->n_nodes && !st; i++)
        if (!c->g->nodes[i].dead && steno_cut_is_table(c, &c->g->nodes[i])) {
            c->has_table = true;
            st = steno_cut_prove_table(c, &c->g->nodes[i]);
        }
    return st;
}

struct ends {
    steno_value_id *in, *out;
    int n_in, n_out;
};

static steno_status new_ends(struct cut *c, struct ends *e)
{
    size_t room = 8 + 2 * (size_t)c->n_layers;
    e->in = steno_graph_alloc(c->g, room, sizeof *e->in, c->err);
    e->out = steno_graph_alloc(c->g, room, sizeof *e->out, c->err);
    return e->in && e->out ? STENO_OK : STENO_ERR_NOMEM;
}

static void rename_value(struct cut *c, steno_value_id v, const char *name, int layer)
{
    char full[64];
    const char *copy;
    if (layer >= 0)
        snprintf(full, sizeof full, "%s_%d", name, layer);
    else
        snprintf(full, sizeof full, "%s", name);
    copy = steno_arena_strdup(c->g->arena, full);
    if (copy)
        c->g->values[v].name = copy;
}

static void set_ends(struct cut *c, const struct ends *e)
{
    struct steno_graph *g = c->g;
    for (int i = 0; i < g->n_inputs; i++)
        g->values[g->inputs[i]].is_input = false;
    for (int i = 0; i < g->n_outputs; i++)
        g->values[g->outputs[i]].is_output = false;
    g->inputs = e->in;
    g->n_inputs = e->n_in;
    g->outputs = e->out;
    g->n_outputs = e->n_out;
    g->n_declared = 0;
    for (int i = 0; i < g->n_inputs; i++)
        g->values[g->inputs[i]].is_input = true;
    for (int i = 0; i < g->n_outputs; i++)
        g->values[g->outputs[i]].is_output = true;
}

static steno_status clean_up(struct cut *c)
{
    int changed = 0;
    steno_status st;
    steno_graph_apply_replacements(c->g);
    steno_graph_recount(c->g);
    st = steno_pass_dead(c->g, c->env, &changed, c->err);
    steno_graph_apply_replacements(c->g);
    if (!st)
        st = steno_graph_sort(c->g, c->err);
    return st ? st : c->env->infer(c->env->arg, c->g, c->err);
}

/* Append a LogSoftmax unless the output has one. It would not change log-probabilities. */
static steno_status add_log_softmax(struct cut *c)
{
    struct steno_pass_writer w = {c->g, "log_y", c->err, STENO_OK};
    steno_value_id y;
    if (steno_pass_is(steno_pass_producer(c->g, c->y), "LogSoftmax"))
        return STENO_OK;
    y = steno_pass_write_new(&w, STENO_NODE("", "LogSoftmax", 13, .in = STENO_VALUES(c->y),
                                            .attr = STENO_ATTRS(STENO_INT_ATTR("axis", -1))));
    if (w.st)
        return w.st;
    rename_value(c, c->y, "logits", -1);
    rename_value(c, y, "y", -1);
    c->y = y;
    return STENO_OK;
}

static steno_status cut_self(struct cut *c, int i, struct ends *e)
{
    struct layer *l = &c->layer[i];
    struct steno_graph *g = c->g;
    int64_t width, k_width = g->values[g->nodes[l->self].in[1]].shape.dim[2];
    struct steno_node *n;
    steno_status st = join_incremental(c, l->self, &l->self_kv, &width);
    n = &g->nodes[l->self];
    if (!st)
        st = reshape_node(c, n, i, k_width);
    if (st)
        return st;
    n->in[1] = l->self_kv;
    n->in[2] = c->keeps_mask ? c->mask : STENO_NONE;
    rename_value(c, l->self_kv, "new", i);
    e->out[e->n_out++] = l->self_kv;
    return STENO_OK;
}

static steno_status cut_cross(struct cut *c, int i)
{
    struct layer *l = &c->layer[i];
    struct steno_graph *g = c->g;
    int64_t width, k_width = g->values[g->nodes[l->cross].in[1]].shape.dim[2];
    steno_status st = join_incremental(c, l->cross, &l->cross_kv, &width);
    return st ? st : reshape_node(c, &g->nodes[l->cross], i, k_width);
}

static steno_status cut_layers(struct cut *c, struct ends *e)
{
    steno_status st = STENO_OK;
    for (int i = 0; i < c->n_layers && !st; i++)
        st = cut_self(c, i, e);
    for (int i = 0; i < c->n_layers && !st && c->n_cross; i++)
        st = cut_cross(c, i);
    return st;
}

static steno_status cut_step(struct cut *c)
{
    steno_value_id position = STENO_NONE;
    struct ends e = {0};
    steno_status st = new_ends(c, &e);
    if (st)
        return st;
    e.in[e.n_in++] = c->tgt;
    if (c->has_table) {
        st = add_position(c, &position);
        e.in[e.n_in++] = position;
    }
    if (st)
        return st;
    for (int i = 0; i < c->n_layers; i++)
        cut_rows(c, &c->layer[i], c->layer[i].newest);
    steno_graph_apply_replacements(c->g);
    st = cut_tables(c, position);
    if (!st)
        st = add_log_softmax(c);
    e.out[e.n_out++] = c->y;
    if (!st)
        st = cut_layers(c, &e);
    if (st)
        return st;
    drop_slices(c);
    if (c->keeps_mask) {
        rename_value(c, c->mask, "new_bias", -1);
        e.out[e.n_out++] = c->mask;
    }
    c->g->values[c->tgt].shape.dim[1] = 1;
    set_ends(c, &e);
    return clean_up(c);
}

static steno_status zero_row(struct cut *c, int64_t width, steno_value_id *out)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, 1, width}}};
    t.data = steno_arena_alloc_tensor(c->mem, (size_t)width * sizeof(float));
    if (!t.data)
        return steno_fail(c->err, STENO_ERR_NOMEM, "out of memory");
    return steno_graph_add_const(c->g, "zero row", &t, false, out, c->err);
}

static steno_status cut_once(struct cut *c)
{
    struct ends e = {0};
    steno_status st = new_ends(c, &e);
    int64_t width;
    if (c->n_cross)
        e.in[e.n_in++] = c->memory;
    for (int i = 0; i < c->n_layers && !st; i++) {
        struct layer *l = &c->layer[i];
        int64_t dim = c->g->values[l->cache].shape.dim[2];
        steno_value_id zero, kv;
        if (c->n_cross) {
            st = join_incremental(c, l->cross, &kv, &width);
        } else if (i == 0) {
            continue;
        } else {
            if (dim < 1)
                return steno_cut_refuse(c, "a cache of unknown width", c->g->values[l->cache].name);
            st = zero_row(c, dim, &zero);
            if (!st) {
                cut_rows(c, &c->layer[i - 1], zero);
                st = join_incremental(c, l->self, &kv, &width);
            }
        }
        if (st)
            return st;
        rename_value(c, kv, c->n_cross ? "memory" : "zero", i);
        e.out[e.n_out++] = kv;
    }
    if (st)
        return st;
    set_ends(c, &e);
    return clean_up(c);
}

steno_status steno_part_cut(struct steno_graph *g, enum steno_part part,
                            const struct steno_pass_env *env, steno_err *err)
{
    steno_arena *mem = steno_arena_new(0);
    struct cut *c = mem ? steno_arena_alloc(mem, sizeof *c) : NULL;
    steno_status st;
    if (!c) {
        steno_arena_free(mem);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    *c = (struct cut){.g = g, .env = env, .err = err, .mem = mem};
    c->dep = steno_arena_calloc(mem, (size_t)g->n_values + 1, 1);
    c->known = steno_arena_calloc(mem, (size_t)g->n_values + 1, sizeof *c->known);
    st = c->dep && c->known ? find_ends(c) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        mark_incremental(c);
        st = find_rows(c);
    }
    if (!st)
        st = find_attention(c);
    if (!st)
        st = find_tables(c);
    if (!st)
        st = steno_cut_prove_mask(c);
    if (!st)
        st = steno_cut_prove_nodes(c);
    if (!st)
        st = part == STENO_PART_STEP ? cut_step(c) : cut_once(c);
    steno_arena_free(mem);
    return st;
}
