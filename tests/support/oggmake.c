#include "tests/support/oggmake.h"

#include <ogg/ogg.h>
#include <opus.h>
#include <opus_multistream.h>
#include <stdlib.h>
#include <string.h>

#define PRESKIP 312

static void need(int ok)
{
    if (!ok)
        abort();
}

void oggmake_append(struct oggmake *m, const void *p, size_t n)
{
    unsigned char *grown = realloc(m->data, m->len + n + 1);
    need(grown != NULL);
    m->data = grown;
    memcpy(m->data + m->len, p, n);
    m->len += n;
}

static void pages(struct oggmake *m)
{
    ogg_page page;
    while (ogg_stream_flush(m->stream, &page)) {
        if (m->n_pages < OGGMAKE_PAGES)
            m->page[m->n_pages++] = m->len;
        oggmake_append(m, page.header, (size_t)page.header_len);
        oggmake_append(m, page.body, (size_t)page.body_len);
    }
}

static void packet(struct oggmake *m, const void *p, size_t n, long long granule, int last)
{
    unsigned char *copy = malloc(n + 1);
    ogg_packet op = {.packet = copy, .bytes = (long)n, .granulepos = granule, .e_o_s = last};
    need(copy != NULL);
    memcpy(copy, p, n);
    need(!ogg_stream_packetin(m->stream, &op));
    free(copy);
}

static void begin(struct oggmake *m)
{
    memset(m, 0, sizeof *m);
    m->serial = 4711;
    m->stream = calloc(1, sizeof(ogg_stream_state));
    need(m->stream && !ogg_stream_init(m->stream, m->serial));
}

/* Streams of RFC 7845 section 5.1.1.2 for 1..8 channels. */
static const unsigned char streams[8][2] = {{1, 0}, {1, 1}, {2, 1}, {2, 2},
                                            {3, 2}, {4, 2}, {4, 3}, {5, 3}};
static const unsigned char mapping[8][8] = {{0},
                                            {0, 1},
                                            {0, 2, 1},
                                            {0, 1, 2, 3},
                                            {0, 4, 1, 2, 3},
                                            {0, 4, 1, 2, 3, 5},
                                            {0, 4, 1, 2, 3, 5, 6},
                                            {0, 6, 1, 2, 3, 4, 5, 7}};

void oggmake_init_tags(struct oggmake *m, unsigned channels, size_t tag_bytes)
{
    unsigned char head[32] = "OpusHead\1";
    size_t n = 19;
    char *tags = calloc(1, tag_bytes);
    begin(m);
    need(tags != NULL);
    m->channels = channels;
    head[9] = (unsigned char)channels;
    head[10] = PRESKIP & 0xFF;
    head[11] = PRESKIP >> 8;
    if (channels > 2) {
        head[18] = 1;
        head[19] = streams[channels - 1][0];
        head[20] = streams[channels - 1][1];
        memcpy(head + 21, mapping[channels - 1], channels);
        n = 21 + channels;
    }
    packet(m, head, n, 0, 0);
    pages(m);
    memcpy(tags, "OpusTags", 8);
    packet(m, tags, tag_bytes, 0, 0);
    pages(m);
    free(tags);
}

void oggmake_init(struct oggmake *m, unsigned channels)
{
    oggmake_init_tags(m, channels, 16);
}

void oggmake_audio(struct oggmake *m, const float *x, size_t frames)
{
    int code;
    unsigned c = m->channels;
    OpusMSEncoder *enc =
        opus_multistream_encoder_create(48000, (int)c, streams[c - 1][0], streams[c - 1][1],
                                        mapping[c - 1], OPUS_APPLICATION_AUDIO, &code);
    size_t total = frames + PRESKIP, n_packets = (total + 959) / 960;
    float block[960 * 8];
    need(enc != NULL);
    for (size_t i = 0; i < n_packets; i++) {
        static unsigned char out[20000];
        int last = i + 1 == n_packets, n;
        for (size_t k = 0; k < 960; k++)
            for (unsigned ch = 0; ch < c; ch++)
                block[k * c + ch] = i * 960 + k < frames ? x[(i * 960 + k) * c + ch] : 0;
        n = opus_multistream_encode_float(enc, block, 960, out, sizeof out);
        need(n > 0);
        packet(m, out, (size_t)n, last ? (long long)total : (long long)(i + 1) * 960, last);
        if (i % 5 == 4 || last)
            pages(m);
    }
    opus_multistream_encoder_destroy(enc);
}

void oggmake_free(struct oggmake *m)
{
    ogg_stream_destroy(m->stream);
    free(m->data);
    memset(m, 0, sizeof *m);
}

void oggmake_head(struct oggmake *m, const void *head, size_t n)
{
    begin(m);
    packet(m, head, n, 0, 0);
    pages(m);
    packet(m, "OpusTags", 8, 0, 0);
    pages(m);
}

void oggmake_foreign(struct oggmake *m)
{
    oggmake_head(m, "\1vorbis", 7);
}

void oggmake_packets(struct oggmake_packets *p, const float *x, size_t frames)
{
    int code;
    OpusEncoder *enc = opus_encoder_create(48000, 1, OPUS_APPLICATION_AUDIO, &code);
    need(enc != NULL);
    p->n = 0;
    for (size_t at = 0; at + 960 <= frames && p->n < 64; at += 960, p->n++) {
        int n = opus_encode_float(enc, x + at, 960, p->data[p->n], sizeof p->data[0]);
        need(n > 0);
        p->len[p->n] = (size_t)n;
    }
    opus_encoder_destroy(enc);
}
