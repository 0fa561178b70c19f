#include "protocol/deepgram.h"

#include <jansson.h>
#include <string.h>

#include "protocol/dialect.h"
#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/then.h"

#define OPUS_HEAD_AT 28 /* in an Ogg stream whose first page has one packet */

/* A segment of a channel. */
struct segment {
    bool open;    /* sound was heard, and no final has come yet */
    bool told;    /* SpeechStarted was sent, or is not wanted */
    double start; /* s */
};

struct state {
    bool interim, vad_events; /* what is sent */
    struct segment segments[STENO_AUDIO_MAX_CHANNELS];
    bool named; /* an encoding was given */
    struct steno_deepgram_wants wants;
    double from[STENO_AUDIO_MAX_CHANNELS]; /* s: start of each channel's next Results */
};

static struct state *deepgram_state(struct steno_dialect_session *d)
{
    return d->state;
}

/* ---- client messages ------------------------------------------------------------------------- */

static void deepgram_init(struct steno_dialect_session *d)
{
    d->start.alternatives = 1;
    d->start.interim = false;
    steno_deepgram_default_options(&d->start.options);
    deepgram_state(d)->wants.no_networks = !d->tells_speakers;
}

steno_status steno_deepgram_encoding(const char *value, enum steno_encoding *out, steno_err *err)
{
    static const struct {
        const char *name;
        enum steno_encoding encoding;
    } names[] = {{"linear16", STENO_ENCODING_S16LE},   {"linear32", STENO_ENCODING_F32LE},
                 {"mulaw", STENO_ENCODING_MULAW},      {"alaw", STENO_ENCODING_ALAW},
                 {"opus", STENO_ENCODING_OPUS},        {"ogg-opus", STENO_ENCODING_OPUS},
                 {"flac", STENO_ENCODING_CONTAINER},   {"amr-nb", STENO_ENCODING_CONTAINER},
                 {"amr-wb", STENO_ENCODING_CONTAINER}, {"speex", STENO_ENCODING_CONTAINER},
                 {"webm", STENO_ENCODING_CONTAINER}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(value, names[i].name)) {
            *out = names[i].encoding;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "encoding: '%.40s' is not one of linear16, linear32, mulaw, alaw, opus, "
                      "ogg-opus, flac, amr-nb, amr-wb, speex, webm",
                      value);
}

static steno_status set_encoding(struct steno_dialect_session *d, const char *value, steno_err *err)
{
    steno_status st = steno_deepgram_encoding(value, &d->start.audio.encoding, err);
    deepgram_state(d)->named |= !st;
    return st;
}

/* Value: false, or the milliseconds of silence that end an utterance. */
static steno_status set_endpointing(struct steno_dialect_session *d, const char *value,
                                    steno_err *err)
{
    int ms;
    steno_status st;
    if (!strcmp(value, "false")) {
        d->start.endpointing = false;
        return STENO_OK;
    }
    if (!strcmp(value, "true"))
        return STENO_OK;
    st = steno_query_int("endpointing", value, 0, 60000, &ms, err);
    if (!st) /* the endpoint rules have no pause shorter than 0.1 s */
        d->start.endpoint.silence_after = ms < 100 ? 0.1 : ms / 1000.0;
    return st;
}

static steno_status set_utterance_end(struct steno_dialect_session *d, const char *value,
                                      steno_err *err)
{
    int ms;
    steno_status st = steno_query_int("utterance_end_ms", value, 0, 60000, &ms, err);
    if (!st)
        d->start.utterance_end = ms / 1000.0;
    return st;
}

