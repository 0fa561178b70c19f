/* 8-bit product, the specification. Packed: a header (signedness, zero points [N]), then the bytes
 * [K,N] as they were. Sums are unsigned, because unsigned wrap-around is defined. */
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <string.h>

struct head {
    int32_t is_signed;
};

static size_t gemm_i8_packed_bytes__scalar(size_t k, size_t n)
{
    return sizeof(struct head) + n * sizeof(int32_t) + k * n;
}

static void gemm_i8_pack__scalar(void *dst, const struct steno_weights_i8 *w)
{
    struct head *h = dst;
    int32_t *zero = (int32_t *)(h + 1);
    uint8_t *p = (uint8_t *)(zero + w->n);
    const uint8_t *b = w->b;
    h->is_signed = w->is_signed;
    for (size_t j = 0; j < w->n; j++)
        zero[j] = w->zero ? w->zero[j * w->zero_step] : 0;
    for (size_t i = 0; i < w->k; i++)
        for (size_t j = 0; j < w->n; j++)
            *p++ = w->trans ? b[j * w->ldb + i] : b[i * w->ldb + j];
}

/* Dot product of row `a` and column `b` (row stride n) of the differences from the zero points. */
static int32_t dot(const struct steno_gemm_i8 *g, const uint8_t *a, uint32_t a_zero,
                   const uint8_t *b, bool b_signed, uint32_t b_zero)
{
    uint32_t sum = 0;
    for (size_t l = 0; l < g->k; l++) {
        uint32_t x = g->a_signed ? (uint32_t)(int8_t)a[l] : a[l];
        uint32_t y = b_signed ? (uint32_t)(int8_t)b[l * g->n] : b[l * g->n];
        sum += (x - a_zero) * (y - b_zero);
    }
    return (int32_t)sum;
}

static float finish(const struct steno_gemm_i8 *g, int32_t sum, size_t i, size_t j)
{
    float v = (float)sum * g->scale[j];
    if (g->row_scale)
        v *= g->row_scale[i];
    if (!g->ep)
        return v;
    if (g->ep->bias)
        v += g->ep->bias[j];
    v = activate_scalar(v, g->ep);
    return g->ep->residual ? v + g->ep->residual[i * g->ep->ldr + j] : v;
}

static void gemm_i8_part__scalar(const struct steno_gemm_i8 *g, size_t part, size_t n_parts)
{
    const struct head *h = g->packed;
    const int32_t *zero = (const int32_t *)(h + 1);
    const uint8_t *b = (const uint8_t *)(zero + g->n);
    for (size_t i = g->m * part / n_parts; i < g->m * (part + 1) / n_parts; i++) {
        const uint8_t *a = (const uint8_t *)g->a + i * g->lda;
        int32_t az = g->a_zero ? g->a_zero[i * g->a_zero_step] : 0;
        for (size_t j = 0; j < g->n; j++) {
            int32_t sum = dot(g, a, (uint32_t)az, b + j, h->is_signed, (uint32_t)zero[j]);
            if (g->scale)
                ((float *)g->c)[i * g->ldc + j] = finish(g, sum, i, j);
            else
                ((int32_t *)g->c)[i * g->ldc + j] = sum;
        }
    }
}

static void quantize_f32__scalar(void *q, const float *x, size_t n, float scale, int32_t zero,
                                 bool to_signed)
{
    const float lo = to_signed ? -128 : 0, hi = to_signed ? 127 : 255;
    uint8_t *to = q;
    for (size_t i = 0; i < n; i++) {
        float v = rintf(x[i] / scale) + (float)zero;
        v = v < lo ? lo : v > hi ? hi : v;
        to[i] = (uint8_t)(int)(v == v ? v : 0);
    }
}

static void dequantize_f32__scalar(float *y, const void *q, size_t n, float scale, int32_t zero,
                                   bool is_signed)
{
    const uint8_t *from = q;
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((is_signed ? (int8_t)from[i] : from[i]) - zero) * scale;
}

static void range_f32__scalar(const float *x, size_t n, float *range)
{
    for (size_t i = 0; i < n; i++) {
        range[0] = x[i] < range[0] ? x[i] : range[0];
        range[1] = x[i] > range[1] ? x[i] : range[1];
    }
}

static float quantize_in_f32__scalar(uint8_t *q, const float *x, size_t n, const float *range,
                                     int32_t *zero)
{
    float by, scale = quantize_range(range[0], range[1], &by, zero);
    for (size_t i = 0; i < n; i++) {
        float v = rintf(x[i] * by) + (float)*zero;
        v = v < 0 ? 0 : v > 255 ? 255 : v;
        q[i] = (uint8_t)(int)(v == v ? v : 0);
    }
    return scale;
}

static float quantize_row_f32__scalar(uint8_t *q, const float *x, size_t n, int32_t *zero)
{
    float range[2] = {0, 0};
    range_f32__scalar(x, n, range);
    return quantize_in_f32__scalar(q, x, n, range, zero);
}

static const float *sum_rows_f32__scalar(float *to, const float *const *x, size_t n_x,
                                         const bool *minus, size_t n, float *range)
{
    const float s0 = minus[0] ? -1.0f : 1.0f, s1 = minus[1] ? -1.0f : 1.0f;
    for (size_t i = 0; i < n && n_x > 1; i++) {
        to[i] = x[0][i] + s1 * x[1][i];
        if (n_x == 4)
            to[i] += s0 * (x[2][i] + s1 * x[3][i]);
    }
    range_f32__scalar(n_x > 1 ? to : x[0], n, range);
    return n_x > 1 ? to : x[0];
}

static void spread_row_f32__scalar(float *y, size_t line, const size_t *count, const bool *minus,
                                   const float *row, size_t n)
{
    for (size_t a = 0; a < count[0]; a++)
        for (size_t b = 0; b < count[1]; b++) {
            const float sign = (minus[0] && a == 1) != (minus[1] && b == 1) ? -1.0f : 1.0f;
            for (size_t i = 0; i < n; i++)
                y[a * line + b * n + i] += sign * row[i];
        }
}

static double peak_i8__scalar(size_t rounds)
{
    int32_t acc[16] = {0};
    volatile uint8_t seed = 3;
    uint8_t a = seed, b = seed;
    for (size_t t = 0; t < rounds; t++, a = (uint8_t)(a + b))
        for (int i = 0; i < 16; i++)
            acc[i] += (int32_t)a * (b + i);
    for (int i = 1; i < 16; i++)
        acc[0] = (int32_t)((uint32_t)acc[0] + (uint32_t)acc[i]);
    seed = (uint8_t)acc[0];
    return 32.0 * (double)rounds;
}

void steno_kernels_gemm_i8__scalar(steno_kernels *k)
{
    k->peak_i8 = peak_i8__scalar;
    k->gemm_i8_packed_bytes = gemm_i8_packed_bytes__scalar;
    k->gemm_i8_pack = gemm_i8_pack__scalar;
    k->gemm_i8_part = gemm_i8_part__scalar;
    k->quantize_f32 = quantize_f32__scalar;
    k->dequantize_f32 = dequantize_f32__scalar;
    k->range_f32 = range_f32__scalar;
    k->quantize_in_f32 = quantize_in_f32__scalar;
    k->quantize_row_f32 = quantize_row_f32__scalar;
    k->sum_rows_f32 = sum_rows_f32__scalar;
    k->spread_row_f32 = spread_row_f32__scalar;
}
