/* Before: y = ai.steno:Attention(q, k, v), where k = Reshape(Expand(Unsqueeze(x; 2))), or Tile in
 *         place of Expand, and v likewise of z
 * After:  y = ai.steno:Attention(q, x, z; kv_heads)   (nn/ops/op_fused_attention.c)
 *
 * Each head of x and z stands for several of q: grouped queries (Ainslie et al., GQA, 2023). A
 * Transpose of their heads and rows is read in place, too. */
#include "nn/passes/passes.h"

/* The value [B, h, S, d] whose heads are repeated to `wide` [B, h, n, S, d]; STENO_NONE: they are
 * not, or another axis is. */
static steno_value_id repeated_heads(struct steno_graph *g, steno_value_id wide)
{
    const struct steno_node *expand = steno_pass_producer(g, wide), *apart;
    const struct steno_shape *y = &g->values[wide].shape, *u, *x;
    if (!steno_pass_is_any(expand, "Expand Tile") || y->rank != 5)
        return STENO_NONE;
    apart = steno_pass_producer(g, expand->in[0]);
    u = &g->values[expand->in[0]].shape;
    if (!steno_pass_is_any(apart, "Unsqueeze Reshape") || u->rank != 5 || u->dim[2] != 1)
        return STENO_NONE;
    x = &g->values[apart->in[0]].shape;
    if (x->rank != 4)
        return STENO_NONE;
    for (int i = 0; i < 5; i++)
        if (i != 2 && (!steno_same_dim(u->dim[i], y->dim[i]) ||
                       !steno_same_dim(u->dim[i], x->dim[i - (i > 2)])))
            return STENO_NONE;
    return apart->in[0];
}

steno_value_id steno_pass_before_heads(struct steno_graph *g, steno_value_id v, bool *apart)
{
    const struct steno_node *t = steno_pass_producer(g, v);
    *apart = !steno_pass_permutes(t, 4, (const int64_t[]){0, 2, 1, 3});
    return *apart ? v : t->in[0];
}

bool steno_pass_shared_heads(struct steno_graph *g, steno_value_id v, int64_t heads, int64_t size,
                             struct steno_pass_heads *m)
{
    const struct steno_node *join = steno_pass_producer(g, v);
    const struct steno_shape *s = &g->values[v].shape, *wide;
    if (!steno_pass_is(join, "Reshape") || s->rank != 4 || s->dim[1] != heads || s->dim[3] != size)
        return false;
    m->x = repeated_heads(g, join->in[0]);
    if (m->x == STENO_NONE)
        return false;
    wide = &g->values[join->in[0]].shape;
    m->heads = wide->dim[1];
    if (m->heads < 1 || wide->dim[2] < 2 || m->heads * wide->dim[2] != heads ||
        wide->dim[4] != size || !steno_same_dim(wide->dim[0], s->dim[0]))
        return false;
    m->x = steno_pass_before_heads(g, m->x, &m->apart);
    return true;
}

static bool match_groups(struct steno_graph *g, const struct steno_node *n,
                         struct steno_pass_heads kv[2])
{
    const int64_t apart = steno_node_int(n, "apart", 0), heads = steno_node_int(n, "heads", 1);
    return (apart & 6) == 6 && (n->n_in < 5 || n->in[4] == STENO_NONE) &&
           !steno_node_attr(n, "kv_heads") && !steno_node_int(n, "parts", 0) &&
           steno_pass_shared_heads(g, n->in[1], heads, steno_node_int(n, "size", 1), &kv[0]) &&
           steno_pass_shared_heads(g, n->in[2], heads, steno_node_int(n, "v_size", 1), &kv[1]) &&
           kv[0].heads == kv[1].heads;
}

steno_status steno_pass_groups(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_pass_heads kv[2];
    struct steno_attr apart = STENO_INT_ATTR("apart", steno_node_int(n, "apart", 0) & ~(int64_t)6);
    steno_status st;
    (void)env;
    if (!steno_pass_is_ours(n, "Attention") || !match_groups(g, n, kv))
        return STENO_OK;
    for (int i = 0; i < 2; i++) {
        n->in[1 + i] = kv[i].x;
        apart.i |= (int64_t)kv[i].apart << (1 + i);
    }
    ++*changed;
    st = steno_pass_set_attr(g, n, &apart, err);
    return st ? st
              : steno_pass_set_attr(
                    g, n, &(struct steno_attr)STENO_INT_ATTR("kv_heads", kv[0].heads), err);
}
