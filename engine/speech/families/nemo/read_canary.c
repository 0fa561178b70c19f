/* GGUF of Canary as transcribe.cpp (keys stt.canary.*) and CrispASR (canary.*) write it: encoders
 * are called as in the Parakeets of each. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <string.h>

#define CRISPASR "canary."
#define KEY "stt.canary."
#define ENCODER KEY "encoder."
#define DECODER KEY "decoder."
#define TOKENS "tokenizer.ggml.tokens"
#define ACTIVATIONS "relu gelu swish tanh"
#define SELF "first_sub_layer."
#define CROSS "second_sub_layer."
#define FEED "third_sub_layer."
#define LAYER "transf_decoder._decoder.layers.#."
#define EMBEDDING "transf_decoder._embedding."

enum {
    LAYERS,
    D,
    HEADS,
    FF,
    KERNEL,
    FACTOR,
    CHANNELS,
    AED_LAYERS,
    AED_D,
    AED_HEADS,
    AED_FF,
    N_NUMBERS
};

#define TABLE(t) t, sizeof(t) / sizeof *(t)

static const struct steno_ggml_rename transcribe_begins[] = {
    {"enc.proj.", "encoder_decoder_proj."},
    {"dec.embed.token.", EMBEDDING "token_embedding."},
    {"dec.embed.norm.", EMBEDDING "layer_norm."},
    {"dec.layer.#.", LAYER},
    {"dec.norm.", "transf_decoder._decoder.final_layer_norm."},
    {"dec.head.", "log_softmax.mlp.layer0."}};
static const struct steno_ggml_rename transcribe_parts[] = {
    {"norm1.", "layer_norm_1."},
    {"norm2.", "layer_norm_2."},
    {"norm3.", "layer_norm_3."},
    {"self_attn.q.", SELF "query_net."},
    {"self_attn.k.", SELF "key_net."},
    {"self_attn.v.", SELF "value_net."},
    {"self_attn.o.", SELF "out_projection."},
    {"cross_attn.q.", CROSS "query_net."},
    {"cross_attn.k.", CROSS "key_net."},
    {"cross_attn.v.", CROSS "value_net."},
    {"cross_attn.o.", CROSS "out_projection."},
    {"ffn.up.", FEED "dense_in."},
    {"ffn.down.", FEED "dense_out."}};

static const struct steno_ggml_rename crispasr_begins[] = {
    {"decoder.embed.", EMBEDDING "token_embedding."},
    {"decoder.embed_ln.", EMBEDDING "layer_norm."},
    {"decoder.layers.#.", LAYER},
    {"decoder.final_norm.", "transf_decoder._decoder.final_layer_norm."},
    {"decoder.head.", "log_softmax.mlp.layer0."}};
static const struct steno_ggml_rename crispasr_parts[] = {
    {"norm_sa.", "layer_norm_1."},        {"norm_ca.", "layer_norm_2."},
    {"norm_ff.", "layer_norm_3."},        {"sa_q.", SELF "query_net."},
    {"sa_k.", SELF "key_net."},           {"sa_v.", SELF "value_net."},
    {"sa_out.", SELF "out_projection."},  {"ca_q.", CROSS "query_net."},
    {"ca_k.", CROSS "key_net."},          {"ca_v.", CROSS "value_net."},
    {"ca_out.", CROSS "out_projection."}, {"ff_in.", FEED "dense_in."},
    {"ff_out.", FEED "dense_out."}};

static const struct program {
    const char *number[N_NUMBERS];
    struct steno_ggml_names decoder;
    const struct steno_ggml_names *encoder;
} programs[] = {
    {.number = {ENCODER "n_layers", ENCODER "d_model", ENCODER "n_heads", ENCODER "d_ff",
                ENCODER "conv_kernel", ENCODER "subsampling_factor", ENCODER "subsampling_channels",
                DECODER "n_layers", DECODER "d_model", DECODER "n_heads", DECODER "d_ff"},
     .decoder = {TABLE(transcribe_begins), TABLE(transcribe_parts)},
     .encoder = &steno_nemo_transcribe_names},
    {.number = {CRISPASR "enc_n_layers", CRISPASR "d_model", CRISPASR "n_heads", CRISPASR "ff_dim",
                CRISPASR "conv_kernel", CRISPASR "subsampling_factor",
                CRISPASR "subsampling_channels", CRISPASR "dec_n_layers", CRISPASR "d_model",
                CRISPASR "n_heads", CRISPASR "ff_dim"},
     .decoder = {TABLE(crispasr_begins), TABLE(crispasr_parts)},
     .encoder = &steno_nemo_crispasr_names}};

bool steno_nemo_is_canary(const steno_nemo_file *f)
{
    const char *kind = steno_gguf_text(f->base.gguf, "general.architecture");
    return kind && strcmp(kind, "canary") == 0;
}

static steno_status read_sizes(steno_nemo_file *f, const struct program *p, steno_err *err)
{
    struct steno_nemo_arch *a = &f->info.arch;
    struct steno_nemo_aed *t = &a->aed;
    const struct steno_ggml_wanted numbers[] = {
        {p->number[LAYERS], 1, 256, &a->layers, 0},
        {p->number[D], 2, 65536, &a->d, 1},
        {p->number[HEADS], 1, 1024, &a->heads, 0},
        {p->number[FF], 1, 1 << 20, &a->ff, 0},
        {p->number[KERNEL], 1, 1024, &a->kernel, 0},
        {p->number[FACTOR], 2, 64, &a->factor, 1},
        {p->number[CHANNELS], 1, 65536, &a->channels, 0},
        {p->number[AED_LAYERS], 1, STENO_NEMO_MEMORIES - 4, &t->layers, 0},
        {p->number[AED_D], 2, 8192, &t->d, 1},
        {p->number[AED_HEADS], 1, 1024, &t->heads, 0},
        {p->number[AED_FF], 1, 1 << 20, &t->ff, 0}};
    steno_status st = steno_ggml_file_numbers(&f->base, numbers, N_NUMBERS, err);
    if (!st && (t->d % t->heads || t->d % 2))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %lld columns of the decoder in %lld heads",
                        f->base.name, (long long)t->d, (long long)t->heads);
    a->out = a->d;
    a->before = (a->kernel - 1) / 2;
    a->left = a->right = -1;
    a->positions = 5000;
    a->model_type = "EncDecMultiTaskModel";
    return st;
}

/* CrispASR has one Canary, canary-1b-v2, and does not say what its decoder is like. */
static steno_status read_decoder(steno_nemo_file *f, bool crispasr, steno_err *err)
{
    struct steno_nemo_aed *t = &f->info.arch.aed;
    int64_t before = 1, learnt = 0, single = 1;
    const struct steno_ggml_wanted numbers[] = {
        {DECODER "pre_ln", 0, 1, &before, 1},
        {DECODER "learn_positional_encodings", 0, 0, &learnt, 0},
        {KEY "tokenizer.single_sp", 0, 1, &single, crispasr}};
    const char *format;
    steno_status st = steno_ggml_file_numbers(&f->base, numbers, 3, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, KEY "tokenizer.prompt_format", "canary2", "canary2",
                                  &format, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, DECODER "activation", ACTIVATIONS, "relu",
                                  &t->activation, err);
    t->before = before != 0;
    t->final = steno_ggml_file_find(&f->base, "transf_decoder._decoder.final_layer_norm.weight");
    t->rows = steno_ggml_file_extent(&f->base, EMBEDDING "token_embedding.weight", 0);
    f->info.leads = single != 0;
    return st;
}

