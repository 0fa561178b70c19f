#include "tests/support/nemo_toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gguf_make.h"

enum { D = 4, FF = 4 * D, HEADS = 2, MELS = 8, CHANNELS = 2, PIECES = 3, PRED = 2, DURATIONS = 2 };
enum { PROMPTS = 3, HIDDEN = 5 };
enum { LSTM = 1 }; /* gates, in the order of the file */

static const char *const pieces[PIECES] = {"<unk>",
                                           "\xE2\x96\x81"
                                           "a",
                                           "b"};

/* names: in GGUF, and in NeMo's checkpoints. */
struct tensor {
    const char *theirs, *ours;
    int rank;
    int64_t dim[4];
    int kind;
};

static const struct tensor shared[] = {
    {"enc.pre_encode.conv.0.weight", "encoder.pre_encode.conv.0.weight", 4, {CHANNELS, 1, 3, 3}, 0},
    {"enc.pre_encode.conv.0.bias", "encoder.pre_encode.conv.0.bias", 1, {CHANNELS}, 0},
    {"enc.pre_encode.out.weight", "encoder.pre_encode.out.weight", 2, {D, CHANNELS *MELS / 2}, 0},
    {"enc.pre_encode.out.bias", "encoder.pre_encode.out.bias", 1, {D}, 0},
    {"enc.blocks.0.norm_ff1.weight", "encoder.layers.0.norm_feed_forward1.weight", 1, {D}, 0},
    {"enc.blocks.0.norm_ff1.bias", "encoder.layers.0.norm_feed_forward1.bias", 1, {D}, 0},
    {"enc.blocks.0.ff1.linear1.weight",
     "encoder.layers.0.feed_forward1.linear1.weight",
     2,
     {FF, D},
     0},
    {"enc.blocks.0.ff1.linear2.weight",
     "encoder.layers.0.feed_forward1.linear2.weight",
     2,
     {D, FF},
     0},
    {"enc.blocks.0.norm_attn.weight", "encoder.layers.0.norm_self_att.weight", 1, {D}, 0},
    {"enc.blocks.0.norm_attn.bias", "encoder.layers.0.norm_self_att.bias", 1, {D}, 0},
    {"enc.blocks.0.attn.linear_q.weight",
     "encoder.layers.0.self_attn.linear_q.weight",
     2,
     {D, D},
     0},
    {"enc.blocks.0.attn.linear_k.weight",
     "encoder.layers.0.self_attn.linear_k.weight",
     2,
     {D, D},
     0},
    {"enc.blocks.0.attn.linear_v.weight",
     "encoder.layers.0.self_attn.linear_v.weight",
     2,
     {D, D},
     0},
    {"enc.blocks.0.attn.linear_out.weight",
     "encoder.layers.0.self_attn.linear_out.weight",
     2,
     {D, D},
     0},
    {"enc.blocks.0.attn.linear_pos.weight",
     "encoder.layers.0.self_attn.linear_pos.weight",
     2,
     {D, D},
     0},
    {"enc.blocks.0.attn.pos_bias_u",
     "encoder.layers.0.self_attn.pos_bias_u",
     2,
     {HEADS, D / HEADS},
     0},
    {"enc.blocks.0.attn.pos_bias_v",
     "encoder.layers.0.self_attn.pos_bias_v",
     2,
     {HEADS, D / HEADS},
     0},
    {"enc.blocks.0.norm_conv.weight", "encoder.layers.0.norm_conv.weight", 1, {D}, 0},
    {"enc.blocks.0.norm_conv.bias", "encoder.layers.0.norm_conv.bias", 1, {D}, 0},
    {"enc.blocks.0.conv.pointwise1.weight",
     "encoder.layers.0.conv.pointwise_conv1.weight",
     3,
     {2 * D, D, 1},
     0},
    {"enc.blocks.0.conv.depthwise.weight",
     "encoder.layers.0.conv.depthwise_conv.weight",
     3,
     {D, 1, 3},
     0},
    {"enc.blocks.0.conv.pointwise2.weight",
     "encoder.layers.0.conv.pointwise_conv2.weight",
     3,
     {D, D, 1},
     0},
    {"enc.blocks.0.conv.bn.weight", "encoder.layers.0.conv.batch_norm.weight", 1, {D}, 0},
    {"enc.blocks.0.conv.bn.bias", "encoder.layers.0.conv.batch_norm.bias", 1, {D}, 0},
    {"enc.blocks.0.conv.bn.running_mean",
     "encoder.layers.0.conv.batch_norm.running_mean",
     1,
     {D},
     0},
    {"enc.blocks.0.conv.bn.running_var", "encoder.layers.0.conv.batch_norm.running_var", 1, {D}, 0},
    {"enc.blocks.0.norm_ff2.weight", "encoder.layers.0.norm_feed_forward2.weight", 1, {D}, 0},
    {"enc.blocks.0.norm_ff2.bias", "encoder.layers.0.norm_feed_forward2.bias", 1, {D}, 0},
    {"enc.blocks.0.ff2.linear1.weight",
     "encoder.layers.0.feed_forward2.linear1.weight",
     2,
     {FF, D},
     0},
    {"enc.blocks.0.ff2.linear2.weight",
     "encoder.layers.0.feed_forward2.linear2.weight",
     2,
     {D, FF},
     0},
    {"enc.blocks.0.norm_out.weight", "encoder.layers.0.norm_out.weight", 1, {D}, 0},
    {"enc.blocks.0.norm_out.bias", "encoder.layers.0.norm_out.bias", 1, {D}, 0}};

