#include "protocol/openai_rest.h"

#include "protocol/json_text.h"
#include "protocol/query.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *media;
} formats[] = {
    [STENO_OPENAI_JSON] = {"json", "application/json"},
    [STENO_OPENAI_TEXT] = {"text", "text/plain; charset=utf-8"},
    [STENO_OPENAI_SRT] = {"srt", "application/x-subrip"},
    [STENO_OPENAI_VERBOSE_JSON] = {"verbose_json", "application/json"},
    [STENO_OPENAI_VTT] = {"vtt", "text/vtt; charset=utf-8"},
};
#define FORMATS (sizeof formats / sizeof *formats)

const char *steno_openai_media_type(enum steno_openai_format f)
{
    return formats[f].media;
}

/* ---- requests -------------------------------------------------------------------------------- */

static steno_status set_name(char out[STENO_OPENAI_NAME], const char *field, const char *value,
                             steno_err *err)
{
    if (strlen(value) >= STENO_OPENAI_NAME)
        return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", field,
                          STENO_OPENAI_NAME - 1);
    memcpy(out, value, strlen(value) + 1);
    return STENO_OK;
}

static steno_status set_format(struct steno_openai_request *r, const char *value, steno_err *err)
{
    if (!strcmp(value, "diarized_json"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "response_format: diarized_json needs a model that tells speakers apart, "
                          "and no model of this server does; verbose_json has segments and times");
    for (size_t i = 0; i < FORMATS; i++)
        if (!strcmp(value, formats[i].name)) {
            r->format = (enum steno_openai_format)i;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL,
                      "response_format: '%.40s' is not one of json, text, srt, verbose_json, vtt",
                      value);
}

/* One of them, or several with commas between. */
static steno_status set_granularity(struct steno_openai_request *r, const char *value,
                                    steno_err *err)
{
    for (const char *p = value + strspn(value, ", "); *p; p += strspn(p, ", ")) {
        const size_t n = strcspn(p, ", ");
        if (n == 4 && !strncmp(p, "word", n))
            r->words = true;
        else if (n == 7 && !strncmp(p, "segment", n))
            r->segments = true;
        else
            return steno_fail(err, STENO_ERR_INVAL,
                              "timestamp_granularities[]: '%.40s' is neither word nor segment", p);
        p += n;
    }
    return STENO_OK;
}

static steno_status set_temperature(struct steno_openai_request *r, const char *value,
                                    steno_err *err)
{
    return steno_query_double("temperature", value, 0, 1, &r->temperature, err);
}

static steno_status set_stream(struct steno_openai_request *r, const char *value, steno_err *err)
{
    if (!strcmp(value, "null") || !*value) {
        r->stream = false;
        return STENO_OK;
    }
    return steno_query_bool("stream", value, &r->stream, err);
}

static steno_status set_model(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return set_name(r->model, "model", value, err);
}

static steno_status add_keyword(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return steno_hint_add_hotword(&r->hints, value, err);
}

static steno_status set_vad_filter(struct steno_openai_request *r, const char *value,
                                   steno_err *err)
{
    return steno_query_bool("vad_filter", value, &r->vad_filter, err);
}

static steno_status set_channel(struct steno_openai_request *r, const char *value, steno_err *err)
{
    return steno_query_int("channel", value, 0, STENO_OPENAI_CHANNELS, &r->channel, err);
}

static steno_status set_include(struct steno_openai_request *r, const char *value, steno_err *err)
{
    (void)err;
    r->logprobs |= !strcmp(value, "logprobs");
    return STENO_OK;
}

static const struct field {
    const char *name;
    /* NULL: a hint of this name. */
    steno_status (*set)(struct steno_openai_request *r, const char *value, steno_err *err);
} fields[] = {
    {"model", set_model},
    {"language", NULL},
    {"prompt", NULL},
    {"hotwords", NULL},
    {"prefix", NULL},
    {"keywords", add_keyword},
    {"vad_filter", set_vad_filter},
    {"response_format", set_format},
    {"temperature", set_temperature},
    {"timestamp_granularities", set_granularity},
    {"stream", set_stream},
    {"channel", set_channel},
    {"include", set_include},
};

steno_status steno_openai_field(struct steno_openai_request *r, const char *name, const char *value,
                                size_t len, const char **param, steno_err *err)
{
    char text[STENO_OPENAI_FIELD + 1];
    size_t n = strlen(name);
    if (n > 2 && !strcmp(name + n - 2, "[]"))
        n -= 2;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != n || strncmp(fields[i].name, name, n))
            continue;
        *param = fields[i].name;
        if (!len) /* forms of pages send the fields that nobody filled in */
            return STENO_OK;
        if (len > STENO_OPENAI_FIELD)
            return steno_fail(err, STENO_ERR_INVAL, "%s: longer than %d bytes", fields[i].name,
                              STENO_OPENAI_FIELD);
        if (memchr(value, '\0', len))
            return steno_fail(err, STENO_ERR_INVAL, "%s: holds a NUL", fields[i].name);
        memcpy(text, value, len);
        text[len] = '\0';
        return fields[i].set ? fields[i].set(r, text, err)
                             : steno_hint_set(&r->hints, fields[i].name, text, err);
    }
    return STENO_OK;
}

