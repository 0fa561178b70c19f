/* Members of a ZIP archive in memory (PKWARE APPNOTE.TXT 6.3, as NumPy and PyTorch write it):
 * stored and deflated ones, ZIP64 too, no encryption, one disk. Every size is checked against the
 * archive before it is used. A member that unpacks to more than its header states, or to more than
 * the caller's limit, is refused while it is unpacked. */
#ifndef STENO_FORMATS_ZIP_H
#define STENO_FORMATS_ZIP_H

#include "base/status.h"

struct steno_zip_member {
    const char *name; /* not terminated; points into the archive's bytes */
    size_t name_len;
    size_t size; /* unpacked, from the directory */
    /* its place, for steno_zip_read */
    size_t at, packed;
    unsigned method;
    uint32_t crc;
};

/* Get member i of the central directory, borrowed from bytes; name is used in messages.
 * STENO_NEED_MORE: i is past the last one. STENO_ERR_FORMAT: not an archive, or damaged. */
STENO_MUST steno_status steno_zip_member(const void *bytes, size_t n, const char *name, size_t i,
                                         struct steno_zip_member *out, steno_err *err);
/* All members, sorted by name, in a malloc'd array *out (freed by the caller) of *count. Errors as
 * above; STENO_ERR_FORMAT also if two members have one name. */
STENO_MUST steno_status steno_zip_list(const void *bytes, size_t n, const char *name,
                                       struct steno_zip_member **out, size_t *count,
                                       steno_err *err);
/* The member of that name in such an array; NULL: there is none. */
const struct steno_zip_member *steno_zip_find(const struct steno_zip_member *members, size_t count,
                                              const char *name);
/* A stored member's bytes in the archive (m->size of them, without alignment; the CRC is not
 * checked); NULL: it is packed. */
const void *steno_zip_stored(const void *bytes, const struct steno_zip_member *m);
/* Unpack a member into malloc'd memory, *out, of m->size bytes (freed by the caller).
 * STENO_ERR_LIMIT: over max_bytes. STENO_ERR_UNSUPPORTED: another method. STENO_ERR_FORMAT: damaged
 * (length, CRC). */
STENO_MUST steno_status steno_zip_read(const void *bytes, size_t n, const char *name,
                                       const struct steno_zip_member *m, size_t max_bytes,
                                       void **out, steno_err *err);

#endif
