/* What a model writes its finals with, by language: grammars and punctuation networks. They lie in
 * its directory, else they are those of its languages. Frozen. */
#ifndef STENO_RECOGNIZER_BY_LANGUAGE_H
#define STENO_RECOGNIZER_BY_LANGUAGE_H

#include "speech/itn/itn.h"
#include "speech/punctuation/punctuation.h"

#define STENO_BY_LANGUAGE_MAX 16

struct steno_tool {
    char language[8]; /* "": any */
    void *tool;       /* steno_itn or steno_punctuator */
    bool english;     /* it is for English too, where no other one is */
};

struct steno_by_language {
    size_t n;
    struct steno_tool v[STENO_BY_LANGUAGE_MAX];
};

/* What is in such a list, and where it is found. */
struct steno_tool_kind {
    const char *name;      /* for messages */
    const char *fetched;   /* names of the catalogue: this and the language */
    const char *published; /* languages that have one there */
    /* *out NULL: the directory has none, which is no error. */
    steno_status (*open_of_model)(void **out, const char *dir, steno_err *err);
    steno_status (*open)(void **out, const char *dir, const char *language, steno_err *err);
    void (*close)(void *tool);
    bool (*is_bilingual)(const void *tool); /* of English and another language; NULL: none is */
};
extern const struct steno_tool_kind steno_grammars, steno_punctuators;

/* Open them. dir: the model's. languages: its codes, with blanks between. list: "en=DIR,zh=DIR", or
 * "none"; NULL or "": the fetched ones, itn-en and so on. None is no error; those of opening are.
 */
STENO_MUST steno_status steno_by_language_open(struct steno_by_language *b,
                                               const struct steno_tool_kind *kind, const char *dir,
                                               const char *languages, const char *list,
                                               steno_err *err);
void steno_by_language_close(struct steno_by_language *b, const struct steno_tool_kind *kind);
/* The one for a text in this language. "": it is not known; then characters tell Chinese and
 * Japanese, and other texts get the first one of other languages, else a bilingual one. NULL:
 * none. */
const struct steno_tool *steno_by_language_choose(const struct steno_by_language *b,
                                                  const char *language, const char *text);
/* Whether a text whose language is not known, of a model of these languages ("": not known
 * either), can only be in the language of t, or t is for any: no other of them is written in Latin
 * letters, or characters have told it. */
bool steno_by_language_is_sure(const struct steno_tool *t, const char *languages);

#endif
