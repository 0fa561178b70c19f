/* Each hypothesis is at a frame of its own. One round of a search takes those at the earliest frame
 * and extends each by its best tokens. A token's duration says how far the extended hypothesis
 * moves: with 0 it stays, and the next round may give it another token in the same frame. Those
 * that are ahead wait, and compete with the new ones for the places of the beam. Greedy search is a
 * beam of one.
 *
 * Token sequences (sequences.h) stay until the utterance ends. What the prediction network says
 * after a sequence lies in a slot: 2 beam of them suffice, because a round
 * reads the slots of at most `beam` hypotheses and writes at most `beam` new ones. The network
 * reads only tokens of hypotheses that stay in the beam. */
#include "speech/search/tdt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/search/sequences.h"

#define GROUP STENO_TDT_GROUP
#define MAX_BEAM 64  /* hypotheses */
#define NO_SLOT (-1) /* nothing read yet */

struct hyp {
    double score;
    int64_t frame;  /* the next one that it reads */
    int32_t tokens; /* its sequence */
    int32_t slot;
    int here;         /* tokens so far in `frame` */
    int32_t match;    /* state of the hot words */
    int32_t unread;   /* the token that the prediction network reads after slot; -1: none */
    int32_t duration; /* of a candidate's token */
    float peak;
    size_t order; /* of equals when sorting */
};

struct steno_tdt {
    struct steno_tdt_options o;
    struct steno_blocks fixed; /* arrays whose sizes are those of the options, but slots */
    struct hyp *hyps;          /* [beam] */
    size_t n;
    struct hyp *candidates; /* [beam * (beam + 1)] */
    size_t n_candidates;
    float *slots; /* [2 beam, state + width] */
    float *lm;    /* [vocab] of one hypothesis; NULL: there is no language model */
    float *raw;   /* [vocab] scores before language model and hot words; NULL: there are none */
    struct steno_sequences sequences;
    int64_t frames, end; /* frames before this push, and after it */
    int64_t sound;       /* of utterances before this one */
    struct steno_span *spans;
    size_t cap_spans;
};

struct steno_tdt_work {
    size_t outputs;
    float *logits; /* [GROUP, outputs] */
    const float *enc[GROUP], *row[GROUP], *state[GROUP];
    float *next[GROUP], *out[GROUP];
    int32_t token[GROUP];
    struct {
        steno_tdt *t;
        struct hyp *h;
    } of[GROUP];
    size_t n;
};

/* ---- opening --------------------------------------------------------------------------------- */

static size_t slot_floats(const steno_tdt *t)
{
    return t->o.state + t->o.width;
}

static float *state_of(const steno_tdt *t, int32_t slot)
{
    return t->slots + (size_t)slot * slot_floats(t);
}

static float *row_of(const steno_tdt *t, int32_t slot)
{
    return state_of(t, slot) + t->o.state;
}

static steno_status check_tdt(const struct steno_tdt_options *o, steno_err *err)
{
    if (o->vocab < 2 || o->blank < 0 || o->blank >= o->vocab || o->silent >= o->vocab ||
        o->durations < 0 || o->durations > 1024)
        return steno_fail(err, STENO_ERR_INVAL,
                          "transducer: %d tokens, blank %d, silent %d, %d durations", (int)o->vocab,
                          (int)o->blank, (int)o->silent, (int)o->durations);
    if (o->beam < 1 || o->beam > MAX_BEAM || o->beam >= o->vocab)
        return steno_fail(err, STENO_ERR_INVAL, "transducer: beam %d is outside 1 to %d", o->beam,
                          o->vocab - 1 < MAX_BEAM ? (int)o->vocab - 1 : MAX_BEAM);
    if (o->lm.history > STENO_TOKEN_LM_HISTORY)
        return steno_fail(err, STENO_ERR_INVAL,
                          "transducer: the language model looks at %zu tokens, expected at most %d",
                          o->lm.history, STENO_TOKEN_LM_HISTORY);
    if (!(o->modified || o->beam > 1) && (o->hotwords || o->lm.all))
        return steno_fail(err, STENO_ERR_INVAL,
                          "transducer: hot words and language model need a beam search");
    if (o->max_tokens < 1 || !isfinite(o->blank_penalty))
        return steno_fail(err, STENO_ERR_INVAL, "transducer: %d tokens per frame, penalty %g",
                          o->max_tokens, (double)o->blank_penalty);
    return STENO_OK;
}

