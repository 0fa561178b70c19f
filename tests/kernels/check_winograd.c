/* The winograd slots against the sums in nn/kernels/winograd.h, with their products: the same bound
 * as for every sum of products, over the products of this form. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/half.h"
#include "nn/kernels/winograd.h"

#include <stdlib.h>
#include <string.h>

/* Outputs, padding before the image, and image rows after the last tap (negative: padding). */
static const struct winograd_case {
    size_t c_in, c_out, out[2], pad[2];
    int more[2];
} cases[] = {
    {128, 16, {1, 1}, {0, 0}, {0, 0}},    {128, 40, {2, 19}, {0, 0}, {0, 1}},
    {132, 33, {9, 12}, {0, 0}, {0, 0}},   {128, 70, {10, 13}, {0, 1}, {1, 0}},
    {144, 16, {11, 14}, {1, 1}, {0, -1}}, {128, 32, {8, 19}, {1, 0}, {-1, 1}},
    {520, 20, {7, 13}, {0, 0}, {0, 0}},   {1028, 16, {13, 7}, {0, 1}, {1, -1}},
    {128, 16, {52, 21}, {0, 0}, {0, 0}},  {128, 48, {17, 6}, {1, 1}, {-1, -1}},
};

/* The terms of an output along one axis: up to four products of a sum of two inputs and a sum of
 * weights. */
struct term {
    int in[2], n, sign; /* n inputs, the second one with this sign */
    float w[3];
    int times; /* sign of the product in the output */
};

static int terms_of(const struct steno_conv *s, int d, size_t o, bool plain, struct term *t)
{
    const int base = (int)(o / 3 * 3), at = (int)o - base;
    const int size = (int)s->out[d] - base < 3 ? (int)s->out[d] - base : 3;
    const int e = 2 * base - (int)s->pad[d], here = e + 2 * at;
    int n = 0;
    t[n++] = (struct term){{here + 1}, 1, 0, {0, 1, 0}, 1};
    if (plain || size == 1) {
        t[n++] = (struct term){{here}, 1, 0, {1, 0, 0}, 1};
        t[n++] = (struct term){{here + 2}, 1, 0, {0, 0, 1}, 1};
        return n;
    }
    if (at == 0)
        t[n++] = (struct term){{e, e + 2 * size - 2}, 2, -1, {1, 0, 0}, 1};
    if (at == size - 1)
        t[n++] = (struct term){{e + 2 * size, e + 2}, 2, -1, {0, 0, 1}, 1};
    t[n++] = (struct term){{e + 2, e + 2 * size - 2}, 2, 1, {0.5f, 0, 0.5f}, 1};
    if (size == 3)
        t[n++] = (struct term){{e + 4, e + 2}, 2, -1, {0.5f, 0, -0.5f}, at == 1 ? -1 : 1};
    return n;
}

struct rounding {
    bool plain, weights, data; /* the plain sum; whether weights and data are rounded to bf16 */
};

static float round_if(bool yes, float v)
{
    return yes ? half_from_bf16(half_to_bf16(v)) : v;
}

static float pixel(const struct steno_conv *s, const float *x, int i0, int i1, size_t c)
{
    const bool inside = i0 >= 0 && i1 >= 0 && i0 < (int)s->in[0] && i1 < (int)s->in[1];
    return inside ? x[((size_t)i0 * s->in[1] + (size_t)i1) * s->c_in + c] : 0;
}

/* Index of the weights of a term along an axis, below KINDS; equal weights have equal indices. */
enum { KINDS = 7 };
static int kind_of(const struct steno_conv *s, int d, size_t o, bool plain)
{
    const size_t base = o / 3 * 3, size = s->out[d] - base < 3 ? s->out[d] - base : 3;
    return plain || size == 1 ? 0 : (int)(size * 3 + (o - base)) - 5;
}

/* All products of one output pixel: n = n0 * n1 terms. */
struct pixel_terms {
    struct term t0[4], t1[4];
    int n0, n1;
    float *data;          /* [n, c_in] */
    const float *weights; /* [n, c_out, c_in] */
};

