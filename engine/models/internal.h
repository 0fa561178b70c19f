/* What model.c and stream.c share. */
#ifndef STENO_MODELS_INTERNAL_H
#define STENO_MODELS_INTERNAL_H

#include "decoder/ctc.h"
#include "decoder/tokens.h"
#include "features/fbank.h"
#include "models/conf.h"
#include "models/ctc_streaming.h"
#include "steno.h"

/* Frozen after open. */
struct steno_model {
    char *dir;
    struct steno_model_conf conf;
    steno_tokens *tokens;
    int32_t blank;
    steno_network *net;
    struct steno_ctcnet ctc;
    struct steno_fbank_options fbank;
    int threads;
    size_t hop;          /* samples per feature frame, model rate */
    size_t stream_bytes; /* measured by the trial step at load */
};

#endif
