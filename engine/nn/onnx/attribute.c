/* Attributes of a node: their values go to the graph's arena, body graphs become graphs. In a
 * function's body, attributes of its caller are filled in. */
#include "nn/onnx/internal.h"

#include <string.h>

static Onnx__Attribute__Kind attribute_kind(const Onnx__Attribute *a)
{
    if (a->type != ONNX__ATTRIBUTE__KIND__UNDEFINED)
        return a->type;
    /* IR version 1 had no type field; the one list or value that is set tells */
    return a->t           ? ONNX__ATTRIBUTE__KIND__TENSOR
           : a->g         ? ONNX__ATTRIBUTE__KIND__GRAPH
           : a->n_floats  ? ONNX__ATTRIBUTE__KIND__FLOATS
           : a->n_ints    ? ONNX__ATTRIBUTE__KIND__INTS
           : a->n_strings ? ONNX__ATTRIBUTE__KIND__STRINGS
           : a->s.len     ? ONNX__ATTRIBUTE__KIND__STRING
           : a->f != 0    ? ONNX__ATTRIBUTE__KIND__FLOAT
                          : ONNX__ATTRIBUTE__KIND__INT;
}

static const char *bytes_dup(struct loader *l, struct steno_graph *g, ProtobufCBinaryData b)
{
    char *s = steno_arena_strndup(g->arena, b.len ? (const char *)b.data : "", b.len);
    if (!s)
        (void)steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    return s;
}

static steno_status attr_array(struct loader *l, struct steno_graph *g, struct steno_attr *a,
                               const void *src, size_t n, size_t size)
{
    void *p = steno_graph_alloc(g, n ? n : 1, size, l->err);
    if (!p)
        return STENO_ERR_NOMEM;
    if (n)
        memcpy(p, src, n * size);
    a->n = n;
    a->ints = p;
    return STENO_OK;
}

static steno_status attr_strings(struct loader *l, struct steno_graph *g, struct steno_attr *a,
                                 const Onnx__Attribute *m)
{
    const char **p = steno_graph_alloc(g, m->n_strings + 1, sizeof *p, l->err);
    if (!p)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < m->n_strings; i++)
        if (!(p[i] = bytes_dup(l, g, m->strings[i])))
            return STENO_ERR_NOMEM;
    a->n = m->n_strings;
    a->strings = p;
    return STENO_OK;
}

static steno_status attr_tensor(struct loader *l, struct steno_graph *g, struct steno_attr *a,
                                const Onnx__Attribute *m)
{
    struct steno_tensor t;
    steno_value_id v;
    steno_status st;
    if (!m->t)
        return steno_fail(l->err, STENO_ERR_FORMAT, "attribute '%s' has no tensor", m->name);
    st = steno_onnx_tensor(&l->src, m->t, &t, NULL, l->err);
    if (st)
        return st;
    /* A value without readers holds the bytes. */
    st = steno_graph_take_const(g, "", &t, &v, l->err);
    if (st) {
        steno_aligned_free(t.data);
        return st;
    }
    a->t = g->values[v].constant;
    return STENO_OK;
}

static steno_status attr_graph(struct loader *l, struct scope *s, struct steno_attr *a,
                               const Onnx__Attribute *m)
{
    struct scope body = {.up = s};
    steno_status st;
    if (!m->g)
        return steno_fail(l->err, STENO_ERR_FORMAT, "attribute '%s' has no graph", m->name);
    if (s->g->depth >= STENO_MAX_GRAPH_DEPTH)
        return steno_fail(l->err, STENO_ERR_LIMIT, "more than %d levels of body graphs",
                          STENO_MAX_GRAPH_DEPTH);
    body.g = steno_graph_new(s->g);
    if (!body.g)
        return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
    st = steno_onnx_graph(l, &body, m->g);
    steno_names_free(&body.names);
    a->g = body.g;
    return st;
}

/* True if the attribute is kept as it is in the file. */
static bool unread(const struct loader *l, const Onnx__Attribute *m)
{
    bool binary = attribute_kind(m) == ONNX__ATTRIBUTE__KIND__STRING && m->s.len &&
                  memchr(m->s.data, 0, m->s.len);
    if (!l->opt || !l->opt->keep_unknown)
        return false;
    for (size_t i = 0; i < m->n_strings; i++)
        binary |= m->strings[i].len && memchr(m->strings[i].data, 0, m->strings[i].len);
    return binary || attribute_kind(m) == ONNX__ATTRIBUTE__KIND__TENSORS ||
           attribute_kind(m) >= ONNX__ATTRIBUTE__KIND__SPARSE_TENSOR ||
           (attribute_kind(m) == ONNX__ATTRIBUTE__KIND__TENSOR && m->t &&
            !steno_onnx_readable(m->t));
}

