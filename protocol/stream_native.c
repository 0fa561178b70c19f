#include "protocol/stream_native.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/result_json.h"
#include "protocol/then.h"

/* ---- client messages --------------------------------------------------------------------- */

enum field_kind {
    FIELD_TEXT,
    FIELD_VAD,
    FIELD_TURN,
    FIELD_TIMES,
    FIELD_ENCODING,
    FIELD_INT,
    FIELD_BOOL,
    FIELD_SECONDS,
    FIELD_SHARE
};

/* One row per field of `start`; the query parameters are the same. */
static const struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    double min, max;
} fields[] = {
#define AT(member) offsetof(struct steno_native_start, member)
    {"model", FIELD_TEXT, AT(model), 0, STENO_NATIVE_MODEL_BYTES - 1},
    {"encoding", FIELD_ENCODING, AT(audio.encoding), 0, 0},
    {"sample_rate", FIELD_INT, AT(audio.sample_rate), STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE},
    {"channels", FIELD_INT, AT(audio.channels), 1, STENO_AUDIO_MAX_CHANNELS},
    {"channel", FIELD_INT, AT(audio.channel), 0, STENO_AUDIO_MAX_CHANNELS},
    {"interim", FIELD_BOOL, AT(interim), 0, 0},
    {"words", FIELD_BOOL, AT(words), 0, 0},
    {STENO_WORD_TIMES, FIELD_TIMES, AT(aligned), 0, 0},
    {"alternatives", FIELD_INT, AT(alternatives), 1, STENO_NATIVE_MAX_ALTERNATIVES},
    {"beam", FIELD_INT, AT(beam), 0, STENO_MAX_BEAM},
    {"endpointing", FIELD_BOOL, AT(endpointing), 0, 0},
    {"multichannel", FIELD_BOOL, AT(multichannel), 0, 0},
    {"diarize", FIELD_BOOL, AT(diarize), 0, 0},
    {"max_speakers", FIELD_INT, AT(max_speakers), 1, STENO_LIVE_SPEAKERS},
    {"resumable", FIELD_BOOL, AT(resumable), 0, 0},
    {"vad", FIELD_VAD, AT(vad), 0, 0},
    {"silence_alone", FIELD_SECONDS, AT(endpoint.silence_alone), 0.1, 600},
    {"silence_after", FIELD_SECONDS, AT(endpoint.silence_after), 0.1, 60},
    {"longest", FIELD_SECONDS, AT(endpoint.longest), 1, 3600},
    {"turn", FIELD_TURN, AT(turn.kind), 0, 0},
    {"turn_threshold", FIELD_SHARE, AT(turn.threshold), 0, 1},
#undef AT
};
#define FIELD_NAMES                                                                                \
    "model, encoding, sample_rate, channels, channel, multichannel, interim, "                     \
    "words, " STENO_WORD_TIMES ", "                                                                \
    "alternatives, beam, endpointing, diarize, max_speakers, resumable, vad, silence_alone, "      \
    "silence_after, longest, turn, turn_threshold, " STENO_HINT_NAMES

void steno_native_start_init(struct steno_native_start *s)
{
    *s = (struct steno_native_start){.audio = {.encoding = STENO_ENCODING_S16LE},
                                     .interim = true,
                                     .words = true,
                                     .endpointing = true,
                                     .alternatives = 1};
}

static const struct field *known_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(name, fields[i].name))
            return &fields[i];
    return NULL;
}

static const struct field *find_field(const char *name, steno_err *err)
{
    char meant[STENO_OPTIONS_MEANT];
    const struct field *f = known_field(name);
    if (f)
        return f;
    steno_fail(err, STENO_ERR_INVAL, "unknown field '%.40s'%s; /asyncapi.yaml has all", name,
               steno_options_meant(FIELD_NAMES, name, meant));
    return NULL;
}

static void *field_at(const struct field *f, struct steno_native_start *s)
{
    return (char *)s + f->offset;
}

