#include "speech/families/moonshine/file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "speech/families/common/ggml_file.h"
#include "speech/families/common/ggml_kind.h"
#include "speech/families/moonshine/model.h"
#include "speech/families/moonshine/vocabulary.h"

#define TOKENS "tokenizer.ggml.tokens"
#define BESIDE "tokenizer.bin"
#define ACTIVATIONS "gelu silu relu"
#define MAX_VOCAB (1 << 20)

struct steno_moonshine_file {
    struct steno_ggml_file base;
    struct steno_moonshine_file_info info;
    char languages[64];
};

/* ---- programs ------------------------------------------------------------------------------ */

enum {
    D,
    FF,
    LAYERS,
    HEADS,
    KEYS, /* heads of keys */
    DECODER_D,
    DECODER_FF,
    DECODER_LAYERS,
    DECODER_HEADS,
    DECODER_KEYS,
    VOCAB,
    BEGIN,
    END,
    N_NUMBERS
};

/* What a program calls numbers and tensors. */
struct program {
    const char *name, *number[N_NUMBERS];
    const char *part, *theta;           /* of a head that turns; base of the turns */
    const char *activation[2], *biases; /* or NULL */
    struct steno_ggml_names names;
};

#define TABLE(t) t, sizeof(t) / sizeof *(t)
#define ENCODER "model.encoder."
#define DECODER "model.decoder."

static const struct steno_ggml_rename transcribe_begins[] = {
    {"enc.conv.0.", ENCODER "conv1."},
    {"enc.conv.1.", ENCODER "conv2."},
    {"enc.conv.2.", ENCODER "conv3."},
    {"enc.conv.norm.", ENCODER "groupnorm."},
    {"enc.final_norm.", ENCODER "layer_norm."},
    {"enc.blocks.#.norm_ffn.", ENCODER "layers.#.post_attention_layernorm."},
    {"enc.blocks.#.", ENCODER "layers.#."},
    {"dec.token_embd.", DECODER "embed_tokens."},
    {"dec.final_norm.", DECODER "norm."},
    {"dec.blocks.#.norm_ffn.", DECODER "layers.#.final_layernorm."},
    {"dec.blocks.#.", DECODER "layers.#."}};
static const struct steno_ggml_rename transcribe_parts[] = {
    {"norm_attn.", "input_layernorm."},
    {"norm_self.", "input_layernorm."},
    {"norm_cross.", "post_attention_layernorm."},
    {"attn.q.", "self_attn.q_proj."},
    {"attn.k.", "self_attn.k_proj."},
    {"attn.v.", "self_attn.v_proj."},
    {"attn.out.", "self_attn.o_proj."},
    {"self_attn.q.", "self_attn.q_proj."},
    {"self_attn.k.", "self_attn.k_proj."},
    {"self_attn.v.", "self_attn.v_proj."},
    {"self_attn.out.", "self_attn.o_proj."},
    {"cross_attn.q.", "encoder_attn.q_proj."},
    {"cross_attn.k.", "encoder_attn.k_proj."},
    {"cross_attn.v.", "encoder_attn.v_proj."},
    {"cross_attn.out.", "encoder_attn.o_proj."},
    {"ffn.", "mlp."}};

static const struct steno_ggml_rename crispasr_begins[] = {
    {"encoder.output_norm.", ENCODER "layer_norm."},
    {"encoder.layers.#.ffn_norm.", ENCODER "layers.#.post_attention_layernorm."},
    {"encoder.layers.#.", ENCODER "layers.#."},
    {"encoder.", ENCODER},
    {"decoder.output_norm.", DECODER "norm."},
    {"decoder.output.", "proj_out."},
    {"decoder.layers.#.ffn_norm.", DECODER "layers.#.final_layernorm."},
    {"decoder.layers.#.", DECODER "layers.#."},
    {"decoder.", DECODER}};
static const struct steno_ggml_rename crispasr_parts[] = {
    {"attn_norm.", "input_layernorm."},
    {"cross_attn_norm.", "post_attention_layernorm."},
    {"attn.q.", "self_attn.q_proj."},
    {"attn.k.", "self_attn.k_proj."},
    {"attn.v.", "self_attn.v_proj."},
    {"attn.o.", "self_attn.o_proj."},
    {"cross_attn.q.", "encoder_attn.q_proj."},
    {"cross_attn.k.", "encoder_attn.k_proj."},
    {"cross_attn.v.", "encoder_attn.v_proj."},
    {"cross_attn.o.", "encoder_attn.o_proj."},
    {"ffn.", "mlp."}};

