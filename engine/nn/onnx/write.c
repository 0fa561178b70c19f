/* Graph IR -> ONNX messages. Names come first (graph inputs and outputs keep theirs, body graphs
 * must not hide a name of the graph around), then nodes and constants. Elements of weights are not
 * copied: messages point to them until they are packed. */
#include "nn/onnx/write.h"

#include <stdio.h>
#include <string.h>

void *steno_write_alloc(struct writer *w, size_t n, size_t size)
{
    void *p = steno_arena_calloc(w->a, n, size);
    if (!p)
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
    return p;
}

char *steno_write_dup(struct writer *w, const char *s)
{
    char *p = steno_arena_strdup(w->a, s);
    if (!p)
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
    return p;
}

/* ---- nodes ---- */

int steno_write_inputs(const struct steno_node *n)
{
    int k = n->n_in;
    while (k && n->in[k - 1] == STENO_NONE)
        k--;
    return k;
}

steno_status steno_write_import(struct writer *w, const char *domain, int version)
{
    Onnx__OperatorSetId *m;
    for (size_t i = 0; i < w->n_imports; i++)
        if (!strcmp(w->imports[i]->domain, domain)) {
            if (version > w->imports[i]->version)
                w->imports[i]->version = version;
            return STENO_OK;
        }
    if (w->n_imports == sizeof w->imports / sizeof w->imports[0])
        return steno_fail(w->err, STENO_ERR_LIMIT, "too many operator domains");
    NEW(w, m, onnx__operator_set_id__init);
    m->domain = steno_write_dup(w, domain);
    m->version = version;
    if (!m->domain)
        return STENO_ERR_NOMEM;
    w->imports[w->n_imports++] = m;
    return STENO_OK;
}

/* True if absent inputs and outputs at the end count: their number is part of the node's meaning
 * (the parts of Split, the values of a body), or nobody knows. */
static bool keeps_count(const struct steno_node *n)
{
    return !n->op || (!*n->domain && steno_op_type_in(n->op_type, "If Loop Scan Split"));
}

static steno_status connect(struct writer *w, const struct write_scope *s,
                            const struct steno_node *n, Onnx__Node *m)
{
    int n_in = keeps_count(n) ? n->n_in : steno_write_inputs(n), n_out = n->n_out;
    while (n_out && n->out[n_out - 1] == STENO_NONE && !keeps_count(n))
        n_out--;
    /* room for inputs that conversions add */
    m->input = steno_write_alloc(w, (size_t)n_in + 8, sizeof *m->input);
    m->output = steno_write_alloc(w, (size_t)n_out + 1, sizeof *m->output);
    if (!m->input || !m->output)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < n_in; i++) {
        const char *name = n->in[i] == STENO_NONE ? "" : s->name[n->in[i]];
        if (!name)
            return steno_fail(w->err, STENO_ERR_INTERNAL, "node '%s': input %d has no name",
                              n->name, i);
        if (!(m->input[m->n_input++] = steno_write_read(w, name)))
            return STENO_ERR_NOMEM;
    }
    for (int i = 0; i < n_out; i++) {
        const char *name = n->out[i] == STENO_NONE ? "" : s->name[n->out[i]];
        if (!(m->output[m->n_output++] = steno_write_dup(w, name ? name : "")))
            return STENO_ERR_NOMEM;
    }
    return STENO_OK;
}

steno_status steno_write_append(struct writer *w, struct write_nodes *list, Onnx__Node *m)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        Onnx__Node **v = steno_write_alloc(w, cap + 1, sizeof *v);
        if (!v)
            return STENO_ERR_NOMEM;
        if (list->n)
            memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = m;
    return STENO_OK;
}