static steno_status set_text(const struct field *f, struct steno_native_start *s, const char *v,
                             steno_err *err)
{
    size_t n = strlen(v);
    if (f->kind == FIELD_ENCODING)
        return steno_encoding_parse(v, field_at(f, s), err);
    if (f->kind == FIELD_VAD)
        return steno_vad_choice_parse(v, field_at(f, s), err);
    if (f->kind == FIELD_TURN)
        return steno_turn_kind_parse(v, field_at(f, s), err);
    if (f->kind == FIELD_TIMES)
        return steno_word_times_parse(v, field_at(f, s), err);
    if ((double)n > f->max)
        return steno_fail(err, STENO_ERR_INVAL, "%s: %zu bytes long, at most %.0f", f->name, n,
                          f->max);
    memcpy(field_at(f, s), v, n + 1);
    return STENO_OK;
}

static steno_status set_number(const struct field *f, struct steno_native_start *s, double v,
                               steno_err *err)
{
    if (!(v >= f->min && v <= f->max))
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.12g is outside %g..%g", f->name, v, f->min,
                          f->max);
    if (f->kind >= FIELD_SECONDS)
        *(double *)field_at(f, s) = v;
    else if (v != floor(v))
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.12g is not a whole number", f->name, v);
    else
        *(int *)field_at(f, s) = (int)v;
    return STENO_OK;
}

static steno_status set_json(const char *name, const json_t *v, struct steno_native_start *s,
                             steno_err *err)
{
    static const char *const want[] = {
        "a string", "a string", "a string",      "a string",
        "a string", "a number", "true or false", "a number of seconds",
        "a number"};
    const struct field *f;
    if (s->hints && steno_hint_known(name))
        return steno_hint_set_json(s->hints, name, v, err);
    if (steno_options_known(name))
        return steno_options_set_json(&s->options, name, v, err);
    f = find_field(name, err);
    if (!f)
        return STENO_ERR_INVAL;
    if (f->kind <= FIELD_ENCODING && json_is_string(v))
        return set_text(f, s, json_string_value(v), err);
    if ((f->kind == FIELD_INT || f->kind >= FIELD_SECONDS) && json_is_number(v))
        return set_number(f, s, json_number_value(v), err);
    if (f->kind == FIELD_BOOL && json_is_boolean(v)) {
        *(bool *)field_at(f, s) = json_is_true(v);
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_INVAL, "%s: must be %s", f->name, want[f->kind]);
}

bool steno_native_is_setting(const char *name)
{
    return steno_hint_known(name) || steno_options_known(name) || known_field(name);
}

bool steno_native_is_option(const char *name)
{
    return !strcmp(name, "beam") || steno_options_known(name) ||
           (steno_hint_known(name) && strcmp(name, "language") != 0);
}

steno_status steno_native_query(const char *name, const char *value, struct steno_native_start *io,
                                steno_err *err)
{
    const struct field *f;
    steno_status st;
    double v;
    if (io->hints && steno_hint_known(name))
        return steno_hint_set(io->hints, name, value, err);
    if (steno_options_known(name))
        return steno_options_set(&io->options, name, value, err);
    f = find_field(name, err);
    if (!f)
        return STENO_ERR_INVAL;
    if (f->kind <= FIELD_ENCODING)
        return set_text(f, io, value, err);
    if (f->kind == FIELD_BOOL)
        return steno_query_bool(f->name, value, field_at(f, io), err);
    st = steno_query_double(f->name, value, f->min, f->max, &v, err);
    return st ? st : set_number(f, io, v, err);
}

steno_status steno_native_start_complete(struct steno_native_start *s, steno_err *err)
{
    if (s->beam && s->beam < s->alternatives)
        s->beam = s->alternatives;
    if (s->multichannel && s->audio.channel)
        return steno_fail(err, STENO_ERR_INVAL, "multichannel: not possible together with channel");
    if (s->diarize && s->multichannel)
        return steno_fail(
            err, STENO_ERR_INVAL,
            "diarize: not possible together with multichannel, which has one text for "
            "each channel");
    if (s->max_speakers && !s->diarize)
        return steno_fail(err, STENO_ERR_INVAL, "max_speakers: needs diarize=true");
    if (s->turn.threshold > 0 && s->turn.kind == STENO_TURN_SILENCE)
        return steno_fail(err, STENO_ERR_INVAL, "turn_threshold: needs turn=semantic");
    if (s->turn.kind == STENO_TURN_SEMANTIC && !s->endpointing)
        return steno_fail(err, STENO_ERR_INVAL,
                          "turn: not possible with endpointing=false, with which only the client "
                          "ends segments");
    return steno_audio_format_check(&s->audio, err);
}

