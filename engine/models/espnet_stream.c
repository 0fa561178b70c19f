/* One stream over the networks of an espnet_onnx directory.
 *
 * Samples -> model's rate -> frames of one hop -> is somebody speaking (features/activity.h)?
 * Speech opens a segment, with some audio from before; silence, length or a request closes it. The
 * segment's samples are kept; when it closes they go through features, encoder, CTC and the joint
 * search, which gives the final. Partials are the CTC best path over the growing segment, made when
 * it has grown by a third, so all partials together cost at most four times the segment, however
 * long it is.
 *
 * Work is asked for by `due` and done in step(): feed() stops in front of it. What is due depends
 * on samples alone, so events do not depend on how the audio was cut into pushes. Networks are
 * borrowed from the model for one step; between steps a stream is only its samples.
 *
 * Without endpointing, and in the compat mode, there is one segment from the first sample to the
 * end (or to finalize), silence and all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/pcm.h"
#include "audio/resample.h"
#include "decoder/align.h"
#include "decoder/words.h"
#include "features/activity.h"
#include "models/espnet_block.h"
#include "models/events.h"
#include "models/family.h"
#include "models/internal.h"

#define BLOCK 1024
#define BEFORE_SECONDS 0.3 /* audio kept in front of the first loud frame */
#define FIRST_PARTIAL 0.8  /* s of a segment before its first partial */
#define GROWTH (1.0 / 3.0) /* ... and what it must grow by for the next */
#define MIN_SEGMENT 0.1    /* s: a segment shorter than this is not decoded */

enum due { NOTHING, PARTIAL, FINAL }; /* PARTIAL: with blocks, the next of them */

struct espnet_stream {
    struct steno_stream_head head;
    steno_model *model;
    struct steno_stream_options opt;
    struct steno_espnet_search search;
    bool whole; /* one segment, no activity rule */
    /* front end */
    steno_resampler *resampler;
    float *clean,
        *pending; /* [BLOCK]; [cap_pending] at the model's rate, [pos, len) not yet taken */
    size_t cap_pending, pos, len;
    struct steno_activity activity;
    /* segment */
    float *pcm; /* [cap] samples from `from` on */
    size_t n, cap;
    size_t seen; /* of pcm, samples that went through the activity rule */
    bool speaking;
    int64_t quiet;  /* frames since the last loud one */
    size_t partial; /* samples of the segment when the next partial is due */
    enum due due;
    enum steno_final_reason reason;
    size_t keep; /* FINAL: samples behind the cut that stay */
    /* contextual blocks */
    struct steno_espnet_state state;
    steno_fbank *fbank;
    float *feats; /* [cap_feats, bins] frames not yet encoded, normalised */
    size_t n_feats, cap_feats;
    size_t fed;        /* samples of pcm that became frames */
    float *rows, *ctc; /* [cap_rows, dim], [cap_rows, vocab] of the segment */
    size_t n_rows, cap_rows;
    /* results */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam; /* CTC alone with a beam */
    struct steno_align align;
    struct steno_words words[STENO_MAX_BEAM];
    struct steno_word *out_words;
    size_t cap_out;
    struct steno_alternative alts[STENO_MAX_BEAM];
    struct steno_buf plain; /* compat: texts as espnet_onnx joins them */
    int32_t *tokens;        /* of one hypothesis, without blank and eos */
    size_t cap_tokens;
    struct steno_events events;
    uint64_t shown;
    /* clock */
    int64_t taken,
        base;     /* input samples so far; ... when this run (since start or finalize) began */
    int64_t from; /* model samples of this run in front of pcm[0] */
    int64_t segment;
    bool failed, ended;
};

static struct espnet_stream *own(steno_stream *s)
{
    return (struct espnet_stream *)s;
}

static const struct espnet_stream *own_const(const steno_stream *s)
{
    return (const struct espnet_stream *)s;
}

/* ---- opening ------------------------------------------------------------------------------- */

static size_t samples_of(const struct espnet_stream *s, double seconds)
{
    return (size_t)(seconds * s->model->conf.sample_rate);
}

static void set_search(struct espnet_stream *s)
{
    const struct steno_search_options *o = &s->opt.search;
    struct steno_espnet_search *t = &s->search;
    *t = steno_espnet_defaults(s->model->espnet);
    if (s->opt.beam)
        t->beam = (size_t)s->opt.beam;
    if (s->opt.n_best)
        t->n_best = (size_t)s->opt.n_best;
    if (!s->opt.beam && t->beam < t->n_best)
        t->beam = t->n_best;
    if (o->set & STENO_SEARCH_CTC_WEIGHT)
        t->ctc_weight = o->ctc_weight;
    if (o->set & STENO_SEARCH_LM_WEIGHT)
        t->lm_weight = o->lm_weight;
    if (o->set & STENO_SEARCH_PENALTY)
        t->length_bonus = o->penalty;
    if (o->set & STENO_SEARCH_MAX_LEN)
        t->max_len_ratio = o->max_len_ratio;
    if (o->set & STENO_SEARCH_MIN_LEN)
        t->min_len_ratio = o->min_len_ratio;
    if (o->set & STENO_SEARCH_PRE_BEAM)
        t->pre_beam_ratio = o->pre_beam_ratio;
}

