/* model_config.yaml. Interpolations are resolved before NeMo saves it. */
#include "tools/convert/conf.h"
#include "tools/convert/nemo_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KINDS                                                                                      \
    "EncDecCTCModel, EncDecCTCModelBPE, EncDecRNNTModel, EncDecRNNTBPEModel, "                     \
    "EncDecHybridRNNTCTCModel, EncDecHybridRNNTCTCBPEModel, EncDecMultiTaskModel, "                \
    "SortformerEncLabelModel"

/* ---- values -------------------------------------------------------------------------------- */

static const char *last_name(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    return dot ? dot + 1 : path;
}

/* The class that a `_target_` names has to be this one. */
static steno_status class_is(struct steno_nemo_job *j, const char *path, const char *want)
{
    const char *v = NULL;
    steno_status st = steno_yaml_str(j->y, path, &v, j->err);
    if (st)
        return st;
    if (!v)
        return steno_yaml_missing(j->y, path, j->err);
    return strcmp(last_name(v), want)
               ? steno_conf_unsupported(j->y, path, last_name(v), want, j->err)
               : STENO_OK;
}

static steno_status number_is(struct steno_nemo_job *j, const char *path, double want)
{
    double v = want;
    char known[40];
    const struct steno_yaml_node *n = steno_yaml_find(j->y, path);
    steno_status st = steno_yaml_double(j->y, path, -1e9, 1e9, &v, j->err);
    if (st || fabs(v - want) <= 1e-4 * fabs(want)) /* 2^-24 is also written as 5.96e-08 */
        return st;
    snprintf(known, sizeof known, "%g", want);
    return steno_conf_unsupported(j->y, path, n->text, known, j->err);
}

static steno_status integer(struct steno_nemo_job *j, const char *path, long min, long max,
                            int64_t *out)
{
    return steno_conf_int(j->y, path, min, max, out, j->err);
}

static steno_status wanted_number(struct steno_nemo_job *j, const char *path, long max,
                                  int64_t *out)
{
    if (steno_yaml_null(steno_yaml_find(j->y, path)))
        return steno_yaml_missing(j->y, path, j->err);
    return integer(j, path, 1, max, out);
}

static steno_status only(struct steno_nemo_job *j, const char *path, const char *want)
{
    return steno_conf_only(j->y, path, want, j->err);
}

static steno_status choice(struct steno_nemo_job *j, const char *path, const char *known,
                           const char **out)
{
    return steno_conf_choice(j->y, path, known, out, j->err);
}

/* Is the key there, and null? NeMo's default is for a key that is not there. */
static bool is_null(struct steno_nemo_job *j, const char *path)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, path);
    return n && steno_yaml_null(n);
}

/* [a, b], each at least min. */
static bool pair(const struct steno_yaml_node *n, long min, int64_t out[2])
{
    const struct steno_yaml_node *x =
        n && n->kind == STENO_YAML_LIST && n->n == 2 ? n->first : NULL;
    for (int i = 0; i < 2; i++, x = x->next) {
        char *end;
        if (!x || x->kind != STENO_YAML_SCALAR)
            return false;
        out[i] = strtol(x->text, &end, 10);
        if (end == x->text || *end || out[i] < min || out[i] > 100000)
            return false;
    }
    return true;
}

/* ---- features ------------------------------------------------------------------------------ */

static const char preprocessor_keys[] =
    "_target_, sample_rate, normalize, window_size, window_stride, n_window_size, "
    "n_window_stride, window, features, n_fft, preemph, lowfreq, highfreq, log, "
    "log_zero_guard_type, log_zero_guard_value, dither, pad_to, frame_splicing, exact_pad, "
    "pad_value, mag_power, rng, nb_augmentation_prob, nb_max_freq, mel_norm, use_torchaudio, "
    "stft_exact_pad, stft_conv";

/* The family computes one kind of features (features/logmel.h). dither and the augmentation are of
 * training alone. */