#define KEY "stt.moonshine."
#define CRISPASR "moonshine."
static const struct program programs[] = {
    {.name = "transcribe.cpp",
     .number = {KEY "encoder.d_model", KEY "encoder.ffn_dim", KEY "encoder.n_layers",
                KEY "encoder.n_heads", KEY "encoder.n_kv_heads", KEY "decoder.d_model",
                KEY "decoder.ffn_dim", KEY "decoder.n_layers", KEY "decoder.n_heads",
                KEY "decoder.n_kv_heads", KEY "decoder.vocab_size", KEY "decoder_start_token_id",
                KEY "eos_token_id"},
     .part = KEY "partial_rotary_factor",
     .theta = KEY "rope_theta",
     .activation = {KEY "encoder.activation", KEY "decoder.activation"},
     .biases = KEY "attention_bias",
     .names = {TABLE(transcribe_begins), TABLE(transcribe_parts)}},
    {.name = "CrispASR",
     .number = {CRISPASR "encoder.embedding_length", CRISPASR "encoder.feed_forward_length",
                CRISPASR "encoder.block_count", CRISPASR "encoder.attention.head_count",
                CRISPASR "encoder.attention.head_count_kv", CRISPASR "decoder.embedding_length",
                CRISPASR "decoder.feed_forward_length", CRISPASR "decoder.block_count",
                CRISPASR "decoder.attention.head_count", CRISPASR "decoder.attention.head_count_kv",
                CRISPASR "vocab_size", CRISPASR "bos_token_id", CRISPASR "eos_token_id"},
     .part = CRISPASR "encoder.partial_rotary_factor",
     .theta = CRISPASR "rope.freq_base",
     .names = {TABLE(crispasr_begins), TABLE(crispasr_parts)}}};

static const struct program *program_of(const struct steno_ggml_file *f)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (steno_ggml_file_has_number(f, programs[i].number[D]))
            return &programs[i];
    return NULL;
}

/* ---- keys ---------------------------------------------------------------------------------- */

/* Both stacks have one width and one number of heads, as the builder has. */
static steno_status read_sizes(steno_moonshine_file *f, const struct program *p, steno_err *err)
{
    struct steno_moonshine_arch *a = &f->info.arch;
    int64_t v[N_NUMBERS];
    steno_status st = STENO_OK;
    for (int i = 0; i < N_NUMBERS && !st; i++) {
        static const int64_t most[N_NUMBERS] = {
            65536, 1 << 20, 256, 1024, 1024, 65536, 1 << 20, 256, 1024, 1024, MAX_VOCAB, 1, 2};
        const int64_t least = i == VOCAB ? STENO_MOONSHINE_END + 1 : i == END ? 2 : 1;
        const struct steno_ggml_wanted w = {p->number[i], least, most[i], &v[i], least - 1};
        st = steno_ggml_file_numbers(&f->base, &w, 1, err);
    }
    if (st)
        return st;
    if (v[D] != v[DECODER_D] || v[FF] != v[DECODER_FF] || v[HEADS] != v[KEYS] ||
        v[HEADS] != v[DECODER_HEADS] || v[HEADS] != v[DECODER_KEYS] || v[D] % v[HEADS] ||
        v[D] / v[HEADS] % 2)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: %lld and %lld columns, %lld and %lld hidden ones, heads of encoder "
                          "%lld (keys %lld), of decoder %lld (keys %lld); known: equal ones, of an "
                          "even width",
                          f->base.name, (long long)v[D], (long long)v[DECODER_D], (long long)v[FF],
                          (long long)v[DECODER_FF], (long long)v[HEADS], (long long)v[KEYS],
                          (long long)v[DECODER_HEADS], (long long)v[DECODER_KEYS]);
    a->d = v[D];
    a->ff = v[FF];
    a->heads = v[HEADS];
    a->encoder_layers = v[LAYERS];
    a->decoder_layers = v[DECODER_LAYERS];
    a->vocab = v[VOCAB];
    return STENO_OK;
}

static steno_status read_positions(steno_moonshine_file *f, const struct program *p, steno_err *err)
{
    struct steno_moonshine_arch *a = &f->info.arch;
    double part;
    if (!steno_gguf_number(f->base.gguf, p->part, &part) || !(part >= 0 && part <= 1) ||
        !steno_gguf_number(f->base.gguf, p->theta, &a->theta) ||
        !(a->theta >= 1 && a->theta <= 1e12))
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: keys '%s' and '%s' are missing, or no numbers from 0 to 1 and from 1 "
            "to 1e12",
            f->base.name, p->part, p->theta);
    a->rotary = (int64_t)((double)(a->d / a->heads) * (double)(float)part);
    return STENO_OK;
}

