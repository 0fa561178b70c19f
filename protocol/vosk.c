/* The dialect of vosk-server (asr_server.py): raw s16le mono, one reply per message, {"eof":1}.
 *
 * Its clients send a piece and wait for the reply, so each binary message is answered at once, with
 * what is known at that moment: a final that has come since the last reply, else the partial. What
 * finals are left at the end are joined into the last reply, because a client reads only one. */
#include "protocol/dialect.h"

#include <jansson.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/query.h"

struct state {
    bool words;             /* word times wanted */
    struct steno_buf text;  /* finals that were not told yet, joined, */
    struct steno_buf items; /* and their words as JSON, joined by commas */
    struct steno_buf partial;
    bool reset; /* the reply to a reset is due */
};

#define MAX_PENDING (1u << 20)

static struct state *state_of(struct steno_dialect_session *d)
{
    return d->state;
}

static void init(struct steno_dialect_session *d)
{
    struct state *s = state_of(d);
    d->start.audio.sample_rate = 8000; /* asr_server.py's default */
    s->words = true;
    steno_buf_init(&s->text, MAX_PENDING);
    steno_buf_init(&s->items, 8 * MAX_PENDING);
    steno_buf_init(&s->partial, MAX_PENDING);
}

static void free_state(struct steno_dialect_session *d)
{
    struct state *s = state_of(d);
    steno_buf_free(&s->text);
    steno_buf_free(&s->items);
    steno_buf_free(&s->partial);
}

static steno_status query(struct steno_dialect_session *d, const char *name, const char *value,
                          steno_err *err)
{
    if (!strcmp(name, "words"))
        return steno_query_bool(name, value, &state_of(d)->words, err);
    return steno_native_query(name, value, &d->start, err);
}

/* {"sample_rate", "words", "max_alternatives", "model", "phrase_list"}: a model is a name of ours,
 * never a path; what else is there is passed over. */
static steno_status config(struct steno_dialect_session *d, const json_t *c, steno_err *err)
{
    const json_t *rate = json_object_get(c, "sample_rate"), *words = json_object_get(c, "words"),
                 *model = json_object_get(c, "model");
    d->asked = d->start;
    if (rate && (!json_is_number(rate) || json_number_value(rate) < STENO_AUDIO_MIN_RATE ||
                 json_number_value(rate) > STENO_AUDIO_MAX_RATE))
        return steno_fail(err, STENO_ERR_INVAL, "config: sample_rate must be %d to %d",
                          STENO_AUDIO_MIN_RATE, STENO_AUDIO_MAX_RATE);
    if (rate)
        d->asked.audio.sample_rate = (int)json_number_value(rate);
    if (words)
        state_of(d)->words = json_is_true(words) || json_integer_value(words) != 0;
    return json_is_string(model)
               ? steno_native_query("model", json_string_value(model), &d->asked, err)
               : STENO_OK;
}

static steno_status text(struct steno_dialect_session *d, const char *p, size_t n,
                         enum steno_dialect_act *act, steno_err *err)
{
    json_t *root;
    const json_t *c;
    steno_status st = steno_dialect_json(&root, p, n, err);
    if (st)
        return st;
    c = json_object_get(root, "config");
    if (json_is_object(c)) {
        *act = STENO_ACT_SETTINGS;
        st = config(d, c, err);
    } else if (json_object_get(root, "eof")) {
        *act = STENO_ACT_END;
    } else if (json_object_get(root, "reset")) {
        state_of(d)->reset = true;
        *act = STENO_ACT_FINALIZE;
    } else {
        st = steno_fail(err, STENO_ERR_INVAL,
                        "message: neither \"config\", \"eof\" nor \"reset\" is in it");
    }
    json_decref(root);
    return st;
}

static steno_status keep_words(struct state *s, const struct steno_event *ev)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < ev->n_words; i++) {
        const struct steno_word *w = &ev->words[i];
        st = steno_buf_printf(&s->items, "%s{\"conf\":%.6f,\"end\":%.3f,\"start\":%.3f,\"word\":",
                              s->items.len ? "," : "", (double)w->confidence, w->end, w->start);
        if (!st)
            st = steno_json_put_string(&s->items, w->text, strlen(w->text));
        if (!st)
            st = steno_buf_puts(&s->items, "}");
    }
    return st;
}

static steno_status put_text(struct steno_buf *b, const char *name, const struct steno_buf *text)
{
    steno_status st = steno_buf_printf(b, "\"%s\":", name);
    if (!st)
        st = steno_json_put_string(b, text->len ? text->data : "", text->len);
    return st ? st : steno_buf_puts(b, "}");
}

static void send_final(struct steno_dialect_session *d)
{
    struct state *s = state_of(d);
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_puts(b, "{");
    if (!st && s->words && s->items.len) {
        st = steno_buf_puts(b, "\"result\":[");
        if (!st)
            st = steno_buf_add(b, s->items.data, s->items.len);
        if (!st)
            st = steno_buf_puts(b, "],");
    }
    if (!st)
        st = put_text(b, "text", &s->text);
    d->commit(d, st, false);
    steno_buf_reset(&s->text);
    steno_buf_reset(&s->items);
    steno_buf_reset(&s->partial);
}

static enum steno_dialect_act binary_end(struct steno_dialect_session *d, uint64_t bytes)
{
    struct state *s = state_of(d);
    struct steno_buf *b;
    steno_status st;
    (void)bytes;
    if (s->text.len) {
        send_final(d);
        return STENO_ACT_NOTHING;
    }
    b = d->begin(d);
    st = steno_buf_puts(b, "{");
    d->commit(d, st ? st : put_text(b, "partial", &s->partial), false);
    return STENO_ACT_NOTHING;
}

static void event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = state_of(d);
    steno_status st = STENO_OK;
    if (ev->kind == STENO_PARTIAL) {
        steno_buf_reset(&s->partial);
        st = steno_buf_puts(&s->partial, ev->text);
    } else if (ev->kind == STENO_FINAL && *ev->text) {
        steno_buf_reset(&s->partial);
        if (s->text.len)
            st = steno_buf_puts(&s->text, " ");
        if (!st)
            st = steno_buf_puts(&s->text, ev->text);
        if (!st)
            st = keep_words(s, ev);
    }
    if (st)
        d->commit(d, st, false);
}

static void finalized(struct steno_dialect_session *d)
{
    struct state *s = state_of(d);
    if (s->reset)
        send_final(d);
    s->reset = false;
}

static void end(struct steno_dialect_session *d, bool draining)
{
    (void)draining;
    send_final(d);
}

static void error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct state *s = state_of(d);
    struct steno_buf *b;
    steno_status st;
    if (s->text.len)
        send_final(d);
    b = d->begin(d);
    st = steno_buf_printf(b, "{\"error\":\"%s\",\"message\":", code);
    if (!st)
        st = steno_json_put_string(b, message, strlen(message));
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

const struct steno_dialect steno_dialect_vosk = {
    .name = "vosk",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = init,
    .free_state = free_state,
    .query = query,
    .text = text,
    .binary_end = binary_end,
    .event = event,
    .finalized = finalized,
    .error = error,
    .end = end,
};
