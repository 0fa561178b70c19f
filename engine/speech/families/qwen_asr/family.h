/* Family qwen3_asr: Qwen3-ASR. */
#ifndef STENO_FAMILIES_QWEN_ASR_FAMILY_H
#define STENO_FAMILIES_QWEN_ASR_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_qwen3_asr;

#endif
