#include "formats/whisper_names.h"

#include <stdio.h>
#include <string.h>

static const char *const of_block[][2] = {
    {"attn.query", "self_attn.q_proj"},
    {"attn.key", "self_attn.k_proj"},
    {"attn.value", "self_attn.v_proj"},
    {"attn.out", "self_attn.out_proj"},
    {"attn_ln", "self_attn_layer_norm"},
    {"cross_attn.query", "encoder_attn.q_proj"},
    {"cross_attn.key", "encoder_attn.k_proj"},
    {"cross_attn.value", "encoder_attn.v_proj"},
    {"cross_attn.out", "encoder_attn.out_proj"},
    {"cross_attn_ln", "encoder_attn_layer_norm"},
    {"mlp.0", "fc1"},
    {"mlp.2", "fc2"},
    {"mlp_ln", "final_layer_norm"},
};

static const char *const of_model[][2] = {
    {"encoder.conv1", "encoder.conv1"},        {"encoder.conv2", "encoder.conv2"},
    {"encoder.ln_post", "encoder.layer_norm"}, {"decoder.token_embedding", "decoder.embed_tokens"},
    {"decoder.ln", "decoder.layer_norm"},
};

static const char *const positions[] = {".positional_embedding", ".embed_positions.weight"};
static const char *const blocks[] = {"blocks", "layers"};

static const char *look_up(const char *const (*table)[2], size_t n, int is, const char *name,
                           size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i][is]) == len && !memcmp(table[i][is], name, len))
            return table[i][!is];
    return NULL;
}

bool steno_whisper_other_name(const char *name, enum steno_whisper_naming is, char *out,
                              size_t size)
{
    const char *dot = strrchr(name, '.'), *to;
    char side[8], group[8];
    unsigned layer;
    int used = 0;
    if ((!strncmp(name, "encoder", 7) || !strncmp(name, "decoder", 7)) &&
        !strcmp(name + 7, positions[is])) {
        snprintf(out, size, "%.7s%s", name, positions[!is]);
        return true;
    }
    if (!dot || (strcmp(dot, ".weight") && strcmp(dot, ".bias")))
        return false;
    if (sscanf(name, "%7[a-z].%7[a-z].%4u.%n", side, group, &layer, &used) == 3 && used &&
        !strcmp(group, blocks[is]) && name + used <= dot) {
        to = look_up(of_block, sizeof of_block / sizeof *of_block, is, name + used,
                     (size_t)(dot - name) - (size_t)used);
        if (to)
            snprintf(out, size, "%s.%s.%u.%s%s", side, blocks[!is], layer, to, dot);
        return to != NULL;
    }
    to = look_up(of_model, sizeof of_model / sizeof *of_model, is, name, (size_t)(dot - name));
    if (to)
        snprintf(out, size, "%s%s", to, dot);
    return to != NULL;
}
