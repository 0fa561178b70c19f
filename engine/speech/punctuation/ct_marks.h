/* The CT-Transformer's vocabulary, the tokens of a text, and the choice of marks by parts of it, as
 * sherpa-onnx has them (offline-punctuation-ct-transformer-impl.h, text-utils.cc). Pure. */
#ifndef STENO_PUNCTUATION_CT_MARKS_H
#define STENO_PUNCTUATION_CT_MARKS_H

#include "speech/punctuation/tokens.h"

#define STENO_CT_MARKS 32    /* at most */
#define STENO_CT_WINDOW 1000 /* tokens of a part at most */

/* A word of the vocabulary. */
struct steno_ct_word {
    const char *text;
    int32_t id;
};

/* Frozen. */
struct steno_ct_vocab {
    char *words, *marks;        /* the two lists, cut into strings */
    struct steno_ct_word *word; /* [n_words], by text */
    size_t n_words;
    int32_t unknown;
    const char *mark[STENO_CT_MARKS]; /* [n_marks]; "": none */
    size_t n_marks;
    uint8_t comma, stop, question; /* their places in mark */
};

/* Read the lists of the metadata, "a|b|c". name is used in messages. STENO_ERR_FORMAT: a mark or
 * `unknown` is not in its list; STENO_ERR_LIMIT: a list is too long; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ct_vocab_read(struct steno_ct_vocab *v, const char *words,
                                            const char *marks, const char *unknown,
                                            const char *name, steno_err *err);
void steno_ct_vocab_free(struct steno_ct_vocab *v);
/* The number of a token [n] in small letters. */
int32_t steno_ct_vocab_find(const struct steno_ct_vocab *v, const char *token, size_t n);

/* Add each token of a text: a word of Latin letters and digits, a mark of ASCII, or a character of
 * another script. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ct_split(struct steno_punctuation_tokens *t, const char *text);

/* What the network says of tokens [begin, end): a place in v->mark for each of them. */
typedef steno_status steno_ct_run(void *arg, size_t begin, size_t end, uint8_t *mark,
                                  steno_err *err);
/* The marks of n tokens, mark [n]. A part ends at the last full stop or question mark that does not
 * end it, and what follows is read again with the next 20 tokens. Unlike sherpa-onnx this goes on
 * until all tokens are read, and a part has a longest length. The text ends with a full stop or a
 * question mark. Errors of run. */
STENO_MUST steno_status steno_ct_choose(const struct steno_ct_vocab *v, size_t n, steno_ct_run *run,
                                        void *arg, uint8_t *mark, steno_err *err);

#endif
