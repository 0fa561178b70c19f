/* What Fun-ASR-Nano reads before a recording: who it is, then the user's wish, in Chinese, with
 * context, language, and whether numbers are written in digits (FunASR, fun_asr_nano/model.py;
 * context as Hugging Face's chat template of the checkpoint). */
#ifndef STENO_FAMILIES_FUNASR_NANO_PROMPT_H
#define STENO_FAMILIES_FUNASR_NANO_PROMPT_H

#include "speech/families/llm/prompt.h"

enum steno_nano_mark { STENO_NANO_BEGIN, STENO_NANO_END, STENO_NANO_END_OF_TEXT, STENO_NANO_MARKS };
/* <|im_start|>, <|im_end|>, <|endoftext|>. STENO_ERR_FORMAT: one is missing in `path`. */
STENO_MUST steno_status steno_nano_find_marks(int32_t mark[STENO_NANO_MARKS],
                                              const struct steno_llm_vocabulary *v,
                                              const char *path, steno_err *err);

/* The codes of the languages with blanks between: out [size]. all: of the model of 31 languages,
 * else of that of three. */
void steno_nano_languages(bool all, char *out, size_t size);

/* Make the prompt of a stream: o's prompt, hotwords and vocabulary are its context, of which at
 * most `most` tokens are kept. digits: numbers are written as people write them. STENO_ERR_INVAL:
 * several languages; errors of steno_llm_draft_take. Close also after a failure. */
STENO_MUST steno_status steno_nano_prompt_make(struct steno_llm_prompt *p,
                                               const struct steno_llm_vocabulary *v,
                                               const int32_t mark[STENO_NANO_MARKS],
                                               const struct steno_family_stream *o, bool digits,
                                               size_t most, steno_err *err);
/* Tokens of the longest prompt without a context. Errors of make. */
STENO_MUST steno_status steno_nano_prompt_longest(const struct steno_llm_vocabulary *v,
                                                  const int32_t mark[STENO_NANO_MARKS], size_t *n,
                                                  steno_err *err);

#endif
