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
#include "families/espnet/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/pcm.h"

#define BLOCK 1024
#define BEFORE_SECONDS 0.3 /* audio kept in front of the first loud frame */
#define FIRST_PARTIAL 0.8  /* s of a segment before its first partial */
#define GROWTH (1.0 / 3.0) /* ... and what it must grow by for the next */
#define SEARCH_STEPS 8     /* of the last block's search in one step of the stream */

static struct steno_espnet_stream *own(steno_stream *s)
{
    return (struct steno_espnet_stream *)s;
}

static const struct steno_espnet_stream *own_const(const steno_stream *s)
{
    return (const struct steno_espnet_stream *)s;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void set_search(struct steno_espnet_stream *s)
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

static steno_status check_options(struct steno_espnet_stream *s, steno_err *err)
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

static steno_status open_decoders(struct steno_espnet_stream *s, steno_err *err)
{
    const struct steno_espnet_conf *c = &s->model->espnet->conf;
    struct steno_ctc_options o = {.vocab = c->vocab,
                                  .blank = c->blank,
                                  .beam = (int)s->search.beam,
                                  .top_k = 16,
                                  .margin = 10};
    steno_status st = steno_ctc_greedy_open(&s->greedy, &o, err);
    if (!st && steno_espnet_stream_ctc_alone(s) && s->search.beam > 1)
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
    struct steno_espnet_stream *s = own(stream);
    steno_resampler_close(s->resampler);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    steno_align_free(&s->align);
    for (size_t i = 0; i < STENO_MAX_BEAM; i++)
        steno_words_free(&s->words[i]);
    steno_buf_free(&s->plain);
    steno_events_free(&s->events);
    steno_espnet_state_free(&s->state);
    steno_espnet_block_search_close(s->blocks);
    steno_transducer_close(s->transduced);
    steno_fbank_close(s->fbank);
    steno_aligned_free(s->feats);
    steno_aligned_free(s->rows);
    steno_aligned_free(s->ctc);
    free(s->clean);
    free(s->pending);
    free(s->pcm);
    free(s->out.w);
    free(s->tokens);
    free(s->spans);
    free(s->costs);
    free(s);
}

static void begin_segment(struct steno_espnet_stream *s)
{
    if (steno_espnet_stream_by_blocks(s)) {
        steno_fbank_reset(s->fbank);
        steno_ctc_greedy_restart(s->greedy, 0);
        if (s->beam)
            steno_ctc_beam_restart(s->beam, 0);
        s->n_feats = s->fed = s->n_rows = s->n_taken = 0;
        s->state.block = 0;
    }
    s->cut = 0;
    if (s->blocks)
        steno_espnet_block_search_restart(s->blocks);
    steno_transducer_close(s->transduced); /* what it holds goes with the segment */
    s->transduced = NULL;
    s->speaking = s->whole;
    s->quiet = 0;
    s->partial = steno_espnet_stream_samples(s, FIRST_PARTIAL);
    s->due = STENO_DUE_NOTHING;
    s->shown = 0;
}

static steno_status open_blocks(struct steno_espnet_stream *s, steno_err *err)
{
    const struct steno_espnet *e = s->model->espnet;
    steno_status st = steno_fbank_open_like(&s->fbank, e->front, err);
    if (!st && !steno_espnet_stream_ctc_alone(s) &&
        steno_espnet_block_search_possible(e, &s->search))
        st = steno_espnet_block_search_open(&s->blocks, e, &s->search, err);
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
    struct steno_espnet_stream *s = calloc(1, sizeof *s);
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
    if (!st && steno_espnet_stream_by_blocks(s))
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

/* ---- steps --------------------------------------------------------------------------------- */

/* What has been heard of the segment so far, by its best path. */
static steno_status show_partial(struct steno_espnet_stream *s, steno_espnet_runner *r,
                                 const struct steno_espnet_stream_scores *x, steno_err *err)
{
    steno_transducer *t = NULL;
    steno_status st = STENO_OK;
    if (s->transduced) {
        t = s->transduced;
    } else if (steno_espnet_is_transducer(s->model->espnet) && x->rows) {
        st = steno_espnet_transduce(r, &s->search, x->enc, x->rows, true, &t, err);
        if (st)
            return st;
    } else if (x->ctc && !steno_espnet_stream_by_blocks(s)) {
        steno_ctc_greedy_restart(s->greedy, 0);
        st = steno_ctc_greedy_push(s->greedy, x->ctc, x->rows);
    }
    if (!st)
        st = steno_espnet_stream_emit_partial(s, t);
    return steno_espnet_stream_status(st, err);
}

/* Samples that blocks have been made of are of no more use. */
static void cut_samples(struct steno_espnet_stream *s)
{
    size_t end = s->whole || s->fed < s->seen ? s->fed : s->seen, gone = end - s->cut;
    if (2 * gone < s->n - s->cut)
        return;
    s->cut = end;
    memmove(s->pcm, s->pcm + gone, (s->n - s->cut) * sizeof *s->pcm);
}

/* A transducer's hypotheses: what is left of the search, where it followed the blocks, or all. */
static steno_status transduce(struct steno_espnet_stream *s, steno_espnet_runner *r,
                              const struct steno_espnet_stream_scores *x, steno_transducer **t,
                              steno_err *err)
{
    if (!s->transduced)
        return steno_espnet_transduce(r, &s->search, x->enc, x->rows, false, t, err);
    *t = s->transduced;
    return steno_espnet_transduce_end(r, &s->search, s->transduced, err);
}

/* Samples behind the cut stay for the next segment. */
static void drop_segment(struct steno_espnet_stream *s)
{
    size_t gone = s->n - s->keep;
    memmove(s->pcm, s->pcm + (gone - s->cut), s->keep * sizeof *s->pcm);
    s->n = s->keep;
    s->seen = s->seen > gone ? s->seen - gone : 0;
    s->from += (int64_t)gone;
    s->keep = 0;
    begin_segment(s);
}

/* What comes before the search. */
static void begin_work(struct steno_espnet_stream_work *t, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = t->s;
    size_t n = s->due == STENO_DUE_FINAL ? s->n - s->keep : s->n;
    if (s->due == STENO_DUE_FINAL || !steno_espnet_stream_by_blocks(s)) {
        t->st = steno_espnet_stream_recognise(s, r, n, &t->x, t->err);
    } else {
        t->st = steno_espnet_stream_block(s, r, SIZE_MAX, t->err);
        t->x = (struct steno_espnet_stream_scores){s->ctc, s->rows, s->n_rows};
    }
    t->more = t->st == STENO_NEED_MORE;
    if (t->more)
        t->st = STENO_OK;
    else if (s->due == STENO_DUE_FINAL)
        t->last = SEARCH_STEPS;
}

static steno_status end_partial(const struct steno_espnet_stream_work *t, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = t->s;
    if (steno_espnet_stream_by_blocks(s))
        cut_samples(s);
    else
        s->partial = s->n + (size_t)(GROWTH * (double)s->n);
    s->due = STENO_DUE_NOTHING;
    return t->st || s->opt.no_partials ? t->st : show_partial(s, r, &t->x, t->err);
}

/* The segment's hypotheses, and the event. */
static steno_status say_final(const struct steno_espnet_stream_work *t, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = t->s;
    const struct steno_espnet_stream_scores *x = &t->x;
    const steno_joint *j = NULL;
    steno_transducer *transduced = NULL;
    steno_status st = STENO_OK;
    if (x->rows && s->blocks) {
        j = steno_espnet_block_search_joint(s->blocks);
        if (!steno_joint_count(j)) /* all ended too early: once more, as ESPnet */
            st = steno_espnet_decode(r, &s->search, x->enc, x->rows, x->ctc, &j, t->err);
    } else if (x->rows && steno_espnet_is_transducer(s->model->espnet))
        st = transduce(s, r, x, &transduced, t->err);
    else if (x->rows && !steno_espnet_stream_ctc_alone(s))
        st = steno_espnet_decode(r, &s->search, x->enc, x->rows, x->ctc, &j, t->err);
    return st ? st
              : steno_espnet_stream_status(
                    steno_espnet_stream_emit_final(s, s->n - s->keep, x, j, transduced), t->err);
}

/* A final whose work is done in part goes on with the stream's next step. */
static steno_status end_work(const struct steno_espnet_stream_work *t, steno_espnet_runner *r)
{
    steno_status st = t->st;
    if (t->s->due == STENO_DUE_PARTIAL)
        return end_partial(t, r);
    if (st == STENO_NEED_MORE || (!st && t->more))
        return STENO_OK;
    if (!st)
        st = say_final(t, r);
    drop_segment(t->s);
    return st;
}

/* Streams whose steps begin with blocks of one form, which are one batch; or one stream. */
struct group {
    struct steno_espnet_stream *s[STENO_BATCH_MAX];
    size_t at[STENO_BATCH_MAX], n; /* in the caller's arrays */
    bool blocks;
};

static void find_group(steno_stream *const *streams, size_t n, size_t first, const bool *done,
                       struct group *g)
{
    struct steno_espnet_stream *s = own(streams[first]);
    *g = (struct group){{s}, {first}, 1, steno_espnet_stream_wants_block(s)};
    for (size_t i = first + 1; g->blocks && s->model->espnet->batches && i < n; i++) {
        struct steno_espnet_stream *o = own(streams[i]);
        if (done[i] || !steno_espnet_stream_wants_block(o) ||
            !steno_espnet_same_form(&s->state, &o->state))
            continue;
        g->at[g->n] = i;
        g->s[g->n++] = o;
    }
}

/* Up to the search. *spent grows by what the networks of blocks took. Where those of a batch fail,
 * each stream tries again alone: no stream is at the mercy of another. */
static void begin_group(const struct group *g, steno_espnet_runner *r,
                        struct steno_espnet_stream_work *work, struct steno_network_time *spent)
{
    if (g->blocks) {
        steno_network_time_begin(spent);
        (void)!steno_espnet_stream_encode(g->s, g->n, r, NULL);
        steno_network_time_end(spent);
    }
    for (size_t i = 0; i < g->n; i++)
        begin_work(&work[i], r);
}

/* Streams that need a step: groups one after the other, then the search of all of them. Without
 * blocks what a stream has come to is the runner's, and it goes to its end alone. */
static void step_some(steno_stream *const *streams, size_t n, steno_espnet_runner *r, bool *done,
                      steno_status *st, steno_err *err, struct steno_network_time *spent)
{
    struct steno_espnet_stream_work work[STENO_BATCH_MAX];
    size_t at[STENO_BATCH_MAX], m = 0;
    struct group g;
    for (size_t i = 0; i < n; i++) {
        if (done[i])
            continue;
        find_group(streams, n, i, done, &g);
        for (size_t k = 0; k < g.n; k++) {
            work[m + k] =
                (struct steno_espnet_stream_work){.s = g.s[k], .err = err ? &err[g.at[k]] : NULL};
            at[m + k] = g.at[k];
            done[g.at[k]] = true;
        }
        begin_group(&g, r, work + m, spent);
        m += g.n;
        if (!steno_espnet_stream_by_blocks(g.s[0]))
            break;
    }
    steno_espnet_stream_search(work, m, r);
    for (size_t i = 0; i < m; i++)
        st[at[i]] = end_work(&work[i], r);
}

/* At most STENO_BATCH_MAX. */
static void step_all(steno_stream *const *streams, size_t n, steno_status *st, steno_err *err,
                     struct steno_network_time *spent)
{
    struct steno_espnet *e = own(streams[0])->model->espnet;
    steno_espnet_runner *r = NULL;
    bool done[STENO_BATCH_MAX] = {false};
    for (size_t i = 0; i < n; i++) {
        st[i] = STENO_OK;
        done[i] = own(streams[i])->due == STENO_DUE_NOTHING;
    }
    for (size_t i = 0; i < n; i++) {
        if (done[i] || (!r && (st[i] = steno_espnet_acquire(e, &r, err ? &err[i] : NULL))))
            continue;
        step_some(streams, n, r, done, st, err, spent);
    }
    if (r)
        steno_espnet_release(e, r);
    for (size_t i = 0; i < n; i++)
        own(streams[i])->failed |= st[i] != STENO_OK;
}

static steno_status step_alone(struct steno_espnet_stream *s, steno_err *err)
{
    steno_stream *stream = (steno_stream *)s;
    struct steno_network_time spent = {0};
    steno_status st;
    step_all(&stream, 1, &st, err, &spent);
    return st;
}

/* ---- audio in ------------------------------------------------------------------------------ */

static bool ready(const steno_stream *stream)
{
    return own_const(stream)->due != STENO_DUE_NOTHING;
}

/* With fewer samples than these nothing becomes due: neither a partial nor a cut. */
static size_t missing(const steno_stream *stream)
{
    const struct steno_espnet_stream *s = own_const(stream);
    size_t hop = s->model->hop, need = steno_espnet_stream_samples(s, FIRST_PARTIAL) / 2;
    if (s->due != STENO_DUE_NOTHING)
        return 0;
    if (steno_espnet_stream_by_blocks(s))
        need = s->speaking ? s->model->hop * (steno_espnet_stream_frames_wanted(s) - s->n_feats)
                           : need;
    else if (s->whole)
        need = s->opt.no_partials  ? steno_espnet_stream_samples(s, 10)
               : s->partial > s->n ? s->partial - s->n
                                   : 1;
    else if (s->speaking) {
        size_t rule = steno_espnet_stream_samples(s, s->opt.endpoint.silence_after),
               quiet = (size_t)s->quiet * hop;
        size_t longest = steno_espnet_stream_samples(s, s->opt.endpoint.longest);
        need = rule > quiet ? rule - quiet : 1;
        if (longest > s->n && longest - s->n < need)
            need = longest - s->n;
        if (!s->opt.no_partials && s->partial - s->n < need)
            need = s->partial > s->n ? s->partial - s->n : 1;
    }
    need = need * (size_t)s->opt.sample_rate / (size_t)s->model->conf.sample_rate;
    return need < 1 ? 1 : need;
}

static steno_status append(struct steno_espnet_stream *s, const float *pcm, size_t n)
{
    size_t cap = s->cap ? s->cap : 16384, had = s->n - s->cut;
    float *p;
    if (had + n > s->cap) {
        while (cap < had + n)
            cap *= 2;
        p = realloc(s->pcm, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        s->pcm = p;
        s->cap = cap;
    }
    memcpy(s->pcm + had, pcm, n * sizeof *pcm);
    s->n += n;
    return STENO_OK;
}

/* Nobody speaks: only what might stand in front of a word is kept. */
static void forget_silence(struct steno_espnet_stream *s)
{
    size_t before = steno_espnet_stream_samples(s, BEFORE_SECONDS), gone;
    if (s->n < 4 * before + BLOCK)
        return;
    gone = s->n - before;
    memmove(s->pcm, s->pcm + gone, before * sizeof *s->pcm);
    s->n -= gone;
    s->seen -= gone;
    s->from += (int64_t)gone;
}

/* The segment begins BEFORE_SECONDS in front of the frame just seen. */
static steno_status begin_speech(struct steno_espnet_stream *s)
{
    size_t before = steno_espnet_stream_samples(s, BEFORE_SECONDS);
    if (s->seen > before) {
        size_t gone = s->seen - before;
        memmove(s->pcm, s->pcm + gone, (s->n - gone) * sizeof *s->pcm);
        s->n -= gone;
        s->seen -= gone;
        s->from += (int64_t)gone;
    }
    s->speaking = true;
    s->quiet = 0;
    return steno_espnet_stream_emit_start(s);
}

static void close_segment(struct steno_espnet_stream *s, enum steno_final_reason reason,
                          size_t keep)
{
    s->due = STENO_DUE_FINAL;
    s->reason = reason;
    s->keep = keep;
}

/* One hop of the segment through the activity rule and the rules of endpointing. */
static steno_status take_frame(struct steno_espnet_stream *s)
{
    size_t hop = s->model->hop;
    bool loud = steno_activity_push(&s->activity, s->pcm + (s->seen - s->cut), hop);
    const struct steno_endpoint_rules *e = &s->opt.endpoint;
    s->seen += hop;
    if (!s->speaking) {
        if (loud)
            return begin_speech(s);
        forget_silence(s);
        return STENO_OK;
    }
    s->quiet = loud ? 0 : s->quiet + 1;
    if ((size_t)s->quiet * hop >= steno_espnet_stream_samples(s, e->silence_after))
        close_segment(s, STENO_FINAL_ENDPOINT, s->n - s->seen);
    else if (s->seen >= steno_espnet_stream_samples(s, e->longest))
        close_segment(s, STENO_FINAL_LENGTH, s->n - s->seen);
    return STENO_OK;
}

/* Frames until something is due. */
static steno_status take_frames(struct steno_espnet_stream *s)
{
    steno_status st = STENO_OK;
    while (!st && s->due == STENO_DUE_NOTHING && !s->whole && s->n - s->seen >= s->model->hop)
        st = take_frame(s);
    if (st || s->due != STENO_DUE_NOTHING || !s->speaking)
        return st;
    if (steno_espnet_stream_by_blocks(s)) {
        st = steno_espnet_stream_make_frames(s, s->whole ? s->n : s->seen);
        s->due = s->n_feats == steno_espnet_stream_frames_wanted(s) ? STENO_DUE_PARTIAL
                                                                    : STENO_DUE_NOTHING;
    } else if (!s->opt.no_partials && s->n >= s->partial && !s->model->espnet->blocks) {
        s->due = STENO_DUE_PARTIAL;
    }
    return st;
}

/* Pending samples join the segment a hop at a time, so that what is due is due at the same sample
 * whatever the pushes were. */
static steno_status drain_pending(struct steno_espnet_stream *s)
{
    size_t hop = s->model->hop;
    steno_status st = take_frames(s);
    while (!st && s->due == STENO_DUE_NOTHING && s->pos < s->len) {
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

static steno_status check_open(const struct steno_espnet_stream *s, steno_err *err)
{
    if (s->failed)
        return steno_fail(err, STENO_ERR_INVAL, "stream has failed before");
    if (s->ended)
        return steno_fail(err, STENO_ERR_INVAL, "stream has ended");
    return STENO_OK;
}

static steno_status fail_stream(struct steno_espnet_stream *s, steno_status st)
{
    s->failed = true;
    return st;
}

static steno_status resample_block(struct steno_espnet_stream *s, const float *pcm, size_t n,
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
    struct steno_espnet_stream *s = own(stream);
    steno_status st = check_open(s, err);
    *used = 0;
    if (st)
        return st;
    st = steno_espnet_stream_status(drain_pending(s), err);
    while (!st && *used < n && s->due == STENO_DUE_NOTHING) {
        size_t k = 0;
        st = resample_block(s, pcm + *used, n - *used, &k, err);
        if (st)
            break;
        *used += k;
        s->taken += (int64_t)k;
        st = steno_espnet_stream_status(drain_pending(s), err);
    }
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status push(steno_stream *stream, const float *pcm, size_t n, steno_err *err)
{
    struct steno_espnet_stream *s = own(stream);
    size_t at = 0;
    do {
        size_t used;
        steno_status st = feed(stream, pcm + at, n - at, &used, err);
        if (!st && (st = step_alone(s, err)))
            s->failed = true;
        if (st)
            return st;
        at += used;
    } while (at < n || s->pos < s->len || s->due != STENO_DUE_NOTHING);
    return STENO_OK;
}

/* ---- end of a run -------------------------------------------------------------------------- */

/* What is open becomes final; in a run without speech only a request gets an answer. */
static void close_open(struct steno_espnet_stream *s, bool end)
{
    s->closing = true;
    if (end && !(s->speaking && s->n))
        return;
    if (!s->speaking)
        s->n = s->seen = 0;
    close_segment(s, end ? STENO_FINAL_END : STENO_FINAL_REQUEST, 0);
}

/* Until a step is due, or it is over. */
static steno_status flush_on(struct steno_espnet_stream *s, bool end, bool *done, steno_err *err)
{
    steno_status st = steno_espnet_stream_status(drain_pending(s), err);
    while (!st && s->due == STENO_DUE_NOTHING && !s->closing) {
        s->pos = s->len = 0;
        st = steno_resampler_flush(s->resampler, s->pending, s->cap_pending, &s->len, err);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
        if (!st && s->len)
            st = steno_espnet_stream_status(drain_pending(s), err);
        else if (!st)
            close_open(s, end);
    }
    *done = !st && s->due == STENO_DUE_NOTHING;
    return st;
}

static steno_status flush(steno_stream *stream, bool end, bool *done, steno_err *err)
{
    struct steno_espnet_stream *s = own(stream);
    steno_status st = check_open(s, err);
    *done = false;
    if (st)
        return st;
    st = flush_on(s, end, done, err);
    if (!st && *done) {
        s->closing = false;
        s->n = s->seen = s->cut = 0;
        s->ended = end;
        if (!end)
            st = steno_resampler_reset(s->resampler, err);
        s->base = s->taken;
        s->from = 0;
        begin_segment(s);
    }
    return st ? fail_stream(s, st) : STENO_OK;
}

static steno_status flush_alone(steno_stream *stream, bool end, steno_err *err)
{
    struct steno_espnet_stream *s = own(stream);
    bool done = false;
    steno_status st;
    do {
        st = flush(stream, end, &done, err);
        if (!st && !done && (st = step_alone(s, err)))
            s->failed = true;
    } while (!st && !done);
    return st;
}

static steno_status finalize(steno_stream *stream, steno_err *err)
{
    return flush_alone(stream, false, err);
}

static steno_status end_stream(steno_stream *stream, steno_err *err)
{
    return flush_alone(stream, true, err);
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
                                            .flush = flush,
                                            .step = step_all,
                                            .push = push,
                                            .finalize = finalize,
                                            .end = end_stream,
                                            .next = next_event,
                                            .samples = samples};