steno_status steno_tdt_open(steno_tdt **out, const struct steno_tdt_options *opt, steno_err *err)
{
    const size_t beam = (size_t)opt->beam;
    steno_status st = check_tdt(opt, err);
    steno_tdt *t = st ? NULL : calloc(1, sizeof *t);
    if (st)
        return st;
    if (t) {
        t->o = *opt;
        t->o.modified |= beam > 1;
        if (opt->lm.all)
            t->lm = steno_blocks_add(&t->fixed, (size_t)opt->vocab, sizeof *t->lm);
        if (opt->lm.all || opt->hotwords)
            t->raw = steno_blocks_add(&t->fixed, (size_t)opt->vocab, sizeof *t->raw);
        t->hyps = steno_blocks_add(&t->fixed, beam, sizeof *t->hyps);
        t->candidates = steno_blocks_add(&t->fixed, beam * (beam + 1), sizeof *t->candidates);
        t->slots = steno_aligned_alloc(2 * beam * slot_floats(t) * sizeof *t->slots + 1);
    }
    if (!t || t->fixed.failed || !t->slots) {
        steno_tdt_close(t);
        return steno_fail(err, STENO_ERR_NOMEM, "transducer: out of memory");
    }
    steno_tdt_restart(t, 0);
    *out = t;
    return STENO_OK;
}

void steno_tdt_close(steno_tdt *t)
{
    if (!t)
        return;
    steno_blocks_free(&t->fixed);
    steno_aligned_free(t->slots);
    steno_sequences_free(&t->sequences);
    free(t->spans);
    free(t);
}

steno_status steno_tdt_work_open(steno_tdt_work **out, size_t outputs, steno_err *err)
{
    steno_tdt_work *w = calloc(1, sizeof *w);
    if (w)
        w->logits = steno_aligned_alloc(GROUP * outputs * sizeof *w->logits);
    if (!w || !w->logits) {
        steno_tdt_work_close(w);
        return steno_fail(err, STENO_ERR_NOMEM, "transducer: out of memory");
    }
    w->outputs = outputs;
    *out = w;
    return STENO_OK;
}

void steno_tdt_work_close(steno_tdt_work *w)
{
    if (!w)
        return;
    steno_aligned_free(w->logits);
    free(w);
}

static void begin_tdt(steno_tdt *t)
{
    t->n = 1;
    steno_sequences_reset(&t->sequences);
    t->hyps[0] = (struct hyp){.frame = t->frames,
                              .tokens = STENO_NO_SEQUENCE,
                              .slot = NO_SLOT,
                              .unread = t->o.blank,
                              .match = STENO_HOTWORDS_START};
}

void steno_tdt_reset(steno_tdt *t)
{
    t->sound = steno_tdt_last_sound(t);
    begin_tdt(t);
}

void steno_tdt_restart(steno_tdt *t, int64_t frame)
{
    t->frames = t->end = frame;
    t->sound = -1;
    begin_tdt(t);
}

void steno_tdt_finish(steno_tdt *t)
{
    for (size_t i = 0; t->o.hotwords && i < t->n; i++) {
        t->hyps[i].score += (double)steno_hotwords_end(t->o.hotwords, t->hyps[i].match);
        t->hyps[i].match = STENO_HOTWORDS_START;
    }
}

void steno_tdt_skip(steno_tdt *t, size_t n)
{
    t->frames = t->end = t->frames + (int64_t)n;
    for (size_t i = 0; i < t->n; i++)
        if (t->hyps[i].frame < t->frames)
            t->hyps[i].frame = t->frames;
}

/* ---- one hypothesis -------------------------------------------------------------------------- */

/* Indices of the k highest scores, highest first; of equal ones the first. */
static void find_best(const float *x, int32_t n, int32_t *best, size_t k)
{
    size_t have = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t at = have;
        if (have == k && !(x[i] > x[best[k - 1]]))
            continue;
        have += have < k;
        for (at = have - 1; at > 0 && x[i] > x[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = i;
    }
}

static double log_sum_exp(const float *x, int32_t n, float max)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)expf(x[i] - max);
    return (double)max + log(sum);
}

