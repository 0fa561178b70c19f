/* The sequence of a hypothesis (sequences.h) begins with the context that it began with, in frame
 * -1. */
#include "speech/search/stateless.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/search/sequences.h"

struct hyp {
    int32_t tokens; /* its sequence */
    double score;
    float *lm;                                /* [vocab] scores of the next token; NULL: none */
    int32_t match;                            /* state of the hotwords */
    int32_t context[STENO_STATELESS_CONTEXT]; /* what the prediction network sees */
};

struct candidate {
    double score;
    float log_prob; /* of the token alone */
    int32_t hyp, token;
};

struct result {
    struct steno_span *spans;
    size_t cap;
};

struct steno_stateless {
    struct steno_stateless_options opt;
    struct hyp hyps[2][STENO_STATELESS_BEAM + 1]; /* live ones, and those of the next frame; a
                                                   * reset adds one */
    int now;                                      /* which are live */
    size_t n;
    struct steno_blocks fixed; /* results, lm_rows and what these point to */
    float **lm_rows;           /* [2 * beam] memory of `lm`; the first n_lm_rows are unused */
    size_t n_lm_rows;
    struct candidate best[STENO_STATELESS_BEAM];
    struct steno_sequences sequences;
    struct result *results; /* [beam] */
    int64_t frame, begin;   /* the next frame; the first one of the utterance */
};

static size_t tokens_of(const steno_stateless *s, const struct hyp *h)
{
    return steno_sequence_length(&s->sequences, h->tokens) - (size_t)s->opt.context;
}

/* ---- language model -------------------------------------------------------------------------- */

/* Score the token after hypothesis h. */
static void score_lm_of_sequence(steno_stateless *s, struct hyp *h)
{
    int32_t history[STENO_TOKEN_LM_HISTORY];
    size_t n = tokens_of(s, h);
    if (!s->opt.lm.all)
        return;
    n = n < s->opt.lm.history ? n : s->opt.lm.history;
    n = steno_sequence_tokens(&s->sequences, h->tokens, history, n);
    if (!h->lm)
        h->lm = s->lm_rows[--s->n_lm_rows];
    s->opt.lm.all(s->opt.lm.self, history, n, h->lm);
}

static void drop_lm(steno_stateless *s, struct hyp *h)
{
    if (h->lm)
        s->lm_rows[s->n_lm_rows++] = h->lm;
    h->lm = NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status check_stateless(const struct steno_stateless_options *o, steno_err *err)
{
    if (o->vocab < 2 || o->blank < 0 || o->blank >= o->vocab || o->unknown >= o->vocab)
        return steno_fail(err, STENO_ERR_INVAL, "transducer: blank %d in a vocabulary of %d",
                          (int)o->blank, (int)o->vocab);
    if (o->context < 1 || o->context > STENO_STATELESS_CONTEXT)
        return steno_fail(err, STENO_ERR_INVAL,
                          "transducer: the prediction network sees %d tokens, expected 1 to %d",
                          o->context, STENO_STATELESS_CONTEXT);
    if (o->lm.history > STENO_TOKEN_LM_HISTORY)
        return steno_fail(err, STENO_ERR_INVAL,
                          "transducer: the language model looks at %zu tokens, expected at most %d",
                          o->lm.history, STENO_TOKEN_LM_HISTORY);
    if (o->beam < 1 || o->beam > STENO_STATELESS_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "transducer: beam %d, expected 1 to %d", o->beam,
                          STENO_STATELESS_BEAM);
    return STENO_OK;
}

static void open_lm(steno_stateless *s)
{
    size_t rows = 2 * (size_t)s->opt.beam;
    s->lm_rows = steno_blocks_add(&s->fixed, rows, sizeof *s->lm_rows);
    for (size_t i = 0; s->lm_rows && i < rows; i++)
        s->lm_rows[s->n_lm_rows++] =
            steno_blocks_add(&s->fixed, (size_t)s->opt.vocab, sizeof **s->lm_rows);
}

steno_status steno_stateless_open(steno_stateless **out, const struct steno_stateless_options *opt,
                                  steno_err *err)
{
    steno_stateless *s;
    steno_status st = check_stateless(opt, err);
    if (st)
        return st;
    s = calloc(1, sizeof *s);
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "transducer: out of memory");
    s->opt = *opt;
    s->results = steno_blocks_add(&s->fixed, (size_t)opt->beam, sizeof *s->results);
    if (opt->lm.all)
        open_lm(s);
    st = s->fixed.failed ? STENO_ERR_NOMEM : steno_stateless_restart(s, 0);
    if (st) {
        steno_stateless_close(s);
        return steno_fail(err, st, "transducer: out of memory");
    }
    *out = s;
    return STENO_OK;
}

