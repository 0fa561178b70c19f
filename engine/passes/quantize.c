#include "passes/quantize.h"

#include "base/arena.h"
#include "passes/passes.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_WEIGHTS 256 /* elements: smaller products gain nothing */

struct job {
    const struct steno_quantize_options *opt;
    struct steno_graph *g;
    int *changed;
    steno_err *err;
};

static bool excluded(const struct job *j, const char *name)
{
    char pattern[256];
    for (const char *p = j->opt->exclude; p && *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(p, ","), p);
        if (!fnmatch(pattern, name, 0))
            return true;
    }
    return false;
}

static void tell(const struct job *j, const struct steno_node *n, const struct steno_tensor *w,
                 double error, const char *why)
{
    if (j->opt->report)
        j->opt->report(j->opt->report_arg, n->name, w ? w->shape.dim[0] : 0,
                       w ? w->shape.dim[1] : 0, error, why);
}

/* ---- new nodes and constants ---- */

static steno_vid new_const(struct job *j, const char *name, steno_dtype t, int rank,
                           const int64_t *dims, void **data)
{
    struct steno_tensor c = {.dtype = t, .shape = {.rank = rank}};
    size_t bytes;
    steno_vid v;
    for (int i = 0; i < rank; i++)
        c.shape.dim[i] = dims[i];
    if (steno_shape_bytes(&c.shape, t, &bytes) || !(c.data = steno_aligned_alloc(bytes))) {
        (void)steno_fail(j->err, STENO_ERR_NOMEM, "out of memory for '%s'", name);
        return STENO_NONE;
    }
    memset(c.data, 0, bytes);
    if (steno_graph_take_const(j->g, name, &c, &v, j->err)) {
        steno_aligned_free(c.data);
        return STENO_NONE;
    }
    *data = c.data;
    return v;
}

/* Outputs are new values but where `out` names one. NULL: err is set. */
static struct steno_node *node(struct job *j, const char *domain, const char *type, int opset,
                               const char *name, int n_in, int n_out, int n_attr, steno_vid out)
{
    struct steno_node *n =
        steno_pass_add_node(j->g, domain, type, opset, name, n_in, n_out, n_attr, j->err);
    for (int i = 0; n && i < n_out; i++) {
        if (i == 0 && out != STENO_NONE)
            n->out[0] = out;
        else if (steno_graph_add_value(j->g, name, &n->out[i], j->err))
            return NULL;
    }
    return n;
}

static double relative(double lost, double square)
{
    return square > 0 ? sqrt(lost / square) : 0;
}

/* ---- dynamic: 8-bit columns ---- */

static double round_columns(const struct steno_tensor *w, float top, int8_t *q, float *scale)
{
    size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    const float *x = w->data;
    double lost = 0, square = 0;
    for (size_t i = 0; i < rows * cols; i++)
        scale[i % cols] = fmaxf(scale[i % cols], fabsf(x[i]));
    for (size_t n = 0; n < cols; n++)
        scale[n] = scale[n] > 0 && isfinite(scale[n]) ? scale[n] / top : 1;
    for (size_t i = 0; i < rows * cols; i++) {
        float r = fminf(fmaxf(rintf(x[i] / scale[i % cols]), -top), top);
        double e = (double)x[i] - (double)r * (double)scale[i % cols];
        q[i] = (int8_t)r;
        lost += e * e;
        square += (double)x[i] * (double)x[i];
    }
    return relative(lost, square);
}

/* The DynamicQuantizeLinear of x, there already or new: its three outputs. */
static steno_status quantized(struct job *j, steno_vid x, const char *name, steno_vid out[3])
{
    struct steno_node *q;
    for (int32_t i = 0; i < j->g->n_nodes; i++) {
        const struct steno_node *n = &j->g->nodes[i];
        if (!n->dead && n->in && n->n_in == 1 && n->in[0] == x && !*n->domain &&
            !strcmp(n->op_type, "DynamicQuantizeLinear")) {
            memcpy(out, n->out, 3 * sizeof *out);
            return STENO_OK;
        }
    }
    q = node(j, "", "DynamicQuantizeLinear", 11, name, 1, 3, 0, STENO_NONE);
    if (!q)
        return STENO_ERR_NOMEM;
    q->in[0] = x;
    memcpy(out, q->out, 3 * sizeof *out);
    return STENO_OK;
}

