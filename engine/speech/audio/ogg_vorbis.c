/* bytes --libogg sync--> pages --on_page--> packets --libvorbis--> samples. libvorbis trims the
 * start and the end of a link by its granule positions, and joins what is left after a lost page
 * without noise; the time of the lost page is left out, as ffmpeg does. */
#include "speech/audio/ogg_vorbis.h"

#include <ogg/ogg.h>
#include <stdlib.h>
#include <string.h>
#include <vorbis/codec.h>

#define MAX_HEADER_BYTES ((size_t)16 << 20)

static const char *const header_names[] = {"identification", "comment", "setup"};

struct steno_ogg_vorbis {
    ogg_sync_state sync;
    ogg_stream_state stream;
    vorbis_info vi;
    vorbis_comment comment;
    vorbis_dsp_state dsp;
    vorbis_block block;
    bool has_dsp, begun, ended; /* begun: a Vorbis link's first page was read */
    bool data;                  /* a page after the first ones of this link was read */
    unsigned headers;           /* of the link, parsed */
    size_t header_bytes;
    struct steno_ogg_vorbis_info info;
};

steno_status steno_ogg_vorbis_open(steno_ogg_vorbis **out, steno_err *err)
{
    steno_ogg_vorbis *o = calloc(1, sizeof *o);
    if (!o || ogg_stream_init(&o->stream, 0)) {
        free(o);
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg: out of memory");
    }
    ogg_sync_init(&o->sync);
    vorbis_info_init(&o->vi);
    vorbis_comment_init(&o->comment);
    *out = o;
    return STENO_OK;
}

static void drop_link(steno_ogg_vorbis *o)
{
    if (o->has_dsp) {
        vorbis_block_clear(&o->block);
        vorbis_dsp_clear(&o->dsp);
    }
    o->has_dsp = false;
    vorbis_comment_clear(&o->comment);
    vorbis_info_clear(&o->vi);
}

void steno_ogg_vorbis_close(steno_ogg_vorbis *o)
{
    if (!o)
        return;
    drop_link(o);
    ogg_stream_clear(&o->stream);
    ogg_sync_clear(&o->sync);
    free(o);
}

static steno_status damaged(const steno_ogg_vorbis *o, const char *how, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "Ogg Vorbis: the %s header is %s",
                      header_names[o->headers], how);
}

steno_status steno_ogg_vorbis_feed(steno_ogg_vorbis *o, const void *data, size_t n, steno_err *err)
{
    char *dst = ogg_sync_buffer(&o->sync, (long)n);
    if (!dst)
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg: out of memory");
    memcpy(dst, data, n);
    if (o->headers < 3) {
        o->header_bytes += n;
        if (o->header_bytes > MAX_HEADER_BYTES)
            return steno_fail(err, STENO_ERR_LIMIT, "Ogg Vorbis: headers of more than %zu bytes",
                              MAX_HEADER_BYTES);
    }
    if (ogg_sync_wrote(&o->sync, (long)n))
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg: out of memory");
    return STENO_OK;
}

static void begin_link(steno_ogg_vorbis *o, ogg_page *page)
{
    drop_link(o);
    vorbis_info_init(&o->vi);
    vorbis_comment_init(&o->comment);
    ogg_stream_reset_serialno(&o->stream, ogg_page_serialno(page));
    o->begun = true;
    o->headers = 0;
    o->header_bytes = 0;
    o->data = o->ended = false;
}

static steno_status on_page(steno_ogg_vorbis *o, ogg_page *page, steno_err *err)
{
    bool vorbis = page->body_len >= 7 && !memcmp(page->body, "\1vorbis", 7);
    /* first pages of parallel streams stand together; one after data begins the next link */
    if (ogg_page_bos(page) && vorbis && (!o->begun || o->data))
        begin_link(o, page);
    else if (!ogg_page_bos(page) && !o->begun)
        return steno_fail(err, STENO_ERR_FORMAT, "Ogg without an Opus, Vorbis or FLAC stream");
    else if (!ogg_page_bos(page))
        o->data = true;
    if (ogg_stream_pagein(&o->stream, page))
        return STENO_OK; /* a page of another logical stream */
    o->ended |= ogg_page_eos(page) != 0;
    return STENO_OK;
}

static steno_status on_header(steno_ogg_vorbis *o, ogg_packet *p, steno_err *err)
{
    if (vorbis_synthesis_headerin(&o->vi, &o->comment, p))
        return damaged(o, "damaged", err);
    if (++o->headers < 3)
        return STENO_OK;
    if (vorbis_synthesis_init(&o->dsp, &o->vi))
        return steno_fail(err, STENO_ERR_FORMAT, "Ogg Vorbis: the headers cannot be used");
    vorbis_block_init(&o->dsp, &o->block);
    o->has_dsp = true;
    o->info.sample_rate = (int)o->vi.rate;
    o->info.channels = (unsigned)o->vi.channels;
    return STENO_OK;
}

/* The next packet or page. STENO_NEED_MORE: none. */
static steno_status step_vorbis(steno_ogg_vorbis *o, steno_err *err)
{
    ogg_packet p;
    ogg_page page;
    int got = o->begun ? ogg_stream_packetout(&o->stream, &p) : 0;
    if (got > 0 && o->headers < 3)
        return on_header(o, &p, err);
    if (got > 0) {
        if (vorbis_synthesis(&o->block, &p) || vorbis_synthesis_blockin(&o->dsp, &o->block))
            o->info.gaps++;
        return STENO_OK;
    }
    if (got < 0) {
        o->info.gaps++;
        return o->headers < 3 ? damaged(o, "damaged", err) : STENO_OK;
    }
    got = ogg_sync_pageout(&o->sync, &page);
    o->info.gaps += got < 0;
    return got > 0 ? on_page(o, &page, err) : got < 0 ? STENO_OK : STENO_NEED_MORE;
}

steno_status steno_ogg_vorbis_read(steno_ogg_vorbis *o, float *out, size_t max, size_t *frames,
                                   steno_err *err)
{
    steno_status st = STENO_OK;
    size_t ch, n;
    float **pcm;
    int there = 0;
    while (!st && !(o->has_dsp && (there = vorbis_synthesis_pcmout(&o->dsp, &pcm)) > 0))
        st = step_vorbis(o, err);
    if (st)
        return st;
    ch = o->info.channels;
    n = max / ch < (size_t)there ? max / ch : (size_t)there;
    for (size_t c = 0; c < ch; c++)
        for (size_t i = 0; i < n; i++)
            out[i * ch + c] = pcm[c][i];
    vorbis_synthesis_read(&o->dsp, (int)n);
    *frames = n;
    return STENO_OK;
}

steno_status steno_ogg_vorbis_end(const steno_ogg_vorbis *o, bool *truncated, steno_err *err)
{
    if (!o->begun)
        return steno_fail(err, STENO_ERR_FORMAT, "Ogg: there is no whole page");
    if (!o->info.sample_rate)
        return damaged(o, "cut off", err);
    *truncated = !o->ended;
    return STENO_OK;
}

void steno_ogg_vorbis_get_info(const steno_ogg_vorbis *o, struct steno_ogg_vorbis_info *info)
{
    *info = o->info;
}
