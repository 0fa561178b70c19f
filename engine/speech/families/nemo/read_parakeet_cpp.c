/* GGUF of Parakeet as parakeet.cpp's converter writes it (mudler/parakeet.cpp,
 * scripts/convert_parakeet_to_gguf.py): NeMo's names as they are, keys parakeet.*. Whole segments,
 * or an encoder with caches (Parakeet EOU, Nemotron streaming). */
#include "speech/families/nemo/file_internal.h"

#include <string.h>

#define KEY "parakeet."
#define PIECES KEY "tokenizer.pieces"
#define KINDS "tdt hybrid_tdt_ctc rnnt hybrid_rnnt_ctc ctc"
#define STYLES "regular chunked_limited chunked_limited_with_rc"
#define NORMS "batch_norm layer_norm"
#define ACTIVATIONS "relu sigmoid tanh"
#define SCALES "per_feature NA None"
#define AUTOMATIC 101 /* the prompt of a dictionary without "auto" */
#define DROPPED 2     /* encoder frames of the feature frames before a chunk */

static const struct steno_ggml_rename of_model[] = {{"encoder.", "encoder."},
                                                    {"decoder.", "decoder."},
                                                    {"joint.", "joint."},
                                                    {"prompt_kernel.", "prompt_kernel."}};
static const struct steno_ggml_names verbatim = {.begins = of_model, .n_begins = 4};

bool steno_nemo_is_parakeet_cpp(const steno_nemo_file *f)
{
    return steno_gguf_text(f->base.gguf, KEY "arch") != NULL;
}

static steno_status read_features(steno_nemo_file *f, steno_err *err)
{
    int64_t fixed;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "preprocessor.sample_rate", 16000, 16000, &fixed, 0},
        {KEY "preprocessor.n_fft", 512, 512, &fixed, 0},
        {KEY "preprocessor.win_length", 400, 400, &fixed, 0},
        {KEY "preprocessor.hop_length", 160, 160, &fixed, 0},
        {KEY "preprocessor.n_mels", 1, 512, &f->info.arch.in, 0}};
    const char *normalize;
    double v;
    steno_status st =
        steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st && (!steno_gguf_number(f->base.gguf, KEY "preprocessor.preemph", &v) || v < 0.96999 ||
                v > 0.97001))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: key '" KEY "preprocessor.preemph' is not 0.97", f->base.name);
    if (!st)
        st = steno_ggml_file_word(&f->base, KEY "preprocessor.normalize", SCALES, NULL, &normalize,
                                  err);
    f->info.per_feature = !st && strcmp(normalize, "per_feature") == 0;
    return st;
}

static steno_status read_chunks(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    struct steno_gguf_list l = {0};
    int64_t v, causal, drop;
    size_t n = 0;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "encoder.att_context_left", 1, 65536, &f->context[0][0], 0},
        {KEY "encoder.att_context_right", 0, 2048, &f->context[0][1], -1},
        {KEY "encoder.causal_downsampling", 1, 1, &causal, 0},
        {KEY "encoder.conv_causal", 1, 1, &causal, 0},
        {KEY "streaming.drop_extra_pre_encoded", DROPPED, DROPPED, &drop, 0}};
    steno_status st =
        steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st && f->info.per_feature)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: an encoder that streams and needs whole recordings for per_feature",
                        f->base.name);
    if (st)
        return st;
    if (steno_gguf_list(f->base.gguf, KEY "encoder.att_context_presets", &l))
        for (; n < 2 * STENO_NEMO_MAX_CONTEXTS && steno_gguf_next_int(&l, &v); n++)
            f->context[n / 2][n % 2] = v;
    f->n_contexts = l.left || n % 2 ? 0 : n ? n / 2 : 1;
    a->before = a->kernel - 1;
    a->causal = a->chunked = a->streaming = true;
    return steno_nemo_gguf_contexts(f, err);
}

