/* The instructions of AMX, and the other parts of amx.h and its users that are not C (Intel SDM
 * vol. 1, chapter 18; vol. 2, LDTILECFG, TILELOADD, TDPBUSD, TDPBF16PS). tests/emulated has the
 * same in C.
 *
 * These are asm statements, because the compiler's own macros do not say that a load reads
 * memory. */
#ifndef STENO_NN_KERNELS_X86_AMX_OPS_H
#define STENO_NN_KERNELS_X86_AMX_OPS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Set the rows of each register; all rows have 64 bytes. */
static inline void amx_configure(const uint8_t rows[8])
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}};
    _Static_assert(sizeof config == 64, "LDTILECFG reads 64 bytes");
    for (int i = 0; i < 8; i++)
        config.rows[i] = rows[i];
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

static inline void amx_end(void)
{
    __asm__ volatile("tilerelease");
}

#define AMX_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
/* Load rows that are `stride` bytes apart. */
#define AMX_LOAD(t, from, stride)                                                                  \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)),                  \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
/* The same, bypassing L1 where it is full: for data that is read once before it would be displaced
 * anyway. */
#define AMX_PASS(t, from, stride)                                                                  \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)),                \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
#define AMX_STORE(t, to, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(to)),                      \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
/* t += a b: for each 32-bit lane 4 products u8 x i8, or 2 of bf16. */
#define AMX_DOT_U8(t, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::)
#define AMX_DOT_BF16(t, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::)

/* n no-operations between two prefetches from memory. One core of a CPU with AMX reads memory a
 * fifth to a quarter faster (Granite Rapids, 20 GB/s) when there is some work between two lines.
 * The no-operations act as such work: they fill the window of instructions in flight, so fewer
 * lines wait for the 16 line buffers at a time. */
#define AMX_PACE(n) __asm__ volatile(".rept %c0\n\tnop\n\t.endr" ::"i"(n))

/* Load 64 bytes at this place: prefetches before and after it keep their order. */
static inline __attribute__((always_inline)) __m512i amx_line(const void *p)
{
    __m512i v;
    __asm__ volatile("vmovdqu64 %1, %0" : "=v"(v) : "m"(*(const __m512i_u *)p));
    return v;
}

#endif
