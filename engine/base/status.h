/* What the project does with status codes and errors beyond the public base/error.h: the table for
 * wires and exit codes, filling in errors, checked sizes. */
#ifndef STENO_BASE_STATUS_H
#define STENO_BASE_STATUS_H

#include "base/error.h"

#if defined(__GNUC__)
#define STENO_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define STENO_PRINTF(f, a)
#endif

/* What a status is mapped to at the edges of the process. */
struct steno_status_map {
    const char *name; /* "invalid_argument": stable, used in JSON error codes and metric labels */
    int http;         /* HTTP status */
    int ws_close;     /* WebSocket close code (RFC 6455 section 7.4.1) */
    int exit_code;    /* sysexits.h */
    int log_level;    /* syslog level 0..7 */
};

/* The status's row of the table; an unknown status gets the row of STENO_ERR_INTERNAL. Never
 * NULL. */
const struct steno_status_map *steno_status_info(steno_status st);

/* Fill err (may be NULL) and return code: `return steno_fail(err, ...)`. */
steno_status steno_fail(steno_err *err, steno_status code, const char *fmt, ...) STENO_PRINTF(3, 4);

/* Prepend "context: " to err's message (truncated if too long) and return st. */
steno_status steno_fail_in(steno_err *err, steno_status st, const char *fmt, ...)
    STENO_PRINTF(3, 4);

/* Checked size arithmetic for untrusted extents: false (out unchanged) on overflow. */
static inline bool steno_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool steno_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

#endif
