/* KenLM's binary n-gram models (format version 5): probing hash tables and tries without quantized
 * numbers. Look-ups read the file's bytes. search/lm/ngram.h chooses between this and ARPA.
 * Frozen. */
#ifndef STENO_SEARCH_LM_KENLM_H
#define STENO_SEARCH_LM_KENLM_H

#include "base/status.h"

typedef struct steno_kenlm steno_kenlm;

#define STENO_KENLM_MAX_ORDER 16

/* True if the bytes begin like a KenLM binary of any version and type. */
bool steno_kenlm_is(const char *bytes, size_t n);

/* Open a model. It refers to bytes [n], which must outlive it; name is used in messages. All tables
 * are read once. STENO_ERR_FORMAT: sizes that do not fit the file, a table without an empty bucket,
 * invalid numbers, word numbers or pointers out of range. STENO_ERR_UNSUPPORTED: another version or
 * type, which the message names. */
STENO_MUST steno_status steno_kenlm_parse(steno_kenlm **out, const char *bytes, size_t n,
                                          const char *name, steno_err *err);
void steno_kenlm_close(steno_kenlm *m);

int steno_kenlm_order(const steno_kenlm *m);
int64_t steno_kenlm_count(const steno_kenlm *m, int n); /* n-grams of n words */
/* Number of a word; 0, that of <unk>, for an unknown word. */
int32_t steno_kenlm_word(const steno_kenlm *m, const char *word);

/* out [n_words]: log10 of the probability of each of words [n_words] after the n words of context,
 * oldest first. If there are more than the order needs, the last ones count. */
void steno_kenlm_score(const steno_kenlm *m, const int32_t *context, size_t n, const int32_t *words,
                       size_t n_words, double *out);

#endif
