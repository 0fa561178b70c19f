/* Prints a graph for people: text, one line per node, or Graphviz dot. */
#include "base/buf.h"
#include "nn/graph/graph.h"

struct dump {
    struct steno_buf *out;
    bool dot;
    int indent;
    int cluster; /* dot: counts body graphs, for unique names */
    steno_status st;
};

static void put(struct dump *d, const char *s)
{
    if (!d->st)
        d->st = steno_buf_puts(d->out, s);
}

/* Names come from the file: control characters and quotes must not reach terminal or dot. */
static void put_name(struct dump *d, const char *s)
{
    for (; *s && !d->st; s++) {
        char c = (unsigned char)*s < ' ' || *s == 127 || *s == '"' || *s == '\\' ? '_' : *s;
        d->st = steno_buf_add(d->out, &c, 1);
    }
}

/* "={1,-1}": elements of a short constant. */
static void put_const(struct dump *d, const struct steno_tensor *t)
{
    size_t n = steno_numel(t);
    if (!t->data || n > 8) {
        put(d, "=const");
        return;
    }
    put(d, "={");
    for (size_t i = 0; i < n && !d->st; i++) {
        put(d, i ? "," : "");
        if (t->dtype == STENO_F32)
            d->st = steno_buf_printf(d->out, "%g", (double)((const float *)t->data)[i]);
        else if (t->dtype == STENO_I64)
            d->st = steno_buf_printf(d->out, "%lld", (long long)((const int64_t *)t->data)[i]);
        else if (t->dtype == STENO_I32)
            d->st = steno_buf_printf(d->out, "%d", ((const int32_t *)t->data)[i]);
        else if (t->dtype == STENO_BOOL)
            d->st = steno_buf_printf(d->out, "%d", ((const uint8_t *)t->data)[i]);
        else
            put(d, "..");
    }
    put(d, "}");
}

static void put_value(struct dump *d, const struct steno_graph *g, steno_value_id v)
{
    char shape[160];
    if (v == STENO_NONE) {
        put(d, "-");
        return;
    }
    if (*g->values[v].name)
        put_name(d, g->values[v].name);
    else if (!d->st)
        d->st = steno_buf_printf(d->out, "%%%d", v);
    if (!d->st)
        d->st = steno_buf_printf(d->out, ":%s%s", steno_dtype_name(g->values[v].dtype),
                                 steno_shape_str(&g->values[v].shape, shape, sizeof shape));
    if (g->values[v].constant)
        put_const(d, g->values[v].constant);
}

static void put_list(struct dump *d, const struct steno_graph *g, const steno_value_id *v, int n)
{
    for (int i = 0; i < n; i++) {
        put(d, i ? ", " : "");
        put_value(d, g, v[i]);
    }
}

static void put_attr(struct dump *d, const struct steno_attr *a)
{
    put(d, " ");
    put_name(d, a->name);
    if (d->st)
        return;
    switch (a->kind) {
    case STENO_ATTR_INT:
        d->st = steno_buf_printf(d->out, "=%lld", (long long)a->i);
        break;
    case STENO_ATTR_FLOAT:
        d->st = steno_buf_printf(d->out, "=%g", (double)a->f);
        break;
    case STENO_ATTR_STRING:
        put(d, "=");
        put_name(d, a->s);
        break;
    case STENO_ATTR_INTS:
        put(d, "=[");
        for (size_t i = 0; i < a->n && i < 16 && !d->st; i++)
            d->st = steno_buf_printf(d->out, "%s%lld", i ? "," : "", (long long)a->ints[i]);
        put(d, a->n > 16 ? ",...]" : "]");
        break;
    default:
        put(d, "=...");
    }
}

static void put_indent(struct dump *d)
{
    for (int i = 0; i < d->indent; i++)
        put(d, "  ");
}

static void text_graph(struct dump *d, const struct steno_graph *g);

static int text_body(struct steno_graph *g, void *arg)
{
    struct dump *d = arg;
    d->indent++;
    text_graph(d, g);
    d->indent--;
    return d->st != STENO_OK;
}