/* ---- settings as a query --------------------------------------------------------------------- */

static steno_status put_pair(struct steno_buf *out, const char *name, const char *value)
{
    const steno_status st = steno_buf_printf(out, "&%s=", name);
    return st ? st : steno_query_encode(out, value);
}

static const char *value_of(const struct field *f, struct steno_native_start *s, char *text,
                            size_t size)
{
    static const char *const vads[] = {"", "off", "energy", "silero"};
    const void *at = field_at(f, s);
    switch (f->kind) {
    case FIELD_TEXT:
        return at;
    case FIELD_VAD:
        return vads[*(const enum steno_vad_choice *)at];
    case FIELD_TURN:
        return steno_turn_kind_name(*(const enum steno_turn_kind *)at);
    case FIELD_TIMES:
        return *(const bool *)at ? "aligned" : "model";
    case FIELD_ENCODING:
        return steno_encoding_name(*(const enum steno_encoding *)at);
    case FIELD_BOOL:
        return *(const bool *)at ? "true" : "false";
    case FIELD_INT:
        snprintf(text, size, "%d", *(const int *)at);
        break;
    case FIELD_SECONDS:
    case FIELD_SHARE:
        snprintf(text, size, "%.17g", *(const double *)at);
        break;
    }
    return text;
}

static steno_status put_options(struct steno_buf *out, const struct steno_options *o,
                                enum steno_option_scope scope)
{
    struct steno_option_list list;
    steno_status st = STENO_OK;
    steno_options_list(o, scope, &list);
    for (size_t i = 0; !st && i < list.n; i++)
        st = put_pair(out, list.v[i].name, list.v[i].value);
    return st;
}

static steno_status put_hints(struct steno_buf *out, const struct steno_hint_store *h)
{
    steno_status st = *h->language ? put_pair(out, "language", h->language) : STENO_OK;
    if (!st && h->translate)
        st = put_pair(out, "translate", "true");
    if (!st && h->prompt)
        st = put_pair(out, "prompt", h->prompt);
    if (!st && h->prefix)
        st = put_pair(out, "prefix", h->prefix);
    if (!st && h->hotwords)
        st = put_pair(out, "hotwords", h->hotwords);
    if (!st && h->replace)
        st = put_pair(out, "replace", h->replace);
    if (!st && h->redact)
        st = put_pair(out, "redact", h->redact);
    if (!st && h->no_fillers)
        st = put_pair(out, "filler_words", "false");
    if (!st && h->profanity_filter)
        st = put_pair(out, "profanity_filter", "true");
    return st;
}

steno_status steno_native_write_query(struct steno_buf *out, const struct steno_native_start *s)
{
    struct steno_native_start own = *s, plain;
    steno_status st = STENO_OK;
    steno_native_start_init(&plain);
    for (size_t i = 0; !st && i < sizeof fields / sizeof *fields; i++) {
        char text[40], usual[40];
        const char *v = value_of(&fields[i], &own, text, sizeof text);
        if (strcmp(v, value_of(&fields[i], &plain, usual, sizeof usual)) != 0)
            st = put_pair(out, fields[i].name, v);
    }
    THEN(st, put_options(out, &s->options, STENO_OPTION_OF_STREAM));
    THEN(st, put_options(out, &s->options, STENO_OPTION_OF_MODEL));
    return st || !s->hints ? st : put_hints(out, s->hints);
}

/* ---- resuming -------------------------------------------------------------------------------- */

void steno_native_resume_init(struct steno_native_resume *r)
{
    *r = (struct steno_native_resume){.sample = -1};
}

static steno_status read_count(const char *name, const char *value, int64_t *out, steno_err *err)
{
    char *end;
    long long v;
    errno = 0;
    v = strtoll(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || v == INT64_MAX)
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a whole number of 0 or more",
                          name, value);
    *out = v;
    return STENO_OK;
}

