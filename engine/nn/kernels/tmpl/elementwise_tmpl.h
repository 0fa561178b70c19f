/* Elementwise slots for one vector width. All but the transcendental ones are memory-bound. Each
 * step takes one vector; the tail is masked, so nothing is read or written beyond n. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"
#include "nn/kernels/tmpl/activate_tmpl.h"

#define UNARY(name, expr) LOOP(name, expr, (float *y, const float *x, size_t n))
#define CURVE(name, expr) LOOP(name, expr, (float *y, const float *x, size_t n, float a, float b))
#define LOOP(name, expr, parameters)                                                               \
    static void V_NAME(name##_f32) parameters                                                      \
    {                                                                                              \
        for (; n >= VL; n -= VL, x += VL, y += VL) {                                               \
            vf v = v_load(x);                                                                      \
            v_store(y, (expr));                                                                    \
        }                                                                                          \
        if (n) {                                                                                   \
            vm m = v_tail(n);                                                                      \
            vf v = v_load_m(x, m);                                                                 \
            v_store_m(y, m, (expr));                                                               \
        }                                                                                          \
    }

/* The same for a function of several vectors at a time (math_tmpl.h). y, x and n are among the
 * parameters. */
#define UNARY_EACH(name, each, parameters)                                                         \
    static void V_NAME(name##_f32) parameters                                                      \
    {                                                                                              \
        vf v[V_MANY];                                                                              \
        for (; n >= V_MANY * VL; n -= V_MANY * VL, x += V_MANY * VL, y += V_MANY * VL) {           \
            V_EACH(i, V_MANY) v[i] = v_load(x + i * VL);                                           \
            each(v, V_MANY);                                                                       \
            V_EACH(i, V_MANY) v_store(y + i * VL, v[i]);                                           \
        }                                                                                          \
        for (size_t here; n; n -= here, x += here, y += here) {                                    \
            here = n < VL ? n : VL;                                                                \
            v[0] = v_load_m(x, v_tail(here));                                                      \
            each(v, 1);                                                                            \
            v_store_m(y, v_tail(here), v[0]);                                                      \
        }                                                                                          \
    }

/* One loop for each combination of vector and scalar operands. */
#define BINARY(name, expr)                                                                         \
    static void V_NAME(name##_f32)(float *y, const float *a, size_t a_stride, const float *b,      \
                                   size_t b_stride, size_t n)                                      \
    {                                                                                              \
        size_t i = 0;                                                                              \
        vf u, v;                                                                                   \
        if (!n)                                                                                    \
            return;                                                                                \
        u = v_set1(a[0]);                                                                          \
        v = v_set1(b[0]);                                                                          \
        for (; i + VL <= n; i += VL) {                                                             \
            if (a_stride)                                                                          \
                u = v_load(a + i);                                                                 \
            if (b_stride)                                                                          \
                v = v_load(b + i);                                                                 \
            v_store(y + i, (expr));                                                                \
        }                                                                                          \
        if (i < n) {                                                                               \
            vm m = v_tail(n - i);                                                                  \
            if (a_stride)                                                                          \
                u = v_load_m(a + i, m);                                                            \
            if (b_stride)                                                                          \
                v = v_load_m(b + i, m);                                                            \
            v_store_m(y + i, m, (expr));                                                           \
        }                                                                                          \
    }

UNARY_EACH(exp, v_exp_each, (float *y, const float *x, size_t n))
UNARY(log, v_log(v))
UNARY_EACH(tanh, v_tanh_each, (float *y, const float *x, size_t n))
UNARY_EACH(sigmoid, v_sigmoid_each, (float *y, const float *x, size_t n))
UNARY_EACH(erf, v_erf_each, (float *y, const float *x, size_t n))
UNARY_EACH(silu, v_silu_each, (float *y, const float *x, size_t n))
UNARY_EACH(gelu, v_gelu_each, (float *y, const float *x, size_t n))
UNARY(relu, v_max(v_zero(), v))
UNARY(sqrt, v_sqrt(v))
UNARY(neg, v_neg(v))
UNARY(abs, v_abs(v))
UNARY(recip, v_set1(1.0f) / v)
UNARY(hard_swish, v_hard_swish(v))
UNARY_EACH(softplus, v_softplus_each, (float *y, const float *x, size_t n))
UNARY_EACH(softsign, v_softsign_each, (float *y, const float *x, size_t n))
UNARY_EACH(mish, v_mish_each, (float *y, const float *x, size_t n))
CURVE(clip, v_clamp(v, a, b))
CURVE(hard_sigmoid, v_hard_sigmoid(v, a, b))
#define ELU(v, n) v_elu_each(v, n, a, b)
UNARY_EACH(elu, ELU, (float *y, const float *x, size_t n, float a, float b))
#define SWOOSH(v, n) v_swoosh_each(v, n, a, b)
UNARY_EACH(swoosh, SWOOSH, (float *y, const float *x, size_t n, float a, float b))
BINARY(add, u + v)
BINARY(sub, u - v)
BINARY(mul, u *v)
BINARY(div, u / v)
BINARY(min, v_min_nan(u, v))
BINARY(max, v_max_nan(u, v))

static void V_NAME(affine_f32)(float *y, const float *x, size_t n, float scale, float shift)
{
    const vf a = v_set1(scale), b = v_set1(shift);
    for (; n >= VL; n -= VL, x += VL, y += VL)
        v_store(y, v_fma(v_load(x), a, b));
    if (n) {
        vm m = v_tail(n);
        v_store_m(y, m, v_fma(v_load_m(x, m), a, b));
    }
}

static void V_NAME(leaky_relu_f32)(float *y, const float *x, size_t n, float a, float b)
{
    (void)b;
    for (; n >= VL; n -= VL, x += VL, y += VL)
        v_store(y, v_leaky_relu(v_load(x), a));
    if (n)
        v_store_m(y, v_tail(n), v_leaky_relu(v_load_m(x, v_tail(n)), a));
}

static inline vf V_NAME(above)(vf v, float a)
{
    return v_select(v_lt(v_set1(a), v), v, v_zero());
}

static void V_NAME(thresholded_relu_f32)(float *y, const float *x, size_t n, float a, float b)
{
    (void)b;
    for (; n >= VL; n -= VL, x += VL, y += VL)
        v_store(y, V_NAME(above)(v_load(x), a));
    if (n)
        v_store_m(y, v_tail(n), V_NAME(above)(v_load_m(x, v_tail(n)), a));
}

static void V_NAME(glu_f32)(float *y, const float *a, const float *b, size_t n)
{
    vf v[V_MANY];
    for (; n >= V_MANY * VL;
         n -= V_MANY * VL, a += V_MANY * VL, b += V_MANY * VL, y += V_MANY * VL) {
        V_EACH(i, V_MANY) v[i] = v_load(b + i * VL);
        v_sigmoid_each(v, V_MANY);
        V_EACH(i, V_MANY) v_store(y + i * VL, v_load(a + i * VL) * v[i]);
    }
    for (size_t here; n; n -= here, a += here, b += here, y += here) {
        here = n < VL ? n : VL;
        v[0] = v_load_m(b, v_tail(here));
        v_sigmoid_each(v, 1);
        v_store_m(y, v_tail(here), v_load_m(a, v_tail(here)) * v[0]);
    }
}

static void V_NAME(axpy_f32)(float *y, const float *x, size_t n, float scale)
{
    const vf a = v_set1(scale);
    for (; n >= VL; n -= VL, x += VL, y += VL)
        v_store(y, v_fma(v_load(x), a, v_load(y)));
    if (n) {
        vm m = v_tail(n);
        v_store_m(y, m, v_fma(v_load_m(x, m), a, v_load_m(y, m)));
    }
}

void ACTIVATE_RARELY(vf *v, int n, enum steno_activation act, float a, float b)
{
    vf x[V_MANY];
    V_EACH(i, V_MANY) x[i] = i < n ? v[i] : v_zero();
    switch (act) {
    case STENO_ACT_HARD_SIGMOID:
        V_EACH(i, V_MANY) x[i] = v_hard_sigmoid(x[i], a, b);
        break;
    case STENO_ACT_LEAKY_RELU:
        V_EACH(i, V_MANY) x[i] = v_leaky_relu(x[i], a);
        break;
    case STENO_ACT_ELU:
        v_elu_each(x, V_MANY, a, b);
        break;
    case STENO_ACT_SOFTPLUS:
        v_softplus_each(x, V_MANY);
        break;
    case STENO_ACT_SOFTSIGN:
        v_softsign_each(x, V_MANY);
        break;
    case STENO_ACT_MISH:
        v_mish_each(x, V_MANY);
        break;
    default:
        break;
    }
    for (int i = 0; i < n; i++)
        v[i] = x[i];
}

/* Twelve chains: more than latency (4 or 5) times units (2). The empty asm keeps each chain in a
 * register and prevents evaluation at compile time. */
static double V_NAME(peak_f32)(size_t rounds)
{
    const vf a = v_set1(0.999f), b = v_set1(0.5f);
    vf acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        acc[i] = v_set1((float)i);
    for (size_t t = 0; t < rounds; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            acc[i] = v_fma(acc[i], a, b);
            __asm__ volatile("" : "+" V_REGISTER(acc[i]));
        }
    }
    return 2.0 * 12 * VL * (double)rounds;
}

