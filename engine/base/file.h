/* Whole files: read into memory, or hashed. */
#ifndef STENO_BASE_FILE_H
#define STENO_BASE_FILE_H

#include "base/status.h"

/* Read a file. *bytes: malloc'd, freed by the caller, with a zero byte after the *n bytes.
 * STENO_ERR_IO (the reason), STENO_ERR_LIMIT (more than max), STENO_ERR_NOMEM; messages begin with
 * the path. */
STENO_MUST steno_status steno_file_read(const char *path, size_t max, char **bytes, size_t *n,
                                        steno_err *err);

/* Hash a file in 128 bits (XXH3). It is read and not mapped, so that a file that shrinks meanwhile
 * raises no signal. STENO_ERR_IO: the reason; STENO_ERR_NOMEM; messages begin with the path. */
STENO_MUST steno_status steno_file_hash(const char *path, uint64_t out[2], steno_err *err);

#endif
