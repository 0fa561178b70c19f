/* Reads the values of a family's options (struct steno_option) by their declared kinds. */
#ifndef STENO_FAMILIES_OPTION_H
#define STENO_FAMILIES_OPTION_H

#include "steno.h"

#define STENO_OPTION_ALL "all" /* the family of options that all families have */
#define STENO_OPTION_ITN "itn"
#define STENO_OPTION_ITN_DIGITS "itn_digits"
#define STENO_OPTION_PUNCTUATION "punctuation"
#define STENO_OPTION_STABILIZE "stabilize_partials"

/* The last value of an option; NULL: the option is not set. */
const char *steno_option_value(const struct steno_option *options, size_t n, const char *name);
/* Read a flag, or a finite decimal number. False: value is none, and *out does not change. */
bool steno_option_read_flag(const char *value, bool *out);
bool steno_option_read_number(const char *value, double *out);
/* The next number of a list with commas or blanks between its whole numbers; *at: where it begins,
 * then where the rest does. False: *at is at the list's end, or at what is no whole number. */
bool steno_option_next(const char **at, long *out);
/* Whether value is one of "a|b|c". */
bool steno_option_is_choice(const char *value, const char *choices);

/* Read an option from a list that was checked (steno_option_check). Return whether the option is
 * set; if not, *io does not change. */
bool steno_option_get_flag(const struct steno_option *options, size_t n, const char *name,
                           bool *io);
bool steno_option_get_number(const struct steno_option *options, size_t n, const char *name,
                             double *io);

#endif
