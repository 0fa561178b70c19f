/* Options of model families, as requests and the configuration name them: a bounded set of names
 * and values. Each is checked against the families' table (steno.h: struct steno_option_info).
 * Pure, confined. */
#ifndef STENO_PROTOCOL_OPTIONS_H
#define STENO_PROTOCOL_OPTIONS_H

#include "base/buf.h"
#include "steno.h"

#define STENO_OPTIONS_MAX 48     /* in one set */
#define STENO_OPTION_TEXT 32     /* bytes of one value as text, with its NUL */
#define STENO_OPTIONS_LISTS 1000 /* bytes of all lists in one set */
#define STENO_OPTIONS_LABEL 96   /* bytes of a label, with its NUL */
#define STENO_OPTIONS_MEANT 64   /* bytes of what a misspelt name means, with its NUL */

/* Zero-initialised = nothing is set. Small, because every session has two. */
struct steno_options {
    unsigned char n, row[STENO_OPTIONS_MAX]; /* rows of the table */
    double value[STENO_OPTIONS_MAX]; /* a number; 0 or 1; index of a choice; of a list: its place */
    char lists[STENO_OPTIONS_LISTS]; /* the texts of lists, one behind the other */
};

/* A set in the engine's form. */
struct steno_option_list {
    size_t n;
    struct steno_option v[STENO_OPTIONS_MAX];
    char text[STENO_OPTIONS_MAX][STENO_OPTION_TEXT]; /* the values, but for lists */
    char lists[STENO_OPTIONS_LISTS];
};

/* Whether a family has an option of this name; the second function also checks the scope. */
bool steno_options_known(const char *name);
bool steno_options_known_of(const char *name, enum steno_option_scope scope);
/* Write " (NAME is known)": what a misspelt name most likely means of a list of names and of all
 * options; nothing where none is alike. Returns out. */
const char *steno_options_meant(const char *names, const char *name, char out[STENO_OPTIONS_MEANT]);
/* The option with whose name a message begins ("ctc_weight: 2 is outside 0..1"); NULL when it
 * begins with none. */
const char *steno_options_named_in(const char *message);

/* Set an option; a second value replaces the first. STENO_ERR_INVAL: there is no such option (the
 * message lists the known ones), or the value is not of its kind or out of its range (the message
 * begins with the name). STENO_ERR_LIMIT: more than STENO_OPTIONS_MAX, or than STENO_OPTIONS_LISTS
 * bytes of lists. */
STENO_MUST steno_status steno_options_set(struct steno_options *o, const char *name,
                                          const char *value, steno_err *err);
/* The same from JSON: true or false, a number or a string, depending on the option's kind. A list
 * is a string, a number or an array of numbers. */
struct json_t;
STENO_MUST steno_status steno_options_set_json(struct steno_options *o, const char *name,
                                               const struct json_t *value, steno_err *err);
/* Read "NAME=VALUE, NAME=VALUE": options of streams, and beam=N. beam is unchanged when it is not
 * named. Errors as of set. */
STENO_MUST steno_status steno_options_read_list(struct steno_options *o, int *beam,
                                                const char *list, steno_err *err);
void steno_options_unset(struct steno_options *o, const char *name);
/* The value as text ("yes" or "no" for a flag), written to out or, of a list, o's own; NULL when it
 * is not set. */
const char *steno_options_get(const struct steno_options *o, const char *name,
                              char out[STENO_OPTION_TEXT]);

/* Take the options that io does not set from defaults. */
void steno_options_complete(struct steno_options *io, const struct steno_options *defaults);
/* Keep only the options of this scope that this family has; family NULL = none. */
void steno_options_keep(struct steno_options *io, enum steno_option_scope scope,
                        const char *family);
/* The options of models in a canonical form: in the table's order, without default values. Sets
 * that mean the same model have the same variant. */
struct steno_options steno_options_variant(const struct steno_options *o);
/* Replace the options of models in io by a variant. */
void steno_options_set_variant(struct steno_options *io, const struct steno_options *variant);
bool steno_options_equal(const struct steno_options *a, const struct steno_options *b);

/* List the options of a scope in out, which must not move afterwards. */
void steno_options_list(const struct steno_options *o, enum steno_option_scope scope,
                        struct steno_option_list *out);
/* Write the variant as a suffix of a model's name: "+FLAG" for a flag, "+VALUE" for a choice,
 * "+NAME=VALUE" for the rest. Returns out. */
const char *steno_options_label(const struct steno_options *o, char out[STENO_OPTIONS_LABEL]);
/* Append the variant as members of a JSON object, each with a comma before it. */
STENO_MUST steno_status steno_options_write(struct steno_buf *out, const struct steno_options *o);

#endif