/* Features that this server does not have are named in warnings: clients send many of them. */
static steno_status deepgram_query(struct steno_dialect_session *d, const char *name,
                                   const char *value, steno_err *err)
{
    struct state *s = deepgram_state(d);
    if (!strcmp(name, "encoding"))
        return set_encoding(d, value, err);
    if (!strcmp(name, "sample_rate"))
        return steno_query_int(name, value, STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE,
                               &d->start.audio.sample_rate, err);
    if (!strcmp(name, "channels"))
        return steno_query_int(name, value, 1, STENO_AUDIO_MAX_CHANNELS, &d->start.audio.channels,
                               err);
    if (!strcmp(name, "paragraphs") || !strcmp(name, "utterances")) /* of uploads */
        steno_deepgram_note_unsupported(&s->wants, name, value);
    if (steno_deepgram_is_want(name) && d->start.hints) /* before options: some are hints too */
        return steno_deepgram_want(&s->wants, d->start.hints, &d->start.options, name, value, err);
    if (!strcmp(name, "model") || !strcmp(name, "alternatives") ||
        !strcmp(name, STENO_WORD_TIMES) || steno_native_is_option(name))
        return steno_native_query(name, value, &d->start, err);
    if (!strcmp(name, "multichannel"))
        return steno_query_bool(name, value, &d->start.multichannel, err);
    if (!strcmp(name, "interim_results") || !strcmp(name, "vad_events")) {
        steno_status st =
            steno_query_bool(name, value, *name == 'i' ? &s->interim : &s->vad_events, err);
        /* the first partial tells that sound is speech */
        d->start.interim = s->interim || s->vad_events;
        return st;
    }
    if (!strcmp(name, "endpointing"))
        return set_endpointing(d, value, err);
    if (!strcmp(name, "utterance_end_ms"))
        return set_utterance_end(d, value, err);
    return steno_deepgram_diarize(&s->wants, name, value, &d->start.diarize, err);
}

/* What clients stream without naming it: recorders of browsers, and files. */
static bool is_container(const char *p, size_t n)
{
    static const struct {
        size_t at;
        const char *magic;
    } known[] = {{0, "\x1A\x45\xDF\xA3"},
                 {4, "ftyp"},
                 {4, "styp"},
                 {0, "fLaC"},
                 {0, "#!AMR"},
                 {0, "OggS"},
                 {0, "ID3"},
                 {0, "\x0B\x77"},
                 {0, "\x30\x26\xB2\x75"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i].magic);
        if (n >= known[i].at + len && !memcmp(p + known[i].at, known[i].magic, len))
            return true;
    }
    /* MPEG audio and AAC: eleven set bits. Silence of 16-bit samples may begin with FF FF. */
    return n >= 2 && (unsigned char)p[0] == 0xFF && ((unsigned char)p[1] & 0xE0) == 0xE0 &&
           (unsigned char)p[1] != 0xFF;
}

/* A container names its own format. */
static steno_status find_container(const char *p, size_t n, enum steno_encoding *out,
                                   steno_err *err)
{
    if (n >= 4 && !memcmp(p, "RIFF", 4))
        *out = STENO_ENCODING_WAV;
    else if (n >= 4 && !memcmp(p, "OggS", 4) &&
             (n < OPUS_HEAD_AT + 8 || !memcmp(p + OPUS_HEAD_AT, "OpusHead", 8)))
        *out = STENO_ENCODING_OPUS;
    else if (is_container(p, n))
        *out = STENO_ENCODING_CONTAINER;
    else
        return steno_fail(err, STENO_ERR_FORMAT,
                          "audio: neither WAV nor Ogg, WebM, MP4, FLAC, AAC; raw audio needs "
                          "encoding and sample_rate");
    return STENO_OK;
}

steno_status steno_deepgram_first_audio(struct steno_audio_format *f, bool named, const char *p,
                                        size_t n, steno_err *err)
{
    if (!named)
        return find_container(p, n, &f->encoding, err);
    if (!f->sample_rate && f->encoding != STENO_ENCODING_OPUS &&
        f->encoding != STENO_ENCODING_CONTAINER)
        return steno_fail(err, STENO_ERR_INVAL, "sample_rate: must be given with encoding");
    return STENO_OK;
}

static steno_status deepgram_first_audio(struct steno_dialect_session *d, const char *p, size_t n,
                                         steno_err *err)
{
    if (d->start.diarize && d->start.multichannel) { /* a speaker on each channel */
        d->start.diarize = false;
        steno_deepgram_note_unsupported(&deepgram_state(d)->wants, "diarize", "true");
    }
    return steno_deepgram_first_audio(&d->start.audio, deepgram_state(d)->named, p, n, err);
}

/* ---- Configure ------------------------------------------------------------------------------- */

steno_status steno_deepgram_set_terms(struct steno_dialect_session *d, const json_t *terms,
                                      steno_err *err)
{
    const bool given = terms && !json_is_null(terms);
    const steno_status st = given ? steno_hint_set(d->asked.hints, "hotwords", "", err) : STENO_OK;
    return st ? st : steno_hint_add_list(d->asked.hints, "hotwords", "keyterms", terms, err);
}

