/* The family's entry for registry.c. */
#ifndef STENO_FAMILIES_CTC_OFFLINE_FAMILY_H
#define STENO_FAMILIES_CTC_OFFLINE_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_ctc_offline;

#endif
