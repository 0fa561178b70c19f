/* Packed caches (steno_network_options.cache_dir). A file is
 *
 *     head      4096 bytes: magic, key, places, sums
 *     blobs     packed weights, and constants that are still needed, each at a multiple of 64 bytes
 *               and followed by STENO_OVERREAD bytes
 *     table     offset and size of each packed block, in the order in which operators request them
 *     graph     the graph after the passes, as a private ONNX message (nn/onnx/private_copy.h)
 *     facts     struct cache_facts: what steno_network reports about itself
 *
 * or, if the requested part cannot be cut out of the graph, only the reason: finding it again, by
 * reading and rewriting the graph, would take as long as opening the network.
 *
 * A file is written under another name and renamed: readers see a complete file or none, even if
 * many processes start at once. The key identifies the origin of the file
 * (nn/network/cache_key.h). */
#ifndef STENO_NN_NETWORK_CACHE_H
#define STENO_NN_NETWORK_CACHE_H

#include "nn/network/internal.h"

struct steno_cache;
struct steno_content;
struct steno_cache_id;

/* Fill n, which has only its kernels so far, from the cache. False: no file fits, and n is
 * unchanged; id is then used for storing. */
bool steno_cache_load(steno_network *n, const char *path, const struct steno_network_options *opt,
                      struct steno_cache_id *id);
/* Write the cache of n, which still has its packed constants. A failure leaves no file and is not
 * reported: the next load tries again. */
void steno_cache_store(const steno_network *n, const char *path,
                       const struct steno_network_options *opt, const struct steno_cache_id *id);
/* True when the part was refused earlier, for the same graph opened in the same way; *why gets the
 * reason as reported then. id: from a steno_cache_load that returned false. */
bool steno_cache_refused(const struct steno_cache_id *id, steno_err *why);
/* Store such a refusal. Models with external data are left out, because that data may be the
 * reason. */
void steno_cache_refuse(const steno_network *n, const char *path,
                        const struct steno_network_options *opt, const struct steno_cache_id *id,
                        const steno_err *why);
/* Content of the model file from which a cache file was made, as its head says. */
bool steno_cache_model(const char *file, struct steno_content *out);
void steno_cache_unmap(struct steno_cache *c); /* after the graph is gone; accepts NULL */

#endif
