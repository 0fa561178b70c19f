#include "speech/families/whisper/transcript.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/families/whisper/sections.h"

#define FRAME 0.02 /* s: the grain of times */
#define NEAR 1.5   /* s: between the time of a word and a timestamp beside it */
#define TEXT_MAX ((size_t)64 << 20)

/* A hypothesis. */
struct text {
    struct steno_span *spans; /* [n], and behind them the partial's */
    size_t n, cap;
    double score;
};

/* How much was said. */
struct place {
    size_t n_ids, text, sections, section_text;
    size_t n_texts; /* hypotheses */
    size_t stable;  /* spans of the best one, with those of the partial */
    struct {
        size_t n;
        double score;
    } texts[STENO_WHISPER_MAX_BEAM];
};

struct steno_whisper_transcript {
    const struct steno_whisper_model *m;
    struct text texts[STENO_WHISPER_MAX_BEAM]; /* [n_best], the best first */
    size_t n_best;                             /* hypotheses that the caller wants */
    size_t n_texts;             /* hypotheses that the beam has found; the rest repeats the best */
    size_t n_partial, n_agreed; /* spans behind the best text; those that will not change */
    int32_t *ids;               /* of the best text, timestamps among them */
    size_t n_ids, cap_ids;
    struct steno_buf text; /* of all segments */
    struct steno_whisper_sections sections;
    struct place mark;
    bool marked;
};

static steno_status out_of_memory(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "transcript: out of memory");
}

steno_status steno_whisper_transcript_open(steno_whisper_transcript **out,
                                           const struct steno_whisper_model *m, size_t n_best,
                                           steno_err *err)
{
    steno_whisper_transcript *t = calloc(1, sizeof *t);
    if (!t)
        return out_of_memory(err);
    t->m = m;
    t->n_best = n_best;
    t->n_texts = 1;
    steno_buf_init(&t->text, TEXT_MAX);
    steno_whisper_sections_init(&t->sections);
    *out = t;
    return STENO_OK;
}

void steno_whisper_transcript_close(steno_whisper_transcript *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_best; i++)
        free(t->texts[i].spans);
    free(t->ids);
    steno_buf_free(&t->text);
    steno_whisper_sections_free(&t->sections);
    free(t);
}

/* ---- back to less --------------------------------------------------------------------------- */

static void cut_transcript(steno_whisper_transcript *t, const struct place *to)
{
    for (size_t i = 0; i < t->n_best; i++) {
        t->texts[i].n = to->texts[i].n;
        t->texts[i].score = to->texts[i].score;
    }
    t->n_texts = to->n_texts;
    t->n_ids = to->n_ids;
    steno_buf_cut(&t->text, to->text);
    steno_whisper_sections_cut(&t->sections, to->sections, to->section_text);
    t->n_partial = t->n_agreed = 0;
    t->marked = false;
}

void steno_whisper_transcript_clear(steno_whisper_transcript *t)
{
    cut_transcript(t, &(struct place){.n_texts = 1});
}

static size_t stable_of(const steno_whisper_transcript *t)
{
    return t->marked ? t->mark.stable : t->texts[0].n + t->n_agreed;
}

void steno_whisper_transcript_mark(steno_whisper_transcript *t)
{
    t->mark = (struct place){.n_ids = t->n_ids,
                             .text = t->text.len,
                             .sections = t->sections.n,
                             .section_text = t->sections.text.len,
                             .n_texts = t->n_texts,
                             .stable = stable_of(t)};
    for (size_t i = 0; i < t->n_best; i++) {
        t->mark.texts[i].n = t->texts[i].n;
        t->mark.texts[i].score = t->texts[i].score;
    }
    t->marked = true;
}

void steno_whisper_transcript_back(steno_whisper_transcript *t)
{
    cut_transcript(t, &t->mark);
}

/* ---- spans ---------------------------------------------------------------------------------- */

static bool reserve_transcript(struct text *x, size_t spans)
{
    return !STENO_RESERVE(&x->spans, &x->cap, x->n + spans);
}

