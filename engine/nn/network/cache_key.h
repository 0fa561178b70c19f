/* The origin of a packed cache: the bytes of the model file, the source from which this library was
 * built, the CPU level, the settings. Hashing 342 MB takes 62 ms of processor time, as much again
 * as mapping its cache. So the content of a path is noted together with the file's stamp (place,
 * size, times):
 *
 *     BASE-<hash of the path>.stenokey     stamp, hash of the bytes
 *     BASE-<hash of the key>.stenopack     the cache (nn/network/cache.h)
 *
 * A model that was copied, moved or touched is hashed again and finds its cache. Programs of one
 * build find the same cache, and so do two copies of one model. When a path gets another model, the
 * caches of the old one are removed, unless another path still has that model. */
#ifndef STENO_NN_NETWORK_CACHE_KEY_H
#define STENO_NN_NETWORK_CACHE_KEY_H

#include "nn/network/network.h"
#include "nn/onnx/load.h"

#include <limits.h>
#include <sys/stat.h>

struct steno_stamp {
    uint64_t v[7];
};

struct steno_content {
    uint64_t v[2]; /* XXH3, 128 bits */
};

struct steno_cache_id {
    char file[PATH_MAX], note[PATH_MAX], base[128];
    struct steno_stamp stamp;
    struct steno_content model, key;
    struct steno_content before; /* content of the path in the last note; zeros: no note */
    bool noted;                  /* stamp and model come from the note */
};

bool steno_content_equal(const struct steno_content *a, const struct steno_content *b);
/* True for a file that only we may write: its contents are executed. */
bool steno_cache_trusted(const struct stat *sb);
/* Compute the key and the file names. False: the model file cannot be read, changes meanwhile, or a
 * name is too long; id->file is then empty. */
bool steno_cache_identify(struct steno_cache_id *id, const char *path, unsigned cpu,
                          const struct steno_network_options *o);
/* True when the file is still the identified one, so that all that was read since then is from
 * it. */
bool steno_cache_current(const struct steno_cache_id *id, const char *path);
/* Write the note, and remove caches that no path can use any more. Failures are not reported. */
void steno_cache_remember(const struct steno_cache_id *id, const char *dir);

/* Stamps and content of the model's files of external data, and whether they are still the same. */
bool steno_cache_external(const char *model, const struct steno_onnx_info *info,
                          struct steno_stamp *stamps, struct steno_content *out);
bool steno_cache_external_same(const char *model, const struct steno_onnx_info *info,
                               const struct steno_stamp *stamps, const struct steno_content *then);

#endif
