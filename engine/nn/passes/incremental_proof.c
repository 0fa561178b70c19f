/* What must hold of a graph before it is cut (nn/passes/incremental.h). Masks are computed for the
 * tokens and lengths that their constants distinguish, and tables of positions for a few lengths.
 * Every other node must work on each position by itself. */
#include "nn/passes/incremental_internal.h"

#include <string.h>

#define PROOF_BATCH 2
#define PROOF_LENGTH 5
enum { MIN_TRIAL = 16, MAX_TRIAL = 300 }; /* lengths at which a mask is computed */

steno_status steno_cut_refuse(const struct cut *c, const char *what, const char *name)
{
    return steno_fail(c->err, STENO_ERR_UNSUPPORTED, "not incremental: %s%s%s", what,
                      *name ? " at " : "", name);
}

bool steno_cut_ints(const struct cut *c, steno_value_id v, int64_t *out, size_t count)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : c->g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_I64 || steno_numel(t) != count)
        return false;
    memcpy(out, t->data, count * sizeof *out);
    return true;
}

static bool is_end(int64_t v)
{
    return v >= INT32_MAX;
}

bool steno_cut_is_slice(const struct cut *c, const struct steno_node *n, int64_t from)
{
    int64_t start, end, axis, step = 1;
    return steno_pass_is(n, "Slice") && n->n_in >= 4 && steno_cut_ints(c, n->in[1], &start, 1) &&
           start == from && steno_cut_ints(c, n->in[2], &end, 1) && is_end(end) &&
           steno_cut_ints(c, n->in[3], &axis, 1) && axis == 1 &&
           (n->n_in < 5 || (steno_cut_ints(c, n->in[4], &step, 1) && step == 1));
}

/* ---- computing masks and positions --------------------------------------------------------- */

/* Mark the values that `want` is computed from. Refuse if one of them depends on caches or
 * memory. */
static steno_status need(struct cut *c, steno_value_id want, bool *needed)
{
    const struct steno_graph *g = c->g;
    needed[want] = true;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const struct steno_node *n = &g->nodes[i];
        bool any = false;
        for (int k = 0; k < n->n_out && !n->dead; k++)
            any |= n->out[k] != STENO_NONE && needed[n->out[k]];
        for (int k = 0; k < n->n_in && any; k++)
            if (n->in[k] != STENO_NONE)
                needed[n->in[k]] = true;
    }
    for (int32_t v = 0; v < g->n_values; v++)
        if (needed[v] && (c->dep[v] & ~DEP_TGT))
            return steno_cut_refuse(c, "a mask or a position depends on caches or memory",
                                    g->values[want].name);
    return STENO_OK;
}

static steno_status compute_node(struct cut *c, struct steno_node *n, const bool *needed)
{
    const struct steno_tensor **in = steno_arena_calloc(c->mem, (size_t)n->n_in + 1, sizeof *in);
    struct steno_tensor *out = steno_arena_calloc(c->mem, (size_t)n->n_out + 1, sizeof *out);
    bool *wanted = steno_arena_calloc(c->mem, (size_t)n->n_out + 1, sizeof *wanted);
    steno_status st;
    if (!in || !out || !wanted)
        return steno_fail(c->err, STENO_ERR_NOMEM, "out of memory");
    for (int k = 0; k < n->n_in; k++) {
        steno_value_id v = n->in[k];
        if (v == STENO_NONE)
            continue;
        in[k] = c->known[v] ? c->known[v] : c->g->values[v].constant;
        if (!in[k] || !in[k]->data)
            return steno_cut_refuse(c, "a mask or a position cannot be computed", n->name);
    }
    for (int k = 0; k < n->n_out; k++)
        wanted[k] = n->out[k] != STENO_NONE && needed[n->out[k]];
    for (int k = 0; k < n->n_attr; k++)
        if (n->attr[k].kind == STENO_ATTR_GRAPH)
            return steno_cut_refuse(c, "control flow in a mask or a position", n->name);
    st = c->env->eval(c->env->arg, c->g, n, in, out, wanted, c->mem, c->err);
    for (int k = 0; k < n->n_out && !st; k++)
        if (wanted[k])
            c->known[n->out[k]] = &out[k];
    return st;
}

static steno_status compute(struct cut *c, steno_value_id want, const int64_t *tokens,
                            int64_t batch, int64_t length, const struct steno_tensor **result)
{
    struct steno_graph *g = c->g;
    bool *needed = steno_arena_calloc(c->mem, (size_t)g->n_values, sizeof *needed);
    int64_t *copy = steno_arena_alloc_tensor(c->mem, (size_t)(batch * length) * sizeof *copy);
    struct steno_tensor t = {
        .dtype = STENO_I64, .shape = {.rank = 2, .dim = {batch, length}}, .data = copy};
    steno_status st;
    if (!needed || !copy)
        return steno_fail(c->err, STENO_ERR_NOMEM, "out of memory");
    memcpy(copy, tokens, (size_t)(batch * length) * sizeof *copy);
    memset(c->known, 0, (size_t)g->n_values * sizeof *c->known);
    st = need(c, want, needed);
    c->known[c->tgt] = &t;
    for (int32_t i = 0; i < g->n_nodes && !st; i++) {
        struct steno_node *n = &g->nodes[i];
        bool any = false;
        for (int k = 0; k < n->n_out && !n->dead; k++)
            any |= n->out[k] != STENO_NONE && needed[n->out[k]];
        if (any)
            st = compute_node(c, n, needed);
    }
    if (!st && !c->known[want])
        st = steno_cut_refuse(c, "a mask or a position is constant", g->values[want].name);
    if (!st)
        *result = c->known[want];
    return st;
}

