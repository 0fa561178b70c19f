/* Feeding by windows: samples -> feature frames -> window -> step -> frames of scores.
 *
 * A stream is a sequence of runs. A run begins with the stream or after a finalize, with new
 * states, features and resampler, and counts its frames from 0. Frame f of scores stands for the
 * input time base + [f, f + 1) * frame length; base is the time at which the run began. This is the
 * clock of all results.
 *
 * A run has one utterance after the other. At an endpoint only the search begins again. The network
 * keeps its states, because the speech comes from the same room (docs/models.md has the numbers).
 * Endpoint rules look at one frame at a time, so an endpoint cuts at the same frame whatever the
 * pushes were.
 *
 * A run ends with silence: zero samples follow, until the scores of every real frame and of
 * right_padding more are there. They bring out the last word. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "speech/recognizer/stream_internal.h"

#define MAX_TOKENS 65536  /* of one utterance; with more it is cut, whatever the rules say */
#define GRACE_SECONDS 1.0 /* after the longest utterance: wait for a silent frame to cut at */
#define CLEAR_SECONDS 0.08
#define LATE_SECONDS 0.5      /* streaming transducers emit up to about 0.3 s after the sound */
#define NO_SYMBOL_SECONDS 3.0 /* music or a crowd is sound without words */

static const struct steno_windows_info *info_of(const steno_stream *s)
{
    return &s->model->info.windows;
}

static int64_t hop_of(const steno_stream *s)
{
    return (int64_t)s->model->info.hop;
}

static int64_t left_padding(const steno_stream *s)
{
    return (int64_t)info_of(s)->left_padding * hop_of(s);
}

