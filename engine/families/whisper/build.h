/* Whisper's networks as graphs of the engine, built from the weights.
 *
 * encoder   in   frames [1, 2 T, 3 mels]: mel frame t - 1, t, t + 1 side by side, zeros beyond the
 * ends positions [1, T, d] out  rows [1, T, d]; memory_i [1, T, 2 d']: keys, then values, of the
 * decoder's layer i for the cross attention, all heads side by side step      in   x [B, 1, d']
 * embedding plus position of the newest token of each entry of the batch; pick [M] i64: entries
 * whose scores are wanted out  logits [M, 1, vocab]; fresh_i [B, 1, 3 d']: query, key and value of
 * layer i's self attention; query_i [B, 1, d'] of its cross attention Keys and values of before are
 * lent (nn/ops/kv_cache.h): CachedAttention reads them.
 *
 * Both convolutions are products: rows side by side times [3 c, d]. Embeddings are no part of a
 * graph: the output layer holds them packed, and rows of them are read from the file
 * (steno_whisper_rows). */
#ifndef STENO_FAMILIES_WHISPER_BUILD_H
#define STENO_FAMILIES_WHISPER_BUILD_H

#include "families/whisper/weights.h"
#include "nn/graph/graph.h"

/* *out: a new graph; its large constants are made of w's elements when they are needed, so w
 * outlives the loading of the network. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_build_encoder(const steno_whisper_weights *w,
                                                    struct steno_graph **out, steno_err *err);
STENO_MUST steno_status steno_whisper_build_step(const steno_whisper_weights *w,
                                                 struct steno_graph **out, steno_err *err);

#endif
