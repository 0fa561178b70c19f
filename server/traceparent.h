/* The traceparent header of W3C Trace Context (Level 1): which trace a request belongs to. Pure. */
#ifndef STENO_SERVER_TRACEPARENT_H
#define STENO_SERVER_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STENO_TRACEPARENT_SIZE 56 /* bytes of "00-TRACE-SPAN-FLAGS" with its NUL */

struct steno_traceparent {
    unsigned char trace[16]; /* not all 0 */
    unsigned char span[8];   /* of the caller; not all 0 */
    bool sampled;            /* the caller records this trace */
};

/* Parse a header's value [len]. False: it is not valid, and must be ignored (3.2.2.3). A version
 * above 00 may have more fields, which are ignored (4.3). */
bool steno_traceparent_parse(const char *text, size_t len, struct steno_traceparent *out);
/* Write version 00 to out, STENO_TRACEPARENT_SIZE bytes. Returns out. */
char *steno_traceparent_write(const struct steno_traceparent *t, char *out);
/* Write bytes [n] in hexadecimal to out, 2 n + 1 bytes. Returns out. */
char *steno_hex_write(const unsigned char *bytes, size_t n, char *out);

#endif
