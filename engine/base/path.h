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
/* How well a name of a directory is what is looked for; 0: not at all. */
typedef int steno_path_rank(const char *name, const void *arg);
/* Find the name in `dir` of the highest rank, of equal ones the first; *n, or NULL: how many have a
 * rank. *out is the caller's to free; NULL: none has one. STENO_ERR_IO: the reason,
 * STENO_ERR_NOMEM. Messages begin with the path. */
STENO_MUST steno_status steno_path_find(char **out, const char *dir, steno_path_rank *rank,
                                        const void *arg, size_t *n, steno_err *err);
/* The last name of a path and its length *n, without slashes at the end of the path. */
const char *steno_path_name(const char *path, int *n);
/* Write it to out [size], cut off if it is too long. */
void steno_path_copy_name(char *out, size_t size, const char *path);

#endif
