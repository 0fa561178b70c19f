#include "protocol/openai_rest.h"

#include "protocol/json_text.h"
#include "protocol/then.h"

#include <math.h>
#include <string.h>

const char *steno_openai_language(const char *code)
{
    const char *name = steno_language_name(code);
    return name ? name : code;
}

/* ---- answers --------------------------------------------------------------------------------- */

static steno_status put_text_or_null(struct steno_buf *out, const char *key, const char *value)
{
    return value ? steno_json_put_member(out, key, value)
                 : steno_buf_printf(out, "\"%s\":null", key);
}

static steno_status put_usage(struct steno_buf *out, double seconds)
{
    steno_status st = steno_buf_puts(out, "\"usage\":{\"type\":\"duration\",");
    THEN(st, steno_json_put_seconds(out, "seconds", ceil(seconds)));
    return THEN(st, steno_buf_puts(out, "}"));
}

static steno_status put_warning(struct steno_buf *out, const char *warning)
{
    steno_status st = STENO_OK;
    if (!warning)
        return STENO_OK;
    return THEN(st, steno_json_printf(out, ",\"warnings\":[%s]", warning));
}

/* Append one list of logprobs; *any becomes true when it is not empty. */
static steno_status put_logprobs(struct steno_buf *out, const struct steno_word *w, size_t n,
                                 bool *any)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n; i++) {
        const char *text = w[i].text;
        THEN(st, steno_buf_puts(out, *any ? ",{" : "{"));
        THEN(st, steno_json_put_spaced(out, "token", text, *any));
        THEN(st, steno_buf_printf(out, ",\"logprob\":%.4f,\"bytes\":[%s",
                                  steno_confidence_log(w[i].confidence), *any ? "32," : ""));
        for (const char *p = text; *p; p++)
            THEN(st, steno_buf_printf(out, p > text ? ",%d" : "%d", (unsigned char)*p));
        THEN(st, steno_buf_puts(out, "]}"));
        *any = true;
    }
    return st;
}

steno_status steno_openai_put_logprobs(struct steno_buf *out, const struct steno_word *w, size_t n)
{
    bool any = false;
    steno_status st = steno_buf_puts(out, ",\"logprobs\":[");
    THEN(st, put_logprobs(out, w, n, &any));
    return THEN(st, steno_buf_puts(out, "]"));
}

static steno_status put_all_logprobs(struct steno_buf *out, const struct steno_openai_result *r)
{
    bool any = false;
    steno_status st = r->logprobs ? steno_buf_puts(out, ",\"logprobs\":[") : STENO_OK;
    for (size_t i = 0; r->logprobs && i < steno_transcript_n_segments(r->transcript); i++) {
        const struct steno_event *seg = steno_transcript_segment(r->transcript, i);
        THEN(st, put_logprobs(out, seg->words, seg->n_words, &any));
    }
    return r->logprobs ? THEN(st, steno_buf_puts(out, "]")) : st;
}

steno_status steno_openai_write_json(struct steno_buf *out, const struct steno_openai_result *r)
{
    steno_status st = steno_buf_puts(out, "{");
    THEN(st, put_text_or_null(out, "text", steno_transcript_text(r->transcript)));
    THEN(st, put_all_logprobs(out, r));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    return THEN(st, steno_buf_puts(out, "}\n"));
}

#define LETTERS 8 /* bytes for the largest number */

/* A to Z, AA, AB, ...; number from 1. */
static const char *letters_of(unsigned number, char out[LETTERS])
{
    char *p = out + LETTERS - 1;
    *p = '\0';
    for (; number && p > out; number = (number - 1) / 26)
        *--p = (char)('A' + (number - 1) % 26);
    return p;
}

/* The name of a voice, or letters that count those without a name. */
static const char *voice_of(const steno_transcript *t, unsigned speaker, char letters[LETTERS])
{
    const char *name = steno_transcript_speaker_name(t, speaker);
    unsigned unnamed = 0;
    for (unsigned k = 1; k <= speaker; k++)
        unnamed += !steno_transcript_speaker_name(t, k);
    return name ? name : letters_of(unnamed, letters);
}

/* The known name of a channel's speaker, or letters. */
static const char *speaker_of(unsigned number, const struct steno_openai_speakers *known,
                              char letters[LETTERS])
{
    const unsigned k = number ? number : 1;
    return known && k <= (unsigned)known->n ? known->names[k - 1] : letters_of(k, letters);
}

