/* ONNX messages -> graph IR.
 *
 * One pass per graph. First every name that the graph itself writes (inputs, initializers, node
 * outputs) becomes a value, so that nodes may be in any order and a body graph finds what it
 * captures. Then the nodes follow. A `scope` is one place where names are looked up: the main
 * graph, a body graph (which captures from the graph around) or one call of a model-local function
 * (nn/onnx/function.c: its nodes go straight into the caller's graph, under new names). Node
 * Constant becomes a constant value here; it never reaches the engine. */
#include "nn/onnx/ort_format.h"
#include "nn/onnx/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* bytes; matrices from this size on stay in the file until they are needed */
#define STAYS ((size_t)64 << 10)

int steno_onnx_opset(const struct loader *l, const struct scope *s, const char *domain)
{
    const struct scope *f = s;
    Onnx__OperatorSetId **set;
    size_t n;
    while (f->up)
        f = f->up;
    set = f->func ? f->func->opset_import : l->model->opset_import;
    n = f->func ? f->func->n_opset_import : l->model->n_opset_import;
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (size_t i = 0; i < n; i++) {
        const char *d = !strcmp(set[i]->domain, "ai.onnx") ? "" : set[i]->domain;
        if (!strcmp(d, domain))
            return set[i]->version > 0 && set[i]->version < 10000 ? (int)set[i]->version : 0;
    }
    return 0;
}

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

/* Add a value that this scope writes. STENO_ERR_FORMAT if the name is taken or empty; an empty name
 * stands for an absent input or output. */
static steno_status declare(struct loader *l, struct scope *s, const char *name,
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

static bool keeps_unknown(const struct loader *l)
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
        m->value_case == ONNX__TYPE__VALUE_SEQUENCE_TYPE ? m->sequence_type->elem_type : NULL;
    if (!e || e->value_case != ONNX__TYPE__VALUE_TENSOR_TYPE ||
        !steno_dtype_is_element((steno_dtype)e->tensor_type->elem_type))
        return STENO_DT_NONE;
    return steno_dtype_sequence_of((steno_dtype)e->tensor_type->elem_type);
}

static steno_status set_type(struct loader *l, struct steno_graph *g, steno_value_id v,
                             const Onnx__ValueInfo *m)
{
    struct steno_value *val = &g->values[v];
    const Onnx__Type__TensorKind *t;
    steno_dtype sequence;
    if (!m->type || m->type->value_case == ONNX__TYPE__VALUE__NOT_SET)
        return STENO_OK;
    sequence = sequence_type(m->type);
    if (sequence && (g->parent || keeps_unknown(l)))
        val->dtype = sequence;
    if (keeps_unknown(l) && !describable(m->type))
        return steno_onnx_keep_type(l, g, m->type, &val->type);
    if (steno_dtype_is_sequence(val->dtype))
        return STENO_OK;
    if (m->type->value_case != ONNX__TYPE__VALUE_TENSOR_TYPE)
        return steno_fail(l->err, STENO_ERR_UNSUPPORTED,
                          "value '%s' is not a tensor: "
                          "maps and optionals are not supported, nor are sequences as inputs or "
                          "outputs of a model",
                          m->name);
    t = m->type->tensor_type;
    if (steno_dtype_is_sequence((steno_dtype)t->elem_type) ||
        (!keeps_unknown(l) && t->elem_type && !steno_dtype_size((steno_dtype)t->elem_type)))
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
    steno_status st = declare(l, s, name, &v);
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
        st = declare(l, s, m->name, &v);
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
    st = declare(l, s, m->name, &v);
    return st ? st : steno_graph_set_const(s->g, v, &t, false, l->err);
}

