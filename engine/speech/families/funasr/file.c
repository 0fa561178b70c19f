#include "speech/families/funasr/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "speech/families/common/ggml_file.h"
#include "speech/families/common/ggml_kind.h"
#include "speech/families/funasr/front.h"

#define MVN "am.mvn"
#define MAX_MVN ((size_t)1 << 20) /* bytes of am.mvn */
#define MAX_BLOCKS 256
#define SPACE "\xE2\x96\x81" /* the mark of a word's begin in SentencePiece */

struct steno_sense_voice_file {
    struct steno_ggml_file base;
    struct steno_sense_voice_file_info info;
    float *statistics; /* [2, in]: negative means, inverse deviations */
};

/* ---- programs ------------------------------------------------------------------------------ */

enum { RATE, MELS, LENGTH, HOP, WINDOW, SHIFT, D, HEADS, FF, BLOCKS, BEHIND, KERNEL, N_NUMBERS };

/* What a program calls numbers and tensors. */
struct program {
    const char *name, *number[N_NUMBERS];
    int64_t length, hop; /* as it writes 25 and 10 ms */
    const char *window;  /* key of the window's name, or NULL */
    const char *zero;    /* key that is 0, or NULL */
    const char *queries; /* in front of the numbers of languages, NULL: not in the file */
    const char *with_itn, *without_itn;
    struct steno_ggml_names names;
    bool flat;   /* see struct steno_sense_voice_arch */
    bool blanks; /* pieces have blanks in place of SentencePiece's mark */
};

#define TABLE(t) t, sizeof(t) / sizeof *(t)

static const struct steno_ggml_rename transcribe_begins[] = {
    {"enc.embed.", "embed."},
    {"enc.encoders0.#.", "encoder.encoders0.#."},
    {"enc.encoders.#.", "encoder.encoders.#."},
    {"enc.tp_encoders.#.", "encoder.tp_encoders.#."},
    {"enc.", "encoder."},
    {"ctc.head.", "ctc.ctc_lo."},
    {"frontend.", "frontend."}};
static const struct steno_ggml_rename transcribe_parts[] = {
    {"attn.qkv.", "self_attn.linear_q_k_v."},
    {"attn.out.", "self_attn.linear_out."},
    {"attn.fsmn.", "self_attn.fsmn_block."},
    {"ffn.fc1.", "feed_forward.w_1."},
    {"ffn.fc2.", "feed_forward.w_2."},
    {"norm_attn.", "norm1."},
    {"norm_ffn.", "norm2."}};

#define CRISPASR "sensevoice."
static const struct steno_ggml_rename crispasr_begins[] = {
    {CRISPASR "query_embed.w", "embed.weight"},
    {CRISPASR "enc.blk.#.", "encoder.blocks.#."},
    {CRISPASR "enc.after_norm.", "encoder.after_norm."},
    {CRISPASR "enc.tp_norm.", "encoder.tp_norm."},
    {CRISPASR "ctc.", "ctc.ctc_lo."},
    {CRISPASR "cmvn_", "frontend.cmvn."}};
static const struct steno_ggml_rename crispasr_parts[] = {
    {"attn.qkv.w", "self_attn.linear_q_k_v.weight"},
    {"attn.qkv.b", "self_attn.linear_q_k_v.bias"},
    {"attn.out.w", "self_attn.linear_out.weight"},
    {"attn.out.b", "self_attn.linear_out.bias"},
    {"attn.fsmn.w", "self_attn.fsmn_block.weight"},
    {"ffn.l1.w", "feed_forward.w_1.weight"},
    {"ffn.l1.b", "feed_forward.w_1.bias"},
    {"ffn.l2.w", "feed_forward.w_2.weight"},
    {"ffn.l2.b", "feed_forward.w_2.bias"},
    {"norm1.w", "norm1.weight"},
    {"norm1.b", "norm1.bias"},
    {"norm2.w", "norm2.weight"},
    {"norm2.b", "norm2.bias"},
    {"w", "weight"},
    {"b", "bias"}};

/* FunASR's names; the weights of silero-vad beside them have none of these. */
static const struct steno_ggml_rename sense_voice_cpp_begins[] = {
    {"embed.", "embed."}, {"encoder.", "encoder."}, {"ctc.", "ctc."}};