steno_status steno_openai_check(const struct steno_openai_request *r, const char **param,
                                steno_err *err)
{
    if (!r->has_file) {
        *param = "file";
        return steno_fail(err, STENO_ERR_INVAL, "file: the form has no file");
    }
    if ((r->words || r->segments) && r->format != STENO_OPENAI_VERBOSE_JSON) {
        *param = "timestamp_granularities";
        return steno_fail(err, STENO_ERR_INVAL,
                          "timestamp_granularities[]: needs response_format verbose_json");
    }
    return STENO_OK;
}

/* OpenAI writes the English name of a language. */
static const char *language_name(const char *code)
{
    const char *name = steno_language_name(code);
    return name ? name : code;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Runs a chain of calls until one fails. */
#define THEN(st, call) ((st) = (st) ? (st) : (call))

static steno_status put_text(struct steno_buf *out, const char *key, const char *value)
{
    return value ? steno_json_put_member(out, key, value)
                 : steno_buf_printf(out, "\"%s\":null", key);
}

/* Append seconds rounded to milliseconds, without trailing zeros ("1.25", "3", "0.1"). */
static steno_status put_seconds(struct steno_buf *out, const char *key, double v)
{
    char text[64];
    size_t n;
    if (!(v > 0) || v > 1e12) /* NaN too */
        v = 0;
    snprintf(text, sizeof text, "%.3f", v);
    n = strlen(text);
    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    return steno_buf_printf(out, "\"%s\":%.*s", key, (int)n, text);
}

static steno_status put_usage(struct steno_buf *out, double seconds)
{
    steno_status st = steno_buf_puts(out, "\"usage\":{\"type\":\"duration\",");
    THEN(st, put_seconds(out, "seconds", ceil(seconds)));
    return THEN(st, steno_buf_puts(out, "}"));
}

static steno_status put_warning(struct steno_buf *out, const char *warning)
{
    steno_status st = STENO_OK;
    if (!warning)
        return STENO_OK;
    THEN(st, steno_buf_puts(out, ",\"warnings\":["));
    THEN(st, steno_json_put_string(out, warning, strlen(warning)));
    return THEN(st, steno_buf_puts(out, "]"));
}

/* Append "token":" TEXT". */
static steno_status put_token(struct steno_buf *out, const char *text, bool space)
{
    steno_status st = steno_buf_puts(out, space ? "\"token\":\" " : "\"token\":");
    size_t at = out->len;
    THEN(st, steno_json_put_string(out, text, strlen(text)));
    if (!st && space) { /* remove the string's own opening quote */
        memmove(out->data + at, out->data + at + 1, out->len - at);
        out->len--;
    }
    return st;
}

/* Append one list of logprobs; *any becomes true when it is not empty. */
static steno_status put_logprobs(struct steno_buf *out, const struct steno_word *w, size_t n,
                                 bool *any)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n; i++) {
        const char *text = w[i].text;
        THEN(st, steno_buf_puts(out, *any ? ",{" : "{"));
        THEN(st, put_token(out, text, *any));
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
    THEN(st, put_text(out, "text", steno_transcript_text(r->transcript)));
    THEN(st, put_all_logprobs(out, r));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    return THEN(st, steno_buf_puts(out, "}\n"));
}

