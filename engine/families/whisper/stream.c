/* One stream: utterance after utterance, each a recording of its own. Its hypothesis is the text of
 * the windows that are finished, which does not change any more, and the last partial of the window
 * that grows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/option.h"
#include "families/whisper/batched.h"
#include "families/whisper/internal.h"
#include "families/whisper/sections.h"
#include "text/language.h"

#define VAD_BATCHED 8 /* windows at once, if a VAD is wanted and nothing is said of them */
#define FRAME 0.02    /* s: the grain of times */
#define NEAR 1.5      /* s: between the time of a word and a timestamp beside it */

/* A hypothesis behind the best one: such a text of each window, or the best of a window that has
 * fewer. */
struct other {
    struct steno_span *spans;
    size_t n, cap;
    double score;
    size_t kept; /* n and score before an early final */
    double kept_score;
};

/* What was said before an early final. */
struct mark {
    size_t n, n_ids, text, sections, section_text, n_others, windows;
    size_t stable; /* spans, those of the last partial among them */
    double score;
};

struct stream {
    const struct steno_whisper_model *model;
    struct steno_whisper_recording_options o;
    char *texts;                           /* of o */
    int32_t *suppressed;                   /* of o, or NULL */
    const char *prefix;                    /* of o, for the first utterance of a recording */
    int32_t before[STENO_WHISPER_CONTEXT]; /* text of the utterances before, for the prompt */
    size_t n_before;
    steno_whisper_recording *rec; /* of the utterance; NULL: nothing of it has come */
    /* Of a stream whose windows are decoded side by side, instead of rec. Each of its segments is
     * an utterance. */
    struct steno_speech_source speech;
    steno_whisper_batched *batched;
    size_t accepted;
    bool ended;
    bool early; /* ended, but more audio may follow */
    struct mark mark;
    struct steno_span *spans; /* of all that was said in it */
    int32_t *ids;
    size_t n, cap, n_ids, cap_ids;
    size_t n_partial, n_agreed; /* spans of the partial behind n; those that will not change */
    size_t n_best, n_others;
    struct other *others; /* [n_best - 1]; n_others of them differ from the best */
    size_t windows;       /* that others have */
    struct steno_buf text;
    double score;
    struct steno_whisper_sections sections;
};

/* ---- opening ------------------------------------------------------------------------------- */

static bool is_batched(const struct stream *s)
{
    return s->o.batched > 1;
}

/* All audio is one segment then, which the cutter cuts. A VAD for a whole recording asks for this
 * too: the cutter is what leaves silence out. */
static void set_batched(struct stream *s, struct steno_family_stream *o)
{
    if (!o->speech)
        s->o.batched = 1;
    else if (o->speech->vad && o->whole && s->o.batched == 1 &&
             !steno_option_value(o->options, o->n_options, "batched"))
        s->o.batched = VAD_BATCHED;
    if (!is_batched(s))
        return;
    s->speech = *o->speech;
    o->cuts = true;
}

steno_status steno_whisper_state_new(void **state, void *model, struct steno_family_stream *o,
                                     steno_err *err)
{
    const struct steno_whisper_model *m = model;
    struct stream *s;
    steno_status st;
    if (o->beam > STENO_WHISPER_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "beam: %d is more than %d", o->beam,
                          STENO_WHISPER_MAX_BEAM);
    s = calloc(1, sizeof *s);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = m;
    s->o = m->defaults;
    steno_buf_init(&s->text, (size_t)64 << 20);
    steno_whisper_sections_init(&s->sections);
    st = steno_whisper_options_apply(m->net, o->options, o->n_options, &s->o, &s->suppressed, err);
    if (!st)
        st = steno_whisper_hints_apply(&o->hints, &s->o, &s->texts, err);
    if (st) {
        steno_whisper_state_free(s);
        return st;
    }
    s->o.words &= !o->no_word_times || s->o.hallucination_silence > 0;
    if (o->beam)
        s->o.decode.search.beam = (size_t)o->beam;
    o->beam = (int)s->o.decode.search.beam;
    s->prefix = s->o.prefix;
    set_batched(s, o);
    if (is_batched(s) || o->n_best < 1)
        o->n_best = 1;
    o->n_best = o->n_best < o->beam ? o->n_best : o->beam;
    s->n_best = (size_t)o->n_best;
    s->others = calloc(s->n_best, sizeof *s->others);
    if (!s->others) {
        steno_whisper_state_free(s);
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    }
    *state = s;
    return STENO_OK;
}

