/* What a packed cache is of: the bytes of the model file, the source this library was built from,
 * the CPU level, the settings. Hashing 342 MB takes 62 ms of processor time, as much again as
 * mapping their cache, so what a path held is remembered with the file's stamp (place, size,
 * times):
 *
 *     BASE-<hash of the path>.stenokey     stamp, hash of the bytes
 *     BASE-<hash of all that>.stenopack    the cache (nn/network/cache.h)
 *
 * A model that was copied, moved or touched is hashed again and finds its cache; so do programs of
 * one build, and two places of one model. A path that holds another model than before takes the old
 * one's caches away, unless another path still holds it. */
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
    struct steno_content before; /* what the path held when it was noted last; zeros: nothing */
    bool noted;                  /* stamp and model are what the note says */
};

bool steno_content_equal(const struct steno_content *a, const struct steno_content *b);
/* Ours alone to write: what lies there is run. */
bool steno_cache_trusted(const struct stat *sb);
/* False: the model file cannot be read, changes meanwhile, or a name is too long; id->file is
 * empty. */
bool steno_cache_identify(struct steno_cache_id *id, const char *path, unsigned cpu,
                          const struct steno_network_options *o);
/* The file is the one that was identified: what has been read since then is of it. */
bool steno_cache_current(const struct steno_cache_id *id, const char *path);
/* Write the note, and remove caches that nobody can ask for any more. Failures are nobody's
 * concern. */
void steno_cache_remember(const struct steno_cache_id *id, const char *dir);

/* Files of external data of the model: what they are, and whether they still are. */
bool steno_cache_external(const char *model, const struct steno_onnx_info *info,
                          struct steno_stamp *stamps, struct steno_content *out);
bool steno_cache_external_same(const char *model, const struct steno_onnx_info *info,
                               const struct steno_stamp *stamps, const struct steno_content *then);

#endif
