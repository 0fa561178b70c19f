/* One step: every scorer gives [hypotheses, vocab]. Their weighted sum selects the pre-beam tokens
 * of each hypothesis, and CTC scores those and eos. The best `beam` pairs of hypothesis and token
 * become the new hypotheses. A hypothesis that ends in eos moves to the results and is not
 * replaced: the beam becomes narrower, as in ESPnet. Sums are in single precision in ESPnet's
 * order, so that near ties have the same outcome. */
#include "speech/search/aed_beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/search/ctc_prefix.h"

#define END_LENGTHS 3      /* end detection checks this many lengths */
#define END_MARGIN (-10.0) /* ... for scores this far below the best */

struct candidate {
    float score;
    int32_t hyp, token;
};

struct ended {
    double score;
    size_t at, n; /* its n tokens start here in `results` */
};

struct steno_joint {
    struct steno_joint_options o;
    struct steno_blocks fixed;  /* arrays whose sizes are those of the options */
    struct steno_blocks tokens; /* now, next, prev */
    steno_ctc_prefix *prefix;   /* NULL: no CTC */
    size_t k;                   /* tokens per hypothesis that CTC scores, including eos */
    float *sum, *part;          /* [beam, vocab]: the weighted sum; the scores of one scorer */
    float *partial_scores; /* [beam, vocab] weighted scores of a partial scorer; NULL: not yet */
    bool has_partial_scores;
    float *key;   /* [beam, vocab] scores of the scorer that selects the pre-beam; NULL: the sum
                     selects it */
    int32_t *ids; /* [k] tokens that CTC scores */
    float *ctc;   /* [k] */
    struct candidate *pick, *heap; /* [beam]; [max(beam, k)] */
    /* tokens [beam, cap] of the hypotheses, current and next */
    int32_t *now, *next;
    size_t cap;
    const int32_t **rows;
    int32_t *parent, *from, *token; /* [beam] */
    double *score;                  /* [beam] */
    size_t n, length;
    /* block by block: the hypotheses before the last step, and the scores before the step that is
     * tried */
    int32_t *prev;
    double *prev_score, *kept_score; /* [beam] */
    size_t n_prev, n_kept;           /* n_prev 0: there are none */
    size_t frames, index;            /* frames so far; steps so far */
    size_t n_scored;                 /* steps that the scorers have computed */
    /* results */
    int32_t *results;
    size_t n_results, cap_results;
    struct ended *ended;
    size_t n_ended, cap_ended;
};

static steno_status no_memory(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "beam search: out of memory");
}

steno_status steno_joint_open(steno_joint **out, const struct steno_joint_options *opt,
                              steno_err *err)
{
    steno_joint *j;
    size_t cells, v = (size_t)opt->vocab;
    steno_status st = STENO_OK;
    if (opt->beam < 1 || opt->beam > v)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %zu, the vocabulary has %zu tokens",
                          opt->beam, v);
    if (!steno_mul_size(opt->beam, v * sizeof(float), &cells))
        return steno_fail(err, STENO_ERR_LIMIT, "beam of %zu over %zu tokens", opt->beam, v);
    j = calloc(1, sizeof *j);
    if (!j)
        return no_memory(err);
    j->o = *opt;
    j->k = opt->pre_beam && opt->pre_beam < v ? opt->pre_beam + 1 : v;
    j->sum = steno_blocks_add(&j->fixed, cells, 1);
    j->part = steno_blocks_add(&j->fixed, cells, 1);
    if (opt->pre_beam_key >= 0)
        j->key = steno_blocks_add(&j->fixed, cells, 1);
    j->ids = steno_blocks_add(&j->fixed, j->k, sizeof *j->ids);
    j->ctc = steno_blocks_add(&j->fixed, j->k, sizeof *j->ctc);
    j->pick = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->pick);
    j->heap = steno_blocks_add(&j->fixed, j->k > opt->beam ? j->k : opt->beam, sizeof *j->heap);
    j->rows = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->rows);
    j->parent = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->parent);
    j->from = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->from);
    j->token = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->token);
    j->score = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->score);
    j->prev_score = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->score);
    j->kept_score = steno_blocks_add(&j->fixed, opt->beam, sizeof *j->score);
    if (j->fixed.failed)
        st = no_memory(err);
    if (!st && opt->ctc_weight != 0)
        st = steno_ctc_prefix_open(&j->prefix, opt->vocab, opt->blank, opt->eos, opt->beam, err);
    if (st)
        steno_joint_close(j);
    else
        *out = j;
    return st;
}

