/* Status codes and the error that every function which can fail fills in. Part of the public
 * header: `make install` puts this text into steno.h. What only the project uses is in
 * base/status.h. */
#ifndef STENO_BASE_ERROR_H
#define STENO_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STENO_MUST __attribute__((warn_unused_result))
#define STENO_API __attribute__((visibility("default")))
#else
#define STENO_MUST
#define STENO_API
#endif

/* Values never change; a later version may add some before STENO_STATUS_COUNT. */
typedef enum {
    STENO_OK,
    STENO_NEED_MORE,       /* only from push and parse functions: more input is needed, no error */
    STENO_ERR_INVAL,       /* an argument or option is not valid */
    STENO_ERR_NOMEM,       /* no memory */
    STENO_ERR_IO,          /* a file is missing or cannot be read */
    STENO_ERR_FORMAT,      /* a file or recording is damaged or of no known format */
    STENO_ERR_UNSUPPORTED, /* well formed, but this library cannot do it */
    STENO_ERR_LIMIT,       /* longer or larger than allowed */
    STENO_ERR_BUSY,        /* a queue is full: try again later */
    STENO_ERR_CANCELLED,   /* the caller ended the work */
    STENO_ERR_INTERNAL,    /* a fault of the library */
    STENO_STATUS_COUNT
} steno_status;

/* An error: what, where, with which values, as one line of UTF-8 for people. Plain data, owned by
 * the caller. Every function accepts NULL for it, and writes it only on failure. */
typedef struct {
    steno_status code;
    char msg[1024]; /* a model with many missing operators lists them all */
} steno_err;

/* A stable name for programs: "ok", "invalid_argument", "out_of_memory", "io_error",
 * "invalid_data", "unsupported", "limit_exceeded", "busy", "cancelled", "internal_error" (also for
 * values out of range), "need_more". Static; never NULL. Any thread. */
STENO_API const char *steno_status_name(steno_status st);

#ifdef __cplusplus
}
#endif

#endif
