/* The networks of icefall's Zipformer recipes as graphs, in the layout of its export-onnx*.py,
 * which sherpa-onnx reads. */
#ifndef STENO_CONVERT_ICEFALL_GRAPHS_H
#define STENO_CONVERT_ICEFALL_GRAPHS_H

#include "tools/convert/make.h"

#define STENO_ZIPFORMER_STACKS 16
#define STENO_ZIPFORMER_LAYERS 64    /* of a stack */
#define STENO_ICEFALL_BINS 80        /* mel bins of a feature frame */
#define STENO_ICEFALL_MAX_CHUNK 4096 /* frames */

struct steno_zipformer_stack {
    int64_t layers, downsampling, d, heads;
    int64_t query, pos, value; /* per head */
    int64_t ff[3];             /* hidden columns of the three feed-forward parts */
    int64_t kernel;
};

struct steno_icefall_arch {
    /* An LSTM transducer: one stack of layers with `units` cells each. */
    bool lstm;
    int64_t units;
    /* The first Zipformer (pruned_transducer_stateless7), in which `pos` columns of a head's
     * queries are for positions. */
    bool first;
    /* A Conformer: one stack, in which `query` columns are a head's. Otherwise a Zipformer. */
    bool conformer;
    /* Conformers. plain: layer norms and batch normalization (conformer_ctc), where others have
     * scaled weights; its norms may stand behind the parts, and its features may be normalized. */
    bool plain, norm_after, feat_norm;
    const char *at;        /* in front of the encoder's weights: "encoder." or "" */
    const char *ctc_layer; /* "ctc_output_module.1" */
    struct steno_zipformer_stack stack[STENO_ZIPFORMER_STACKS];
    int64_t stacks;
    int64_t conv[3], hidden; /* channels of the embedding's convolutions and its ConvNeXt part */
    int64_t pos_dim;
    int64_t out; /* the widest stack: columns of the encoder's output */
    bool causal;
    /* Streaming: frames of a chunk and frames of left context, at 50 Hz. chunk 0: whole recordings.
     * Conformers: at 25 Hz, and `right` frames after a chunk that it sees. */
    int64_t chunk, left, right;
    bool ctc; /* write the CTC network; otherwise encoder, prediction network and joiner */
    int64_t vocab, joiner, decoder, context,
        group; /* group: columns of a group of its convolution */
};

/* Write one network to path. Errors of steno_make_write. */
typedef steno_status steno_icefall_writer(const struct steno_icefall_arch *a,
                                          const struct steno_make_weights *w, const char *path,
                                          steno_err *err);
STENO_MUST steno_icefall_writer steno_icefall_write_encoder, steno_icefall_write_conformer;
STENO_MUST steno_icefall_writer steno_icefall_write_zipformer1, steno_icefall_write_lstm;
STENO_MUST steno_icefall_writer steno_icefall_write_decoder, steno_icefall_write_joiner;

#endif