/* Append the speaker of segment i, if it is known. */
static steno_status put_speaker(struct steno_buf *out, const steno_transcript *t, size_t i)
{
    const unsigned speaker = steno_transcript_segment_speaker(t, i);
    char letters[LETTERS];
    steno_status st = STENO_OK;
    if (!speaker)
        return STENO_OK;
    st = steno_buf_puts(out, ",");
    return THEN(st, put_text_or_null(out, "speaker", voice_of(t, speaker, letters)));
}

/* Append the channel of a word or segment, if the recording has several. */
static steno_status put_channel(struct steno_buf *out, unsigned channel)
{
    return channel ? steno_buf_printf(out, ",\"channel\":%u", channel) : STENO_OK;
}

static steno_status put_all_words(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = steno_buf_puts(out, ",\"words\":[");
    bool first = true;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        const unsigned channel = steno_transcript_segment_channel(t, i);
        for (size_t w = 0; w < seg->n_words; w++, first = false) {
            THEN(st, steno_buf_puts(out, first ? "{" : ",{"));
            THEN(st, put_text_or_null(out, "word", seg->words[w].text));
            THEN(st, steno_buf_puts(out, ","));
            THEN(st, steno_json_put_seconds(out, "start", seg->words[w].start));
            THEN(st, steno_buf_puts(out, ","));
            THEN(st, steno_json_put_seconds(out, "end", seg->words[w].end));
            THEN(st, put_channel(out, channel));
            THEN(st, put_speaker(out, t, i));
            THEN(st, steno_buf_puts(out, "}"));
        }
    }
    return THEN(st, steno_buf_puts(out, "]"));
}

static steno_status put_tokens(struct steno_buf *out, const struct steno_event *seg)
{
    steno_status st = steno_buf_puts(out, ",\"tokens\":[");
    for (size_t i = 0; i < seg->n_tokens; i++)
        THEN(st, steno_buf_printf(out, i ? ",%d" : "%d", (int)seg->tokens[i].id));
    return THEN(st, steno_buf_puts(out, "]"));
}

/* Append hypothesis i of a list. */
static steno_status put_alternative(struct steno_buf *out, size_t i,
                                    const struct steno_alternative *a)
{
    steno_status st = steno_buf_puts(out, i ? ",{" : ",\"alternatives\":[{");
    THEN(st, put_text_or_null(out, "text", a->text));
    return THEN(st, steno_buf_printf(out, ",\"confidence\":%.4f,\"score\":%.4f}",
                                     (double)a->confidence, a->score));
}

static steno_status put_alternatives(struct steno_buf *out, const struct steno_event *seg)
{
    steno_status st = STENO_OK;
    if (seg->n_alternatives < 2)
        return STENO_OK;
    for (size_t i = 0; i < seg->n_alternatives; i++)
        THEN(st, put_alternative(out, i, &seg->alternatives[i]));
    return THEN(st, steno_buf_puts(out, "]"));
}

/* Those of the whole, if its segments have none. */
static steno_status put_joint(struct steno_buf *out, steno_transcript *t)
{
    steno_status st = STENO_OK;
    if (!steno_transcript_has_joint_alternatives(t))
        return STENO_OK;
    for (size_t i = 0; i < steno_transcript_n_alternatives(t); i++) {
        struct steno_alternative a;
        THEN(st, steno_transcript_alternative(t, i, &a, NULL));
        THEN(st, put_alternative(out, i, &a));
    }
    return THEN(st, steno_buf_puts(out, "]"));
}

static steno_status put_ids(struct steno_buf *out, const int32_t *ids, size_t n)
{
    steno_status st = steno_buf_puts(out, ",\"tokens\":[");
    for (size_t i = 0; i < n; i++)
        THEN(st, steno_buf_printf(out, i ? ",%d" : "%d", (int)ids[i]));
    return THEN(st, steno_buf_puts(out, "]"));
}

