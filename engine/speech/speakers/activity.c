#include "speech/speakers/activity.h"

#include "base/status.h"
#include "speech/speakers/turns.h"

#include <stdlib.h>

const struct steno_activity_rules steno_activity_nemo = {.begin_p = STENO_ACTIVITY_TALKS,
                                                         .end_p = STENO_ACTIVITY_TALKS};

/* Append a turn, or make the last one of the speaker (the last since `from`) longer where they
 * meet. */
static bool add_active(struct steno_turn_list *t, size_t from, struct steno_turn turn)
{
    struct steno_turn *last = t->n > from ? &t->turn[t->n - 1] : NULL;
    if (last && turn.start <= last->end) {
        last->end = turn.end > last->end ? turn.end : last->end;
        return true;
    }
    return steno_turn_list_add(t, turn);
}

/* The stretch of frames [first, end) in which a speaker talks, with what is added. */
static struct steno_turn stretch(const struct steno_activity *a,
                                 const struct steno_activity_rules *r, int s, size_t first,
                                 size_t end)
{
    struct steno_turn t = {(double)first * a->frame - r->pad_before,
                           (double)end * a->frame + r->pad_after, s};
    t.start = t.start > 0 ? t.start : 0;
    t.end = t.end < a->length ? t.end : a->length;
    return t;
}

/* Drop short turns of the last speaker, whose are all since `from`, then fill short pauses. */
static void filter_turns(struct steno_turn_list *t, size_t from,
                         const struct steno_activity_rules *r)
{
    size_t n = from;
    for (size_t i = from; i < t->n; i++) {
        const struct steno_turn turn = t->turn[i];
        if (turn.end - turn.start < r->least_turn || !(turn.end > turn.start))
            continue;
        if (n > from && turn.start - t->turn[n - 1].end < r->least_pause)
            t->turn[n - 1].end = turn.end;
        else
            t->turn[n++] = turn;
    }
    t->n = n;
}

static bool speaker_turns(const struct steno_activity *a, const struct steno_activity_rules *r,
                          size_t s, struct steno_turn_list *t)
{
    const size_t from = t->n;
    size_t first = 0;
    bool talks = false;
    for (size_t f = 0; f < a->frames; f++) {
        const float p = a->p[f * a->speakers + s];
        if (!talks && p > r->begin_p) {
            first = f;
            talks = true;
        } else if (talks && !(p >= r->end_p)) {
            talks = false;
            if (!add_active(t, from, stretch(a, r, (int)s, first, f)))
                return false;
        }
    }
    if (talks && !add_active(t, from, stretch(a, r, (int)s, first, a->frames)))
        return false;
    filter_turns(t, from, r);
    return true;
}

steno_status steno_activity_turns(const struct steno_activity *a,
                                  const struct steno_activity_rules *rules, struct steno_turn **out,
                                  size_t *n, steno_err *err)
{
    struct steno_turn_list t = {0};
    for (size_t s = 0; s < a->speakers; s++)
        if (!speaker_turns(a, rules, s, &t)) {
            free(t.turn);
            return steno_fail(err, STENO_ERR_NOMEM, "turns: out of memory");
        }
    steno_turn_list_sort(&t);
    *out = t.turn;
    *n = t.n;
    return STENO_OK;
}

/* The most probable of those that are allowed (NULL: all); -1: all are NaN. */
static int most_probable(const float *p, size_t speakers, const bool *allowed)
{
    int best = -1;
    for (size_t s = 0; s < speakers; s++)
        if ((!allowed || allowed[s]) && p[s] >= 0 && (best < 0 || p[s] > p[best]))
            best = (int)s;
    return best;
}

void steno_activity_exclude(float *p, size_t frames, size_t speakers)
{
    for (size_t f = 0; f < frames; f++, p += speakers) {
        const int best = most_probable(p, speakers, NULL);
        for (size_t s = 0; s < speakers; s++)
            if ((int)s != best)
                p[s] = 0;
    }
}

void steno_activity_fold(float *p, size_t frames, size_t speakers, const bool *keep)
{
    for (size_t f = 0; f < frames; f++, p += speakers) {
        const int best = most_probable(p, speakers, keep);
        for (size_t s = 0; s < speakers; s++) {
            if (keep[s])
                continue;
            if (best >= 0 && p[s] > p[best])
                p[best] = p[s];
            p[s] = 0;
        }
    }
}
