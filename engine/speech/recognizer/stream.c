/* One stream: samples -> resampling to the model's rate -> feeding of the family (windows.c,
 * segments.c) -> steps -> events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/pcm.h"
#include "speech/families/option.h"
#include "speech/recognizer/aligned.h"
#include "speech/recognizer/stream_internal.h"
#include "speech/recognizer/vad.h"

struct steno_stream_options steno_stream_options_default(void)
{
    return (struct steno_stream_options){0};
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status check_count(const char *name, int value, int low, steno_err *err)
{
    if (value >= (low < 0 ? low : 0) && value <= STENO_MAX_BEAM)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "%s is %d, expected %d to %d", name, value, low,
                      STENO_MAX_BEAM);
}

static enum steno_when option_when(const steno_stream *s, const char *name)
{
    bool on = false;
    if (!steno_option_get_flag(s->opt.options, s->opt.n_options, name, &on))
        return STENO_WHEN_AUTO;
    return on ? STENO_WHEN_ON : STENO_WHEN_OFF;
}

/* Whether finals are rewritten by a grammar and a punctuation network, and partials calmed. */
static steno_status choose_writing(steno_stream *s, steno_err *err)
{
    const steno_model *m = s->model;
    s->itn = option_when(s, STENO_OPTION_ITN);
    s->itn_digits = option_when(s, STENO_OPTION_ITN_DIGITS) == STENO_WHEN_ON;
    s->punctuation = option_when(s, STENO_OPTION_PUNCTUATION);
    s->steady = option_when(s, STENO_OPTION_STABILIZE) != STENO_WHEN_OFF;
    if (s->itn == STENO_WHEN_ON && !m->grammars.n &&
        !steno_options_family_has(s->family, STENO_OPTION_ITN))
        return steno_fail(
            err, STENO_ERR_INVAL,
            "itn: there is no grammar for this model (docs/itn.md says where one may lie)");
    if (s->itn_digits && (!m->grammars.n || s->itn == STENO_WHEN_OFF))
        return steno_fail(err, STENO_ERR_INVAL,
                          "itn_digits: needs a grammar for this model, and itn");
    if (s->punctuation == STENO_WHEN_ON && !m->punctuators.n && !m->writes_marks)
        return steno_fail(err, STENO_ERR_INVAL,
                          "punctuation: there is no network for this model (docs/punctuation.md "
                          "says where one may lie)");
    return STENO_OK;
}

static steno_status check_options(steno_stream *s, steno_err *err)
{
    const struct steno_family_info *i = &s->model->info;
    struct steno_endpoint_rules *e = &s->opt.endpoint;
    steno_status st = check_count("beam", s->opt.beam, -STENO_MAX_BEAM, err);
    if (!st)
        st = check_count("n_best", s->opt.n_best, 1, err);
    if (st)
        return st;
    if (!s->opt.sample_rate)
        s->opt.sample_rate = i->sample_rate;
    if (!isfinite(e->silence_alone) || !isfinite(e->silence_after) || !isfinite(e->longest))
        return steno_fail(err, STENO_ERR_INVAL, "endpoint rules must be finite numbers");
    if (!isfinite(s->opt.utterance_end) || s->opt.utterance_end < 0)
        return steno_fail(err, STENO_ERR_INVAL, "utterance_end: %g is not a number of at least 0",
                          s->opt.utterance_end);
    if (e->silence_alone <= 0)
        e->silence_alone = i->endpoint.silence_alone;
    if (e->silence_after <= 0)
        e->silence_after = i->endpoint.silence_after;
    if (e->longest <= 0)
        e->longest = i->endpoint.longest;
    s->asked = s->opt.hints.language;
    st = steno_hints_resolve(s->model, &s->opt.hints, err);
    if (!st && s->opt.hints.language)
        s->given = steno_language_code(s->opt.hints.language);
    if (!st)
        st = steno_options_check(s->family, s->opt.options, s->opt.n_options, err);
    return st ? st : choose_writing(s, err);
}