/* Move a candidate over `duration` frames after a token of its frame, or after a blank. */
static void move(const struct steno_tdt_options *o, struct hyp *c, bool silent)
{
    int32_t d = o->durations ? c->duration : silent;
    if (silent && d == 0)
        d = 1;
    c->here = d > 0 ? 0 : c->here + 1;
    if (c->here >= o->max_tokens) {
        c->here = 0;
        d = 1;
    }
    c->frame += d;
}

static bool is_silent(const struct steno_tdt_options *o, int32_t token)
{
    return token == o->blank || (o->modified && token == o->silent);
}

/* Scores of the language model for the token after h, in t->lm. */
static void score_lm_of_tdt(const steno_tdt *t, const struct hyp *h)
{
    int32_t history[STENO_TOKEN_LM_HISTORY];
    const size_t n = steno_sequence_tokens(&t->sequences, h->tokens, history, t->o.lm.history);
    t->o.lm.all(t->o.lm.self, history, n, t->lm);
}

/* Copy the scores x [vocab] to t->raw, then add what language model and hot words say. */
static void bias(const steno_tdt *t, const struct hyp *h, float *x)
{
    const struct steno_tdt_options *o = &t->o;
    memcpy(t->raw, x, (size_t)o->vocab * sizeof *x);
    if (t->lm) {
        score_lm_of_tdt(t, h);
        for (int32_t v = 0; v < o->vocab; v++)
            if (!is_silent(o, v))
                x[v] += (float)o->lm.weight * t->lm[v];
    }
    for (size_t i = 0; o->hotwords && i < steno_hotwords_n_next(o->hotwords, h->match); i++) {
        const int32_t token = steno_hotwords_next(o->hotwords, h->match, i);
        if (token >= 0 && token < o->vocab)
            x[token] += o->boost;
    }
}

/* The candidate's token goes through the hot words. */
static void match_hot_words(const struct steno_tdt_options *o, struct hyp *c)
{
    float added = 0;
    if (!o->hotwords || c->unread < 0)
        return;
    c->match = steno_hotwords_step(o->hotwords, c->match, c->unread, &added);
    c->score += (double)added;
}

/* Add the candidates that extend h, whose frame has the scores x [vocab + durations]. */
static void extend_tdt(steno_tdt *t, const struct hyp *h, float *x)
{
    const struct steno_tdt_options *o = &t->o;
    const float *raw = t->raw ? t->raw : x;
    int32_t best[MAX_BEAM], duration = 0;
    double sum, of_duration = 0;
    x[o->blank] -= o->blank_penalty;
    find_best(x, o->vocab, best, (size_t)o->beam);
    sum = log_sum_exp(x, o->vocab, x[best[0]]);
    if (t->raw) {
        bias(t, h, x);
        find_best(x, o->vocab, best, (size_t)o->beam);
    }
    if (o->durations) {
        const float *y = x + o->vocab;
        find_best(y, o->durations, &duration, 1);
        of_duration = (double)y[duration] - log_sum_exp(y, o->durations, y[duration]);
    }
    for (int i = 0; i < o->beam; i++) {
        const int32_t token = best[i];
        const bool silent = is_silent(o, token);
        struct hyp *c = &t->candidates[t->n_candidates++];
        *c = *h;
        c->peak = (float)((double)raw[token] - sum);
        c->score += (double)x[token] - sum + of_duration;
        c->duration = duration;
        c->unread = silent ? -1 : token;
        match_hot_words(o, c);
        move(o, c, silent);
    }
}