static void drop_hyps(steno_stateless *s)
{
    for (size_t i = 0; i < s->n; i++) {
        steno_sequence_drop(&s->sequences, s->hyps[s->now][i].tokens);
        drop_lm(s, &s->hyps[s->now][i]);
    }
    s->n = 0;
}

void steno_stateless_close(steno_stateless *s)
{
    if (!s)
        return;
    drop_hyps(s);
    steno_sequences_free(&s->sequences);
    for (int i = 0; s->results && i < s->opt.beam; i++)
        free(s->results[i].spans);
    steno_blocks_free(&s->fixed);
    free(s);
}

/* ---- hypotheses ------------------------------------------------------------------------------ */

/* Add h to the hypotheses of the next frame, of which there are *n. It merges with one of the same
 * sequence that is there already. */
static void add_hyp(steno_stateless *s, struct hyp *h, struct hyp *next, size_t *n)
{
    for (size_t i = 0; i < *n; i++) {
        struct hyp *o = &next[i];
        double high, low;
        if (!steno_sequence_same(&s->sequences, o->tokens, h->tokens))
            continue;
        high = fmax(o->score, h->score);
        low = fmin(o->score, h->score);
        o->score = high + log1p(exp(low - high));
        steno_sequence_drop(&s->sequences, h->tokens);
        drop_lm(s, h);
        return;
    }
    next[(*n)++] = *h;
}

/* A hypothesis without tokens, with the given context. */
static steno_status begin_hyp(steno_stateless *s, const int32_t *context, double score,
                              struct hyp *h)
{
    *h = (struct hyp){.tokens = STENO_NO_SEQUENCE, .score = score, .match = STENO_HOTWORDS_START};
    for (int i = 0; i < s->opt.context; i++) {
        const struct steno_span token = {.token = context[i], .first = -1, .last = -1};
        const int32_t longer = steno_sequence_extend(&s->sequences, h->tokens, &token);
        steno_sequence_drop(&s->sequences, h->tokens); /* the longer one uses it now */
        h->tokens = longer;
        if (longer == STENO_NO_SEQUENCE)
            return STENO_ERR_NOMEM;
    }
    memcpy(h->context, context, (size_t)s->opt.context * sizeof *context);
    return STENO_OK;
}

/* A hypothesis without a past. */
static steno_status begin_empty(steno_stateless *s, struct hyp *h)
{
    int32_t context[STENO_STATELESS_CONTEXT] = {0};
    for (int i = 0; i < s->opt.context; i++)
        context[i] = i + 1 < s->opt.context ? -1 : s->opt.blank;
    return begin_hyp(s, context, 0, h);
}

/* Make the n hypotheses `to`, which are not the live ones, live. */
static void replace_hyps(steno_stateless *s, size_t n)
{
    drop_hyps(s);
    s->now = !s->now;
    s->n = n;
}

steno_status steno_stateless_restart(steno_stateless *s, int64_t frame)
{
    struct hyp *to = s->hyps[!s->now];
    steno_status st = begin_empty(s, to);
    s->frame = s->begin = frame;
    if (st)
        return st;
    replace_hyps(s, 1);
    score_lm_of_sequence(s, to);
    return STENO_OK;
}

/* The better one by score per token. */
static const struct hyp *better_per_token(const steno_stateless *s, const struct hyp *a,
                                          const struct hyp *b)
{
    const struct steno_sequence *node = s->sequences.node;
    return b->score / node[b->tokens].length > a->score / node[a->tokens].length ? b : a;
}

static const struct hyp *best(const steno_stateless *s)
{
    const struct hyp *h = &s->hyps[s->now][0];
    for (size_t i = 1; i < s->n; i++)
        h = better_per_token(s, h, &s->hyps[s->now][i]);
    return h;
}

