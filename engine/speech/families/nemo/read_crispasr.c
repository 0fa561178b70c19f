/* GGUF of Parakeet and of Nemotron streaming as CrispASR's converters write it
 * (models/convert-parakeet-to-gguf.py and convert-nemotron-to-gguf.py of CrispASR): keys parakeet.*
 * or nemotron.*, and NeMo's names with some parts shortened. Features are those of the training,
 * and the joint network has ReLU: they do not say so. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <string.h>

#define PARAKEET "parakeet."
#define NEMOTRON "nemotron."
#define AUTOMATIC 101 /* the prompt of a dictionary without "auto" */
#define MOST 24       /* numbers of a table */
#define TOKENS "tokenizer.ggml.tokens"
#define LSTM "decoder.prediction.dec_rnn.lstm."

static const struct steno_ggml_rename of_model[] = {{"encoder.pre.", "encoder.pre_encode."},
                                                    {"decoder.embed.", "decoder.prediction.embed."},
                                                    {"head.ctc.", "decoder.decoder_layers.0."},
                                                    {"joint.enc.", "joint.enc."},
                                                    {"joint.pred.", "joint.pred."},
                                                    {"joint.out.", "joint.joint_net.2."},
                                                    {"prompt_kernel.", "prompt_kernel."},
                                                    {"decoder.lstm.#.w_ih", LSTM "weight_ih_l#"},
                                                    {"decoder.lstm.#.w_hh", LSTM "weight_hh_l#"},
                                                    {"decoder.lstm.#.b_ih", LSTM "bias_ih_l#"},
                                                    {"decoder.lstm.#.b_hh", LSTM "bias_hh_l#"},
                                                    {"encoder.layers.#.", "encoder.layers.#."}};
static const struct steno_ggml_rename of_layer[] = {{"norm_ff1.", "norm_feed_forward1."},
                                                    {"ff1.", "feed_forward1."},
                                                    {"norm_attn.", "norm_self_att."},
                                                    {"attn.q.", "self_attn.linear_q."},
                                                    {"attn.k.", "self_attn.linear_k."},
                                                    {"attn.v.", "self_attn.linear_v."},
                                                    {"attn.out.", "self_attn.linear_out."},
                                                    {"attn.pos.", "self_attn.linear_pos."},
                                                    {"attn.pos_bias_", "self_attn.pos_bias_"},
                                                    {"norm_conv.", "norm_conv."},
                                                    {"conv.pw1.", "conv.pointwise_conv1."},
                                                    {"conv.dw.", "conv.depthwise_conv."},
                                                    {"conv.pw2.", "conv.pointwise_conv2."},
                                                    {"conv.bn.", "conv.batch_norm."},
                                                    {"conv.ln.", "conv.batch_norm."},
                                                    {"norm_ff2.", "norm_feed_forward2."},
                                                    {"ff2.", "feed_forward2."},
                                                    {"norm_out.", "norm_out."}};
#define TABLE(t) t, sizeof(t) / sizeof *(t)
const struct steno_ggml_names steno_nemo_crispasr_names = {TABLE(of_model), TABLE(of_layer)};

static bool is_nemotron(const steno_nemo_file *f)
{
    return steno_ggml_file_has_number(&f->base, NEMOTRON "d_model");
}

bool steno_nemo_is_crispasr(const steno_nemo_file *f)
{
    return steno_ggml_file_has_number(&f->base, PARAKEET "d_model") || is_nemotron(f);
}

/* Keys behind a prefix. */
static steno_status read_numbers_of(const steno_nemo_file *f, const char *prefix,
                                    const struct steno_ggml_wanted *w, size_t n, steno_err *err)
{
    struct steno_ggml_wanted full[MOST];
    char keys[MOST][48];
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof *keys, "%s%s", prefix, w[i].key);
        full[i] = w[i];
        full[i].key = keys[i];
    }
    return steno_ggml_file_numbers(&f->base, full, n, err);
}

static const char *prefix_of(const steno_nemo_file *f)
{
    return is_nemotron(f) ? NEMOTRON : PARAKEET;
}

steno_status steno_nemo_crispasr_features(steno_nemo_file *f, const char *prefix, steno_err *err)
{
    int64_t fixed;
    const struct steno_ggml_wanted numbers[] = {{"sample_rate", 16000, 16000, &fixed, 0},
                                                {"n_fft", 512, 512, &fixed, 0},
                                                {"win_length", 400, 400, &fixed, 0},
                                                {"hop_length", 160, 160, &fixed, 0},
                                                {"n_mels", 1, 512, &f->info.arch.in, 0}};
    f->info.per_feature = true;
    return read_numbers_of(f, prefix, numbers, sizeof numbers / sizeof *numbers, err);
}

