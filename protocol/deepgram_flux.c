/* Deepgram's /v2/listen ("Flux"): turns of a conversation instead of utterances. The server sends
 * TurnInfo events: StartOfTurn, Update, EagerEndOfTurn, TurnResumed, EndOfTurn. Source: Deepgram's
 * documentation and the types of deepgram-sdk 7.17 (October 2026).
 *
 * Deepgram's thresholds are confidences of a network that knows turns. A server that has such a
 * network (docs/turns.md) asks it in each pause: from eot_threshold on the turn is over, else after
 * eot_timeout_ms; from eager_eot_threshold on it may be over. Without one silence is the evidence:
 * confidence_after tells how probable it is, after so much of it, that the turn is over.
 * EndOfTurn and EagerEndOfTurn come after the silence whose confidence is their threshold.
 * eot_timeout_ms bounds both; with a threshold of 1 it is what ends a turn.
 *
 * A turn may be longer than the recognizer's segments. Words of a segment that ended because of its
 * length stay in the turn. */
#include "protocol/deepgram.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "protocol/dialect.h"
#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/then.h"

/* A pause after a word ends the turn with probability ENDS; one that does not lasts longer than s
 * seconds with probability exp(-s / PAUSE). With these values the default threshold of 0.7 is 0.7 s
 * of silence, Deepgram's limits of 0.3 and 0.9 are 0.31 and 1.01 s. */
#define ENDS 0.1
#define PAUSE 0.23 /* s */

#define EOT_LEAST 0.5
#define EOT_MOST 1.0
#define EAGER_LEAST 0.3
#define EAGER_MOST 0.9
#define TIMEOUT_LEAST 500 /* ms */
#define TIMEOUT_MOST 60000
#define UPDATE 0.25 /* s of audio after which an Update is due, with or without new words */

#define MAX_TURN (1u << 20) /* bytes of a turn's transcript and words, as JSON */

struct said {
    struct steno_buf text;  /* with a NUL that does not count, once it is not empty */
    struct steno_buf words; /* JSON objects with commas between */
};

struct state {
    bool named;        /* an encoding was given */
    double eot, eager; /* confidences; eager 0: no EagerEndOfTurn */
    double timeout;    /* s */
    bool in_turn, told_eager;
    bool by_timeout; /* of the turn: silence ends it by the timeout, not by its threshold */
    int64_t turn;
    double window;      /* s: where the turn's audio begins */
    double now, told;   /* s: until where audio was recognized, in all and at the last event */
    double word_end;    /* s: of the turn's last word */
    struct said past;   /* the turn's earlier segments */
    struct said said;   /* the turn, at its last event */
    struct said before; /* and at the one before */
    char language[STENO_LANGUAGE_BYTES]; /* that was heard last; "" = not known */
    struct steno_deepgram_wants wants;
};

static struct state *flux_state(struct steno_dialect_session *d)
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
    start->turn = (struct steno_turn_choice){
        .kind = STENO_TURN_IF_THERE, .threshold = s->eot, .early = s->eager, .wait = s->timeout};
    if (s->eot >= 1 && !(s->eager > 0)) /* nothing is so sure */
        start->turn = (struct steno_turn_choice){.kind = STENO_TURN_SILENCE};
    start->utterance_end = s->eager > 0 ? fmin(silence_of(s->eager), s->timeout) : 0;
}

static void flux_init(struct steno_dialect_session *d)
{
    struct state *s = flux_state(d);
    s->eot = 0.7;
    s->timeout = 5;
    for (size_t i = 0; i < 3; i++) {
        struct said *all[] = {&s->past, &s->said, &s->before};
        steno_buf_init(&all[i]->text, MAX_TURN);
        steno_buf_init(&all[i]->words, MAX_TURN);
    }
    d->start.alternatives = 1;
    d->start.progress = true;
    apply(s, &d->start);
}

static void flux_free(struct steno_dialect_session *d)
{
    struct state *s = flux_state(d);
    for (size_t i = 0; i < 3; i++) {
        struct said *all[] = {&s->past, &s->said, &s->before};
        steno_buf_free(&all[i]->text);
        steno_buf_free(&all[i]->words);
    }
}

