/* Which reader a recording is for, by its first bytes, and where it begins: behind tags and foreign
 * bytes. Name and media type do not count. */
#ifndef STENO_AUDIO_DETECT_H
#define STENO_AUDIO_DETECT_H

#include "speech/audio/source.h"

#define STENO_AUDIO_HEAD 64 /* bytes that detection gives; enough for an Ogg page with OpusHead */

enum steno_audio_kind {
    STENO_AUDIO_WAV,
    STENO_AUDIO_OPUS,
    STENO_AUDIO_VORBIS,
    STENO_AUDIO_MPEG,
    STENO_AUDIO_SNDFILE,   /* FLAC, AIFF, AU, CAF, W64, Ogg with FLAC */
    STENO_AUDIO_CONTAINER, /* for steno-decode (audio/container.h) */
    STENO_AUDIO_UNKNOWN
};

/* Find the first byte of the recording, where src then begins, and its kind. head
 * [STENO_AUDIO_HEAD] gets its first *n bytes. *junk grows by the foreign bytes that were skipped;
 * 0 on entry. STENO_ERR_FORMAT: the input is empty. STENO_ERR_IO, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_audio_detect(struct steno_source *src, enum steno_audio_kind *k,
                                           unsigned char *head, size_t *n, size_t *junk,
                                           steno_err *err);
/* The kind of a recording that begins with h [n]. */
enum steno_audio_kind steno_audio_sniff(const unsigned char *h, size_t n);
/* A format of steno-decode. */
struct steno_audio_container {
    const char *demuxer; /* FFmpeg's name */
    const char *name;    /* for people */
};
/* The container of a recording that begins with h [n], also where another reader may read it (WAV,
 * CAF, AIFF, FLAC, Ogg); NULL = none. weak: also formats of which one byte is known, which other
 * data may begin with too. */
const struct steno_audio_container *steno_audio_container_of(const unsigned char *h, size_t n,
                                                             bool weak);
/* The error for a recording of no known kind; h [n]: its head. STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_audio_refuse(const unsigned char *h, size_t n, steno_err *err);

#endif