static steno_status read_features(struct steno_nemo_job *j)
{
    const char *normalize = "per_feature";
    steno_status st = steno_conf_keys(j->y, "preprocessor", preprocessor_keys, j->err);
    j->a.in = 64;
    READ(class_is(j, "preprocessor._target_", "AudioToMelSpectrogramPreprocessor"));
    READ(choice(j, "preprocessor.normalize", "per_feature|NA|None", &normalize));
    READ(integer(j, "preprocessor.features", 1, 512, &j->a.in));
    READ(number_is(j, "preprocessor.sample_rate", 16000));
    READ(number_is(j, "preprocessor.window_size", 0.025));
    READ(number_is(j, "preprocessor.window_stride", 0.01));
    READ(number_is(j, "preprocessor.n_window_size", 400));
    READ(number_is(j, "preprocessor.n_window_stride", 160));
    READ(number_is(j, "preprocessor.n_fft", 512));
    READ(number_is(j, "preprocessor.preemph", 0.97));
    READ(number_is(j, "preprocessor.lowfreq", 0));
    READ(number_is(j, "preprocessor.highfreq", 8000));
    READ(number_is(j, "preprocessor.frame_splicing", 1));
    READ(number_is(j, "preprocessor.mag_power", 2));
    READ(number_is(j, "preprocessor.log_zero_guard_value", 0x1p-24));
    READ(only(j, "preprocessor.window", "hann"));
    READ(only(j, "preprocessor.log", "true"));
    READ(only(j, "preprocessor.log_zero_guard_type", "add"));
    READ(only(j, "preprocessor.exact_pad", "false"));
    READ(only(j, "preprocessor.mel_norm", "slaney"));
    if (is_null(j, "preprocessor.normalize"))
        normalize = "NA";
    if (!st && is_null(j, "preprocessor.preemph"))
        st = steno_conf_unsupported(j->y, "preprocessor.preemph", "null", "0.97", j->err);
    j->a.normalize = strcmp(normalize, "per_feature") ? "" : "per_feature";
    return st;
}

/* ---- encoder ------------------------------------------------------------------------------- */

static const char encoder_keys[] =
    "_target_, feat_in, feat_out, n_layers, d_model, causal_downsampling, subsampling, "
    "subsampling_factor, subsampling_conv_chunking_factor, subsampling_conv_channels, reduction, "
    "reduction_position, reduction_factor, ff_expansion_factor, self_attention_model, n_heads, "
    "att_context_size, att_context_probs, att_chunk_context_size, att_context_style, xscaling, "
    "untie_biases, pos_emb_max_len, conv_kernel_size, conv_norm_type, conv_context_size, "
    "conv_context_style, conv_dual_mode, use_bias, dropout, dropout_pre_encoder, dropout_emb, "
    "dropout_att, stochastic_depth_drop_prob, stochastic_depth_mode, "
    "stochastic_depth_start_layer, global_tokens, global_tokens_spacing, global_attn_separate, "
    "use_pytorch_sdpa, use_pytorch_sdpa_backends, sync_max_audio_length";