static const struct tensor transducer[] = {
    {"pred.embed.weight", "decoder.prediction.embed.weight", 2, {PIECES + 1, PRED}, 0},
    {"pred.lstm.0.Wx", "decoder.prediction.dec_rnn.lstm.weight_ih_l0", 2, {4 * PRED, PRED}, LSTM},
    {"pred.lstm.0.Wh", "decoder.prediction.dec_rnn.lstm.weight_hh_l0", 2, {4 * PRED, PRED}, LSTM},
    {"pred.lstm.0.bias", "decoder.prediction.dec_rnn.lstm.bias_h_l0", 1, {4 * PRED}, LSTM},
    {"joint.enc.weight", "joint.enc.weight", 2, {PRED, D}, 0},
    {"joint.enc.bias", "joint.enc.bias", 1, {PRED}, 0},
    {"joint.pred.weight", "joint.pred.weight", 2, {PRED, PRED}, 0},
    {"joint.pred.bias", "joint.pred.bias", 1, {PRED}, 0},
    {"joint.out.weight", "joint.joint_net.2.weight", 2, {PIECES + 1 + DURATIONS, PRED}, 0},
    {"joint.out.bias", "joint.joint_net.2.bias", 1, {PIECES + 1 + DURATIONS}, 0}};

static const struct tensor prompt[] = {{"prompt.mlp.0.weight", "", 2, {HIDDEN, D + PROMPTS}, 0},
                                       {"prompt.mlp.0.bias", "", 1, {HIDDEN}, 0},
                                       {"prompt.mlp.2.weight", "", 2, {D, HIDDEN}, 0},
                                       {"prompt.mlp.2.bias", "", 1, {D}, 0}};

static const struct tensor ctc[] = {
    {"head.ctc.weight", "decoder.decoder_layers.0.weight", 3, {PIECES + 1, D, 1}, 0},
    {"head.ctc.bias", "decoder.decoder_layers.0.bias", 1, {PIECES + 1}, 0}};

static void must(steno_status st)
{
    if (st)
        abort();
}

static void u(struct steno_buf *b, uint32_t v, size_t size)
{
    for (size_t i = 0; i < size; i++, v >>= 8)
        must(steno_buf_add(b, &(char){(char)(v & 255)}, 1));
}

/* Element i of a tensor, the same in every format; variances are above 0. */
static float element(const struct tensor *t, size_t i)
{
    uint32_t h = 2166136261u;
    for (const char *c = t->theirs; *c; c++)
        h = (h ^ (uint32_t)*c) * 16777619u;
    h = (h + (uint32_t)i) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    return (float)((int)(h >> 20) - 2048) / 4096 + (strstr(t->theirs, "var") ? 1 : 0);
}

