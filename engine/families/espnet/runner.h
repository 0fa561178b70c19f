/* What a runner of an espnet_onnx directory is made of: sessions and buffers. For espnet_net.c and
 * espnet_search.c. */
#ifndef STENO_FAMILIES_ESPNET_RUNNER_H
#define STENO_FAMILIES_ESPNET_RUNNER_H

#include "families/espnet/recurrent.h"
#include "families/espnet/scorer.h"
#include "families/common/cached_decoder.h"

/* One utterance at a time. Confined while lent. */
struct steno_espnet_runner {
    struct steno_espnet *e;
    steno_espnet_runner *next; /* idle list */
    steno_fbank *fbank;
    steno_session *encoder, *ctc;
    steno_espnet_scorer *decoder, *lm; /* whole prefixes; NULL where there is the other one */
    steno_cached_decoder *cached_decoder, *cached_lm;
    struct steno_espnet_rnns recurrent;
    float *feats, *rows, *scratch; /* aligned; grown */
    size_t cap_feats, cap_rows, cap_scratch;
    steno_joint *joint;
    struct steno_espnet_search joint_for; /* what `joint` was made for */
};

#endif
