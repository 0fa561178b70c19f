/* Atomic replacement of a file: the content is either complete or absent. It is written beside its
 * place as NAME.new and renamed when it is complete. A process that is killed leaves NAME.new
 * behind; the next one overwrites it, so leftovers do not pile up. Confined. */
#ifndef STENO_BASE_ATOMIC_FILE_H
#define STENO_BASE_ATOMIC_FILE_H

#include <limits.h>
#include <sys/types.h>

#include "base/status.h"

struct steno_atomic_file {
    int fd; /* descriptor to write to; -1 = not open */
    char path[PATH_MAX], temp[PATH_MAX + 8];
};

/* Begin a file of mode 0600 that will replace `path`. Messages begin with the path. STENO_ERR_BUSY:
 * another process or thread is writing it. STENO_ERR_IO: the reason; also if NAME.new exists and is
 * not a regular file that we alone own. */
STENO_MUST steno_status steno_atomic_file_open(struct steno_atomic_file *f, const char *path,
                                               steno_err *err);

/* Rename the file to its place; sync: first wait until the disk has it. The file is closed in
 * either case, and removed on failure. STENO_ERR_IO: the reason. */
STENO_MUST steno_status steno_atomic_file_commit(struct steno_atomic_file *f, bool sync,
                                                 steno_err *err);

/* Remove the new file; the old file stays. Does nothing if f is not open. */
void steno_atomic_file_discard(struct steno_atomic_file *f);

/* Replace the file at `path` by one with these n bytes, of mode 0600 or `mode`; sync: wait until
 * the disk has it. Errors as above. */
STENO_MUST steno_status steno_atomic_file_write(const char *path, const void *bytes, size_t n,
                                                mode_t mode, bool sync, steno_err *err);

/* Write all n bytes to a descriptor. False: errno has the reason. */
bool steno_write_whole(int fd, const void *bytes, size_t n);

#endif