/* Several hints: one of these languages is detected. */
static steno_status add_language(struct steno_hint_store *hints, const char *language,
                                 steno_err *err)
{
    char all[2 * STENO_LANGUAGE_BYTES];
    snprintf(all, sizeof all, "%s%s%s", hints->language, *hints->language ? "," : "", language);
    return steno_hint_set(hints, "language", all, err);
}

static steno_status flux_query(struct steno_dialect_session *d, const char *name, const char *value,
                               steno_err *err)
{
    struct state *s = flux_state(d);
    int ms = 5000;
    steno_status st = STENO_OK;
    if (!strcmp(name, "encoding")) {
        st = steno_deepgram_encoding(value, &d->start.audio.encoding, err);
        s->named |= !st;
    } else if (!strcmp(name, "sample_rate")) {
        st = steno_query_int(name, value, STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE,
                             &d->start.audio.sample_rate, err);
    } else if (!strcmp(name, "eot_threshold")) {
        st = steno_query_double(name, value, EOT_LEAST, EOT_MOST, &s->eot, err);
    } else if (!strcmp(name, "eager_eot_threshold")) {
        st = steno_query_double(name, value, EAGER_LEAST, EAGER_MOST, &s->eager, err);
    } else if (!strcmp(name, "eot_timeout_ms")) {
        st = steno_query_int(name, value, TIMEOUT_LEAST, TIMEOUT_MOST, &ms, err);
        if (!st)
            s->timeout = ms / 1000.0;
    } else if (!strcmp(name, "keyterm") || !strcmp(name, "numerals") || !strcmp(name, "redact") ||
               !strcmp(name, "replace") || !strcmp(name, "filler_words") ||
               !strcmp(name, "profanity_filter")) {
        st = steno_deepgram_want(&s->wants, d->start.hints, &d->start.options, name, value, err);
    } else if (!strcmp(name, "language_hint")) {
        st = add_language(d->start.hints, value, err);
    } else if (!strcmp(name, "model") || !strcmp(name, STENO_WORD_TIMES) ||
               steno_native_is_option(name)) {
        st = steno_native_query(name, value, &d->start, err);
    } else {
        steno_deepgram_note_unsupported(&s->wants, name, value);
    }
    apply(s, &d->start);
    return st;
}

/* Eagerness beyond the end of the turn would never be told. */
static steno_status check_eager(double eager, double eot, steno_err *err)
{
    return eager > eot
               ? steno_fail(err, STENO_ERR_INVAL,
                            "eager_eot_threshold: %g is more than eot_threshold, %g", eager, eot)
               : STENO_OK;
}

static steno_status flux_first_audio(struct steno_dialect_session *d, const char *p, size_t n,
                                     steno_err *err)
{
    if (check_eager(flux_state(d)->eager, flux_state(d)->eot, err))
        return STENO_ERR_INVAL;
    return steno_deepgram_first_audio(&d->start.audio, flux_state(d)->named, p, n, err);
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

static void flux_opened(struct steno_dialect_session *d)
{
    steno_status st;
    struct steno_buf *b = open_message(d, "Connected", &st);
    THEN(st, steno_deepgram_put_warnings(b, &flux_state(d)->wants, NULL));
    close_message(d, b, st);
}

static void free_said(struct said *a)
{
    steno_buf_reset(&a->text);
    steno_buf_reset(&a->words);
}

static steno_status copy_said(struct said *out, const struct said *from)
{
    steno_status st;
    free_said(out);
    st = steno_buf_add(&out->text, from->text.data, from->text.len);
    return st ? st : steno_buf_add(&out->words, from->words.data, from->words.len);
}

static steno_status add_words(struct steno_buf *b, double offset, const struct steno_word *w,
                              size_t n)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < n; i++) {
        st = steno_json_printf(b, "%-s\"word\":%s,\"confidence\":%.4f,\"start\":%.3f,\"end\":%.3f}",
                               b->len ? ",{" : "{", w[i].text, (double)w[i].confidence,
                               offset + w[i].start, offset + w[i].end);
    }
    return st;
}

