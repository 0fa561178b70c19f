/* OpenAI's Realtime API, transcription sessions (openai-openapi 2.3.0), in both of its schemas: the
 * released one ("GA") and the beta. A client asks for the beta by `OpenAI-Beta: realtime=v1`; here
 * it is the query parameter beta=1, which the server adds.
 *
 * Deltas only append, so only the stable prefix of a partial is sent, and deltas come while the
 * speaker speaks. The rest comes with the final, followed by `completed`, once per item. A segment
 * is an item. `commit` closes the segment. `clear` cannot undo what was recognised already; it is
 * only answered. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/openai_rest.h"

#define RATE 24000 /* of pcm16 when none is given */

struct state {
    bool beta;
    bool logprobs;     /* wanted with `completed` */
    bool has_audio;    /* since the last commit */
    uint64_t events;   /* made so far, for ids */
    uint64_t items;    /* begun so far; the running one has number `items` */
    bool item_open;    /* speech_started was sent for it */
    size_t sent;       /* bytes of its text sent in deltas */
    double item_from;  /* s */
    char event_id[64]; /* of the client's message, for errors */
};

static struct state *state_of(struct steno_dialect_session *d)
{
    return d->state;
}

static void init(struct steno_dialect_session *d)
{
    d->start.audio.encoding = STENO_ENCODING_S16LE;
    d->start.audio.sample_rate = RATE;
}

/* model, intent, language ...: a known model name selects the model, the language, beam, hints and
 * options of families apply, everything else is ignored. */
