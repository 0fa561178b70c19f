/* Moonshine (README.md). */
#ifndef STENO_FAMILIES_MOONSHINE_FAMILY_H
#define STENO_FAMILIES_MOONSHINE_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_moonshine, steno_family_moonshine_streaming;

#endif
