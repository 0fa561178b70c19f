#include "speech/recognizer/turn_watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "speech/turn/recent.h"

#define BEFORE 0.5    /* s of audio before the speech that begins */
#define NEW_SOUND 0.1 /* s of sound since the last question: less is a click */
#define TOGETHER 32

struct steno_turn_watch {
    const steno_turn_detector *detector;
    steno_turn_recent *recent;
    double threshold, early, rate;
    double answer; /* the last one */
    struct steno_turn_stats stats;
    double pushed; /* samples since open or reset */
    double asked;  /* the sound that the last question was about; < 0: none */
    double at;     /* due: the sample at which it was asked */
    bool due;
};

steno_status steno_turn_watch_open(steno_turn_watch **out, const steno_turn_detector *d,
                                   double threshold, double early, int rate, steno_err *err)
{
    steno_turn_watch *w;
    steno_status st;
    if (!(threshold >= 0 && threshold <= 1))
        return steno_fail(err, STENO_ERR_INVAL, "turn: threshold %g is not within 0 to 1",
                          threshold);
    if (!(early >= 0 && early <= 1))
        return steno_fail(err, STENO_ERR_INVAL, "turn: early threshold %g is not within 0 to 1",
                          early);
    w = calloc(1, sizeof *w);
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    w->detector = d;
    w->threshold = threshold > 0 ? threshold : STENO_TURN_THRESHOLD;
    w->early = early;
    w->rate = rate;
    w->asked = -1;
    st = steno_turn_recent_open(&w->recent, rate, err);
    if (st) {
        free(w);
        return st;
    }
    *out = w;
    return STENO_OK;
}

void steno_turn_watch_close(steno_turn_watch *w)
{
    if (!w)
        return;
    steno_turn_recent_close(w->recent);
    free(w);
}

steno_status steno_turn_watch_push(steno_turn_watch *w, const float *pcm, size_t n, steno_err *err)
{
    w->pushed += (double)n;
    return steno_turn_recent_push(w->recent, pcm, n, err);
}

/* The number of kept samples that came after sample `at`. */
static size_t after(const steno_turn_watch *w, double at)
{
    return at < w->pushed ? (size_t)((w->pushed - at) * STENO_TURN_RATE / w->rate) : 0;
}

void steno_turn_watch_begin(steno_turn_watch *w, double at)
{
    if (w)
        steno_turn_recent_keep(w->recent, after(w, at) + (size_t)(BEFORE * STENO_TURN_RATE));
}

void steno_turn_watch_see(steno_turn_watch *w, double sound, double now)
{
    if (!w || now - sound < STENO_TURN_PAUSE * w->rate ||
        (w->asked >= 0 && sound < w->asked + NEW_SOUND * w->rate))
        return;
    w->asked = sound;
    w->at = now;
    w->due = true;
}

bool steno_turn_watch_due(const steno_turn_watch *w)
{
    return w && w->due;
}

size_t steno_turn_watch_missing(const steno_turn_watch *w, double sound, double now)
{
    double left;
    if (!w || (w->asked >= 0 && sound < w->asked + NEW_SOUND * w->rate))
        return SIZE_MAX;
    left = STENO_TURN_PAUSE * w->rate - (now - sound);
    return left > 1 ? (size_t)left : 1;
}

double steno_turn_watch_likely(const steno_turn_watch *w)
{
    return w->early > 0 && w->answer >= w->early ? w->answer : 0;
}

struct steno_turn_stats steno_turn_watch_stats(const steno_turn_watch *w)
{
    return w ? w->stats : (struct steno_turn_stats){0};
}

steno_status steno_turn_watch_reset(steno_turn_watch *w, steno_err *err)
{
    if (!w)
        return STENO_OK;
    w->pushed = 0;
    w->asked = -1;
    w->due = false;
    return steno_turn_recent_reset(w->recent, err);
}

/* ---- answers --------------------------------------------------------------------------------- */

static steno_status open_judge(struct steno_turn_judges *j, const steno_turn_detector *d,
                               steno_err *err)
{
    steno_status st;
    if (j->of == d)
        return STENO_OK;
    steno_turn_judges_close(j);
    st = steno_turn_judge_open(&j->judge, d, err);
    if (!st)
        j->of = d;
    return st;
}

static steno_status judge_some(struct steno_turn_judges *j, steno_turn_watch *const *w, size_t n,
                               bool *complete, steno_err *err)
{
    struct steno_turn_audio turn[TOGETHER];
    float probability[TOGETHER] = {0};
    const int64_t begun = steno_now_ns();
    steno_status st = open_judge(j, w[0]->detector, err);
    for (size_t i = 0; i < n; i++) {
        const size_t late = after(w[i], w[i]->at);
        turn[i].pcm = steno_turn_recent_samples(w[i]->recent, &turn[i].n);
        turn[i].n = turn[i].n > late ? turn[i].n - late : 0;
    }
    if (!st)
        st = steno_turn_judge_run(j->judge, turn, n, probability, err);
    for (size_t i = 0; i < n; i++) {
        w[i]->due = false;
        w[i]->answer = (double)probability[i];
        complete[i] = !st && w[i]->answer >= w[i]->threshold && w[i]->threshold < 1;
        w[i]->stats.answers += !st;
        w[i]->stats.ends += complete[i];
        w[i]->stats.seconds += (double)(steno_now_ns() - begun) * 1e-9 / (double)n;
    }
    return st;
}

steno_status steno_turn_watches_judge(struct steno_turn_judges *j, steno_turn_watch *const *w,
                                      size_t n, bool *complete, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t at = 0, k; at < n && !st; at += k) {
        for (k = 1; at + k < n && k < TOGETHER && w[at + k]->detector == w[at]->detector;)
            k++;
        st = judge_some(j, w + at, k, complete + at, err);
    }
    return st;
}

void steno_turn_judges_close(struct steno_turn_judges *j)
{
    steno_turn_judge_close(j->judge);
    *j = (struct steno_turn_judges){0};
}
