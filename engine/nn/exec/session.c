#include "nn/exec/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

steno_status steno_session_open(steno_session **out, steno_network *n,
                                const struct steno_session_options *opt, steno_err *err)
{
    steno_session *s = calloc(1, sizeof *s);
    int threads = opt && opt->threads > 0 ? opt->threads : 1;
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a session");
    if (n->rewrite_only) {
        free(s);
        return steno_fail(err, STENO_ERR_INVAL, "the network was opened for rewriting only");
    }
    s->net = n;
    s->in = calloc((size_t)n->g->n_inputs + 1, sizeof *s->in);
    s->in_ptr = calloc((size_t)n->g->n_inputs + 1, sizeof *s->in_ptr);
    s->rows = calloc((size_t)n->g->n_inputs + 1, sizeof *s->rows);
    if (!s->in || !s->in_ptr || !s->rows) {
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory for a session");
        goto fail;
    }
    st = steno_workspace_init(&s->ws, &n->k, threads, err);
    if (opt) {
        s->ws.max_bytes = opt->max_bytes;
        s->ws.max_steps = opt->max_steps;
    }
    s->ws.rows = s->rows;
    s->ws.row_store = &n->row_store;
    if (!st)
        st = steno_frame_new(&s->main, &s->ws, n->g, NULL, NULL, NULL, err);
    if (st)
        goto fail;
    *out = s;
    return STENO_OK;
fail:
    steno_session_close(s);
    return st;
}

void steno_session_close(steno_session *s)
{
    if (!s)
        return;
    steno_frame_free(s->main);
    steno_workspace_free(&s->ws);
    free(s->in);
    free(s->in_ptr);
    free(s->rows);
    free(s);
}

steno_status steno_session_set(steno_session *s, int i, const struct steno_tensor *t,
                               steno_err *err)
{
    const struct steno_graph *g = s->net->g;
    const struct steno_value *v;
    bool ok;
    char want[96], got[96];
    if (i < 0 || i >= g->n_inputs)
        return steno_fail(err, STENO_ERR_INVAL, "there is no input %d; the network has %d", i,
                          g->n_inputs);
    v = &g->values[g->inputs[i]];
    if (v->dtype && t->dtype != v->dtype)
        return steno_fail(err, STENO_ERR_INVAL, "input '%s' has type %s, but %s was given", v->name,
                          steno_dtype_name(v->dtype), steno_dtype_name(t->dtype));
    ok = steno_shape_known(&t->shape) && (v->shape.rank < 0 || v->shape.rank == t->shape.rank);
    for (int d = 0; ok && d < v->shape.rank; d++)
        ok = v->shape.dim[d] < 0 || v->shape.dim[d] == t->shape.dim[d];
    if (!ok)
        return steno_fail(err, STENO_ERR_INVAL, "input '%s' has shape %s, but %s was given",
                          v->name, steno_shape_str(&v->shape, want, sizeof want),
                          steno_shape_str(&t->shape, got, sizeof got));
    s->in[i] = *t;
    s->in_ptr[i] = &s->in[i];
    s->rows[i] = NULL;
    return STENO_OK;
}

int steno_session_in_place(const steno_session *s, int i)
{
    const struct steno_graph *g = s->net->g;
    const struct steno_value *v = i >= 0 && i < g->n_inputs ? &g->values[g->inputs[i]] : NULL;
    const struct steno_node *n;
    if (!v || v->uses != 1 || v->is_output || v->reader == STENO_NONE || s->net->observer)
        return -1;
    n = &g->nodes[v->reader];
    if (!(n->op->flags & STENO_OP_ROWS2) || n->n_in < 3 || n->in[2] != g->inputs[i] ||
        n->n_out < 2 || n->out[1] == STENO_NONE || g->values[n->out[1]].uses != 1)
        return -1;
    for (int k = 0; k < g->n_outputs; k++)
        if (g->outputs[k] == n->out[1])
            return k;
    return -1;
}

steno_status steno_session_set_rows(steno_session *s, int i, const struct steno_tensor *t,
                                    void *const *row, steno_err *err)
{
    struct steno_tensor apart = *t;
    steno_status st;
    if (steno_session_in_place(s, i) < 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          "input %d is not a state that can be updated in place", i);
    apart.data = NULL;
    st = steno_session_set(s, i, &apart, err);
    if (!st)
        s->rows[i] = row;
    return st;
}