static steno_status take_batched(struct stream *s, steno_err *err);

static void forget_text(struct stream *s)
{
    s->n = s->n_ids = s->n_partial = s->n_agreed = 0;
    s->score = 0;
    steno_buf_cut(&s->text, 0);
    steno_whisper_sections_cut(&s->sections, 0, 0);
    for (size_t i = 0; s->others && i < s->n_best; i++) {
        s->others[i].n = 0;
        s->others[i].score = 0;
    }
    s->n_others = s->windows = 0;
}

/* The next utterance follows the one that has ended. */
static void keep_context(struct stream *s)
{
    const int32_t *ids = steno_whisper_recording_context(s->rec, &s->n_before);
    if (s->n_before)
        memcpy(s->before, ids, s->n_before * sizeof *ids);
}

/* A final may begin; forget what it says if it was too early. */
static steno_status end_early(struct stream *s, steno_err *err)
{
    s->mark = (struct mark){.n = s->n,
                            .n_ids = s->n_ids,
                            .text = s->text.len,
                            .sections = s->sections.n,
                            .section_text = s->sections.text.len,
                            .n_others = s->n_others,
                            .windows = s->windows,
                            .stable = s->n + s->n_agreed,
                            .score = s->score};
    for (size_t i = 0; i < s->n_best; i++) {
        s->others[i].kept = s->others[i].n;
        s->others[i].kept_score = s->others[i].score;
    }
    s->early = true;
    return steno_whisper_recording_end_early(s->rec, err);
}

static void resume(struct stream *s)
{
    const struct mark *m = &s->mark;
    if (!s->early)
        return;
    s->n = m->n;
    s->n_ids = m->n_ids;
    s->n_partial = s->n_agreed = 0; /* until the next partial */
    s->score = m->score;
    steno_buf_cut(&s->text, m->text);
    steno_whisper_sections_cut(&s->sections, m->sections, m->section_text);
    s->n_others = m->n_others;
    s->windows = m->windows;
    for (size_t i = 0; i < s->n_best; i++) {
        s->others[i].n = s->others[i].kept;
        s->others[i].score = s->others[i].kept_score;
    }
    steno_whisper_recording_resume(s->rec);
    s->early = s->ended = false;
}

steno_status steno_whisper_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct stream *s = state;
    if (what == STENO_RESET_RESUMED) {
        resume(s);
        return STENO_OK;
    }
    forget_text(s);
    if (what == STENO_RESET_TAKEN)
        return take_batched(s, err);
    if (what != STENO_RESET_UTTERANCE)
        s->n_before = 0;
    else if (s->rec && s->o.carry)
        keep_context(s);
    if (what == STENO_RESET_RECORDING)
        s->o.prefix = s->prefix;
    else if (s->rec)
        s->o.prefix = NULL;
    steno_whisper_recording_close(s->rec);
    steno_whisper_batched_close(s->batched);
    s->rec = NULL;
    s->batched = NULL;
    s->accepted = 0;
    s->ended = s->early = false;
    return STENO_OK;
}

void steno_whisper_state_free(void *state)
{
    struct stream *s = state;
    if (!s)
        return;
    steno_whisper_recording_close(s->rec);
    steno_whisper_batched_close(s->batched);
    steno_buf_free(&s->text);
    steno_whisper_sections_free(&s->sections);
    for (size_t i = 0; s->others && i < s->n_best; i++)
        free(s->others[i].spans);
    free(s->others);
    free(s->texts);
    free(s->suppressed);
    free(s->spans);
    free(s->ids);
    free(s);
}

/* ---- audio --------------------------------------------------------------------------------- */

static steno_status push_batched(struct stream *s, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!s->batched)
        st = steno_whisper_batched_open(&s->batched, s->model->net, &s->o, &s->speech, err);
    if (!st)
        st = steno_whisper_batched_push(s->batched, pcm, n, err);
    if (!st)
        s->accepted += n;
    return st;
}

static steno_status push(struct stream *s, const float *pcm, size_t n, steno_err *err)
{
    steno_status st = STENO_OK;
    if (is_batched(s))
        return push_batched(s, pcm, n, err);
    if (!s->rec)
        st = steno_whisper_recording_open(&s->rec, s->model->net, &s->o, err);
    if (!st && !s->accepted && s->n_before)
        st = steno_whisper_recording_follow(s->rec, s->before, s->n_before, err);
    if (!st)
        st = steno_whisper_recording_push(s->rec, pcm, n, err);
    if (!st)
        s->accepted += n;
    return st;
}

