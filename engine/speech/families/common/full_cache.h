/* An attention decoder whose file takes and gives caches of all its positions, as sherpa-onnx
 * exports them:
 *
 *     tokens i64 [1,n], self keys and values, cross keys and values, offset i64 -> logits
 * [1,n,vocab], self keys and values
 *
 * Self keys and values have five dimensions: layers, 1, and positions, heads and width in one order
 * or another. */
#ifndef STENO_FAMILIES_COMMON_FULL_CACHE_H
#define STENO_FAMILIES_COMMON_FULL_CACHE_H

#include "nn/network/network.h"
#include "speech/families/common/greedy_text.h"
#include "speech/families/common/shell.h"

#define STENO_FULL_CACHE_POSITIONS 65536 /* of a decoder, at most */

enum steno_full_cache_input {
    STENO_FULL_CACHE_TOKENS,
    STENO_FULL_CACHE_SELF_K,
    STENO_FULL_CACHE_SELF_V,
    STENO_FULL_CACHE_CROSS_K,
    STENO_FULL_CACHE_CROSS_V,
    STENO_FULL_CACHE_OFFSET,
    STENO_FULL_CACHE_INPUTS
};

/* Frozen. */
struct steno_full_cache {
    const steno_network *net;
    const char *name; /* of the file, borrowed */
    int in[STENO_FULL_CACHE_INPUTS];
    int64_t dim[5]; /* of a cache; that of positions is 0 where the file leaves it open */
    int axis;       /* which one that is: 2 or 3 */
    int vocab;
};

/* Find the inputs of net and its caches. STENO_ERR_FORMAT: it is no such decoder, or has more
 * positions than above. */
STENO_MUST steno_status steno_full_cache_bind(struct steno_full_cache *d, const steno_network *net,
                                              const char *name, int axis, int vocab,
                                              steno_err *err);

/* Confined. */
struct steno_full_cache_run {
    const struct steno_full_cache *d;
    steno_session *encoder, *session; /* the decoder's borrows from the encoder's */
    struct steno_greedy_text text;
    float *zeros; /* [cap] the caches before the first token */
    size_t cap;
};
/* d and both networks are those of model m. Close also after a failure. */
STENO_MUST steno_status steno_full_cache_run_open(struct steno_full_cache_run *r,
                                                  const struct steno_full_cache *d,
                                                  const struct steno_shell_model *m,
                                                  steno_network *encoder, steno_network *decoder,
                                                  steno_err *err);
void steno_full_cache_run_close(struct steno_full_cache_run *r);
/* Run the encoder, whose inputs are set, and hand its outputs 0 and 1, the cross keys and values
 * [layers,1,frames,width], to the decoder. The encoder's session stays as it is until the text is
 * written. STENO_ERR_FORMAT: they are no such outputs; errors of steno_session_run. */
STENO_MUST steno_status steno_full_cache_encode(struct steno_full_cache_run *r, size_t *frames,
                                                steno_err *err);
/* Write the likeliest text into r->text: read prompt [n] at once, then a token at a time, until
 * `end` or `most` tokens. positions: of the caches where the file leaves that open; the caller sees
 * to it that prompt and text fit. STENO_ERR_FORMAT: scores are no numbers, or too few; errors of
 * steno_session_run. */
STENO_MUST steno_status steno_full_cache_write(struct steno_full_cache_run *r,
                                               const int64_t *prompt, size_t n, size_t most,
                                               int64_t positions, int32_t end, steno_err *err);

#endif
