/* Attention scores for one vector width. Softmax over a row of scores that comes in blocks takes
 * two passes over a row in L1; the first one applies scale, position term and mask. Scores and
 * weighted sums of rows at arbitrary places read each row once. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

#include <string.h>

/* t = scale * (s + bias) + mask on the lanes m; the other lanes become -inf. */
static inline vf score(const float *s, const float *bias, const float *mask, vf scale, vm m)
{
    vf t = v_load_m(s, m);
    if (bias)
        t = t + v_load_m(bias, m);
    if (mask)
        t = v_fma(t, scale, v_load_m(mask, m));
    else
        t = t * scale;
    return v_select(m, t, v_set1(-INFINITY));
}

static inline __attribute__((always_inline)) vf scores(float *s, size_t n, vf scale,
                                                       const float *bias, const float *mask, vf top)
{
    vf top2 = top;
    size_t i = 0;
    const vm all = v_tail(VL);
    for (; i + 2 * VL <= n; i += 2 * VL) {
        vf a = score(s + i, bias ? bias + i : NULL, mask ? mask + i : NULL, scale, all);
        vf b =
            score(s + i + VL, bias ? bias + i + VL : NULL, mask ? mask + i + VL : NULL, scale, all);
        v_store(s + i, a);
        v_store(s + i + VL, b);
        top = v_max_nan(top, a);
        top2 = v_max_nan(top2, b);
    }
    for (; i < n; i += VL) {
        vm m = v_tail(n - i < VL ? n - i : VL);
        vf a = score(s + i, bias ? bias + i : NULL, mask ? mask + i : NULL, scale, m);
        v_store_m(s + i, m, a);
        top = v_max_nan(top, a);
    }
    return v_max_nan(top, top2);
}

/* s = e^(s - top), n vectors. sum: separate sums of even and odd vectors. */
V_MANY_OF weights_of(float *s, int n, vf top, vf *sum)
{
    vf e[V_MANY];
    V_EACH(i, n) e[i] = v_load(s + i * VL) - top;
    v_exp_each(e, n);
    V_EACH(i, n) v_store(s + i * VL, e[i]);
    V_EACH(i, n) sum[i % 2] = sum[i % 2] + e[i];
}

static float V_NAME(softmax_step_f32)(float *s, size_t n, float scale, const float *bias,
                                      const float *mask, float *max, float *sum)
{
    const vf c = v_set1(scale);
    vf t = v_set1(*max), sums[2] = {v_zero(), v_zero()};
    float top, keep;
    size_t i = 0;
    if (bias)
        t = mask ? scores(s, n, c, bias, mask, t) : scores(s, n, c, bias, NULL, t);
    else
        t = mask ? scores(s, n, c, NULL, mask, t) : scores(s, n, c, NULL, NULL, t);
    top = v_any(v_is_nan(t)) ? NAN : v_hmax(t);
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 1;
    }
    t = v_set1(top);
    for (; i + V_MANY * VL <= n; i += V_MANY * VL)
        weights_of(s + i, V_MANY, t, sums);
    for (; i + 2 * VL <= n; i += 2 * VL)
        weights_of(s + i, 2, t, sums);
    for (; i < n; i += VL) {
        vm m = v_tail(n - i < VL ? n - i : VL);
        vf a = v_select(m, v_exp(v_load_m(s + i, m) - t), v_zero());
        v_store_m(s + i, m, a);
        sums[0] = sums[0] + a;
    }
    keep = *max == top ? 1.0f : expf(*max - top);
    *sum = *sum * keep + v_hsum(sums[0] + sums[1]);
    *max = top;
    return keep;
}

/* Dot products of q with `several` rows at a time, so that their horizontal sums overlap. */
static inline __attribute__((always_inline)) void dots(int several, float *s, const float *q,
                                                       size_t size, float scale, const float *rows,
                                                       size_t row, const int32_t *at)
{
    const float *r[4];
    vf sum[4];
    size_t c = 0;
    for (int i = 0; i < several; i++) {
        r[i] = rows + (size_t)at[i] * row;
        sum[i] = v_zero();
    }
    for (; c + VL <= size; c += VL) {
        const vf x = v_load(q + c);
#pragma GCC unroll 4
        for (int i = 0; i < several; i++)
            sum[i] = v_fma(x, v_load(r[i] + c), sum[i]);
    }
    if (c < size) {
        const vm m = v_tail(size - c);
        const vf x = v_load_m(q + c, m);
        for (int i = 0; i < several; i++)
            sum[i] = v_fma(x, v_load_m(r[i] + c, m), sum[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < several; i++)
        s[i] = scale * v_hsum(sum[i]);
}

static void V_NAME(dot_rows_f32)(float *s, size_t n, const float *q, size_t size, float scale,
                                 const float *rows, size_t row, const int32_t *at)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        dots(4, s + i, q, size, scale, rows, row, at + i);
    for (; i < n; i++)
        dots(1, s + i, q, size, scale, rows, row, at + i);
}

/* Columns [0, 4 VL) of the sum stay in registers while all rows are read. */
static void V_NAME(mix_rows_f32)(float *y, size_t size, const float *w, size_t n, const float *rows,
                                 size_t row, const int32_t *at)
{
    size_t c = 0;
    for (; c + 4 * VL <= size; c += 4 * VL) {
        vf s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
        for (size_t i = 0; i < n; i++) {
            const float *r = rows + (size_t)at[i] * row + c;
            const vf x = v_set1(w[i]);
            s0 = v_fma(x, v_load(r), s0);
            s1 = v_fma(x, v_load(r + VL), s1);
            s2 = v_fma(x, v_load(r + 2 * VL), s2);
            s3 = v_fma(x, v_load(r + 3 * VL), s3);
        }
        v_store(y + c, s0);
        v_store(y + c + VL, s1);
        v_store(y + c + 2 * VL, s2);
        v_store(y + c + 3 * VL, s3);
    }
    for (; c < size; c += VL) {
        const vm m = v_tail(size - c < VL ? size - c : VL);
        vf s = v_zero();
        for (size_t i = 0; i < n; i++)
            s = v_fma(v_set1(w[i]), v_load_m(rows + (size_t)at[i] * row + c, m), s);
        v_store_m(y + c, m, s);
    }
}

#include "nn/kernels/tmpl/attend_few_tmpl.h"

void V_NAME(steno_kernels_attention)(steno_kernels *k)
{
    k->dot_rows_f32 = V_NAME(dot_rows_f32);
    k->mix_rows_f32 = V_NAME(mix_rows_f32);
    k->softmax_step_f32 = V_NAME(softmax_step_f32);
    k->attend_few_f32 = V_NAME(attend_few_f32);
}
