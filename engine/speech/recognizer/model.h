/* An open model, shared by the files of the recognizer. */
#ifndef STENO_RECOGNIZER_MODEL_H
#define STENO_RECOGNIZER_MODEL_H

#include "speech/families/family.h"
#include "speech/recognizer/by_language.h"
#include "speech/text/confidence_map.h"

/* Frozen after open. */
struct steno_model {
    char *dir;
    const struct steno_family *family;
    void *impl; /* the family's */
    struct steno_family_info info;
    struct steno_by_language grammars;    /* none for families that write numbers themselves */
    struct steno_by_language punctuators; /* none for models that write marks themselves */
    struct steno_confidence_map confidence; /* of words */
    bool writes_marks;
    int threads;
};

/* steno_model_open with an observer of the networks' inputs (nn/exec/session.h). The observer must
 * live as long as the model; NULL: none. */
STENO_MUST steno_status steno_model_open_observed(steno_model **out, const char *dir,
                                                  const struct steno_model_options *opt,
                                                  const struct steno_observer *observer,
                                                  steno_err *err);
/* Check the hints of a stream, and put the language as families take it: a code of the model's, or
 * NULL. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_hints_resolve(const steno_model *m, struct steno_hints *io,
                                            steno_err *err);
/* Whether the table of family f itself has this option. */
bool steno_options_family_has(const struct steno_family *f, const char *name);
/* Check options against the table of family f. STENO_ERR_INVAL: no family has the option, f does
 * not have it, or the value is not allowed. */
STENO_MUST steno_status steno_options_check(const struct steno_family *f,
                                            const struct steno_option *options, size_t n,
                                            steno_err *err);

#endif
