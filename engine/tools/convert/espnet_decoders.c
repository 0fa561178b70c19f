/* Decoders and language models in the configuration of ESPnet2. */
#include "base/list.h"
#include "tools/convert/espnet_job.h"
#include "tools/convert/espnet_recur.h"

#include <string.h>
#include <strings.h>

static const char decoder_keys[] =
    "attention_heads, linear_units, num_blocks, dropout_rate, positional_dropout_rate, "
    "self_attention_dropout_rate, src_attention_dropout_rate, input_layer, use_output_layer, "
    "normalize_before, concat_after, layer_drop_rate, qk_norm, use_flash_attn, "
    "gradient_checkpoint_layers";

static steno_status read_transformer(struct steno_espnet_job *j)
{
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->y;
    steno_status st = steno_conf_keys(y, "decoder_conf", decoder_keys, j->err);
    a->dec_heads = 4;
    a->dec_ff = 2048;
    a->dec_blocks = 6;
    a->dec_before = true;
    READ(steno_conf_int(y, "decoder_conf.attention_heads", 1, 1024, &a->dec_heads, j->err));
    READ(steno_conf_int(y, "decoder_conf.linear_units", 1, 1 << 20, &a->dec_ff, j->err));
    READ(steno_conf_int(y, "decoder_conf.num_blocks", 1, 256, &a->dec_blocks, j->err));
    READ(steno_yaml_bool(y, "decoder_conf.normalize_before", &a->dec_before, j->err));
    READ(steno_conf_only(y, "decoder_conf.input_layer", "embed", j->err));
    READ(steno_conf_only(y, "decoder_conf.use_output_layer", "true", j->err));
    READ(steno_conf_only(y, "decoder_conf.concat_after", "false", j->err));
    READ(steno_conf_only(y, "decoder_conf.qk_norm", "false", j->err));
    if (!st && a->d % a->dec_heads)
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: decoder_conf.attention_heads: %lld heads of %lld columns",
                        steno_yaml_name(y), (long long)a->dec_heads, (long long)a->d);
    return st;
}

/* A name such as "lstm" or "RNN_TANH", in any case, as the cell. */
static steno_status read_cell(struct steno_espnet_job *j, const steno_yaml *y, const char *path,
                              const char *known, enum steno_make_cell *cell)
{
    static const char *const names[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    const char *v = names[0];
    steno_status st = steno_yaml_str(y, path, &v, j->err);
    if (st)
        return st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(v, names[i]) && strstr(known, names[i])) {
            *cell = (enum steno_make_cell)i;
            return STENO_OK;
        }
    return steno_conf_unsupported(y, path, v, known, j->err);
}

static const char rnn_keys[] =
    "rnn_type, num_layers, hidden_size, sampling_probability, dropout, context_residual, "
    "replace_sos, num_encs, att_conf";
static const char attention_keys[] =
    "atype, num_att, num_encs, aheads, adim, awin, aconv_chans, aconv_filts, han_mode, han_type, "
    "han_heads, han_dim, han_conv_chans, han_conv_filts, han_win";