/* Samples that the zeros before a run's first frame would be: they are not audio. */
static int64_t zeros(const steno_stream *s)
{
    return (int64_t)info_of(s)->zeros * hop_of(s);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int64_t to_frames(const steno_stream *s, double seconds)
{
    const struct steno_family_info *i = &s->model->info;
    double frames = ceil(seconds * i->sample_rate / (double)i->frame_samples - 1e-9);
    return frames < 1 ? 1 : frames > 1e12 ? (int64_t)1e12 : (int64_t)frames;
}

static void set_rules(steno_stream *s)
{
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    if (s->opt.no_endpointing)
        return; /* all rules are off */
    s->in.w.rules =
        (struct steno_endpoint){.silence_alone = to_frames(s, e->silence_alone),
                                .silence_after = e->silence_after * s->model->info.sample_rate /
                                                 (double)s->model->info.frame_samples,
                                .longest = to_frames(s, e->longest),
                                .grace = to_frames(s, GRACE_SECONDS),
                                .clear = to_frames(s, CLEAR_SECONDS),
                                .late = to_frames(s, LATE_SECONDS),
                                .no_symbol = to_frames(s, NO_SYMBOL_SECONDS),
                                .marks = true};
}

static void begin_run(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    w->frames = info_of(s)->zeros;
    memset(w->window, 0, w->frames * (size_t)s->model->info.feature_bins * sizeof *w->window);
    w->fed = w->steps = 0;
    w->left_padding = left_padding(s);
    w->limit = INT64_MAX;
    w->begin = 0;
    w->first_sound = w->pause_told = -1;
}

static steno_status open_windows(steno_stream *s, steno_err *err)
{
    struct steno_windows *w = &s->in.w;
    size_t window = info_of(s)->frames * (size_t)s->model->info.feature_bins;
    steno_status st = steno_fbank_open_like(&w->fbank, info_of(s)->front, err);
    if (st)
        return st;
    w->window = steno_aligned_alloc(window * sizeof *w->window);
    if (!w->window)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    memset(w->window, 0, window * sizeof *w->window);
    begin_run(s);
    set_rules(s);
    st = s->opt.no_endpointing
             ? STENO_OK
             : steno_sound_open(&w->sound, s->opt.turn_vad, s->model->info.sample_rate, err);
    if (st)
        return st;
    return s->opt.vad ? steno_vad_filter_open(&w->vad_filter, s->opt.vad,
                                              s->model->info.sample_rate, w->left_padding, err)
                      : STENO_OK;
}

static void close_windows(steno_stream *s)
{
    steno_fbank_close(s->in.w.fbank);
    steno_vad_filter_close(s->in.w.vad_filter);
    steno_sound_close(s->in.w.sound);
    steno_aligned_free(s->in.w.window);
}

/* ---- clock ----------------------------------------------------------------------------------- */

/* The time of sample `at` of the run, at the model's rate, on the stream's clock. The left padding
 * takes no time. */
static double run_time(const steno_stream *s, double at)
{
    double t = (at - (double)left_padding(s)) / s->model->info.sample_rate;
    return (double)s->base / s->opt.sample_rate + (t > 0 ? t : 0);
}

/* At most the end of the audio, once it is known. */
static double frame_time(const steno_stream *s, int64_t frame)
{
    double end = (double)s->taken / s->opt.sample_rate;
    double t = run_time(s, (double)frame * (double)s->model->info.frame_samples);
    return s->in.w.limit != INT64_MAX && t > end ? end : t;
}

/* The end of the last window, at most the end of the audio. */
static double processed(const steno_stream *s)
{
    const struct steno_windows *w = &s->in.w;
    size_t frames = (size_t)(w->steps - 1) * info_of(s)->shift + info_of(s)->frames;
    double samples = (double)((frames - 1) * s->model->info.hop + steno_fbank_length(w->fbank));
    double t = run_time(s, samples - (double)zeros(s));
    double end = (double)s->taken / s->opt.sample_rate;
    return t > end ? end : t; /* rounding may place the last one later */
}

static double begin_windows(const steno_stream *s)
{
    const struct steno_windows *w = &s->in.w;
    return frame_time(s, w->first_sound >= 0 ? w->first_sound : w->begin);
}

/* ---- one step -------------------------------------------------------------------------------- */

static bool is_full(const steno_stream *s)
{
    return s->in.w.frames == info_of(s)->frames;
}

static bool ready(const steno_stream *s)
{
    return is_full(s) || steno_turn_watch_due(s->turn);
}

static steno_status next_utterance(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    steno_status st = s->family->reset(s->state, STENO_RESET_UTTERANCE, NULL);
    w->begin = s->family->frames(s->state);
    w->first_sound = w->pause_told = -1;
    return st;
}

/* The search is behind the audio: its frames, in samples of the run. */
static double now_at(const steno_stream *s)
{
    return (double)s->family->frames(s->state) * (double)s->model->info.frame_samples -
           (double)left_padding(s);
}

static steno_status finish_utterance(steno_stream *s, enum steno_final_reason reason)
{
    const bool told =
        s->in.w.pause_told >= 0 && s->in.w.pause_told == s->family->last_sound(s->state);
    steno_status st = s->family->finish ? s->family->finish(s->state, NULL) : STENO_OK;
    if (!st)
        st = steno_results_final(s, reason);
    if (reason != STENO_FINAL_LENGTH) /* else the speaker goes on */
        steno_turn_watch_begin(s->turn, now_at(s));
    s->results.pausing &= !told;
    return st ? st : next_utterance(s);
}

/* The end of the last sound before frame `now`, in frames of the run. */
static double sound_end(const steno_stream *s, int64_t now)
{
    const double frame = (double)s->model->info.frame_samples;
    int64_t end = -1, at = now * (int64_t)s->model->info.frame_samples - left_padding(s);
    if (s->in.w.sound)
        end = steno_sound_end(s->in.w.sound, at);
    return end < 0 ? -1 : (double)(end + left_padding(s)) / frame;
}

static void see_turn(steno_stream *s, const struct steno_endpoint_state *at)
{
    const double frame = (double)s->model->info.frame_samples;
    steno_turn_watch_see(s->turn, at->sound * frame - (double)left_padding(s), now_at(s));
}

static enum steno_ending ending_of(const steno_stream *s)
{
    return s->family->ending ? s->family->ending(s->state) : STENO_ENDING_NONE;
}

static steno_status check_endpoint(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    const struct steno_endpoint_state at = {.now = s->family->frames(s->state),
                                            .begin = w->begin,
                                            .first = w->first_sound,
                                            .last = s->family->last_sound(s->state),
                                            .sound = sound_end(s, s->family->frames(s->state)),
                                            .ending = ending_of(s)};
    if (at.now > w->limit) /* frames of the right padding are no silence of the speaker */
        return STENO_OK;
    switch (steno_endpoint_check(&w->rules, &at)) {
    case STENO_ENDPOINT_EMPTY:
        return next_utterance(s);
    case STENO_ENDPOINT_SILENCE:
    case STENO_ENDPOINT_TURN:
        return finish_utterance(s, STENO_FINAL_ENDPOINT);
    case STENO_ENDPOINT_BACKCHANNEL:
        return finish_utterance(s, STENO_FINAL_BACKCHANNEL);
    case STENO_ENDPOINT_LENGTH:
        return finish_utterance(s, STENO_FINAL_LENGTH);
    case STENO_ENDPOINT_NONE:
        break;
    }
    if (s->turn && at.first >= 0 && at.sound >= 0)
        see_turn(s, &at);
    return s->family->n_tokens(s->state) >= MAX_TOKENS ? finish_utterance(s, STENO_FINAL_LENGTH)
                                                       : STENO_OK;
}

/* Tell that no word has come for options.utterance_end. */
static steno_status check_pause(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    const int64_t now = s->family->frames(s->state), last = s->family->last_sound(s->state);
    bool done;
    steno_status st;
    if (now > w->limit)
        return STENO_OK;
    if (w->first_sound < 0)
        return steno_results_pause(s, frame_time(s, now));
    if (w->pause_told == last)
        return STENO_OK;
    st = steno_results_pause_within(s, frame_time(s, last + 1), frame_time(s, now), &done);
    if (done)
        w->pause_told = last;
    return st;
}

/* The search has consumed frames of scores: report sound, check for an endpoint. */
static steno_status after_frames(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    int64_t last = s->family->last_sound(s->state);
    if (w->first_sound < 0 && last >= w->begin) {
        bool words = true;
        steno_status st = STENO_OK;
        if (ending_of(s) != STENO_ENDING_NONE) /* it may be the only thing that the model said */
            st = steno_results_has_words(s, &words);
        if (!st && words) {
            w->first_sound = last;
            st = steno_results_start(s, false);
        }
        if (st)
            return st;
    }
    if (s->opt.utterance_end > 0) {
        steno_status st = check_pause(s);
        if (st)
            return st;
    }
    return check_endpoint(s);
}

static steno_status consume_scores(steno_stream *s)
{
    bool left = true;
    steno_status st = STENO_OK;
    while (!st && left && !steno_turn_watch_due(s->turn)) {
        st = s->family->consume(s->state, &left);
        if (!st && left)
            st = after_frames(s);
    }
    return st;
}

/* Move the window on, and let the search consume its scores. */
static steno_status slide(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    size_t bins = (size_t)s->model->info.feature_bins, shift = info_of(s)->shift;
    size_t keep = info_of(s)->frames - shift;
    steno_status st;
    memmove(w->window, w->window + shift * bins, keep * bins * sizeof *w->window);
    w->frames = keep;
    w->steps++;
    st = consume_scores(s);
    return st || s->opt.no_partials ? st : steno_results_partial(s);
}

static void fill_item(const steno_stream *s, struct steno_step_item *item)
{
    const struct steno_windows *w = &s->in.w;
    const bool last = w->flushing == STENO_FLUSH_PAD && w->steps + 1 >= w->last_step;
    item->window = w->window;
    item->goal = last ? STENO_STEP_FINAL : STENO_STEP_PARTIAL;
}

static steno_status finish_step(steno_stream *s, const struct steno_step_item *item)
{
    return item->st ? item->st : slide(s);
}

/* An end comes as by silence; then the search goes on with the scores that are left. */
static steno_status finish_turn(steno_stream *s, bool complete)
{
    steno_status st = complete ? finish_utterance(s, STENO_FINAL_ENDPOINT) : steno_results_turn(s);
    if (!st)
        st = consume_scores(s);
    return st || s->opt.no_partials ? st : steno_results_partial(s);
}

static size_t missing(const steno_stream *s)
{
    const struct steno_windows *w = &s->in.w;
    const struct steno_windows_info *i = info_of(s);
    int64_t frames = w->steps * (int64_t)i->shift + (int64_t)i->frames;
    int64_t need = (frames - 1) * hop_of(s) + (int64_t)steno_fbank_length(w->fbank) - zeros(s) -
                   w->fed - (int64_t)(s->len - s->pos) - w->left_padding;
    if (ready(s))
        return 0;
    if (w->vad_filter) /* as often as without a filter, so that speech is noticed as early */
        for (need -= (int64_t)steno_vad_filter_held(w->vad_filter); need <= 0;)
            need += (int64_t)i->shift * hop_of(s);
    /* the resampler holds a nearly constant number of samples, so it does not count */
    need = need * s->opt.sample_rate / s->model->info.sample_rate;
    return need < 1 ? 1 : (size_t)need;
}

/* ---- audio in -------------------------------------------------------------------------------- */

/* Make feature frames of samples at the model's rate, until the window is full. */
static steno_status take_samples_windows(steno_stream *s, const float *pcm, size_t n, size_t *used)
{
    struct steno_windows *w = &s->in.w;
    size_t room = info_of(s)->frames - w->frames, made = 0;
    float *to = w->window + w->frames * (size_t)s->model->info.feature_bins;
    steno_status st = steno_fbank_push(w->fbank, pcm, n, used, to, room, &made);
    if (st && st != STENO_NEED_MORE)
        return st;
    w->frames += made;
    w->fed += (int64_t)*used;
    return STENO_OK;
}

/* Whether left padding is due: it comes with the first samples of a run. */
static bool padding_waits(const steno_stream *s)
{
    return s->in.w.left_padding > 0 && s->taken > s->base;
}

static bool undrained(const steno_stream *s)
{
    const float *pcm;
    size_t n;
    return s->pos < s->len ||
           (s->in.w.vad_filter && steno_vad_filter_peek(s->in.w.vad_filter, &pcm, &n)) ||
           padding_waits(s);
}

static steno_status drain_left_padding(steno_stream *s)
{
    static const float silence[STENO_STREAM_BLOCK];
    struct steno_windows *w = &s->in.w;
    while (padding_waits(s) && !ready(s)) {
        size_t used = 0, n = w->left_padding < STENO_STREAM_BLOCK ? (size_t)w->left_padding
                                                                  : STENO_STREAM_BLOCK;
        steno_status st = take_samples_windows(s, silence, n, &used);
        if (st)
            return st;
        w->left_padding -= (int64_t)used;
    }
    return STENO_OK;
}

/* A full window without speech counts as silence, and no network runs on it. */
static steno_status skip_quiet(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    int64_t hop = hop_of(s), from = w->steps * (int64_t)info_of(s)->shift * hop - zeros(s);
    int64_t to =
        from + ((int64_t)info_of(s)->frames - 1) * hop + (int64_t)steno_fbank_length(w->fbank);
    steno_status st;
    if (!w->vad_filter || !is_full(s) || !steno_vad_filter_quiet(w->vad_filter, from, to))
        return STENO_OK;
    w->skipped += w->flushing != STENO_FLUSH_PAD; /* padding does not count as saved */
    st = s->family->skip(s->state);
    return st ? st : slide(s);
}

/* Take the samples that the VAD filter lets out, then samples that bypass it: the silence at the
 * end of a run, or all samples if there is no filter. */
static steno_status drain(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    steno_status st = drain_left_padding(s);
    const float *pcm;
    size_t n, used = 0;
    while (!st && w->vad_filter && !ready(s) && steno_vad_filter_peek(w->vad_filter, &pcm, &n)) {
        st = take_samples_windows(s, pcm, n, &used);
        steno_vad_filter_drop(w->vad_filter, used);
        if (!st)
            st = skip_quiet(s);
    }
    while (!st && s->pos < s->len && !ready(s)) {
        st = take_samples_windows(s, s->fresh + s->pos, s->len - s->pos, &used);
        s->pos += used;
        if (!st)
            st = skip_quiet(s);
    }
    return st;
}

static steno_status arrive(steno_stream *s, steno_err *err)
{
    size_t n = s->len;
    steno_status st = s->in.w.sound ? steno_sound_push(s->in.w.sound, s->fresh, n, err) : STENO_OK;
    if (st || !s->in.w.vad_filter)
        return st;
    s->len = 0;
    return steno_vad_filter_push(s->in.w.vad_filter, s->fresh, n, err);
}

/* Stop at the end of the next window, so that the frames of a step come in whole blocks: the front
 * end computes eight at once. Do not split off only a few samples. */
static size_t block_windows(const steno_stream *s, size_t n)
{
    size_t need = s->in.w.vad_filter ? STENO_STREAM_BLOCK : missing(s);
    return need >= STENO_STREAM_BLOCK / 8 && need < n ? need : n;
}

/* ---- end of a run ---------------------------------------------------------------------------- */

/* The resampler is empty: take the samples that the VAD filter held back. */
static steno_status end_vad_filter(steno_stream *s)
{
    if (!s->in.w.vad_filter)
        return STENO_OK;
    steno_vad_filter_end(s->in.w.vad_filter);
    return drain(s);
}

/* Make frames of all real audio, until a window is full or no audio is left. */
static steno_status drain_all(steno_stream *s, steno_err *err)
{
    while (!ready(s)) {
        steno_status st = steno_stream_explain(drain(s), err);
        if (st || ready(s))
            return st;
        s->pos = s->len = 0;
        st = steno_resampler_flush(s->resampler, s->pending, s->cap_pending, &s->len, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        if (!s->len)
            return steno_stream_explain(end_vad_filter(s), err);
        st = arrive(s, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* All real audio is in frames: compute how much silence must follow. */
static void begin_padding(steno_stream *s)
{
    struct steno_windows *w = &s->in.w;
    const struct steno_family_info *i = &s->model->info;
    int64_t shift = (int64_t)i->windows.shift, frame = (int64_t)(i->frame_samples / i->hop);
    int64_t frames = (w->fed + hop_of(s) - 1) / hop_of(s);
    w->flushing = STENO_FLUSH_PAD;
    w->last_step = 0;
    if (!w->fed)
        return;
    w->limit = (frames + frame - 1) / frame;
    w->last_step = (frames + (int64_t)i->windows.right_padding + shift - 1) / shift;
    memset(s->pending, 0, s->cap_pending * sizeof *s->pending);
    s->pos = s->len = 0;
}

/* Add silence until a window is full, or until enough windows were skipped. */
static steno_status pad(steno_stream *s)
{
    while (!ready(s) && s->in.w.steps < s->in.w.last_step) {
        steno_status st;
        if (s->pos == s->len) {
            s->pos = 0;
            s->len = s->cap_pending;
        }
        st = drain(s);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status restart(steno_stream *s, steno_err *err)
{
    struct steno_windows *w = &s->in.w;
    steno_status st = s->family->reset(s->state, STENO_RESET_RECORDING, err);
    if (st)
        return st;
    steno_fbank_reset(w->fbank);
    begin_run(s);
    st = w->vad_filter ? steno_vad_filter_reset(w->vad_filter, err) : STENO_OK;
    if (!st && w->sound)
        st = steno_sound_reset(w->sound, err);
    return st ? st : steno_stream_restart(s, err);
}

static steno_status finish_flush(steno_stream *s, bool end, steno_err *err)
{
    steno_status st = STENO_OK;
    s->in.w.flushing = STENO_FLUSH_NONE;
    s->pos = s->len = 0;
    if (!end) {
        st = steno_stream_explain(finish_utterance(s, STENO_FINAL_REQUEST), err);
        return st ? st : restart(s, err);
    }
    if (s->in.w.first_sound >= 0)
        st = steno_stream_explain(finish_utterance(s, STENO_FINAL_END), err);
    s->ended = true;
    return st;
}

static steno_status flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    struct steno_windows *w = &s->in.w;
    steno_status st;
    if (w->flushing == STENO_FLUSH_NONE)
        w->flushing = STENO_FLUSH_DRAIN;
    if (w->flushing == STENO_FLUSH_DRAIN) {
        st = drain_all(s, err);
        if (st || ready(s))
            return st;
        begin_padding(s);
    }
    st = steno_stream_explain(pad(s), err);
    if (st || ready(s))
        return st;
    *done = true;
    return finish_flush(s, end, err);
}

double steno_stream_skipped(const steno_stream *s)
{
    const struct steno_family_info *i = &s->model->info;
    if (i->feeding != STENO_FEED_WINDOWS)
        return 0;
    return (double)(s->in.w.skipped * (int64_t)i->windows.shift) * (double)i->hop / i->sample_rate;
}

const struct steno_feeder steno_feed_windows = {.open = open_windows,
                                                .close = close_windows,
                                                .arrive = arrive,
                                                .drain = drain,
                                                .undrained = undrained,
                                                .ready = ready,
                                                .missing = missing,
                                                .block = block_windows,
                                                .fill_item = fill_item,
                                                .finish_step = finish_step,
                                                .finish_turn = finish_turn,
                                                .flush = flush,
                                                .frame_time = frame_time,
                                                .processed = processed,
                                                .begin = begin_windows};
