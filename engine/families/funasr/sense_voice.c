/* Family sense_voice: SenseVoiceSmall, a CTC model of a piece of audio at once. The network puts
 * four frames before the audio's: their likeliest pieces are language, emotion, sound and text
 * norm (An et al., "FunAudioLLM", 2024, section 2). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "families/common/token_search.h"
#include "families/common/network_file.h"
#include "families/common/offline.h"
#include "families/common/piece_encoder.h"
#include "families/common/scores.h"
#include "families/common/search_options.h"
#include "families/funasr/family.h"
#include "families/funasr/model.h"
#include "families/option.h"

#define FAMILY "sense_voice"
#define BLANK 0
#define TAGS 4            /* frames before the audio's */
#define FULL 30.0         /* s: maximum length of a chunk */
#define LONGEST 600.0     /* s: maximum length of an utterance */
#define TRIAL_FRAMES 4    /* of 60 ms */
#define UTTERANCE_SLACK 4 /* frames: how far a piece may move from one chunk to the next */

struct model {
    struct steno_funasr_model m;
    struct steno_sense_voice_meta meta;
    struct steno_offline_family offline;
    struct steno_piece_encoder encoder;
    struct steno_search_hints hints;
    char languages[64];
    bool itn; /* the option of streams */
};

/* Of one stream. */
struct settings {
    struct steno_token_search search;
    int32_t language, text_norm;
    const char *code; /* of the language, if it was given */
};

struct worker {
    const struct model *model;
    steno_piece_runs *runs;
    struct steno_funasr_frames frames;
    float *scores; /* [cap] log-probabilities of the audio's frames */
    size_t cap;
};

/* ---- open ------------------------------------------------------------------------------------ */

static bool is_sense_voice(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    return type ? strncmp(type, "sense_voice", 11) == 0
                : steno_onnx_head_has_input(h, "language") &&
                      (steno_onnx_head_has_input(h, "text_norm") ||
                       steno_onnx_head_has_input(h, "textnorm"));
}

static bool probe(const char *dir)
{
    steno_onnx_head *h = steno_network_file_peek(dir, "model");
    const bool is = h && is_sense_voice(h);
    steno_onnx_head_close(h);
    return is;
}

static steno_status check_inputs(const struct model *m, steno_err *err)
{
    const steno_network *net = m->m.net.net;
    if (steno_network_n_inputs(net) == 4 && steno_network_n_outputs(net) >= 1)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: %d inputs, expected 4: frames, their number, language, text norm",
                      m->m.net.name, steno_network_n_inputs(net));
}

static void list_languages(const struct steno_sense_voice_meta *meta, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < STENO_FUNASR_LANGUAGES; i++)
        if (meta->language[i] >= 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "",
                                  steno_funasr_languages[i]);
}

static const char *get_meta(const void *head, const char *key)
{
    return steno_onnx_head_meta(head, key);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    steno_onnx_head *h = steno_network_file_peek(dir, "model");
    const struct steno_funasr_source source = {get_meta, h, dir};
    struct steno_sense_voice_meta meta;
    const bool known = h && !steno_sense_voice_meta_read(&source, &meta, NULL);
    if (known)
        list_languages(&meta, out->languages, sizeof out->languages);
    steno_onnx_head_close(h);
    return known;
}

static void close_model(void *model)
{
    struct model *m = model;
    if (!m)
        return;
    steno_search_hints_close(&m->hints);
    steno_funasr_model_close(&m->m);
    free(m);
}

static void settings_free(void *settings)
{
    struct settings *s = settings;
    if (!s)
        return;
    steno_token_search_close(&s->search);
    free(s);
}

static void recognize(void *worker, struct steno_offline_piece *p, size_t n);

