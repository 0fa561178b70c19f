/* Times are samples since open or reset, with the left padding. One quiet stretch is enough at a
 * time: two of them are at least STENO_VAD_HANGOVER apart, which is more than is ever held back. */
#include "speech/recognizer/vad_filter.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "speech/recognizer/vad.h"

struct steno_vad_filter {
    steno_vad_state *vad;
    int64_t left_padding, pre_roll, hangover, look_ahead; /* samples */
    float *line;                                          /* [cap]; [at, len) have not come out */
    size_t cap, at, len;
    int64_t out;         /* time of line[at] */
    bool speaking;       /* speech, or hangover after it */
    int64_t loud_end;    /* end of the last frame with speech */
    int64_t from, until; /* the latest quiet stretch; until: INT64_MAX while nobody speaks */
    bool ended;
};

static void begin_vad_filter(steno_vad_filter *f)
{
    f->at = f->len = 0;
    f->out = f->left_padding;
    f->speaking = false;
    f->loud_end = f->from = 0;
    f->until = INT64_MAX;
    f->ended = false;
}

steno_status steno_vad_filter_open(steno_vad_filter **out, const steno_vad *vad, int rate,
                                   int64_t left_padding, steno_err *err)
{
    steno_vad_filter *f = calloc(1, sizeof *f);
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
    st = steno_vad_state_open(&f->vad, vad, rate, err);
    if (st) {
        free(f);
        return st;
    }
    f->left_padding = left_padding;
    f->pre_roll = (int64_t)(STENO_VAD_PRE_ROLL * rate);
    f->hangover = (int64_t)(STENO_VAD_HANGOVER * rate);
    f->look_ahead = f->pre_roll + steno_vad_state_latency(f->vad);
    begin_vad_filter(f);
    *out = f;
    return STENO_OK;
}

void steno_vad_filter_close(steno_vad_filter *f)
{
    if (!f)
        return;
    steno_vad_state_close(f->vad);
    free(f->line);
    free(f);
}

steno_status steno_vad_filter_reset(steno_vad_filter *f, steno_err *err)
{
    begin_vad_filter(f);
    return steno_vad_state_reset(f->vad, err);
}

static int64_t classified(const steno_vad_filter *f)
{
    return f->left_padding + steno_vad_state_classified(f->vad);
}

/* A frame that ends at `now` is classified. */
static void note_frame(steno_vad_filter *f, bool speech, int64_t now)
{
    if (speech) {
        if (!f->speaking)
            f->until = now - steno_vad_state_latency(f->vad) - f->pre_roll;
        f->speaking = true;
        f->loud_end = now;
    } else if (f->speaking && now - f->loud_end >= f->hangover) {
        f->speaking = false;
        f->from = now;
        f->until = INT64_MAX;
    }
}

static steno_status add_vad_filter(steno_vad_filter *f, const float *pcm, size_t n, steno_err *err)
{
    size_t held = f->len - f->at, cap = f->cap;
    if (f->at && f->len + n > f->cap) {
        memmove(f->line, f->line + f->at, held * sizeof *f->line);
        f->at = 0;
        f->len = held;
    }
    if (f->len + n > cap) {
        float *p = realloc(f->line, (cap = f->len + n) * sizeof *p);
        if (!p)
            return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
        f->line = p;
        f->cap = cap;
    }
    memcpy(f->line + f->len, pcm, n * sizeof *pcm);
    f->len += n;
    return STENO_OK;
}

steno_status steno_vad_filter_push(steno_vad_filter *f, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = n ? add_vad_filter(f, pcm, n, err) : STENO_OK;
    if (st)
        return st;
    for (;;) {
        bool speech = false;
        size_t used;
        st = steno_vad_state_push(f->vad, pcm, n, &used, &speech, err);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        pcm += used;
        n -= used;
        note_frame(f, speech, classified(f));
    }
}

void steno_vad_filter_end(steno_vad_filter *f)
{
    f->ended = true;
}

bool steno_vad_filter_peek(const steno_vad_filter *f, const float **pcm, size_t *n)
{
    int64_t most = classified(f) - (f->speaking ? 0 : f->look_ahead) - f->out;
    size_t held = steno_vad_filter_held(f);
    if (f->ended || most > (int64_t)held)
        most = (int64_t)held;
    *pcm = f->line ? f->line + f->at : NULL; /* NULL before the first sample */
    *n = most > 0 ? (size_t)most : 0;
    return *n > 0;
}

void steno_vad_filter_drop(steno_vad_filter *f, size_t n)
{
    f->at += n;
    f->out += (int64_t)n;
}

size_t steno_vad_filter_held(const steno_vad_filter *f)
{
    return f->len - f->at;
}

bool steno_vad_filter_quiet(const steno_vad_filter *f, int64_t from, int64_t to)
{
    return from >= f->from && to <= f->until;
}
