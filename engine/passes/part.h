/* Parts of exported decoders and language models. */
#ifndef STENO_PASSES_PART_H
#define STENO_PASSES_PART_H

/* Of a Transformer decoder or language model of espnet_onnx, which takes whole prefixes, the part
 * that a network is to be (passes/incremental.c). Inputs and outputs in this order:
 *
 * STENO_PART_STEP  one token further for B hypotheses
 *     in   tgt       i64 [B, 1]  newest tokens
 *          position  i64 [1]     how many tokens came before (only with a table of positions)
 *          counts    i64 [layers + 1]  keys that self attention of each layer finds in the cache;
 *                                last: rows of the memory
 *          index     i32 [B, S]  which cache rows are each hypothesis' keys, oldest first
 *          cache_i   f32 [N, w]  for each layer: rows that earlier runs gave as new_i, anywhere
 *          bias      f32 [N]     ... as new_bias (only where tokens can be masked)
 *          memory_i  f32 [M, w]  for each layer, of STENO_PART_ONCE (decoders)
 *     out  y         f32 [B, V]  as the exported graph's; logits become log-probabilities
 *          new_i     f32 [B, 1, w]
 *          new_bias  f32         B numbers
 * STENO_PART_ONCE  what an utterance needs once
 *     in   memory    f32 [1, M, d]  the encoder's rows; a graph without memory has no input
 *     out  memory_i  f32 [1, M, w]  keys and values for cross attention of each layer
 *          zero_i    f32 [1, 1, w]  without memory: keys and values of a cache row of zeros, for
 *                                layers 1, 2, ... (layer 0 has none) */
enum steno_part { STENO_PART_ALL, STENO_PART_STEP, STENO_PART_ONCE };

#endif