static steno_status check_options(struct espnet_stream *s, steno_err *err)
{
    const steno_model *m = s->model;
    struct steno_endpoint_rules *e = &s->opt.endpoint;
    if (!s->opt.sample_rate)
        s->opt.sample_rate = m->conf.sample_rate;
    if (s->opt.beam < 0 || s->opt.beam > STENO_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %d, expected 0 to %d", s->opt.beam,
                          STENO_MAX_BEAM);
    if (s->opt.n_best < 0 || s->opt.n_best > STENO_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, expected 1 to %d", s->opt.n_best,
                          STENO_MAX_BEAM);
    if (!isfinite(e->silence_alone) || !isfinite(e->silence_after) || !isfinite(e->longest))
        return steno_fail(err, STENO_ERR_INVAL, "endpoint rules must be finite numbers");
    if (e->silence_after <= 0)
        e->silence_after = m->conf.rule2_silence;
    if (e->longest <= 0)
        e->longest = m->conf.rule3_length;
    if (m->espnet->max_rows)
        e->longest = fmin(e->longest, m->conf.rule3_length);
    s->whole = s->opt.no_endpointing || m->espnet->opt.as_espnet_onnx;
    set_search(s);
    return steno_espnet_check_search(m->espnet, &s->search, err);
}

/* CTC alone needs no joint search: best path, or prefix beam. */
static bool ctc_alone(const struct espnet_stream *s)
{
    return !s->model->espnet->opt.as_espnet_onnx && s->search.ctc_weight == 1 &&
           s->search.lm_weight == 0 && s->search.length_bonus == 0;
}

static steno_status open_decoders(struct espnet_stream *s, steno_err *err)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    struct steno_ctc_options o = {.vocab = c->vocab,
                                  .blank = c->blank,
                                  .beam = (int)s->search.beam,
                                  .top_k = 16,
                                  .margin = 10};
    steno_status st = steno_ctc_greedy_open(&s->greedy, &o, err);
    if (!st && ctc_alone(s) && s->search.beam > 1)
        st = steno_ctc_beam_open(&s->beam, &o, err);
    if (st)
        return st;
    steno_buf_init(&s->plain, (size_t)64 << 20);
    for (size_t i = 0; i < STENO_MAX_BEAM; i++)
        steno_words_init(&s->words[i]);
    st = steno_events_init(&s->events);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

static void close_stream(steno_stream *stream)
{
    struct espnet_stream *s = own(stream);
    steno_resampler_close(s->resampler);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    steno_align_free(&s->align);
    for (size_t i = 0; i < STENO_MAX_BEAM; i++)
        steno_words_free(&s->words[i]);
    steno_buf_free(&s->plain);
    steno_events_free(&s->events);
    steno_espnet_state_free(&s->state);
    steno_fbank_close(s->fbank);
    steno_aligned_free(s->feats);
    steno_aligned_free(s->rows);
    steno_aligned_free(s->ctc);
    free(s->clean);
    free(s->pending);
    free(s->pcm);
    free(s->out_words);
    free(s->tokens);
    free(s);
}

/* The encoder takes blocks as they come. */
static bool by_blocks(const struct espnet_stream *s)
{
    return s->model->espnet->blocks && !s->model->espnet->opt.as_espnet_onnx;
}

static void begin_segment(struct espnet_stream *s)
{
    if (by_blocks(s)) {
        steno_fbank_reset(s->fbank);
        steno_ctc_greedy_restart(s->greedy, 0);
        s->n_feats = s->fed = s->n_rows = 0;
        s->state.block = 0;
    }
    s->speaking = s->whole;
    s->quiet = 0;
    s->partial = samples_of(s, FIRST_PARTIAL);
    s->due = NOTHING;
    s->shown = 0;
}

