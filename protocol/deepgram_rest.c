/* Deepgram's REST form: what a request wants, and the answer. */
#include "protocol/deepgram.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/dialect.h"
#include "protocol/dictated.h"
#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/numerals.h"
#include "protocol/query.h"
#include "protocol/word.h"
#include "protocol/then.h"

#define PARAGRAPH_PAUSE 1.0           /* s between two sentences that begins a paragraph */
#define PARAGRAPH_SENTENCES 5         /* at most */
#define NO_CONFIDENCE (-1.0f)         /* of a speaker: it is not told */
#define SPEAKER_BYTES 24              /* "Speaker 4294967295: " */
#define OWN_PUNCTUATION "punctuation" /* the option of families that Deepgram's parameters set */

/* ---- what is wanted -------------------------------------------------------------------------- */

static bool *flag_of(struct steno_deepgram_wants *w, const char *name)
{
    if (!strcmp(name, "detect_language"))
        return &w->detect_language;
    if (!strcmp(name, "punctuate"))
        return &w->punctuate;
    if (!strcmp(name, "numerals"))
        return &w->numerals;
    if (!strcmp(name, "smart_format"))
        return &w->smart_format;
    if (!strcmp(name, "dictation"))
        return &w->dictation;
    if (!strcmp(name, "measurements"))
        return &w->measurements;
    if (!strcmp(name, "paragraphs"))
        return &w->paragraphs;
    return !strcmp(name, "utterances") ? &w->utterances : NULL;
}

static bool is_keyword(const char *name)
{
    return !strcmp(name, "keywords") || !strcmp(name, "keyterm");
}

/* Filters of the text; each may be given several times. */
static bool is_filter(const char *name)
{
    return !strcmp(name, "redact") || !strcmp(name, "replace");
}

bool steno_deepgram_is_want(const char *name)
{
    struct steno_deepgram_wants w;
    return flag_of(&w, name) || is_keyword(name) || is_filter(name) || !strcmp(name, "language") ||
           !strcmp(name, "filler_words") || !strcmp(name, "profanity_filter") ||
           !strcmp(name, OWN_PUNCTUATION);
}

/* Take the boost off "word:2.5": hotwords have no weights. Returns it; 1 if there is none. */
static double take_boost(char *word)
{
    char *colon = strrchr(word, ':');
    if (!colon || colon == word || !colon[1] || colon[1 + strspn(colon + 1, "+-.0123456789")])
        return 1;
    *colon = '\0';
    return strtod(colon + 1, NULL);
}

/* A keyword without a boost above 0 is none: 0 is Deepgram's way to say that it was not given, and
 * no search makes a word less likely. */
static steno_status add_keyword(struct steno_deepgram_wants *w, struct steno_hint_store *hints,
                                const char *name, const char *value, steno_err *err)
{
    char *word = strdup(value);
    double boost = 1;
    steno_status st = STENO_OK;
    if (!word)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (!strcmp(name, "keywords"))
        boost = take_boost(word);
    if (boost > 0)
        st = steno_hint_add(hints, "hotwords", word, err);
    else if (boost < 0)
        steno_deepgram_note_unsupported(w, name, value);
    free(word);
    return st;
}

/* detect_language=en&detect_language=de: one of these. The first one replaces `language`. */
static steno_status add_language(struct steno_deepgram_wants *w, struct steno_hint_store *hints,
                                 const char *language, steno_err *err)
{
    char all[2 * STENO_LANGUAGE_BYTES];
    const bool more = w->detect_language && *hints->language;
    snprintf(all, sizeof all, "%s%s%s", more ? hints->language : "", more ? "," : "", language);
    w->detect_language = true;
    return steno_hint_set(hints, "language", all, err);
}

void steno_deepgram_default_options(struct steno_options *o)
{
    (void)!steno_options_set(o, OWN_PUNCTUATION, "off", NULL); /* a known name and value */
}