static steno_status read_subsampling(struct steno_nemo_job *j)
{
    static const char *const names[] = {[STENO_NEMO_DW_STRIDING] = "dw_striding",
                                        [STENO_NEMO_STRIDING] = "striding",
                                        [STENO_NEMO_STACKING] = "stacking",
                                        [STENO_NEMO_STACKING_NORM] = "stacking_norm",
                                        [STENO_NEMO_VGGNET] = "vggnet",
                                        [STENO_NEMO_STRIDING_1D] = "striding_conv1d",
                                        [STENO_NEMO_DW_STRIDING_1D] = "dw_striding_conv1d"};
    struct steno_nemo_arch *a = &j->a;
    const char *kind = "striding";
    steno_status st = choice(j, "encoder.subsampling",
                             "dw_striding|striding|stacking|stacking_norm|vggnet|striding_conv1d|"
                             "dw_striding_conv1d",
                             &kind);
    a->factor = 4;
    a->channels = -1;
    READ(integer(j, "encoder.subsampling_factor", 1, 64, &a->factor));
    READ(integer(j, "encoder.subsampling_conv_channels", -1, 65536, &a->channels));
    READ(steno_yaml_bool(j->y, "encoder.causal_downsampling", &a->causal, j->err));
    if (st)
        return st;
    a->channels = a->channels < 1 ? a->d : a->channels;
    for (int i = STENO_NEMO_DW_STRIDING; i <= STENO_NEMO_DW_STRIDING_1D; i++)
        if (!strcmp(kind, names[i]))
            a->subsampling = (enum steno_nemo_subsampling)i;
    if (a->factor == 1)
        a->subsampling = STENO_NEMO_LINEAR;
    if (a->factor & (a->factor - 1))
        return steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                          "%s: encoder.subsampling_factor: %lld; known: powers of two",
                          steno_yaml_name(j->y), (long long)a->factor);
    return STENO_OK;
}

static steno_status read_convolution(struct steno_nemo_job *j)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, "encoder.conv_context_size");
    struct steno_nemo_arch *a = &j->a;
    const char *norm = "batch_norm", *style = NULL;
    int64_t context[2];
    steno_status st = choice(j, "encoder.conv_norm_type", "batch_norm|layer_norm", &norm);
    a->kernel = 31;
    READ(integer(j, "encoder.conv_kernel_size", 1, 4095, &a->kernel));
    /* dcc is of training: NeMo's encoder computes the same with both */
    READ(choice(j, "encoder.conv_context_style", "regular|dcc", &style));
    READ(only(j, "encoder.conv_dual_mode", "false"));
    if (st)
        return st;
    a->layer_norm = !strcmp(norm, "layer_norm");
    a->before = (a->kernel - 1) / 2;
    if (n && n->kind == STENO_YAML_SCALAR && !strcmp(n->text, "causal")) {
        a->before = a->kernel - 1;
    } else if (!steno_yaml_null(n)) {
        if (!pair(n, 0, context) || context[0] + context[1] + 1 != a->kernel)
            return steno_fail(j->err, STENO_ERR_FORMAT,
                              "%s: line %zu: encoder.conv_context_size is neither null, causal nor "
                              "two numbers of sum conv_kernel_size - 1",
                              steno_yaml_name(j->y), n->line);
        a->before = context[0];
    }
    return a->kernel % 2
               ? STENO_OK
               : steno_fail(j->err, STENO_ERR_FORMAT, "%s: encoder.conv_kernel_size: %lld is even",
                            steno_yaml_name(j->y), (long long)a->kernel);
}

/* The number of frames that a flag says; *given: the flag is there. */
static steno_status flag_number(struct steno_nemo_job *j, const char *name, int64_t *out,
                                bool *given)
{
    const char *v = steno_convert_flag(j->o, name);
    char *end;
    *given = v != NULL;
    if (!v)
        return STENO_OK;
    *out = strtol(v, &end, 10);
    if (!*v || *end || *out < 0 || *out > 100000)
        return steno_fail(j->err, STENO_ERR_INVAL, "--%s: '%.40s' is not a number of frames", name,
                          v);
    return STENO_OK;
}

/* What attention sees: one pair of frames before and after, or a list of pairs, of which
 * --lookahead chooses one. */
