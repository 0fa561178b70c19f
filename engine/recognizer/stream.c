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
#include "base/arena.h"
#include "recognizer/stream_internal.h"

/* Memory of a stream is small at first and grows with what is said: most say little. */
#define FIRST_WORDS 16     /* of an utterance */
#define FIRST_TEXT 100     /* bytes of it */
#define BLOCK 640          /* samples that go through the front end at a time */
#define TOP_K 16           /* beam search: tokens of a frame that may extend a hypothesis */
#define MARGIN 5.0         /* beam search: odds below 1 to 150 are not followed, */
#define WIDE_MARGIN 10.0   /* or, where alternatives are asked for, below 1 to 22,000 */
#define COMMIT_SECONDS 0.8 /* beam search without alternatives: older tokens are decided */
#define MAX_TOKENS 65536   /* of one utterance: then it is cut, whatever the rules say */
#define UNHEARD -30.0F     /* log-probability of every token in a window that is passed over */
#define GRACE_SECONDS 1.0  /* longest utterance: how long a silent frame to cut at is waited for */

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
        st = steno_fbank_open_like(&s->fbank, m->front, err);
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

/* Scores that say: nothing. */
static steno_status open_vad_filter(steno_stream *s, steno_err *err)
{
    const struct steno_ctc_network *n = &s->model->ctc;
    size_t scores = (size_t)(n->rows * n->vocab);
    if (!s->opt.vad)
        return STENO_OK;
    s->quiet = malloc(scores * sizeof *s->quiet);
    if (!s->quiet)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t i = 0; i < scores; i++)
        s->quiet[i] = (int64_t)i % n->vocab == s->model->blank ? 0 : UNHEARD;
    return steno_vad_filter_open(&s->vad_filter, s->opt.vad, s->model->conf.sample_rate,
                                 s->left_padding, err);
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
                                  .commit_delay =
                                      s->opt.n_best > 1 ? 0 : to_rows(s, COMMIT_SECONDS)};
    steno_status st = s->opt.beam > 1 ? steno_ctc_beam_open(&s->beam, &o, err)
                                      : steno_ctc_greedy_open(&s->greedy, &o, err);
    if (st)
        return st;
    st = steno_events_init(&s->events);
    s->words = calloc((size_t)s->opt.n_best, sizeof *s->words);
    s->hyps = calloc((size_t)s->opt.n_best, sizeof *s->hyps);
    s->alts = calloc((size_t)s->opt.n_best, sizeof *s->alts);
    if (!s->words || !s->hyps || !s->alts)
        st = STENO_ERR_NOMEM;
    for (int i = 0; s->words && i < s->opt.n_best; i++) {
        steno_words_init(&s->words[i]);
        if (!st)
            st = steno_words_reserve(&s->words[i], FIRST_WORDS, FIRST_TEXT);
    }
    if (!st)
        st = steno_event_words_reserve(&s->out, FIRST_WORDS * (size_t)s->opt.n_best, FIRST_WORDS);
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
    s->left_padding = steno_ctc_stream_left_padding(m);
    s->state.fresh = true;
    st = check_options(m, &s->opt, err);
    if (!st)
        st = open_front(s, err);
    if (!st)
        st = open_vad_filter(s, err);
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
    steno_vad_filter_close(s->vad_filter);
    free(s->quiet);
    steno_ctc_state_free(&s->state);
    steno_stepper_close(s->own);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    for (int i = 0; s->words && i < s->opt.n_best; i++)
        steno_words_free(&s->words[i]);
    free(s->words);
    free(s->hyps);
    free(s->alts);
    steno_events_free(&s->events);
    steno_aligned_free(s->window);
    free(s->clean);
    free(s->pending);
    free(s->out.w);
    free(s);
}

/* ---- one step ------------------------------------------------------------------------------ */

static size_t tokens_of(const steno_stream *s)
{
    return s->beam ? steno_ctc_beam_stable(s->beam) : steno_ctc_greedy_best(s->greedy).n;
}

