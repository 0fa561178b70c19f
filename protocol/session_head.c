#include "protocol/session_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "protocol/query.h"

/* ---- writing --------------------------------------------------------------------------------- */

steno_status steno_session_head_write(struct steno_buf *out, const struct steno_session_head *h)
{
    steno_status st =
        steno_buf_printf(out, "&.seq=%llu&.lost=%llu&.finals=%llu&.audio_ms=%lld&.rate=%d",
                         (unsigned long long)h->seq, (unsigned long long)h->lost,
                         (unsigned long long)h->finals, (long long)h->audio_ms, h->rate);
    for (unsigned i = 0; !st && i < h->channels; i++)
        st = steno_buf_printf(out, "&.samples=%lld&.segments=%lld", (long long)h->samples[i],
                              (long long)h->segments[i]);
    if (!st && h->over)
        st = steno_buf_printf(out, "&.ending=%d&.close=%d&.code=", h->ending, h->close_code);
    if (!st && h->over)
        st = steno_query_encode(out, h->code);
    return st ? st : steno_native_write_query(out, &h->start);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Decode %-escapes in place. False: a bad one, or a NUL. */
static bool decode_text(char *p)
{
    char *to = p;
    for (; *p; p++) {
        if (*p == '%') {
            const int high = steno_hex(p[1]), low = high < 0 ? -1 : steno_hex(p[2]);
            if (low < 0 || !(high | low))
                return false;
            *to++ = (char)(high * 16 + low);
            p += 2;
        } else
            *to++ = *p;
    }
    *to = '\0';
    return true;
}

static bool read_integer(const char *value, int64_t max, int64_t *out)
{
    char *end;
    long long v;
    errno = 0;
    v = strtoll(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || v > max)
        return false;
    *out = v;
    return true;
}

/* How many of each list were read. */
struct counts {
    unsigned samples, segments;
};

#define NUMBER_MAX (INT64_C(1) << 53)

/* One of the head's own pairs; name: without its point. */
static bool set_own(struct steno_session_head *h, struct counts *n, const char *name,
                    const char *value)
{
    int64_t v = 0;
    if (!strcmp(name, "code")) {
        if (strlen(value) >= sizeof h->code)
            return false;
        memcpy(h->code, value, strlen(value) + 1);
        return true;
    }
    if (!read_integer(value, NUMBER_MAX, &v))
        return false;
    if (!strcmp(name, "seq"))
        h->seq = (uint64_t)v;
    else if (!strcmp(name, "lost"))
        h->lost = (uint64_t)v;
    else if (!strcmp(name, "finals"))
        h->finals = (uint64_t)v;
    else if (!strcmp(name, "audio_ms"))
        h->audio_ms = v;
    else if (!strcmp(name, "rate") && v <= STENO_AUDIO_MAX_RATE)
        h->rate = (int)v;
    else if (!strcmp(name, "samples") && n->samples < STENO_AUDIO_MAX_CHANNELS)
        h->samples[n->samples++] = v;
    else if (!strcmp(name, "segments") && n->segments < STENO_AUDIO_MAX_CHANNELS)
        h->segments[n->segments++] = v;
    else if (!strcmp(name, "ending") && v < 100) {
        h->ending = (int)v;
        h->over = true;
    } else if (!strcmp(name, "close") && v < 5000)
        h->close_code = (int)v;
    else
        return false;
    return true;
}

static steno_status read_pair(struct steno_session_head *h, struct counts *n, char *pair,
                              steno_err *err)
{
    char *value = strchr(pair, '=');
    if (!value)
        return steno_fail(err, STENO_ERR_FORMAT, "stored session: a pair without '='");
    *value++ = '\0';
    if (!decode_text(value))
        return steno_fail(err, STENO_ERR_FORMAT, "stored session: %.20s: bad escape", pair);
    if (*pair == '.')
        return set_own(h, n, pair + 1, value)
                   ? STENO_OK
                   : steno_fail(err, STENO_ERR_FORMAT, "stored session: %.20s: bad value", pair);
    return steno_native_query(pair, value, &h->start, err);
}

static steno_status check_head(struct steno_session_head *h, const struct counts *n, steno_err *err)
{
    h->channels = n->samples;
    if (!n->samples || n->samples != n->segments || h->rate < STENO_AUDIO_MIN_RATE ||
        h->lost > h->seq)
        return steno_fail(err, STENO_ERR_FORMAT, "stored session: its position is not whole");
    return STENO_OK;
}

steno_status steno_session_head_read(const char *text, struct steno_session_head *out,
                                     steno_err *err)
{
    const size_t len = strlen(text);
    char *copy = len < STENO_SESSION_HEAD_MAX ? strdup(text) : NULL, *pair, *rest;
    struct counts n = {0, 0};
    steno_status st = STENO_OK;
    memset(out, 0, sizeof *out);
    if (!copy)
        return steno_fail(err, len < STENO_SESSION_HEAD_MAX ? STENO_ERR_NOMEM : STENO_ERR_LIMIT,
                          "stored session: %zu bytes", len);
    steno_native_start_init(&out->start);
    out->start.hints = &out->hints;
    out->hints.profanity = ""; /* whether there is a list is the reader's matter */
    for (pair = strtok_r(copy, "&", &rest); pair && !st; pair = strtok_r(NULL, "&", &rest))
        st = read_pair(out, &n, pair, err);
    free(copy);
    if (!st)
        st = check_head(out, &n, err);
    if (st)
        steno_session_head_free(out);
    return st;
}

void steno_session_head_free(struct steno_session_head *h)
{
    steno_hint_store_free(&h->hints);
    memset(&h->hints, 0, sizeof h->hints);
}
