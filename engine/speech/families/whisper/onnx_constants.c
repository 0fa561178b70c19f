/* Constants of an exported network as tensors: their shape, orientation and scales. */
#include "speech/families/whisper/onnx_graph.h"

#include <stdarg.h>
#include <stdio.h>

static const struct onnx_place nowhere = {NULL, STENO_NONE};

static const char *const views[] = {"Reshape",  "Unsqueeze", "Squeeze", "Cast",
                                    "Identity", "Flatten",   NULL};
static const char *const same[] = {"Cast", "Identity", NULL};

void steno_whisper_onnx_fail(struct steno_whisper_onnx *r, steno_status st, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    if (r->st)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->st = steno_fail(r->err, st, "%s: %s", r->file, text);
}

/* ---- constants ----------------------------------------------------------------------------- */

static bool type_of(steno_dtype d, enum steno_whisper_type *out)
{
    switch (d) {
    case STENO_F32:
        *out = STENO_WHISPER_F32;
        return true;
    case STENO_F16:
        *out = STENO_WHISPER_F16;
        return true;
    case STENO_BF16:
        *out = STENO_WHISPER_BF16;
        return true;
    case STENO_I8:
        *out = STENO_WHISPER_I8;
        return true;
    case STENO_U8:
        *out = STENO_WHISPER_U8;
        return true;
    default:
        return false;
    }
}

/* The elements of a constant. Axes of 1 in front of more than `rank` are left out, and for rank 1
 * all axes of 1. False: it is none, or has another rank. */
static bool take_onnx_constants(struct steno_whisper_onnx *r, const struct steno_tensor *c,
                                int rank, struct steno_whisper_tensor *t)
{
    int from = 0, n;
    if (!c || !type_of(c->dtype, &t->type))
        return false;
    t->file = r->file;
    t->data = steno_constant_bytes(c);
    if (rank == 1) {
        t->rank = 1;
        t->dim[0] = (int64_t)steno_numel(c);
        for (n = 0; n < c->shape.rank; n++)
            if (c->shape.dim[n] != 1 && c->shape.dim[n] != t->dim[0])
                return false;
        return t->data != NULL;
    }
    while (c->shape.rank - from > rank && c->shape.dim[from] == 1)
        from++;
    if (c->shape.rank - from != rank || !t->data)
        return false;
    t->rank = rank;
    memcpy(t->dim, c->shape.dim + from, (size_t)rank * sizeof *t->dim);
    return true;
}

/* A constant's elements as f32, in the arena unless they are f32 already; NULL: another type. */
const unsigned char *steno_whisper_onnx_floats(struct steno_whisper_onnx *r,
                                               const struct steno_tensor *c, size_t *n)
{
    struct steno_whisper_tensor t = {0};
    float *x;
    if (!c || !type_of(c->dtype, &t.type) || c->dtype == STENO_I8 || c->dtype == STENO_U8)
        return NULL;
    *n = steno_numel(c);
    t.data = steno_constant_bytes(c);
    if (t.type == STENO_WHISPER_F32 || !t.data)
        return t.data;
    x = steno_arena_calloc(r->w->mem, *n + 1, sizeof *x);
    if (!x) {
        steno_whisper_onnx_fail(r, STENO_ERR_NOMEM, "out of memory");
        return NULL;
    }
    t.rank = 1;
    t.dim[0] = (int64_t)*n;
    steno_whisper_rows(&t, 0, 1, x);
    return (const unsigned char *)x;
}

/* n zero points of one byte each. */
static const unsigned char *repeat(struct steno_whisper_onnx *r, const unsigned char *zero,
                                   size_t n)
{
    unsigned char *p = steno_arena_alloc(r->w->mem, n + 1);
    if (p)
        memset(p, *zero, n);
    else
        steno_whisper_onnx_fail(r, STENO_ERR_NOMEM, "out of memory");
    return p;
}

/* Scales of integers t: one, or one for each of PyTorch's rows. zero may be absent. */
static void set_scales(struct steno_whisper_onnx *r, struct steno_whisper_tensor *t,
                       struct onnx_place scale, struct onnx_place zero, const char *what)
{
    const size_t rows = steno_whisper_row_count(t);
    const struct steno_tensor *z = constant(zero);
    size_t n = 0, n_zero = z ? steno_numel(z) : 0;
    if (r->st)
        return;
    t->factors = true;
    t->scale = steno_whisper_onnx_floats(r, constant(scale), &n);
    t->n_scale = n;
    if (!t->scale || (n != 1 && n != rows)) {
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                "'%.80s' has %zu scales, expected 1 or %zu of floats", what, n,
                                rows);
        return;
    }
    if (zero.v == STENO_NONE)
        return;
    t->zero = z && (z->dtype == STENO_I8) == (t->type == STENO_WHISPER_I8) &&
                      steno_dtype_size(z->dtype) == 1
                  ? steno_constant_bytes(z)
                  : NULL;
    if (!t->zero || (n_zero != 1 && n_zero != n))
        steno_whisper_onnx_fail(r, STENO_ERR_FORMAT,
                                "'%.80s' has %zu zero points, expected 1 or %zu of its type", what,
                                n_zero, n);
    else if (n_zero != n)
        t->zero = repeat(r, t->zero, n);
}