static steno_status open_blocks(struct espnet_stream *s, steno_err *err)
{
    const struct steno_espnet *e = s->model->espnet;
    steno_status st = steno_fbank_open(&s->fbank, &e->fbank, err);
    if (st)
        return st;
    /* a block, and what one push of samples and the end of the audio can add */
    s->cap_feats = 2 * steno_espnet_first_frames(&e->conf) + 64;
    s->feats = steno_aligned_alloc(s->cap_feats * (size_t)e->conf.bins * sizeof *s->feats);
    return s->feats ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

static const struct steno_stream_ops ops;

steno_status steno_espnet_stream_open(steno_stream **out, steno_model *m,
                                      const struct steno_stream_options *opt, steno_err *err)
{
    struct espnet_stream *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->head.ops = &ops;
    s->model = m;
    if (opt)
        s->opt = *opt;
    st = check_options(s, err);
    if (!st)
        st = steno_resampler_open(&s->resampler, s->opt.sample_rate, m->conf.sample_rate, err);
    if (!st)
        st = open_decoders(s, err);
    if (!st && by_blocks(s))
        st = open_blocks(s, err);
    if (!st) {
        s->cap_pending = steno_resampler_max_out(s->resampler, BLOCK);
        if (s->cap_pending < BLOCK)
            s->cap_pending = BLOCK;
        s->clean = malloc(BLOCK * sizeof *s->clean);
        s->pending = malloc(s->cap_pending * sizeof *s->pending);
        if (!s->clean || !s->pending)
            st = steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    }
    if (st) {
        close_stream((steno_stream *)s);
        return st;
    }
    steno_activity_init(&s->activity, (double)m->hop / m->conf.sample_rate);
    begin_segment(s);
    *out = (steno_stream *)s;
    return STENO_OK;
}

/* ---- clock --------------------------------------------------------------------------------- */

/* Sample `at` of the segment on the stream's clock, not past the audio there is. */
static double seconds_at(const struct espnet_stream *s, double at)
{
    double t =
        (double)s->base / s->opt.sample_rate + ((double)s->from + at) / s->model->conf.sample_rate;
    double end = (double)s->taken / s->opt.sample_rate;
    return t > end ? end : t;
}

static double row_seconds(const struct espnet_stream *s, int64_t row)
{
    return seconds_at(s, (double)row * (double)s->model->espnet->frame_samples);
}

/* ---- events -------------------------------------------------------------------------------- */

static steno_status reserve_out(struct espnet_stream *s, size_t n)
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

static void fill_words(const struct espnet_stream *s, const struct steno_words *w,
                       struct steno_word *out)
{
    for (size_t i = 0; i < w->n; i++)
        out[i] = (struct steno_word){.text = w->words.data + w->w[i].text,
                                     .start = row_seconds(s, w->w[i].first),
                                     .end = row_seconds(s, w->w[i].last + 1),
                                     .confidence = w->w[i].confidence};
}

static const char *line_of(const struct steno_words *w)
{
    return w->line.data ? w->line.data : "";
}

static void fill_event(const struct espnet_stream *s, size_t samples, struct steno_event *ev)
{
    const struct steno_words *w = &s->words[0];
    ev->segment = s->segment;
    ev->time = seconds_at(s, (double)samples);
    ev->text = line_of(w);
    ev->confidence = w->confidence;
    ev->n_words = w->n;
    ev->words = s->out_words;
    ev->start = w->n ? s->out_words[0].start : seconds_at(s, 0);
    ev->end = w->n ? s->out_words[w->n - 1].end : ev->start;
}

static steno_status emit_start(struct espnet_stream *s)
{
    struct steno_event ev = {.kind = STENO_SPEECH_START,
                             .segment = s->segment,
                             .time = seconds_at(s, (double)s->n),
                             .start = seconds_at(s, 0),
                             .end = seconds_at(s, 0),
                             .text = ""};
    return steno_events_add(&s->events, &ev);
}

static uint64_t fingerprint(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static steno_status emit_partial(struct espnet_stream *s)
{
    struct steno_event ev = {.kind = STENO_PARTIAL};
    struct steno_words *w = &s->words[0];
    struct steno_hyp best = steno_ctc_greedy_best(s->greedy);
    /* a later look at the segment may change any of it: nothing is stable */
    steno_status st = steno_words_build(w, s->model->tokens, best.spans, best.n, 0);
    uint64_t print;
    if (!st)
        st = reserve_out(s, w->n);
    if (st)
        return st;
    print = fingerprint(line_of(w));
    if (print == s->shown || (!w->n && !s->shown))
        return STENO_OK;
    s->shown = print;
    fill_words(s, w, s->out_words);
    fill_event(s, s->n, &ev);
    return steno_events_add(&s->events, &ev);
}

/* ---- hypotheses ---------------------------------------------------------------------------- */

/* Text as espnet_onnx's tokenizers join it. */
static steno_status join_plain(struct espnet_stream *s, const int32_t *tokens, size_t n)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    bool words = strcmp(c->token_type, "word") == 0, chars = strcmp(c->token_type, "char") == 0;
    bool bpe = strcmp(c->token_type, "bpe") == 0;
    size_t begin = s->plain.len;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        const char *t = c->tokens[tokens[i]];
        if (bpe && strncmp(t, "\xE2\x96\x81", 3) == 0) {
            t += 3;
            if (s->plain.len > begin)
                st = steno_buf_puts(&s->plain, " ");
        } else if (words && i) {
            st = steno_buf_puts(&s->plain, " ");
        } else if (chars && strcmp(t, "<space>") == 0) {
            t = " ";
        }
        if (!st)
            st = steno_buf_puts(&s->plain, t);
    }
    return st ? st : steno_buf_add(&s->plain, "", 1);
}

