/* ONNX messages -> graph IR: names become values, which get their types and, if they are constant,
 * their elements. load_graph.c has nodes and graphs. */
#include "nn/onnx/internal.h"

#include <string.h>

/* ---- names ---- */

steno_status steno_onnx_lookup(struct loader *l, struct scope *s, const char *name,
                               steno_value_id *out)
{
    steno_value_id v = steno_names_find(&s->names, name), outer;
    steno_status st;
    *out = v;
    if (v != STENO_NONE || !s->up)
        return STENO_OK;
    st = steno_onnx_lookup(l, s->up, name, &outer);
    if (st || outer == STENO_NONE)
        return st;
    st = steno_graph_capture(s->g, outer, &v, l->err);
    if (!st && steno_names_put(&s->names, name, v))
        st = steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        *out = v;
    return st;
}

steno_status steno_onnx_declare(struct loader *l, struct scope *s, const char *name,
                                steno_value_id *out)
{
    steno_value_id v;
    steno_status st;
    if (!*name)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "graph '%s' has an input or an initializer without a name", s->g->name);
    if (steno_names_find(&s->names, name) != STENO_NONE)
        return steno_fail(l->err, STENO_ERR_FORMAT, "value '%s' is written twice", name);
    st = steno_graph_add_value(s->g, name, &v, l->err);
    if (!st && steno_names_put(&s->names, name, v))
        st = steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        *out = v;
    return st;
}

bool steno_onnx_keeps_unknown(const struct loader *l)
{
    return l->opt && l->opt->keep_unknown;
}

/* True for the type of a dense tensor that the graph can describe. */
static bool describable(const Onnx__Type *m)
{
    return m->value_case == ONNX__TYPE__VALUE_TENSOR_TYPE &&
           !(m->tensor_type->shape && m->tensor_type->shape->n_dim > STENO_MAX_RANK);
}

/* The type of a sequence of tensors that the engine can hold, else STENO_DT_NONE. */
static steno_dtype sequence_type(const Onnx__Type *m)
{
    const Onnx__Type *e =
        m && m->value_case == ONNX__TYPE__VALUE_SEQUENCE_TYPE ? m->sequence_type->elem_type : NULL;
    if (!e || e->value_case != ONNX__TYPE__VALUE_TENSOR_TYPE ||
        !steno_dtype_is_element((steno_dtype)e->tensor_type->elem_type))
        return STENO_DT_NONE;
    return steno_dtype_sequence_of((steno_dtype)e->tensor_type->elem_type);
}

steno_dtype steno_onnx_value_type(const Onnx__Type *m)
{
    const bool tensor = m && m->value_case == ONNX__TYPE__VALUE_TENSOR_TYPE;
    const steno_dtype t = tensor ? (steno_dtype)m->tensor_type->elem_type : sequence_type(m);
    return !tensor || steno_dtype_is_element(t) ? t : STENO_DT_NONE;
}

/* The type of an optional that the engine can hold, else STENO_DT_NONE. */
static steno_dtype optional_type(const Onnx__Type *m)
{
    const bool is = m->value_case == ONNX__TYPE__VALUE_OPTIONAL_TYPE;
    const steno_dtype of = is ? steno_onnx_value_type(m->optional_type->elem_type) : STENO_DT_NONE;
    return of ? steno_dtype_optional_of(of) : STENO_DT_NONE;
}

/* The type of an input of the model. An optional tensor is one that every caller gives. */
static const Onnx__Type *given_type(const struct steno_graph *g, steno_value_id v,
                                    const Onnx__Type *m)
{
    if (g->parent || !g->values[v].is_input || m->value_case != ONNX__TYPE__VALUE_OPTIONAL_TYPE ||
        !m->optional_type->elem_type)
        return m;
    return m->optional_type->elem_type;
}

