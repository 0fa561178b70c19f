/* Before: old = q Slice(cache_k; rows 0 .. positions[0])' * scale + (0, or hidden if none)
 *         new = q k' * scale + (positions[j] <= positions[i] ? 0 : hidden)
 *         y = Softmax(Concat(old, new)) times Concat(Slice(cache_v), v) [Transpose, Reshape]
 * After:  y = ai.steno.run:PastAttention(q, k, v, cache_k, cache_v, positions)
 *         (nn/ops/op_past_attention.c)
 *
 * Exporters write so the attention of a language model that gets the cache of all its positions
 * and returns the rows of new ones. Heads of keys and values may be repeated (pass groups). The
 * rows of the caches are read where they are: no Slice, Transpose or Concat copies them. What the
 * number of rows and both masks are is not matched but computed, for a few positions. */
#include "nn/passes/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HIDES (-9.9e3) /* added to a score, it leaves no weight beside one that is seen */
#define CACHE_ROWS 11  /* of the proof, where their number is open */

/* One half: attention to the cache, or to the new rows. */
struct half {
    steno_value_id q, added;
    double scale;
    struct steno_pass_heads k, v;
};

struct past_match {
    struct steno_graph *g;
    const struct steno_pass_env *env;
    const struct steno_node *softmax;
    struct half old, new;
    int64_t heads, size, v_size;
    steno_value_id cache[2], rows[2]; /* keys, values; the ends of their Slices */
    steno_value_id positions, out;
    struct steno_node *last[3]; /* the product, and what turns its result */
};

/* ---- the pattern ---- */

static steno_value_id without_expand(struct steno_graph *g, steno_value_id v)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_is(n, "Expand") ? n->in[0] : v;
}

/* Keys or values v [B, heads, S, size], repeated or not. */
static bool match_rows(struct steno_graph *g, steno_value_id v, int64_t heads, int64_t size,
                       struct steno_pass_heads *m)
{
    const struct steno_shape *s = &g->values[v].shape;
    if (s->rank != 4 || s->dim[1] != heads || s->dim[3] != size || g->values[v].dtype != STENO_F32)
        return false;
    if (steno_pass_shared_heads(g, v, heads, size, m))
        return true;
    m->heads = heads;
    m->x = steno_pass_before_heads(g, v, &m->apart);
    return true;
}

/* Scores v: MatMul(q, Transpose(keys)) * scale + what is added. */
static bool match_half(struct past_match *m, steno_value_id v, struct half *h)
{
    struct steno_graph *g = m->g;
    struct steno_node *add = steno_pass_only_use(g, v, "Add"), *n;
    size_t count = 0;
    const int64_t *perm;
    for (int k = 0; add && k < 2; k++) {
        const struct steno_shape *s;
        struct steno_node *mul = steno_pass_producer(g, add->in[k]);
        if (!steno_pass_is(mul, "Mul") || !steno_pass_scalar(g, mul->in[1], &h->scale) ||
            !steno_pass_is(n = steno_pass_producer(g, mul->in[0]), "MatMul"))
            continue;
        h->q = n->in[0];
        h->added = without_expand(g, add->in[1 - k]);
        s = &g->values[h->q].shape;
        n = steno_pass_producer(g, n->in[1]);
        perm = steno_pass_is(n, "Transpose") ? steno_node_ints(n, "perm", &count) : NULL;
        if (!perm || count != 4 || perm[0] != 0 || perm[1] != 1 || perm[2] != 3 || s->rank != 4 ||
            s->dim[1] < 1 || s->dim[3] < 1 || g->values[h->q].dtype != STENO_F32)
            return false;
        m->heads = s->dim[1];
        m->size = s->dim[3];
        return match_rows(g, n->in[0], m->heads, m->size, &h->k);
    }
    return false;
}

static const struct steno_node *joined_by(struct steno_graph *g, steno_value_id v, int64_t axis)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    const int64_t at = n ? steno_node_int(n, "axis", 0) : 0;
    return steno_pass_is(n, "Concat") && n->n_in == 2 && (at == axis || at == axis - 4) ? n : NULL;
}

/* The cache [B, C, heads, size] of which v is the rows before *end. */
static steno_value_id sliced_cache(struct steno_graph *g, steno_value_id v, int64_t heads,
                                   int64_t size, steno_value_id *end)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    const struct steno_shape *s;
    double start, axis, step = 1;
    if (!steno_pass_is(n, "Slice") || n->opset < 10 || n->n_in < 4 ||
        !steno_pass_scalar(g, n->in[1], &start) || start != 0 ||
        !steno_pass_scalar(g, n->in[3], &axis) || axis != 1 ||
        (n->n_in > 4 && !(steno_pass_scalar(g, n->in[4], &step) && step == 1)))
        return STENO_NONE;
    *end = n->in[2];
    v = n->in[0];
    n = steno_pass_producer(g, v);
    if (steno_pass_is(n, "Cast") && g->values[n->in[0]].dtype == STENO_F16)
        v = n->in[0];
    s = &g->values[v].shape;
    return s->rank == 4 && s->dim[2] == heads && s->dim[3] == size ? v : STENO_NONE;
}

