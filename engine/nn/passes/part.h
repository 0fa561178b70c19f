/* Parts of exported decoders and language models. */
#ifndef STENO_NN_PASSES_PART_H
#define STENO_NN_PASSES_PART_H

/* Of a Transformer decoder or language model of espnet_onnx, which takes whole prefixes, the part
 * that a network is to be (nn/passes/incremental.c). Inputs and outputs in this order:
 *
 * STENO_PART_STEP  one token further for B hypotheses, of one search or of several
 *     in   tgt       i64 [B, 1]  newest tokens
 *          position  i64 [B]     how many tokens came before (only with a table of positions)
 *     lent           the searches (nn/exec/kv_cache.h): rows that earlier runs gave as new_i and
 * new_bias, and of decoders what STENO_PART_ONCE gave of the utterance out  y         f32 [B, V] as
 * the exported graph's; logits become log-probabilities new_i     f32 [B, 1, w]  for each layer
 *          new_bias  f32         B numbers, or one (only where tokens can be masked)
 * STENO_PART_ONCE  what an utterance needs once
 *     in   memory    f32 [1, M, d]  the encoder's rows; a graph without memory has no input
 *     out  memory_i  f32 [1, M, w]  keys and values for cross attention of each layer
 *          zero_i    f32 [1, 1, w]  without memory: keys and values of a cache row of zeros, for
 *                                layers 1, 2, ... (layer 0 has none) */
enum steno_part { STENO_PART_ALL, STENO_PART_STEP, STENO_PART_ONCE };

#endif
