/* How a register tile of a product reads packed weights.
 *
 * Calls that go far ahead go on into the weights of the next product, which lie behind: a run reads
 * them in the order they were packed in. So memory has something to do while a node ends and the
 * next begins. */
#ifndef STENO_NN_KERNELS_TMPL_PREFETCH_H
#define STENO_NN_KERNELS_TMPL_PREFETCH_H

#include <stdbool.h>

enum reads {
    SHARED,  /* B has been called into L2; calls the next panel there */
    SHARED1, /* the same, into L1, which passes it on to L2: where streams_weights */
    ALONE,   /* the only tile to read B, most likely from memory: calls it */
    STREAM,  /* the same, far ahead and into L1: where streams_weights */
    FIRST,   /* SHARED, and stores what it has widened (scaled_tiles_tmpl.h) */
    REST     /* what FIRST has stored */
};

/* Whether products of few rows gain by calling weights 12 to 16 KiB ahead into L1: on AMD's CPUs
 * with AVX-VNNI, Zen 5 on, where it has 48 KiB. With 32 KiB it has no room for them (Zen 4: a sixth
 * slower from six rows on); Intel's of 48 KiB were not measured. */
static inline bool streams_weights(void)
{
#if defined(__x86_64__) && !defined(__clang__) /* whose runtime does not know AVX-VNNI everywhere  \
                                                */
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avxvnni");
#else
    return false;
#endif
}

/* A line of the next panel. */
static inline __attribute__((always_inline)) void prefetch_next(enum reads reads, const void *line)
{
    if (reads == SHARED1)
        __builtin_prefetch(line, 0, 3);
    else if (reads == SHARED)
        __builtin_prefetch(line, 0, 2);
}

static inline __attribute__((always_inline)) bool reads_shared(enum reads reads)
{
    return reads == SHARED || reads == SHARED1;
}

#endif