/* Seconds. */
struct stretch {
    double start, end;
};

static int64_t frame_of(double seconds)
{
    return seconds > 0 ? (int64_t)(seconds / FRAME + 0.5) : 0;
}

/* Of n pieces without times of their own each has its share of the time: number i. */
static struct stretch share_of(struct stretch all, size_t i, size_t n)
{
    const double step = (all.end - all.start) / (double)n;
    return (struct stretch){all.start + step * (double)i, all.start + step * (double)(i + 1)};
}

/* Append a piece, or its bytes where it is no whole characters; none for the empty piece that some
 * vocabularies leave out. */
static bool add_piece_transcript(const steno_whisper_transcript *t, struct text *x, int32_t id,
                                 float log_prob, struct stretch at)
{
    const int32_t bytes = steno_bpe_regular(t->m->net->bpe);
    const int64_t first = frame_of(at.start), last = frame_of(at.end) - 1;
    struct steno_bpe_piece p;
    bool broken;
    size_t n;
    if (id >= bytes)
        return true;
    p = steno_bpe_piece(t->m->net->bpe, id);
    broken = steno_whisper_is_broken(t->m->tokens, id);
    n = broken ? p.n : 1;
    if (!reserve_transcript(x, n))
        return false;
    for (size_t i = 0; i < n; i++)
        x->spans[x->n++] = (struct steno_span){.token = broken ? bytes + (unsigned char)p.p[i] : id,
                                               .peak = log_prob,
                                               .first = first,
                                               .last = last > first ? last : first};
    return true;
}

/* ---- finished windows ----------------------------------------------------------------------- */

static bool add_ids(steno_whisper_transcript *t, const struct steno_whisper_segment *g)
{
    if (STENO_RESERVE(&t->ids, &t->cap_ids, t->n_ids + g->n_ids))
        return false;
    if (g->n_ids)
        memcpy(t->ids + t->n_ids, g->ids, g->n_ids * sizeof *g->ids);
    t->n_ids += g->n_ids;
    return true;
}

static size_t count_text(const steno_whisper_transcript *t, const struct steno_whisper_segment *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_ids; i++)
        n += g->ids[i] < t->m->net->special.eot;
    return n;
}

/* A piece has the time of its word, or its share of the segment without words. */
static bool add_spans(steno_whisper_transcript *t, const struct steno_whisper_segment *g)
{
    const size_t n = count_text(t, g);
    const struct stretch all = {g->start, g->end};
    size_t word = 0, left = g->n_words ? g->words[0].n_ids : 0, text = 0;
    for (size_t i = 0; i < g->n_ids; i++) {
        struct stretch at;
        t->texts[0].score += (double)g->log_probs[i];
        if (g->ids[i] >= t->m->net->special.eot)
            continue;
        while (!left && word + 1 < g->n_words)
            left = g->words[++word].n_ids;
        left -= left > 0;
        at = g->n_words ? (struct stretch){g->words[word].start, g->words[word].end}
                        : share_of(all, text, n);
        text++;
        if (!add_piece_transcript(t, &t->texts[0], g->ids[i], g->log_probs[i], at))
            return false;
    }
    return true;
}

steno_status steno_whisper_transcript_add(steno_whisper_transcript *t,
                                          const struct steno_whisper_segment *g,
                                          const struct steno_whisper_decoded *window,
                                          steno_err *err)
{
    const size_t first = t->texts[0].n;
    t->n_partial = t->n_agreed = 0;
    return add_ids(t, g) && !steno_buf_puts(&t->text, g->text) && add_spans(t, g) &&
                   steno_whisper_sections_add(&t->sections, g, window, first, t->texts[0].n - first)
               ? STENO_OK
               : out_of_memory(err);
}

