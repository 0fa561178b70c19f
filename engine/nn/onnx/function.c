/* Model-local functions (ONNX IR.md, "Functions"): each call is inlined. The body's nodes go into
 * the caller's graph. Formal inputs and outputs stand for the caller's values. Attributes that
 * ref_attr_name refers to are the caller's, or the function's defaults. */
#include "nn/onnx/internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_CALL_DEPTH 32

static steno_status put_name(struct loader *l, struct scope *f, const char *name, steno_value_id v)
{
    return steno_names_put(&f->names, name, v)
               ? steno_fail(l->err, STENO_ERR_NOMEM, "out of memory")
               : STENO_OK;
}

static steno_status bind_inputs(struct loader *l, struct scope *s, struct scope *f)
{
    for (size_t i = 0; i < f->func->n_input && i < f->call->n_input; i++) {
        steno_value_id v;
        steno_status st;
        if (!*f->call->input[i])
            continue;
        st = steno_onnx_lookup(l, s, f->call->input[i], &v);
        if (!st && v == STENO_NONE && steno_onnx_omitted(s, f->call->input[i]))
            continue;
        if (!st && v == STENO_NONE)
            st = steno_fail(l->err, STENO_ERR_FORMAT, "call of %s reads '%s', which nothing writes",
                            f->func->name, f->call->input[i]);
        if (!st)
            st = put_name(l, f, f->func->input[i], v);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* Add an Identity for a formal output that is a formal input. */
static steno_status pass_through(struct loader *l, struct scope *f, steno_value_id from,
                                 steno_value_id to)
{
    int32_t at;
    steno_status st =
        steno_graph_add_node(f->g, "", "Identity", f->call->name, 1, 1, 0, &at, l->err);
    if (st)
        return st;
    f->g->nodes[at].opset = 13;
    f->g->nodes[at].in[0] = from;
    f->g->nodes[at].out[0] = to;
    return STENO_OK;
}

static steno_status bind_outputs(struct loader *l, struct scope *s, struct scope *f)
{
    for (size_t i = 0; i < f->func->n_output && i < f->call->n_output; i++) {
        const char *formal = f->func->output[i];
        steno_value_id to, from = steno_names_find(&f->names, formal);
        steno_status st;
        if (!*f->call->output[i])
            continue;
        to = steno_names_find(&s->names, f->call->output[i]);
        st = from == STENO_NONE ? put_name(l, f, formal, to) : pass_through(l, f, from, to);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* Check that the body writes all formal outputs; the caller would have a value without a
 * producer. */
static steno_status outputs_written(struct loader *l, const struct scope *f)
{
    struct steno_names written = {0};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < f->func->n_node && !st; i++)
        for (size_t k = 0; k < f->func->node[i]->n_output && !st; k++)
            if (steno_names_put(&written, f->func->node[i]->output[k], 0))
                st = steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < f->func->n_input && !st; i++)
        if (steno_names_put(&written, f->func->input[i], 0))
            st = steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < f->call->n_output && !st; i++)
        if (*f->call->output[i] && steno_names_find(&written, f->func->output[i]) == STENO_NONE)
            st = steno_fail(l->err, STENO_ERR_FORMAT, "nothing writes output '%s'",
                            f->func->output[i]);
    steno_names_free(&written);
    return st;
}

steno_status steno_onnx_call(struct loader *l, struct scope *s, const Onnx__Node *m,
                             const Onnx__Function *func)
{
    struct scope f = {.g = s->g, .caller = s, .call = m, .func = func, .depth = 0};
    const struct scope *around = s;
    steno_status st;
    while (around->up)
        around = around->up;
    f.depth = around->depth + 1;
    if (f.depth > MAX_CALL_DEPTH)
        return steno_fail(l->err, STENO_ERR_LIMIT, "function '%s': calls nest more than %d deep",
                          func->name, MAX_CALL_DEPTH);
    if (m->n_input > func->n_input || m->n_output > func->n_output)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "node '%s' calls %s with %zu inputs and %zu "
                          "outputs, it has %zu and %zu",
                          m->name, func->name, m->n_input, m->n_output, func->n_input,
                          func->n_output);
    st = outputs_written(l, &f);
    if (!st)
        st = bind_inputs(l, s, &f);
    if (!st)
        st = bind_outputs(l, s, &f);
    if (!st)
        st = steno_onnx_nodes(l, &f, func->node, func->n_node);
    if (st)
        st = steno_fail_in(l->err, st, "in function %s", func->name);
    steno_names_free(&f.names);
    return st;
}
