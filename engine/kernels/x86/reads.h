/* How a register tile of a product reads packed weights. */
#ifndef STENO_KERNELS_X86_READS_H
#define STENO_KERNELS_X86_READS_H

#include "base/cpu.h"

enum reads {
    SHARED, /* B has been called into L2; calls the next panel there */
    ALONE,  /* the only tile to read B, most likely from memory: calls it */
    FAR,    /* the same, far ahead and into L1: where that has room for it */
    FIRST,  /* SHARED, and stores what it has widened (scaled_tiles_tmpl.h) */
    REST    /* what FIRST has stored */
};

/* Whether L1 has room for 16 KiB of weights that are called, beside A and those in use. Calls go on into the weights of the
 * next product then, which lie behind (a run reads them in the order they were packed in): while a node ends and the next
 * begins, memory has something to do. On Zen 5 (48 KiB) products of one to eight rows take 0.75 to 0.9 of the time; with
 * 32 KiB (Zen 4) calls into L1 cost a sixth from six rows on. */
static inline bool reads_far(void)
{
    return steno_cpu_l1() >= (size_t)48 << 10;
}

#endif
