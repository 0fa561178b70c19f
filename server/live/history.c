#include "server/live/history.h"

#include <string.h>

struct record {
    uint64_t seq;
    size_t n;
};

void steno_history_init(struct steno_history *h, size_t most)
{
    *h = (struct steno_history){.most = most};
    /* dropped records stay before `head` until they outweigh the rest */
    steno_buf_init(&h->bytes, 2 * most);
}

void steno_history_free(struct steno_history *h)
{
    steno_buf_free(&h->bytes);
}

static struct record record_at(const struct steno_history *h, size_t at)
{
    struct record r;
    memcpy(&r, h->bytes.data + at, sizeof r);
    return r;
}

static void drop_oldest(struct steno_history *h)
{
    struct record r = record_at(h, h->head);
    h->lost = r.seq + 1;
    h->head += sizeof r + r.n;
    if (h->head >= h->bytes.len - h->head) {
        steno_buf_drop(&h->bytes, h->head);
        h->head = 0;
    }
}

void steno_history_add(struct steno_history *h, uint64_t seq, const char *text, size_t n)
{
    struct record r = {seq, n};
    size_t need;
    bool fits = steno_add_size(sizeof r, n, &need) && need <= h->most;
    while (h->bytes.len > h->head && (!fits || h->bytes.len - h->head > h->most - need))
        drop_oldest(h);
    if (!fits || steno_buf_reserve(&h->bytes, need) || steno_buf_add(&h->bytes, &r, sizeof r) ||
        steno_buf_add(&h->bytes, text, n))
        h->lost = seq + 1; /* out of memory; after a successful reserve the adds succeed */
}

bool steno_history_has(const struct steno_history *h, uint64_t next)
{
    return next >= h->lost;
}

bool steno_history_next(const struct steno_history *h, uint64_t next, size_t *at, uint64_t *seq,
                        const char **text, size_t *n)
{
    size_t i = *at < h->head ? h->head : *at;
    while (i < h->bytes.len) {
        struct record r = record_at(h, i);
        i += sizeof r + r.n;
        if (r.seq < next)
            continue;
        *text = h->bytes.data + i - r.n;
        *n = r.n;
        *seq = r.seq;
        *at = i;
        return true;
    }
    return false;
}

bool steno_history_fits(const struct steno_history *h, size_t n, uint64_t from)
{
    size_t need, kept = 0, at = h->head;
    if (!steno_add_size(sizeof(struct record), n, &need) || need > h->most)
        return false;
    while (at < h->bytes.len) {
        const struct record r = record_at(h, at);
        if (r.seq >= from) {
            kept = h->bytes.len - at;
            break;
        }
        at += sizeof r + r.n;
    }
    return kept <= h->most - need;
}

steno_status steno_record_add(struct steno_buf *b, uint64_t seq, const char *text, size_t n)
{
    const struct record r = {seq, n};
    steno_status st = steno_buf_reserve(b, sizeof r + n);
    if (!st)
        st = steno_buf_add(b, &r, sizeof r);
    return st ? st : steno_buf_add(b, text, n);
}

bool steno_record_next(const struct steno_buf *b, size_t *at, uint64_t *seq, const char **text,
                       size_t *n)
{
    struct record r;
    if (*at >= b->len)
        return false;
    memcpy(&r, b->data + *at, sizeof r);
    *seq = r.seq;
    *text = b->data + *at + sizeof r;
    *n = r.n;
    *at += sizeof r + r.n;
    return true;
}
