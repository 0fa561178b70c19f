/* Moonshine (Jeffries et al., 2024) as transformers' MoonshineForConditionalGeneration builds it.
 */
#ifndef STENO_CONVERT_HF_MOONSHINE_H
#define STENO_CONVERT_HF_MOONSHINE_H

#include "tools/convert/make.h"

struct steno_hf_moonshine {
    int64_t d, ff, heads, vocab, encoder_layers, decoder_layers;
    int64_t rotary; /* features of a head that positions turn, before rounding up to pairs */
    double theta;
    bool bias; /* of queries, keys and values */
    const char *encoder_activation, *decoder_activation;
};

/* Write encoder_model.onnx: input_values [batch_size, samples] -> last_hidden_state [batch_size,
 * frames, d]. Errors of steno_make_write; STENO_ERR_FORMAT: a weight is missing or has another
 * shape. */
STENO_MUST steno_status steno_hf_write_moonshine_encoder(const struct steno_hf_moonshine *a,
                                                         const struct steno_make_weights *w,
                                                         const char *path, steno_err *err);
/* Write decoder_model_merged.onnx: input_ids [batch_size, 1], encoder_hidden_states, keys and
 * values of the past, use_cache_branch -> logits, keys and values. */
STENO_MUST steno_status steno_hf_write_moonshine_decoder(const struct steno_hf_moonshine *a,
                                                         const struct steno_make_weights *w,
                                                         const char *path, steno_err *err);

#endif
