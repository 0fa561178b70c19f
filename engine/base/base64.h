/* Base64 (RFC 4648, section 4). Stateless. */
#ifndef STENO_BASE_BASE64_H
#define STENO_BASE_BASE64_H

#include "base/buf.h"

/* Bytes that n characters decode to at most. */
#define STENO_BASE64_DECODED(n) ((n) / 4 * 3 + 3)

/* Decode s [n] into out [STENO_BASE64_DECODED(n)]; *len bytes are used. The padding may be left
 * out. Returns n, or the index of the first wrong character; n - 1 if the text ends too early. */
size_t steno_base64_decode(const char *s, size_t n, void *out, size_t *len);
/* Append n bytes with padding. Errors of steno_buf_add. */
STENO_MUST steno_status steno_base64_put(struct steno_buf *b, const void *bytes, size_t n);

#endif
