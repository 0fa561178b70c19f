/* The names of Whisper's tensors: OpenAI's (whisper/model.py), "decoder.blocks.0.attn.query.bias",
 * and those of transformers (convert_openai_to_hf.py), without "model.",
 * "decoder.layers.0.self_attn.q_proj.bias". */
#ifndef STENO_FORMATS_WHISPER_NAMES_H
#define STENO_FORMATS_WHISPER_NAMES_H

#include "base/status.h"

enum steno_whisper_naming { STENO_WHISPER_OPENAI, STENO_WHISPER_HUGGINGFACE };

/* Write the other name of a tensor that is named so, cut to `size`. False: a tensor of another
 * model, or one that is not needed, such as the output layer, which is the embeddings once more. */
STENO_MUST bool steno_whisper_other_name(const char *name, enum steno_whisper_naming is, char *out,
                                         size_t size);

#endif