static steno_status read_sizes(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t scale = 0;
    const struct steno_ggml_wanted numbers[] = {{"d_model", 2, 65536, &a->d, 1},
                                                {"n_layers", 1, 256, &a->layers, 0},
                                                {"n_heads", 1, 1024, &a->heads, 0},
                                                {"ff_dim", 1, 1 << 20, &a->ff, 0},
                                                {"conv_kernel", 2, 1024, &a->kernel, 0},
                                                {"subsampling_factor", 2, 64, &a->factor, 1},
                                                {"subsampling_channels", 1, 65536, &a->channels, 0},
                                                {"xscaling", 0, 1, &scale, -1},
                                                {"pred_hidden", 1, 65536, &a->pred, 0},
                                                {"pred_layers", 1, 64, &a->pred_layers, 0},
                                                {"joint_hidden", 1, 65536, &a->joint, 0},
                                                {"n_tdt_durations", 0, 1000, &a->durations, -1}};
    steno_status st = steno_nemo_crispasr_features(f, prefix_of(f), err);
    if (!st)
        st = read_numbers_of(f, prefix_of(f), numbers, sizeof numbers / sizeof *numbers, err);
    a->xscale = scale != 0;
    a->positions = 5000;
    a->out = a->d;
    a->model_type = "EncDecRNNTBPEModel";
    a->joint_activation = "relu";
    return st;
}

/* Whole segments. */
static steno_status read_parakeet(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t none;
    const struct steno_ggml_wanted numbers[] = {{"att_context_left", -1, 100000, &a->left, -1},
                                                {"att_context_right", -1, 100000, &a->right, -1},
                                                {"global_tokens", 0, 0, &none, 0}};
    a->before = (a->kernel - 1) / 2;
    return read_numbers_of(f, PARAKEET, numbers, sizeof numbers / sizeof *numbers, err);
}

static steno_status read_chunks(steno_nemo_file *f, steno_err *err)
{
    struct steno_gguf_list left, right;
    size_t n = 0;
    if (steno_gguf_list(f->base.gguf, NEMOTRON "att_context_left", &left) &&
        steno_gguf_list(f->base.gguf, NEMOTRON "att_context_right", &right) &&
        left.left == right.left)
        while (n < STENO_NEMO_MAX_CONTEXTS && steno_gguf_next_int(&left, &f->context[n][0]) &&
               steno_gguf_next_int(&right, &f->context[n][1]))
            n++;
    else
        left.left = 1;
    f->n_contexts = left.left ? 0 : n;
    return steno_nemo_gguf_contexts(f, err);
}

/* An encoder with caches and a prompt. */
static steno_status read_nemotron(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    const char *norm = steno_gguf_text(f->base.gguf, NEMOTRON "conv_norm_type");
    const char *style = steno_gguf_text(f->base.gguf, NEMOTRON "att_context_style");
    int64_t causal;
    const struct steno_ggml_wanted numbers[] = {
        {"causal_downsampling", 1, 1, &causal, 0},
        {"num_prompts", 1, 4096, &a->prompts, 0},
        {"prompt_kernel_mid", 1, 1 << 20, &a->prompt_hidden, 0}};
    steno_status st = read_numbers_of(f, NEMOTRON, numbers, sizeof numbers / sizeof *numbers, err);
    if (!st && (!norm || !style || strcmp(style, "chunked_limited") != 0 ||
                (strcmp(norm, "layer_norm") != 0 && strcmp(norm, "batch_norm") != 0)))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: " NEMOTRON "conv_norm_type is '%.40s', att_context_style '%.40s'; "
                        "known: layer_norm or batch_norm, chunked_limited",
                        f->base.name, norm ? norm : "", style ? style : "");
    if (st)
        return st;
    f->info.per_feature = false;
    a->before = a->kernel - 1;
    a->layer_norm = strcmp(norm, "layer_norm") == 0;
    a->causal = a->chunked = a->streaming = true;
    f->info.automatic = AUTOMATIC < a->prompts ? AUTOMATIC : 0;
    st = read_chunks(f, err);
    return st ? st
              : steno_nemo_gguf_dictionary(f, NEMOTRON "prompt_langs", NEMOTRON "prompt_ids", err);
}

steno_status steno_nemo_read_crispasr(steno_nemo_file *f, steno_err *err)
{
    steno_status st = read_sizes(f, err);
    if (!st)
        st = is_nemotron(f) ? read_nemotron(f, err) : read_parakeet(f, err);
    if (!st && f->info.arch.durations)
        st = steno_nemo_gguf_durations(f, PARAKEET "tdt_durations", err);
    if (!st)
        st = steno_nemo_gguf_pieces(
            f, TOKENS, is_nemotron(f) ? NEMOTRON "blank_id" : PARAKEET "blank_id", err);
    return st ? st : steno_ggml_file_tensors(&f->base, &steno_nemo_crispasr_names, err);
}
