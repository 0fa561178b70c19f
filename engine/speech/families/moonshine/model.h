/* Moonshine's networks: the files of v1 (four) and v2 (two) behind one interface. */
#ifndef STENO_FAMILIES_MOONSHINE_MODEL_H
#define STENO_FAMILIES_MOONSHINE_MODEL_H

#include "speech/families/common/greedy_text.h"
#include "speech/families/common/part.h"
#include "speech/families/common/shell.h"
#include "speech/families/moonshine/file.h"

#define STENO_MOONSHINE_RATE 16000
#define STENO_MOONSHINE_FRAME ((size_t)384) /* samples of a frame of the encoder, about */
#define STENO_MOONSHINE_BEGIN 1             /* <s> */
#define STENO_MOONSHINE_END 2               /* </s> */

/* Frozen. */
struct steno_moonshine {
    struct steno_shell_model base;
    steno_moonshine_file *file;        /* that the networks are made from; NULL: they have files */
    bool merged;                       /* v2 */
    struct steno_part_file preprocess; /* v1 */
    struct steno_part_file encoder;
    struct steno_part_file first; /* decoder of the first token; v2: of all tokens */
    struct steno_part_file next;  /* v1: decoder of later tokens */
    int n_states;                 /* keys and values of the decoder: four for each layer */
    int vocab;
    size_t heads, head_dim; /* v2: of the states of the first call, which are empty */
};

/* Confined. */
typedef struct steno_moonshine_runner steno_moonshine_runner;

STENO_MUST steno_status steno_moonshine_runner_open(steno_moonshine_runner **out,
                                                    const struct steno_moonshine *m,
                                                    steno_err *err);
void steno_moonshine_runner_close(steno_moonshine_runner *r);
/* Encode samples [n]. *frames: of the encoder; 0: too few samples for one. */
STENO_MUST steno_status steno_moonshine_encode(steno_moonshine_runner *r, const float *pcm,
                                               size_t n, size_t *frames, steno_err *err);
/* Scores [vocab] of the token after number i, which is `token`; token 0 is STENO_MOONSHINE_BEGIN.
 * Valid until the next call. */
STENO_MUST steno_status steno_moonshine_decode(steno_moonshine_runner *r, size_t i, int32_t token,
                                               const float **scores, steno_err *err);

#endif
