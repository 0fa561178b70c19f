#include "nn/build/make_internal.h"

#include "base/pages.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void steno_make_no_memory(struct steno_make *m)
{
    if (!m->st)
        m->st = steno_fail(m->err, STENO_ERR_NOMEM, "%s: out of memory", m->w.file);
}

/* ---- the graph ----------------------------------------------------------------------------- */

steno_status steno_make_begin(struct steno_make *m, const struct steno_make_weights *w, int ends,
                              steno_err *err)
{
    *m = (struct steno_make){.w = *w, .err = err, .asked = "the configuration"};
    m->g = steno_graph_new(NULL);
    if (!m->g)
        return m->st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    m->g->inputs = steno_graph_alloc(m->g, (size_t)ends, sizeof *m->g->inputs, err);
    m->g->outputs = steno_graph_alloc(m->g, (size_t)ends, sizeof *m->g->outputs, err);
    if (m->g->inputs && m->g->outputs)
        return STENO_OK;
    steno_make_drop(m);
    return m->st = STENO_ERR_NOMEM;
}

void steno_make_drop(struct steno_make *m)
{
    steno_graph_free(m->g);
    m->g = NULL;
}

steno_status steno_make_take(struct steno_make *m, struct steno_graph **out)
{
    if (!m->st)
        m->st = steno_graph_sort(m->g, m->err);
    if (m->st)
        steno_make_drop(m);
    else
        *out = m->g;
    return m->st;
}

