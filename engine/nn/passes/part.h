/* Parts of exported decoders and language models. */
#ifndef STENO_NN_PASSES_PART_H
#define STENO_NN_PASSES_PART_H

/* The part of an espnet_onnx Transformer decoder or language model that a network runs. The
 * exported graph takes whole prefixes (nn/passes/incremental.c). Inputs and outputs, in this order:
 *
 * STENO_PART_STEP  computes one more token for B hypotheses, of one search or of several
 *     in   tgt       i64 [B, 1]     newest tokens
 *          position  i64 [B]        number of tokens before (only with a table of positions)
 *     cache          the bound key/value caches (nn/exec/kv_cache.h): what earlier runs gave as
 *                    new_i and new_bias; for decoders also what STENO_PART_ONCE gave
 *     out  y         f32 [B, V]     as the exported graph's; logits become log-probabilities
 *          new_i     f32 [B, 1, w]  keys and values of each layer
 *          new_bias  f32            B numbers, or one (only if tokens can be masked)
 * STENO_PART_ONCE  computes what an utterance needs once
 *     in   memory    f32 [1, M, d]  the encoder's frames; a graph without memory has no input
 *     out  memory_i  f32 [1, M, w]  keys and values for cross attention of each layer
 *          zero_i    f32 [1, 1, w]  without memory: keys and values of a cache row of zeros, for
 *                                   layers 1, 2, ... (layer 0 has none) */
enum steno_part { STENO_PART_ALL, STENO_PART_STEP, STENO_PART_ONCE };

#endif
