#include "audio/ogg_vorbis.h"

#include <errno.h>
#include <ogg/ogg.h>
#include <string.h>
#include <vorbis/codec.h>

#define READ_BYTES 4096
#define MAX_HEADER_BYTES ((size_t)16 << 20)

static const char *const header_names[] = {"identification", "comment", "setup"};

struct check {
    steno_ogg_read_fn *read;
    void *user;
    ogg_sync_state sync;
    ogg_stream_state stream;
    vorbis_info info;
    vorbis_comment comment;
    int headers;      /* parsed so far */
    bool begun, done; /* the stream's first page was read; nothing more to check */
    size_t bytes;
};

static steno_status damaged(const struct check *c, const char *how, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "Ogg Vorbis: the %s header is %s",
                      header_names[c->headers], how);
}

static steno_status on_packet(struct check *c, ogg_packet *p, steno_err *err)
{
    if (!c->headers && (p->bytes < 7 || memcmp(p->packet, "\1vorbis", 7))) {
        c->done = true; /* another codec: its own reader checks it */
        return STENO_OK;
    }
    if (vorbis_synthesis_headerin(&c->info, &c->comment, p))
        return damaged(c, "damaged", err);
    c->done = ++c->headers == 3;
    return STENO_OK;
}

static steno_status on_page(struct check *c, ogg_page *page, steno_err *err)
{
    ogg_packet p;
    int got;
    steno_status st = STENO_OK;
    if (!c->begun) {
        if (ogg_stream_reset_serialno(&c->stream, ogg_page_serialno(page)))
            return steno_fail(err, STENO_ERR_INTERNAL, "Ogg: the stream state cannot be used");
        c->begun = true;
    }
    if (ogg_stream_pagein(&c->stream, page))
        return STENO_OK; /* a page of another logical stream */
    while (!st && !c->done && (got = ogg_stream_packetout(&c->stream, &p)))
        st = got < 0 ? damaged(c, "damaged", err) : on_packet(c, &p, err);
    return st;
}

static steno_status more(struct check *c, steno_err *err)
{
    char *buf = ogg_sync_buffer(&c->sync, READ_BYTES);
    ssize_t n;
    if (!buf)
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg: out of memory");
    n = c->read(c->user, buf, READ_BYTES);
    if (n < 0)
        return steno_fail(err, STENO_ERR_IO, "reading the audio: %s", strerror(errno));
    if (!n)
        return c->begun ? damaged(c, "cut off", err)
                        : steno_fail(err, STENO_ERR_FORMAT, "Ogg: there is no whole page");
    c->bytes += (size_t)n;
    if (c->bytes > MAX_HEADER_BYTES)
        return steno_fail(err, STENO_ERR_LIMIT, "Ogg Vorbis: headers of more than %zu bytes",
                          MAX_HEADER_BYTES);
    if (ogg_sync_wrote(&c->sync, n))
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg: out of memory");
    return STENO_OK;
}

steno_status steno_ogg_vorbis_check(steno_ogg_read_fn *read, void *user, steno_err *err)
{
    struct check c = {.read = read, .user = user};
    ogg_page page;
    steno_status st = STENO_OK;
    ogg_sync_init(&c.sync);
    ogg_stream_init(&c.stream, 0);
    vorbis_info_init(&c.info);
    vorbis_comment_init(&c.comment);
    while (!st && !c.done)
        st = ogg_sync_pageout(&c.sync, &page) > 0 ? on_page(&c, &page, err) : more(&c, err);
    vorbis_comment_clear(&c.comment);
    vorbis_info_clear(&c.info);
    ogg_stream_clear(&c.stream);
    ogg_sync_clear(&c.sync);
    return st;
}
