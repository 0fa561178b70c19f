/* Converts nodes to another opset of ai.onnx. Most versions of an operator only add element types;
 * then the node stays unchanged. Where the form changed (attributes that became inputs, defaults)
 * the node is rewritten, or refused if there is no equivalent. */
#include "optimize/opset_table.h"
#include "optimize/write_internal.h"

#include <stdlib.h>
#include <string.h>

static int by_type(const void *key, const void *row)
{
    return strcmp(key, ((const struct opset_row *)row)->type);
}

int steno_opset_since(const char *type, int opset)
{
    const struct opset_row *r = bsearch(type, opset_table, sizeof opset_table / sizeof *opset_table,
                                        sizeof *opset_table, by_type);
    int since = 0;
    if (!r)
        return -1;
    for (size_t i = 0; i < sizeof r->version && r->version[i] && r->version[i] <= opset; i++)
        since = r->version[i];
    return since;
}

struct change {
    struct writer *w;
    struct write_scope *s;
    const struct steno_node *n;
    Onnx__Node *m;
    int from, to; /* versions of the operator */
};

static steno_status refuse(const struct change *c, const char *why)
{
    return steno_fail(c->w->err, STENO_ERR_UNSUPPORTED,
                      "node '%s' (%s): no equivalent in opset %d of its form in opset %d: %s",
                      c->n->name, c->n->op_type, c->to, c->from, why);
}

static bool crosses(const struct change *c, int version)
{
    return (c->from < version) != (c->to < version);
}

static Onnx__Attribute *attribute(const Onnx__Node *m, const char *name)
{
    for (size_t i = 0; i < m->n_attribute; i++)
        if (!strcmp(m->attribute[i]->name, name))
            return m->attribute[i];
    return NULL;
}

static void remove_attribute(Onnx__Node *m, const char *name)
{
    for (size_t i = 0; i < m->n_attribute; i++)
        if (!strcmp(m->attribute[i]->name, name)) {
            m->attribute[i] = m->attribute[--m->n_attribute];
            return;
        }
}

static Onnx__Attribute *add_attribute(const struct change *c, const char *name,
                                      Onnx__Attribute__Kind kind)
{
    Onnx__Attribute *a = steno_write_alloc(c->w, 1, sizeof *a);
    if (!a)
        return NULL;
    onnx__attribute__init(a);
    a->name = steno_write_dup(c->w, name);
    a->type = kind;
    c->m->attribute[c->m->n_attribute++] = a; /* write.c has left room */
    return a->name ? a : NULL;
}

/* Add a constant to the graph that contains the node. */
static steno_status add_constant(const struct change *c, const int64_t *v, size_t n, char **name)
{
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {(int64_t)n}}};
    struct write_scope *s = c->s;
    const char *made = steno_write_name(c->w, "axes");
    t.data = steno_write_alloc(c->w, n + 1, sizeof *v);
    if (!made || !t.data)
        return STENO_ERR_NOMEM;
    if (n)
        memcpy(t.data, v, n * sizeof *v);
    if (s->n_extra == s->cap_extra) {
        size_t cap = s->cap_extra ? 2 * s->cap_extra : 16;
        Onnx__Tensor **p = steno_write_alloc(c->w, cap, sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        if (s->n_extra)
            memcpy(p, s->extra, s->n_extra * sizeof *p);
        s->extra = p;
        s->cap_extra = cap;
    }
    *name = steno_write_dup(c->w, made);
    if (!*name || steno_write_tensor(c->w, made, &t, &s->extra[s->n_extra]))
        return STENO_ERR_NOMEM;
    s->n_extra++;
    return STENO_OK;
}

/* Turn attribute `name` (ints) into input 1. */
static steno_status to_input(const struct change *c, const char *name)
{
    const Onnx__Attribute *a = attribute(c->m, name);
    steno_status st;
    if (!a)
        return STENO_OK;
    if (a->type != ONNX__ATTRIBUTE__KIND__INTS)
        return refuse(c, "its attribute is not a list of integers");
    st = add_constant(c, a->ints, a->n_ints, &c->m->input[1]);
    c->m->n_input = 2;
    remove_attribute(c->m, name);
    return st;
}