static steno_status mul(struct job *j, const char *name, steno_vid a, steno_vid b, steno_vid out,
                        steno_vid *y)
{
    struct steno_node *n = node(j, "", "Mul", 13, name, 2, 1, 0, out);
    if (!n)
        return STENO_ERR_NOMEM;
    n->in[0] = a;
    n->in[1] = b;
    if (y)
        *y = n->out[0];
    return STENO_OK;
}

static steno_status dynamic(struct job *j, int32_t at, const struct steno_tensor *w, double *error)
{
    const char *name = j->g->nodes[at].name;
    steno_vid x = j->g->nodes[at].in[0], y = j->g->nodes[at].out[0], q[3], wq, ws, scale, real;
    struct steno_node *n;
    void *qd = NULL, *sd = NULL;
    steno_status st;
    wq = new_const(j, name, STENO_I8, 2, w->shape.dim, &qd);
    ws = wq == STENO_NONE ? wq : new_const(j, name, STENO_F32, 1, &w->shape.dim[1], &sd);
    if (ws == STENO_NONE)
        return STENO_ERR_NOMEM;
    *error = round_columns(w, j->opt->reduce_range ? 63 : 127, qd, sd);
    st = quantized(j, x, name, q);
    if (st || !(n = node(j, "", "MatMulInteger", 10, name, 3, 1, 0, STENO_NONE)))
        return STENO_ERR_NOMEM;
    n->in[0] = q[0];
    n->in[1] = wq;
    n->in[2] = q[2];
    real = n->out[0];
    n = node(j, "", "Cast", 13, name, 1, 1, 1, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(j->g, n, 0, "to", STENO_F32);
    n->in[0] = real;
    real = n->out[0];
    st = mul(j, name, q[1], ws, STENO_NONE, &scale);
    return st ? st : mul(j, name, real, scale, y, NULL);
}

/* ---- blocks of 4 or 8 bits ---- */

/* One block of column c, rows [from, to): zero point in the middle. */
static double round_block(const struct steno_tensor *w, int bits, size_t c, size_t from, size_t to,
                          uint8_t *q, float *scale)
{
    size_t cols = (size_t)w->shape.dim[1];
    const float *x = (const float *)w->data + c;
    int half = 1 << (bits - 1);
    float most = 0, s;
    double lost = 0;
    for (size_t r = from; r < to; r++)
        if (fabsf(x[r * cols]) > fabsf(most))
            most = x[r * cols];
    /* the extreme takes the end that has one step more */
    s = most != 0 && isfinite(most) ? most / (float)-half : 1;
    for (size_t r = from; r < to; r++) {
        float v = fminf(fmaxf(rintf(x[r * cols] / s) + (float)half, 0), (float)(2 * half - 1));
        double e = (double)x[r * cols] - (double)(v - (float)half) * (double)s;
        uint8_t u = (uint8_t)v;
        if (bits == 8)
            q[r - from] = u;
        else
            q[(r - from) / 2] |= (uint8_t)(u << ((r - from) % 2 * 4));
        lost += e * e;
    }
    *scale = s;
    return lost;
}

static steno_status blocks(struct job *j, int32_t at, const struct steno_tensor *w, double *error)
{
    static const char *const attrs[] = {"K", "N", "bits", "block_size"};
    const char *name = j->g->nodes[at].name;
    size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    size_t block = (size_t)j->opt->block, count = (rows + block - 1) / block;
    size_t bytes = block * (size_t)j->opt->bits / 8;
    const int64_t dims[3] = {(int64_t)cols, (int64_t)count, (int64_t)bytes};
    const int64_t n_scales = (int64_t)(cols * count);
    const int64_t values[] = {(int64_t)rows, (int64_t)cols, j->opt->bits, j->opt->block};
    double lost = 0, square = 0;
    void *q = NULL, *s = NULL;
    struct steno_node *n;
    steno_vid x = j->g->nodes[at].in[0], y = j->g->nodes[at].out[0];
    steno_vid wq = new_const(j, name, STENO_U8, 3, dims, &q);
    steno_vid ws = wq == STENO_NONE ? wq : new_const(j, name, STENO_F32, 1, &n_scales, &s);
    if (ws == STENO_NONE)
        return STENO_ERR_NOMEM;
    for (size_t c = 0; c < cols; c++)
        for (size_t k = 0; k < count; k++) {
            size_t to = (k + 1) * block < rows ? (k + 1) * block : rows;
            lost += round_block(w, j->opt->bits, c, k * block, to,
                                (uint8_t *)q + (c * count + k) * bytes, (float *)s + c * count + k);
        }
    for (size_t i = 0; i < rows * cols; i++)
        square += (double)((const float *)w->data)[i] * (double)((const float *)w->data)[i];
    *error = relative(lost, square);
    n = node(j, "com.microsoft", "MatMulNBits", 1, name, 3, 1, 4, y);
    if (!n)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < 4; i++)
        steno_pass_set_int(j->g, n, i, attrs[i], values[i]);
    n->in[0] = x;
    n->in[1] = wq;
    n->in[2] = ws;
    return STENO_OK;
}

