/* Elementwise functions by libm: the specification. */
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <math.h>

#define UNARY(name, expr)                                                                          \
    static void name##_f32__scalar(float *y, const float *x, size_t n)                             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float v = x[i];                                                                        \
            y[i] = (expr);                                                                         \
        }                                                                                          \
    }

#define CURVE(name, expr)                                                                          \
    static void name##_f32__scalar(float *y, const float *x, size_t n, float a, float b)           \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float v = x[i];                                                                        \
            y[i] = (expr);                                                                         \
        }                                                                                          \
    }

#define BINARY(name, expr)                                                                         \
    static void name##_f32__scalar(float *y, const float *a, size_t a_stride, const float *b,      \
                                   size_t b_stride, size_t n)                                      \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            float u = a[i * a_stride], v = b[i * b_stride];                                        \
            y[i] = (expr);                                                                         \
        }                                                                                          \
    }

/* Uses e^-|v|, so that results near zero keep their digits. */
static float sigmoid(float v)
{
    float e = expf(-fabsf(v));
    return (v < 0.0f ? e : 1.0f) / (1.0f + e);
}

static float gelu(float v)
{
    return 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
}

/* The larger one; NaN if either is NaN (numpy.maximum, ONNX Max), unlike fmaxf. */
static float max2(float u, float v)
{
    return u > v || u != u ? u : v;
}

static float min2(float u, float v)
{
    return u < v || u != u ? u : v;
}

UNARY(exp, expf(v))
UNARY(log, logf(v))
UNARY(tanh, tanhf(v))
UNARY(sigmoid, sigmoid(v))
UNARY(erf, erff(v))
UNARY(silu, v *sigmoid(v))
UNARY(gelu, gelu(v))
UNARY(relu, max2(v, 0.0f))
UNARY(sqrt, sqrtf(v))
UNARY(neg, -v)
UNARY(abs, fabsf(v))
UNARY(recip, 1.0f / v)
UNARY(hard_swish, v *hard_sigmoid_scalar(v, 1 / 6.0f, 0.5f))
UNARY(softplus, softplus_scalar(v))
UNARY(softsign, v / (1.0f + fabsf(v)))
UNARY(mish, v *tanhf(softplus_scalar(v)))
CURVE(clip, min2(max2(v, a), b))
CURVE(swoosh, swoosh_scalar(v, a, b))
CURVE(hard_sigmoid, hard_sigmoid_scalar(v, a, b))
CURVE(elu, elu_scalar(v, a, b))
BINARY(add, u + v)
BINARY(sub, u - v)
BINARY(mul, u *v)
BINARY(div, u / v)
BINARY(min, min2(u, v))
BINARY(max, max2(u, v))

static void affine_f32__scalar(float *y, const float *x, size_t n, float scale, float shift)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale + shift;
}

static void leaky_relu_f32__scalar(float *y, const float *x, size_t n, float a, float b)
{
    (void)b;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0.0f ? a * x[i] : x[i];
}

static void thresholded_relu_f32__scalar(float *y, const float *x, size_t n, float a, float b)
{
    (void)b;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > a ? x[i] : 0.0f;
}

static void glu_f32__scalar(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * sigmoid(b[i]);
}

static void axpy_f32__scalar(float *y, const float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        y[i] += scale * x[i];
}

static double peak_f32__scalar(size_t rounds)
{
    float acc[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    volatile float sink;
    for (size_t t = 0; t < rounds; t++)
        for (int i = 0; i < 8; i++)
            acc[i] = acc[i] * 0.999f + 0.5f;
    for (int i = 0; i < 8; i++)
        sink = acc[i];
    (void)sink;
    return 16.0 * (double)rounds;
}

void steno_kernels_elementwise__scalar(steno_kernels *k)
{
    k->peak_f32 = peak_f32__scalar;
    k->exp_f32 = exp_f32__scalar;
    k->log_f32 = log_f32__scalar;
    k->tanh_f32 = tanh_f32__scalar;
    k->sigmoid_f32 = sigmoid_f32__scalar;
    k->erf_f32 = erf_f32__scalar;
    k->silu_f32 = silu_f32__scalar;
    k->gelu_f32 = gelu_f32__scalar;
    k->relu_f32 = relu_f32__scalar;
    k->sqrt_f32 = sqrt_f32__scalar;
    k->neg_f32 = neg_f32__scalar;
    k->abs_f32 = abs_f32__scalar;
    k->recip_f32 = recip_f32__scalar;
    k->add_f32 = add_f32__scalar;
    k->sub_f32 = sub_f32__scalar;
    k->mul_f32 = mul_f32__scalar;
    k->div_f32 = div_f32__scalar;
    k->min_f32 = min_f32__scalar;
    k->max_f32 = max_f32__scalar;
    k->affine_f32 = affine_f32__scalar;
    k->clip_f32 = clip_f32__scalar;
    k->glu_f32 = glu_f32__scalar;
    k->swoosh_f32 = swoosh_f32__scalar;
    k->axpy_f32 = axpy_f32__scalar;
    k->hard_swish_f32 = hard_swish_f32__scalar;
    k->softplus_f32 = softplus_f32__scalar;
    k->softsign_f32 = softsign_f32__scalar;
    k->mish_f32 = mish_f32__scalar;
    k->hard_sigmoid_f32 = hard_sigmoid_f32__scalar;
    k->leaky_relu_f32 = leaky_relu_f32__scalar;
    k->elu_f32 = elu_f32__scalar;
    k->thresholded_relu_f32 = thresholded_relu_f32__scalar;
}