static steno_status add_segments(steno_whisper_transcript *t, steno_whisper_recording *r,
                                 steno_err *err)
{
    struct steno_whisper_segment g;
    steno_status st;
    while (!(st = steno_whisper_recording_next(r, &g))) {
        st =
            steno_whisper_transcript_add(t, &g, steno_whisper_recording_window(r, NULL, NULL), err);
        if (st)
            return st;
    }
    return st == STENO_NEED_MORE
               ? STENO_OK
               : steno_fail(err, st, "transcript: %s", steno_status_info(st)->name);
}

/* ---- pieces between timestamps -------------------------------------------------------------- */

/* The time of timestamp id of a window. */
static double time_of(const steno_whisper_transcript *t, struct stretch window, int32_t id)
{
    return window.start + FRAME * (id - t->m->net->special.first_time);
}

/* The time of piece i of ids [n]: between two timestamps each has its share. */
static struct stretch place_piece(const steno_whisper_transcript *t, struct stretch window,
                                  const int32_t *ids, size_t n, size_t i)
{
    const int32_t zero = t->m->net->special.first_time;
    struct stretch all = window;
    size_t from = i, to = i;
    while (from > 0 && ids[from - 1] < zero)
        from--;
    while (to < n && ids[to] < zero)
        to++;
    if (from)
        all.start = fmin(time_of(t, window, ids[from - 1]), window.end);
    if (to < n)
        all.end = fmin(time_of(t, window, ids[to]), window.end);
    return share_of(all, i - from, to - from);
}

/* Show the partial of the window that grows, behind the finished ones. */
static bool show_partial(steno_whisper_transcript *t, const struct steno_whisper_partial *p)
{
    struct text *best = &t->texts[0];
    const struct stretch window = {p->start, p->end};
    const size_t before = best->n;
    bool ok = true;
    t->n_agreed = 0;
    for (size_t i = 0; i < p->n && ok; i++) {
        ok = add_piece_transcript(t, best, p->ids[i], p->log_probs[i],
                                  place_piece(t, window, p->ids, p->n, i));
        if (i < p->agreed)
            t->n_agreed = best->n - before;
    }
    t->n_partial = best->n - before;
    best->n = before;
    return ok;
}

void steno_whisper_transcript_settle(steno_whisper_transcript *t)
{
    t->n_partial = t->n_agreed;
}

/* ---- the beam's other texts of a window ------------------------------------------------------ */

/* Append a text of the window. What it says behind the window's end is said again in the next one.
 */
static bool add_text(const steno_whisper_transcript *t, struct text *x, struct stretch window,
                     const struct steno_whisper_text *said)
{
    for (size_t i = 0; i < said->n; i++) {
        if (said->ids[i] < steno_bpe_regular(t->m->net->bpe)) {
            const struct stretch at = place_piece(t, window, said->ids, said->n, i);
            if (frame_of(at.start) >= frame_of(window.end))
                break;
            if (!add_piece_transcript(t, x, said->ids[i], said->log_probs[i], at))
                return false;
        }
        x->score += (double)said->log_probs[i];
    }
    return true;
}

/* Where the window that a text asks for next begins, s: two timestamps at its end say so. Infinite
 * if it does not end like that. */
static double end_of(const steno_whisper_transcript *t, struct stretch window,
                     const struct steno_whisper_text *said)
{
    const int32_t zero = t->m->net->special.first_time;
    return said->n > 1 && said->ids[said->n - 1] >= zero && said->ids[said->n - 2] >= zero
               ? time_of(t, window, said->ids[said->n - 1])
               : (double)INFINITY;
}

/* Which span of the best text, [from, best->n), goes on after text x, whose spans of the window
 * begin at `first`, and which ends at this time: the one behind the longest run of its last tokens
 * near it, since the times of words are not those of timestamps; else the first one after it. */
static size_t find_rest(const struct text *best, size_t from, const struct text *x, size_t first,
                        double time)
{
    size_t found = best->n, longest = 0;
    for (size_t j = best->n; j-- > from;) {
        const double away = (double)best->spans[j].first * FRAME - time;
        size_t run = 0;
        while (run < j - from && run < x->n - first &&
               best->spans[j - 1 - run].token == x->spans[x->n - 1 - run].token)
            run++;
        if (run > longest && fabs(away) <= NEAR) {
            longest = run;
            found = j;
        } else if (!longest && away >= 0) {
            found = j;
        }
    }
    return found;
}

