#include "tests/kernels/kcheck.h"

#include <float.h>
#include <string.h>

static double d_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double d_silu(double x)
{
    return x * d_sigmoid(x);
}
static double d_gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double d_relu(double x)
{
    return x > 0 || isnan(x) ? x : 0;
}
static double d_neg(double x)
{
    return -x;
}
static double d_recip(double x)
{
    return 1 / x;
}

static double d_hard_swish(double x)
{
    return isnan(x) ? x : x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double d_softplus(double x)
{
    return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double d_softsign(double x)
{
    return x / (1 + fabs(x));
}
static double d_mish(double x)
{
    return x * tanh(d_softplus(x));
}

/* ulp: bound in units of the last place of the exact result; slope: bound in eps * |x| instead. */
struct unary_case {
    const char *name;
    size_t slot;
    double (*exact)(double);
    double ulp, slope;
    bool product;
};
/* Bounds of exp to erf: the largest error of 20 million floats of all binades (docs/kernels.md),
 * plus at most a quarter. */
#define SLOT(name) #name, offsetof(steno_kernels, name)
static const struct unary_case unaries[] = {
    {SLOT(exp_f32), exp, 1.1, 0, false},
    {SLOT(log_f32), log, 1, 0, false},
    {SLOT(tanh_f32), tanh, 2.3, 0, false},
    {SLOT(sigmoid_f32), d_sigmoid, 2.5, 0, false},
    {SLOT(erf_f32), erf, 1.2, 0, false},
    {SLOT(silu_f32), d_silu, 6, 0, true},
    {SLOT(gelu_f32), d_gelu, 0, 6, true},
    {SLOT(relu_f32), d_relu, 0, 0, false},
    {SLOT(sqrt_f32), sqrt, 0.5001, 0, false},
    {SLOT(neg_f32), d_neg, 0, 0, false},
    {SLOT(abs_f32), fabs, 0, 0, false},
    {SLOT(recip_f32), d_recip, 0.5001, 0, false},
    {SLOT(hard_swish_f32), d_hard_swish, 0, 6, true},
    {SLOT(softplus_f32), d_softplus, 4, 0, false},
    {SLOT(softsign_f32), d_softsign, 4, 0, false},
    {SLOT(mish_f32), d_mish, 6, 0, true},
};

static double d_add(double a, double b)
{
    return a + b;
}
static double d_sub(double a, double b)
{
    return a - b;
}
static double d_mul(double a, double b)
{
    return a * b;
}
static double d_div(double a, double b)
{
    return a / b;
}
static double d_min(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b;
}
static double d_max(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
}

static const struct binary_case {
    const char *name;
    size_t slot;
    double (*exact)(double, double);
} binaries[] = {
    {SLOT(add_f32), d_add}, {SLOT(sub_f32), d_sub}, {SLOT(mul_f32), d_mul},
    {SLOT(div_f32), d_div}, {SLOT(min_f32), d_min}, {SLOT(max_f32), d_max},
};

static const void *slot_at(const steno_kernels *k, size_t offset)
{
    return (const char *)k + offset;
}

static void compare_unary(const struct unary_case *u, const float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double want = u->exact((double)x[i]);
        /* silu and gelu multiply by x: a denormal factor has an absolute error, at best 2^-149 */
        double tiny = u->product ? (fabs((double)x[i]) + 1) * 0x1p-147 : 0;
        if (close_to(y[i], want, tiny))
            continue;
        if (u->slope > 0 && !isnan(want) && fabs(want) < 3e38) {
            if (!(fabs((double)y[i] - want) <= u->slope * EPS * fabs((double)x[i])))
                test_fail("%s(%a) = %a, exact %a", u->name, (double)x[i], (double)y[i], want);
        } else if (!(ulp_error(y[i], want) <= u->ulp)) {
            test_fail("%s(%a) = %a, exact %a: %.2f ulp", u->name, (double)x[i], (double)y[i], want,
                      ulp_error(y[i], want));
        }
    }
}

/* silu and gelu of minus infinity are NaN by their formula, whatever their limit is. */
static void keep_off_minus_infinity(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isinf(x[i]))
            x[i] = INFINITY;
}