/* A segment that the model has cut: all fields are its own. */
static steno_status put_section(struct steno_buf *out, const struct steno_section *s, size_t id,
                                unsigned channel)
{
    steno_status st = steno_buf_printf(out, "%s{\"id\":%zu,\"seek\":%.0f,", id ? "," : "", id,
                                       round(s->seek * 100));
    THEN(st, steno_json_put_seconds(out, "start", s->start));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, steno_json_put_seconds(out, "end", s->end));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "text", s->text));
    THEN(st, put_ids(out, s->ids, s->n_ids));
    THEN(st, put_channel(out, channel));
    THEN(st, steno_buf_printf(out,
                              ",\"temperature\":%.6g,\"avg_logprob\":%.6g,"
                              "\"compression_ratio\":%.6g,\"no_speech_prob\":%.6g",
                              (double)s->temperature, s->avg_log_prob, (double)s->compression_ratio,
                              (double)s->no_speech));
    if (st || !*s->language)
        return st;
    st = steno_buf_puts(out, ",");
    return THEN(st, put_text_or_null(out, "language", steno_openai_language(s->language)));
}

/* The schema wants some fields of a segment that only Whisper has; for other models they get
 * neutral values. avg_logprob is the logarithm of the segment's confidence (a geometric mean of
 * word posteriors). no_speech_prob is 1 minus the confidence when nothing better is known. */
steno_status steno_openai_open_segment(struct steno_buf *out, const struct steno_event *seg,
                                       size_t id, unsigned channel)
{
    double confidence = seg->confidence > 1e-6f ? (double)seg->confidence : 1e-6;
    steno_status st;
    if (seg->n_sections)
        return put_section(out, &seg->sections[0], id, channel);
    st = steno_buf_printf(out, "%s{\"id\":%zu,\"seek\":%.0f,", id ? "," : "", id,
                          seg->start > 0 ? floor(seg->start * 100) : 0.0);
    THEN(st, steno_json_put_seconds(out, "start", seg->start));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, steno_json_put_seconds(out, "end", seg->end));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "text", seg->text));
    THEN(st, put_tokens(out, seg));
    THEN(st, put_channel(out, channel));
    return THEN(st, steno_buf_printf(out,
                                     ",\"temperature\":0,\"avg_logprob\":%.4f,"
                                     "\"compression_ratio\":1,\"no_speech_prob\":%.4f",
                                     log(confidence), 1 - confidence));
}

static steno_status put_segment(struct steno_buf *out, const steno_transcript *t, size_t i)
{
    const struct steno_event *seg = steno_transcript_segment(t, i);
    steno_status st =
        steno_openai_open_segment(out, seg, i, steno_transcript_segment_channel(t, i));
    THEN(st, put_speaker(out, t, i));
    if (!seg->n_sections)
        THEN(st, put_alternatives(out, seg));
    return THEN(st, steno_buf_puts(out, "}"));
}

static steno_status put_segments(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = steno_buf_puts(out, ",\"segments\":[");
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        THEN(st, put_segment(out, t, i));
    return THEN(st, steno_buf_puts(out, "]"));
}

steno_status steno_openai_write_verbose(struct steno_buf *out, const struct steno_openai_result *r,
                                        bool words, bool segments)
{
    steno_status st =
        steno_buf_printf(out, "{\"task\":\"%s\",", r->translated ? "translate" : "transcribe");
    THEN(st, put_text_or_null(out, "language",
                              r->translated ? "english" : steno_openai_language(r->language)));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, steno_json_put_seconds(out, "duration", r->duration));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "text", steno_transcript_text(r->transcript)));
    if (words)
        THEN(st, put_all_words(out, r->transcript));
    if (segments || !words)
        THEN(st, put_segments(out, r->transcript));
    THEN(st, put_joint(out, r->transcript));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    return THEN(st, steno_buf_puts(out, "}\n"));
}

/* ---- diarized_json --------------------------------------------------------------------------- */

/* A part of the text that one speaker said. */
struct said {
    double start, end;
    const char *text;
    const char *speaker;
    char letters[LETTERS]; /* where it has no name */
};

/* A channel's text in these seconds. */
static void say_of_channel(struct said *s, double start, double end, const char *text,
                           unsigned channel, const struct steno_openai_speakers *known)
{
    s->start = start;
    s->end = end;
    s->text = text + strspn(text, " "); /* sections begin with one */
    s->speaker = speaker_of(channel, known, s->letters);
}

/* Segment i: of a voice, or of a channel. */
static void say_segment(struct said *s, const struct steno_openai_result *r, size_t i)
{
    const struct steno_event *seg = steno_transcript_segment(r->transcript, i);
    const unsigned speaker = steno_transcript_segment_speaker(r->transcript, i);
    say_of_channel(s, seg->start, seg->end, seg->text,
                   steno_transcript_segment_channel(r->transcript, i), r->speakers);
    if (speaker)
        s->speaker = voice_of(r->transcript, speaker, s->letters);
}

