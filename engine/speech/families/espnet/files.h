/* Finds the files of an espnet_onnx directory. Paths that are returned belong to the arena of the
 * configuration; NULL: no such file. */
#ifndef STENO_FAMILIES_ESPNET_FILES_H
#define STENO_FAMILIES_ESPNET_FILES_H

#include "speech/families/espnet/conf.h"

const char *steno_espnet_base_name(const char *path);
/* The file that a key names: the path as it is, then below the directory, then its last folder and
 * name there, then its name alone. */
const char *steno_espnet_find_named(struct steno_espnet_conf *c, const char *given);
/* The ONNX file of dir/sub whose name has `role` in it; NULL: none, or several. */
const char *steno_espnet_find_role(struct steno_espnet_conf *c, const char *sub, const char *role);
/* The file of the directory whose name ends in `end`; NULL: none, or several. */
const char *steno_espnet_find_ending(struct steno_espnet_conf *c, const char *end);

#endif
