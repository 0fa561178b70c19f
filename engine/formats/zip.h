/* Members of a ZIP archive in memory (PKWARE APPNOTE.TXT 6.3, what NumPy's savez writes): stored
 * and deflated ones; no encryption, no ZIP64 beyond sizes that fit, one disk. Every size is checked
 * against the archive before it is used; a member that unpacks to more than its header says, or to
 * more than the caller's limit, is refused while it is being unpacked. */
#ifndef STENO_FORMATS_ZIP_H
#define STENO_FORMATS_ZIP_H

#include "base/status.h"

struct steno_zip_member {
    const char *name; /* not terminated; in the archive's bytes */
    size_t name_len;
    size_t size; /* unpacked, as the directory states it */
    /* where it is: for steno_zip_read */
    size_t at, packed;
    unsigned method;
    uint32_t crc;
};

/* Member number i of the central directory, borrowed from bytes. name: for messages.
 * STENO_NEED_MORE behind the last; STENO_ERR_FORMAT when there is no archive or it is damaged. */
STENO_MUST steno_status steno_zip_member(const void *bytes, size_t n, const char *name, size_t i,
                                         struct steno_zip_member *out, steno_err *err);
/* Unpack it into malloc'd memory, *out, of m->size bytes (the caller's to free). STENO_ERR_LIMIT
 * over max_bytes, STENO_ERR_UNSUPPORTED for another method, STENO_ERR_FORMAT for damage (length,
 * CRC). */
STENO_MUST steno_status steno_zip_read(const void *bytes, size_t n, const char *name,
                                       const struct steno_zip_member *m, size_t max_bytes,
                                       void **out, steno_err *err);

#endif