void steno_joint_close(steno_joint *j)
{
    if (!j)
        return;
    steno_ctc_prefix_close(j->prefix);
    steno_blocks_free(&j->fixed);
    steno_blocks_free(&j->tokens);
    free(j->results);
    free(j->ended);
    free(j);
}

/* ---- the best n ---------------------------------------------------------------------------- */

/* With equal scores the earlier one wins. NaN is never better. */
static bool better_candidate(const struct candidate *a, const struct candidate *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->hyp != b->hyp ? a->hyp < b->hyp : a->token < b->token;
}

/* heap[0] is the worst of the n candidates. */
static void sift(struct candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i, l = 2 * i + 1, r = l + 1;
        struct candidate t;
        if (l < n && better_candidate(&heap[worst], &heap[l]))
            worst = l;
        if (r < n && better_candidate(&heap[worst], &heap[r]))
            worst = r;
        if (worst == i)
            return;
        t = heap[i];
        heap[i] = heap[worst];
        heap[worst] = t;
        i = worst;
    }
}

static void offer(struct candidate *heap, size_t *n, size_t max, struct candidate c)
{
    if (isnan(c.score))
        return;
    if (*n < max) {
        size_t i = (*n)++;
        heap[i] = c;
        while (i && better_candidate(&heap[(i - 1) / 2], &heap[i])) {
            struct candidate t = heap[i];
            heap[i] = heap[(i - 1) / 2];
            heap[(i - 1) / 2] = t;
            i = (i - 1) / 2;
        }
    } else if (better_candidate(&c, &heap[0])) {
        heap[0] = c;
        sift(heap, max, 0);
    }
}

static int best_first(const void *a, const void *b)
{
    return better_candidate(a, b) ? -1 : better_candidate(b, a) ? 1 : 0;
}

/* ---- one step ------------------------------------------------------------------------------ */

/* sum += weight * part over all hypotheses. */
static void add_weighted(const steno_joint *j, double weight)
{
    float w = (float)weight;
    for (size_t i = 0; i < j->n * (size_t)j->o.vocab; i++)
        j->sum[i] += w * j->part[i];
}

/* Select the tokens of hypothesis h that CTC will score, into ids. Returns their number. `key`: the
 * hypothesis' row of the scores that select. */
static size_t choose_tokens(const steno_joint *j, const float *key)
{
    size_t v = (size_t)j->o.vocab, n = 0, at = 0;
    bool has_eos = false;
    if (j->k == v) {
        for (size_t c = 0; c < v; c++)
            j->ids[c] = (int32_t)c;
        return v;
    }
    for (size_t c = 0; c < v; c++)
        if (n < j->o.pre_beam || key[c] > j->heap[0].score)
            offer(j->heap, &n, j->o.pre_beam,
                  (struct candidate){.score = key[c], .token = (int32_t)c});
    for (size_t i = 0; i < n; i++) {
        j->ids[at++] = j->heap[i].token;
        has_eos |= j->heap[i].token == j->o.eos;
    }
    if (!has_eos)
        j->ids[at++] = j->o.eos;
    return at;
}

/* Keep the scores of a partial scorer until the tokens for CTC are selected. */
static steno_status keep_partial_scores(steno_joint *j, double weight, steno_err *err)
{
    size_t n = j->n * (size_t)j->o.vocab;
    if (!j->partial_scores)
        j->partial_scores =
            steno_blocks_add(&j->fixed, j->o.beam * (size_t)j->o.vocab, sizeof *j->partial_scores);
    if (!j->partial_scores)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        j->partial_scores[i] = (float)weight * j->part[i];
    j->has_partial_scores = true;
    return STENO_OK;
}

/* Add the scores of scorer i to the sums. */
static steno_status take_scores(steno_joint *j, const struct steno_joint_scorer *s, size_t i,
                                steno_err *err)
{
    if (s->partial && j->prefix)
        return keep_partial_scores(j, s->weight, err);
    if (j->key && (int)i == j->o.pre_beam_key)
        memcpy(j->key, j->part, j->n * (size_t)j->o.vocab * sizeof *j->key);
    add_weighted(j, s->weight);
    return STENO_OK;
}