/* Append a segment without its braces. */
static steno_status put_said(struct steno_buf *out, const struct said *s, size_t id)
{
    steno_status st =
        steno_buf_printf(out, "\"type\":\"transcript.text.segment\",\"id\":\"seg_%zu\",", id);
    THEN(st, steno_json_put_seconds(out, "start", s->start));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, steno_json_put_seconds(out, "end", s->end));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "text", s->text));
    THEN(st, steno_buf_puts(out, ","));
    return THEN(st, put_text_or_null(out, "speaker", s->speaker));
}

/* Append the text of all: a line for each segment. */
static steno_status put_dialogue(struct steno_buf *out, const struct steno_openai_result *r)
{
    struct steno_buf text;
    steno_status st = STENO_OK;
    steno_buf_init(&text, out->max);
    for (size_t i = 0; i < steno_transcript_n_segments(r->transcript); i++) {
        struct said s;
        say_segment(&s, r, i);
        THEN(st, steno_json_printf(&text, "%-s%-s: %-s", i ? "\n" : "", s.speaker, s.text));
    }
    THEN(st, steno_buf_puts(out, "\"text\":"));
    THEN(st, steno_json_put_string(out, text.data ? text.data : "", text.len));
    steno_buf_free(&text);
    return st;
}

steno_status steno_openai_write_diarized(struct steno_buf *out, const struct steno_openai_result *r)
{
    steno_status st =
        steno_buf_printf(out, "{\"task\":\"%s\",", r->translated ? "translate" : "transcribe");
    THEN(st, steno_json_put_seconds(out, "duration", r->duration));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_dialogue(out, r));
    THEN(st, steno_buf_puts(out, ",\"segments\":["));
    for (size_t i = 0; i < steno_transcript_n_segments(r->transcript); i++) {
        struct said s;
        say_segment(&s, r, i);
        THEN(st, steno_buf_puts(out, i ? ",{" : "{"));
        THEN(st, put_said(out, &s, i));
        THEN(st, steno_buf_puts(out, "}"));
    }
    THEN(st, steno_buf_puts(out, "],"));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    return THEN(st, steno_buf_puts(out, "}\n"));
}

const char *steno_openai_error_type(int http)
{
    if (http == 429)
        return "rate_limit_error";
    return http >= 500 ? "server_error" : "invalid_request_error";
}

static steno_status put_error(struct steno_buf *out, const char *message, const char *type,
                              const char *param, const char *code)
{
    steno_status st = steno_buf_puts(out, "{\"error\":{");
    THEN(st, put_text_or_null(out, "message", message));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "type", type));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "param", param));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "code", code));
    return THEN(st, steno_buf_puts(out, "}}"));
}

steno_status steno_openai_write_error(struct steno_buf *out, const char *message, const char *type,
                                      const char *param, const char *code)
{
    steno_status st = put_error(out, message, type, param, code);
    return THEN(st, steno_buf_puts(out, "\n"));
}

/* Append ,"languages":["en","de"]. */
static steno_status put_languages(struct steno_buf *out, const char *codes)
{
    steno_status st = steno_buf_puts(out, ",\"languages\":[");
    for (const char *p = codes ? codes : ""; *p;) {
        size_t n = strcspn(p, " ");
        if (n && p > codes)
            THEN(st, steno_buf_puts(out, ","));
        if (n)
            THEN(st, steno_json_put_string(out, p, n));
        p += n + (p[n] == ' ');
    }
    return THEN(st, steno_buf_puts(out, "]"));
}

static steno_status put_model_object(struct steno_buf *out, const struct steno_openai_model *m)
{
    steno_status st = steno_buf_puts(out, "{");
    THEN(st, put_text_or_null(out, "id", m->id));
    THEN(st, steno_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"steno\",",
                              (long long)m->created));
    THEN(st, put_text_or_null(out, "family", m->family));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "language", m->language));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "license", m->license));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text_or_null(out, "version", m->version));
    THEN(st, put_languages(out, m->languages));
    return THEN(st,
                steno_json_printf(out, ",\"translates\":%-s}", m->translates ? "true" : "false"));
}

steno_status steno_openai_write_model(struct steno_buf *out, const struct steno_openai_model *m)
{
    steno_status st = put_model_object(out, m);
    return THEN(st, steno_buf_puts(out, "\n"));
}