/* The result, past a Transpose that joins the heads of a row and the Reshape after it. */
static void match_result(struct past_match *m, struct steno_node *product)
{
    struct steno_graph *g = m->g;
    struct steno_node *t = steno_pass_only_reader(g, product->out[0]), *r;
    bool apart = true;
    m->last[0] = product;
    m->out = product->out[0];
    if (!steno_pass_is(t, "Transpose") || steno_pass_before_heads(g, t->out[0], &apart) != m->out ||
        apart)
        return;
    r = steno_pass_only_reader(g, t->out[0]);
    if (!steno_pass_is(r, "Reshape") || r->in[0] != t->out[0] ||
        g->values[r->out[0]].shape.rank != 3 ||
        g->values[r->out[0]].shape.dim[2] != m->heads * m->v_size)
        return;
    m->last[1] = t;
    m->last[2] = r;
    m->out = r->out[0];
}

static bool match_past(struct past_match *m)
{
    struct steno_graph *g = m->g;
    const struct steno_node *scores = joined_by(g, m->softmax->in[0], 3), *values;
    struct steno_node *product = steno_pass_only_reader(g, m->softmax->out[0]);
    const int64_t axis = steno_node_int(m->softmax, "axis", m->softmax->opset >= 13 ? -1 : 1);
    if (!scores || (axis != -1 && axis != 3) || !steno_pass_is(product, "MatMul") ||
        product->in[0] != m->softmax->out[0] || !(values = joined_by(g, product->in[1], 2)) ||
        !match_half(m, scores->in[0], &m->old) || !match_half(m, scores->in[1], &m->new) ||
        m->old.q != m->new.q || m->old.scale != m->new.scale ||
        g->values[product->in[1]].shape.rank != 4)
        return false;
    m->v_size = g->values[product->in[1]].shape.dim[3];
    if (m->v_size < 1 || !match_rows(g, values->in[0], m->heads, m->v_size, &m->old.v) ||
        !match_rows(g, values->in[1], m->heads, m->v_size, &m->new.v) || m->old.k.apart ||
        m->old.v.apart || m->old.k.heads != m->new.k.heads || m->old.k.heads != m->old.v.heads ||
        m->old.k.heads != m->new.v.heads)
        return false;
    m->cache[0] = sliced_cache(g, m->old.k.x, m->old.k.heads, m->size, &m->rows[0]);
    m->cache[1] = sliced_cache(g, m->old.v.x, m->old.k.heads, m->v_size, &m->rows[1]);
    if (m->cache[0] == STENO_NONE || m->cache[1] == STENO_NONE ||
        g->values[m->cache[0]].dtype != g->values[m->cache[1]].dtype)
        return false;
    match_result(m, product);
    return true;
}

/* ---- the proof: what depends on positions ---- */

struct sample {
    int64_t positions[3], n;
};

/* Compute v for some positions. Other symbols of the caches' shapes are 1. */
static bool compute_past(const struct past_match *m, const bool *fixed, steno_value_id v,
                         const struct sample *s, struct steno_tensor *out, steno_arena *mem)
{
    struct steno_trial part = {.g = m->g, .fixed = fixed, .from = m->positions, .end = v};
    const struct steno_shape *c = &m->g->values[m->cache[0]].shape;
    const struct steno_shape *d = &m->g->values[m->cache[1]].shape;
    const int64_t t = m->g->values[m->positions].shape.dim[0];
    const struct steno_trial_sizes sizes = {{c->dim[0], c->dim[1], d->dim[0], d->dim[1], t},
                                            {1, CACHE_ROWS, 1, CACHE_ROWS, s->n}};
    const struct steno_tensor leaf = {.dtype = STENO_I64,
                                      .shape = {.rank = 1, .dim = {s->n}},
                                      .data = (void *)(uintptr_t)s->positions};
    const bool ok =
        steno_trial_find(&part) && steno_trial_run(&part, m->env, &sizes, &leaf, out, mem);
    steno_trial_free(&part);
    return ok;
}

