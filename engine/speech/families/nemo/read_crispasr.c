/* GGUF of Parakeet as CrispASR's converter writes it (models/convert-parakeet-to-gguf.py of
 * CrispASR): keys parakeet.*, and NeMo's names with some parts shortened. Features are those of the
 * training, normalised per feature, and the joint network has ReLU: it says neither. */
#include "speech/families/nemo/file_internal.h"

#define KEY "parakeet."
#define TOKENS "tokenizer.ggml.tokens"

static const struct steno_nemo_rename of_model[] = {{"encoder.pre.", "encoder.pre_encode."},
                                                    {"decoder.embed.", "decoder.prediction.embed."},
                                                    {"joint.enc.", "joint.enc."},
                                                    {"joint.pred.", "joint.pred."},
                                                    {"joint.out.", "joint.joint_net.2."}};
static const struct steno_nemo_rename of_layer[] = {{"norm_ff1.", "norm_feed_forward1."},
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
                                                    {"norm_ff2.", "norm_feed_forward2."},
                                                    {"ff2.", "feed_forward2."},
                                                    {"norm_out.", "norm_out."}};
static const struct steno_nemo_rename of_lstm[] = {
    {"w_ih", "weight_ih_l"}, {"w_hh", "weight_hh_l"}, {"b_ih", "bias_ih_l"}, {"b_hh", "bias_hh_l"}};
#define TABLE(t) t, sizeof(t) / sizeof *(t)
static const struct steno_nemo_names crispasr_names = {
    "encoder.layers.", "decoder.lstm.", TABLE(of_model), TABLE(of_layer), TABLE(of_lstm)};

bool steno_nemo_is_crispasr(const steno_nemo_file *f)
{
    double any;
    return steno_gguf_number(f->gguf, KEY "d_model", &any);
}

static steno_status read_sizes(steno_nemo_file *f, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    int64_t scale, fixed, all;
    const struct steno_nemo_wanted numbers[] = {
        {KEY "sample_rate", 16000, 16000, &fixed, 0},
        {KEY "n_fft", 512, 512, &fixed, 0},
        {KEY "win_length", 400, 400, &fixed, 0},
        {KEY "hop_length", 160, 160, &fixed, 0},
        {KEY "n_mels", 1, 512, &a->in, 0},
        {KEY "d_model", 2, 65536, &a->d, 1},
        {KEY "n_layers", 1, 256, &a->layers, 0},
        {KEY "n_heads", 1, 1024, &a->heads, 0},
        {KEY "ff_dim", 1, 1 << 20, &a->ff, 0},
        {KEY "conv_kernel", 1, 1024, &a->kernel, 0},
        {KEY "subsampling_factor", 2, 64, &a->factor, 1},
        {KEY "subsampling_channels", 1, 65536, &a->channels, 0},
        {KEY "xscaling", 0, 1, &scale, -1},
        {KEY "att_context_left", -1, 100000, &a->left, -1},
        {KEY "att_context_right", -1, 100000, &a->right, -1},
        {KEY "global_tokens", 0, 0, &all, 0},
        {KEY "pred_hidden", 1, 65536, &a->pred, 0},
        {KEY "pred_layers", 1, 64, &a->pred_layers, 0},
        {KEY "joint_hidden", 1, 65536, &a->joint, 0},
        {KEY "n_tdt_durations", 0, 1000, &a->durations, -1}};
    steno_status st = steno_nemo_gguf_numbers(f, numbers, sizeof numbers / sizeof *numbers, err);
    a->xscale = scale != 0;
    a->before = (a->kernel - 1) / 2;
    a->positions = 5000;
    a->out = a->d;
    a->model_type = "EncDecRNNTBPEModel";
    a->joint_activation = "relu";
    f->info.per_feature = true;
    return st;
}

/* All pieces, behind which the blank is. */
static steno_status read_pieces(steno_nemo_file *f, steno_err *err)
{
    struct steno_gguf_list l;
    int64_t all, blank;
    const char *p;
    size_t n;
    steno_status st = STENO_OK;
    if (!steno_gguf_list(f->gguf, TOKENS, &l) || !l.left)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: key '" TOKENS "' is missing", f->name);
    all = (int64_t)l.left;
    if (!steno_gguf_int(f->gguf, KEY "blank_id", all, all, &blank))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: " KEY "blank_id is not %lld, the pieces",
                          f->name, (long long)all);
    while (!st && steno_gguf_next_text(&l, &p, &n))
        st = steno_nemo_file_piece(f, p, n, err);
    if (!st && l.left)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: key '" TOKENS "' has no texts", f->name);
    return st;
}

steno_status steno_nemo_read_crispasr(steno_nemo_file *f, steno_err *err)
{
    steno_status st = read_sizes(f, err);
    if (!st && f->info.arch.durations)
        st = steno_nemo_gguf_durations(f, KEY "tdt_durations", err);
    if (!st)
        st = read_pieces(f, err);
    return st ? st : steno_nemo_gguf_tensors(f, &crispasr_names, err);
}