#define FRONT "stt.frontend."
#define KEY "stt.sensevoice.encoder."
static const struct program programs[] = {
    {.name = "transcribe.cpp",
     .number = {FRONT "sample_rate", FRONT "num_mels", FRONT "win_length", FRONT "hop_length",
                FRONT "lfr_m", FRONT "lfr_n", KEY "d_model", KEY "n_heads", KEY "d_ff",
                KEY "n_blocks", KEY "tp_blocks", KEY "kernel_size"},
     .length = 400,
     .hop = 160,
     .window = FRONT "window",
     .zero = KEY "sanm_shift",
     .queries = "stt.sensevoice.special.",
     .with_itn = "withitn",
     .without_itn = "woitn",
     .names = {TABLE(transcribe_begins), TABLE(transcribe_parts)}},
    {.name = "CrispASR",
     .number = {CRISPASR "sample_rate", CRISPASR "n_mels", CRISPASR "frame_length_ms",
                CRISPASR "frame_shift_ms", CRISPASR "lfr_m", CRISPASR "lfr_n", CRISPASR "d_model",
                CRISPASR "n_heads", CRISPASR "ffn_dim", CRISPASR "n_blocks_base",
                CRISPASR "n_blocks_tp", CRISPASR "sanm_kernel"},
     .length = 25,
     .hop = 10,
     .queries = CRISPASR,
     .with_itn = "textnorm_withitn",
     .without_itn = "textnorm_woitn",
     .names = {TABLE(crispasr_begins), TABLE(crispasr_parts)},
     .flat = true},
    {.name = "SenseVoice.cpp",
     .number = {"frontend.sample_rate", "frontend.num_mels", "frontend.frame_length",
                "frontend.frame_shift", "frontend.lfr_m", "frontend.lfr_n", "encoder.output_size",
                "encoder.attention_heads", "encoder.linear_units", "encoder.num_blocks",
                "encoder.tp_blocks", "encoder.kernel_size"},
     .length = 25,
     .hop = 10,
     .window = "frontend.window",
     .zero = "encoder.sanm_shfit",
     .names = {TABLE(sense_voice_cpp_begins), NULL, 0},
     .blanks = true}};

static const struct program *program_of(const struct steno_ggml_file *f)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (steno_ggml_file_has_number(f, programs[i].number[D]))
            return &programs[i];
    return NULL;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static steno_status read_sizes(steno_sense_voice_file *f, const struct program *p, steno_err *err)
{
    struct steno_sense_voice_arch *a = &f->info.arch;
    int64_t fixed, window, shift;
    const struct steno_ggml_wanted numbers[] = {
        {p->number[RATE], STENO_FUNASR_RATE, STENO_FUNASR_RATE, &fixed, 0},
        {p->number[MELS], STENO_FUNASR_BINS, STENO_FUNASR_BINS, &fixed, 0},
        {p->number[LENGTH], p->length, p->length, &fixed, 0},
        {p->number[HOP], p->hop, p->hop, &fixed, 0},
        {p->number[WINDOW], 1, 64, &window, 0},
        {p->number[SHIFT], 1, 64, &shift, 0},
        {p->number[D], 2, 65536, &a->d, 1},
        {p->number[HEADS], 1, 1024, &a->heads, 0},
        {p->number[FF], 1, 1 << 20, &a->ff, 0},
        {p->number[BLOCKS], 1, MAX_BLOCKS, &a->blocks, 0},
        {p->number[BEHIND], 0, MAX_BLOCKS, &a->behind, -1},
        {p->number[KERNEL], 1, 1024, &a->kernel, 0}};
    steno_status st = steno_ggml_file_numbers(&f->base, numbers, N_NUMBERS, err);
    const char *name;
    const struct steno_ggml_wanted zero = {p->zero, 0, 0, &fixed, 0};
    if (!st && p->zero)
        st = steno_ggml_file_numbers(&f->base, &zero, 1, err);
    if (!st && p->window)
        st = steno_ggml_file_word(&f->base, p->window, "hamming", "hamming", &name, err);
    if (!st && a->d % a->heads)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %lld columns in %lld heads", f->base.name,
                        (long long)a->d, (long long)a->heads);
    if (st)
        return st;
    f->info.lfr = (struct steno_lfr){(size_t)window, (size_t)shift, true};
    a->in = window * (int64_t)STENO_FUNASR_BINS;
    a->flat = p->flat;
    return STENO_OK;
}

