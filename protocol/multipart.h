/* multipart/form-data (RFC 7578; syntax RFC 2046, section 5.1) as a stream: bytes in any split
 * become parts. Part bodies are never stored, so the caller decides about their size. The headers
 * of one part may take STENO_MULTIPART_HEADERS bytes. Pure, confined.
 *
 *     steno_multipart_open(&mp, "multipart/form-data; boundary=xyz", &events, &err);
 *     steno_multipart_push(mp, bytes, n, &err);      for each block of bytes
 *     steno_multipart_end(mp, &err);                 checks that the body is complete */
#ifndef STENO_PROTOCOL_MULTIPART_H
#define STENO_PROTOCOL_MULTIPART_H

#include "base/status.h"

typedef struct steno_multipart steno_multipart;

#define STENO_MULTIPART_HEADERS 4096
#define STENO_MULTIPART_PARTS 256 /* parts of one body; more is STENO_ERR_LIMIT */

/* Callbacks run within push. A status other than STENO_OK ends the push, which returns it. */
struct steno_multipart_events {
    void *user;
    /* A part begins. name: its form field. filename: NULL when it has none. Both borrowed. */
    steno_status (*part)(void *user, const char *name, const char *filename, steno_err *err);
    steno_status (*data)(void *user, const char *data, size_t n, steno_err *err);
    steno_status (*end)(void *user, steno_err *err);
};

/* Open a parser. content_type: the request's header value. STENO_ERR_UNSUPPORTED when it is not
 * multipart/form-data; STENO_ERR_INVAL when its boundary is missing or not 1..70 characters. */
STENO_MUST steno_status steno_multipart_open(steno_multipart **out, const char *content_type,
                                             const struct steno_multipart_events *events,
                                             steno_err *err);
void steno_multipart_close(steno_multipart *mp); /* accepts NULL */
/* Parse more bytes. STENO_ERR_FORMAT names the part and what is wrong with it. After an error only
 * close is allowed. */
STENO_MUST steno_status steno_multipart_push(steno_multipart *mp, const char *data, size_t n,
                                             steno_err *err);
/* Check the end: STENO_ERR_FORMAT unless the closing boundary has come. */
STENO_MUST steno_status steno_multipart_end(steno_multipart *mp, steno_err *err);

#endif
