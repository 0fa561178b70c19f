/* One stream: samples -> model's rate -> frames -> network -> decoder -> events.
 *
 * A stream is a row of runs; a run begins with the stream or after a finalize, with networks,
 * features and resampler fresh, and has its own frame count from 0. Frame f of a run (one row of
 * scores) stands for the input time base + [f, f + 1) * frame_seconds, base being the sample the
 * run began at: that is the one clock of all results.
 *
 * Within a run utterances follow each other. At an endpoint only the decoder starts over; the
 * network keeps its states, since speech goes on in the same room (docs/models.md has the numbers).
 * The decoder looks at one row at a time, so an endpoint cuts at the same row however audio came.
 *
 * A run ends by silence: zero samples follow until the scores of every real frame and of
 * tail_frames more have come, which brings out the last word. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/pcm.h"
#include "audio/resample.h"
#include "base/arena.h"
#include "decoder/endpoint.h"
#include "decoder/words.h"
#include "models/events.h"
#include "models/family.h"
#include "models/internal.h"

#define BLOCK 1024         /* samples that go through the front end at a time */
#define TOP_K 16           /* beam search: tokens of a frame that may extend a hypothesis */
#define MARGIN 5.0         /* beam search: odds below 1 to 150 are not followed, */
#define WIDE_MARGIN 10.0   /* or, where alternatives are asked for, below 1 to 22,000 */
#define SETTLE_SECONDS 0.8 /* beam search without alternatives: older tokens are decided */
#define MAX_TOKENS 65536   /* of one utterance: then it is cut, whatever the rules say */
#define GRACE_SECONDS 1.0  /* longest utterance: how long a silent frame to cut at is waited for */

struct steno_stream { /* of family ctc_streaming; models/family.h */
    struct steno_stream_head head;
    steno_model *model;
    struct steno_stream_options opt;
    double frame_seconds;
    /* front end */
    steno_resampler *resampler;
    steno_fbank *fbank;
    float *clean;   /* [BLOCK] input without NaN */
    float *pending; /* [cap_pending] at the model's rate, [pos, len) not yet in frames */
    size_t cap_pending, pos, len;
    float *window;               /* [window, bins] */
    size_t frames;               /* in window */
    struct steno_ctcstate state; /* the network's */
    steno_stepper *own;          /* of a stream that steps by itself; comes with its first step */
    /* decoder: one of the two */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam;
    struct steno_endpoint rules;
    struct steno_words words[STENO_MAX_BEAM]; /* [n_best] */
    struct steno_hyp hyps[STENO_MAX_BEAM];
    struct steno_word *out_words; /* what the event points to */
    size_t cap_out;
    struct steno_alternative alts[STENO_MAX_BEAM];
    struct steno_events events;
    /* clock */
    int64_t taken; /* samples of input so far */
    int64_t base;  /* ... when this run began */
    int64_t fed;   /* samples of this run at the model's rate, silence around it included */
    int64_t lead;  /* ... of silence before it, still to come */
    int64_t steps; /* of this run */
    int64_t limit; /* rows of real audio; known at the end of a run, until then INT64_MAX */
    /* utterance */
    int64_t begin, first_sound; /* rows of this run; first_sound < 0: nothing heard */
    int64_t segment;
    uint64_t shown; /* fingerprint of the last partial */
    bool failed, ended;
    /* flush */
    enum { OPEN, DRAIN, PAD } flushing;
    int64_t last_step; /* PAD: steps of this run after which it is over */
};

/* ---- opening ------------------------------------------------------------------------------- */

