/* Encoders in the configuration of ESPnet2. */
#include "base/list.h"
#include "tools/convert/espnet_job.h"
#include "tools/convert/espnet_parts.h"

#include <stdlib.h>
#include <string.h>

#define CONF "encoder_conf."

static const struct kind {
    const char *name;
    enum steno_espnet_kind kind;
    int64_t blocks;         /* these are ESPnet's defaults */
    const char *rel;        /* rel_pos_type */
    const char *activation; /* of the feed-forward parts */
    int64_t ffn_kernel;     /* positionwise_conv_kernel_size */
    bool windows;
} kinds[] = {
    {"transformer", STENO_ESPNET_TRANSFORMER, 6, NULL, "relu", 1, false},
    {"conformer", STENO_ESPNET_CONFORMER, 6, "legacy", "swish", 3, false},
    {"longformer", STENO_ESPNET_CONFORMER, 6, NULL, "swish", 3, true},
    {"branchformer", STENO_ESPNET_BRANCHFORMER, 12, "latest", NULL, 0, false},
    {"e_branchformer", STENO_ESPNET_E_BRANCHFORMER, 12, "latest", "swish", 0, false},
    {"contextual_block_transformer", STENO_ESPNET_BLOCK_TRANSFORMER, 6, NULL, "relu", 1, false},
    {"contextual_block_conformer", STENO_ESPNET_BLOCK_CONFORMER, 6, NULL, "relu", 3, false},
    {"rnn", STENO_ESPNET_RNN, 4, NULL, NULL, 0, false},
    {"vgg_rnn", STENO_ESPNET_VGG_RNN, 4, NULL, NULL, 0, false},
};
#define KNOWN_KINDS                                                                                \
    "transformer, conformer, longformer, branchformer, e_branchformer, "                           \
    "contextual_block_transformer, contextual_block_conformer, rnn, vgg_rnn"

/* Of all kinds: ESPnet builds no encoder with a key that its kind does not know. */
static const char keys[] =
    "activation_type, attention_dilation, attention_dropout_rate, attention_heads, "
    "attention_layer_type, attention_mode, attention_windows, attn_branch_drop_rate, "
    "bidirectional, block_size, cgmlp_conv_kernel, cgmlp_linear_units, cgmlp_weight, "
    "cnn_module_kernel, concat_after, ctc_trim, ctx_pos_enc, dropout, dropout_rate, "
    "ffn_activation_type, gate_activation, gradient_checkpoint_layers, hidden_size, hop_size, "
    "in_channel, init_average, input_layer, interctc_layer_idx, interctc_use_conditioning, "
    "layer_drop_rate, linear_units, look_ahead, macaron_ffn, macaron_style, max_pos_emb_len, "
    "merge_conv_kernel, merge_method, normalize_before, num_blocks, num_layers, output_size, "
    "padding_idx, pos_enc_layer_type, positional_dropout_rate, positionwise_conv_kernel_size, "
    "positionwise_layer_type, qk_norm, rel_pos_type, rnn_type, selfattention_layer_type, "
    "stochastic_depth_rate, subsample, use_attn, use_cgmlp, use_cnn_module, use_ffn, "
    "use_flash_attn, use_linear_after_conv, use_projection, zero_triu";

/* The key has one of the values in `known`, "a, b". */
static steno_status choose_word(struct steno_espnet_job *j, const char *path, const char *known,
                                const char **out)
{
    const steno_status st = steno_yaml_str(j->y, path, out, j->err);
    return st || steno_list_holds(known, *out)
               ? st
               : steno_conf_unsupported(j->y, path, *out, known, j->err);
}

static steno_status read_activation(struct steno_espnet_job *j, const char *path, const char **out)
{
    return choose_word(j, path, "hardtanh, tanh, relu, selu, swish", out);
}

static steno_status contradict(struct steno_espnet_job *j, const char *what)
{
    return steno_fail(j->err, STENO_ERR_FORMAT, "%s: encoder_conf: %s do not fit together",
                      steno_yaml_name(j->y), what);
}

