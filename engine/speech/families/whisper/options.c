/* The family's options and hints, as the settings of a recording. */
#define _GNU_SOURCE /* mempcpy */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"
#include "speech/families/option.h"
#include "speech/families/whisper/batched.h"
#include "speech/families/whisper/internal.h"
#include "speech/text/language.h"

#define FAMILY "whisper"
#define OPTION(name, kind, min, max, fallback, help)                                               \
    {                                                                                              \
        FAMILY, name, kind, STENO_OPTION_OF_STREAM, min, max, NULL, fallback, help                 \
    }
#define NUMBER(name, min, max, fallback, help)                                                     \
    OPTION(name, STENO_OPTION_NUMBER, min, max, fallback, help)
#define FLAG(name, fallback, help) OPTION(name, STENO_OPTION_FLAG, 0, 0, fallback, help)

/* The names are those of faster-whisper's transcribe, where it has the option. */
const struct steno_option_info steno_whisper_options[STENO_WHISPER_N_OPTIONS] = {
    NUMBER("temperature", 0, 1, "0",
           "temperature of sampling; 0: none, and with temperature_fallback up to 1 where a text "
           "is bad"),
    FLAG("temperature_fallback", "yes", "with temperature 0: try 0.2 to 1 where a text is bad"),
    NUMBER("best_of", 1, STENO_WHISPER_MAX_BEAM, "5", "samples at a temperature above 0"),
    NUMBER("patience", 0.1, 2, "1", "finished hypotheses to wait for, as a multiple of the beam"),
    NUMBER("length_penalty", -10, 10, "1", "score of a hypothesis = log-probability / tokens^this"),
    NUMBER("repetition_penalty", 0.1, 10, "1",
           "above 1: tokens that already occur in the window become less likely"),
    NUMBER("no_repeat_ngram_size", 0, 100, "0",
           "no run of this many tokens comes twice in a window; 0: no limit"),
    NUMBER("compression_ratio_threshold", 0, 1000, "2.4",
           "a text that compresses by more than this repeats itself, and is bad"),
    NUMBER("log_prob_threshold", -1000, 0, "-1",
           "a text is bad if the mean log-probability of its tokens is below this"),
    NUMBER("no_speech_threshold", 0, 1, "0.6",
           "a bad text counts as silence if the probability of no speech is above this"),
    FLAG("condition_on_previous_text", "yes", "the text so far is the prompt of the next window"),
    FLAG("carry_context", "no",
         "live: the text of an utterance is the prompt of the next one, unless 2 s lie between"),
    NUMBER("prompt_reset_on_temperature", 0, 1, "0.5",
           "a window decoded at a higher temperature is not the prompt of the next one"),
    FLAG("without_timestamps", "no", "one section for each window of 30 s"),
    NUMBER("max_initial_timestamp", 0, 30, "1",
           "latest start of the first section of a window, in s"),
    NUMBER("max_new_tokens", 0, 224, "0",
           "maximum tokens of a window; 0: as many as there is room for"),
    FLAG("suppress_blank", "yes", "a window's text begins with neither a blank nor its end"),
    OPTION("suppress_tokens", STENO_OPTION_LIST, -1, 99999, "-1",
           "tokens that are never written; -1: those for sounds, brackets and symbols"),
    NUMBER("hallucination_silence_threshold", 0, 30, "0",
           "silence longer than this, in s, is skipped around words that are probably made up; 0: "
           "none"),
    FLAG("multilingual", "no", "the language is detected in every window"),
    NUMBER("batched", 1, STENO_WHISPER_MOST_CHUNKS, "1",
           "windows of one recording at once; above 1 it is cut in pauses of speech, and no window "
           "knows the text before it"),
};

/* The options that are being applied. */
struct given {
    const struct steno_option *v;
    size_t n;
};

static void get_float(const struct given *g, const char *name, float *io)
{
    double x;
    if (steno_option_get_number(g->v, g->n, name, &x))
        *io = (float)x;
}

static steno_status get_count(const struct given *g, const char *name, size_t *io, steno_err *err)
{
    double x;
    if (!steno_option_get_number(g->v, g->n, name, &x))
        return STENO_OK;
    if (x != floor(x))
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.12g is not a whole number", name, x);
    *io = (size_t)x;
    return STENO_OK;
}

/* One temperature alone, or those from 0 up. */
static void set_temperatures(const struct given *g, struct steno_whisper_decode_options *o)
{
    double t = 0;
    bool fallback = true, any = steno_option_get_number(g->v, g->n, "temperature", &t);
    any |= steno_option_get_flag(g->v, g->n, "temperature_fallback", &fallback);
    if (!any)
        return;
    o->n_temperatures = 1;
    o->temperatures[0] = (float)t;
    for (int i = 1; t == 0 && fallback && i <= 5; i++)
        o->temperatures[o->n_temperatures++] = (float)i / 5;
}

static void set_rules(const struct given *g, struct steno_whisper_recording_options *o)
{
    struct steno_whisper_rules *r = &o->decode.search.rules;
    double seconds;
    bool without;
    get_float(g, "repetition_penalty", &r->repetition_penalty);
    (void)steno_option_get_flag(g->v, g->n, "suppress_blank", &r->no_blank);
    if (steno_option_get_number(g->v, g->n, "max_initial_timestamp", &seconds))
        r->max_initial = (int32_t)lround(seconds / 0.02);
    if (steno_option_get_flag(g->v, g->n, "without_timestamps", &without))
        o->times = !without;
}

/* Numbers of the list into ids, -1 as the model's own. *n: how many; ids NULL: as many as there may
 * be. */
