/* Status codes and the message buffer that every fallible function of the project shares. */
#ifndef STENO_BASE_STATUS_H
#define STENO_BASE_STATUS_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STENO_MUST __attribute__((warn_unused_result))
#define STENO_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define STENO_API __attribute__((visibility("default")))
#else
#define STENO_MUST
#define STENO_PRINTF(f, a)
#define STENO_API
#endif

typedef enum {
    STENO_OK,
    STENO_NEED_MORE, /* only from push and parse functions: more input is needed, no error */
    STENO_ERR_INVAL,
    STENO_ERR_NOMEM,
    STENO_ERR_IO,
    STENO_ERR_FORMAT,
    STENO_ERR_UNSUPPORTED,
    STENO_ERR_LIMIT,
    STENO_ERR_BUSY,
    STENO_ERR_CANCELLED,
    STENO_ERR_INTERNAL,
    STENO_STATUS_COUNT
} steno_status;

/* An error: what, where, with which values. Plain data, owned by the caller; every function accepts
 * NULL. */
typedef struct {
    steno_status code;
    char msg[1024]; /* a model with many missing operators lists them all */
} steno_err;

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
STENO_API const struct steno_status_map *steno_status_info(steno_status st);

/* Fill err (may be NULL) and return code: `return steno_fail(err, ...)`. */
STENO_API steno_status steno_fail(steno_err *err, steno_status code, const char *fmt, ...)
    STENO_PRINTF(3, 4);

/* Prepend "context: " to err's message (truncated if too long) and return st. */
STENO_API steno_status steno_fail_in(steno_err *err, steno_status st, const char *fmt, ...)
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

#ifdef __cplusplus
}
#endif

#endif
