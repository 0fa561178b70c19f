/* The part of the conversion that the schemas alone decide; opset.h has the design. */
#include "tools/optimize/opset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROOM = 8 }; /* inputs and attributes that rules may add (nn/onnx/write.c) */

steno_status steno_opset_refuse(const struct opset_change *c, const char *fmt, ...)
{
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return steno_fail(c->w->err, STENO_ERR_UNSUPPORTED,
                      "node '%.60s' (%.40s): opset %d cannot express it: %s", c->n->name,
                      c->n->op_type, c->to, why);
}

/* ---- attributes ---- */

Onnx__Attribute *steno_opset_find(const Onnx__Node *m, const char *name)
{
    for (size_t i = 0; i < m->n_attribute; i++)
        if (!strcmp(m->attribute[i]->name, name))
            return m->attribute[i];
    return NULL;
}

void steno_opset_remove(Onnx__Node *m, const char *name)
{
    for (size_t i = 0; i < m->n_attribute; i++)
        if (!strcmp(m->attribute[i]->name, name)) {
            m->attribute[i] = m->attribute[--m->n_attribute];
            return;
        }
}

int64_t steno_opset_int(const Onnx__Node *m, const char *name, int64_t fallback)
{
    const Onnx__Attribute *a = steno_opset_find(m, name);
    return a && a->type == ONNX__ATTRIBUTE__KIND__INT ? a->i : fallback;
}

/* A new attribute, or the old one of this name, emptied. NULL: out of memory. */
static Onnx__Attribute *fresh(struct opset_change *c, const char *name, Onnx__Attribute__Kind kind)
{
    Onnx__Attribute *a = steno_write_alloc(c->w, 1, sizeof *a);
    if (!a)
        return NULL;
    onnx__attribute__init(a);
    a->name = steno_write_dup(c->w, name);
    a->type = kind;
    steno_opset_remove(c->m, name);
    c->m->attribute[c->m->n_attribute++] = a;
    return a->name ? a : NULL;
}

steno_status steno_opset_set_int(struct opset_change *c, const char *name, int64_t v)
{
    Onnx__Attribute *a = fresh(c, name, ONNX__ATTRIBUTE__KIND__INT);
    if (!a)
        return STENO_ERR_NOMEM;
    a->i = v;
    return STENO_OK;
}

steno_status steno_opset_set_string(struct opset_change *c, const char *name, const char *v)
{
    Onnx__Attribute *a = fresh(c, name, ONNX__ATTRIBUTE__KIND__STRING);
    if (!a || !(a->s.data = (uint8_t *)steno_write_dup(c->w, v)))
        return STENO_ERR_NOMEM;
    a->s.len = strlen(v);
    return STENO_OK;
}

steno_status steno_opset_set_ints(struct opset_change *c, const char *name, const int64_t *v,
                                  size_t n)
{
    Onnx__Attribute *a = fresh(c, name, ONNX__ATTRIBUTE__KIND__INTS);
    if (!a || !(a->ints = steno_write_alloc(c->w, n + 1, sizeof *a->ints)))
        return STENO_ERR_NOMEM;
    if (n)
        memcpy(a->ints, v, n * sizeof *v);
    a->n_ints = n;
    return STENO_OK;
}

/* Write the attribute's value as the table has defaults. False: no such text. */
static bool as_text(const Onnx__Attribute *a, char *out, size_t size)
{
    size_t n = 0;
    *out = '\0';
    switch (a->type) {
    case ONNX__ATTRIBUTE__KIND__INT:
        return snprintf(out, size, "%lld", (long long)a->i) < (int)size;
    case ONNX__ATTRIBUTE__KIND__FLOAT:
        return snprintf(out, size, "%.9g", (double)a->f) < (int)size;
    case ONNX__ATTRIBUTE__KIND__STRING:
        return snprintf(out, size, "%.*s", (int)a->s.len, (const char *)a->s.data) < (int)size;
    case ONNX__ATTRIBUTE__KIND__INTS:
        for (size_t i = 0; i < a->n_ints && n < size; i++)
            n += (size_t)snprintf(out + n, size - n, i ? ",%lld" : "%lld", (long long)a->ints[i]);
        return n < size;
    default:
        return false;
    }
}

