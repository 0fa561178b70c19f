/* Spoken text to written text by grammars: "march third twenty twenty four" to "march 3 2024".
 *
 * A grammar is a pair of transducers, a tagger and a verbalizer, as those of WeTextProcessing and
 * wetext; or a chain of transducers, each of which rewrites the whole text, as sherpa-onnx's
 * rule_fsts and rule_fars. A text that a grammar cannot read stays as it is. */
#ifndef STENO_ITN_ITN_H
#define STENO_ITN_ITN_H

#include "base/status.h"

/* A grammar. Frozen: any number of writers use it at a time. */
typedef struct steno_itn steno_itn;
/* What one thread needs to apply grammars. Confined. */
typedef struct steno_itn_writer steno_itn_writer;

/* The bytes of the spoken text that a byte of the written one comes from. Empty: nothing, such as a
 * blank between tokens. */
struct steno_itn_origin {
    uint32_t begin, end;
};

/* Borrowed from the writer, until its next use. */
struct steno_itn_text {
    const char *text; /* NUL-terminated */
    size_t n;
    const struct steno_itn_origin *origin; /* of each byte */
    bool read; /* false: the grammar does not read this text, which stays as it is */
};

/* Open the grammar of a folder: the first of these that exists.
 * - `L/itn/tagger.fst`, `verbalizer.fst` (the folder `fsts` of wetext), with language L
 * - `L_itn_tagger.fst`, `L_itn_verbalizer.fst` (WeTextProcessing), with language L
 * - `tagger.fst`, `verbalizer.fst`
 * - `*_itn_tagger.fst` and its verbalizer, if there is one such file
 * - all *.fst, then all *.far, by name: a chain
 * language: NULL or "" skips the first two. STENO_ERR_IO: there is none, or it cannot be read;
 * others as steno_fst_parse. */
STENO_MUST steno_status steno_itn_open(steno_itn **out, const char *dir, const char *language,
                                       steno_err *err);
/* Whether a folder has a tagger and its verbalizer under those names. Loads nothing. */
bool steno_itn_is_dir(const char *dir);
/* Open the grammar of a model's folder: its folder `itn`, as above, else a chain of its itn*.fst
 * and rule*.fst, then *.far, by name. *out NULL: there is none. Errors as above. */
STENO_MUST steno_status steno_itn_open_of_model(steno_itn **out, const char *dir, steno_err *err);
void steno_itn_close(steno_itn *g);

/* NULL: out of memory. */
steno_itn_writer *steno_itn_writer_new(void);
void steno_itn_writer_free(steno_itn_writer *w);
/* Write a text, which is borrowed for the call; blanks at its ends are dropped. STENO_ERR_LIMIT:
 * the text is too long for this grammar. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_itn_write(steno_itn_writer *w, const steno_itn *g, const char *text,
                                        struct steno_itn_text *out, steno_err *err);
/* Whether it is a pair, of which parts of a text can be decided before its end is known. */
bool steno_itn_decides(const steno_itn *g);
/* How many bytes at the begin of a text are written as they are now, whatever follows; 0 where the
 * grammar decides none. shielded: of English words that are (shield.h), what follows is no part
 * of an address with them. Errors as above, without a message. */
STENO_MUST steno_status steno_itn_decided(steno_itn_writer *w, const steno_itn *g, const char *text,
                                          bool shielded, size_t *decided);

#endif
