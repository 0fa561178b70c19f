#include "tools/convert/wenet_conf.h"

#include "tools/convert/conf.h"

#include <stdio.h>
#include <string.h>

/* Of encoders and decoders. */
#define SHARED_KEYS                                                                                \
    "dropout_rate, positional_dropout_rate, gradient_checkpointing, use_sdpa, "                    \
    "attention_heads, linear_units, num_blocks, input_layer, normalize_before, concat_after, "     \
    "query_bias, key_bias, value_bias, activation_type, layer_norm_type, norm_eps, n_kv_head, "    \
    "head_dim, mlp_type, mlp_bias, n_expert, n_expert_activated, "

static const char encoder_keys[] = SHARED_KEYS
    "attention_dropout_rate, output_size, pos_enc_layer_type, static_chunk_size, "
    "use_dynamic_chunk, use_dynamic_left_chunk, positionwise_conv_kernel_size, macaron_style, "
    "selfattention_layer_type, use_cnn_module, cnn_module_kernel, causal, cnn_module_norm, "
    "conv_bias";
static const char decoder_keys[] = SHARED_KEYS
    "self_attention_dropout_rate, src_attention_dropout_rate, r_num_blocks, use_output_layer, "
    "src_attention, tie_word_embedding";
static const char model_keys[] =
    "ctc_weight, ignore_id, reverse_weight, lsm_weight, length_normalized_loss, lfmmi_dir, "
    "apply_non_blank_embedding";

/* Whole sections that make another model. */
static const char *const other_models[] = {"predictor",     "predictor_conf",     "joint_conf",
                                           "paraformer",    "cif_predictor_conf", "lora_conf",
                                           "efficient_conf"};

static steno_status read_epsilon(const steno_yaml *y, const char *path, float *out, steno_err *err)
{
    double v = 1e-5;
    steno_status st = steno_yaml_double(y, path, 0, 1, &v, err);
    *out = (float)v;
    return st;
}

/* Keys of encoder_conf and decoder_conf that may have one value. */
static steno_status read_shared(const steno_yaml *y, const char *section, steno_err *err)
{
    static const struct {
        const char *key, *want;
    } fixed[] = {{"concat_after", "false"},
                 {"layer_norm_type", "layer_norm"},
                 {"n_kv_head", "null"},
                 {"head_dim", "null"},
                 {"mlp_type", "position_wise_feed_forward"},
                 {"mlp_bias", "true"}};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && !st; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s.%s", section, fixed[i].key);
        st = steno_conf_only(y, path, fixed[i].want, err);
    }
    return st;
}

static steno_status read_position(const steno_yaml *y, struct steno_wenet_arch *a, steno_err *err)
{
    const char *position = a->conformer ? "rel_pos" : "abs_pos", *attention;
    steno_status st = steno_conf_choice(y, "encoder_conf.pos_enc_layer_type",
                                        "rel_pos|abs_pos|no_pos", &position, err);
    a->position = !strcmp(position, "rel_pos")   ? STENO_WENET_REL
                  : !strcmp(position, "abs_pos") ? STENO_WENET_ABS
                                                 : STENO_WENET_NONE;
    /* Until version 3 the attention followed from the positions, and this key was ignored; so the
     * weights decide (wenet.c). */
    READ(steno_conf_choice(y, "encoder_conf.selfattention_layer_type", "rel_selfattn|selfattn",
                           &attention, err));
    if (!st && !a->conformer && a->position == STENO_WENET_REL)
        st = steno_conf_unsupported(y, "encoder_conf.pos_enc_layer_type", position,
                                    "abs_pos|no_pos for a Transformer", err);
    return st;
}

static steno_status check_encoder(const steno_yaml *y, const struct steno_wenet_arch *a,
                                  steno_err *err)
{
    if (a->d % a->heads || a->d % 2 || (a->conv && !a->causal && a->kernel % 2 == 0))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: encoder_conf: output_size %lld, attention_heads %lld, "
                          "cnn_module_kernel %lld do not fit together",
                          steno_yaml_name(y), (long long)a->d, (long long)a->heads,
                          (long long)a->kernel);
    return STENO_OK;
}

