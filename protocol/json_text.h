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
/* How deeply objects and arrays nest in text [n]; brackets within strings do not count. Stops at
 * max + 1. Does not check that the text is valid. */
size_t steno_json_depth(const char *text, size_t n, size_t max);
/* Whether s [n] is valid UTF-8. */
bool steno_utf8_valid(const char *s, size_t n);

#endif