/* ggml: gates i, f, o, g; else i, f, g, o. */
static void put_elements(struct steno_buf *b, const struct tensor *t, bool ggml)
{
    static const size_t order[4] = {0, 1, 3, 2};
    size_t n = 1, gate;
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dim[i];
    gate = n / 4;
    for (size_t i = 0; i < n; i++) {
        const bool swap = ggml && t->kind == LSTM;
        const float x = element(t, swap ? order[i / gate] * gate + i % gate : i);
        uint32_t v;
        memcpy(&v, &x, sizeof v);
        u(b, v, 4);
    }
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

static void put_encoder_keys(struct gguf_make *g, bool live)
{
    gguf_make_text(g, "general.architecture", "parakeet");
    gguf_make_texts(g, "general.languages", 2, (const char *const[]){"en", "de"});
    gguf_make_u32(g, "stt.frontend.num_mels", MELS);
    gguf_make_u32(g, "stt.frontend.sample_rate", 16000);
    gguf_make_u32(g, "stt.frontend.n_fft", 512);
    gguf_make_u32(g, "stt.frontend.win_length", 400);
    gguf_make_u32(g, "stt.frontend.hop_length", 160);
    gguf_make_text(g, "stt.frontend.window", "hann");
    gguf_make_text(g, "stt.frontend.normalize", live ? "none" : "per_feature");
    gguf_make_f32(g, "stt.frontend.pre_emphasis", 0.97f);
    gguf_make_f32(g, "stt.frontend.f_min", 0);
    gguf_make_f32(g, "stt.frontend.f_max", 8000);
    gguf_make_u32(g, "stt.parakeet.encoder.n_layers", 1);
    gguf_make_u32(g, "stt.parakeet.encoder.d_model", D);
    gguf_make_u32(g, "stt.parakeet.encoder.n_heads", HEADS);
    gguf_make_u32(g, "stt.parakeet.encoder.d_ff", FF);
    gguf_make_u32(g, "stt.parakeet.encoder.conv_kernel", 3);
    gguf_make_u32(g, "stt.parakeet.encoder.subsampling_factor", 2);
    gguf_make_u32(g, "stt.parakeet.encoder.subsampling_channels", CHANNELS);
    gguf_make_u32(g, "stt.parakeet.encoder.pos_emb_max_len", 5000);
    gguf_make_i32(g, "stt.parakeet.encoder.att_context_left", live ? 6 : -1);
    gguf_make_text(g, "stt.parakeet.encoder.att_context_style",
                   live ? "chunked_limited" : "regular");
    gguf_make_text(g, "stt.parakeet.encoder.conv_norm_type", live ? "layer_norm" : "batch_norm");
}

static void put_live_keys(struct gguf_make *g)
{
    gguf_make_i32(g, "stt.parakeet.encoder.att_context_right", 2);
    gguf_make_i32(g, "stt.parakeet.encoder.conv_context_left", 2);
    gguf_make_ints(g, "stt.parakeet.encoder.att_context_size_choices", 4,
                   (const int32_t[]){6, 2, 6, 0});
    gguf_make_i32(g, "stt.parakeet.encoder.streaming.drop_extra_pre_encoded", 2);
    gguf_make_u32(g, "stt.parakeet.prompt.num_prompts", PROMPTS);
    gguf_make_u32(g, "stt.parakeet.prompt.hidden", HIDDEN);
    gguf_make_text(g, "stt.parakeet.prompt.activation", "relu");
    gguf_make_u32(g, "stt.parakeet.prompt.auto_id", 2);
    gguf_make_texts(g, "stt.parakeet.prompt.dictionary.locales", 2,
                    (const char *const[]){"en-US", "de"});
    gguf_make_ints(g, "stt.parakeet.prompt.dictionary.indices", 2, (const int32_t[]){0, 1});
}

static void put_keys(struct gguf_make *g, enum nemo_toy_format f)
{
    static const char *const all[] = {"<unk>",
                                      "\xE2\x96\x81"
                                      "a",
                                      "b", "<blank>"};
    const bool plain = f == NEMO_TOY_GGUF_RNNT || f == NEMO_TOY_GGUF_LIVE;
    put_encoder_keys(g, f == NEMO_TOY_GGUF_LIVE);
    if (f == NEMO_TOY_GGUF_LIVE)
        put_live_keys(g);
    gguf_make_text(g, "stt.parakeet.head_kind",
                   f == NEMO_TOY_GGUF_CTC ? "ctc"
                   : plain                ? "rnnt"
                                          : "tdt");
    if (f != NEMO_TOY_GGUF_CTC) {
        gguf_make_u32(g, "stt.parakeet.predictor.hidden", PRED);
        gguf_make_u32(g, "stt.parakeet.predictor.n_layers", 1);
        gguf_make_u32(g, "stt.parakeet.joint.hidden", PRED);
        gguf_make_text(g, "stt.parakeet.joint.activation", "relu");
        gguf_make_u32(g, "stt.parakeet.joint.num_extra_outputs", plain ? 0 : DURATIONS);
    }
    if (f == NEMO_TOY_GGUF) {
        gguf_make_ints(g, "stt.parakeet.tdt.durations", DURATIONS, (const int32_t[]){0, 1});
        gguf_make_u32(g, "stt.parakeet.tdt.max_symbols", 10);
    }
    gguf_make_texts(g, "tokenizer.ggml.tokens", PIECES + 1, all);
    gguf_make_u32(g, "tokenizer.ggml.blank_token_id", PIECES);
}

/* Without durations the last layer has as many scores fewer; causal convolutions have one band
 * more. */
static void put_tensors(struct gguf_make *g, enum nemo_toy_format f, const struct tensor *all,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tensor t = all[i];
        struct steno_buf b;
        if (f != NEMO_TOY_GGUF && !strncmp(t.theirs, "joint.out.", 10))
            t.dim[0] -= DURATIONS;
        if (f == NEMO_TOY_GGUF_LIVE && !strcmp(t.theirs, "enc.pre_encode.out.weight"))
            t.dim[1] = CHANNELS * (MELS + 2) / 2;
        steno_buf_init(&b, 1 << 20);
        put_elements(&b, &t, false);
        gguf_make_tensor(g, t.theirs, 0, t.rank, t.dim, b.data, b.len);
        steno_buf_free(&b);
    }
}

