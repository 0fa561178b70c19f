/* The parts of a Zipformer as nodes, for whole recordings and for chunks. */
#ifndef STENO_CONVERT_ZIPFORMER_H
#define STENO_CONVERT_ZIPFORMER_H

#include "tools/convert/icefall_graphs.h"

#define STENO_ZIPFORMER_STATES 6      /* of a layer */
#define STENO_ZIPFORMER_EMBED_STATE 3 /* frames that the embedding keeps */
#define STENO_ZIPFORMER_BANDS                                                                      \
    (((STENO_ICEFALL_BINS - 1) / 2 - 1) / 2) /* after its convolutions                             \
                                              */
#define STENO_ZIPFORMER_MAX_STATES                                                                 \
    (STENO_ZIPFORMER_STACKS * STENO_ZIPFORMER_LAYERS * STENO_ZIPFORMER_STATES + 2)

/* An encoder that is being built. N: recordings or streams of a batch. */
struct steno_zipformer {
    struct steno_make *m;
    const struct steno_icefall_arch *a;
    int64_t batch_symbol;
    steno_value_id batch;     /* N as a value [1] */
    steno_value_id lengths;   /* [N] frames at 50 Hz: of each recording, or before the chunk */
    steno_value_id frames;    /* whole recordings: frames at 50 Hz, T, as a value [1] */
    steno_value_id positions; /* the same: [2 T - 1, pos_dim] */
    steno_value_id mask;      /* the same: [N, 1, T] bool, padding */
    /* Chunks: of all layers, then of the embedding, then the frames before; in and out. */
    steno_value_id state[STENO_ZIPFORMER_MAX_STATES];
    int n_states, next;
};

/* from, to: values [1] -> from..to-1. */
steno_value_id steno_zipformer_count(struct steno_make *m, steno_value_id from, steno_value_id to);
/* Positions 1 - T .. T - 1 for a T that the graph does not know, [2 T - 1, dim]. */
steno_value_id steno_zipformer_positions(struct steno_make *m, steno_value_id frames, int64_t dim);
/* [N, 2 T + 7, bins] -> [N, T, d]. state: of chunks, in and out. */
steno_value_id steno_zipformer_embed(struct steno_zipformer *e, steno_value_id x,
                                     steno_value_id *state);
/* [N, T, d] of the embedding -> [N, T / 2, columns of the widest stack]. */
steno_value_id steno_zipformer_stacks(struct steno_zipformer *e, steno_value_id x);

/* What the layers of a stack share. Time comes first: [T, N, columns]. */
struct steno_zipformer_env {
    const struct steno_zipformer_stack *s;
    int64_t pos_dim;
    bool causal;
    /* Frames of a chunk and of left context, at the stack's rate. chunk 0: whole recordings. */
    int64_t chunk, left;
    steno_value_id positions; /* [1, left + 2 T - 1, pos_dim] */
    steno_value_id mask;      /* [N, 1, left + T] bool: hidden keys */
    steno_value_id window;    /* chunk: indices of relative positions for GatherElements */
    steno_value_id frames;    /* otherwise: T as a value [1] */
    steno_value_id batch;     /* N as a value [1] */
};

/* Swoosh-L or Swoosh-R (Yao et al. 2024, section 3.4). */
steno_value_id steno_zipformer_swoosh(struct steno_make *m, steno_value_id x, bool left);
/* NAME.bias, NAME.log_scale: normalization of section 3.3. */
steno_value_id steno_zipformer_norm(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t d);
/* a + (b - a) NAME [d]. */
steno_value_id steno_zipformer_bypass(struct steno_make *m, steno_value_id a, steno_value_id b,
                                      const char *name, int64_t d);
/* m->prefix is the layer's. state: in and out, [6], for chunks only. */
steno_value_id steno_zipformer_layer(struct steno_make *m, const struct steno_zipformer_env *e,
                                     steno_value_id x, steno_value_id *state);

#endif
