#include "tests/support/onnx_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All memory of a model is in one list and is freed with the model. */
struct mk_graph {
    struct mk_graph *main;
    void **mem;
    size_t n_mem;
    Onnx__Model model;
    Onnx__Graph graph;
    Onnx__Function func;
    Onnx__Node *last;
    bool is_func;
};

static void *get(struct mk_graph *g, size_t n)
{
    struct mk_graph *m = g->main;
    void *p = calloc(1, n ? n : 1);
    void **mem = realloc(m->mem, (m->n_mem + 1) * sizeof *mem);
    if (!p || !mem)
        abort();
    m->mem = mem;
    m->mem[m->n_mem++] = p;
    return p;
}

static char *sub(struct mk_graph *g, const char *s, size_t n)
{
    char *p = get(g, n + 1);
    memcpy(p, s, n);
    return p;
}

static char *str(struct mk_graph *g, const char *s)
{
    return sub(g, s, strlen(s));
}

/* Append to an array of pointers. */
#define ADD(g, array, n, item)                                                                     \
    do {                                                                                           \
        void *grown_ = get(g, ((n) + 1) * sizeof *(array));                                        \
        if (n)                                                                                     \
            memcpy(grown_, (array), (n) * sizeof *(array));                                        \
        (array) = grown_;                                                                          \
        (array)[(n)++] = (item);                                                                   \
    } while (0)

static struct mk_graph *graph_new(struct mk_graph *main)
{
    struct mk_graph *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->main = main ? main : g;
    onnx__model__init(&g->model);
    onnx__graph__init(&g->graph);
    onnx__function__init(&g->func);
    if (main) {
        void *hold = get(main, 1); /* the list frees g itself */
        free(hold);
        main->mem[main->n_mem - 1] = g;
    }
    return g;
}

void mk_import(struct mk_graph *main, const char *domain, int version)
{
    Onnx__OperatorSetId *s = get(main, sizeof *s);
    onnx__operator_set_id__init(s);
    s->domain = str(main, domain);
    s->version = version;
    if (main->is_func)
        ADD(main, main->func.opset_import, main->func.n_opset_import, s);
    else
        ADD(main, main->model.opset_import, main->model.n_opset_import, s);
}

struct mk_graph *mk_new(int opset)
{
    struct mk_graph *g = graph_new(NULL);
    g->model.ir_version = 8;
    g->model.graph = &g->graph;
    g->graph.name = str(g, "test");
    mk_import(g, "", opset);
    return g;
}

struct mk_graph *mk_body(struct mk_graph *main)
{
    struct mk_graph *g = graph_new(main->main);
    g->graph.name = str(g, "body");
    return g;
}

void mk_free(struct mk_graph *main)
{
    for (size_t i = 0; i < main->n_mem; i++)
        free(main->mem[i]);
    free(main->mem);
    free(main);
}

/* ---- values ---- */

static void value(struct mk_graph *g, Onnx__ValueInfo ***list, size_t *n, const char *name,
                  steno_dtype t, const char *dims)
{
    Onnx__ValueInfo *v = get(g, sizeof *v);
    Onnx__Type *type = get(g, sizeof *type);
    Onnx__Type__TensorKind *k = get(g, sizeof *k);
    onnx__value_info__init(v);
    onnx__type__init(type);
    onnx__type__tensor_kind__init(k);
    v->name = str(g, name);
    v->type = type;
    type->value_case = ONNX__TYPE__VALUE_TENSOR_TYPE;
    type->tensor_type = k;
    k->elem_type = t;
    if (dims) {
        k->shape = get(g, sizeof *k->shape);
        onnx__tensor_shape__init(k->shape);
    }
    while (dims && *dims) {
        size_t len = strcspn(dims, ",");
        Onnx__TensorShape__Dimension *d = get(g, sizeof *d);
        onnx__tensor_shape__dimension__init(d);
        if ((*dims >= '0' && *dims <= '9') || *dims == '-') {
            d->value_case = ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = strtoll(dims, NULL, 10);
        } else if (*dims != '?' || len == 2) {
            d->value_case = ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = *dims == '?' ? sub(g, "?", 1) : sub(g, dims, len);
        }
        ADD(g, k->shape->dim, k->shape->n_dim, d);
        dims += len + (dims[len] == ',');
    }
    ADD(g, *list, *n, v);
}

void mk_input(struct mk_graph *g, const char *name, steno_dtype t, const char *dims)
{
    value(g, &g->graph.input, &g->graph.n_input, name, t, dims);
}

void mk_output(struct mk_graph *g, const char *name, steno_dtype t, const char *dims)
{
    value(g, &g->graph.output, &g->graph.n_output, name, t, dims);
}

Onnx__Tensor *mk_tensor(struct mk_graph *g, const char *name, steno_dtype t, const char *dims)
{
    Onnx__Tensor *m = get(g, sizeof *m);
    onnx__tensor__init(m);
    m->name = str(g, name);
    m->data_type = t;
    while (*dims) {
        char *end;
        int64_t d = strtoll(dims, &end, 10);
        ADD(g, m->dims, m->n_dims, d);
        dims = *end == ',' ? end + 1 : end;
    }
    ADD(g, g->graph.initializer, g->graph.n_initializer, m);
    return m;
}

