#include "speech/families/common/speech_cutter.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
struct steno_speech_cutter {
    struct steno_speech_source speech;
    void *detector;
    steno_cutter *cutter;
    float *line; /* [cap] samples that came; [at, len) are not in the cutter */
    size_t at, len, cap;
    size_t told;   /* the detector has had samples before this one of line */
    size_t marked; /* samples before this one of line have a verdict */
    bool speaks;   /* of the last frame */
    bool ended;
};

steno_status steno_speech_cutter_open(steno_speech_cutter **out,
                                      const struct steno_cutter_options *o,
                                      const struct steno_speech_source *speech, steno_err *err)
{
    steno_speech_cutter *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->speech = *speech;
    st = steno_cutter_open(&s->cutter, o, err);
    if (!st)
        st = s->speech.open(&s->detector, s->speech.vad, o->rate, err);
    if (st)
        steno_speech_cutter_close(s);
    else
        *out = s;
    return st;
}

void steno_speech_cutter_close(steno_speech_cutter *s)
{
    if (!s)
        return;
    if (s->detector)
        s->speech.close(s->detector);
    steno_cutter_close(s->cutter);
    free(s->line);
    free(s);
}

/* Samples that have a verdict go into the cutter until a chunk is complete. *complete: one is. */
static steno_status cut_marked(steno_speech_cutter *s, bool *complete, steno_err *err)
{
    struct steno_cutter_chunk chunk;
    while (!(*complete = steno_cutter_peek(s->cutter, &chunk)) && s->at < s->marked) {
        size_t used;
        if (steno_cutter_push(s->cutter, s->line + s->at, s->marked - s->at, s->speaks, &used))
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for samples");
        s->at += used;
    }
    return STENO_OK;
}

/* The next frame gets its verdict. STENO_NEED_MORE: it is not complete. */
static steno_status mark(steno_speech_cutter *s, steno_err *err)
{
    const int64_t before = s->speech.classified(s->detector);
    size_t used = 0;
    bool speaks = false;
    steno_status st;
    if (s->told == s->len)
        return STENO_NEED_MORE;
    st = s->speech.push(s->detector, s->line + s->told, s->len - s->told, &used, &speaks, err);
    s->told += used;
    if (st)
        return st;
    s->marked += (size_t)(s->speech.classified(s->detector) - before);
    if (s->marked > s->len)
        s->marked = s->len;
    s->speaks = speaks;
    return STENO_OK;
}

/* Until a chunk is complete or no sample can be classified. */
static steno_status advance(steno_speech_cutter *s, steno_err *err)
{
    for (;;) {
        bool complete;
        steno_status st = cut_marked(s, &complete, err);
        if (st || complete)
            return st;
        st = mark(s, err);
        if (st == STENO_NEED_MORE && s->ended && s->marked < s->len) {
            s->marked = s->len; /* the rest of the recording is less than a frame */
            continue;
        }
        if (st == STENO_NEED_MORE && s->ended)
            steno_cutter_end(s->cutter);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
    }
}

static steno_status append_speech_cutter(steno_speech_cutter *s, const float *pcm, size_t n,
                                         steno_err *err)
{
    const size_t left = s->len - s->at;
    if (s->at && s->len + n > s->cap) {
        memmove(s->line, s->line + s->at, left * sizeof *s->line);
        s->told -= s->at;
        s->marked -= s->at;
        s->at = 0;
        s->len = left;
    }
    if (STENO_RESERVE(&s->line, &s->cap, s->len + n))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for %zu samples", s->len + n);
    memcpy(s->line + s->len, pcm, n * sizeof *pcm);
    s->len += n;
    return STENO_OK;
}

steno_status steno_speech_cutter_push(steno_speech_cutter *s, const float *pcm, size_t n,
                                      steno_err *err)
{
    steno_status st = n ? append_speech_cutter(s, pcm, n, err) : STENO_OK;
    return st ? st : advance(s, err);
}

steno_status steno_speech_cutter_end(steno_speech_cutter *s, steno_err *err)
{
    s->ended = true;
    return advance(s, err);
}

bool steno_speech_cutter_peek(steno_speech_cutter *s, struct steno_cutter_chunk *out)
{
    return steno_cutter_peek(s->cutter, out);
}

void steno_speech_cutter_so_far(const steno_speech_cutter *s, struct steno_cutter_chunk *out)
{
    steno_cutter_so_far(s->cutter, out);
}

steno_status steno_speech_cutter_drop(steno_speech_cutter *s, steno_err *err)
{
    steno_cutter_drop(s->cutter);
    return advance(s, err);
}
