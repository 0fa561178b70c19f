/* What a request says of its recording (steno.h: struct steno_hints), as its fields come: language,
 * translate, prompt, prefix, hotwords, and filters. Pure, confined. */
#ifndef STENO_PROTOCOL_HINTS_H
#define STENO_PROTOCOL_HINTS_H

#include "steno.h"

#define STENO_LANGUAGE_BYTES 128 /* of a language, or of several, with the NUL */
#define STENO_HINT_NAMES                                                                           \
    "language, translate, prompt, prefix, hotwords, replace, redact, filler_words, "               \
    "profanity_filter"

/* Zero-initialised = nothing is given. */
struct steno_hint_store {
    char language[STENO_LANGUAGE_BYTES];
    bool translate, no_fillers, profanity_filter;
    const char *profanity; /* the operator's list, borrowed; NULL: the filter is refused */
    char *prompt, *prefix, *hotwords, *replace, *redact; /* its own; NULL = none */
};

/* Leaves profanity. */
void steno_hint_store_free(struct steno_hint_store *s);
/* Replace out by a copy. STENO_ERR_NOMEM: out is empty. */
STENO_MUST steno_status steno_hint_store_copy(struct steno_hint_store *out,
                                              const struct steno_hint_store *from, steno_err *err);
/* Whether a field of this name is a hint. */
bool steno_hint_known(const char *name);
/* Set a hint; a second value replaces the first, those of replace and redact add up; "" removes it.
 * The value is valid UTF-8 without NUL, or STENO_ERR_INVAL, as when it is too long, translate,
 * filler_words or profanity_filter is not true or false, or there is no list for the latter: the
 * message begins with the name. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_hint_set(struct steno_hint_store *s, const char *name,
                                       const char *value, steno_err *err);
/* The same from JSON: true or false for those three, otherwise a string; for replace and redact
 * also a list of strings. */
struct json_t;
STENO_MUST steno_status steno_hint_set_json(struct steno_hint_store *s, const char *name,
                                            const struct json_t *value, steno_err *err);
/* Add to hotwords, replace or redact, with ", " between. Errors as of set. */
STENO_MUST steno_status steno_hint_add(struct steno_hint_store *s, const char *name,
                                       const char *value, steno_err *err);
/* Append the strings of a JSON list, but for "[unk]", vosk's name of all other words; NULL and null
 * append nothing. STENO_ERR_INVAL: as above, or it is no such list, which is then `called` so. */
STENO_MUST steno_status steno_hint_add_list(struct steno_hint_store *s, const char *name,
                                            const char *called, const struct json_t *list,
                                            steno_err *err);
/* The strings are the store's. s NULL: none. */
struct steno_hints steno_hints_of(const struct steno_hint_store *s);
/* Its filters. The strings are the store's. s NULL: none. */
struct steno_filter_options steno_hint_filters(const struct steno_hint_store *s);
/* Check what is taken of it, and its filters, for a model. Errors of steno_hints_check and
 * steno_filters_check. s NULL: none. */
STENO_MUST steno_status steno_hint_check(const struct steno_hint_store *s,
                                         const struct steno_hints *taken,
                                         const struct steno_model_info *info, steno_err *err);
/* Leave out texts that the model does not take: for forms whose clients send them to all models. */
struct steno_hints steno_hints_taken(const struct steno_hints *h,
                                     const struct steno_model_info *info);
/* The hint with whose name a message begins ("language: ..."); NULL when it begins with none. */
const char *steno_hint_named_in(const char *message);

#endif