void mk_f32(struct mk_graph *g, const char *name, const char *dims, const float *data, size_t n)
{
    Onnx__Tensor *m = mk_tensor(g, name, STENO_F32, dims);
    m->raw_data.len = n * sizeof *data;
    m->raw_data.data = get(g, m->raw_data.len);
    memcpy(m->raw_data.data, data, m->raw_data.len);
}

void mk_i64(struct mk_graph *g, const char *name, const char *dims, const int64_t *data, size_t n)
{
    Onnx__Tensor *m = mk_tensor(g, name, STENO_I64, dims);
    m->int64_data = get(g, n * sizeof *data);
    m->n_int64_data = n;
    memcpy(m->int64_data, data, n * sizeof *data);
}

/* ---- nodes ---- */

static void names(struct mk_graph *g, char ***list, size_t *n, const char *s)
{
    while (*s) {
        size_t len = strcspn(s, ",");
        ADD(g, *list, *n, sub(g, s, len));
        s += len + (s[len] == ',');
    }
}

Onnx__Node *mk_node(struct mk_graph *g, const char *op, const char *in, const char *out)
{
    Onnx__Node *n = get(g, sizeof *n);
    const char *colon = strchr(op, ':');
    onnx__node__init(n);
    n->op_type = str(g, colon ? colon + 1 : op);
    if (colon)
        n->domain = sub(g, op, (size_t)(colon - op));
    names(g, &n->input, &n->n_input, in);
    names(g, &n->output, &n->n_output, out);
    n->name = str(g, out);
    if (g->is_func)
        ADD(g, g->func.node, g->func.n_node, n);
    else
        ADD(g, g->graph.node, g->graph.n_node, n);
    g->last = n;
    return n;
}

static Onnx__Attribute *attr(struct mk_graph *g, const char *name, Onnx__Attribute__Kind kind)
{
    Onnx__Attribute *a = get(g, sizeof *a);
    onnx__attribute__init(a);
    a->name = str(g, name);
    a->type = kind;
    ADD(g, g->last->attribute, g->last->n_attribute, a);
    return a;
}

void mk_attr_int(struct mk_graph *g, const char *name, int64_t v)
{
    attr(g, name, ONNX__ATTRIBUTE__KIND__INT)->i = v;
}

void mk_attr_ints(struct mk_graph *g, const char *name, const int64_t *v, size_t n)
{
    Onnx__Attribute *a = attr(g, name, ONNX__ATTRIBUTE__KIND__INTS);
    a->ints = get(g, n * sizeof *v);
    a->n_ints = n;
    memcpy(a->ints, v, n * sizeof *v);
}

void mk_attr_float(struct mk_graph *g, const char *name, float v)
{
    attr(g, name, ONNX__ATTRIBUTE__KIND__FLOAT)->f = v;
}

void mk_attr_str(struct mk_graph *g, const char *name, const char *v)
{
    Onnx__Attribute *a = attr(g, name, ONNX__ATTRIBUTE__KIND__STRING);
    a->s.data = (uint8_t *)str(g, v);
    a->s.len = strlen(v);
}

void mk_attr_graph(struct mk_graph *g, const char *name, struct mk_graph *body)
{
    attr(g, name, ONNX__ATTRIBUTE__KIND__GRAPH)->g = &body->graph;
}

void mk_if(struct mk_graph *g, const char *cond, const char *out, struct mk_graph *then_branch,
           struct mk_graph *else_branch)
{
    mk_node(g, "If", cond, out);
    mk_attr_graph(g, "then_branch", then_branch);
    mk_attr_graph(g, "else_branch", else_branch);
}

struct mk_graph *mk_function(struct mk_graph *main, const char *domain, const char *name,
                             const char *in, const char *out)
{
    struct mk_graph *f = graph_new(main);
    Onnx__Function *m = &f->func;
    f->is_func = true;
    m->domain = str(f, domain);
    m->name = str(f, name);
    names(f, &m->input, &m->n_input, in);
    names(f, &m->output, &m->n_output, out);
    ADD(main, main->model.functions, main->model.n_functions, m);
    return f;
}

Onnx__Model *mk_message(struct mk_graph *main)
{
    return &main->model;
}

/* ---- files ---- */

uint8_t *mk_bytes(struct mk_graph *main, size_t *n)
{
    uint8_t *p;
    *n = onnx__model__get_packed_size(&main->model);
    p = malloc(*n ? *n : 1);
    if (!p)
        abort();
    onnx__model__pack(&main->model, p);
    return p;
}

char *mk_file(struct mk_graph *main)
{
    char dir[] = "/tmp/steno-test-XXXXXX", path[64];
    size_t n;
    uint8_t *bytes = mk_bytes(main, &n);
    FILE *f;
    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
        abort();
    free(bytes);
    return strdup(path);
}

void mk_unlink(char *path)
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    free(path);
}
