/* What a server keeps of a live session for another one that goes on with it: how far its results
 * reach, and its settings. A text of "&NAME=VALUE" pairs, percent-encoded; names of settings are
 * those of `start`, the others begin with a point. Pure. */
#ifndef STENO_PROTOCOL_SESSION_HEAD_H
#define STENO_PROTOCOL_SESSION_HEAD_H

#include "protocol/stream_native.h"

#define STENO_SESSION_HEAD_MAX 131072 /* bytes of the text */

struct steno_session_head {
    uint64_t seq;                               /* of the next message */
    uint64_t lost;                              /* messages below it are not kept */
    uint64_t finals;                            /* made so far */
    int64_t audio_ms;                           /* audio processed so far */
    int rate;                                   /* Hz, of the samples that are counted */
    unsigned channels;                          /* with a transcript each; 1 without multichannel */
    int64_t samples[STENO_AUDIO_MAX_CHANNELS];  /* of each channel, that are in its finals */
    int64_t segments[STENO_AUDIO_MAX_CHANNELS]; /* finals of each channel */
    bool over;                                  /* its last message is made; then also: */
    int ending, close_code;                     /* how it ended; numbers of the server's own */
    char code[40];                              /* of its error; "" = none */
    struct steno_native_start start;            /* hints point to the next */
    struct steno_hint_store hints;
};

/* Append h as text. STENO_ERR_LIMIT or STENO_ERR_NOMEM from the buffer. */
STENO_MUST steno_status steno_session_head_write(struct steno_buf *out,
                                                 const struct steno_session_head *h);
/* Read what write wrote. out: freed by steno_session_head_free, and not to be moved. Errors:
 * STENO_ERR_FORMAT, and those of steno_native_query; then nothing is to be freed. */
STENO_MUST steno_status steno_session_head_read(const char *text, struct steno_session_head *out,
                                                steno_err *err);
void steno_session_head_free(struct steno_session_head *h);

#endif