static bool branches(const struct steno_espnet_encoder *e)
{
    return e->kind == STENO_ESPNET_BRANCHFORMER || e->kind == STENO_ESPNET_E_BRANCHFORMER;
}

/* ---- positions and attention --------------------------------------------------------------- */

static steno_status read_attention(struct steno_espnet_job *j, const char *key, const char *rel)
{
    const char *pos = rel ? "rel_pos" : "abs_pos", *self = rel ? "rel_selfattn" : "selfattn";
    struct steno_espnet_encoder *e = &j->a.e;
    steno_status st = steno_yaml_str(j->y, CONF "pos_enc_layer_type", &pos, j->err);
    READ(steno_yaml_str(j->y, key, &self, j->err));
    if (rel)
        READ(choose_word(j, CONF "rel_pos_type", "legacy, latest", &rel));
    if (st)
        return st;
    if (rel && !strcmp(rel, "legacy")) {
        pos = !strcmp(pos, "rel_pos") ? "legacy_rel_pos" : pos;
        self = !strcmp(self, "rel_selfattn") ? "legacy_rel_selfattn" : self;
    }
    e->fast = !strcmp(self, "fast_selfattn") && branches(e);
    if (!strcmp(pos, "abs_pos") && (!strcmp(self, "selfattn") || e->fast))
        e->pos = STENO_ESPNET_POS_ABS;
    else if (rel && !strcmp(pos, "scaled_abs_pos") && (!strcmp(self, "selfattn") || e->fast))
        e->pos = STENO_ESPNET_POS_SCALED;
    else if (rel && !strcmp(pos, "rel_pos") && !strcmp(self, "rel_selfattn"))
        e->pos = STENO_ESPNET_POS_LATEST;
    else if (rel && !strcmp(pos, "legacy_rel_pos") && !strcmp(self, "legacy_rel_selfattn"))
        e->pos = STENO_ESPNET_POS_LEGACY;
    else
        return steno_conf_unsupported(
            j->y, CONF "pos_enc_layer_type", pos,
            !rel ? "abs_pos"
            : branches(e)
                ? "abs_pos and scaled_abs_pos with selfattn or fast_selfattn, rel_pos with "
                  "rel_selfattn"
                : "abs_pos and scaled_abs_pos with selfattn, rel_pos with rel_selfattn",
            j->err);
    return STENO_OK;
}

/* ---- kinds --------------------------------------------------------------------------------- */

static steno_status read_input_layer(struct steno_espnet_job *j)
{
    const bool streams = steno_espnet_streams(&j->a.e);
    const char *names = streams ? "conv2d, conv2d6, conv2d8"
                                : "conv1d1, conv1d2, conv1d3, conv2d, conv2d1, conv2d2, conv2d6, "
                                  "conv2d8, linear";
    const struct steno_yaml_node *n = steno_yaml_find(j->y, CONF "input_layer");
    if (n && steno_yaml_null(n))
        return steno_conf_unsupported(j->y, CONF "input_layer", "null", names, j->err);
    return choose_word(j, CONF "input_layer", names, &j->a.e.input_layer);
}

/* interctc_layer_idx: the blocks, from 1, whose CTC is trained; with interctc_use_conditioning the
 * next block is told its scores. */
static steno_status read_condition(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const struct steno_yaml_node *n = steno_yaml_find(j->y, CONF "interctc_layer_idx");
    steno_status st =
        steno_yaml_bool(j->y, CONF "interctc_use_conditioning", &e->conditioned, j->err);
    if (st || !e->conditioned || !n || n->kind != STENO_YAML_LIST)
        return st;
    for (n = n->first; n; n = n->next) {
        const long i = n->kind == STENO_YAML_SCALAR ? strtol(n->text, NULL, 10) : 0;
        if (i < 1 || i >= e->blocks)
            return contradict(j, "an entry of interctc_layer_idx and num_blocks");
        e->condition[i - 1] = true;
    }
    return STENO_OK;
}

