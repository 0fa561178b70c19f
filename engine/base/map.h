/* Files mapped for reading. Frozen.
 *
 * Pages are shared with all who map the same file, and the system may drop them. The price: others
 * may write to the file. If it shrinks, its pages are gone; the next read is a SIGBUS, which
 * steno_map_guard survives. If it is overwritten, its new bytes appear. So whoever reads a mapping
 * after it was checked asks steno_map_changed behind the read. */
#ifndef STENO_BASE_MAP_H
#define STENO_BASE_MAP_H

#include "base/status.h"

struct steno_map {
    const void *p;
    size_t n; /* 0: nothing is mapped */
    int fd;
    int64_t seconds, nanoseconds; /* when the file was last written */
};

/* Map a file. STENO_ERR_IO: the reason; STENO_ERR_FORMAT: not a regular file. An empty file maps
 * nothing and is not an error. */
STENO_MUST steno_status steno_map_open(struct steno_map *out, const char *path, steno_err *err);
/* The same for an open file. The mapping owns fd from then on; if it fails, the caller still does.
 * (A duplicate of fd would be safe, but ThreadSanitizer reports its use as a race.) now: read all
 * pages at once. */
STENO_MUST steno_status steno_map_take(struct steno_map *out, int fd, bool now, const char *path,
                                       steno_err *err);
void steno_map_close(struct steno_map *m);
/* True if the file was written to or shrank since it was mapped. Renaming or removing it, or giving
 * its name to another file, is no change. Any thread; a system call. */
bool steno_map_changed(const struct steno_map *m);
/* STENO_ERR_IO if it changed. The message has the file's name without its folder, and what to do.
 */
STENO_MUST steno_status steno_map_check(const struct steno_map *m, const char *path,
                                        steno_err *err);

/* For a program: from now on a read behind the end of a mapped file gives zeros, in mappings
 * that are neither written to nor executed. Others end the process, as they do without it. */
void steno_map_guard(void);

#endif
