/* Recordings by which a request names its speakers: known_speaker_references[] of OpenAI's form.
 * They are in memory while the request lasts. Confined. */
#ifndef STENO_SERVER_HTTP_KNOWN_VOICES_H
#define STENO_SERVER_HTTP_KNOWN_VOICES_H

#include "base/buf.h"
#include "steno.h"

#define STENO_KNOWN_VOICES 4
#define STENO_KNOWN_VOICE_FIELD "known_speaker_references"
#define STENO_KNOWN_VOICE_SECONDS 15.0

struct steno_known_voice {
    float *pcm; /* [n] mono */
    size_t n;
    int rate; /* Hz */
};

/* Zero-initialised = none. */
struct steno_known_voices {
    struct steno_buf field; /* the one that comes */
    struct steno_known_voice voice[STENO_KNOWN_VOICES];
    int n;
};

/* A field begins. STENO_ERR_INVAL: there are too many. */
STENO_MUST steno_status steno_known_voices_begin(struct steno_known_voices *k, steno_err *err);
/* A part of it. STENO_ERR_LIMIT: it is too long; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_known_voices_add(struct steno_known_voices *k, const char *p,
                                               size_t n, steno_err *err);
/* It is complete: a data URL (RFC 2397) in base64 of a recording of STENO_KNOWN_VOICE_SECONDS at
 * most, of a format that needs no other program (WAV, FLAC, MP3, Ogg, ...). STENO_ERR_INVAL,
 * STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_known_voices_end(struct steno_known_voices *k, steno_err *err);
void steno_known_voices_free(struct steno_known_voices *k);

/* Which of them, and of those who are enrolled (NULL: nobody), the speakers of a recording are: who
 * [steno_diarization_speakers] gets the index of each, those who are enrolled from k->n on, or -1.
 * *mute: one, from 1, that has too little speech, and is nobody; 0 = none. */
STENO_MUST steno_status steno_known_voices_identify(const struct steno_known_voices *k,
                                                    const steno_enrolled *enrolled,
                                                    const steno_speakers *speakers,
                                                    const steno_diarization *d, int *who, int *mute,
                                                    steno_err *err);

#endif
