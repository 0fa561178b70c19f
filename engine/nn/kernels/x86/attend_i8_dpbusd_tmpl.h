/* Attention to bytes by vpdpbusd. Its second factor is signed bytes, so the 16 bits of the left
 * factor are two of them: 256 high + low. Included after vec_i32_<isa>.h with
 *   dot(acc, a, b)            vpdpbusd
 *   put_halves(high, low, v)  store the halves of VL integers of 16 bits
 * and what tmpl/attend_i8_tmpl.h wants besides. */
struct numbers {
    alignas(64) int8_t high[STENO_ATTEND_SIZE], low[STENO_ATTEND_SIZE];
};

static inline void put_numbers(struct numbers *to, size_t i, vi v)
{
    put_halves(to->high + i, to->low + i, v);
}

static inline vi four_bytes(const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return vi_set1(x);
}

/* Sums of their own for every other step gain nothing, even where n is half of MOST. Without the
 * asm, gcc moves sums from register to register at every step (a tenth of the time). */
static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const struct numbers *a,
                                                             int32_t minus, float *out, bool first,
                                                             int n)
{
    vi h[MOST], l[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < n; v++) {
        h[v] = vi_zero();
        l[v] = vi_set1(minus);
    }
    for (size_t s = 0; s < steps; s++, b += row) {
        const vi x = four_bytes(a->high + 4 * s), y = four_bytes(a->low + 4 * s);
#pragma GCC unroll 8
        for (int v = 0; v < n; v++) {
            const uint8_t *p = b + 4 * VL * v;
            const vi w = vi_load(p);
            if (first && 4 * VL * v % 64 == 0)
                __builtin_prefetch(p + ATTEND_I8_AHEAD, 0, 3);
            h[v] = dot(h[v], w, x);
            l[v] = dot(l[v], w, y);
            __asm__("" : "+" V_REGISTER(h[v]), "+" V_REGISTER(l[v]));
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < n; v++)
        v_store(out + v * VL, vi_to_float(vi_add(vi_times256(h[v]), l[v])));
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
