/* Function bodies: text of nn/ops/body.h -> FunctionProto, and whether a function in a file is the
 * one that we would write. */
#include "nn/onnx/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    steno_arena *a;
    const char *p;
    steno_err *err;
};

static steno_status broken(struct parser *p, const char *want)
{
    return steno_fail(p->err, STENO_ERR_INTERNAL, "function body: %s expected before '%.30s'", want,
                      p->p);
}

static steno_status no_memory_for_body(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static void skip_space(struct parser *p)
{
    while (*p->p == ' ')
        p->p++;
}

static bool take_char(struct parser *p, char c)
{
    skip_space(p);
    if (*p->p != c)
        return false;
    p->p++;
    return true;
}

static size_t word(const char *s)
{
    size_t n = 0;
    while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
           (s[n] >= '0' && s[n] <= '9') || s[n] == '_')
        n++;
    return n;
}

/* Read a name; NULL if there is none, never "". */
static char *name(struct parser *p)
{
    size_t n;
    char *s;
    skip_space(p);
    n = word(p->p);
    if (!n)
        return NULL;
    s = steno_arena_strndup(p->a, p->p, n);
    p->p += n;
    return s;
}

#define MAX_LIST 64

/* Read comma-separated names up to and including `end`; an empty one is "". */
static steno_status names(struct parser *p, char end, char ***out, size_t *count)
{
    char *list[MAX_LIST], empty[1] = "";
    size_t n = 0;
    while (!take_char(p, end)) {
        char *s;
        if (n == MAX_LIST)
            return broken(p, "end of a list");
        s = name(p);
        list[n++] = s ? s : steno_arena_strdup(p->a, empty);
        if (!list[n - 1])
            return no_memory_for_body(p->err);
        skip_space(p);
        if (!take_char(p, ',') && *p->p != end)
            return broken(p, "comma");
    }
    *out = steno_arena_calloc(p->a, n + 1, sizeof **out);
    if (!*out)
        return no_memory_for_body(p->err);
    memcpy(*out, list, n * sizeof *list);
    *count = n;
    return STENO_OK;
}

/* Read a number; real if it has a point, an exponent, or is inf or nan. */
static steno_status parse_body_number(struct parser *p, int64_t *i, double *f, bool *real)
{
    char *after_f;
    char *after_i;
    skip_space(p);
    errno = 0;
    *f = strtod(p->p, &after_f);
    *i = strtoll(p->p, &after_i, 10);
    if (after_f == p->p)
        return broken(p, "number");
    *real = after_f != after_i;
    p->p = after_f;
    return STENO_OK;
}

static steno_status list_value(struct parser *p, Onnx__Attribute *m)
{
    int64_t ints[MAX_LIST];
    float floats[MAX_LIST];
    bool any_real = false;
    size_t n = 0;
    while (!take_char(p, ']')) {
        bool real;
        double f;
        steno_status st;
        if (n == MAX_LIST)
            return broken(p, "end of a list");
        st = parse_body_number(p, &ints[n], &f, &real);
        if (st)
            return st;
        floats[n++] = (float)f;
        any_real = any_real || real;
        (void)take_char(p, ',');
    }
    m->ints = steno_arena_calloc(p->a, n + 1, sizeof *m->ints);
    m->floats = steno_arena_calloc(p->a, n + 1, sizeof *m->floats);
    if (!m->ints || !m->floats)
        return no_memory_for_body(p->err);
    m->type = any_real ? ONNX__ATTRIBUTE__KIND__FLOATS : ONNX__ATTRIBUTE__KIND__INTS;
    memcpy(m->ints, ints, n * sizeof *ints);
    memcpy(m->floats, floats, n * sizeof *floats);
    m->n_ints = any_real ? 0 : n;
    m->n_floats = any_real ? n : 0;
    return STENO_OK;
}

static steno_status value(struct parser *p, Onnx__Attribute *m)
{
    bool real;
    double f;
    steno_status st;
    if (take_char(p, '['))
        return list_value(p, m);
    if (take_char(p, '"')) {
        size_t n = strcspn(p->p, "\"\n");
        m->type = ONNX__ATTRIBUTE__KIND__STRING;
        m->s.data = (uint8_t *)steno_arena_strndup(p->a, p->p, n);
        m->s.len = n;
        p->p += n;
        if (!m->s.data)
            return no_memory_for_body(p->err);
        return take_char(p, '"') ? STENO_OK : broken(p, "quote");
    }
    st = parse_body_number(p, &m->i, &f, &real);
    if (st)
        return st;
    m->type = real ? ONNX__ATTRIBUTE__KIND__FLOAT : ONNX__ATTRIBUTE__KIND__INT;
    if (real) {
        m->i = 0;
        m->f = (float)f;
    }
    return STENO_OK;
}

