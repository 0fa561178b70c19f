/* The vocabulary of a language model: byte-level BPE, and tokens that the tokenizer adds to it. */
#ifndef STENO_FAMILIES_LLM_VOCABULARY_H
#define STENO_FAMILIES_LLM_VOCABULARY_H

#include "formats/json.h"
#include "speech/text/bpe.h"
#include "speech/text/tokens.h"

/* Frozen after open. */
struct steno_llm_vocabulary {
    steno_bpe *bpe;       /* cuts texts by the model's pattern */
    steno_tokens *tokens; /* all pieces; the added ones are hidden */
};

/* Find the first folder in dir, by name, with vocab.json, and tokenizer_config.json or
 * tokenizer.json; "." is dir itself, which comes first. *out: its name, to be freed. STENO_ERR_IO:
 * there is none, or dir cannot be read; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_llm_vocabulary_folder(char **out, const char *dir, steno_err *err);
/* Read vocab.json in the folder dir/folder, and its added tokens: added_tokens_decoder of
 * tokenizer_config.json, or, where there is no such file, added_tokens of tokenizer.json. Merges
 * need no file: pieces are numbered in their order. STENO_ERR_FORMAT: there are no added tokens, or
 * a number is wrong; errors of steno_bpe_open, steno_json_open, steno_tokens_of_bytes. Close also
 * after a failure. */
STENO_MUST steno_status steno_llm_vocabulary_open(struct steno_llm_vocabulary *v, const char *dir,
                                                  const char *folder, steno_err *err);
/* The same of one tokenizer.json in dir, which has all of it. */
STENO_MUST steno_status steno_llm_vocabulary_open_one(struct steno_llm_vocabulary *v,
                                                      const char *dir, steno_err *err);
/* The second half of it: v->bpe is open, config is the file `path`, for messages; its
 * pre_tokenizer, if there is one, decides the pattern. */
STENO_MUST steno_status steno_llm_vocabulary_add(struct steno_llm_vocabulary *v,
                                                 const steno_json *config, const char *path,
                                                 steno_err *err);
/* The numbers of n added tokens. STENO_ERR_FORMAT: there is none of a name; path: as above. */
STENO_MUST steno_status steno_llm_vocabulary_find(const struct steno_llm_vocabulary *v,
                                                  const char *const *marks, size_t n,
                                                  const char *path, int32_t *ids, steno_err *err);
void steno_llm_vocabulary_close(struct steno_llm_vocabulary *v);

#endif
