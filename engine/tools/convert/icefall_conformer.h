/* The parts of icefall's Conformers as nodes, for whole recordings and for chunks. */
#ifndef STENO_CONVERT_ICEFALL_CONFORMER_H
#define STENO_CONVERT_ICEFALL_CONFORMER_H

#include "tools/convert/icefall_graphs.h"

/* An encoder that is being built. N: recordings or streams of a batch. T: frames of x; in chunks
 * the new ones and those after them that they see. */
struct steno_conformer {
    struct steno_make *m;
    const struct steno_icefall_arch *a;
    const struct steno_zipformer_stack *s;
    steno_value_id positions; /* [1, left + 2 T - 1, d], of T + left - 1 down to 1 - T */
    steno_value_id mask;      /* [N, 1, left + T] bool, hidden keys */
    /* Chunks: what the present layer keeps, in and out. Input of its attention before the chunk
     * [N, left, d]; input of its depthwise convolution [N, d, kernel - 1]. */
    steno_value_id past, taps;
};

/* [N, frames, bins] -> [N, about frames / 4, d]. */
steno_value_id steno_conformer_embed(struct steno_conformer *c, steno_value_id x);
/* Layer i, [N, T, d]. */
steno_value_id steno_conformer_layer(struct steno_conformer *c, int i, steno_value_id x);

#endif
