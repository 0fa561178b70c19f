/* What Qwen3-ASR reads before and behind a recording: context, then the language if it is given. */
#ifndef STENO_FAMILIES_QWEN_ASR_PROMPT_H
#define STENO_FAMILIES_QWEN_ASR_PROMPT_H

#include "speech/families/llm/prompt.h"

enum steno_qwen_mark {
    STENO_QWEN_BEGIN, /* of a turn: <|im_start|> */
    STENO_QWEN_END,   /* <|im_end|> */
    STENO_QWEN_AUDIO_BEGIN,
    STENO_QWEN_AUDIO_END,
    STENO_QWEN_AUDIO, /* stands for a row of the encoder */
    STENO_QWEN_TEXT,  /* <asr_text>, between the language and the text */
    STENO_QWEN_MARKS
};
/* Their numbers. STENO_ERR_FORMAT: one is missing in `path`. */
STENO_MUST steno_status steno_qwen_find_marks(int32_t mark[STENO_QWEN_MARKS],
                                              const struct steno_llm_vocabulary *v,
                                              const char *path, steno_err *err);

/* The codes of the languages that the model writes, with blanks between: out [size]. */
void steno_qwen_languages(char *out, size_t size);
/* The code of a language by the name that the model writes, "English", of n bytes; NULL: it is none
 * of them. Static. */
const char *steno_qwen_language(const char *name, size_t n);

/* Make the prompt of a stream: o's prompt, hotwords and vocabulary are its context, of which at
 * most `most` tokens are kept. STENO_ERR_INVAL: several languages; errors of steno_llm_draft_take.
 * Close also after a failure. */
STENO_MUST steno_status steno_qwen_prompt_make(struct steno_llm_prompt *p,
                                               const struct steno_llm_vocabulary *v,
                                               const int32_t mark[STENO_QWEN_MARKS],
                                               const struct steno_family_stream *o, size_t most,
                                               steno_err *err);

#endif