static steno_status initializers(struct loader *l, struct scope *s, Onnx__Graph *m)
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
        if (keeps_unknown(l) && !steno_onnx_readable(m->initializer[i])) {
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

/* Node Constant (opset 1 and later): its one attribute becomes the value. */
static steno_status constant_node(struct loader *l, struct scope *s, const Onnx__Node *m,
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

/* True for a Constant that stays a node, since its value cannot be read. */
static bool stays_node(const struct loader *l, const struct scope *s, const Onnx__Node *m)
{
    const Onnx__Attribute *a = m->n_attribute == 1 ? m->attribute[0] : NULL;
    const char *name = a ? a->name : "";
    if (a && *a->ref_attr_name)
        a = steno_onnx_call_attr(s, a->ref_attr_name);
    if (!keeps_unknown(l) || !a)
        return false;
    return !strcmp(name, "value_string") || !strcmp(name, "value_strings") ||
           (!strcmp(name, "value") && a->t && !steno_onnx_readable(a->t)) ||
           (!strcmp(name, "sparse_value") && a->sparse_tensor && a->sparse_tensor->values &&
            !steno_onnx_readable(a->sparse_tensor->values));
}

/* ---- nodes ---- */

static const Onnx__Function *find_function(const struct loader *l, const Onnx__Node *m)
{
    for (size_t i = 0; i < l->model->n_functions; i++) {
        const Onnx__Function *f = l->model->functions[i];
        if (!strcmp(f->name, m->op_type) && !strcmp(f->domain, m->domain) &&
            !strcmp(f->overload, m->overload))
            return f;
    }
    return NULL;
}

bool steno_onnx_omitted(const struct scope *s, const char *name)
{
    while (s->up)
        s = s->up;
    for (size_t i = 0; s->func && i < s->func->n_input; i++)
        if (!strcmp(s->func->input[i], name))
            return true;
    return false;
}

static steno_status connect(struct loader *l, struct scope *s, const Onnx__Node *m,
                            struct steno_node *n)
{
    for (size_t i = 0; i < m->n_input; i++) {
        steno_status st;
        if (!*m->input[i])
            continue;
        st = steno_onnx_lookup(l, s, m->input[i], &n->in[i]);
        if (st)
            return st;
        if (n->in[i] == STENO_NONE && !steno_onnx_omitted(s, m->input[i]))
            return steno_fail(l->err, STENO_ERR_FORMAT,
                              "node '%s' (%s) reads '%s', which nothing "
                              "writes",
                              n->name, n->op_type, m->input[i]);
    }
    for (size_t i = 0; i < m->n_output; i++)
        if (*m->output[i])
            n->out[i] = steno_names_find(&s->names, m->output[i]);
    return STENO_OK;
}

/* Append the node as (domain, type, opset), which may name another operator than m. */
static steno_status make_node(struct loader *l, struct scope *s, const Onnx__Node *m,
                              const char *domain, const char *type, int opset)
{
    char made[96];
    const char *name = m->name;
    struct steno_node n;
    int32_t at;
    steno_status st;
    if (!*name) {
        snprintf(made, sizeof made, "%.60s_%zu", type, l->n_nodes - 1);
        name = made;
    }
    if (m->n_input > INT16_MAX || m->n_output > INT16_MAX || m->n_attribute > INT16_MAX)
        return steno_fail(l->err, STENO_ERR_LIMIT,
                          "node '%s': too many inputs, outputs or "
                          "attributes",
                          name);
    st = steno_graph_add_node(s->g, domain, type, name, (int)m->n_input, (int)m->n_output,
                              (int)m->n_attribute, &at, l->err);
    if (st)
        return st;
    n = s->g->nodes[at]; /* the arrays are the arena's, and the copy fills them */
    n.opset = opset;
    st = connect(l, s, m, &n);
    if (!st)
        st = steno_onnx_attrs(l, s, m, &n);
    if (l->opt && l->opt->stored && strchr(m->overload, ','))
        n.region = (int32_t)strtol(strchr(m->overload, ',') + 1, NULL, 10);
    s->g->nodes[at] = n;
    return st;
}

/* Make one node of a call of a function that our writer made for a fused operator. *done false: it
 * is another function, and nothing was added. */
static steno_status fused_node(struct loader *l, struct scope *s, const Onnx__Node *m,
                               const Onnx__Function *f, bool *done)
{
    char type[128];
    const char *domain;
    int opset;
    steno_status st;
    *done = false;
    if (!l->opt || !l->opt->fused || !l->opt->body || strcmp(m->domain, STENO_FUSED_DOMAIN) ||
        strlen(m->op_type) >= sizeof type)
        return STENO_OK;
    memcpy(type, m->op_type, strlen(m->op_type) + 1);
    if (strstr(type, "__"))
        *strstr(type, "__") = '\0';
    if (!l->opt->fused(type, &domain, &opset))
        return STENO_OK;
    for (size_t i = 0; i < m->n_attribute; i++)
        if (m->attribute[i]->g) /* a body graph would be built twice */
            return STENO_OK;
    st = make_node(l, s, m, domain, type, opset);
    if (!st)
        st = steno_onnx_same_function(l->opt, s->g, &s->g->nodes[s->g->n_nodes - 1], f, done,
                                      l->err);
    if (!st && !*done)
        s->g->n_nodes--;
    return st;
}

static steno_status add_node(struct loader *l, struct scope *s, const Onnx__Node *m)
{
    bool private = l->opt && l->opt->stored;
    int opset = private ? (int)strtol(m->overload, NULL, 10) : steno_onnx_opset(l, s, m->domain);
    const Onnx__Function *f = private ? NULL : find_function(l, m);
    if (++l->n_nodes > STENO_ONNX_MAX_NODES)
        return steno_fail(l->err, STENO_ERR_LIMIT, "more than %u nodes", STENO_ONNX_MAX_NODES);
    if (f) {
        bool done;
        steno_status st = fused_node(l, s, m, f, &done);
        if (st || done)
            return st;
        if (!strcmp(m->domain, STENO_FUSED_DOMAIN) || !l->opt || !l->opt->native ||
            !l->opt->native(m->domain, m->op_type, opset))
            return steno_onnx_call(l, s, m, f);
    }
    if (!*m->domain && !strcmp(m->op_type, "Constant") && m->n_output == 1 &&
        !stays_node(l, s, m)) {
        steno_value_id v = steno_names_find(&s->names, m->output[0]);
        return v == STENO_NONE ? STENO_OK : constant_node(l, s, m, v);
    }
    if (!opset && !f)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "node '%s' (%s): the model imports no opset of "
                          "domain '%s'",
                          m->name, m->op_type, m->domain);
    return make_node(l, s, m, m->domain, m->op_type, opset);
}

#define MAX_REPEATS 256 /* nodes that stand twice: each costs a walk over the nodes before it */

static bool same_strings(char *const *a, size_t n_a, char *const *b, size_t n_b)
{
    bool same = n_a == n_b;
    for (size_t i = 0; same && i < n_a; i++)
        same = !strcmp(a[i], b[i]);
    return same;
}

static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    size_t n = protobuf_c_message_get_packed_size(a);
    uint8_t *bytes = n == protobuf_c_message_get_packed_size(b) ? malloc(2 * n + 1) : NULL;
    bool same = bytes != NULL;
    if (same) {
        protobuf_c_message_pack(a, bytes);
        protobuf_c_message_pack(b, bytes + n);
        same = !memcmp(bytes, bytes + n, n);
    }
    free(bytes);
    return same;
}