steno_status steno_deepgram_put_list(struct steno_buf *b, const char *name, const char *text)
{
    const char *p = text ? text : "";
    bool any = false;
    steno_status st = steno_buf_printf(b, ",\"%s\":[", name);
    for (size_t n; !st && *p; p += n + (p[n] == ',')) {
        size_t from = strspn(p, " ");
        n = strcspn(p, ",");
        if (from >= n)
            continue;
        st = any ? steno_buf_puts(b, ",") : STENO_OK;
        THEN(st, steno_json_put_string(b, p + from, n - from));
        any = true;
    }
    return st ? st : steno_buf_puts(b, "]");
}

/* Formatting that can be turned on and off; others can be off. */
static steno_status set_features(struct steno_deepgram_wants *w, json_t *features, steno_err *err)
{
    const char *name;
    json_t *v;
    if (!features || json_is_null(features))
        return STENO_OK;
    if (!json_is_object(features))
        return steno_fail(err, STENO_ERR_INVAL, "features: must be an object");
    json_object_foreach (features, name, v) {
        bool *flag = !strcmp(name, "numerals")       ? &w->numerals
                     : !strcmp(name, "smart_format") ? &w->smart_format
                     : !strcmp(name, "punctuate")    ? &w->punctuate
                                                     : NULL;
        if (!json_is_boolean(v))
            return steno_fail(err, STENO_ERR_INVAL, "features.%.40s: must be true or false", name);
        if (!flag && json_is_true(v))
            return steno_fail(err, STENO_ERR_INVAL,
                              "features.%.40s: is not one of numerals, smart_format, punctuate",
                              name);
        if (flag)
            *flag = json_is_true(v);
    }
    return STENO_OK;
}

/* Read {"keyterms", "features"}: all of it, or nothing changes. *code: why not, for the client. */
static steno_status configure(struct steno_dialect_session *d, const json_t *root,
                              const char **code, steno_err *err)
{
    const json_t *terms = json_object_get(root, "keyterms");
    struct steno_deepgram_wants wants = deepgram_state(d)->wants;
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = set_features(&wants, json_object_get(root, "features"), err);
    *code = "CONFIGURE_INVALID";
    if (!st)
        st = steno_dialect_ask(d, err);
    if (!st) {
        st = steno_deepgram_set_terms(d, terms, err);
        if (st && json_is_array(terms) && strstr(err->msg, "longer"))
            *code = "CONFIGURE_KEYTERM_LIMIT_EXCEEDED";
    }
    if (!st && json_array_size(terms) && d->check) {
        d->asked.needs_hotwords = true;
        *code = "CONFIGURE_KEYTERMS_NOT_SUPPORTED";
        st = d->check(d, &d->asked, model, err);
    }
    if (st)
        return st;
    deepgram_state(d)->wants = wants;
    steno_dialect_take(d);
    return STENO_OK;
}

/* Every Configure has exactly one answer. */
static steno_status on_configure(struct steno_dialect_session *d, const json_t *root,
                                 enum steno_dialect_act *act, steno_err *err)
{
    const json_t *terms = json_object_get(root, "keyterms");
    const bool replaces = terms && !json_is_null(terms);
    const char *code;
    char id[37];
    steno_err why = {0};
    steno_status st = configure(d, root, &code, &why);
    struct steno_buf *b;
    const bool done = !st;
    if (st && st != STENO_ERR_INVAL)
        return steno_fail(err, st, "%s", why.msg);
    steno_dialect_uuid(d->id, id);
    b = d->begin(d);
    st = steno_buf_printf(b, "{\"type\":\"Configure%s\",\"request_id\":\"%s\"",
                          done ? "Success" : "Failure", id);
    if (!st && !done)
        st = steno_json_printf(b, ",\"code\":\"%-s\",\"description\":%s", code, why.msg);
    if (!st && done && replaces)
        st = steno_deepgram_put_list(b, "keyterms", d->hints.hotwords);
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
    if (done && replaces)
        *act = STENO_ACT_CHANGE;
    return STENO_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static steno_status deepgram_text(struct steno_dialect_session *d, const char *p, size_t n,
                                  enum steno_dialect_act *act, steno_err *err)
{
    static const struct {
        const char *name;
        enum steno_dialect_act act;
    } types[] = {{"KeepAlive", STENO_ACT_NOTHING},
                 {"Finalize", STENO_ACT_FINALIZE},
                 {"CloseStream", STENO_ACT_END}};
    json_t *root;
    const char *type;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    type = json_string_value(json_object_get(root, "type"));
    if (type && !strcmp(type, "Configure")) {
        st = on_configure(d, root, act, err);
        json_decref(root);
        return st;
    }
    st = STENO_ERR_INVAL;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].name)) {
            *act = types[i].act;
            st = STENO_OK;
        }
    if (st)
        (void)steno_fail(err, st,
                         "message: type '%.40s' is not one of KeepAlive, Configure, Finalize, "
                         "CloseStream",
                         type ? type : "");
    json_decref(root);
    return st;
}