/* Languages that have a mark, "<|en|>", for a file that does not list them. */
static void read_marks(steno_nemo_file *f)
{
    struct steno_gguf_list l;
    size_t n, at = 0;
    const char *p;
    if (!steno_gguf_list(f->base.gguf, TOKENS, &l))
        return;
    while (steno_gguf_next_text(&l, &p, &n))
        if (n == 6 && memcmp(p, "<|", 2) == 0 && memcmp(p + 4, "|>", 2) == 0 && p[2] >= 'a' &&
            p[2] <= 'z' && p[3] >= 'a' && p[3] <= 'z' && at + 4 < sizeof f->languages)
            at += (size_t)snprintf(f->languages + at, sizeof f->languages - at, "%s%.2s",
                                   at ? " " : "", p + 2);
}

steno_status steno_nemo_read_canary(steno_nemo_file *f, steno_err *err)
{
    const bool crispasr = steno_ggml_file_has_number(&f->base, CRISPASR "d_model");
    const struct program *p = &programs[crispasr];
    steno_status st = crispasr ? steno_nemo_crispasr_features(f, CRISPASR, err)
                               : steno_nemo_transcribe_features(f, err);
    if (!st)
        st = read_sizes(f, p, err);
    if (!st)
        st = steno_ggml_file_pieces(&f->base, TOKENS, 0, err);
    if (!st)
        st = steno_ggml_file_tensors(&f->base, &p->decoder, err);
    if (!st)
        st = read_decoder(f, crispasr, err);
    if (!st && f->info.arch.aed.rows < f->base.pieces)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %lld rows of the embedding for %lld pieces",
                        f->base.name, (long long)f->info.arch.aed.rows, (long long)f->base.pieces);
    steno_ggml_file_languages(&f->base, f->languages, sizeof f->languages);
    if (!*f->languages)
        read_marks(f);
    return st ? st : steno_ggml_file_tensors(&f->base, p->encoder, err);
}
