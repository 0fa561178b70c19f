/* Paths of files in a model's directory. */
#ifndef STENO_FAMILIES_COMMON_PATH_H
#define STENO_FAMILIES_COMMON_PATH_H

#include <stdbool.h>

/* "dir/file"; the caller's to free(). NULL: out of memory. */
char *steno_path_join(const char *dir, const char *file);
/* Whether dir/file can be read. */
bool steno_path_readable(const char *dir, const char *file);
/* The name at the end of a path, which may end in slashes: the length is *n. */
const char *steno_path_name(const char *path, int *n);

#endif