static steno_status read_layers(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t scale = 0;
    const char *style, *norm;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "encoder.d_model", 2, 65536, &a->d, 1},
        {KEY "encoder.n_layers", 1, 256, &a->layers, 0},
        {KEY "encoder.n_heads", 1, 1024, &a->heads, 0},
        {KEY "encoder.ff_dim", 1, 1 << 20, &a->ff, 0},
        {KEY "encoder.conv_kernel", 2, 1024, &a->kernel, 0},
        {KEY "encoder.subsampling_factor", 2, 64, &a->factor, 1},
        {KEY "encoder.subsampling_conv_channels", 1, 65536, &a->channels, 0},
        {KEY "encoder.pos_emb_max_len", 1, 100000, &a->positions, 5000},
        {KEY "encoder.xscaling", 0, 1, &scale, -1}};
    steno_status st =
        steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, KEY "encoder.conv_norm_type", NORMS, NULL, &norm, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, KEY "encoder.att_context_style", STYLES, "regular",
                                  &style, err);
    if (st)
        return st;
    a->xscale = scale != 0;
    a->out = a->d;
    a->left = a->right = -1;
    a->before = (a->kernel - 1) / 2;
    a->layer_norm = strcmp(norm, "layer_norm") == 0;
    return strcmp(style, "chunked_limited") == 0 ? read_chunks(f, err) : STENO_OK;
}

static steno_status read_head(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    struct steno_gguf_list l;
    const char *kind;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "decoder.pred_hidden", 1, 65536, &a->pred, 0},
        {KEY "decoder.pred_rnn_layers", 1, 64, &a->pred_layers, 0},
        {KEY "joint.joint_hidden", 1, 65536, &a->joint, 0},
        {KEY "decoding.max_symbols", 0, 1000, &f->info.max_tokens, 0}};
    steno_status st = steno_ggml_file_word(&f->base, KEY "arch", KINDS, NULL, &kind, err);
    if (st)
        return st;
    f->info.ctc = strcmp(kind, "ctc") == 0;
    a->model_type = f->info.ctc ? "EncDecCTCModelBPE" : "EncDecRNNTBPEModel";
    if (f->info.ctc)
        return STENO_OK;
    st = steno_ggml_file_numbers(&f->base, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, KEY "joint.activation", ACTIVATIONS, NULL,
                                  &a->joint_activation, err);
    if (st || !strstr(kind, "tdt"))
        return st;
    a->durations = steno_gguf_list(f->base.gguf, KEY "tdt.durations", &l) && l.left <= 1000
                       ? (int64_t)l.left
                       : 0;
    return steno_nemo_gguf_durations(f, KEY "tdt.durations", err);
}

/* The language that the encoder is told; the first layer says how wide it is. */
static steno_status read_prompts(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t present;
    const struct steno_ggml_wanted numbers[] = {
        {KEY "prompt.num_prompts", 1, 4096, &a->prompts, 0}};
    if (!steno_gguf_int(f->base.gguf, KEY "prompt.present", 1, 1, &present))
        return STENO_OK;
    if (!a->streaming)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: an encoder with prompts that does not stream, which is not known",
                          f->base.name);
    a->prompt_hidden = steno_ggml_file_extent(&f->base, "prompt_kernel.0.weight", 0);
    f->info.automatic = AUTOMATIC;
    if (steno_ggml_file_numbers(&f->base, numbers, 1, err))
        return STENO_ERR_FORMAT;
    if (a->prompt_hidden < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor 'prompt_kernel.0.weight' is missing",
                          f->base.name);
    return steno_nemo_gguf_dictionary(f, KEY "prompt.dictionary.keys",
                                      KEY "prompt.dictionary.values", err);
}

steno_status steno_nemo_read_parakeet_cpp(steno_nemo_file *f, steno_err *err)
{
    steno_status st = read_features(f, err);
    if (!st)
        st = read_layers(f, err);
    if (!st)
        st = read_head(f, err);
    if (!st)
        st = steno_nemo_gguf_pieces(f, PIECES, KEY "blank_id", err);
    if (!st)
        st = steno_ggml_file_tensors(&f->base, &verbatim, err);
    return st ? st : read_prompts(f, err);
}
