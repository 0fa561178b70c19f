/* The families' entries for registry.c. */
#ifndef STENO_FAMILIES_WENET_FAMILY_H
#define STENO_FAMILIES_WENET_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_wenet;           /* whole segments */
extern const struct steno_family steno_family_wenet_streaming; /* encoders with caches */

#endif
