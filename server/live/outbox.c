#include "server/live/outbox.h"

#include <string.h>

/* A buffer that grew past this for a burst is freed once it is empty. */
#define KEEP_BYTES 4096

void steno_outbox_init(struct steno_outbox *o, size_t max_bytes)
{
    /* read records before `head` are removed before the buffer grows past 2 * max */
    steno_buf_init(&o->bytes, 2 * max_bytes);
    steno_buf_init(&o->spare, max_bytes);
    steno_outbox_clear(o);
}

void steno_outbox_free(struct steno_outbox *o)
{
    steno_buf_free(&o->bytes);
    steno_buf_free(&o->spare);
    steno_outbox_clear(o);
}

struct steno_buf *steno_outbox_begin(struct steno_outbox *o)
{
    steno_buf_reset(&o->spare);
    return &o->spare;
}

size_t steno_outbox_size(const struct steno_outbox *o)
{
    return o->bytes.len - o->head;
}

steno_status steno_outbox_commit(struct steno_outbox *o, bool replaceable, bool *replaced)
{
    bool replace = replaceable && o->replaceable != SIZE_MAX;
    size_t len = o->spare.len, at = replace ? o->replaceable : o->bytes.len;
    steno_status st;
    if (replaced)
        *replaced = replace;
    if (at - o->head + sizeof len + len > o->spare.max)
        return STENO_ERR_LIMIT;
    st = steno_buf_reserve(&o->bytes, sizeof len + len);
    if (st)
        return st;
    if (replace) {
        o->bytes.len = at;
        o->count--;
    }
    st = steno_buf_add(&o->bytes, &len, sizeof len);
    if (!st)
        st = steno_buf_add(&o->bytes, o->spare.data, len);
    o->count++;
    o->replaceable = replaceable ? at : SIZE_MAX;
    return st;
}

steno_status steno_outbox_put(struct steno_outbox *o, const char *text, size_t n)
{
    steno_status st;
    if (o->bytes.len - o->head + sizeof n + n > o->spare.max)
        return STENO_ERR_LIMIT;
    st = steno_buf_reserve(&o->bytes, sizeof n + n);
    if (!st)
        st = steno_buf_add(&o->bytes, &n, sizeof n);
    if (!st)
        st = steno_buf_add(&o->bytes, text, n);
    if (st)
        return st;
    o->count++;
    o->replaceable = SIZE_MAX;
    return STENO_OK;
}

/* Move the unread records to the front when the read ones outweigh them. */
static void compact(struct steno_outbox *o)
{
    if (!o->count) {
        steno_outbox_clear(o);
        if (o->bytes.cap > KEEP_BYTES)
            steno_buf_free(&o->bytes);
        if (o->spare.cap > KEEP_BYTES)
            steno_buf_free(&o->spare);
    } else if (o->head > o->bytes.len / 2) {
        steno_buf_drop(&o->bytes, o->head);
        if (o->replaceable != SIZE_MAX)
            o->replaceable -= o->head;
        o->head = 0;
    }
}

steno_status steno_outbox_take(struct steno_outbox *o, struct steno_buf *out)
{
    size_t len;
    steno_status st;
    if (!o->count)
        return STENO_NEED_MORE;
    memcpy(&len, o->bytes.data + o->head, sizeof len);
    st = steno_buf_add(out, o->bytes.data + o->head + sizeof len, len);
    if (st)
        return st;
    if (o->replaceable == o->head)
        o->replaceable = SIZE_MAX;
    o->head += sizeof len + len;
    o->count--;
    compact(o);
    return STENO_OK;
}

void steno_outbox_clear(struct steno_outbox *o)
{
    steno_buf_reset(&o->bytes);
    o->head = o->count = 0;
    o->replaceable = SIZE_MAX;
}