void steno_make_at(struct steno_make *m, const char *fmt, ...)
{
    va_list ap;
    if (m->w.map && m->w.map->n)
        steno_pages_rest(m->w.map->p, m->w.map->n);
    va_start(ap, fmt);
    vsnprintf(m->prefix, sizeof m->prefix, fmt, ap);
    va_end(ap);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void set_type(struct steno_make *m, steno_value_id v, steno_dtype type, int rank,
                     const int64_t *dim)
{
    struct steno_value *x = &m->g->values[v];
    x->dtype = type;
    x->shape.rank = rank;
    if (rank)
        memcpy(x->shape.dim, dim, (size_t)rank * sizeof *dim);
}

steno_value_id steno_make_input(struct steno_make *m, const char *name, steno_dtype type, int rank,
                                const int64_t *dim)
{
    steno_value_id v = STENO_NONE;
    if (!m->st)
        m->st = steno_graph_add_value(m->g, name, &v, m->err);
    if (m->st)
        return STENO_NONE;
    set_type(m, v, type, rank, dim);
    m->g->values[v].is_input = true;
    m->g->inputs[m->g->n_inputs++] = v;
    return v;
}

void steno_make_output(struct steno_make *m, steno_value_id v, const char *name, steno_dtype type,
                       int rank, const int64_t *dim)
{
    if (m->st)
        return;
    set_type(m, v, type, rank, dim);
    m->g->values[v].name = steno_arena_strdup(m->g->arena, name);
    m->g->values[v].is_output = true;
    m->g->outputs[m->g->n_outputs++] = v;
    if (!m->g->values[v].name)
        steno_make_no_memory(m);
}

int64_t steno_make_symbol(struct steno_make *m, const char *name)
{
    return m->st ? STENO_DIM_ANY : steno_graph_symbol(m->g, name);
}

void steno_make_meta(struct steno_make *m, const char *key, const char *fmt, ...)
{
    char text[4096];
    const char **keys, **values;
    const int n = m->g && !m->st ? m->g->n_meta : 0;
    va_list ap;
    if (m->st)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    keys = steno_graph_alloc(m->g, (size_t)n + 1, sizeof *keys, m->err);
    values = steno_graph_alloc(m->g, (size_t)n + 1, sizeof *values, m->err);
    if (!keys || !values) {
        steno_make_no_memory(m);
        return;
    }
    for (int i = 0; i < n; i++) {
        keys[i] = m->g->meta_keys[i];
        values[i] = m->g->meta_values[i];
    }
    keys[n] = steno_arena_strdup(m->g->arena, key);
    values[n] = steno_arena_strdup(m->g->arena, text);
    if (!keys[n] || !values[n]) {
        steno_make_no_memory(m);
        return;
    }
    m->g->meta_keys = keys;
    m->g->meta_values = values;
    m->g->n_meta = n + 1;
}

/* ---- weights ------------------------------------------------------------------------------- */

/* The name in the file, for messages too. */
static void full_name(const struct steno_make *m, const char *name, char out[STENO_MAKE_NAME])
{
    int n = snprintf(out, STENO_MAKE_NAME, "%s%s%s", m->w.root, m->prefix, name);
    if (n >= STENO_MAKE_NAME)
        out[0] = '\0'; /* none of ours is so long */
}

void steno_make_const_name(const struct steno_make *m, const char *name, char out[STENO_MAKE_NAME])
{
    int n = snprintf(out, STENO_MAKE_NAME, "%s%s", m->prefix, name);
    if (n >= STENO_MAKE_NAME)
        out[0] = '\0';
}

static const struct steno_torch_tensor *find_below_root(const struct steno_make *m,
                                                        const char *name)
{
    char full[STENO_MAKE_NAME];
    full_name(m, name, full);
    return m->w.find ? m->w.find(m->w.of, full) : steno_torch_find(m->w.torch, full);
}

bool steno_make_has(const struct steno_make *m, const char *name)
{
    return find_below_root(m, name) != NULL;
}

int64_t steno_make_extent(const struct steno_make *m, const char *name, int axis)
{
    const struct steno_torch_tensor *t = find_below_root(m, name);
    return t && axis < t->rank ? t->dim[axis] : -1;
}

static void shape_text(int rank, const int64_t *dim, char *out, size_t size)
{
    struct steno_shape s = {.rank = rank};
    if (rank)
        memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    steno_shape_str(&s, out, size);
}

/* A view that repeats its elements, as no weight does: its size is bounded by nothing. */
static bool repeats(const struct steno_torch_tensor *t)
{
    for (int i = 0; i < t->rank && !t->contiguous; i++)
        if (t->dim[i] > 1 && !t->stride[i])
            return true;
    return false;
}

/* Do the shapes hold the same axes, but for those of 1 where these do not count? */
static bool same_extents(const struct steno_make *m, const struct steno_torch_tensor *t, int rank,
                         const int64_t *dim)
{
    int i = 0, k = 0;
    for (;;) {
        while (m->w.squeezed && i < t->rank && t->dim[i] == 1)
            i++;
        while (m->w.squeezed && k < rank && dim[k] == 1)
            k++;
        if (i == t->rank || k == rank)
            return i == t->rank && k == rank;
        if (t->dim[i++] != dim[k++])
            return false;
    }
}

const struct steno_torch_tensor *steno_make_find(struct steno_make *m, const char *name, int rank,
                                                 const int64_t *dim)
{
    const struct steno_torch_tensor *t = find_below_root(m, name);
    char full[STENO_MAKE_NAME], want[80], got[80];
    full_name(m, name, full);
    shape_text(rank, dim, want, sizeof want);
    if (!t) {
        m->st = steno_fail(m->err, STENO_ERR_FORMAT, "%s: '%s' is missing: %s asks for it, as %s",
                           m->w.file, full, m->asked, want);
        return NULL;
    }
    shape_text(t->rank, t->dim, got, sizeof got);
    if (same_extents(m, t, rank, dim)) {
        if (!repeats(t))
            return t;
        m->st = steno_fail(m->err, STENO_ERR_FORMAT, "%s: '%s' repeats its elements: no weight",
                           m->w.file, full);
        return NULL;
    }
    m->st = steno_fail(m->err, STENO_ERR_FORMAT, "%s: '%s' is %s, %s asks for %s", m->w.file, full,
                       got, m->asked, want);
    return NULL;
}

void steno_make_read_weight(const struct steno_make_weights *w, const struct steno_torch_tensor *t,
                            size_t from, size_t n, float *x)
{
    (w->read ? w->read : steno_torch_read)(t, from, n, x);
}

/* Elements of NAME, multiplied if it has a scale. */
static void read_elements(const struct steno_make *m, const char *name,
                          const struct steno_torch_tensor *t, float *x)
{
    char part[STENO_MAKE_NAME];
    const struct steno_torch_tensor *scale;
    float by;
    steno_make_read_weight(&m->w, t, 0, t->count, x);
    if (!m->w.scaled || snprintf(part, sizeof part, "%s_scale", name) >= STENO_MAKE_NAME)
        return;
    scale = find_below_root(m, part);
    if (!scale || scale->rank)
        return;
    steno_make_read_weight(&m->w, scale, 0, 1, &by);
    by = expf(by);
    for (size_t i = 0; i < t->count; i++)
        x[i] *= by;
}

float *steno_make_read(struct steno_make *m, const char *name, int rank, const int64_t *dim)
{
    const struct steno_torch_tensor *t = m->st ? NULL : steno_make_find(m, name, rank, dim);
    float *x;
    if (!t)
        return NULL;
    x = malloc((t->count + 1) * sizeof *x);
    if (x)
        read_elements(m, name, t, x);
    else
        steno_make_no_memory(m);
    return x;
}

float *steno_make_new_const(struct steno_make *m, const char *name, int rank, const int64_t *dim,
                            steno_value_id *v)
{
    struct steno_shape s = {.rank = rank};
    size_t bytes;
    float *x;
    *v = STENO_NONE;
    if (m->st)
        return NULL;
    if (rank)
        memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    if (steno_shape_bytes(&s, STENO_F32, &bytes)) {
        m->st = steno_fail(m->err, STENO_ERR_LIMIT, "%s: '%s' is too large", m->w.file, name);
        return NULL;
    }
    x = steno_graph_new_const(m->g, name, STENO_F32, &s, v, m->err);
    m->st = x ? STENO_OK : STENO_ERR_NOMEM;
    return x;
}

steno_value_id steno_make_param(struct steno_make *m, const char *name, int rank,
                                const int64_t *dim)
{
    const struct steno_torch_tensor *t = m->st ? NULL : steno_make_find(m, name, rank, dim);
    char full[STENO_MAKE_NAME];
    steno_value_id v = STENO_NONE;
    float *x;
    if (!t)
        return v;
    steno_make_const_name(m, name, full);
    x = steno_make_new_const(m, full, rank, dim, &v);
    if (x)
        read_elements(m, name, t, x);
    return v;
}

steno_value_id steno_make_floats(struct steno_make *m, const char *name, int rank,
                                 const int64_t *dim, const float *x)
{
    steno_value_id v;
    float *to = x ? steno_make_new_const(m, name, rank, dim, &v) : NULL;
    size_t n = 1;
    if (!x)
        steno_make_no_memory(m);
    if (!to)
        return STENO_NONE;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    memcpy(to, x, n * sizeof *x);
    return v;
}

steno_value_id steno_make_number(struct steno_make *m, float x)
{
    return steno_make_floats(m, "", 0, NULL, &x);
}

float steno_make_exp(struct steno_make *m, const char *name)
{
    float *x = steno_make_read(m, name, 0, NULL), by = x ? expf(*x) : 1;
    free(x);
    return by;
}

static steno_value_id add_ints(struct steno_make *m, int rank, int64_t n, const int64_t *x)
{
    int64_t few[8], *copy = n <= 8 ? few : malloc((size_t)n * sizeof *copy);
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = rank, .dim = {n}}, .data = copy};
    steno_value_id v = STENO_NONE;
    if (!x || !copy)
        steno_make_no_memory(m);
    else
        memcpy(copy, x, (size_t)n * sizeof *copy);
    if (!m->st)
        m->st = steno_graph_add_const(m->g, "", &t, false, &v, m->err);
    if (copy != few)
        free(copy);
    return m->st ? STENO_NONE : v;
}

