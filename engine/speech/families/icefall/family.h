/* The families' entries for registry.c. */
#ifndef STENO_FAMILIES_ICEFALL_FAMILY_H
#define STENO_FAMILIES_ICEFALL_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_icefall;         /* models with states */
extern const struct steno_family steno_family_icefall_offline; /* of a piece of audio at once */

#endif
