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

static void copy_all(const struct steno_ring *r, float *out)
{
    const size_t first = r->len < r->cap - r->head ? r->len : r->cap - r->head;
    if (!r->len)
        return;
    memcpy(out, r->data + r->head, first * sizeof *out);
    memcpy(out + first, r->data, (r->len - first) * sizeof *out);
}

static steno_status grow(struct steno_ring *r, size_t want)
{
    size_t cap = r->cap ? r->cap : FIRST;
    float *p;
    if (want > 4 * FIRST)
        while (cap < want)
            cap *= 2;
    else if (cap < want) /* usually a network's window and a chunk: exactly that */
        cap = (want + FIRST - 1) / FIRST * FIRST;
    if (cap > r->max)
        cap = r->max;
    p = malloc(cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    copy_all(r, p);
    if (r->held && !r->left)
        r->left = r->data;
    else
        free(r->data);
    r->data = p;
    r->cap = cap;
    r->head = 0;
    return STENO_OK;
}

steno_status steno_ring_push(struct steno_ring *r, const float *pcm, size_t n, size_t *taken)
{
    size_t tail, first;
    if (n > r->max - r->len)
        n = r->max - r->len;
    if (r->len + n > r->cap && grow(r, r->len + n))
        return STENO_ERR_NOMEM;
    *taken = n;
    if (!n)
        return STENO_OK;
    tail = (r->head + r->len) % r->cap;
    first = n < r->cap - tail ? n : r->cap - tail;
    memcpy(r->data + tail, pcm, first * sizeof *pcm);
    memcpy(r->data, pcm + first, (n - first) * sizeof *pcm);
    r->len += n;
    return STENO_OK;
}

const float *steno_ring_hold(struct steno_ring *r, size_t *n)
{
    const size_t piece = r->len < r->cap - r->head ? r->len : r->cap - r->head;
    *n = *n < piece ? *n : piece;
    r->held = true;
    return r->data + r->head;
}

void steno_ring_drop(struct steno_ring *r, size_t n)
{
    free(r->left);
    r->left = NULL;
    r->held = false;
    if (!n)
        return;
    r->head = (r->head + n) % r->cap;
    r->len -= n;
    if (!r->len && r->cap > KEEP) /* after a burst: a stream may be silent for long */
        steno_ring_free(r);
}