static steno_status open_audio(steno_stream *s, steno_err *err)
{
    steno_status st =
        steno_resampler_open(&s->resampler, s->opt.sample_rate, s->model->info.sample_rate, err);
    if (st)
        return st;
    s->cap_pending = steno_resampler_max_out(s->resampler, STENO_STREAM_BLOCK);
    if (s->cap_pending < STENO_STREAM_BLOCK)
        s->cap_pending = STENO_STREAM_BLOCK;
    s->fresh = s->pending = malloc(s->cap_pending * sizeof *s->pending);
    if (s->opt.sample_rate == s->model->info.sample_rate)
        s->clean = s->pending;
    else
        s->clean = malloc(STENO_STREAM_BLOCK * sizeof *s->clean);
    return s->clean && s->pending ? STENO_OK
                                  : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

/* ---- the VAD, as families see it ------------------------------------------------------------- */

static void close_speech(void *state)
{
    steno_vad_state_close(state);
}

static steno_status open_speech(void **state, const void *vad, int rate, steno_err *err)
{
    steno_vad_state *v;
    steno_status st = steno_vad_state_open(&v, vad ? vad : &steno_vad_energy, rate, err);
    if (!st)
        *state = v;
    return st;
}

static steno_status push_speech(void *state, const float *pcm, size_t n, size_t *used, bool *speech,
                                steno_err *err)
{
    return steno_vad_state_push(state, pcm, n, used, speech, err);
}

static int64_t classified(const void *state)
{
    return steno_vad_state_classified(state);
}

/* Open the family's state, and make room for its hypotheses. */
static steno_status open_state(steno_stream *s, const char *vocabulary, steno_err *err)
{
    const struct steno_speech_source speech = {s->opt.vad, open_speech, close_speech, push_speech,
                                               classified};
    struct steno_family_stream o = {.beam = s->opt.beam,
                                    .speech = &speech,
                                    .n_best = s->opt.n_best,
                                    .whole = s->opt.no_endpointing || s->model->info.segments.whole,
                                    .no_word_times = s->opt.no_word_times,
                                    .hints = s->opt.hints,
                                    .asked = s->asked,
                                    .vocabulary = s->model->info.takes_hotwords ? vocabulary : NULL,
                                    .options = s->opt.options,
                                    .n_options = s->opt.n_options,
                                    .alignment = s->alignment};
    steno_status st;
    if (o.beam < 0) {
        o.beam = -o.beam > o.n_best ? -o.beam : o.n_best;
        o.beam_yields = true;
    }
    st = s->family->state_new(&s->state, s->model->impl, &o, err);
    s->opt.hints = (struct steno_hints){0}; /* borrowed for the open only */
    s->asked = NULL;
    s->opt.options = NULL;
    s->opt.n_options = 0;
    if (st)
        return st;
    s->opt.beam = o.beam;
    s->opt.n_best = o.n_best;
    s->family_cuts = o.cuts;
    s->opt.no_endpointing |= o.cuts;
    if (steno_results_open(&s->results, o.n_best))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return STENO_OK;
}

steno_status steno_stream_open_knowing(steno_stream **out, steno_model *m,
                                       const struct steno_stream_options *opt,
                                       const struct steno_stream_known *known, steno_err *err)
{
    steno_stream *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = m;
    s->family = m->family;
    s->feeder = m->info.feeding == STENO_FEED_WINDOWS ? &steno_feed_windows : &steno_feed_segments;
    if (opt)
        s->opt = *opt;
    st = check_options(s, err);
    if (!st && known && known->lines)
        st = steno_aligned_open(s, known->lines, known->n_lines, err);
    if (!st)
        st = open_audio(s, err);
    if (!st)
        st = open_state(s, known ? known->vocabulary : NULL, err);
    if (!st && s->alignment)
        st = steno_aligned_begin(s, err);
    if (!st)
        st = s->feeder->open(s, err);
    if (st)
        steno_stream_close(s);
    else
        *out = s;
    return st;
}

steno_status steno_stream_open(steno_stream **out, steno_model *m,
                               const struct steno_stream_options *opt, steno_err *err)
{
    return steno_stream_open_knowing(out, m, opt, NULL, err);
}

steno_status steno_stream_open_lines(steno_stream **out, steno_model *m,
                                     const struct steno_stream_options *opt,
                                     const struct steno_line *lines, size_t n, steno_err *err)
{
    static const struct steno_line none = {.text = ""};
    return steno_stream_open_knowing(
        out, m, opt,
        &(struct steno_stream_known){.lines = lines ? lines : &none, .n_lines = lines ? n : 0},
        err);
}

void steno_stream_close(steno_stream *s)
{
    if (!s)
        return;
    s->feeder->close(s);
    steno_turn_watch_close(s->turn);
    steno_batcher_close(s->own);
    if (s->state)
        s->family->state_free(s->state);
    steno_results_close(&s->results);
    steno_filters_close(s->filters);
    steno_alignment_close(s->alignment);
    steno_resampler_close(s->resampler);
    if (s->clean != s->pending)
        free(s->clean);
    free(s->pending);
    free(s);
}

void steno_stream_set_early(steno_stream *s, bool early)
{
    s->no_early = !early;
}

steno_status steno_stream_set_filters(steno_stream *s, const struct steno_filter_options *o,
                                      steno_err *err)
{
    steno_filters *f;
    steno_status st = steno_stream_samples(s)
                          ? steno_fail(err, STENO_ERR_INVAL, "filters: audio was pushed already")
                          : steno_filters_open(&f, o, err);
    if (st)
        return st;
    steno_filters_close(s->filters);
    s->filters = f;
    return STENO_OK;
}

steno_status steno_stream_set_turn(steno_stream *s, const steno_turn_detector *d, double threshold,
                                   double early, steno_err *err)
{
    steno_turn_watch *w;
    steno_status st;
    if (s->opt.no_endpointing || s->taken)
        return steno_fail(err, STENO_ERR_INVAL, "turn: the stream %s",
                          s->taken ? "has audio already" : "has no endpoints");
    st = steno_turn_watch_open(&w, d, threshold, early, s->model->info.sample_rate, err);
    if (st)
        return st;
    steno_turn_watch_close(s->turn);
    s->turn = w;
    return STENO_OK;
}

bool steno_stream_turn_due(const steno_stream *s)
{
    return steno_turn_watch_due(s->turn);
}

struct steno_turn_stats steno_stream_turn_stats(const steno_stream *s)
{
    return steno_turn_watch_stats(s->turn);
}

/* ---- audio in -------------------------------------------------------------------------------- */

static steno_status check_open(const steno_stream *s, steno_err *err)
{
    if (s->failed)
        return steno_fail(err, STENO_ERR_INVAL, "stream has failed before");
    if (s->ended)
        return steno_fail(err, STENO_ERR_INVAL, "stream has ended");
    return STENO_OK;
}

steno_status steno_stream_explain(steno_status st, steno_err *err)
{
    return st ? steno_fail(err, st, "stream: %s", steno_status_info(st)->name) : STENO_OK;
}

static steno_status resample(steno_stream *s, const float *pcm, size_t n, size_t *used,
                             steno_err *err)
{
    steno_status st = STENO_OK;
    n = s->feeder->block(s, n < STENO_STREAM_BLOCK ? n : STENO_STREAM_BLOCK);
    if (!steno_pcm_is_clean(pcm, n)) {
        steno_pcm_clean(pcm, n, s->clean);
        pcm = s->clean;
    }
    s->pos = s->len = 0;
    if (s->clean == s->pending) {
        s->fresh = pcm;
        *used = s->len = n;
    } else {
        st = steno_resampler_push(s->resampler, pcm, n, used, s->pending, s->cap_pending, &s->len,
                                  err);
    }
    if (st == STENO_NEED_MORE)
        st = STENO_OK;
    if (!st && s->turn)
        st = steno_turn_watch_push(s->turn, s->fresh, s->len, err);
    return st ? st : s->feeder->arrive(s, err);
}

/* The caller's samples are the caller's again: copy those that wait for a step. */
static void keep_fresh(steno_stream *s)
{
    if (s->fresh == s->pending)
        return;
    s->len -= s->pos;
    memcpy(s->pending, s->fresh + s->pos, s->len * sizeof *s->pending);
    s->pos = 0;
    s->fresh = s->pending;
}

static bool takes_audio(const steno_stream *s)
{
    return !s->feeder->ready(s) || (s->listens && steno_stream_slack(s) > 0);
}

/* Samples in the last block that are not moved on yet come first. */
static steno_status feed(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err)
{
    steno_status st = check_open(s, err);
    *used = 0;
    if (st)
        return st;
    st = steno_stream_explain(s->feeder->drain(s), err);
    while (!st && *used < n && takes_audio(s)) {
        size_t k = 0;
        st = resample(s, pcm + *used, n - *used, &k, err);
        if (st)
            break;
        *used += k;
        s->taken += (int64_t)k;
        st = steno_stream_explain(s->feeder->drain(s), err);
    }
    keep_fresh(s);
    s->failed |= st != STENO_OK;
    return st;
}

steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                               steno_err *err)
{
    s->listens = true;
    return feed(s, pcm, n, used, err);
}

