/* Members of a tar archive in memory: POSIX ustar and pax, GNU long names and large sizes, and the
 * older form without a mark (POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic
 * Tar Format"). Nothing is unpacked: a member is a place in the archive's bytes, so its name
 * reaches no path. Headers have checksums and every size is checked against the archive. */
#ifndef STENO_FORMATS_TAR_H
#define STENO_FORMATS_TAR_H

#include "base/status.h"

struct steno_tar_member {
    const char *name; /* not terminated; without "./" in front */
    size_t name_len;
    size_t at, size; /* its bytes in the archive */
};

struct steno_tar {
    struct steno_tar_member *member; /* [n], sorted by name: regular files alone */
    size_t n;
    char *names;
};

/* Do the first n bytes look like an archive: a header whose checksum is right? */
bool steno_tar_probe(const void *bytes, size_t n);
/* All regular files; name is used in messages. Directories, links and devices are left out.
 * STENO_ERR_FORMAT: not an archive, damaged, cut short, or two files of one name.
 * STENO_ERR_UNSUPPORTED: a sparse file. STENO_ERR_LIMIT: more than 65,535 members, or names of more
 * than 64 MiB. STENO_ERR_NOMEM. Close it after success. */
STENO_MUST steno_status steno_tar_list(const void *bytes, size_t n, const char *name,
                                       struct steno_tar *out, steno_err *err);
void steno_tar_close(struct steno_tar *t);

#endif