static void write_gguf(enum nemo_toy_format f, struct steno_buf *out)
{
    struct gguf_make g;
    gguf_make_begin(&g);
    put_keys(&g, f);
    put_tensors(&g, f, shared, sizeof shared / sizeof *shared);
    if (f == NEMO_TOY_GGUF_CTC)
        put_tensors(&g, f, ctc, sizeof ctc / sizeof *ctc);
    else
        put_tensors(&g, f, transducer, sizeof transducer / sizeof *transducer);
    if (f == NEMO_TOY_GGUF_LIVE)
        put_tensors(&g, f, prompt, sizeof prompt / sizeof *prompt);
    gguf_make_end(&g, out);
}

/* ---- CrispASR ------------------------------------------------------------------------------ */

/* NeMo's name with some parts shortened. */
static void crispasr_name(const char *ours, char *out, size_t size)
{
    static const char *const parts[][2] = {
        {"encoder.pre_encode.", "encoder.pre."},
        {"norm_feed_forward", "norm_ff"},
        {"feed_forward", "ff"},
        {"norm_self_att", "norm_attn"},
        {"self_attn.linear_", "attn."},
        {"self_attn.", "attn."},
        {"pointwise_conv", "pw"},
        {"depthwise_conv", "dw"},
        {"batch_norm", "bn"},
        {"decoder.prediction.embed", "decoder.embed"},
        {"decoder.prediction.dec_rnn.lstm.weight_ih_l0", "decoder.lstm.0.w_ih"},
        {"decoder.prediction.dec_rnn.lstm.weight_hh_l0", "decoder.lstm.0.w_hh"},
        {"decoder.prediction.dec_rnn.lstm.bias_h_l0", "decoder.lstm.0.b_ih"},
        {"joint_net.2.", "out."}};
    snprintf(out, size, "%s", ours);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *at = strstr(out, parts[i][0]);
        char rest[128];
        if (!at)
            continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(parts[i][0]));
        snprintf(out + (at - out), size - (size_t)(at - out), "%s%s", parts[i][1], rest);
    }
}

static void put_crispasr_tensors(struct gguf_make *g, const struct tensor *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct steno_buf b;
        char name[128];
        crispasr_name(all[i].ours, name, sizeof name);
        steno_buf_init(&b, 1 << 20);
        put_elements(&b, &all[i], false);
        gguf_make_tensor(g, name, 0, all[i].rank, all[i].dim, b.data, b.len);
        steno_buf_free(&b);
    }
}