static steno_status read_attention(struct steno_espnet_job *j)
{
    static const char *const kinds[] = {"noatt",
                                        "dot",
                                        "add",
                                        "location",
                                        "coverage",
                                        "coverage_location",
                                        "location2d",
                                        "multi_head_dot",
                                        "multi_head_add",
                                        "multi_head_loc",
                                        "multi_head_multi_res_loc"};
    const steno_yaml *y = j->y;
    struct steno_espnet_attention_arch *a = &j->a.attention;
    steno_status st = steno_conf_keys(y, "decoder_conf.att_conf", attention_keys, j->err);
    a->name = "location";
    a->dim = 320;
    a->channels = 10;
    a->filters = 100;
    a->window = 5;
    a->heads = 4;
    READ(steno_yaml_str(y, "decoder_conf.att_conf.atype", &a->name, j->err));
    READ(steno_conf_int(y, "decoder_conf.att_conf.adim", 1, 65536, &a->dim, j->err));
    READ(steno_conf_int(y, "decoder_conf.att_conf.aconv_chans", 1, 65536, &a->channels, j->err));
    READ(steno_conf_int(y, "decoder_conf.att_conf.aconv_filts", 0, 65536, &a->filters, j->err));
    READ(steno_conf_int(y, "decoder_conf.att_conf.awin", 1, 64, &a->window, j->err));
    READ(steno_conf_int(y, "decoder_conf.att_conf.aheads", 1, 64, &a->heads, j->err));
    READ(steno_conf_only(y, "decoder_conf.att_conf.num_encs", "1", j->err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !st; i++)
        if (!strcmp(a->name, kinds[i])) {
            a->kind = (enum steno_espnet_attention_kind)i;
            return STENO_OK;
        }
    return st ? st
              : steno_conf_unsupported(y, "decoder_conf.att_conf.atype", a->name,
                                       "noatt, dot, add, location, coverage, coverage_location, "
                                       "location2d, multi_head_dot, multi_head_add, "
                                       "multi_head_loc, multi_head_multi_res_loc",
                                       j->err);
}

static steno_status read_cells(struct steno_espnet_job *j, const char *keys)
{
    struct steno_espnet_rnn *a = &j->a.dec_rnn;
    const steno_yaml *y = j->y;
    steno_status st = steno_conf_keys(y, "decoder_conf", keys, j->err);
    a->layers = 1;
    a->units = 320;
    READ(read_cell(j, y, "decoder_conf.rnn_type", "lstm, gru", &a->cell));
    READ(steno_conf_int(y, "decoder_conf.num_layers", 1, STENO_ESPNET_RNN_LAYERS, &a->layers,
                        j->err));
    READ(steno_conf_int(y, "decoder_conf.hidden_size", 1, 65536, &a->units, j->err));
    return st;
}

static steno_status read_rnn(struct steno_espnet_job *j)
{
    const steno_yaml *y = j->y;
    steno_status st = read_cells(j, rnn_keys);
    READ(steno_yaml_bool(y, "decoder_conf.context_residual", &j->a.attention.residual, j->err));
    READ(steno_conf_only(y, "decoder_conf.replace_sos", "false", j->err));
    READ(steno_conf_only(y, "decoder_conf.num_encs", "1", j->err));
    READ(read_attention(j));
    return st;
}

static const char transducer_keys[] =
    "rnn_type, num_layers, hidden_size, dropout, dropout_embed, embed_pad";
static const char joint_keys[] = "joint_space_size, joint_activation_type, lin_dec_bias";

static steno_status read_joint(struct steno_espnet_job *j)
{
    static const char activations[] = "tanh, relu, swish, selu, leaky_relu, identity";
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->y;
    steno_status st = steno_conf_keys(y, "joint_net_conf", joint_keys, j->err);
    a->joint_space = 256;
    a->joint_bias = true;
    a->joint_activation = "tanh";
    READ(steno_conf_int(y, "joint_net_conf.joint_space_size", 1, 65536, &a->joint_space, j->err));
    READ(steno_yaml_bool(y, "joint_net_conf.lin_dec_bias", &a->joint_bias, j->err));
    READ(steno_yaml_str(y, "joint_net_conf.joint_activation_type", &a->joint_activation, j->err));
    if (!st && !steno_list_holds(activations, a->joint_activation))
        st = steno_conf_unsupported(y, "joint_net_conf.joint_activation_type", a->joint_activation,
                                    activations, j->err);
    return st;
}

static steno_status read_transducer(struct steno_espnet_job *j)
{
    const steno_yaml *y = j->y;
    steno_status st = read_cells(j, transducer_keys);
    READ(steno_conf_only(y, "model_conf.transducer_multi_blank_durations", "", j->err));
    READ(read_joint(j));
    return st;
}

steno_status steno_espnet_read_decoder(struct steno_espnet_job *j)
{
    static const struct {
        const char *name;
        enum steno_espnet_decoder decoder;
        steno_status (*read)(struct steno_espnet_job *j);
    } kinds[] = {{"transformer", STENO_DECODER_XFORMER, read_transformer},
                 {"rnn", STENO_DECODER_RNN, read_rnn},
                 {"transducer", STENO_DECODER_TRANSDUCER, read_transducer}};
    const char *kind = NULL;
    double ctc = 0;
    steno_status st = steno_yaml_str(j->y, "decoder", &kind, j->err);
    READ(steno_yaml_double(j->y, "model_conf.ctc_weight", 0, 1, &ctc, j->err));
    /* ESPnet drops a decoder that was not trained */
    if (st || !kind || (ctc >= 1 && strcmp(kind, "transducer")))
        return st;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i].name)) {
            j->a.decoder = kinds[i].decoder;
            return kinds[i].read(j);
        }
    return steno_conf_unsupported(j->y, "decoder", kind, "transformer, rnn, transducer, null",
                                  j->err);
}