static steno_status set_text(struct opset_change *c, const struct opset_attr *as, const char *text)
{
    Onnx__Attribute *a;
    if (as->kind == 'i')
        return steno_opset_set_int(c, as->name, strtoll(text, NULL, 10));
    if (as->kind == 's')
        return steno_opset_set_string(c, as->name, text);
    if (as->kind != 'f')
        return steno_opset_refuse(c, "the default of attribute '%s' is another", as->name);
    if (!(a = fresh(c, as->name, ONNX__ATTRIBUTE__KIND__FLOAT)))
        return STENO_ERR_NOMEM;
    a->f = strtof(text, NULL);
    return STENO_OK;
}

/* ---- inputs, constants, nodes ---- */

/* Grow the arena array *p, which has room for *cap. */
static bool room(struct writer *w, void ***p, size_t *cap, size_t n)
{
    size_t more = *cap ? 2 * *cap : 16;
    void **q;
    if (n < *cap)
        return true;
    if (!(q = steno_write_alloc(w, more, sizeof *q)))
        return false;
    if (n)
        memcpy(q, *p, n * sizeof *q);
    *p = q;
    *cap = more;
    return true;
}

steno_status steno_opset_constant(struct opset_change *c, const char *stem,
                                  const struct steno_tensor *t, const char **name)
{
    struct write_scope *s = c->s;
    struct steno_tensor copy = *t;
    size_t bytes;
    void **p = (void **)s->extra;
    *name = steno_write_name(c->w, stem);
    if (!*name || steno_shape_bytes(&t->shape, t->dtype, &bytes) ||
        !(copy.data = steno_write_alloc(c->w, bytes + 1, 1)) ||
        !room(c->w, &p, &s->cap_extra, s->n_extra))
        return STENO_ERR_NOMEM;
    s->extra = (Onnx__Tensor **)p;
    if (bytes)
        memcpy(copy.data, t->data, bytes);
    if (steno_write_tensor(c->w, *name, &copy, &s->extra[s->n_extra]))
        return STENO_ERR_NOMEM;
    s->n_extra++;
    return STENO_OK;
}

steno_status steno_opset_set_constant(struct opset_change *c, size_t k, const char *stem,
                                      const struct steno_tensor *t)
{
    struct steno_tensor *copy;
    const char *name;
    steno_status st = steno_opset_constant(c, stem, t, &name);
    if (st)
        return st;
    for (; c->m->n_input <= k; c->m->n_input++) {
        if (!(c->m->input[c->m->n_input] = steno_write_dup(c->w, "")))
            return STENO_ERR_NOMEM;
        c->in[c->m->n_input] = (struct opset_operand){.absent = true};
    }
    c->m->input[k] = steno_write_dup(c->w, name);
    copy = steno_write_alloc(c->w, 1, sizeof *copy);
    if (!copy || !c->m->input[k])
        return STENO_ERR_NOMEM;
    *copy = *t;
    copy->data = c->s->extra[c->s->n_extra - 1]->raw_data.data;
    c->in[k] = (struct opset_operand){
        .dtype = t->dtype, .shape = t->shape, .constant = copy, .made = true};
    return STENO_OK;
}

steno_status steno_opset_set_list(struct opset_change *c, size_t k, const char *stem,
                                  const int64_t *v, size_t n)
{
    int64_t none = 0, *copy = steno_write_alloc(c->w, n + 1, sizeof *copy);
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {(int64_t)n}}};
    if (!copy)
        return STENO_ERR_NOMEM;
    memcpy(copy, n ? v : &none, (n ? n : 1) * sizeof *copy);
    t.data = copy;
    return steno_opset_set_constant(c, k, stem, &t);
}

