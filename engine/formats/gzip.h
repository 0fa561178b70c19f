/* Files of gzip in memory (RFC 1952), with several members one after the other too. */
#ifndef STENO_FORMATS_GZIP_H
#define STENO_FORMATS_GZIP_H

#include "base/status.h"

bool steno_gzip_probe(const void *bytes, size_t n);
/* Unpack everything into malloc'd memory, *out, of *size bytes (freed by the caller); name is used
 * in messages. STENO_ERR_LIMIT: more than max bytes. STENO_ERR_FORMAT: damaged or cut short.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_gzip_unpack(const void *bytes, size_t n, const char *name, size_t max,
                                          void **out, size_t *size, steno_err *err);

#endif