/* As the exporter has the inputs: frames, their number, language, text norm. */
static steno_status open_encoder(struct model *m, steno_err *err)
{
    m->encoder = (struct steno_piece_encoder){.net = m->m.net.net,
                                              .name = m->m.net.name,
                                              .x = 0,
                                              .length = 1,
                                              .numbers = {2, 3},
                                              .n_numbers = 2,
                                              .y = 0,
                                              .lengths = -1,
                                              .ahead = TAGS,
                                              .bins = STENO_FUNASR_BINS * m->m.front.lfr.window,
                                              .dim = (size_t)m->meta.vocab,
                                              .least = 1,
                                              .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->encoder, m->m.threads, m->m.net.quantized, err);
}

static steno_status open_model(void **model, const struct steno_family_open *o, steno_err *err)
{
    struct model *m = calloc(1, sizeof *m);
    struct steno_funasr_source source;
    steno_status st = m ? steno_funasr_model_open(&m->m, o, "model", err)
                        : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (!st) {
        source = steno_funasr_source_of(&m->m);
        st = steno_sense_voice_meta_read(&source, &m->meta, err);
    }
    if (!st)
        st = steno_funasr_tokens_open(&m->m, m->meta.vocab, err);
    if (!st)
        st = check_inputs(m, err);
    if (!st)
        st = steno_search_hints_open(&m->hints, o, m->m.tokens, m->meta.vocab, err);
    if (!st)
        st = open_encoder(m, err);
    if (st) {
        close_model(m);
        return st;
    }
    list_languages(&m->meta, m->languages, sizeof m->languages);
    (void)steno_option_get_flag(o->options, o->n_options, "itn", &m->itn);
    m->offline =
        (struct steno_offline_family){.frame_samples = STENO_FUNASR_HOP * m->m.front.lfr.shift,
                                      .slack = UTTERANCE_SLACK,
                                      .tokens = m->m.tokens,
                                      .recognize = recognize,
                                      .settings_free = settings_free};
    m->offline.cuts = steno_offline_cuts(STENO_FUNASR_RATE, FULL, m->offline.frame_samples);
    *model = m;
    return STENO_OK;
}

static void get_info(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    *out = steno_funasr_info(&m->m);
    steno_offline_info(&m->offline, out);
    out->chunk_seconds = FULL;
    out->endpoint.longest = LONGEST;
    out->languages = m->languages;
    out->detects_language = out->takes_hotwords = true;
    out->batches = m->encoder.batches;
}

static void describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_funasr_describe(&m->m, i, out);
    fprintf(out, "languages  %s, detected where none is named\n", i->languages);
    fprintf(out, "text       %s; emotion and sound of each chunk\n",
            m->itn ? "with punctuation and numbers (itn)" : "as spoken (itn: no)");
    fprintf(out, "decoder    %zu tokens, blank %d%s, hotwords by %s and characters\n",
            i->vocab_size, BLANK, m->hints.lm.ngram ? ", an n-gram model" : "",
            steno_phrases_source(&m->hints.phrases));
    steno_offline_describe(&m->offline, i, out);
}

/* ---- streams --------------------------------------------------------------------------------- */

static int32_t number_of(const struct model *m, const char *language)
{
    for (size_t i = 0; language && i < STENO_FUNASR_LANGUAGES; i++)
        if (strcmp(language, steno_funasr_languages[i]) == 0 && m->meta.language[i] >= 0)
            return m->meta.language[i];
    return m->meta.any;
}

static const char *static_code(const char *language)
{
    for (size_t i = 0; language && i < STENO_FUNASR_LANGUAGES; i++)
        if (strcmp(language, steno_funasr_languages[i]) == 0)
            return steno_funasr_languages[i];
    return NULL;
}

/* Without itn the model writes small letters alone. */
static steno_status open_search(struct steno_token_search *s, const struct model *m,
                                const struct steno_family_stream *o, bool itn, steno_err *err)
{
    struct steno_search_hints h = m->hints;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st;
    h.phrases.lower |= !itn && !h.phrases.upper;
    st = steno_token_search_begin(s, &h, o, &set, err);
    if (st)
        return st;
    c = steno_ctc_options_of(s, &m->hints, &set, o, m->meta.vocab, BLANK);
    return steno_token_search_open(s, &c, err);
}