static steno_status read_common(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    steno_status st = steno_conf_int(y, CONF "output_size", 2, 65536, &e->d, j->err);
    READ(steno_conf_int(y, CONF "attention_heads", 1, 1024, &e->heads, j->err));
    READ(steno_conf_int(y, CONF "num_blocks", 1, STENO_ESPNET_MAX_BLOCKS, &e->blocks, j->err));
    READ(read_input_layer(j));
    READ(steno_conf_int(y, CONF "max_pos_emb_len", STENO_ESPNET_POSITIONS, 1 << 20, &e->pos_rows,
                        j->err));
    READ(read_condition(j));
    READ(steno_yaml_bool(y, CONF "zero_triu", &e->zero_triu, j->err));
    READ(steno_yaml_bool(y, CONF "qk_norm", &e->qk_norm, j->err));
    if (!st && (e->d % e->heads || e->d % 2))
        st = contradict(j, "output_size and attention_heads");
    j->a.d = e->d;
    return st;
}

static steno_status read_feed_forward(struct steno_espnet_job *j)
{
    static const char *const types[] = {"linear", "conv1d", "conv1d-linear", NULL};
    struct steno_espnet_encoder *e = &j->a.e;
    const char *type = types[0];
    steno_status st =
        choose_word(j, CONF "positionwise_layer_type", "linear, conv1d, conv1d-linear", &type);
    READ(steno_conf_int(j->y, CONF "linear_units", 1, 1 << 20, &e->ff, j->err));
    READ(steno_conf_int(j->y, CONF "positionwise_conv_kernel_size", 1, 4095, &e->ffn_kernel,
                        j->err));
    for (int i = 0; types[i]; i++)
        if (!strcmp(type, types[i]))
            e->ffn_type = (enum steno_espnet_ffn)i;
    if (!st && e->ffn_type && e->ffn_kernel % 2 == 0)
        st = contradict(j, "positionwise_layer_type and an even positionwise_conv_kernel_size");
    return st;
}

/* Contextual blocks. ESPnet fails with init_average: false, and repeats a frame in each block after
 * a linear input layer. */
static steno_status read_blocks(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    const char *layer = e->input_layer;
    steno_status st = steno_conf_int(y, CONF "block_size", 2, 4096, &e->block, j->err);
    READ(steno_conf_int(y, CONF "hop_size", 1, 4096, &e->hop, j->err));
    READ(steno_conf_int(y, CONF "look_ahead", 0, 4096, &e->look_ahead, j->err));
    READ(steno_yaml_bool(y, CONF "ctx_pos_enc", &e->ctx_pos, j->err));
    READ(steno_conf_only(y, CONF "init_average", "true", j->err));
    if (!st && e->hop + e->look_ahead > e->block)
        st = contradict(j, "block_size, hop_size and look_ahead");
    if (!st && j->umvn)
        st = steno_conf_unsupported(y, "normalize", "utterance_mvn",
                                    "global_mvn, null, since the encoder streams", j->err);
    e->subsample = !strcmp(layer, "conv2d6") ? 6 : !strcmp(layer, "conv2d8") ? 8 : 4;
    return st;
}

/* attention_windows, attention_dilation: one number for each block; ESPnet's default is six. */
static steno_status read_stack_list(struct steno_espnet_job *j, const char *path, int64_t otherwise,
                                    int64_t least, int64_t most, int64_t *out)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, path);
    const int64_t blocks = j->a.e.blocks;
    const bool right = n ? n->kind == STENO_YAML_LIST && n->n == (size_t)blocks : blocks == 6;
    if (!right)
        return contradict(j, strstr(path, "windows") ? "attention_windows and num_blocks"
                                                     : "attention_dilation and num_blocks");
    n = n ? n->first : NULL;
    for (int64_t i = 0; i < blocks; i++, n = n ? n->next : NULL) {
        char *end = NULL;
        out[i] = n && n->kind == STENO_YAML_SCALAR ? strtol(n->text, &end, 10) : otherwise;
        if (n && (!end || *end || end == n->text || out[i] < least || out[i] > most))
            return steno_conf_unsupported(j->y, path,
                                          n->kind == STENO_YAML_SCALAR ? n->text : "a list",
                                          most == 1 ? "1" : "2 to 2048", j->err);
    }
    return STENO_OK;
}

