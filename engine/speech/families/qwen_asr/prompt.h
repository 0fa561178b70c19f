/* What Qwen3-ASR reads before and behind a recording: context, then the language if it is given. */
#ifndef STENO_FAMILIES_QWEN_ASR_PROMPT_H
#define STENO_FAMILIES_QWEN_ASR_PROMPT_H

#include "speech/families/family.h"
#include "speech/families/qwen_asr/vocabulary.h"

/* Of a stream. Frozen after make. */
struct steno_qwen_prompt {
    int64_t *ids; /* [n] */
    size_t n, n_before;
    const char *language; /* code; NULL: none is given. Static */
};

/* The codes of the languages that the model writes, with blanks between: out [size]. */
void steno_qwen_languages(char *out, size_t size);
/* The code of a language by the name that the model writes, "English", of n bytes; NULL: it is none
 * of them. Static. */
const char *steno_qwen_language(const char *name, size_t n);

/* Make the prompt of a stream: o's prompt, hotwords and vocabulary are its context, of which at
 * most `most` tokens are kept. STENO_ERR_INVAL: several languages; STENO_ERR_FORMAT: the pieces
 * cannot spell a text; STENO_ERR_NOMEM. Close also after a failure. */
STENO_MUST steno_status steno_qwen_prompt_make(struct steno_qwen_prompt *p,
                                               const struct steno_qwen_vocabulary *v,
                                               const struct steno_family_stream *o, size_t most,
                                               steno_err *err);
void steno_qwen_prompt_close(struct steno_qwen_prompt *p);

#endif