/* Sums of inputs, with the signs of the products. */
static void data_of(const struct steno_conv *s, const float *x, struct pixel_terms *p, bool rounded)
{
    for (int j = 0; j < p->n0 * p->n1; j++) {
        const struct term *u = &p->t0[j / p->n1], *v = &p->t1[j % p->n1];
        for (size_t c = 0; c < s->c_in; c++) {
            float sum[2] = {0, 0};
            for (int i = 0; i < u->n; i++) {
                sum[i] = pixel(s, x, u->in[i], v->in[0], c);
                if (v->n == 2)
                    sum[i] += (float)v->sign * pixel(s, x, u->in[i], v->in[1], c);
            }
            sum[0] = u->n == 2 ? sum[0] + (float)u->sign * sum[1] : sum[0];
            p->data[(size_t)j * s->c_in + c] =
                round_if(rounded, sum[0]) * (float)(u->times * v->times);
        }
    }
}

/* Sums of weights: [n, c_out, c_in]. */
static float *weights_of(const struct steno_conv *s, const float *w, const struct pixel_terms *p,
                         bool rounded)
{
    const size_t matrix = s->c_out * s->c_in;
    float *out = malloc((size_t)(p->n0 * p->n1) * matrix * sizeof *out);
    if (!out)
        exit(2);
    for (int j = 0; j < p->n0 * p->n1; j++) {
        const float *a = p->t0[j / p->n1].w, *b = p->t1[j % p->n1].w;
        for (size_t e = 0; e < matrix; e++) {
            float t[3];
            for (size_t i = 0; i < 3; i++)
                t[i] = a[0] * w[e * 9 + i] + a[1] * w[e * 9 + 3 + i] + a[2] * w[e * 9 + 6 + i];
            out[(size_t)j * matrix + e] =
                round_if(rounded, b[0] * t[0] + b[1] * t[1] + b[2] * t[2]);
        }
    }
    return out;
}

/* The sum of output channel o, and in *mag the sum of magnitudes. */
static double sum_of(const struct steno_conv *s, const struct pixel_terms *p, size_t o, double *mag)
{
    double sum = 0;
    *mag = 0;
    for (size_t j = 0; j < (size_t)(p->n0 * p->n1); j++) {
        const float *x = p->data + j * s->c_in, *w = p->weights + (j * s->c_out + o) * s->c_in;
        for (size_t c = 0; c < s->c_in; c++) {
            const double v = (double)x[c] * (double)w[c];
            sum += v;
            *mag += fabs(v);
        }
    }
    return sum;
}

/* Number of outputs of pixel `at` that are out of bounds; say: report them. */
static size_t wrong_at(const struct steno_conv *s, const struct pixel_terms *p, size_t at,
                       const float *y, const struct steno_gemm_epilogue *ep, size_t number,
                       bool say)
{
    size_t found = 0;
    for (size_t o = 0; o < s->c_out; o++) {
        double mag, sum = sum_of(s, p, o, &mag);
        double bound = ((double)(s->c_in * (size_t)(p->n0 * p->n1)) + 6) * EPS * mag + 1e-30;
        if (ep) {
            sum += (double)ep->bias[o];
            bound += 4 * EPS * (fabs(sum) + 1);
            sum = sum > 0 ? sum : 0;
            sum += (double)ep->residual[at * s->c_out + o];
            bound += 2 * EPS * fabs(sum);
        }
        if (close_to(y[at * s->c_out + o], sum, bound))
            continue;
        found++;
        if (say)
            test_fail("case %zu: y[%zu,%zu] = %a, exact %a, bound %.3g", number, at, o,
                      (double)y[at * s->c_out + o], sum, bound);
    }
    return found;
}

/* The same for all pixels. */
static size_t wrong(const struct steno_conv *s, const float *x, const float *w, const float *y,
                    const struct steno_gemm_epilogue *ep, const struct rounding *how, size_t number,
                    bool say)
{
    float *weights[KINDS][KINDS] = {{NULL}};
    struct pixel_terms p = {.data = malloc(16 * s->c_in * sizeof *p.data)};
    size_t found = 0;
    if (!p.data)
        exit(2);
    for (size_t at = 0; at < s->out[0] * s->out[1]; at++) {
        const size_t o0 = at / s->out[1], o1 = at % s->out[1];
        float **of = &weights[kind_of(s, 0, o0, how->plain)][kind_of(s, 1, o1, how->plain)];
        p.n0 = terms_of(s, 0, o0, how->plain, p.t0);
        p.n1 = terms_of(s, 1, o1, how->plain, p.t1);
        if (!*of)
            *of = weights_of(s, w, &p, how->weights);
        p.weights = *of;
        data_of(s, x, &p, how->data);
        found += wrong_at(s, &p, at, y, ep, number, say);
    }
    for (size_t i = 0; i < KINDS * KINDS; i++)
        free(weights[i / KINDS][i % KINDS]);
    free(p.data);
    return found;
}

