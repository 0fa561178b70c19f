/* The dialect of vosk-server (asr_server.py): raw s16le mono, one reply per message, {"eof":1}.
 *
 * Its clients send a block of audio and wait for the reply, so each binary message is answered at
 * once with what is known at that moment: a final that has come since the last reply, else the
 * partial. Finals that are left at the end are joined in the last reply, because a client reads
 * only one. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json_object.h"
#include "protocol/json_text.h"
#include "protocol/query.h"
#include "protocol/transcript.h"
#include "protocol/then.h"

struct state {
    bool words;               /* word times wanted */
    bool nbest;               /* max_alternatives was given; finals have its form */
    steno_transcript *finals; /* not sent yet; NULL = none */
    struct steno_buf partial;
    bool reset; /* the reply to a reset is due */
};

#define MAX_PENDING (1u << 20) /* bytes of a partial */
#define MAX_FINALS (8u << 20)  /* of finals that wait for the next reply */

static struct state *vosk_state(struct steno_dialect_session *d)
{
    return d->state;
}

static void vosk_init(struct steno_dialect_session *d)
{
    struct state *s = vosk_state(d);
    d->start.audio.sample_rate = 8000; /* asr_server.py's default */
    s->words = true;
    steno_buf_init(&s->partial, MAX_PENDING);
}

static void vosk_free(struct steno_dialect_session *d)
{
    struct state *s = vosk_state(d);
    steno_transcript_free(s->finals);
    steno_buf_free(&s->partial);
}

static steno_status vosk_query(struct steno_dialect_session *d, const char *name, const char *value,
                               steno_err *err)
{
    steno_status st;
    if (!strcmp(name, "words"))
        return steno_query_bool(name, value, &vosk_state(d)->words, err);
    st = steno_dialect_query(d, name, value, err);
    vosk_state(d)->nbest = d->start.alternatives > 1; /* as max_alternatives */
    return st;
}

/* asr_server.py reads numbers with float() and int(), so a string may hold a number. NAN for
 * anything else. */
static double number_of_json(const json_t *v)
{
    const char *t = json_string_value(v);
    char *end;
    double x;
    if (!t)
        return json_is_number(v) ? json_number_value(v) : (double)NAN;
    x = strtod(t, &end);
    while (*end == ' ')
        end++;
    return end == t || *end ? (double)NAN : x;
}

/* The value's truth, as Python's bool() defines it. */
static bool truth(const json_t *v)
{
    return json_is_true(v) || (json_is_number(v) && fpclassify(json_number_value(v)) != FP_ZERO) ||
           (json_is_string(v) && *json_string_value(v)) || json_array_size(v) ||
           json_object_size(v);
}

/* As in Vosk, 0 selects the form without alternatives, and 1 the form with them. */
static steno_status set_alternatives(struct steno_dialect_session *d, const json_t *v,
                                     steno_err *err)
{
    double n = number_of_json(v);
    if (!v)
        return STENO_OK;
    if (!(n >= 0))
        return steno_fail(err, STENO_ERR_INVAL, "config: max_alternatives must be 0 or more");
    n = fmin(n, STENO_NATIVE_MAX_ALTERNATIVES); /* Vosk gives as many as it has */
    vosk_state(d)->nbest = n >= 1;
    d->asked.alternatives = n >= 2 ? (int)n : 1;
    return STENO_OK;
}

/* Read {"sample_rate", "words", "max_alternatives", "model", "phrase_list"}. Other members are
 * ignored. */
static steno_status config(struct steno_dialect_session *d, const json_t *c, steno_err *err)
{
    const json_t *rate = json_object_get(c, "sample_rate"), *words = json_object_get(c, "words"),
                 *model = json_object_get(c, "model"), *phrases = json_object_get(c, "phrase_list");
    steno_status st = steno_dialect_ask(d, err);
    if (!st && phrases) /* for Vosk a grammar; here they are likely words */
        st = steno_hint_set(d->asked.hints, "hotwords", "", err);
    if (!st)
        st = steno_hint_add_list(d->asked.hints, "hotwords", "config: phrase_list", phrases, err);
    if (st)
        return st;
    if (rate && !(number_of_json(rate) >= STENO_AUDIO_MIN_RATE &&
                  number_of_json(rate) <= STENO_AUDIO_MAX_RATE))
        return steno_fail(err, STENO_ERR_INVAL, "config: sample_rate must be %d to %d",
                          STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE);
    if (rate)
        d->asked.audio.sample_rate = (int)number_of_json(rate);
    if (words)
        vosk_state(d)->words = truth(words);
    if (set_alternatives(d, json_object_get(c, "max_alternatives"), err))
        return STENO_ERR_INVAL;
    if (model && !json_is_string(model))
        return steno_fail(err, STENO_ERR_INVAL, "config: model must be a string");
    if (model)
        steno_dialect_set_model(d, &d->asked, json_string_value(model));
    return STENO_OK;
}

