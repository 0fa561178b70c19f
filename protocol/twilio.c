/* The dialect of Twilio's Media Streams (twilio.com/docs/voice/media-streams/websocket-messages):
 * JSON messages connected, start, media, dtmf, mark, stop, audio in base64 as mu-law at 8 kHz. A
 * stream has one track or two; two become the channels of one session. Nothing is sent back: what a
 * server sends is played to the caller.
 *
 * Two tracks are two sequences of messages, and each may begin late or pause. A track that falls
 * more than LAG behind the other is filled with silence up to there; samples that come later for
 * what was filled are dropped, by their time stamps. */
#include "protocol/telephony.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "protocol/json_object.h"

#define RATE 8000
#define LAG RATE             /* samples */
#define SLACK (RATE / 10)    /* samples by which a time stamp may be off */
#define SILENCE ((char)0xff) /* in mu-law */
#define MAX_WAITING 65536    /* samples; a message has at most 3/4 of STENO_NATIVE_MAX_TEXT */
#define MAX_TRACKS 2

struct track {
    struct steno_buf waiting; /* samples for which the other track has none yet */
    int64_t end;              /* samples so far, those that were filled included */
    int64_t filled;           /* of them, for which none has come */
};

struct state {
    struct steno_call call; /* first */
    bool started;
    struct track track[MAX_TRACKS]; /* inbound, outbound */
};

static void twilio_init(struct steno_dialect_session *d)
{
    struct state *s = d->state;
    steno_call_init(d);
    for (int i = 0; i < MAX_TRACKS; i++)
        steno_buf_init(&s->track[i].waiting, MAX_WAITING);
    d->start.audio.encoding = STENO_ENCODING_MULAW;
    d->start.interim = false;
    d->posted = true;
}

static void twilio_free(struct steno_dialect_session *d)
{
    struct state *s = d->state;
    for (int i = 0; i < MAX_TRACKS; i++)
        steno_buf_free(&s->track[i].waiting);
    steno_call_free(d);
}

static steno_status twilio_query(struct steno_dialect_session *d, const char *name,
                                 const char *value, steno_err *err)
{
    return steno_call_parameter(d, &d->start, true, name, value, err);
}

/* ---- two tracks ------------------------------------------------------------------------------ */

static steno_status fill(struct track *t, int64_t n)
{
    steno_status st = steno_buf_reserve(&t->waiting, (size_t)n);
    if (st)
        return st;
    memset(t->waiting.data + t->waiting.len, SILENCE, (size_t)n);
    t->waiting.len += (size_t)n;
    t->end += n;
    t->filled += n;
    return STENO_OK;
}

/* Append samples [n] of a track. at: where they belong by their time stamp, -1 = it has none. */
static steno_status add_samples(struct track *t, const struct track *other, const char *samples,
                                int64_t n, int64_t at)
{
    steno_status st = STENO_OK;
    if (at > t->end + SLACK && other->end > t->end)
        st = fill(t, (at < other->end ? at : other->end) - t->end);
    if (at >= 0 && t->end > at + SLACK) {
        int64_t late = t->end - at;
        late = late < t->filled ? late : t->filled;
        late = late < n ? late : n;
        t->filled -= late;
        samples += late;
        n -= late;
    }
    t->end += n;
    return st ? st : steno_buf_add(&t->waiting, samples, (size_t)n);
}

/* Move what both tracks have to audio, sample by sample. */
static steno_status merge(struct state *s, struct steno_buf *audio)
{
    struct steno_buf *a = &s->track[0].waiting, *b = &s->track[1].waiting;
    const size_t n = a->len < b->len ? a->len : b->len;
    steno_status st = n ? steno_buf_reserve(audio, 2 * n) : STENO_OK;
    if (st || !n)
        return st;
    for (size_t i = 0; i < n; i++) {
        audio->data[audio->len++] = a->data[i];
        audio->data[audio->len++] = b->data[i];
    }
    steno_buf_drop(a, n);
    steno_buf_drop(b, n);
    return STENO_OK;
}

/* Let no track wait for more than lag samples of the other. */
static steno_status merge_up_to(struct state *s, size_t lag, struct steno_buf *audio)
{
    steno_status st = merge(s, audio);
    for (int i = 0; !st && i < MAX_TRACKS; i++)
        if (s->track[i].waiting.len > lag)
            st = fill(&s->track[!i], (int64_t)(s->track[i].waiting.len - lag));
    return st ? st : merge(s, audio);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void copy_id(char out[STENO_CALL_NAME], const json_t *v)
{
    const char *text = json_string_value(v);
    if (text)
        snprintf(out, STENO_CALL_NAME, "%s", text);
}

static steno_status check_format(const json_t *format, steno_err *err)
{
    const json_t *rate = json_object_get(format, "sampleRate"),
                 *channels = json_object_get(format, "channels");
    const char *encoding = json_string_value(json_object_get(format, "encoding"));
    if (encoding && strcasecmp(encoding, "audio/x-mulaw") != 0)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "start: encoding '%.40s' is not audio/x-mulaw", encoding);
    if (rate && json_integer_value(rate) != RATE)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "start: the sampleRate is not %d", RATE);
    if (channels && json_integer_value(channels) != 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "start: the channels are not 1");
    return STENO_OK;
}

static steno_status take_parameters(struct steno_dialect_session *d, json_t *parameters,
                                    steno_err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach (parameters, name, v) {
        steno_status st = json_is_string(v) ? steno_call_parameter(d, &d->asked, true, name,
                                                                   json_string_value(v), err)
                                            : STENO_OK;
        if (st)
            return steno_fail_in(err, st, "customParameters");
    }
    return STENO_OK;
}