static steno_status read_context(struct steno_nemo_job *j)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, "encoder.att_context_size");
    struct steno_nemo_arch *a = &j->a;
    const bool list =
        n && n->kind == STENO_YAML_LIST && n->first && n->first->kind == STENO_YAML_LIST;
    int64_t context[2] = {-1, -1}, lookahead = 0;
    const char *style = "regular";
    char known[200] = "";
    bool chosen = false;
    steno_status st = choice(j, "encoder.att_context_style",
                             "regular|chunked_limited|chunked_limited_with_rc", &style);
    READ(flag_number(j, "lookahead", &lookahead, &chosen));
    if (st)
        return st;
    a->chunked = !strcmp(style, "chunked_limited");
    if (!strcmp(style, "chunked_limited_with_rc")) /* the limits are of training alone */
        n = NULL;
    for (const struct steno_yaml_node *x = list ? n->first : n; x && !steno_yaml_null(n);
         x = list ? x->next : NULL) {
        const size_t at = strlen(known);
        if (!pair(x, -1, context))
            return steno_fail(j->err, STENO_ERR_FORMAT,
                              "%s: line %zu: encoder.att_context_size is no pair of numbers",
                              steno_yaml_name(j->y), x->line);
        snprintf(known + at, sizeof known - at, "%s%lld", at ? ", " : "", (long long)context[1]);
        if (!chosen || context[1] == lookahead)
            goto found;
    }
    if (chosen)
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--lookahead %lld: encoder.att_context_size has %s", (long long)lookahead,
                          *known ? known : "none");
found:
    a->left = context[0];
    a->right = context[1];
    if (a->chunked && a->right >= 0 && a->left > 0 && a->left % (a->right + 1))
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: encoder.att_context_size: %lld is no multiple of chunks of %lld",
                          steno_yaml_name(j->y), (long long)a->left, (long long)a->right + 1);
    return STENO_OK;
}

/* Local attention, trained so or asked for: NeMo's change_attention_model("rel_pos_local_attn",
 * [n, n]) takes the weights of rel_pos. */
static steno_status read_local(struct steno_nemo_job *j, bool trained)
{
    const char *v = steno_convert_flag(j->o, "local-attention");
    struct steno_nemo_arch *a = &j->a;
    int64_t frames = 0;
    bool given;
    steno_status st = flag_number(j, "local-attention", &frames, &given);
    if (st || (given && !frames))
        return st ? st
                  : steno_fail(j->err, STENO_ERR_INVAL,
                               "--local-attention: '%.40s' is not a number of frames from 1 on", v);
    if (given && !a->rel)
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--local-attention: encoder.self_attention_model is abs_pos, which has "
                          "no relative positions");
    if (given)
        a->left = a->right = frames;
    a->local = trained || given;
    a->chunked = a->chunked && !a->local;
    if (a->local && (a->left < 0 || a->right < 0 || a->left + a->right < 1))
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: encoder.att_context_size: rel_pos_local_attn needs a limit on both "
                          "sides, such as [128, 128]",
                          steno_yaml_name(j->y));
    return STENO_OK;
}

/* Can the encoder go from chunk to chunk with caches? *why not. */
static const char *no_streaming(const struct steno_nemo_arch *a)
{
    if (a->local)
        return "local attention has no caches";
    if (a->left < 1 || a->right < 0)
        return "encoder.att_context_size is not limited";
    if (!a->chunked && a->right)
        return "encoder.att_context_style is not chunked_limited";
    if (a->before != a->kernel - 1 || a->kernel < 2)
        return "encoder.conv_context_size is not causal";
    if (a->subsampling != STENO_NEMO_DW_STRIDING && a->subsampling != STENO_NEMO_STRIDING)
        return "encoder.subsampling is neither dw_striding nor striding";
    if (*a->normalize)
        return "preprocessor.normalize is per_feature, which needs whole recordings";
    return NULL;
}

static steno_status read_streaming(struct steno_nemo_job *j)
{
    const char *v = steno_convert_flag(j->o, "streaming"), *why = no_streaming(&j->a);
    if (v && strcmp(v, "yes") && strcmp(v, "no"))
        return steno_fail(j->err, STENO_ERR_INVAL, "--streaming: '%.40s' is neither yes nor no", v);
    if (v && !strcmp(v, "yes") && why)
        return steno_fail(j->err, STENO_ERR_INVAL, "--streaming yes: %s", why);
    j->a.streaming = !why && (!v || !strcmp(v, "yes"));
    return STENO_OK;
}

