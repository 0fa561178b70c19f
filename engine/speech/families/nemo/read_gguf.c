/* GGUF of Parakeet as transcribe.cpp writes it: keys stt.parakeet.*, and names of its own. */
#include "base/list.h"
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <string.h>

#define KEY "stt.parakeet."
#define FRONT "stt.frontend."
#define ACTIVATIONS "relu sigmoid tanh"
#define PROMPTS KEY "prompt.dictionary."
#define DROPPED 2 /* encoder frames of the feature frames before a chunk */
#define LSTM "decoder.prediction.dec_rnn.lstm."
#define CUT 1e-6 /* f32 of 0.97 is not its f64 */

/* ---- names --------------------------------------------------------------------------------- */

static const struct steno_ggml_rename of_model[] = {{"enc.pre_encode.", "encoder.pre_encode."},
                                                    {"pred.embed.", "decoder.prediction.embed."},
                                                    {"joint.enc.", "joint.enc."},
                                                    {"joint.pred.", "joint.pred."},
                                                    {"joint.out.", "joint.joint_net.2."},
                                                    {"head.ctc.", "decoder.decoder_layers.0."},
                                                    {"prompt.mlp.", "prompt_kernel."},
                                                    {"pred.lstm.#.Wx", LSTM "weight_ih_l#"},
                                                    {"pred.lstm.#.Wh", LSTM "weight_hh_l#"},
                                                    {"pred.lstm.#.bias", LSTM "bias_ih_l#"},
                                                    {"enc.blocks.#.", "encoder.layers.#."}};
static const struct steno_ggml_rename of_layer[] = {{"norm_ff1.", "norm_feed_forward1."},
                                                    {"ff1.", "feed_forward1."},
                                                    {"norm_attn.", "norm_self_att."},
                                                    {"attn.", "self_attn."},
                                                    {"norm_conv.", "norm_conv."},
                                                    {"conv.pointwise1.", "conv.pointwise_conv1."},
                                                    {"conv.depthwise.", "conv.depthwise_conv."},
                                                    {"conv.pointwise2.", "conv.pointwise_conv2."},
                                                    {"conv.bn.", "conv.batch_norm."},
                                                    {"conv.ln.", "conv.batch_norm."},
                                                    {"norm_ff2.", "norm_feed_forward2."},
                                                    {"ff2.", "feed_forward2."},
                                                    {"norm_out.", "norm_out."}};
#define TABLE(t) t, sizeof(t) / sizeof *(t)
const struct steno_ggml_names steno_nemo_transcribe_names = {TABLE(of_model), TABLE(of_layer)};

/* ---- keys ---------------------------------------------------------------------------------- */

static steno_status unsupported(const steno_nemo_file *f, const char *key, const char *known,
                                steno_err *err)
{
    const char *text = steno_gguf_text(f->base.gguf, key);
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: key '%s' is '%.40s', known: %s",
                      f->base.name, key, text ? text : "missing or another number", known);
}

/* A text, where it is there, is the one that is known. */
static bool is_text(const steno_nemo_file *f, const char *key, const char *known)
{
    const char *text = steno_gguf_text(f->base.gguf, key);
    return !text || strcmp(text, known) == 0;
}

/* Features as NeMo computes them, but for their number and normalisation. */
steno_status steno_nemo_transcribe_features(steno_nemo_file *f, steno_err *err)
{
    const struct steno_ggml_wanted bins = {FRONT "num_mels", 1, 512, &f->info.arch.in, 0};
    static const struct {
        const char *key, *known;
        double value;
    } fixed[] = {{FRONT "sample_rate", "16000", 16000}, {FRONT "n_fft", "512", 512},
                 {FRONT "win_length", "400", 400},      {FRONT "hop_length", "160", 160},
                 {FRONT "pre_emphasis", "0.97", 0.97},  {FRONT "f_min", "0", 0},
                 {FRONT "f_max", "8000", 8000}};
    const char *normalize = steno_gguf_text(f->base.gguf, FRONT "normalize");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        double v;
        if (!steno_gguf_number(f->base.gguf, fixed[i].key, &v) || v < fixed[i].value - CUT ||
            v > fixed[i].value + CUT)
            return unsupported(f, fixed[i].key, fixed[i].known, err);
    }
    if (!is_text(f, FRONT "window", "hann"))
        return unsupported(f, FRONT "window", "hann", err);
    f->info.per_feature = !normalize || strcmp(normalize, "per_feature") == 0;
    if (!f->info.per_feature && strcmp(normalize, "none") != 0 && strcmp(normalize, "NA") != 0)
        return unsupported(f, FRONT "normalize", "per_feature, none, NA", err);
    return steno_ggml_file_numbers(&f->base, &bins, 1, err);
}