/* ---- 16 bits ---- */

/* Round to nearest even; IEEE 754 binary16 with subnormals, overflow to infinity. */
static uint16_t to_f16(float f)
{
    uint32_t u, m;
    uint16_t sign;
    int e;
    memcpy(&u, &f, sizeof u);
    sign = (uint16_t)(u >> 16 & 0x8000);
    e = (int)(u >> 23 & 0xff) - 127;
    m = u & 0x7fffff;
    if (e == 128)
        return (uint16_t)(sign | 0x7c00 | (m ? 0x200 : 0));
    if (e < -25)
        return sign;
    m |= 0x800000;
    u = e < -14 ? (uint32_t)(-1 - e) : 13; /* bits that go */
    m = (m + (1u << (u - 1)) - 1 + (m >> u & 1)) >> u;
    if (e >= -14)
        m += (uint32_t)(e + 14) << 10;
    return (uint16_t)(sign | (m > 0x7c00 ? 0x7c00 : m));
}

static float from_f16(uint16_t h)
{
    int e = h >> 10 & 31;
    float m = (float)(h & 1023), v;
    v = e == 31 ? (h & 1023 ? NAN : INFINITY) : e == 0 ? ldexpf(m, -24) : ldexpf(m + 1024, e - 25);
    return h & 0x8000 ? -v : v;
}

static uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (isnan(f))
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static steno_status sixteen(struct job *j, int32_t at, const struct steno_tensor *w, double *error)
{
    bool brain = j->opt->kind == STENO_QUANTIZE_BF16;
    const char *name = j->g->nodes[at].name;
    const float *x = w->data;
    double lost = 0, square = 0;
    void *h = NULL;
    struct steno_node *n;
    steno_vid wh = new_const(j, name, brain ? STENO_BF16 : STENO_F16, 2, w->shape.dim, &h);
    if (wh == STENO_NONE)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < steno_numel(w); i++) {
        uint16_t r = brain ? to_bf16(x[i]) : to_f16(x[i]);
        double e = (double)x[i] - (double)(brain ? from_bf16(r) : from_f16(r));
        ((uint16_t *)h)[i] = r;
        lost += e * e;
        square += (double)x[i] * (double)x[i];
    }
    *error = relative(lost, square);
    n = node(j, "", "Cast", 13, name, 1, 1, 1, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(j->g, n, 0, "to", STENO_F32);
    n->in[0] = wh;
    j->g->nodes[at].in[1] = n->out[0];
    return STENO_OK;
}

/* ---- finding products ---- */

/* Gemm of one constant, as MatMul and Add; left alone when it scales or transposes activations. */
static steno_status split_gemm(struct job *j, int32_t at, bool *done)
{
    struct steno_node gemm = j->g->nodes[at], *m, *add;
    const struct steno_tensor *w =
        gemm.n_in > 1 && gemm.in[1] != STENO_NONE ? j->g->values[gemm.in[1]].constant : NULL;
    bool trans = steno_node_int(&gemm, "transB", 0), bias = gemm.n_in > 2 && gemm.in[2] >= 0;
    steno_vid b = gemm.in[1];
    void *data = NULL;
    *done = false;
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 2 ||
        steno_node_int(&gemm, "transA", 0) || steno_node_float(&gemm, "alpha", 1) != 1 ||
        steno_node_float(&gemm, "beta", 1) != 1)
        return STENO_OK;
    if (trans) {
        const int64_t dims[2] = {w->shape.dim[1], w->shape.dim[0]};
        b = new_const(j, j->g->values[gemm.in[1]].name, STENO_F32, 2, dims, &data);
        if (b == STENO_NONE)
            return STENO_ERR_NOMEM;
        for (int64_t r = 0; r < dims[0]; r++)
            for (int64_t c = 0; c < dims[1]; c++)
                ((float *)data)[r * dims[1] + c] = ((const float *)w->data)[c * dims[0] + r];
    }
    m = node(j, "", "MatMul", 13, gemm.name, 2, 1, 0, bias ? STENO_NONE : gemm.out[0]);
    if (!m)
        return STENO_ERR_NOMEM;
    m->in[0] = gemm.in[0];
    m->in[1] = b;
    b = m->out[0];
    if (bias) {
        add = node(j, "", "Add", 13, gemm.name, 2, 1, 0, gemm.out[0]);
        if (!add)
            return STENO_ERR_NOMEM;
        add->in[0] = b;
        add->in[1] = gemm.in[2];
    }
    j->g->nodes[at].dead = true;
    *done = true;
    return STENO_OK;
}