static steno_status read_nemo_encoder(struct steno_nemo_job *j)
{
    struct steno_nemo_arch *a = &j->a;
    const char *attention = "rel_pos";
    int64_t in = a->in, expansion = 4;
    steno_status st = class_is(j, "encoder._target_", "ConformerEncoder");
    a->heads = 4;
    a->positions = 5000;
    a->xscale = a->bias = true;
    a->out = -1;
    READ(steno_conf_keys(j->y, "encoder", encoder_keys, j->err));
    READ(integer(j, "encoder.feat_in", 1, 512, &in));
    READ(integer(j, "encoder.feat_out", -1, 65536, &a->out));
    READ(wanted_number(j, "encoder.n_layers", 256, &a->layers));
    READ(wanted_number(j, "encoder.d_model", 65536, &a->d));
    READ(integer(j, "encoder.n_heads", 1, 1024, &a->heads));
    READ(integer(j, "encoder.ff_expansion_factor", 1, 64, &expansion));
    READ(integer(j, "encoder.pos_emb_max_len", 1, 100000, &a->positions));
    READ(choice(j, "encoder.self_attention_model", "rel_pos|abs_pos|rel_pos_local_attn",
                &attention));
    READ(steno_yaml_bool(j->y, "encoder.xscaling", &a->xscale, j->err));
    READ(steno_yaml_bool(j->y, "encoder.use_bias", &a->bias, j->err));
    READ(only(j, "encoder.reduction_factor", "1"));
    READ(only(j, "encoder.global_tokens", "0"));
    READ(read_subsampling(j));
    READ(read_convolution(j));
    READ(read_context(j));
    if (st)
        return st;
    a->rel = strcmp(attention, "abs_pos") != 0;
    st = read_local(j, !strcmp(attention, "rel_pos_local_attn"));
    if (st)
        return st;
    a->ff = a->d * expansion;
    a->out = a->out > 0 ? a->out : a->d;
    if (in != a->in || a->d % a->heads || a->d % 2)
        return steno_fail(
            j->err, STENO_ERR_FORMAT,
            "%s: encoder: feat_in %lld of %lld features, d_model %lld, n_heads %lld do "
            "not fit together",
            steno_yaml_name(j->y), (long long)in, (long long)a->in, (long long)a->d,
            (long long)a->heads);
    return read_streaming(j);
}

/* ---- heads --------------------------------------------------------------------------------- */

/* A transducer's durations have to be 0, 1, 2, .. frames: the search counts so. */
static steno_status check_durations(struct steno_nemo_job *j, const char *path)
{
    const struct steno_yaml_node *n = steno_yaml_find(j->y, path), *x;
    long i = 0;
    if (!n || n->kind != STENO_YAML_LIST || !n->n)
        return STENO_OK;
    for (x = n->first; x; x = x->next, i++)
        if (x->kind != STENO_YAML_SCALAR || strtol(x->text, NULL, 10) != i)
            return steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                              "%s: line %zu: %s: known: 0, 1, 2, .. in this order",
                              steno_yaml_name(j->y), x->line, path);
    if (i != j->a.durations)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: %s has %ld entries, joint.num_extra_outputs is %lld",
                          steno_yaml_name(j->y), path, i, (long long)j->a.durations);
    return STENO_OK;
}

