/* AMX: eight registers of 16 rows x 64 bytes, and a product of two of them added to a third
 * (amx_ops.h). Here registers have their full size, but for few rows; other rows and lanes that are
 * not there are zeros, or are not looked at afterwards. */
#ifndef STENO_NN_KERNELS_X86_AMX_H
#define STENO_NN_KERNELS_X86_AMX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/kernels/x86/amx_ops.h"

enum {
    AMX_ROWS = 16,
    AMX_LANES = 16 /* of 32 bits in a row */
};

/* Between amx_begin and amx_end the calling thread may use tiles. What a thread leaves in them is
 * saved with every switch to another one, so they are given back. rows: of the product; where they
 * are fewer than 16, registers 0, 1 and 4 have as many, where fewer than 32, 2, 3 and 5 what is
 * above 16, and loads and products take that much less time. */
static inline void amx_begin(size_t rows)
{
    const uint8_t low = (uint8_t)(rows < AMX_ROWS ? rows ? rows : 1 : AMX_ROWS);
    const uint8_t high =
        (uint8_t)(rows > AMX_ROWS && rows < 2 * AMX_ROWS ? rows - AMX_ROWS : AMX_ROWS);
    amx_configure((const uint8_t[8]){low, low, high, high, low, high, 16, 16});
}

/* The next of a run of lines of weights that are called from memory to L2 while rows in L2 are
 * multiplied, and before it every third of the lines AMX_HW_PREFETCH_DISTANCE bytes on: that is
 * enough for the CPU's own prefetcher to bring the two between. It has no need of the line buffers,
 * which the rows wait for as long as weights fill them (16, 150 to 180 ns each). far: where the run
 * began, to begin with. */
enum { AMX_HW_PREFETCH_DISTANCE = 4096 };

#define AMX_PREFETCH_NEXT(line, hw_prefetch, pace)                                                 \
    do {                                                                                           \
        __builtin_prefetch(line, 0, 2);                                                            \
        if ((hw_prefetch) <= (line)) {                                                             \
            __builtin_prefetch((hw_prefetch) + AMX_HW_PREFETCH_DISTANCE, 0, 2);                    \
            (hw_prefetch) += 192;                                                                  \
        }                                                                                          \
        (line) += 64;                                                                              \
        AMX_PACE(pace);                                                                            \
    } while (0)

/* n lines called to L2 in the order of memory, number `from` and on of a run, and every fifth of
 * them AMX_HW_PREFETCH_DISTANCE bytes on: for few rows, which have nothing in L2 to wait for. */
static inline __attribute__((always_inline)) void amx_prefetch_lines(const char *line, int from,
                                                                     int n)
{
#pragma GCC unroll 16
    for (int i = 0; i < n; i++, line += 64) {
        __builtin_prefetch(line, 0, 2);
        if ((from + i) % 5 == 0)
            __builtin_prefetch(line + AMX_HW_PREFETCH_DISTANCE, 0, 2);
        AMX_PACE(10);
    }
}

/* Stride of the copy of A, lanes: an odd number of cache lines, so that rows fall into different
 * sets. */
static inline size_t amx_copy_ld(size_t lanes)
{
    return (lanes + 31) / 32 * 32 + 16;
}

#endif
