/* The family's entry for registry.c. */
#ifndef STENO_FAMILIES_COHERE_FAMILY_H
#define STENO_FAMILIES_COHERE_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_cohere;

#endif