/* sherpa-onnx's rules. If the best hypothesis has tokens, all go on, and in a beam one without a
 * past begins beside them. Else one without a past begins; the greedy search lets it see the old
 * context until its first token. */
steno_status steno_stateless_reset(steno_stateless *s)
{
    struct hyp *from = s->hyps[s->now], *to = s->hyps[!s->now], h;
    bool goes_on = tokens_of(s, best(s)) > 0;
    size_t n = 0;
    steno_status st = STENO_OK;
    s->begin = s->frame;
    if (!goes_on || s->opt.beam > 1) {
        st = begin_empty(s, &h);
        if (s->opt.beam == 1)
            memcpy(h.context, from[0].context, sizeof h.context);
        if (!st)
            add_hyp(s, &h, to, &n);
    }
    for (size_t i = 0; i < s->n && goes_on && !st; i++) {
        st = begin_hyp(s, from[i].context, from[i].score, &h);
        if (!st)
            add_hyp(s, &h, to, &n);
    }
    replace_hyps(s, n);
    for (size_t i = 0; i < n; i++)
        score_lm_of_sequence(s, &to[i]);
    return st;
}

void steno_stateless_finish(steno_stateless *s)
{
    for (size_t i = 0; s->opt.hotwords && i < s->n; i++) {
        struct hyp *h = &s->hyps[s->now][i];
        h->score += (double)steno_hotwords_end(s->opt.hotwords, h->match);
        h->match = STENO_HOTWORDS_START;
    }
}

/* ---- one frame ------------------------------------------------------------------------------- */

size_t steno_stateless_width(const steno_stateless *s)
{
    return s->n;
}

const int32_t *steno_stateless_context(const steno_stateless *s, size_t i)
{
    return s->hyps[s->now][i].context;
}

static bool emits(const steno_stateless *s, int32_t token)
{
    return token != s->opt.blank && token != s->opt.unknown;
}

/* log(sum(exp(row))); NaN or infinite if the row is no row of scores. */
static float log_sum_exp(const float *row, int32_t n)
{
    float top = row[0], sum = 0;
    for (int32_t v = 1; v < n; v++)
        top = row[v] > top ? row[v] : top;
    for (int32_t v = 0; v < n; v++)
        sum += expf(row[v] - top);
    return top + logf(sum);
}

/* Insert a candidate into the list of the best [n], which keeps at most `beam`. An earlier one wins
 * a tie. */
static size_t insert(steno_stateless *s, size_t n, const struct candidate *c)
{
    size_t at = n < (size_t)s->opt.beam ? n++ : n - 1;
    for (; at > 0 && s->best[at - 1].score < c->score; at--)
        s->best[at] = s->best[at - 1];
    s->best[at] = *c;
    return n;
}

/* Find the best pairs of a hypothesis and a token. *found of them are in s->best. */
static steno_status find_best(steno_stateless *s, float *logits, size_t *found)
{
    size_t n = 0, beam = (size_t)s->opt.beam;
    for (size_t i = 0; i < s->n; i++) {
        const struct hyp *h = &s->hyps[s->now][i];
        float *row = logits + i * (size_t)s->opt.vocab, sum;
        double base, weight = s->opt.lm.weight;
        row[s->opt.blank] -= s->opt.blank_penalty;
        sum = log_sum_exp(row, s->opt.vocab);
        if (!isfinite(sum))
            return STENO_ERR_FORMAT;
        base = h->score - (double)sum;
        for (int32_t v = 0; v < s->opt.vocab; v++) {
            double score = base + (double)row[v];
            if (h->lm && emits(s, v))
                score += weight * (double)h->lm[v];
            if (!(score > (n == beam ? s->best[n - 1].score : -HUGE_VAL)))
                continue;
            n = insert(s, n, &(struct candidate){score, row[v] - sum, (int32_t)i, v});
        }
    }
    *found = n;
    return n ? STENO_OK : STENO_ERR_FORMAT;
}

static void set_context(const steno_stateless *s, struct hyp *h)
{
    (void)steno_sequence_tokens(&s->sequences, h->tokens, h->context, (size_t)s->opt.context);
}

/* Make the hypothesis of a candidate. The one that repeats its parent takes the parent's scores of
 * the language model. */
