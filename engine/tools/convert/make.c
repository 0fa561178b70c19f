#include "tools/convert/make.h"

#include "base/pages.h"
#include "tools/optimize/write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHT_NAME 400

static void no_memory_for_graph(struct steno_make *m)
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

steno_status steno_make_write(struct steno_make *m, const char *path,
                              struct steno_onnx_written *written)
{
    const struct steno_onnx_write_options opt = {.opset = STENO_MAKE_OPSET,
                                                 .external = STENO_EXTERNAL_AUTO,
                                                 .producer_version = STENO_VERSION};
    if (!m->st)
        m->st = steno_graph_sort(m->g, m->err);
    if (!m->st)
        m->st = steno_onnx_write(m->g, path, &opt, written, m->err);
    steno_make_drop(m);
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
        no_memory_for_graph(m);
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
        no_memory_for_graph(m);
        return;
    }
    for (int i = 0; i < n; i++) {
        keys[i] = m->g->meta_keys[i];
        values[i] = m->g->meta_values[i];
    }
    keys[n] = steno_arena_strdup(m->g->arena, key);
    values[n] = steno_arena_strdup(m->g->arena, text);
    if (!keys[n] || !values[n]) {
        no_memory_for_graph(m);
        return;
    }
    m->g->meta_keys = keys;
    m->g->meta_values = values;
    m->g->n_meta = n + 1;
}

/* ---- weights ------------------------------------------------------------------------------- */

/* The name in the file, for messages too. */
static void full_name(const struct steno_make *m, const char *name, char out[MAX_WEIGHT_NAME])
{
    int n = snprintf(out, MAX_WEIGHT_NAME, "%s%s%s", m->w.root, m->prefix, name);
    if (n >= MAX_WEIGHT_NAME)
        out[0] = '\0'; /* none of ours is so long */
}

/* The name of the constant in the graph: without the root, so that it does not depend on what wraps
 * the checkpoint. */
static void const_name(const struct steno_make *m, const char *name, char out[MAX_WEIGHT_NAME])
{
    int n = snprintf(out, MAX_WEIGHT_NAME, "%s%s", m->prefix, name);
    if (n >= MAX_WEIGHT_NAME)
        out[0] = '\0';
}

static const struct steno_torch_tensor *find_below_root(const struct steno_make *m,
                                                        const char *name)
{
    char full[MAX_WEIGHT_NAME];
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

static const struct steno_torch_tensor *find_exactly(struct steno_make *m, const char *name,
                                                     int rank, const int64_t *dim)
{
    const struct steno_torch_tensor *t = find_below_root(m, name);
    char full[MAX_WEIGHT_NAME], want[80], got[80];
    full_name(m, name, full);
    shape_text(rank, dim, want, sizeof want);
    if (!t) {
        m->st = steno_fail(m->err, STENO_ERR_FORMAT, "%s: '%s' is missing: %s asks for it, as %s",
                           m->w.file, full, m->asked, want);
        return NULL;
    }
    shape_text(t->rank, t->dim, got, sizeof got);
    if (t->rank == rank && !strcmp(want, got)) {
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

/* Elements of NAME, multiplied if it has a scale. */
static void read_elements(const struct steno_make *m, const char *name,
                          const struct steno_torch_tensor *t, float *x)
{
    char part[MAX_WEIGHT_NAME];
    const struct steno_torch_tensor *scale;
    float by;
    steno_torch_read(t, 0, t->count, x);
    if (!m->w.scaled || snprintf(part, sizeof part, "%s_scale", name) >= MAX_WEIGHT_NAME)
        return;
    scale = find_below_root(m, part);
    if (!scale || scale->rank)
        return;
    steno_torch_read(scale, 0, 1, &by);
    by = expf(by);
    for (size_t i = 0; i < t->count; i++)
        x[i] *= by;
}

float *steno_make_read(struct steno_make *m, const char *name, int rank, const int64_t *dim)
{
    const struct steno_torch_tensor *t = m->st ? NULL : find_exactly(m, name, rank, dim);
    float *x;
    if (!t)
        return NULL;
    x = malloc((t->count + 1) * sizeof *x);
    if (x)
        read_elements(m, name, t, x);
    else
        no_memory_for_graph(m);
    return x;
}

/* A new aligned constant, not yet filled; *v is its value. NULL: m->st is set. */
static float *new_const(struct steno_make *m, const char *name, int rank, const int64_t *dim,
                        steno_value_id *v)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = rank}};
    size_t bytes = 0;
    *v = STENO_NONE;
    if (m->st)
        return NULL;
    if (rank)
        memcpy(t.shape.dim, dim, (size_t)rank * sizeof *dim);
    if (steno_shape_bytes(&t.shape, STENO_F32, &bytes)) {
        m->st = steno_fail(m->err, STENO_ERR_LIMIT, "%s: '%s' is too large", m->w.file, name);
        return NULL;
    }
    t.data = steno_aligned_alloc(bytes);
    if (!t.data) {
        no_memory_for_graph(m);
        return NULL;
    }
    m->st = steno_graph_take_const(m->g, name, &t, v, m->err);
    if (!m->st)
        return t.data;
    steno_aligned_free(t.data);
    *v = STENO_NONE;
    return NULL;
}