static steno_status reserve_tokens(struct espnet_stream *s, size_t n)
{
    int32_t *p;
    if (n <= s->cap_tokens)
        return STENO_OK;
    p = realloc(s->tokens, 2 * n * sizeof *p);
    if (!p)
        return STENO_ERR_NOMEM;
    s->tokens = p;
    s->cap_tokens = 2 * n;
    return STENO_OK;
}

/* The tokens between sos and eos, without blanks; as ESPnet shows them. */
static size_t inner_tokens(struct espnet_stream *s, const struct steno_joint_hyp *h)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    bool compat = s->model->espnet->opt.as_espnet_onnx;
    size_t n = 0;
    for (size_t i = 1; i + 1 < h->n; i++)
        if (h->tokens[i] != c->blank && (compat || h->tokens[i] != c->eos))
            s->tokens[n++] = h->tokens[i];
    return n;
}

struct scores {
    const float *ctc;
    size_t rows;
};

static steno_status take_joint(struct espnet_stream *s, const struct scores *x,
                               const steno_joint *j, size_t *n_alts)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    size_t n = steno_joint_count(j), k = 0;
    steno_buf_reset(&s->plain);
    for (size_t i = 0; i < n && k < s->search.n_best; i++) {
        struct steno_joint_hyp h = steno_joint_get(j, i);
        const struct steno_span *spans = NULL;
        steno_status st = reserve_tokens(s, h.n);
        size_t inner = st ? 0 : inner_tokens(s, &h);
        if (!st)
            st = steno_align_run(&s->align, x->ctc, x->rows, c->vocab, c->blank, s->tokens, inner,
                                 &spans);
        if (!st)
            st = steno_words_build(&s->words[k], s->model->tokens, spans, inner, inner);
        if (!st)
            st = join_plain(s, s->tokens, inner);
        if (st)
            return st;
        s->alts[k] = (struct steno_alternative){.confidence = s->words[k].confidence,
                                                .score = h.score,
                                                .n_words = s->words[k].n,
                                                .n_tokens = h.n,
                                                .tokens = h.tokens};
        k++;
    }
    *n_alts = k;
    return STENO_OK;
}

static steno_status take_ctc(struct espnet_stream *s, const struct scores *x, size_t *n_alts)
{
    struct steno_hyp hyps[STENO_MAX_BEAM];
    size_t n = 1;
    steno_status st = STENO_OK;
    if (s->beam) {
        steno_ctc_beam_restart(s->beam, 0);
        st = steno_ctc_beam_push(s->beam, x->ctc, x->rows);
        if (!st)
            st = steno_ctc_beam_nbest(s->beam, hyps, s->search.n_best, &n);
    } else {
        steno_ctc_greedy_restart(s->greedy, 0);
        st = steno_ctc_greedy_push(s->greedy, x->ctc, x->rows);
        hyps[0] = steno_ctc_greedy_best(s->greedy);
    }
    for (size_t i = 0; i < n && !st; i++) {
        st = steno_words_build(&s->words[i], s->model->tokens, hyps[i].spans, hyps[i].n, hyps[i].n);
        s->alts[i] = (struct steno_alternative){
            .confidence = s->words[i].confidence, .score = hyps[i].score, .n_words = s->words[i].n};
    }
    *n_alts = n;
    return st;
}

/* Texts and words of the alternatives, once all memory has been made. */
static steno_status place_alternatives(struct espnet_stream *s, size_t n)
{
    bool plain = s->model->espnet->opt.as_espnet_onnx;
    size_t words = 0, at = 0, text = 0;
    steno_status st;
    for (size_t i = 0; i < n; i++)
        words += s->words[i].n;
    st = reserve_out(s, words);
    for (size_t i = 0; i < n && !st; i++) {
        struct steno_alternative *a = &s->alts[i];
        a->text = plain ? s->plain.data + text : line_of(&s->words[i]);
        a->words = s->out_words + at;
        fill_words(s, &s->words[i], s->out_words + at);
        at += s->words[i].n;
        text += plain ? strlen(a->text) + 1 : 0;
    }
    return st;
}

/* ---- contextual blocks --------------------------------------------------------------------- */

static size_t frames_wanted(const struct espnet_stream *s)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    return s->state.block ? steno_espnet_next_frames(c) : steno_espnet_first_frames(c);
}