steno_status steno_native_resume_query(const char *name, const char *value,
                                       struct steno_native_resume *io, steno_err *err)
{
    int64_t seq;
    steno_status st;
    if (!strcmp(name, "sample"))
        return read_count(name, value, &io->sample, err);
    if (!strcmp(name, "seq")) {
        st = read_count(name, value, &seq, err);
        if (!st)
            io->next = (uint64_t)seq + 1;
        return st;
    }
    if (strcmp(name, "session_id"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "unknown parameter '%.40s' of a resumed session, known are session_id, "
                          "seq, sample",
                          name);
    if (!*value || strlen(value) >= sizeof io->session_id)
        return steno_fail(err, STENO_ERR_INVAL, "session_id: %zu bytes long, must be 1 to %zu",
                          strlen(value), sizeof io->session_id - 1);
    memcpy(io->session_id, value, strlen(value) + 1);
    return STENO_OK;
}

static steno_status read_start(json_t *root, struct steno_native_start *out, steno_err *err)
{
    const char *name;
    json_t *v;
    steno_status st = STENO_OK;
    json_object_foreach (root, name, v) {
        if (!strcmp(name, "type"))
            continue;
        st = set_json(name, v, out, err);
        if (st)
            return steno_fail_in(err, st, "start");
    }
    st = steno_native_start_complete(out, err);
    return st ? steno_fail_in(err, st, "start") : STENO_OK;
}

static steno_status read_message(json_t *root, const struct steno_native_start *defaults,
                                 struct steno_native_message *out, steno_err *err)
{
    static const char *const types[] = {"start", "finalize", "end", "keepalive"};
    const json_t *type = json_object_get(root, "type");
    struct steno_native_message m = {.start = *defaults};
    size_t i;
    steno_status st;
    if (!json_is_string(type))
        return steno_fail(err, STENO_ERR_INVAL, "message: %s",
                          type ? "'type' must be a string" : "'type' is missing");
    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(json_string_value(type), types[i]))
            break;
    if (i == sizeof types / sizeof *types)
        return steno_fail(
            err, STENO_ERR_INVAL,
            "message: unknown type '%.40s', known are start, finalize, end, keepalive",
            json_string_value(type));
    m.type = (enum steno_native_type)i;
    if (m.type == STENO_NATIVE_START && (st = read_start(root, &m.start, err)))
        return st;
    *out = m;
    return STENO_OK;
}

steno_status steno_native_parse(const char *text, size_t n,
                                const struct steno_native_start *defaults,
                                struct steno_native_message *out, steno_err *err)
{
    json_t *root;
    steno_status st;
    if (n > STENO_NATIVE_MAX_TEXT)
        return steno_fail(err, STENO_ERR_LIMIT, "message: %zu bytes of text, at most %d", n,
                          STENO_NATIVE_MAX_TEXT);
    st = steno_json_object(&root, text, n, err);
    if (st)
        return st;
    st = read_message(root, defaults, out, err);
    json_decref(root);
    return st;
}

/* ---- server messages --------------------------------------------------------------------- */

static steno_status open_message(struct steno_buf *out, const char *type,
                                 const struct steno_native_head *h)
{
    return steno_json_printf(
        out, "{\"type\":\"%-s\",\"session_id\":%s,\"seq\":%llu,\"audio_ms\":%lld", type,
        h->session_id, (unsigned long long)h->seq, (long long)h->audio_ms);
}

/* Append ,"name":"text". */
static steno_status put_member(struct steno_buf *out, const char *name, const char *text, size_t n)
{
    steno_status st = steno_buf_printf(out, ",\"%s\":", name);
    return st ? st : steno_json_put_string(out, text, n);
}

/* voices: whose times are those of the words; NULL: not known. */
static steno_status native_words(struct steno_buf *out, double offset, const struct steno_word *w,
                                 size_t n, const struct steno_live_voices *voices)
{
    steno_status st = steno_buf_puts(out, ",\"words\":[");
    for (size_t i = 0; !st && i < n; i++) {
        st = steno_json_printf(out, "%-s%s,\"start\":%.3f,\"end\":%.3f,\"confidence\":%.3f",
                               i ? ",{\"word\":" : "{\"word\":", w[i].text, offset + w[i].start,
                               offset + w[i].end, (double)w[i].confidence);
        if (!st && voices && voices->n_parts)
            st = steno_buf_printf(out, ",\"speaker\":%u", steno_live_voice_at(voices, w[i].start));
        THEN(st, steno_buf_puts(out, "}"));
    }
    return st ? st : steno_buf_puts(out, "]");
}