/* Turn constant input 1 into attribute `name`. */
static steno_status to_attribute(const struct change *c, const char *name)
{
    const struct steno_tensor *t;
    Onnx__Attribute *a;
    if (c->m->n_input < 2 || c->n->in[1] == STENO_NONE) {
        c->m->n_input = c->m->n_input ? 1 : 0;
        return STENO_OK;
    }
    t = c->s->g->values[c->n->in[1]].constant;
    if (!t || t->dtype != STENO_I64)
        return refuse(c, "input 1 is not constant");
    a = add_attribute(c, name, ONNX__ATTRIBUTE__KIND__INTS);
    if (!a)
        return STENO_ERR_NOMEM;
    a->ints = t->data;
    a->n_ints = steno_numel(t);
    c->m->n_input = 1;
    return STENO_OK;
}

static steno_status axes_at(const struct change *c, int version)
{
    if (!crosses(c, version))
        return STENO_OK;
    if (c->from < version)
        return to_input(c, "axes");
    if (steno_node_int(c->n, "noop_with_empty_axes", 0))
        return refuse(c, "noop_with_empty_axes");
    remove_attribute(c->m, "noop_with_empty_axes");
    return to_attribute(c, "axes");
}

static steno_status axes13(const struct change *c)
{
    if (c->from < 13 && !strcmp(c->n->op_type, "Unsqueeze") && !attribute(c->m, "axes"))
        return refuse(c, "it has no axes");
    return axes_at(c, 13);
}

static steno_status axes18(const struct change *c)
{
    return axes_at(c, 18);
}

static steno_status split(const struct change *c)
{
    steno_status st = STENO_OK;
    if (crosses(c, 13))
        st = c->from < 13 ? to_input(c, "split") : to_attribute(c, "split");
    if (st || !crosses(c, 18))
        return st;
    if (c->from < 18 && c->m->n_input < 2) {
        Onnx__Attribute *a = add_attribute(c, "num_outputs", ONNX__ATTRIBUTE__KIND__INT);
        if (!a)
            return STENO_ERR_NOMEM;
        a->i = c->n->n_out;
    } else if (c->from >= 18) {
        const struct steno_shape *x = &c->s->g->values[c->n->in[0]].shape;
        int64_t axis = steno_node_int(c->n, "axis", 0);
        axis += axis < 0 ? x->rank : 0;
        bool given = c->n->n_in > 1 && c->n->in[1] >= 0; /* the lengths of the parts */
        if (!given &&
            (axis < 0 || axis >= x->rank || x->dim[axis] < 0 || x->dim[axis] % c->n->n_out))
            return refuse(c, "parts that may differ in size");
        remove_attribute(c->m, "num_outputs");
    }
    return STENO_OK;
}

/* Up to opset 12 Softmax flattens the axes from `axis` on, 1 by default. Later it is one axis, the
 * last by default. */
static steno_status softmax(const struct change *c)
{
    int rank = c->s->g->values[c->n->in[0]].shape.rank;
    int64_t axis = steno_node_int(c->n, "axis", c->from < 13 ? 1 : -1);
    Onnx__Attribute *a = attribute(c->m, "axis");
    if (!crosses(c, 13))
        return STENO_OK;
    if (axis != -1 && (rank < 1 || axis != rank - 1))
        return refuse(c, "the axis is not the last");
    if (!a && !(a = add_attribute(c, "axis", ONNX__ATTRIBUTE__KIND__INT)))
        return STENO_ERR_NOMEM;
    a->type = ONNX__ATTRIBUTE__KIND__INT;
    a->i = -1;
    return STENO_OK;
}

static steno_status dropout(const struct change *c)
{
    if (!crosses(c, 12))
        return STENO_OK;
    return refuse(c, "its ratio is an attribute in one and an input in the other");
}

/* An attribute that only the later version has, or only the later version with a value other than
 * `plain`. */
static steno_status only_later(const struct change *c, int version, const char *name, int64_t plain)
{
    if (!crosses(c, version) || c->from < version)
        return STENO_OK;
    if (steno_node_int(c->n, name, plain) != plain)
        return refuse(c, name);
    remove_attribute(c->m, name);
    return STENO_OK;
}