static bool is_due(const struct stream *s)
{
    if (is_batched(s))
        return s->batched && steno_whisper_batched_due(s->batched);
    return s->rec && steno_whisper_recording_ready(s->rec);
}

static steno_status end(struct stream *s, bool early, steno_err *err)
{
    if (s->batched)
        return steno_whisper_batched_end(s->batched, err);
    if (s->rec && early)
        return end_early(s, err);
    return s->rec ? steno_whisper_recording_end(s->rec, err) : STENO_OK;
}

steno_status steno_whisper_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                  bool *due)
{
    struct stream *s = state;
    steno_status st = STENO_OK;
    if (end > s->accepted && !(s->rec && steno_whisper_recording_ready(s->rec)))
        st = push(s, pcm + (s->accepted - dropped), end - s->accepted, NULL);
    *due = !st && is_due(s);
    return st;
}

size_t steno_whisper_accepted(const void *state)
{
    return ((const struct stream *)state)->accepted;
}

size_t steno_whisper_missing(const void *state)
{
    return STENO_WHISPER_WINDOW - ((const struct stream *)state)->accepted % STENO_WHISPER_WINDOW;
}

/* ---- what was said -------------------------------------------------------------------------- */

static bool reserve(struct stream *s, size_t spans, size_t ids)
{
    if (s->n + spans > s->cap) {
        const size_t cap = 2 * (s->n + spans);
        struct steno_span *p = realloc(s->spans, cap * sizeof *p);
        if (!p)
            return false;
        s->spans = p;
        s->cap = cap;
    }
    if (s->n_ids + ids > s->cap_ids) {
        const size_t cap = 2 * (s->n_ids + ids);
        int32_t *p = realloc(s->ids, cap * sizeof *p);
        if (!p)
            return false;
        s->ids = p;
        s->cap_ids = cap;
    }
    return true;
}

/* A piece in these frames, or its bytes where it is no whole characters. */
static bool add_piece(struct stream *s, int32_t id, float log_prob, int64_t first, int64_t last)
{
    const struct steno_bpe_piece p = steno_bpe_piece(s->model->net->bpe, id);
    const int32_t bytes = steno_bpe_regular(s->model->net->bpe);
    const bool broken = steno_whisper_is_broken(s->model->tokens, id);
    if (!reserve(s, broken ? p.n : 1, 0))
        return false;
    for (size_t i = 0; i < (broken ? p.n : 1); i++)
        s->spans[s->n++] = (struct steno_span){.token = broken ? bytes + (unsigned char)p.p[i] : id,
                                               .peak = log_prob,
                                               .first = first,
                                               .last = last};
    return true;
}

static int64_t frame_of(double seconds)
{
    return seconds > 0 ? (int64_t)(seconds / FRAME + 0.5) : 0;
}

/* Piece number i of n of a segment without words: each has its share. */
static void share_of(const struct steno_whisper_segment *g, size_t i, size_t n, int64_t *first,
                     int64_t *last)
{
    const double step = (g->end - g->start) / (double)n;
    *first = frame_of(g->start + step * (double)i);
    *last = frame_of(g->start + step * (double)(i + 1)) - 1;
}

static size_t count_text(const struct stream *s, const struct steno_whisper_segment *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_ids; i++)
        n += g->ids[i] < s->model->net->special.eot;
    return n;
}

static bool add_segment(struct stream *s, const struct steno_whisper_segment *g,
                        const struct steno_whisper_decoded *window)
{
    const size_t n = count_text(s, g), first_span = s->n;
    size_t word = 0, left = g->n_words ? g->words[0].n_ids : 0, text = 0;
    if (!reserve(s, 0, g->n_ids) || steno_buf_puts(&s->text, g->text))
        return false;
    memcpy(s->ids + s->n_ids, g->ids, g->n_ids * sizeof *g->ids);
    s->n_ids += g->n_ids;
    for (size_t i = 0; i < g->n_ids; i++) {
        int64_t first, last;
        s->score += (double)g->log_probs[i];
        if (g->ids[i] >= s->model->net->special.eot)
            continue;
        text++;
        while (!left && word + 1 < g->n_words)
            left = g->words[++word].n_ids;
        share_of(g, text - 1, n, &first, &last);
        if (g->n_words) {
            first = frame_of(g->words[word].start);
            last = frame_of(g->words[word].end) - 1;
        }
        left -= left > 0;
        if (g->ids[i] >= steno_bpe_regular(s->model->net->bpe))
            continue; /* the empty piece that some vocabularies leave out */
        if (!add_piece(s, g->ids[i], g->log_probs[i], first, last > first ? last : first))
            return false;
    }
    return steno_whisper_sections_add(&s->sections, g, window, first_span, s->n - first_span);
}

