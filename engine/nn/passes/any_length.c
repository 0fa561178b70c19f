/* Before: Slice(table [1, n, d], start, end; axis 1)        a table of sines
 *         Gather(table, place; axis 1)                      the same, one token at a time
 *         Slice(Gather(mask [n, n], last), 0, end; axis 1)  mask[i, j] = j > i, or its opposite
 * After:  ai.steno.run:Positions(table, start, end), Positions(table, place), LengthMask(last, end)
 * In ESPnet's tables of relative positions, row r of 2 n - 1 holds position n - 1 - r. start is
 * computed from n and falls below 0 for a length above n, where Slice would count from the back. */
#include "nn/passes/incremental.h"

#include <math.h>
#include <string.h>

#include "nn/ops/positions.h"

#define TOLERANCE 1e-3F /* of angles that were rounded to f32 before the sine was computed */
#define MIN_ROWS 16

/* Read a constant integer. */
static bool integer(const struct steno_graph *g, steno_value_id v, int64_t *out)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_I64 || steno_numel(t) != 1)
        return false;
    *out = *(const int64_t *)t->data;
    return true;
}

static bool sines(const struct steno_tensor *t, int64_t center)
{
    int64_t n = t->shape.dim[1], d = t->shape.dim[2], step = 1 + n / 64;
    /* The first and last rows and some between. Rows within the table are read from it in any
     * case. */
    for (int64_t r = 0; r < n; r += r < 4 || r >= n - 4 - step ? 1 : step)
        for (int64_t k = 0; k < d; k++) {
            float want = steno_ops_position(center < 0 ? r : center - r, k, d), have;
            memcpy(&have, (const char *)t->data + (r * d + k) * (int64_t)sizeof have, sizeof have);
            if (!(fabsf(have - want) < TOLERANCE))
                return false;
        }
    return true;
}

/* *center: -1 for absolute positions, else the row of position 0. */
static bool is_table(const struct steno_graph *g, steno_value_id v, int64_t *center)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_F32 || t->shape.rank != 3 || t->shape.dim[0] != 1 ||
        t->shape.dim[1] < MIN_ROWS || t->shape.dim[2] < 2)
        return false;
    *center = -1;
    if (sines(t, -1))
        return true;
    *center = t->shape.dim[1] / 2;
    return t->shape.dim[1] % 2 && sines(t, *center);
}

static bool along(const struct steno_graph *g, const struct steno_node *n, int64_t axis)
{
    int64_t a, step = 1;
    return steno_pass_is(n, "Slice") && n->n_in >= 4 && integer(g, n->in[3], &a) && a == axis &&
           (n->n_in < 5 || (integer(g, n->in[4], &step) && step == 1));
}

/* Turn node n into an operator of domain ai.steno.run with these inputs. */
static steno_status replace_by(struct steno_graph *g, struct steno_node *n, const char *type,
                               struct steno_pass_values in, const char *attr, int64_t value,
                               steno_err *err)
{
    return steno_pass_become(g, n,
                             STENO_NODE("ai.steno.run", type, 1, .in = in,
                                        .out = STENO_VALUES(n->out[0]),
                                        .attr = STENO_ATTRS(STENO_INT_ATTR(attr, value))),
                             err);
}

static steno_status positions(struct steno_graph *g, struct steno_node *n, int *changed,
                              steno_err *err)
{
    int64_t center, fixed, axis = steno_node_int(n, "axis", 0);
    bool slice = along(g, n, 1);
    const struct steno_value *at;
    if ((!slice && !(steno_pass_is(n, "Gather") && axis == 1)) || !is_table(g, n->in[0], &center))
        return STENO_OK;
    if (slice) {
        if (integer(g, n->in[2], &fixed)) /* a constant end is not a length */
            return STENO_OK;
        ++*changed;
        return replace_by(g, n, "Positions",
                          (struct steno_pass_values)STENO_VALUES(n->in[0], n->in[1], n->in[2]),
                          "center", center, err);
    }
    at = &g->values[n->in[1]];
    if (at->dtype != STENO_I64 || at->shape.rank != 1 || at->shape.dim[0] != 1)
        return STENO_OK;
    ++*changed;
    return replace_by(g, n, "Positions", (struct steno_pass_values)STENO_VALUES(n->in[0], n->in[1]),
                      "center", center, err);
}

/* A square table of flags for column > row. *below: 1 if the flags are inverted. */
static bool is_mask(const struct steno_graph *g, steno_value_id v, int64_t *below)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    const uint8_t *m;
    int64_t n;
    if (!t || !t->data || t->dtype != STENO_BOOL || t->shape.rank != 2 ||
        t->shape.dim[0] < MIN_ROWS || t->shape.dim[0] != t->shape.dim[1])
        return false;
    n = t->shape.dim[0];
    m = t->data;
    *below = m[0] != 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if ((m[i * n + j] != 0) != ((j > i) != (*below != 0)))
                return false;
    return true;
}

static steno_status masks(struct steno_graph *g, struct steno_node *n, int *changed, steno_err *err)
{
    int64_t start, below;
    const struct steno_node *rows;
    if (!along(g, n, 1) || !integer(g, n->in[1], &start) || start != 0)
        return STENO_OK;
    rows = steno_pass_only_use(g, n->in[0], "Gather");
    if (!rows || steno_node_int(rows, "axis", 0) != 0 || g->values[rows->in[1]].shape.rank != 1 ||
        g->values[rows->in[1]].dtype != STENO_I64 || !is_mask(g, rows->in[0], &below))
        return STENO_OK;
    ++*changed;
    return replace_by(g, n, "LengthMask",
                      (struct steno_pass_values)STENO_VALUES(rows->in[1], n->in[2]), "below", below,
                      err);
}

steno_status steno_any_length(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    int before = *changed, dead = 0;
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < g->n_nodes && !st; i++) {
        if (g->nodes[i].dead)
            continue;
        st = masks(g, &g->nodes[i], changed, err);
        if (!st)
            st = positions(g, &g->nodes[i], changed, err);
    }
    if (st || *changed == before)
        return st;
    steno_graph_recount(g);
    st = steno_pass_dead(g, env, &dead, err);
    if (!st)
        st = steno_graph_sort(g, err);
    return st ? st : env->infer(env->arg, g, err);
}