static steno_status state_new(void **state, void *model, struct steno_family_stream *o,
                              steno_err *err)
{
    const struct model *m = model;
    struct settings *s;
    bool itn = m->itn;
    steno_status st = steno_beam_choose_hotwords(o, err);
    if (!st && o->hints.language && strchr(o->hints.language, ','))
        st = steno_fail(err, STENO_ERR_INVAL,
                        "language: SenseVoice takes one language, or detects which of all it is");
    if (st)
        return st;
    (void)steno_option_get_flag(o->options, o->n_options, "itn", &itn);
    s = calloc(1, sizeof *s);
    st = s ? open_search(&s->search, m, o, itn, err)
           : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (st) {
        settings_free(s);
        return st;
    }
    s->language = number_of(m, o->hints.language);
    s->code = static_code(o->hints.language);
    s->text_norm = itn ? m->meta.with_itn : m->meta.without_itn;
    return steno_offline_new(state, &m->offline, s, o, err);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void worker_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    steno_piece_runs_close(w->runs);
    steno_funasr_frames_close(&w->frames);
    steno_aligned_free(w->scores);
    free(w);
}

static steno_status worker_open(void **worker, void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = calloc(1, sizeof *w);
    steno_status st = w ? steno_piece_runs_open(&w->runs, &m->encoder, m->m.threads, err)
                        : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    (void)max;
    if (!st)
        st = steno_funasr_frames_open(&w->frames, &m->m.front, err);
    if (st) {
        worker_close(w);
        return st;
    }
    w->model = m;
    *worker = w;
    return STENO_OK;
}

/* ---- a chunk --------------------------------------------------------------------------------- */

/* A tag's name, "<|HAPPY|>", and how results call it. Tags that are not here say nothing. */
struct tag {
    const char *piece, *name;
};

static const struct tag emotions[] = {{"<|HAPPY|>", "happy"},        {"<|SAD|>", "sad"},
                                      {"<|ANGRY|>", "angry"},        {"<|NEUTRAL|>", "neutral"},
                                      {"<|FEARFUL|>", "fearful"},    {"<|DISGUSTED|>", "disgusted"},
                                      {"<|SURPRISED|>", "surprised"}};
static const struct tag sounds[] = {{"<|Speech|>", "speech"},     {"<|BGM|>", "bgm"},
                                    {"<|Applause|>", "applause"}, {"<|Laughter|>", "laughter"},
                                    {"<|Cry|>", "cry"},           {"<|Sneeze|>", "sneeze"},
                                    {"<|Breath|>", "breath"},     {"<|Cough|>", "cough"},
                                    {"<|Sing|>", "sing"},         {"<|Speech_Noise|>", "noise"}};

static const char *name_of(const struct tag *t, size_t n, const char *piece)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(t[i].piece, piece) == 0)
            return t[i].name;
    return NULL;
}

static const char *language_of(const char *piece)
{
    for (size_t i = 0; i < STENO_FUNASR_LANGUAGES; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "<|%s|>", steno_funasr_languages[i]);
        if (strcmp(tag, piece) == 0)
            return steno_funasr_languages[i];
    }
    return NULL;
}

/* Read the tags off the first frames of scores. */
static void read_tags(const struct model *m, const struct settings *s, const float *scores,
                      struct steno_offline_piece *p)
{
    const char *piece[TAGS];
    int32_t first = 0;
    for (int i = 0; i < TAGS; i++) {
        const int32_t id = steno_scores_likeliest(scores + i * m->meta.vocab, m->meta.vocab);
        first = i ? first : id;
        piece[i] = steno_tokens_piece(m->m.tokens, id);
    }
    p->language = s->code ? s->code : language_of(piece[0]);
    if (s->code) {
        p->language_probability = 1;
    } else if (p->language) {
        double sum = 0;
        for (int i = 0; i < m->meta.vocab; i++)
            sum += exp((double)scores[i] - (double)scores[first]);
        p->language_probability = (float)(1 / sum);
    }
    p->labels.emotion = name_of(emotions, sizeof emotions / sizeof *emotions, piece[1]);
    p->labels.sound = name_of(sounds, sizeof sounds / sizeof *sounds, piece[2]);
}

