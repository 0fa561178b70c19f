/* The files of a published checkpoint: a directory, or an archive (ZIP, tar, tar in gzip) whose
 * members are read in memory. Nothing is ever unpacked to the disk, so names in an archive reach no
 * path. Confined. */
#ifndef STENO_CONVERT_BUNDLE_H
#define STENO_CONVERT_BUNDLE_H

#include "base/map.h"
#include "formats/tar.h"
#include "formats/zip.h"

struct steno_bundle {
    const char *path;
    struct steno_map map; /* archive; nothing is mapped after it was unpacked */
    void *unpacked;       /* an archive in gzip */
    const void *bytes;    /* [n_bytes] of the archive, in one of these */
    size_t n_bytes;
    struct steno_zip_member *member; /* those of a tar are like stored ones of a ZIP */
    size_t n;
    struct steno_tar tar;
    bool archive;
};

struct steno_blob {
    const void *p;
    size_t n;
    struct steno_map map;
    void *owned;
};

/* path must outlive the bundle. STENO_ERR_IO; STENO_ERR_FORMAT: neither a directory nor an archive,
 * or a damaged one. STENO_ERR_LIMIT: gzip that unpacks to more than 64 MiB and 32 times its size.
 */
STENO_MUST steno_status steno_bundle_open(struct steno_bundle *b, const char *path, steno_err *err);
void steno_bundle_close(struct steno_bundle *b);
/* Read a file: by its name, which may have folders, else by its last part alone (in an archive: if
 * it is the only one; not a *.yaml of another folder). Names that are absolute or climb out are
 * looked up by their last part. STENO_ERR_IO: there is none. STENO_ERR_LIMIT: over max bytes when
 * unpacked. */
STENO_MUST steno_status steno_bundle_read(const struct steno_bundle *b, const char *name,
                                          size_t max, struct steno_blob *out, steno_err *err);
void steno_blob_close(struct steno_blob *b);
/* The only file whose name ends so, at the top of a directory or anywhere in an archive, into out
 * [size]. STENO_ERR_IO: none; STENO_ERR_INVAL: several. */
STENO_MUST steno_status steno_bundle_only(const struct steno_bundle *b, const char *ending,
                                          char *out, size_t size, steno_err *err);
bool steno_bundle_has(const struct steno_bundle *b, const char *name);

#endif
