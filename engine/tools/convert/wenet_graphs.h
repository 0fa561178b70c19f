/* The networks of WeNet as graphs: sherpa-onnx's layout (one network with CTC) and that of WeNet's
 * own ONNX runtime (encoder, CTC, decoder). */
#ifndef STENO_CONVERT_WENET_GRAPHS_H
#define STENO_CONVERT_WENET_GRAPHS_H

#include "tools/convert/make.h"

#define STENO_WENET_POSITIONS 5000 /* rows of the tables, as in WeNet */
#define STENO_WENET_MAX_BLOCKS 256

enum steno_wenet_position { STENO_WENET_REL, STENO_WENET_ABS, STENO_WENET_NONE };

struct steno_wenet_arch {
    bool conformer; /* else Transformer */
    int64_t in, d, heads, ff, blocks;
    const char *input_layer; /* conv2d, conv2d6, conv2d8, linear */
    enum steno_wenet_position position;
    bool macaron, conv, causal, before; /* before: norms come before their parts */
    int64_t kernel;
    bool conv_layer_norm; /* else batch normalization */
    bool conv_bias, query_bias, key_bias, value_bias;
    const char *activation;
    float epsilon;
    const float *mean, *istd; /* [in] of the global normalization; NULL: there is none */
    int64_t vocab, sos, eos;
    /* Decoder; dec_blocks 0: there is none. right_blocks 0: only from left to right. */
    int64_t dec_heads, dec_ff, dec_blocks, right_blocks;
    bool dec_before, dec_query_bias, dec_key_bias, dec_value_bias;
    const char *dec_activation;
    float dec_epsilon;
    double reverse_weight; /* of the training, for the metadata */
    int64_t chunk, left;   /* frames of a chunk, chunks of the cache; -1: whole, all */
};

/* Feature frames that one frame of the encoder stands for, and those that it sees beyond. */
int64_t steno_wenet_subsampling(const struct steno_wenet_arch *a);
int64_t steno_wenet_right_context(const struct steno_wenet_arch *a);
/* Columns of the convolutions' cache. */
int64_t steno_wenet_conv_cache(const struct steno_wenet_arch *a);

/* Write one network to path. Errors of steno_make_write; missing and contradicting weights are
 * STENO_ERR_FORMAT. */
typedef steno_status steno_wenet_writer(const struct steno_wenet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err);
steno_wenet_writer steno_wenet_write_streaming, steno_wenet_write_offline; /* sherpa-onnx's */
steno_wenet_writer steno_wenet_write_encoder, steno_wenet_write_ctc, steno_wenet_write_decoder;

/* Metadata as sherpa-onnx's exporter and WeNet's export_onnx_cpu.py write it. */
void steno_wenet_sherpa_meta(struct steno_make *m, const struct steno_wenet_arch *a,
                             bool streaming);
void steno_wenet_runtime_meta(struct steno_make *m, const struct steno_wenet_arch *a);

/* ---- parts that encoder and decoder share ---- */

/* q k' [B,heads,T,S] of q [B,heads,T,n] and k [B,heads,S,n]. */
steno_value_id steno_wenet_products(struct steno_make *m, steno_value_id q, steno_value_id k);
/* Softmax of scores / sqrt(d / heads) where the mask allows it (STENO_NONE: everywhere), the values
 * weighed by it, and NAME.linear_out. */
steno_value_id steno_wenet_weigh(struct steno_make *m, const char *name, steno_value_id scores,
                                 steno_value_id mask, steno_value_id v, int64_t heads, int64_t d);

#endif