void steno_session_bind_kv(steno_session *s, const struct steno_kv_binding *kv_binding)
{
    s->ws.kv_binding = kv_binding;
}

steno_status steno_session_run(steno_session *s, steno_err *err)
{
    const struct steno_graph *g = s->net->g;
    unsigned fp;
    steno_status st;
    for (int i = 0; i < g->n_inputs; i++)
        if (!s->in_ptr[i])
            return steno_fail(err, STENO_ERR_INVAL, "input '%s' was not set",
                              g->values[g->inputs[i]].name);
    if (s->net->observer)
        s->net->observer->run(s->net->observer->arg, s->net->path, s->net, s->in);
    steno_workspace_merge_scratch(&s->ws);
    s->ws.steps = 0;
    fp = steno_cpu_flush_denormals();
    st = steno_frame_run(s->main, s->in_ptr, err);
    steno_cpu_restore_denormals(fp);
    return !st && s->net->mapped
               ? steno_map_check(s->net->mapped, s->net->path ? s->net->path : "packed weights",
                                 err)
               : st;
}

const struct steno_tensor *steno_session_get(const steno_session *s, int i)
{
    return i >= 0 && i < s->net->g->n_outputs ? &s->main->out_t[i] : NULL;
}

void steno_session_trim(steno_session *s, bool all)
{
    steno_frame_trim(s->main, all);
    steno_workspace_trim(&s->ws);
}

size_t steno_session_arena_bytes(const steno_session *s)
{
    return s->ws.bytes;
}

size_t steno_session_plan_constant_bytes(const steno_session *s)
{
    size_t n = steno_row_store_bytes(&s->net->row_store);
    for (int i = 0; i < STENO_MAX_PLANS; i++)
        n += s->main->plans[i] ? s->main->plans[i]->constant_bytes : 0;
    return n;
}

double steno_session_flops(const steno_session *s)
{
    const struct plan *p = s->main->cur;
    double sum = s->main->flops;
    for (int32_t i = 0; p && i < p->n_steps; i++) /* shapes that only the run has shown */
        if (p->steps[i].flops <= 0)
            sum += steno_node_flops(p->steps[i].node, p->steps[i].in, p->steps[i].out);
    return sum;
}

size_t steno_session_misplans(const steno_session *s)
{
    return s->ws.misplans;
}

void steno_session_set_profile(steno_session *s, bool on)
{
    s->ws.profile = on;
}

/* Bytes that a node moves. A view counts 0, Gather counts only the rows that it takes, and packed
 * weights count as packed. */
static double bytes_of(const struct step *s)
{
    const struct steno_graph *g = s->scope->g;
    double sum = (double)s->node->packed;
    size_t n;
    bool skip0 = !strcmp(s->node->op_type, "Gather") || (s->node->op->flags & STENO_OP_SHAPE_ONLY);
    if (s->node->op->flags & STENO_OP_VIEW)
        return 0;
    for (int k = skip0; k < s->node->n_in; k++) {
        const struct steno_value *v =
            s->node->in[k] == STENO_NONE ? NULL : &g->values[s->node->in[k]];
        if (s->node->packed && k < 32 && s->node->packed_in >> k & 1)
            continue;
        if (s->in[k] && !steno_shape_bytes(&s->in[k]->shape, s->in[k]->dtype, &n))
            sum += (double)n;
        else if (v && !steno_shape_bytes(&v->shape, v->dtype, &n))
            sum += (double)n;
    }
    for (int k = 0; k < s->node->n_out; k++)
        if (s->out[k] && !steno_shape_bytes(&s->out[k]->t.shape, s->out[k]->t.dtype, &n))
            sum += (double)n;
    return sum;
}

bool steno_session_profile(const steno_session *s, int i, struct steno_profile_row *row)
{
    const struct plan *p = s->main->cur;
    const struct step *step;
    if (!p || i < 0 || i >= p->n_busy)
        return false;
    step = &p->steps[p->busy[i]];
    row->node = step->node;
    row->graph = step->scope->g;
    row->ns = step->ns;
    row->runs = step->runs;
    row->flops = steno_node_flops(row->node, step->in, step->out);
    row->bytes = bytes_of(step);
    return true;
}