/* Samples of the segment up to `end` become frames, as many as a block wants. */
static steno_status make_frames(struct espnet_stream *s, size_t end)
{
    const struct steno_espnet *e = s->model->espnet;
    size_t bins = (size_t)e->conf.bins;
    while (s->fed < end && s->n_feats < frames_wanted(s)) {
        float *to = s->feats + s->n_feats * bins;
        size_t used = 0, made = 0;
        steno_status st = steno_fbank_push(s->fbank, s->pcm + s->fed, end - s->fed, &used, to,
                                           frames_wanted(s) - s->n_feats, &made);
        if (st && st != STENO_NEED_MORE)
            return st;
        steno_espnet_normalise(e, to, made);
        s->fed += used;
        s->n_feats += made;
        if (!used && !made)
            break;
    }
    return STENO_OK;
}

static steno_status reserve_rows(struct espnet_stream *s, size_t n)
{
    size_t dim = (size_t)s->model->espnet->dim, vocab = (size_t)s->model->espnet->conf.vocab;
    size_t cap = s->cap_rows ? s->cap_rows : 128;
    float *rows, *ctc;
    if (n <= s->cap_rows)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    rows = steno_aligned_alloc(cap * dim * sizeof *rows);
    ctc = steno_aligned_alloc(cap * vocab * sizeof *ctc);
    if (!rows || !ctc) {
        steno_aligned_free(rows);
        steno_aligned_free(ctc);
        return STENO_ERR_NOMEM;
    }
    if (s->n_rows) {
        memcpy(rows, s->rows, s->n_rows * dim * sizeof *rows);
        memcpy(ctc, s->ctc, s->n_rows * vocab * sizeof *ctc);
    }
    steno_aligned_free(s->rows);
    steno_aligned_free(s->ctc);
    s->rows = rows;
    s->ctc = ctc;
    s->cap_rows = cap;
    return STENO_OK;
}

