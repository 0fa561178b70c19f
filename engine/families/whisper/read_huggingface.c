/* Hugging Face's names (transformers, modeling_whisper.py) in safetensors files, and config.json.
 */
#include "families/whisper/weights_internal.h"

#include <stdio.h>
#include <string.h>

struct rename {
    const char *from, *to;
};

static const struct rename block_parts[] = {
    {"self_attn.q_proj", "attn.query"},
    {"self_attn.k_proj", "attn.key"},
    {"self_attn.v_proj", "attn.value"},
    {"self_attn.out_proj", "attn.out"},
    {"self_attn_layer_norm", "attn_ln"},
    {"encoder_attn.q_proj", "cross_attn.query"},
    {"encoder_attn.k_proj", "cross_attn.key"},
    {"encoder_attn.v_proj", "cross_attn.value"},
    {"encoder_attn.out_proj", "cross_attn.out"},
    {"encoder_attn_layer_norm", "cross_attn_ln"},
    {"fc1", "mlp.0"},
    {"fc2", "mlp.2"},
    {"final_layer_norm", "mlp_ln"},
};

static const struct rename top_parts[] = {
    {"encoder.conv1", "encoder.conv1"},        {"encoder.conv2", "encoder.conv2"},
    {"encoder.layer_norm", "encoder.ln_post"}, {"decoder.embed_tokens", "decoder.token_embedding"},
    {"decoder.layer_norm", "decoder.ln"},
};

static const char *renamed(const struct rename *all, size_t n, const char *from, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(all[i].from) == len && !memcmp(all[i].from, from, len))
            return all[i].to;
    return NULL;
}

/* OpenAI's name of `name` (without "model."); false: a tensor that is not needed, such as the
 * output layer, which is the embeddings once more. */
static bool translate(const char *name, char *out, size_t size)
{
    const char *dot = strrchr(name, '.'), *to;
    char side[8];
    unsigned layer;
    int used = 0;
    if (!dot || (strcmp(dot, ".weight") && strcmp(dot, ".bias")))
        return false;
    if (!strcmp(name, "encoder.embed_positions.weight") ||
        !strcmp(name, "decoder.embed_positions.weight")) {
        snprintf(out, size, "%.7s.positional_embedding", name);
        return true;
    }
    if (sscanf(name, "%7[a-z].layers.%4u.%n", side, &layer, &used) == 2 && used &&
        name + used <= dot) {
        to = renamed(block_parts, sizeof block_parts / sizeof *block_parts, name + used,
                     (size_t)(dot - name) - (size_t)used);
        if (to)
            snprintf(out, size, "%s.blocks.%u.%s%s", side, layer, to, dot);
        return to != NULL;
    }
    to = renamed(top_parts, sizeof top_parts / sizeof *top_parts, name, (size_t)(dot - name));
    if (to)
        snprintf(out, size, "%s%s", to, dot);
    return to != NULL;
}

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
        if (!translate(plain, t.name, sizeof t.name))
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