static steno_status query(struct steno_dialect_session *d, const char *name, const char *value,
                          steno_err *err)
{
    if (!strcmp(name, "beta"))
        state_of(d)->beta = true;
    if (!strcmp(name, "language") && d->start.hints)
        return steno_hint_set(d->start.hints, name, value, err);
    if (!strcmp(name, "model") || steno_native_is_option(name))
        return steno_native_query(name, value, &d->start, err);
    return STENO_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct steno_buf *open_event(struct steno_dialect_session *d, const char *type,
                                    steno_status *st)
{
    struct steno_buf *b = d->begin(d);
    *st = steno_buf_printf(b, "{\"event_id\":\"event_%s_%llu\",\"type\":\"%s\"",
                           d->id + (strchr(d->id, '_') ? 5 : 0),
                           (unsigned long long)state_of(d)->events++, type);
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
    return steno_buf_printf(b, ",\"%s\":\"item_%s_%llu\"", name, d->id + 5,
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

/* Append the language and the prompt, where they are given. */
static steno_status put_hints(struct steno_buf *b, const struct steno_hint_store *h)
{
    steno_status st = STENO_OK;
    if (h && *h->language) {
        st = steno_buf_puts(b, ",");
        if (!st)
            st = steno_json_put_member(b, "language", h->language);
    }
    if (!st && h && h->prompt) {
        st = steno_buf_puts(b, ",");
        if (!st)
            st = steno_json_put_member(b, "prompt", h->prompt);
    }
    return st;
}

static void send_session(struct steno_dialect_session *d, const char *what)
{
    bool beta = state_of(d)->beta;
    const char *detection = d->start.endpointing ? "{\"type\":\"server_vad\"}" : "null";
    char type[64];
    steno_status st;
    struct steno_buf *b;
    snprintf(type, sizeof type, "%ssession.%s", beta ? "transcription_" : "", what);
    b = open_event(d, type, &st);
    if (!st)
        st = steno_buf_printf(b, ",\"session\":{\"id\":\"%s\",\"object\":\"%s\"", d->id,
                              beta ? "realtime.transcription_session"
                                   : "realtime.transcription_session");
    if (!st && beta)
        st = steno_buf_printf(b,
                              ",\"input_audio_format\":\"%s\",\"turn_detection\":%s,"
                              "\"input_audio_transcription\":{\"model\":",
                              format_name(d, true), detection);
    else if (!st)
        st = steno_buf_printf(b,
                              ",\"type\":\"transcription\",\"audio\":{\"input\":{\"format\":{"
                              "\"type\":\"%s\",\"rate\":%d},\"turn_detection\":%s,"
                              "\"transcription\":{\"model\":",
                              format_name(d, false), d->start.audio.sample_rate, detection);
    if (!st)
        st = steno_json_put_string(b, d->start.model, strlen(d->start.model));
    if (!st)
        st = put_hints(b, d->start.hints);
    if (!st)
        st = steno_buf_puts(b, beta ? "}}" : "}}}}");
    close_event(d, b, st);
}

static void opened(struct steno_dialect_session *d)
{
    send_session(d, "created");
}

static void send_error(struct steno_dialect_session *d, const char *type, const char *code,
                       const char *message)
{
    struct state *s = state_of(d);
    const char *param = steno_hint_named_in(message);
    steno_status st;
    struct steno_buf *b = open_event(d, "error", &st);
    if (!st)
        st = steno_buf_printf(b, ",\"error\":{\"type\":\"%s\",\"code\":\"%s\",\"param\":%s%s%s",
                              type, code, param ? "\"" : "", param ? param : "null",
                              param ? "\"" : "");
    if (!st)
        st = steno_buf_puts(b, ",\"message\":");
    if (!st)
        st = steno_json_put_string(b, message, strlen(message));
    if (!st)
        st = steno_buf_puts(b, ",\"event_id\":");
    if (!st && *s->event_id)
        st = steno_json_put_string(b, s->event_id, strlen(s->event_id));
    else if (!st)
        st = steno_buf_puts(b, "null");
    if (!st)
        st = steno_buf_puts(b, "}");
    close_event(d, b, st);
}

/* ---- the client's events --------------------------------------------------------------------- */

/* Append decoded base64 (RFC 4648, 4) to out: whole groups with padding. */
static steno_status decode(const char *p, size_t n, struct steno_buf *out, steno_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    signed char value[256];
    uint32_t group = 0;
    size_t have = 0;
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++)
        value[(unsigned char)digits[i]] = (signed char)i;
    while (n && p[n - 1] == '=')
        n--;
    if (steno_buf_reserve(out, n / 4 * 3 + 3))
        return steno_fail(err, STENO_ERR_LIMIT, "audio: too long, or out of memory");
    for (size_t i = 0; i < n; i++) {
        signed char v = value[(unsigned char)p[i]];
        if (v < 0)
            return steno_fail(err, STENO_ERR_INVAL, "audio: invalid base64 at byte %zu", i);
        group = group << 6 | (uint32_t)v;
        if (++have == 4) {
            out->data[out->len++] = (char)(group >> 16);
            out->data[out->len++] = (char)(group >> 8);
            out->data[out->len++] = (char)group;
            have = group = 0;
        }
    }
    if (have == 1)
        return steno_fail(err, STENO_ERR_INVAL, "audio: the base64 ends early");
    if (have >= 2)
        out->data[out->len++] = (char)(group >> (have == 2 ? 4 : 10));
    if (have == 3)
        out->data[out->len++] = (char)(group >> 2);
    return STENO_OK;
}

static steno_status set_format(struct steno_native_start *s, const char *type, int rate,
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

static steno_status set_detection(struct steno_native_start *s, const json_t *v, steno_err *err)
{
    const json_t *ms = json_object_get(v, "silence_duration_ms");
    if (!v)
        return STENO_OK;
    s->endpointing = !json_is_null(v);
    if (!ms)
        return STENO_OK;
    if (!json_is_number(ms) || json_number_value(ms) < 100 || json_number_value(ms) > 60000)
        return steno_fail(err, STENO_ERR_INVAL,
                          "turn_detection.silence_duration_ms must be 100 to 60000");
    s->endpoint.silence_after = json_number_value(ms) / 1000;
    return STENO_OK;
}

/* Read {"language", "prompt", "keywords": [...]} of a transcription; null removes. */
static steno_status set_hints(struct steno_hint_store *h, const json_t *script, steno_err *err)
{
    static const char *const names[] = {"language", "prompt"};
    const json_t *keywords = json_object_get(script, "keywords"), *v;
    size_t i;
    steno_status st = STENO_OK;
    for (i = 0; i < 2 && !st; i++)
        if ((v = json_object_get(script, names[i])))
            st = steno_hint_set_json(h, names[i], v, err);
    if (!st && keywords)
        st = steno_hint_set(h, "hotwords", "", err);
    json_array_foreach (keywords, i, v) {
        if (!st && !json_is_string(v))
            st = steno_fail(err, STENO_ERR_INVAL, "keywords: must be strings");
        if (!st)
            st = steno_hint_add_hotword(h, json_string_value(v), err);
    }
    return st;
}

/* Only fields that are present change. */
static steno_status update(struct steno_dialect_session *d, const json_t *session, bool beta,
                           steno_err *err)
{
    const json_t *input = json_object_get(json_object_get(session, "audio"), "input");
    const json_t *format =
        beta ? json_object_get(session, "input_audio_format") : json_object_get(input, "format");
    const json_t *script = beta ? json_object_get(session, "input_audio_transcription")
                                : json_object_get(input, "transcription");
    const json_t *model = json_object_get(script, "model"), *rate = json_object_get(format, "rate");
    const char *type = json_string_value(beta ? format : json_object_get(format, "type"));
    steno_status st = STENO_OK;
    d->asked = d->start;
    if (rate && (!json_is_integer(rate) || json_integer_value(rate) < STENO_AUDIO_MIN_RATE ||
                 json_integer_value(rate) > STENO_AUDIO_MAX_RATE))
        return steno_fail(err, STENO_ERR_INVAL, "format.rate must be %d to %d",
                          STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE);
    if (type)
        st = set_format(&d->asked, type, (int)json_integer_value(rate), err);
    if (!st && json_is_string(model))
        st = steno_native_query("model", json_string_value(model), &d->asked, err);
    if (!st && d->start.hints)
        st = set_hints(d->start.hints, script, err);
    return st ? st
              : set_detection(&d->asked, json_object_get(beta ? session : input, "turn_detection"),
                              err);
}

/* Read "include": ["item.input_audio_transcription.logprobs"]; when absent nothing changes. */
static void set_include(struct steno_dialect_session *d, const json_t *list)
{
    const json_t *v;
    size_t i;
    if (!json_is_array(list))
        return;
    state_of(d)->logprobs = false;
    json_array_foreach (list, i, v)
        if (json_is_string(v) &&
            !strcmp(json_string_value(v), "item.input_audio_transcription.logprobs"))
            state_of(d)->logprobs = true;
}

static steno_status append(struct steno_dialect_session *d, const json_t *root, steno_err *err)
{
    const json_t *audio = json_object_get(root, "audio");
    if (!json_is_string(audio))
        return steno_fail(err, STENO_ERR_INVAL, "input_audio_buffer.append: audio is missing");
    steno_buf_reset(&d->audio);
    return decode(json_string_value(audio), json_string_length(audio), &d->audio, err);
}

static steno_status understand(struct steno_dialect_session *d, const json_t *root,
                               enum steno_dialect_act *act, steno_err *err)
{
    struct state *s = state_of(d);
    const char *type = json_string_value(json_object_get(root, "type"));
    const char *event_id = json_string_value(json_object_get(root, "event_id"));
    bool beta = type && !strcmp(type, "transcription_session.update");
    steno_status st;
    snprintf(s->event_id, sizeof s->event_id, "%.63s", event_id ? event_id : "");
    if (!type)
        return steno_fail(err, STENO_ERR_INVAL, "type is missing");
    if (beta || !strcmp(type, "session.update")) {
        if (s->has_audio)
            return steno_fail(err, STENO_ERR_INVAL, "the session cannot change once it has audio");
        st = update(d, json_object_get(root, "session"), beta, err);
        if (!st) {
            set_include(d, json_object_get(json_object_get(root, "session"), "include"));
            d->start = d->asked;
            send_session(d, "updated");
        }
        return st;
    }
    if (!strcmp(type, "input_audio_buffer.append")) {
        st = append(d, root, err);
        *act = st || !d->audio.len ? STENO_ACT_NOTHING : STENO_ACT_AUDIO;
        s->has_audio |= !st && d->audio.len;
        return st;
    }
    if (!strcmp(type, "input_audio_buffer.commit")) {
        if (!s->has_audio)
            return steno_fail(err, STENO_ERR_INVAL, "the audio buffer is empty");
        *act = STENO_ACT_FINALIZE;
        return STENO_OK;
    }
    if (!strcmp(type, "input_audio_buffer.clear")) {
        struct steno_buf *b = open_event(d, "input_audio_buffer.cleared", &st);
        close_event(d, b, st);
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_INVAL, "unknown type '%.60s'", type);
}

/* An error of an event is reported, and the session goes on. */
static steno_status text(struct steno_dialect_session *d, const char *p, size_t n,
                         enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    steno_status st = steno_dialect_json(&root, p, n, err);
    if (st)
        return st;
    st = understand(d, root, act, err);
    json_decref(root);
    if (st != STENO_ERR_INVAL)
        return st;
    send_error(d, "invalid_request_error", "invalid_value", err ? err->msg : "");
    *act = STENO_ACT_NOTHING;
    return STENO_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static void send_at(struct steno_dialect_session *d, const char *type, const char *name, double at)
{
    struct state *s = state_of(d);
    steno_status st;
    struct steno_buf *b = open_event(d, type, &st);
    if (!st && name)
        st = steno_buf_printf(b, ",\"%s\":%lld", name, (long long)(at * 1000 + 0.5));
    if (!st && !name)
        st = put_item_id(d, b, "previous_item_id", s->items - 1);
    if (!st)
        st = put_item_id(d, b, "item_id", s->items);
    close_event(d, b, st);
}

static void open_item(struct steno_dialect_session *d, double start)
{
    struct state *s = state_of(d);
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
    struct state *s = state_of(d);
    steno_status st;
    struct steno_buf *b;
    if (n <= s->sent)
        return;
    b = open_event(d, "conversation.item.input_audio_transcription.delta", &st);
    if (!st)
        st = put_item_id(d, b, "item_id", s->items);
    if (!st)
        st = steno_buf_puts(b, ",\"content_index\":0,\"delta\":");
    if (!st)
        st = steno_json_put_string(b, p + s->sent, n - s->sent);
    close_event(d, b, st);
    s->sent = n;
}

static void send_item(struct steno_dialect_session *d, const char *type)
{
    struct state *s = state_of(d);
    steno_status st;
    struct steno_buf *b = open_event(d, type, &st);
    if (!st)
        st = put_item_id(d, b, "previous_item_id", s->items - 1);
    if (!st)
        st = steno_buf_printf(b,
                              ",\"item\":{\"id\":\"item_%s_%llu\",\"object\":\"realtime.item\","
                              "\"type\":\"message\",\"status\":\"completed\",\"role\":\"user\","
                              "\"content\":[{\"type\":\"input_audio\",\"transcript\":null}]}",
                              d->id + 5, (unsigned long long)s->items);
    close_event(d, b, st);
}

static void send_completed(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = state_of(d);
    double seconds = ev->end > s->item_from ? ev->end - s->item_from : 0;
    steno_status st;
    struct steno_buf *b =
        open_event(d, "conversation.item.input_audio_transcription.completed", &st);
    if (!st)
        st = put_item_id(d, b, "item_id", s->items);
    if (!st)
        st = steno_buf_puts(b, ",\"content_index\":0,\"transcript\":");
    if (!st)
        st = steno_json_put_string(b, ev->text, strlen(ev->text));
    if (!st && s->logprobs)
        st = steno_openai_put_logprobs(b, ev->words, ev->n_words);
    if (!st)
        st = steno_buf_printf(b, ",\"usage\":{\"type\":\"duration\",\"seconds\":%.3f}", seconds);
    close_event(d, b, st);
}

static void final(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = state_of(d);
    bool asked = ev->reason == STENO_FINAL_REQUEST;
    if (!*ev->text && !asked && !s->item_open)
        return; /* silence is not an item */
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
    send_delta(d, ev->text, strlen(ev->text));
    send_completed(d, ev);
    s->item_open = false;
    s->item_from = ev->end;
    if (asked)
        s->has_audio = false;
}

static void event(struct steno_dialect_session *d, const struct steno_event *ev)
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
static void end(struct steno_dialect_session *d, bool draining)
{
    (void)d, (void)draining;
}

static void error(struct steno_dialect_session *d, const char *code, const char *message)
{
    bool ours = !strcmp(code, "internal_error") || !strcmp(code, "out_of_memory");
    state_of(d)->event_id[0] = '\0';
    send_error(d, ours ? "server_error" : "invalid_request_error", code, message);
}

const struct steno_dialect steno_dialect_realtime = {
    .name = "realtime",
    .subprotocol = "realtime",
    .state_bytes = sizeof(struct state),
    .init = init,
    .query = query,
    .opened = opened,
    .text = text,
    .event = event,
    .error = error,
    .end = end,
};