static const char lm_keys[] =
    "pos_enc, embed_unit, att_unit, head, unit, layer, dropout_rate, positional_dropout_rate, "
    "attention_dropout_rate";

static steno_status read_transformer_lm(struct steno_espnet_job *j)
{
    struct steno_espnet_arch *a = &j->a;
    const steno_yaml *y = j->lm;
    const char *pos = NULL;
    steno_status st = steno_conf_keys(y, "lm_conf", lm_keys, j->err);
    a->lm_embed = 128;
    a->lm_d = 256;
    a->lm_heads = 2;
    a->lm_ff = 1024;
    a->lm_blocks = 4;
    READ(steno_yaml_str(y, "lm_conf.pos_enc", &pos, j->err));
    READ(steno_conf_int(y, "lm_conf.embed_unit", 1, 65536, &a->lm_embed, j->err));
    READ(steno_conf_int(y, "lm_conf.att_unit", 2, 65536, &a->lm_d, j->err));
    READ(steno_conf_int(y, "lm_conf.head", 1, 1024, &a->lm_heads, j->err));
    READ(steno_conf_int(y, "lm_conf.unit", 1, 1 << 20, &a->lm_ff, j->err));
    READ(steno_conf_int(y, "lm_conf.layer", 1, 256, &a->lm_blocks, j->err));
    if (st)
        return st;
    if (pos && strcmp(pos, "sinusoidal"))
        return steno_conf_unsupported(y, "lm_conf.pos_enc", pos, "null, sinusoidal", j->err);
    a->lm_positions = pos != NULL;
    if (a->lm_d % a->lm_heads || a->lm_d % 2)
        return steno_fail(j->err, STENO_ERR_FORMAT, "%s: lm_conf: %lld heads of %lld columns",
                          steno_yaml_name(y), (long long)a->lm_heads, (long long)a->lm_d);
    return STENO_OK;
}

static const char rnn_lm_keys[] =
    "unit, nhid, nlayers, dropout_rate, tie_weights, rnn_type, ignore_id";

static steno_status read_rnn_lm(struct steno_espnet_job *j)
{
    struct steno_espnet_rnn *a = &j->a.lm_rnn;
    const steno_yaml *y = j->lm;
    steno_status st = steno_conf_keys(y, "lm_conf", rnn_lm_keys, j->err);
    a->layers = 2;
    a->embed = 650;
    READ(steno_conf_int(y, "lm_conf.unit", 1, 65536, &a->embed, j->err));
    a->units = a->embed;
    READ(steno_conf_int(y, "lm_conf.nhid", 1, 65536, &a->units, j->err));
    READ(steno_conf_int(y, "lm_conf.nlayers", 1, STENO_ESPNET_RNN_LAYERS, &a->layers, j->err));
    READ(read_cell(j, y, "lm_conf.rnn_type", "lstm, gru, rnn_tanh, rnn_relu", &a->cell));
    return st;
}

steno_status steno_espnet_read_lm(struct steno_espnet_job *j)
{
    const char *kind = "seq_rnn";
    steno_status st;
    if (!j->has_lm)
        return STENO_OK;
    st = steno_conf_open(&j->lm, j->b, j->lm_conf, STENO_ESPNET_MAX_YAML, j->err);
    READ(steno_yaml_str(j->lm, "lm", &kind, j->err));
    if (st)
        return st;
    if (!strcmp(kind, "transformer") && j->a.decoder == STENO_DECODER_TRANSDUCER)
        return steno_conf_unsupported(j->lm, "lm", "transformer, with a transducer",
                                      "seq_rnn; the folder of the recognizer alone converts "
                                      "without a language model",
                                      j->err);
    if (!strcmp(kind, "transformer"))
        return read_transformer_lm(j);
    if (!strcmp(kind, "seq_rnn"))
        return read_rnn_lm(j);
    return steno_conf_unsupported(j->lm, "lm", kind, "transformer, seq_rnn", j->err);
}

