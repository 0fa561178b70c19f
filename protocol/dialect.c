#include "protocol/dialect.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/query.h"

const struct steno_dialect *steno_dialect_find(const char *path, size_t len,
                                               const struct steno_dialect *root)
{
    static const struct {
        const char *path;
        const struct steno_dialect *dialect;
    } paths[] = {
        {"/v1/stream", &steno_dialect_native}, {"/v1/listen", &steno_dialect_deepgram},
        {"/v2/listen", &steno_dialect_flux},   {"/v1/realtime", &steno_dialect_realtime},
        {"/vosk", &steno_dialect_vosk},        {"/sherpa", &steno_dialect_sherpa},
        {"/wenet", &steno_dialect_wenet},      {"/openai/v1/realtime", &steno_dialect_realtime}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (steno_query_path_is(path, len, paths[i].path))
            return paths[i].dialect;
    return steno_query_path_is(path, len, "/") ? root : NULL;
}

const struct steno_dialect *steno_dialect_of_root(const char *name)
{
    static const struct {
        const char *name;
        const struct steno_dialect *dialect;
    } roots[] = {{"auto", &steno_dialect_any},
                 {"vosk", &steno_dialect_vosk},
                 {"sherpa", &steno_dialect_sherpa},
                 {"wenet", &steno_dialect_wenet}};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (!strcmp(name, roots[i].name))
            return roots[i].dialect;
    return NULL;
}

steno_status steno_dialect_json(struct json_t **out, const char *p, size_t n, steno_err *err)
{
    json_error_t je;
    json_t *root;
    steno_status st = steno_json_check(p, n, err);
    if (st)
        return st;
    root = json_loadb(p, n, JSON_REJECT_DUPLICATES, &je);
    /* jansson 2.14 leaves the text empty when it fails before the first byte */
    if (!root && (!je.text[0] || json_error_code(&je) == json_error_out_of_memory))
        return steno_fail(err, STENO_ERR_NOMEM, "message: out of memory");
    if (!root)
        return steno_fail(err, STENO_ERR_FORMAT, "message: not JSON: line %d, column %d: %s",
                          je.line, je.column, je.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return steno_fail(err, STENO_ERR_FORMAT, "message: must be a JSON object");
    }
    *out = root;
    return STENO_OK;
}

steno_status steno_dialect_ask(struct steno_dialect_session *d, steno_err *err)
{
    steno_status st = steno_hint_store_copy(&d->asked_hints, &d->hints, err);
    d->asked = d->start;
    d->asked.hints = &d->asked_hints;
    return st;
}

void steno_dialect_take(struct steno_dialect_session *d)
{
    d->start = d->asked;
    if (d->start.hints != &d->asked_hints)
        return;
    steno_hint_store_free(&d->hints);
    d->hints = d->asked_hints;
    d->asked_hints = (struct steno_hint_store){0};
    d->start.hints = &d->hints;
}

void steno_dialect_set_model(struct steno_dialect_session *d, struct steno_native_start *s,
                             const char *name)
{
    struct steno_native_start asked = *s;
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_err err = {0};
    if (steno_native_query("model", name, &asked, NULL) ||
        (d->check && d->check(d, &asked, model, &err) == STENO_ERR_INVAL &&
         !strncmp(err.msg, "model:", 6)))
        return;
    memcpy(s->model, asked.model, sizeof s->model);
}

const char *steno_dialect_bare_id(const char *id)
{
    const char *prefix = strchr(id, '_');
    return prefix ? prefix + 1 : id;
}

void steno_dialect_uuid(const char *id, char *out)
{
    const char *hex = steno_dialect_bare_id(id);
    if (strlen(hex) >= 32)
        snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
    else
        snprintf(out, 37, "%.36s", hex);
}

steno_status steno_dialect_query(struct steno_dialect_session *d, const char *name,
                                 const char *value, steno_err *err)
{
    return steno_native_query(name, value, &d->start, err);
}

void steno_dialect_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_printf(b, "{\"error\":\"%s\",", code);
    if (!st)
        st = steno_json_put_member(b, "message", message);
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

/* ---- the native dialect ---------------------------------------------------------------------- */

static struct steno_native_head head_of(const struct steno_dialect_session *d)
{
    return (struct steno_native_head){d->id,       d->seq,
                                      d->audio_ms, d->channels ? d->channel + 1 : 0,
                                      d->offset,   d->segments[d->channel],
                                      d->voices};
}

static steno_status native_text(struct steno_dialect_session *d, const char *p, size_t n,
                                enum steno_dialect_act *act, steno_err *err)
{
    static const enum steno_dialect_act acts[] = {STENO_ACT_START, STENO_ACT_FINALIZE,
                                                  STENO_ACT_END, STENO_ACT_NOTHING};
    struct steno_native_message m;
    steno_status st = steno_native_parse(p, n, &d->start, &m, err);
    if (st)
        return st;
    *act = acts[m.type];
    d->asked = m.start;
    return STENO_OK;
}

static void native_ready(struct steno_dialect_session *d)
{
    struct steno_native_head h = head_of(d);
    d->commit(d, steno_native_write_ready(d->begin(d), &h, &d->start), false);
}

static void native_resumed(struct steno_dialect_session *d, int64_t samples, bool ended)
{
    struct steno_native_head h = head_of(d);
    d->commit(d, steno_native_write_resumed(d->begin(d), &h, samples, ended), false);
}

static void native_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct steno_native_head h = head_of(d);
    if (ev->kind == STENO_UTTERANCE_END) /* has no message; it comes only if it is asked for */
        return;
    d->commit(d, steno_native_write_event(d->begin(d), &h, &d->start, ev),
              ev->kind == STENO_PARTIAL);
}

static void native_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_native_head h = head_of(d);
    d->commit(d, steno_native_write_error(d->begin(d), &h, code, message, d->retry_after), false);
}

const char *steno_mix_warning(char out[STENO_MIX_WARNING], unsigned n)
{
    *out = '\0';
    if (n > 1)
        snprintf(out, STENO_MIX_WARNING,
                 "%u channels were mixed (multichannel=true has one text for each)", n);
    return out;
}

static void native_end(struct steno_dialect_session *d, bool draining)
{
    struct steno_native_head h = head_of(d);
    char warning[STENO_MIX_WARNING];
    d->commit(d,
              steno_native_write_end(d->begin(d), &h, draining ? "draining" : "end", d->finals,
                                     steno_mix_warning(warning, d->mixed)),
              false);
}

const struct steno_dialect steno_dialect_native = {
    .name = "stream",
    .subprotocol = STENO_NATIVE_PROTOCOL,
    .diarizes = true,
    .max_text = STENO_NATIVE_MAX_TEXT,
    .query = steno_dialect_query,
    .text = native_text,
    .ready = native_ready,
    .resumed = native_resumed,
    .event = native_event,
    .error = native_error,
    .end = native_end,
};
