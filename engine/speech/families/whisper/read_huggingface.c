/* Hugging Face's names (transformers, modeling_whisper.py) in safetensors files, and config.json.
 */
#include "speech/families/whisper/weights_internal.h"

#include "formats/whisper_names.h"

#include <stdio.h>
#include <string.h>

static bool type_of(const struct steno_safetensor *s, enum steno_whisper_type *out)
{
    static const struct {
        const char *name;
        enum steno_whisper_type type;
    } types[] = {
        {"F32", STENO_WHISPER_F32}, {"F16", STENO_WHISPER_F16}, {"BF16", STENO_WHISPER_BF16}};
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(s->dtype, types[i].name)) {
            *out = types[i].type;
            return true;
        }
    return false;
}

steno_status steno_whisper_read_shard(steno_whisper_weights *w, const steno_safetensors *s,
                                      const char *name, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_safetensors_count(s) && !st; i++) {
        const struct steno_safetensor *from = steno_safetensors_get(s, i);
        struct steno_whisper_tensor t = {.file = name, .rank = from->rank, .data = from->data};
        const char *plain = strncmp(from->name, "model.", 6) ? from->name : from->name + 6;
        if (!steno_whisper_other_name(plain, STENO_WHISPER_HUGGINGFACE, t.name, sizeof t.name))
            continue;
        if (!type_of(from, &t.type))
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: tensor '%.80s' is of %s, expected F32, F16 or BF16", name,
                              from->name, from->dtype);
        if (from->rank > STENO_WHISPER_MAX_RANK)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%.80s' has %d axes, at most %d",
                              name, from->name, from->rank, STENO_WHISPER_MAX_RANK);
        memcpy(t.dim, from->dim, (size_t)from->rank * sizeof *t.dim);
        st = steno_whisper_add(w, &t, err);
    }
    return st;
}

static steno_status read_count(const struct steno_json_node *root, const char *key, int64_t *out,
                               const char *file, steno_err *err)
{
    const struct steno_json_node *n = steno_json_get(root, key);
    if (!n || steno_json_int(n, 1, 1024, out))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s is no number from 1 to 1024", file,
                      n->line, key);
}

steno_status steno_whisper_read_config(steno_whisper_weights *w, const struct steno_json_node *root,
                                       const char *file, steno_err *err)
{
    const struct steno_json_node *act = steno_json_get(root, "activation_function");
    steno_status st = read_count(root, "encoder_attention_heads", &w->audio_heads, file, err);
    if (!st)
        st = read_count(root, "decoder_attention_heads", &w->text_heads, file, err);
    if (!st && act && (act->kind != STENO_JSON_STRING || strcmp(act->text, "gelu")))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: line %zu: activation_function '%.40s', 'gelu' expected", file,
                        act->line, act->text ? act->text : "");
    return st;
}
