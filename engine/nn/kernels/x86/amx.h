/* AMX: eight registers of 16 rows x 64 bytes, and the product of two of them added to a third
 * (amx_ops.h). Registers have their full size here, except with few rows. Rows and lanes without
 * data are zeros, or their results are ignored. */
#ifndef STENO_NN_KERNELS_X86_AMX_H
#define STENO_NN_KERNELS_X86_AMX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/kernels/x86/amx_ops.h"

enum {
    AMX_ROWS = 16,
    AMX_LANES = 16 /* 32-bit lanes of a row */
};

/* Between amx_begin and amx_end the calling thread may use tiles. The contents of tiles are saved
 * at every thread switch, so amx_end releases them. rows: of the product. With fewer than 16 rows,
 * registers 0, 1 and 4 have that many. With 17 to 31 rows, registers 2, 3 and 5 have the rows above
 * 16. Loads and products then take that much less time. */
static inline void amx_begin(size_t rows)
{
    const uint8_t low = (uint8_t)(rows < AMX_ROWS ? rows ? rows : 1 : AMX_ROWS);
    const uint8_t high =
        (uint8_t)(rows > AMX_ROWS && rows < 2 * AMX_ROWS ? rows - AMX_ROWS : AMX_ROWS);
    amx_configure((const uint8_t[8]){low, low, high, high, low, high, 16, 16});
}

/* Prefetch the next line of a run of weights from memory into L2, while rows in L2 are multiplied.
 * Also prefetch every third of the lines at a distance of AMX_HW_PREFETCH_DISTANCE bytes: that
 * suffices for the hardware prefetcher to fetch the two lines in between. The hardware prefetcher
 * does not use the line buffers (16, 150 to 180 ns each); when prefetches of weights fill these,
 * loads of rows wait. hw_prefetch: initially the start of the run. */
enum { AMX_HW_PREFETCH_DISTANCE = 4096 };

#define AMX_PREFETCH_NEXT(line, hw_prefetch)                                                       \
    do {                                                                                           \
        __builtin_prefetch(line, 0, 2);                                                            \
        if ((hw_prefetch) <= (line)) {                                                             \
            __builtin_prefetch((hw_prefetch) + AMX_HW_PREFETCH_DISTANCE, 0, 2);                    \
            (hw_prefetch) += 192;                                                                  \
        }                                                                                          \
        (line) += 64;                                                                              \
    } while (0)

/* Prefetch n lines into L2 in the order of memory, as numbers `from` and on of a run, and every
 * fifth of the lines at a distance of AMX_HW_PREFETCH_DISTANCE bytes. For few rows, which do not
 * wait for loads from L2. */
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

/* Stride of the copy of A in lanes: an odd number of cache lines, so that rows fall into different
 * sets. */
static inline size_t amx_copy_ld(size_t lanes)
{
    return (lanes + 31) / 32 * 32 + 16;
}

#endif
