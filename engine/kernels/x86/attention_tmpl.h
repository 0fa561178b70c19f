/* Softmax over a row of attention scores that comes in blocks, for one vector width: two passes over
 * a row that lies in the first cache, scale, position term and mask in the first one. */
#include "kernels/internal.h"

#include "kernels/x86/math_tmpl.h"

#include <string.h>

/* t = scale * (s + bias) + mask on the lanes m; what is masked off comes back as -inf. */
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
        vf b = score(s + i + VL, bias ? bias + i + VL : NULL, mask ? mask + i + VL : NULL, scale,
                     all);
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

static float V_NAME(softmax_step_f32)(float *s, size_t n, float scale, const float *bias,
                                      const float *mask, float *max, float *sum)
{
    const vf c = v_set1(scale);
    vf t = v_set1(*max), s0 = v_zero(), s1 = v_zero();
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
    for (; i + 2 * VL <= n; i += 2 * VL) {
        vf a = v_exp(v_load(s + i) - t), b = v_exp(v_load(s + i + VL) - t);
        v_store(s + i, a);
        v_store(s + i + VL, b);
        s0 = s0 + a;
        s1 = s1 + b;
    }
    for (; i < n; i += VL) {
        vm m = v_tail(n - i < VL ? n - i : VL);
        vf a = v_select(m, v_exp(v_load_m(s + i, m) - t), v_zero());
        v_store_m(s + i, m, a);
        s0 = s0 + a;
    }
    keep = *max == top ? 1.0f : expf(*max - top);
    *sum = *sum * keep + v_hsum(s0 + s1);
    *max = top;
    return keep;
}

void V_NAME(steno_kernels_attention)(steno_kernels *k)
{
    k->softmax_step_f32 = V_NAME(softmax_step_f32);
}
