/* Quantization to bytes, and rows of the Winograd convolution in bytes (kernels.h), for one vector
 * width. Included by gemm_i8_tmpl.h, whose vectors it uses. */

/* VL rounded numbers, limited so that no sum wraps; those that are NaN become 0 with the zero. */
static inline __attribute__((always_inline)) vi to_byte(const float *x, vf scale, int32_t zero)
{
    const vf v = v_load(x) / scale;
    const vf limited = v_select(v_is_nan(v), v_set1((float)-zero), v_clamp(v, -1e6f, 1e6f));
    return vi_add(vi_round(limited), vi_set1(zero));
}

static void V_NAME(quantize_f32)(void *q, const float *x, size_t n, float scale, int32_t zero,
                                 bool to_signed)
{
    const vf s = v_set1(scale), z = v_set1((float)zero);
    uint8_t *to = q;
    size_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        const vi a = to_byte(x + i, s, zero), b = to_byte(x + i + VL, s, zero),
                 c = to_byte(x + i + 2 * VL, s, zero), d = to_byte(x + i + 3 * VL, s, zero);
        if (to_signed)
            vi_store_i8x4(to + i, a, b, c, d);
        else
            vi_store_u8x4(to + i, a, b, c, d);
    }
    for (; i < n; i += VL) {
        const size_t left = n - i < VL ? n - i : VL;
        const vf from = left < VL ? v_load_m(x + i, v_tail(left)) : v_load(x + i);
        const vf v = v_round(from / s);
        vi_store_bytes(to + i, v_clamp(v + z, to_signed ? -128 : 0, to_signed ? 127 : 255), v,
                       left);
    }
}

/* i8 is u8 of the number plus 128, modulo 256. */
static void V_NAME(dequantize_f32)(float *y, const void *q, size_t n, float scale, int32_t zero,
                                   bool is_signed)
{
    const int32_t flip = is_signed ? 128 : 0;
    const vf s = v_set1(scale);
    const vi by = vi_set1(flip), byte = vi_set1(255), z = vi_set1(zero + flip);
    const uint8_t *from = q;
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(y + i, vi_to_float(vi_sub(vi_and(vi_add(vi_bytes(from + i), by), byte), z)) * s);
    for (; i < n; i++)
        y[i] = (float)((is_signed ? (int8_t)from[i] : from[i]) - zero) * scale;
}

static void V_NAME(range_f32)(const float *x, size_t n, float *range)
{
    vf lo = v_set1(range[0]), hi = v_set1(range[1]), lo2 = lo, hi2 = hi;
    size_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) { /* v_min, v_max: b where a or b is NaN */
        const vf a = v_load(x + i), b = v_load(x + i + VL);
        lo = v_min(a, lo);
        hi = v_max(a, hi);
        lo2 = v_min(b, lo2);
        hi2 = v_max(b, hi2);
    }
    for (; i + VL <= n; i += VL) {
        lo = v_min(v_load(x + i), lo);
        hi = v_max(v_load(x + i), hi);
    }
    range[0] = -v_hmax(v_neg(v_min(lo, lo2)));
    range[1] = v_hmax(v_max(hi, hi2));
    for (; i < n; i++) {
        range[0] = x[i] < range[0] ? x[i] : range[0];
        range[1] = x[i] > range[1] ? x[i] : range[1];
    }
}

/* No x is outside the range, so every product with the reciprocal is a small integer or NaN. */
static inline vi to_step(const float *x, vf by, vi zero)
{
    return vi_add(vi_round(v_load(x) * by), zero);
}

static float V_NAME(quantize_in_f32)(uint8_t *q, const float *x, size_t n, const float *range,
                                     int32_t *zero)
{
    float by;
    const float scale = quantize_range(range[0], range[1], &by, zero);
    const vf s = v_set1(by), z = v_set1((float)*zero);
    const vi zi = vi_set1(*zero);
    size_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        vi_store_u8x4(q + i, to_step(x + i, s, zi), to_step(x + i + VL, s, zi),
                      to_step(x + i + 2 * VL, s, zi), to_step(x + i + 3 * VL, s, zi));
    for (; i < n; i += VL) {
        const size_t left = n - i < VL ? n - i : VL;
        const vf from = left < VL ? v_load_m(x + i, v_tail(left)) : v_load(x + i);
        const vf v = v_round(from * s);
        vi_store_bytes(q + i, v_clamp(v + z, 0, 255), v, left);
    }
    return scale;
}