static steno_status write_one(struct writer *w, struct write_scope *s, const struct steno_node *n,
                              Onnx__Node **out)
{
    Onnx__Node *m;
    steno_status st;
    NEW(w, m, onnx__node__init);
    *out = m;
    m->name = steno_write_node_name(w, n->name);
    m->op_type = steno_write_dup(w, n->op_type);
    m->domain = steno_write_dup(w, n->domain);
    m->attribute = steno_write_alloc(w, (size_t)n->n_attr + 4, sizeof *m->attribute);
    if (!m->name || !m->op_type || !m->domain || !m->attribute)
        return STENO_ERR_NOMEM;
    st = connect(w, s, n, m);
    for (int i = 0; !st && i < n->n_attr; i++)
        st = steno_write_attr(w, s, &n->attr[i], !n->op, &m->attribute[m->n_attribute++]);
    return st ? st : w->form->node(w, s, n, m);
}

steno_status steno_write_node(struct writer *w, struct write_scope *s, const struct steno_node *n,
                              struct write_nodes *list, Onnx__Node **out)
{
    Onnx__Node *m = NULL;
    steno_status st;
    s->n_before = s->n_after = 0;
    st = write_one(w, s, n, &m);
    for (size_t i = 0; !st && i < s->n_before; i++)
        st = steno_write_append(w, list, s->before[i]);
    if (!st)
        st = steno_write_append(w, list, m);
    for (size_t i = 0; !st && i < s->n_after; i++)
        st = steno_write_append(w, list, s->after[i]);
    if (out)
        *out = m;
    return st;
}

/* ---- graphs ---- */

/* True if an output needs an Identity: a body must write its outputs itself, and a value cannot be
 * two outputs. */
static bool needs_identity(const struct writer *w, const struct write_scope *s, int k)
{
    const struct steno_graph *g = s->g;
    const struct steno_value *v = &g->values[g->outputs[k]];
    for (int i = 0; i < k; i++)
        if (g->outputs[i] == g->outputs[k])
            return true;
    return s->up && (v->captured_from != STENO_NONE ||
                     (v->constant && steno_write_outer_constant(w, s, v->constant)));
}

static steno_status carry_over(struct writer *w, const char *from, const char *to, Onnx__Node **out)
{
    Onnx__Node *m;
    NEW(w, m, onnx__node__init);
    m->op_type = steno_write_dup(w, "Identity");
    m->name = steno_write_node_name(w, to);
    m->input = steno_write_alloc(w, 1, sizeof *m->input);
    m->output = steno_write_alloc(w, 1, sizeof *m->output);
    if (!m->op_type || !m->name || !m->input || !m->output)
        return STENO_ERR_NOMEM;
    m->n_input = m->n_output = 1;
    m->input[0] = steno_write_read(w, from);
    m->output[0] = steno_write_dup(w, to);
    *out = m;
    return m->input[0] && m->output[0] ? STENO_OK : STENO_ERR_NOMEM;
}

/* onnx.checker refuses an output of the main graph without a shape. */
static const struct steno_shape *output_shape(const struct steno_graph *g, int i)
{
    const struct steno_shape *s = &g->values[g->outputs[i]].shape;
    return s->rank < 0 && i < g->n_declared ? &g->declared[i] : s;
}

static steno_status write_typed(struct writer *w, const struct steno_graph *g, const char *name,
                                const struct steno_value *v, const struct steno_shape *shape,
                                Onnx__ValueInfo **out)
{
    steno_status st = steno_write_value(w, g, name, v->dtype, shape, out);
    if (!st && v->type && !((*out)->type = steno_write_unpack(w, &onnx__type__descriptor, v->type)))
        return STENO_ERR_NOMEM;
    return st;
}