static steno_status attributes(struct parser *p, Onnx__Node *n)
{
    Onnx__Attribute *list[MAX_LIST];
    size_t count = 0;
    while (!take_char(p, '>')) {
        Onnx__Attribute *m = steno_arena_alloc(p->a, sizeof *m);
        steno_status st;
        if (!m)
            return no_memory_for_body(p->err);
        onnx__attribute__init(m);
        if (count == MAX_LIST || !(m->name = name(p)) || !take_char(p, '='))
            return broken(p, "attribute");
        st = value(p, m);
        if (st)
            return st;
        list[count++] = m;
        (void)take_char(p, ',');
    }
    n->attribute = steno_arena_calloc(p->a, count + 1, sizeof *n->attribute);
    if (!n->attribute)
        return no_memory_for_body(p->err);
    memcpy(n->attribute, list, count * sizeof *list);
    n->n_attribute = count;
    return STENO_OK;
}

/* ---- constants ---- */

static void store(void *dst, size_t at, steno_dtype t, int64_t i, double f)
{
    float f32 = (float)f;
    char *p = (char *)dst + at * steno_dtype_size(t);
    if (t == STENO_F32)
        memcpy(p, &f32, sizeof f32);
    else if (t == STENO_F64)
        memcpy(p, &f, sizeof f);
    else
        memcpy(p, &i, steno_dtype_size(t)); /* little-endian, as ONNX is */
}

static steno_status parse_constant(struct parser *p, steno_dtype t, bool scalar, Onnx__Node *n)
{
    Onnx__Attribute *m = steno_arena_alloc(p->a, sizeof *m);
    Onnx__Tensor *x = steno_arena_alloc(p->a, sizeof *x);
    size_t count = 0;
    n->op_type = steno_arena_strdup(p->a, "Constant");
    n->attribute = steno_arena_calloc(p->a, 1, sizeof *n->attribute);
    if (!m || !x || !n->op_type || !n->attribute)
        return no_memory_for_body(p->err);
    onnx__attribute__init(m);
    onnx__tensor__init(x);
    x->raw_data.data = steno_arena_alloc(p->a, MAX_LIST * sizeof(double));
    x->dims = steno_arena_alloc(p->a, sizeof *x->dims);
    m->name = steno_arena_strdup(p->a, "value");
    if (!x->raw_data.data || !x->dims || !m->name)
        return no_memory_for_body(p->err);
    while (!take_char(p, scalar ? ')' : ']')) {
        int64_t i;
        double f;
        bool real;
        steno_status st;
        if (count == MAX_LIST)
            return broken(p, "end of a list");
        st = parse_body_number(p, &i, &f, &real);
        if (st)
            return st;
        store(x->raw_data.data, count++, t, i, f);
        (void)take_char(p, ',');
    }
    if (scalar && count != 1)
        return broken(p, "one number");
    x->data_type = (int)t;
    x->n_dims = !scalar;
    x->dims[0] = (int64_t)count;
    x->raw_data.len = count * steno_dtype_size(t);
    m->type = ONNX__ATTRIBUTE__KIND__TENSOR;
    m->t = x;
    n->attribute[0] = m;
    n->n_attribute = 1;
    return STENO_OK;
}

static steno_dtype constant_type(const char *word)
{
    static const steno_dtype types[] = {STENO_F32, STENO_F64, STENO_I64, STENO_I32,
                                        STENO_U8,  STENO_I8,  STENO_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(word, steno_dtype_name(types[i])))
            return types[i];
    return STENO_DT_NONE;
}

static steno_status statement(struct parser *p, Onnx__Node *n)
{
    steno_dtype t;
    steno_status st;
    onnx__node__init(n);
    st = names(p, '=', &n->output, &n->n_output);
    if (st)
        return st;
    if (!n->n_output || !(n->op_type = name(p)))
        return broken(p, "operator");
    t = constant_type(n->op_type);
    if (t && take_char(p, '('))
        return parse_constant(p, t, true, n);
    if (t && take_char(p, '['))
        return parse_constant(p, t, false, n);
    if (take_char(p, '<')) {
        st = attributes(p, n);
        if (st)
            return st;
    }
    if (!take_char(p, '('))
        return broken(p, "(");
    return names(p, ')', &n->input, &n->n_input);
}

static steno_status statements(struct parser *p, Onnx__Function *f)
{
    size_t lines = 0;
    for (const char *s = p->p; *s; s++)
        lines += *s == '\n';
    f->node = steno_arena_calloc(p->a, lines + 1, sizeof *f->node);
    if (!f->node)
        return no_memory_for_body(p->err);
    while (*p->p) {
        Onnx__Node *n = steno_arena_alloc(p->a, sizeof *n);
        steno_status st = n ? statement(p, n) : no_memory_for_body(p->err);
        if (st)
            return st;
        skip_space(p);
        if (*p->p != '\n' || f->n_node == lines)
            return broken(p, "end of line");
        p->p++;
        f->node[f->n_node++] = n;
    }
    return STENO_OK;
}

