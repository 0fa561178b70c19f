/* OpenAI's Whisper checkpoints (torch.save of {"dims", "model_state_dict"}) as Hugging Face's
 * directory: the weights as they are, under other names. */
#ifndef STENO_CONVERT_WHISPER_H
#define STENO_CONVERT_WHISPER_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

bool steno_convert_whisper_probe(const struct steno_bundle *b);
/* Write model.safetensors, config.json and the vocabulary that lies beside the checkpoint.
 * STENO_ERR_IO: there is no vocabulary. STENO_ERR_FORMAT: a tensor of a name that is not known, or
 * dims that are none. */
STENO_MUST steno_status steno_convert_whisper(const struct steno_bundle *b, const char *out,
                                              const struct steno_convert_options *o,
                                              steno_err *err);

#endif