static steno_status read_options(steno_moonshine_file *f, const struct program *p, steno_err *err)
{
    struct steno_moonshine_arch *a = &f->info.arch;
    int64_t biases = 0;
    const struct steno_ggml_wanted bias = {p->biases, 0, 1, &biases, 0};
    steno_status st = STENO_OK;
    a->encoder_activation = "gelu";
    a->decoder_activation = "silu";
    if (!p->biases)
        return st;
    st = steno_ggml_file_numbers(&f->base, &bias, 1, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, p->activation[0], ACTIVATIONS, NULL,
                                  &a->encoder_activation, err);
    if (!st)
        st = steno_ggml_file_word(&f->base, p->activation[1], ACTIVATIONS, NULL,
                                  &a->decoder_activation, err);
    a->bias = biases != 0;
    return st;
}

/* ---- vocabulary ---------------------------------------------------------------------------- */

/* "<s>", "<<ST_7>>", but no byte, "<0x0A>". */
static bool is_mark_moonshine(const char *s)
{
    const size_t n = strlen(s);
    return n > 2 && s[0] == '<' && s[n - 1] == '>' && !(n == 6 && memcmp(s, "<0x", 3) == 0);
}

static steno_status open_own(const steno_moonshine_file *f, steno_tokens **out, steno_err *err)
{
    steno_status st =
        steno_tokens_parse(out, f->base.tokens.data, f->base.tokens.len, f->base.name, err);
    for (int32_t i = 0; !st && i < steno_tokens_count(*out); i++)
        if (is_mark_moonshine(steno_tokens_piece(*out, i)))
            steno_tokens_hide(*out, &i, 1);
    return st;
}

static steno_status open_beside(const steno_moonshine_file *f, steno_tokens **out, steno_err *err)
{
    char *file = steno_path_beside(f->base.name, BESIDE), *bytes;
    size_t n;
    steno_status st = file ? steno_file_read(file, STENO_TOKENS_MAX_FILE, &bytes, &n, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st) {
        st = steno_moonshine_tokenizer_parse(out, bytes, n, file, err);
        free(bytes);
    }
    free(file);
    return st;
}

steno_status steno_moonshine_file_tokens(const steno_moonshine_file *f, steno_tokens **out,
                                         steno_err *err)
{
    steno_status st = f->base.pieces ? open_own(f, out, err) : open_beside(f, out, err);
    if (!st && steno_tokens_count(*out) != f->info.arch.vocab)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %d pieces, the embedding has %lld rows",
                        f->base.name, (int)steno_tokens_count(*out), (long long)f->info.arch.vocab);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------- */

bool steno_moonshine_file_probe(const char *path)
{
    return steno_ggml_kind_of_file(path) == STENO_GGML_MOONSHINE;
}

static steno_status read_all(steno_moonshine_file *f, steno_err *err)
{
    const struct program *p = f->base.gguf ? program_of(&f->base) : NULL;
    struct steno_gguf_list l;
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: no GGUF file of Moonshine as transcribe.cpp and CrispASR write it",
                          f->base.name);
    f->info.program = p->name;
    f->info.languages = f->languages;
    st = read_sizes(f, p, err);
    if (!st)
        st = read_positions(f, p, err);
    if (!st)
        st = read_options(f, p, err);
    if (!st && steno_gguf_list(f->base.gguf, TOKENS, &l))
        st = steno_ggml_file_pieces(&f->base, TOKENS, 0, err);
    steno_ggml_file_languages(&f->base, f->languages, sizeof f->languages);
    if (!st)
        st = steno_ggml_file_tensors(&f->base, &p->names, err);
    if (!st)
        st = steno_ggml_file_sort(&f->base, err);
    f->info.blocks = !st && steno_ggml_file_in_blocks(&f->base, ENCODER "layers.0.mlp.fc1.weight");
    return st;
}

steno_status steno_moonshine_file_open(steno_moonshine_file **out, const char *path,
                                       const void *bytes, size_t n, steno_err *err)
{
    steno_moonshine_file *f = calloc(1, sizeof *f);
    steno_status st = f ? steno_ggml_file_open(&f->base, path, bytes, n, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!st)
        st = read_all(f, err);
    if (st)
        steno_moonshine_file_close(f);
    else
        *out = f;
    return st;
}

void steno_moonshine_file_close(steno_moonshine_file *f)
{
    if (!f)
        return;
    steno_ggml_file_close(&f->base);
    free(f);
}

steno_status steno_moonshine_file_check(const steno_moonshine_file *f, steno_err *err)
{
    return steno_map_check(&f->base.map, f->base.name, err);
}

const struct steno_moonshine_file_info *steno_moonshine_file_info(const steno_moonshine_file *f)
{
    return &f->info;
}

steno_status steno_moonshine_file_build(const steno_moonshine_file *f, bool decoder,
                                        struct steno_graph **out, steno_err *err)
{
    return decoder ? steno_moonshine_build_decoder(&f->info.arch, &f->base.weights, out, err)
                   : steno_moonshine_build_encoder(&f->info.arch, &f->base.weights, out, err);
}
