/* The same as engine/nn/kernels/x86/amx_ops.h, in C: the eight registers are memory of the thread.
 * This file precedes that one on the include path. */
#ifndef STENO_KERNELS_X86_AMX_OPS_H
#define STENO_KERNELS_X86_AMX_OPS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

struct emulated_tiles {
    _Bool configured;
    uint8_t rows[8];
    union emulated row[8][16];
};
extern _Thread_local struct emulated_tiles emulated_tiles;

/* The instruction faults if registers are not configured. */
#define EMULATED_TILE(t)                                                                           \
    (*(emulated_tiles.configured ? &emulated_tiles.row[t]                                          \
                                 : (__builtin_trap(), &emulated_tiles.row[t])))

static inline void amx_configure(const uint8_t rows[8])
{
    memset(&emulated_tiles, 0, sizeof emulated_tiles);
    memcpy(emulated_tiles.rows, rows, 8);
    emulated_tiles.configured = 1;
}

static inline void amx_end(void)
{
    emulated_tiles.configured = 0;
}

static inline void emulated_load(int t, const void *from, size_t stride)
{
    union emulated(*row)[16] = &EMULATED_TILE(t);
    memset(row, 0, sizeof *row);
    for (size_t i = 0; i < emulated_tiles.rows[t]; i++)
        memcpy(&(*row)[i], (const char *)from + i * stride, 64);
}

static inline void emulated_store(int t, void *to, size_t stride)
{
    union emulated(*row)[16] = &EMULATED_TILE(t);
    for (size_t i = 0; i < emulated_tiles.rows[t]; i++)
        memcpy((char *)to + i * stride, &(*row)[i], 64);
}

EMULATED __m512i emulated_dot_floats(__m512i sum, __m512i a, __m512i b)
{
    return (__m512i)_mm512_dpbf16_ps((__m512)sum, a, b);
}

/* t += a b: row i of a has 16 factors of 4 bytes, one for each row of b. */
#define EMULATED_DOT(name, dot)                                                                    \
    static __attribute__((noinline, unused)) void name(int t, int a, int b)                        \
    {                                                                                              \
        union emulated(*x)[16] = &EMULATED_TILE(t), (*y)[16] = &EMULATED_TILE(a),                  \
              (*z)[16] = &EMULATED_TILE(b);                                                        \
        if (emulated_tiles.rows[t] != emulated_tiles.rows[a] || emulated_tiles.rows[b] != 16)      \
            __builtin_trap();                                                                      \
        for (size_t i = 0; i < emulated_tiles.rows[t]; i++)                                        \
            for (size_t k = 0; k < 16; k++)                                                        \
                (*x)[i].si = dot((*x)[i].si, _mm512_set1_epi32((*y)[i].i32[k]), (*z)[k].si);       \
    }
EMULATED_DOT(emulated_tdpbusd, _mm512_dpbusd_epi32)
EMULATED_DOT(emulated_tdpbf16ps, emulated_dot_floats)

#define AMX_ZERO(t) memset(&EMULATED_TILE(t), 0, sizeof emulated_tiles.row[t])
#define AMX_LOAD(t, from, stride) emulated_load(t, from, stride)
#define AMX_PASS(t, from, stride) emulated_load(t, from, stride)
#define AMX_STORE(t, to, stride) emulated_store(t, to, stride)
#define AMX_DOT_U8(t, a, b) emulated_tdpbusd(t, a, b)
#define AMX_DOT_BF16(t, a, b) emulated_tdpbf16ps(t, a, b)
#define AMX_PACE(n) ((void)(n))

static inline __m512i amx_line(const void *p)
{
    return _mm512_loadu_si512(p);
}

#endif