/* An empty binary message closes the stream too. */
static enum steno_dialect_act deepgram_binary_end(struct steno_dialect_session *d, uint64_t bytes)
{
    (void)d;
    return bytes ? STENO_ACT_NOTHING : STENO_ACT_END;
}

/* ---- results --------------------------------------------------------------------------------- */

static steno_status put_warnings(struct steno_buf *b, struct steno_dialect_session *d)
{
    char warnings[STENO_WARNINGS];
    return steno_deepgram_put_warnings(b, &deepgram_state(d)->wants,
                                       steno_dialect_warnings(d, warnings));
}

static steno_status put_metadata(struct steno_buf *b, struct steno_dialect_session *d)
{
    char id[37];
    steno_status st;
    steno_dialect_uuid(d->id, id);
    st = steno_buf_printf(b, "\"metadata\":{\"request_id\":\"%s\",\"model_info\":", id);
    THEN(st, steno_deepgram_put_model(b, d->start.model, d->model_version, d->model_family));
    THEN(st, put_warnings(b, d));
    return st ? st : steno_buf_printf(b, ",\"model_uuid\":\"%s\"}", id);
}

static double mean_confidence(const struct steno_event *ev)
{
    double sum = 0;
    if (ev->kind == STENO_FINAL)
        return (double)ev->confidence;
    for (size_t i = 0; i < ev->n_words; i++)
        sum += (double)ev->words[i].confidence;
    return ev->n_words ? sum / (double)ev->n_words : 0;
}

/* Append the best hypothesis, with the language, and those of a final after it. */
static steno_status put_alternatives(struct steno_dialect_session *d, struct steno_buf *b,
                                     const struct steno_event *ev)
{
    const struct steno_alternative best = {.text = ev->text,
                                           .confidence = (float)mean_confidence(ev),
                                           .n_words = ev->n_words,
                                           .words = ev->words};
    const struct steno_deepgram_wants *w = &deepgram_state(d)->wants;
    const size_t n = ev->kind == STENO_FINAL ? ev->n_alternatives : 0;
    steno_status st = steno_buf_puts(b, "{");
    THEN(st, steno_deepgram_put_text(b, w, &best));
    if (!st && ev->language && *ev->language)
        st = steno_buf_printf(b, ",\"languages\":[\"%s\"]", ev->language);
    for (size_t i = 1; !st && i < n; i++) {
        st = steno_buf_puts(b, "},{");
        THEN(st, steno_deepgram_put_text(b, w, &ev->alternatives[i]));
    }
    return st ? st : steno_buf_puts(b, "}");
}

/* Append "name":[channel, channels]. */
static steno_status put_channel(struct steno_buf *b, const struct steno_dialect_session *d,
                                const char *name)
{
    return steno_buf_printf(b, "\"%s\":[%u,%u]", name, d->channel, d->channels ? d->channels : 1);
}

static void send_results(struct steno_dialect_session *d, const struct steno_event *ev)
{
    double *from = &deepgram_state(d)->from[d->channel];
    struct steno_buf *b = d->begin(d);
    bool final = ev->kind == STENO_FINAL;
    const bool told = ev->language && *ev->language;
    /* a final without words is of all audio so far */
    double until = d->offset + (final && *ev->text ? ev->end : ev->time);
    steno_status st = steno_buf_puts(b, "{\"type\":\"Results\",");
    deepgram_state(d)->wants.offset = d->offset;
    deepgram_state(d)->wants.live_voices = d->voices;
    steno_deepgram_note_language(&deepgram_state(d)->wants,
                                 told ? ev->language : d->model_language);
    if (until < *from)
        until = *from;
    THEN(st, put_channel(b, d, "channel_index"));
    THEN(st, steno_buf_printf(b,
                              ",\"duration\":%.3f,"
                              "\"start\":%.3f,\"is_final\":%s,\"speech_final\":%s,"
                              "\"from_finalize\":%s,\"channel\":{\"alternatives\":[",
                              until - *from, *from, final ? "true" : "false",
                              final && *ev->text && ev->reason == STENO_FINAL_ENDPOINT ? "true"
                                                                                       : "false",
                              final && ev->reason == STENO_FINAL_REQUEST ? "true" : "false"));
    THEN(st, put_alternatives(d, b, ev));
    THEN(st, steno_buf_puts(b, "]},"));
    THEN(st, put_metadata(b, d));
    THEN(st, steno_buf_puts(b, "}"));
    d->commit(d, st, !final);
    if (final)
        *from = until;
}

