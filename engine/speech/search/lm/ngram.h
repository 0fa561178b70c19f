/* N-gram language models: the ARPA text form (as written by SRILM and KenLM) and KenLM's binaries
 * (search/lm/kenlm.h), scored with back-off like KenLM. Frozen. */
#ifndef STENO_SEARCH_LM_NGRAM_H
#define STENO_SEARCH_LM_NGRAM_H

#include "base/status.h"

typedef struct steno_ngram steno_ngram;

#define STENO_NGRAM_MAX_ORDER 16
#define STENO_NGRAM_MAX_FILE ((size_t)4 << 30)

/* Read a file, or its bytes (n of them followed by a zero byte; name is used in messages).
 * STENO_ERR_FORMAT names the line: a missing section, counts that differ from the header, an
 * invalid number, a log-probability above 0, a word without a 1-gram, a duplicate n-gram. For a
 * KenLM binary: as steno_kenlm_parse. */
STENO_MUST steno_status steno_ngram_open(steno_ngram **out, const char *path, steno_err *err);
STENO_MUST steno_status steno_ngram_parse(steno_ngram **out, const char *bytes, size_t n,
                                          const char *name, steno_err *err);
void steno_ngram_close(steno_ngram *m);

int steno_ngram_order(const steno_ngram *m);
int64_t steno_ngram_count(const steno_ngram *m, int n); /* n-grams of n words */
/* Number of a word; that of <unk> for an unknown word. */
int32_t steno_ngram_word(const steno_ngram *m, const char *word);
size_t steno_ngram_bytes(const steno_ngram *m);

/* log10 of the probability of `word` after the n words of context, oldest first. If there are more
 * than the order needs, the last ones count. */
double steno_ngram_score(const steno_ngram *m, const int32_t *context, size_t n, int32_t word);

/* A model's tokens as words of an n-gram model: scores of all tokens at once. Frozen. */
typedef struct steno_ngram_map steno_ngram_map;

/* words: [n] terminated, the word of each token. A token is unknown if the model does not have its
 * word. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ngram_map_open(steno_ngram_map **out, const steno_ngram *m,
                                             const char *const *words, size_t n, steno_err *err);
void steno_ngram_map_close(steno_ngram_map *p);
size_t steno_ngram_map_unknown(const steno_ngram_map *p); /* number of unknown tokens */
/* out [tokens]: log10 of the probability of each token after n tokens, which the beginning of the
 * sentence precedes. */
void steno_ngram_map_score(const steno_ngram_map *p, const int32_t *tokens, size_t n, float *out);

#endif
