/* An encoder of ESPnet2, as its configuration describes it, and its parts. */
#ifndef STENO_CONVERT_ESPNET_ENCODER_H
#define STENO_CONVERT_ESPNET_ENCODER_H

#include "convert/make.h"

#define STENO_ESPNET_MAX_BLOCKS 1000

enum steno_espnet_kind {
    STENO_ESPNET_TRANSFORMER,
    STENO_ESPNET_CONFORMER,
    STENO_ESPNET_BRANCHFORMER,
    STENO_ESPNET_E_BRANCHFORMER,
};

/* Positions decide the attention: relative ones need one that shifts. */
enum steno_espnet_pos {
    STENO_ESPNET_POS_ABS,    /* added to x sqrt(d) */
    STENO_ESPNET_POS_SCALED, /* times a weight, added to x */
    STENO_ESPNET_POS_LATEST, /* relative, T - 1 down to 1 - T */
    STENO_ESPNET_POS_LEGACY, /* relative, a table that counts down */
};

enum steno_espnet_merge {
    STENO_ESPNET_MERGE_CONCAT,
    STENO_ESPNET_MERGE_LEARNED,
    STENO_ESPNET_MERGE_FIXED,
};

struct steno_espnet_encoder {
    enum steno_espnet_kind kind;
    int64_t in, d, heads, ff, blocks;
    const char *input_layer; /* conv2d, conv2d1, conv2d2, conv2d6, conv2d8, linear */
    enum steno_espnet_pos pos;
    int64_t pos_rows; /* ESPnet's table of positions; the legacy one begins with its last row */
    bool fast;        /* attention of Fastformer */
    bool macaron, conv, before; /* before: norms come before their parts */
    bool ffn;                   /* E-Branchformer has feed-forward parts */
    int64_t kernel;             /* of the Conformer's convolution */
    const char *activation;
    /* Branchformer and E-Branchformer: their branches and how they are merged */
    bool attn, cgmlp, gate_linear;
    int64_t gate_units, gate_kernel, merge_kernel;
    const char *gate_activation; /* "identity" too */
    enum steno_espnet_merge merge;
    float gate_weight[STENO_ESPNET_MAX_BLOCKS]; /* of the cgMLP branch, per block; fixed merge */
};

/* Input layer and positions: feats [1,T,in] -> [1,T',d]. *pos: the positions that the attention
 * takes, or STENO_NONE. */
steno_value_id steno_espnet_embed(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_encoder *e, steno_value_id *pos);
/* Block i, [1,T,d] -> [1,T,d]. Weights are below m->prefix. */
steno_value_id steno_espnet_layer(struct steno_make *m, steno_value_id x, steno_value_id pos,
                                  const struct steno_espnet_encoder *e, int64_t i);
/* The self-attention of an encoder's layer, weights NAME.*. */
steno_value_id steno_espnet_self_attention(struct steno_make *m, const char *name, steno_value_id x,
                                           steno_value_id pos,
                                           const struct steno_espnet_encoder *e);
/* The Conformer's convolution module, conv_module.*. */
steno_value_id steno_espnet_convolution(struct steno_make *m, steno_value_id x,
                                        const struct steno_espnet_encoder *e);
/* "identity", and ESPnet's get_activation: "hardtanh", "tanh", "relu", "selu", "swish". */
steno_value_id steno_espnet_activation(struct steno_make *m, steno_value_id x, const char *name);

#endif