/* Longformer. ESPnet fills the rows up to a multiple of twice the largest window, and its attention
 * fails where that is no multiple of twice the window of a block, and with a window of 1. */
static steno_status read_windows(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const char *self = "lf_selfattn", *pos = "abs_pos", *mode = "sliding_chunks";
    int64_t dilation[STENO_ESPNET_MAX_BLOCKS], most = 1;
    steno_status st = steno_yaml_str(j->y, CONF "selfattention_layer_type", &self, j->err);
    if (!st && strcmp(self, "lf_selfattn") != 0)
        st = steno_conf_unsupported(j->y, CONF "selfattention_layer_type", self, "lf_selfattn",
                                    j->err);
    READ(steno_yaml_str(j->y, CONF "pos_enc_layer_type", &pos, j->err));
    if (!st && strcmp(pos, "abs_pos") != 0)
        st = steno_conf_unsupported(j->y, CONF "pos_enc_layer_type", pos, "abs_pos", j->err);
    READ(choose_word(j, CONF "attention_mode", "sliding_chunks", &mode));
    READ(choose_word(j, CONF "input_layer", "linear, conv2d, conv2d1, conv2d2, conv2d6, conv2d8",
                     &e->input_layer));
    READ(read_stack_list(j, CONF "attention_dilation", 1, 1, 1, dilation));
    READ(read_stack_list(j, CONF "attention_windows", 100, 2, 2048, e->window));
    if (st)
        return st;
    for (int64_t i = 0; i < e->blocks; i++)
        most = e->window[i] > most ? e->window[i] : most;
    for (int64_t i = 0; i < e->blocks; i++)
        if (most % e->window[i])
            return contradict(j, "the largest of attention_windows and one that does not "
                                 "divide it");
    e->window_rows = 2 * most;
    e->pos = STENO_ESPNET_POS_ABS;
    return STENO_OK;
}

static steno_status read_former(struct steno_espnet_job *j, const struct kind *k)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    steno_status st = read_feed_forward(j);
    READ(steno_conf_int(y, CONF "cnn_module_kernel", 1, 4095, &e->kernel, j->err));
    READ(read_activation(j, CONF "activation_type", &e->conv_activation));
    READ(steno_yaml_bool(y, CONF "normalize_before", &e->before, j->err));
    READ(steno_yaml_bool(y, CONF "macaron_style", &e->macaron, j->err));
    READ(steno_yaml_bool(y, CONF "use_cnn_module", &e->conv, j->err));
    READ(steno_yaml_bool(y, CONF "concat_after", &e->concat_after, j->err));
    READ(steno_conf_only(y, CONF "ctc_trim", "false", j->err));
    if (!st && e->conv && e->kernel % 2 == 0)
        st = contradict(j, "use_cnn_module and an even cnn_module_kernel");
    if (e->kind == STENO_ESPNET_CONFORMER)
        e->activation = e->conv_activation;
    if (k->windows)
        READ(read_windows(j));
    else if (steno_espnet_streams(e)) /* their attention is a plain one, whatever the key says */
        READ(read_blocks(j));
    else
        READ(read_attention(j, CONF "selfattention_layer_type", k->rel));
    return st;
}