static steno_status read_transducer(struct steno_nemo_job *j)
{
    struct steno_nemo_arch *a = &j->a;
    const char *kind = "rnnt";
    int64_t pred, out;
    steno_status st = class_is(j, "decoder._target_", "RNNTDecoder");
    READ(class_is(j, "joint._target_", "RNNTJoint"));
    READ(only(j, "decoder.normalization_mode", "null"));
    READ(only(j, "decoder.blank_as_pad", "true"));
    READ(only(j, "decoder.prednet.rnn_hidden_size", "-1"));
    READ(wanted_number(j, "decoder.prednet.pred_hidden", 65536, &a->pred));
    READ(wanted_number(j, "decoder.prednet.pred_rnn_layers", 64, &a->pred_layers));
    READ(wanted_number(j, "joint.jointnet.joint_hidden", 65536, &a->joint));
    a->joint_activation = "relu";
    READ(choice(j, "joint.jointnet.activation", "relu|sigmoid|tanh", &a->joint_activation));
    READ(integer(j, "joint.num_extra_outputs", 0, 1000, &a->durations));
    READ(choice(j, "decoding.model_type", "rnnt|tdt", &kind));
    pred = a->pred;
    out = a->out;
    READ(integer(j, "joint.jointnet.pred_hidden", 1, 65536, &pred));
    READ(integer(j, "joint.jointnet.encoder_hidden", 1, 65536, &out));
    if (!st && (pred != a->pred || out != a->out))
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: joint.jointnet: pred_hidden %lld, encoder_hidden %lld; the networks "
                        "before it have %lld and %lld",
                        steno_yaml_name(j->y), (long long)pred, (long long)out, (long long)a->pred,
                        (long long)a->out);
    if (a->durations) {
        READ(check_durations(j, "model_defaults.tdt_durations"));
        READ(check_durations(j, "decoding.durations"));
    }
    return st;
}

static steno_status read_ctc(struct steno_nemo_job *j, const char *section)
{
    char path[64];
    snprintf(path, sizeof path, "%s._target_", section);
    return class_is(j, path, "ConvASRDecoder");
}

/* The flag --decoder ctc|transducer, for a model that has both. */
static steno_status choose_head(struct steno_nemo_job *j, bool hybrid, bool *ctc)
{
    const char *v = steno_convert_flag(j->o, "decoder");
    if (!v)
        return STENO_OK;
    if (strcmp(v, "ctc") && strcmp(v, "transducer"))
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--decoder: '%.40s' is neither ctc nor transducer", v);
    if (!hybrid && *ctc != !strcmp(v, "ctc"))
        return steno_fail(j->err, STENO_ERR_INVAL, "--decoder %s: the model has a %s alone", v,
                          *ctc ? "CTC decoder" : "transducer");
    *ctc = !strcmp(v, "ctc");
    return STENO_OK;
}

static const char aed_keys[] =
    "max_sequence_length, num_token_types, embedding_dropout, learn_positional_encodings, "
    "hidden_size, inner_size, num_layers, num_attention_heads, ffn_dropout, attn_score_dropout, "
    "attn_layer_dropout, hidden_act, pre_ln, vocab_size";
#define AED "transf_decoder.config_dict"

static steno_status read_aed_decoder(struct steno_nemo_job *j)
{
    struct steno_nemo_aed *t = &j->a.aed;
    steno_status st = class_is(j, "transf_decoder._target_", "get_nemo_transformer");
    t->positions = 512;
    t->final = true;
    t->heads = 1;
    t->activation = "relu";
    READ(steno_conf_keys(j->y, AED, aed_keys, j->err));
    READ(wanted_number(j, AED ".num_layers", STENO_NEMO_MEMORIES - 2, &t->layers));
    READ(wanted_number(j, AED ".hidden_size", 65536, &t->d));
    READ(wanted_number(j, AED ".inner_size", 1 << 20, &t->ff));
    READ(integer(j, AED ".num_attention_heads", 1, 1024, &t->heads));
    READ(integer(j, AED ".max_sequence_length", 1, 1 << 20, &t->positions));
    READ(steno_yaml_bool(j->y, AED ".learn_positional_encodings", &t->learnt, j->err));
    READ(steno_yaml_bool(j->y, AED ".pre_ln", &t->before, j->err));
    READ(steno_yaml_bool(j->y, "transf_decoder.pre_ln_final_layer_norm", &t->final, j->err));
    READ(choice(j, AED ".hidden_act", "relu|gelu", &t->activation));
    if (!st && (t->d % t->heads || t->d % 2))
        st = steno_fail(j->err, STENO_ERR_FORMAT, "%s: " AED ": %lld heads of %lld columns",
                        steno_yaml_name(j->y), (long long)t->heads, (long long)t->d);
    return st;
}

