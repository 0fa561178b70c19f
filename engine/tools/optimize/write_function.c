/* Writes fused nodes and regions as model-local functions. Equal functions are written once: two
 * are equal if their packed messages are, apart from their names. For that reason the names inside
 * a region's function are its own: in0, out0, and v_1, v_2, ... in the order of the nodes. */
#include "tools/optimize/write_internal.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_BYTES 64 /* constants of a region up to this size are in its function */

static bool same_bytes(const struct write_function *f, const uint8_t *p, size_t n)
{
    return f->n_key == n && !memcmp(f->key, p, n);
}

/* Add f, or find an equal function; gives it its name. */
static steno_status add_function(struct file_writer *o, const char *type, Onnx__Function *f,
                                 Onnx__Function **out)
{
    struct writer *w = &o->w;
    size_t n = onnx__function__get_packed_size(f), others = 0;
    uint8_t *key = steno_write_alloc(w, n + 1, 1);
    struct write_function *entry;
    char name[160];
    if (!key)
        return STENO_ERR_NOMEM;
    onnx__function__pack(f, key);
    for (const struct write_function *old = o->functions; old; old = old->next) {
        if (strcmp(old->type, type))
            continue;
        *out = old->f;
        if (same_bytes(old, key, n))
            return STENO_OK;
        others++;
    }
    entry = steno_write_alloc(w, 1, sizeof *entry);
    snprintf(name, sizeof name, others ? "%.120s__%zu" : "%.120s", type, others);
    f->name = steno_write_dup(w, name);
    f->domain = steno_write_dup(w, STENO_FUSED_DOMAIN);
    if (!entry || !f->name || !f->domain)
        return STENO_ERR_NOMEM;
    *entry = (struct write_function){.type = type, .key = key, .n_key = n, .f = f};
    *o->last = entry;
    o->last = &entry->next;
    o->n_functions++;
    *out = f;
    return STENO_OK;
}

/* ---- one fused node ---- */

static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static steno_status declare_attributes(struct writer *w, const struct steno_node *n,
                                       Onnx__Function *f)
{
    f->attribute = steno_write_alloc(w, (size_t)n->n_attr + 1, sizeof *f->attribute);
    if (!f->attribute)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < n->n_attr; i++)
        if (!(f->attribute[f->n_attribute++] = steno_write_dup(w, n->attr[i].name)))
            return STENO_ERR_NOMEM;
    qsort(f->attribute, f->n_attribute, sizeof *f->attribute, by_string);
    return STENO_OK;
}

static steno_status node_function(struct writer *w, const struct steno_graph *g,
                                  const struct steno_node *n, Onnx__Function **out)
{
    struct file_writer *o = steno_file_writer(w);
    struct steno_buf text;
    Onnx__Function *f = NULL;
    steno_status st;
    steno_buf_init(&text, STENO_MAX_BODY);
    st = o->opt->body(g, n, o->opt->opset, &text);
    if (st == STENO_ERR_UNSUPPORTED && !*n->domain && o->opt->opset >= 11)
        st = steno_fail(w->err, st, "node '%s': %s exists from opset %d on, not in opset %d",
                        n->name, n->op_type, steno_opset_first(n->op_type), o->opt->opset);
    else if (st)
        st = steno_fail(w->err, st,
                        "node '%s': %s%s%s cannot be written in operators of opset %d; leave out "
                        "the pass that makes it, or ask for a later opset",
                        n->name, n->domain, *n->domain ? ":" : "", n->op_type, o->opt->opset);
    else
        st = steno_onnx_make_function(w->a, text.data ? text.data : "", o->opt->opset,
                                      steno_write_inputs(n), n->n_out, &f, w->err);
    steno_buf_free(&text);
    if (!st)
        st = declare_attributes(w, n, f);
    return st ? st : add_function(o, n->op_type, f, out);
}

steno_status steno_write_call(struct writer *w, const struct steno_graph *g,
                              const struct steno_node *n, Onnx__Node *m)
{
    Onnx__Function *f;
    steno_status st = node_function(w, g, n, &f);
    if (st)
        return st;
    m->domain = steno_write_dup(w, STENO_FUSED_DOMAIN);
    m->op_type = f->name;
    return m->domain ? steno_write_import(w, STENO_FUSED_DOMAIN, 1) : STENO_ERR_NOMEM;
}

/* ---- a region ---- */

struct region {
    struct writer *w;
    const struct write_scope *outer;
    struct write_scope inner;
    int32_t from, to;         /* nodes [from, to) */
    uint32_t *reads;          /* by value id: inputs of its nodes */
    steno_value_id *in, *out; /* formal inputs and outputs */
    size_t n_in, n_out, n_const;
    Onnx__Node **consts;
};

