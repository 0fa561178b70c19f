/* An open model, as the recognizer's files share it. */
#ifndef STENO_RECOGNIZER_MODEL_H
#define STENO_RECOGNIZER_MODEL_H

#include "families/family.h"

/* Frozen after open. */
struct steno_model {
    char *dir;
    const struct steno_family *family;
    void *impl; /* the family's */
    struct steno_family_info info;
    int threads;
};

/* steno_model_open with an observer of what the networks are given (nn/exec/session.h), which lives
 * as long as the model; NULL: nobody. */
STENO_MUST steno_status steno_model_open_observed(steno_model **out, const char *dir,
                                                  const struct steno_model_options *opt,
                                                  const struct steno_observer *observer,
                                                  steno_err *err);
/* STENO_ERR_INVAL: an option that no family has, that this one does not have, or a value it cannot
 * take. */
STENO_MUST steno_status steno_options_check(const struct steno_family *f,
                                            const struct steno_option *options, size_t n,
                                            steno_err *err);

#endif
