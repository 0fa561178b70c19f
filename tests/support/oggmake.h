/* Ogg Opus streams made in memory. */
#ifndef STENO_TESTS_OGGMAKE_H
#define STENO_TESTS_OGGMAKE_H

#include <stddef.h>

#define OGGMAKE_PAGES 512

struct oggmake {
    unsigned char *data; /* malloc'd */
    size_t len;
    size_t page[OGGMAKE_PAGES], n_pages; /* offsets of the pages */
    unsigned channels;
    int serial;
    void *stream; /* ogg_stream_state */
};

/* Starts with OpusHead (pre-skip 312; family 0, or 1 from three channels on) and OpusTags. */
void oggmake_init(struct oggmake *m, unsigned channels);
/* The same with a comment packet of tag_bytes bytes. */
void oggmake_init_tags(struct oggmake *m, unsigned channels, size_t tag_bytes);
/* Encode frames of 48 kHz interleaved samples in packets of 20 ms, five per page. The last page
 * ends the stream at exactly `frames` samples. */
void oggmake_audio(struct oggmake *m, const float *x, size_t frames);
void oggmake_append(struct oggmake *m, const void *p, size_t n);
void oggmake_free(struct oggmake *m);
/* A stream with `head` as its first packet, followed by another page. */
void oggmake_head(struct oggmake *m, const void *head, size_t n);
/* Two pages that are not Opus. */
void oggmake_foreign(struct oggmake *m);

/* Bare packets of 20 ms, mono. */
struct oggmake_packets {
    unsigned char data[64][1500];
    size_t len[64], n;
};
void oggmake_packets(struct oggmake_packets *p, const float *x, size_t frames);

#endif
