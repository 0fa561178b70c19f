#include "server/live/channels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define PIECE 8192 /* frames that are taken apart at a time, at most */

struct slot {
    steno_channels *all;
    unsigned channel;
    steno_pool_stream *stream;
    float *to;          /* room that was reserved */
    bool asked;         /* it took a finalize that others have yet to take */
    uint64_t finalized; /* notes */
};

struct steno_channels {
    steno_channels_fn *fn;
    void *user;
    unsigned n;
    /* Serialises the notes. Held while fn runs, which takes the session's and the loop's locks, and
     * while streams are ended. */
    pthread_mutex_t lock;
    uint64_t finalized; /* by all */
    unsigned done;
    bool closing;                /* streams may be gone */
    struct steno_pool_note last; /* DONE of all, as far as it is known */
    steno_err err;
    float *block; /* [frames, n] reserved */
    struct slot slots[];
};

/* Lock held. Whether the note is due for the whole. */
static bool take_finalized(steno_channels *c, struct slot *s)
{
    uint64_t least;
    s->finalized++;
    least = s->finalized;
    for (unsigned i = 0; i < c->n; i++)
        if (c->slots[i].finalized < least)
            least = c->slots[i].finalized;
    if (least == c->finalized)
        return false;
    c->finalized = least;
    return true;
}

/* Lock held. Likewise. */
static bool take_done(steno_channels *c, const struct steno_pool_note *note)
{
    const double longest = c->last.stats.audio_seconds;
    const steno_status first = c->last.status;
    c->last = *note;
    if (longest > note->stats.audio_seconds)
        c->last.stats.audio_seconds = longest;
    if (!first && note->status && note->err)
        c->err = *note->err;
    if (first)
        c->last.status = first;
    c->last.err = c->last.status ? &c->err : NULL;
    return ++c->done == c->n;
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct slot *s = user;
    steno_channels *c = s->all;
    bool due = true;
    (void)ps;
    pthread_mutex_lock(&c->lock);
    if (note->kind == STENO_POOL_FINALIZED)
        due = take_finalized(c, s);
    if (note->kind == STENO_POOL_DONE) {
        due = take_done(c, note);
        if (note->status && !due && !c->closing)
            steno_channels_end(c); /* the others; what they have heard is told */
    }
    if (due)
        c->fn(c->user, s->channel, note->kind == STENO_POOL_DONE ? &c->last : note);
    pthread_mutex_unlock(&c->lock);
}

steno_status steno_channels_open(steno_channels **out, steno_pool *pool,
                                 const struct steno_pool_stream_options *opt, unsigned n,
                                 steno_channels_fn *fn, void *user, steno_err *err)
{
    steno_status st = STENO_OK;
    steno_channels *c = calloc(1, sizeof *c + n * sizeof c->slots[0]);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    pthread_mutex_init(&c->lock, NULL);
    c->fn = fn;
    c->user = user;
    c->n = n;
    for (unsigned i = 0; !st && i < n; i++) {
        c->slots[i].all = c;
        c->slots[i].channel = i;
        st = steno_pool_stream_open(&c->slots[i].stream, pool, opt, on_note, &c->slots[i], err);
    }
    if (st)
        steno_channels_close(c);
    else
        *out = c;
    return st;
}

/* Reserve room of every stream. Returns the frames that all have room for. */
static size_t reserve(steno_channels *c, size_t least, size_t most, steno_status *st,
                      steno_err *err)
{
    size_t room = most < PIECE ? most : least > PIECE ? least : PIECE;
    for (unsigned i = 0; i < c->n && room; i++) {
        *st = steno_pool_stream_room(c->slots[i].stream, least, room, &c->slots[i].to, &room, err);
        if (*st)
            return 0;
    }
    return room;
}

steno_status steno_channels_room(steno_channels *c, size_t least, size_t most, float **to,
                                 size_t *room, steno_err *err)
{
    steno_status st = STENO_OK;
    if (c->n == 1)
        return steno_pool_stream_room(c->slots[0].stream, least, most, to, room, err);
    *room = reserve(c, least, most, &st, err);
    c->block = *room ? malloc(*room * c->n * sizeof *c->block) : NULL;
    if (*room && !c->block)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    *to = c->block;
    if (st || !*room)
        steno_channels_add(c, 0);
    return st;
}

void steno_channels_add(steno_channels *c, size_t frames)
{
    for (unsigned i = 0; i < c->n; i++) {
        for (size_t k = 0; c->n > 1 && k < frames; k++)
            c->slots[i].to[k] = c->block[k * c->n + i];
        steno_pool_stream_add(c->slots[i].stream, frames);
    }
    free(c->block);
    c->block = NULL;
}

steno_status steno_channels_finalize(steno_channels *c, steno_err *err)
{
    steno_status st = STENO_OK;
    for (unsigned i = 0; i < c->n; i++) {
        steno_status one =
            c->slots[i].asked ? STENO_OK : steno_pool_stream_finalize(c->slots[i].stream, err);
        if (one && one != STENO_ERR_BUSY)
            return one;
        c->slots[i].asked = !one;
        st = one ? one : st;
    }
    for (unsigned i = 0; !st && i < c->n; i++)
        c->slots[i].asked = false;
    return st;
}

void steno_channels_end(steno_channels *c)
{
    for (unsigned i = 0; i < c->n; i++)
        steno_pool_stream_end(c->slots[i].stream);
}

void steno_channels_cancel(steno_channels *c)
{
    for (unsigned i = 0; i < c->n; i++)
        steno_pool_stream_cancel(c->slots[i].stream);
}

void steno_channels_close(steno_channels *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->n; i++)
        steno_pool_stream_close(c->slots[i].stream);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void steno_channels_get_stats(const steno_channels *c, struct steno_pool_stream_stats *st)
{
    *st = (struct steno_pool_stream_stats){0};
    for (unsigned i = 0; c && i < c->n; i++) {
        struct steno_pool_stream_stats one;
        steno_pool_stream_get_stats(c->slots[i].stream, &one);
        steno_pool_stream_stats_add(st, &one);
    }
}
