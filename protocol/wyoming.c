/* The dialect of the Wyoming protocol, which Home Assistant and Rhasspy speak: events over TCP
 * (wyoming_frame.h), raw samples of 16 bits. A client asks what there is (`describe`), or sends one
 * recording: `transcribe`, `audio-start`, `audio-chunk`..., `audio-stop`. The answer is
 * `transcript`. While the recording is running, `transcript-chunk` events give the text that will
 * not change any more; `transcript-start` and `transcript-stop` enclose them.
 *
 * Source: github.com/OHF-Voice/wyoming, wyoming/asr.py, audio.py, info.py and ping.py. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/transcript.h"
#include "protocol/wyoming_frame.h"
#include "protocol/then.h"

#define MAX_EVENT (1u << 20) /* bytes of the data of one event to the client */

struct state {
    steno_transcript *finals; /* NULL = none yet */
    bool streaming;           /* transcript-start was sent */
    char *sent;               /* text of the current segment that was sent as chunks, or NULL */
    size_t n_sent;
    bool torn;   /* the segment's text does not begin with what was sent: no chunk until the next */
    bool spaced; /* a segment was sent: a space is due before the next */
    bool running; /* the format of the audio is fixed */
};

static struct state *wyoming_state(struct steno_dialect_session *d)
{
    return d->state;
}

static void wyoming_free(struct steno_dialect_session *d)
{
    steno_transcript_free(wyoming_state(d)->finals);
    free(wyoming_state(d)->sent);
}

/* ---- events to the client -------------------------------------------------------------------- */

static void send_event(struct steno_dialect_session *d, const char *type, steno_status st,
                       const struct steno_buf *data)
{
    struct steno_buf *b = d->begin(d);
    d->commit(d, st ? st : steno_wyoming_write(b, type, data), false);
}

/* Send an event whose data are one text, named, and the language where it is known. */
static void send_text(struct steno_dialect_session *d, const char *type, const char *name,
                      const char *text, const char *language)
{
    struct steno_buf data;
    steno_status st;
    steno_buf_init(&data, MAX_EVENT);
    st = steno_buf_puts(&data, "{");
    if (!st && name)
        st = steno_json_put_member(&data, name, text);
    if (!st && *language)
        st = steno_json_printf(&data, "%-s\"language\":%s", name ? "," : "", language);
    THEN(st, steno_buf_puts(&data, "}"));
    send_event(d, type, st, &data);
    steno_buf_free(&data);
}

static void send_bare(struct steno_dialect_session *d, const char *type)
{
    send_event(d, type, STENO_OK, &(struct steno_buf){0});
}

/* ---- describe -------------------------------------------------------------------------------- */

struct listing {
    struct steno_buf *out;
    bool any;
};

/* Append the members of an artifact without its braces. */
static steno_status put_artifact(struct steno_buf *out, const char *name, const char *description,
                                 const char *version)
{
    return steno_json_printf(out,
                             "\"name\":%s,\"attribution\":{\"name\":\"steno\",\"url\":\"\"},"
                             "\"installed\":true,\"description\":%s,\"version\":%s",
                             name, description, version);
}

static steno_status put_model_info(void *user, const struct steno_dialect_model *m)
{
    struct listing *l = user;
    steno_status st = steno_buf_puts(l->out, l->any ? ",{" : "{");
    bool first = true;
    l->any = true;
    THEN(st, put_artifact(l->out, m->name, m->family, m->version));
    THEN(st, steno_buf_puts(l->out, ",\"languages\":["));
    for (const char *p = m->languages + strspn(m->languages, " "); !st && *p; first = false) {
        size_t n = strcspn(p, " ");
        st = steno_buf_puts(l->out, first ? "" : ",");
        THEN(st, steno_json_put_string(l->out, p, n));
        p += n + strspn(p + n, " ");
    }
    return st ? st : steno_buf_puts(l->out, "]}");
}