steno_value_id steno_make_param(struct steno_make *m, const char *name, int rank,
                                const int64_t *dim)
{
    const struct steno_torch_tensor *t = m->st ? NULL : find_exactly(m, name, rank, dim);
    char full[MAX_WEIGHT_NAME];
    steno_value_id v = STENO_NONE;
    float *x;
    if (!t)
        return v;
    const_name(m, name, full);
    x = new_const(m, full, rank, dim, &v);
    if (x)
        read_elements(m, name, t, x);
    return v;
}

steno_value_id steno_make_floats(struct steno_make *m, const char *name, int rank,
                                 const int64_t *dim, const float *x)
{
    steno_value_id v;
    float *to = x ? new_const(m, name, rank, dim, &v) : NULL;
    size_t n = 1;
    if (!x)
        no_memory_for_graph(m);
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
        no_memory_for_graph(m);
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

void steno_make_outputs(struct steno_make *m, const char *type, int n, const steno_value_id *in,
                        int n_out, steno_value_id *out, int n_attr, const struct steno_attr *attr)
{
    struct steno_node *node;
    int32_t at = 0;
    for (int i = 0; i < n_out; i++)
        out[i] = STENO_NONE;
    if (!m->st)
        m->st = steno_graph_add_node(m->g, "", type, type, n, n_out, n_attr, &at, m->err);
    for (int i = 0; i < n_out && !m->st; i++)
        m->st = steno_graph_add_value(m->g, "", &out[i], m->err);
    if (m->st)
        return;
    node = &m->g->nodes[at];
    node->opset = STENO_MAKE_OPSET;
    memcpy(node->in, in, (size_t)n * sizeof *in);
    memcpy(node->out, out, (size_t)n_out * sizeof *out);
    for (int i = 0; i < n_attr; i++) {
        node->attr[i] = attr[i];
        if (!copy_attr(m, &node->attr[i])) {
            no_memory_for_graph(m);
            return;
        }
    }
}

steno_value_id steno_make_node(struct steno_make *m, const char *type, int n,
                               const steno_value_id *in, int n_attr, const struct steno_attr *attr)
{
    steno_value_id v;
    steno_make_outputs(m, type, n, in, 1, &v, n_attr, attr);
    return v;
}

#define INT_ATTR(NAME, VALUE)                                                                      \
    (struct steno_attr)                                                                            \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_INT, .i = (VALUE)                                       \
    }
#define INTS_ATTR(NAME, N, VALUES)                                                                 \
    (struct steno_attr)                                                                            \
    {                                                                                              \
        .name = (NAME), .kind = STENO_ATTR_INTS, .n = (size_t)(N), .ints = (VALUES)                \
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
    const struct steno_attr a = INT_ATTR("axis", axis);
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
    const struct steno_attr a = INTS_ATTR("perm", rank, perm);
    return steno_make_node(m, "Transpose", 1, &x, 1, &a);
}

steno_value_id steno_make_turn(struct steno_make *m, steno_value_id x)
{
    return steno_make_transpose(m, x, 3, (int64_t[]){0, 2, 1});
}

steno_value_id steno_make_softmax(struct steno_make *m, const char *type, steno_value_id x,
                                  int64_t axis)
{
    const struct steno_attr a = INT_ATTR("axis", axis);
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

/* ---- parts --------------------------------------------------------------------------------- */

/* [out, in] -> [in, out], in tiles that a cache holds. */
static void transpose_tiles(const float *x, int64_t rows, int64_t cols, float *to)
{
    enum { TILE = 32 };
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < cols; j += TILE)
            for (int64_t a = i; a < i + TILE && a < rows; a++)
                for (int64_t b = j; b < j + TILE && b < cols; b++)
                    to[b * rows + a] = x[a * cols + b];
}