static steno_status reshape(const struct change *c)
{
    return only_later(c, 14, "allowzero", 0);
}

static steno_status recurrent(const struct change *c)
{
    return only_later(c, 14, "layout", 0);
}

static steno_status shape(const struct change *c)
{
    if (crosses(c, 15) && c->from >= 15 && attribute(c->m, "end"))
        return refuse(c, "end");
    return only_later(c, 15, "start", 0);
}

static steno_status pad(const struct change *c)
{
    if (crosses(c, 11))
        return refuse(c, "pads are an attribute in one and an input in the other");
    if (crosses(c, 18) && c->from >= 18 && c->m->n_input > 3)
        return refuse(c, "axes");
    return STENO_OK;
}

static steno_status cast(const struct change *c)
{
    steno_status st = only_later(c, 24, "round_mode", 0);
    return st ? st : only_later(c, 19, "saturate", 1);
}

static steno_status quantize(const struct change *c)
{
    steno_status st = only_later(c, 13, "axis", 1);
    if (!st)
        st = only_later(c, 19, "saturate", 1);
    if (!st)
        st = only_later(c, 21, "block_size", 0);
    if (!st)
        st = only_later(c, 21, "output_dtype", 0);
    return st ? st : only_later(c, 23, "precision", 0);
}

/* Forms with differences that are not rewritten. */
static steno_status apart(const struct change *c)
{
    return refuse(c, "the two differ in meaning");
}

static const struct rule {
    const char *type;
    int below; /* the rule applies when a version below this is on either side; 0: always */
    steno_status (*apply)(const struct change *c);
} rules[] = {
    {"Squeeze", 13, axes13},
    {"Unsqueeze", 13, axes13},
    {"ReduceSum", 13, axes13},
    {"ReduceMean", 18, axes18},
    {"ReduceMax", 18, axes18},
    {"ReduceMin", 18, axes18},
    {"ReduceProd", 18, axes18},
    {"ReduceL1", 18, axes18},
    {"ReduceL2", 18, axes18},
    {"ReduceLogSum", 18, axes18},
    {"ReduceLogSumExp", 18, axes18},
    {"ReduceSumSquare", 18, axes18},
    {"Split", 0, split},
    {"Softmax", 13, softmax},
    {"LogSoftmax", 13, softmax},
    {"Hardmax", 13, softmax},
    {"Dropout", 12, dropout},
    {"Reshape", 14, reshape},
    {"LSTM", 14, recurrent},
    {"GRU", 14, recurrent},
    {"RNN", 14, recurrent},
    {"Shape", 15, shape},
    {"Pad", 0, pad},
    {"Cast", 0, cast},
    {"CastLike", 0, cast},
    {"QuantizeLinear", 0, quantize},
    {"DequantizeLinear", 0, quantize},
    {"Clip", 11, apart},
    {"Slice", 10, apart},
    {"TopK", 11, apart},
    {"BatchNormalization", 15, apart},
    {"Gemm", 11, apart},
    {"Resize", 0, apart},
    {"Upsample", 0, apart},
    {"Scan", 9, apart},
    {"DFT", 20, apart},
    {"GridSample", 20, apart},
    {"Attention", 0, apart},
    {"GroupNormalization", 0, apart},
    {"AveragePool", 10, apart},
    {"MaxPool", 10, apart},
    {"Scatter", 0, apart},
    {"Constant", 12, apart},
    {"OneHot", 11, apart},
    {"Gelu", 20, apart},
    {"CumSum", 11, apart},
};

steno_status steno_opset_convert(struct writer *w, struct write_scope *s,
                                 const struct steno_node *n, Onnx__Node *m)
{
    struct change c = {.w = w, .s = s, .n = n, .m = m};
    c.from = steno_opset_since(n->op_type, n->opset);
    c.to = steno_opset_since(n->op_type, steno_file_writer(w)->opt->opset);
    if (c.from == c.to)
        return STENO_OK;
    if (c.from <= 0)
        return refuse(&c, "the operator does not exist there");
    if (c.from < 7)
        return apart(&c);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!strcmp(rules[i].type, n->op_type) &&
            (!rules[i].below || c.from < rules[i].below || c.to < rules[i].below))
            return rules[i].apply(&c);
    return STENO_OK;
}
