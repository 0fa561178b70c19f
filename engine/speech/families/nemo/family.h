/* The families' entries for registry.c. */
#ifndef STENO_FAMILIES_NEMO_FAMILY_H
#define STENO_FAMILIES_NEMO_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_nemo;           /* whole segments */
extern const struct steno_family steno_family_nemo_streaming; /* encoders with caches */

#endif
