/* Family cohere: Cohere Transcribe's encoder and attention decoder, a piece of audio at once.
 *
 *     encoder   mel [1,128,T] -> cross keys and values [L,1,T',d]
 *     decoder   families/common/full_cache.h, with caches [L,1,heads,C,width]
 *
 * The prompt names the language, and whether marks and digits are written. Greedy, as sherpa-onnx
 * (offline-recognizer-cohere-transcribe-impl.h, 1.13.4). */
#include <string.h>

#include "base/arena.h"
#include "base/path.h"
#include "speech/families/common/full_cache.h"
#include "speech/families/common/language_marks.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/search_options.h"
#include "speech/families/entries.h"
#include "speech/features/cmvn.h"
#include "speech/features/logmel.h"

#define FAMILY "cohere"
#define TYPE "cohere-transcribe" /* begins the metadata model_type */
#define RATE 16000
#define BINS 128
#define FRAME_SAMPLES 1280 /* of a frame of the encoder */
#define FULL 30.0          /* s: of a chunk */
#define SLACK 13           /* frames: tokens have no times of their own */
#define TOKENS_A_SECOND 6
#define POSITIONS 1024 /* of the caches, where the file leaves their number open */
#define FRAMES_MIN 16  /* feature frames that the convolutions need */

/* Those that the model was trained for; the vocabulary has marks of more. */
static const char *const languages[] = {"en", "ar", "de", "el", "es", "fr", "it",
                                        "ja", "ko", "nl", "pl", "pt", "vi", "zh"};
#define N_LANGUAGES (sizeof languages / sizeof *languages)

/* The prompt: two places of the language, then marks and digits. */
static const char *const prompt_marks[] = {"<|startofcontext|>",
                                           "<|startoftranscript|>",
                                           "<|emo:undefined|>",
                                           NULL,
                                           NULL,
                                           "<|pnc|>",
                                           "<|itn|>",
                                           "<|notimestamp|>",
                                           "<|nodiarize|>"};
enum { PROMPT = sizeof prompt_marks / sizeof *prompt_marks, SOURCE = 3, TARGET = 4, DIGITS = 6 };

enum { ENCODER, DECODER, PARTS };
static const char *const stems[PARTS] = {"encoder", "decoder"};

/* Frozen after open. */
struct model {
    struct steno_full_cache_model base;
    int64_t prompt[PROMPT]; /* without the language */
    int64_t no_digits;      /* instead of prompt[DIGITS] */
    int32_t end;
    bool itn;
    char languages[64];
};

struct stream {
    struct steno_shell_stream base;
    int64_t prompt[PROMPT];
    const char *language; /* static */
};

