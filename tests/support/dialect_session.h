/* A session without a server, for tests of dialects: it records the messages, which `says` and
 * others compare, and makes the events of a recognizer. Tests use it under these short names, so
 * it is a header alone. */
#ifndef STENO_TESTS_SUPPORT_DIALECT_SESSION_H
#define STENO_TESTS_SUPPORT_DIALECT_SESSION_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/dialect.h"
#include "tests/support/test.h"

#define GET(o, name) steno_options_get(o, name, (char[STENO_OPTION_TEXT]){0})

/* Takes the session's place and records all messages. */
struct received {
    struct steno_dialect_session d;
    struct steno_buf writing;
    char *said[32];
    bool replaceable[32];
    int n, read;
};

static struct steno_buf *begin(struct steno_dialect_session *d)
{
    struct received *h = d->owner;
    steno_buf_reset(&h->writing);
    return &h->writing;
}

static void commit(struct steno_dialect_session *d, steno_status st, bool replaceable)
{
    struct received *h = d->owner;
    assert_int_equal(st, STENO_OK);
    assert_true(h->n < 32);
    h->said[h->n] = strdup(h->writing.data);
    h->replaceable[h->n++] = replaceable;
    d->seq++;
}

static void start(struct received *h, const struct steno_dialect *dialect)
{
    struct steno_dialect_session *d = &h->d;
    memset(h, 0, sizeof *h);
    steno_buf_init(&h->writing, 1 << 20);
    steno_buf_init(&d->audio, 1 << 20);
    steno_native_start_init(&d->start);
    d->start.hints = &d->hints;
    d->dialect = dialect;
    d->owner = h;
    d->begin = begin;
    d->commit = commit;
    d->model_version = "3";
    d->model_family = "ctc";
    snprintf(d->id, sizeof d->id, "sess_00112233445566778899aabbccddeeff");
    snprintf(d->start.model, sizeof d->start.model, "digits");
    d->state = dialect->state_bytes ? calloc(1, dialect->state_bytes) : NULL;
    if (dialect->init)
        dialect->init(d);
}

static void stop(struct received *h)
{
    for (int i = 0; i < h->n; i++)
        free(h->said[i]);
    if (h->d.dialect->free_state)
        h->d.dialect->free_state(&h->d);
    free(h->d.state);
    steno_hint_store_free(&h->d.hints);
    steno_hint_store_free(&h->d.asked_hints);
    steno_buf_free(&h->d.audio);
    steno_buf_free(&h->writing);
}

/* The next message is exactly this JSON, or this text if it is not JSON. */
static void says(struct received *h, const char *want)
{
    json_t *a, *b;
    if (h->read >= h->n)
        fail_msg("nothing was said, expected %s", want);
    a = json_loads(h->said[h->read], JSON_REJECT_DUPLICATES, NULL);
    b = json_loads(want, 0, NULL);
    if (b ? !json_equal(a, b) : strcmp(h->said[h->read], want) != 0)
        fail_msg("said     %s\nexpected %s", h->said[h->read], want);
    json_decref(a);
    json_decref(b);
    h->read++;
}

/* The next message has these members, among others. */
static void says_some(struct received *h, const char *want)
{
    json_t *a, *b, *v;
    const char *name;
    if (h->read >= h->n)
        fail_msg("nothing was said, expected %s", want);
    a = json_loads(h->said[h->read], JSON_REJECT_DUPLICATES, NULL);
    b = json_loads(want, 0, NULL);
    assert_non_null(a);
    assert_non_null(b);
    json_object_foreach (b, name, v)
        if (!json_equal(v, json_object_get(a, name)))
            fail_msg("said %s\nwhose %s is not that of %s", h->said[h->read], name, want);
    json_decref(a);
    json_decref(b);
    h->read++;
}

static void says_no_more(struct received *h)
{
    if (h->read < h->n)
        fail_msg("also said %s", h->said[h->read]);
}

static enum steno_dialect_act text(struct received *h, const char *t, steno_status want)
{
    enum steno_dialect_act act = STENO_ACT_NOTHING;
    const struct steno_dialect *dialect = h->d.dialect;
    struct steno_buf rest;
    steno_err err;
    steno_status st = STENO_OK;
    steno_buf_init(&rest, 1 << 20);
    if (dialect->text_part)
        st = dialect->text_part(&h->d, t, strlen(t), &rest, &err);
    else
        st = steno_buf_puts(&rest, t);
    if (!st)
        st = dialect->text(&h->d, rest.data, rest.len, &act, &err);
    steno_buf_free(&rest);
    if (st != want)
        fail_msg("%s: status %d, expected %d: %s", t, (int)st, (int)want, st ? err.msg : "");
    return act;
}

static void query(struct received *h, const char *name, const char *value, steno_status want)
{
    steno_err err;
    steno_status st = h->d.dialect->query(&h->d, name, value, &err);
    if (st != want)
        fail_msg("%s=%s: status %d, expected %d: %s", name, value, (int)st, (int)want,
                 st ? err.msg : "");
}

static const struct steno_word two_words[] = {
    {.text = "four", .start = 1.25, .end = 1.5, .confidence = 0.5f},
    {.text = "t\"wo", .start = 1.75, .end = 2.0, .confidence = 1.0f},
};

/* The event of a final with three hypotheses. */
static void nbest(struct received *h)
{
    const struct steno_alternative list[] = {
        {.text = "four t\"wo", .confidence = 0.75f, .score = -1, .n_words = 2, .words = two_words},
        {.text = "four", .confidence = 0.5f, .score = -2, .n_words = 1, .words = two_words},
        {.text = "", .confidence = 0, .score = -3},
    };
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .time = 2.25,
                                   .start = 1.0,
                                   .end = 2.0,
                                   .text = "four t\"wo",
                                   .confidence = 0.75f,
                                   .words = two_words,
                                   .n_words = 2,
                                   .reason = STENO_FINAL_ENDPOINT,
                                   .alternatives = list,
                                   .n_alternatives = 3};
    h->d.dialect->event(&h->d, &ev);
}

static void event(struct received *h, enum steno_event_kind kind, const char *t,
                  enum steno_final_reason reason)
{
    struct steno_event ev = {.kind = kind,
                             .time = 2.25,
                             .segment = 4,
                             .start = 1.0,
                             .end = 2.0,
                             .text = t,
                             .confidence = kind == STENO_SPEECH_START ? 0 : 0.75f,
                             .reason = reason,
                             .words = two_words,
                             .n_words = *t ? 2 : 0};
    if (kind == STENO_PARTIAL)
        ev.stable_bytes = strcspn(t, " ");
    h->d.dialect->event(&h->d, &ev);
}

#endif
