/* OpenAI's Realtime API, transcription sessions (openai-openapi 2.3.0), in both of its schemas: the
 * released one ("GA") and the beta. A client asks for the beta by `OpenAI-Beta: realtime=v1`; here
 * it is the query parameter beta=1, which the server adds.
 *
 * Deltas only append, so only the stable prefix of a partial is sent, and deltas come while the
 * speaker speaks. The rest comes with the final, followed by `completed`, once per item. A segment
 * is an item. `commit` closes the segment, `clear` discards the audio of the open one. An update of
 * the session holds from the next item on; one that is refused changes nothing. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

#include "protocol/json_audio.h"
#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/openai_rest.h"
#include "protocol/openai_secret.h"
#include "protocol/then.h"

#define RATE 24000  /* of pcm16 when none is given */
#define SILENCE 0.5 /* s: silence_duration_ms when none is given */
#define ID_BYTES 64 /* of a client's event_id that are kept */

/* Settings that are echoed. */
struct told {
    bool logprobs;         /* wanted with `completed` */
    double threshold;      /* of server_vad; the VAD has its own */
    int padding_ms;        /* likewise */
    const char *eagerness; /* of semantic_vad */
};

struct state {
    bool beta;
    struct told told;
    bool any_audio;                /* since the session began */
    bool has_audio;                /* since the last commit */
    uint64_t events;               /* made so far, for ids */
    uint64_t items;                /* begun so far; the running one has number `items` */
    uint64_t committed;            /* number of the last item that was committed; 0: none */
    bool item_open;                /* speech_started was sent for it */
    size_t sent;                   /* bytes of its text sent in deltas */
    double item_from;              /* s */
    struct steno_json_audio audio; /* of the message that arrives */
    char event_id[ID_BYTES];       /* of the client's message, for errors */
    char commit_id[ID_BYTES];      /* of its last commit */
};

static struct state *realtime_state(struct steno_dialect_session *d)
{
    return d->state;
}