/* True for a node that stands twice in the file: ONNX Runtime's quantize_dynamic writes the
 * Transpose of a weight that unrolled LSTMs share once for each reader. */
static bool repeats_earlier(Onnx__Node *const *nodes, size_t i)
{
    const Onnx__Node *b = nodes[i];
    for (size_t k = 0; k < i; k++) {
        const Onnx__Node *a = nodes[k];
        bool same = !strcmp(a->op_type, b->op_type) && !strcmp(a->domain, b->domain) &&
                    same_strings(a->output, a->n_output, b->output, b->n_output) &&
                    same_strings(a->input, a->n_input, b->input, b->n_input) &&
                    a->n_attribute == b->n_attribute;
        for (size_t j = 0; same && j < a->n_attribute; j++)
            same = same_message(&a->attribute[j]->base, &b->attribute[j]->base);
        if (same)
            return true;
    }
    return false;
}

/* Remove nodes[i] from the list; the order of the others stays. */
static void remove_node(Onnx__Node **nodes, size_t i, size_t *n)
{
    Onnx__Node *gone = nodes[i];
    memmove(nodes + i, nodes + i + 1, (*n - i - 1) * sizeof *nodes);
    nodes[--*n] = gone; /* still the message's */
}

steno_status steno_onnx_nodes(struct loader *l, struct scope *s, Onnx__Node **nodes, size_t n)
{
    int repeats = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i]->n_output; k++) {
            const char *name = nodes[i]->output[k];
            steno_value_id v;
            steno_status st;
            /* formal outputs of a function are bound to the caller's values already */
            if (!*name || (s->func && !s->up && steno_names_find(&s->names, name) != STENO_NONE))
                continue;
            if (!k && steno_names_find(&s->names, name) != STENO_NONE && repeats < MAX_REPEATS &&
                repeats_earlier(nodes, i)) {
                remove_node(nodes, i--, &n);
                repeats++;
                break;
            }
            st = declare(l, s, name, &v);
            if (st)
                return steno_fail_in(l->err, st, "node '%s' (%s)", nodes[i]->name,
                                     nodes[i]->op_type);
        }
    for (size_t i = 0; i < n; i++) {
        steno_status st = add_node(l, s, nodes[i]);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* ---- graphs ---- */

static bool overridable(const struct loader *l, const struct scope *s, const char *name)
{
    return !s->up && !s->func && l->opt && l->opt->overridable &&
           l->opt->overridable(l->opt->overridable_arg, name, l->model->ir_version);
}

static steno_status graph_inputs(struct loader *l, struct scope *s, const Onnx__Graph *m)
{
    struct steno_graph *g = s->g;
    g->inputs = steno_graph_alloc(g, m->n_input + 1, sizeof *g->inputs, l->err);
    if (!g->inputs)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < m->n_input; i++) {
        steno_value_id v = steno_names_find(&s->names, m->input[i]->name);
        steno_status st;
        if (v != STENO_NONE && g->values[v].constant && overridable(l, s, m->input[i]->name)) {
            g->values[v].initial = g->values[v].constant;
            g->values[v].constant = NULL;
            g->values[v].is_input = true;
            g->inputs[g->n_inputs++] = v;
            continue;
        }
        if (v != STENO_NONE && (g->values[v].constant || g->values[v].elements))
            continue; /* IR version 3 lists initializers among the inputs */
        st = declare(l, s, m->input[i]->name, &v);
        if (!st)
            st = set_type(l, g, v, m->input[i]);
        if (st)
            return st;
        g->values[v].is_input = true;
        g->inputs[g->n_inputs++] = v;
    }
    return STENO_OK;
}