static steno_status make_hyp(steno_stateless *s, const struct candidate *c, struct hyp *h)
{
    struct hyp *from = &s->hyps[s->now][c->hyp];
    *h = *from;
    h->score = c->score;
    h->lm = NULL;
    if (!emits(s, c->token)) {
        steno_sequence_keep(&s->sequences, h->tokens);
        return STENO_OK;
    }
    h->tokens = steno_sequence_extend(
        &s->sequences, from->tokens,
        &(struct steno_span){
            .token = c->token, .peak = c->log_prob, .first = s->frame, .last = s->frame});
    if (h->tokens == STENO_NO_SEQUENCE)
        return STENO_ERR_NOMEM;
    set_context(s, h);
    if (s->opt.hotwords) {
        float added = 0;
        h->match = steno_hotwords_step(s->opt.hotwords, h->match, c->token, &added);
        h->score += (double)added;
    }
    return STENO_OK;
}

/* Scores of the language model for the hypotheses of the next frame: those that have no new token
 * take them over. */
static void move_lm(steno_stateless *s, struct hyp *next, size_t n)
{
    if (!s->opt.lm.all)
        return;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < s->n && !next[k].lm; i++) {
            struct hyp *from = &s->hyps[s->now][i];
            if (from->tokens == next[k].tokens) {
                next[k].lm = from->lm;
                from->lm = NULL;
            }
        }
    for (size_t k = 0; k < n; k++)
        if (!next[k].lm)
            score_lm_of_sequence(s, &next[k]);
}

steno_status steno_stateless_push(steno_stateless *s, float *logits)
{
    struct hyp *next = s->hyps[!s->now];
    size_t found = 0, n = 0;
    steno_status st = find_best(s, logits, &found);
    if (st)
        return st;
    for (size_t i = 0; i < found && !st; i++) {
        struct hyp h;
        st = make_hyp(s, &s->best[i], &h);
        if (!st)
            add_hyp(s, &h, next, &n);
    }
    move_lm(s, next, n);
    replace_hyps(s, n);
    s->frame++;
    return st;
}

void steno_stateless_skip(steno_stateless *s, int64_t n)
{
    s->frame += n;
}

/* ---- results --------------------------------------------------------------------------------- */

static steno_status list(const steno_stateless *s, const struct hyp *h, struct result *r,
                         struct steno_hyp *out)
{
    const size_t n = tokens_of(s, h);
    if (STENO_RESERVE(&r->spans, &r->cap, n))
        return STENO_ERR_NOMEM;
    steno_sequence_spans(&s->sequences, h->tokens, r->spans, n);
    *out = (struct steno_hyp){.spans = r->spans, .n = n, .score = h->score};
    return STENO_OK;
}

steno_status steno_stateless_nbest(steno_stateless *s, struct steno_hyp *out, size_t n,
                                   size_t *count)
{
    const struct hyp *order[STENO_STATELESS_BEAM];
    for (size_t i = 0; i < s->n; i++) { /* insertion keeps the order of equal ones */
        size_t at = i;
        const struct hyp *h = &s->hyps[s->now][i];
        for (; at > 0 && better_per_token(s, order[at - 1], h) == h; at--)
            order[at] = order[at - 1];
        order[at] = h;
    }
    *count = s->n < n ? s->n : n;
    for (size_t i = 0; i < *count; i++) {
        steno_status st = list(s, order[i], &s->results[i], &out[i]);
        if (st)
            return st;
    }
    return STENO_OK;
}

size_t steno_stateless_stable(const steno_stateless *s)
{
    int32_t common = s->hyps[s->now][0].tokens;
    size_t length;
    for (size_t i = 1; i < s->n; i++)
        common = steno_sequence_common(&s->sequences, common, s->hyps[s->now][i].tokens);
    length = steno_sequence_length(&s->sequences, common);
    return length > (size_t)s->opt.context ? length - (size_t)s->opt.context : 0;
}

size_t steno_stateless_n_tokens(const steno_stateless *s)
{
    return tokens_of(s, best(s));
}

int64_t steno_stateless_last_sound(const steno_stateless *s)
{
    const struct hyp *h = best(s);
    return tokens_of(s, h) ? s->sequences.node[h->tokens].span.first : s->begin - 1;
}

int64_t steno_stateless_frames(const steno_stateless *s)
{
    return s->frame;
}