void steno_stream_set_waiting(steno_stream *s, size_t samples)
{
    s->waiting = samples;
}

void steno_stream_set_queued(steno_stream *s, double seconds)
{
    s->queued = seconds;
}

bool steno_stream_ready(const steno_stream *s)
{
    return s->feeder->ready(s);
}

size_t steno_stream_missing(const steno_stream *s)
{
    return s->feeder->missing(s);
}

double steno_stream_slack(const steno_stream *s)
{
    return s->feeder->slack ? s->feeder->slack(s) : 0;
}

double steno_stream_heard(const steno_stream *s)
{
    return s->feeder->processed(s);
}

double steno_stream_share(const steno_stream *s)
{
    return s->family->share ? s->family->share(s->state) : 0;
}

static steno_status step_alone(steno_stream *s, steno_err *err)
{
    steno_status st = STENO_OK;
    if (!s->own)
        st = steno_batcher_open(&s->own, s->model, 1, err);
    if (!st)
        steno_streams_step(s->own, &s, 1, &st, err);
    s->failed |= st != STENO_OK;
    return st;
}

steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n, steno_err *err)
{
    size_t at = 0;
    steno_status st = check_open(s, err);
    if (st)
        return st;
    s->listens = false; /* all steps of an early final come before more audio, too */
    do {
        size_t used = 0;
        if (!s->feeder->ready(s))
            st = feed(s, pcm + at, n - at, &used, err);
        if (!st && s->feeder->ready(s))
            st = step_alone(s, err);
        if (st)
            return st;
        at += used;
    } while (at < n || s->feeder->undrained(s));
    return STENO_OK;
}