static steno_status read_wenet_encoder(const steno_yaml *y, struct steno_wenet_arch *a,
                                       struct steno_wenet_conf *c, steno_err *err)
{
    const char *kind = "conformer", *norm = "batch_norm";
    bool dynamic = false;
    steno_status st = steno_conf_choice(y, "encoder", "conformer|transformer", &kind, err);
    a->conformer = !strcmp(kind, "conformer");
    a->activation = a->conformer ? "swish" : "relu";
    a->macaron = a->conv = a->conformer;
    a->kernel = a->conformer ? 15 : 1;
    READ(steno_conf_keys(y, "encoder_conf", encoder_keys, err));
    READ(steno_conf_int(y, "encoder_conf.output_size", 2, 65536, &a->d, err));
    READ(steno_conf_int(y, "encoder_conf.attention_heads", 1, 1024, &a->heads, err));
    READ(steno_conf_int(y, "encoder_conf.linear_units", 1, 1 << 20, &a->ff, err));
    READ(steno_conf_int(y, "encoder_conf.num_blocks", 1, STENO_WENET_MAX_BLOCKS, &a->blocks, err));
    READ(steno_conf_choice(y, "encoder_conf.input_layer", "conv2d|conv2d6|conv2d8|linear",
                           &a->input_layer, err));
    READ(steno_conf_choice(y, "encoder_conf.activation_type", "relu|swish|gelu|tanh",
                           &a->activation, err));
    READ(steno_yaml_bool(y, "encoder_conf.normalize_before", &a->before, err));
    READ(steno_yaml_bool(y, "encoder_conf.query_bias", &a->query_bias, err));
    READ(steno_yaml_bool(y, "encoder_conf.key_bias", &a->key_bias, err));
    READ(steno_yaml_bool(y, "encoder_conf.value_bias", &a->value_bias, err));
    READ(steno_yaml_bool(y, "encoder_conf.use_dynamic_chunk", &dynamic, err));
    READ(steno_conf_int(y, "encoder_conf.static_chunk_size", -1, 1024, &c->static_chunk, err));
    READ(read_epsilon(y, "encoder_conf.norm_eps", &a->epsilon, err));
    READ(read_shared(y, "encoder_conf", err));
    READ(read_position(y, a, err));
    if (a->conformer) {
        READ(steno_yaml_bool(y, "encoder_conf.macaron_style", &a->macaron, err));
        READ(steno_yaml_bool(y, "encoder_conf.use_cnn_module", &a->conv, err));
        READ(steno_yaml_bool(y, "encoder_conf.causal", &a->causal, err));
        READ(steno_yaml_bool(y, "encoder_conf.conv_bias", &a->conv_bias, err));
        READ(steno_conf_int(y, "encoder_conf.cnn_module_kernel", 1, 1023, &a->kernel, err));
        READ(steno_conf_choice(y, "encoder_conf.cnn_module_norm", "batch_norm|layer_norm", &norm,
                               err));
    }
    a->conv_layer_norm = !strcmp(norm, "layer_norm");
    c->static_chunk = c->static_chunk > 0 && !dynamic ? c->static_chunk : 0;
    c->chunks = (dynamic || c->static_chunk) && (!a->conv || a->causal);
    return st ? st : check_encoder(y, a, err);
}

static steno_status read_decoder(const steno_yaml *y, struct steno_wenet_arch *a, steno_err *err)
{
    const char *kind = "bitransformer";
    steno_status st = steno_conf_choice(y, "decoder", "transformer|bitransformer", &kind, err);
    READ(steno_conf_keys(y, "decoder_conf", decoder_keys, err));
    READ(steno_conf_int(y, "decoder_conf.attention_heads", 1, 1024, &a->dec_heads, err));
    READ(steno_conf_int(y, "decoder_conf.linear_units", 1, 1 << 20, &a->dec_ff, err));
    READ(steno_conf_int(y, "decoder_conf.num_blocks", 1, STENO_WENET_MAX_BLOCKS, &a->dec_blocks,
                        err));
    READ(steno_yaml_bool(y, "decoder_conf.normalize_before", &a->dec_before, err));
    READ(steno_yaml_bool(y, "decoder_conf.query_bias", &a->dec_query_bias, err));
    READ(steno_yaml_bool(y, "decoder_conf.key_bias", &a->dec_key_bias, err));
    READ(steno_yaml_bool(y, "decoder_conf.value_bias", &a->dec_value_bias, err));
    READ(steno_conf_choice(y, "decoder_conf.activation_type", "relu|swish|gelu|tanh",
                           &a->dec_activation, err));
    READ(read_epsilon(y, "decoder_conf.norm_eps", &a->dec_epsilon, err));
    READ(read_shared(y, "decoder_conf", err));
    READ(steno_conf_only(y, "decoder_conf.input_layer", "embed", err));
    READ(steno_conf_only(y, "decoder_conf.use_output_layer", "true", err));
    READ(steno_conf_only(y, "decoder_conf.src_attention", "true", err));
    if (!strcmp(kind, "bitransformer"))
        READ(steno_conf_int(y, "decoder_conf.r_num_blocks", 1, STENO_WENET_MAX_BLOCKS,
                            &a->right_blocks, err));
    if (!st && !strcmp(kind, "bitransformer") && !a->right_blocks)
        st = steno_yaml_missing(y, "decoder_conf.r_num_blocks", err);
    if (!st && a->d % a->dec_heads)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: decoder_conf.attention_heads: %lld heads of %lld columns",
                        steno_yaml_name(y), (long long)a->dec_heads, (long long)a->d);
    return st;
}