static int language(const struct stream *s, float *probability)
{
    return s->batched ? steno_whisper_batched_language(s->batched, probability)
                      : steno_whisper_recording_language(s->rec, probability);
}

/* The text if all windows are finished. */
static const char *text_of(const struct stream *s)
{
    return s->n && !s->n_partial ? s->text.data + (s->text.data[0] == ' ') : NULL;
}

/* The place of a piece in the partial's text: between two timestamps each has its share. */
static void place_piece(const struct stream *s, const struct steno_whisper_partial *p, size_t i,
                        int64_t *first, int64_t *last)
{
    const int32_t zero = s->model->net->special.first_time;
    struct steno_whisper_segment g = {.start = p->start, .end = p->end};
    size_t from = i, to = i;
    while (from > 0 && p->ids[from - 1] < zero)
        from--;
    while (to < p->n && p->ids[to] < zero)
        to++;
    if (from)
        g.start = fmin(p->start + FRAME * (p->ids[from - 1] - zero), p->end);
    if (to < p->n)
        g.end = fmin(p->start + FRAME * (p->ids[to] - zero), p->end);
    share_of(&g, i - from, to - from, first, last);
}

/* Spans of the partial of the window that grows, behind those of finished windows. */
static bool show_partial(struct stream *s)
{
    const struct steno_whisper_partial p = steno_whisper_recording_hypothesis(s->rec);
    const size_t before = s->n;
    bool ok = true;
    s->n_agreed = 0;
    for (size_t i = 0; i < p.n && ok; i++) {
        int64_t first, last;
        if (p.ids[i] >= steno_bpe_regular(s->model->net->bpe))
            continue;
        place_piece(s, &p, i, &first, &last);
        ok = add_piece(s, p.ids[i], p.log_probs[i], first, last > first ? last : first);
        if (i < p.agreed)
            s->n_agreed = s->n - before;
    }
    s->n_partial = s->n - before;
    s->n = before;
    return ok;
}

steno_status steno_whisper_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable)
{
    struct stream *s = state;
    *n = *stable = 0;
    if (!max || !(s->n + s->n_partial))
        return STENO_OK;
    out[0] =
        (struct steno_hypothesis){.spans = s->spans,
                                  .n = s->n + s->n_partial,
                                  .score = s->score,
                                  .text = text_of(s),
                                  .ids = s->ids,
                                  .n_ids = s->n_ids,
                                  .sections = steno_whisper_sections_list(&s->sections, s->ids),
                                  .n_sections = s->sections.n};
    out[0].language = steno_language_code_at(language(s, &out[0].language_probability));
    *n = 1;
    for (size_t i = 0; !s->n_partial && i < s->n_others && *n < max; i++)
        out[(*n)++] = (struct steno_hypothesis){
            .spans = s->others[i].spans, .n = s->others[i].n, .score = s->others[i].score};
    *stable = s->early ? s->mark.stable : s->n + s->n_agreed;
    *stable += *stable > 0; /* the next piece begins a word */
    return STENO_OK;
}

/* ---- steps --------------------------------------------------------------------------------- */

steno_status steno_whisper_worker_open(void **worker, void *model, int max, steno_err *err)
{
    steno_whisper_runner *r;
    steno_status st =
        steno_whisper_runner_open(&r, ((struct steno_whisper_model *)model)->net, err);
    (void)max;
    if (!st)
        *worker = r;
    return st;
}

void steno_whisper_worker_close(void *worker)
{
    steno_whisper_runner_close(worker);
}

/* The rest of the segment is taken in, once. Whether there is work for a step. */
static bool prepare(struct steno_step_item *item)
{
    struct stream *s = item->state;
    item->st = STENO_OK;
    item->more = false;
    if (item->goal == STENO_STEP_PARTIAL && s->rec)
        item->st = steno_whisper_recording_partial(s->rec, item->err);
    if ((item->goal == STENO_STEP_FINAL || item->goal == STENO_STEP_EARLY) && !s->ended) {
        if (item->n > s->accepted)
            item->st = push(s, item->pcm + (s->accepted - item->dropped), item->n - s->accepted,
                            item->err);
        if (!item->st)
            item->st = end(s, item->goal == STENO_STEP_EARLY, item->err);
        s->ended = true;
    }
    if (is_batched(s))
        return !item->st && s->batched && steno_whisper_batched_busy(s->batched);
    if (s->ended)
        s->n_partial = s->n_agreed; /* until a window says more */
    return !item->st && s->rec && steno_whisper_recording_ready(s->rec);
}