/* Rows of the embedding; those of FunASR's checkpoint where the file does not say them. */
static steno_status read_queries(steno_sense_voice_file *f, const struct program *p, steno_err *err)
{
    static const char *const codes[] = {"lang_auto", "lang_zh", "lang_en",
                                        "lang_yue",  "lang_ja", "lang_ko"};
    static const int64_t rows[] = {0, 3, 4, 7, 11, 12, 14, 15};
    enum { AUTO = 0, LANGUAGES = 1, ITN = 6, NO_ITN = 7, N_ROWS = 8 };
    struct steno_sense_voice_meta *meta = &f->info.meta;
    const int64_t last = steno_ggml_file_extent(&f->base, "embed.weight", 0) - 1;
    int64_t row[N_ROWS];
    for (int i = 0; i < N_ROWS; i++) {
        char key[64];
        const struct steno_ggml_wanted w = {key, 0, last, &row[i], rows[i]};
        steno_status st;
        snprintf(key, sizeof key, "%s%s", p->queries ? p->queries : "-",
                 i == ITN      ? p->with_itn
                 : i == NO_ITN ? p->without_itn
                               : codes[i]);
        st = steno_ggml_file_numbers(&f->base, &w, 1, err);
        if (!st && row[i] > last)
            st = steno_fail(err, STENO_ERR_FORMAT,
                            "%s: the embedding of languages has %lld rows, expected %lld",
                            f->base.name, (long long)last + 1, (long long)row[i] + 1);
        if (st)
            return st;
    }
    meta->any = (int)row[AUTO];
    for (int i = 0; i < STENO_FUNASR_LANGUAGES; i++)
        meta->language[i] = (int)row[LANGUAGES + i];
    meta->with_itn = (int)row[ITN];
    meta->without_itn = (int)row[NO_ITN];
    f->info.arch.queries = last + 1;
    return STENO_OK;
}

/* ---- vocabulary ---------------------------------------------------------------------------- */

/* A piece with SentencePiece's marks in place of its blanks. */
static steno_status add_marked(steno_sense_voice_file *f, const char *p, size_t n, steno_err *err)
{
    struct steno_buf b;
    steno_status st = STENO_OK;
    steno_buf_init(&b, STENO_GGML_MAX_TOKENS);
    for (size_t i = 0; i < n && !st; i++)
        st = p[i] == ' ' ? steno_buf_puts(&b, SPACE) : steno_buf_add(&b, p + i, 1);
    st = st ? steno_fail(err, st, "%s: a piece of %zu bytes", f->base.name, n)
            : steno_ggml_file_piece(&f->base, b.data ? b.data : "", b.len, err);
    steno_buf_free(&b);
    return st;
}

static steno_status read_vocabulary(steno_sense_voice_file *f, const struct program *p,
                                    steno_err *err)
{
    static const char key[] = "tokenizer.ggml.tokens";
    struct steno_gguf_list l;
    const char *piece;
    size_t n;
    steno_status st = STENO_OK;
    if (!p->blanks || !steno_gguf_list(f->base.gguf, key, &l))
        st = steno_ggml_file_pieces(&f->base, key, 0, err);
    else
        while (!st && steno_gguf_next_text(&l, &piece, &n))
            st = add_marked(f, piece, n, err);
    if (!st && (f->base.pieces < 2 || f->base.pieces > STENO_FUNASR_MAX_VOCAB))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %lld pieces", f->base.name,
                        (long long)f->base.pieces);
    f->info.arch.vocab = f->base.pieces;
    f->info.meta.vocab = (int)f->base.pieces;
    f->info.tokens = f->base.tokens.data;
    f->info.n_tokens = f->base.tokens.len;
    return st;
}

/* ---- statistics ---------------------------------------------------------------------------- */

/* The n numbers in brackets behind a mark of am.mvn, which ends with a zero byte. */
static steno_status read_bracket(const char *text, const char *mark, const char *name, float *out,
                                 size_t n, steno_err *err)
{
    const char *p = strstr(text, mark);
    size_t k = 0;
    p = p ? strchr(p, '[') : NULL;
    for (char *end; p && k < n; k++, p = end) {
        out[k] = strtof(p + (k == 0), &end);
        if (end == p + (k == 0) || !isfinite(out[k]))
            break;
    }
    if (p && k == n && p[strspn(p, " \t\r\n")] == ']')
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is not followed by %zu numbers in brackets",
                      name, mark, n);
}

steno_status steno_funasr_mvn_parse(const char *bytes, size_t size, const char *name,
                                    float *neg_mean, float *inv_stddev, size_t n, steno_err *err)
{
    char *text = malloc(size + 1);
    steno_status st;
    if (!text)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    memcpy(text, bytes, size);
    text[size] = '\0';
    st = read_bracket(text, "<AddShift>", name, neg_mean, n, err);
    if (!st)
        st = read_bracket(text, "<Rescale>", name, inv_stddev, n, err);
    free(text);
    return st;
}

