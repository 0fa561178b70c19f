/* Networks from samples to scores of characters: wav2vec 2.0 (Baevski et al., 2020) and its kind,
 * as transformers' ...ForCTC builds them. */
#ifndef STENO_CONVERT_HF_CTC_H
#define STENO_CONVERT_HF_CTC_H

#include "tools/convert/make.h"

#define STENO_HF_CONVS 32

struct steno_hf_ctc {
    const char *root; /* in front of the names of all weights but lm_head's: "wav2vec2." */
    bool data2vec;    /* several positional convolutions, each with a norm */
    bool wavlm;       /* gated relative positions */
    bool layer_norm;  /* after each convolution; else one norm of each channel after the first */
    bool projection_norm, position_batch_norm;
    bool stable; /* norms come before their parts */
    bool conv_bias;
    int convs;
    int64_t conv_dim[STENO_HF_CONVS], conv_kernel[STENO_HF_CONVS], conv_stride[STENO_HF_CONVS];
    int64_t d, heads, ff, layers, vocab;
    int64_t position_kernel, position_groups, position_layers;
    int64_t buckets, distance; /* wavlm */
    const char *activation, *conv_activation;
    float epsilon;
};

/* Write the network: input_values [batch_size, sequence_length] f32 -> logits [batch_size, frames,
 * vocab], optimum's names. Errors of steno_make_write; STENO_ERR_FORMAT: a weight is missing or has
 * another shape. */
STENO_MUST steno_status steno_hf_write_ctc(const struct steno_hf_ctc *a,
                                           const struct steno_make_weights *w, const char *path,
                                           steno_err *err);

#endif
