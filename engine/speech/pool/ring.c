#include "speech/pool/ring.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 1024 /* samples */
#define KEEP FIRST

void steno_ring_init(struct steno_ring *r, size_t max)
{
    *r = (struct steno_ring){.max = max};
}

void steno_ring_free(struct steno_ring *r)
{
    free(r->data);
    free(r->left);
    steno_ring_init(r, r->max);
}

/* Copy all samples to `out`, in one piece. */
static void copy_all(const struct steno_ring *r, float *out)
{
    const size_t first = r->len < r->end - r->head ? r->len : r->end - r->head;
    if (!r->len)
        return;
    memcpy(out, r->data + r->head, first * sizeof *out);
    memcpy(out + first, r->data, (r->len - first) * sizeof *out);
}

/* Make room for `want` samples in all, at most the limit and `least`. */
static steno_status grow(struct steno_ring *r, size_t want, size_t least)
{
    size_t cap = r->cap ? r->cap : FIRST;
    float *p;
    if (want > 4 * FIRST)
        while (cap < want)
            cap *= 2;
    else if (cap < want) /* usually a network's window and a chunk: exactly that */
        cap = (want + FIRST - 1) / FIRST * FIRST;
    if (cap > r->max) /* then `least` are free in one piece whenever half of the limit is */
        cap = r->max + least;
    p = malloc(cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    copy_all(r, p);
    if (r->held && !r->left)
        r->left = r->data;
    else
        free(r->data);
    r->data = p;
    r->cap = r->end = cap;
    r->head = 0;
    return STENO_OK;
}

/* The room behind the last sample, in one piece from *tail on. */
static size_t room_at_tail(const struct steno_ring *r, size_t *tail)
{
    const bool wrapped = r->head + r->len >= r->end;
    *tail = r->head + r->len - (wrapped ? r->end : 0);
    return (wrapped ? r->head : r->cap) - *tail;
}

steno_status steno_ring_room(struct steno_ring *r, size_t least, size_t most, float **to,
                             size_t *room)
{
    size_t free_now = r->len < r->max ? r->max - r->len : 0, tail, n;
    *room = 0;
    if (!free_now)
        return STENO_OK;
    if (!r->len) {
        r->head = 0;
        r->end = r->cap;
    }
    if (most > free_now)
        most = free_now > least ? free_now : least;
    n = room_at_tail(r, &tail);
    if (n < least && r->head + r->len < r->end && r->head >= least) {
        r->end = tail; /* the rest stays empty: the next samples go to the front */
        n = room_at_tail(r, &tail);
    }
    if (n < least && r->len + least <= r->cap && r->len > r->max / 2)
        return STENO_OK; /* there is room in two pieces: the samples would have to move */
    if (n < least || r->len + most > r->cap) {
        if (grow(r, r->len + most, least))
            return STENO_ERR_NOMEM;
        n = room_at_tail(r, &tail);
    }
    *to = r->data + tail;
    *room = n < most ? n : most;
    r->reserved = true;
    return STENO_OK;
}

/* Of an empty ring: after a burst a stream may be silent for long. */
static void shrink(struct steno_ring *r)
{
    if (!r->len && !r->reserved && !r->held && r->cap > KEEP)
        steno_ring_free(r);
}

void steno_ring_add(struct steno_ring *r, size_t n)
{
    r->len += n;
    r->reserved = false;
    shrink(r);
}

const float *steno_ring_hold(struct steno_ring *r, size_t *n)
{
    const size_t piece = r->len < r->end - r->head ? r->len : r->end - r->head;
    *n = *n < piece ? *n : piece;
    r->held = true;
    return r->data + r->head;
}

void steno_ring_drop(struct steno_ring *r, size_t n)
{
    free(r->left);
    r->left = NULL;
    r->held = false;
    r->head += n;
    r->len -= n;
    if (n && r->head == r->end) {
        r->head = 0;
        r->end = r->cap;
    }
    shrink(r);
}