static steno_status graph_outputs(struct loader *l, struct scope *s, const Onnx__Graph *m)
{
    struct steno_graph *g = s->g;
    g->outputs = steno_graph_alloc(g, m->n_output + 1, sizeof *g->outputs, l->err);
    g->declared = steno_graph_alloc(g, m->n_output + 1, sizeof *g->declared, l->err);
    g->declared_types = steno_graph_alloc(g, m->n_output + 1, sizeof *g->declared_types, l->err);
    if (!g->outputs || !g->declared || !g->declared_types)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < m->n_output; i++) {
        steno_value_id v;
        steno_status st = steno_onnx_lookup(l, s, m->output[i]->name, &v);
        if (st)
            return st;
        if (v == STENO_NONE)
            return steno_fail(l->err, STENO_ERR_FORMAT, "nothing writes graph output '%s'",
                              m->output[i]->name);
        /* Types are taken from the file, shapes are inferred (see steno_graph.declared). */
        g->declared[i].rank = STENO_RANK_ANY;
        if (!g->values[v].is_input && !g->values[v].constant) {
            st = set_type(l, g, v, m->output[i]);
            if (st)
                return st;
            g->declared[i] = g->values[v].shape;
            g->declared_types[i] = g->values[v].type;
            g->values[v].shape.rank = STENO_RANK_ANY;
        }
        g->outputs[g->n_outputs++] = v;
    }
    g->n_declared = g->n_outputs;
    return STENO_OK;
}

/* Types and shapes that the file gives for values inside, for inference to fall back on. */
static steno_status given_types(struct loader *l, struct scope *s, const Onnx__Graph *m)
{
    struct steno_graph *g = s->g;
    for (size_t i = 0; keeps_unknown(l) && i < m->n_value_info; i++) {
        const Onnx__ValueInfo *info = m->value_info[i];
        steno_value_id v = steno_names_find(&s->names, info->name);
        struct steno_value was;
        struct steno_tensor *t;
        steno_status st;
        if (v == STENO_NONE || g->values[v].is_input || g->values[v].constant || !info->type ||
            !describable(info->type))
            continue;
        was = g->values[v];
        st = set_type(l, g, v, info);
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

steno_status steno_onnx_graph(struct loader *l, struct scope *s, Onnx__Graph *m)
{
    steno_status st;
    if (m->n_input > INT16_MAX || m->n_output > INT16_MAX)
        return steno_fail(l->err, STENO_ERR_LIMIT, "graph '%s': too many inputs or outputs",
                          m->name);
    s->g->name = steno_arena_strdup(s->g->arena, m->name);
    if (!s->g->name)
        return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    st = initializers(l, s, m);
    if (!st)
        st = graph_inputs(l, s, m);
    if (!st)
        st = steno_onnx_nodes(l, s, m->node, m->n_node);
    if (!st)
        st = given_types(l, s, m);
    if (!st)
        st = graph_outputs(l, s, m);
    return st;
}

/* Add a region of a private copy: "PARENT TYPE NAME". */
static steno_status add_region(struct loader *l, struct steno_graph *g, const char *text)
{
    char type[256], name[768];
    int parent, at = 0;
    int32_t r;
    if (sscanf(text, "%d %255s %n", &parent, type, &at) != 2 || !at || parent < -1)
        return steno_fail(l->err, STENO_ERR_FORMAT, "region '%.40s' is broken", text);
    snprintf(name, sizeof name, "%.767s", text + at);
    return steno_graph_add_region(g, type, name, parent, &r, l->err);
}

/* Check parents once all regions are read: a region may precede its parent. */
static steno_status check_regions(struct loader *l, const struct steno_graph *g)
{
    for (int32_t i = 0; i < g->n_regions; i++) {
        int32_t r = i, steps = 0;
        while (r != STENO_NONE && r < g->n_regions && steps++ <= g->n_regions)
            r = g->regions[r].parent;
        if (r != STENO_NONE)
            return steno_fail(l->err, STENO_ERR_FORMAT, "region %d has no valid parent", (int)i);
    }
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].region < STENO_NONE || g->nodes[i].region >= g->n_regions)
            return steno_fail(l->err, STENO_ERR_FORMAT, "node '%s' is in region %d of %d",
                              g->nodes[i].name, (int)g->nodes[i].region, (int)g->n_regions);
    return STENO_OK;
}