/* Without a list of chunks the one of the keys. */
static steno_status read_contexts(steno_nemo_file *f, steno_err *err)
{
    struct steno_gguf_list l = {0};
    int64_t v;
    size_t n = 0;
    f->context[0][0] = f->info.arch.left;
    f->context[0][1] = f->info.arch.right;
    if (steno_gguf_list(f->base.gguf, KEY "encoder.att_context_size_choices", &l))
        for (; n < 2 * STENO_NEMO_MAX_CONTEXTS && steno_gguf_next_int(&l, &v); n++)
            f->context[n / 2][n % 2] = v;
    f->n_contexts = l.left || n % 2 ? 0 : n ? n / 2 : 1;
    return steno_nemo_gguf_contexts(f, err);
}

/* An encoder with caches: chunks that see no later frames. */
static steno_status read_streaming(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t drop, before;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "encoder.streaming.drop_extra_pre_encoded", 0, 1024, &drop, DROPPED},
        {KEY "encoder.streaming.pre_encode_cache_size", 0, 1024, &before, a->factor + 1}};
    steno_status st =
        steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st && (drop != DROPPED || before != a->factor + 1 || a->before != a->kernel - 1 ||
                a->kernel < 2 || f->info.per_feature))
        st =
            steno_fail(err, STENO_ERR_UNSUPPORTED,
                       "%s: a Parakeet that streams; known: causal convolutions (conv_context_left "
                       "%lld, here %lld), no normalisation, %lld frames before a chunk of which "
                       "%d encoder frames are dropped (here %lld, %lld)",
                       f->base.name, (long long)a->kernel - 1, (long long)a->before,
                       (long long)a->factor + 1, DROPPED, (long long)before, (long long)drop);
    a->causal = a->chunked = a->streaming = true;
    return st ? st : read_contexts(f, err);
}

/* Parakeet unified was trained with chunks of several sizes and sees all of a segment, too. */
static steno_status check_kind(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    const char *style = steno_gguf_text(f->base.gguf, KEY "encoder.att_context_style");
    const char *norm = steno_gguf_text(f->base.gguf, KEY "encoder.conv_norm_type");
    if (steno_gguf_text(f->base.gguf, KEY "encoder.spk_kernel_type"))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: a Parakeet for one of several speakers, which has to be told when "
                          "each of them speaks; it is not served",
                          f->base.name);
    a->layer_norm = norm && strcmp(norm, "layer_norm") == 0;
    if (norm && !a->layer_norm && strcmp(norm, "batch_norm") != 0)
        return unsupported(f, KEY "encoder.conv_norm_type", "batch_norm, layer_norm", err);
    if (style && strcmp(style, "chunked_limited") == 0)
        return read_streaming(f, err);
    if (style && strcmp(style, "regular") != 0 && strcmp(style, "chunked_limited_with_rc") != 0)
        return unsupported(f, KEY "encoder.att_context_style",
                           "regular, chunked_limited, chunked_limited_with_rc", err);
    if (a->before * 2 != a->kernel - 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: conv_context_left is %lld, known: %lld, half of conv_kernel, where "
                          "the encoder does not stream",
                          f->base.name, (long long)a->before, (long long)(a->kernel - 1) / 2);
    return STENO_OK;
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Nemotron 3.5: the encoder is told a language. */
static steno_status read_prompts(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    double any;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "prompt.num_prompts", 1, 4096, &a->prompts, 0},
        {KEY "prompt.hidden", 1, 1 << 20, &a->prompt_hidden, 0},
        {KEY "prompt.auto_id", 0, 4095, &f->info.automatic, -1}};
    steno_status st;
    if (!steno_gguf_number(f->base.gguf, KEY "prompt.num_prompts", &any))
        return STENO_OK;
    st = steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st && !is_text(f, KEY "prompt.activation", "relu"))
        st = unsupported(f, KEY "prompt.activation", "relu", err);
    if (!st && !a->streaming)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: an encoder with prompts that does not stream, which is not known",
                        f->base.name);
    return st ? st : steno_nemo_gguf_dictionary(f, PROMPTS "locales", PROMPTS "indices", err);
}

