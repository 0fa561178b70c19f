/* Packed caches (steno_network_options.cache_dir). A file is
 *
 *     head      4096 bytes: magic, key, places, sums
 *     blobs     packed weights, and constants that someone still needs, each at a multiple of 64
 *               bytes with STENO_OVERREAD bytes behind it
 *     table     offset and size of each packed block, in the order operators ask for them
 *     graph     the graph after the passes, as a private ONNX message (nn/onnx/stow.h)
 *     facts     struct cache_facts: what steno_network tells about itself
 *
 * or, where the part that was asked for cannot be cut out of the graph, only the reason: reading
 * and rewriting a graph to find that out again takes as long as opening it.
 *
 * Written under another name and renamed: readers see a whole file or none, however many start at
 * once. The key says what the file was made of (nn/network/cache_key.h). */
#ifndef STENO_NN_NETWORK_CACHE_H
#define STENO_NN_NETWORK_CACHE_H

#include "nn/network/internal.h"

struct steno_cache;
struct steno_content;
struct steno_cache_id;

/* Fill n (kernels chosen, nothing else yet) from the cache. False: there is none that fits, and n
 * is as before; id is for the store that follows. */
bool steno_cache_load(steno_network *n, const char *path, const struct steno_network_options *opt,
                      struct steno_cache_id *id);
/* Write the cache of n, whose spent constants are still there. Failures leave no file behind and
 * are nobody's concern: the next load tries again. */
void steno_cache_store(const steno_network *n, const char *path,
                       const struct steno_network_options *opt, const struct steno_cache_id *id);
/* The part was refused before, when the same graph was opened the same way: why, as it was said
 * then. id: of a steno_cache_load that found nothing. */
bool steno_cache_refused(const struct steno_cache_id *id, steno_err *why);
/* Remember that. Not of a model whose constants lie in other files: they may be the reason. */
void steno_cache_refuse(const steno_network *n, const char *path,
                        const struct steno_network_options *opt, const struct steno_cache_id *id,
                        const steno_err *why);
/* What model a cache file was made of, as its head says. */
bool steno_cache_model(const char *file, struct steno_content *out);
void steno_cache_unmap(struct steno_cache *c); /* after the graph is gone; accepts NULL */

#endif