static steno_status read_gate(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    steno_status st =
        steno_conf_int(y, CONF "cgmlp_linear_units", 2, 1 << 20, &e->gate_units, j->err);
    READ(steno_conf_int(y, CONF "cgmlp_conv_kernel", 1, 4095, &e->gate_kernel, j->err));
    READ(steno_yaml_bool(y, CONF "use_linear_after_conv", &e->gate_linear, j->err));
    READ(choose_word(j, CONF "gate_activation", "identity, hardtanh, tanh, relu, selu, swish",
                     &e->gate_activation));
    if (!st && (e->gate_units % 2 || e->gate_kernel % 2 == 0))
        st = contradict(j, "an odd cgmlp_linear_units or an even cgmlp_conv_kernel");
    return st;
}

/* cgmlp_weight: a number, or a list of one per block. */
static steno_status read_gate_weights(struct steno_espnet_job *j)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, CONF "cgmlp_weight");
    struct steno_espnet_encoder *e = &j->a.e;
    double w = 0.5;
    if (n && n->kind == STENO_YAML_LIST) {
        if (n->n != (size_t)e->blocks)
            return contradict(j, "the length of cgmlp_weight and num_blocks");
        n = n->first;
        for (int64_t i = 0; i < e->blocks; i++, n = n->next) {
            w = n->kind == STENO_YAML_SCALAR ? strtod(n->text, NULL) : -1;
            if (!(w >= 0 && w <= 1))
                return contradict(j, "an entry of cgmlp_weight and the range of 0 to 1");
            e->gate_weight[i] = (float)w;
        }
        return STENO_OK;
    }
    if (steno_yaml_double(j->y, CONF "cgmlp_weight", 0, 1, &w, j->err))
        return STENO_ERR_FORMAT;
    for (int64_t i = 0; i < e->blocks; i++)
        e->gate_weight[i] = (float)w;
    return STENO_OK;
}

static steno_status read_branchformer(struct steno_espnet_job *j, const struct kind *k)
{
    static const char *const merges[] = {"concat", "learned_ave", "fixed_ave", NULL};
    struct steno_espnet_encoder *e = &j->a.e;
    const char *merge = merges[STENO_ESPNET_MERGE_CONCAT];
    steno_status st = read_gate(j);
    READ(steno_yaml_bool(j->y, CONF "use_attn", &e->attn, j->err));
    READ(steno_yaml_bool(j->y, CONF "use_cgmlp", &e->cgmlp, j->err));
    READ(choose_word(j, CONF "merge_method", "concat, learned_ave, fixed_ave", &merge));
    READ(read_gate_weights(j));
    if (!st && !e->attn && !e->cgmlp)
        st = contradict(j, "use_attn: false and use_cgmlp: false");
    for (int i = 0; merges[i]; i++)
        if (!strcmp(merge, merges[i]))
            e->merge = (enum steno_espnet_merge)i;
    READ(read_attention(j, CONF "attention_layer_type", k->rel));
    return st;
}

static steno_status read_e_branchformer(struct steno_espnet_job *j, const struct kind *k)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    steno_status st = read_gate(j);
    READ(steno_yaml_bool(y, CONF "use_ffn", &e->ffn, j->err));
    READ(steno_yaml_bool(y, CONF "macaron_ffn", &e->macaron, j->err));
    READ(steno_conf_int(y, CONF "linear_units", 1, 1 << 20, &e->ff, j->err));
    READ(read_activation(j, CONF "ffn_activation_type", &e->activation));
    READ(steno_conf_only(y, CONF "positionwise_layer_type", "linear", j->err));
    READ(steno_conf_int(y, CONF "merge_conv_kernel", 1, 4095, &e->merge_kernel, j->err));
    if (!st && e->merge_kernel % 2 == 0)
        st = contradict(j, "an even merge_conv_kernel and the branches");
    e->macaron &= e->ffn;
    READ(read_attention(j, CONF "attention_layer_type", k->rel));
    return st;
}

/* subsample: 1 or 2 for each layer; layers without an entry keep all rows. Without the key: 2, 2;
 * null: none. */
