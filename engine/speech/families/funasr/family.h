/* FunASR's models as sherpa-onnx exports them (README.md). */
#ifndef STENO_FAMILIES_FUNASR_FAMILY_H
#define STENO_FAMILIES_FUNASR_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_sense_voice, steno_family_paraformer,
    steno_family_paraformer_streaming, steno_family_funasr_nano;

#endif