/* rank 3: of a convolution with one tap, [out, in, 1]. */
static steno_value_id turned(struct steno_make *m, const char *name, int rank, int64_t in,
                             int64_t out)
{
    char part[MAX_WEIGHT_NAME], full[MAX_WEIGHT_NAME];
    steno_value_id v = STENO_NONE;
    float *x, *to;
    snprintf(part, sizeof part, "%s.weight", name);
    x = steno_make_read(m, part, rank, (int64_t[]){out, in, 1});
    const_name(m, part, full);
    to = x ? new_const(m, full, 2, (int64_t[]){in, out}, &v) : NULL;
    if (to)
        transpose_tiles(x, out, in, to);
    free(x);
    return v;
}

steno_value_id steno_make_linear_rows(struct steno_make *m, steno_value_id x, const char *name,
                                      int64_t in, int64_t out, int64_t from, int64_t to)
{
    const int64_t rows = to - from;
    char part[MAX_WEIGHT_NAME];
    steno_value_id v = STENO_NONE, b;
    float *w, *turn;
    snprintf(part, sizeof part, "%s.weight", name);
    w = steno_make_read(m, part, 2, (int64_t[]){out, in});
    turn = w ? new_const(m, "", 2, (int64_t[]){in, rows}, &v) : NULL;
    if (turn)
        transpose_tiles(w + from * in, rows, in, turn);
    free(w);
    snprintf(part, sizeof part, "%s.bias", name);
    w = steno_make_read(m, part, 1, &out);
    b = steno_make_floats(m, "", 1, &rows, w ? w + from : NULL);
    free(w);
    return steno_make_add(m, steno_make_2(m, "MatMul", x, v), b);
}

static steno_value_id part_of(struct steno_make *m, const char *name, const char *role, int64_t d)
{
    char part[MAX_WEIGHT_NAME];
    snprintf(part, sizeof part, "%s.%s", name, role);
    return steno_make_param(m, part, 1, &d);
}

steno_value_id steno_make_linear(struct steno_make *m, steno_value_id x, const char *name,
                                 int64_t in, int64_t out, bool bias)
{
    steno_value_id w = turned(m, name, 2, in, out), y = steno_make_2(m, "MatMul", x, w);
    return bias ? steno_make_add(m, y, part_of(m, name, "bias", out)) : y;
}

steno_value_id steno_make_pointwise(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t in, int64_t out)
{
    steno_value_id w = turned(m, name, 3, in, out), y = steno_make_2(m, "MatMul", x, w);
    return steno_make_add(m, y, part_of(m, name, "bias", out));
}

steno_value_id steno_make_norm(struct steno_make *m, steno_value_id x, const char *name, int64_t d,
                               float epsilon)
{
    const struct steno_attr attr[] = {INT_ATTR("axis", -1),
                                      {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = epsilon}};
    const steno_value_id in[] = {x, part_of(m, name, "weight", d), part_of(m, name, "bias", d)};
    return steno_make_node(m, "LayerNormalization", 3, in, 2, attr);
}

steno_value_id steno_make_channel_norm(struct steno_make *m, steno_value_id x, const char *name,
                                       int64_t d, float epsilon)
{
    const struct steno_attr a = {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = epsilon};
    const steno_value_id in[] = {x, part_of(m, name, "weight", d), part_of(m, name, "bias", d)};
    return steno_make_node(m, "InstanceNormalization", 3, in, 1, &a);
}

/* Scale filters and biases [out] as the batch normalization behind them does at inference. */
static void fold_norm(struct steno_make *m, const struct steno_make_conv *c, size_t filter,
                      float *w, float *b)
{
    static const char *const roles[] = {"weight", "bias", "running_mean", "running_var"};
    float *part[4] = {0};
    for (int i = 0; i < 4; i++) {
        char name[MAX_WEIGHT_NAME];
        snprintf(name, sizeof name, "%s.%s", c->batch_norm, roles[i]);
        part[i] = steno_make_read(m, name, 1, &c->out);
    }
    for (int64_t o = 0; o < c->out && !m->st; o++) {
        const double by = (double)part[0][o] / sqrt((double)part[3][o] + 1e-5);
        const double mean = (double)part[2][o], shift = (double)part[1][o];
        for (size_t k = 0; k < filter; k++)
            w[(size_t)o * filter + k] = (float)((double)w[(size_t)o * filter + k] * by);
        b[o] = (float)(((double)b[o] - mean) * by + shift);
    }
    for (int i = 0; i < 4; i++)
        free(part[i]);
}