static void write_crispasr(struct steno_buf *out)
{
    static const float zeros[4 * PRED];
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"sample_rate", 16000},
                 {"n_mels", MELS},
                 {"n_fft", 512},
                 {"win_length", 400},
                 {"hop_length", 160},
                 {"d_model", D},
                 {"n_layers", 1},
                 {"n_heads", HEADS},
                 {"ff_dim", FF},
                 {"subsampling_factor", 2},
                 {"subsampling_channels", CHANNELS},
                 {"conv_kernel", 3},
                 {"pred_hidden", PRED},
                 {"pred_layers", 1},
                 {"joint_hidden", PRED},
                 {"blank_id", PIECES},
                 {"n_tdt_durations", DURATIONS}};
    struct gguf_make g;
    gguf_make_begin(&g);
    gguf_make_text(&g, "general.architecture", "parakeet");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[64];
        snprintf(key, sizeof key, "parakeet.%s", sizes[i].key);
        gguf_make_u32(&g, key, sizes[i].value);
    }
    gguf_make_flag(&g, "parakeet.xscaling", false);
    gguf_make_ints(&g, "parakeet.tdt_durations", DURATIONS, (const int32_t[]){0, 1});
    gguf_make_texts(&g, "tokenizer.ggml.tokens", PIECES, pieces);
    put_crispasr_tensors(&g, shared, sizeof shared / sizeof *shared);
    put_crispasr_tensors(&g, transducer, sizeof transducer / sizeof *transducer);
    gguf_make_tensor(&g, "decoder.lstm.0.b_hh", 0, 1, (const int64_t[]){4 * PRED}, zeros,
                     sizeof zeros);
    gguf_make_tensor(&g, "preprocessor.window", 0, 1, (const int64_t[]){1}, zeros, sizeof *zeros);
    gguf_make_end(&g, out);
}

/* ---- ggml ---------------------------------------------------------------------------------- */

/* Convolutions with one tap lose their axes of 1, and biases of convolutions get some. */
static void put_ggml_tensors(struct steno_buf *b, const struct tensor *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool bias = strstr(t[i].ours, "conv.0.bias");
        int rank = t[i].rank;
        while (rank > 1 && t[i].dim[rank - 1] == 1)
            rank--;
        u(b, (uint32_t)(bias ? 3 : rank), 4);
        u(b, (uint32_t)strlen(t[i].ours), 4);
        u(b, 0, 4);
        for (int k = 0; bias && k < 2; k++)
            u(b, 1, 4);
        for (int k = rank; k-- > 0;)
            u(b, (uint32_t)t[i].dim[k], 4);
        must(steno_buf_puts(b, t[i].ours));
        put_elements(b, &t[i], true);
    }
}

static void write_ggml(struct steno_buf *b)
{
    const uint32_t header[] = {PIECES, 5000,     D, HEADS, 1, MELS,      0, 512,
                               2,      CHANNELS, 3, PRED,  1, DURATIONS, 10};
    u(b, 0x67676d6c, 4);
    for (size_t i = 0; i < sizeof header / sizeof *header; i++)
        u(b, header[i], 4);
    u(b, 1, 4); /* filters */
    u(b, 2, 4);
    u(b, 0, 4);
    u(b, 0, 4);
    u(b, 1, 4); /* window */
    u(b, 0, 4);
    for (uint32_t i = 0; i < DURATIONS; i++)
        u(b, i, 4);
    u(b, PIECES, 4);
    for (int i = 0; i < PIECES; i++) {
        u(b, (uint32_t)strlen(pieces[i]), 4);
        must(steno_buf_puts(b, pieces[i]));
    }
    put_ggml_tensors(b, shared, sizeof shared / sizeof *shared);
    put_ggml_tensors(b, transducer, sizeof transducer / sizeof *transducer);
}

void nemo_toy_write(enum nemo_toy_format f, struct steno_buf *out)
{
    if (f == NEMO_TOY_CRISPASR)
        write_crispasr(out);
    else if (f == NEMO_TOY_GGML)
        write_ggml(out);
    else
        write_gguf(f, out);
}