/* Encode the frames that wait; at most `max` rows count in all. */
static steno_status do_block(struct espnet_stream *s, steno_espnet_runner *r, size_t max,
                             steno_err *err)
{
    const struct steno_espnet *e = s->model->espnet;
    size_t dim = (size_t)e->dim, vocab = (size_t)e->conf.vocab, n = 0;
    const float *rows, *ctc;
    steno_status st = STENO_OK;
    if (s->state.block == 0)
        st = steno_espnet_state_reset(&s->state, e, err);
    if (!st)
        st = steno_espnet_block(r, &s->state, s->feats, frames_wanted(s), &rows, &n, err);
    if (st)
        return st;
    s->n_feats = 0;
    if (s->n_rows + n > max)
        n = max > s->n_rows ? max - s->n_rows : 0;
    if (!n)
        return STENO_OK;
    st = reserve_rows(s, s->n_rows + n);
    if (st)
        return steno_fail(err, st, "stream: out of memory");
    memcpy(s->rows + s->n_rows * dim, rows, n * dim * sizeof *rows);
    st = steno_espnet_ctc(r, s->rows + s->n_rows * dim, n, &ctc, err);
    if (st)
        return st;
    memcpy(s->ctc + s->n_rows * vocab, ctc, n * vocab * sizeof *ctc);
    s->n_rows += n;
    st = steno_ctc_greedy_push(s->greedy, ctc, n);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

/* Rows that an encoder without blocks would make of n samples: two convolutions of stride 2, or
 * whatever subsamples by `subsample`. */
static size_t rows_of(const struct espnet_stream *s, size_t n)
{
    const struct steno_espnet *e = s->model->espnet;
    size_t sub = (size_t)e->conf.subsample;
    size_t frames = (size_t)steno_fbank_count(&e->fbank, (int64_t)n);
    if (e->conf.center && n <= (size_t)e->conf.n_fft / 2)
        return 0;
    return frames >= sub ? (frames - (sub - 1)) / sub : 0;
}

/* The first n samples are the segment: its last frames, then frames of silence until every row has
 * come out. */
static steno_status flush_blocks(struct espnet_stream *s, steno_espnet_runner *r, size_t n,
                                 steno_err *err)
{
    const struct steno_espnet *e = s->model->espnet;
    size_t bins = (size_t)e->conf.bins, want = rows_of(s, n), made;
    bool flushed = want == 0;
    steno_status st = STENO_OK;
    while (!st && s->n_rows < want) {
        float *to;
        st = make_frames(s, n);
        while (!st && !flushed && s->fed == n && s->n_feats < frames_wanted(s)) {
            to = s->feats + s->n_feats * bins;
            st = steno_fbank_flush(s->fbank, to, frames_wanted(s) - s->n_feats, &made);
            steno_espnet_normalise(e, to, made);
            s->n_feats += made;
            flushed = made == 0;
        }
        if (st)
            return steno_fail(err, st, "stream: %s", steno_status_info(st)->name);
        if (s->n_feats < frames_wanted(s)) {
            made = frames_wanted(s) - s->n_feats;
            to = s->feats + s->n_feats * bins;
            for (size_t i = 0; i < made * bins; i++)
                to[i] = logf(e->fbank.floor) * e->log_scale;
            steno_espnet_normalise_logs(e, to, made);
            s->n_feats += made;
        }
        st = do_block(s, r, want, err);
    }
    return st;
}

/* ---- steps --------------------------------------------------------------------------------- */

static steno_status recognise(struct espnet_stream *s, steno_espnet_runner *r, size_t n,
                              const float **rows, struct scores *x, steno_err *err)
{
    const float *feats;
    size_t frames;
    steno_status st = STENO_OK;
    *x = (struct scores){0};
    if (by_blocks(s)) {
        st = flush_blocks(s, r, n, err);
        *rows = s->rows;
        *x = (struct scores){s->ctc, s->n_rows};
        return st;
    }
    if (s->model->espnet->blocks) {
        st = steno_espnet_onnx_rows(r, s->pcm, n, &s->rows, &x->rows, err);
        *rows = s->rows; /* the one segment of a compat stream: freed with it */
        return st ? st : steno_espnet_ctc(r, *rows, x->rows, &x->ctc, err);
    }
    if (n < samples_of(s, MIN_SEGMENT) && !s->whole)
        return STENO_OK;
    st = steno_espnet_features(r, s->pcm, n, &feats, &frames, err);
    if (!st)
        st = steno_espnet_encode(r, feats, frames, rows, &x->rows, err);
    if (!st && x->rows)
        st = steno_espnet_ctc(r, *rows, x->rows, &x->ctc, err);
    return st;
}

static steno_status oom(steno_status st, steno_err *err)
{
    return st ? steno_fail(err, st, "stream: %s", steno_status_info(st)->name) : STENO_OK;
}

static steno_status do_partial(struct espnet_stream *s, steno_espnet_runner *r, steno_err *err)
{
    struct scores x;
    const float *rows;
    steno_status st;
    if (by_blocks(s)) {
        st = do_block(s, r, SIZE_MAX, err);
        s->due = NOTHING;
        return st || s->opt.no_partials ? st : oom(emit_partial(s), err);
    }
    st = recognise(s, r, s->n, &rows, &x, err);
    if (st)
        return st;
    steno_ctc_greedy_restart(s->greedy, 0);
    if (x.rows)
        st = steno_ctc_greedy_push(s->greedy, x.ctc, x.rows);
    if (!st)
        st = emit_partial(s);
    s->partial = s->n + (size_t)(GROWTH * (double)s->n);
    s->due = NOTHING;
    return oom(st, err);
}

/* The first n samples of the segment are all of it. */
static steno_status do_final(struct espnet_stream *s, steno_espnet_runner *r, size_t n,
                             steno_err *err)
{
    struct steno_event ev = {.kind = STENO_FINAL, .reason = s->reason};
    const steno_joint *j = NULL;
    const float *rows;
    struct scores x;
    steno_status st = recognise(s, r, n, &rows, &x, err);
    if (!st && x.rows && !ctc_alone(s))
        st = steno_espnet_decode(r, &s->search, rows, x.rows, x.ctc, &j, err);
    if (st)
        return st;
    if (j)
        st = take_joint(s, &x, j, &ev.n_alternatives);
    else if (x.rows)
        st = take_ctc(s, &x, &ev.n_alternatives);
    if (!ev.n_alternatives && !st)
        st = steno_words_build(&s->words[0], s->model->tokens, NULL, 0, 0);
    if (!st)
        st = place_alternatives(s, ev.n_alternatives);
    if (st)
        return oom(st, err);
    fill_event(s, n, &ev);
    if (ev.n_alternatives)
        ev.text = s->alts[0].text;
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(ev.text);
    ev.alternatives = s->alts;
    st = steno_events_add(&s->events, &ev);
    if (!st)
        s->segment++;
    return oom(st, err);
}

/* Samples behind the cut stay for the next segment. */
static void drop_segment(struct espnet_stream *s)
{
    size_t gone = s->n - s->keep;
    memmove(s->pcm, s->pcm + gone, s->keep * sizeof *s->pcm);
    s->n = s->keep;
    s->seen = s->seen > gone ? s->seen - gone : 0;
    s->from += (int64_t)gone;
    s->keep = 0;
    begin_segment(s);
}

static steno_status do_step(struct espnet_stream *s, steno_err *err)
{
    struct steno_espnet *e = s->model->espnet;
    steno_espnet_runner *r = NULL;
    steno_status st;
    if (s->due == NOTHING)
        return STENO_OK;
    st = steno_espnet_take(e, &r, err);
    if (st)
        return st;
    if (s->due == PARTIAL) {
        st = do_partial(s, r, err);
    } else {
        st = do_final(s, r, s->n - s->keep, err);
        drop_segment(s);
    }
    steno_espnet_give(e, r);
    return st;
}

static void step_all(steno_stream *const *streams, size_t n, steno_status *st, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        st[i] = do_step(own(streams[i]), err ? &err[i] : NULL);
        if (st[i])
            own(streams[i])->failed = true;
    }
}

