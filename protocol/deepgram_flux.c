/* Deepgram's /v2/listen ("Flux"): turns of a conversation instead of utterances. The server sends
 * TurnInfo events: StartOfTurn, Update, EagerEndOfTurn, TurnResumed, EndOfTurn. Source: the
 * AsyncAPI of deepgram-api-specs (2026-07).
 *
 * Deepgram's thresholds are confidences of a network that knows turns. Here silence is the
 * evidence: confidence_after tells how probable it is, after so much of it, that the turn is over.
 * EndOfTurn and EagerEndOfTurn come after the silence whose confidence is their threshold.
 * eot_timeout_ms bounds both. */
#include "protocol/deepgram.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "protocol/dialect.h"
#include "protocol/json_text.h"
#include "protocol/query.h"

/* A pause after a word ends the turn with probability ENDS; one that does not lasts longer than s
 * seconds with probability exp(-s / PAUSE). With these values the default threshold of 0.7 is 0.7 s
 * of silence, Deepgram's limits of 0.3 and 0.9 are 0.31 and 1.01 s. */
#define ENDS 0.1
#define PAUSE 0.23 /* s */

#define MAX_TURN (1u << 20) /* bytes of a turn's transcript and words, as JSON */

struct state {
    bool named;        /* an encoding was given */
    double eot, eager; /* confidences; eager 0: no EagerEndOfTurn */
    double timeout;    /* s */
    bool in_turn, told_eager;
    int64_t turn;
    double window;          /* s: where the turn's audio begins */
    struct steno_buf words; /* of the last Update: "transcript":...,"words":[...] */
    struct steno_deepgram_wants wants;
};