static steno_status metadata(struct loader *l, struct steno_graph *g)
{
    size_t n = l->model->n_metadata_props;
    if (n > 10000)
        return steno_fail(l->err, STENO_ERR_LIMIT, "more than 10000 metadata entries");
    g->meta_keys = steno_graph_alloc(g, n + 1, sizeof *g->meta_keys, l->err);
    g->meta_values = steno_graph_alloc(g, n + 1, sizeof *g->meta_values, l->err);
    if (!g->meta_keys || !g->meta_values)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const Onnx__StringStringEntry *e = l->model->metadata_props[i];
        if (l->opt && l->opt->stored && !strcmp(e->key, STENO_REGION_KEY)) {
            steno_status st = add_region(l, g, e->value);
            if (st)
                return st;
            continue;
        }
        g->meta_keys[g->n_meta] = steno_arena_strdup(g->arena, e->key);
        g->meta_values[g->n_meta] = steno_arena_strdup(g->arena, e->value);
        if (!g->meta_keys[g->n_meta] || !g->meta_values[g->n_meta])
            return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
        g->n_meta++;
    }
    return l->opt && l->opt->stored ? check_regions(l, g) : STENO_OK;
}

static void describe(const Onnx__Model *m, struct steno_onnx_info *info)
{
    memset(info, 0, sizeof *info);
    info->ir_version = m->ir_version;
    snprintf(info->producer, sizeof info->producer, "%.40s%s%.20s", m->producer_name,
             *m->producer_version ? " " : "", m->producer_version);
    for (size_t i = 0; i < m->n_opset_import && i < 16; i++) {
        snprintf(info->opset[i].domain, sizeof info->opset[i].domain, "%.47s",
                 *m->opset_import[i]->domain ? m->opset_import[i]->domain : "ai.onnx");
        info->opset[i].version = m->opset_import[i]->version;
        info->n_opset++;
    }
}

static steno_status convert(struct loader *l, struct steno_graph *g)
{
    struct scope top = {.g = g};
    steno_status st;
    if (!l->model->graph)
        return steno_fail(l->err, STENO_ERR_FORMAT, "not an ONNX model: it has no graph");
    st = steno_onnx_graph(l, &top, l->model->graph);
    steno_names_free(&top.names);
    if (!st)
        st = metadata(l, g);
    if (!st)
        st = steno_graph_sort(g, l->err);
    return st;
}

/* Unpack the message of [data, data + size), without its large byte strings if that is worth a
 * copy. */
static steno_status unpack(struct loader *l, struct steno_onnx_heap *heap, const void *data,
                           size_t size, struct steno_onnx_large *large)
{
    bool always = l->opt && l->opt->borrow_from;
    size_t max = 0, n = size;
    void *slim = NULL;
    steno_status st = steno_onnx_check_wire(data, size, large, l->err);
    if (!st && large->sum && (always || large->sum > size / 2)) {
        st = steno_onnx_slim(data, size, large, &slim, &n, l->err);
        l->src.map = data;
        l->src.n_map = size;
    }
    if (st)
        return st;
    /* an empty repeated message is two bytes in the file and about 100 here */
    if (!steno_mul_size(size, 64, &max) || !steno_add_size(max, 16 << 20, &max))
        max = SIZE_MAX;
    steno_onnx_heap_init(heap, max);
    l->model = onnx__model__unpack(&heap->alloc, n, slim ? slim : data);
    free(slim);
    return l->model ? STENO_OK
                    : steno_fail(l->err, STENO_ERR_FORMAT,
                                 "not an ONNX model, or one that takes more than "
                                 "%zu bytes of memory to read",
                                 max);
}