static steno_status check_options(const steno_model *m, struct steno_stream_options *o,
                                  steno_err *err)
{
    struct steno_endpoint_rules *e = &o->endpoint;
    if (!o->sample_rate)
        o->sample_rate = m->conf.sample_rate;
    if (o->beam < 0 || o->beam > STENO_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %d, expected 0 to %d", o->beam,
                          STENO_MAX_BEAM);
    if (o->n_best < 0 || o->n_best > STENO_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, expected 1 to %d", o->n_best,
                          STENO_MAX_BEAM);
    if (o->beam == 0)
        o->beam = m->conf.beam > o->n_best ? m->conf.beam : o->n_best > 1 ? o->n_best : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    if (o->n_best > o->beam)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                          o->beam);
    if (!isfinite(e->silence_alone) || !isfinite(e->silence_after) || !isfinite(e->longest))
        return steno_fail(err, STENO_ERR_INVAL, "endpoint rules must be finite numbers");
    if (e->silence_alone <= 0)
        e->silence_alone = m->conf.rule1_silence;
    if (e->silence_after <= 0)
        e->silence_after = m->conf.rule2_silence;
    if (e->longest <= 0)
        e->longest = m->conf.rule3_length;
    return STENO_OK;
}

static int64_t lead_samples(const steno_model *m)
{
    return m->conf.lead_frames * (int64_t)m->hop;
}

static int64_t to_rows(const steno_stream *s, double seconds)
{
    double rows = ceil(seconds / s->frame_seconds - 1e-9);
    return rows < 1 ? 1 : rows > 1e12 ? (int64_t)1e12 : (int64_t)rows;
}

static void set_rules(steno_stream *s)
{
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    if (s->opt.no_endpointing)
        return; /* all off */
    s->rules = (struct steno_endpoint){.silence_alone = to_rows(s, e->silence_alone),
                                       .silence_after = to_rows(s, e->silence_after),
                                       .longest = to_rows(s, e->longest),
                                       .grace = to_rows(s, GRACE_SECONDS)};
}

static steno_status open_front(steno_stream *s, steno_err *err)
{
    const steno_model *m = s->model;
    size_t window = (size_t)(m->ctc.window * m->ctc.bins);
    steno_status st =
        steno_resampler_open(&s->resampler, s->opt.sample_rate, m->conf.sample_rate, err);
    if (!st)
        st = steno_fbank_open(&s->fbank, &m->fbank, err);
    if (st)
        return st;
    s->cap_pending = steno_resampler_max_out(s->resampler, BLOCK);
    if (s->cap_pending < BLOCK)
        s->cap_pending = BLOCK;
    s->clean = malloc(BLOCK * sizeof *s->clean);
    s->pending = malloc(s->cap_pending * sizeof *s->pending);
    s->window = steno_aligned_alloc(window * sizeof *s->window);
    if (!s->clean || !s->pending || !s->window)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    memset(s->window, 0, window * sizeof *s->window);
    return STENO_OK;
}

