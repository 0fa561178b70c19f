/* Encoders in the configuration of ESPnet2. */
#include "convert/espnet_job.h"

#include <string.h>

static const char *const encoder_keys[] = {"output_size",
                                           "attention_heads",
                                           "linear_units",
                                           "num_blocks",
                                           "dropout_rate",
                                           "positional_dropout_rate",
                                           "attention_dropout_rate",
                                           "input_layer",
                                           "normalize_before",
                                           "concat_after",
                                           "positionwise_layer_type",
                                           "positionwise_conv_kernel_size",
                                           "macaron_style",
                                           "rel_pos_type",
                                           "pos_enc_layer_type",
                                           "selfattention_layer_type",
                                           "activation_type",
                                           "use_cnn_module",
                                           "zero_triu",
                                           "cnn_module_kernel",
                                           "padding_idx",
                                           "interctc_layer_idx",
                                           "interctc_use_conditioning",
                                           "ctc_trim",
                                           "stochastic_depth_rate",
                                           "layer_drop_rate",
                                           "max_pos_emb_len",
                                           "qk_norm",
                                           "use_flash_attn",
                                           NULL};

steno_status steno_espnet_read_encoder(struct steno_espnet_job *j)
{
    static const char *const kinds[] = {"transformer", "conformer", NULL};
    static const char *const layers[] = {"conv2d",  "conv2d1", "conv2d2", "conv2d6",
                                         "conv2d8", "linear",  NULL};
    const char *kind = "rnn", *rel = "legacy", *pos = NULL, *self = NULL;
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->y;
    steno_status st = steno_espnet_text(j, y, "encoder", &kind);
    if (!st && !steno_espnet_one_of(kind, kinds))
        st = steno_espnet_unsupported(j, y, "encoder", kind, "transformer, conformer");
    a->conformer = !strcmp(kind, "conformer");
    *a = (struct steno_espnet_arch){.conformer = a->conformer,
                                    .in = j->mels,
                                    .d = 256,
                                    .heads = 4,
                                    .ff = 2048,
                                    .blocks = 6,
                                    .input_layer = "conv2d",
                                    .before = true,
                                    .conv = a->conformer,
                                    .kernel = 31,
                                    .activation = a->conformer ? "swish" : "relu",
                                    .vocab = a->vocab};
    if (!st)
        st = steno_espnet_check_keys(j, y, "encoder_conf", encoder_keys);
    READ(steno_espnet_int(j, y, "encoder_conf.output_size", 2, 65536, &a->d));
    READ(steno_espnet_int(j, y, "encoder_conf.attention_heads", 1, 1024, &a->heads));
    READ(steno_espnet_int(j, y, "encoder_conf.linear_units", 1, 1 << 20, &a->ff));
    READ(steno_espnet_int(j, y, "encoder_conf.num_blocks", 1, 1000, &a->blocks));
    READ(steno_espnet_int(j, y, "encoder_conf.cnn_module_kernel", 1, 4095, &a->kernel));
    READ(steno_espnet_text(j, y, "encoder_conf.input_layer", &a->input_layer));
    READ(steno_espnet_text(j, y, "encoder_conf.activation_type", &a->activation));
    READ(steno_espnet_flag(j, y, "encoder_conf.normalize_before", &a->before));
    READ(steno_espnet_flag(j, y, "encoder_conf.macaron_style", &a->macaron));
    READ(steno_espnet_flag(j, y, "encoder_conf.use_cnn_module", &a->conv));
    READ(steno_espnet_text(j, y, "encoder_conf.rel_pos_type", &rel));
    READ(steno_espnet_text(j, y, "encoder_conf.pos_enc_layer_type", &pos));
    READ(steno_espnet_text(j, y, "encoder_conf.selfattention_layer_type", &self));
    READ(steno_espnet_only(j, y, "encoder_conf.concat_after", "false"));
    READ(steno_espnet_only(j, y, "encoder_conf.positionwise_layer_type", "linear"));
    READ(steno_espnet_only(j, y, "encoder_conf.zero_triu", "false"));
    READ(steno_espnet_only(j, y, "encoder_conf.interctc_use_conditioning", "false"));
    READ(steno_espnet_only(j, y, "encoder_conf.ctc_trim", "false"));
    READ(steno_espnet_only(j, y, "encoder_conf.qk_norm", "false"));
    READ(steno_espnet_only(j, y, "encoder_conf.max_pos_emb_len", "5000"));
    if (st)
        return st;
    if (!steno_espnet_one_of(a->input_layer, layers))
        return steno_espnet_unsupported(j, y, "encoder_conf.input_layer", a->input_layer,
                                        "conv2d, conv2d1, conv2d2, conv2d6, conv2d8, linear");
    if (a->d % a->heads || a->d % 2 || a->kernel % 2 == 0)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: encoder_conf: output_size %lld, attention_heads %lld, "
                          "cnn_module_kernel %lld do not fit together",
                          steno_yaml_name(y), (long long)a->d, (long long)a->heads,
                          (long long)a->kernel);
    if (!a->conformer)
        return steno_espnet_only(j, y, "encoder_conf.pos_enc_layer_type", "abs_pos");
    pos = pos ? pos : "rel_pos";
    self = self ? self : "rel_selfattn";
    if (strcmp(rel, "legacy") && strcmp(rel, "latest"))
        return steno_espnet_unsupported(j, y, "encoder_conf.rel_pos_type", rel, "legacy, latest");
    if (!strcmp(pos, "abs_pos") && !strcmp(self, "selfattn"))
        a->rel = STENO_REL_NONE;
    else if (!strcmp(pos, "legacy_rel_pos") || (!strcmp(pos, "rel_pos") && !strcmp(rel, "legacy")))
        a->rel = STENO_REL_LEGACY;
    else if (!strcmp(pos, "rel_pos") && !strcmp(self, "rel_selfattn"))
        a->rel = STENO_REL_LATEST;
    else
        return steno_espnet_unsupported(j, y, "encoder_conf.pos_enc_layer_type", pos,
                                        "abs_pos with selfattn, rel_pos with rel_selfattn");
    return STENO_OK;
}
