/* WAV files made in memory, correct and damaged ones. */
#ifndef STENO_TESTS_WAVGEN_H
#define STENO_TESTS_WAVGEN_H

#include <stddef.h>
#include <stdint.h>

struct wavgen {
    unsigned char *data; /* malloc'd */
    size_t len;
    size_t at_fmt, at_data; /* offsets of the chunk ids */
};

/* The header for `bytes` of data that follow. The fields are written as given, right or wrong. */
struct wavgen_fmt {
    unsigned tag, channels, rate, byte_rate, align, bits;
};
struct wavgen_fmt wavgen_fmt(unsigned tag, unsigned channels, unsigned rate, unsigned bits);

/* RIFF, fmt (16 bytes), data, then a copy of the payload. The caller frees w->data. */
void wavgen_make(struct wavgen *w, const struct wavgen_fmt *f, const void *payload, size_t bytes);
/* Insert a chunk before the data chunk, with its pad byte. The RIFF size stays correct. */
void wavgen_chunk(struct wavgen *w, const char *id, const void *payload, size_t bytes);
/* Append bytes at the end. */
void wavgen_append(struct wavgen *w, const void *p, size_t n);
void wavgen_put32(unsigned char *p, uint32_t v);
void wavgen_put16(unsigned char *p, unsigned v);

#endif
