/* Feeding by segments: samples -> hops -> VAD (vad.h, or the rule on energy of
 * features/activity.h) -> segments -> steps.
 *
 * Speech opens a segment, which includes some audio from before. Silence, length or a request
 * closes it. The stream keeps the segment's samples until the family has accepted them. If the
 * family takes whole segments, a partial is due each time the segment has grown by a third, so all
 * partials together cost at most four times the segment, however long it is. If it accepts samples
 * as they arrive, a step is due when it has enough of them, and if it wants partials in between,
 * also when there is new speech and the segment has grown by its interval, which becomes longer as
 * the segment does.
 *
 * Between two partials of such a family there is a glance, if they wait for nobody: a partial that
 * is shown and changes nothing else, so that a word is seen sooner, and what is agreed on, and the
 * finals, stay as they are.
 *
 * A final may be begun early, if the family can (segments.early). Its audio ends `trail` behind the
 * last sound, and silence from there to the endpoint is dropped, so the end is known before the
 * endpoint. Sound includes soft speech, which is below the rule on energy in noise. The final is
 * done while the silence lasts. The endpoint, finalize or end makes it the final. Sound drops it,
 * even between its steps (s->listens), and then the segment is as if it had never been begun: it
 * changes neither later partials nor finals.
 *
 * It is begun after `patience` of silence and shown as a partial. Each one that sound drops makes
 * the segment wait longer: half of the way from the pause that went on to an endpoint. So slow
 * speech costs a few finals more for each utterance, not one for each pause.
 *
 * A worker that nobody waits for begins it sooner, as soon as the trail is over. It is shown after
 * `patience` all the same. Each one that sound drops lengthens the time in which none is begun so
 * by the interval of partials.
 *
 * Steps depend on samples alone, so events do not depend on how the audio was cut into pushes. One
 * thing depends on when samples come: the partial with the text of an early final is missing if the
 * pool hears sound between its steps.
 * Without endpointing there is one segment with all audio, silence too, to the end or to finalize.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/stream_internal.h"

#define BEFORE_SECONDS 0.3 /* audio of a segment before its first hop with speech */
#define SLACK 1024         /* samples of silence to drop at once, at least */
#define LISTEN 0.1         /* s of audio at a time, until somebody speaks */
#define FIRST_PARTIAL 0.8  /* s of a segment until its first partial */
#define GROWTH (1.0 / 3.0) /* growth of the segment until the next partial */
#define LONG_PAUSE 2.0     /* s between segments; an endpoint's silence belongs to the first */
#define MOST_WAITING 0.25  /* s of audio that waits: with more no partial is due */
#define LATE_GROWTH 0.08   /* GROWTH of families with an interval, if that is longer */
/* An interval is this many times as long as partials waited for a worker. So workers with many
 * streams come to a balance, in which partials wait an eighth of their interval. */
#define PER_WAIT 8.0
#define LONGEST_IDLE_WAIT 0.01 /* s: partials that wait longer share the worker with others */
#define GLANCE_PAUSE 0.1       /* s of silence, from which on there is none */
#define LONGEST_INTERVAL 4.0   /* s, however long they waited */
#define TRAIL 0.06             /* s of silence behind the last sound that a final hears */
#define PATIENCE 0.5           /* of the endpoint's silence, until a final is begun */
#define LONG_PART 0.6          /* of the longest segment, from which on shorter pauses end it */
#define LEAST_PAUSE 0.05       /* s: more than the closure of most stops within a word */

static size_t to_samples(const steno_stream *s, double seconds)
{
    return (size_t)(seconds * s->model->info.sample_rate);
}

static bool is_incremental(const steno_stream *s)
{
    return s->model->info.segments.incremental;
}

/* Samples of silence since the last hop with speech. */
static size_t silence(const steno_stream *s)
{
    return (size_t)s->in.g.quiet * s->model->info.hop;
}