/* Append what an event says to what was said before it in the turn. */
static steno_status add_event(struct said *out, const struct steno_deepgram_wants *wants,
                              double offset, const struct steno_event *ev)
{
    struct steno_alternative a = {.text = ev->text, .n_words = ev->n_words, .words = ev->words};
    steno_arena *arena;
    steno_status st = steno_deepgram_format(wants, &a, &arena);
    if (!st && out->text.len && *a.text)
        st = steno_buf_puts(&out->text, " ");
    THEN(st, steno_buf_puts(&out->text, a.text));
    if (!st)
        st = add_words(&out->words, offset, a.words, a.n_words);
    steno_arena_free(arena);
    return st;
}

/* Keep what the turn says with this event. */
static steno_status keep_said(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = flux_state(d);
    const struct said last = s->said;
    const char *heard = ev->language ? ev->language : "";
    steno_status st;
    s->said = s->before;
    s->before = last;
    steno_deepgram_note_language(&s->wants, *heard ? heard : d->model_language);
    snprintf(s->language, sizeof s->language, "%s", heard);
    s->word_end = d->offset + ev->end;
    st = copy_said(&s->said, &s->past);
    return st ? st : add_event(&s->said, &s->wants, d->offset, ev);
}

static bool has_changed(const struct state *s)
{
    const struct steno_buf *a = &s->said.text, *b = &s->before.text;
    return a->len != b->len || (a->len && memcmp(a->data, b->data, a->len) != 0);
}

/* Append ,"languages":[heard],"languages_hinted":[given], as far as there are any. */
static steno_status put_languages(struct steno_buf *b, const struct steno_dialect_session *d)
{
    const struct state *s = d->state;
    steno_status st = STENO_OK;
    if (*s->language)
        st = steno_deepgram_put_list(b, "languages", s->language);
    return st || !*d->hints.language
               ? st
               : steno_deepgram_put_list(b, "languages_hinted", d->hints.language);
}

/* trigger: what ended the turn; NULL: it goes on. */
static void send_turn(struct steno_dialect_session *d, const char *event, double confidence,
                      const char *trigger)
{
    struct state *s = flux_state(d);
    steno_status st;
    struct steno_buf *b = open_message(d, "TurnInfo", &st);
    THEN(st, steno_buf_printf(b,
                              ",\"event\":\"%s\",\"turn_index\":%lld,\"audio_window_start\":%.3f,"
                              "\"audio_window_end\":%.3f,\"transcript\":",
                              event, (long long)s->turn, s->window, s->now));
    THEN(st,
         steno_json_put_string(b, s->said.text.data ? s->said.text.data : "", s->said.text.len));
    THEN(st, steno_buf_puts(b, ",\"words\":["));
    THEN(st, steno_buf_add(b, s->said.words.data, s->said.words.len));
    THEN(st, steno_buf_printf(b, "],\"end_of_turn_confidence\":%.2f", confidence));
    if (!st && trigger)
        st = steno_buf_printf(b, ",\"trigger\":\"%s\"", trigger);
    THEN(st, put_languages(b, d));
    close_message(d, b, st);
    s->told = s->now;
}

/* The confidence with which a threshold is reached: its own, unless the timeout comes first. */
static double at_least(const struct state *s, double threshold)
{
    return confidence_after(fmin(silence_of(threshold), s->timeout));
}

static void start_turn(struct steno_dialect_session *d, double confidence)
{
    struct state *s = flux_state(d);
    s->in_turn = true;
    s->by_timeout = s->timeout < silence_of(s->eot);
    send_turn(d, "StartOfTurn", confidence, NULL);
}

/* Whether it was the silence of the timeout that ended the turn: a network answers long before. */
static bool by_timeout(const struct steno_dialect_session *d, double silence)
{
    const struct state *s = d->state;
    return d->judges_turns ? silence >= 0.8 * s->timeout : s->by_timeout;
}

static void end_turn(struct steno_dialect_session *d, const struct steno_event *ev,
                     double confidence)
{
    struct state *s = flux_state(d);
    const char *trigger = "manual";           /* ForceEndTurn or CloseStream */
    if (ev->reason == STENO_FINAL_ENDPOINT) { /* the end of sound may be before that of the word */
        const bool late = by_timeout(d, ev->time - ev->end);
        if (!d->judges_turns)
            confidence = fmax(confidence, at_least(s, s->eot));
        else if (!late)
            confidence = s->eot; /* the network said so much or more */
        trigger = late ? "timeout" : "model";
    }
    if (s->told_eager && has_changed(s))
        send_turn(d, "TurnResumed", confidence, NULL);
    send_turn(d, "EndOfTurn", confidence, trigger);
    s->turn++;
    s->window = s->now;
    s->in_turn = s->told_eager = false;
    free_said(&s->past);
    free_said(&s->said);
}

