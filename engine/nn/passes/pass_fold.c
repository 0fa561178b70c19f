/* Before: c1, c2 -> Op -> y      After: constant y
 * Shape(x) counts as constant if every dimension of x is fixed. Results that are much larger than
 * their inputs (ConstantOfShape, Expand, Tile) stay nodes: a file must not blow up. More bytes for
 * the same number of elements are allowed: 8-bit weights that a graph widens itself are folded and
 * packed once, except those that pass qdq takes as they are. */
#include "nn/passes/passes.h"

#include <string.h>

#define ALWAYS_BYTES ((size_t)64 << 10)

static bool constant_inputs(const struct steno_graph *g, const struct steno_node *n, size_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < n->n_in; i++) {
        const struct steno_value *v;
        size_t b;
        if (n->in[i] == STENO_NONE)
            continue;
        v = &g->values[n->in[i]];
        if (i == 0 && (n->op->flags & STENO_OP_SHAPE_ONLY)) {
            if (!steno_shape_known(&v->shape))
                return false;
            continue;
        }
        if (!v->constant || !v->constant->data || steno_shape_bytes(&v->shape, v->dtype, &b))
            return false;
        *bytes += b;
    }
    return true;
}

/* True if the result has at most as many elements as some input. */
static bool no_longer(const struct steno_graph *g, const struct steno_node *n,
                      const struct steno_shape *out)
{
    size_t want, have;
    if (steno_shape_count(out, &want))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE && !steno_shape_count(&g->values[n->in[i]].shape, &have) &&
            have >= want)
            return true;
    return false;
}

static bool allowed(const struct steno_graph *g, const struct steno_node *n, size_t in_bytes)
{
    if (n->dead || !n->op || !n->op->run || (n->op->flags & STENO_OP_IMPURE))
        return false;
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].kind == STENO_ATTR_GRAPH)
            return false;
    for (int i = 0; i < n->n_out; i++) {
        const struct steno_value *v;
        size_t b;
        if (n->out[i] == STENO_NONE)
            continue;
        v = &g->values[n->out[i]];
        if (n->op->flags & STENO_OP_DYNAMIC) {
            if (in_bytes > ALWAYS_BYTES)
                return false;
        } else if (!v->dtype || steno_shape_bytes(&v->shape, v->dtype, &b) ||
                   (b > ALWAYS_BYTES && b / 2 > in_bytes && !no_longer(g, n, &v->shape))) {
            return false;
        }
    }
    return true;
}

static steno_status keep_fold(struct steno_graph *g, steno_value_id v, const struct steno_tensor *t,
                              steno_err *err)
{
    struct steno_tensor c = *t;
    size_t bytes = 0;
    steno_status st = steno_shape_bytes(&t->shape, t->dtype, &bytes);
    if (!st && !(c.data = steno_aligned_alloc(bytes)))
        st = STENO_ERR_NOMEM;
    if (st)
        return steno_fail(err, st, "no memory for a folded constant");
    if (bytes)
        memcpy(c.data, t->data, bytes);
    st = steno_graph_set_const(g, v, &c, true, err);
    if (st)
        steno_aligned_free(c.data);
    return st;
}

static steno_status fold(struct steno_graph *g, struct steno_node *n,
                         const struct steno_pass_env *env, steno_arena *mem, steno_err *err)
{
    size_t outs = (size_t)n->n_out + 1;
    const struct steno_tensor **in = steno_arena_calloc(mem, (size_t)n->n_in + 1, sizeof *in);
    struct steno_tensor *shapes = steno_arena_calloc(mem, (size_t)n->n_in + 1, sizeof *shapes);
    struct steno_tensor *out = steno_arena_calloc(mem, outs, sizeof *out);
    bool *wanted = steno_arena_calloc(mem, outs, sizeof *wanted);
    steno_status st;
    if (!in || !shapes || !out || !wanted)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int i = 0; i < n->n_in; i++) {
        const struct steno_value *v = n->in[i] == STENO_NONE ? NULL : &g->values[n->in[i]];
        if (!v)
            continue;
        shapes[i].dtype = v->dtype;
        shapes[i].shape = v->shape;
        in[i] = v->constant ? v->constant : &shapes[i];
    }
    for (int i = 0; i < n->n_out; i++)
        wanted[i] = n->out[i] != STENO_NONE && g->values[n->out[i]].uses;
    st = env->eval(env->arg, g, n, in, out, wanted, mem, err);
    for (int i = 0; !st && i < n->n_out; i++)
        if (wanted[i])
            st = keep_fold(g, n->out[i], &out[i], err);
    return st;
}

steno_status steno_pass_fold(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    steno_arena *mem = steno_arena_new(0);
    steno_status st = mem ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int32_t i = 0; !st && i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        size_t bytes;
        if (n->dead || !n->op || !constant_inputs(g, n, &bytes) || !allowed(g, n, bytes) ||
            steno_pass_qdq_weights(g, n))
            continue;
        st = fold(g, n, env, mem, err);
        if (st == STENO_ERR_UNSUPPORTED && g->lenient) {
            st = STENO_OK; /* a graph that is only rewritten keeps what the engine cannot run */
        } else if (!st) {
            for (int k = 0; k < n->n_out; k++)
                if (n->out[k] != STENO_NONE)
                    g->values[n->out[k]].producer = STENO_NONE;
            n->dead = true;
            ++*changed;
        }
        steno_arena_reset(mem);
    }
    steno_arena_free(mem);
    return st;
}
