#include "protocol/dialect.h"

#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"

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

struct steno_native_head steno_dialect_head(const struct steno_dialect_session *d)
{
    return (struct steno_native_head){d->id,       d->seq,
                                      d->audio_ms, d->channels ? d->channel + 1 : 0,
                                      d->offset,   d->segments[d->channel],
                                      d->voices};
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
    const steno_status st = steno_native_query(name, value, &d->start, err);
    return !st && !d->dialect->resumed && (d->start.multichannel || d->start.resumable)
               ? steno_fail(err, STENO_ERR_INVAL, "%s: not on this path", name)
               : st;
}

void steno_dialect_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_json_printf(b, "{\"error\":\"%-s\",\"message\":%s", code, message);
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

const char *steno_mix_warning(char out[STENO_MIX_WARNING], unsigned n)
{
    *out = '\0';
    if (n > 1)
        snprintf(out, STENO_MIX_WARNING,
                 "%u channels were mixed (multichannel=true has one text for each)", n);
    return out;
}

const char *steno_dialect_warnings(const struct steno_dialect_session *d, char out[STENO_WARNINGS])
{
    char mix[STENO_MIX_WARNING];
    const char *warning = d->warning ? d->warning : "";
    steno_mix_warning(mix, d->mixed);
    snprintf(out, STENO_WARNINGS, "%s%s%s", mix, *mix && *warning ? "; " : "", warning);
    return out;
}
