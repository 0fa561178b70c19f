/* The dialect of sherpa-onnx's online WebSocket server: float32 little-endian mono in binary
 * messages, and the text "Done". The server sends JSON results of the running segment, and the text
 * "Done!" at the end. The protocol has no rate; its clients send 16 kHz. */
#include "protocol/dialect.h"

#include <string.h>

#include "protocol/json_text.h"
#include "protocol/transcript.h"

struct state {
    bool eof_told;
    int64_t segment; /* the next one */
};

static void init(struct steno_dialect_session *d)
{
    d->start.audio.encoding = STENO_ENCODING_F32LE;
    d->start.audio.sample_rate = 16000;
}

static steno_status query(struct steno_dialect_session *d, const char *name, const char *value,
                          steno_err *err)
{
    return steno_native_query(name, value, &d->start, err);
}

static steno_status text(struct steno_dialect_session *d, const char *p, size_t n,
                         enum steno_dialect_act *act, steno_err *err)
{
    (void)d;
    if (n != 4 || memcmp(p, "Done", 4))
        return steno_fail(err, STENO_ERR_INVAL, "message: the only text is 'Done', not '%.*s'",
                          n > 40 ? 40 : (int)n, p);
    *act = STENO_ACT_END;
    return STENO_OK;
}

enum of_words { TEXTS, TIMES, LOG_PROBS };

static steno_status put_list(struct steno_buf *b, const struct steno_event *ev, enum of_words what)
{
    steno_status st = steno_buf_puts(b, "[");
    for (size_t i = 0; !st && i < ev->n_words; i++) {
        const struct steno_word *w = &ev->words[i];
        if (i)
            st = steno_buf_puts(b, ",");
        if (st)
            break;
        if (what == TEXTS)
            st = steno_json_put_string(b, w->text, strlen(w->text));
        else
            st = what == TIMES ? steno_buf_printf(b, "%.2f", w->start - ev->start)
                               : steno_buf_printf(b, "%.4f", steno_confidence_log(w->confidence));
    }
    return st ? st : steno_buf_puts(b, "]");
}

/* "tokens" are words, because the tokens of the model are not kept. timestamps count from
 * start_time, as in sherpa's messages. ys_probs are the logarithms of the words' confidences. */
static void event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = d->state;
    bool final = ev->kind == STENO_FINAL;
    bool eof = final && ev->reason == STENO_FINAL_END;
    struct steno_buf *b;
    steno_status st;
    if (ev->kind == STENO_SPEECH_START)
        return;
    s->eof_told |= eof;
    if (final)
        s->segment = ev->segment + 1;
    b = d->begin(d);
    st = steno_buf_puts(b, "{\"text\":");
    if (!st)
        st = steno_json_put_string(b, ev->text, strlen(ev->text));
    if (!st)
        st = steno_buf_puts(b, ",\"tokens\":");
    if (!st)
        st = put_list(b, ev, TEXTS);
    if (!st)
        st = steno_buf_puts(b, ",\"timestamps\":");
    if (!st)
        st = put_list(b, ev, TIMES);
    if (!st)
        st = steno_buf_puts(b, ",\"ys_probs\":");
    if (!st)
        st = put_list(b, ev, LOG_PROBS);
    if (!st)
        st = steno_buf_puts(b, ",\"lm_probs\":[],\"context_scores\":[],\"words\":");
    if (!st)
        st = put_list(b, ev, TEXTS);
    if (!st)
        st = steno_buf_printf(
            b, ",\"segment\":%lld,\"start_time\":%.2f,\"is_final\":%s,\"is_eof\":%s}",
            (long long)ev->segment, ev->start, final ? "true" : "false", eof ? "true" : "false");
    d->commit(d, st, ev->kind == STENO_PARTIAL);
}

static void end(struct steno_dialect_session *d, bool draining)
{
    struct state *s = d->state;
    const struct steno_event nothing = {.kind = STENO_FINAL,
                                        .text = "",
                                        .segment = s->segment,
                                        .start = (double)d->audio_ms / 1000,
                                        .reason = STENO_FINAL_END};
    (void)draining;
    if (!s->eof_told) /* the last segment ended without a request */
        event(d, &nothing);
    d->commit(d, steno_buf_puts(d->begin(d), "Done!"), false);
}

static void error(struct steno_dialect_session *d, const char *code, const char *message)
{
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_printf(b, "{\"error\":\"%s\",\"message\":", code);
    if (!st)
        st = steno_json_put_string(b, message, strlen(message));
    d->commit(d, st ? st : steno_buf_puts(b, "}"), false);
}

const struct steno_dialect steno_dialect_sherpa = {
    .name = "sherpa",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = init,
    .query = query,
    .text = text,
    .event = event,
    .error = error,
    .end = end,
};