steno_status steno_deepgram_want(struct steno_deepgram_wants *w, struct steno_hint_store *hints,
                                 struct steno_options *options, const char *name, const char *value,
                                 steno_err *err)
{
    bool *flag = flag_of(w, name);
    bool on;
    steno_status st;
    if (!strcmp(name, OWN_PUNCTUATION)) {
        w->own_punctuation = true;
        return steno_options_set(options, name, value, err);
    }
    if (is_keyword(name))
        return add_keyword(w, hints, name, value, err);
    if (is_filter(name) && (!*value || !strcmp(value, "false")))
        return STENO_OK;
    if (!strcmp(name, "profanity_filter") && !hints->profanity) {
        steno_deepgram_note_unsupported(w, name, value);
        return steno_query_bool(name, value, &on, err);
    }
    if (!flag)
        return steno_hint_set(hints, name, value, err);
    st = steno_query_bool(name, value, &on, err); /* "no" is false, not Norwegian */
    if (st && flag == &w->detect_language && steno_language_code(value))
        return add_language(w, hints, value, err);
    if (st)
        return st;
    *flag = on;
    if (flag == &w->detect_language && on)
        st = steno_hint_set(hints, "language", "", err);
    if (!st && on && !w->own_punctuation &&
        (flag == &w->punctuate || flag == &w->smart_format || flag == &w->paragraphs))
        st = steno_options_set(options, OWN_PUNCTUATION, "auto", err);
    return st;
}

/* Whether a value says no: what is not wanted need not be there. */
static bool is_off(const char *name, const char *value)
{
    bool on;
    return !steno_query_bool(name, value, &on, NULL) && !on;
}

/* Parameters about the request, not about its text. */
static bool is_neutral(const char *name)
{
    static const char *const names[] = {"tag", "mip_opt_out", "no_delay", "version",
                                        "callback_method"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

void steno_deepgram_note_unsupported(struct steno_deepgram_wants *w, const char *name,
                                     const char *value)
{
    const size_t n = strlen(name), had = strlen(w->unsupported);
    const char *at = strstr(w->unsupported, name);
    if (is_off(name, value) || is_neutral(name) ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]") != n ||
        !n)
        return;
    if (at && (at == w->unsupported || at[-1] == ' ') && (!at[n] || at[n] == ' '))
        return;
    if (had + n + 2 <= sizeof w->unsupported)
        snprintf(w->unsupported + had, sizeof w->unsupported - had, "%s%s", had ? " " : "", name);
}

steno_status steno_deepgram_diarize(struct steno_deepgram_wants *w, const char *name,
                                    const char *value, bool *speakers, steno_err *err)
{
    const bool model = !strcmp(name, "diarize_model") && !is_off(name, value);
    bool on = model;
    steno_status st = strcmp(name, "diarize") ? STENO_OK : steno_query_bool(name, value, &on, err);
    if (model && strcmp(value, "latest") && strcmp(value, "v1") && strcmp(value, "v2"))
        st = steno_fail(err, STENO_ERR_INVAL, "diarize_model: '%.40s' is not one of latest, v1, v2",
                        value);
    if (on && !w->no_networks)
        *speakers = true;
    else
        steno_deepgram_note_unsupported(w, name, value);
    return st;
}

static bool wants_digits(const struct steno_deepgram_wants *w)
{
    return w->numerals || w->smart_format;
}

/* As Deepgram documents it: the marks are punctuation. */
static bool wants_marks(const struct steno_deepgram_wants *w)
{
    return w->dictation && (w->punctuate || w->smart_format || w->paragraphs);
}

static bool wants_english(const struct steno_deepgram_wants *w)
{
    return wants_digits(w) || wants_marks(w) || w->measurements;
}

void steno_deepgram_note_language(struct steno_deepgram_wants *w, const char *language)
{
    const char *code = language ? steno_language_code(language) : NULL;
    w->not_english = wants_english(w) && (!code || strcmp(code, "en") != 0);
}

/* Append a warning about a parameter of n bytes. *any becomes true. */
static steno_status put_warning(struct steno_buf *b, bool *any, const char *name, size_t n,
                                const char *type, const char *message)
{
    steno_status st =
        steno_json_printf(b, "%-s{\"parameter\":\"%-.*s\",\"type\":\"%-s\",\"message\":%s",
                          *any ? "," : ",\"warnings\":[", (int)n, name, type, message);
    *any = true;
    return st ? st : steno_buf_puts(b, "}");
}

/* Append what is wanted and is for English alone. */
static steno_status put_not_english(struct steno_buf *b, const struct steno_deepgram_wants *w,
                                    bool *any)
{
    const struct {
        bool wanted;
        const char *name, *message;
    } rows[] = {
        {w->numerals, "numerals", "numbers become digits in English only"},
        {w->smart_format && !w->numerals, "smart_format", "numbers become digits in English only"},
        {wants_marks(w), "dictation", "marks that are said become signs in English only"},
        {w->measurements, "measurements", "units become signs in English only"}};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !st; i++)
        if (rows[i].wanted)
            st = put_warning(b, any, rows[i].name, strlen(rows[i].name), "unsupported_language",
                             rows[i].message);
    return st;
}