static bool has_body_graphs(const struct steno_graph *g, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        for (int k = 0; k < g->nodes[i].n_attr; k++)
            if (!g->nodes[i].dead && g->nodes[i].attr[k].kind == STENO_ATTR_GRAPH)
                return true;
    return false;
}

static const char *numbered(struct writer *w, const char *stem, size_t n)
{
    char s[32];
    snprintf(s, sizeof s, "%s%zu", stem, n);
    return steno_write_dup(w, s);
}

static steno_status constant_of(struct writer *w, const char *name, Onnx__Tensor *t,
                                Onnx__Node **out)
{
    Onnx__Attribute *a;
    Onnx__Node *m;
    NEW(w, m, onnx__node__init);
    NEW(w, a, onnx__attribute__init);
    m->op_type = steno_write_dup(w, "Constant");
    m->output = steno_write_alloc(w, 1, sizeof *m->output);
    m->attribute = steno_write_alloc(w, 1, sizeof *m->attribute);
    a->name = steno_write_dup(w, "value");
    a->type = ONNX__ATTRIBUTE__KIND__TENSOR;
    if (!m->op_type || !m->output || !m->attribute || !a->name)
        return STENO_ERR_NOMEM;
    m->output[0] = steno_write_dup(w, name);
    m->attribute[0] = a;
    m->n_output = m->n_attribute = 1;
    a->t = t;
    *out = m;
    return m->output[0] ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status constant_node(struct writer *w, const char *name, const struct steno_tensor *t,
                                  Onnx__Node **out)
{
    Onnx__Tensor *m;
    steno_status st = steno_write_tensor(w, "", t, &m);
    return st ? st : constant_of(w, name, m, out);
}

/* Handle a value that the region reads and does not write: a constant of its own, or an input. */
static steno_status from_outside(struct region *r, steno_value_id v)
{
    const struct steno_tensor *t = r->inner.g->values[v].constant;
    if (t && steno_numel(t) * steno_dtype_size(t->dtype) <= INLINE_BYTES &&
        (steno_constant_bytes(t) || !steno_numel(t))) {
        const char *name = numbered(r->w, "c", r->n_const);
        r->inner.name[v] = name;
        return name ? constant_node(r->w, name, t, &r->consts[r->n_const++]) : STENO_ERR_NOMEM;
    }
    r->inner.name[v] = numbered(r->w, "in", r->n_in);
    r->in[r->n_in++] = v;
    return r->inner.name[v] ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status region_names(struct region *r)
{
    const struct steno_graph *g = r->inner.g;
    size_t made = 0;
    for (int32_t i = r->from; i < r->to; i++)
        for (int k = 0; !g->nodes[i].dead && k < g->nodes[i].n_out; k++) {
            steno_value_id v = g->nodes[i].out[k];
            if (v == STENO_NONE)
                continue;
            r->inner.name[v] = g->values[v].uses > r->reads[v] ? numbered(r->w, "out", r->n_out)
                                                               : numbered(r->w, "v_", made++);
            if (!r->inner.name[v])
                return STENO_ERR_NOMEM;
            if (g->values[v].uses > r->reads[v])
                r->out[r->n_out++] = v;
        }
    for (int32_t i = r->from; i < r->to; i++)
        for (int k = 0; !g->nodes[i].dead && k < g->nodes[i].n_in; k++) {
            steno_value_id v = g->nodes[i].in[k];
            if (v != STENO_NONE && !r->inner.name[v] && from_outside(r, v))
                return STENO_ERR_NOMEM;
        }
    return STENO_OK;
}

static steno_status region_scan(struct region *r)
{
    const struct steno_graph *g = r->inner.g;
    size_t values = (size_t)g->n_values + 1, ins = 1, outs = 1;
    r->reads = steno_write_alloc(r->w, values, sizeof *r->reads);
    r->inner.name = steno_write_alloc(r->w, values, sizeof *r->inner.name);
    if (!r->reads || !r->inner.name)
        return STENO_ERR_NOMEM;
    for (int32_t i = r->from; i < r->to; i++) {
        const struct steno_node *n = &g->nodes[i];
        ins += (size_t)n->n_in;
        outs += (size_t)n->n_out;
        for (int k = 0; !n->dead && k < n->n_in; k++)
            if (n->in[k] != STENO_NONE)
                r->reads[n->in[k]]++;
    }
    r->in = steno_write_alloc(r->w, ins, sizeof *r->in);
    r->out = steno_write_alloc(r->w, outs, sizeof *r->out);
    r->consts = steno_write_alloc(r->w, ins, sizeof *r->consts);
    return r->in && r->out && r->consts ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status names_of(struct writer *w, const char *const *names, const steno_value_id *v,
                             size_t n, char ***out)
{
    *out = steno_write_alloc(w, n + 1, sizeof **out);
    for (size_t i = 0; *out && i < n; i++)
        if (!((*out)[i] = steno_write_read(w, names[v[i]])))
            return STENO_ERR_NOMEM;
    return *out ? STENO_OK : STENO_ERR_NOMEM;
}

/* Nodes of the function: its constants, those made by conversions between opsets, then the
 * nodes. */
static steno_status region_nodes(struct region *r, Onnx__Function *f)
{
    const struct steno_graph *g = r->inner.g;
    struct write_nodes list = {0};
    char *none = steno_write_dup(r->w, "");
    steno_status st = none ? STENO_OK : STENO_ERR_NOMEM;
    for (int32_t i = r->from; !st && i < r->to; i++)
        if (!g->nodes[i].dead)
            st = steno_write_node(r->w, &r->inner, &g->nodes[i], &list, NULL);
    for (size_t i = 0; !st && i < list.n; i++)
        list.v[i]->name = none; /* it would be the name of one layer's node */
    if (st)
        return st;
    f->node = steno_write_alloc(r->w, list.n + r->n_const + r->inner.n_extra + 1, sizeof *f->node);
    if (!f->node)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < r->n_const; i++)
        f->node[f->n_node++] = r->consts[i];
    for (size_t i = 0; !st && i < r->inner.n_extra; i++) {
        Onnx__Tensor *t = r->inner.extra[i];
        st = constant_of(r->w, t->name, t, &f->node[f->n_node++]);
        t->name = none;
    }
    if (list.n)
        memcpy(f->node + f->n_node, list.v, list.n * sizeof *list.v);
    f->n_node += list.n;
    return st;
}

/* Write the function. Names and imports made meanwhile belong to it alone. */
static steno_status region_function(struct region *r, Onnx__Function *f)
{
    struct writer *w = r->w, saved = *w;
    steno_status st;
    memset(&w->used, 0, sizeof w->used);
    memset(&w->nodes, 0, sizeof w->nodes);
    memset(&w->read, 0, sizeof w->read);
    w->n_imports = 0;
    w->made = 0;
    st = steno_write_import(w, "", steno_file_writer(w)->opt->opset);
    if (!st)
        st = region_nodes(r, f);
    steno_names_free(&w->used);
    steno_names_free(&w->nodes);
    steno_names_free(&w->read);
    f->n_opset_import = w->n_imports;
    f->opset_import = steno_write_alloc(w, w->n_imports + 1, sizeof *f->opset_import);
    if (f->opset_import)
        memcpy(f->opset_import, w->imports, w->n_imports * sizeof *w->imports);
    w->used = saved.used;
    w->nodes = saved.nodes;
    w->read = saved.read;
    w->made = saved.made;
    w->n_imports = saved.n_imports;
    memcpy(w->imports, saved.imports, sizeof w->imports);
    for (size_t i = 0; !st && f->opset_import && i < f->n_opset_import; i++)
        st = steno_write_import(w, f->opset_import[i]->domain, (int)f->opset_import[i]->version);
    return st ? st : f->opset_import ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status region_call(struct region *r, const char *type, const char *name,
                                Onnx__Function *f, Onnx__Node **out)
{
    struct writer *w = r->w;
    Onnx__Node *m;
    steno_status st = add_function(steno_file_writer(w), type, f, &f);
    if (st)
        return st;
    NEW(w, m, onnx__node__init);
    m->op_type = f->name;
    m->domain = steno_write_dup(w, STENO_FUSED_DOMAIN);
    m->name = steno_write_node_name(w, name);
    if (!m->domain || !m->name)
        return STENO_ERR_NOMEM;
    st = names_of(w, r->outer->name, r->in, r->n_in, &m->input);
    if (!st)
        st = names_of(w, r->outer->name, r->out, r->n_out, &m->output);
    m->n_input = r->n_in;
    m->n_output = r->n_out;
    *out = m;
    return st ? st : steno_write_import(w, STENO_FUSED_DOMAIN, 1);
}

steno_status steno_write_region(struct writer *w, const struct write_scope *s, int32_t from,
                                int32_t to, Onnx__Node **out)
{
    const struct steno_graph *g = s->g;
    const struct steno_region *of = &g->regions[steno_node_top_region(g, &g->nodes[from])];
    struct region r = {.w = w, .outer = s, .inner.g = g, .from = from, .to = to};
    Onnx__Function *f;
    steno_status st;
    *out = NULL;
    if (has_body_graphs(g, from, to))
        return STENO_OK;
    NEW(w, f, onnx__function__init);
    st = region_scan(&r);
    if (!st)
        st = region_names(&r);
    if (!st)
        st = names_of(w, r.inner.name, r.in, r.n_in, &f->input);
    if (!st)
        st = names_of(w, r.inner.name, r.out, r.n_out, &f->output);
    f->n_input = r.n_in;
    f->n_output = r.n_out;
    if (!st)
        st = region_function(&r, f);
    return st ? st : region_call(&r, of->type, of->name, f, out);
}
