/* Moonshine's networks as graphs, in the layout of version 2 (optimum's export), for files of
 * weights, and for `steno convert`. Weights have the names of transformers'
 * MoonshineForConditionalGeneration (Jeffries et al., 2024). */
#ifndef STENO_FAMILIES_MOONSHINE_BUILD_H
#define STENO_FAMILIES_MOONSHINE_BUILD_H

#include "nn/build/make.h"

struct steno_moonshine_arch {
    int64_t d, ff, heads, vocab, encoder_layers, decoder_layers;
    int64_t rotary; /* features of a head that positions turn, before rounding up to pairs */
    double theta;
    bool bias; /* of queries, keys and values */
    const char *encoder_activation, *decoder_activation;
};

/* input_values [batch_size, samples] -> last_hidden_state [batch_size, frames, d]. Errors of
 * steno_make_begin; STENO_ERR_FORMAT: a weight is missing or has another shape. */
STENO_MUST steno_status steno_moonshine_build_encoder(const struct steno_moonshine_arch *a,
                                                      const struct steno_make_weights *w,
                                                      struct steno_graph **out, steno_err *err);
/* input_ids [batch_size, 1], encoder_hidden_states, keys and values of the past, use_cache_branch
 * -> logits, keys and values. */
STENO_MUST steno_status steno_moonshine_build_decoder(const struct steno_moonshine_arch *a,
                                                      const struct steno_make_weights *w,
                                                      struct steno_graph **out, steno_err *err);

#endif
