/* Check of the headers of an Ogg Vorbis file before libsndfile gets it. libsndfile 1.2.0 leaks the
 * decoder's tables (5.8 KB) on every damaged header of this kind, which a server that takes uploads
 * cannot accept. */
#ifndef STENO_AUDIO_OGG_VORBIS_H
#define STENO_AUDIO_OGG_VORBIS_H

#include <sys/types.h>

#include "base/status.h"

/* Like read(2): reads up to n bytes, 0 = end, -1 = error in errno. */
typedef ssize_t steno_ogg_read_fn(void *user, void *buf, size_t n);

/* Read pages from the current position until the three header packets of the first logical stream
 * are parsed (Vorbis I specification, section 4.2). Also STENO_OK when that stream is not Vorbis.
 * STENO_ERR_FORMAT names the damaged or missing header. STENO_ERR_LIMIT: the headers exceed 16
 * MiB. */
STENO_MUST steno_status steno_ogg_vorbis_check(steno_ogg_read_fn *read, void *user, steno_err *err);

#endif