/* What the features are: the ones that are served. */
static steno_status read_features(const steno_yaml *y, struct steno_wenet_arch *a, steno_err *err)
{
    steno_status st = STENO_OK;
    READ(steno_conf_only(y, "input_dim", "80", err));
    READ(steno_conf_only(y, "dataset_conf.feats_type", "fbank", err));
    READ(steno_conf_only(y, "dataset_conf.resample_conf.resample_rate", "16000", err));
    READ(steno_conf_only(y, "dataset_conf.fbank_conf.num_mel_bins", "80", err));
    READ(steno_conf_only(y, "dataset_conf.fbank_conf.frame_shift", "10", err));
    READ(steno_conf_only(y, "dataset_conf.fbank_conf.frame_length", "25", err));
    a->in = 80;
    return st;
}

/* An id in tokenizer_conf.special_tokens, whose names have no dots. */
static steno_status special(const steno_yaml *y, const char *token, int64_t *out, steno_err *err)
{
    char path[80];
    snprintf(path, sizeof path, "tokenizer_conf.special_tokens.%s", token);
    return steno_conf_int(y, path, 0, (1 << 20) - 1, out, err);
}

static steno_status read_wenet_tokens(const steno_yaml *y, struct steno_wenet_arch *a,
                                      struct steno_wenet_conf *c, steno_err *err)
{
    steno_status st = steno_conf_int(y, "output_dim", 1, 1 << 20, &a->vocab, err);
    a->sos = a->eos = -1;
    READ(special(y, "<sos>", &a->sos, err));
    READ(special(y, "<eos>", &a->eos, err));
    READ(special(y, "<blank>", &c->blank, err));
    READ(steno_conf_int(y, "ctc_conf.ctc_blank_id", 0, (1 << 20) - 1, &c->blank, err));
    READ(steno_yaml_str(y, "tokenizer_conf.symbol_table_path", &c->tokens, err));
    READ(steno_yaml_str(y, "tokenizer_conf.bpe_path", &c->bpe, err));
    return st;
}

static steno_status read_normalization(const steno_yaml *y, struct steno_wenet_conf *c,
                                       steno_err *err)
{
    steno_status st = steno_yaml_str(y, "cmvn_file", &c->cmvn, err);
    const char *kind = NULL;
    READ(steno_conf_choice(y, "cmvn", "global_cmvn", &kind, err));
    READ(steno_yaml_str(y, "cmvn_conf.cmvn_file", &c->cmvn, err));
    c->normalized = kind || c->cmvn;
    return st;
}

steno_status steno_wenet_conf_read(const steno_yaml *y, struct steno_wenet_arch *a,
                                   struct steno_wenet_conf *c, steno_err *err)
{
    steno_status st = STENO_OK;
    const char *model;
    *c = (struct steno_wenet_conf){0};
    *a = (struct steno_wenet_arch){.d = 256,
                                   .heads = 4,
                                   .ff = 2048,
                                   .blocks = 6,
                                   .input_layer = "conv2d",
                                   .before = true,
                                   .conv_bias = true,
                                   .query_bias = true,
                                   .key_bias = true,
                                   .value_bias = true,
                                   .dec_heads = 4,
                                   .dec_ff = 2048,
                                   .dec_blocks = 6,
                                   .dec_before = true,
                                   .dec_query_bias = true,
                                   .dec_key_bias = true,
                                   .dec_value_bias = true,
                                   .dec_activation = "relu"};
    for (size_t i = 0; i < sizeof other_models / sizeof *other_models && !st; i++)
        if (!steno_yaml_null(steno_yaml_find(y, other_models[i])))
            st = steno_conf_unsupported(y, other_models[i], "a model with this",
                                        "CTC and attention (ASRModel)", err);
    READ(steno_conf_choice(y, "model", "asr_model|asrmodel", &model, err));
    READ(steno_conf_keys(y, "model_conf", model_keys, err));
    READ(steno_conf_only(y, "model_conf.apply_non_blank_embedding", "false", err));
    READ(steno_conf_only(y, "ctc", "ctc", err));
    READ(steno_yaml_double(y, "model_conf.reverse_weight", 0, 1, &a->reverse_weight, err));
    READ(read_features(y, a, err));
    READ(read_wenet_encoder(y, a, c, err));
    READ(read_decoder(y, a, err));
    READ(read_wenet_tokens(y, a, c, err));
    READ(read_normalization(y, c, err));
    return st;
}