static steno_status read_subsample(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const struct steno_yaml_node *n = steno_yaml_find(j->y, CONF "subsample");
    for (int i = 0; i < 2 && i < e->blocks; i++)
        e->halved[i] = !n;
    if (steno_yaml_null(n))
        return STENO_OK;
    if (n->kind != STENO_YAML_LIST)
        return contradict(j, "subsample, which is no list, and num_layers");
    n = n->first;
    for (int64_t i = 0; i < e->blocks && n; i++, n = n->next) {
        const bool scalar = n->kind == STENO_YAML_SCALAR;
        e->halved[i] = scalar && !strcmp(n->text, "2");
        if (!e->halved[i] && (!scalar || strcmp(n->text, "1") != 0))
            return steno_conf_unsupported(j->y, CONF "subsample",
                                          scalar ? n->text : "a list in a list", "1 and 2", j->err);
    }
    return STENO_OK;
}

static steno_status read_recurrent(struct steno_espnet_job *j)
{
    struct steno_espnet_encoder *e = &j->a.e;
    const steno_yaml *y = j->y;
    const char *type = "lstm";
    steno_status st = choose_word(j, CONF "rnn_type", "lstm, gru", &type);
    e->d = e->units = 320;
    e->both_ways = e->projected = true;
    READ(steno_conf_int(y, CONF "output_size", 1, 65536, &e->d, j->err));
    READ(steno_conf_int(y, CONF "hidden_size", 1, 65536, &e->units, j->err));
    READ(steno_conf_int(y, CONF "num_layers", 1, STENO_ESPNET_MAX_BLOCKS, &e->blocks, j->err));
    READ(steno_yaml_bool(y, CONF "bidirectional", &e->both_ways, j->err));
    READ(steno_yaml_bool(y, CONF "use_projection", &e->projected, j->err));
    READ(steno_conf_only(y, CONF "in_channel", "1", j->err));
    if (!st && e->kind == STENO_ESPNET_RNN)
        st = read_subsample(j);
    e->cell = !strcmp(type, "gru") ? STENO_MAKE_GRU : STENO_MAKE_LSTM;
    j->a.d = e->d;
    return st;
}

steno_status steno_espnet_read_encoder(struct steno_espnet_job *j)
{
    const char *name = "rnn";
    const struct kind *k = NULL;
    steno_status st = steno_yaml_str(j->y, "encoder", &name, j->err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name))
            k = &kinds[i];
    if (!st && !k)
        st = steno_conf_unsupported(j->y, "encoder", name, KNOWN_KINDS, j->err);
    if (st)
        return st;
    j->a.e = (struct steno_espnet_encoder){.kind = k->kind,
                                           .in = j->mels,
                                           .d = 256,
                                           .heads = 4,
                                           .ff = 2048,
                                           .blocks = k->blocks,
                                           .input_layer = "conv2d",
                                           .before = true,
                                           .conv = k->kind == STENO_ESPNET_CONFORMER ||
                                                   k->kind == STENO_ESPNET_BLOCK_CONFORMER,
                                           .pos_rows = 5000,
                                           .kernel = 31,
                                           .activation = k->activation,
                                           .conv_activation = "swish",
                                           .ffn_kernel = k->ffn_kernel,
                                           .block = 40,
                                           .hop = 16,
                                           .look_ahead = 16,
                                           .ctx_pos = true,
                                           .attn = true,
                                           .cgmlp = true,
                                           .gate_units = 2048,
                                           .gate_kernel = 31,
                                           .merge_kernel = 3,
                                           .gate_activation = "identity"};
    st = steno_conf_keys(j->y, "encoder_conf", keys, j->err);
    if (k->kind == STENO_ESPNET_RNN || k->kind == STENO_ESPNET_VGG_RNN) {
        READ(read_recurrent(j));
        return st;
    }
    READ(read_common(j));
    READ(k->kind == STENO_ESPNET_BRANCHFORMER     ? read_branchformer(j, k)
         : k->kind == STENO_ESPNET_E_BRANCHFORMER ? read_e_branchformer(j, k)
                                                  : read_former(j, k));
    return st;
}
