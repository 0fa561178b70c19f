/* Moonshine's streaming networks, and what a stream keeps of a chunk that grows: the front end's
 * states, features, and memory of the decoder, so that each update computes what is new. The loop
 * is that of moonshine-ai's C++ library (core/moonshine-streaming-model.cpp, by its description in
 * families-2026.md of the reference data).
 *
 *     frontend    audio_chunk [1,n], its states -> features [1,T,d], states ..._out
 *     encoder     features [1,T,d] -> encoded [1,T,d]
 *     adapter     encoded [1,T,d], pos_offset [1] -> memory [1,T,D]
 *     cross_kv    memory [1,T,D] -> k_cross, v_cross
 *     decoder_kv  token [1,1], k_self, v_self, out_k_cross, out_v_cross -> logits, out_k_self, ...
 */
#ifndef STENO_FAMILIES_MOONSHINE_LIVE_H
#define STENO_FAMILIES_MOONSHINE_LIVE_H

#include "formats/json.h"
#include "speech/families/common/greedy_text.h"
#include "speech/families/common/shell.h"

#define STENO_MOONSHINE_LIVE_FRAME ((size_t)320) /* samples of a frame of features */

enum steno_moonshine_part {
    STENO_LIVE_FRONTEND,
    STENO_LIVE_ENCODER,
    STENO_LIVE_ADAPTER,
    STENO_LIVE_CROSS_KV,
    STENO_LIVE_DECODER_KV,
    STENO_LIVE_PARTS
};

/* Of streaming_config.json. */
struct steno_moonshine_live_conf {
    int64_t depth, lookahead; /* layers of the decoder; features that an encoded row waits for */
    int64_t begin, end, most; /* tokens; of a text at most */
    int64_t vocab;
};

/* Read streaming_config.json; name: for messages. STENO_ERR_FORMAT names the key. */
STENO_MUST steno_status steno_moonshine_live_conf_read(struct steno_moonshine_live_conf *c,
                                                       const struct steno_json_node *root,
                                                       const char *name, steno_err *err);

/* States of the front end. */
#define STENO_LIVE_STATES 5

/* Frozen. base.part: the networks. */
struct steno_moonshine_live_model {
    struct steno_shell_model base;
    struct steno_moonshine_live_conf conf;
    int state_in[STENO_LIVE_STATES], state_out[STENO_LIVE_STATES];
    struct steno_tensor state[STENO_LIVE_STATES]; /* type and shape; no elements */
    int64_t width, encoded, memory; /* of a feature, of a row of the encoder, of the memory */
    int64_t heads, head;            /* of the decoder's keys and values; width of a head */
};

/* Match networks and configuration. STENO_ERR_FORMAT names what is missing. */
STENO_MUST steno_status steno_moonshine_live_bind(struct steno_moonshine_live_model *m,
                                                  steno_err *err);

/* Of a chunk of audio. All zero: nothing has been fed. Confined. */
struct steno_moonshine_live {
    char *state[STENO_LIVE_STATES];        /* NULL: zeros */
    size_t state_bytes[STENO_LIVE_STATES]; /* allocated */
    size_t fed;                            /* samples */
    float *features, *memory;              /* [n_features, width], [n_memory, memory] */
    size_t n_features, n_memory, cap_features, cap_memory;
};

/* Begin another chunk. */
void steno_moonshine_live_reset(struct steno_moonshine_live *l);
void steno_moonshine_live_free(struct steno_moonshine_live *l);

/* With sessions of the networks, compute what is new in samples [n] of a chunk, of which l->fed are
 * known. final: no more follow, and the last features wait for none. */
STENO_MUST steno_status steno_moonshine_live_feed(struct steno_shell_worker *w,
                                                  struct steno_moonshine_live *l, const float *pcm,
                                                  size_t n, bool final, steno_err *err);
/* Write the text of the memory into t, from its first token on. */
STENO_MUST steno_status steno_moonshine_live_decode(struct steno_shell_worker *w,
                                                    const struct steno_moonshine_live *l,
                                                    struct steno_greedy_text *t, steno_err *err);

#endif