static void go_on(struct steno_dialect_session *d, double confidence)
{
    struct state *s = flux_state(d);
    send_turn(d, s->told_eager && has_changed(s) ? "TurnResumed" : "Update", confidence, NULL);
    s->told_eager &= !has_changed(s);
}

static void flux_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = flux_state(d);
    const double confidence = confidence_after(ev->time - ev->end);
    s->now = fmax(s->now, d->offset + ev->time);
    if (ev->kind == STENO_UTTERANCE_END) {
        if (s->in_turn && !s->told_eager)
            send_turn(d, "EagerEndOfTurn",
                      d->judges_turns ? (double)ev->confidence
                                      : fmax(confidence, at_least(s, s->eager)),
                      NULL);
        s->told_eager = s->in_turn;
        return;
    }
    /* sound without words begins no turn, but a turn may end without words */
    if (ev->kind == STENO_SPEECH_START ||
        (!*ev->text && (!s->in_turn || ev->kind == STENO_PARTIAL)))
        return;
    if (keep_said(d, ev)) {
        d->commit(d, STENO_ERR_NOMEM, false);
        return;
    }
    if (!s->in_turn)
        start_turn(d, confidence);
    else if (ev->kind == STENO_PARTIAL)
        go_on(d, confidence);
    if (ev->kind != STENO_FINAL)
        return;
    if (ev->reason != STENO_FINAL_LENGTH && ev->reason != STENO_FINAL_BACKCHANNEL)
        end_turn(d, ev, confidence);
    else if (copy_said(&s->past, &s->said))
        d->commit(d, STENO_ERR_NOMEM, false);
}

static void flux_progress(struct steno_dialect_session *d, double heard)
{
    struct state *s = flux_state(d);
    s->now = fmax(s->now, heard);
    if (s->now - s->told >= UPDATE)
        send_turn(d, "Update", confidence_after(s->in_turn ? s->now - s->word_end : 0), NULL);
}

static bool flux_is_busy(const struct steno_dialect_session *d)
{
    return ((const struct state *)d->state)->in_turn;
}

/* ---- the client's messages ------------------------------------------------------------------- */

/* Read {"eot_threshold", "eager_eot_threshold", "eot_timeout_ms"} into s; null changes nothing. */
static steno_status set_thresholds(struct state *s, json_t *all, steno_err *err)
{
    double ms = s->timeout * 1000;
    const struct {
        const char *name;
        double low, high, *out;
    } known[] = {{"eot_threshold", EOT_LEAST, EOT_MOST, &s->eot},
                 {"eager_eot_threshold", EAGER_LEAST, EAGER_MOST, &s->eager},
                 {"eot_timeout_ms", TIMEOUT_LEAST, TIMEOUT_MOST, &ms}};
    const char *name;
    json_t *v;
    if (all && !json_is_null(all) && !json_is_object(all))
        return steno_fail(err, STENO_ERR_INVAL, "thresholds must be an object");
    json_object_foreach (all, name, v) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(name, known[i].name) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return steno_fail(err, STENO_ERR_INVAL, "thresholds.%.40s is unknown", name);
        if (json_is_null(v))
            continue;
        if (!json_is_number(v) ||
            !(json_number_value(v) >= known[i].low && json_number_value(v) <= known[i].high))
            return steno_fail(err, STENO_ERR_INVAL, "thresholds.%s must be %g to %g", name,
                              known[i].low, known[i].high);
        *known[i].out = json_number_value(v);
    }
    s->timeout = ms / 1000;
    return check_eager(s->eager, s->eot, err);
}