static const struct steno_tensor *weights_of(const struct job *j, const struct steno_node *n,
                                             const char **why)
{
    const struct steno_tensor *w = n->in[1] == STENO_NONE ? NULL : j->g->values[n->in[1]].constant;
    *why = NULL;
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 2)
        return NULL; /* a product of activations, or of a batch: none of ours */
    if (steno_numel(w) < MIN_WEIGHTS)
        *why = "too small";
    else if (excluded(j, n->name))
        *why = "excluded";
    else if (j->g->values[n->in[0]].dtype != STENO_F32)
        *why = "its input is not f32";
    return w;
}

static steno_status product(struct job *j, int32_t at)
{
    const struct steno_node n = j->g->nodes[at];
    const char *why;
    const struct steno_tensor *w = weights_of(j, &n, &why);
    double error = 0;
    steno_status st;
    if (!w)
        return STENO_OK;
    if (why) {
        tell(j, &n, w, -1, why);
        return STENO_OK;
    }
    if (j->opt->kind == STENO_QUANTIZE_DYNAMIC)
        st = dynamic(j, at, w, &error);
    else if (j->opt->kind == STENO_QUANTIZE_BLOCKS)
        st = blocks(j, at, w, &error);
    else
        st = sixteen(j, at, w, &error);
    if (st)
        return st;
    if (j->opt->kind == STENO_QUANTIZE_DYNAMIC || j->opt->kind == STENO_QUANTIZE_BLOCKS)
        j->g->nodes[at].dead = true;
    tell(j, &n, w, error, NULL);
    ++*j->changed;
    return STENO_OK;
}

static bool is(const struct steno_node *n, const char *type)
{
    return !n->dead && !*n->domain && !strcmp(n->op_type, type);
}

/* Made by pass linear; its weights are those of a MatMul. */
static bool is_linear(const struct steno_node *n)
{
    return !n->dead && !strcmp(n->domain, "ai.steno") && !strcmp(n->op_type, "Linear");
}

static bool sixteen_bits(const struct steno_quantize_options *opt)
{
    return opt->kind == STENO_QUANTIZE_F16 || opt->kind == STENO_QUANTIZE_BF16;
}

static steno_status graph(struct job *j)
{
    struct steno_graph *g = j->g;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        bool done;
        steno_status st = STENO_OK;
        if (!sixteen_bits(j->opt) && is(&g->nodes[i], "Gemm"))
            st = split_gemm(j, i, &done);
        for (int k = 0; !st && !g->nodes[i].dead && k < g->nodes[i].n_attr; k++)
            if (g->nodes[i].attr[k].kind == STENO_ATTR_GRAPH) {
                struct job body = {j->opt, g->nodes[i].attr[k].g, j->changed, j->err};
                st = graph(&body);
            }
        if (st)
            return st;
    }
    for (int32_t i = 0, count = g->n_nodes; i < count; i++)
        if (is(&g->nodes[i], "MatMul") || (sixteen_bits(j->opt) && is_linear(&g->nodes[i]))) {
            steno_status st = product(j, i);
            if (st)
                return st;
        }
    return STENO_OK;
}

steno_status steno_quantize(struct steno_graph *g, const struct steno_quantize_options *opt,
                            int *changed, steno_err *err)
{
    struct job j = {opt, g, changed, err};
    *changed = 0;
    if (opt->kind == STENO_QUANTIZE_BLOCKS &&
        ((opt->bits != 4 && opt->bits != 8) || opt->block < 16 || opt->block > 65536 ||
         (opt->block & (opt->block - 1))))
        return steno_fail(
            err, STENO_ERR_INVAL,
            "blocks of %d bits and %d rows: bits are 4 or 8, rows a power of two from "
            "16 on",
            opt->bits, opt->block);
    return graph(&j);
}
