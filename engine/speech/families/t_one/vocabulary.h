/* The vocabulary in config.json as onnx-asr reads it: {"decoder_params": {"vocabulary": ["a",
 * ...]}}.
 */
#ifndef STENO_FAMILIES_T_ONE_VOCABULARY_H
#define STENO_FAMILIES_T_ONE_VOCABULARY_H

#include "speech/text/tokens.h"

/* Its entries and, last, the blank <blk>. name: for messages. STENO_ERR_FORMAT: there is no such
 * list, or an entry is no character; errors of steno_json_parse and steno_tokens_parse. */
STENO_MUST steno_status steno_t_one_vocabulary(steno_tokens **out, const void *bytes, size_t n,
                                               const char *name, steno_err *err);

#endif