steno_status steno_stream_push_s16(steno_stream *s, const int16_t *pcm, size_t n, steno_err *err)
{
    float block[STENO_STREAM_BLOCK] = {0};
    steno_status st = STENO_OK;
    do {
        size_t k = n < STENO_STREAM_BLOCK ? n : STENO_STREAM_BLOCK;
        for (size_t i = 0; i < k; i++)
            block[i] = (float)pcm[i] * 0x1p-15f;
        st = steno_stream_push(s, block, k, err);
        pcm += k;
        n -= k;
    } while (!st && n);
    return st;
}

/* ---- end of a run ---------------------------------------------------------------------------- */

steno_status steno_stream_restart(steno_stream *s, steno_err *err)
{
    steno_status st = steno_turn_watch_reset(s->turn, err);
    s->pos = s->len = 0;
    s->base = s->taken;
    return st ? st : steno_resampler_reset(s->resampler, err);
}

steno_status steno_stream_flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    steno_status st = check_open(s, err);
    *done = false;
    if (st)
        return st;
    s->listens = true;
    st = s->feeder->flush(s, end, done, err);
    s->failed |= st != STENO_OK;
    return st;
}

void steno_stream_rescue(steno_stream *s)
{
    s->failed = true;
    (void)!steno_results_rescue(s); /* out of memory: without it */
}

static steno_status flush_alone(steno_stream *s, bool end, steno_err *err)
{
    bool done = false;
    steno_status st = STENO_OK;
    while (!st && !done) {
        st = steno_stream_flush(s, end, &done, err);
        if (!st && !done)
            st = step_alone(s, err);
    }
    return st;
}

steno_status steno_stream_finalize(steno_stream *s, steno_err *err)
{
    return flush_alone(s, false, err);
}

steno_status steno_stream_end(steno_stream *s, steno_err *err)
{
    return flush_alone(s, true, err);
}

bool steno_stream_next(steno_stream *s, struct steno_event *ev)
{
    return steno_events_next(&s->results.events, ev);
}

int64_t steno_stream_samples(const steno_stream *s)
{
    return s->taken;
}