static steno_status set_languages(struct steno_hint_store *hints, const json_t *all, steno_err *err)
{
    const json_t *v;
    size_t i;
    steno_status st;
    if (!all || json_is_null(all))
        return STENO_OK;
    if (!json_is_array(all))
        return steno_fail(err, STENO_ERR_INVAL, "language_hints must be a list of strings");
    st = steno_hint_set(hints, "language", "", err);
    json_array_foreach (all, i, v)
        if (!st)
            st = json_is_string(v)
                     ? add_language(hints, json_string_value(v), err)
                     : steno_fail(err, STENO_ERR_INVAL, "language_hints must be a list of strings");
    return st;
}

/* Read {"thresholds", "keyterms", "language_hints", "numerals"}: all of it, or nothing changes. */
static steno_status configure(struct steno_dialect_session *d, const json_t *root, steno_err *err)
{
    struct state *s = flux_state(d), asked = *s;
    const json_t *numerals = json_object_get(root, "numerals");
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = steno_dialect_ask(d, err);
    if (!st)
        st = set_thresholds(&asked, json_object_get(root, "thresholds"), err);
    if (!st)
        st = steno_deepgram_set_terms(d, json_object_get(root, "keyterms"), err);
    if (!st)
        st = set_languages(d->asked.hints, json_object_get(root, "language_hints"), err);
    if (!st && numerals && !json_is_null(numerals) && !json_is_boolean(numerals))
        st = steno_fail(err, STENO_ERR_INVAL, "numerals must be true or false");
    if (!st && d->check)
        st = d->check(d, &d->asked, model, err);
    if (st)
        return st;
    s->eot = asked.eot;
    s->eager = asked.eager;
    s->timeout = asked.timeout;
    if (json_is_boolean(numerals))
        s->wants.numerals = json_is_true(numerals);
    apply(s, &d->asked);
    steno_dialect_take(d);
    return STENO_OK;
}

static void send_configured(struct steno_dialect_session *d)
{
    const struct state *s = flux_state(d);
    steno_status st;
    struct steno_buf *b = open_message(d, "ConfigureSuccess", &st);
    THEN(st, steno_buf_printf(b, ",\"thresholds\":{\"eot_threshold\":%g,\"eot_timeout_ms\":%.0f",
                              s->eot, s->timeout * 1000));
    if (!st && s->eager > 0)
        st = steno_buf_printf(b, ",\"eager_eot_threshold\":%g", s->eager);
    THEN(st, steno_buf_printf(b, "},\"numerals\":%s", s->wants.numerals ? "true" : "false"));
    THEN(st, steno_deepgram_put_list(b, "keyterms", d->hints.hotwords));
    if (!st && *d->hints.language)
        st = steno_deepgram_put_list(b, "language_hints", d->hints.language);
    close_message(d, b, st);
}

/* Append ,"code","description". */
static steno_status put_failure(struct steno_buf *b, const char *code, const char *message)
{
    return steno_json_printf(b, ",\"code\":\"%-s\",\"description\":%s", code, message);
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

static steno_status flux_text(struct steno_dialect_session *d, const char *p, size_t n,
                              enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const char *type;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    type = json_string_value(json_object_get(root, "type"));
    if (type && !strcmp(type, "Configure"))
        st = on_configure(d, root, act, err);
    else if (type && !strcmp(type, "ForceEndTurn"))
        *act = STENO_ACT_FINALIZE; /* without words since the last turn nothing comes of it */
    else if (type && !strcmp(type, "CloseStream"))
        *act = STENO_ACT_END;
    else if (!type || strcmp(type, "KeepAlive") != 0)
        st = steno_fail(err, STENO_ERR_INVAL,
                        "message: type '%.40s' is not one of CloseStream, Configure, ForceEndTurn, "
                        "KeepAlive",
                        type ? type : "");
    json_decref(root);
    return st;
}

static void flux_end(struct steno_dialect_session *d, bool draining)
{
    (void)d, (void)draining; /* the close frame ends it */
}

static void flux_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    steno_status st;
    struct steno_buf *b = open_message(d, "Error", &st);
    close_message(d, b, st ? st : put_failure(b, code, message));
}

const struct steno_dialect steno_dialect_flux = {
    .name = "deepgram",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = flux_init,
    .free_state = flux_free,
    .query = flux_query,
    .opened = flux_opened,
    .text = flux_text,
    .first_audio = flux_first_audio,
    .event = flux_event,
    .progress = flux_progress,
    .is_busy = flux_is_busy,
    .error = flux_error,
    .end = flux_end,
};
