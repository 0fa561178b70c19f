#include "speech/speakers/activity.h"

#include "base/status.h"

#include <stdlib.h>

const struct steno_activity_rules steno_activity_nemo = {.begin_p = 0.5f, .end_p = 0.5f};

/* Turns that grow. */
struct turns {
    struct steno_turn *turn;
    size_t n, cap;
};

/* Append a turn, or make the last one of the speaker (the last since `from`) longer where they
 * meet. */
static bool add_active(struct turns *t, size_t from, struct steno_turn turn, double pause)
{
    struct steno_turn *last = t->n > from ? &t->turn[t->n - 1] : NULL;
    if (last && turn.start - last->end <= pause) {
        last->end = turn.end > last->end ? turn.end : last->end;
        return true;
    }
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        struct steno_turn *grown = realloc(t->turn, cap * sizeof *grown);
        if (!grown)
            return false;
        t->turn = grown;
        t->cap = cap;
    }
    t->turn[t->n++] = turn;
    return true;
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
static void filter_turns(struct turns *t, size_t from, const struct steno_activity_rules *r)
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
                          size_t s, struct turns *t)
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
            if (!add_active(t, from, stretch(a, r, (int)s, first, f), 0))
                return false;
        }
    }
    if (talks && !add_active(t, from, stretch(a, r, (int)s, first, a->frames), 0))
        return false;
    filter_turns(t, from, r);
    return true;
}

static int by_begin(const void *x, const void *y)
{
    const struct steno_turn *a = x, *b = y;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->speaker - b->speaker;
}

steno_status steno_activity_turns(const struct steno_activity *a,
                                  const struct steno_activity_rules *rules, struct steno_turn **out,
                                  size_t *n, steno_err *err)
{
    struct turns t = {0};
    for (size_t s = 0; s < a->speakers; s++)
        if (!speaker_turns(a, rules, s, &t)) {
            free(t.turn);
            return steno_fail(err, STENO_ERR_NOMEM, "turns: out of memory");
        }
    if (t.n)
        qsort(t.turn, t.n, sizeof *t.turn, by_begin);
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