static steno_status read_suppressed(const struct steno_whisper *m, const char *list, int32_t *ids,
                                    size_t *n, steno_err *err)
{
    long id;
    for (*n = 0; steno_option_next(&list, &id);) {
        const size_t more = id < 0 ? m->n_suppressed : 1;
        if (id >= m->dims.vocab)
            return steno_fail(err, STENO_ERR_INVAL,
                              "suppress_tokens: there is no token %ld, the model has %lld", id,
                              (long long)m->dims.vocab);
        for (size_t i = 0; ids && i < more; i++)
            ids[*n + i] = id < 0 ? m->suppressed[i] : (int32_t)id;
        *n += more;
    }
    return STENO_OK;
}

/* Special pieces never come, whatever the list says. */
static steno_status set_suppressed(const struct steno_whisper *m, const struct given *g,
                                   struct steno_whisper_rules *r, int32_t **owned, steno_err *err)
{
    const char *list = steno_option_value(g->v, g->n, "suppress_tokens");
    size_t n;
    steno_status st = list ? read_suppressed(m, list, NULL, &n, err) : STENO_OK;
    int32_t *ids;
    if (!list || st)
        return st;
    ids = malloc((n + STENO_WHISPER_UNWRITTEN) * sizeof *ids);
    if (!ids)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = read_suppressed(m, list, ids, &n, err);
    steno_whisper_unwritten(&m->special, ids + n);
    r->suppress = *owned = ids;
    r->n_suppress = n + STENO_WHISPER_UNWRITTEN;
    return st;
}

steno_status steno_whisper_options_apply(const struct steno_whisper *m,
                                         const struct steno_option *options, size_t n,
                                         struct steno_whisper_recording_options *io,
                                         int32_t **suppressed, steno_err *err)
{
    const struct given g = {options, n};
    struct steno_whisper_decode_options *d = &io->decode;
    steno_status st = get_count(&g, "best_of", &d->search.best_of, err);
    if (!st)
        st = get_count(&g, "max_new_tokens", &d->search.max_new, err);
    if (!st)
        st = get_count(&g, "no_repeat_ngram_size", &d->search.rules.no_repeat_ngram, err);
    if (!st)
        st = get_count(&g, "batched", &io->batched, err);
    if (!st)
        st = set_suppressed(m, &g, &d->search.rules, suppressed, err);
    if (st)
        return st;
    set_temperatures(&g, d);
    set_rules(&g, io);
    get_float(&g, "patience", &d->search.patience);
    get_float(&g, "length_penalty", &d->search.length_penalty);
    get_float(&g, "compression_ratio_threshold", &d->compression);
    get_float(&g, "log_prob_threshold", &d->log_prob);
    get_float(&g, "no_speech_threshold", &d->no_speech);
    (void)steno_option_get_flag(options, n, "condition_on_previous_text", &io->condition);
    (void)steno_option_get_flag(options, n, "carry_context", &io->carry);
    get_float(&g, "prompt_reset_on_temperature", &io->condition_reset);
    (void)steno_option_get_flag(options, n, "multilingual", &io->each_language);
    if (steno_option_get_number(options, n, "hallucination_silence_threshold",
                                &io->hallucination_silence))
        io->words_move = io->hallucination_silence > 0;
    return STENO_OK;
}

/* ---- hints --------------------------------------------------------------------------------- */

/* Copy a text to *at, which moves behind it; NULL for none. */
static const char *put_whisper_options(char **at, const char *text)
{
    char *to = *at;
    size_t n;
    if (!text || !*text)
        return NULL;
    n = strlen(text) + 1;
    memcpy(to, text, n);
    *at += n;
    return to;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* The hotwords, then the phrases of the vocabulary, with ", " between. Room for both is at *at, and
 * one byte more for each of the vocabulary. */
static const char *put_likely_words(char **at, const char *hotwords, const char *vocabulary)
{
    char *const begin = *at, *to = begin;
    const char *phrase;
    float unused;
    size_t n;
    for (; hotwords && *hotwords; hotwords++)
        *to++ = *hotwords;
    while (vocabulary && steno_phrases_next(&vocabulary, &phrase, &n, &unused)) {
        if (to > begin)
            to = stpcpy(to, ", ");
        to = mempcpy(to, phrase, n);
    }
    *to++ = '\0';
    *at = to;
    return to > begin + 1 ? begin : NULL;
}

/* One language is given; of several with commas between, one is detected; of none, any. */
static void set_language(const char *text, struct steno_whisper_recording_options *io)
{
    const char *list = text && strchr(text, ',') ? text : NULL;
    io->language = text && !list ? steno_language_find(text) : -1;
    io->among = (struct steno_whisper_languages){{0}};
    while (list) {
        char one[STENO_LANGUAGE_ITEM];
        int i;
        steno_language_next(&list, one);
        i = steno_language_find(one);
        if (i >= 0)
            io->among.bits[i / 64] |= UINT64_C(1) << i % 64;
    }
}

steno_status steno_whisper_hints_apply(const struct steno_hints *h, const char *vocabulary,
                                       struct steno_whisper_recording_options *io, char **texts,
                                       steno_err *err)
{
    char *at = malloc(size_of(h->prompt) + size_of(h->prefix) + size_of(h->hotwords) +
                      2 * size_of(vocabulary) + 3);
    if (!at)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    *texts = at;
    set_language(h->language, io);
    io->translate = h->translate;
    io->prompt = put_whisper_options(&at, h->prompt);
    io->prefix = put_whisper_options(&at, h->prefix);
    io->hotwords = put_likely_words(&at, h->hotwords, vocabulary);
    return STENO_OK;
}
