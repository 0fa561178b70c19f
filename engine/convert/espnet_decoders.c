/* Decoders and language models in the configuration of ESPnet2. */
#include "convert/espnet_job.h"
#include "convert/espnet_recur.h"

#include <string.h>
#include <strings.h>

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

static steno_status read_transformer_lm(struct steno_espnet_job *j)
{
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->lm;
    const char *pos = NULL;
    steno_status st = steno_espnet_check_keys(j, y, "lm_conf", lm_keys);
    a->lm_embed = 128;
    a->lm_d = 256;
    a->lm_heads = 2;
    a->lm_ff = 1024;
    a->lm_blocks = 4;
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

static const char *const rnn_lm_keys[] = {"unit",        "nhid",     "nlayers",   "dropout_rate",
                                          "tie_weights", "rnn_type", "ignore_id", NULL};

/* A name such as "lstm" or "RNN_TANH", in any case, as the cell. */
static steno_status read_cell(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                              const char *known, enum steno_make_cell *cell)
{
    static const char *const names[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    const char *v = names[0];
    steno_status st = steno_espnet_text(j, y, path, &v);
    if (st)
        return st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(v, names[i]) && strstr(known, names[i])) {
            *cell = (enum steno_make_cell)i;
            return STENO_OK;
        }
    return steno_espnet_unsupported(j, y, path, v, known);
}

static steno_status read_rnn_lm(struct steno_espnet_job *j)
{
    struct steno_espnet_rnn *a = &j->a.lm_rnn;
    const steno_yaml *y = j->lm;
    steno_status st = steno_espnet_check_keys(j, y, "lm_conf", rnn_lm_keys);
    a->layers = 2;
    a->embed = 650;
    READ(steno_espnet_int(j, y, "lm_conf.unit", 1, 65536, &a->embed));
    a->units = a->embed;
    READ(steno_espnet_int(j, y, "lm_conf.nhid", 1, 65536, &a->units));
    READ(steno_espnet_int(j, y, "lm_conf.nlayers", 1, STENO_ESPNET_RNN_LAYERS, &a->layers));
    READ(read_cell(j, y, "lm_conf.rnn_type", "lstm, gru, rnn_tanh, rnn_relu", &a->cell));
    return st;
}

steno_status steno_espnet_read_lm(struct steno_espnet_job *j)
{
    const char *kind = "seq_rnn";
    steno_status st;
    if (!j->has_lm)
        return STENO_OK;
    st = steno_espnet_read_yaml(j, j->lm_conf, &j->lm);
    READ(steno_espnet_text(j, j->lm, "lm", &kind));
    if (st)
        return st;
    if (!strcmp(kind, "transformer"))
        return read_transformer_lm(j);
    if (!strcmp(kind, "seq_rnn"))
        return read_rnn_lm(j);
    return steno_espnet_unsupported(j, j->lm, "lm", kind, "transformer, seq_rnn");
}

/* ---- the configuration that is written ------------------------------------------------------ */

steno_status steno_espnet_add_lm(const struct steno_espnet_job *j, struct steno_buf *b)
{
    static const char *const cells[] = {"LSTM", "GRU", "RNN_TANH", "RNN_RELU"};
    const struct steno_espnet_arch *a = &j->a;
    if (!j->has_lm)
        return steno_buf_puts(b, "lm:\n  use_lm: false\n");
    if (a->lm_rnn.layers)
        return steno_buf_printf(b,
                                "lm:\n  use_lm: true\n  model_path: full/seq_rnnlm.onnx\n"
                                "  lm_type: SequentialRNNLM\n  rnn_type: %s\n  nhid: %lld\n"
                                "  nlayers: %lld\n",
                                cells[a->lm_rnn.cell], (long long)a->lm_rnn.units,
                                (long long)a->lm_rnn.layers);
    return steno_buf_printf(b,
                            "lm:\n  use_lm: true\n  model_path: full/transformer_lm.onnx\n"
                            "  lm_type: TransformerLM\n  odim: %lld\n  nlayers: %lld\n",
                            (long long)a->lm_d, (long long)a->lm_blocks);
}