static void request(struct steno_score_request *requests, size_t n,
                    const struct steno_joint_scorer *s)
{
    if (s->score_each)
        s->score_each(requests, n);
    for (size_t k = 0; k < n && !s->score_each; k++) {
        struct steno_score_request *a = &requests[k];
        a->st = s->score(a->self, a->prefix, a->length, a->parent, a->n, a->out, a->err);
    }
}

/* Request the scores of scorer i for all searches that continue and give it a weight. */
static void request_scores(struct steno_joint_block *const *b, size_t n, size_t i)
{
    struct steno_score_request requests[STENO_JOINT_MOST];
    struct steno_joint_block *of[STENO_JOINT_MOST];
    size_t m = 0;
    for (size_t k = 0; k < n; k++) {
        steno_joint *j = b[k]->j;
        if (b[k]->st || i >= b[k]->n_scorers || b[k]->scorers[i].weight == 0)
            continue;
        of[m] = b[k];
        requests[m++] = (struct steno_score_request){.self = b[k]->scorers[i].self,
                                                     .prefix = j->rows,
                                                     .length = j->length,
                                                     .parent = j->parent,
                                                     .n = j->n,
                                                     .out = j->part,
                                                     .err = b[k]->err};
    }
    if (m)
        request(requests, m, &of[0]->scorers[i]);
    for (size_t k = 0; k < m; k++) {
        of[k]->st = requests[k].st;
        if (!of[k]->st)
            of[k]->st = take_scores(of[k]->j, &of[k]->scorers[i], i, of[k]->err);
    }
}

static void score_blocks(struct steno_joint_block *const *b, size_t n)
{
    size_t most = 0;
    for (size_t k = 0; k < n; k++) {
        steno_joint *j = b[k]->j;
        memset(j->sum, 0, j->n * (size_t)j->o.vocab * sizeof *j->sum);
        j->has_partial_scores = false;
        most = b[k]->n_scorers > most ? b[k]->n_scorers : most;
    }
    for (size_t i = 0; i < most; i++)
        request_scores(b, n, i);
    for (size_t k = 0; k < n; k++) {
        steno_joint *j = b[k]->j;
        for (size_t i = 0; j->o.length_bonus != 0 && i < j->n * (size_t)j->o.vocab; i++)
            j->sum[i] += (float)j->o.length_bonus;
    }
}

/* Offer the candidates of hypothesis h to pick. */
static steno_status extend_hyp(steno_joint *j, size_t h, size_t *n_pick)
{
    const float *row = j->sum + h * (size_t)j->o.vocab;
    size_t n;
    if (!j->prefix) {
        for (int32_t c = 0; c < j->o.vocab; c++)
            offer(j->pick, n_pick, j->o.beam,
                  (struct candidate){row[c] + (float)j->score[h], (int32_t)h, c});
        return STENO_OK;
    }
    n = choose_tokens(j, j->key ? j->key + h * (size_t)j->o.vocab : row);
    if (steno_ctc_prefix_score(j->prefix, h, j->ids, n, j->ctc))
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < n && j->has_partial_scores; i++)
        j->sum[h * (size_t)j->o.vocab + (size_t)j->ids[i]] +=
            j->partial_scores[h * (size_t)j->o.vocab + (size_t)j->ids[i]];
    for (size_t i = 0; i < n; i++)
        offer(j->pick, n_pick, j->o.beam,
              (struct candidate){row[j->ids[i]] + (float)j->o.ctc_weight * j->ctc[i] +
                                     (float)j->score[h],
                                 (int32_t)h, j->ids[i]});
    return STENO_OK;
}

/* Make the picked pairs the hypotheses. */
static void take_picked(steno_joint *j, size_t n_pick)
{
    int32_t *swap = j->now;
    for (size_t i = 0; i < n_pick; i++) {
        const struct candidate *c = &j->pick[i];
        int32_t *to = j->next + i * j->cap;
        memcpy(to, j->now + (size_t)c->hyp * j->cap, j->length * sizeof *to);
        to[j->length] = c->token;
        j->parent[i] = c->hyp;
        j->token[i] = c->token;
        j->score[i] = (double)c->score;
        j->rows[i] = to;
    }
    j->now = j->next;
    j->next = swap;
    j->n = n_pick;
    j->length++;
}

/* With all scores known, make the best pairs the hypotheses. */
static steno_status choose_pairs(steno_joint *j, steno_err *err)
{
    size_t n_pick = 0;
    for (size_t h = 0; h < j->n; h++)
        if (extend_hyp(j, h, &n_pick))
            return no_memory(err);
    if (!n_pick)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "beam search: every score of token %zu is not a number", j->length);
    qsort(j->pick, n_pick, sizeof *j->pick, best_first);
    take_picked(j, n_pick);
    return STENO_OK;
}