/* Append the channel of a word or segment, if the recording has several. */
static steno_status put_channel(struct steno_buf *out, unsigned channel)
{
    return channel ? steno_buf_printf(out, ",\"channel\":%u", channel) : STENO_OK;
}

static steno_status put_words(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = steno_buf_puts(out, ",\"words\":[");
    bool first = true;
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        const unsigned channel = steno_transcript_segment_channel(t, i);
        for (size_t w = 0; w < seg->n_words; w++, first = false) {
            THEN(st, steno_buf_puts(out, first ? "{" : ",{"));
            THEN(st, put_text(out, "word", seg->words[w].text));
            THEN(st, steno_buf_puts(out, ","));
            THEN(st, put_seconds(out, "start", seg->words[w].start));
            THEN(st, steno_buf_puts(out, ","));
            THEN(st, put_seconds(out, "end", seg->words[w].end));
            THEN(st, put_channel(out, channel));
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
    THEN(st, put_text(out, "text", a->text));
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
    THEN(st, put_seconds(out, "start", s->start));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_seconds(out, "end", s->end));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "text", s->text));
    THEN(st, put_ids(out, s->ids, s->n_ids));
    THEN(st, put_channel(out, channel));
    return THEN(st, steno_buf_printf(out,
                                     ",\"temperature\":%.6g,\"avg_logprob\":%.6g,"
                                     "\"compression_ratio\":%.6g,\"no_speech_prob\":%.6g}",
                                     (double)s->temperature, s->avg_log_prob,
                                     (double)s->compression_ratio, (double)s->no_speech));
}

/* The schema wants some fields of a segment that only Whisper has; for other models they get
 * neutral values. avg_logprob is the logarithm of the segment's confidence (a geometric mean of
 * word posteriors). no_speech_prob is 1 minus the confidence when nothing better is known. */
static steno_status put_segment(struct steno_buf *out, const struct steno_event *seg, size_t id,
                                unsigned channel)
{
    double confidence = seg->confidence > 1e-6f ? (double)seg->confidence : 1e-6;
    steno_status st;
    if (seg->n_sections)
        return put_section(out, &seg->sections[0], id, channel);
    st = steno_buf_printf(out, "%s{\"id\":%zu,\"seek\":%.0f,", id ? "," : "", id,
                          seg->start > 0 ? floor(seg->start * 100) : 0.0);
    THEN(st, put_seconds(out, "start", seg->start));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_seconds(out, "end", seg->end));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "text", seg->text));
    THEN(st, put_tokens(out, seg));
    THEN(st, put_channel(out, channel));
    THEN(st, steno_buf_printf(out,
                              ",\"temperature\":0,\"avg_logprob\":%.4f,"
                              "\"compression_ratio\":1,\"no_speech_prob\":%.4f",
                              log(confidence), 1 - confidence));
    THEN(st, put_alternatives(out, seg));
    return THEN(st, steno_buf_puts(out, "}"));
}

static steno_status put_segments(struct steno_buf *out, const steno_transcript *t)
{
    steno_status st = steno_buf_puts(out, ",\"segments\":[");
    for (size_t i = 0; i < steno_transcript_n_segments(t); i++)
        THEN(st, put_segment(out, steno_transcript_segment(t, i), i,
                             steno_transcript_segment_channel(t, i)));
    return THEN(st, steno_buf_puts(out, "]"));
}

