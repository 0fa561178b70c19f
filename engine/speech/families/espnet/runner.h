/* A runner of an espnet_onnx directory: sessions and buffers. For net.c and search.c. */
#ifndef STENO_FAMILIES_ESPNET_RUNNER_H
#define STENO_FAMILIES_ESPNET_RUNNER_H

#include "speech/families/espnet/recurrent.h"
#include "speech/families/espnet/scorer.h"
#include "speech/families/common/cached_decoder.h"

/* Runs one utterance at a time. Confined between acquire and release. */
struct steno_espnet_runner {
    struct steno_espnet *e;
    steno_espnet_runner *next; /* idle list */
    steno_fbank *fbank;
    steno_session *encoder, *ctc;
    steno_espnet_scorer *decoder,
        *lm; /* with whole prefixes; NULL: cached_decoder, cached_lm instead */
    steno_cached_decoder *cached_decoder, *cached_lm;
    struct steno_espnet_rnns recurrent;
    float *feats, *rows, *scratch; /* aligned; they grow */
    size_t cap_feats, cap_rows, cap_scratch;
    steno_joint *joint;
    struct steno_espnet_search joint_for; /* the settings of `joint` */
};

#endif