struct worker {
    struct steno_full_cache_worker base;
    float *mel; /* [cap] features, bin by bin */
    size_t cap;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_cohere(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type && !strncmp(type, TYPE, strlen(TYPE));
}

static bool probe_cohere(const char *dir)
{
    return steno_path_readable(dir, "tokens.txt") &&
           steno_network_file_is(dir, stems[ENCODER], is_cohere);
}

/* The languages whose marks the vocabulary has; all, with NULL. */
static void list_languages(const steno_tokens *tokens, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < N_LANGUAGES && n < size; i++)
        if (!tokens || steno_language_mark(tokens, languages[i]) >= 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", languages[i]);
}

static bool languages_cohere(const char *dir, struct steno_model_languages *out)
{
    list_languages(NULL, out->languages, sizeof out->languages);
    return *dir;
}

static steno_status find_mark(const struct model *m, const char *mark, int64_t *to, steno_err *err)
{
    *to = steno_tokens_find(m->base.base.tokens, mark);
    return *to >= 0 ? STENO_OK
                    : steno_fail(err, STENO_ERR_FORMAT, "tokens.txt: there is no %s", mark);
}

static void hide_marks(steno_tokens *t)
{
    for (int32_t i = 0; i < steno_tokens_count(t); i++) {
        const char *piece = steno_tokens_piece(t, i);
        const size_t n = strlen(piece);
        if ((n > 4 && !strncmp(piece, "<|", 2) && !strcmp(piece + n - 2, "|>")) ||
            !strcmp(piece, "<unk>") || !strcmp(piece, "<pad>"))
            steno_tokens_hide(t, &i, 1);
    }
}

static steno_status open_tokens_cohere(struct model *m, steno_err *err)
{
    int64_t end = -1;
    steno_status st = steno_shell_open_tokens(&m->base.base, "tokens.txt", err);
    for (int i = 0; i < PROMPT && !st; i++)
        if (prompt_marks[i])
            st = find_mark(m, prompt_marks[i], &m->prompt[i], err);
    if (!st)
        st = find_mark(m, "<|noitn|>", &m->no_digits, err);
    if (!st)
        st = find_mark(m, "<|endoftext|>", &end, err);
    if (st)
        return st;
    m->end = (int32_t)end;
    hide_marks(m->base.base.tokens);
    list_languages(m->base.base.tokens, m->languages, sizeof m->languages);
    return *m->languages ? STENO_OK
                         : steno_fail(err, STENO_ERR_FORMAT,
                                      "tokens.txt: there is no language, such as <|en|>");
}

static steno_status open_networks_cohere(struct model *m, const struct steno_family_open *o,
                                         steno_err *err)
{
    const struct steno_part_file *part = m->base.base.part;
    steno_status st = steno_shell_open_parts(&m->base.base, o, stems, PARTS, err);
    if (!st && (steno_network_n_inputs(part[ENCODER].net) != 1 ||
                steno_network_n_outputs(part[ENCODER].net) != 2))
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "%s: expected one input, features, and two outputs, keys and values",
                        part[ENCODER].name);
    return st ? st
              : steno_full_cache_bind(&m->base.cache, &part[DECODER], 3,
                                      steno_tokens_count(m->base.base.tokens), err);
}

static int64_t positions_of(const struct model *m)
{
    return m->base.cache.dim[3] ? m->base.cache.dim[3] : POSITIONS;
}

