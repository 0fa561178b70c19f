/* The vocabulary of the package openai-whisper: lines "base64 rank" (gpt2.tiktoken,
 * multilingual.tiktoken). Stateless. */
#ifndef STENO_CONVERT_WHISPER_RANKS_H
#define STENO_CONVERT_WHISPER_RANKS_H

#include "base/buf.h"

/* Append them as vocab.json, {"piece": rank, ...} in GPT-2's printable form, with "<|endoftext|>"
 * behind them. name: for messages. STENO_ERR_FORMAT: a line is none, or ranks do not count from 0;
 * STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_ranks(struct steno_buf *b, const void *bytes, size_t n,
                                            const char *name, steno_err *err);

#endif