/* ---- functions ---- */

static steno_status formals(steno_arena *a, const char *stem, size_t n, char ***out, steno_err *err)
{
    char s[24];
    *out = steno_arena_calloc(a, n + 1, sizeof **out);
    for (size_t i = 0; *out && i < n; i++) {
        snprintf(s, sizeof s, "%s%zu", stem, i);
        if (!((*out)[i] = steno_arena_strdup(a, s)))
            return no_memory_for_body(err);
    }
    return *out ? STENO_OK : no_memory_for_body(err);
}

static steno_status import(steno_arena *a, Onnx__Function *f, int opset, steno_err *err)
{
    Onnx__OperatorSetId *set = steno_arena_alloc(a, sizeof *set);
    f->opset_import = steno_arena_calloc(a, 1, sizeof *f->opset_import);
    if (!set || !f->opset_import)
        return no_memory_for_body(err);
    onnx__operator_set_id__init(set);
    set->version = opset;
    f->opset_import[0] = set;
    f->n_opset_import = 1;
    return STENO_OK;
}

steno_status steno_onnx_make_function(steno_arena *a, const char *text, int opset, int n_in,
                                      int n_out, Onnx__Function **out, steno_err *err)
{
    struct parser p = {a, text, err};
    Onnx__Function *f = steno_arena_alloc(a, sizeof *f);
    steno_status st;
    if (!f)
        return no_memory_for_body(err);
    onnx__function__init(f);
    st = formals(a, "in", (size_t)n_in, &f->input, err);
    if (!st)
        st = formals(a, "out", (size_t)n_out, &f->output, err);
    if (!st)
        st = import(a, f, opset, err);
    if (!st)
        st = statements(&p, f);
    if (st)
        return st;
    f->n_input = (size_t)n_in;
    f->n_output = (size_t)n_out;
    *out = f;
    return STENO_OK;
}

/* ---- is a function in a file ours? ---- */

static bool same_strings(char **a, size_t n, char **b, size_t m)
{
    for (size_t i = 0; n == m && i < n; i++)
        if (strcmp(a[i], b[i]))
            return false;
    return n == m;
}

/* Compare packed forms, which are canonical: tools give names to nodes and write attributes in any
 * order of fields. */
static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    size_t n = protobuf_c_message_get_packed_size(a);
    uint8_t *p, *q;
    bool same = false;
    if (n != protobuf_c_message_get_packed_size(b))
        return false;
    p = malloc(n + 1);
    q = malloc(n + 1);
    if (p && q) {
        protobuf_c_message_pack(a, p);
        protobuf_c_message_pack(b, q);
        same = !memcmp(p, q, n);
    }
    free(p);
    free(q);
    return same;
}

static bool same_node(const Onnx__Node *ours, const Onnx__Node *theirs)
{
    Onnx__Node x = *theirs;
    x.name = ours->name;
    return same_message(&ours->base, &x.base);
}

static int opset_of(const Onnx__Function *f)
{
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (!*f->opset_import[i]->domain || !strcmp(f->opset_import[i]->domain, "ai.onnx"))
            return f->opset_import[i]->version < 1000 ? (int)f->opset_import[i]->version : 0;
    return 0;
}

steno_status steno_onnx_same_function(const struct steno_onnx_options *opt,
                                      const struct steno_graph *g, const struct steno_node *n,
                                      const Onnx__Function *theirs, bool *same, steno_err *err)
{
    struct steno_buf text;
    Onnx__Function *ours;
    steno_arena *a = steno_arena_new(0);
    int opset = opset_of(theirs);
    steno_status st = a ? STENO_OK : no_memory_for_body(err);
    *same = false;
    steno_buf_init(&text, STENO_MAX_BODY);
    if (!st && theirs->n_input < 1000 && theirs->n_output < 1000 &&
        (size_t)n->n_in <= theirs->n_input && (size_t)n->n_out <= theirs->n_output &&
        !opt->body(g, n, opset, &text)) {
        st = steno_onnx_make_function(a, text.data ? text.data : "", opset, (int)theirs->n_input,
                                      (int)theirs->n_output, &ours, err);
        *same = !st && ours->n_node == theirs->n_node &&
                same_strings(ours->input, ours->n_input, theirs->input, theirs->n_input) &&
                same_strings(ours->output, ours->n_output, theirs->output, theirs->n_output);
        for (size_t i = 0; *same && i < ours->n_node; i++)
            *same = same_node(ours->node[i], theirs->node[i]);
    }
    steno_buf_free(&text);
    steno_arena_free(a);
    return st;
}