/* Canary. The prompts of the family are those of its second form. */
static steno_status read_multitask(struct steno_nemo_job *j, const char *target)
{
    int64_t enc = j->a.out, dec;
    const char *form = NULL;
    steno_status st = STENO_OK;
    if (steno_convert_flag(j->o, "decoder") ||
        (j->a.streaming && steno_convert_flag(j->o, "streaming")))
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--decoder and --streaming: a multitask model has an attention decoder "
                          "alone, for whole utterances");
    j->a.streaming = false;
    j->a.model_type = target;
    READ(choice(j, "prompt_format", "canary2", &form));
    READ(only(j, "transf_encoder.num_layers", "0"));
    READ(read_aed_decoder(j));
    READ(class_is(j, "head._target_", "TokenClassifier"));
    READ(only(j, "head.num_layers", "1"));
    dec = j->a.aed.d;
    READ(integer(j, "model_defaults.asr_enc_hidden", 1, 65536, &enc));
    READ(integer(j, "model_defaults.lm_dec_hidden", 1, 65536, &dec));
    if (!st && (enc != j->a.out || dec != j->a.aed.d))
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: model_defaults: asr_enc_hidden %lld, lm_dec_hidden %lld; the networks "
                        "have %lld and %lld",
                        steno_yaml_name(j->y), (long long)enc, (long long)dec, (long long)j->a.out,
                        (long long)j->a.aed.d);
    return st;
}

#define MODULES "sortformer_modules"
#define LAYERS "transformer_encoder"

/* The rules of the speaker cache, which engine/speech/speakers/arrival.c has as constants. */
static steno_status read_speaker_cache(struct steno_nemo_job *j)
{
    struct steno_nemo_sortformer *t = &j->a.sortformer;
    steno_status st = STENO_OK;
    t->cache = 188;
    t->rests = 3;
    READ(integer(j, MODULES ".spkcache_len", 1, 10000, &t->cache));
    READ(integer(j, MODULES ".spkcache_sil_frames_per_spk", 0, 1000, &t->rests));
    READ(number_is(j, MODULES ".pred_score_threshold", 0.25));
    READ(number_is(j, MODULES ".scores_boost_latest", 0.05));
    READ(number_is(j, MODULES ".sil_threshold", 0.2));
    READ(number_is(j, MODULES ".strong_boost_rate", 0.75));
    READ(number_is(j, MODULES ".weak_boost_rate", 1.5));
    READ(number_is(j, MODULES ".min_pos_scores_rate", 0.5));
    return st;
}

/* A Sortformer. Only those that were trained for streaming have features without normalization of
 * the samples. */