static struct state *state_of(struct steno_dialect_session *d)
{
    return d->state;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The probability that a turn has ended, after so many seconds of silence (Bayes' rule). Rises. */
static double confidence_after(double silence)
{
    return ENDS / (ENDS + (1 - ENDS) * exp(-fmax(silence, 0) / PAUSE));
}

/* Its inverse: s of silence. confidence: in (0, 1). */
static double silence_of(double confidence)
{
    return fmax(0, PAUSE * log(confidence / (1 - confidence) * (1 - ENDS) / ENDS));
}

static void apply(const struct state *s, struct steno_native_start *start)
{
    start->endpoint.silence_after = fmin(silence_of(s->eot), s->timeout);
    start->utterance_end = s->eager > 0 ? fmin(silence_of(s->eager), s->timeout) : 0;
}

static void init(struct steno_dialect_session *d)
{
    struct state *s = state_of(d);
    s->eot = 0.7;
    s->timeout = 5;
    steno_buf_init(&s->words, MAX_TURN);
    d->start.alternatives = 1;
    apply(s, &d->start);
}

static void free_state(struct steno_dialect_session *d)
{
    steno_buf_free(&state_of(d)->words);
}

static steno_status query(struct steno_dialect_session *d, const char *name, const char *value,
                          steno_err *err)
{
    struct state *s = state_of(d);
    int ms = 5000;
    steno_status st = STENO_OK;
    if (!strcmp(name, "encoding")) {
        st = steno_deepgram_encoding(value, &d->start.audio.encoding, err);
        s->named |= !st;
    } else if (!strcmp(name, "sample_rate")) {
        st = steno_query_int(name, value, STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE,
                             &d->start.audio.sample_rate, err);
    } else if (!strcmp(name, "eot_threshold")) {
        st = steno_query_double(name, value, 0.5, 0.9, &s->eot, err);
    } else if (!strcmp(name, "eager_eot_threshold")) {
        st = steno_query_double(name, value, 0.3, 0.9, &s->eager, err);
    } else if (!strcmp(name, "eot_timeout_ms")) {
        st = steno_query_int(name, value, 500, 10000, &ms, err);
        s->timeout = ms / 1000.0;
    } else if (!strcmp(name, "keyterm")) {
        st = steno_deepgram_want(&s->wants, d->start.hints, name, value, err);
    } else if (!strcmp(name, "language_hint")) {
        st = steno_hint_set(d->start.hints, "language", value, err);
    } else if (!strcmp(name, "model") || steno_native_is_option(name)) {
        st = steno_native_query(name, value, &d->start, err);
    } else {
        steno_deepgram_note_unsupported(&s->wants, name, value);
    }
    apply(s, &d->start);
    return st;
}

static steno_status first_audio(struct steno_dialect_session *d, const char *p, size_t n,
                                steno_err *err)
{
    return steno_deepgram_first_audio(&d->start.audio, state_of(d)->named, p, n, err);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Append {"type","request_id","sequence_id". */
static struct steno_buf *open_message(struct steno_dialect_session *d, const char *type,
                                      steno_status *st)
{
    struct steno_buf *b = d->begin(d);
    char id[37];
    steno_dialect_uuid(d->id, id);
    *st = steno_buf_printf(b, "{\"type\":\"%s\",\"request_id\":\"%s\",\"sequence_id\":%llu", type,
                           id, (unsigned long long)d->seq);
    return b;
}

static void close_message(struct steno_dialect_session *d, struct steno_buf *b, steno_status st)
{
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

static void opened(struct steno_dialect_session *d)
{
    steno_status st;
    struct steno_buf *b = open_message(d, "Connected", &st);
    if (!st)
        st = steno_deepgram_put_warnings(b, &state_of(d)->wants, NULL);
    close_message(d, b, st);
}

/* Keep the transcript and the words of an event. */
static steno_status keep_words(struct state *s, const struct steno_event *ev)
{
    steno_status st;
    steno_buf_reset(&s->words);
    st = steno_json_put_member(&s->words, "transcript", ev->text);
    if (!st)
        st = steno_buf_puts(&s->words, ",\"words\":[");
    for (size_t i = 0; !st && i < ev->n_words; i++) {
        const struct steno_word *w = &ev->words[i];
        st = steno_buf_puts(&s->words, i ? ",{" : "{");
        if (!st)
            st = steno_json_put_member(&s->words, "word", w->text);
        if (!st)
            st = steno_buf_printf(&s->words, ",\"confidence\":%.4f,\"start\":%.3f,\"end\":%.3f}",
                                  (double)w->confidence, w->start, w->end);
    }
    return st ? st : steno_buf_puts(&s->words, "]");
}

static void send_turn(struct steno_dialect_session *d, const char *event, double now,
                      double confidence)
{
    const struct state *s = state_of(d);
    steno_status st;
    struct steno_buf *b = open_message(d, "TurnInfo", &st);
    if (!st)
        st = steno_buf_printf(b,
                              ",\"event\":\"%s\",\"turn_index\":%lld,\"audio_window_start\":%.3f,"
                              "\"audio_window_end\":%.3f,",
                              event, (long long)s->turn, s->window, now);
    if (!st)
        st = steno_buf_add(b, s->words.data, s->words.len);
    if (!st)
        st = steno_buf_printf(b, ",\"end_of_turn_confidence\":%.2f", confidence);
    close_message(d, b, st);
}

/* The confidence with which a threshold is reached: its own, unless the timeout comes first. */
static double at_least(const struct state *s, double threshold)
{
    return confidence_after(fmin(silence_of(threshold), s->timeout));
}

static void event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = state_of(d);
    const double now = d->offset + ev->time;
    double confidence = confidence_after(ev->time - ev->end);
    if (ev->kind == STENO_UTTERANCE_END) {
        if (s->in_turn && !s->told_eager)
            send_turn(d, "EagerEndOfTurn", now, fmax(confidence, at_least(s, s->eager)));
        s->told_eager = s->in_turn;
        return;
    }
    if (ev->kind == STENO_SPEECH_START || !*ev->text)
        return;
    if (keep_words(s, ev)) {
        d->commit(d, STENO_ERR_NOMEM, false);
        return;
    }
    if (!s->in_turn)
        send_turn(d, "StartOfTurn", now, confidence);
    else if (ev->kind == STENO_PARTIAL)
        send_turn(d, s->told_eager ? "TurnResumed" : "Update", now, confidence);
    s->in_turn = ev->kind == STENO_PARTIAL;
    s->told_eager = false;
    if (s->in_turn)
        return;
    if (ev->reason == STENO_FINAL_ENDPOINT) /* the end of sound may be before that of the word */
        confidence = fmax(confidence, at_least(s, s->eot));
    send_turn(d, "EndOfTurn", now, confidence);
    s->turn++;
    s->window = now;
}

static bool is_busy(const struct steno_dialect_session *d)
{
    return ((const struct state *)d->state)->in_turn;
}

/* ---- the client's messages ------------------------------------------------------------------- */

static steno_status set_threshold(const json_t *all, const char *name, double low, double high,
                                  double *out, steno_err *err)
{
    const json_t *v = json_object_get(all, name);
    if (!v)
        return STENO_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= low && json_number_value(v) <= high))
        return steno_fail(err, STENO_ERR_INVAL, "thresholds.%s must be %g to %g", name, low, high);
    *out = json_number_value(v);
    return STENO_OK;
}

static steno_status set_terms(struct steno_dialect_session *d, const json_t *terms, steno_err *err)
{
    const json_t *v;
    size_t i;
    steno_status st = terms ? steno_hint_set(d->asked.hints, "hotwords", "", err) : STENO_OK;
    json_array_foreach (terms, i, v)
        if (!st && json_is_string(v))
            st = steno_hint_add_hotword(d->asked.hints, json_string_value(v), err);
    return st;
}

/* Read {"thresholds", "keyterms", "language_hints"}: all of it, or nothing changes. */
static steno_status configure(struct steno_dialect_session *d, const json_t *root, steno_err *err)
{
    struct state *s = state_of(d);
    const json_t *limits = json_object_get(root, "thresholds");
    const char *language =
        json_string_value(json_array_get(json_object_get(root, "language_hints"), 0));
    double eot = s->eot, eager = s->eager, timeout = s->timeout * 1000;
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = steno_dialect_ask(d, err);
    if (!st)
        st = set_threshold(limits, "eot_threshold", 0.5, 0.9, &eot, err);
    if (!st)
        st = set_threshold(limits, "eager_eot_threshold", 0.3, 0.9, &eager, err);
    if (!st)
        st = set_threshold(limits, "eot_timeout_ms", 500, 10000, &timeout, err);
    if (!st)
        st = set_terms(d, json_object_get(root, "keyterms"), err);
    if (!st && language)
        st = steno_hint_set(d->asked.hints, "language", language, err);
    if (!st && d->check)
        st = d->check(d, &d->asked, model, err);
    if (st)
        return st;
    s->eot = eot;
    s->eager = eager;
    s->timeout = timeout / 1000;
    apply(s, &d->asked);
    steno_dialect_take(d);
    return STENO_OK;
}

static void send_configured(struct steno_dialect_session *d)
{
    const struct state *s = state_of(d);
    steno_status st;
    struct steno_buf *b = open_message(d, "ConfigureSuccess", &st);
    if (!st)
        st = steno_buf_printf(b, ",\"thresholds\":{\"eot_threshold\":%g,\"eot_timeout_ms\":%.0f",
                              s->eot, s->timeout * 1000);
    if (!st && s->eager > 0)
        st = steno_buf_printf(b, ",\"eager_eot_threshold\":%g", s->eager);
    close_message(d, b, st ? st : steno_buf_puts(b, "}"));
}

/* Append ,"code","description". */
static steno_status put_failure(struct steno_buf *b, const char *code, const char *message)
{
    steno_status st = steno_buf_printf(b, ",\"code\":\"%s\",", code);
    return st ? st : steno_json_put_member(b, "description", message);
}

static steno_status on_configure(struct steno_dialect_session *d, const json_t *root,
                                 enum steno_dialect_act *act, steno_err *err)
{
    steno_status st = configure(d, root, err);
    struct steno_buf *b;
    if (!st) {
        send_configured(d);
        *act = STENO_ACT_CHANGE;
    }
    if (st != STENO_ERR_INVAL)
        return st;
    b = open_message(d, "ConfigureFailure", &st);
    close_message(d, b, st ? st : put_failure(b, "invalid_argument", err ? err->msg : ""));
    return STENO_OK;
}

static steno_status text(struct steno_dialect_session *d, const char *p, size_t n,
                         enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const char *type;
    steno_status st = steno_dialect_json(&root, p, n, err);
    if (st)
        return st;
    type = json_string_value(json_object_get(root, "type"));
    if (type && !strcmp(type, "Configure"))
        st = on_configure(d, root, act, err);
    else if (type && !strcmp(type, "CloseStream"))
        *act = STENO_ACT_END;
    else if (!type || strcmp(type, "KeepAlive") != 0)
        st = steno_fail(err, STENO_ERR_INVAL,
                        "message: type '%.40s' is not one of CloseStream, Configure, KeepAlive",
                        type ? type : "");
    json_decref(root);
    return st;
}

static void end(struct steno_dialect_session *d, bool draining)
{
    (void)d, (void)draining; /* the close frame ends it */
}

static void error(struct steno_dialect_session *d, const char *code, const char *message)
{
    steno_status st;
    struct steno_buf *b = open_message(d, "Error", &st);
    close_message(d, b, st ? st : put_failure(b, code, message));
}

const struct steno_dialect steno_dialect_flux = {
    .name = "deepgram",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = init,
    .free_state = free_state,
    .query = query,
    .opened = opened,
    .text = text,
    .first_audio = first_audio,
    .event = event,
    .is_busy = is_busy,
    .error = error,
    .end = end,
};
