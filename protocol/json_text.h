/* Helpers for JSON text (RFC 8259): write strings, and check untrusted text before a parser gets
 * it. Pure. */
#ifndef STENO_PROTOCOL_JSON_TEXT_H
#define STENO_PROTOCOL_JSON_TEXT_H

#include "base/buf.h"

/* Append s [n] as a quoted string. Bytes that are not UTF-8 become U+FFFD. */
STENO_MUST steno_status steno_json_put_string(struct steno_buf *out, const char *s, size_t n);
/* Append "name":"text". The name is plain, and is not escaped. */
STENO_MUST steno_status steno_json_put_member(struct steno_buf *out, const char *name,
                                              const char *text);
/* Append "name":SECONDS, rounded to milliseconds, without trailing zeros ("1.25", "3", "0.1"). What
 * is no positive number is 0. */
STENO_MUST steno_status steno_json_put_seconds(struct steno_buf *out, const char *name,
                                               double seconds);
/* Append "name":"text", with a blank before the text if spaced: tokens and words of Whisper's
 * clients have it. */
STENO_MUST steno_status steno_json_put_spaced(struct steno_buf *out, const char *name,
                                              const char *text, bool spaced);
/* How deeply objects and arrays nest in text [n]; brackets within strings do not count. Stops at
 * max + 1. Does not check that the text is valid. */
size_t steno_json_depth(const char *text, size_t n, size_t max);
/* Whether s [n] is valid UTF-8. */
bool steno_utf8_valid(const char *s, size_t n);

#endif
