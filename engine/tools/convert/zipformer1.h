/* The parts of the first Zipformer as nodes, for whole recordings and for chunks. */
#ifndef STENO_CONVERT_ZIPFORMER1_H
#define STENO_CONVERT_ZIPFORMER1_H

#include "tools/convert/icefall_graphs.h"

/* What a layer keeps of the chunks before: their frames [N] and the average of these [N, d], keys
 * and values [left, N, columns], input of its convolutions [N, d, kernel - 1]. */
enum {
    STENO_ZIPFORMER1_LEN,
    STENO_ZIPFORMER1_AVG,
    STENO_ZIPFORMER1_KEY,
    STENO_ZIPFORMER1_VAL,
    STENO_ZIPFORMER1_VAL2,
    STENO_ZIPFORMER1_CONV1,
    STENO_ZIPFORMER1_CONV2,
    STENO_ZIPFORMER1_STATES
};

/* What the layers of a stack share. Time comes first: [T, N, columns]. */
struct steno_zipformer1_env {
    const struct steno_zipformer_stack *s;
    /* Frames of a chunk and of left context, at the stack's rate. chunk 0: whole recordings. */
    int64_t chunk, left;
    steno_value_id positions; /* [1, left + 2 T - 1, d] */
    steno_value_id mask;      /* whole recordings: [N, 1, T] bool, padding */
    steno_value_id share;     /* the same: [T, N, 1], of a frame in the average */
};

/* m->prefix is the layer's. state: in and out, for chunks only. */
steno_value_id steno_zipformer1_layer(struct steno_make *m, const struct steno_zipformer1_env *e,
                                      steno_value_id x, steno_value_id *state);

#endif
