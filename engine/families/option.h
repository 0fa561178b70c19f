/* Values of a family's options (struct steno_option), read by the kinds they are declared with. */
#ifndef STENO_FAMILIES_OPTION_H
#define STENO_FAMILIES_OPTION_H

#include "steno.h"

/* The text last given for a name; NULL: not given. */
const char *steno_option_value(const struct steno_option *options, size_t n, const char *name);
/* false: not a flag, not a finite decimal number; *out stays as it is. */
bool steno_option_read_flag(const char *value, bool *out);
bool steno_option_read_number(const char *value, double *out);
/* Whether value is one of "a|b|c". */
bool steno_option_is_choice(const char *value, const char *choices);

/* Options that have been checked (steno_option_check): what is not given leaves *io as it is.
 * Whether it is given. */
bool steno_option_get_flag(const struct steno_option *options, size_t n, const char *name,
                           bool *io);
bool steno_option_get_number(const struct steno_option *options, size_t n, const char *name,
                             double *io);

#endif
