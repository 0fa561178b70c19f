/* Whisper's networks as graphs of the engine, built from the weights.
 *
 * The encoder takes frames [1, 2 T, 3 mels], of which row t is mel frames t - 1, t, t + 1 side by
 * side with zeros beyond the ends, and positions [1, T, d]. It gives rows [1, T, d].
 *
 * The cross network takes rows [1, N, d], any of those, and gives memory_i [1, N, 2 d']: keys, then
 * values, of the decoder's layer i for the cross attention, all heads side by side. It is apart
 * from the encoder, so that they are made some rows at a time: of large-v3 a window has 490 MB of
 * them.
 *
 * The step takes x [B, 1, d'], embedding plus position of the newest token of each entry of the
 * batch, and pick [M] i64, the entries whose scores are wanted. It gives logits [M, 1, vocab],
 * fresh_i [B, 1, 3 d'] with query, key and value of layer i's self attention, and query_i
 * [B, 1, d'] of its cross attention. CachedAttention reads the keys and values of earlier tokens
 * from a bound external cache (nn/exec/kv_cache.h).
 *
 * Both convolutions are products: rows side by side times [3 c, d]. Embeddings are no part of a
 * graph: the output layer holds them packed, and rows of them are read from the file
 * (steno_whisper_rows). */
#ifndef STENO_FAMILIES_WHISPER_BUILD_H
#define STENO_FAMILIES_WHISPER_BUILD_H

#include "families/whisper/weights.h"
#include "nn/graph/graph.h"

/* Each is the `make` of a steno_graph_source, whose arg is the weights (steno_whisper_weights *).
 * *out: a new graph. Its large constants are made of the weights' elements when they are needed, so
 * the weights outlive the loading of the network. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_build_encoder(void *weights, struct steno_graph **out,
                                                    steno_err *err);
STENO_MUST steno_status steno_whisper_build_cross(void *weights, struct steno_graph **out,
                                                  steno_err *err);
STENO_MUST steno_status steno_whisper_build_step(void *weights, struct steno_graph **out,
                                                 steno_err *err);

#endif