steno_status steno_deepgram_put_warnings(struct steno_buf *b, const struct steno_deepgram_wants *w,
                                         const char *recording)
{
    steno_status st = STENO_OK;
    const char *p = w->unsupported;
    bool any = false;
    for (size_t n; !st && *p; p += n + (p[n] == ' ')) {
        n = strcspn(p, " ");
        st = put_warning(b, &any, p, n, "unsupported_parameter",
                         w->no_networks && !strncmp(p, "diarize", strlen("diarize"))
                             ? STENO_VOICES_MISSING
                             : "this server cannot do what the parameter asks for");
    }
    if (!st && w->dictation && !wants_marks(w))
        st = put_warning(b, &any, "dictation", strlen("dictation"), "unsupported_parameter",
                         "it has an effect with punctuate=true alone");
    if (!st && w->not_english)
        st = put_not_english(b, w, &any);
    if (!st && recording && *recording)
        st = put_warning(b, &any, "", 0, "audio", recording);
    return !st && any ? steno_buf_puts(b, "]") : st;
}

steno_status steno_deepgram_put_created(struct steno_buf *b, int64_t seconds)
{
    char text[32] = "";
    time_t t = (time_t)seconds;
    struct tm tm;
    if (gmtime_r(&t, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return steno_buf_printf(b, ",\"created\":\"%s\"", text);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Append a word as it sounds: in lower case, without punctuation around it. */
static steno_status put_bare(struct steno_buf *b, const char *word)
{
    struct steno_buf low;
    steno_status st;
    steno_buf_init(&low, SIZE_MAX / 2);
    st = steno_word_add_low(&low, word);
    THEN(st, steno_json_put_string(b, low.data ? low.data : "", low.len));
    steno_buf_free(&low);
    return st;
}

static steno_status put_word(struct steno_buf *b, const struct steno_deepgram_wants *wants,
                             const struct steno_word *w)
{
    steno_status st;
    if (!wants->punctuate && !wants->smart_format)
        return steno_json_put_member(b, "word", w->text);
    st = steno_buf_puts(b, "\"word\":");
    THEN(st, put_bare(b, w->text));
    return st ? st : steno_json_printf(b, ",\"punctuated_word\":%s", w->text);
}

static struct steno_attribution voice_of(const struct steno_deepgram_wants *wants,
                                         const struct steno_word *w)
{
    if (wants->voices)
        return steno_transcript_voice_at(wants->voices, w->start);
    return (struct steno_attribution){steno_live_voice_at(wants->live_voices, w->start),
                                      NO_CONFIDENCE};
}

/* Append a speaker, whom Deepgram counts from 0. */
static steno_status put_voice(struct steno_buf *b, struct steno_attribution v, bool of_word)
{
    if (!v.speaker)
        return STENO_OK;
    return of_word && v.confidence > NO_CONFIDENCE
               ? steno_buf_printf(b, ",\"speaker\":%u,\"speaker_confidence\":%.4f", v.speaker - 1,
                                  (double)v.confidence)
               : steno_buf_printf(b, ",\"speaker\":%u", v.speaker - 1);
}

static steno_status deepgram_words(struct steno_buf *b, const struct steno_deepgram_wants *wants,
                                   const struct steno_word *w, size_t n)
{
    steno_status st = steno_buf_puts(b, "\"words\":[");
    for (size_t i = 0; !st && i < n; i++) {
        st = steno_buf_puts(b, i ? ",{" : "{");
        THEN(st, put_word(b, wants, &w[i]));
        THEN(st, steno_buf_printf(b, ",\"start\":%.3f,\"end\":%.3f,\"confidence\":%.4f",
                                  wants->offset + w[i].start, wants->offset + w[i].end,
                                  (double)w[i].confidence));
        THEN(st, put_voice(b, voice_of(wants, &w[i]), true));
        THEN(st, steno_buf_puts(b, "}"));
    }
    return st ? st : steno_buf_puts(b, "]");
}

/* The first word from i on that another speaker says. */
static size_t end_of_voice(const struct steno_deepgram_wants *w, const struct steno_alternative *a,
                           size_t i)
{
    const unsigned speaker = voice_of(w, &a->words[i]).speaker;
    while (i < a->n_words && voice_of(w, &a->words[i]).speaker == speaker)
        i++;
    return i;
}

/* Format what each speaker says: a number has one. */
static steno_status format_voices(const struct steno_deepgram_wants *w,
                                  const struct steno_alternative *in, steno_arena *arena,
                                  struct steno_alternative *out)
{
    struct steno_buf text;
    struct steno_word *words = steno_arena_calloc(arena, in->n_words, sizeof *words);
    const char *from = in->text;
    size_t n = 0;
    steno_status st = words ? STENO_OK : steno_arena_failure(arena);
    steno_buf_init(&text, SIZE_MAX / 2);
    for (size_t i = 0, end = 0; i < in->n_words && !st; i = end) {
        struct steno_alternative part = *in, shown;
        const char *to = from;
        char *own;
        end = end_of_voice(w, in, i);
        part.words = in->words + i;
        part.n_words = end - i;
        for (size_t k = i; k < end && end < in->n_words; k++) {
            const char *p = strstr(to, in->words[k].text);
            to = p ? p + strlen(in->words[k].text) : to;
        }
        if (end == in->n_words) /* what follows the last word, too */
            to += strlen(to);
        part.text = own = steno_arena_calloc(arena, (size_t)(to - from) + 1, 1);
        if (!own)
            st = steno_arena_failure(arena);
        else
            memcpy(own, from, (size_t)(to - from));
        THEN(st, steno_numerals_write(&part, w->smart_format, arena, &shown, NULL));
        THEN(st, steno_buf_puts(&text, shown.text));
        for (size_t k = 0; !st && k < shown.n_words; k++)
            words[n++] = shown.words[k];
        from = to;
    }
    *out = *in;
    out->words = words;
    out->n_words = n;
    out->text = st ? NULL : steno_arena_strdup(arena, text.data ? text.data : "");
    steno_buf_free(&text);
    return st || out->text ? st : steno_arena_failure(arena);
}

steno_status steno_deepgram_format(const struct steno_deepgram_wants *w,
                                   struct steno_alternative *a, steno_arena **arena)
{
    struct steno_alternative in = *a;
    steno_status st = STENO_OK;
    *arena = NULL;
    if (!wants_english(w) || w->not_english || !in.n_words)
        return STENO_OK;
    *arena = steno_arena_new(0);
    if (!*arena)
        return STENO_ERR_NOMEM;
    if (wants_digits(w))
        st = format_voices(w, &in, *arena, a);
    in = *a;
    if (!st && (wants_marks(w) || w->measurements))
        st = steno_dictated_write(&in, wants_marks(w), w->measurements, *arena, a);
    return st;
}

static steno_status put_formatted(struct steno_buf *b, const struct steno_deepgram_wants *w,
                                  const struct steno_alternative *a)
{
    steno_status st = steno_json_printf(b, "\"transcript\":%s,\"confidence\":%.4f,", a->text,
                                        (double)a->confidence);
    return st ? st : deepgram_words(b, w, a->words, a->n_words);
}

steno_status steno_deepgram_put_text(struct steno_buf *b, const struct steno_deepgram_wants *w,
                                     const struct steno_alternative *a)
{
    struct steno_alternative shown = *a;
    steno_arena *arena;
    steno_status st = steno_deepgram_format(w, &shown, &arena);
    THEN(st, put_formatted(b, w, &shown));
    steno_arena_free(arena);
    return st;
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* A walk over a text and its words. */
struct walk {
    const struct steno_alternative *a;
    const struct steno_deepgram_wants *wants;
    size_t word, at; /* the next one; where in the text the last one ended */
};

static struct steno_attribution voice_at(const struct walk *w, size_t word)
{
    return voice_of(w->wants, &w->a->words[word]);
}

/* Whether the next word has another speaker than the last one. */
static bool changes(const struct walk *w)
{
    return w->word && w->word < w->a->n_words &&
           voice_at(w, w->word).speaker != voice_at(w, w->word - 1).speaker;
}

/* Move over one sentence: its text [*n] and its words [*from, w->word). */
static const char *next_sentence(struct walk *w, size_t *n, size_t *from)
{
    const char *begin = NULL;
    *from = w->word;
    while (w->word < w->a->n_words) {
        const char *word = w->a->words[w->word++].text, *p = strstr(w->a->text + w->at, word);
        if (p) {
            begin = begin ? begin : p;
            w->at = (size_t)(p - w->a->text) + strlen(word);
        }
        if (steno_word_ends_sentence(word) || changes(w))
            break;
    }
    *n = begin ? (size_t)(w->a->text + w->at - begin) : 0;
    return begin ? begin : "";
}

static steno_status put_sentence(struct steno_buf *b, const char *text, size_t n,
                                 const struct steno_word *first, const struct steno_word *last)
{
    steno_status st = steno_buf_puts(b, "{\"text\":");
    THEN(st, steno_json_put_string(b, text, n));
    return st ? st : steno_buf_printf(b, ",\"start\":%.3f,\"end\":%.3f}", first->start, last->end);
}

/* Append one paragraph and add its text to all. */
static steno_status put_paragraph(struct steno_buf *b, struct walk *w, struct steno_buf *all)
{
    const size_t first = w->word;
    const struct steno_word *words = w->a->words;
    const struct steno_attribution voice = voice_at(w, first);
    steno_status st = steno_buf_puts(all, first ? "\n\n" : "\n");
    if (!st && voice.speaker)
        st = steno_buf_printf(all, "Speaker %u: ", voice.speaker - 1);
    THEN(st, steno_buf_puts(b, "{\"sentences\":["));
    for (int k = 0; !st && k < PARAGRAPH_SENTENCES && w->word < w->a->n_words; k++) {
        size_t n, from;
        const char *text;
        if (k && (changes(w) || words[w->word].start - words[w->word - 1].end >= PARAGRAPH_PAUSE))
            break;
        text = next_sentence(w, &n, &from);
        if (k)
            st = steno_buf_puts(all, " ");
        THEN(st, steno_buf_add(all, text, n));
        if (!st && k)
            st = steno_buf_puts(b, ",");
        THEN(st, put_sentence(b, text, n, &words[from], &words[w->word - 1]));
    }
    THEN(st, steno_buf_printf(b, "],\"num_words\":%zu,\"start\":%.3f,\"end\":%.3f", w->word - first,
                              words[first].start, words[w->word - 1].end));
    THEN(st, put_voice(b, voice, false));
    return st ? st : steno_buf_puts(b, "}");
}

/* Append "paragraphs":{"transcript","paragraphs":[...]}. */
static steno_status put_paragraphs(struct steno_buf *b, const struct steno_alternative *a,
                                   const struct steno_deepgram_wants *wants)
{
    struct walk w = {.a = a, .wants = wants};
    struct steno_buf all;
    steno_status st = steno_buf_puts(b, "\"paragraphs\":{\"paragraphs\":[");
    steno_buf_init(&all, 3 * strlen(a->text) + 16 + SPEAKER_BYTES * a->n_words);
    while (!st && w.word < a->n_words) {
        if (w.word)
            st = steno_buf_puts(b, ",");
        THEN(st, put_paragraph(b, &w, &all));
    }
    THEN(st, steno_buf_puts(b, "],\"transcript\":"));
    THEN(st, steno_json_put_string(b, all.data ? all.data : "", all.len));
    steno_buf_free(&all);
    return st ? st : steno_buf_puts(b, "}");
}

/* ---- the answer ------------------------------------------------------------------------------ */

static steno_status put_alternative(struct steno_buf *b, const struct steno_alternative *a,
                                    const struct steno_deepgram_wants *w)
{
    const bool divides = w->paragraphs || w->smart_format;
    struct steno_alternative shown = *a;
    steno_arena *arena;
    steno_status st = steno_deepgram_format(w, &shown, &arena);
    THEN(st, steno_buf_puts(b, "{"));
    THEN(st, put_formatted(b, w, &shown));
    if (!st && divides)
        st = steno_buf_puts(b, ",");
    if (!st && divides)
        st = put_paragraphs(b, &shown, w);
    steno_arena_free(arena);
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status put_utterance(struct steno_buf *b, const steno_transcript *t, size_t i,
                                  const struct steno_deepgram_about *a)
{
    const struct steno_event *seg = steno_transcript_segment(t, i);
    const unsigned channel = steno_transcript_segment_channel(t, i); /* Deepgram counts from 0 */
    struct steno_alternative shown = {.text = seg->text,
                                      .confidence = seg->confidence,
                                      .n_words = seg->n_words,
                                      .words = seg->words};
    const struct steno_attribution voice = {steno_transcript_segment_speaker(t, i), 1};
    struct steno_deepgram_wants wants = a->wants;
    steno_arena *arena;
    steno_status st = steno_deepgram_format(&a->wants, &shown, &arena);
    wants.voices = channel ? steno_transcript_channel(t, channel - 1) : t;
    THEN(st, steno_buf_printf(b, "%s{\"id\":\"%s-%zu\",\"channel\":%u,\"start\":%.3f,\"end\":%.3f,",
                              i ? "," : "", a->request_id, i, channel ? channel - 1 : 0, seg->start,
                              seg->end));
    THEN(st, steno_json_printf(b, "\"confidence\":%.4f,\"transcript\":%s,", (double)seg->confidence,
                               shown.text));
    if (!st)
        st = deepgram_words(b, &wants, shown.words, shown.n_words);
    THEN(st, put_voice(b, voice, false));
    steno_arena_free(arena);
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status put_utterances(struct steno_buf *b, const steno_transcript *t,
                                   const struct steno_deepgram_about *a)
{
    steno_status st = steno_buf_puts(b, ",\"utterances\":[");
    for (size_t i = 0; !st && i < steno_transcript_n_segments(t); i++)
        st = put_utterance(b, t, i, a);
    return st ? st : steno_buf_puts(b, "]");
}

static steno_status put_language(struct steno_buf *b, const struct steno_openai_result *r)
{
    steno_status st = steno_json_printf(b, ",\"detected_language\":%s", r->language);
    return st || !(r->language_probability > 0)
               ? st
               : steno_buf_printf(b, ",\"language_confidence\":%.4f",
                                  (double)r->language_probability);
}

/* Append ,"search":[...]: what the terms find in the best hypothesis. */
static steno_status put_search(struct steno_buf *out, steno_transcript *t,
                               const struct steno_deepgram_wants *wants)
{
    struct steno_alternative best = {.text = ""};
    steno_status st = STENO_OK;
    if (steno_transcript_n_alternatives(t))
        st = steno_transcript_alternative(t, 0, &best, NULL);
    return st ? st : steno_deepgram_put_search(out, wants, &best);
}

/* Append {"alternatives", "search"?, "detected_language"?} of one channel. */
static steno_status put_channel(struct steno_buf *out, steno_transcript *t,
                                const struct steno_openai_result *r,
                                const struct steno_deepgram_about *about)
{
    size_t n = steno_transcript_n_alternatives(t);
    struct steno_deepgram_wants wants = about->wants;
    steno_status st = steno_buf_puts(out, "{\"alternatives\":[");
    wants.voices = t;
    for (size_t i = 0; !st && i < n; i++) {
        struct steno_alternative a;
        st = steno_transcript_alternative(t, i, &a, NULL);
        if (!st && i)
            st = steno_buf_puts(out, ",");
        THEN(st, put_alternative(out, &a, &wants));
    }
    THEN(st, steno_buf_puts(out, "]"));
    if (!st && wants.search)
        st = put_search(out, t, &wants);
    if (!st && about->wants.detect_language && *r->language)
        st = put_language(out, r);
    return st ? st : steno_buf_puts(out, "}");
}

static steno_status put_results(struct steno_buf *out, const struct steno_openai_result *r,
                                const struct steno_deepgram_about *about)
{
    const size_t n = steno_transcript_n_channels(r->transcript);
    steno_status st = steno_buf_puts(out, "\"results\":{\"channels\":[");
    if (!st && !n)
        st = put_channel(out, r->transcript, r, about);
    for (size_t i = 0; !st && i < n; i++) {
        struct steno_openai_result one = *r;
        steno_transcript *t = steno_transcript_channel(r->transcript, i);
        const char *language = steno_transcript_language(t, &one.language_probability);
        if (language)
            one.language = language;
        if (i)
            st = steno_buf_puts(out, ",");
        THEN(st, put_channel(out, t, &one, about));
    }
    THEN(st, steno_buf_puts(out, "]"));
    if (!st && about->wants.utterances)
        st = put_utterances(out, r->transcript, about);
    return st ? st : steno_buf_puts(out, "}}\n");
}

steno_status steno_deepgram_put_model(struct steno_buf *b, const char *name, const char *version,
                                      const char *family)
{
    return steno_json_printf(b, "{\"name\":%s,\"version\":%s,\"arch\":%s}", name, version, family);
}

/* Numbers become digits in a recording whose channels are all of English. */
static void note_languages(struct steno_deepgram_wants *w, const struct steno_openai_result *r)
{
    const size_t n = steno_transcript_n_channels(r->transcript);
    bool other = false;
    float probability;
    for (size_t i = 0; i < n; i++) {
        const steno_transcript *t = steno_transcript_channel(r->transcript, i);
        const char *language = steno_transcript_language(t, &probability);
        steno_deepgram_note_language(w, language ? language : r->language);
        other |= w->not_english;
    }
    steno_deepgram_note_language(w, r->language);
    w->not_english |= other;
}

static steno_status put_metadata(struct steno_buf *out, const struct steno_openai_result *r,
                                 const struct steno_deepgram_about *a)
{
    steno_status st = steno_json_printf(
        out, "\"metadata\":{\"transaction_key\":\"deprecated\",\"request_id\":%s", a->request_id);
    THEN(st, steno_deepgram_put_created(out, a->created));
    THEN(st, steno_deepgram_put_warnings(out, &a->wants, r->warning));
    THEN(st, steno_json_printf(out,
                               ",\"sha256\":\"%-s\",\"duration\":%.3f,\"channels\":%d,\"models\":[%"
                               "s],\"model_info\":{%s:",
                               a->sha256 ? a->sha256 : "", r->duration, a->channels, a->model,
                               a->model));
    THEN(st, steno_deepgram_put_model(out, a->model, a->version, a->family));
    return st ? st : steno_buf_puts(out, "}},");
}

steno_status steno_deepgram_write(struct steno_buf *out, const struct steno_openai_result *r,
                                  const struct steno_deepgram_about *about)
{
    struct steno_deepgram_about a = *about;
    steno_status st = steno_buf_puts(out, "{");
    note_languages(&a.wants, r);
    THEN(st, put_metadata(out, r, &a));
    return st ? st : put_results(out, r, &a);
}

void steno_deepgram_request_id(const char *id, char *out)
{
    const char *hex = !strncmp(id, "sess_", 5) ? id + 5 : !strncmp(id, "req_", 4) ? id + 4 : "";
    if (strspn(hex, "0123456789abcdef") == 32 && !hex[32])
        snprintf(out, STENO_DEEPGRAM_ID, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                 hex + 16, hex + 20);
    else
        snprintf(out, STENO_DEEPGRAM_ID, "%s", id);
}

void steno_deepgram_error_header(const char *message, char out[STENO_DEEPGRAM_ERROR])
{
    snprintf(out, STENO_DEEPGRAM_ERROR, "%s", message);
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

steno_status steno_deepgram_write_error(struct steno_buf *out, const char *code,
                                        const char *message, const char *request_id)
{
    return steno_json_printf(out, "{\"err_code\":%s,\"err_msg\":%s,\"request_id\":%s}\n", code,
                             message, request_id);
}

steno_status steno_deepgram_url(const char *p, size_t n, char *out, size_t size, steno_err *err)
{
    json_t *root;
    const char *url;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    url = json_string_value(json_object_get(root, "url"));
    if (!url || strlen(url) >= size)
        st = steno_fail(err, STENO_ERR_INVAL, "url: must be a string of at most %zu bytes",
                        size - 1);
    else
        memcpy(out, url, strlen(url) + 1);
    json_decref(root);
    return st;
}

steno_status steno_deepgram_grant(const char *p, size_t n, double *seconds, steno_err *err)
{
    json_t *root = NULL;
    const json_t *v;
    steno_status st = n ? steno_json_object(&root, p, n, err) : STENO_OK;
    *seconds = 30;
    if (st)
        return st;
    v = json_object_get(root, "ttl_seconds");
    if (v && !json_is_null(v) &&
        (!json_is_number(v) || !(json_number_value(v) >= 1 && json_number_value(v) <= 3600)))
        st = steno_fail(err, STENO_ERR_INVAL, "ttl_seconds: must be 1 to 3600");
    else if (json_is_number(v))
        *seconds = json_number_value(v);
    json_decref(root);
    return st;
}
