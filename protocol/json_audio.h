/* Takes the base64 text of audio out of a JSON message while the message arrives, so that a large
 * message is neither kept nor parsed whole: what remains is small. Incremental: any split of the
 * message gives the same result. Pure; confined. */
#ifndef STENO_PROTOCOL_JSON_AUDIO_H
#define STENO_PROTOCOL_JSON_AUDIO_H

#include "base/buf.h"

/* All zero before each message. */
struct steno_json_audio {
    size_t depth;         /* of objects and arrays */
    bool quoted, escaped; /* within a string; after its backslash */
    bool name_next;       /* the next string is a member's name, if depth is 1 */
    int matched;          /* characters of the name so far; -1: it is another one */
    bool named, valued;   /* the name has ended; its colon has come */
    bool inside;          /* the string with the audio */
    char escape[6];       /* [n_escape] of an escape sequence */
    unsigned n_escape;
    char four[4]; /* [n_four] digits that are not decoded yet */
    unsigned n_four;
    size_t digits;  /* of the string so far */
    bool ended;     /* by padding */
    steno_err fail; /* why the string is not base64; what was decoded before counts */
};

/* Take p [n], the next part of a message: bytes that the member "audio" of its object stands for
 * are appended to audio, and everything but the inside of that string to rest. Names are compared
 * as they are written, without escapes. Wrong base64 is noted in a->fail. STENO_ERR_LIMIT,
 * STENO_ERR_NOMEM: of one of the buffers. */
STENO_MUST steno_status steno_json_audio_push(struct steno_json_audio *a, const char *p, size_t n,
                                              struct steno_buf *rest, struct steno_buf *audio,
                                              steno_err *err);

#endif
