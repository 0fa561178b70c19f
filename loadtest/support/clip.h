/* A recording in the encoding that a client sends, and its transcript. */
#ifndef STENO_LOADTEST_CLIP_H
#define STENO_LOADTEST_CLIP_H

#include <stdbool.h>

#include "base/buf.h"

struct clip {
    const char *file;     /* borrowed */
    const char *encoding; /* as the protocol names it; static */
    int rate;             /* Hz */
    size_t frame;         /* bytes of a sample; 0: Opus */
    /* Opus: [n_packets + 1] offset of each packet in data. */
    size_t *packets;
    size_t n_packets, packet_samples;
    size_t samples; /* including the silence after it */
    size_t header;  /* bytes of a WAV header before the first sample */
    struct steno_buf data;
    char *text; /* transcript; NULL: not known */
};

/* Read a WAV file as "s16le", "f32le", "mulaw", "alaw", "wav" or "opus" (bare packets of 20 ms;
 * rates that Opus supports). gap_ms of silence follow, and the whole is repeated `times` times.
 * text: the transcript of one repetition; NULL: FILE.txt in place of FILE.wav, if it exists.
 * STENO_ERR_IO, STENO_ERR_FORMAT, STENO_ERR_INVAL name the file. */
STENO_MUST steno_status clip_read(struct clip *c, const char *file, const char *encoding,
                                  int gap_ms, int times, const char *text, steno_err *err);
void clip_free(struct clip *c);
/* Samples in a chunk of ms: whole Opus packets, at least one. */
static inline size_t clip_chunk(const struct clip *c, int ms)
{
    size_t n = (size_t)c->rate * (size_t)ms / 1000,
           whole = c->packet_samples ? c->packet_samples : 1;
    return n > whole ? n / whole * whole : whole;
}
static inline double clip_seconds(const struct clip *c)
{
    return (double)c->samples / c->rate;
}

/* Remove ASCII punctuation from the text and make its letters lower case. */
void clip_make_plain(char *text);

/* Count the words of `got` that differ from `want` (Levenshtein distance over words); *n = words of
 * `want`. Words are separated by blanks. */
size_t clip_word_errors(const char *want, const char *got, size_t *n);

#endif