static steno_status take_start(struct steno_dialect_session *d, const json_t *start, steno_err *err)
{
    struct state *s = d->state;
    const json_t *tracks = json_object_get(start, "tracks");
    const char *only;
    steno_status st;
    if (!json_is_object(start) || s->started)
        return steno_fail(err, STENO_ERR_INVAL, "start: %s",
                          s->started ? "came twice" : "is not an object");
    s->started = true;
    copy_id(s->call.call_id, json_object_get(start, "callSid"));
    copy_id(s->call.stream_id, json_object_get(start, "streamSid"));
    s->call.tracks = json_array_size(tracks) < MAX_TRACKS ? 1 : MAX_TRACKS;
    only = json_string_value(json_array_get(tracks, 0));
    s->call.outbound = s->call.tracks == 1 && only && !strcmp(only, "outbound");
    st = check_format(json_object_get(start, "mediaFormat"), err);
    if (!st)
        st = steno_dialect_ask(d, err);
    if (st)
        return st;
    d->asked.audio.channels = (int)s->call.tracks;
    d->asked.multichannel = s->call.tracks > 1;
    return take_parameters(d, json_object_get(start, "customParameters"), err);
}

/* Append the payload, decoded, to d->audio. */
static steno_status decode(struct steno_dialect_session *d, const json_t *payload, steno_err *err)
{
    const char *text = json_string_value(payload);
    const size_t n = json_string_length(payload);
    struct steno_buf *b = &d->audio;
    size_t bad, len;
    if (!text)
        return steno_fail(err, STENO_ERR_INVAL, "media: has no payload");
    if (steno_buf_reserve(b, STENO_BASE64_DECODED(n)))
        return steno_fail(err, STENO_ERR_NOMEM, "media: out of memory");
    bad = steno_base64_decode(text, n, b->data + b->len, &len);
    if (bad != n)
        return steno_fail(err, STENO_ERR_FORMAT, "media: payload is not base64 at character %zu",
                          bad);
    b->len += len;
    return STENO_OK;
}

/* Where the samples of a message belong by its time stamp (ms); -1 = not told. */
static int64_t place_of(const json_t *media)
{
    const json_t *v = json_object_get(media, "timestamp");
    const char *text = json_string_value(v);
    long long ms = text ? strtoll(text, NULL, 10) : json_is_integer(v) ? json_integer_value(v) : -1;
    return ms >= 0 && ms < INT64_MAX / RATE ? ms * (RATE / 1000) : -1;
}

static steno_status take_media(struct steno_dialect_session *d, const json_t *media, steno_err *err)
{
    struct state *s = d->state;
    const char *name = json_string_value(json_object_get(media, "track"));
    const int k = name && !strcmp(name, "outbound");
    steno_status st;
    if (!s->started)
        return steno_fail(err, STENO_ERR_INVAL, "media: came before start");
    st = decode(d, json_object_get(media, "payload"), err);
    if (st || s->call.tracks < 2)
        return st;
    st = add_samples(&s->track[k], &s->track[!k], d->audio.data, (int64_t)d->audio.len,
                     place_of(media));
    steno_buf_reset(&d->audio);
    if (!st)
        st = merge_up_to(s, LAG, &d->audio);
    return st ? steno_fail(err, st, "media: out of memory") : STENO_OK;
}

/* The audio that one track still waits with follows. */
static enum steno_dialect_act twilio_hung_up(struct steno_dialect_session *d)
{
    struct state *s = d->state;
    if (s->call.tracks > 1 && merge_up_to(s, 0, &d->audio))
        steno_buf_reset(&d->audio); /* out of memory: at most LAG of one track is lost */
    return STENO_ACT_END;
}

static steno_status take_event(struct steno_dialect_session *d, const char *event,
                               const json_t *root, enum steno_dialect_act *act, steno_err *err)
{
    if (!strcmp(event, "media")) {
        *act = STENO_ACT_AUDIO;
        return take_media(d, json_object_get(root, "media"), err);
    }
    if (!strcmp(event, "start")) {
        *act = STENO_ACT_START;
        return take_start(d, json_object_get(root, "start"), err);
    }
    if (!strcmp(event, "dtmf")) {
        const char *digit =
            json_string_value(json_object_get(json_object_get(root, "dtmf"), "digit"));
        if (digit && ((struct state *)d->state)->started)
            steno_call_digit(d, digit);
    } else if (!strcmp(event, "stop")) {
        *act = twilio_hung_up(d);
    }
    return STENO_OK; /* connected and mark need nothing, nor does what Twilio may add */
}

static steno_status twilio_text(struct steno_dialect_session *d, const char *p, size_t n,
                                enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const char *event;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    event = json_string_value(json_object_get(root, "event"));
    st = event ? take_event(d, event, root, act, err)
               : steno_fail(err, STENO_ERR_INVAL, "message: 'event' is missing");
    json_decref(root);
    return st;
}

/* No message of Twilio's is binary. */
static steno_status twilio_split(struct steno_dialect_session *d, const char *p, size_t n,
                                 size_t *skip, size_t *take, enum steno_dialect_act *act,
                                 steno_err *err)
{
    (void)d, (void)p, (void)n, (void)skip, (void)take, (void)act;
    return steno_fail(err, STENO_ERR_INVAL, "audio: comes in media messages, after start");
}

const struct steno_dialect steno_dialect_twilio = {
    .name = "twilio",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .waits = true,
    .late_key = true,
    .init = twilio_init,
    .free_state = twilio_free,
    .query = twilio_query,
    .text = twilio_text,
    .split = twilio_split,
    .hung_up = twilio_hung_up,
    .ready = steno_call_ready,
    .event = steno_call_event,
    .error = steno_call_error,
    .end = steno_call_end,
};