steno_status steno_onnx_set_type(struct loader *l, struct steno_graph *g, steno_value_id v,
                                 const Onnx__ValueInfo *m)
{
    struct steno_value *val = &g->values[v];
    const Onnx__Type__TensorKind *t;
    const Onnx__Type *type = m->type;
    steno_dtype block;
    if (!type || type->value_case == ONNX__TYPE__VALUE__NOT_SET)
        return STENO_OK;
    block = sequence_type(type) ? sequence_type(type) : optional_type(type);
    if (block && (g->parent || steno_onnx_keeps_unknown(l)))
        val->dtype = block;
    if (steno_onnx_keeps_unknown(l) && !describable(type))
        return steno_onnx_keep_type(l, g, type, &val->type);
    if (steno_dtype_is_block(val->dtype))
        return STENO_OK;
    type = given_type(g, v, type);
    if (type->value_case != ONNX__TYPE__VALUE_TENSOR_TYPE)
        return steno_fail(
            l->err, STENO_ERR_UNSUPPORTED,
            "value '%s' is not a tensor: "
            "maps are not supported, nor are sequences as inputs or outputs of a model, nor "
            "optionals of other values than tensors as its inputs, nor optionals as its outputs",
            m->name);
    t = type->tensor_type;
    if (steno_dtype_is_block((steno_dtype)t->elem_type) ||
        (!steno_onnx_keeps_unknown(l) && t->elem_type &&
         !steno_dtype_size((steno_dtype)t->elem_type)))
        return steno_fail(l->err, STENO_ERR_UNSUPPORTED,
                          "value '%s': element type %s (%d) is not "
                          "supported",
                          m->name, steno_dtype_name((steno_dtype)t->elem_type), t->elem_type);
    val->dtype = (steno_dtype)t->elem_type;
    if (!t->shape)
        return STENO_OK;
    if (t->shape->n_dim > STENO_MAX_RANK)
        return steno_fail(l->err, STENO_ERR_LIMIT, "value '%s': rank %zu, at most %d is supported",
                          m->name, t->shape->n_dim, STENO_MAX_RANK);
    val->shape.rank = (int)t->shape->n_dim;
    for (size_t i = 0; i < t->shape->n_dim; i++) {
        const Onnx__TensorShape__Dimension *d = t->shape->dim[i];
        int64_t *x = &val->shape.dim[i];
        *x = STENO_DIM_ANY;
        if (d->value_case == ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_VALUE && d->dim_value >= 0)
            *x = d->dim_value;
        else if (d->value_case == ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_PARAM && *d->dim_param &&
                 strcmp(d->dim_param, "?")) /* paddle2onnx: any extent, not the same one */
            *x = steno_graph_symbol(g, d->dim_param);
    }
    return STENO_OK;
}

/* Types and shapes that the file gives for values inside, for inference to fall back on. */
steno_status steno_onnx_given_types(struct loader *l, struct scope *s, const Onnx__Graph *m)
{
    struct steno_graph *g = s->g;
    for (size_t i = 0; steno_onnx_keeps_unknown(l) && i < m->n_value_info; i++) {
        const Onnx__ValueInfo *info = m->value_info[i];
        steno_value_id v = steno_names_find(&s->names, info->name);
        struct steno_value was;
        struct steno_tensor *t;
        steno_status st;
        if (v == STENO_NONE || g->values[v].is_input || g->values[v].constant || !info->type ||
            !describable(info->type))
            continue;
        was = g->values[v];
        st = steno_onnx_set_type(l, g, v, info);
        t = st ? NULL : steno_graph_alloc(g, 1, sizeof *t, l->err);
        if (!t)
            return st ? st : STENO_ERR_NOMEM;
        t->dtype = g->values[v].dtype;
        t->shape = g->values[v].shape;
        g->values[v] = was;
        g->values[v].given = t;
    }
    return STENO_OK;
}

/* ---- constants ---- */

/* Takes ownership of t, also on failure. */
static steno_status set_const(struct loader *l, struct steno_graph *g, steno_value_id v,
                              const struct steno_tensor *t, bool mapped)
{
    steno_status st;
    if (mapped)
        return steno_graph_set_mapped(g, v, t, l->err);
    st = steno_graph_set_const(g, v, t, true, l->err);
    if (st)
        steno_aligned_free(t->data);
    return st;
}

static steno_status declare_const(struct loader *l, struct scope *s, const char *name,
                                  struct steno_tensor *t, bool mapped)
{
    steno_value_id v;
    steno_status st = steno_onnx_declare(l, s, name, &v);
    if (!st)
        return set_const(l, s->g, v, t, mapped);
    if (!mapped)
        steno_aligned_free(t->data);
    return st;
}

static steno_status declare_unread(struct loader *l, struct scope *s, Onnx__Tensor *m)
{
    const struct steno_opaque *kept;
    steno_value_id v;
    steno_status st = steno_onnx_keep_tensor(l, s->g, m, &kept);
    if (!st)
        st = steno_onnx_declare(l, s, m->name, &v);
    if (st)
        return st;
    s->g->values[v].elements = kept;
    s->g->values[v].dtype = (steno_dtype)m->data_type;
    return STENO_OK;
}

