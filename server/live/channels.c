/* A push may find room in one stream and none in another. The streams that took more remember by
 * how much they are ahead, and leave that out when the same samples come again. The least is always
 * 0.
 */
#include "server/live/channels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define PIECE 1024 /* frames that are taken apart at a time */

struct slot {
    steno_channels *all;
    unsigned channel;
    steno_pool_stream *stream;
    size_t ahead;       /* frames, of those to come */
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

/* Push what stream s has not taken yet. *total: the frames that it has. */
static steno_status push_one(struct slot *s, const float *x, size_t frames, size_t *total,
                             steno_err *err)
{
    const unsigned n = s->all->n;
    float mono[PIECE];
    size_t at = s->ahead, taken = 0, k;
    steno_status st = STENO_OK;
    for (; !st && at < frames; at += taken) {
        k = frames - at < PIECE ? frames - at : PIECE;
        for (size_t i = 0; i < k; i++)
            mono[i] = x[(at + i) * n + s->channel];
        taken = 0;
        st = steno_pool_stream_push(s->stream, mono, k, &taken, err);
        if (taken < k)
            break;
    }
    *total = at + (at < frames ? taken : 0);
    return st;
}

steno_status steno_channels_push(steno_channels *c, const float *x, size_t frames, size_t *taken,
                                 steno_err *err)
{
    size_t least = frames;
    steno_status st = STENO_OK;
    if (c->n == 1)
        return steno_pool_stream_push(c->slots[0].stream, x, frames, taken, err);
    for (unsigned i = 0; !st && i < c->n; i++) {
        size_t total = 0;
        st = push_one(&c->slots[i], x, frames, &total, err);
        c->slots[i].ahead = total;
        least = total < least ? total : least;
    }
    if (st)
        return st;
    for (unsigned i = 0; i < c->n; i++)
        c->slots[i].ahead -= least;
    *taken = least;
    return STENO_OK;
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
