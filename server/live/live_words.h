/* Times of the words of live finals by a model that aligns them (word_times=aligned). It stands
 * between the streams of a session and the session: it keeps the audio of the last minute, and
 * takes the streams' notes. A final with words waits until a stream of the other model, on that
 * one's pool, has heard its audio, and what follows it waits behind it; everything else goes on at
 * once. No threads of its own. Where times cannot be found, the final goes on with its own.
 *
 * Locked: push, restart and close are the network's thread's, notes come from workers. */
#ifndef STENO_SERVER_LIVE_LIVE_WORDS_H
#define STENO_SERVER_LIVE_LIVE_WORDS_H

#include "protocol/hints.h"
#include "server/core/server.h"

typedef struct steno_live_words steno_live_words;

struct steno_live_words_options {
    const struct steno_server *srv;    /* outlives it, like served */
    const struct steno_served *served; /* what recognizes */
    const char *language; /* what is spoken, as far as it is given; "" = not. For the call */
    uint64_t owner;       /* as of the session's streams */
    int rate;             /* of the audio */
    unsigned channels;    /* interleaved; each has its own finals */
    /* A note for the session, one call at a time, on any thread, with the lock held: it may call
     * nothing of this module. */
    void (*fn)(void *user, unsigned channel, const struct steno_pool_note *note);
    /* Words have the times of the model that recognizes, and why; likewise. */
    void (*warn)(void *user, const char *text);
    void *user;
};

/* aligner: the model for the language as far as it is known at the beginning, in use until close;
 * taken in any case. NULL: none. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_live_words_open(steno_live_words **out,
                                              const struct steno_live_words_options *options,
                                              struct steno_served *aligner, steno_err *err);
/* fn is not called any more, and the streams are closed. *past: what its streams took is added.
 * Accepts NULL. */
void steno_live_words_close(steno_live_words *words, struct steno_pool_stream_stats *past);
/* Keep pcm [frames, channels], which the streams took. */
void steno_live_words_push(steno_live_words *words, const float *pcm, size_t frames);
/* A note of the streams. Any thread, one at a time. */
void steno_live_words_note(steno_live_words *words, unsigned channel,
                           const struct steno_pool_note *note);

#endif
