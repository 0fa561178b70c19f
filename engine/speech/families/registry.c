#include "speech/families/registry.h"

#include "speech/families/entries.h"

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