/* The spans of a text of the window, behind those that there are; its score to *sum. What it says
 * behind the window's end is said again in the next one. */
static bool add_text(struct stream *s, const struct steno_whisper_text *t, double *sum)
{
    struct steno_whisper_partial p = {.ids = t->ids, .n = t->n};
    steno_whisper_recording_span(s->rec, &p.start, &p.end);
    for (size_t i = 0; i < t->n; i++) {
        int64_t first, last;
        if (t->ids[i] < steno_bpe_regular(s->model->net->bpe)) {
            place_piece(s, &p, i, &first, &last);
            if (first >= frame_of(p.end))
                break;
            if (!add_piece(s, t->ids[i], t->log_probs[i], first, last > first ? last : first))
                return false;
        }
        *sum += (double)t->log_probs[i];
    }
    return true;
}

/* Append spans [from, s->n), with their score. */
static bool grow_other(struct other *o, const struct stream *s, size_t from, double score)
{
    const size_t n = s->n - from;
    if (o->n + n > o->cap) {
        const size_t cap = 2 * (o->n + n);
        struct steno_span *p = realloc(o->spans, cap * sizeof *p);
        if (!p)
            return false;
        o->spans = p;
        o->cap = cap;
    }
    if (n)
        memcpy(o->spans + o->n, s->spans + from, n * sizeof *s->spans);
    o->n += n;
    o->score += score;
    return true;
}

/* Where the window that a text asks for next begins, s: two timestamps at its end say so. Infinite
 * if it does not end like that. */
static double rest_of(const struct stream *s, const struct steno_whisper_text *t)
{
    const int32_t zero = s->model->net->special.first_time;
    double start, end;
    steno_whisper_recording_span(s->rec, &start, &end);
    return t->n > 1 && t->ids[t->n - 1] >= zero && t->ids[t->n - 2] >= zero
               ? start + FRAME * (t->ids[t->n - 1] - zero)
               : (double)INFINITY;
}

/* Which span of the best text, [from, to), goes on after the spans behind `to`, of a text that ends
 * at this time: the one behind the longest run of their last tokens near it, since the times of
 * words are not those of timestamps; else the first one after it. */
static size_t find_rest(const struct stream *s, size_t from, size_t to, double time)
{
    size_t best = to, longest = 0;
    for (size_t j = to; j-- > from;) {
        const double away = (double)s->spans[j].first * FRAME - time;
        size_t run = 0;
        while (run < j - from && run < s->n - to &&
               s->spans[j - 1 - run].token == s->spans[s->n - 1 - run].token)
            run++;
        if (run > longest && fabs(away) <= NEAR) {
            longest = run;
            best = j;
        } else if (!longest && away >= 0) {
            best = j;
        }
    }
    return best;
}

/* Append the best text's spans that go on after those behind `to`. */
static bool add_rest(struct stream *s, size_t from, size_t to, double time, double *sum)
{
    for (size_t i = find_rest(s, from, to, time); i < to; i++) {
        if (!reserve(s, 1, 0))
            return false;
        *sum += (double)s->spans[i].peak;
        s->spans[s->n++] = s->spans[i];
    }
    return true;
}

/* The beam's other texts of a finished window, whose best one is spans [from, s->n) and has this
 * score. Words have the times of a partial. The windows follow the best text: where another one
 * leaves more for the next window, the best text completes it. */
