/* Directories with all that is in them. */
#ifndef STENO_CLI_TREE_H
#define STENO_CLI_TREE_H

#include <stddef.h>

#include "base/status.h"

/* Remove a file, or a directory with its content; links are removed, not followed. STENO_OK also if
 * there is nothing. STENO_ERR_IO: the reason. */
STENO_MUST steno_status tree_remove(const char *path, steno_err *err);
/* Remove the folders that have no file in them, itself if none has; what cannot be removed stays.
 */
void tree_remove_empty(const char *path);
/* Let others read a directory with its content, whatever the umask. STENO_ERR_IO: the reason. */
STENO_MUST steno_status tree_open(const char *path, steno_err *err);
/* Make the folders of a file's path, "DIR/a/b/file", below DIR, which is its first n characters;
 * others may read them. The path is changed meanwhile. STENO_ERR_IO names the one that cannot be
 * made, or that is no folder but a file or a link. */
STENO_MUST steno_status tree_make_folders(char *path, size_t n, steno_err *err);

#endif