/* ---- audio in ------------------------------------------------------------------------------ */

static bool ready(const steno_stream *stream)
{
    return own_const(stream)->due != NOTHING;
}

/* With fewer samples than these nothing becomes due: neither a partial nor a cut. */
static size_t missing(const steno_stream *stream)
{
    const struct espnet_stream *s = own_const(stream);
    size_t hop = s->model->hop, need = samples_of(s, FIRST_PARTIAL) / 2;
    if (s->due != NOTHING)
        return 0;
    if (by_blocks(s))
        need = s->speaking ? s->model->hop * (frames_wanted(s) - s->n_feats) : need;
    else if (s->whole)
        need = s->opt.no_partials ? samples_of(s, 10) : s->partial > s->n ? s->partial - s->n : 1;
    else if (s->speaking) {
        size_t rule = samples_of(s, s->opt.endpoint.silence_after), quiet = (size_t)s->quiet * hop;
        size_t longest = samples_of(s, s->opt.endpoint.longest);
        need = rule > quiet ? rule - quiet : 1;
        if (longest > s->n && longest - s->n < need)
            need = longest - s->n;
        if (!s->opt.no_partials && s->partial - s->n < need)
            need = s->partial > s->n ? s->partial - s->n : 1;
    }
    need = need * (size_t)s->opt.sample_rate / (size_t)s->model->conf.sample_rate;
    return need < 1 ? 1 : need;
}