static steno_status write_outputs(struct writer *w, const struct write_scope *s,
                                  struct write_nodes *list, Onnx__Graph *m)
{
    const struct steno_graph *g = s->g;
    m->output = steno_write_alloc(w, (size_t)g->n_outputs + 1, sizeof *m->output);
    if (!m->output)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < g->n_outputs; i++) {
        const struct steno_value *v = &g->values[g->outputs[i]];
        const char *name = s->name[g->outputs[i]];
        steno_status st = STENO_OK;
        if (needs_identity(w, s, i)) {
            const char *from = name;
            Onnx__Node *identity;
            name = steno_write_name(w, *v->name ? v->name : "output");
            st = name ? carry_over(w, from, name, &identity) : STENO_ERR_NOMEM;
            if (!st)
                st = steno_write_append(w, list, identity);
        }
        if (!st)
            st = write_typed(w, g, name, v, output_shape(g, i), &m->output[m->n_output++]);
        if (!st && !v->type && i < g->n_declared && g->declared_types[i]) {
            Onnx__ValueInfo *info = m->output[m->n_output - 1];
            info->type = steno_write_unpack(w, &onnx__type__descriptor, g->declared_types[i]);
            st = info->type ? STENO_OK : STENO_ERR_NOMEM;
        }
        if (st)
            return st;
    }
    return STENO_OK;
}

/* Write the constant v, an initial value, or elements that were not read, under this name. */
static steno_status write_elements(struct writer *w, const struct write_scope *s, const char *name,
                                   const struct steno_value *v, Onnx__Tensor **out)
{
    struct steno_value initial = *v;
    if (v->elements) {
        *out = steno_write_unpack(w, &onnx__tensor__descriptor, v->elements);
        return *out && ((*out)->name = steno_write_dup(w, name)) ? STENO_OK : STENO_ERR_NOMEM;
    }
    if (!v->constant)
        initial.constant = v->initial;
    return w->form->constant(w, s, name, &initial, out);
}

static steno_status write_constants(struct writer *w, const struct write_scope *s, Onnx__Graph *m)
{
    const struct steno_graph *g = s->g;
    m->initializer = steno_write_alloc(w, (size_t)g->n_values + w->n_shared + s->n_extra + 1,
                                       sizeof *m->initializer);
    if (!m->initializer)
        return STENO_ERR_NOMEM;
    for (int32_t i = 0; i < g->n_values; i++) {
        const struct steno_value *v = &g->values[i];
        steno_status st;
        if ((!v->constant && !v->initial && !v->elements) || !s->name[i] ||
            (!v->is_output && !v->initial &&
             steno_names_find(&w->read, s->name[i]) == STENO_NONE) ||
            (s->up && v->constant && steno_write_outer_constant(w, s, v->constant)))
            continue;
        st = write_elements(w, s, s->name[i], v, &m->initializer[m->n_initializer]);
        if (st)
            return st;
        m->n_initializer++;
    }
    for (const struct write_shared *c = w->shared; !s->up && c; c = c->next) {
        steno_status st;
        if (steno_names_find(&w->read, c->name) == STENO_NONE)
            continue;
        st = write_elements(w, s, c->name, c->value, &m->initializer[m->n_initializer]);
        if (st)
            return st;
        m->n_initializer++;
    }
    for (size_t i = 0; i < s->n_extra; i++)
        m->initializer[m->n_initializer++] = s->extra[i];
    return STENO_OK;
}

/* Write node *at, or the region that starts there; *at moves past it. */
static steno_status write_step(struct writer *w, struct write_scope *s, int32_t *at,
                               struct write_nodes *list)
{
    const struct steno_graph *g = s->g;
    int32_t from = *at, to = from + 1, r;
    steno_status st = STENO_OK;
    *at = to;
    if (g->nodes[from].dead)
        return STENO_OK;
    r = w->form->region ? steno_node_top_region(g, &g->nodes[from]) : STENO_NONE;
    while (r != STENO_NONE && to < g->n_nodes &&
           (g->nodes[to].dead || steno_node_top_region(g, &g->nodes[to]) == r))
        to++;
    if (r != STENO_NONE) {
        Onnx__Node *call;
        st = w->form->region(w, s, from, to, &call);
        if (st || call) {
            *at = to;
            return st ? st : steno_write_append(w, list, call);
        }
    }
    return steno_write_node(w, s, &g->nodes[from], list, NULL);
}