static steno_status open_model_cohere(void *model, const struct steno_family_open *o,
                                      steno_err *err)
{
    const struct steno_fbank_options front = steno_logmel_nemo(RATE, BINS);
    struct steno_shell_model *base = model;
    struct model *m = model;
    steno_status st = open_tokens_cohere(m, err);
    m->itn = true;
    (void)steno_option_get_flag(o->options, o->n_options, STENO_OPTION_ITN, &m->itn);
    if (!st)
        st = open_networks_cohere(m, o, err);
    if (!st && positions_of(m) <= PROMPT)
        st =
            steno_fail(err, STENO_ERR_FORMAT, "%s: caches of %lld positions, expected more than %d",
                       base->part[DECODER].name, (long long)positions_of(m), PROMPT);
    if (!st)
        st = steno_fbank_open(&base->front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_shell_set_cuts(base, RATE, FULL, FRAME_SAMPLES, SLACK);
    return steno_shell_try_piece(base, err);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The language of a request; without one the first that the model has, English if it has that. */
static const char *language_of(const struct model *m, const char *given)
{
    for (size_t i = 0; i < N_LANGUAGES; i++)
        if (steno_language_mark(m->base.base.tokens, languages[i]) >= 0 &&
            (!given || !strcmp(given, languages[i])))
            return languages[i];
    return NULL;
}

static steno_status open_stream_cohere(void *stream, const void *model,
                                       struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    struct stream *s = stream;
    bool itn = m->itn;
    o->beam = o->n_best = 1;
    s->language = language_of(m, o->hints.language);
    if (!s->language)
        return steno_fail(err, STENO_ERR_INVAL, "language: the model takes one of %s",
                          m->languages);
    (void)steno_option_get_flag(o->options, o->n_options, STENO_OPTION_ITN, &itn);
    memcpy(s->prompt, m->prompt, sizeof s->prompt);
    s->prompt[SOURCE] = s->prompt[TARGET] = steno_language_mark(m->base.base.tokens, s->language);
    if (!itn)
        s->prompt[DIGITS] = m->no_digits;
    return STENO_OK;
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Encode features x [n, BINS] and hand keys and values to the decoder. *frames: of the encoder. */
static steno_status encode_cohere(struct worker *w, const float *x, size_t n, size_t *frames,
                                  steno_err *err)
{
    const int64_t dim[] = {1, BINS, (int64_t)n};
    struct steno_run r = steno_shell_run(w, ENCODER, err);
    if (!steno_floats_reserve(&w->mel, &w->cap, n * BINS))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < BINS; k++)
            w->mel[k * n + i] = x[i * BINS + k];
    steno_run_set(&r, 0, STENO_F32, dim, 3, w->mel);
    return steno_full_cache_encode(&w->base, &r, frames);
}

static steno_status recognize_cohere(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.base.model;
    const struct stream *s = p->settings;
    const int64_t positions = positions_of(m);
    struct steno_piece_features *f = &w->base.base.features;
    size_t n, frames = 0, most;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    p->language = s->language;
    p->language_probability = 1;
    if (st || n < FRAMES_MIN)
        return st;
    steno_cmvn_utterance(f->frames, n, BINS, &STENO_NORM_NEMO);
    most = n * TOKENS_A_SECOND / 100;
    if (most > (size_t)positions - PROMPT)
        most = (size_t)positions - PROMPT;
    st = encode_cohere(w, f->frames, n, &frames, p->err);
    if (!st)
        st = steno_full_cache_write(&w->base, s->prompt, PROMPT, most, positions, m->end, p->err);
    if (st)
        return st;
    steno_greedy_text_share(&w->base.text, frames);
    return steno_greedy_text_list(&w->base.text, p);
}

static void close_worker_cohere(void *worker)
{
    steno_aligned_free(((struct worker *)worker)->mel);
    steno_full_cache_worker_close(worker);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_cohere(const void *model, struct steno_family_info *out)
{
    out->languages = ((const struct model *)model)->languages;
    out->writes = true;
}

static void describe_cohere(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    const struct steno_part_file *part = m->base.base.part;
    fprintf(out, "model      %s, %s, attention decoder, Cohere Transcribe\n", i->name, i->family);
    fprintf(out, "directory  %s\n", i->dir);
    fprintf(out, "languages  %s; without one in the request, the first\n", i->languages);
    fprintf(out, "features   %d mel bins, %d Hz\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s%s\n", part[ENCODER].name, part[DECODER].name,
            part[DECODER].quantized ? ", 8 bits" : "");
    fprintf(out, "decoder    %zu tokens, %lld layers, %lld positions, no hot words\n",
            i->vocab_size, (long long)m->base.cache.dim[0], (long long)positions_of(m));
    fprintf(out, "times      estimates: the networks give none\n");
    steno_offline_describe(&m->base.base.offline, i, out);
}

static const struct steno_option_info options[] = {STENO_ITN_OPTION(FAMILY)};

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = PARTS,
                                         .open = open_model_cohere,
                                         .info = get_info_cohere,
                                         .describe = describe_cohere,
                                         .stream_open = open_stream_cohere,
                                         .worker_open = steno_full_cache_worker_open,
                                         .worker_close = close_worker_cohere,
                                         .recognize = recognize_cohere};

const struct steno_family steno_family_cohere = {.name = FAMILY,
                                                 .options = options,
                                                 .n_options = sizeof options / sizeof *options,
                                                 .probe = probe_cohere,
                                                 .languages = languages_cohere,
                                                 .shell = &shell,
                                                 STENO_OFFLINE_SHELL};