/* ---- the configuration that is written ------------------------------------------------------ */

steno_status steno_espnet_add_search(const struct steno_espnet_job *j, struct steno_buf *b)
{
    const bool transducer = j->a.decoder == STENO_DECODER_TRANSDUCER;
    const double ctc = !j->a.decoder ? 1 : j->has_ctc ? 0.5 : 0;
    steno_status st = steno_buf_puts(b, "ngram:\n  use_ngram: false\nweights:\n");
    if (transducer && !j->has_lm)
        READ(steno_buf_puts(b, "  lm: 0.0\n"));
    if (!transducer)
        READ(steno_buf_printf(b, "  decoder: %g\n  ctc: %g\n  length_bonus: 0.0\n", 1 - ctc, ctc));
    if (j->has_lm)
        READ(steno_buf_puts(b, "  lm: 1.0\n"));
    READ(steno_buf_puts(b, "beam_search:\n  beam_size: 20\n"));
    if (transducer)
        READ(steno_buf_puts(b, "  search_type: default\n  search_args: {}\n  score_norm: true\n"));
    else
        READ(steno_buf_printf(b,
                              "  pre_beam_ratio: 1.5\n  pre_beam_score_key: %s\n"
                              "  maxlenratio: 0.0\n  minlenratio: 0.0\n",
                              ctc < 1 ? "full" : "null"));
    READ(steno_buf_printf(b, "transducer:\n  use_transducer_decoder: %s\n",
                          transducer ? "true" : "false"));
    return st;
}

steno_status steno_espnet_add_decoder(const struct steno_espnet_job *j, struct steno_buf *b)
{
    const struct steno_espnet_arch *a = &j->a;
    switch (a->decoder) {
    case STENO_DECODER_NONE:
        return STENO_OK;
    case STENO_DECODER_XFORMER:
        return steno_buf_printf(b,
                                "decoder:\n  dec_type: XformerDecoder\n"
                                "  model_path: full/xformer_decoder.onnx\n"
                                "  n_layers: %lld\n  odim: %lld\n",
                                (long long)a->dec_blocks, (long long)a->d);
    case STENO_DECODER_RNN:
        return steno_buf_printf(
            b,
            "decoder:\n  dec_type: RNNDecoder\n"
            "  model_path: full/rnn_decoder.onnx\n"
            "  dlayers: %lld\n  odim: %lld\n  dunits: %lld\n"
            "  decoder_length: %lld\n  rnn_type: %s\n"
            "  predecoder:\n  - model_path: '%s'\n    att_type: %s\n",
            (long long)a->dec_rnn.layers, (long long)a->vocab, (long long)a->dec_rnn.units,
            (long long)a->dec_rnn.layers, a->dec_rnn.cell == STENO_MAKE_LSTM ? "lstm" : "gru",
            a->attention.kind ? "full/predecoder_0.onnx" : "",
            /* espnet_onnx knows no location2d; the network takes the state that it begins with */
            a->attention.kind == STENO_ATTENTION_LOCATION_2D ? "location" : a->attention.name);
    case STENO_DECODER_TRANSDUCER:
        return steno_buf_printf(b,
                                "decoder:\n  dec_type: TransducerDecoder\n"
                                "  model_path: full/transducer_encoder.onnx\n"
                                "  n_layers: %lld\n  odim: %lld\n  dtype: %s\n"
                                "joint_network:\n  model_path: full/joint_network.onnx\n",
                                (long long)a->dec_rnn.layers, (long long)a->dec_rnn.units,
                                a->dec_rnn.cell == STENO_MAKE_LSTM ? "lstm" : "gru");
    }
    return STENO_OK;
}

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