static const int64_t proof[PROOF_LENGTH] = {1, 0, 2, 1, 0};

/* What a mask may distinguish: each token beside one of its constants, and lengths beyond them. */
struct trial {
    int64_t token[64];
    int n;
    int64_t length;
};

static void try_token(struct trial *t, int64_t token)
{
    if (token < 0 || t->n == (int)(sizeof t->token / sizeof *t->token))
        return;
    for (int i = 0; i < t->n; i++)
        if (t->token[i] == token)
            return;
    t->token[t->n++] = token;
}

/* False when there are too many constants to try. */
static bool trial_of(struct cut *c, struct trial *t, const bool *needed)
{
    *t = (struct trial){.length = MIN_TRIAL};
    for (int64_t i = 0; i < 3; i++)
        try_token(t, i);
    for (steno_value_id v = 0; v < c->g->n_values; v++) {
        const struct steno_tensor *k = needed[v] ? c->g->values[v].constant : NULL;
        double x;
        if (!k || !steno_pass_scalar(c->g, v, &x) || !(x > -1e9 && x < 1e9))
            continue;
        for (int64_t d = -1; d <= 1; d++)
            try_token(t, (int64_t)x + d);
        if (x + 3 > (double)t->length && x <= MAX_TRIAL - 3)
            t->length = (int64_t)x + 3;
    }
    t->length = t->length < t->n ? t->n : t->length;
    return t->n < (int)(sizeof t->token / sizeof *t->token);
}

/* Mask of hypothesis b for key t; m has shape [B or 1, 1, 1, L], or fewer dimensions. */
static bool mask_at(const struct steno_tensor *m, int64_t length, int64_t b, int64_t t, float *out)
{
    int r = m->shape.rank;
    int64_t batches = r == 4 ? m->shape.dim[0] : 1, n = (int64_t)steno_numel(m);
    if (m->dtype != STENO_F32 || r < 1 || r > 4 || m->shape.dim[r - 1] != length ||
        n != batches * length || (batches != 1 && batches != PROOF_BATCH))
        return false;
    *out = ((const float *)m->data)[(batches == 1 ? 0 : b) * length + t];
    return true;
}

/* The mask of each token of t alone. */
static steno_status masks_alone(struct cut *c, const struct trial *t, float *alone)
{
    for (int i = 0; i < t->n; i++) {
        const int64_t both[PROOF_BATCH] = {t->token[i], t->token[i]};
        const struct steno_tensor *one;
        steno_status st = compute(c, c->mask, both, PROOF_BATCH, 1, &one);
        if (st)
            return st;
        if (!mask_at(one, 1, 0, 0, &alone[i]))
            return steno_cut_refuse(c, "an unexpected shape of the mask",
                                    c->g->values[c->mask].name);
    }
    return STENO_OK;
}

steno_status steno_cut_prove_mask(struct cut *c)
{
    const struct steno_tensor *whole;
    struct trial t;
    float alone[sizeof t.token / sizeof *t.token], x;
    bool plain = true, *needed;
    int64_t *tokens;
    steno_status st;
    if (c->mask == STENO_NONE)
        return STENO_OK;
    needed = steno_arena_calloc(c->mem, (size_t)c->g->n_values, sizeof *needed);
    tokens = steno_arena_calloc(c->mem, PROOF_BATCH * MAX_TRIAL, sizeof *tokens);
    if (!needed || !tokens)
        return steno_fail(c->err, STENO_ERR_NOMEM, "out of memory");
    st = need(c, c->mask, needed);
    if (!st && !trial_of(c, &t, needed))
        st = steno_cut_refuse(c, "a mask of many constants", c->g->values[c->mask].name);
    if (!st)
        st = masks_alone(c, &t, alone);
    if (st)
        return st;
    /* one hypothesis counts up, the other down */
    for (int64_t i = 0; i < t.length; i++) {
        tokens[i] = i % t.n;
        tokens[2 * t.length - 1 - i] = i % t.n;
    }
    for (int64_t i = 0; i < PROOF_BATCH * t.length; i++)
        tokens[i] = t.token[tokens[i]];
    st = compute(c, c->mask, tokens, PROOF_BATCH, t.length, &whole);
    for (int64_t i = 0; i < PROOF_BATCH * t.length && !st; i++) {
        int at = 0;
        while (t.token[at] != tokens[i])
            at++;
        plain = plain && alone[at] == 0;
        if (!mask_at(whole, t.length, i / t.length, i % t.length, &x) || x != alone[at])
            st = steno_cut_refuse(c, "a mask that does not depend on each token alone",
                                  c->g->values[c->mask].name);
    }
    c->keeps_mask = !plain;
    return st;
}