steno_status steno_opset_add(struct opset_change *c, bool after, const char *type,
                             const char *const in[3], const char *out, Onnx__Node **made)
{
    struct write_scope *s = c->s;
    size_t *n = after ? &s->n_after : &s->n_before;
    Onnx__Node ***list = after ? &s->after : &s->before;
    void **p = (void **)*list;
    Onnx__Node *m;
    NEW(c->w, m, onnx__node__init);
    m->op_type = steno_write_dup(c->w, type);
    m->name = steno_write_node_name(c->w, out);
    m->input = steno_write_alloc(c->w, 3, sizeof *m->input);
    m->output = steno_write_alloc(c->w, 1, sizeof *m->output);
    m->attribute = steno_write_alloc(c->w, MAX_ROOM, sizeof *m->attribute);
    if (!m->op_type || !m->name || !m->input || !m->output || !m->attribute ||
        !room(c->w, &p, after ? &s->cap_after : &s->cap_before, *n))
        return STENO_ERR_NOMEM;
    *list = (Onnx__Node **)p;
    for (int i = 0; i < 3 && in[i]; i++)
        if (!(m->input[m->n_input++] = steno_write_read(c->w, in[i])))
            return STENO_ERR_NOMEM;
    if (!(m->output[m->n_output++] = steno_write_dup(c->w, out)))
        return STENO_ERR_NOMEM;
    (*list)[(*n)++] = m;
    if (made)
        *made = m;
    return STENO_OK;
}

const char *steno_opset_redirect(struct opset_change *c, const char *stem, const char **made)
{
    const char *old = c->m->output[0];
    *made = steno_write_name(c->w, stem);
    return *made && (c->m->output[0] = steno_write_dup(c->w, *made)) ? old : NULL;
}

const void *steno_opset_bytes(const struct opset_operand *in)
{
    return !in->constant ? NULL
           : in->made    ? in->constant->data
                         : steno_constant_bytes(in->constant);
}

bool steno_opset_ints(const struct opset_change *c, size_t k, int64_t *out, size_t max, size_t *n)
{
    const struct steno_tensor *t = k < c->m->n_input ? c->in[k].constant : NULL;
    const char *data = t ? steno_opset_bytes(&c->in[k]) : NULL;
    if (!t || (t->dtype != STENO_I64 && t->dtype != STENO_I32) || steno_numel(t) > max ||
        (!data && steno_numel(t)))
        return false;
    *n = steno_numel(t);
    for (size_t i = 0; i < *n; i++) {
        int32_t narrow;
        if (t->dtype == STENO_I64) {
            memcpy(&out[i], data + i * sizeof *out, sizeof *out);
        } else {
            memcpy(&narrow, data + i * sizeof narrow, sizeof narrow);
            out[i] = narrow;
        }
    }
    return true;
}

/* Number of values of m's outputs that something reads, up to the last one. */
static size_t used_outputs(const struct opset_change *c)
{
    size_t n = (size_t)c->n->n_out;
    while (n && (c->n->out[n - 1] == STENO_NONE || !c->s->g->values[c->n->out[n - 1]].uses))
        n--;
    return n;
}

/* ---- comparison with the schema ---- */

/* Values of attributes that came later than the attribute. */
static const struct {
    const char *type, *name, *value;
    int from, until;
} values[] = {
    {"ScatterElements", "reduction", "max", 18, 0},
    {"ScatterElements", "reduction", "min", 18, 0},
    {"ScatterND", "reduction", "max", 18, 0},
    {"ScatterND", "reduction", "min", 18, 0},
    {"Pad", "mode", "wrap", 19, 0},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19, 0},
    {"Resize", "coordinate_transformation_mode", "tf_half_pixel_for_nn", 11, 12},
};

static steno_status check_value(const struct opset_change *c, const Onnx__Attribute *a)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (strcmp(values[i].type, c->m->op_type) || strcmp(values[i].name, a->name) ||
            a->type != ONNX__ATTRIBUTE__KIND__STRING || a->s.len != strlen(values[i].value) ||
            memcmp(a->s.data, values[i].value, a->s.len))
            continue;
        if (c->to < values[i].from)
            return steno_opset_refuse(c, "attribute '%s' can be '%s' from opset %d on", a->name,
                                      values[i].value, values[i].from);
        if (values[i].until && c->to > values[i].until)
            return steno_opset_refuse(c, "attribute '%s' can be '%s' up to opset %d", a->name,
                                      values[i].value, values[i].until);
    }
    return STENO_OK;
}

