/* AMX: eight registers of 16 rows x 64 bytes, and a product of two of them added to a third (Intel SDM
 * vol. 1, chapter 18; vol. 2, LDTILECFG, TILELOADD, TDPBUSD, TDPBF16PS). Here registers have
 * their full size, but for few rows; other rows and lanes that are not there are zeros, or are not looked at
 * afterwards.
 *
 * Written out, because the compiler's own macros do not say that a load reads memory. */
#ifndef STENO_KERNELS_X86_AMX_H
#define STENO_KERNELS_X86_AMX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AMX_ROWS = 16,
    AMX_LANES = 16 /* of 32 bits in a row */
};

/* Between these two the calling thread may use tiles. What a thread leaves in them is saved with every
 * switch to another one, so they are given back. rows: of the product; where they are fewer than 16, registers
 * 0, 1 and 4 have as many, where fewer than 32, 2, 3 and 5 what is above 16, and loads and products take that
 * much less time. */
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

static inline void amx_begin(size_t rows)
{
    const uint8_t low = (uint8_t)(rows < AMX_ROWS ? rows ? rows : 1 : AMX_ROWS);
    const uint8_t high = (uint8_t)(rows > AMX_ROWS && rows < 2 * AMX_ROWS ? rows - AMX_ROWS : AMX_ROWS);
    amx_configure((const uint8_t[8]){low, low, high, high, low, high, 16, 16});
}

static inline void amx_end(void)
{
    __asm__ volatile("tilerelease");
}

#define AMX_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
/* Rows `stride` bytes apart. */
#define AMX_LOAD(t, from, stride)                                                                  \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)),                  \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
/* The same, past L1 where that is full: for what is read once before it would be displaced anyway. */
#define AMX_PASS(t, from, stride)                                                                  \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)),                \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
#define AMX_STORE(t, to, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(to)), "r"((size_t)(stride)) \
                     : "memory")
/* t += a b: of each 32-bit lane 4 products u8 x i8, or 2 of bf16. */
#define AMX_DOT_U8(t, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::)
#define AMX_DOT_I8(t, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::)
#define AMX_DOT_BF16(t, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::)

/* n no-operations between two lines that are called from memory. One core of a CPU with AMX reads memory a fifth to a
 * quarter faster (Granite Rapids, 20 GB/s) where there is some work between one line and the next, as these are: they
 * take room in the window of instructions under way, so fewer lines wait for the 16 line buffers at a time. */
#define AMX_PACE(n) __asm__ volatile(".rept %c0\n\tnop\n\t.endr" ::"i"(n))

/* The next of a run of lines of weights that are called from memory to L2 while rows in L2 are multiplied, and before it
 * every third of the lines AMX_FAR bytes on: that is enough for the CPU's own prefetcher to bring the two between. It
 * has no need of the line buffers, which the rows wait for as long as weights fill them (16, 150 to 180 ns each).
 * far: where the run began, to begin with. */
enum { AMX_FAR = 4096 };

#define AMX_CALL_NEXT(line, far, pace)                                                             \
    do {                                                                                           \
        __builtin_prefetch(line, 0, 2);                                                            \
        if ((far) <= (line)) {                                                                     \
            __builtin_prefetch((far) + AMX_FAR, 0, 2);                                             \
            (far) += 192;                                                                          \
        }                                                                                          \
        (line) += 64;                                                                              \
        AMX_PACE(pace);                                                                            \
    } while (0)

/* n lines called to L2 in the order of memory, number `from` and on of a run, and every fifth of them AMX_FAR bytes on:
 * for few rows, which have nothing in L2 to wait for. */
static inline __attribute__((always_inline)) void amx_call_lines(const char *line, int from, int n)
{
#pragma GCC unroll 16
    for (int i = 0; i < n; i++, line += 64) {
        __builtin_prefetch(line, 0, 2);
        if ((from + i) % 5 == 0)
            __builtin_prefetch(line + AMX_FAR, 0, 2);
        AMX_PACE(10);
    }
}

/* Stride of the copy of A, lanes: an odd number of cache lines, so that rows fall into different sets. */
static inline size_t amx_copy_ld(size_t lanes)
{
    return (lanes + 31) / 32 * 32 + 16;
}

#endif