static int by_score(const void *a, const void *b)
{
    const struct hyp *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort(struct hyp *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h[i].order = i;
    if (n > 1)
        qsort(h, n, sizeof *h, by_score);
}

/* The unread token of h, emitted in a frame, becomes one of its sequence. */
static steno_status add_token(steno_tdt *t, struct hyp *h, int64_t frame)
{
    const struct steno_span token = {.token = h->unread,
                                     .peak = h->peak,
                                     .first = frame,
                                     .last = frame + (h->duration > 1 ? h->duration - 1 : 0)};
    h->tokens = steno_sequence_extend(&t->sequences, h->tokens, &token);
    return h->tokens == STENO_NO_SEQUENCE ? STENO_ERR_NOMEM : STENO_OK;
}

static int64_t earliest(const steno_tdt *t)
{
    int64_t frame = t->hyps[0].frame;
    for (size_t i = 1; i < t->n; i++)
        frame = t->hyps[i].frame < frame ? t->hyps[i].frame : frame;
    return frame;
}

/* The candidates of frame `frame` are complete: keep the best. */
static steno_status prune(steno_tdt *t, int64_t frame)
{
    const size_t beam = (size_t)t->o.beam;
    steno_status st = STENO_OK;
    sort(t->candidates, t->n_candidates);
    t->n = t->n_candidates < beam ? t->n_candidates : beam;
    memcpy(t->hyps, t->candidates, t->n * sizeof *t->hyps);
    t->n_candidates = 0;
    for (size_t i = 0; i < t->n && !st; i++)
        if (t->hyps[i].unread >= 0)
            st = add_token(t, &t->hyps[i], frame);
    return st;
}

/* ---- common runs of the networks ------------------------------------------------------------- */

static int32_t free_slot(const steno_tdt *t, const bool *taken)
{
    int32_t slot = 0;
    while (slot < 2 * t->o.beam - 1 && taken[slot])
        slot++;
    return slot;
}

static steno_status run_predict(steno_tdt_work *w, const struct steno_transducer_nets *nets,
                                steno_err *err)
{
    steno_status st =
        w->n ? nets->predict(nets->self, w->state, w->token, w->n, w->next, w->out, err) : STENO_OK;
    w->n = 0;
    return st;
}

/* Let the prediction network read the unread tokens of all searches. */
static steno_status read_tokens(steno_tdt *const *t, size_t n,
                                const struct steno_transducer_nets *nets, steno_tdt_work *w,
                                steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t k = 0; k < n; k++) {
        bool taken[2 * MAX_BEAM] = {false};
        for (size_t i = 0; i < t[k]->n; i++)
            if (t[k]->hyps[i].slot != NO_SLOT)
                taken[t[k]->hyps[i].slot] = true;
        for (size_t i = 0; i < t[k]->n && !st; i++) {
            struct hyp *h = &t[k]->hyps[i];
            const int32_t slot = free_slot(t[k], taken);
            if (h->unread < 0)
                continue;
            taken[slot] = true;
            w->state[w->n] = h->slot == NO_SLOT ? NULL : state_of(t[k], h->slot);
            w->token[w->n] = h->unread;
            w->next[w->n] = state_of(t[k], slot);
            w->out[w->n++] = row_of(t[k], slot);
            h->slot = slot;
            h->unread = -1;
            if (w->n == GROUP)
                st = run_predict(w, nets, err);
        }
    }
    return st ? st : run_predict(w, nets, err);
}

/* Join the pairs so far, and extend their hypotheses. */
static steno_status run_join(steno_tdt_work *w, const struct steno_transducer_nets *nets,
                             steno_err *err)
{
    steno_status st =
        w->n ? nets->join(nets->self, w->enc, w->row, w->n, w->logits, err) : STENO_OK;
    for (size_t i = 0; i < w->n && !st; i++)
        extend_tdt(w->of[i].t, w->of[i].h, w->logits + i * w->outputs);
    w->n = 0;
    return st;
}

/* Collect the hypotheses of t at `frame`; those that are ahead stay as they are. */
static steno_status join_frame(steno_tdt *t, const struct steno_tdt_frames *f, int64_t frame,
                               const struct steno_transducer_nets *nets, steno_tdt_work *w,
                               steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < t->n && !st; i++) {
        struct hyp *h = &t->hyps[i];
        if (h->frame > frame) {
            t->candidates[t->n_candidates++] = *h;
            continue;
        }
        w->enc[w->n] = f->enc + (size_t)(frame - t->frames) * f->dim;
        w->row[w->n] = row_of(t, h->slot);
        w->of[w->n].t = t;
        w->of[w->n++].h = h;
        if (w->n == GROUP)
            st = run_join(w, nets, err);
    }
    return st;
}

