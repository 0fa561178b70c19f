/* Paths of files in a model's directory. */
#ifndef STENO_FAMILIES_COMMON_PATH_H
#define STENO_FAMILIES_COMMON_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* "dir/file", to be freed by the caller. NULL: out of memory. */
char *steno_path_join(const char *dir, const char *file);
/* Whether the process may read dir/file. */
bool steno_path_readable(const char *dir, const char *file);
/* The last name of a path and its length *n, without slashes at the end of the path. */
const char *steno_path_name(const char *path, int *n);
/* Write it to out [size], cut off if it is too long. */
void steno_path_copy_name(char *out, size_t size, const char *path);

#endif
