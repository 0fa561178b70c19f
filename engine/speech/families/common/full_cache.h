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
    const char *name;  /* of the file, borrowed */
    bool offset_alone; /* the offset is a number, not a list of one */
    int in[STENO_FULL_CACHE_INPUTS];
    int64_t dim[5]; /* of a cache; that of positions is 0 where the file leaves it open */
    int axis;       /* which one that is: 2 or 3 */
    int vocab;
};

/* Find the inputs of p's network and its caches. STENO_ERR_FORMAT: it is no such decoder, or has
 * more positions than above. */
STENO_MUST steno_status steno_full_cache_bind(struct steno_full_cache *d,
                                              const struct steno_part_file *p, int axis, int vocab,
                                              steno_err *err);

/* Begins the models of families with such a decoder: base.part[0] is the encoder, [1] the decoder.
 */
struct steno_full_cache_model {
    struct steno_shell_model base;
    struct steno_full_cache cache;
};

/* Begins their workers, with sessions of both parts. Confined. */
struct steno_full_cache_worker {
    struct steno_shell_worker base;
    struct steno_greedy_text text;
    float *zeros; /* [cap] the caches before the first token */
    size_t cap;
};
/* Of the shell. */
STENO_MUST steno_status steno_full_cache_worker_open(void *worker, const void *model, int max,
                                                     steno_err *err);
void steno_full_cache_worker_close(void *worker);
/* End the encoder's run r, whose inputs are set, and hand its outputs 0 and 1, the cross keys and
 * values [layers,1,frames,width], to the decoder. The encoder's session stays as it is until the
 * text is written. STENO_ERR_FORMAT: they are no such outputs; errors of steno_run_end. */
STENO_MUST steno_status steno_full_cache_encode(struct steno_full_cache_worker *w,
                                                struct steno_run *r, size_t *frames);
/* Write the likeliest text into w->text: read prompt [n] at once, then a token at a time, until
 * `end` or `most` tokens. positions: of the caches where the file leaves that open; the caller sees
 * to it that prompt and text fit. STENO_ERR_FORMAT: scores are no numbers, or too few; errors of
 * steno_session_run. */
STENO_MUST steno_status steno_full_cache_write(struct steno_full_cache_worker *w,
                                               const int64_t *prompt, size_t n, size_t most,
                                               int64_t positions, int32_t end, steno_err *err);

#endif