static steno_status stored(struct loader *l, struct scope *s, const Onnx__Tensor *m, bool *done)
{
    struct steno_tensor t;
    steno_value_id v;
    steno_status st = steno_onnx_stored(l->opt, m, &t, done, l->err);
    if (st || !*done)
        return st;
    st = steno_onnx_declare(l, s, m->name, &v);
    return st ? st : steno_graph_set_const(s->g, v, &t, false, l->err);
}

steno_status steno_onnx_initializers(struct loader *l, struct scope *s, Onnx__Graph *m)
{
    struct steno_tensor t;
    for (size_t i = 0; i < m->n_initializer; i++) {
        bool done = false, mapped = false;
        steno_status st = STENO_OK;
        if (l->opt && l->opt->stored)
            st = stored(l, s, m->initializer[i], &done);
        if (st)
            return st;
        if (done)
            continue;
        if (steno_onnx_keeps_unknown(l) && !steno_onnx_readable(m->initializer[i])) {
            st = declare_unread(l, s, m->initializer[i]);
            if (st)
                return st;
            continue;
        }
        st = steno_onnx_tensor(&l->src, m->initializer[i], &t, &mapped, l->err);
        if (!st)
            st = declare_const(l, s, m->initializer[i]->name, &t, mapped);
        if (st)
            return st;
    }
    for (size_t i = 0; i < m->n_sparse_initializer; i++) {
        Onnx__SparseTensor *sp = m->sparse_initializer[i];
        steno_status st = steno_onnx_sparse(&l->src, sp, &t, l->err);
        if (!st)
            st = declare_const(l, s, sp->values->name, &t, false);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status small_const(struct loader *l, struct steno_graph *g, steno_value_id v,
                                steno_dtype dtype, const void *data, size_t n, bool vector)
{
    struct steno_tensor t = {.dtype = dtype, .shape = {.rank = vector, .dim = {(int64_t)n}}};
    size_t bytes = n * steno_dtype_size(dtype);
    t.data = steno_aligned_alloc(bytes);
    if (!t.data)
        return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    if (bytes)
        memcpy(t.data, data, bytes);
    return set_const(l, g, v, &t, false);
}

steno_status steno_onnx_constant_node(struct loader *l, struct scope *s, const Onnx__Node *m,
                                      steno_value_id v)
{
    const Onnx__Attribute *a = m->n_attribute == 1 ? m->attribute[0] : NULL;
    const char *name = a ? a->name : "";
    struct steno_tensor t;
    steno_status st;
    bool mapped = false;
    if (a && *a->ref_attr_name)
        a = steno_onnx_call_attr(s, a->ref_attr_name);
    if (!a)
        return steno_fail(l->err, STENO_ERR_FORMAT, "node '%s' (Constant) needs one attribute",
                          m->name);
    if (!strcmp(name, "value_float"))
        return small_const(l, s->g, v, STENO_F32, &a->f, 1, false);
    if (!strcmp(name, "value_int"))
        return small_const(l, s->g, v, STENO_I64, &a->i, 1, false);
    if (!strcmp(name, "value_floats"))
        return small_const(l, s->g, v, STENO_F32, a->floats, a->n_floats, true);
    if (!strcmp(name, "value_ints"))
        return small_const(l, s->g, v, STENO_I64, a->ints, a->n_ints, true);
    if (!strcmp(name, "value") && a->t)
        st = steno_onnx_tensor(&l->src, a->t, &t, &mapped, l->err);
    else if (!strcmp(name, "sparse_value") && a->sparse_tensor)
        st = steno_onnx_sparse(&l->src, a->sparse_tensor, &t, l->err);
    else
        return steno_fail(l->err, STENO_ERR_UNSUPPORTED,
                          "node '%s' (Constant): %s is not "
                          "supported",
                          m->name, *name ? name : "an unnamed attribute");
    if (st)
        return steno_fail_in(l->err, st, "node '%s' (Constant)", m->name);
    return set_const(l, s->g, v, &t, mapped);
}

bool steno_onnx_stays_node(const struct loader *l, const struct scope *s, const Onnx__Node *m)
{
    const Onnx__Attribute *a = m->n_attribute == 1 ? m->attribute[0] : NULL;
    const char *name = a ? a->name : "";
    if (a && *a->ref_attr_name)
        a = steno_onnx_call_attr(s, a->ref_attr_name);
    if (!steno_onnx_keeps_unknown(l) || !a)
        return false;
    return !strcmp(name, "value_string") || !strcmp(name, "value_strings") ||
           (!strcmp(name, "value") && a->t && !steno_onnx_readable(a->t)) ||
           (!strcmp(name, "sparse_value") && a->sparse_tensor && a->sparse_tensor->values &&
            !steno_onnx_readable(a->sparse_tensor->values));
}