static float V_NAME(quantize_row_f32)(uint8_t *q, const float *x, size_t n, int32_t *zero)
{
    float range[2] = {0, 0};
    V_NAME(range_f32)(x, n, range);
    return V_NAME(quantize_in_f32)(q, x, n, range, zero);
}

/* ---- rows of a Winograd convolution ---- */

/* Whole vectors are loaded without a mask: a masked load on AVX2 would take three times as long. */
static inline __attribute__((always_inline)) vf load_some(const float *x, size_t left)
{
    return left < VL ? v_load_m(x, v_tail(left)) : v_load(x);
}

static inline __attribute__((always_inline)) void store_some(float *x, size_t left, vf v)
{
    if (left < VL)
        v_store_m(x, v_tail(left), v);
    else
        v_store(x, v);
}

/* Elements [i, i + left) of the sum, at most one vector. */
static inline __attribute__((always_inline)) vf sum_of(const float *const *x, size_t n_x, vf s0,
                                                       vf s1, size_t i, size_t left)
{
    vf v = v_fma(load_some(x[1] + i, left), s1, load_some(x[0] + i, left));
    if (n_x == 4)
        v = v_fma(v_fma(load_some(x[3] + i, left), s1, load_some(x[2] + i, left)), s0, v);
    return v;
}

/* v_min and v_max of a number and NaN return the second operand. */
static inline __attribute__((always_inline)) void sum_and_range(float *to, const float *const *x,
                                                                size_t n_x, const bool *minus,
                                                                size_t n, float *range)
{
    const vf s0 = v_set1(minus[0] ? -1.0f : 1.0f), s1 = v_set1(minus[1] ? -1.0f : 1.0f);
    vf lo = v_set1(range[0]), hi = v_set1(range[1]);
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf v = sum_of(x, n_x, s0, s1, i, VL);
        lo = v_min(v, lo);
        hi = v_max(v, hi);
        v_store(to + i, v);
    }
    range[0] = -v_hmax(v_neg(lo));
    range[1] = v_hmax(hi);
    if (i < n) {
        store_some(to + i, n - i, sum_of(x, n_x, s0, s1, i, n - i));
        V_NAME(range_f32)(to + i, n - i, range);
    }
}

static const float *V_NAME(sum_rows_f32)(float *to, const float *const *x, size_t n_x,
                                         const bool *minus, size_t n, float *range)
{
    if (n_x == 1) {
        V_NAME(range_f32)(x[0], n, range);
        return x[0];
    }
    if (n_x == 2)
        sum_and_range(to, x, 2, minus, n, range);
    else
        sum_and_range(to, x, 4, minus, n, range);
    return to;
}

/* Add elements [i, i + left) of the row to `count` adjacent pixels, to the second one with sign
 * s1. */
static inline __attribute__((always_inline)) void
spread_along(float *y, size_t count, vf s, vf s1, const float *row, size_t n, size_t i, size_t left)
{
    const vf v = load_some(row + i, left);
    for (size_t b = 0; b < count; b++)
        store_some(y + b * n + i, left, v_fma(v, b == 1 ? s1 : s, load_some(y + b * n + i, left)));
}

static inline __attribute__((always_inline)) void
spread_line(float *y, size_t count, float sign, bool minus, const float *row, size_t n)
{
    const vf s = v_set1(sign), s1 = v_set1(minus ? -sign : sign);
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        spread_along(y, count, s, s1, row, n, i, VL);
    if (i < n)
        spread_along(y, count, s, s1, row, n, i, n - i);
}

static void V_NAME(spread_row_f32)(float *y, size_t line, const size_t *count, const bool *minus,
                                   const float *row, size_t n)
{
    for (size_t a = 0; a < count[0]; a++, y += line) {
        const float sign = minus[0] && a == 1 ? -1.0f : 1.0f;
        if (count[1] == 1)
            spread_line(y, 1, sign, minus[1], row, n);
        else if (count[1] == 3)
            spread_line(y, 3, sign, minus[1], row, n);
        else
            spread_line(y, count[1], sign, minus[1], row, n);
    }
}