static steno_status put_alternatives(struct steno_buf *out, double offset,
                                     const struct steno_event *ev, bool words)
{
    steno_status st = steno_buf_puts(out, ",\"alternatives\":[");
    for (size_t i = 0; !st && i < ev->n_alternatives; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        st = steno_json_printf(out, "%-s%s,\"confidence\":%.3f,\"score\":%.3f",
                               i ? ",{\"text\":" : "{\"text\":", a->text, (double)a->confidence,
                               a->score);
        if (!st && words)
            st = native_words(out, offset, a->words, a->n_words, NULL);
        THEN(st, steno_buf_puts(out, "}"));
    }
    return st ? st : steno_buf_puts(out, "]");
}

steno_status steno_native_write_ready(struct steno_buf *out, const struct steno_native_head *h,
                                      const struct steno_native_start *s)
{
    steno_status st = open_message(out, "ready", h);
    THEN(st, steno_json_printf(out, ",\"protocol\":%s,\"model\":%s,\"encoding\":%s",
                               STENO_NATIVE_PROTOCOL, s->model,
                               steno_encoding_name(s->audio.encoding)));
    if (!st && s->audio.sample_rate) /* a WAV file has its own, which comes later */
        st = steno_buf_printf(out, ",\"sample_rate\":%d,\"channels\":%d", s->audio.sample_rate,
                              s->audio.channels);
    THEN(st, steno_buf_printf(out,
                              ",\"interim\":%s,\"words\":%s,\"endpointing\":%s,"
                              "\"alternatives\":%d,\"beam\":%d",
                              s->interim ? "true" : "false", s->words ? "true" : "false",
                              s->endpointing ? "true" : "false", s->alternatives, s->beam));
    THEN(st, steno_options_write(out, &s->options));
    if (!st && s->turn.kind != STENO_TURN_SILENCE)
        st = steno_buf_printf(out, ",\"turn\":\"%s\"", steno_turn_kind_name(s->turn.kind));
    if (!st && s->aligned)
        st = steno_buf_puts(out, ",\"" STENO_WORD_TIMES "\":\"aligned\"");
    if (!st && s->diarize)
        st = steno_buf_puts(out, ",\"diarize\":true");
    if (!st && s->resumable)
        st = steno_buf_printf(out, ",\"resume_seconds\":%.3g", s->resume_seconds);
    return st ? st : steno_buf_puts(out, "}");
}

steno_status steno_native_write_resumed(struct steno_buf *out, const struct steno_native_head *h,
                                        int64_t samples, bool ended)
{
    steno_status st = open_message(out, "resumed", h);
    return st ? st
              : steno_buf_printf(out, ",\"samples\":%lld,\"ended\":%s}", (long long)samples,
                                 ended ? "true" : "false");
}

static steno_status put_partial(struct steno_buf *out, double offset, const struct steno_event *ev)
{
    size_t n = strlen(ev->text), stable = ev->stable_bytes < n ? ev->stable_bytes : n;
    steno_status st = steno_buf_printf(out, ",\"start\":%.3f", offset + ev->start);
    THEN(st, put_member(out, "text", ev->text, n));
    return st ? st : put_member(out, "stable", ev->text, stable);
}

static steno_status put_final(struct steno_buf *out, double offset, const struct steno_event *ev)
{
    steno_status st =
        steno_buf_printf(out, ",\"start\":%.3f,\"end\":%.3f,\"confidence\":%.3f,\"reason\":\"%s\"",
                         offset + ev->start, offset + ev->end, (double)ev->confidence,
                         steno_final_reason_name(ev->reason));
    if (!st && ev->language && *ev->language && ev->language_probability > 0)
        st = steno_buf_printf(out, ",\"language\":\"%s\",\"language_probability\":%.3f",
                              ev->language, (double)ev->language_probability);
    if (!st && ev->labels.emotion)
        st = put_member(out, "emotion", ev->labels.emotion, strlen(ev->labels.emotion));
    if (!st && ev->labels.sound)
        st = put_member(out, "sound", ev->labels.sound, strlen(ev->labels.sound));
    return st ? st : put_member(out, "text", ev->text, strlen(ev->text));
}