static bool all_ones(const Onnx__Attribute *a)
{
    for (size_t i = 0; i < a->n_ints; i++)
        if (a->ints[i] != 1)
            return false;
    return a->type == ONNX__ATTRIBUTE__KIND__INTS;
}

/* True if an attribute that the file's opset lacks says nothing. */
static bool says_nothing(const struct opset_change *c, const struct opset_version *from,
                         const Onnx__Attribute *a)
{
    /* of attributes with these names, the value matters for types only that came with it */
    static const char *const never[] = {"consumed_inputs", "saturate", "round_mode"};
    const struct opset_attr *was = from ? steno_opset_attr(from, a->name) : NULL;
    char text[64];
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (!strcmp(a->name, never[i]))
            return true;
    if (!strcmp(a->name, "dilations"))
        return all_ones(a);
    /* an empty list of axes alone makes a difference */
    if (!strcmp(a->name, "noop_with_empty_axes") && c->from >= 13 &&
        (steno_opset_find(c->m, "axes") || a->i == 0))
        return true;
    return was && was->fallback && as_text(a, text, sizeof text) && !strcmp(text, was->fallback);
}

/* The first version after v whose schema has the attribute; 0: none. */
static int first_with(const char *type, const struct opset_version *v, const char *name)
{
    for (; v; v = steno_opset_next(type, v))
        if (steno_opset_attr(v, name))
            return v->since;
    return 0;
}

static steno_status check_attributes(struct opset_change *c, const struct opset_version *from,
                                     const struct opset_version *to)
{
    for (size_t i = 0; i < c->m->n_attribute;) {
        const Onnx__Attribute *a = c->m->attribute[i];
        steno_status st = check_value(c, a);
        int first;
        if (st)
            return st;
        if (steno_opset_attr(to, a->name) || !from || !steno_opset_attr(from, a->name)) {
            i++;
            continue;
        }
        if (says_nothing(c, from, a)) {
            steno_opset_remove(c->m, a->name);
            continue;
        }
        first = first_with(c->m->op_type, to, a->name);
        return first
                   ? steno_opset_refuse(c, "attribute '%s' exists from opset %d on", a->name, first)
                   : steno_opset_refuse(c, "attribute '%s' does not exist any more", a->name);
    }
    return STENO_OK;
}

/* Write defaults out where the two versions have different ones. */
static steno_status keep_defaults(struct opset_change *c, const struct opset_version *from,
                                  const struct opset_version *to)
{
    for (int i = 0; i < to->n_attr; i++) {
        const struct opset_attr *now = steno_opset_attr_at(to, i);
        const struct opset_attr *was = from ? steno_opset_attr(from, now->name) : NULL;
        steno_status st;
        if (!was || !was->fallback || steno_opset_find(c->m, now->name) ||
            (now->fallback && !strcmp(now->fallback, was->fallback)))
            continue;
        st = set_text(c, now, was->fallback);
        if (st)
            return st;
    }
    return STENO_OK;
}

static int first_taking(const char *type, const struct opset_version *v, size_t k, bool output,
                        steno_dtype t)
{
    while ((v = steno_opset_next(type, v))) {
        const struct opset_param *p = output ? steno_opset_out(v, k) : steno_opset_in(v, k);
        if (p && steno_opset_takes(p, t))
            return v->since;
    }
    return 0;
}

static steno_status refuse_type(const struct opset_change *c, const struct opset_version *to,
                                const struct opset_param *p, size_t k, bool output, steno_dtype t)
{
    int first = first_taking(c->m->op_type, to, k, output, t);
    const char *side = output ? "output" : "input";
    return first ? steno_opset_refuse(c, "%s %zu '%s' can be %s from opset %d on", side, k, p->name,
                                      steno_dtype_name(t), first)
                 : steno_opset_refuse(c, "%s %zu '%s' cannot be %s", side, k, p->name,
                                      steno_dtype_name(t));
}