/* The part of the cache, of `held` rows, that is seen is its first positions[0] rows. */
static bool sees_rows(const struct sample *s, int64_t held, const struct steno_tensor *end,
                      const struct steno_tensor *added)
{
    int64_t n;
    float beside;
    if (end->dtype != STENO_I64 || steno_numel(end) != 1 || added->dtype != STENO_F32 ||
        steno_numel(added) != 1)
        return false;
    memcpy(&n, end->data, sizeof n);
    memcpy(&beside, added->data, sizeof beside);
    n = n < 0 ? n + held : n;
    n = n < 0 ? 0 : n > held ? held : n;
    if (s->positions[0] <= 0)
        return n == 0 || (double)beside <= HIDES;
    return beside == 0 && n == (s->positions[0] < held ? s->positions[0] : held);
}

static bool is_causal(const struct sample *s, const struct steno_tensor *added)
{
    const float *x = added->data;
    if (added->dtype != STENO_F32 || (int64_t)steno_numel(added) != s->n * s->n)
        return false;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->n; j++, x++)
            if (s->positions[j] <= s->positions[i] ? *x != 0 : !((double)*x <= HIDES))
                return false;
    return true;
}

static bool proves(const struct past_match *m, const bool *fixed, steno_arena *mem)
{
    static const struct sample samples[] = {{{0}, 1},    {{1}, 1},          {{4}, 1},
                                            {{10}, 1},   {{CACHE_ROWS}, 1}, {{CACHE_ROWS + 2}, 1},
                                            {{-2}, 1},   {{0, 1, 2}, 3},    {{3, 4, 5}, 3},
                                            {{7, 8}, 2}, {{5, 9, 2}, 3}};
    const int64_t rows = m->g->values[m->positions].shape.dim[0];
    int shown = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct steno_tensor end, old, new;
        const struct sample *s = &samples[i];
        if (rows >= 0 && rows != s->n)
            continue;
        if (!compute_past(m, fixed, m->old.added, s, &old, mem) ||
            !compute_past(m, fixed, m->new.added, s, &new, mem) || !is_causal(s, &new))
            return false;
        for (int k = 0; k < 2; k++) {
            const int64_t held = m->g->values[m->cache[k]].shape.dim[1];
            if (!compute_past(m, fixed, m->rows[k], s, &end, mem) ||
                !sees_rows(s, held < 0 ? CACHE_ROWS : held, &end, &old))
                return false;
        }
        shown++;
    }
    return shown > 1;
}

/* Find the input that tells the positions. */
static bool find_positions(struct past_match *m)
{
    struct steno_graph *g = m->g;
    bool *fixed = malloc((size_t)g->n_values * sizeof *fixed), found = false;
    for (int i = 0; fixed && !found && i < g->n_inputs; i++) {
        const struct steno_value *v = &g->values[g->inputs[i]];
        steno_arena *mem;
        if (v->dtype != STENO_I64 || v->shape.rank != 1)
            continue;
        mem = steno_arena_new((size_t)1 << 20);
        m->positions = g->inputs[i];
        steno_trial_fixed(g, m->positions, fixed);
        found = mem && fixed[m->rows[0]] && fixed[m->rows[1]] && fixed[m->old.added] &&
                fixed[m->new.added] && proves(m, fixed, mem);
        steno_arena_free(mem);
    }
    free(fixed);
    return found;
}

/* ---- the rewrite ---- */

static steno_status build_past(const struct past_match *m, steno_err *err)
{
    bool q_apart;
    const steno_value_id q = steno_pass_before_heads(m->g, m->old.q, &q_apart);
    const int64_t apart =
        q_apart | m->new.k.apart << 1 | m->new.v.apart << 2 | (m->last[2] ? 0 : 16);
    for (int i = 0; i < 3 && m->last[i]; i++)
        m->last[i]->dead = true;
    return steno_pass_put(
        m->g, m->last[0]->name,
        STENO_NODE(
            "ai.steno.run", "PastAttention", 1,
            .in = STENO_VALUES(q, m->new.k.x, m->new.v.x, m->cache[0], m->cache[1], m->positions),
            .out = STENO_VALUES(m->out),
            .attr = STENO_ATTRS(
                STENO_INT_ATTR("heads", m->heads), STENO_INT_ATTR("size", m->size),
                STENO_INT_ATTR("v_size", m->v_size), STENO_INT_ATTR("kv_heads", m->new.k.heads),
                STENO_INT_ATTR("apart", apart), STENO_FLOAT_ATTR("scale", (float)m->old.scale))),
        err);
}

steno_status steno_pass_past(struct steno_graph *g, const struct steno_pass_env *env,
                             struct steno_node *n, int *changed, steno_err *err)
{
    struct past_match m = {.g = g, .env = env, .softmax = n};
    if (!env->to_run || !steno_pass_is(n, "Softmax") || !match_past(&m) || !find_positions(&m))
        return STENO_OK;
    ++*changed;
    return build_past(&m, err);
}