static void unary_lengths(const struct unary_case *u, steno_unary_f32 *fn)
{
    for (size_t n = 0; n < 70; n++) {
        float *x = guard_new(n), *y = guard_new(n);
        fill_wild(x, n);
        if (u->product)
            keep_off_minus_infinity(x, n);
        fn(y, x, n);
        compare_unary(u, y, x, n);
        memcpy(y, x, n * sizeof *y);
        fn(y, y, n);
        compare_unary(u, y, x, n);
        guard_free(x);
        guard_free(y);
    }
}

/* Every 1021st float, both signs: 4.2 million values, all binades. With fewer checks, 1024 values
 * per binade. */
static void unary_whole_range(const struct unary_case *u, steno_unary_f32 *fn)
{
    enum { N = 4096, STRIDE = KCHECK_FEW ? 8191 : 1021 };
    float x[N], y[N];
    uint64_t bits = 0;
    while (bits <= UINT32_MAX) {
        for (size_t i = 0; i < N; i++, bits += STRIDE) {
            uint32_t b = (uint32_t)(bits <= UINT32_MAX ? bits : 0);
            memcpy(&x[i], &b, sizeof b);
        }
        fn(y, x, N);
        compare_unary(u, y, x, N);
    }
}

static void binary_lengths(const struct binary_case *b, steno_binary_f32 *fn)
{
    for (size_t n = 0; n < 70; n++)
        for (size_t form = 0; form < 3; form++) {
            size_t sa = form != 1, sb = form != 2;
            float *x = guard_new(sa ? n : 1), *z = guard_new(sb ? n : 1), *y = guard_new(n);
            fill_wild(x, sa ? n : 1);
            fill_wild(z, sb ? n : 1);
            fn(y, x, sa, z, sb, n);
            for (size_t i = 0; i < n; i++) {
                double want = b->exact((double)x[i * sa], (double)z[i * sb]);
                if (!(ulp_error(y[i], want) <= 0.5001))
                    test_fail("%s n %zu form %zu: %a, %a -> %a", b->name, n, form,
                              (double)x[i * sa], (double)z[i * sb], (double)y[i]);
            }
            guard_free(x);
            guard_free(z);
            guard_free(y);
        }
}

static void check_affine(const steno_kernels *k, size_t n)
{
    float *x = guard_new(n), *y = guard_new(n);
    fill_uniform(x, n);
    k->affine_f32(y, x, n, 1.5f, -0.25f);
    for (size_t i = 0; i < n; i++)
        if (!close_to(y[i], (double)x[i] * 1.5 - 0.25, 4 * EPS))
            test_fail("n %zu: y[%zu] = %a", n, i, (double)y[i]);
    guard_free(x);
    guard_free(y);
}

static double d_clip(double x, double a, double b)
{
    return isnan(x) ? x : fmin(fmax(x, a), b);
}
static double d_hard_sigmoid(double x, double a, double b)
{
    return isnan(x) ? x : fmin(fmax(a * x + b, 0), 1);
}
static double d_leaky_relu(double x, double a, double b)
{
    (void)b;
    return x < 0 ? a * x : x;
}
static double d_elu(double x, double a, double b)
{
    return x > 0 || isnan(x) ? x : a * expm1(b * x);
}
static double d_thresholded_relu(double x, double a, double b)
{
    (void)b;
    return x > a ? x : 0;
}

static const struct curve_case {
    const char *name;
    size_t slot;
    double (*exact)(double x, double a, double b);
    float a, b;
    double ulp, bound; /* either suffices */
} curves[] = {
    {SLOT(clip_f32), d_clip, -0.5f, 6, 0, 0},
    {SLOT(hard_sigmoid_f32), d_hard_sigmoid, 0.2f, 0.5f, 1, 2 * EPS},
    {SLOT(leaky_relu_f32), d_leaky_relu, 0.01f, 0, 0.5001, 0},
    {SLOT(elu_f32), d_elu, 1.5f, 1, 4, 0},
    {SLOT(elu_f32), d_elu, 2, 0.5f, 4, 0}, /* Celu */
    {SLOT(thresholded_relu_f32), d_thresholded_relu, 1, 0, 0, 0},
};

