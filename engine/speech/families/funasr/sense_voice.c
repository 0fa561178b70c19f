/* Family sense_voice: SenseVoiceSmall, a CTC model of a piece of audio at once. The network puts
 * four frames before the audio's: their likeliest pieces are language, emotion, sound and text
 * norm (An et al., "FunAudioLLM", 2024, section 2). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/scores.h"
#include "speech/families/common/search_options.h"
#include "speech/families/entries.h"
#include "speech/families/funasr/file.h"
#include "speech/families/funasr/model.h"
#include "speech/families/option.h"

#define FAMILY "sense_voice"
#define BLANK 0
#define TAGS 4            /* frames before the audio's */
#define FULL 30.0         /* s: maximum length of a chunk */
#define LONGEST 600.0     /* s: maximum length of an utterance */
#define TRIAL_FRAMES 4    /* of 60 ms */
#define UTTERANCE_SLACK 4 /* frames: how far a piece may move from one chunk to the next */

struct model {
    struct steno_funasr_model m;
    steno_sense_voice_file *file; /* that the network is made from; NULL: it has a file */
    struct steno_sense_voice_meta meta;
    char languages[64];
    bool itn; /* the option of streams */
};

/* Of one stream. */
struct stream {
    struct steno_shell_stream base;
    int32_t language, text_norm;
    const char *code; /* of the language, if it was given */
};