/* Send {"type", "channel", NAME: seconds}. */
static void send_moment(struct steno_dialect_session *d, const char *type, const char *name,
                        double seconds)
{
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_printf(b, "{\"type\":\"%s\",", type);
    THEN(st, put_channel(b, d, "channel"));
    d->commit(d, st ? st : steno_buf_printf(b, ",\"%s\":%.3f}", name, seconds), false);
}

/* Speech begins when silero-vad hears a voice. Other sound is speech once there is a word: clicks
 * and music have none. */
static void follow_segment(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct segment *g = &deepgram_state(d)->segments[d->channel];
    if (ev->kind == STENO_SPEECH_START)
        *g = (struct segment){
            .open = true, .told = !deepgram_state(d)->vad_events, .start = d->offset + ev->start};
    const bool voice = ev->kind == STENO_SPEECH_START && ev->confidence > 0;
    if (g->open && !g->told && (voice || *ev->text)) {
        send_moment(d, "SpeechStarted", "timestamp", g->start);
        g->told = true;
    }
    if (ev->kind == STENO_FINAL)
        g->open = false;
}

static void deepgram_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    follow_segment(d, ev);
    if (ev->kind == STENO_FINAL || (ev->kind == STENO_PARTIAL && deepgram_state(d)->interim))
        send_results(d, ev);
    if (ev->kind == STENO_UTTERANCE_END)
        send_moment(d, "UtteranceEnd", "last_word_end", d->offset + ev->end);
}

static bool deepgram_is_busy(const struct steno_dialect_session *d)
{
    const struct state *s = d->state;
    for (size_t i = 0; i < STENO_AUDIO_MAX_CHANNELS; i++)
        if (s->segments[i].open)
            return true;
    return false;
}

static void deepgram_end(struct steno_dialect_session *d, bool draining)
{
    char id[37];
    struct steno_buf *b = d->begin(d);
    steno_status st;
    (void)draining;
    steno_dialect_uuid(d->id, id);
    st = steno_buf_printf(b,
                          "{\"type\":\"Metadata\",\"transaction_key\":\"deprecated\","
                          "\"request_id\":\"%s\",\"sha256\":\"%s\",\"duration\":%.3f,"
                          "\"channels\":%u",
                          id, d->sha256, (double)d->audio_ms / 1000, d->channels ? d->channels : 1);
    THEN(st, steno_deepgram_put_created(b, d->created));
    THEN(st, put_warnings(b, d));
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

static void deepgram_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    char id[37];
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_puts(b, "{\"type\":\"Error\",");
    steno_dialect_uuid(d->id, id);
    for (size_t i = 0; !st && i < 2; i++) { /* by its names in the documentation, and in SDKs */
        st = steno_json_put_member(b, i ? "variant" : "category", code);
        THEN(st, steno_json_printf(b, ",\"%-s\":%s", i ? "description" : "message", message));
        if (!st && !i)
            st = steno_buf_puts(b, ",");
    }
    d->commit(d, st ? st : steno_buf_printf(b, ",\"details\":\"\",\"request_id\":\"%s\"}", id),
              false);
}

static void deepgram_close(const char *code, int *close_code, const char **reason)
{
    if (!strcmp(code, "idle_timeout")) {
        *close_code = 1011;
        *reason = "NET-0001";
    } else if (!strcmp(code, "invalid_data") || !strcmp(code, "unsupported")) {
        *close_code = 1008;
        *reason = "DATA-0000";
    } else if (!strcmp(code, "internal_error")) {
        *close_code = 1011;
        *reason = "NET-0000";
    }
}

const struct steno_dialect steno_dialect_deepgram = {
    .diarizes = true,
    .name = "deepgram",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .sums = true,
    .init = deepgram_init,
    .query = deepgram_query,
    .text = deepgram_text,
    .first_audio = deepgram_first_audio,
    .binary_end = deepgram_binary_end,
    .event = deepgram_event,
    .is_busy = deepgram_is_busy,
    .error = deepgram_error,
    .end = deepgram_end,
    .close = deepgram_close,
};