static steno_status make_entry(struct writer *w, const char *key, const char *value,
                               Onnx__StringStringEntry **out)
{
    Onnx__StringStringEntry *e;
    NEW(w, e, onnx__string_string_entry__init);
    e->key = steno_write_dup(w, key);
    e->value = steno_write_dup(w, value);
    *out = e;
    return e->key && e->value ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status write_regions(struct writer *w, const struct steno_graph *g, Onnx__Graph *m)
{
    m->metadata_props = steno_write_alloc(w, (size_t)g->n_regions + 1, sizeof *m->metadata_props);
    if (!m->metadata_props)
        return STENO_ERR_NOMEM;
    for (int32_t i = 0; w->form->private_copy && i < g->n_regions; i++) {
        const struct steno_region *r = &g->regions[i];
        char text[1024];
        snprintf(text, sizeof text, "%d %.200s %.700s", (int)r->parent, r->type, r->name);
        if (make_entry(w, STENO_REGION_KEY, text, &m->metadata_props[m->n_metadata_props++]))
            return STENO_ERR_NOMEM;
    }
    return STENO_OK;
}

steno_status steno_write_graph(struct writer *w, struct write_scope *s, Onnx__Graph **out)
{
    const struct steno_graph *g = s->g;
    struct write_nodes list = {0};
    Onnx__Graph *m;
    steno_status st = steno_write_make_names(w, s);
    if (st)
        return st;
    NEW(w, m, onnx__graph__init);
    m->name = steno_write_dup(w, *g->name ? g->name : "graph");
    m->input = steno_write_alloc(w, (size_t)g->n_inputs + 1, sizeof *m->input);
    if (!m->name || !m->input)
        return STENO_ERR_NOMEM;
    for (int i = 0; !st && i < g->n_inputs; i++) {
        const struct steno_value *v = &g->values[g->inputs[i]];
        st = write_typed(w, g, s->name[g->inputs[i]], v, &v->shape, &m->input[m->n_input++]);
    }
    for (int32_t i = 0; !st && i < g->n_nodes;)
        st = write_step(w, s, &i, &list);
    if (!st)
        st = write_outputs(w, s, &list, m);
    if (!st)
        st = write_constants(w, s, m);
    if (!st)
        st = write_regions(w, g, m);
    m->node = list.v;
    m->n_node = list.n;
    *out = m;
    return st;
}

/* ---- model ---- */

static steno_status write_meta(struct writer *w, const struct steno_graph *g, Onnx__Model *m)
{
    m->metadata_props = steno_write_alloc(w, (size_t)g->n_meta + 1, sizeof *m->metadata_props);
    if (!m->metadata_props)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < g->n_meta; i++)
        if (make_entry(w, g->meta_keys[i], g->meta_values[i],
                       &m->metadata_props[m->n_metadata_props++]))
            return STENO_ERR_NOMEM;
    return STENO_OK;
}

steno_status steno_write_model(struct writer *w, const struct steno_graph *g, int opset,
                               Onnx__Model *m)
{
    struct write_scope top = {.g = g};
    steno_status st;
    onnx__model__init(m);
    w->a = steno_arena_new(0);
    if (!w->a)
        return steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
    st = steno_write_import(w, "", opset);
    if (!st)
        st = steno_write_graph(w, &top, &m->graph);
    if (!st)
        st = write_meta(w, g, m);
    m->opset_import = w->imports;
    m->n_opset_import = w->n_imports;
    if (!st && !(m->producer_name = steno_write_dup(w, "steno")))
        st = STENO_ERR_NOMEM;
    return st;
}

void steno_write_end(struct writer *w)
{
    steno_names_free(&w->used);
    steno_names_free(&w->nodes);
    steno_names_free(&w->read);
    steno_arena_free(w->a);
}

steno_status steno_write_pack(const Onnx__Model *m, struct steno_buf *out, steno_err *err)
{
    size_t n = onnx__model__get_packed_size(m);
    steno_status st = steno_buf_reserve(out, n);
    if (st)
        return steno_fail(err, st, "the model takes %zu bytes", n);
    out->len += onnx__model__pack(m, (uint8_t *)out->data + out->len);
    return STENO_OK;
}
