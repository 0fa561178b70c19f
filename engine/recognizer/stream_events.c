/* What a stream of family ctc_streaming has heard so far: its decoder, and the events that come of
 * it, with words placed on the clock of the input. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "recognizer/stream_internal.h"

#define LEAST_WORDS 16 /* that an event has room for */

/* ---- memory, clock --------------------------------------------------------------------------- */

int64_t steno_ctc_stream_left_padding(const steno_model *m)
{
    return m->conf.lead_frames * (int64_t)m->hop;
}

/* ---- decoder, either one ------------------------------------------------------------------- */

steno_status steno_ctc_stream_decode(steno_stream *s, const float *row)
{
    return s->beam ? steno_ctc_beam_push(s->beam, row, 1)
                   : steno_ctc_greedy_push(s->greedy, row, 1);
}

int64_t steno_ctc_stream_rows(const steno_stream *s)
{
    return s->beam ? steno_ctc_beam_frames(s->beam) : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_ctc_stream_last_sound(const steno_stream *s)
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
    double t = (at - (double)steno_ctc_stream_left_padding(s->model)) / s->model->conf.sample_rate;
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

static void fill_event(const steno_stream *s, struct steno_event *ev)
{
    const struct steno_words *w = &s->words[0];
    ev->segment = s->segment;
    ev->time = step_time(s);
    ev->text = steno_words_line(w);
    ev->stable_words = w->stable_words;
    ev->stable_bytes = w->stable_bytes;
    ev->confidence = w->confidence;
    ev->n_words = w->n;
    ev->words = s->out.w;
    ev->start =
        w->n ? s->out.w[0].start : row_time(s, s->first_sound >= 0 ? s->first_sound : s->begin);
    ev->end = w->n ? s->out.w[w->n - 1].end : ev->start;
}

steno_status steno_ctc_stream_emit_start(steno_stream *s)
{
    struct steno_event ev = {.kind = STENO_SPEECH_START,
                             .segment = s->segment,
                             .time = step_time(s),
                             .start = row_time(s, s->first_sound),
                             .end = row_time(s, s->first_sound),
                             .text = ""};
    return steno_events_add(&s->events, &ev);
}

steno_status steno_ctc_stream_emit_partial(steno_stream *s)
{
    struct steno_event ev = {.kind = STENO_PARTIAL};
    struct steno_words *w = &s->words[0];
    size_t n, stable;
    uint64_t print;
    steno_status st = best_hyps(s, 1, &n, &stable);
    if (!st)
        st = steno_words_build(w, s->model->tokens, s->hyps[0].spans, s->hyps[0].n, stable);
    if (!st)
        st = steno_event_words_reserve(&s->out, w->n, LEAST_WORDS);
    if (st)
        return st;
    print = steno_event_fingerprint(steno_words_line(w), w->stable_bytes);
    if (print == s->shown || (!w->n && !s->shown))
        return STENO_OK;
    s->shown = print;
    fill_words(s, w, s->out.w);
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
        if (strcmp(steno_words_line(&s->words[k]), steno_words_line(w)) == 0)
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
        st = steno_event_words_reserve(&s->out, n_words, LEAST_WORDS);
    if (st)
        return st;
    for (size_t i = 0; i < *n_alts; i++) {
        s->alts[i].text = steno_words_line(&s->words[i]);
        s->alts[i].words = s->out.w + at;
        fill_words(s, &s->words[i], s->out.w + at);
        at += s->words[i].n;
    }
    return STENO_OK;
}

void steno_ctc_stream_next_utterance(steno_stream *s)
{
    decoder_reset(s);
    s->begin = steno_ctc_stream_rows(s);
    s->first_sound = -1;
    s->shown = 0;
}

steno_status steno_ctc_stream_emit_final(steno_stream *s, enum steno_final_reason reason)
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
    steno_ctc_stream_next_utterance(s);
    return STENO_OK;
}
