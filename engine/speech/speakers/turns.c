#include "speech/speakers/turns.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* A cluster while its turns are made. */
struct track {
    int64_t begin; /* frame at which it began to talk; -1: it is silent */
    double start, end;
    bool pending; /* [start, end] may be continued */
    uint32_t votes;
};

struct maker {
    const struct steno_windows *w;
    const struct steno_turn_rules *rules;
    struct track *track; /* [clusters] */
    struct steno_turn_list turns;
};

/* ---- lists ----------------------------------------------------------------------------------- */

bool steno_turn_list_add(struct steno_turn_list *l, struct steno_turn turn)
{
    if (STENO_RESERVE(&l->turn, &l->cap, l->n + 1))
        return false;
    l->turn[l->n++] = turn;
    return true;
}

static int by_start(const void *x, const void *y)
{
    const struct steno_turn *a = x, *b = y;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->speaker - b->speaker;
}

void steno_turn_list_sort(struct steno_turn_list *l)
{
    if (l->n)
        qsort(l->turn, l->n, sizeof *l->turn, by_start);
}

/* ---- frames ---------------------------------------------------------------------------------- */

size_t steno_turns_first_frame(size_t hop, size_t shift, size_t i)
{
    return (size_t)((double)i * (double)hop / (double)shift + 0.5);
}

static double seconds(const struct steno_windows *w, int64_t frame)
{
    return ((double)frame * (double)w->shift + 0.5 * (double)w->field) / w->rate;
}

static bool add_turns(struct maker *m, int cluster)
{
    struct track *t = &m->track[cluster];
    if (!t->pending || t->end - t->start <= m->rules->least)
        return true;
    return steno_turn_list_add(&m->turns, (struct steno_turn){t->start, t->end, cluster});
}

/* The cluster talked from t->begin up to `frame`. */
static bool stop(struct maker *m, int cluster, int64_t frame)
{
    struct track *t = &m->track[cluster];
    const double length = (double)m->w->samples / m->w->rate, last = seconds(m->w, frame);
    const double start = seconds(m->w, t->begin), end = last < length ? last : length;
    t->begin = -1;
    if (t->pending && t->end < start && start <= t->end + m->rules->closest) {
        t->end = end;
        return true;
    }
    if (!add_turns(m, cluster))
        return false;
    t->pending = true;
    t->start = start;
    t->end = end;
    return true;
}

/* The number of speakers in a frame, and the votes for each cluster, from windows [from, to). */
static int count(struct maker *m, size_t frame, size_t from, size_t to)
{
    const struct steno_windows *w = m->w;
    int talking = 0;
    for (int k = 0; k < w->clusters; k++)
        m->track[k].votes = 0;
    for (size_t i = from; i < to; i++) {
        const uint8_t set =
            w->sets[i * w->frames + frame - steno_turns_first_frame(w->hop, w->shift, i)];
        const int32_t *cluster = w->cluster + i * (size_t)w->speakers;
        for (int s = 0; s < w->speakers; s++) {
            bool again = false; /* two speakers of a window, one cluster: one vote */
            if (!(set >> s & 1))
                continue;
            talking++;
            for (int q = 0; q < s; q++)
                again |= set >> q & 1 && cluster[q] == cluster[s];
            if (cluster[s] != STENO_NO_CLUSTER && !again)
                m->track[cluster[s]].votes++;
        }
    }
    return to > from ? (int)((float)talking / (float)(to - from) + 0.5f) : 0;
}

/* The cluster with the most votes; its votes are then taken. -1: none is left. */
static int take_turns(struct maker *m, const bool *chosen)
{
    int best = -1;
    for (int k = 0; k < m->w->clusters; k++)
        if (!chosen[k] && (best < 0 || m->track[k].votes > m->track[best].votes))
            best = k;
    return best;
}

static bool frame_turns(struct maker *m, size_t frame, size_t from, size_t to, bool *chosen)
{
    int talking = count(m, frame, from, to);
    if (m->rules->exclusive && talking > 1)
        talking = 1;
    memset(chosen, 0, (size_t)m->w->clusters * sizeof *chosen);
    for (int k; talking > 0 && (k = take_turns(m, chosen)) >= 0; talking--)
        chosen[k] = true;
    for (int k = 0; k < m->w->clusters; k++) {
        struct track *t = &m->track[k];
        if (chosen[k] && t->begin < 0)
            t->begin = (int64_t)frame;
        else if (!chosen[k] && t->begin >= 0 && !stop(m, k, (int64_t)frame))
            return false;
    }
    return true;
}

/* Frames of the recording, without those of the zeros after it. */
static size_t total_frames(const struct steno_windows *w)
{
    const size_t all = steno_turns_first_frame(w->hop, w->shift, w->n - 1) + w->frames;
    const size_t formula = (w->window + (w->n - 1) * w->hop) / w->shift + 1;
    const size_t real = (size_t)w->samples / w->shift + 1;
    const size_t n = w->n > 1 && formula > all ? formula : all;
    return (size_t)w->samples < w->window + (w->n - 1) * w->hop && real < n ? real : n;
}

static bool make(struct maker *m, bool *chosen)
{
    const struct steno_windows *w = m->w;
    const size_t total = total_frames(w);
    size_t from = 0, to = 0;
    for (int k = 0; k < w->clusters; k++)
        m->track[k].begin = -1;
    for (size_t f = 0; f < total; f++) {
        while (to < w->n && steno_turns_first_frame(w->hop, w->shift, to) <= f)
            to++;
        while (from < to && steno_turns_first_frame(w->hop, w->shift, from) + w->frames <= f)
            from++;
        if (!frame_turns(m, f, from, to, chosen))
            return false;
    }
    for (int k = 0; k < w->clusters; k++) {
        if (m->track[k].begin >= 0 && !stop(m, k, (int64_t)total - 1))
            return false;
        if (!add_turns(m, k))
            return false;
    }
    return true;
}

steno_status steno_turns_make(const struct steno_windows *w, const struct steno_turn_rules *rules,
                              struct steno_turn **out, size_t *n, steno_err *err)
{
    const size_t clusters = w->clusters > 0 ? (size_t)w->clusters : 1;
    struct maker m = {.w = w, .rules = rules, .track = calloc(clusters, sizeof *m.track)};
    bool *chosen = calloc(clusters, sizeof *chosen);
    bool done = m.track && chosen && (!w->n || make(&m, chosen));
    free(m.track);
    free(chosen);
    if (!done) {
        free(m.turns.turn);
        return steno_fail(err, STENO_ERR_NOMEM, "turns: out of memory");
    }
    steno_turn_list_sort(&m.turns);
    *out = m.turns.turn;
    *n = m.turns.n;
    return STENO_OK;
}
