/* Marks and capitals for text that has neither: "hello how are you" to "Hello, how are you?". Two
 * networks, as sherpa-onnx loads them:
 *
 * - CNN-BiLSTM (its "online" one, Edge-Punct-Casing): words of English get a comma, a full stop or
 *   a question mark, and capitals. Beside it lies the vocabulary bpe.vocab.
 * - CT-Transformer (FunASR): characters of Chinese and words of English get marks. Its vocabulary
 *   is in the network's metadata. */
#ifndef STENO_PUNCTUATION_PUNCTUATION_H
#define STENO_PUNCTUATION_PUNCTUATION_H

#include "base/status.h"

#define STENO_PUNCTUATION_MAX ((size_t)1 << 20) /* bytes of a text */

/* A network with its vocabulary. Frozen: any number of writers use it at a time. */
typedef struct steno_punctuator steno_punctuator;
/* What one thread needs to use it. Confined. */
typedef struct steno_punctuation_writer steno_punctuation_writer;

enum steno_letters { STENO_LETTERS_KEEP, STENO_LETTERS_UPPER, STENO_LETTERS_FIRST_UPPER };

/* A word or character of a text, and what the network says of it. */
struct steno_punctuation_token {
    uint32_t begin, end; /* its bytes */
    enum steno_letters letters;
    const char *mark; /* behind it; "": none. Static, or the punctuator's */
};

/* Borrowed from the writer, until its next use. */
struct steno_punctuation {
    const struct steno_punctuation_token *token; /* [n], in the text's order */
    size_t n;
};

/* Whether a folder has such a network. Loads nothing. */
bool steno_punctuator_is_dir(const char *dir);
/* Open the first network of a folder by name (model.int8.onnx comes before model.onnx).
 * STENO_ERR_IO: there is none, or a file cannot be read; STENO_ERR_FORMAT: what the files say is
 * not what the layout has; errors of steno_network_open. */
STENO_MUST steno_status steno_punctuator_open(steno_punctuator **out, const char *dir,
                                              steno_err *err);
void steno_punctuator_close(steno_punctuator *p);
/* Whether it is a CT-Transformer, which writes marks of Chinese and of English. */
bool steno_punctuator_is_bilingual(const steno_punctuator *p);

/* p must outlive it. */
STENO_MUST steno_status steno_punctuation_writer_open(steno_punctuation_writer **out,
                                                      const steno_punctuator *p, steno_err *err);
void steno_punctuation_writer_close(steno_punctuation_writer *w);
/* What the network says of each word or character of a text, which is read in small letters. Marks
 * that the text has are words like others. STENO_ERR_LIMIT: the text is too long. Errors of
 * steno_session_run. */
STENO_MUST steno_status steno_punctuation_find(steno_punctuation_writer *w, const char *text,
                                               struct steno_punctuation *out, steno_err *err);
/* The text with marks and capitals, spaced as sherpa-onnx does. One without small letters is
 * written in small ones. *out: borrowed from the writer, until its next use. */
STENO_MUST steno_status steno_punctuation_write(steno_punctuation_writer *w, const char *text,
                                                const char **out, steno_err *err);

#endif
