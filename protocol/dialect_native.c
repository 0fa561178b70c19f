/* The dialect of /v1/stream: its messages are those of stream_native.h. */
#include "protocol/dialect.h"

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
    struct steno_native_head h = steno_dialect_head(d);
    d->commit(d, steno_native_write_ready(d->begin(d), &h, &d->start), false);
}

static void native_resumed(struct steno_dialect_session *d, int64_t samples, bool ended)
{
    struct steno_native_head h = steno_dialect_head(d);
    d->commit(d, steno_native_write_resumed(d->begin(d), &h, samples, ended), false);
}

static void native_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct steno_native_head h = steno_dialect_head(d);
    if (ev->kind == STENO_UTTERANCE_END) /* has no message; it comes only if it is asked for */
        return;
    d->commit(d, steno_native_write_event(d->begin(d), &h, &d->start, ev),
              ev->kind == STENO_PARTIAL);
}

static void native_error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_native_head h = steno_dialect_head(d);
    d->commit(d, steno_native_write_error(d->begin(d), &h, code, message, d->retry_after), false);
}

static void native_end(struct steno_dialect_session *d, bool draining)
{
    struct steno_native_head h = steno_dialect_head(d);
    char warnings[STENO_WARNINGS];
    d->commit(d,
              steno_native_write_end(d->begin(d), &h, draining ? "draining" : "end", d->finals,
                                     steno_dialect_warnings(d, warnings)),
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