/* The same, soft speech included. */
static size_t calm(const steno_stream *s)
{
    return (size_t)s->in.g.calm * s->model->info.hop;
}

/* The last sound and the last classified sample, in samples of the run. */
static double sound_at(const steno_stream *s)
{
    return (double)(s->in.g.from + (int64_t)s->in.g.seen) - (double)silence(s);
}

static double seen_at(const steno_stream *s)
{
    return (double)(s->in.g.from + (int64_t)s->in.g.seen);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void begin_segment(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    g->dropped = 0;
    g->speaking = g->whole;
    g->quiet = 0;
    g->partial = to_samples(s, FIRST_PARTIAL);
    g->heard = true;
    g->glance = SIZE_MAX;
    g->due = g->final = g->glancing = false;
    g->early = STENO_EARLY_NONE;
    g->calm = 0;
    g->patience = to_samples(s, PATIENCE * s->opt.endpoint.silence_after);
    g->early_from = g->quick_from = g->dropped_finals = 0;
}

/* All silence where finals are never begun early. */
static size_t trail_of(const steno_stream *s)
{
    const bool early = s->model->info.segments.early && !s->in.g.whole;
    return early ? to_samples(s, TRAIL) : SIZE_MAX;
}

static steno_status open_segments(steno_stream *s, steno_err *err)
{
    struct steno_segments *g = &s->in.g;
    const struct steno_family_info *i = &s->model->info;
    struct steno_endpoint_rules *e = &s->opt.endpoint;
    if (i->limit > 0)
        e->longest = fmin(e->longest, i->limit);
    g->whole = s->opt.no_endpointing || i->segments.whole;
    g->trail = trail_of(s);
    steno_activity_init(&g->activity, (double)i->hop / i->sample_rate);
    begin_segment(s);
    return s->opt.turn_vad && !g->whole
               ? steno_vad_state_open(&g->vad, s->opt.turn_vad, i->sample_rate, err)
               : STENO_OK;
}

static void close_segments(steno_stream *s)
{
    steno_vad_state_close(s->in.g.vad);
    free(s->in.g.pcm);
}

/* ---- clock ----------------------------------------------------------------------------------- */

/* The time of sample `at` of the segment on the stream's clock, at most the end of the audio. */
static double seconds(const steno_stream *s, double at)
{
    double t = (double)s->base / s->opt.sample_rate +
               ((double)s->in.g.from + at) / s->model->info.sample_rate;
    double end = (double)s->taken / s->opt.sample_rate;
    return t > end ? end : t;
}

static double frame_time(const steno_stream *s, int64_t frame)
{
    return seconds(s, (double)frame * (double)s->model->info.frame_samples);
}

static double processed(const steno_stream *s)
{
    return seconds(s, (double)(s->in.g.n - s->in.g.keep));
}

static double begin_segments(const steno_stream *s)
{
    return seconds(s, 0);
}

/* ---- audio in -------------------------------------------------------------------------------- */

static steno_status append_segments(struct steno_segments *g, const float *pcm, size_t n)
{
    size_t cap = g->cap ? g->cap : 16384, had = g->n - g->dropped;
    float *p;
    if (had + n > g->cap) {
        while (cap < had + n)
            cap *= 2;
        p = realloc(g->pcm, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        g->pcm = p;
        g->cap = cap;
    }
    memcpy(g->pcm + had, pcm, n * sizeof *pcm);
    g->n += n;
    return STENO_OK;
}

/* Drop the first `gone` samples of the segment. */
static void move_begin(struct steno_segments *g, size_t gone)
{
    memmove(g->pcm, g->pcm + gone, (g->n - gone) * sizeof *g->pcm);
    g->n -= gone;
    g->seen -= gone;
    g->from += (int64_t)gone;
}

/* Nobody speaks: keep only the audio that a segment may need before its first word. */
static void forget_silence(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    size_t before = to_samples(s, BEFORE_SECONDS);
    if (g->n >= 4 * before + SLACK)
        move_begin(g, g->n - before);
}

/* Begin a segment BEFORE_SECONDS before the end of the latest hop. */
static steno_status begin_speech(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    size_t before = to_samples(s, BEFORE_SECONDS);
    steno_status st = STENO_OK;
    if (g->seen > before)
        move_begin(g, g->seen - before);
    g->speaking = true;
    g->quiet = 0;
    if (g->reason != STENO_FINAL_LENGTH) /* else the speaker goes on */
        steno_turn_watch_begin(s->turn, seen_at(s));
    if (g->from - g->last_end > (int64_t)to_samples(s, LONG_PAUSE))
        st = s->family->reset(s->state, STENO_RESET_PAUSE, NULL);
    return st ? st : steno_results_start(s, g->vad);
}

/* Samples of silence that end the segment: the endpoint's, and the longer the segment the fewer, so
 * that one that is too long ends between words, not in one. */
static size_t ending_silence(const steno_stream *s)
{
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    const double length = (double)s->in.g.seen / s->model->info.sample_rate;
    const double left = (e->longest - length) / ((1 - LONG_PART) * e->longest);
    return to_samples(s, left >= 1
                             ? e->silence_after
                             : fmin(e->silence_after, fmax(left * e->silence_after, LEAST_PAUSE)));
}

static void close_segment(struct steno_segments *g, enum steno_final_reason reason, size_t keep)
{
    g->due = g->final = true;
    g->reason = reason;
    g->keep = keep;
}

/* Whether a hop has sound: the verdict on the VAD's last whole frame, or of the rule on energy. */
static steno_status classify(struct steno_segments *g, const float *pcm, size_t n, bool *loud)
{
    const bool above = steno_activity_push(&g->activity, pcm, n);
    steno_status st = STENO_OK;
    if (!g->vad) {
        *loud = above;
        return STENO_OK;
    }
    while (!st) {
        size_t used;
        st = steno_vad_state_push(g->vad, pcm, n, &used, &g->loud, NULL);
        pcm += used;
        n -= used;
    }
    *loud = g->loud;
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

/* Show the text of an early final that is done, when its pause is a long one. */
static steno_status show_early(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    if (g->early != STENO_EARLY_DONE || silence(s) < g->patience)
        return STENO_OK;
    g->early = STENO_EARLY_SHOWN;
    return s->opt.no_partials ? STENO_OK : steno_results_partial(s);
}

/* A sound drops an early final. */
static steno_status resume(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    g->calm = 0;
    if (g->early == STENO_EARLY_NONE)
        return STENO_OK;
    if (g->early == STENO_EARLY_RUNS) {
        g->due = false;
        g->queued = s->queued; /* no partial has waited so long */
    }
    g->early = STENO_EARLY_NONE;
    if (silence(s) >= g->patience)
        g->patience = (silence(s) + to_samples(s, s->opt.endpoint.silence_after)) / 2;
    else
        g->quick_from =
            g->seen + ++g->dropped_finals * to_samples(s, s->model->info.segments.partial_every);
    return s->family->reset(s->state, STENO_RESET_RESUMED, NULL);
}

/* Apply the VAD and the endpoint rules to one hop. */
static steno_status take_hop(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    size_t hop = s->model->info.hop;
    bool loud = false;
    steno_status st = classify(g, g->pcm + (g->seen - g->dropped), hop, &loud);
    if (st)
        return st;
    g->seen += hop;
    if (!g->speaking) {
        if (loud)
            return begin_speech(s);
        st = steno_results_pause(s, seconds(s, (double)g->seen));
        forget_silence(s);
        return st;
    }
    g->calm++;
    if (loud || steno_activity_is_soft(&g->activity))
        st = resume(s);
    g->quiet = loud ? 0 : g->quiet + 1;
    g->heard |= loud;
    if (silence(s) >= to_samples(s, e->silence_after))
        close_segment(g, STENO_FINAL_ENDPOINT, g->n - g->seen);
    else if (silence(s) >= ending_silence(s) || g->seen >= to_samples(s, e->longest))
        close_segment(g, STENO_FINAL_LENGTH, g->n - g->seen);
    else
        steno_turn_watch_see(s->turn, sound_at(s), seen_at(s));
    return st ? st : show_early(s);
}

/* An incremental family that wants partials beside the steps that it asks for. */
static bool has_interval(const steno_stream *s)
{
    return s->model->info.segments.partial_every > 0;
}

/* The end of the segment's audio if it ends here, with n samples: silence behind the trail does not
 * belong to it. */
static size_t audible(const steno_stream *s, size_t n)
{
    const size_t silent = calm(s);
    return silent >= s->in.g.trail ? s->in.g.seen - (silent - s->in.g.trail) : n;
}

/* The end of the audio that an incremental family may accept: whole hops if it wants partials in
 * between, so that these do not depend on the pushes. */
static size_t acceptable(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    if (!g->whole)
        return audible(s, g->seen);
    return has_interval(s) ? g->n - g->n % s->model->info.hop : g->n;
}

/* Whether partials are worth steps of their own. */
static bool wants_partials(const steno_stream *s)
{
    return !s->opt.no_partials && !s->opt.no_tail;
}

/* Whether an incremental family's next partial is due. */
static bool partial_due(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    return has_interval(s) && wants_partials(s) && acceptable(s) >= g->partial &&
           (g->heard || g->whole) && (double)s->waiting <= MOST_WAITING * s->opt.sample_rate;
}

static bool glance_due(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    return acceptable(s) >= g->glance && wants_partials(s) && g->early == STENO_EARLY_NONE &&
           silence(s) < to_samples(s, GLANCE_PAUSE) &&
           (double)s->waiting <= MOST_WAITING * s->opt.sample_rate;
}

/* Seconds between partials: they are rarer if they wait for workers. */
static double interval(const steno_stream *s)
{
    return fmax(s->model->info.segments.partial_every,
                fmin(PER_WAIT * s->in.g.wait, LONGEST_INTERVAL));
}

/* Whether partials wait for nobody, so that there is time for work that may be dropped. */
static bool is_idle(const steno_stream *s)
{
    return !s->no_early && s->in.g.wait <= LONGEST_IDLE_WAIT;
}

/* Samples of silence, behind the trail, until a final is begun. */
static size_t patience(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    return is_idle(s) && g->seen >= g->quick_from ? 0 : g->patience;
}

/* Whether a final is to be begun early: not where partials have become rarer under load. */
static bool early_due(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    return g->trail < SIZE_MAX && !s->no_early && g->speaking && g->early == STENO_EARLY_NONE &&
           calm(s) >= g->trail && silence(s) >= patience(s) && g->seen >= g->early_from &&
           interval(s) <= s->model->info.segments.partial_every &&
           (double)s->waiting <= MOST_WAITING * s->opt.sample_rate;
}

static void begin_early(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    g->due = true;
    g->early = STENO_EARLY_RUNS;
    g->early_from = g->seen + to_samples(s, s->model->info.segments.partial_every);
}

static steno_status accept(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    steno_status st = s->family->accept(s->state, g->pcm, g->dropped, acceptable(s), &g->due);
    g->due = g->due || (!s->family_cuts && partial_due(s));
    if (!st && !g->due && early_due(s))
        begin_early(s);
    if (!st && !g->due && glance_due(s))
        g->due = g->glancing = true;
    return st;
}

/* The step that is due is one of an early final: sound drops it. */
static bool early_runs(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    return g->due && !g->final && g->early == STENO_EARLY_RUNS;
}

/* Whether a step is due that has to come before more audio. */
static bool must_step(const steno_stream *s)
{
    return steno_turn_watch_due(s->turn) || (s->in.g.due && !(s->listens && early_runs(s)));
}

/* Take hops until a step is due. */
static steno_status take_hops(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    const struct steno_segments_info *i = &s->model->info.segments;
    steno_status st = STENO_OK;
    while (!st && !must_step(s) && !g->whole && g->n - g->seen >= s->model->info.hop)
        st = take_hop(s);
    if (st || g->due || !g->speaking || steno_turn_watch_due(s->turn))
        return st;
    if (is_incremental(s))
        return accept(s);
    g->due = wants_partials(s) && !i->no_partials && g->n >= g->partial;
    return STENO_OK;
}

/* Add pending samples to the segment hop by hop, so that steps are due at the same samples whatever
 * the pushes were. */
static steno_status drain(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    size_t hop = s->model->info.hop;
    steno_status st = take_hops(s);
    while (!st && !must_step(s) && s->pos < s->len) {
        size_t room = hop - (size_t)((g->from + (int64_t)g->n) % (int64_t)hop);
        size_t k = s->len - s->pos < room ? s->len - s->pos : room;
        st = append_segments(g, s->fresh + s->pos, k);
        if (st)
            break;
        s->pos += k;
        if (k == room)
            st = take_hops(s);
    }
    return st;
}

static steno_status arrive(steno_stream *s, steno_err *err)
{
    (void)s;
    (void)err;
    return STENO_OK;
}

static bool ready(const steno_stream *s)
{
    return s->in.g.due || steno_turn_watch_due(s->turn);
}

static bool undrained(const steno_stream *s)
{
    return s->pos < s->len || ready(s);
}

static double slack(const steno_stream *s)
{
    const size_t end = ending_silence(s), silent = silence(s);
    return early_runs(s) && silent < end && !steno_turn_watch_due(s->turn)
               ? (double)(end - silent) / s->model->info.sample_rate
               : 0;
}

static size_t block_segments(const steno_stream *s, size_t n)
{
    (void)s;
    return n;
}

static size_t missing_to(size_t at, size_t now)
{
    return at > now ? at - now : 0;
}

/* Samples at the model's rate until a final may be begun early, or one that is done be shown.
 * SIZE_MAX: none, or it may be now. */
static size_t missing_to_early(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    const size_t still = missing_to(g->trail, calm(s));
    size_t need = missing_to(patience(s), silence(s));
    if (g->early == STENO_EARLY_DONE)
        return missing_to(g->patience, silence(s));
    need = still > need ? still : need;
    return need && g->early == STENO_EARLY_NONE ? need : SIZE_MAX;
}

/* Samples at the model's rate until an endpoint rule or a partial makes a step due. */
static size_t missing_by_rules(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    size_t quiet = silence(s);
    size_t rule = ending_silence(s);
    size_t longest = to_samples(s, s->opt.endpoint.longest);
    size_t partial = g->partial > g->n ? g->partial - g->n : 1;
    size_t need = rule > quiet ? rule - quiet : 1, early = missing_to_early(s);
    size_t turn = steno_turn_watch_missing(s->turn, sound_at(s), seen_at(s));
    if (turn < need)
        need = turn;
    if (longest > g->n && longest - g->n < need)
        need = longest - g->n;
    if (early < need)
        need = early;
    if (missing_to(g->glance, g->n) < need)
        need = missing_to(g->glance, g->n) + !missing_to(g->glance, g->n);
    return wants_partials(s) && partial < need ? partial : need;
}

/* The same of an incremental family: with partials in between, endpoints are noticed as early. */
static size_t missing_of_incremental(const steno_stream *s)
{
    const size_t need = s->family->missing(s->state);
    const size_t rules = has_interval(s) || s->turn ? missing_by_rules(s) : need;
    return rules < need ? rules : need;
}

static size_t missing(const steno_stream *s)
{
    const struct steno_segments *g = &s->in.g;
    size_t need = to_samples(s, LISTEN);
    if (ready(s))
        return 0;
    if (is_incremental(s))
        need = g->speaking ? missing_of_incremental(s) : need;
    else if (g->whole)
        need = !wants_partials(s) ? to_samples(s, 10) : g->partial > g->n ? g->partial - g->n : 1;
    else if (g->speaking)
        need = missing_by_rules(s);
    need = need * (size_t)s->opt.sample_rate / (size_t)s->model->info.sample_rate;
    return need < 1 ? 1 : need;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void fill_item(const steno_stream *s, struct steno_step_item *item)
{
    const struct steno_segments *g = &s->in.g;
    item->pcm = g->pcm;
    item->dropped = g->dropped;
    item->n = g->final || g->early == STENO_EARLY_RUNS ? audible(s, g->n - g->keep) : g->n;
    item->goal = g->final                       ? STENO_STEP_FINAL
                 : g->early == STENO_EARLY_RUNS ? STENO_STEP_EARLY
                 : g->glancing                  ? STENO_STEP_GLANCE
                 : wants_partials(s)            ? STENO_STEP_PARTIAL
                                                : STENO_STEP_ADVANCE;
}

/* Drop samples that the family has accepted and, with endpointing, the energy rule has seen. */
static void drop_accepted(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    size_t accepted = s->family->accepted(s->state);
    size_t end = g->whole || accepted < g->seen ? accepted : g->seen, gone = end - g->dropped;
    if (2 * gone < g->n - g->dropped)
        return;
    g->dropped = end;
    memmove(g->pcm, g->pcm + gone, (g->n - g->dropped) * sizeof *g->pcm);
}

/* Drop the segment. Samples after its end stay for the next one. */
static steno_status drop_segment(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    size_t gone = g->n - g->keep;
    memmove(g->pcm, g->pcm + (gone - g->dropped), g->keep * sizeof *g->pcm);
    g->n = g->keep;
    g->seen = g->seen > gone ? g->seen - gone : 0;
    g->from += (int64_t)gone;
    g->last_end = g->from;
    g->keep = 0;
    begin_segment(s);
    return s->family->reset(s->state, STENO_RESET_UTTERANCE, NULL);
}

/* Samples of the segment at which the partial behind the one of now is due. */
static size_t next_partial(const steno_stream *s)
{
    const size_t n = is_incremental(s) ? acceptable(s) : s->in.g.n;
    const size_t every = has_interval(s) ? to_samples(s, interval(s)) : 0;
    const size_t grown = (size_t)((every ? LATE_GROWTH : GROWTH) * (double)n);
    return n + (grown > every ? grown : every);
}

/* Samples of the segment at which a glance is due, between the partial of now and the next one. */
static size_t next_glance(const steno_stream *s)
{
    const size_t now = acceptable(s), partial = s->in.g.partial;
    return has_interval(s) && s->steady && is_idle(s) && partial > now ? now + (partial - now) / 2
                                                                       : SIZE_MAX;
}

/* Partials wait as long as the last one did, and those before it. */
static void note_wait(steno_stream *s)
{
    struct steno_segments *g = &s->in.g;
    g->wait = (g->wait + (s->queued - g->queued)) / 2;
    g->queued = s->queued;
}

static steno_status finish_partial(steno_stream *s, steno_status st)
{
    struct steno_segments *g = &s->in.g;
    if (is_incremental(s))
        drop_accepted(s);
    if (g->glancing) {
        g->queued = s->queued;
        g->glance = SIZE_MAX;
    } else {
        note_wait(s);
        g->partial = next_partial(s);
        g->glance = next_glance(s);
        g->heard = false;
    }
    g->due = g->glancing = false;
    return st || s->opt.no_partials ? st : steno_results_partial(s);
}

/* The work of a final is done; its text is a partial until the segment has ended. */
static steno_status finish_early(steno_stream *s, steno_status st)
{
    struct steno_segments *g = &s->in.g;
    drop_accepted(s);
    g->queued = s->queued;
    g->early = STENO_EARLY_DONE;
    g->due = false;
    return st ? st : show_early(s);
}

/* Utterances that the family has finished inside the segment. */
static steno_status take_finals(steno_stream *s, size_t n)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_results_final(s, STENO_FINAL_ENDPOINT);
        if (!st)
            st = s->family->reset(s->state, STENO_RESET_TAKEN, NULL);
    }
    return st;
}

static steno_status finish_step(steno_stream *s, const struct steno_step_item *item)
{
    steno_status st = item->st ? item->st : take_finals(s, item->finals), dropped;
    const bool waits = s->in.g.final || has_interval(s);
    if (!st && (item->deferred || (item->more && waits)))
        return STENO_OK;
    if (s->in.g.early == STENO_EARLY_RUNS && !s->in.g.final)
        return finish_early(s, st);
    if (!s->in.g.final)
        return finish_partial(s, st);
    if (!st)
        st = steno_results_final(s, s->in.g.reason);
    if (!wants_partials(s))
        note_wait(s); /* nothing else tells of it */
    s->in.g.queued = s->queued;
    dropped = drop_segment(s);
    return st ? st : dropped;
}

/* An end comes as by silence. */
static steno_status finish_turn(steno_stream *s, bool complete)
{
    struct steno_segments *g = &s->in.g;
    if (!g->speaking || g->final)
        return STENO_OK;
    if (!complete)
        return steno_results_turn(s);
    close_segment(g, STENO_FINAL_ENDPOINT, g->n - g->seen);
    return STENO_OK;
}

/* ---- end of a run ---------------------------------------------------------------------------- */

/* All audio is in: close the open segment. Without speech only finalize gives a final. */
static void close_open(struct steno_segments *g, bool end)
{
    g->closing = true;
    if (end && !(g->speaking && g->n))
        return;
    if (!g->speaking)
        g->n = g->seen = 0;
    close_segment(g, end ? STENO_FINAL_END : STENO_FINAL_REQUEST, 0);
}

/* Move audio on until a step is due or all of it is in. */
static steno_status flush_audio(steno_stream *s, bool end, steno_err *err)
{
    struct steno_segments *g = &s->in.g;
    steno_status st = steno_stream_explain(drain(s), err);
    while (!st && !must_step(s) && !g->closing) {
        s->pos = s->len = 0;
        st = steno_resampler_flush(s->resampler, s->pending, s->cap_pending, &s->len, err);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
        if (!st && s->len)
            st = steno_stream_explain(drain(s), err);
        else if (!st)
            close_open(g, end);
    }
    return st;
}

static steno_status flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    struct steno_segments *g = &s->in.g;
    steno_status st = flush_audio(s, end, err);
    if (st || ready(s))
        return st;
    *done = true;
    g->closing = false;
    g->n = g->seen = g->dropped = 0;
    s->ended = end;
    g->from = g->last_end = 0;
    g->loud = false;
    begin_segment(s);
    if (g->vad)
        st = steno_vad_state_reset(g->vad, err);
    if (st)
        return st;
    st = s->family->reset(s->state, STENO_RESET_RECORDING, err);
    return st || end ? st : steno_stream_restart(s, err);
}

const struct steno_feeder steno_feed_segments = {.open = open_segments,
                                                 .close = close_segments,
                                                 .arrive = arrive,
                                                 .drain = drain,
                                                 .undrained = undrained,
                                                 .ready = ready,
                                                 .missing = missing,
                                                 .slack = slack,
                                                 .block = block_segments,
                                                 .fill_item = fill_item,
                                                 .finish_step = finish_step,
                                                 .finish_turn = finish_turn,
                                                 .flush = flush,
                                                 .frame_time = frame_time,
                                                 .processed = processed,
                                                 .begin = begin_segments};