steno_value_id steno_make_ints(struct steno_make *m, int n, const int64_t *x)
{
    return add_ints(m, 1, n, x);
}

steno_value_id steno_make_int(struct steno_make *m, int64_t x)
{
    return add_ints(m, 0, 1, &x);
}

/* ---- nodes --------------------------------------------------------------------------------- */

static bool copy_attr(struct steno_make *m, struct steno_attr *a)
{
    int64_t *ints;
    if (a->kind != STENO_ATTR_INTS)
        return true;
    ints = steno_graph_alloc(m->g, a->n, sizeof *ints, m->err);
    if (!ints)
        return false;
    memcpy(ints, a->ints, a->n * sizeof *ints);
    a->ints = ints;
    return true;
}

/* What names an operator. */
struct operator
{
    const char *domain, *type;
    int opset;
};

static void add_node(struct steno_make *m, struct operator op, int n, const steno_value_id *in,
                     int n_out, steno_value_id *out, int n_attr, const struct steno_attr *attr)
{
    struct steno_node *node;
    int32_t at = 0;
    for (int i = 0; i < n_out; i++)
        out[i] = STENO_NONE;
    if (!m->st)
        m->st =
            steno_graph_add_node(m->g, op.domain, op.type, op.type, n, n_out, n_attr, &at, m->err);
    for (int i = 0; i < n_out && !m->st; i++)
        m->st = steno_graph_add_value(m->g, "", &out[i], m->err);
    if (m->st)
        return;
    node = &m->g->nodes[at];
    node->opset = op.opset;
    memcpy(node->in, in, (size_t)n * sizeof *in);
    memcpy(node->out, out, (size_t)n_out * sizeof *out);
    for (int i = 0; i < n_attr; i++) {
        node->attr[i] = attr[i];
        if (!copy_attr(m, &node->attr[i])) {
            steno_make_no_memory(m);
            return;
        }
    }
}

void steno_make_outputs(struct steno_make *m, const char *type, int n, const steno_value_id *in,
                        int n_out, steno_value_id *out, int n_attr, const struct steno_attr *attr)
{
    add_node(m, (struct operator){"", type, STENO_MAKE_OPSET}, n, in, n_out, out, n_attr, attr);
}