bool steno_cut_is_table(const struct cut *c, const struct steno_node *n)
{
    int64_t start, axis, step = 1;
    const struct steno_tensor *t;
    if (!steno_pass_is(n, "Slice") || n->n_in < 4)
        return false;
    t = c->g->values[n->in[0]].constant;
    return t && t->dtype == STENO_F32 && t->shape.rank == 3 && t->shape.dim[0] == 1 &&
           steno_cut_ints(c, n->in[1], &start, 1) && start == 0 &&
           steno_cut_ints(c, n->in[3], &axis, 1) && axis == 1 &&
           (n->n_in < 5 || steno_cut_ints(c, n->in[4], &step, 1)) && step == 1 &&
           c->dep[n->in[2]] == DEP_TGT;
}

steno_status steno_cut_prove_table(struct cut *c, const struct steno_node *n)
{
    static const int64_t lengths[] = {1, 2, PROOF_LENGTH};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct steno_tensor *end;
        steno_status st = compute(c, n->in[2], proof, 1, lengths[i], &end);
        if (st)
            return st;
        if (end->dtype != STENO_I64 || steno_numel(end) != 1 ||
            *(const int64_t *)end->data != lengths[i])
            return steno_cut_refuse(c, "a table of positions is not cut at the length", n->name);
    }
    return STENO_OK;
}

/* ---- every other node works on each position by itself -------------------------------------- */

static const char elementwise[] =
    "Add Sub Mul Div Relu Sigmoid Tanh Erf Sqrt Exp Neg Pow Gelu Cast Swish LeakyRelu Elu Identity "
    "HardSwish Mish Softplus DynamicQuantizeLinear";

/* False for constants of more than one row: they would hold one row per position. */
static bool row_constants(const struct cut *c, const struct steno_node *n)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct steno_shape *s;
        if (n->in[k] == STENO_NONE || c->dep[n->in[k]])
            continue;
        s = &c->g->values[n->in[k]].shape;
        for (int d = 0; d < s->rank - 1; d++)
            if (s->dim[d] != 1)
                return false;
    }
    return true;
}

static bool last_axis(const struct cut *c, const struct steno_node *n, int64_t fallback)
{
    int64_t axis = steno_node_int(n, "axis", fallback);
    return axis == -1 || axis == c->g->values[n->in[0]].shape.rank - 1;
}

static bool of_gather(const struct cut *c, const struct steno_node *n)
{
    int64_t axis = steno_node_int(n, "axis", 0), at;
    if (!c->dep[n->in[0]])
        return axis == 0; /* an embedding */
    return axis == 1 && n->n_in == 2 && steno_cut_ints(c, n->in[1], &at, 1) && at == -1;
}

static bool per_position(const struct cut *c, const struct steno_node *n)
{
    if (steno_pass_is_ours(n, "Linear") || steno_pass_is_ours(n, "IntLinear"))
        return !c->dep[n->in[1]];
    if (steno_pass_is_ours(n, "Attention"))
        return true; /* find_attention has checked it */
    if (steno_pass_is_any(n, elementwise))
        return row_constants(c, n);
    if (steno_pass_is_any(n, "MatMul Gemm"))
        return !c->dep[n->in[1]];
    if (steno_pass_is_any(n, "LayerNormalization RMSNormalization LogSoftmax Softmax"))
        return last_axis(c, n, -1);
    if (steno_pass_is(n, "Gather"))
        return of_gather(c, n);
    return steno_cut_is_slice(c, n, -1) || steno_cut_is_slice(c, n, 1) ||
           steno_cut_is_table(c, n) || steno_pass_is(n, "Concat");
}

steno_status steno_cut_prove_nodes(struct cut *c)
{
    struct steno_graph *g = c->g;
    bool *needed = steno_arena_calloc(c->mem, (size_t)g->n_values, sizeof *needed);
    if (!needed)
        return steno_fail(c->err, STENO_ERR_NOMEM, "out of memory");
    needed[c->y] = true;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const struct steno_node *n = &g->nodes[i];
        bool any = false;
        for (int k = 0; k < n->n_out && !n->dead; k++)
            any |= n->out[k] != STENO_NONE && needed[n->out[k]] && c->dep[n->out[k]];
        if (!any)
            continue;
        if (!per_position(c, n))
            return steno_cut_refuse(c, "a node that may look at several positions", n->name);
        if (steno_pass_is(n, "Concat")) {
            bool ok = false;
            for (int l = 0; l < c->n_layers; l++)
                ok |= n->out[0] == c->layer[l].out;
            if (!ok)
                return steno_cut_refuse(c, "a node that may look at several positions", n->name);
        }
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE && n->in[k] != c->mask &&
                !(k == 2 && steno_cut_is_table(c, n)))
                needed[n->in[k]] = true;
    }
    return STENO_OK;
}