/* Element types of one type variable, as seen so far. */
static steno_status bind_type(const struct opset_change *c, const struct opset_version *to,
                              const struct opset_param *p, size_t k, bool output, steno_dtype t,
                              steno_dtype bound[16])
{
    if (steno_dtype_is_sequence(t) && steno_opset_takes_other(p, STENO_OPSET_SEQUENCE))
        return STENO_OK;
    if (steno_dtype_is_optional(t) && steno_opset_takes_other(p, STENO_OPSET_OPTIONAL))
        return STENO_OK;
    if (!steno_opset_takes(p, t))
        return refuse_type(c, to, p, k, output, t);
    if (t == STENO_DT_NONE || !p->same || p->same >= 16)
        return STENO_OK;
    if (bound[p->same] && bound[p->same] != t)
        return steno_opset_refuse(c, "%s %zu '%s' is %s and another one %s; they must be the same",
                                  output ? "output" : "input", k, p->name, steno_dtype_name(t),
                                  steno_dtype_name(bound[p->same]));
    bound[p->same] = t;
    return STENO_OK;
}

static steno_status check_inputs(struct opset_change *c, const struct opset_version *to,
                                 steno_dtype bound[16])
{
    while (c->m->n_input > to->min_in && c->in[c->m->n_input - 1].absent)
        c->m->n_input--;
    for (size_t k = 0; k < c->m->n_input; k++) {
        const struct opset_param *p = steno_opset_in(to, k);
        const struct opset_version *v = to;
        steno_status st;
        while (!p && (v = steno_opset_next(c->m->op_type, v)))
            if (steno_opset_in(v, k))
                return steno_opset_refuse(c, "input %zu '%s' exists from opset %d on", k,
                                          steno_opset_in(v, k)->name, v->since);
        if (!p)
            return steno_opset_refuse(c, "it has no input %zu", k);
        if (!steno_opset_takes_other(p, c->in[k].other))
            return steno_opset_refuse(c,
                                      "input %zu '%s' can be another value than a tensor in later "
                                      "opsets only",
                                      k, p->name);
        if (c->in[k].absent && p->kind == '1')
            return steno_opset_refuse(c, "input %zu '%s' is required", k, p->name);
        st = c->in[k].absent ? STENO_OK : bind_type(c, to, p, k, false, c->in[k].dtype, bound);
        if (st)
            return st;
    }
    if (c->m->n_input < to->min_in)
        return steno_opset_refuse(c, "input %zu '%s' is required", c->m->n_input,
                                  steno_opset_in(to, c->m->n_input)->name);
    return STENO_OK;
}

/* What a type's message is of: its first field says that (1 a dense tensor, 9 an optional). Maps
 * and opaque types count as sequences: no operator of ai.onnx takes them. */
static enum opset_other other_of(const struct steno_opaque *type)
{
    int field = type && type->n ? *(const uint8_t *)type->bytes >> 3 : 1;
    return field == 1   ? STENO_OPSET_TENSOR
           : field == 9 ? STENO_OPSET_OPTIONAL
                        : STENO_OPSET_SEQUENCE;
}

/* True if each value that g takes or gives is one that the parameter takes. */
static bool takes_values_of(const struct opset_param *p, const struct steno_graph *g)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (!steno_opset_takes_other(p, other_of(g->values[g->inputs[i]].type)))
            return false;
    for (int i = 0; i < g->n_declared; i++)
        if (!steno_opset_takes_other(p, other_of(g->declared_types[i])))
            return false;
    return true;
}

/* Bodies hand the node's values on: what they are is known there. */
static steno_status check_bodies(struct opset_change *c, const struct opset_version *to)
{
    const struct opset_param *p = steno_opset_out(to, 0);
    for (int i = 0; p && i < c->n->n_attr; i++)
        if (c->n->attr[i].kind == STENO_ATTR_GRAPH && !takes_values_of(p, c->n->attr[i].g))
            return steno_opset_refuse(c,
                                      "'%s' can be another value than a tensor in later opsets "
                                      "only",
                                      p->name);
    return STENO_OK;
}