void V_NAME(steno_kernels_elementwise)(steno_kernels *k)
{
    k->peak_f32 = V_NAME(peak_f32);
    k->exp_f32 = V_NAME(exp_f32);
    k->log_f32 = V_NAME(log_f32);
    k->tanh_f32 = V_NAME(tanh_f32);
    k->sigmoid_f32 = V_NAME(sigmoid_f32);
    k->erf_f32 = V_NAME(erf_f32);
    k->silu_f32 = V_NAME(silu_f32);
    k->gelu_f32 = V_NAME(gelu_f32);
    k->relu_f32 = V_NAME(relu_f32);
    k->sqrt_f32 = V_NAME(sqrt_f32);
    k->neg_f32 = V_NAME(neg_f32);
    k->abs_f32 = V_NAME(abs_f32);
    k->recip_f32 = V_NAME(recip_f32);
    k->add_f32 = V_NAME(add_f32);
    k->sub_f32 = V_NAME(sub_f32);
    k->mul_f32 = V_NAME(mul_f32);
    k->div_f32 = V_NAME(div_f32);
    k->min_f32 = V_NAME(min_f32);
    k->max_f32 = V_NAME(max_f32);
    k->affine_f32 = V_NAME(affine_f32);
    k->clip_f32 = V_NAME(clip_f32);
    k->glu_f32 = V_NAME(glu_f32);
    k->swoosh_f32 = V_NAME(swoosh_f32);
    k->axpy_f32 = V_NAME(axpy_f32);
    k->hard_swish_f32 = V_NAME(hard_swish_f32);
    k->softplus_f32 = V_NAME(softplus_f32);
    k->softsign_f32 = V_NAME(softsign_f32);
    k->mish_f32 = V_NAME(mish_f32);
    k->hard_sigmoid_f32 = V_NAME(hard_sigmoid_f32);
    k->leaky_relu_f32 = V_NAME(leaky_relu_f32);
    k->elu_f32 = V_NAME(elu_f32);
    k->thresholded_relu_f32 = V_NAME(thresholded_relu_f32);
}