bool steno_whisper_onnx_vector(struct steno_whisper_onnx *r, struct onnx_place p,
                               struct steno_whisper_tensor *t)
{
    for (int hops = 0; hops < ONNX_MAX_HOPS; hops++) {
        const struct steno_node *n;
        if (constant(p))
            return take_onnx_constants(r, constant(p), 1, t);
        n = producer(p);
        if (!is_one_of(n, views))
            return false;
        p = input_of(p, n, 0);
    }
    return false;
}

static bool turns(const struct steno_node *n)
{
    size_t rank;
    const int64_t *perm = steno_node_ints(n, "perm", &rank);
    return is(n, "Transpose") && (!perm || (rank == 2 && perm[0] == 1 && perm[1] == 0));
}

static void dequantized(struct steno_whisper_onnx *r, struct onnx_place p,
                        const struct steno_node *n, struct onnx_found *f)
{
    if (steno_node_int(n, "block_size", 0))
        steno_whisper_onnx_fail(r, STENO_ERR_UNSUPPORTED,
                                "node '%.80s': DequantizeLinear with blocks is not read", n->name);
    f->scale = input_of(p, n, 1);
    f->zero = input_of(p, n, 2);
}

/* The constant of `rank` axes behind p. */
bool steno_whisper_onnx_find(struct steno_whisper_onnx *r, struct onnx_place p, int rank,
                             struct onnx_found *f)
{
    f->turned = false;
    f->scale = f->zero = nowhere;
    for (int hops = 0; !constant(p); hops++) {
        const struct steno_node *n = producer(p);
        if (!n || hops == ONNX_MAX_HOPS)
            return false;
        if (turns(n))
            f->turned = !f->turned;
        else if (is(n, "DequantizeLinear"))
            dequantized(r, p, n, f);
        else if (!is_one_of(n, same))
            return false;
        p = input_of(p, n, 0);
    }
    f->t = (struct steno_whisper_tensor){0};
    return take_onnx_constants(r, constant(p), rank, &f->t);
}

/* Make of f PyTorch's matrix or filters. columns: the value of f is [in, out]. what: for messages.
 * False: integers without scales. */
bool steno_whisper_onnx_use(struct steno_whisper_onnx *r, const struct onnx_found *f, bool columns,
                            const char *what, struct steno_whisper_tensor *t)
{
    *t = f->t;
    if (t->rank != 2 && f->turned)
        return false;
    t->transposed = columns != f->turned;
    if (t->transposed) {
        t->dim[0] = f->t.dim[1];
        t->dim[1] = f->t.dim[0];
    }
    if (!is_bytes(t))
        return true;
    if (f->scale.v == STENO_NONE)
        return false;
    set_scales(r, t, f->scale, f->zero, what);
    return true;
}

/* ---- tables: positions and embeddings ------------------------------------------------------ */

/* The index comes from an input of integers as it is: tokens. */
static bool is_input(struct onnx_place p)
{
    for (int hops = 0; hops < ONNX_MAX_HOPS; hops++) {
        const struct steno_node *n = producer(p);
        if (!n)
            return p.v != STENO_NONE && p.g->values[p.v].is_input;
        if (!is_one_of(n, views))
            return false;
        p = input_of(p, n, 0);
    }
    return false;
}

/* A table [rows, columns] of which p is rows. *tokens: they are those of the tokens. */
bool steno_whisper_onnx_table(struct steno_whisper_onnx *r, struct onnx_place p,
                              struct steno_whisper_tensor *t, bool *tokens)
{
    static const char *const ways[] = {"Slice",    "Reshape", "Unsqueeze", "Squeeze",
                                       "Identity", "Expand",  NULL};
    struct onnx_place scale = nowhere, zero = nowhere;
    struct onnx_found f = {0};
    *tokens = false;
    for (int hops = 0; hops < ONNX_MAX_HOPS; hops++) {
        const struct steno_node *n = producer(p);
        if (steno_whisper_onnx_find(r, p, 2, &f))
            break;
        if (is(n, "DequantizeLinear")) {
            scale = input_of(p, n, 1);
            zero = input_of(p, n, 2);
        } else if (is(n, "Gather")) {
            *tokens = is_input(input_of(p, n, 1));
        } else if (!is_one_of(n, ways) && !is(n, "Cast")) {
            return false;
        }
        p = input_of(p, n, 0);
        f.t.rank = 0;
    }
    if (scale.v != STENO_NONE && f.scale.v == STENO_NONE) {
        f.scale = scale;
        f.zero = zero;
    }
    return f.t.rank == 2 && f.t.dim[0] > 1 && f.t.dim[1] > 1 &&
           steno_whisper_onnx_use(r, &f, false, name_of(p), t);
}
