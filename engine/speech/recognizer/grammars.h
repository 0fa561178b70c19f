/* The grammars of a model: those in its directory, else those of its languages. Frozen. */
#ifndef STENO_RECOGNIZER_GRAMMARS_H
#define STENO_RECOGNIZER_GRAMMARS_H

#include "speech/itn/itn.h"

#define STENO_GRAMMARS_MAX 16

struct steno_grammars {
    size_t n;
    struct {
        char language[8]; /* "": any */
        steno_itn *itn;
    } v[STENO_GRAMMARS_MAX];
};

/* Open them. dir: the model's. languages: its codes, with blanks between. list: "en=DIR,zh=DIR", or
 * "none"; NULL or "": the fetched ones, itn-en and so on. None is no error; those of steno_itn_open
 * are. */
STENO_MUST steno_status steno_grammars_open(struct steno_grammars *g, const char *dir,
                                            const char *languages, const char *list,
                                            steno_err *err);
void steno_grammars_close(struct steno_grammars *g);
/* The grammar for a text in this language. "": it is not known; then characters tell Chinese and
 * Japanese, and other texts get the first grammar of other languages. NULL: none. */
const steno_itn *steno_grammars_choose(const struct steno_grammars *g, const char *language,
                                       const char *text);

#endif
