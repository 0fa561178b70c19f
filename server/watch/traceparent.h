/* The headers of W3C Trace Context (Level 1): traceparent, which trace a request belongs to, and
 * tracestate, what other systems keep about it. Pure. */
#ifndef STENO_SERVER_WATCH_TRACEPARENT_H
#define STENO_SERVER_WATCH_TRACEPARENT_H

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
/* Parse the values of all tracestate headers, joined by commas (3.3), and write the list to out,
 * the members as they came. False, and out is "": it is not valid, and must not be passed on: a
 * member has no "=", a wrong key or value, or the key of another one, or there are more than 32. Of
 * a list longer than 512 bytes members of more than 128 go first, from the end, then others
 * (3.3.1.5). */
#define STENO_TRACESTATE_SIZE 513
bool steno_tracestate_parse(const char *text, size_t len, char out[STENO_TRACESTATE_SIZE]);
/* Write bytes [n] in hexadecimal to out, 2 n + 1 bytes. Returns out. */
char *steno_hex_write(const unsigned char *bytes, size_t n, char *out);

#endif