static void send_info(struct steno_dialect_session *d)
{
    struct steno_buf data;
    struct listing l = {.out = &data};
    steno_status st;
    steno_buf_init(&data, MAX_EVENT);
    st = steno_buf_puts(&data, "{\"asr\":[{");
    THEN(st, put_artifact(&data, "steno", "speech recognition", STENO_VERSION));
    THEN(st, steno_buf_puts(&data, ",\"supports_transcript_streaming\":true,\"models\":["));
    if (!st && d->each_model)
        st = d->each_model(d, put_model_info, &l);
    THEN(st, steno_buf_puts(&data, "]}],\"tts\":[],\"handle\":[],\"intent\":[],\"wake\":[],"
                                   "\"mic\":[],\"snd\":[]}"));
    send_event(d, "info", st, &data);
    steno_buf_free(&data);
}

/* ---- events of the client -------------------------------------------------------------------- */

/* Take words that are likely in the recording: names before terms. */
static steno_status set_words(struct steno_dialect_session *d, const json_t *data, steno_err *err)
{
    static const char *const lists[] = {"transcript_names", "transcript_terms"};
    steno_status st = STENO_OK;
    for (size_t k = 0; !st && k < sizeof lists / sizeof *lists; k++)
        st = steno_hint_add_list(d->start.hints, "hotwords", lists[k],
                                 json_object_get(data, lists[k]), err);
    return st;
}

/* vad_sensitivity and context mean nothing here: the client ends the recording. */
static steno_status transcribe(struct steno_dialect_session *d, const json_t *data, steno_err *err)
{
    const json_t *name = json_object_get(data, "name");
    const json_t *language = json_object_get(data, "language");
    steno_status st = STENO_OK;
    if (json_is_string(name))
        steno_dialect_set_model(d, &d->start, json_string_value(name));
    else if (name && !json_is_null(name))
        return steno_fail(err, STENO_ERR_INVAL, "name: must be a string");
    if (language && d->start.hints)
        st = steno_hint_set_json(d->start.hints, "language", language, err);
    return st || !d->start.hints ? st : set_words(d, data, err);
}

static int int_member(const json_t *data, const char *name, int absent)
{
    const json_t *v = json_object_get(data, name);
    json_int_t n = json_integer_value(v);
    if (!v || json_is_null(v))
        return absent;
    return n > 0 && n <= STENO_AUDIO_MAX_RATE ? (int)n : -1;
}

/* Both audio-start and audio-chunk name the format. The first of them fixes it. */
static steno_status set_audio_format(struct steno_dialect_session *d, const char *type,
                                     const json_t *data, enum steno_dialect_act *act,
                                     steno_err *err)
{
    struct steno_audio_format *f = &d->start.audio;
    int rate = int_member(data, "rate", f->sample_rate ? f->sample_rate : 16000);
    int width = int_member(data, "width", 2), channels = int_member(data, "channels", 1);
    if (width != 2)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: width must be 2 bytes (signed samples of 16 bits)", type);
    if (rate < STENO_AUDIO_MIN_RATE || channels < 1 || channels > STENO_AUDIO_MAX_CHANNELS)
        return steno_fail(err, STENO_ERR_INVAL, "%s: rate must be %d to %d and channels 1 to %d",
                          type, STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE,
                          STENO_AUDIO_MAX_CHANNELS);
    if (wyoming_state(d)->running)
        return rate == f->sample_rate &&
                       (!json_object_get(data, "channels") || channels == f->channels)
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_INVAL,
                                "%s: the format changed from %d Hz, %d channels to %d Hz, %d "
                                "channels within a recording",
                                type, f->sample_rate, f->channels, rate, channels);
    wyoming_state(d)->running = true;
    d->asked = d->start;
    d->asked.audio.encoding = STENO_ENCODING_S16LE;
    d->asked.audio.sample_rate = rate;
    d->asked.audio.channels = channels;
    *act = STENO_ACT_START;
    return STENO_OK;
}

static void pong(struct steno_dialect_session *d, const json_t *data)
{
    const char *t = json_string_value(json_object_get(data, "text"));
    if (t)
        send_text(d, "pong", "text", t, "");
    else
        send_bare(d, "pong");
}

