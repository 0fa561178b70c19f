/* A whole file mapped for reading. Frozen. */
#ifndef STENO_FORMATS_MAP_H
#define STENO_FORMATS_MAP_H

#include "base/status.h"

struct steno_map {
    const void *p;
    size_t n; /* 0: nothing is mapped */
};

/* Map a file. STENO_ERR_IO: the reason; STENO_ERR_FORMAT: not a regular file. An empty file maps
 * nothing and is not an error. Pages are shared with all who map the same file. The file must not
 * shrink while it is mapped. */
STENO_MUST steno_status steno_map_open(struct steno_map *out, const char *path, steno_err *err);
void steno_map_close(struct steno_map *m);

#endif
