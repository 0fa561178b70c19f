/* The networks of ESPnet2 as graphs, in the layout of espnet_onnx. */
#ifndef STENO_CONVERT_ESPNET_GRAPHS_H
#define STENO_CONVERT_ESPNET_GRAPHS_H

#include "tools/convert/espnet_encoder.h"

/* Recurrent layers: a language model (lm: seq_rnn), the prediction network of a transducer,
 * an RNN decoder. */
struct steno_espnet_rnn {
    enum steno_make_cell cell;
    int64_t layers, embed, units;
};

/* The attention of an RNN decoder. */
enum steno_espnet_attention_kind {
    STENO_ATTENTION_NONE,
    STENO_ATTENTION_DOT,
    STENO_ATTENTION_ADD,
    STENO_ATTENTION_LOCATION,
    STENO_ATTENTION_COVERAGE,
    STENO_ATTENTION_COVERAGE_LOCATION,
    STENO_ATTENTION_LOCATION_2D,
    STENO_ATTENTION_HEADS_DOT, /* from here on of several heads */
    STENO_ATTENTION_HEADS_ADD,
    STENO_ATTENTION_HEADS_LOCATION,
    STENO_ATTENTION_HEADS_RESOLUTIONS
};
struct steno_espnet_attention_arch {
    enum steno_espnet_attention_kind kind;
    const char *name; /* "coverage_location" */
    int64_t dim, channels, filters;
    int64_t window, heads; /* steps that location2d sees; heads of multi_head_* */
    bool residual;         /* the output layer takes the weighted frames too */
};

enum steno_espnet_decoder {
    STENO_DECODER_NONE,
    STENO_DECODER_XFORMER,
    STENO_DECODER_RNN,
    STENO_DECODER_TRANSDUCER
};

struct steno_espnet_arch {
    struct steno_espnet_encoder e;
    int64_t d; /* columns of the encoder's output */
    int64_t vocab, dec_heads, dec_ff, dec_blocks;
    bool dec_before;
    enum steno_espnet_decoder decoder;
    struct steno_espnet_rnn dec_rnn;
    struct steno_espnet_attention_arch attention;
    int64_t joint_space;
    bool joint_bias; /* of lin_dec */
    const char *joint_activation;
    int64_t lm_embed, lm_d, lm_heads, lm_ff, lm_blocks;
    bool lm_positions;
    struct steno_espnet_rnn lm_rnn; /* layers 0: the language model is a Transformer */
};

struct steno_onnx_written;

/* Write one network to path. Errors of steno_make_write; missing and contradicting weights are
 * STENO_ERR_FORMAT. */
typedef steno_status steno_espnet_writer(const struct steno_espnet_arch *a,
                                         const struct steno_make_weights *w, const char *path,
                                         steno_err *err);
STENO_MUST steno_espnet_writer steno_espnet_write_encoder, steno_espnet_write_ctc;
STENO_MUST steno_espnet_writer steno_espnet_write_decoder;
STENO_MUST steno_espnet_writer steno_espnet_write_rnn_decoder, steno_espnet_write_predecoder;
STENO_MUST steno_espnet_writer steno_espnet_write_prediction, steno_espnet_write_joint;
STENO_MUST steno_espnet_writer steno_espnet_write_lm, steno_espnet_write_rnn_lm;

#endif
