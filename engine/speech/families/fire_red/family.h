/* The family's entry for registry.c. */
#ifndef STENO_FAMILIES_FIRE_RED_FAMILY_H
#define STENO_FAMILIES_FIRE_RED_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_fire_red;

#endif
