/* Files beside the weights, and what config.json says of their maker. */
#include "speech/families/whisper/weights_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool steno_whisper_beside(const char *dir, const char *name, char out[4096])
{
    int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096 && access(out, R_OK) == 0;
}

static bool has_type_whisper(const struct steno_json_node *config)
{
    const struct steno_json_node *type = steno_json_get(config, "model_type");
    return type && type->text && !strcmp(type->text, "whisper");
}

/* CTranslate2's config.json has no model_type. It has these keys for Whisper alone. */
static bool has_keys_of_ctranslate2(const struct steno_json_node *config)
{
    return steno_json_get(config, "suppress_ids_begin") &&
           steno_json_get(config, "alignment_heads");
}

static bool config_is(const char *dir, bool (*is)(const struct steno_json_node *config))
{
    char path[4096];
    steno_json *j;
    bool yes;
    if (!steno_whisper_beside(dir, "config.json", path) || steno_json_open(&j, path, NULL))
        return false;
    yes = is(steno_json_root(j));
    steno_json_close(j);
    return yes;
}

bool steno_whisper_says_whisper(const char *dir)
{
    return config_is(dir, has_type_whisper);
}

bool steno_whisper_says_ctranslate2(const char *dir)
{
    return config_is(dir, has_keys_of_ctranslate2);
}
