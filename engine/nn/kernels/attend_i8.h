/* Keys and values in 8 bits: what the levels of attend_i8 and kv_pack_i8 share. */
#ifndef STENO_NN_KERNELS_ATTEND_I8_H
#define STENO_NN_KERNELS_ATTEND_I8_H

#include "nn/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

enum {
    ATTEND_I8 = 127,
    ATTEND_I16 = 32512,         /* in signed bytes of 256 and 1: 127 and 0 */
    ATTEND_I8_AHEAD = 16 << 10, /* prefetch distance in bytes */
};

/* A KV page of kv_pack_i8. Offsets in bytes; units are f32 [2, STENO_KV_PAGE_KEYS], of keys and of
 * values. */
struct kv_i8_layout {
    size_t k_steps;   /* steps of four numbers of a key */
    size_t v_columns; /* a value's numbers, padded */
    size_t values, units, bytes;
};

static inline struct kv_i8_layout kv_i8_layout(size_t size, size_t v_size)
{
    struct kv_i8_layout l = {.k_steps = (size + 3) / 4, .v_columns = (v_size + 15) / 16 * 16};
    l.values = l.k_steps * STENO_KV_PAGE_KEYS * 4;
    l.units = l.values + STENO_KV_PAGE_KEYS * l.v_columns;
    l.bytes = steno_kv_i8_page_bytes(size, v_size);
    return l;
}

/* Steps per 1 for numbers up to max in `range` steps each way; *unit: the size of a step. Numbers
 * that are (nearly) zero become zero. If max is infinite or NaN, *unit is NaN. */
static inline float attend_i8_steps(float max, int range, float *unit)
{
    const float by = (float)range / max;
    *unit = max <= FLT_MAX ? 0 : NAN;
    if (!(max <= FLT_MAX) || !(by <= FLT_MAX))
        return 0;
    *unit = max * (1 / (float)range); /* a division would make the weights of a page wait */
    return by;
}

/* What the 128 that bytes are raised by adds to a product, taken away: -128 times the sum of its
 * left factor. The sum of a factor that is not finite is any number. */
static inline int32_t attend_i8_minus(int32_t sum)
{
    return (int32_t)(0u - 128u * (uint32_t)sum);
}

/* Units of the keys and of the values of a page, [STENO_KV_PAGE_KEYS] each. NaN moves from a value
 * to its key, so that the weight will be NaN. */
static inline void attend_i8_mark(float *k_unit, float *v_unit)
{
    for (size_t j = 0; j < STENO_KV_PAGE_KEYS; j++) {
        k_unit[j] = v_unit[j] == v_unit[j] ? k_unit[j] : NAN;
        v_unit[j] = v_unit[j] == v_unit[j] ? v_unit[j] : 0;
    }
}

#endif