static steno_status check_outputs(struct opset_change *c, const struct opset_version *to,
                                  steno_dtype bound[16])
{
    const struct steno_graph *g = c->s->g;
    size_t used = used_outputs(c);
    for (size_t k = 0; k < c->m->n_output; k++) {
        const struct opset_param *p = steno_opset_out(to, k);
        bool known = k < (size_t)c->n->n_out && c->n->out[k] != STENO_NONE;
        steno_status st;
        if (!p && k >= used) {
            c->m->n_output = k; /* nothing reads the rest */
            return STENO_OK;
        }
        if (!p)
            return steno_opset_refuse(c, "it has no output %zu", k);
        if (!known)
            continue;
        st = bind_type(c, to, p, k, true, g->values[c->n->out[k]].dtype, bound);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* ---- conversion ---- */

static steno_status apply_rules(struct opset_change *c, int from)
{
    size_t n;
    const struct opset_rule *r = steno_opset_rules(&n);
    steno_status st = STENO_OK;
    /* the operator's name may change on the way: each step looks at it again */
    for (int at = from + 1; !st && at <= c->to; at++)
        for (size_t i = 0; !st && i < n; i++)
            if (r[i].at == at && r[i].up && !strcmp(r[i].type, c->m->op_type))
                st = r[i].up(c);
    for (int at = from; !st && at > c->to; at--)
        for (size_t i = 0; !st && i < n; i++)
            if (r[i].at == at && r[i].down && !strcmp(r[i].type, c->m->op_type))
                st = r[i].down(c);
    return st;
}

static steno_status operands(struct opset_change *c)
{
    const struct steno_graph *g = c->s->g;
    size_t n = (size_t)c->n->n_in;
    c->in = steno_write_alloc(c->w, n + MAX_ROOM + 1, sizeof *c->in);
    if (!c->in)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct steno_value *v = c->n->in[i] == STENO_NONE ? NULL : &g->values[c->n->in[i]];
        c->in[i].absent = !v;
        c->in[i].shape.rank = STENO_RANK_ANY;
        if (!v)
            continue;
        c->in[i].dtype = v->type ? STENO_DT_NONE : v->dtype;
        c->in[i].other = other_of(v->type);
        c->in[i].shape = v->shape;
        c->in[i].constant = v->constant;
    }
    return STENO_OK;
}

bool steno_opset_replaces(const char *type, int opset)
{
    size_t n;
    const struct opset_rule *r = steno_opset_rules(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(r[i].type, type) && r[i].down && r[i].at > opset &&
            r[i].at == steno_opset_first(type))
            return true;
    return false;
}

steno_status steno_opset_convert(struct writer *w, struct write_scope *s,
                                 const struct steno_node *n, Onnx__Node *m)
{
    struct opset_change c = {.w = w, .s = s, .n = n, .m = m, .from = n->opset};
    const struct opset_version *from = steno_opset_version(n->op_type, n->opset), *to;
    steno_dtype bound[16] = {0};
    steno_status st;
    c.to = steno_file_writer(w)->opt->opset;
    to = steno_opset_version(n->op_type, c.to);
    if (!from && to)
        return steno_opset_refuse(&c, "the operator does not exist in the node's opset, %d",
                                  n->opset);
    if (!from || (from == to && !from->deprecated))
        return STENO_OK;
    st = operands(&c);
    if (!st)
        st = apply_rules(&c, n->opset);
    if (st)
        return st;
    to = steno_opset_version(m->op_type, c.to);
    if (!to || to->deprecated)
        return steno_opset_refuse(&c, "%s",
                                  to ? "the operator is deprecated there"
                                     : "the operator does not exist there");
    if (strcmp(m->op_type, n->op_type))
        from = NULL; /* rules have set all attributes */
    st = check_attributes(&c, from, to);
    if (!st)
        st = keep_defaults(&c, from, to);
    if (!st)
        st = check_inputs(&c, to, bound);
    if (!st)
        st = check_bodies(&c, to);
    return st ? st : check_outputs(&c, to, bound);
}
