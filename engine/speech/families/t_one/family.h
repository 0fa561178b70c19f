/* The family's entry for registry.c. */
#ifndef STENO_FAMILIES_T_ONE_FAMILY_H
#define STENO_FAMILIES_T_ONE_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_t_one;

#endif
