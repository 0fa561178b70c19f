/* The families there are. */
#ifndef STENO_FAMILIES_REGISTRY_H
#define STENO_FAMILIES_REGISTRY_H

#include "families/family.h"

extern const struct steno_family *const steno_families[]; /* NULL behind the last */
/* The first family that knows the directory; NULL: none does. */
const struct steno_family *steno_family_of(const char *dir);

#endif
