/* ONNX messages -> graph IR.
 *
 * One pass per graph. First every name that the graph itself writes (inputs, initializers, node
 * outputs) becomes a value, so that nodes may be in any order and a body graph finds what it
 * captures. Then the nodes follow. A `scope` is one place where names are looked up: the main
 * graph, a body graph (which captures from the graph around) or one call of a model-local function
 * (nn/onnx/function.c: its nodes go straight into the caller's graph, under new names). Node
 * Constant becomes a constant value (load_value.c); it never reaches the engine. */
#include "nn/onnx/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static steno_status load_node(struct loader *l, struct scope *s, const Onnx__Node *m)
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
        !steno_onnx_stays_node(l, s, m)) {
        steno_value_id v = steno_names_find(&s->names, m->output[0]);
        return v == STENO_NONE ? STENO_OK : steno_onnx_constant_node(l, s, m, v);
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
            st = steno_onnx_declare(l, s, name, &v);
            if (st)
                return steno_fail_in(l->err, st, "node '%s' (%s)", nodes[i]->name,
                                     nodes[i]->op_type);
        }
    for (size_t i = 0; i < n; i++) {
        steno_status st = load_node(l, s, nodes[i]);
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
        st = steno_onnx_declare(l, s, m->input[i]->name, &v);
        if (!st) {
            g->values[v].is_input = true;
            st = steno_onnx_set_type(l, g, v, m->input[i]);
        }
        if (st)
            return st;
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
            st = steno_onnx_set_type(l, g, v, m->output[i]);
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

/* ---- regions of private copies ---- */

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

static steno_status regions(struct loader *l, struct steno_graph *g, const Onnx__Graph *m)
{
    steno_status st = STENO_OK;
    if (!l->opt || !l->opt->stored)
        return STENO_OK;
    for (size_t i = 0; !st && i < m->n_metadata_props; i++)
        if (!strcmp(m->metadata_props[i]->key, STENO_REGION_KEY))
            st = add_region(l, g, m->metadata_props[i]->value);
    return st ? st : check_regions(l, g);
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
    st = steno_onnx_initializers(l, s, m);
    if (!st)
        st = graph_inputs(l, s, m);
    if (!st)
        st = steno_onnx_nodes(l, s, m->node, m->n_node);
    if (!st)
        st = steno_onnx_given_types(l, s, m);
    if (!st)
        st = graph_outputs(l, s, m);
    return st ? st : regions(l, s->g, m);
}
