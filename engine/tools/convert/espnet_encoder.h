/* An encoder of ESPnet2, as its configuration describes it, and its parts. */
#ifndef STENO_CONVERT_ESPNET_ENCODER_H
#define STENO_CONVERT_ESPNET_ENCODER_H

#include "tools/convert/make.h"

#define STENO_ESPNET_MAX_BLOCKS 1000

enum steno_espnet_kind {
    STENO_ESPNET_TRANSFORMER,
    STENO_ESPNET_CONFORMER,
    STENO_ESPNET_BRANCHFORMER,
    STENO_ESPNET_E_BRANCHFORMER,
    STENO_ESPNET_BLOCK_TRANSFORMER, /* contextual blocks */
    STENO_ESPNET_BLOCK_CONFORMER,
    STENO_ESPNET_RNN,
    STENO_ESPNET_VGG_RNN,
};

/* Positions decide the attention: relative ones need one that shifts. */
enum steno_espnet_pos {
    STENO_ESPNET_POS_ABS,    /* added to x sqrt(d) */
    STENO_ESPNET_POS_SCALED, /* times a weight, added to x */
    STENO_ESPNET_POS_LATEST, /* relative, T - 1 down to 1 - T */
    STENO_ESPNET_POS_LEGACY, /* relative, a table that counts down */
};

enum steno_espnet_ffn {
    STENO_ESPNET_FFN_LINEAR,
    STENO_ESPNET_FFN_CONV,
    STENO_ESPNET_FFN_CONV_LINEAR
};

enum steno_espnet_merge {
    STENO_ESPNET_MERGE_CONCAT,
    STENO_ESPNET_MERGE_LEARNED,
    STENO_ESPNET_MERGE_FIXED,
};

struct steno_espnet_encoder {
    enum steno_espnet_kind kind;
    int64_t in, d, heads, ff, blocks;
    const char *input_layer; /* conv1d1 to conv1d3, conv2d, conv2d1, 2, 6, 8, linear */
    enum steno_espnet_pos pos;
    int64_t pos_rows; /* ESPnet's table of positions; the legacy one begins with its last row */
    bool fast;        /* attention of Fastformer */
    bool macaron, conv, before; /* before: norms come before their parts */
    bool ffn;                   /* E-Branchformer has feed-forward parts */
    bool concat_after;          /* attention's result and its input are merged by a layer */
    bool qk_norm;               /* queries and keys are normalized */
    bool zero_triu;             /* relative positions of later frames add nothing */
    enum steno_espnet_ffn ffn_type;
    int64_t ffn_kernel;
    int64_t kernel;              /* of the Conformer's convolution */
    const char *activation;      /* of linear feed-forward parts */
    const char *conv_activation; /* of the Conformer's convolution */
    bool conditioned;            /* blocks with condition[i] are told CTC's guess */
    bool condition[STENO_ESPNET_MAX_BLOCKS];
    /* Longformer: row i of block b sees the rows from i - window[b] to i + window[b]. ESPnet adds
     * rows of zeros up to a multiple of window_rows; 0: not a Longformer. */
    int64_t window[STENO_ESPNET_MAX_BLOCKS], window_rows;
    /* recurrent ones: blocks is the number of layers */
    enum steno_make_cell cell;
    int64_t units;
    bool both_ways;
    bool projected;                       /* each layer has a projection */
    bool halved[STENO_ESPNET_MAX_BLOCKS]; /* of the rows of a projected layer, every second stays */
    /* contextual blocks, in frames after the input layer */
    int64_t block, hop, look_ahead, subsample;
    bool ctx_pos; /* the context has positions */
    /* Branchformer and E-Branchformer: their branches and how they are merged */
    bool attn, cgmlp, gate_linear;
    int64_t gate_units, gate_kernel, merge_kernel;
    const char *gate_activation; /* "identity" too */
    enum steno_espnet_merge merge;
    float gate_weight[STENO_ESPNET_MAX_BLOCKS]; /* of the cgMLP branch, per block; fixed merge */
};

/* What a layer gets beside its input. */
struct steno_espnet_view {
    steno_value_id pos;    /* of the attention, or STENO_NONE */
    steno_value_id hidden; /* bool [1,1,T,T]: keys that a row does not see; or STENO_NONE */
    /* Longformer: [T], true for the rows that were added, and -10000 for them, else 0. */
    steno_value_id off, mask;
    int64_t window; /* of the block */
};

bool steno_espnet_streams(const struct steno_espnet_encoder *e);
/* Write the network of contextual blocks. */
STENO_MUST steno_status steno_espnet_write_blocks(const struct steno_espnet_encoder *e,
                                                  const struct steno_make_weights *w,
                                                  const char *path, steno_err *err);
/* The frames of a recurrent encoder, [1,T,in] -> [1,T',d]. */
steno_value_id steno_espnet_recurrent_encoder(struct steno_make *m, steno_value_id x,
                                              const struct steno_espnet_encoder *e);
/* The input layer, embed.*, without positions: feats [1,T,in] -> [1,T',d]. */
steno_value_id steno_espnet_input_layer(struct steno_make *m, steno_value_id x,
                                        const struct steno_espnet_encoder *e);
/* Input layer and positions. Sets v->pos. */
steno_value_id steno_espnet_embed(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_encoder *e,
                                  struct steno_espnet_view *v);
/* Block i, [1,T,d] -> [1,T,d]. Weights are below m->prefix. */
steno_value_id steno_espnet_layer(struct steno_make *m, steno_value_id x,
                                  const struct steno_espnet_view *v,
                                  const struct steno_espnet_encoder *e, int64_t i);
/* Weights of more than e->blocks blocks are an error, STENO_ERR_FORMAT. */
void steno_espnet_check_blocks(struct steno_make *m, const struct steno_espnet_encoder *e);
/* The self-attention of an encoder's layer, weights NAME.*. */
steno_value_id steno_espnet_self_attention(struct steno_make *m, const char *name, steno_value_id x,
                                           const struct steno_espnet_view *v,
                                           const struct steno_espnet_encoder *e);
/* Add rows of zeros to x [1,T,d] up to a multiple of e->window_rows. Sets v->off and v->mask. */
steno_value_id steno_espnet_fill_windows(struct steno_make *m, steno_value_id x,
                                         const struct steno_espnet_encoder *e,
                                         struct steno_espnet_view *v);
/* Attention within v->window, weights NAME.attention_layer.*. */
steno_value_id steno_espnet_local_attention(struct steno_make *m, const char *name,
                                            steno_value_id x, const struct steno_espnet_view *v,
                                            const struct steno_espnet_encoder *e);
/* "identity", and ESPnet's get_activation: "hardtanh", "tanh", "relu", "selu", "swish". */
steno_value_id steno_espnet_activation(struct steno_make *m, steno_value_id x, const char *name);

#endif
