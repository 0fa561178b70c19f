/* Small pieces of JSON text (RFC 8259): writing strings, and a look at untrusted text before it is
 * given to a parser. Pure. */
#ifndef STENO_PROTOCOL_JSON_TEXT_H
#define STENO_PROTOCOL_JSON_TEXT_H

#include "base/buf.h"

/* Append s [n] as a quoted string; bytes that are no UTF-8 become U+FFFD. */
STENO_MUST steno_status steno_json_put_string(struct steno_buf *out, const char *s, size_t n);
/* How deeply objects and arrays nest in text [n], brackets within strings not counted; stops
 * looking at max + 1. Says nothing about whether the text is valid. */
size_t steno_json_depth(const char *text, size_t n, size_t max);

#endif