steno_status steno_openai_write_models(struct steno_buf *out, const struct steno_openai_model *m,
                                       size_t n)
{
    steno_status st = steno_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            THEN(st, steno_buf_puts(out, ","));
        THEN(st, put_model_object(out, &m[i]));
    }
    return THEN(st, steno_buf_puts(out, "]}\n"));
}

/* ---- server-sent events ---------------------------------------------------------------------- */

/* The buffer may have earlier events that are being sent: on failure no part of this event stays.
 */
static steno_status whole_answer(struct steno_buf *out, size_t before, steno_status st)
{
    if (st)
        steno_buf_cut(out, before);
    return st;
}

steno_status steno_openai_write_delta(struct steno_buf *out, const char *text, size_t n,
                                      unsigned channel)
{
    size_t before = out->len;
    steno_status st = steno_buf_puts(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":");
    THEN(st, steno_json_put_string(out, text, n));
    THEN(st, put_channel(out, channel));
    THEN(st, steno_buf_puts(out, "}\n\n"));
    return whole_answer(out, before, st);
}

static steno_status write_said_event(struct steno_buf *out, const struct said *s, size_t *id)
{
    const size_t before = out->len;
    steno_status st = STENO_OK;
    if (!*s->text)
        return STENO_OK;
    THEN(st, steno_buf_puts(out, "data: {"));
    THEN(st, put_said(out, s, (*id)++));
    THEN(st, steno_buf_puts(out, "}\n\n"));
    return whole_answer(out, before, st);
}

steno_status steno_openai_write_segment_events(struct steno_buf *out,
                                               const struct steno_event *final, unsigned channel,
                                               const struct steno_openai_speakers *speakers,
                                               size_t *id)
{
    struct said s;
    steno_status st = STENO_OK;
    say_of_channel(&s, final->start, final->end, final->text, channel, speakers);
    if (!final->n_sections)
        return write_said_event(out, &s, id);
    for (size_t i = 0; i < final->n_sections; i++) {
        const struct steno_section *x = &final->sections[i];
        say_of_channel(&s, x->start, x->end, x->text, channel, speakers);
        THEN(st, write_said_event(out, &s, id));
    }
    return st;
}

steno_status steno_openai_write_all_segment_events(struct steno_buf *out,
                                                   const struct steno_openai_result *r)
{
    size_t id = 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_transcript_n_segments(r->transcript); i++) {
        struct said s;
        say_segment(&s, r, i);
        THEN(st, write_said_event(out, &s, &id));
    }
    return st;
}

/* Append the texts of a recording's channels, if each has one. */
static steno_status put_channels(struct steno_buf *out, const steno_transcript *t)
{
    const size_t n = steno_transcript_n_channels(t);
    steno_status st = n ? steno_buf_puts(out, ",\"channels\":[") : STENO_OK;
    for (size_t i = 0; i < n; i++) {
        THEN(st, steno_buf_printf(out, "%s{\"channel\":%zu,", i ? "," : "", i + 1));
        THEN(st,
             put_text_or_null(out, "text", steno_transcript_text(steno_transcript_channel(t, i))));
        THEN(st, steno_buf_puts(out, "}"));
    }
    return n ? THEN(st, steno_buf_puts(out, "]")) : st;
}

steno_status steno_openai_write_done(struct steno_buf *out, const struct steno_openai_result *r)
{
    size_t before = out->len;
    steno_status st = steno_buf_puts(out, "data: {\"type\":\"transcript.text.done\",");
    THEN(st, put_text_or_null(out, "text", steno_transcript_text(r->transcript)));
    THEN(st, put_channels(out, r->transcript));
    THEN(st, put_all_logprobs(out, r));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    THEN(st, steno_buf_puts(out, "}\n\n"));
    /* OpenAI's own clients take this for the end */
    THEN(st, steno_buf_puts(out, "data: [DONE]\n\n"));
    return whole_answer(out, before, st);
}

steno_status steno_openai_write_error_event(struct steno_buf *out, const char *message,
                                            const char *type, const char *code)
{
    size_t before = out->len;
    steno_status st = steno_buf_puts(out, "data: ");
    THEN(st, put_error(out, message, type, NULL, code));
    THEN(st, steno_buf_puts(out, "\n\n"));
    return whole_answer(out, before, st);
}
