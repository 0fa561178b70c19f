/* A file that is there whole or not at all: written beside its place as NAME.new and renamed when
 * all of it has arrived. A process that is killed leaves NAME.new behind, which the next one
 * writes over: what is left does not pile up. Confined. */
#ifndef STENO_BASE_ATOMIC_FILE_H
#define STENO_BASE_ATOMIC_FILE_H

#include <limits.h>

#include "base/status.h"

struct steno_atomic_file {
    int fd; /* to write to; -1 = not open */
    char path[PATH_MAX], temp[PATH_MAX + 8];
};

/* Begin a file of mode 0600 in place of `path`. Messages begin with the path.
 * STENO_ERR_BUSY: another process or thread is writing it. STENO_ERR_IO: the reason; also where
 * NAME.new is there and is not a plain file of ours. */
STENO_MUST steno_status steno_atomic_file_open(struct steno_atomic_file *f, const char *path,
                                               steno_err *err);

/* Put it in its place; sync: and wait until the disk has it. Closed in either case, and gone where
 * it failed. STENO_ERR_IO: the reason. */
STENO_MUST steno_status steno_atomic_file_commit(struct steno_atomic_file *f, bool sync,
                                                 steno_err *err);

/* Give it up; the old file stays. Nothing where f is not open. */
void steno_atomic_file_discard(struct steno_atomic_file *f);

/* All n bytes to a descriptor. False: errno says why. */
bool steno_write_whole(int fd, const void *bytes, size_t n);

#endif
