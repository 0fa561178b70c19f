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
/* Append as printf does, but %s and %.*s quote a text as steno_json_put_string does, and %-s and
 * %-.*s append it as it is. Of numbers: %d %u %lld %llu %.Nf, without width. */
STENO_MUST steno_status steno_json_printf(struct steno_buf *out, const char *fmt, ...)
    STENO_PRINTF(2, 3);
/* Append "name":SECONDS, rounded to milliseconds, without trailing zeros ("1.25", "3", "0.1"). What
 * is no positive number is 0. */
STENO_MUST steno_status steno_json_put_seconds(struct steno_buf *out, const char *name,
                                               double seconds);
/* Append "name":"text", with a blank before the text if spaced: tokens and words of Whisper's
 * clients have it. */
STENO_MUST steno_status steno_json_put_spaced(struct steno_buf *out, const char *name,
                                              const char *text, bool spaced);
/* Limits of untrusted text. A tree of it takes at most 430 bytes for each value (an empty object of
 * jansson 2.14), and the bytes of its strings: 2 MB. */
#define STENO_JSON_MAX_BYTES 262144 /* of a request; of a message: STENO_NATIVE_MAX_TEXT */
#define STENO_JSON_MAX_DEPTH 16     /* of nested objects and arrays */
#define STENO_JSON_MAX_VALUES 4096  /* and names */
/* Check that text [n] keeps these limits before a parser makes a tree of it. Brackets and commas
 * within strings do not count. Does not check that the text is valid. STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_json_check(const char *text, size_t n, steno_err *err);

#endif