/* Append spans [from, best->n). */
static bool add_rest(struct text *x, const struct text *best, size_t from)
{
    const size_t n = best->n - from;
    if (!reserve_transcript(x, n))
        return false;
    if (n)
        memcpy(x->spans + x->n, best->spans + from, n * sizeof *x->spans);
    x->n += n;
    return true;
}

/* Append the window's other texts. Its best one is spans [from, best->n) and has this score. Words
 * have the times of a partial. The windows follow the best text: where another one leaves more for
 * the next window, the best text completes it. */
static steno_status add_others(steno_whisper_transcript *t, const steno_whisper_recording *r,
                               size_t from, double score, steno_err *err)
{
    const struct text *best = &t->texts[0];
    struct steno_whisper_text said[STENO_WHISPER_MAX_BEAM];
    struct stretch window;
    const size_t n = steno_whisper_recording_texts(r, said, t->n_best);
    steno_whisper_recording_span(r, &window.start, &window.end);
    for (size_t i = 1; i < t->n_best; i++) {
        struct text *x = &t->texts[i];
        const size_t first = x->n;
        size_t rest = from; /* of a window with fewer texts: the best one again */
        if (i >= n) {
            x->score += score;
        } else {
            if (!add_text(t, x, window, &said[i]))
                return out_of_memory(err);
            rest = find_rest(best, from, x, first, end_of(t, window, &said[i]));
            for (size_t k = rest; k < best->n; k++)
                x->score += (double)best->spans[k].peak;
        }
        if (!add_rest(x, best, rest))
            return out_of_memory(err);
    }
    t->n_texts = n > t->n_texts ? n : t->n_texts;
    return STENO_OK;
}

steno_status steno_whisper_transcript_follow(steno_whisper_transcript *t,
                                             steno_whisper_recording *r, steno_err *err)
{
    const size_t before = t->texts[0].n;
    const double score = t->texts[0].score;
    struct steno_whisper_partial partial;
    steno_status st = add_segments(t, r, err);
    if (!st && t->texts[0].n > before)
        st = add_others(t, r, before, t->texts[0].score - score, err);
    if (st)
        return st;
    partial = steno_whisper_recording_hypothesis(r);
    return show_partial(t, &partial) ? STENO_OK : out_of_memory(err);
}

/* ---- hypotheses ----------------------------------------------------------------------------- */

bool steno_whisper_transcript_any(const steno_whisper_transcript *t)
{
    return t->n_ids > 0;
}

/* The text if all windows are finished. */
static const char *text_of(const steno_whisper_transcript *t)
{
    return t->texts[0].n && !t->n_partial ? t->text.data + (t->text.data[0] == ' ') : NULL;
}

void steno_whisper_transcript_list(steno_whisper_transcript *t, struct steno_hypothesis *out,
                                   size_t max, size_t *n, size_t *stable)
{
    const struct text *x = t->texts;
    *n = *stable = 0;
    if (!max || !(x[0].n + t->n_partial))
        return;
    out[0] =
        (struct steno_hypothesis){.spans = x[0].spans,
                                  .n = x[0].n + t->n_partial,
                                  .score = x[0].score,
                                  .text = text_of(t),
                                  .ids = t->ids,
                                  .n_ids = t->n_ids,
                                  .sections = steno_whisper_sections_list(&t->sections, t->ids),
                                  .n_sections = t->sections.n};
    for (*n = 1; !t->n_partial && *n < t->n_texts && *n < max; ++*n)
        out[*n] =
            (struct steno_hypothesis){.spans = x[*n].spans, .n = x[*n].n, .score = x[*n].score};
    *stable = stable_of(t);
    *stable += *stable > 0; /* the next piece begins a word */
}
