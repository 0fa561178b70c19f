/* Memory plan: offsets in one arena for blocks whose lifetimes are known. */
#ifndef STENO_NN_EXEC_PLAN_H
#define STENO_NN_EXEC_PLAN_H

#include "base/status.h"

struct steno_interval {
    size_t bytes;
    /* steps, inclusive; blocks that are alive at a common step never overlap */
    int32_t first, last;
    size_t offset; /* result: multiple of STENO_ALIGN */
};

/* Place n blocks; *total is the size of the arena. Greedy by decreasing size: each block goes into
 * the smallest sufficient gap between the blocks that are alive at the same time (Pisarchyk and
 * Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, "greedy by size"). Blocks
 * of 0 bytes get offset 0. STENO_ERR_LIMIT: the sum overflows. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_plan_place(struct steno_interval *v, size_t n, size_t *total);

#endif