static steno_status take_others(struct stream *s, size_t from, double score, steno_err *err)
{
    struct steno_whisper_text t[STENO_WHISPER_MAX_BEAM];
    const size_t end = s->n, windows = steno_whisper_recording_windows(s->rec);
    size_t n;
    bool ok = true;
    if (s->n_best < 2 || windows == s->windows || end == from)
        return STENO_OK;
    s->windows = windows;
    n = steno_whisper_recording_texts(s->rec, t, s->n_best);
    for (size_t i = 1; i < s->n_best && ok; i++, s->n = end) {
        double sum = 0;
        if (i >= n)
            ok = grow_other(&s->others[i - 1], s, from, score);
        else
            ok = add_text(s, &t[i], &sum) && add_rest(s, from, end, rest_of(s, &t[i]), &sum) &&
                 grow_other(&s->others[i - 1], s, end, sum);
    }
    if (n > s->n_others + 1)
        s->n_others = n - 1;
    return ok ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

/* Segments of the window that a step has finished. */
static steno_status take_segments(struct stream *s, steno_err *err)
{
    struct steno_whisper_segment g;
    steno_status st;
    while (!(st = steno_whisper_recording_next(s->rec, &g)))
        if (!add_segment(s, &g, steno_whisper_recording_window(s->rec, NULL, NULL)))
            return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return st == STENO_NEED_MORE ? STENO_OK
                                 : steno_fail(err, st, "stream: %s", steno_status_info(st)->name);
}

/* The next segment of a recording in chunks becomes the hypothesis. */
static steno_status take_batched(struct stream *s, steno_err *err)
{
    struct steno_whisper_segment g;
    const struct steno_whisper_decoded *window;
    steno_status st =
        s->batched ? steno_whisper_batched_next(s->batched, &g, &window) : STENO_NEED_MORE;
    if (st)
        return st == STENO_NEED_MORE ? STENO_OK : st;
    return add_segment(s, &g, window) ? STENO_OK
                                      : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

/* The hypothesis is the first segment that has not been taken. At the end the last one is left to
 * the final of the whole. */
static void finish_batched(struct steno_step_item *item)
{
    struct stream *s = item->state;
    size_t waiting;
    item->st = steno_whisper_batched_stepped(s->batched, item->err);
    if (!item->st && !s->n_ids)
        item->st = take_batched(s, item->err);
    if (item->st)
        return;
    waiting = steno_whisper_batched_waiting(s->batched) + (s->n_ids > 0);
    item->more = s->ended ? steno_whisper_batched_busy(s->batched) : is_due(s);
    item->finals = s->ended && !item->more && waiting ? waiting - 1 : waiting;
}

static void finish(struct steno_step_item *item, steno_status st)
{
    struct stream *s = item->state;
    const size_t before = s->n;
    const double score = s->score;
    if (st) {
        item->st = st;
        return;
    }
    if (s->batched) {
        finish_batched(item);
        return;
    }
    item->st = take_segments(s, item->err);
    if (!item->st)
        item->st = take_others(s, before, s->score - score, item->err);
    if (!item->st && !show_partial(s))
        item->st = steno_fail(item->err, STENO_ERR_NOMEM, "stream: out of memory");
    item->more = !item->st && steno_whisper_recording_ready(s->rec);
}

/* A recording in chunks fills steps by itself. */
double steno_whisper_share(const void *state)
{
    const struct stream *s = state;
    return is_batched(s) || !s->rec ? 1 : steno_whisper_recording_share(s->rec);
}

/* The recordings of one step, and whose they are. */
struct gathered {
    steno_whisper_recording *rec[STENO_WHISPER_BATCH];
    size_t of[STENO_WHISPER_BATCH]; /* numbers of items */
    size_t n;
};

/* Every stream has a place for its earliest window; what places are left go to the others in the
 * order of the items. */
static void gather(struct steno_step_item *items, const bool *works, size_t n, struct gathered *g)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        left += works[i];
    for (size_t i = 0; i < n; i++) {
        struct stream *s = items[i].state;
        size_t got = 1;
        if (!works[i])
            continue;
        left--;
        if (s->batched)
            got = steno_whisper_batched_steps(s->batched, g->rec + g->n,
                                              STENO_WHISPER_BATCH - g->n - left);
        else
            g->rec[g->n] = s->rec;
        for (size_t k = 0; k < got; k++)
            g->of[g->n++] = i;
    }
}

void steno_whisper_step_items(void *worker, struct steno_step_item *items, size_t n, int size,
                              struct steno_network_time *spent)
{
    struct gathered g = {.n = 0};
    bool works[STENO_WHISPER_BATCH];
    steno_status st[STENO_WHISPER_BATCH];
    steno_err err[STENO_WHISPER_BATCH];
    (void)size;
    (void)spent; /* there is no trial */
    for (size_t i = 0; i < n; i++)
        works[i] = prepare(&items[i]);
    gather(items, works, n, &g);
    if (g.n)
        steno_whisper_recordings_step(worker, g.rec, g.n, st, err);
    for (size_t i = 0, k = 0; i < n; i++) {
        steno_status first = STENO_OK; /* of its recordings */
        for (; k < g.n && g.of[k] == i; k++) {
            if (!st[k] || first)
                continue;
            first = st[k];
            if (items[i].err)
                *items[i].err = err[k];
        }
        if (works[i])
            finish(&items[i], first);
    }
}