/* One step of each search. */
static void step_blocks(struct steno_joint_block *const *b, size_t n)
{
    score_blocks(b, n);
    for (size_t k = 0; k < n; k++)
        if (!b[k]->st)
            b[k]->st = choose_pairs(b[k]->j, b[k]->err);
}

/* ---- results ------------------------------------------------------------------------------- */

static steno_status keep_result(steno_joint *j, size_t h, bool add_eos)
{
    size_t n = j->length + add_eos;
    if (STENO_RESERVE(&j->results, &j->cap_results, j->n_results + n) ||
        STENO_RESERVE(&j->ended, &j->cap_ended, j->n_ended + 1))
        return STENO_ERR_NOMEM;
    memcpy(j->results + j->n_results, j->rows[h], j->length * sizeof *j->results);
    if (add_eos)
        j->results[j->n_results + j->length] = j->o.eos;
    j->ended[j->n_ended++] = (struct ended){.score = j->score[h], .at = j->n_results, .n = n};
    j->n_results += n;
    return STENO_OK;
}

/* Move ended hypotheses to the results and close the gaps. Those that end before `min_len` are
 * dropped. */
static steno_status collect_candidates(steno_joint *j, size_t i, size_t min_len, bool last)
{
    size_t stay = 0;
    for (size_t h = 0; h < j->n; h++) {
        if (j->token[h] == j->o.eos || last) {
            if (i >= min_len && keep_result(j, h, last))
                return STENO_ERR_NOMEM;
            continue;
        }
        j->from[stay] = j->parent[h];
        j->token[stay] = j->token[h];
        j->parent[stay] = j->parent[h];
        j->score[stay] = j->score[h];
        j->rows[stay] = j->rows[h];
        if (stay != h) {
            int32_t *to = j->now + stay * j->cap;
            memcpy(to, j->rows[h], j->length * sizeof *to);
            j->rows[stay] = to;
        }
        stay++;
    }
    j->n = stay;
    if (j->prefix && stay)
        steno_ctc_prefix_advance(j->prefix, j->from, j->token, stay);
    return STENO_OK;
}

/* Watanabe et al. 2017, equation (50). */
static bool end_detected(const steno_joint *j, size_t i)
{
    double best = -INFINITY;
    int behind = 0;
    if (!j->n_ended)
        return false;
    for (size_t k = 0; k < j->n_ended; k++)
        best = fmax(best, j->ended[k].score);
    for (size_t m = 0; m < END_LENGTHS && m <= i; m++) {
        double of_length = -INFINITY;
        for (size_t k = 0; k < j->n_ended; k++)
            if (j->ended[k].n == i - m)
                of_length = fmax(of_length, j->ended[k].score);
        behind += isfinite(of_length) && of_length - best < END_MARGIN;
    }
    return behind == END_LENGTHS;
}

static int score_first(const void *a, const void *b)
{
    const struct ended *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_results(steno_joint *j)
{
    if (j->n_ended)
        qsort(j->ended, j->n_ended, sizeof *j->ended, score_first);
}

/* ---- one utterance ------------------------------------------------------------------------- */

/* Number of tokens for a ratio; see struct steno_joint_options. */
static size_t to_length(double ratio, size_t frames)
{
    double n = ratio < 0 ? floor(-ratio) : floor(ratio * (double)frames);
    return n < 1e7 ? (size_t)n : (size_t)1e7;
}

/* Reserve memory for prefixes of max_len tokens, plus sos and eos; existing prefixes are kept. */
static steno_status reserve_tokens(steno_joint *j, size_t max_len)
{
    size_t cap = j->cap ? j->cap : 256;
    int32_t **const lists[] = {&j->now, &j->next, &j->prev}, *wide[3];
    struct steno_blocks tokens = {0};
    if (max_len + 2 <= j->cap)
        return STENO_OK;
    while (cap < max_len + 2)
        cap *= 2;
    for (size_t k = 0; k < 3; k++)
        wide[k] = steno_blocks_add(&tokens, j->o.beam * cap, sizeof *wide[k]);
    if (tokens.failed) {
        steno_blocks_free(&tokens);
        return STENO_ERR_NOMEM;
    }
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < j->o.beam && j->cap; i++)
            memcpy(wide[k] + i * cap, *lists[k] + i * j->cap, j->cap * sizeof *wide[k]);
        *lists[k] = wide[k];
    }
    steno_blocks_free(&j->tokens);
    j->tokens = tokens;
    j->cap = cap;
    for (size_t i = 0; i < j->n; i++)
        j->rows[i] = j->now + i * cap;
    return STENO_OK;
}