/* One round of all searches. *more: false if none had a frame left. */
static steno_status run_round(steno_tdt *const *t, const struct steno_tdt_frames *frames, size_t n,
                              const struct steno_transducer_nets *nets, steno_tdt_work *w,
                              bool *more, steno_err *err)
{
    steno_status st = read_tokens(t, n, nets, w, err);
    *more = false;
    for (size_t k = 0; k < n && !st; k++) {
        const int64_t frame = earliest(t[k]);
        if (frame >= t[k]->end)
            continue;
        *more = true;
        st = join_frame(t[k], &frames[k], frame, nets, w, err);
    }
    if (!st)
        st = run_join(w, nets, err);
    for (size_t k = 0; k < n && !st; k++)
        if (t[k]->n_candidates)
            st = prune(t[k], earliest(t[k]));
    return st;
}

steno_status steno_tdt_push(steno_tdt *const *t, const struct steno_tdt_frames *frames, size_t n,
                            const struct steno_transducer_nets *nets, steno_tdt_work *w,
                            steno_err *err)
{
    bool more = true;
    steno_status st = STENO_OK;
    w->n = 0;
    for (size_t k = 0; k < n; k++) {
        t[k]->n_candidates = 0;
        t[k]->end = t[k]->frames + (int64_t)frames[k].n;
    }
    while (more && !st)
        st = run_round(t, frames, n, nets, w, &more, err);
    for (size_t k = 0; k < n; k++)
        t[k]->frames = t[k]->end;
    return st;
}

/* ---- results --------------------------------------------------------------------------------- */

static size_t tokens_of(const steno_tdt *t, const struct hyp *h)
{
    return steno_sequence_length(&t->sequences, h->tokens);
}

static size_t best_of(const steno_tdt *t)
{
    size_t best = 0;
    for (size_t i = 1; i < t->n; i++)
        if (t->hyps[i].score > t->hyps[best].score)
            best = i;
    return best;
}

steno_status steno_tdt_nbest(steno_tdt *t, struct steno_hyp *out, size_t n, size_t *count)
{
    size_t sum = 0, at = 0;
    sort(t->hyps, t->n);
    n = n < t->n ? n : t->n;
    for (size_t i = 0; i < n; i++)
        sum += tokens_of(t, &t->hyps[i]);
    if (STENO_RESERVE(&t->spans, &t->cap_spans, sum))
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const size_t tokens = tokens_of(t, &t->hyps[i]);
        if (tokens)
            steno_sequence_spans(&t->sequences, t->hyps[i].tokens, t->spans + at, tokens);
        out[i] = (struct steno_hyp){
            .spans = tokens ? t->spans + at : NULL, .n = tokens, .score = t->hyps[i].score};
        at += tokens;
    }
    *count = n;
    return STENO_OK;
}

size_t steno_tdt_stable(const steno_tdt *t)
{
    int32_t common = t->hyps[0].tokens;
    for (size_t i = 1; i < t->n; i++)
        common = steno_sequence_common(&t->sequences, common, t->hyps[i].tokens);
    return steno_sequence_length(&t->sequences, common);
}

size_t steno_tdt_n_tokens(const steno_tdt *t)
{
    return tokens_of(t, &t->hyps[best_of(t)]);
}

int steno_tdt_find_last(const steno_tdt *t, const int32_t *list, size_t n)
{
    const struct steno_sequence *node = t->sequences.node;
    for (int32_t at = t->hyps[best_of(t)].tokens; at != STENO_NO_SEQUENCE; at = node[at].before)
        for (size_t i = 0; i < n; i++)
            if (node[at].span.token == list[i])
                return (int)i;
    return -1;
}

int64_t steno_tdt_frames(const steno_tdt *t)
{
    return t->frames;
}

int64_t steno_tdt_last_sound(const steno_tdt *t)
{
    const struct hyp *h = &t->hyps[best_of(t)];
    int64_t last;
    if (h->tokens == STENO_NO_SEQUENCE)
        return t->sound;
    last = t->sequences.node[h->tokens].span.last;
    return last < t->frames ? last : t->frames - 1;
}
