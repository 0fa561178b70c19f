#include "tests/support/wavgen.h"

#include <stdlib.h>
#include <string.h>

void wavgen_put16(unsigned char *p, unsigned v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

void wavgen_put32(unsigned char *p, uint32_t v)
{
    wavgen_put16(p, v & 0xFFFF);
    wavgen_put16(p + 2, v >> 16);
}

struct wavgen_fmt wavgen_fmt(unsigned tag, unsigned channels, unsigned rate, unsigned bits)
{
    unsigned align = channels * (bits / 8);
    struct wavgen_fmt f = {tag, channels, rate, rate * align, align, bits};
    return f;
}

void wavgen_append(struct wavgen *w, const void *p, size_t n)
{
    unsigned char *grown = realloc(w->data, w->len + n + 1);
    if (!grown)
        abort();
    w->data = grown;
    if (n)
        memcpy(w->data + w->len, p, n);
    w->len += n;
}

void wavgen_make(struct wavgen *w, const struct wavgen_fmt *f, const void *payload, size_t bytes)
{
    unsigned char h[44] = "RIFF....WAVEfmt ";
    memset(w, 0, sizeof *w);
    wavgen_put32(h + 4, (uint32_t)(36 + bytes + (bytes & 1)));
    wavgen_put32(h + 16, 16);
    wavgen_put16(h + 20, f->tag);
    wavgen_put16(h + 22, f->channels);
    wavgen_put32(h + 24, f->rate);
    wavgen_put32(h + 28, f->byte_rate);
    wavgen_put16(h + 32, f->align);
    wavgen_put16(h + 34, f->bits);
    memcpy(h + 36, "data", 4);
    wavgen_put32(h + 40, (uint32_t)bytes);
    w->at_fmt = 12;
    w->at_data = 36;
    wavgen_append(w, h, sizeof h);
    wavgen_append(w, payload, bytes);
    if (bytes & 1)
        wavgen_append(w, "", 1);
}

void wavgen_chunk(struct wavgen *w, const char *id, const void *payload, size_t bytes)
{
    size_t padded = bytes + (bytes & 1), total = 8 + padded;
    unsigned char *p, zero[8] = {0};
    uint32_t riff;
    for (size_t left = total; left;) {
        size_t k = left < sizeof zero ? left : sizeof zero;
        wavgen_append(w, zero, k);
        left -= k;
    }
    p = w->data + w->at_data;
    memmove(p + total, p, w->len - total - w->at_data);
    memset(p, 0, total);
    memcpy(p, id, 4);
    wavgen_put32(p + 4, (uint32_t)bytes);
    if (bytes)
        memcpy(p + 8, payload, bytes);
    w->at_data += total;
    riff = (uint32_t)w->data[4] | (uint32_t)w->data[5] << 8 | (uint32_t)w->data[6] << 16 |
           (uint32_t)w->data[7] << 24;
    wavgen_put32(w->data + 4, riff + (uint32_t)total);
}