static steno_status start_joint(steno_joint *j, const float *ctc, size_t frames, size_t max_len)
{
    j->n = 0;
    if (reserve_tokens(j, max_len))
        return STENO_ERR_NOMEM;
    j->n = j->length = 1;
    j->now[0] = j->o.sos;
    j->rows[0] = j->now;
    j->parent[0] = 0;
    j->score[0] = 0;
    j->n_ended = j->n_results = 0;
    j->n_prev = j->index = j->n_scored = 0;
    return j->prefix ? steno_ctc_prefix_start(j->prefix, ctc, frames) : STENO_OK;
}

static size_t longest(const steno_joint *j, size_t frames)
{
    double ratio = j->o.max_len_ratio;
    size_t n = ratio == 0 ? frames : to_length(ratio, frames);
    if (j->o.max_tokens && n > j->o.max_tokens)
        n = j->o.max_tokens;
    return n < 1 ? 1 : n;
}

static steno_status search_block(struct steno_joint_block *b, double min_ratio)
{
    steno_joint *j = b->j;
    size_t max_len = longest(j, b->frames);
    size_t min_len = j->o.rules == STENO_RULES_ESPNET_ONNX ? 0 : to_length(min_ratio, b->frames);
    steno_status st = start_joint(j, b->ctc, b->frames, max_len);
    for (size_t i = 0; i < max_len && j->n && !st; i++) {
        step_blocks(&b, 1);
        if (b->st)
            return b->st;
        st = collect_candidates(j, i, min_len, i + 1 == max_len);
        if (j->o.max_len_ratio == 0 && end_detected(j, i))
            break;
    }
    return st ? no_memory(b->err) : STENO_OK;
}

steno_status steno_joint_run(steno_joint *j, const struct steno_joint_scorer *scorers,
                             size_t n_scorers, const float *ctc, size_t frames, steno_err *err)
{
    struct steno_joint_block b = {.j = j,
                                  .scorers = scorers,
                                  .n_scorers = n_scorers,
                                  .ctc = ctc,
                                  .frames = frames,
                                  .err = err};
    double min_ratio = j->o.min_len_ratio;
    for (;;) {
        steno_status st = search_block(&b, min_ratio);
        if (st)
            return st;
        if (j->n_ended || j->o.rules == STENO_RULES_ESPNET_ONNX || min_ratio < 0.1)
            break;
        min_ratio -= 0.1; /* as ESPnet: no hypothesis ended, so shorter outputs count too */
    }
    sort_results(j);
    return STENO_OK;
}

/* ---- block by block ------------------------------------------------------------------------ */

void steno_joint_begin(steno_joint *j)
{
    j->frames = 0;
    j->n = j->n_ended = 0;
}

static steno_status take_frames(steno_joint *j, const float *ctc, size_t frames)
{
    size_t before = j->frames, max_len = longest(j, frames);
    j->frames = frames;
    if (!before)
        return start_joint(j, ctc, frames, max_len);
    if (reserve_tokens(j, max_len))
        return STENO_ERR_NOMEM;
    return j->prefix ? steno_ctc_prefix_extend(j->prefix, j->n, ctc, frames) : STENO_OK;
}

static void swap_tokens(int32_t **a, int32_t **b)
{
    int32_t *swap = *a;
    *a = *b;
    *b = swap;
}

static void set_hyps(steno_joint *j, const double *score, size_t n)
{
    memcpy(j->score, score, n * sizeof *score);
    j->n = n;
    j->length--;
    for (size_t i = 0; i < n; i++)
        j->rows[i] = j->now + i * j->cap;
}

/* Before a step over the frames so far: scorers that already computed this step, or the one after
 * it, go back. */
static void begin_step(const struct steno_joint_block *b)
{
    steno_joint *j = b->j;
    for (size_t i = 0; i < b->n_scorers && j->n_scored > j->index; i++)
        if (b->scorers[i].weight != 0)
            b->scorers[i].rewind(b->scorers[i].self, (int)(j->n_scored - j->index) - 1);
    memcpy(j->kept_score, j->score, j->n * sizeof *j->score);
    j->n_kept = j->n;
    j->n_scored = j->index + 1;
}

