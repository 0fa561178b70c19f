/* The dialects of sherpa-onnx's WebSocket servers. Online: float32 little-endian mono in binary
 * messages, and the text "Done". The server sends JSON results of the running segment, and the text
 * "Done!" at the end. The protocol has no rate; its clients send 16 kHz. Clients take the last
 * result for the text, so it has the last text again when silence follows it.
 *
 * Offline: each recording begins with 8 bytes, its rate and number of bytes. It gets one result
 * once it is whole; "Done" closes. The first bytes tell which of the two a client speaks. */
#include "base/little_endian.h"
#include "protocol/dialect.h"

#include <string.h>

#include "protocol/json_text.h"
#include "protocol/transcript.h"
#include "protocol/then.h"

#define HEADER 8
#define MAX_LAST (1u << 20)   /* bytes of a result */
#define MAX_STARTS (1u << 20) /* bytes of the beginnings of recordings without a result */

struct state {
    bool eof_told;
    int64_t segment;         /* the next one */
    struct steno_buf last;   /* of the last result with text: all but the value of is_eof */
    bool known, offline;     /* offline holds once known */
    uint64_t left;           /* bytes of the recording that have not come */
    uint64_t bytes;          /* of all recordings so far */
    struct steno_buf starts; /* double: where each recording without a result begins, s */
    char header[HEADER];     /* [have] of the next one */
    size_t have;
};

static void sherpa_init(struct steno_dialect_session *d)
{
    struct state *s = d->state;
    steno_buf_init(&s->last, MAX_LAST);
    steno_buf_init(&s->starts, MAX_STARTS);
    d->start.audio.encoding = STENO_ENCODING_F32LE;
    d->start.audio.sample_rate = 16000;
}

static void sherpa_free(struct steno_dialect_session *d)
{
    struct state *s = d->state;
    steno_buf_free(&s->last);
    steno_buf_free(&s->starts);
}

/* ---- the offline protocol -------------------------------------------------------------------- */

bool steno_sherpa_is_header(const char *p, size_t n)
{
    return n >= HEADER && steno_le32(p) >= STENO_AUDIO_MIN_RATE &&
           steno_le32(p) <= STENO_AUDIO_MAX_RATE && steno_le32(p + 4) &&
           steno_le32(p + 4) % 4 == 0 && steno_le32(p + 4) <= INT32_MAX;
}

/* A whole header is there. */
static steno_status begin_recording(struct steno_dialect_session *d, steno_err *err)
{
    struct state *s = d->state;
    const int rate = (int)steno_le32(s->header);
    double start;
    s->have = 0;
    if (!steno_sherpa_is_header(s->header, HEADER))
        return steno_fail(err, STENO_ERR_INVAL,
                          "header: %u Hz and %u bytes are no recording of float32",
                          steno_le32(s->header), steno_le32(s->header + 4));
    if (s->known && rate != d->start.audio.sample_rate)
        return steno_fail(err, STENO_ERR_INVAL, "header: %d Hz after a recording of %d Hz", rate,
                          d->start.audio.sample_rate);
    d->start.audio.sample_rate = rate;
    d->start.endpointing = d->start.interim = false;
    s->known = s->offline = true;
    s->left = steno_le32(s->header + 4);
    start = (double)s->bytes / (double)sizeof(float) / rate;
    s->bytes += s->left;
    return steno_buf_add(&s->starts, (const char *)&start, sizeof start);
}

static steno_status sherpa_split(struct steno_dialect_session *d, const char *p, size_t n,
                                 size_t *skip, size_t *take, enum steno_dialect_act *act,
                                 steno_err *err)
{
    struct state *s = d->state;
    steno_status st = STENO_OK;
    if (!s->known && !steno_sherpa_is_header(p, n))
        s->known = true;
    *skip = *take = 0;
    if (s->known && !s->offline) {
        *take = n;
        return STENO_OK;
    }
    if (!s->left) {
        *skip = HEADER - s->have < n ? HEADER - s->have : n;
        memcpy(s->header + s->have, p, *skip);
        s->have += *skip;
        if (s->have == HEADER)
            st = begin_recording(d, err);
    }
    if (!st && !s->have) {
        *take = n - *skip < s->left ? n - *skip : (size_t)s->left;
        s->left -= *take;
        if (!s->left)
            *act = STENO_ACT_FINALIZE;
    }
    return st;
}

