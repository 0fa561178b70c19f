/* KenLM's binary n-gram models (format version 5): probing hash tables and tries whose numbers are
 * not quantized, looked up in the file's bytes. search/lm/ngram.h chooses between this and ARPA.
 * Frozen. */
#ifndef STENO_SEARCH_LM_KENLM_H
#define STENO_SEARCH_LM_KENLM_H

#include "base/status.h"

typedef struct steno_kenlm steno_kenlm;

#define STENO_KENLM_MAX_ORDER 16

/* Do the bytes begin as a KenLM binary, whatever its version and type? */
bool steno_kenlm_is(const char *bytes, size_t n);

/* The model keeps pointing into bytes [n]; name: for messages. All tables are read through once.
 * STENO_ERR_FORMAT: sizes that do not fit the file, a table without an empty bucket, numbers that
 * are none, word numbers or pointers out of range. STENO_ERR_UNSUPPORTED: another version or type,
 * by name. */
STENO_MUST steno_status steno_kenlm_parse(steno_kenlm **out, const char *bytes, size_t n,
                                          const char *name, steno_err *err);
void steno_kenlm_close(steno_kenlm *m);

int steno_kenlm_order(const steno_kenlm *m);
int64_t steno_kenlm_count(const steno_kenlm *m, int n); /* n-grams of n words */
/* Number of a word; 0, that of <unk>, for one the model does not have. */
int32_t steno_kenlm_word(const steno_kenlm *m, const char *word);

/* out [n_words]: log10 of the probability of each of words [n_words] after the n words of context,
 * oldest first; of more than the order asks for the last count. */
void steno_kenlm_score(const steno_kenlm *m, const int32_t *context, size_t n, const int32_t *words,
                       size_t n_words, double *out);

#endif
