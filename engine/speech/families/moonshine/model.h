/* Moonshine's networks: the files of v1 (four) and v2 (two) behind one interface. */
#ifndef STENO_FAMILIES_MOONSHINE_MODEL_H
#define STENO_FAMILIES_MOONSHINE_MODEL_H

#include "speech/families/common/greedy_text.h"
#include "speech/families/common/shell.h"
#include "speech/families/moonshine/file.h"

#define STENO_MOONSHINE_RATE 16000
#define STENO_MOONSHINE_FRAME ((size_t)384) /* samples of a frame of the encoder, about */
#define STENO_MOONSHINE_BEGIN 1             /* <s> */
#define STENO_MOONSHINE_END 2               /* </s> */

/* Networks, in base.part. */
enum {
    STENO_MOONSHINE_ENCODER,
    STENO_MOONSHINE_FIRST,      /* decoder of the first token; v2: of all tokens */
    STENO_MOONSHINE_NEXT,       /* v1: decoder of later tokens */
    STENO_MOONSHINE_PREPROCESS, /* v1 */
    STENO_MOONSHINE_PARTS
};

/* Frozen. */
struct steno_moonshine {
    struct steno_shell_model base;
    steno_moonshine_file *file; /* that the networks are made from; NULL: they have files */
    bool merged;                /* v2 */
    int n_states;               /* keys and values of the decoder: four for each layer */
    int vocab;
    size_t heads, head_dim; /* v2: of the states of the first call, which are empty */
};

/* Begins the worker: sessions of the networks. Confined. */
struct steno_moonshine_runner {
    struct steno_shell_worker base;
    steno_session *next;                /* v2: of the first decoder, for later tokens */
    const struct steno_tensor *encoded; /* [1, frames, width], of the encoder's session */
    size_t samples;
    struct steno_ones ones;
};

/* Encode samples [n]. *frames: of the encoder; 0: too few samples for one. */
STENO_MUST steno_status steno_moonshine_encode(struct steno_moonshine_runner *r, const float *pcm,
                                               size_t n, size_t *frames, steno_err *err);
/* Scores [vocab] of the token after number i, which is `token`; token 0 is STENO_MOONSHINE_BEGIN.
 * Valid until the next call. */
STENO_MUST steno_status steno_moonshine_decode(struct steno_moonshine_runner *r, size_t i,
                                               int32_t token, const float **scores, steno_err *err);

#endif
