/* Finding the files of an espnet_onnx directory. Paths are strings of the configuration's arena;
 * NULL when there is none. */
#ifndef STENO_FAMILIES_ESPNET_FILES_H
#define STENO_FAMILIES_ESPNET_FILES_H

#include "families/espnet/conf.h"

const char *steno_espnet_base_name(const char *path);
/* What a key names: as it stands, below the directory, under its last folder, under its name. */
const char *steno_espnet_find_named(struct steno_espnet_conf *c, const char *given);
/* The ONNX file of dir/sub whose name holds `role`; NULL for none or several. */
const char *steno_espnet_find_role(struct steno_espnet_conf *c, const char *sub, const char *role);
/* The one file of the directory that ends so; NULL for none or several. */
const char *steno_espnet_find_ending(struct steno_espnet_conf *c, const char *end);

#endif