static void check_curve(const struct curve_case *c, steno_curve_f32 *fn)
{
    for (size_t n = 0; n < 70; n++)
        for (int round = 0; round < 20; round++) {
            float *x = guard_new(n), *y = guard_new(n);
            if (round % 2)
                fill_wild(x, n);
            else
                fill_uniform(x, n);
            for (size_t i = 0; i < n && round % 4 == 2; i++)
                x[i] *= 20;
            if (round == 19)
                memcpy(y, x, n * sizeof *y);
            fn(y, round == 19 ? y : x, n, c->a, c->b);
            for (size_t i = 0; i < n; i++) {
                const double want = c->exact((double)x[i], (double)c->a, (double)c->b);
                if (!(ulp_error(y[i], want) <= c->ulp) && !close_to(y[i], want, c->bound))
                    test_fail("n %zu: %s(%a) = %a, exact %a", n, c->name, (double)x[i],
                              (double)y[i], want);
            }
            guard_free(x);
            guard_free(y);
        }
}

static void check_glu(const steno_kernels *k, size_t n)
{
    float *a = guard_new(n), *b = guard_new(n), *y = guard_new(n);
    fill_uniform(a, n);
    fill_uniform(b, n);
    k->glu_f32(y, a, b, n);
    for (size_t i = 0; i < n; i++)
        if (!(ulp_error(y[i], (double)a[i] * d_sigmoid((double)b[i])) <= 6))
            test_fail("n %zu: glu(%a, %a) = %a", n, (double)a[i], (double)b[i], (double)y[i]);
    guard_free(a);
    guard_free(b);
    guard_free(y);
}

/* Two sums of the size of |x| and of log(1 + e^z) are rounded, and so are both constants. */
static void check_swoosh(const steno_kernels *k, size_t n)
{
    float *x = guard_new(n), *y = guard_new(n);
    fill_wild(x, n);
    k->swoosh_f32(y, x, n, 4, 0.035f);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], z = v - 4, s = fmax(z, 0) + log1p(exp(-fabs(z)));
        double want = s - (double)0.08f * v - (double)0.035f, size = s + fabs(v) + 4;
        bool infinite = !isfinite(want) || fabs(want) > (double)FLT_MAX;
        if (infinite ? isfinite(y[i]) && fabsf(y[i]) < FLT_MAX / 2
                     : !(fabs((double)y[i] - want) <= 4 * (double)EPS * size))
            test_fail("n %zu: swoosh(%a) = %a, exact %a", n, (double)x[i], (double)y[i], want);
    }
    guard_free(x);
    guard_free(y);
}

static void check_axpy(const steno_kernels *k, size_t n)
{
    float *x = guard_new(n), *y = guard_new(n), *old = guard_new(n);
    fill_uniform(x, n);
    fill_uniform(old, n);
    memcpy(y, old, n * sizeof *y);
    k->axpy_f32(y, x, n, 0.75f);
    for (size_t i = 0; i < n; i++)
        if (!close_to(y[i], (double)old[i] + 0.75 * (double)x[i], 4 * EPS))
            test_fail("n %zu: y[%zu] = %a", n, i, (double)y[i]);
    guard_free(x);
    guard_free(y);
    guard_free(old);
}

void check_elementwise(const steno_kernels *k)
{
    static const struct {
        const char *name;
        void (*check)(const steno_kernels *k, size_t n);
    } others[] = {{"affine_f32", check_affine},
                  {"glu_f32", check_glu},
                  {"swoosh_f32", check_swoosh},
                  {"axpy_f32", check_axpy}};
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++) {
        steno_unary_f32 *fn;
        memcpy(&fn, slot_at(k, unaries[i].slot), sizeof fn);
        if (!test_begin(k, unaries[i].name))
            continue;
        unary_lengths(&unaries[i], fn);
        unary_whole_range(&unaries[i], fn);
        test_end();
    }
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        steno_binary_f32 *fn;
        memcpy(&fn, slot_at(k, binaries[i].slot), sizeof fn);
        if (!test_begin(k, binaries[i].name))
            continue;
        binary_lengths(&binaries[i], fn);
        test_end();
    }
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        steno_curve_f32 *fn;
        memcpy(&fn, slot_at(k, curves[i].slot), sizeof fn);
        if (!test_begin(k, curves[i].name))
            continue;
        check_curve(&curves[i], fn);
        test_end();
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!test_begin(k, others[i].name))
            continue;
        for (size_t n = 0; n < 70; n++)
            others[i].check(k, n);
        test_end();
    }
}
