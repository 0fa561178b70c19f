#include "speech/families/registry.h"

#include "speech/families/cohere/family.h"
#include "speech/families/ctc/family.h"
#include "speech/families/ctc_offline/family.h"
#include "speech/families/espnet/family.h"
#include "speech/families/fire_red/family.h"
#include "speech/families/funasr/family.h"
#include "speech/families/icefall/family.h"
#include "speech/families/moonshine/family.h"
#include "speech/families/nemo/family.h"
#include "speech/families/qwen_asr/family.h"
#include "speech/families/t_one/family.h"
#include "speech/families/transformers_js/family.h"
#include "speech/families/wav2vec2/family.h"
#include "speech/families/wenet/family.h"
#include "speech/families/whisper/family.h"

const struct steno_family *const steno_families[] = {
    &steno_family_ctc,
    &steno_family_ctc_offline,
    &steno_family_t_one,
    &steno_family_fire_red,
    &steno_family_qwen3_asr,
    &steno_family_funasr_nano,
    &steno_family_transformers_js,
    &steno_family_cohere,
    &steno_family_moonshine_streaming,
    &steno_family_whisper,
    &steno_family_sense_voice,
    &steno_family_paraformer,
    &steno_family_paraformer_streaming,
    &steno_family_moonshine,
    &steno_family_wav2vec2,
    /* before icefall, which tells its models by their inputs and outputs alone */
    &steno_family_nemo,
    &steno_family_nemo_streaming,
    &steno_family_wenet,
    &steno_family_wenet_streaming,
    &steno_family_icefall,
    &steno_family_icefall_offline,
    &steno_family_espnet, /* last: it takes any directory with a config.json */
    NULL,
};

const struct steno_family *steno_family_of(const char *dir)
{
    for (size_t i = 0; steno_families[i]; i++)
        if (steno_families[i]->probe(dir))
            return steno_families[i];
    return NULL;
}
