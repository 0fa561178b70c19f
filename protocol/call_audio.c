/* The dialects of telephone servers that send a call's audio as it is, in binary messages.
 *
 * Asterisk's chan_websocket: the text MEDIA_START says which call and which codec, either as
 * "MEDIA_START name:value name:value" or as JSON with "event"; DTMF_END is a key; other events are
 * about audio that the server would play. It takes commands of at most 128 bytes, so its texts are
 * posted. It ends by closing.
 *
 * FreeSWITCH's mod_audio_stream and mod_audio_fork: 16-bit samples, one channel or two, and a text
 * of the dialplan's before them. Both make an event of the channel out of each text that comes
 * back, so results go back on the connection, unless a URL is named. An empty binary message ends a
 * call (mod_audio_fork's graceful-shutdown). */
#include "protocol/telephony.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"

struct state {
    struct steno_call call; /* first */
    bool begun;             /* the text before the audio has come */
};

static bool is(const char *a, const char *b)
{
    return a && !strcmp(a, b);
}

static enum steno_dialect_act hung_up(struct steno_dialect_session *d)
{
    (void)d;
    return STENO_ACT_END;
}

/* ---- Asterisk -------------------------------------------------------------------------------- */

static void asterisk_init(struct steno_dialect_session *d)
{
    steno_call_init(d);
    d->start.audio.encoding = STENO_ENCODING_MULAW;
    d->start.interim = false;
    d->posted = true;
}

/* Set the audio's format from Asterisk's name of it: slin is at 8 kHz, slin16 at 16 kHz, ... */
static steno_status set_codec(struct steno_audio_format *f, const char *name, steno_err *err)
{
    char *end = NULL;
    long khz = 8;
    if (is(name, "ulaw")) {
        f->encoding = STENO_ENCODING_MULAW;
    } else if (is(name, "alaw")) {
        f->encoding = STENO_ENCODING_ALAW;
    } else if (!strncmp(name, "slin", 4)) {
        f->encoding = STENO_ENCODING_S16LE;
        khz = name[4] ? strtol(name + 4, &end, 10) : 8;
    } else {
        khz = 0;
    }
    if ((end && *end) || khz < 8 || khz > STENO_AUDIO_MAX_RATE / 1000)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "MEDIA_START: format '%.40s' is not ulaw, alaw or slin", name);
    f->sample_rate = khz == 44 ? 44100 : (int)khz * 1000;
    return STENO_OK;
}

/* Apply one member of an event. */
static steno_status take_member(struct steno_dialect_session *d, const char *name,
                                const char *value, steno_err *err)
{
    struct steno_call *c = d->state;
    if (is(name, "format"))
        return set_codec(&d->asked.audio, value, err);
    if (is(name, "connection_id"))
        snprintf(c->stream_id, sizeof c->stream_id, "%s", value);
    else if (is(name, "channel_id") && !*c->call_id)
        snprintf(c->call_id, sizeof c->call_id, "%s", value);
    else if (is(name, "channel"))
        return steno_call_keep_text(c, name, value, err);
    return STENO_OK;
}

/* An event as plain text, its name and pairs of name and value, made a tree. */
static steno_status read_plain(json_t **out, const char *p, size_t n, steno_err *err)
{
    char *text = strndup(p, n), *at = NULL;
    const char *word = text ? strtok_r(text, " ", &at) : NULL;
    json_t *root = json_object();
    bool good = root && word && !json_object_set_new(root, "event", json_string(word));
    while (good && (word = strtok_r(NULL, " ", &at))) {
        char *colon = strchr(word, ':');
        if (!colon)
            continue;
        *colon = '\0';
        good = !json_object_set_new(root, word, json_string(colon + 1));
    }
    free(text);
    *out = root;
    if (good)
        return STENO_OK;
    json_decref(root);
    return steno_fail(err, STENO_ERR_INVAL, "message: not an event of Asterisk's");
}

static steno_status media_start(struct steno_dialect_session *d, json_t *root, steno_err *err)
{
    struct state *s = d->state;
    const char *name;
    json_t *v;
    steno_status st;
    if (s->begun)
        return steno_fail(err, STENO_ERR_INVAL, "MEDIA_START: came twice");
    s->begun = true;
    st = steno_dialect_ask(d, err);
    json_object_foreach (root, name, v)
        if (!st && json_is_string(v))
            st = take_member(d, name, json_string_value(v), err);
    return st;
}

static steno_status asterisk_text(struct steno_dialect_session *d, const char *p, size_t n,
                                  enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const char *event, *digit;
    steno_status st =
        n && *p == '{' ? steno_json_object(&root, p, n, err) : read_plain(&root, p, n, err);
    if (st)
        return st;
    event = json_string_value(json_object_get(root, "event"));
    digit = json_string_value(json_object_get(root, "digit"));
    if (is(event, "MEDIA_START")) {
        *act = STENO_ACT_START;
        st = media_start(d, root, err);
    } else if (is(event, "DTMF_END") && digit) {
        steno_call_digit(d, digit);
    } else if (!event) {
        st = steno_fail(err, STENO_ERR_INVAL, "message: 'event' is missing");
    }
    json_decref(root);
    return st;
}

const struct steno_dialect steno_dialect_asterisk = {
    .name = "asterisk",
    .subprotocol = "media",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .waits = true,
    .init = asterisk_init,
    .free_state = steno_call_free,
    .query = steno_call_query,
    .text = asterisk_text,
    .hung_up = hung_up,
    .ready = steno_call_ready,
    .event = steno_call_event,
    .error = steno_call_error,
    .end = steno_call_end,
};

/* ---- FreeSWITCH ------------------------------------------------------------------------------ */

/* A text of the dialplan's: `finalize` or `end` as of /v1/stream, or the first one, which says what
 * the dialplan wants to find again. */
static steno_status freeswitch_text(struct steno_dialect_session *d, const char *p, size_t n,
                                    enum steno_dialect_act *act, steno_err *err)
{
    struct state *s = d->state;
    json_t *root = NULL;
    const char *type = NULL;
    char *text;
    steno_status st = STENO_OK;
    if (!steno_json_object(&root, p, n, NULL))
        type = json_string_value(json_object_get(root, "type"));
    if (is(type, "finalize")) {
        *act = STENO_ACT_FINALIZE;
    } else if (is(type, "end")) {
        *act = STENO_ACT_END;
    } else if (!s->begun && root) {
        st = steno_call_keep(&s->call, "metadata", p, n, err);
    } else if (!s->begun) {
        text = strndup(p, n);
        st = text ? steno_call_keep_text(&s->call, "metadata", text, err)
                  : steno_fail(err, STENO_ERR_NOMEM, "message: out of memory");
        free(text);
    }
    s->begun = true;
    json_decref(root);
    return st;
}

static enum steno_dialect_act freeswitch_binary_end(struct steno_dialect_session *d, uint64_t bytes)
{
    ((struct state *)d->state)->begun = true;
    return bytes ? STENO_ACT_NOTHING : STENO_ACT_END;
}

const struct steno_dialect steno_dialect_freeswitch = {
    .name = "freeswitch",
    .subprotocol = "audio.drachtio.org",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .waits = true,
    .init = steno_call_init,
    .free_state = steno_call_free,
    .query = steno_call_query,
    .text = freeswitch_text,
    .binary_end = freeswitch_binary_end,
    .hung_up = hung_up,
    .ready = steno_call_ready,
    .event = steno_call_event,
    .error = steno_call_error,
    .end = steno_call_end,
};
