/* Times are samples since open or reset, the lead counted. Only one quiet stretch matters at a
 * time: between two of them lies STENO_GATE_AFTER at least, more than is ever held back. */
#include "recognizer/gate.h"

#include <stdlib.h>
#include <string.h>

#include "recognizer/vad.h"

struct steno_gate {
    steno_voice *voice;
    int64_t lead, before, after, ahead; /* samples */
    float *line;                        /* [cap], [at, len) are in and not out */
    size_t cap, at, len;
    int64_t out;         /* time of line[at] */
    bool speaking;       /* or has just been */
    int64_t loud_end;    /* of the last frame of speech */
    int64_t from, until; /* the latest quiet stretch; it goes on while nobody speaks */
    bool ended;
};

static void begin(steno_gate *g)
{
    g->at = g->len = 0;
    g->out = g->lead;
    g->speaking = false;
    g->loud_end = g->from = 0;
    g->until = INT64_MAX;
    g->ended = false;
}

steno_status steno_gate_open(steno_gate **out, const steno_vad *vad, int rate, int64_t lead,
                             steno_err *err)
{
    steno_gate *g = calloc(1, sizeof *g);
    steno_status st;
    if (!g)
        return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
    st = steno_voice_open(&g->voice, vad, rate, err);
    if (st) {
        free(g);
        return st;
    }
    g->lead = lead;
    g->before = (int64_t)(STENO_GATE_BEFORE * rate);
    g->after = (int64_t)(STENO_GATE_AFTER * rate);
    g->ahead = g->before + steno_voice_late(g->voice);
    begin(g);
    *out = g;
    return STENO_OK;
}

void steno_gate_close(steno_gate *g)
{
    if (!g)
        return;
    steno_voice_close(g->voice);
    free(g->line);
    free(g);
}

steno_status steno_gate_reset(steno_gate *g, steno_err *err)
{
    begin(g);
    return steno_voice_reset(g->voice, err);
}

static int64_t judged(const steno_gate *g)
{
    return g->lead + steno_voice_judged(g->voice);
}

/* A frame that ends at `now` was judged. */
static void hear(steno_gate *g, bool speech, int64_t now)
{
    if (speech) {
        if (!g->speaking)
            g->until = now - steno_voice_late(g->voice) - g->before;
        g->speaking = true;
        g->loud_end = now;
    } else if (g->speaking && now - g->loud_end >= g->after) {
        g->speaking = false;
        g->from = now;
        g->until = INT64_MAX;
    }
}

static steno_status add(steno_gate *g, const float *pcm, size_t n, steno_err *err)
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

steno_status steno_gate_push(steno_gate *g, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = n ? add(g, pcm, n, err) : STENO_OK;
    if (st)
        return st;
    for (;;) {
        bool speech = false;
        size_t used;
        st = steno_voice_push(g->voice, pcm, n, &used, &speech, err);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        pcm += used;
        n -= used;
        hear(g, speech, judged(g));
    }
}

void steno_gate_end(steno_gate *g)
{
    g->ended = true;
}

bool steno_gate_peek(const steno_gate *g, const float **pcm, size_t *n)
{
    int64_t most = judged(g) - (g->speaking ? 0 : g->ahead) - g->out;
    size_t held = steno_gate_held(g);
    if (g->ended || most > (int64_t)held)
        most = (int64_t)held;
    *pcm = g->line ? g->line + g->at : NULL; /* no line before the first sample */
    *n = most > 0 ? (size_t)most : 0;
    return *n > 0;
}

void steno_gate_drop(steno_gate *g, size_t n)
{
    g->at += n;
    g->out += (int64_t)n;
}

size_t steno_gate_held(const steno_gate *g)
{
    return g->len - g->at;
}

bool steno_gate_quiet(const steno_gate *g, int64_t from, int64_t to)
{
    return from >= g->from && to <= g->until;
}