static steno_status reserve_out(steno_stream *s, size_t n)
{
    size_t cap = s->cap_out ? s->cap_out : 256;
    struct steno_word *p;
    if (n <= s->cap_out)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    p = realloc(s->out_words, cap * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    s->out_words = p;
    s->cap_out = cap;
    return STENO_OK;
}

static steno_status open_decoder(steno_stream *s, steno_err *err)
{
    const steno_model *m = s->model;
    struct steno_ctc_options o = {.vocab = (int32_t)m->ctc.vocab,
                                  .blank = m->blank,
                                  .blank_penalty = (float)m->conf.blank_penalty,
                                  .beam = s->opt.beam,
                                  .top_k = TOP_K,
                                  .margin = s->opt.n_best > 1 ? WIDE_MARGIN : MARGIN,
                                  .settle = s->opt.n_best > 1 ? 0 : to_rows(s, SETTLE_SECONDS)};
    steno_status st = s->opt.beam > 1 ? steno_ctc_beam_open(&s->beam, &o, err)
                                      : steno_ctc_greedy_open(&s->greedy, &o, err);
    if (st)
        return st;
    st = steno_events_init(&s->events);
    for (int i = 0; i < s->opt.n_best; i++) {
        steno_words_init(&s->words[i]);
        if (!st)
            st = steno_words_reserve(&s->words[i], 256, 4096);
    }
    if (!st)
        st = reserve_out(s, 256 * (size_t)s->opt.n_best);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

static void close_stream(steno_stream *s);
static const struct steno_stream_ops ops;

steno_status steno_ctc_stream_open(steno_stream **out, steno_model *m,
                                   const struct steno_stream_options *opt, steno_err *err)
{
    steno_stream *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->head.ops = &ops;
    s->model = m;
    if (opt)
        s->opt = *opt;
    s->frame_seconds = (double)m->hop * m->conf.subsampling / m->conf.sample_rate;
    s->limit = INT64_MAX;
    s->first_sound = -1;
    s->lead = lead_samples(m);
    s->state.fresh = true;
    st = check_options(m, &s->opt, err);
    if (!st)
        st = open_front(s, err);
    if (!st)
        st = open_decoder(s, err);
    if (st) {
        close_stream(s);
        return st;
    }
    set_rules(s);
    *out = s;
    return STENO_OK;
}

static void close_stream(steno_stream *s)
{
    steno_resampler_close(s->resampler);
    steno_fbank_close(s->fbank);
    steno_ctcstate_free(&s->state);
    steno_stepper_close(s->own);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    for (int i = 0; i < STENO_MAX_BEAM; i++)
        steno_words_free(&s->words[i]);
    steno_events_free(&s->events);
    steno_aligned_free(s->window);
    free(s->clean);
    free(s->pending);
    free(s->out_words);
    free(s);
}

/* ---- decoder, either one ------------------------------------------------------------------- */

static steno_status decode_row(steno_stream *s, const float *row)
{
    return s->beam ? steno_ctc_beam_push(s->beam, row, 1)
                   : steno_ctc_greedy_push(s->greedy, row, 1);
}

static int64_t rows_done(const steno_stream *s)
{
    return s->beam ? steno_ctc_beam_frames(s->beam) : steno_ctc_greedy_frames(s->greedy);
}

static int64_t last_sound(const steno_stream *s)
{
    return s->beam ? steno_ctc_beam_last_sound(s->beam) : steno_ctc_greedy_last_sound(s->greedy);
}

static void decoder_reset(steno_stream *s)
{
    if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
}

/* The best n hypotheses into s->hyps; *stable tokens at the head of the first are settled. */
static steno_status best_hyps(steno_stream *s, size_t n, size_t *count, size_t *stable)
{
    if (s->beam) {
        *stable = steno_ctc_beam_stable(s->beam);
        return steno_ctc_beam_nbest(s->beam, s->hyps, n, count);
    }
    s->hyps[0] = steno_ctc_greedy_best(s->greedy);
    *count = 1;
    *stable = s->hyps[0].n; /* the best path only grows */
    return STENO_OK;
}

/* ---- events -------------------------------------------------------------------------------- */

/* Sample `at` of the run, at the model's rate, on the stream's clock: the silence before the run
 * has no time of its own. */
static double run_time(const steno_stream *s, double at)
{
    double t = (at - (double)lead_samples(s->model)) / s->model->conf.sample_rate;
    return (double)s->base / s->opt.sample_rate + (t > 0 ? t : 0);
}

/* Seconds of row f's beginning, not past the audio there is. */
static double row_time(const steno_stream *s, int64_t f)
{
    const steno_model *m = s->model;
    double end = (double)s->taken / s->opt.sample_rate;
    double t = run_time(s, (double)f * (double)m->hop * m->conf.subsampling);
    return s->limit != INT64_MAX && t > end ? end : t;
}

/* Audio that the step just done had seen: to the end of its last window. */
static double step_time(const steno_stream *s)
{
    const steno_model *m = s->model;
    size_t frames = (size_t)((s->steps - 1) * m->ctc.shift + m->ctc.window);
    double samples = (double)((frames - 1) * m->hop + steno_fbank_length(s->fbank));
    double t = run_time(s, samples);
    double end = (double)s->taken / s->opt.sample_rate;
    return t > end ? end : t; /* the last one may round up */
}

/* Give word i its reach around its rows: word_before and word_after of model.conf, less where the
 * neighbour is nearer than both together: there they meet, each with its share of the gap. */
static void place_word(const steno_stream *s, const struct steno_words *w, size_t i,
                       struct steno_word *out)
{
    double before = s->model->conf.word_before, after = s->model->conf.word_after;
    double start = row_time(s, w->w[i].first), end = row_time(s, w->w[i].last + 1);
    double low = (double)s->base / s->opt.sample_rate, high = step_time(s);
    if (before + after > 0) {
        double share = before / (before + after);
        if (i > 0) {
            double gap = start - row_time(s, w->w[i - 1].last + 1);
            low = start - gap * share;
        }
        if (i + 1 < w->n) {
            double gap = row_time(s, w->w[i + 1].first) - end;
            high = end + gap * (1 - share);
        }
    }
    out->start = fmin(start, fmax(start - before, low));
    out->end = fmax(end, fmin(end + after, high));
}

static void fill_words(const steno_stream *s, const struct steno_words *w, struct steno_word *out)
{
    for (size_t i = 0; i < w->n; i++) {
        out[i] = (struct steno_word){.text = w->words.data + w->w[i].text,
                                     .confidence = w->w[i].confidence};
        place_word(s, w, i, &out[i]);
    }
}

static const char *line_of(const struct steno_words *w)
{
    return w->line.data ? w->line.data : "";
}

static void fill_event(const steno_stream *s, struct steno_event *ev)
{
    const struct steno_words *w = &s->words[0];
    ev->segment = s->segment;
    ev->time = step_time(s);
    ev->text = line_of(w);
    ev->stable_words = w->stable_words;
    ev->stable_bytes = w->stable_bytes;
    ev->confidence = w->confidence;
    ev->n_words = w->n;
    ev->words = s->out_words;
    ev->start =
        w->n ? s->out_words[0].start : row_time(s, s->first_sound >= 0 ? s->first_sound : s->begin);
    ev->end = w->n ? s->out_words[w->n - 1].end : ev->start;
}

static uint64_t fingerprint(const char *text, size_t stable)
{
    uint64_t h = 14695981039346656037u ^ stable; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static steno_status emit_start(steno_stream *s)
{
    struct steno_event ev = {.kind = STENO_SPEECH_START,
                             .segment = s->segment,
                             .time = step_time(s),
                             .start = row_time(s, s->first_sound),
                             .end = row_time(s, s->first_sound),
                             .text = ""};
    return steno_events_add(&s->events, &ev);
}

static steno_status emit_partial(steno_stream *s)
{
    struct steno_event ev = {.kind = STENO_PARTIAL};
    struct steno_words *w = &s->words[0];
    size_t n, stable;
    uint64_t print;
    steno_status st = best_hyps(s, 1, &n, &stable);
    if (!st)
        st = steno_words_build(w, s->model->tokens, s->hyps[0].spans, s->hyps[0].n, stable);
    if (!st)
        st = reserve_out(s, w->n);
    if (st)
        return st;
    print = fingerprint(line_of(w), w->stable_bytes);
    if (print == s->shown || (!w->n && !s->shown))
        return STENO_OK;
    s->shown = print;
    fill_words(s, w, s->out_words);
    fill_event(s, &ev);
    return steno_events_add(&s->events, &ev);
}

/* Words of hypothesis i; false when an earlier one has the same text (another way to spell it in
 * pieces). */
static steno_status build_alternative(steno_stream *s, size_t i, size_t *n_alts, size_t *n_words)
{
    struct steno_words *w = &s->words[*n_alts];
    steno_status st =
        steno_words_build(w, s->model->tokens, s->hyps[i].spans, s->hyps[i].n, s->hyps[i].n);
    if (st)
        return st;
    for (size_t k = 0; k < *n_alts; k++)
        if (strcmp(line_of(&s->words[k]), line_of(w)) == 0)
            return STENO_OK;
    s->alts[*n_alts] = (struct steno_alternative){
        .confidence = w->confidence, .score = s->hyps[i].score, .n_words = w->n};
    ++*n_alts;
    *n_words += w->n;
    return STENO_OK;
}

static steno_status build_alternatives(steno_stream *s, size_t *n_alts)
{
    size_t n, stable, n_words = 0, at = 0;
    steno_status st = best_hyps(s, (size_t)s->opt.n_best, &n, &stable);
    *n_alts = 0;
    for (size_t i = 0; i < n && !st; i++)
        st = build_alternative(s, i, n_alts, &n_words);
    if (!st)
        st = reserve_out(s, n_words);
    if (st)
        return st;
    for (size_t i = 0; i < *n_alts; i++) {
        s->alts[i].text = line_of(&s->words[i]);
        s->alts[i].words = s->out_words + at;
        fill_words(s, &s->words[i], s->out_words + at);
        at += s->words[i].n;
    }
    return STENO_OK;
}

static void next_utterance(steno_stream *s)
{
    decoder_reset(s);
    s->begin = rows_done(s);
    s->first_sound = -1;
    s->shown = 0;
}

static steno_status emit_final(steno_stream *s, enum steno_final_reason reason)
{
    struct steno_event ev = {.kind = STENO_FINAL, .reason = reason};
    steno_status st = build_alternatives(s, &ev.n_alternatives);
    if (st)
        return st;
    fill_event(s, &ev);
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(ev.text);
    ev.alternatives = s->alts;
    st = steno_events_add(&s->events, &ev);
    if (st)
        return st;
    s->segment++;
    next_utterance(s);
    return STENO_OK;
}

/* ---- one step ------------------------------------------------------------------------------ */

static size_t tokens_of(const steno_stream *s)
{
    return s->beam ? steno_ctc_beam_stable(s->beam) : steno_ctc_greedy_best(s->greedy).n;
}

static steno_status check_endpoint(steno_stream *s)
{
    int64_t now = rows_done(s);
    if (now > s->limit) /* the silence behind the end of the audio is ours, not the speaker's */
        return STENO_OK;
    switch (steno_endpoint_check(&s->rules, now, s->begin, s->first_sound, last_sound(s))) {
    case STENO_ENDPOINT_EMPTY:
        next_utterance(s);
        return STENO_OK;
    case STENO_ENDPOINT_SILENCE:
        return emit_final(s, STENO_FINAL_ENDPOINT);
    case STENO_ENDPOINT_LENGTH:
        return emit_final(s, STENO_FINAL_LENGTH);
    case STENO_ENDPOINT_NONE:
        break;
    }
    return tokens_of(s) >= MAX_TOKENS ? emit_final(s, STENO_FINAL_LENGTH) : STENO_OK;
}

static steno_status take_row(steno_stream *s, const float *row)
{
    steno_status st = decode_row(s, row);
    if (st)
        return st;
    if (s->first_sound < 0 && last_sound(s) >= s->begin) {
        s->first_sound = last_sound(s);
        st = emit_start(s);
        if (st)
            return st;
    }
    return check_endpoint(s);
}

static steno_status fail_stream(steno_stream *s, steno_status st)
{
    s->failed = true;
    return st;
}

struct steno_ctcstate *steno_stream_hand_over(steno_stream *s, float *x)
{
    const struct steno_ctcnet *n = &s->model->ctc;
    memcpy(x, s->window, (size_t)(n->window * n->bins) * sizeof *x);
    return &s->state;
}

steno_status steno_stream_take(steno_stream *s, steno_status st, const float *scores,
                               steno_err *err)
{
    const struct steno_ctcnet *n = &s->model->ctc;
    size_t keep = (size_t)(n->window - n->shift), bins = (size_t)n->bins;
    if (st)
        return fail_stream(s, st);
    memmove(s->window, s->window + (size_t)n->shift * bins, keep * bins * sizeof *s->window);
    s->frames = keep;
    s->steps++;
    for (int64_t t = 0; t < n->rows && !st; t++)
        st = take_row(s, scores + t * n->vocab);
    if (!st && !s->opt.no_partials)
        st = emit_partial(s);
    if (st)
        return fail_stream(s, steno_fail(err, st, "stream: %s", steno_status_info(st)->name));
    return STENO_OK;
}

static steno_status step_alone(steno_stream *s, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!s->own)
        st = steno_stepper_open(&s->own, s->model, 1, err);
    if (st)
        return fail_stream(s, st);
    steno_streams_step(s->own, &s, 1, &st, err);
    return st;
}

static bool ready(const steno_stream *s)
{
    return s->frames == (size_t)s->model->ctc.window;
}

static size_t missing(const steno_stream *s)
{
    const steno_model *m = s->model;
    int64_t frames = s->steps * m->ctc.shift + m->ctc.window;
    int64_t need = (frames - 1) * (int64_t)m->hop + (int64_t)steno_fbank_length(s->fbank) - s->fed -
                   (int64_t)(s->len - s->pos) - s->lead;
    if (ready(s))
        return 0;
    /* what waits inside the resampler is about constant, so it does not count */
    need = need * s->opt.sample_rate / m->conf.sample_rate;
    return need < 1 ? 1 : (size_t)need;
}

static void step_all(steno_stream *const *s, size_t n, steno_status *st, steno_err *err)
{
    for (size_t i = 0; i < n; i++)
        st[i] = step_alone(s[i], err ? &err[i] : NULL);
}

/* ---- audio in ------------------------------------------------------------------------------ */

/* Samples at the model's rate -> frames, until the window is full. */
static steno_status take_samples(steno_stream *s, const float *pcm, size_t n, size_t *used)
{
    size_t room = (size_t)s->model->ctc.window - s->frames, made = 0;
    steno_status st = steno_fbank_push(
        s->fbank, pcm, n, used, s->window + s->frames * (size_t)s->model->ctc.bins, room, &made);
    if (st && st != STENO_NEED_MORE)
        return st;
    s->frames += made;
    s->fed += (int64_t)*used;
    return STENO_OK;
}

/* Something waits to become frames. The silence before a run comes with its first samples. */
static bool undrained(const steno_stream *s)
{
    return s->pos < s->len || (s->lead > 0 && s->taken > s->base);
}

static steno_status drain_lead(steno_stream *s)
{
    static const float silence[BLOCK];
    while (s->lead > 0 && s->taken > s->base && !ready(s)) {
        size_t used = 0;
        steno_status st =
            take_samples(s, silence, s->lead < BLOCK ? (size_t)s->lead : BLOCK, &used);
        if (st)
            return st;
        s->lead -= (int64_t)used;
    }
    return STENO_OK;
}

static steno_status drain_pending(steno_stream *s)
{
    steno_status lead = drain_lead(s);
    if (lead)
        return lead;
    while (s->pos < s->len && !ready(s)) {
        size_t used = 0;
        steno_status st = take_samples(s, s->pending + s->pos, s->len - s->pos, &used);
        if (st)
            return st;
        s->pos += used;
    }
    return STENO_OK;
}

static steno_status resample_block(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                   steno_err *err)
{
    steno_status st;
    n = n < BLOCK ? n : BLOCK;
    steno_pcm_clean(pcm, n, s->clean);
    s->pos = s->len = 0;
    st = steno_resampler_push(s->resampler, s->clean, n, used, s->pending, s->cap_pending, &s->len,
                              err);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status check_open(const steno_stream *s, steno_err *err)
{
    if (s->failed)
        return steno_fail(err, STENO_ERR_INVAL, "stream has failed before");
    if (s->ended)
        return steno_fail(err, STENO_ERR_INVAL, "stream has ended");
    return STENO_OK;
}

static steno_status feed(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err)
{
    steno_status st = check_open(s, err);
    *used = 0;
    if (st)
        return st;
    st = drain_pending(s);
    while (!st && *used < n && !ready(s)) {
        size_t k = 0;
        st = resample_block(s, pcm + *used, n - *used, &k, err);
        if (st)
            break;
        *used += k;
        s->taken += (int64_t)k;
        st = drain_pending(s);
    }
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status push(steno_stream *s, const float *pcm, size_t n, steno_err *err)
{
    size_t at = 0;
    do {
        size_t used;
        steno_status st = feed(s, pcm + at, n - at, &used, err);
        if (!st && ready(s))
            st = step_alone(s, err);
        if (st)
            return st;
        at += used;
    } while (at < n || undrained(s));
    return STENO_OK;
}

/* ---- end of a run -------------------------------------------------------------------------- */

/* What the front end holds becomes frames, until a window is full or nothing is left. */
static steno_status drain_all(steno_stream *s, steno_err *err)
{
    while (!ready(s)) {
        steno_status st = drain_pending(s);
        if (st || ready(s))
            return st;
        s->pos = s->len = 0;
        st = steno_resampler_flush(s->resampler, s->pending, s->cap_pending, &s->len, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        if (!s->len)
            return STENO_OK;
    }
    return STENO_OK;
}

/* All real audio is in frames: how much silence must follow. */
static void begin_padding(steno_stream *s)
{
    const struct steno_model *m = s->model;
    int64_t shift = m->ctc.shift, frames = (s->fed + (int64_t)m->hop - 1) / (int64_t)m->hop;
    s->flushing = PAD;
    s->last_step = 0;
    if (!s->fed)
        return;
    s->limit = (frames + m->conf.subsampling - 1) / m->conf.subsampling;
    s->last_step = (frames + m->conf.tail_frames + shift - 1) / shift;
    memset(s->pending, 0, s->cap_pending * sizeof *s->pending);
    s->pos = s->len = 0;
}

/* Silence, until a window is full. */
static steno_status pad(steno_stream *s)
{
    while (!ready(s)) {
        steno_status st;
        if (s->pos == s->len) {
            s->pos = 0;
            s->len = s->cap_pending;
        }
        st = drain_pending(s);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status restart(steno_stream *s, steno_err *err)
{
    steno_fbank_reset(s->fbank);
    s->state.fresh = true;
    if (s->beam)
        steno_ctc_beam_restart(s->beam, 0);
    else
        steno_ctc_greedy_restart(s->greedy, 0);
    s->frames = s->pos = s->len = 0;
    s->base = s->taken;
    s->fed = s->steps = 0;
    s->lead = lead_samples(s->model);
    s->limit = INT64_MAX;
    s->begin = 0;
    s->first_sound = -1;
    s->shown = 0;
    return steno_resampler_reset(s->resampler, err);
}

static steno_status finish_flush(steno_stream *s, bool end, steno_err *err)
{
    steno_status st = STENO_OK;
    s->flushing = OPEN;
    s->pos = s->len = 0;
    if (!end) {
        st = emit_final(s, STENO_FINAL_REQUEST);
        return st ? st : restart(s, err);
    }
    if (s->first_sound >= 0)
        st = emit_final(s, STENO_FINAL_END);
    s->ended = true;
    return st;
}

static steno_status flush_on(steno_stream *s, bool end, bool *done, steno_err *err)
{
    steno_status st;
    if (s->flushing == OPEN)
        s->flushing = DRAIN;
    if (s->flushing == DRAIN) {
        st = drain_all(s, err);
        if (st || ready(s))
            return st;
        begin_padding(s);
    }
    if (s->steps < s->last_step)
        return pad(s);
    *done = true;
    return finish_flush(s, end, err);
}

static steno_status flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    steno_status st = check_open(s, err);
    *done = false;
    if (st)
        return st;
    st = flush_on(s, end, done, err);
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status flush_alone(steno_stream *s, bool end, steno_err *err)
{
    bool done = false;
    steno_status st = STENO_OK;
    while (!st && !done) {
        st = flush(s, end, &done, err);
        if (!st && !done)
            st = step_alone(s, err);
    }
    return st;
}

static steno_status finalize(steno_stream *s, steno_err *err)
{
    return flush_alone(s, false, err);
}

static steno_status end_stream(steno_stream *s, steno_err *err)
{
    return flush_alone(s, true, err);
}

static bool next_event(steno_stream *s, struct steno_event *ev)
{
    return steno_events_next(&s->events, ev);
}

static int64_t samples(const steno_stream *s)
{
    return s->taken;
}

static const struct steno_stream_ops ops = {.close = close_stream,
                                            .feed = feed,
                                            .ready = ready,
                                            .missing = missing,
                                            .flush = flush,
                                            .step = step_all,
                                            .push = push,
                                            .finalize = finalize,
                                            .end = end_stream,
                                            .next = next_event,
                                            .samples = samples};
