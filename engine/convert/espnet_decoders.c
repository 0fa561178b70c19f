/* Decoders and language models in the configuration of ESPnet2. */
#include "convert/espnet_job.h"

#include <string.h>

static const char *const decoder_keys[] = {"attention_heads",
                                           "linear_units",
                                           "num_blocks",
                                           "dropout_rate",
                                           "positional_dropout_rate",
                                           "self_attention_dropout_rate",
                                           "src_attention_dropout_rate",
                                           "input_layer",
                                           "use_output_layer",
                                           "normalize_before",
                                           "concat_after",
                                           "layer_drop_rate",
                                           "qk_norm",
                                           "use_flash_attn",
                                           "gradient_checkpoint_layers",
                                           NULL};

steno_status steno_espnet_read_decoder(struct steno_espnet_job *j)
{
    const char *kind = NULL;
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->y;
    steno_status st = steno_espnet_text(j, y, "decoder", &kind);
    if (st || !kind)
        return st;
    if (strcmp(kind, "transformer"))
        return steno_espnet_unsupported(j, y, "decoder", kind, "transformer, null");
    j->has_decoder = true;
    a->dec_heads = 4;
    a->dec_ff = 2048;
    a->dec_blocks = 6;
    a->dec_before = true;
    st = steno_espnet_check_keys(j, y, "decoder_conf", decoder_keys);
    READ(steno_espnet_int(j, y, "decoder_conf.attention_heads", 1, 1024, &a->dec_heads));
    READ(steno_espnet_int(j, y, "decoder_conf.linear_units", 1, 1 << 20, &a->dec_ff));
    READ(steno_espnet_int(j, y, "decoder_conf.num_blocks", 1, 256, &a->dec_blocks));
    READ(steno_espnet_flag(j, y, "decoder_conf.normalize_before", &a->dec_before));
    READ(steno_espnet_only(j, y, "decoder_conf.input_layer", "embed"));
    READ(steno_espnet_only(j, y, "decoder_conf.use_output_layer", "true"));
    READ(steno_espnet_only(j, y, "decoder_conf.concat_after", "false"));
    READ(steno_espnet_only(j, y, "decoder_conf.qk_norm", "false"));
    if (!st && a->d % a->dec_heads)
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: decoder_conf.attention_heads: %lld heads of %lld columns",
                        steno_yaml_name(y), (long long)a->dec_heads, (long long)a->d);
    return st;
}

static const char *const lm_keys[] = {"pos_enc",
                                      "embed_unit",
                                      "att_unit",
                                      "head",
                                      "unit",
                                      "layer",
                                      "dropout_rate",
                                      "positional_dropout_rate",
                                      "attention_dropout_rate",
                                      NULL};

steno_status steno_espnet_read_lm(struct steno_espnet_job *j)
{
    struct steno_espnet_arch *a = &j->a;
    const char *kind = "seq_rnn", *pos = NULL;
    const steno_yaml *y;
    steno_status st;
    if (!j->has_lm)
        return STENO_OK;
    st = steno_espnet_read_yaml(j, j->lm_conf, &j->lm);
    if (st)
        return st;
    y = j->lm;
    a->lm_embed = 128;
    a->lm_d = 256;
    a->lm_heads = 2;
    a->lm_ff = 1024;
    a->lm_blocks = 4;
    st = steno_espnet_text(j, y, "lm", &kind);
    if (!st && strcmp(kind, "transformer"))
        st = steno_espnet_unsupported(j, y, "lm", kind, "transformer");
    READ(steno_espnet_check_keys(j, y, "lm_conf", lm_keys));
    READ(steno_espnet_text(j, y, "lm_conf.pos_enc", &pos));
    READ(steno_espnet_int(j, y, "lm_conf.embed_unit", 1, 65536, &a->lm_embed));
    READ(steno_espnet_int(j, y, "lm_conf.att_unit", 2, 65536, &a->lm_d));
    READ(steno_espnet_int(j, y, "lm_conf.head", 1, 1024, &a->lm_heads));
    READ(steno_espnet_int(j, y, "lm_conf.unit", 1, 1 << 20, &a->lm_ff));
    READ(steno_espnet_int(j, y, "lm_conf.layer", 1, 256, &a->lm_blocks));
    if (st)
        return st;
    if (pos && strcmp(pos, "sinusoidal"))
        return steno_espnet_unsupported(j, y, "lm_conf.pos_enc", pos, "null, sinusoidal");
    a->lm_positions = pos != NULL;
    if (a->lm_d % a->lm_heads || a->lm_d % 2)
        return steno_fail(j->err, STENO_ERR_FORMAT, "%s: lm_conf: %lld heads of %lld columns",
                          steno_yaml_name(y), (long long)a->lm_heads, (long long)a->lm_d);
    return STENO_OK;
}