/* Events of other services are ignored, as the reference servers do. */
static steno_status wyoming_text(struct steno_dialect_session *d, const char *p, size_t n,
                                 enum steno_dialect_act *act, steno_err *err)
{
    json_t *event;
    const json_t *data;
    const char *type;
    steno_status st = steno_json_object(&event, p, n, err);
    if (st)
        return st;
    type = json_string_value(json_object_get(event, "type"));
    type = type ? type : "";
    data = json_object_get(event, "data");
    if (!strcmp(type, "describe"))
        send_info(d);
    else if (!strcmp(type, "ping"))
        pong(d, data);
    else if (!strcmp(type, "transcribe") && !wyoming_state(d)->running)
        st = transcribe(d, data, err);
    else if (!strcmp(type, "audio-start") || !strcmp(type, "audio-chunk"))
        st = set_audio_format(d, type, data, act, err);
    else if (!strcmp(type, "audio-stop"))
        *act = STENO_ACT_END;
    json_decref(event);
    return st;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Send what text [n] has beyond the chunks of its segment that were sent. */
static steno_status send_more(struct steno_dialect_session *d, const struct steno_event *ev,
                              size_t n)
{
    struct state *s = wyoming_state(d);
    struct steno_buf more;
    char *sent;
    if (n <= s->n_sent || s->torn)
        return STENO_OK;
    s->torn = s->n_sent && memcmp(s->sent, ev->text, s->n_sent) != 0;
    if (s->torn)
        return STENO_OK;
    if (!s->streaming)
        send_text(d, "transcript-start", NULL, "", ev->language ? ev->language : "");
    s->streaming = true;
    steno_buf_init(&more, MAX_EVENT);
    if (steno_buf_puts(&more, s->spaced && !s->n_sent ? " " : "") ||
        steno_buf_add(&more, ev->text + s->n_sent, n - s->n_sent) ||
        !(sent = realloc(s->sent, n))) {
        steno_buf_free(&more);
        return STENO_ERR_NOMEM;
    }
    send_text(d, "transcript-chunk", "text", more.data, "");
    steno_buf_free(&more);
    memcpy(sent, ev->text, n);
    s->sent = sent;
    s->n_sent = n;
    return STENO_OK;
}

static void wyoming_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = wyoming_state(d);
    steno_status st = STENO_OK;
    if (ev->kind == STENO_PARTIAL)
        st = send_more(d, ev, ev->stable_bytes);
    if (ev->kind == STENO_FINAL && *ev->text) {
        st = send_more(d, ev, strlen(ev->text));
        s->spaced = true;
        s->torn = false;
        s->n_sent = 0;
        if (!st && !s->finals && !(s->finals = steno_transcript_new(MAX_EVENT)))
            st = STENO_ERR_NOMEM;
        if (!st)
            st = steno_transcript_add(s->finals, ev, NULL);
    }
    if (st)
        d->commit(d, st, false);
}

static void wyoming_end(struct steno_dialect_session *d, bool draining)
{
    struct state *s = wyoming_state(d);
    float probability;
    const char *language = s->finals ? steno_transcript_language(s->finals, &probability) : NULL;
    (void)draining;
    send_text(d, "transcript", "text", s->finals ? steno_transcript_text(s->finals) : "",
              language ? language : "");
    if (s->streaming)
        send_bare(d, "transcript-stop");
}

static void wyoming_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    if (wyoming_state(d)->finals) /* clients that do not stream have seen none of it */
        wyoming_end(d, false);
    d->commit(d, steno_wyoming_write_error(d->begin(d), code, message), false);
}

/* Home Assistant reads the last message alone. */
static void wyoming_init(struct steno_dialect_session *d)
{
    d->start.no_tail = true;
}

const struct steno_dialect steno_dialect_wyoming = {
    .name = "wyoming",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = wyoming_init,
    .waits = true,
    .free_state = wyoming_free,
    .text = wyoming_text,
    .event = wyoming_event,
    .error = wyoming_error,
    .end = wyoming_end,
};