static struct steno_conv shape_of(const struct winograd_case *c)
{
    struct steno_conv s = {.c_in = c->c_in, .c_out = c->c_out, .group = 1};
    for (int d = 0; d < 2; d++) {
        s.kernel[d] = 3;
        s.stride[d] = 2;
        s.dilation[d] = 1;
        s.pad[d] = c->pad[d];
        s.out[d] = c->out[d];
        s.in[d] = (size_t)((int)(2 * c->out[d] + 1 - c->pad[d]) + c->more[d]);
    }
    return s;
}

struct arrays {
    float *x, *w, *rows, *bias, *residual, *y, *whole;
    size_t nx, ny;
};

/* Weights NULL: f32 without conversion. */
static void call(const steno_kernels *k, const struct steno_gemm_weights *g,
                 const struct steno_conv *s, const float *x, const void *packed, float *y,
                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    (g ? g->conv_winograd : k->conv_winograd_f32)(s, x, packed, y, ep, part, n_parts);
}

static void run_case(const steno_kernels *k, size_t number, const struct steno_gemm_weights *g,
                     size_t n_parts, bool epilogue)
{
    const bool bf16 = g != NULL;
    const struct steno_conv s = shape_of(&cases[number]);
    const size_t depth = STENO_WINOGRAD_SLOTS * s.c_in, nw = s.c_out * s.c_in * 9;
    const size_t nx = s.in[0] * s.in[1] * s.c_in, ny = s.out[0] * s.out[1] * s.c_out;
    struct arrays a = {guard_new(nx),
                       guard_new(nw),
                       guard_new(s.c_out * depth),
                       guard_new(s.c_out),
                       guard_new(ny),
                       guard_new(ny),
                       guard_new(ny),
                       nx,
                       ny};
    const struct steno_gemm_epilogue ep = {
        .alpha = 1, .bias = a.bias, .act = STENO_ACT_RELU, .residual = a.residual, .ldr = s.c_out};
    const struct rounding few = {.weights = bf16, .data = bf16 && k->cpu & STENO_CPU_BF16};
    struct rounding plain = few;
    void *packed =
        steno_aligned_alloc((g ? g->packed_bytes : k->gemm_f32_packed_bytes)(depth, s.c_out));
    plain.plain = true;
    fill_uniform(a.x, nx);
    fill_uniform(a.w, nw);
    fill_uniform(a.bias, s.c_out);
    fill_uniform(a.residual, ny);
    steno_winograd_weights(a.rows, a.w, s.c_out, s.c_in);
    (g ? g->pack : k->gemm_f32_pack)(packed, a.rows, depth, true, depth, s.c_out);
    for (size_t p = n_parts; p-- > 0;)
        call(k, g, &s, a.x, packed, a.y, epilogue ? &ep : NULL, p, n_parts);
    call(k, g, &s, a.x, packed, a.whole, epilogue ? &ep : NULL, 0, 1);
    if (memcmp(a.whole, a.y, ny * sizeof *a.y))
        test_fail("case %zu: %zu parts give other bits than one", number, n_parts);
    if (wrong(&s, a.x, a.w, a.y, epilogue ? &ep : NULL, &plain, number, false))
        wrong(&s, a.x, a.w, a.y, epilogue ? &ep : NULL, &few, number, true);
    steno_aligned_free(packed);
    for (size_t i = 0; i < 7; i++)
        guard_free((float *[]){a.x, a.w, a.rows, a.bias, a.residual, a.y, a.whole}[i]);
}

void check_winograd(const steno_kernels *k)
{
    const struct {
        const char *name;
        const struct steno_gemm_weights *g;
    } kinds[] = {{"conv_winograd_f32", NULL}, {"conv_winograd_bf16", &k->gemm_bf16}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const struct steno_gemm_weights *g = kinds[kind].g;
        if ((g && !g->conv_winograd) || !test_begin(k, kinds[kind].name))
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            run_case(k, i, g, 1 + i % 3, i % 2);
        test_end();
    }
}