static steno_status parse_onnx(struct steno_graph **out, const void *data, size_t size,
                               const char *dir, const struct steno_onnx_options *opt,
                               struct steno_onnx_info *info, struct steno_onnx_large *large,
                               steno_err *err)
{
    struct loader l = {.opt = opt, .err = err, .src.dir = dir};
    struct steno_onnx_heap heap;
    struct steno_graph *g = NULL;
    steno_status st = unpack(&l, &heap, data, size, large);
    if (st)
        return st;
    l.src.max_bytes = opt && opt->max_bytes ? opt->max_bytes : (size_t)64 << 30;
    if (info)
        describe(l.model, info);
    l.src.info = info;
    g = steno_graph_new(NULL);
    st = g ? convert(&l, g) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    onnx__model__free_unpacked(l.model, &heap.alloc);
    steno_onnx_source_close(&l.src);
    if (st) {
        steno_graph_free(g);
        return st;
    }
    *out = g;
    return STENO_OK;
}

/* A model in ONNX Runtime's own format: nothing of it stays in the bytes read. Names are stored
 * once there and at each use in ONNX, hence the factor. */
static steno_status parse_ort(struct steno_graph **out, const void *data, size_t size,
                              const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                              steno_err *err)
{
    const size_t most = (size_t)4 << 30;
    struct steno_onnx_large none = {0};
    struct steno_buf onnx;
    steno_status st;
    steno_buf_init(&onnx, size < most / 128 ? 64 * size + ((size_t)1 << 20) : most);
    st = steno_ort_format_to_onnx(data, size, &onnx, err);
    if (!st)
        st = parse_onnx(out, onnx.data, onnx.len, NULL, opt, info, &none, err);
    steno_buf_free(&onnx);
    return st;
}

static steno_status parse(struct steno_graph **out, const void *data, size_t size, const char *dir,
                          const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                          struct steno_onnx_large *large, steno_err *err)
{
    return steno_ort_format_is(data, size)
               ? parse_ort(out, data, size, opt, info, err)
               : parse_onnx(out, data, size, dir, opt, info, large, err);
}

steno_status steno_onnx_parse(struct steno_graph **out, const void *data, size_t size,
                              const char *dir, const struct steno_onnx_options *opt,
                              struct steno_onnx_info *info, steno_err *err)
{
    struct steno_onnx_large large = {.from = opt ? opt->borrow_from : 0};
    return parse(out, data, size, dir, opt, info, &large, err);
}

/* ---- files ---- */

static steno_status parse_file(struct steno_graph **out, int fd, const char *path,
                               const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                               steno_err *err)
{
    struct stat sb;
    const char *slash = strrchr(path, '/');
    struct steno_onnx_large large = {.from = opt && opt->borrow_from ? opt->borrow_from : STAYS,
                                     .mapped = true};
    char *dir;
    void *map;
    steno_status st;
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode))
        return steno_fail(err, STENO_ERR_IO, "not a regular file");
    if (sb.st_size <= 0)
        return steno_fail(err, STENO_ERR_FORMAT, "the file is empty");
    dir = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!dir)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    /* The graph keeps the mapping; matrices are copied out when they are packed. A model file must
     * be replaced by rename, not rewritten in place. */
    map = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        st = steno_fail(err, STENO_ERR_IO, "%s", strerror(errno));
    } else {
        st = parse(out, map, (size_t)sb.st_size, dir, opt, info, &large, err);
        if (st)
            munmap(map, (size_t)sb.st_size);
        else
            steno_graph_take_map(*out, map, (size_t)sb.st_size);
        if (!st)
            steno_graph_rest_map(*out);
    }
    free(dir);
    return st;
}

steno_status steno_onnx_load(struct steno_graph **out, const char *path,
                             const struct steno_onnx_options *opt, struct steno_onnx_info *info,
                             steno_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    steno_status st;
    if (fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    st = parse_file(out, fd, path, opt, info, err);
    close(fd);
    return st ? steno_fail_in(err, st, "%s", path) : STENO_OK;
}
