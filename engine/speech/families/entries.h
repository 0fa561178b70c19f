/* The constants of the families, each defined in its folder. The registry lists them. */
#ifndef STENO_FAMILIES_ENTRIES_H
#define STENO_FAMILIES_ENTRIES_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_cohere, steno_family_ctc, steno_family_ctc_offline,
    steno_family_espnet, steno_family_fire_red, steno_family_funasr_nano, steno_family_icefall,
    steno_family_icefall_offline, steno_family_moonshine, steno_family_moonshine_streaming,
    steno_family_nemo, steno_family_nemo_streaming, steno_family_paraformer,
    steno_family_paraformer_streaming, steno_family_qwen3_asr, steno_family_sense_voice,
    steno_family_t_one, steno_family_transformers_js, steno_family_wav2vec2, steno_family_wenet,
    steno_family_wenet_streaming, steno_family_whisper;

#endif