static void realtime_init(struct steno_dialect_session *d)
{
    d->start.audio.encoding = STENO_ENCODING_S16LE;
    d->start.audio.sample_rate = RATE;
    d->start.endpoint.silence_after = SILENCE;
    realtime_state(d)->told =
        (struct told){.threshold = 0.5, .padding_ms = 300, .eagerness = "auto"};
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct steno_buf *open_event(struct steno_dialect_session *d, const char *type,
                                    steno_status *st)
{
    struct steno_buf *b = d->begin(d);
    *st = steno_buf_printf(b, "{\"event_id\":\"event_%s_%llu\",\"type\":\"%s\"",
                           steno_dialect_bare_id(d->id),
                           (unsigned long long)realtime_state(d)->events++, type);
    return b;
}

static void close_event(struct steno_dialect_session *d, struct steno_buf *b, steno_status st)
{
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

static steno_status put_item_id(struct steno_dialect_session *d, struct steno_buf *b,
                                const char *name, uint64_t item)
{
    if (!item)
        return steno_buf_printf(b, ",\"%s\":null", name);
    return steno_buf_printf(b, ",\"%s\":\"item_%s_%llu\"", name, steno_dialect_bare_id(d->id),
                            (unsigned long long)item);
}

static const char *format_name(const struct steno_dialect_session *d, bool beta)
{
    switch (d->start.audio.encoding) {
    case STENO_ENCODING_MULAW:
        return beta ? "g711_ulaw" : "audio/pcmu";
    case STENO_ENCODING_ALAW:
        return beta ? "g711_alaw" : "audio/pcma";
    default:
        return beta ? "pcm16" : "audio/pcm";
    }
}

/* Append ,"name":"text" or null. */
static steno_status put_text_or_null(struct steno_buf *b, const char *name, const char *text)
{
    return text && *text ? steno_json_printf(b, ",\"%-s\":%s", name, text)
                         : steno_buf_printf(b, ",\"%s\":null", name);
}

/* Append ,"keywords":[...] of hotwords with commas between them, if there are any. */
static steno_status put_keywords(struct steno_buf *b, const char *hotwords)
{
    const char *p = hotwords ? hotwords + strspn(hotwords, ", ") : "";
    steno_status st = *p ? steno_buf_puts(b, ",\"keywords\":[") : STENO_OK;
    if (!*p)
        return STENO_OK;
    for (size_t n; !st && *p; p += strspn(p, ", ")) {
        n = strcspn(p, ",");
        st = steno_json_put_string(b, p, n);
        p += n;
        if (!st && p[strspn(p, ", ")])
            st = steno_buf_puts(b, ",");
    }
    return st ? st : steno_buf_puts(b, "]");
}

/* Append "name":{"model","language","prompt","keywords"}. */
static steno_status put_script(const struct steno_dialect_session *d, struct steno_buf *b,
                               const char *name)
{
    steno_status st = steno_json_printf(b, ",\"%-s\":{\"model\":%s", name, d->start.model);
    THEN(st, put_text_or_null(b, "language", d->hints.language));
    THEN(st, put_text_or_null(b, "prompt", d->hints.prompt));
    THEN(st, put_keywords(b, d->hints.hotwords));
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status put_detection(struct steno_dialect_session *d, struct steno_buf *b)
{
    const struct told *t = &realtime_state(d)->told;
    if (!d->start.endpointing)
        return steno_buf_puts(b, ",\"turn_detection\":null");
    if (d->start.turn.kind != STENO_TURN_SILENCE)
        return steno_buf_printf(
            b, ",\"turn_detection\":{\"type\":\"semantic_vad\",\"eagerness\":\"%s\"}",
            t->eagerness);
    return steno_buf_printf(b,
                            ",\"turn_detection\":{\"type\":\"server_vad\",\"threshold\":%g,"
                            "\"prefix_padding_ms\":%d,\"silence_duration_ms\":%.0f,"
                            "\"idle_timeout_ms\":null}",
                            t->threshold, t->padding_ms, d->start.endpoint.silence_after * 1000);
}

static steno_status put_beta_session(struct steno_dialect_session *d, struct steno_buf *b)
{
    steno_status st = steno_buf_printf(b,
                                       ",\"modalities\":[\"text\"],\"input_audio_format\":\"%s\","
                                       "\"input_audio_noise_reduction\":null",
                                       format_name(d, true));
    THEN(st, put_detection(d, b));
    return st ? st : put_script(d, b, "input_audio_transcription");
}

static steno_status put_session(struct steno_dialect_session *d, struct steno_buf *b)
{
    steno_status st =
        steno_buf_printf(b,
                         ",\"type\":\"transcription\",\"audio\":{\"input\":{\"format\":{"
                         "\"type\":\"%s\",\"rate\":%d},\"noise_reduction\":null",
                         format_name(d, false), d->start.audio.sample_rate);
    THEN(st, put_detection(d, b));
    THEN(st, put_script(d, b, "transcription"));
    return st ? st : steno_buf_puts(b, "}}");
}

/* Tell every setting. */
static void send_session(struct steno_dialect_session *d, const char *what)
{
    const struct state *s = realtime_state(d);
    char type[64];
    steno_status st;
    struct steno_buf *b;
    snprintf(type, sizeof type, "%ssession.%s", s->beta ? "transcription_" : "", what);
    b = open_event(d, type, &st);
    THEN(st, steno_buf_printf(
                 b,
                 ",\"session\":{\"id\":\"%s\",\"object\":"
                 "\"realtime.transcription_session\",\"expires_at\":0,\"include\":%s",
                 d->id, s->told.logprobs ? "[\"item.input_audio_transcription.logprobs\"]" : "[]"));
    if (!st)
        st = s->beta ? put_beta_session(d, b) : put_session(d, b);
    THEN(st, steno_buf_puts(b, "}"));
    close_event(d, b, st);
}

static void realtime_opened(struct steno_dialect_session *d)
{
    char model[STENO_NATIVE_MODEL_BYTES];
    if (!*d->start.model && d->check && !d->check(d, &d->start, model, NULL))
        memcpy(d->start.model, model, sizeof model);
    send_session(d, "created");
}

static void send_error(struct steno_dialect_session *d, const char *type, const char *code,
                       const char *message)
{
    struct state *s = realtime_state(d);
    const char *param = strncmp(message, "model:", 6) ? steno_hint_named_in(message) : "model";
    steno_status st;
    struct steno_buf *b = open_event(d, "error", &st);
    THEN(st, steno_json_printf(b,
                               ",\"error\":{\"type\":\"%-s\",\"code\":\"%-s\",\"param\":%-s%-s%-s,"
                               "\"message\":%s,\"event_id\":",
                               type, code, param ? "\"" : "", param ? param : "null",
                               param ? "\"" : "", message));
    if (!st && *s->event_id)
        st = steno_json_put_string(b, s->event_id, strlen(s->event_id));
    else if (!st)
        st = steno_buf_puts(b, "null");
    THEN(st, steno_buf_puts(b, "}"));
    close_event(d, b, st);
}

/* ---- the client's events --------------------------------------------------------------------- */

static steno_status set_start_format(struct steno_native_start *s, const char *type, int rate,
                                     steno_err *err)
{
    static const struct {
        const char *beta, *name;
        enum steno_encoding encoding;
        int rate;
    } formats[] = {{"pcm16", "audio/pcm", STENO_ENCODING_S16LE, RATE},
                   {"g711_ulaw", "audio/pcmu", STENO_ENCODING_MULAW, 8000},
                   {"g711_alaw", "audio/pcma", STENO_ENCODING_ALAW, 8000}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(type, formats[i].beta) || !strcmp(type, formats[i].name)) {
            s->audio.encoding = formats[i].encoding;
            s->audio.sample_rate = rate ? rate : formats[i].rate;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "format: '%.40s' is not PCM, mu-law or A-law", type);
}

/* Members that are present must be of their type: what is not read is not obeyed. null is absent.
 */
static steno_status be(const json_t *v, json_type type, const char *name, steno_err *err)
{
    if (!v || json_is_null(v) || json_typeof(v) == type)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "%s: must be %s", name,
                      type == JSON_OBJECT  ? "an object"
                      : type == JSON_ARRAY ? "an array"
                                           : "a string");
}

static steno_status number_in(const json_t *v, const char *name, double low, double high,
                              double *out, steno_err *err)
{
    const json_t *n = json_object_get(v, name);
    if (!n || json_is_null(n))
        return STENO_OK;
    if (!json_is_number(n) || !(json_number_value(n) >= low && json_number_value(n) <= high))
        return steno_fail(err, STENO_ERR_INVAL, "turn_detection.%s must be %g to %g", name, low,
                          high);
    *out = json_number_value(n);
    return STENO_OK;
}

/* OpenAI's own: how long it waits at most, by eagerness. The thresholds are ours. */
static const struct eagerness {
    const char *name;
    double wait, threshold;
} eagernesses[] = {{"auto", 4, 0.5}, {"low", 8, 0.8}, {"medium", 4, 0.5}, {"high", 2, 0.3}};

/* semantic_vad is the network that judges turns; a server that has none takes silence, as for
 * server_vad. */
static steno_status set_semantic(struct steno_native_start *s, struct told *t, const json_t *v,
                                 steno_err *err)
{
    const json_t *given = json_object_get(v, "eagerness");
    const char *name = given && !json_is_null(given) ? json_string_value(given) : "auto";
    for (size_t i = 0; name && i < sizeof eagernesses / sizeof *eagernesses; i++) {
        const struct eagerness *e = &eagernesses[i];
        if (strcmp(name, e->name) != 0)
            continue;
        t->eagerness = e->name;
        s->turn = (struct steno_turn_choice){
            .kind = STENO_TURN_IF_THERE, .threshold = e->threshold, .wait = e->wait};
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_INVAL,
                      "turn_detection.eagerness: '%.40s' is none of low, medium, high, auto",
                      name ? name : "not a string");
}

static steno_status set_detection(struct steno_native_start *s, struct told *t, const json_t *v,
                                  steno_err *err)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    double ms = s->endpoint.silence_after * 1000, padding = t->padding_ms;
    steno_status st;
    if (!v)
        return STENO_OK;
    s->endpointing = !json_is_null(v);
    if (!s->endpointing)
        return STENO_OK;
    st = be(v, JSON_OBJECT, "turn_detection", err);
    if (!st)
        st = be(json_object_get(v, "type"), JSON_STRING, "turn_detection.type", err);
    if (st)
        return st;
    if (type && strcmp(type, "server_vad") && strcmp(type, "semantic_vad"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "turn_detection.type: '%.40s' is neither server_vad nor semantic_vad",
                          type);
    st = number_in(v, "silence_duration_ms", 100, 60000, &ms, err);
    if (!st && type) {
        s->turn = (struct steno_turn_choice){.kind = STENO_TURN_SILENCE};
        if (!strcmp(type, "semantic_vad"))
            st = set_semantic(s, t, v, err);
    }
    if (!st)
        st = number_in(v, "threshold", 0, 1, &t->threshold, err);
    if (!st)
        st = number_in(v, "prefix_padding_ms", 0, 60000, &padding, err);
    s->endpoint.silence_after = ms / 1000;
    t->padding_ms = (int)padding;
    return st;
}

/* Read {"language", "prompt", "keywords": [...]} of a transcription; null removes. */
static steno_status set_hints(struct steno_hint_store *h, const json_t *script, steno_err *err)
{
    static const char *const names[] = {"language", "prompt"};
    const json_t *keywords = json_object_get(script, "keywords"), *v;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < 2 && !st; i++)
        if ((v = json_object_get(script, names[i])))
            st = steno_hint_set_json(h, names[i], v, err);
    if (!st && keywords)
        st = steno_hint_set(h, "hotwords", "", err);
    return st ? st : steno_hint_add_list(h, "hotwords", "keywords", keywords, err);
}

/* Read "include": ["item.input_audio_transcription.logprobs"]; when absent nothing changes. */
static void set_include(struct told *t, const json_t *list)
{
    const json_t *v;
    size_t i;
    if (!list)
        return;
    t->logprobs = false;
    json_array_foreach (list, i, v)
        if (json_is_string(v) &&
            !strcmp(json_string_value(v), "item.input_audio_transcription.logprobs"))
            t->logprobs = true;
}

static steno_status set_audio_format(struct steno_dialect_session *d, const char *type,
                                     const json_t *rate, steno_err *err)
{
    struct steno_audio_format was = d->asked.audio;
    steno_status st = STENO_OK;
    if (rate && (!json_is_integer(rate) || json_integer_value(rate) < STENO_AUDIO_MIN_RATE ||
                 json_integer_value(rate) > STENO_AUDIO_MAX_RATE))
        return steno_fail(err, STENO_ERR_INVAL, "format.rate must be %d to %d",
                          STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE);
    if (rate && !type)
        return steno_fail(err, STENO_ERR_INVAL, "format.type: is missing");
    if (type)
        st = set_start_format(&d->asked, type, (int)json_integer_value(rate), err);
    if (!st && realtime_state(d)->any_audio &&
        (was.encoding != d->asked.audio.encoding || was.sample_rate != d->asked.audio.sample_rate))
        st = steno_fail(err, STENO_ERR_INVAL, "format: cannot change once the session has audio");
    return st;
}

/* The members of one schema would be unknown ones in the other, and change nothing. */
static steno_status check_schema(const json_t *session, bool beta, steno_err *err)
{
    static const char *const old[] = {"input_audio_format", "input_audio_transcription",
                                      "turn_detection"};
    steno_status st = be(session, JSON_OBJECT, "session", err);
    if (!st && !json_object_size(session))
        st = steno_fail(err, STENO_ERR_INVAL, "session: is missing or empty");
    if (!st && beta && json_object_get(session, "audio"))
        st = steno_fail(err, STENO_ERR_INVAL, "session.audio: is of session.update");
    for (size_t i = 0; !st && !beta && i < sizeof old / sizeof *old; i++)
        if (json_object_get(session, old[i]))
            st = steno_fail(err, STENO_ERR_INVAL,
                            "session.%s: is of transcription_session.update, here it is in "
                            "session.audio.input",
                            old[i]);
    return st;
}

/* Put the fields that are present into d->asked and *t. */
static steno_status read_session(struct steno_dialect_session *d, const json_t *session, bool beta,
                                 struct told *t, steno_err *err)
{
    const json_t *input = json_object_get(json_object_get(session, "audio"), "input");
    const json_t *format =
        beta ? json_object_get(session, "input_audio_format") : json_object_get(input, "format");
    const json_t *script = beta ? json_object_get(session, "input_audio_transcription")
                                : json_object_get(input, "transcription");
    const json_t *model = json_object_get(script, "model");
    const char *type = json_string_value(beta ? format : json_object_get(format, "type"));
    const struct {
        const json_t *v;
        json_type type;
        const char *name;
    } members[] = {{json_object_get(session, "audio"), JSON_OBJECT, "session.audio"},
                   {input, JSON_OBJECT, "session.audio.input"},
                   {format, beta ? JSON_STRING : JSON_OBJECT, "format"},
                   {json_object_get(format, "type"), JSON_STRING, "format.type"},
                   {script, JSON_OBJECT, "transcription"},
                   {model, JSON_STRING, "transcription.model"},
                   {json_object_get(session, "include"), JSON_ARRAY, "include"}};
    steno_status st = steno_openai_secret_check(session, err);
    for (size_t i = 0; !st && i < sizeof members / sizeof *members; i++)
        st = be(members[i].v, members[i].type, members[i].name, err);
    if (!st)
        st = set_audio_format(d, type, json_object_get(format, "rate"), err);
    if (!st && json_is_string(model))
        st = steno_native_query("model", json_string_value(model), &d->asked, err);
    if (!st)
        st = set_hints(d->asked.hints, script, err);
    set_include(t, json_object_get(session, "include"));
    return st ? st
              : set_detection(&d->asked, t,
                              json_object_get(beta ? session : input, "turn_detection"), err);
}

/* Change the fields that are present, or none if one of them is wrong. */
static steno_status update(struct steno_dialect_session *d, const json_t *session, bool beta,
                           enum steno_dialect_act *act, steno_err *err)
{
    struct state *s = realtime_state(d);
    struct told told = s->told;
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = check_schema(session, beta, err);
    if (!st)
        st = steno_dialect_ask(d, err);
    if (!st)
        st = read_session(d, session, beta, &told, err);
    if (!st && d->check)
        st = d->check(d, &d->asked, model, err);
    if (st)
        return st;
    steno_dialect_take(d);
    s->told = told;
    send_session(d, "updated");
    *act = s->any_audio ? STENO_ACT_CHANGE : STENO_ACT_NOTHING;
    return STENO_OK;
}

/* Settings that hold from the beginning: they came with an ephemeral key. */
static steno_status preset(struct steno_dialect_session *d, const char *text, steno_err *err)
{
    json_t *session;
    steno_status st = steno_json_object(&session, text, strlen(text), err);
    if (st)
        return st;
    st = steno_dialect_ask(d, err);
    if (!st)
        st = read_session(d, session, !json_object_get(session, "audio"), &realtime_state(d)->told,
                          err);
    json_decref(session);
    if (!st)
        steno_dialect_take(d);
    return st;
}

/* model, intent, language ...: the model, the language, beam, hints and options of families apply,
 * session is the JSON of an update, everything else is ignored. */
static steno_status realtime_query(struct steno_dialect_session *d, const char *name,
                                   const char *value, steno_err *err)
{
    if (!strcmp(name, "beta"))
        realtime_state(d)->beta = true;
    if (!strcmp(name, "session"))
        return preset(d, value, err);
    if (!strcmp(name, "language"))
        return steno_hint_set(d->start.hints, name, value, err);
    if (!strcmp(name, "model") || steno_native_is_option(name))
        return steno_native_query(name, value, &d->start, err);
    return STENO_OK;
}

static steno_status realtime_text_part(struct steno_dialect_session *d, const char *p, size_t n,
                                       struct steno_buf *rest, steno_err *err)
{
    struct state *s = realtime_state(d);
    steno_status st = steno_json_audio_push(&s->audio, p, n, rest, &d->audio, err);
    s->has_audio |= d->audio.len > 0;
    s->any_audio |= s->has_audio;
    return st;
}

/* The audio itself was taken while the message arrived. */
static steno_status append_audio(const struct state *s, const json_t *root, steno_err *err)
{
    if (!json_is_string(json_object_get(root, "audio")))
        return steno_fail(err, STENO_ERR_INVAL, "input_audio_buffer.append: audio is missing");
    return s->audio.fail.code ? steno_fail(err, s->audio.fail.code, "%s", s->audio.fail.msg)
                              : STENO_OK;
}

#define EMPTY "the audio buffer is empty"

/* The item whose speech has begun, if any, never comes. */
static void clear(struct steno_dialect_session *d)
{
    struct state *s = realtime_state(d);
    steno_status st;
    struct steno_buf *b = open_event(d, "input_audio_buffer.cleared", &st);
    close_event(d, b, st);
    s->item_open = s->has_audio = false;
}

static steno_status understand(struct steno_dialect_session *d, const json_t *root,
                               enum steno_dialect_act *act, steno_err *err)
{
    struct state *s = realtime_state(d);
    const char *type = json_string_value(json_object_get(root, "type"));
    const char *event_id = json_string_value(json_object_get(root, "event_id"));
    bool beta = type && !strcmp(type, "transcription_session.update");
    snprintf(s->event_id, sizeof s->event_id, "%.63s", event_id ? event_id : "");
    if (!type)
        return steno_fail(err, STENO_ERR_INVAL, "type is missing");
    if (beta || !strcmp(type, "session.update")) {
        const json_t *session = json_object_get(root, "session");
        /* the beta API has an event of this name, too, with its own members */
        beta |= s->beta && !json_object_get(session, "audio");
        return update(d, session, beta, act, err);
    }
    if (!strcmp(type, "input_audio_buffer.append"))
        return append_audio(s, root, err);
    if (!strcmp(type, "input_audio_buffer.commit")) {
        if (!s->has_audio)
            return steno_fail(err, STENO_ERR_INVAL, EMPTY);
        s->has_audio = false;
        memcpy(s->commit_id, s->event_id, sizeof s->commit_id);
        *act = STENO_ACT_FINALIZE;
        return STENO_OK;
    }
    if (!strcmp(type, "input_audio_buffer.clear")) {
        clear(d);
        *act = STENO_ACT_CLEAR;
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_INVAL, "unknown type '%.60s'", type);
}

static void send_mistake(struct steno_dialect_session *d, const char *message)
{
    const char *code = !strcmp(message, EMPTY)             ? "input_audio_buffer_commit_empty"
                       : !strncmp(message, "model:", 6)    ? "model_not_found"
                       : !strncmp(message, "language:", 9) ? "unsupported_language"
                                                           : "invalid_value";
    send_error(d, "invalid_request_error", code, message);
}

/* An error of an event is reported, and the session goes on. */
static steno_status realtime_text(struct steno_dialect_session *d, const char *p, size_t n,
                                  enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    st = understand(d, root, act, err);
    json_decref(root);
    realtime_state(d)->audio = (struct steno_json_audio){0};
    if (st != STENO_ERR_INVAL && st != STENO_ERR_BUSY)
        return st;
    if (st == STENO_ERR_BUSY) /* a model that is being loaded */
        send_error(d, "server_error", "busy", err ? err->msg : "");
    else
        send_mistake(d, err ? err->msg : "");
    *act = STENO_ACT_NOTHING;
    return STENO_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static void send_at(struct steno_dialect_session *d, const char *type, const char *name, double at)
{
    struct state *s = realtime_state(d);
    steno_status st;
    struct steno_buf *b = open_event(d, type, &st);
    if (!st && name)
        st = steno_buf_printf(b, ",\"%s\":%lld", name, (long long)((d->offset + at) * 1000 + 0.5));
    if (!st && !name)
        st = put_item_id(d, b, "previous_item_id", s->committed);
    THEN(st, put_item_id(d, b, "item_id", s->items));
    close_event(d, b, st);
}

static void open_item(struct steno_dialect_session *d, double start)
{
    struct state *s = realtime_state(d);
    if (s->item_open)
        return;
    s->item_open = true;
    s->items++;
    s->sent = 0;
    if (d->start.endpointing)
        send_at(d, "input_audio_buffer.speech_started", "audio_start_ms", start);
}

static void send_delta(struct steno_dialect_session *d, const char *p, size_t n)
{
    struct state *s = realtime_state(d);
    steno_status st;
    struct steno_buf *b;
    if (n <= s->sent)
        return;
    b = open_event(d, "conversation.item.input_audio_transcription.delta", &st);
    THEN(st, put_item_id(d, b, "item_id", s->items));
    THEN(st, steno_buf_puts(b, ",\"content_index\":0,\"delta\":"));
    THEN(st, steno_json_put_string(b, p + s->sent, n - s->sent));
    close_event(d, b, st);
    s->sent = n;
}

static void send_item(struct steno_dialect_session *d, const char *type)
{
    struct state *s = realtime_state(d);
    steno_status st;
    struct steno_buf *b = open_event(d, type, &st);
    THEN(st, put_item_id(d, b, "previous_item_id", s->committed));
    THEN(st, steno_buf_printf(b,
                              ",\"item\":{\"id\":\"item_%s_%llu\",\"object\":\"realtime.item\","
                              "\"type\":\"message\",\"status\":\"completed\",\"role\":\"user\","
                              "\"content\":[{\"type\":\"input_audio\",\"transcript\":null}]}",
                              steno_dialect_bare_id(d->id), (unsigned long long)s->items));
    close_event(d, b, st);
}

static void send_completed(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = realtime_state(d);
    /* an item begins where the one before it ended, or where its own stream does: not before audio
     * that was cleared */
    const double from = fmax(s->item_from, d->offset), end = d->offset + ev->end;
    const double seconds = fmax(end - from, 0);
    steno_status st;
    struct steno_buf *b =
        open_event(d, "conversation.item.input_audio_transcription.completed", &st);
    THEN(st, put_item_id(d, b, "item_id", s->items));
    THEN(st, steno_json_printf(b, ",\"content_index\":0,\"transcript\":%s", ev->text));
    if (!st && s->told.logprobs)
        st = steno_openai_put_logprobs(b, ev->words, ev->n_words);
    THEN(st, steno_buf_printf(b, ",\"usage\":{\"type\":\"duration\",\"seconds\":%.3f}", seconds));
    close_event(d, b, st);
}

/* A commit found no speech: the VAD had committed all of it, or the client's is an empty item. */
static bool is_nothing(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = realtime_state(d);
    if (*ev->text || s->item_open)
        return false;
    if (ev->reason != STENO_FINAL_REQUEST)
        return true; /* silence is not an item */
    if (!d->start.endpointing)
        return false;
    memcpy(s->event_id, s->commit_id, sizeof s->event_id);
    send_mistake(d, EMPTY);
    return true;
}

static void final(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = realtime_state(d);
    bool asked = ev->reason == STENO_FINAL_REQUEST;
    if (is_nothing(d, ev))
        return;
    open_item(d, ev->start);
    if (!asked && d->start.endpointing)
        send_at(d, "input_audio_buffer.speech_stopped", "audio_end_ms", ev->end);
    send_at(d, "input_audio_buffer.committed", NULL, 0);
    if (s->beta) {
        send_item(d, "conversation.item.created");
    } else {
        send_item(d, "conversation.item.added");
        send_item(d, "conversation.item.done");
    }
    s->committed = s->items;
    send_delta(d, ev->text, strlen(ev->text));
    send_completed(d, ev);
    s->item_open = false;
    s->item_from = d->offset + ev->end;
}

static bool realtime_is_busy(const struct steno_dialect_session *d)
{
    return ((const struct state *)d->state)->item_open;
}

static void realtime_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    if (ev->kind == STENO_SPEECH_START) {
        open_item(d, ev->start);
    } else if (ev->kind == STENO_PARTIAL && ev->stable_bytes) {
        open_item(d, ev->start);
        send_delta(d, ev->text, ev->stable_bytes);
    } else if (ev->kind == STENO_FINAL) {
        final(d, ev);
    }
}

/* The protocol has no last message: the close frame ends it. */
static void realtime_end(struct steno_dialect_session *d, bool draining)
{
    (void)d, (void)draining;
}

static void realtime_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    bool ours = !strcmp(code, "internal_error") || !strcmp(code, "out_of_memory");
    realtime_state(d)->event_id[0] = '\0';
    send_error(d, ours ? "server_error" : "invalid_request_error", code, message);
}

const struct steno_dialect steno_dialect_realtime = {
    .name = "realtime",
    .subprotocol = "realtime",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .ends_by_close = true,
    .init = realtime_init,
    .query = realtime_query,
    .opened = realtime_opened,
    .text_part = realtime_text_part,
    .text = realtime_text,
    .event = realtime_event,
    .is_busy = realtime_is_busy,
    .error = realtime_error,
    .end = realtime_end,
};