steno_value_id steno_make_node_of(struct steno_make *m, const char *domain, int opset,
                                  const char *type, int n, const steno_value_id *in, int n_attr,
                                  const struct steno_attr *attr)
{
    steno_value_id v;
    add_node(m, (struct operator){domain, type, opset}, n, in, 1, &v, n_attr, attr);
    return v;
}

steno_value_id steno_make_node(struct steno_make *m, const char *type, int n,
                               const steno_value_id *in, int n_attr, const struct steno_attr *attr)
{
    return steno_make_node_of(m, "", STENO_MAKE_OPSET, type, n, in, n_attr, attr);
}

steno_value_id steno_make_1(struct steno_make *m, const char *type, steno_value_id x)
{
    return steno_make_node(m, type, 1, &x, 0, NULL);
}

steno_value_id steno_make_2(struct steno_make *m, const char *type, steno_value_id x,
                            steno_value_id y)
{
    return steno_make_node(m, type, 2, (steno_value_id[]){x, y}, 0, NULL);
}

steno_value_id steno_make_concat(struct steno_make *m, int64_t axis, steno_value_id x,
                                 steno_value_id y)
{
    return steno_make_join(m, axis, 2, (steno_value_id[]){x, y});
}

steno_value_id steno_make_join(struct steno_make *m, int64_t axis, int n, const steno_value_id *x)
{
    const struct steno_attr a = STENO_INT_ATTR("axis", axis);
    return steno_make_node(m, "Concat", n, x, 1, &a);
}

steno_value_id steno_make_cut(struct steno_make *m, steno_value_id x, int64_t axis,
                              steno_value_id from, steno_value_id to)
{
    const steno_value_id in[] = {x, from, to, steno_make_ints(m, 1, &axis)};
    return steno_make_node(m, "Slice", 4, in, 0, NULL);
}

steno_value_id steno_make_slice(struct steno_make *m, steno_value_id x, int64_t axis, int64_t from,
                                int64_t to)
{
    steno_value_id a = steno_make_ints(m, 1, &from), b = steno_make_ints(m, 1, &to);
    return steno_make_cut(m, x, axis, a, b);
}

steno_value_id steno_make_reshape(struct steno_make *m, steno_value_id x, int rank,
                                  const int64_t *dim)
{
    return steno_make_2(m, "Reshape", x, steno_make_ints(m, rank, dim));
}

steno_value_id steno_make_transpose(struct steno_make *m, steno_value_id x, int rank,
                                    const int64_t *perm)
{
    const struct steno_attr a = STENO_INTS_ATTR("perm", rank, perm);
    return steno_make_node(m, "Transpose", 1, &x, 1, &a);
}

steno_value_id steno_make_turn(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 3, (int64_t[]){0, 2, 1});
}

steno_value_id steno_make_softmax(struct steno_make *m, const char *type, steno_value_id x,
                                  int64_t axis)
{
    const struct steno_attr a = STENO_INT_ATTR("axis", axis);
    return steno_make_node(m, type, 1, &x, 1, &a);
}

steno_value_id steno_make_unsqueeze(struct steno_make *m, steno_value_id x, int64_t axis)
{
    return steno_make_2(m, "Unsqueeze", x, steno_make_ints(m, 1, &axis));
}

steno_value_id steno_make_squeeze(struct steno_make *m, steno_value_id x, int64_t axis)
{
    return steno_make_2(m, "Squeeze", x, steno_make_ints(m, 1, &axis));
}

steno_value_id steno_make_embed(struct steno_make *m, steno_value_id ids, const char *name,
                                int64_t rows, int64_t width)
{
    return steno_make_2(m, "Gather", steno_make_param(m, name, 2, (int64_t[]){rows, width}), ids);
}

steno_value_id steno_make_extent_of(struct steno_make *m, steno_value_id x, int64_t axis)
{
    return steno_make_2(m, "Gather", steno_make_1(m, "Shape", x), steno_make_ints(m, 1, &axis));
}

steno_value_id steno_make_add(struct steno_make *m, steno_value_id x, steno_value_id y)
{
    return steno_make_2(m, "Add", x, y);
}

steno_value_id steno_make_scale(struct steno_make *m, steno_value_id x, float by)
{
    return steno_make_2(m, "Mul", x, steno_make_number(m, by));
}

steno_value_id steno_make_hide(struct steno_make *m, steno_value_id hidden, float number,
                               steno_value_id x)
{
    const steno_value_id in[] = {hidden, steno_make_number(m, number), x};
    return steno_make_node(m, "Where", 3, in, 0, NULL);
}
