/* State 2 i is the gap before token i, state 2 i + 1 the token; the last state is the gap behind
 * all. */
#include "speech/search/align.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1e30)
#define LOWEST (-1e10)
#define QUIET (-30.0) /* of each symbol in a frame without speech */
#define WIDEST 8192   /* states that a search with a beam looks at */

/* A frame of the record: its cells are of states low, low + 1, ... */
struct steno_align_frame {
    size_t low, cell;
};

/* A cell is the float of the state's log-probability in the frame; its last two bits are how many
 * states the best path advanced to reach it: 0, 1 or 2. */
static uint32_t cell_of(double score, unsigned moved)
{
    const float f = (float)score;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bits & ~3u) | moved;
}

static float score_of(uint32_t cell)
{
    const uint32_t bits = cell & ~3u;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Room for a frame of `width` states. */
static bool reserve_frame(struct steno_align *a, size_t width)
{
    return !STENO_RESERVE(&a->frames, &a->cap_frames, a->n_frames + 1) &&
           !STENO_RESERVE(&a->cells, &a->cap_cells, a->n_cells + width);
}

static bool reserve_states(struct steno_align *a, size_t n)
{
    if (STENO_RESERVE(&a->spans, &a->cap_spans, n + 1) ||
        STENO_RESERVE(&a->states, &a->cap_states, 2 * (2 * n + 1)))
        return false;
    a->now = a->states;
    a->next = a->states + 2 * n + 1;
    return true;
}

void steno_align_free(struct steno_align *a)
{
    free(a->states);
    free(a->frames);
    free(a->cells);
    free(a->spans);
    *a = (struct steno_align){0};
}

steno_status steno_align_begin(struct steno_align *a, const struct steno_align_options *o)
{
    if (o->n > SIZE_MAX / 64 || !reserve_states(a, o->n))
        return STENO_ERR_NOMEM;
    a->o = *o;
    a->low = a->high = 0;
    a->n_frames = a->n_cells = 0;
    a->taken = 0;
    for (size_t i = 0; i < o->n; i++)
        a->spans[i] =
            (struct steno_span){.token = o->tokens[i], .peak = -INFINITY, .first = -1, .last = -1};
    return STENO_OK;
}

/* ---- scores of a frame ----------------------------------------------------------------------- */

/* What the states see of a frame. */
struct row {
    const float *x;             /* NULL: nobody speaks */
    double blank, between, any; /* between: blank or delimiter; any: the best other symbol */
};

static double frame_score(const struct row *r, int32_t c)
{
    if (!r->x)
        return QUIET;
    return r->x[c] > (float)LOWEST ? (double)r->x[c] : LOWEST;
}

static struct row row_of(const struct steno_align_options *o, const float *x, bool wildcards)
{
    struct row r = {.x = x, .any = QUIET};
    float any = (float)LOWEST;
    if (!x)
        return r;
    r.blank = r.between = frame_score(&r, o->blank);
    if (o->delimiter >= 0 && o->begins)
        r.between = fmax(r.blank, frame_score(&r, o->delimiter));
    for (int32_t c = 0; wildcards && c < o->vocab; c++)
        if (x[c] > any && c != o->blank && c != o->delimiter)
            any = x[c];
    r.any = (double)any;
    return r;
}

/* The score of being in a state. stays: the path was in it in the frame before. */
static double state_score(const struct steno_align *a, const struct row *r, size_t s, bool stays)
{
    const struct steno_align_options *o = &a->o;
    const size_t i = s / 2;
    const bool end = i == 0 || i == o->n;
    if (s % 2 && o->tokens[i] == STENO_ALIGN_ANY) /* may have blanks within it */
        return stays ? fmax(r->any, r->blank) : r->any;
    if (s % 2)
        return frame_score(r, o->tokens[i]);
    if (end && o->open_ends)
        return fmax(r->between, r->any - STENO_ALIGN_UNSPOKEN);
    return end || (o->begins && o->begins[i]) ? r->between : r->blank;
}

/* ---- the best path --------------------------------------------------------------------------- */

static double now_at(const struct steno_align *a, size_t s)
{
    return s >= a->low && s < a->high ? a->now[s] : NONE;
}

/* Whether state s can follow s - 2 without a blank between. */
static bool may_skip(const struct steno_align_options *o, size_t s)
{
    return s >= 3 && s % 2 &&
           (o->tokens[s / 2] != o->tokens[s / 2 - 1] || o->tokens[s / 2] == STENO_ALIGN_ANY);
}

/* The best way into state s. */
static void advance_state(struct steno_align *a, const struct row *r, size_t s, uint32_t *cell)
{
    double best = now_at(a, s), score;
    unsigned moved = 0;
    if (best > NONE / 2 && s % 2 && a->o.tokens[s / 2] == STENO_ALIGN_ANY)
        best += state_score(a, r, s, true) - state_score(a, r, s, false);
    if (s >= 1 && now_at(a, s - 1) > best) {
        best = now_at(a, s - 1);
        moved = 1;
    }
    if (may_skip(&a->o, s) && now_at(a, s - 2) > best) {
        best = now_at(a, s - 2);
        moved = 2;
    }
    score = state_score(a, r, s, false);
    a->next[s] = best > NONE / 2 ? best + score : NONE;
    *cell = cell_of(score, moved);
}

/* Drop states that are too far below the best one, at the ends of those in use. */
static void prune(struct steno_align *a)
{
    double best = NONE;
    if (!(a->o.beam > 0))
        return;
    for (size_t s = a->low; s < a->high; s++)
        best = fmax(best, a->now[s]);
    while (a->high - a->low > 1 && a->now[a->low] < best - a->o.beam)
        a->low++;
    while (a->high - a->low > 1 && a->now[a->high - 1] < best - a->o.beam)
        a->high--;
    while (a->high - a->low > WIDEST)
        if (a->now[a->low] < a->now[a->high - 1])
            a->low++;
        else
            a->high--;
}

/* The record is `low` states wide from now on. */
static void forward_frame(struct steno_align *a, const struct row *r)
{
    const size_t states = 2 * a->o.n + 1;
    const size_t high = a->taken == 0 ? 2 : a->high + 2 < states ? a->high + 2 : states;
    uint32_t *cells = a->cells + a->n_cells;
    double *swap = a->now;
    a->frames[a->n_frames++] = (struct steno_align_frame){a->low, a->n_cells};
    for (size_t s = a->low; s < high; s++)
        if (a->taken) {
            advance_state(a, r, s, &cells[s - a->low]);
        } else {
            a->next[s] = state_score(a, r, s, false);
            cells[s] = cell_of(a->next[s], 0);
        }
    a->n_cells += high - a->low;
    a->now = a->next;
    a->next = swap;
    a->high = high;
    a->taken++;
    prune(a);
}

/* ---- the way back ---------------------------------------------------------------------------- */

static uint32_t cell_at(const struct steno_align *a, size_t frame, size_t s)
{
    const struct steno_align_frame *f = &a->frames[frame];
    return a->cells[f->cell + (s - f->low)];
}

/* The state that a path, which is in s in frame `from` of the record, has in frame `to`. */
static size_t state_before(const struct steno_align *a, size_t s, size_t from, size_t to)
{
    for (; from > to; from--)
        s -= cell_at(a, from, s) & 3u;
    return s;
}

/* Give the tokens the frames [0, n) of the record that the path has, which is in s in the last. */
static void take_path(struct steno_align *a, size_t s, size_t n)
{
    const int64_t first = a->o.first + a->taken - (int64_t)a->n_frames;
    while (n-- > 0) {
        const uint32_t cell = cell_at(a, n, s);
        struct steno_span *p = &a->spans[s / 2];
        if (s % 2) {
            if (p->last < 0)
                p->last = first + (int64_t)n;
            p->last = p->last > first + (int64_t)n ? p->last : first + (int64_t)n;
            if (p->first < 0 || p->first > first + (int64_t)n)
                p->first = first + (int64_t)n;
            p->peak = fmaxf(p->peak, score_of(cell));
        }
        if (n)
            s -= cell & 3u;
    }
}

static size_t best_state(const struct steno_align *a)
{
    size_t best = a->low;
    for (size_t s = a->low; s < a->high; s++)
        if (a->now[s] > a->now[best])
            best = s;
    return best;
}

/* The older half of the best path is certain from now on. */
static void commit_half(struct steno_align *a)
{
    const size_t half = a->n_frames / 2, last = a->n_frames - 1;
    const size_t at = state_before(a, best_state(a), last, half - 1);
    const size_t gone = a->frames[half].cell;
    for (size_t s = a->low; s < a->high; s++)
        if (a->now[s] > NONE / 2 && state_before(a, s, last, half - 1) != at)
            a->now[s] = NONE;
    take_path(a, at, half);
    a->n_frames -= half;
    a->n_cells -= gone;
    memmove(a->cells, a->cells + gone, a->n_cells * sizeof *a->cells);
    memmove(a->frames, a->frames + half, a->n_frames * sizeof *a->frames);
    for (size_t i = 0; i < a->n_frames; i++)
        a->frames[i].cell -= gone;
}

/* ---- interface ------------------------------------------------------------------------------- */

/* Whether a frame's best symbol matters. */
static bool has_wildcards(const struct steno_align_options *o)
{
    bool any = o->open_ends;
    for (size_t i = 0; i < o->n && !any; i++)
        any = o->tokens[i] == STENO_ALIGN_ANY;
    return any;
}

steno_status steno_align_push(struct steno_align *a, const float *x, size_t frames)
{
    const bool wildcards = has_wildcards(&a->o);
    if (!a->o.n)
        return STENO_OK;
    for (size_t t = 0; t < frames; t++) {
        const size_t width = a->high - a->low + 2;
        const struct row r = row_of(&a->o, x ? x + t * (size_t)a->o.vocab : NULL, wildcards);
        if (a->o.record_bytes && a->n_frames > 1 &&
            (a->n_cells + width) * sizeof *a->cells > a->o.record_bytes)
            commit_half(a);
        if (!reserve_frame(a, width))
            return STENO_ERR_NOMEM;
        forward_frame(a, &r);
    }
    return STENO_OK;
}

const struct steno_span *steno_align_end(struct steno_align *a)
{
    const size_t last = 2 * a->o.n;
    const double token = now_at(a, last - 1), gap = now_at(a, last);
    /* silence at the end is not a wildcard's */
    const bool silent = a->o.n && a->o.tokens[a->o.n - 1] == STENO_ALIGN_ANY && gap == token;
    size_t s = gap > token || silent ? last : last - 1;
    if (!a->o.n || !a->n_frames)
        return a->spans;
    if (now_at(a, s) <= NONE / 2)
        s = best_state(a);
    take_path(a, s, a->n_frames);
    a->n_frames = a->n_cells = 0;
    return a->spans;
}

/* Minimum of frames for the tokens: equal neighbours need a blank between them. */
static size_t frames_needed(const int32_t *tokens, size_t n)
{
    size_t need = n;
    for (size_t i = 1; i < n; i++)
        need += tokens[i] == tokens[i - 1];
    return need;
}

static void spread(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                   const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t t = i * frames / n;
        a->spans[i] = (struct steno_span){.token = tokens[i],
                                          .peak = x[t * (size_t)vocab + (size_t)tokens[i]],
                                          .first = (int64_t)t,
                                          .last = (int64_t)t};
    }
}

steno_status steno_align_run(struct steno_align *a, const float *x, size_t frames, int32_t vocab,
                             int32_t blank, const int32_t *tokens, size_t n,
                             const struct steno_span **spans)
{
    const struct steno_align_options o = {
        .vocab = vocab, .blank = blank, .delimiter = -1, .tokens = tokens, .n = n};
    const bool fits = frames_needed(tokens, n) <= frames;
    steno_status st = steno_align_begin(a, &o);
    if (!st && fits)
        st = steno_align_push(a, x, frames);
    if (st)
        return st;
    *spans = a->spans;
    if (n && fits)
        *spans = steno_align_end(a);
    else
        spread(a, x, frames, vocab, tokens, n);
    return STENO_OK;
}