steno_value_id steno_make_convolve(struct steno_make *m, steno_value_id x, const char *name,
                                   const struct steno_make_conv *c)
{
    const int64_t groups = c->groups ? c->groups : 1, dilation = c->dilation ? c->dilation : 1;
    const int64_t dim[4] = {c->out, c->in / groups, c->kernel, c->kernel};
    const int64_t kernel[] = {c->kernel, c->kernel}, dilations[] = {dilation, dilation};
    const int64_t stride[] = {c->stride, c->stride}, pad[] = {c->pad, c->pad, c->pad, c->pad};
    const size_t filter = (size_t)(dim[1] * c->kernel) * (c->rank == 2 ? (size_t)c->kernel : 1);
    const struct steno_attr attr[] = {
        INTS_ATTR("kernel_shape", c->rank, kernel),
        INTS_ATTR("strides", c->rank, c->strides ? c->strides : stride),
        INTS_ATTR("pads", 2 * c->rank, c->pads ? c->pads : pad),
        INTS_ATTR("dilations", c->rank, dilations), INT_ATTR("group", groups)};
    char weight[MAX_WEIGHT_NAME], bias[MAX_WEIGHT_NAME];
    steno_value_id in[3] = {x, STENO_NONE, STENO_NONE};
    const bool has_bias = c->bias || c->batch_norm;
    float *w, *b = NULL;
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    w = steno_make_read(m, weight, 2 + c->rank, dim);
    if (c->bias)
        b = steno_make_read(m, bias, 1, &c->out);
    else if (has_bias && !(b = calloc((size_t)c->out, sizeof *b)))
        no_memory_for_graph(m);
    if (c->batch_norm && w && b)
        fold_norm(m, c, filter, w, b);
    in[1] = steno_make_floats(m, weight, 2 + c->rank, dim, w);
    if (has_bias)
        in[2] = steno_make_floats(m, bias, 1, &c->out, b);
    free(w);
    free(b);
    return steno_make_node(m, "Conv", has_bias ? 3 : 2, in, 5, attr);
}

static steno_value_id gelu(struct steno_make *m, steno_value_id x)
{
    steno_value_id e =
        steno_make_1(m, "Erf", steno_make_2(m, "Div", x, steno_make_number(m, (float)M_SQRT2)));
    e = steno_make_add(m, e, steno_make_number(m, 1));
    return steno_make_scale(m, steno_make_2(m, "Mul", x, e), 0.5f);
}

/* Both halves come from one Split, because the engine's passes do not see such a unit in two Slices
 * along axis 1. */
steno_value_id steno_make_glu(struct steno_make *m, steno_value_id x, int64_t axis)
{
    const struct steno_attr a = INT_ATTR("axis", axis);
    steno_value_id half[2];
    steno_make_outputs(m, "Split", 1, &x, 2, half, 1, &a);
    return steno_make_2(m, "Mul", half[0], steno_make_1(m, "Sigmoid", half[1]));
}

steno_value_id steno_make_activation(struct steno_make *m, steno_value_id x, const char *name)
{
    if (!strcmp(name, "relu"))
        return steno_make_1(m, "Relu", x);
    if (!strcmp(name, "tanh"))
        return steno_make_1(m, "Tanh", x);
    if (!strcmp(name, "swish") || !strcmp(name, "silu"))
        return steno_make_2(m, "Mul", x, steno_make_1(m, "Sigmoid", x));
    if (!strcmp(name, "gelu"))
        return gelu(m, x);
    if (!m->st)
        m->st =
            steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                       "%s: activation '%s'; known are relu, swish, gelu, tanh", m->asked, name);
    return STENO_NONE;
}

void steno_make_sinusoid_table(float *x, int64_t n, int64_t d, double first, double step)
{
    for (int64_t k = 0; k < d; k++) {
        /* in f32, as PyTorch computes exp(k * -(ln(10000) / d)) */
        const float by = expf((float)(k - k % 2) * (float)-(log(10000.0) / (double)d));
        for (int64_t r = 0; r < n; r++) {
            const float angle = (float)(first + step * (double)r) * by;
            x[r * d + k] = k % 2 ? cosf(angle) : sinf(angle);
        }
    }
}

steno_value_id steno_make_sinusoids(struct steno_make *m, const char *name, int64_t n, int64_t d,
                                    double first, double step)
{
    steno_value_id v;
    float *x = new_const(m, name, 3, (int64_t[]){1, n, d}, &v);
    if (!x)
        return STENO_NONE;
    steno_make_sinusoid_table(x, n, d, first, step);
    return v;
}

steno_value_id steno_make_relative(struct steno_make *m, const char *name, int64_t most, int64_t d,
                                   steno_value_id n)
{
    const int64_t center = most - 1;
    steno_value_id table = steno_make_sinusoids(m, name, 2 * most - 1, d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &most), n),
                          steno_make_add(m, steno_make_ints(m, 1, &center), n));
}