static steno_status attr_value(struct loader *l, struct scope *s, struct steno_attr *a,
                               const Onnx__Attribute *m)
{
    if (unread(l, m)) {
        a->kind = STENO_ATTR_OPAQUE;
        return steno_onnx_keep_attribute(l, s->g, m, &a->opaque);
    }
    switch (attribute_kind(m)) {
    case ONNX__ATTRIBUTE__KIND__INT:
        a->kind = STENO_ATTR_INT;
        a->i = m->i;
        return STENO_OK;
    case ONNX__ATTRIBUTE__KIND__FLOAT:
        a->kind = STENO_ATTR_FLOAT;
        a->f = m->f;
        return STENO_OK;
    case ONNX__ATTRIBUTE__KIND__STRING:
        a->kind = STENO_ATTR_STRING;
        a->s = bytes_dup(l, s->g, m->s);
        return a->s ? STENO_OK : STENO_ERR_NOMEM;
    case ONNX__ATTRIBUTE__KIND__INTS:
        a->kind = STENO_ATTR_INTS;
        return attr_array(l, s->g, a, m->ints, m->n_ints, sizeof *m->ints);
    case ONNX__ATTRIBUTE__KIND__FLOATS:
        a->kind = STENO_ATTR_FLOATS;
        return attr_array(l, s->g, a, m->floats, m->n_floats, sizeof *m->floats);
    case ONNX__ATTRIBUTE__KIND__STRINGS:
        a->kind = STENO_ATTR_STRINGS;
        return attr_strings(l, s->g, a, m);
    case ONNX__ATTRIBUTE__KIND__TENSOR:
        a->kind = STENO_ATTR_TENSOR;
        return attr_tensor(l, s->g, a, m);
    case ONNX__ATTRIBUTE__KIND__GRAPH:
        a->kind = STENO_ATTR_GRAPH;
        return attr_graph(l, s, a, m);
    case ONNX__ATTRIBUTE__KIND__TYPE_PROTO: /* of Optional: the engine's type */
        a->kind = STENO_ATTR_INT;
        a->i = steno_onnx_value_type(m->tp);
        if (a->i)
            return STENO_OK;
        return steno_fail(l->err, STENO_ERR_UNSUPPORTED,
                          "attribute '%s': values of this type are not supported", m->name);
    default:
        return steno_fail(l->err, STENO_ERR_UNSUPPORTED,
                          "attribute '%s': kind %d is not "
                          "supported",
                          m->name, (int)attribute_kind(m));
    }
}

steno_status steno_onnx_attrs(struct loader *l, struct scope *s, const Onnx__Node *m,
                              struct steno_node *n)
{
    int k = 0;
    for (size_t i = 0; i < m->n_attribute; i++) {
        const Onnx__Attribute *a = m->attribute[i];
        const char *name = a->name;
        steno_status st;
        if (*a->ref_attr_name && !(a = steno_onnx_call_attr(s, a->ref_attr_name)))
            continue; /* the caller left it out, so this node does too */
        n->attr[k].name = steno_arena_strdup(s->g->arena, name);
        if (!n->attr[k].name)
            return steno_fail(l->err, STENO_ERR_NOMEM, "out of memory");
        st = attr_value(l, s, &n->attr[k], a);
        if (st)
            return steno_fail_in(l->err, st, "node '%s' (%s)", n->name, n->op_type);
        k++;
    }
    n->n_attr = k;
    return STENO_OK;
}

const Onnx__Attribute *steno_onnx_call_attr(const struct scope *s, const char *name)
{
    while (s->up)
        s = s->up;
    if (!s->func)
        return NULL;
    for (size_t i = 0; i < s->call->n_attribute; i++) {
        const Onnx__Attribute *a = s->call->attribute[i];
        if (!strcmp(a->name, name))
            return *a->ref_attr_name ? steno_onnx_call_attr(s->caller, a->ref_attr_name) : a;
    }
    for (size_t i = 0; i < s->func->n_attribute_proto; i++)
        if (!strcmp(s->func->attribute_proto[i]->name, name))
            return s->func->attribute_proto[i];
    return NULL;
}