static steno_status read_sortformer(struct steno_nemo_job *j, const char *target)
{
    struct steno_nemo_sortformer *t = &j->a.sortformer;
    int64_t d = j->a.d, hidden = -1, factor = 8;
    bool streaming = false;
    steno_status st = STENO_OK;
    if (steno_convert_flag(j->o, "decoder") || steno_convert_flag(j->o, "streaming"))
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--decoder and --streaming: a Sortformer has neither");
    j->a.streaming = false;
    j->a.model_type = target;
    t->activation = "relu";
    t->speakers = 4;
    READ(steno_yaml_bool(j->y, "streaming_mode", &streaming, j->err));
    if (!st && !streaming)
        st = steno_conf_unsupported(j->y, "streaming_mode", "false", "true", j->err);
    READ(only(j, "preprocessor.normalize", "NA"));
    READ(class_is(j, LAYERS "._target_", "TransformerEncoder"));
    READ(wanted_number(j, LAYERS ".num_layers", 256, &t->layers));
    READ(wanted_number(j, LAYERS ".hidden_size", 65536, &t->d));
    READ(wanted_number(j, LAYERS ".inner_size", 1 << 20, &t->ff));
    READ(wanted_number(j, LAYERS ".num_attention_heads", 1024, &t->heads));
    READ(choice(j, LAYERS ".hidden_act", "relu|gelu", &t->activation));
    READ(only(j, LAYERS ".pre_ln", "false"));
    READ(class_is(j, MODULES "._target_", "SortformerModules"));
    READ(integer(j, MODULES ".num_spks", 1, 8, &t->speakers));
    READ(integer(j, MODULES ".fc_d_model", 1, 65536, &d));
    hidden = t->d;
    READ(integer(j, MODULES ".tf_d_model", 1, 65536, &hidden));
    READ(integer(j, MODULES ".subsampling_factor", 1, 64, &factor));
    READ(read_speaker_cache(j));
    if (!st && (d != j->a.d || j->a.out != d || hidden != t->d || t->d % t->heads ||
                factor != j->a.factor || factor != 8))
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: " MODULES ": fc_d_model %lld of %lld, tf_d_model %lld of %lld, %lld "
                        "heads, subsampling_factor %lld of %lld (8) do not fit together",
                        steno_yaml_name(j->y), (long long)d, (long long)j->a.d, (long long)hidden,
                        (long long)t->d, (long long)t->heads, (long long)factor,
                        (long long)j->a.factor);
    return st;
}

static steno_status read_output_heads(struct steno_nemo_job *j)
{
    const char *target = NULL;
    bool hybrid, ctc;
    steno_status st = steno_yaml_str(j->y, "target", &target, j->err);
    if (!st && !target)
        st = steno_yaml_missing(j->y, "target", j->err);
    if (st)
        return st;
    target = last_name(target);
    hybrid = !strcmp(target, "EncDecHybridRNNTCTCModel") ||
             !strcmp(target, "EncDecHybridRNNTCTCBPEModel");
    if (!strcmp(target, "EncDecMultiTaskModel"))
        return read_multitask(j, target);
    if (!strcmp(target, "SortformerEncLabelModel"))
        return read_sortformer(j, target);
    ctc = !strcmp(target, "EncDecCTCModel") || !strcmp(target, "EncDecCTCModelBPE");
    if (!hybrid && !ctc && strcmp(target, "EncDecRNNTModel") &&
        strcmp(target, "EncDecRNNTBPEModel"))
        return steno_conf_unsupported(j->y, "target", target, KINDS, j->err);
    st = choose_head(j, hybrid, &ctc);
    if (st)
        return st;
    j->a.model_type = target;
    if (!ctc)
        return read_transducer(j);
    if (hybrid) /* the only name of the two that sherpa-onnx knows for CTC */
        j->a.model_type = "EncDecHybridRNNTCTCBPEModel";
    j->ctc = hybrid ? "ctc_decoder." : "decoder.";
    return read_ctc(j, hybrid ? "aux_ctc.decoder" : "decoder");
}

/* ---- all ----------------------------------------------------------------------------------- */

/* The name of the file. sherpa-onnx takes a transducer for one with durations by "tdt" in it. */
static void name_model(struct steno_nemo_job *j)
{
    const char *slash = strrchr(j->b->path, '/'), *name = slash ? slash + 1 : j->b->path;
    const char *end = strstr(name, ".nemo"), *tdt = strstr(name, "tdt");
    const int n = (int)(end ? (size_t)(end - name) : strnlen(name, sizeof j->a.url));
    if (j->a.durations || !tdt || j->ctc)
        snprintf(j->a.url, sizeof j->a.url, "%.*s%s", n < 200 ? n : 200, name,
                 j->a.durations && !tdt ? "-tdt" : "");
}

steno_status steno_nemo_read_conf(struct steno_nemo_job *j)
{
    steno_status st = read_features(j);
    READ(read_nemo_encoder(j));
    READ(read_output_heads(j));
    if (!st)
        name_model(j);
    return st;
}
