/* Paths: their parts, and what lies there. */
#ifndef STENO_BASE_PATH_H
#define STENO_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* "dir/file", to be freed by the caller. NULL: out of memory. */
char *steno_path_join(const char *dir, const char *file);
/* The same for the folder in which the file `path` lies. */
char *steno_path_beside(const char *path, const char *file);
/* Whether the process may read dir/file. */
bool steno_path_readable(const char *dir, const char *file);
/* Make a directory and those above it that are absent, with this mode, for root whatever the umask
 * is. STENO_ERR_INVAL: the path is too long; STENO_ERR_IO: the reason. Messages begin with the
 * path. */
STENO_MUST steno_status steno_path_make_dirs(const char *path, mode_t mode, steno_err *err);
/* Whether a name ends in `ending`, and has something before it. */
bool steno_path_ends(const char *name, const char *ending);
/* Whether there is a directory at this path. */
bool steno_path_is_dir(const char *path);
/* The last name of a path and its length *n, without slashes at the end of the path. */
const char *steno_path_name(const char *path, int *n);
/* Write it to out [size], cut off if it is too long. */
void steno_path_copy_name(char *out, size_t size, const char *path);

#endif