static steno_status append(struct espnet_stream *s, const float *pcm, size_t n)
{
    size_t cap = s->cap ? s->cap : 16384;
    float *p;
    if (s->n + n > s->cap) {
        while (cap < s->n + n)
            cap *= 2;
        p = realloc(s->pcm, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        s->pcm = p;
        s->cap = cap;
    }
    memcpy(s->pcm + s->n, pcm, n * sizeof *pcm);
    s->n += n;
    return STENO_OK;
}

/* Nobody speaks: only what might stand in front of a word is kept. */
static void forget_silence(struct espnet_stream *s)
{
    size_t before = samples_of(s, BEFORE_SECONDS), gone;
    if (s->n < 4 * before + BLOCK)
        return;
    gone = s->n - before;
    memmove(s->pcm, s->pcm + gone, before * sizeof *s->pcm);
    s->n -= gone;
    s->seen -= gone;
    s->from += (int64_t)gone;
}

/* The segment begins BEFORE_SECONDS in front of the frame just seen. */
static steno_status begin_speech(struct espnet_stream *s)
{
    size_t before = samples_of(s, BEFORE_SECONDS);
    if (s->seen > before) {
        size_t gone = s->seen - before;
        memmove(s->pcm, s->pcm + gone, (s->n - gone) * sizeof *s->pcm);
        s->n -= gone;
        s->seen -= gone;
        s->from += (int64_t)gone;
    }
    s->speaking = true;
    s->quiet = 0;
    return emit_start(s);
}

static void close_segment(struct espnet_stream *s, enum steno_final_reason reason, size_t keep)
{
    s->due = FINAL;
    s->reason = reason;
    s->keep = keep;
}

/* One hop of the segment through the activity rule and the rules of endpointing. */
static steno_status take_frame(struct espnet_stream *s)
{
    size_t hop = s->model->hop;
    bool loud = steno_activity_push(&s->activity, s->pcm + s->seen, hop);
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    s->seen += hop;
    if (!s->speaking) {
        if (loud)
            return begin_speech(s);
        forget_silence(s);
        return STENO_OK;
    }
    s->quiet = loud ? 0 : s->quiet + 1;
    if ((size_t)s->quiet * hop >= samples_of(s, e->silence_after))
        close_segment(s, STENO_FINAL_ENDPOINT, s->n - s->seen);
    else if (s->seen >= samples_of(s, e->longest))
        close_segment(s, STENO_FINAL_LENGTH, s->n - s->seen);
    return STENO_OK;
}

/* Frames until something is due. */
static steno_status take_frames(struct espnet_stream *s)
{
    steno_status st = STENO_OK;
    while (!st && s->due == NOTHING && !s->whole && s->n - s->seen >= s->model->hop)
        st = take_frame(s);
    if (st || s->due != NOTHING || !s->speaking)
        return st;
    if (by_blocks(s)) {
        st = make_frames(s, s->whole ? s->n : s->seen);
        s->due = s->n_feats == frames_wanted(s) ? PARTIAL : NOTHING;
    } else if (!s->opt.no_partials && s->n >= s->partial && !s->model->espnet->blocks) {
        s->due = PARTIAL;
    }
    return st;
}

/* Pending samples join the segment a hop at a time, so that what is due is due at the same sample
 * whatever the pushes were. */
static steno_status drain_pending(struct espnet_stream *s)
{
    size_t hop = s->model->hop;
    steno_status st = take_frames(s);
    while (!st && s->due == NOTHING && s->pos < s->len) {
        size_t room = hop - (size_t)((s->from + (int64_t)s->n) % (int64_t)hop);
        size_t k = s->len - s->pos < room ? s->len - s->pos : room;
        st = append(s, s->pending + s->pos, k);
        if (st)
            break;
        s->pos += k;
        if (k == room)
            st = take_frames(s);
    }
    return st;
}

static steno_status check_open(const struct espnet_stream *s, steno_err *err)
{
    if (s->failed)
        return steno_fail(err, STENO_ERR_INVAL, "stream has failed before");
    if (s->ended)
        return steno_fail(err, STENO_ERR_INVAL, "stream has ended");
    return STENO_OK;
}

static steno_status fail_stream(struct espnet_stream *s, steno_status st)
{
    s->failed = true;
    return st;
}

static steno_status resample_block(struct espnet_stream *s, const float *pcm, size_t n,
                                   size_t *used, steno_err *err)
{
    steno_status st;
    n = n < BLOCK ? n : BLOCK;
    steno_pcm_clean(pcm, n, s->clean);
    s->pos = s->len = 0;
    st = steno_resampler_push(s->resampler, s->clean, n, used, s->pending, s->cap_pending, &s->len,
                              err);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

static steno_status feed(steno_stream *stream, const float *pcm, size_t n, size_t *used,
                         steno_err *err)
{
    struct espnet_stream *s = own(stream);
    steno_status st = check_open(s, err);
    *used = 0;
    if (st)
        return st;
    st = oom(drain_pending(s), err);
    while (!st && *used < n && s->due == NOTHING) {
        size_t k = 0;
        st = resample_block(s, pcm + *used, n - *used, &k, err);
        if (st)
            break;
        *used += k;
        s->taken += (int64_t)k;
        st = oom(drain_pending(s), err);
    }
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status push(steno_stream *stream, const float *pcm, size_t n, steno_err *err)
{
    struct espnet_stream *s = own(stream);
    size_t at = 0;
    do {
        size_t used;
        steno_status st = feed(stream, pcm + at, n - at, &used, err);
        if (!st && (st = do_step(s, err)))
            s->failed = true;
        if (st)
            return st;
        at += used;
    } while (at < n || s->pos < s->len || s->due != NOTHING);
    return STENO_OK;
}

/* ---- end of a run -------------------------------------------------------------------------- */

static steno_status drain_and_step(struct espnet_stream *s, steno_err *err)
{
    steno_status st;
    do {
        st = oom(drain_pending(s), err);
        if (!st)
            st = do_step(s, err);
    } while (!st && s->pos < s->len);
    return st;
}

static steno_status flush(struct espnet_stream *s, steno_err *err)
{
    steno_status st;
    do {
        st = drain_and_step(s, err);
        s->pos = s->len = 0;
        if (!st)
            st = steno_resampler_flush(s->resampler, s->pending, s->cap_pending, &s->len, err);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
    } while (!st && s->len > 0);
    return st;
}

/* What is open becomes final; in a run without speech only a request gets an answer. */
static steno_status close_run(struct espnet_stream *s, enum steno_final_reason reason,
                              steno_err *err)
{
    steno_status st = flush(s, err);
    if (st)
        return st;
    if (reason == STENO_FINAL_REQUEST || (s->speaking && s->n)) {
        if (!s->speaking)
            s->n = s->seen = 0;
        close_segment(s, reason, 0);
        st = do_step(s, err);
    }
    s->n = s->seen = 0;
    return st;
}

static steno_status finalize(steno_stream *stream, steno_err *err)
{
    struct espnet_stream *s = own(stream);
    steno_status st = check_open(s, err);
    if (st)
        return st;
    st = close_run(s, STENO_FINAL_REQUEST, err);
    if (!st)
        st = steno_resampler_reset(s->resampler, err);
    s->base = s->taken;
    s->from = 0;
    begin_segment(s);
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status end_stream(steno_stream *stream, steno_err *err)
{
    struct espnet_stream *s = own(stream);
    steno_status st = check_open(s, err);
    if (st)
        return st;
    st = close_run(s, STENO_FINAL_END, err);
    s->ended = true;
    return st ? fail_stream(s, st) : STENO_OK;
}

static bool next_event(steno_stream *stream, struct steno_event *ev)
{
    return steno_events_next(&own(stream)->events, ev);
}

static int64_t samples(const steno_stream *stream)
{
    return own_const(stream)->taken;
}

static const struct steno_stream_ops ops = {.close = close_stream,
                                            .feed = feed,
                                            .ready = ready,
                                            .missing = missing,
                                            .step = step_all,
                                            .push = push,
                                            .finalize = finalize,
                                            .end = end_stream,
                                            .next = next_event,
                                            .samples = samples};