/* Search the scores y [rows, vocab] of the audio's frames. */
static steno_status search(struct worker *w, struct steno_token_search *s, const float *y,
                           size_t rows, struct steno_hypothesis_list *out)
{
    const size_t vocab = (size_t)w->model->meta.vocab;
    struct steno_hypothesis h[STENO_MAX_BEAM];
    size_t n, stable;
    steno_status st;
    if (!steno_floats_reserve(&w->scores, &w->cap, rows * vocab))
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < rows; i++)
        steno_log_softmax(y + i * vocab, vocab, w->scores + i * vocab);
    st = steno_token_search_restart(s, 0);
    if (!st)
        st = steno_token_search_push(s, w->scores, rows);
    if (!st)
        st = steno_token_search_list(s, h, s->n_best, &n, &stable);
    return st ? st : steno_hypothesis_list_add_all(out, h, n);
}

static steno_status compute(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct worker *w = worker;
    const struct settings *s = p->of->settings;
    steno_status st = steno_funasr_frames_of(&w->frames, p->of->pcm, p->of->n, n, p->of->err);
    *x = w->frames.rows;
    p->numbers[0] = s->language;
    p->numbers[1] = s->text_norm;
    return st;
}

static steno_status search_piece(struct worker *w, const struct steno_piece *p)
{
    const size_t vocab = (size_t)w->model->meta.vocab;
    struct steno_offline_piece *of = p->of;
    struct settings *s = of->settings;
    steno_status st;
    if (!p->n)
        return STENO_OK;
    if (p->n < TAGS)
        return steno_fail(of->err, STENO_ERR_FORMAT, "%s: %zu frames of scores, expected %d more",
                          w->model->m.net.name, p->n, TAGS);
    st = steno_scores_check(p->rows, p->n * vocab, w->model->m.net.name, of->err);
    if (st)
        return st;
    read_tags(w->model, s, p->rows, of);
    st = search(w, &s->search, p->rows + TAGS * vocab, p->n - TAGS, of->out);
    return st ? steno_fail(of->err, st, "%s", steno_status_info(st)->name) : STENO_OK;
}

static void search_pieces(void *worker, struct steno_piece *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i].of->st = search_piece(worker, &p[i]);
}

static void recognize(void *worker, struct steno_offline_piece *p, size_t n)
{
    static const struct steno_piece_functions f = {compute, search_pieces};
    steno_piece_runs_recognize(((struct worker *)worker)->runs, &f, worker, p, n);
}

static steno_status trial_open(void **trial, void *worker, steno_err *err)
{
    return steno_piece_trial_open(trial, ((struct worker *)worker)->runs, err);
}

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use model.int8.onnx where model.onnx is there too"},
    {FAMILY, "itn", STENO_OPTION_FLAG, STENO_OPTION_OF_STREAM, 0, 0, NULL, "no",
     "write punctuation, and numbers as digits"},
    STENO_SEARCH_OPTIONS(FAMILY),
};

const struct steno_family steno_family_sense_voice = {
    .name = FAMILY,
    .layout = "model.onnx with model_type sense_voice_ctc",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .probe = probe,
    .languages = languages,
    .open = open_model,
    .close = close_model,
    .info = get_info,
    .describe = describe,
    .state_new = state_new,
    STENO_OFFLINE_FUNCTIONS,
    .trial_open = trial_open,
    .trial_run = steno_piece_trial_run,
    .trial_close = steno_piece_trial_close,
    .worker_open = worker_open,
    .worker_close = worker_close};
