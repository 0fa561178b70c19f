/* Languages of an encoder with a prompt (Nemotron 3.5): the input prompt_index takes the number of
 * a language. The metadata prompt_dictionary has them as a JSON object, {"de": 9, "de-DE": 9, ...},
 * auto_prompt_id the number where none is named. Source: sherpa-onnx 2.0.1, by its results. */
#ifndef STENO_FAMILIES_NEMO_PROMPTS_H
#define STENO_FAMILIES_NEMO_PROMPTS_H

#include <stdint.h>

#include "formats/onnx_head.h"

#define STENO_NEMO_PROMPTS 4096 /* numbers are below */

/* All zero: there are none. Frozen. */
struct steno_nemo_prompts {
    struct steno_nemo_prompt *list; /* [n] */
    size_t n;
    int64_t automatic, highest;
    char languages[400]; /* codes, "de en fr"; the most that struct steno_model_languages holds */
};

/* Read the metadata of an encoder; without prompt_dictionary it has one language, automatic. file:
 * for messages. STENO_ERR_FORMAT, STENO_ERR_NOMEM. Free also after a failure. */
STENO_MUST steno_status steno_nemo_prompts_read(struct steno_nemo_prompts *p,
                                                const steno_onnx_head *h, const char *file,
                                                steno_err *err);
/* The same of a JSON object, NULL: none, and the number where no language is named. */
STENO_MUST steno_status steno_nemo_prompts_parse(struct steno_nemo_prompts *p,
                                                 const char *dictionary, int64_t automatic,
                                                 const char *file, steno_err *err);
void steno_nemo_prompts_free(struct steno_nemo_prompts *p);
/* The number of a language, "de", "de-DE" or "DE_de"; of one without a region that the dictionary
 * has with regions alone, the first of these. NULL, "" or unknown: automatic. */
int64_t steno_nemo_prompts_find(const struct steno_nemo_prompts *p, const char *language);
/* Whether a piece is the mark of a language that such a model writes, "<de>" or "<de-DE>". */
bool steno_nemo_prompts_is_mark(const char *piece);

#endif
