/* The streams of one live session: one, or one for each channel of its audio. They are filled with
 * interleaved samples and seem to be one stream. Calls except close from one thread; notes come
 * from workers, one at a time. */
#ifndef STENO_SERVER_LIVE_CHANNELS_H
#define STENO_SERVER_LIVE_CHANNELS_H

#include "speech/pool/pool.h"

typedef struct steno_channels steno_channels;

/* As steno_pool_fn, with the channel from 0. FINALIZED and DONE come once for all: DONE with the
 * first error there was, and the longest of the channels' audio. */
typedef void steno_channels_fn(void *user, unsigned channel, const struct steno_pool_note *note);

/* Open n streams. Errors as of steno_pool_stream_open; then none is open. */
STENO_MUST steno_status steno_channels_open(steno_channels **out, steno_pool *pool,
                                            const struct steno_pool_stream_options *opt, unsigned n,
                                            steno_channels_fn *fn, void *user, steno_err *err);
/* As of one stream, for all: *to [*room, n] is for interleaved frames. */
STENO_MUST steno_status steno_channels_room(steno_channels *c, size_t least, size_t most,
                                            float **to, size_t *room, steno_err *err);
void steno_channels_add(steno_channels *c, size_t frames);
STENO_MUST steno_status steno_channels_finalize(steno_channels *c, steno_err *err);
void steno_channels_end(steno_channels *c);
void steno_channels_cancel(steno_channels *c);
void steno_channels_close(steno_channels *c); /* no note comes after it; NULL too */
/* Sums over all; NULL: zero. */
void steno_channels_get_stats(const steno_channels *c, struct steno_pool_stream_stats *st);

#endif