/* ---- messages -------------------------------------------------------------------------------- */

static steno_status sherpa_text(struct steno_dialect_session *d, const char *p, size_t n,
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

/* from: where times count from. */
static steno_status put_list(struct steno_buf *b, const struct steno_event *ev, enum of_words what,
                             double from)
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
            st = what == TIMES ? steno_buf_printf(b, "%.2f", w->start - from)
                               : steno_buf_printf(b, "%.4f", steno_confidence_log(w->confidence));
    }
    return st ? st : steno_buf_puts(b, "]");
}

/* Where the recording of a final begins, which then has its result. */
static double take_start(struct state *s)
{
    double start = 0;
    if (s->starts.len < sizeof start)
        return 0;
    memcpy(&start, s->starts.data, sizeof start);
    steno_buf_drop(&s->starts, sizeof start);
    return start;
}

/* "tokens" are words, because the tokens of the model are not kept. timestamps count from
 * start_time, or of offline clients from the beginning of the recording, as in sherpa's messages.
 * ys_probs are the logarithms of the words' confidences. */
static void put_result(struct steno_dialect_session *d, const struct steno_event *ev, bool eof)
{
    struct state *s = d->state;
    const bool final = ev->kind == STENO_FINAL;
    const double from = s->offline ? take_start(s) : ev->start;
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_json_printf(b, "{\"text\":%s,\"tokens\":", ev->text);
    THEN(st, put_list(b, ev, TEXTS, from));
    THEN(st, steno_buf_puts(b, ",\"timestamps\":"));
    THEN(st, put_list(b, ev, TIMES, from));
    THEN(st, steno_buf_puts(b, ",\"ys_probs\":"));
    THEN(st, put_list(b, ev, LOG_PROBS, from));
    THEN(st, steno_buf_puts(b, ",\"lm_probs\":[],\"context_scores\":[],\"words\":"));
    THEN(st, put_list(b, ev, TEXTS, from));
    THEN(st, steno_buf_printf(
                 b, ",\"segment\":%lld,\"start_time\":%.2f,\"is_final\":%s,\"is_eof\":",
                 (long long)ev->segment, s->offline ? 0.0 : from, final ? "true" : "false"));
    if (!st && final && *ev->text) {
        steno_buf_reset(&s->last);
        st = steno_buf_add(&s->last, b->data, b->len);
    }
    d->commit(d, st ? st : steno_buf_puts(b, eof ? "true}" : "false}"), ev->kind == STENO_PARTIAL);
}

static void sherpa_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    struct state *s = d->state;
    const bool final = ev->kind == STENO_FINAL, last = final && ev->reason == STENO_FINAL_END;
    if ((ev->kind != STENO_PARTIAL && !final) || (last && !*ev->text))
        return;
    s->eof_told |= last;
    if (final)
        s->segment = ev->segment + 1;
    put_result(d, ev, last);
}

/* Tell the last result with text again, as the last one. */
static void repeat_last(struct steno_dialect_session *d)
{
    const struct state *s = d->state;
    struct steno_buf *b = d->begin(d);
    steno_status st = steno_buf_add(b, s->last.data, s->last.len);
    d->commit(d, st ? st : steno_buf_puts(b, "true}"), false);
}

static void sherpa_end(struct steno_dialect_session *d, bool draining)
{
    struct state *s = d->state;
    (void)draining;
    if (s->offline) /* each recording has had its result */
        return;
    if (!s->eof_told && s->last.len)
        repeat_last(d);
    else if (!s->eof_told)
        put_result(d,
                   &(struct steno_event){.kind = STENO_FINAL,
                                         .text = "",
                                         .segment = s->segment,
                                         .start = (double)d->audio_ms / 1000},
                   true);
    d->commit(d, steno_buf_puts(d->begin(d), "Done!"), false);
}

const struct steno_dialect steno_dialect_sherpa = {
    .name = "sherpa",
    .state_bytes = sizeof(struct state),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = sherpa_init,
    .free_state = sherpa_free,
    .split = sherpa_split,
    .query = steno_dialect_query,
    .text = sherpa_text,
    .event = sherpa_event,
    .error = steno_dialect_error,
    .end = sherpa_end,
};
