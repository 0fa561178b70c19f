/* What the families share whose decoder is a large language model: they begin with these structs,
 * and put these functions into their shells. */
#ifndef STENO_FAMILIES_LLM_MODEL_H
#define STENO_FAMILIES_LLM_MODEL_H

#include "speech/families/llm/decoder.h"

/* Frozen after open. */
struct steno_llm_model {
    struct steno_shell_model base; /* part[0], ...: networks in front of the decoder */
    struct steno_llm llm;
    struct steno_llm_vocabulary vocabulary; /* its tokens are base's, too */
    char languages[256];                    /* codes */
};
/* Close what is not base's. A family without more has it as its `close`. */
void steno_llm_model_close(void *model);
/* In `open`, once v is open, with the status st of that: its tokens are the shell's. Returns st. */
STENO_MUST steno_status steno_llm_model_take(struct steno_llm_model *m, steno_status st);
/* network, languages, detects_language, writes, and the decoder's weights. */
void steno_llm_model_info(const void *model, struct steno_family_info *out);
/* The lines of a description behind "features". */
void steno_llm_model_describe(const struct steno_llm_model *m, const struct steno_model_info *i,
                              FILE *out);

struct steno_llm_stream {
    struct steno_shell_stream base;
    struct steno_llm_prompt prompt;
};
void steno_llm_stream_close(void *stream);
/* Tokens of a request's context, at most. */
size_t steno_llm_context(const struct steno_llm_model *m);

struct steno_llm_worker {
    struct steno_shell_worker base;
    struct steno_llm_run run;
};
STENO_MUST steno_status steno_llm_worker_open(void *worker, const void *model, int max,
                                              steno_err *err);
void steno_llm_worker_close(void *worker);
/* The prompt of a piece's stream. */
const struct steno_llm_prompt *steno_llm_prompt_of(const struct steno_offline_piece *p);
/* The text that was written as p's hypothesis, its tokens over `frames` frames of scores, in the
 * language of the prompt if it names one. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_llm_list(struct steno_llm_worker *w, struct steno_offline_piece *p,
                                       size_t frames);

#endif