struct worker {
    struct steno_shell_worker base;
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

static bool probe_sense_voice(const char *dir)
{
    return steno_network_file_is(dir, "model", is_sense_voice) || steno_sense_voice_file_probe(dir);
}

static steno_status check_inputs(const struct model *m, steno_err *err)
{
    const steno_network *net = m->m.base.part[0].net;
    if (steno_network_n_inputs(net) == 4 && steno_network_n_outputs(net) >= 1)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: %d inputs, expected 4: frames, their number, language, text norm",
                      m->m.base.part[0].name, steno_network_n_inputs(net));
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

static bool file_languages(const char *path, char *out, size_t size)
{
    steno_sense_voice_file *f;
    if (!steno_sense_voice_file_probe(path) || steno_sense_voice_file_open(&f, path, NULL, 0, NULL))
        return false;
    list_languages(&steno_sense_voice_file_info(f)->meta, out, size);
    steno_sense_voice_file_close(f);
    return true;
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
    return known || file_languages(dir, out->languages, sizeof out->languages);
}

/* As the exporter has the inputs: frames, their number, language, text norm. */
static steno_status open_encoder(struct model *m, steno_err *err)
{
    struct steno_piece_encoder *e = &m->m.base.pieces;
    *e = (struct steno_piece_encoder){.net = m->m.base.part[0].net,
                                      .name = m->m.base.part[0].name,
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
    return steno_piece_encoder_try(e, m->m.base.threads, m->m.base.part[0].quantized, err);
}

static steno_status make_network_sense_voice(void *file, struct steno_graph **out, steno_err *err)
{
    return steno_sense_voice_file_build(file, out, err);
}

static steno_status open_one_file(struct model *m, const struct steno_family_open *o,
                                  steno_err *err)
{
    const struct steno_sense_voice_file_info *i;
    struct steno_graph_source source = {make_network_sense_voice, NULL, "model"};
    steno_status st = steno_sense_voice_file_open(&m->file, o->dir, NULL, 0, err);
    if (st)
        return st;
    i = steno_sense_voice_file_info(m->file);
    m->meta = i->meta;
    m->m.base.part[0].name = strdup("model");
    if (!m->m.base.part[0].name)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    source.arg = m->file;
    st = steno_part_made_open(&m->m.base.part[0].net, o, &source, i->blocks, err);
    if (!st)
        st = steno_sense_voice_file_check(m->file, err);
    if (!st)
        st = steno_tokens_parse(&m->m.base.tokens, i->tokens, i->n_tokens, o->dir, err);
    if (!st &&
        (st = steno_funasr_front_make(&m->m.front, &i->lfr, i->neg_mean, i->inv_stddev, err)))
        st = steno_fail_in(err, STENO_ERR_FORMAT, "%s", o->dir);
    return st ? st : steno_funasr_fbank_open(&m->m.base, err);
}

static steno_status open_directory(struct model *m, const struct steno_family_open *o,
                                   steno_err *err)
{
    struct steno_funasr_source source;
    steno_status st = steno_funasr_model_open(&m->m, o, "model", err);
    if (st)
        return st;
    source = steno_funasr_source_of(&m->m.base.part[0]);
    st = steno_sense_voice_meta_read(&source, &m->meta, err);
    return st ? st : steno_funasr_tokens_open(&m->m, m->meta.vocab, err);
}

static void close_model_sense_voice(void *model)
{
    struct model *m = model;
    steno_funasr_model_close(&m->m);
    steno_sense_voice_file_close(m->file);
}

static steno_status open_model_sense_voice(void *model, const struct steno_family_open *o,
                                           steno_err *err)
{
    struct model *m = model;
    steno_status st =
        steno_sense_voice_file_probe(o->dir) ? open_one_file(m, o, err) : open_directory(m, o, err);
    if (!st)
        st = check_inputs(m, err);
    if (!st)
        st = steno_search_hints_open(&m->m.base.hints, o, m->m.base.tokens, m->meta.vocab, err);
    if (st)
        return st;
    list_languages(&m->meta, m->languages, sizeof m->languages);
    (void)steno_option_get_flag(o->options, o->n_options, "itn", &m->itn);
    steno_shell_set_cuts(&m->m.base, STENO_FUNASR_RATE, FULL,
                         STENO_FUNASR_HOP * m->m.front.lfr.shift, UTTERANCE_SLACK);
    return open_encoder(m, err);
}

static void get_info_sense_voice(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->chunk_seconds = FULL;
    out->endpoint.longest = LONGEST;
    out->languages = m->languages;
    out->detects_language = true;
}

static void describe_sense_voice(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    steno_funasr_describe(&m->m, i, out);
    if (m->file)
        fprintf(out, "file       GGUF of %s\n", steno_sense_voice_file_info(m->file)->program);
    fprintf(out, "languages  %s, detected where none is named\n", i->languages);
    fprintf(out, "text       %s; emotion and sound of each chunk\n",
            m->itn ? "with punctuation and numbers (itn)" : "as spoken (itn: no)");
    steno_shell_describe_search(&m->m.base, i, "0", out); /* BLANK */
    steno_offline_describe(&m->m.base.offline, i, out);
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
    struct steno_search_hints h = m->m.base.hints;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st;
    h.phrases.lower |= !itn && !h.phrases.upper;
    st = steno_token_search_begin(s, &h, o, &set, err);
    if (st)
        return st;
    c = steno_ctc_options_of(s, &m->m.base.hints, &set, o, m->meta.vocab, BLANK);
    return steno_token_search_open(s, &c, err);
}

static steno_status open_stream_sense_voice(void *stream, const void *model,
                                            struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    struct stream *s = stream;
    bool itn = m->itn;
    steno_status st = steno_beam_choose_hotwords(o, err);
    if (!st && o->hints.language && strchr(o->hints.language, ','))
        st = steno_fail(err, STENO_ERR_INVAL,
                        "language: SenseVoice takes one language, or detects which of all it is");
    if (st)
        return st;
    (void)steno_option_get_flag(o->options, o->n_options, "itn", &itn);
    s->language = number_of(m, o->hints.language);
    s->code = static_code(o->hints.language);
    s->text_norm = itn ? m->meta.with_itn : m->meta.without_itn;
    return open_search(&s->base.search, m, o, itn, err);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void close_worker_sense_voice(void *worker)
{
    struct worker *w = worker;
    steno_aligned_free(w->frames.rows);
    steno_aligned_free(w->scores);
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
static void read_tags(const struct model *m, const struct stream *s, const float *scores,
                      struct steno_offline_piece *p)
{
    const char *piece[TAGS];
    int32_t first = 0;
    for (int i = 0; i < TAGS; i++) {
        const int32_t id = steno_scores_likeliest(scores + i * m->meta.vocab, m->meta.vocab);
        first = i ? first : id;
        piece[i] = steno_tokens_piece(m->m.base.tokens, id);
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

static steno_status features_sense_voice(void *worker, struct steno_piece *p, float **x, size_t *n)
{
    struct worker *w = worker;
    const struct stream *s = p->of->settings;
    const struct model *m = w->base.model;
    steno_status st = steno_funasr_frames_of(&w->frames, &m->m.front, &w->base.features, p->of->pcm,
                                             p->of->n, n, p->of->err);
    *x = w->frames.rows;
    p->numbers[0] = s->language;
    p->numbers[1] = s->text_norm;
    return st;
}

static steno_status search(void *worker, const struct steno_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    const size_t vocab = (size_t)m->meta.vocab, rows = p->n - TAGS;
    steno_status st;
    if (!p->n)
        return STENO_OK;
    if (p->n < TAGS)
        return steno_fail(p->of->err, STENO_ERR_FORMAT,
                          "%s: %zu frames of scores, expected %d more", m->m.base.part[0].name,
                          p->n, TAGS);
    st = steno_scores_check(p->rows, TAGS * vocab, m->m.base.part[0].name, p->of->err);
    if (st)
        return st;
    read_tags(m, p->of->settings, p->rows, p->of);
    if (!steno_floats_reserve(&w->scores, &w->cap, rows * vocab))
        return steno_fail(p->of->err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < rows; i++)
        steno_log_softmax(p->rows + (i + TAGS) * vocab, vocab, w->scores + i * vocab);
    st = steno_shell_search_scores(p->of, w->scores, rows, m->m.base.part[0].name);
    return st ? st : steno_shell_list(p->of);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_sense_voice,
                                         .close = close_model_sense_voice,
                                         .info = get_info_sense_voice,
                                         .describe = describe_sense_voice,
                                         .stream_open = open_stream_sense_voice,
                                         .worker_close = close_worker_sense_voice,
                                         .features = features_sense_voice,
                                         .search = search};

static const struct steno_option_info options[] = {
    {FAMILY, "quantized", STENO_OPTION_FLAG, STENO_OPTION_OF_MODEL, 0, 0, NULL, "no",
     "use model.int8.onnx where model.onnx is there too"},
    {FAMILY, "itn", STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0, "auto|on|off", "auto",
     "write punctuation, and numbers as digits"},
    STENO_SEARCH_OPTIONS(FAMILY),
};

const struct steno_family steno_family_sense_voice = {.name = FAMILY,
                                                      .options = options,
                                                      .n_options = sizeof options / sizeof *options,
                                                      .probe = probe_sense_voice,
                                                      .languages = languages,
                                                      .shell = &shell,
                                                      STENO_OFFLINE_SHELL};
