/* The list of families. */
#ifndef STENO_FAMILIES_REGISTRY_H
#define STENO_FAMILIES_REGISTRY_H

#include "speech/families/family.h"

extern const struct steno_family *const steno_families[]; /* ends with NULL */
/* The first family that recognizes the directory; NULL: none. */
const struct steno_family *steno_family_of(const char *dir);

#endif