static steno_status put_turn(struct steno_buf *out, double offset, const struct steno_event *ev,
                             const struct steno_voiced *v, const char *name, size_t *at)
{
    struct steno_buf text;
    steno_status st;
    steno_buf_init(&text, SIZE_MAX / 2);
    st = v->n_words ? steno_voices_put_words(&text, ev, v->word, v->n_words, at)
                    : steno_buf_puts(&text, ev->text);
    THEN(st, steno_buf_printf(out, "{\"speaker\":%d,\"start\":%.3f,\"end\":%.3f", v->speaker + 1,
                              offset + v->start, offset + v->end));
    if (!st && name)
        st = put_member(out, "name", name, strlen(name));
    THEN(st, put_member(out, "text", text.data, text.len));
    steno_buf_free(&text);
    return st ? st : steno_buf_puts(out, "}");
}

static steno_status put_voices(struct steno_buf *out, double offset, const struct steno_event *ev,
                               const struct steno_live_voices *v)
{
    size_t at = 0;
    steno_status st = steno_buf_puts(out, ",\"turns\":[");
    for (size_t i = 0; !st && i < v->n_parts; i++) {
        st = i ? steno_buf_puts(out, ",") : STENO_OK;
        THEN(st, put_turn(out, offset, ev, &v->part[i],
                          v->names ? v->names[v->part[i].speaker] : NULL, &at));
    }
    for (size_t i = 0; !st && i < v->n_merges; i++)
        st = steno_buf_printf(out, "%s{\"speaker\":%d,\"is\":%d}", i ? "," : "],\"merged\":[",
                              v->merge[i].speaker + 1, v->merge[i].is + 1);
    return st ? st : steno_buf_puts(out, "]");
}

steno_status steno_native_write_event(struct steno_buf *out, const struct steno_native_head *h,
                                      const struct steno_native_start *s,
                                      const struct steno_event *ev)
{
    static const char *const types[] = {"speech_start", "partial", "final"};
    steno_status st = open_message(out, types[ev->kind], h);
    THEN(st, steno_buf_printf(out, ",\"segment\":%lld", (long long)(h->segment + ev->segment)));
    if (!st && h->channel)
        st = steno_buf_printf(out, ",\"channel\":%u", h->channel);
    if (!st && ev->kind == STENO_SPEECH_START)
        st = steno_buf_printf(out, ",\"start\":%.3f", h->offset + ev->start);
    if (!st && ev->kind == STENO_PARTIAL)
        st = put_partial(out, h->offset, ev);
    if (!st && ev->kind == STENO_FINAL)
        st = put_final(out, h->offset, ev);
    if (!st && ev->kind == STENO_FINAL && h->voices)
        st = put_voices(out, h->offset, ev, h->voices);
    if (!st && ev->kind != STENO_SPEECH_START && s->words)
        st = native_words(out, h->offset, ev->words, ev->n_words, h->voices);
    if (!st && ev->kind == STENO_FINAL && s->alternatives > 1)
        st = put_alternatives(out, h->offset, ev, s->words);
    return st ? st : steno_buf_puts(out, "}");
}

steno_status steno_native_write_digit(struct steno_buf *out, const struct steno_native_head *h,
                                      const char *digit)
{
    steno_status st = open_message(out, "dtmf", h);
    return THEN(st, steno_json_printf(out, ",\"digit\":%s}", digit));
}

steno_status steno_native_write_error(struct steno_buf *out, const struct steno_native_head *h,
                                      const char *code, const char *message, double retry_after)
{
    steno_status st = open_message(out, "error", h);
    THEN(st, steno_json_printf(out, ",\"code\":%s,\"message\":%s", code, message));
    if (!st && retry_after > 0)
        st = steno_buf_printf(out, ",\"retry_after\":%.0f", ceil(retry_after));
    return st ? st : steno_buf_puts(out, "}");
}

steno_status steno_native_write_end(struct steno_buf *out, const struct steno_native_head *h,
                                    const char *reason, uint64_t finals, const char *warning)
{
    steno_status st = open_message(out, "end", h);
    THEN(st, steno_buf_printf(out, ",\"reason\":\"%s\",\"finals\":%llu", reason,
                              (unsigned long long)finals));
    if (!st && *warning)
        st = steno_json_printf(out, ",\"warnings\":[%s]", warning);
    return st ? st : steno_buf_puts(out, "}");
}