static steno_status check_endpoint(steno_stream *s)
{
    int64_t now = steno_ctc_stream_rows(s);
    if (now > s->limit) /* the silence behind the end of the audio is ours, not the speaker's */
        return STENO_OK;
    switch (steno_endpoint_check(&s->rules, now, s->begin, s->first_sound,
                                 steno_ctc_stream_last_sound(s))) {
    case STENO_ENDPOINT_EMPTY:
        steno_ctc_stream_next_utterance(s);
        return STENO_OK;
    case STENO_ENDPOINT_SILENCE:
        return steno_ctc_stream_emit_final(s, STENO_FINAL_ENDPOINT);
    case STENO_ENDPOINT_LENGTH:
        return steno_ctc_stream_emit_final(s, STENO_FINAL_LENGTH);
    case STENO_ENDPOINT_NONE:
        break;
    }
    return tokens_of(s) >= MAX_TOKENS ? steno_ctc_stream_emit_final(s, STENO_FINAL_LENGTH)
                                      : STENO_OK;
}

static steno_status take_row(steno_stream *s, const float *row)
{
    steno_status st = steno_ctc_stream_decode(s, row);
    if (st)
        return st;
    if (s->first_sound < 0 && steno_ctc_stream_last_sound(s) >= s->begin) {
        s->first_sound = steno_ctc_stream_last_sound(s);
        st = steno_ctc_stream_emit_start(s);
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

struct steno_ctc_state *steno_stream_fill_input(steno_stream *s, float *x)
{
    const struct steno_ctc_network *n = &s->model->ctc;
    memcpy(x, s->window, (size_t)(n->window * n->bins) * sizeof *x);
    return &s->state;
}

steno_status steno_stream_consume_output(steno_stream *s, steno_status st, const float *scores,
                                         steno_err *err)
{
    const struct steno_ctc_network *n = &s->model->ctc;
    size_t keep = (size_t)(n->window - n->shift), bins = (size_t)n->bins;
    if (st)
        return fail_stream(s, st);
    memmove(s->window, s->window + (size_t)n->shift * bins, keep * bins * sizeof *s->window);
    s->frames = keep;
    s->steps++;
    for (int64_t t = 0; t < n->rows && !st; t++)
        st = take_row(s, scores + t * n->vocab);
    if (!st && !s->opt.no_partials)
        st = steno_ctc_stream_emit_partial(s);
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
                   (int64_t)(s->len - s->pos) - s->left_padding;
    if (ready(s))
        return 0;
    if (s->vad_filter) /* asked as often as without it, so that speech is noticed as early */
        for (need -= (int64_t)steno_vad_filter_held(s->vad_filter); need <= 0;)
            need += m->ctc.shift * (int64_t)m->hop;
    /* what waits inside the resampler is about constant, so it does not count */
    need = need * s->opt.sample_rate / m->conf.sample_rate;
    return need < 1 ? 1 : (size_t)need;
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
    const float *pcm;
    size_t n;
    return s->pos < s->len || (s->vad_filter && steno_vad_filter_peek(s->vad_filter, &pcm, &n)) ||
           (s->left_padding > 0 && s->taken > s->base);
}

static steno_status drain_left_padding(steno_stream *s)
{
    static const float silence[BLOCK];
    while (s->left_padding > 0 && s->taken > s->base && !ready(s)) {
        size_t used = 0;
        steno_status st = take_samples(
            s, silence, s->left_padding < BLOCK ? (size_t)s->left_padding : BLOCK, &used);
        if (st)
            return st;
        s->left_padding -= (int64_t)used;
    }
    return STENO_OK;
}

/* A full window in which nobody speaks is heard as nothing. */
static steno_status skip_quiet(steno_stream *s)
{
    const steno_model *m = s->model;
    int64_t hop = (int64_t)m->hop, from = s->steps * m->ctc.shift * hop;
    int64_t to = from + (m->ctc.window - 1) * hop + (int64_t)steno_fbank_length(s->fbank);
    if (!s->vad_filter || !ready(s) || !steno_vad_filter_quiet(s->vad_filter, from, to))
        return STENO_OK;
    s->skipped += s->flushing != PAD; /* silence of ours is nothing saved */
    return steno_stream_consume_output(s, STENO_OK, s->quiet, NULL);
}

/* What the gate lets out, then what stands behind it: the silence at the end of a run. */
static steno_status drain_pending(steno_stream *s)
{
    steno_status st = drain_left_padding(s);
    const float *pcm;
    size_t n, used = 0;
    while (!st && s->vad_filter && !ready(s) && steno_vad_filter_peek(s->vad_filter, &pcm, &n)) {
        st = take_samples(s, pcm, n, &used);
        steno_vad_filter_drop(s->vad_filter, used);
        if (!st)
            st = skip_quiet(s);
    }
    while (!st && s->pos < s->len && !ready(s)) {
        st = take_samples(s, s->pending + s->pos, s->len - s->pos, &used);
        s->pos += used;
        if (!st)
            st = skip_quiet(s);
    }
    return st;
}

/* Samples just resampled, into the gate if there is one. */
static steno_status through_vad_filter(steno_stream *s, steno_err *err)
{
    size_t n = s->len;
    if (!s->vad_filter)
        return STENO_OK;
    s->len = 0;
    return steno_vad_filter_push(s->vad_filter, s->pending, n, err);
}

/* Samples of n to take at once: not past the window that fills next, so that a step's frames come
 * in whole blocks (the front end computes eight at a time). A few samples are no block. */
static size_t block_of(const steno_stream *s, size_t n)
{
    size_t need = s->vad_filter ? BLOCK : missing(s);
    n = n < BLOCK ? n : BLOCK;
    return need >= BLOCK / 8 && need < n ? need : n;
}

static steno_status resample_block(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                   steno_err *err)
{
    steno_status st;
    n = block_of(s, n);
    steno_pcm_clean(pcm, n, s->clean);
    s->pos = s->len = 0;
    st = steno_resampler_push(s->resampler, s->clean, n, used, s->pending, s->cap_pending, &s->len,
                              err);
    return st && st != STENO_NEED_MORE ? st : through_vad_filter(s, err);
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

/* The resampler is empty: what the gate held back follows. */
static steno_status let_out(steno_stream *s)
{
    if (!s->vad_filter)
        return STENO_OK;
    steno_vad_filter_end(s->vad_filter);
    return drain_pending(s);
}

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
            return let_out(s);
        st = through_vad_filter(s, err);
        if (st)
            return st;
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

/* Silence, until a window is full or, where windows are passed over, enough of them are. */
static steno_status pad(steno_stream *s)
{
    while (!ready(s) && s->steps < s->last_step) {
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
    s->left_padding = steno_ctc_stream_left_padding(s->model);
    s->limit = INT64_MAX;
    s->begin = 0;
    s->first_sound = -1;
    s->shown = 0;
    if (s->vad_filter) {
        steno_status st = steno_vad_filter_reset(s->vad_filter, err);
        if (st)
            return st;
    }
    return steno_resampler_reset(s->resampler, err);
}

static steno_status finish_flush(steno_stream *s, bool end, steno_err *err)
{
    steno_status st = STENO_OK;
    s->flushing = OPEN;
    s->pos = s->len = 0;
    if (!end) {
        st = steno_ctc_stream_emit_final(s, STENO_FINAL_REQUEST);
        return st ? st : restart(s, err);
    }
    if (s->first_sound >= 0)
        st = steno_ctc_stream_emit_final(s, STENO_FINAL_END);
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
    st = pad(s);
    if (st || ready(s))
        return st;
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

static double skipped(const steno_stream *s)
{
    const steno_model *m = s->model;
    return (double)(s->skipped * m->ctc.shift) * (double)m->hop / m->conf.sample_rate;
}

static const struct steno_stream_ops ops = {.close = close_stream,
                                            .feed = feed,
                                            .ready = ready,
                                            .missing = missing,
                                            .flush = flush,
                                            .push = push,
                                            .finalize = finalize,
                                            .end = end_stream,
                                            .next = next_event,
                                            .samples = samples,
                                            .skipped = skipped};