static bool said_before(const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (tokens[i] == tokens[n - 1])
            return true;
    return false;
}

/* True if a hypothesis of this step has ended, or repeats a token. */
static bool reads_past(const steno_joint *j)
{
    for (size_t h = 0; h < j->n; h++)
        if (j->token[h] == j->o.eos || (!j->o.no_repetition && said_before(j->rows[h], j->length)))
            return true;
    return false;
}

static void undo_step(steno_joint *j)
{
    swap_tokens(&j->now, &j->next);
    set_hyps(j, j->kept_score, j->n_kept);
}

static steno_status keep_step(steno_joint *j, steno_err *err)
{
    if (collect_candidates(j, j->index++, 0, false))
        return no_memory(err);
    swap_tokens(&j->prev, &j->next);
    memcpy(j->prev_score, j->kept_score, j->n_kept * sizeof *j->score);
    j->n_prev = j->n_kept;
    return STENO_OK;
}

/* Undo the newest kept step: it may have used the end of the audio so far. */
static void roll_back(steno_joint *j)
{
    if (j->index < 2 || !j->n_prev)
        return;
    swap_tokens(&j->now, &j->prev);
    set_hyps(j, j->prev_score, j->n_prev);
    j->n_prev = 0;
    j->index--;
    if (j->prefix)
        steno_ctc_prefix_back(j->prefix);
}

/* True if there is a step to take; otherwise the block is over. */
static bool wants_step(struct steno_joint_block *b)
{
    const steno_joint *j = b->j;
    size_t max_len = longest(j, j->frames);
    if (b->st || !j->n || j->index + (b->last ? 0 : 1) >= max_len) {
        b->over = true;
    } else if (!b->over && b->last && !b->steps--) {
        b->over = true;
        b->st = STENO_NEED_MORE;
    }
    return !b->over;
}

static void end_step(struct steno_joint_block *b)
{
    steno_joint *j = b->j;
    size_t max_len = longest(j, j->frames);
    bool at_end = j->index + 1 == max_len;
    if (b->st)
        return;
    if (b->last) { /* as in ESPnet, end detection runs before the hypotheses that ended in this step
                      count */
        b->over = !at_end && j->o.max_len_ratio == 0 && end_detected(j, j->index);
        if (!b->over &&
            collect_candidates(j, j->index++, to_length(j->o.min_len_ratio, j->frames), at_end))
            b->st = no_memory(b->err);
    } else if (reads_past(j)) {
        undo_step(j);
        b->over = true;
    } else {
        b->st = keep_step(j, b->err);
    }
}

static void end_block(struct steno_joint_block *b)
{
    if (b->last && b->st != STENO_NEED_MORE)
        sort_results(b->j);
    else if (!b->last && !b->st)
        roll_back(b->j);
}

void steno_joint_blocks(struct steno_joint_block *blocks, size_t n)
{
    struct steno_joint_block *go[STENO_JOINT_MOST];
    size_t m;
    for (size_t i = 0; i < n; i++) {
        struct steno_joint_block *b = &blocks[i];
        b->st = take_frames(b->j, b->ctc, b->frames);
        if (b->st)
            b->st = no_memory(b->err);
        b->steps = b->last;
        b->over = b->st != STENO_OK;
    }
    do {
        m = 0;
        for (size_t i = 0; i < n; i++)
            if (wants_step(&blocks[i]))
                begin_step(go[m++] = &blocks[i]);
        if (m)
            step_blocks(go, m);
        for (size_t i = 0; i < m; i++)
            end_step(go[i]);
    } while (m);
    for (size_t i = 0; i < n; i++)
        end_block(&blocks[i]);
}

struct steno_joint_hyp steno_joint_running(const steno_joint *j)
{
    struct steno_joint_hyp none = {0};
    return j->n ? (struct steno_joint_hyp){.tokens = j->rows[0],
                                           .n = j->length,
                                           .score = j->score[0]}
                : none;
}

/* ---- results of both forms ------------------------------------------------------------------ */

size_t steno_joint_count(const steno_joint *j)
{
    return j->n_ended;
}

struct steno_joint_hyp steno_joint_get(const steno_joint *j, size_t i)
{
    const struct ended *e = &j->ended[i];
    return (struct steno_joint_hyp){.tokens = j->results + e->at, .n = e->n, .score = e->score};
}
