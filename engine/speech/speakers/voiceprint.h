/* A voice print as a file. Lines of text:
 *
 *     steno voice print 1
 *     network 0123456789abcdef       tag of the embedding network, hexadecimal
 *     seconds 12.5                   of clear speech
 *     since 1764428400               when it was made, s of 1970
 *     print AACAPwAA...              floats, little-endian, base64
 *
 * The person's name is that of the file: letters, digits, '-' and '_' as they are, other bytes as
 * %XX, and ".voice". Pure. */
#ifndef STENO_SPEAKERS_VOICEPRINT_H
#define STENO_SPEAKERS_VOICEPRINT_H

#include "base/buf.h"

#define STENO_VOICEPRINT_FLOATS 4096 /* of a print at most */
#define STENO_VOICEPRINT_MAX 32768   /* bytes of a file */
#define STENO_VOICEPRINT_ENDING ".voice"
#define STENO_VOICEPRINT_FILE 256 /* bytes of a file's name with its NUL */

struct steno_voiceprint {
    uint64_t network;
    double seconds;
    int64_t since;
    float *print; /* [n], from malloc */
    size_t n;
};

/* Read text [n]. out->print belongs to the caller: free. STENO_ERR_FORMAT names the line. */
STENO_MUST steno_status steno_voiceprint_parse(struct steno_voiceprint *out, const char *text,
                                               size_t n, steno_err *err);
/* Append it. Errors of the buffer. */
STENO_MUST steno_status steno_voiceprint_write(struct steno_buf *out,
                                               const struct steno_voiceprint *v);

/* Whether a text can be a person's name: 1 to STENO_SPEAKER_NAME - 1 bytes of UTF-8, without
 * control characters and without blanks at its ends. */
bool steno_voiceprint_name_ok(const char *name);
/* The file of a name that is ok: out [STENO_VOICEPRINT_FILE]. */
void steno_voiceprint_file(char *out, const char *name);
/* The name of a file: out [STENO_SPEAKER_NAME]. False: it is no such file. */
bool steno_voiceprint_person(char *out, const char *file);

#endif
