/* The dialect of "/": clients of vosk-server, sherpa-onnx and WeNet connect there, and their first
 * message tells which of them it is. Parameters of the URL wait until then. */
#include "protocol/dialect.h"

#include <math.h>
#include <string.h>

#define MAX_QUERY (1u << 18) /* more than a request head holds */
#define FLOATS 64            /* samples that are looked at */

static void any_init(struct steno_dialect_session *d)
{
    steno_buf_init(d->state, MAX_QUERY);
}

static void any_free(struct steno_dialect_session *d)
{
    steno_buf_free(d->state);
}

/* Keep the pair: name, NUL, value, NUL. */
static steno_status any_query(struct steno_dialect_session *d, const char *name, const char *value,
                              steno_err *err)
{
    steno_status st = steno_buf_add(d->state, name, strlen(name) + 1);
    if (!st)
        st = steno_buf_add(d->state, value, strlen(value) + 1);
    return st ? steno_fail(err, st, "query: out of memory") : STENO_OK;
}

static bool has_word(const char *p, size_t n, const char *word)
{
    const size_t k = strlen(word);
    for (size_t i = 0; i + k <= n; i++)
        if (!memcmp(p + i, word, k))
            return true;
    return false;
}

/* Samples of sherpa's float32 are near [-1,1]. 16-bit samples read as floats have all exponents. */
static bool is_float(const char *p, size_t n)
{
    for (size_t i = 0; i < FLOATS && 4 * i + 4 <= n; i++) {
        float x;
        memcpy(&x, p + 4 * i, sizeof x);
        if (!(fabsf(x) <= 4) || (x != 0 && fabsf(x) < 1e-12f))
            return false;
    }
    return n >= 4;
}

static const struct steno_dialect *any_choose(const char *p, size_t n, bool is_text)
{
    if (is_text && has_word(p, n, "\"signal\""))
        return &steno_dialect_wenet;
    if (is_text && n >= 4 && !memcmp(p, "Done", 4))
        return &steno_dialect_sherpa;
    if (is_text && has_word(p, n, "\"type\""))
        return &steno_dialect_native;
    if (!is_text && (steno_sherpa_is_header(p, n) || is_float(p, n)))
        return &steno_dialect_sherpa;
    return &steno_dialect_vosk;
}

static steno_status any_replay(struct steno_dialect_session *d, const struct steno_buf *pairs,
                               steno_err *err)
{
    const char *p = pairs->data, *end = p ? p + pairs->len : NULL;
    steno_status st = STENO_OK;
    while (p < end && !st) {
        const char *value = p + strlen(p) + 1;
        st = d->dialect->query(d, p, value, err);
        p = value + strlen(value) + 1;
    }
    return st;
}

static steno_status any_text(struct steno_dialect_session *d, const char *p, size_t n,
                             enum steno_dialect_act *act, steno_err *err)
{
    (void)d, (void)p, (void)n, (void)act; /* a session without a message ends in error or end */
    return steno_fail(err, STENO_ERR_INTERNAL, "message: no dialect was chosen");
}

static void any_event(struct steno_dialect_session *d, const struct steno_event *ev)
{
    (void)d, (void)ev;
}

static void any_end(struct steno_dialect_session *d, bool draining)
{
    (void)d, (void)draining;
}

const struct steno_dialect steno_dialect_any = {
    .name = "vosk",
    .state_bytes = sizeof(struct steno_buf),
    .max_text = STENO_NATIVE_MAX_TEXT,
    .init = any_init,
    .free_state = any_free,
    .query = any_query,
    .choose = any_choose,
    .replay = any_replay,
    .text = any_text,
    .event = any_event,
    .error = steno_dialect_error,
    .end = any_end,
};
