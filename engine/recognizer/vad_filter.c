/* Times are samples since open or reset, the lead counted. Only one quiet stretch matters at a
 * time: between two of them lies STENO_VAD_HANGOVER at least, more than is ever held back. */
#include "recognizer/vad_filter.h"

#include <stdlib.h>
#include <string.h>

#include "recognizer/vad.h"

struct steno_vad_filter {
    steno_vad_state *vad;
    int64_t left_padding, pre_roll, hangover, look_ahead; /* samples */
    float *line;                                          /* [cap], [at, len) are in and not out */
    size_t cap, at, len;
    int64_t out;         /* time of line[at] */
    bool speaking;       /* or has just been */
    int64_t loud_end;    /* of the last frame of speech */
    int64_t from, until; /* the latest quiet stretch; it goes on while nobody speaks */
    bool ended;
};

static void begin(steno_vad_filter *g)
{
    g->at = g->len = 0;
    g->out = g->left_padding;
    g->speaking = false;
    g->loud_end = g->from = 0;
    g->until = INT64_MAX;
    g->ended = false;
}

steno_status steno_vad_filter_open(steno_vad_filter **out, const steno_vad *vad, int rate,
                                   int64_t left_padding, steno_err *err)
{
    steno_vad_filter *g = calloc(1, sizeof *g);
    steno_status st;
    if (!g)
        return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
    st = steno_vad_state_open(&g->vad, vad, rate, err);
    if (st) {
        free(g);
        return st;
    }
    g->left_padding = left_padding;
    g->pre_roll = (int64_t)(STENO_VAD_PRE_ROLL * rate);
    g->hangover = (int64_t)(STENO_VAD_HANGOVER * rate);
    g->look_ahead = g->pre_roll + steno_vad_state_latency(g->vad);
    begin(g);
    *out = g;
    return STENO_OK;
}

void steno_vad_filter_close(steno_vad_filter *g)
{
    if (!g)
        return;
    steno_vad_state_close(g->vad);
    free(g->line);
    free(g);
}

steno_status steno_vad_filter_reset(steno_vad_filter *g, steno_err *err)
{
    begin(g);
    return steno_vad_state_reset(g->vad, err);
}

static int64_t judged(const steno_vad_filter *g)
{
    return g->left_padding + steno_vad_state_classified(g->vad);
}

/* A frame that ends at `now` was judged. */
static void judge(steno_vad_filter *g, bool speech, int64_t now)
{
    if (speech) {
        if (!g->speaking)
            g->until = now - steno_vad_state_latency(g->vad) - g->pre_roll;
        g->speaking = true;
        g->loud_end = now;
    } else if (g->speaking && now - g->loud_end >= g->hangover) {
        g->speaking = false;
        g->from = now;
        g->until = INT64_MAX;
    }
}

static steno_status add(steno_vad_filter *g, const float *pcm, size_t n, steno_err *err)
{
    size_t held = g->len - g->at, cap = g->cap;
    if (g->at && g->len + n > g->cap) {
        memmove(g->line, g->line + g->at, held * sizeof *g->line);
        g->at = 0;
        g->len = held;
    }
    if (g->len + n > cap) {
        float *p = realloc(g->line, (cap = g->len + n) * sizeof *p);
        if (!p)
            return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
        g->line = p;
        g->cap = cap;
    }
    memcpy(g->line + g->len, pcm, n * sizeof *pcm);
    g->len += n;
    return STENO_OK;
}

steno_status steno_vad_filter_push(steno_vad_filter *g, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = n ? add(g, pcm, n, err) : STENO_OK;
    if (st)
        return st;
    for (;;) {
        bool speech = false;
        size_t used;
        st = steno_vad_state_push(g->vad, pcm, n, &used, &speech, err);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        pcm += used;
        n -= used;
        judge(g, speech, judged(g));
    }
}

void steno_vad_filter_end(steno_vad_filter *g)
{
    g->ended = true;
}

bool steno_vad_filter_peek(const steno_vad_filter *g, const float **pcm, size_t *n)
{
    int64_t most = judged(g) - (g->speaking ? 0 : g->look_ahead) - g->out;
    size_t held = steno_vad_filter_held(g);
    if (g->ended || most > (int64_t)held)
        most = (int64_t)held;
    *pcm = g->line ? g->line + g->at : NULL; /* no line before the first sample */
    *n = most > 0 ? (size_t)most : 0;
    return *n > 0;
}

void steno_vad_filter_drop(steno_vad_filter *g, size_t n)
{
    g->at += n;
    g->out += (int64_t)n;
}

size_t steno_vad_filter_held(const steno_vad_filter *g)
{
    return g->len - g->at;
}

bool steno_vad_filter_quiet(const steno_vad_filter *g, int64_t from, int64_t to)
{
    return from >= g->from && to <= g->until;
}