static steno_status vosk_text(struct steno_dialect_session *d, const char *p, size_t n,
                              enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const json_t *c;
    steno_status st = steno_json_object(&root, p, n, err);
    if (st)
        return st;
    c = json_object_get(root, "config");
    if (json_is_object(c)) {
        *act = STENO_ACT_SETTINGS;
        st = config(d, c, err);
    } else if (json_object_get(root, "eof")) {
        *act = STENO_ACT_END;
    } else if (json_object_get(root, "reset")) {
        vosk_state(d)->reset = true;
        *act = STENO_ACT_FINALIZE;
    } else {
        st = steno_fail(err, STENO_ERR_INVAL,
                        "message: neither \"config\", \"eof\" nor \"reset\" is in it");
    }
    json_decref(root);
    return st;
}

/* Append "result":[...], */
static steno_status put_result_words(struct steno_buf *b, const struct steno_alternative *a,
                                     bool conf)
{
    steno_status st = steno_buf_puts(b, "\"result\":[");
    for (size_t i = 0; !st && i < a->n_words; i++) {
        const struct steno_word *w = &a->words[i];
        st = steno_buf_puts(b, i ? ",{" : "{");
        if (!st && conf)
            st = steno_buf_printf(b, "\"conf\":%.6f,", (double)w->confidence);
        THEN(st, steno_json_printf(b, "\"end\":%.3f,\"start\":%.3f,\"word\":%s}", w->end, w->start,
                                   w->text));
    }
    return st ? st : steno_buf_puts(b, "],");
}

/* Append "name":"text"}. */
static steno_status put_text_end(struct steno_buf *b, const char *name, const char *text, size_t n)
{
    steno_status st = steno_buf_printf(b, "\"%s\":", name);
    THEN(st, steno_json_put_string(b, text, n));
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status put_final(struct steno_dialect_session *d, struct steno_buf *b)
{
    struct state *s = vosk_state(d);
    size_t n = s->nbest ? steno_transcript_n_alternatives(s->finals) : 1;
    steno_status st = steno_buf_puts(b, s->nbest ? "{\"alternatives\":[" : "");
    for (size_t i = 0; !st && i < n; i++) {
        struct steno_alternative a;
        st = steno_transcript_alternative(s->finals, i, &a, NULL);
        THEN(st, steno_buf_puts(b, i ? ",{" : "{"));
        if (!st && s->nbest)
            st = steno_buf_printf(b, "\"confidence\":%.6f,", (double)a.confidence);
        if (!st && s->words && a.n_words)
            st = put_result_words(b, &a, !s->nbest);
        THEN(st, put_text_end(b, "text", a.text, strlen(a.text)));
    }
    return !st && s->nbest ? steno_buf_puts(b, "]}") : st;
}

static void send_final(struct steno_dialect_session *d)
{
    struct state *s = vosk_state(d);
    struct steno_buf *b = d->begin(d);
    if (!s->finals)
        s->finals = steno_transcript_new(MAX_FINALS);
    d->commit(d, s->finals ? put_final(d, b) : STENO_ERR_NOMEM, false);
    steno_transcript_free(s->finals);
    s->finals = NULL;
    steno_buf_reset(&s->partial);
}

/* The C++ server of vosk-server compares the bytes of a message and ignores whether it is text or
 * binary, and clients of bytes (websocat --binary) rely on that. Samples are never JSON with one of
 * these names. */
static bool vosk_binary_text(const char *p, size_t n)
{
    json_t *root = json_loadb(p, n, 0, NULL);
    bool known = json_object_get(root, "config") || json_object_get(root, "eof") ||
                 json_object_get(root, "reset");
    json_decref(root);
    return known;
}

static enum steno_dialect_act vosk_binary_end(struct steno_dialect_session *d, uint64_t bytes)
{
    struct state *s = vosk_state(d);
    struct steno_buf *b;
    steno_status st;
    (void)bytes;
    if (s->finals) {
        send_final(d);
        return STENO_ACT_NOTHING;
    }
    b = d->begin(d);
    st = steno_buf_puts(b, "{");
    THEN(st, put_text_end(b, "partial", s->partial.len ? s->partial.data : "", s->partial.len));
    d->commit(d, st, false);
    return STENO_ACT_NOTHING;
}

static void vosk_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = vosk_state(d);
    steno_status st = STENO_OK;
    if (ev->kind == STENO_PARTIAL) {
        steno_buf_reset(&s->partial);
        st = steno_buf_puts(&s->partial, ev->text);
    } else if (ev->kind == STENO_FINAL && *ev->text) {
        steno_buf_reset(&s->partial);
        if (!s->finals && !(s->finals = steno_transcript_new(MAX_FINALS)))
            st = STENO_ERR_NOMEM;
        if (!st)
            st = steno_transcript_add(s->finals, ev, NULL);
    }
    if (st)
        d->commit(d, st, false);
}

static void vosk_finalized(struct steno_dialect_session *d)
{
    struct state *s = vosk_state(d);
    if (s->reset)
        send_final(d);
    s->reset = false;
}

static void vosk_end(struct steno_dialect_session *d, bool draining)
{
    (void)draining;
    send_final(d);
}

static void vosk_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    if (vosk_state(d)->finals)
        send_final(d);
    steno_dialect_error(d, code, message);
}

const struct steno_dialect steno_dialect_vosk = {
    .name = "vosk",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = vosk_init,
    .free_state = vosk_free,
    .query = vosk_query,
    .text = vosk_text,
    .binary_text = vosk_binary_text,
    .binary_end = vosk_binary_end,
    .event = vosk_event,
    .finalized = vosk_finalized,
    .error = vosk_error,
    .end = vosk_end,
};
