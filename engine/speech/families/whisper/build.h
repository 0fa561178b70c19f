/* Whisper's networks as graphs of the engine, built from the weights.
 *
 * The encoder takes frames [1, 2 T, 3 mels] and positions [1, T, d] and gives rows [1, T, d]. Row t
 * of the frames is mel frames t - 1, t and t + 1 side by side, with zeros beyond the ends.
 *
 * The cross network takes some of these rows, [1, N, d]. It gives memory_i [1, N, 2 d'] for the
 * cross attention of the decoder's layer i: the keys of all heads, then the values. It is separate
 * from the encoder so that it can run on a part of the rows at a time: a window of large-v3 has
 * 490 MB of keys and values.
 *
 * The step takes x [B, 1, d'], embedding plus position of the newest token of each entry of the
 * batch. It gives hidden [B, 1, d'], fresh_i [B, 1, 3 d'] with query, key and value of layer i's
 * self attention, and query_i [B, 1, d'] of its cross attention. CachedAttention reads the keys and
 * values of earlier tokens from a bound external cache (nn/exec/kv_cache.h).
 *
 * The scores network takes rows of hidden, [M, 1, d'], and gives logits [M, 1, vocab]. It is
 * separate so that it can run on a part of the rows at a time: 100 rows have 20 MB of logits.
 *
 * Both convolutions are products of rows side by side with a matrix [3 c, d]. Embeddings are not
 * part of a graph: the output layer holds them packed, and single rows are read from the file
 * (steno_whisper_rows). */
#ifndef STENO_FAMILIES_WHISPER_BUILD_H
#define STENO_FAMILIES_WHISPER_BUILD_H

#include "speech/families/whisper/weights.h"
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
STENO_MUST steno_status steno_whisper_build_scores(void *weights, struct steno_graph **out,
                                                   steno_err *err);

#endif