static steno_status read_encoder(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t scale = 0;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "encoder.n_layers", 1, 256, &a->layers, 0},
        {KEY "encoder.d_model", 2, 65536, &a->d, 1},
        {KEY "encoder.n_heads", 1, 1024, &a->heads, 0},
        {KEY "encoder.d_ff", 1, 1 << 20, &a->ff, 0},
        {KEY "encoder.conv_kernel", 1, 1024, &a->kernel, 0},
        {KEY "encoder.subsampling_factor", 2, 64, &a->factor, 1},
        {KEY "encoder.subsampling_channels", 1, 65536, &a->channels, 0},
        {KEY "encoder.pos_emb_max_len", 1, 100000, &a->positions, 5000},
        {KEY "encoder.att_context_left", -1, 100000, &a->left, -1},
        {KEY "encoder.att_context_right", -1, 100000, &a->right, -1},
        {KEY "encoder.xscaling", 0, 1, &scale, 0}};
    steno_status st =
        steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    const struct steno_ggml_wanted context[] = {
        {KEY "encoder.conv_context_left", 0, 1024, &a->before, (a->kernel - 1) / 2}};
    if (!st)
        st = steno_ggml_file_numbers(&f->base, context, 1, err);
    a->xscale = scale != 0;
    a->out = a->d;
    return st ? st : check_kind(f, err);
}

static steno_status read_head(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    const char *kind = steno_gguf_text(f->base.gguf, KEY "head_kind");
    const bool tdt = !kind || strcmp(kind, "tdt") == 0;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "predictor.hidden", 1, 65536, &a->pred, 0},
        {KEY "predictor.n_layers", 1, 64, &a->pred_layers, 0},
        {KEY "joint.hidden", 1, 65536, &a->joint, 0},
        {KEY "joint.num_extra_outputs", 0, 1000, &a->durations, tdt ? -1 : 0},
        {KEY "tdt.max_symbols", 0, 1000, &f->info.max_tokens, 0}};
    steno_status st;
    a->model_type = "EncDecRNNTBPEModel";
    f->info.ctc = kind && strcmp(kind, "ctc") == 0;
    if (f->info.ctc) {
        a->model_type = "EncDecCTCModelBPE";
        return STENO_OK;
    }
    if (!tdt && strcmp(kind, "rnnt") != 0)
        return unsupported(f, KEY "head_kind", "tdt, rnnt, ctc", err);
    st = steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    a->joint_activation = steno_gguf_text(f->base.gguf, KEY "joint.activation");
    if (!st && (!a->joint_activation || !steno_list_holds(ACTIVATIONS, a->joint_activation)))
        st = unsupported(f, KEY "joint.activation", ACTIVATIONS, err);
    return st || !tdt ? st : steno_nemo_gguf_durations(f, KEY "tdt.durations", err);
}

steno_status steno_nemo_read_gguf(steno_nemo_file *f, steno_err *err)
{
    steno_status st;
    f->info.format = "GGUF";
    if (steno_nemo_is_canary(f))
        return steno_nemo_read_canary(f, err);
    if (steno_nemo_is_gigaam(f))
        return steno_nemo_read_gigaam(f, err);
    if (steno_nemo_is_parakeet_cpp(f))
        return steno_nemo_read_parakeet_cpp(f, err);
    if (steno_nemo_is_crispasr(f))
        return steno_nemo_read_crispasr(f, err);
    f->one_bias = true;
    if (!steno_gguf_text(f->base.gguf, "general.architecture") ||
        !is_text(f, "general.architecture", "parakeet"))
        return unsupported(f, "general.architecture", "parakeet", err);
    st = steno_nemo_transcribe_features(f, err);
    if (!st)
        st = read_encoder(f, err);
    if (!st)
        st = read_prompts(f, err);
    if (!st)
        st = read_head(f, err);
    if (!st)
        st = steno_nemo_gguf_all_pieces(f, err);
    steno_ggml_file_languages(&f->base, f->languages, sizeof f->languages);
    return st ? st : steno_ggml_file_tensors(&f->base, &steno_nemo_transcribe_names, err);
}