steno_status steno_openai_write_verbose(struct steno_buf *out, const struct steno_openai_result *r,
                                        bool words, bool segments)
{
    steno_status st =
        steno_buf_printf(out, "{\"task\":\"%s\",", r->translated ? "translate" : "transcribe");
    THEN(st, put_text(out, "language", r->translated ? "english" : language_name(r->language)));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_seconds(out, "duration", r->duration));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "text", steno_transcript_text(r->transcript)));
    if (words)
        THEN(st, put_words(out, r->transcript));
    if (segments || !words)
        THEN(st, put_segments(out, r->transcript));
    THEN(st, put_joint(out, r->transcript));
    THEN(st, steno_buf_puts(out, ","));
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
    THEN(st, put_text(out, "message", message));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "type", type));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "param", param));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "code", code));
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

static steno_status put_model(struct steno_buf *out, const struct steno_openai_model *m)
{
    steno_status st = steno_buf_puts(out, "{");
    THEN(st, put_text(out, "id", m->id));
    THEN(st, steno_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"steno\",",
                              (long long)m->created));
    THEN(st, put_text(out, "family", m->family));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "language", m->language));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "license", m->license));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_text(out, "version", m->version));
    THEN(st, put_languages(out, m->languages));
    THEN(st, steno_buf_printf(out, ",\"translates\":%s", m->translates ? "true" : "false"));
    return THEN(st, steno_buf_puts(out, "}"));
}

steno_status steno_openai_write_model(struct steno_buf *out, const struct steno_openai_model *m)
{
    steno_status st = put_model(out, m);
    return THEN(st, steno_buf_puts(out, "\n"));
}

steno_status steno_openai_write_models(struct steno_buf *out, const struct steno_openai_model *m,
                                       size_t n)
{
    steno_status st = steno_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            THEN(st, steno_buf_puts(out, ","));
        THEN(st, put_model(out, &m[i]));
    }
    return THEN(st, steno_buf_puts(out, "]}\n"));
}

/* ---- server-sent events ---------------------------------------------------------------------- */

/* The buffer may have earlier events that are being sent: on failure no part of this event stays.
 */
static steno_status whole(struct steno_buf *out, size_t before, steno_status st)
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
    return whole(out, before, st);
}

/* Append the texts of a recording's channels, if each has one. */
static steno_status put_channels(struct steno_buf *out, const steno_transcript *t)
{
    const size_t n = steno_transcript_n_channels(t);
    steno_status st = n ? steno_buf_puts(out, ",\"channels\":[") : STENO_OK;
    for (size_t i = 0; i < n; i++) {
        THEN(st, steno_buf_printf(out, "%s{\"channel\":%zu,", i ? "," : "", i + 1));
        THEN(st, put_text(out, "text", steno_transcript_text(steno_transcript_channel(t, i))));
        THEN(st, steno_buf_puts(out, "}"));
    }
    return n ? THEN(st, steno_buf_puts(out, "]")) : st;
}

steno_status steno_openai_write_done(struct steno_buf *out, const struct steno_openai_result *r)
{
    size_t before = out->len;
    steno_status st = steno_buf_puts(out, "data: {\"type\":\"transcript.text.done\",");
    THEN(st, put_text(out, "text", steno_transcript_text(r->transcript)));
    THEN(st, put_channels(out, r->transcript));
    THEN(st, put_all_logprobs(out, r));
    THEN(st, steno_buf_puts(out, ","));
    THEN(st, put_usage(out, r->duration));
    THEN(st, put_warning(out, r->warning));
    THEN(st, steno_buf_puts(out, "}\n\n"));
    /* OpenAI's own clients take this for the end */
    THEN(st, steno_buf_puts(out, "data: [DONE]\n\n"));
    return whole(out, before, st);
}

steno_status steno_openai_write_error_event(struct steno_buf *out, const char *message,
                                            const char *type, const char *code)
{
    size_t before = out->len;
    steno_status st = steno_buf_puts(out, "data: ");
    THEN(st, put_error(out, message, type, NULL, code));
    THEN(st, steno_buf_puts(out, "\n\n"));
    return whole(out, before, st);
}