/* A line above the first node of each outermost region. */
static void text_region(struct dump *d, const struct steno_graph *g, const struct steno_node *n,
                        int32_t *last)
{
    int32_t r = steno_node_top_region(g, n);
    if (r != STENO_NONE && r != *last) {
        put_indent(d);
        put(d, "  # ");
        put_name(d, g->regions[r].type);
        put(d, " ");
        put_name(d, g->regions[r].name);
        put(d, "\n");
    }
    *last = r;
}

static void text_graph(struct dump *d, const struct steno_graph *g)
{
    int32_t last = STENO_NONE;
    put_indent(d);
    put(d, "graph ");
    put_name(d, g->name);
    put(d, " (");
    put_list(d, g, g->inputs, g->n_inputs);
    put(d, ") -> (");
    put_list(d, g, g->outputs, g->n_outputs);
    put(d, ")\n");
    for (int32_t i = 0; i < g->n_nodes && !d->st; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        text_region(d, g, n, &last);
        put_indent(d);
        put(d, last == STENO_NONE ? "  " : "    ");
        put_list(d, g, n->out, n->n_out);
        put(d, " = ");
        put_name(d, n->op_type);
        put(d, "(");
        put_list(d, g, n->in, n->n_in);
        put(d, ")");
        for (int k = 0; k < n->n_attr; k++)
            if (n->attr[k].kind != STENO_ATTR_GRAPH)
                put_attr(d, &n->attr[k]);
        put(d, "\n");
        steno_node_each_graph(n, text_body, d);
    }
}

static void dot_edge(struct dump *d, const struct steno_graph *g, int id, int32_t node,
                     steno_value_id v)
{
    char shape[160];
    if (v == STENO_NONE || g->values[v].constant || d->st)
        return;
    steno_shape_str(&g->values[v].shape, shape, sizeof shape);
    if (g->values[v].producer != STENO_NONE)
        d->st = steno_buf_printf(d->out, "  g%dn%d -> g%dn%d [label=\"%s\"];\n", id,
                                 g->values[v].producer, id, node, shape);
    else
        d->st = steno_buf_printf(d->out, "  g%dv%d -> g%dn%d [label=\"%s\"];\n", id, v, id, node,
                                 shape);
}

static void dot_value(struct dump *d, const struct steno_graph *g, int id, steno_value_id v)
{
    if (!d->st)
        d->st = steno_buf_printf(d->out, "  g%dv%d [shape=oval,label=\"", id, v);
    put_name(d, g->values[v].name);
    put(d, "\"];\n");
}

static void dot_graph(struct dump *d, const struct steno_graph *g);

static int dot_body(struct steno_graph *g, void *arg)
{
    struct dump *d = arg;
    if (!d->st)
        d->st = steno_buf_printf(d->out, "  subgraph cluster_%d {\n", d->cluster + 1);
    dot_graph(d, g);
    put(d, "  }\n");
    return d->st != STENO_OK;
}

static void dot_graph(struct dump *d, const struct steno_graph *g)
{
    int id = d->cluster++;
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->values[v].is_input ||
            (g->values[v].captured_from != STENO_NONE && g->values[v].uses))
            dot_value(d, g, id, v);
    for (int32_t i = 0; i < g->n_nodes && !d->st; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        d->st = steno_buf_printf(d->out, "  g%dn%d [shape=box,label=\"", id, i);
        put_name(d, n->op_type);
        put(d, "\\n");
        put_name(d, n->name);
        put(d, "\"];\n");
        for (int k = 0; k < n->n_in; k++)
            dot_edge(d, g, id, i, n->in[k]);
        steno_node_each_graph(n, dot_body, d);
    }
}

steno_status steno_graph_dump(const struct steno_graph *g, bool dot, struct steno_buf *out)
{
    struct dump d = {.out = out, .dot = dot};
    if (!dot) {
        text_graph(&d, g);
        return d.st;
    }
    put(&d, "digraph model {\n  rankdir=TB;\n");
    dot_graph(&d, g);
    put(&d, "}\n");
    return d.st;
}
