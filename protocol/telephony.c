#include "protocol/telephony.h"

#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/then.h"

#define MAX_PARAMETERS 8192 /* bytes of JSON */

static struct steno_call *call_of(const struct steno_dialect_session *d)
{
    return d->state;
}

void steno_call_init(struct steno_dialect_session *d)
{
    struct steno_call *c = call_of(d);
    steno_buf_init(&c->parameters, MAX_PARAMETERS);
    d->callback = c->callback;
    d->secret = c->secret;
    d->start.audio.sample_rate = 8000;
}

void steno_call_free(struct steno_dialect_session *d)
{
    steno_buf_free(&call_of(d)->parameters);
}

/* ---- parameters ------------------------------------------------------------------------------ */

steno_status steno_call_keep(struct steno_call *c, const char *name, const char *json, size_t n,
                             steno_err *err)
{
    struct steno_buf *b = &c->parameters;
    const size_t before = b->len;
    steno_status st = before ? steno_buf_puts(b, ",") : STENO_OK;
    const size_t at = b->len;
    THEN(st, steno_json_printf(b, "%s:", name));
    if (!st && strstr(b->data, b->data + at) < b->data + at) { /* the first one counts */
        steno_buf_cut(b, before);
        return STENO_OK;
    }
    THEN(st, steno_buf_add(b, json, n));
    if (!st)
        return STENO_OK;
    steno_buf_cut(b, before);
    return steno_fail(err, st, "parameters: %s",
                      st == STENO_ERR_LIMIT ? "more than 8192 bytes" : "out of memory");
}

steno_status steno_call_keep_text(struct steno_call *c, const char *name, const char *value,
                                  steno_err *err)
{
    struct steno_buf json;
    steno_status st;
    steno_buf_init(&json, MAX_PARAMETERS);
    st = steno_json_put_string(&json, value, strlen(value));
    st = st ? steno_fail(err, st, "parameters: %.40s is too long", name)
            : steno_call_keep(c, name, json.data, json.len, err);
    steno_buf_free(&json);
    return st;
}

static steno_status set_callback(struct steno_dialect_session *d, const char *url, steno_err *err)
{
    struct steno_call *c = call_of(d);
    if (strlen(url) >= sizeof c->callback)
        return steno_fail(err, STENO_ERR_INVAL, "callback: %zu bytes long, at most %zu",
                          strlen(url), sizeof c->callback - 1);
    memcpy(c->callback, url, strlen(url) + 1);
    d->posted |= *url != '\0';
    return STENO_OK;
}

/* Names of `start` that a call does not have: what they would set is its own. */
static bool is_own(const char *name, bool fixed_format)
{
    static const char *const names[] = {"resumable", "encoding", "sample_rate",
                                        "channels",  "channel",  "interim"};
    for (size_t i = 0; i < (fixed_format ? sizeof names / sizeof *names : 1); i++)
        if (!strcmp(name, names[i]))
            return true;
    return !steno_native_is_setting(name);
}

steno_status steno_call_parameter(struct steno_dialect_session *d, struct steno_native_start *io,
                                  bool fixed_format, const char *name, const char *value,
                                  steno_err *err)
{
    struct steno_call *c = call_of(d);
    if (!strcmp(name, "callback")) {
        io->interim &= !*value; /* partials are not posted */
        return set_callback(d, value, err);
    }
    if (!strcmp(name, "token") || !strcmp(name, "api_key")) {
        snprintf(c->secret, sizeof c->secret, "%s", value);
        return STENO_OK;
    }
    if (!strcmp(name, "call_id")) {
        snprintf(c->call_id, sizeof c->call_id, "%s", value);
        return STENO_OK;
    }
    return is_own(name, fixed_format) ? steno_call_keep_text(c, name, value, err)
                                      : steno_native_query(name, value, io, err);
}

steno_status steno_call_query(struct steno_dialect_session *d, const char *name, const char *value,
                              steno_err *err)
{
    return steno_call_parameter(d, &d->start, false, name, value, err);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Append "call":{...},"message": */
static steno_status put_call(struct steno_buf *b, const struct steno_dialect_session *d)
{
    const struct steno_call *c = call_of(d);
    steno_status st = steno_buf_printf(b, "\"call\":{\"source\":\"%s\"", d->dialect->name);
    if (!st && *c->call_id)
        st = steno_json_printf(b, ",\"call_id\":%s", c->call_id);
    if (!st && *c->stream_id)
        st = steno_json_printf(b, ",\"stream_id\":%s", c->stream_id);
    if (!st && c->tracks)
        st = steno_buf_printf(b, ",\"tracks\":[%s]",
                              c->tracks > 1 ? "\"inbound\",\"outbound\""
                              : c->outbound ? "\"outbound\""
                                            : "\"inbound\"");
    return st ? st
              : steno_buf_printf(b, ",\"parameters\":{%s}},\"message\":",
                                 c->parameters.len ? c->parameters.data : "");
}

static struct steno_buf *begin_message(struct steno_dialect_session *d, steno_status *st)
{
    struct steno_buf *b = d->begin(d);
    *st = steno_buf_puts(b, d->posted ? "{" : "{\"type\":\"transcription\",\"data\":");
    if (!*st && d->posted)
        *st = put_call(b, d);
    return b;
}

static void end_message(struct steno_dialect_session *d, struct steno_buf *b, steno_status st,
                        bool replaceable)
{
    d->commit(d, st ? st : steno_buf_puts(b, "}"), replaceable);
}

void steno_call_ready(struct steno_dialect_session *d)
{
    const struct steno_native_head h = steno_dialect_head(d);
    steno_status st;
    struct steno_buf *b = begin_message(d, &st);
    end_message(d, b, st ? st : steno_native_write_ready(b, &h, &d->start), false);
}

void steno_call_digit(struct steno_dialect_session *d, const char *digit)
{
    const struct steno_native_head h = steno_dialect_head(d);
    steno_status st;
    struct steno_buf *b = begin_message(d, &st);
    end_message(d, b, st ? st : steno_native_write_digit(b, &h, digit), false);
}

void steno_call_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    const struct steno_native_head h = steno_dialect_head(d);
    steno_status st;
    struct steno_buf *b;
    if (ev->kind == STENO_UTTERANCE_END || (d->posted && ev->kind != STENO_FINAL))
        return;
    b = begin_message(d, &st);
    end_message(d, b, st ? st : steno_native_write_event(b, &h, &d->start, ev),
                ev->kind == STENO_PARTIAL);
}

void steno_call_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    const struct steno_native_head h = steno_dialect_head(d);
    steno_status st;
    struct steno_buf *b = begin_message(d, &st);
    end_message(d, b, st ? st : steno_native_write_error(b, &h, code, message, d->retry_after),
                false);
}

void steno_call_end(struct steno_dialect_session *d, bool draining)
{
    const struct steno_native_head h = steno_dialect_head(d);
    char warnings[STENO_WARNINGS];
    steno_status st;
    struct steno_buf *b = begin_message(d, &st);
    THEN(st, steno_native_write_end(b, &h, draining ? "draining" : "end", d->finals,
                                    steno_dialect_warnings(d, warnings)));
    end_message(d, b, st, false);
}