/* Those of the file. False: it has none. */
static bool read_tensor_statistics(const struct steno_ggml_file *f, float *to, size_t n)
{
    static const char *const names[] = {"frontend.cmvn.shift", "frontend.cmvn.scale"};
    for (int i = 0; i < 2; i++) {
        const struct steno_ggml_tensor *t = steno_ggml_file_find(f, names[i]);
        if (!t || t->t.count != n || n % t->type->per)
            return false;
        t->type->read(t->data, n / t->type->per, to + (size_t)i * n);
    }
    return true;
}

/* Those of am.mvn beside the file. *found: there is one. */
static steno_status read_mvn_beside(const char *path, float *to, size_t n, bool *found,
                                    steno_err *err)
{
    char *file = steno_path_beside(path, MVN), *bytes;
    size_t size;
    steno_status st = STENO_OK;
    *found = file && !access(file, R_OK);
    if (!file)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    else if (*found)
        st = steno_file_read(file, MAX_MVN, &bytes, &size, err);
    if (!st && *found) {
        st = steno_funasr_mvn_parse(bytes, size, file, to, to + n, n, err);
        free(bytes);
    }
    free(file);
    return st;
}

static steno_status read_statistics(steno_sense_voice_file *f, steno_err *err)
{
    const size_t n = (size_t)f->info.arch.in;
    float *to = malloc(2 * n * sizeof *to);
    bool found = false;
    steno_status st = STENO_OK;
    if (!to)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->base.name);
    f->info.neg_mean = f->statistics = to;
    f->info.inv_stddev = to + n;
    if (read_tensor_statistics(&f->base, to, n))
        return STENO_OK;
    if (f->base.map.n)
        st = read_mvn_beside(f->base.name, to, n, &found, err);
    if (!st && !found)
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: has no statistics of frames (CMVN), as files of SenseVoice.cpp and "
                        "early ones of CrispASR: put " MVN " of the checkpoint beside it",
                        f->base.name);
    return st;
}

/* ---- opening ------------------------------------------------------------------------------- */

bool steno_sense_voice_file_probe(const char *path)
{
    return steno_ggml_kind_of_file(path) == STENO_GGML_SENSE_VOICE;
}

static steno_status read_all(steno_sense_voice_file *f, steno_err *err)
{
    const struct program *p = f->base.gguf ? program_of(&f->base) : NULL;
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: no GGUF file of SenseVoice as transcribe.cpp, CrispASR and "
                          "SenseVoice.cpp write it",
                          f->base.name);
    f->info.program = p->name;
    st = read_sizes(f, p, err);
    if (!st)
        st = steno_ggml_file_tensors(&f->base, &p->names, err);
    if (!st)
        st = steno_ggml_file_sort(&f->base, err);
    if (!st)
        st = read_queries(f, p, err);
    if (!st)
        st = read_vocabulary(f, p, err);
    if (!st)
        st = read_statistics(f, err);
    f->info.arch.apart =
        steno_ggml_file_find(&f->base, "encoder.encoders0.0.self_attn.linear_q.weight");
    f->info.blocks = steno_ggml_file_in_blocks(&f->base, "ctc.ctc_lo.weight");
    return st;
}

steno_status steno_sense_voice_file_open(steno_sense_voice_file **out, const char *path,
                                         const void *bytes, size_t n, steno_err *err)
{
    steno_sense_voice_file *f = calloc(1, sizeof *f);
    steno_status st = f ? steno_ggml_file_open(&f->base, path, bytes, n, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!st)
        st = read_all(f, err);
    if (st)
        steno_sense_voice_file_close(f);
    else
        *out = f;
    return st;
}

void steno_sense_voice_file_close(steno_sense_voice_file *f)
{
    if (!f)
        return;
    steno_ggml_file_close(&f->base);
    free(f->statistics);
    free(f);
}

steno_status steno_sense_voice_file_check(const steno_sense_voice_file *f, steno_err *err)
{
    return steno_map_check(&f->base.map, f->base.name, err);
}

const struct steno_sense_voice_file_info *
steno_sense_voice_file_info(const steno_sense_voice_file *f)
{
    return &f->info;
}

steno_status steno_sense_voice_file_build(const steno_sense_voice_file *f, struct steno_graph **out,
                                          steno_err *err)
{
    return steno_sense_voice_build(&f->info.arch, &f->base.weights, out, err);
}
