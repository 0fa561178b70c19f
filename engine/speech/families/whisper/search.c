/* Candidates of a step are the best 2 B of all hypotheses, CTranslate2's way (src/decoding.cc,
 * BeamSearch): of its first B places an end finishes a hypothesis, and the next candidate that is
 * no end takes the place. Ends behind place B are dropped; at the last step all B places finish.
 * The search stops with beam * patience finished ones. At a temperature there are best_of
 * hypotheses of their own, each drawn from its scores. */
#include "speech/families/whisper/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256    /* pieces that are looked at together */
#define MOST_NEW 224 /* half of the decoder's positions */

struct candidate {
    float score;
    float log_prob;
    size_t parent;
    int32_t id;
};

struct text {
    int32_t *ids; /* [max_new] */
    float *probs; /* [max_new + 1] */
    size_t n;
    bool ended;
    float score;
};

struct steno_whisper_search {
    const struct steno_whisper *m;
    struct steno_whisper_search_options o;
    steno_whisper_state *state;
    int32_t prompt[1024];
    size_t n_prompt, pick[2], n_pick;
    size_t max_new, width; /* hypotheses */
    bool begun, done;
    struct text live[2][STENO_WHISPER_MAX_BEAM], finished[2 * STENO_WHISPER_MAX_BEAM];
    size_t n_live, n_finished;
    int now; /* live[now] */
    int32_t token[STENO_WHISPER_MAX_BEAM];
    size_t parent[STENO_WHISPER_MAX_BEAM];
    float *scores, *scratch; /* [vocab] */
    int32_t *ids;            /* memory of all texts */
    float *probs;
    float no_speech;
    uint64_t random;
};

enum { TEXTS = 4 * STENO_WHISPER_MAX_BEAM };

static struct text *text_at(steno_whisper_search *s, size_t i)
{
    if (i < STENO_WHISPER_MAX_BEAM)
        return &s->live[0][i];
    if (i < 2 * STENO_WHISPER_MAX_BEAM)
        return &s->live[1][i - STENO_WHISPER_MAX_BEAM];
    return &s->finished[i - 2 * STENO_WHISPER_MAX_BEAM];
}

steno_status steno_whisper_search_open(steno_whisper_search **out, const struct steno_whisper *m,
                                       steno_err *err)
{
    steno_whisper_search *s = calloc(1, sizeof *s);
    if (s) {
        s->m = m;
        s->scores = malloc((size_t)m->dims.vocab * sizeof *s->scores);
        s->scratch = malloc((size_t)m->dims.vocab * sizeof *s->scratch);
        s->ids = malloc(TEXTS * MOST_NEW * sizeof *s->ids);
        s->probs = malloc(TEXTS * (MOST_NEW + 1) * sizeof *s->probs);
    }
    if (!s || !s->scores || !s->scratch || !s->ids || !s->probs) {
        steno_whisper_search_close(s);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < TEXTS; i++) {
        text_at(s, i)->ids = s->ids + i * MOST_NEW;
        text_at(s, i)->probs = s->probs + i * (MOST_NEW + 1);
    }
    *out = s;
    return STENO_OK;
}

void steno_whisper_search_close(steno_whisper_search *s)
{
    if (!s)
        return;
    free(s->scores);
    free(s->scratch);
    free(s->ids);
    free(s->probs);
    free(s);
}

/* ---- beginning ----------------------------------------------------------------------------- */

static steno_status check_options(const struct steno_whisper_search_options *o, steno_err *err)
{
    const size_t width = o->temperature > 0 ? o->best_of : o->beam;
    if (width < 1 || width > STENO_WHISPER_MAX_BEAM)
        return steno_fail(err, STENO_ERR_INVAL, "%zu hypotheses, 1 to %d expected", width,
                          STENO_WHISPER_MAX_BEAM);
    if (!(o->patience > 0) || !(o->patience <= 2))
        return steno_fail(err, STENO_ERR_INVAL, "patience %g, above 0 to 2 expected",
                          (double)o->patience);
    if (!(o->temperature >= 0) || !(o->temperature <= 2))
        return steno_fail(err, STENO_ERR_INVAL, "temperature %g, 0 to 2 expected",
                          (double)o->temperature);
    if (!(o->rules.repetition_penalty > 0) || !isfinite(o->length_penalty))
        return steno_fail(err, STENO_ERR_INVAL, "repetition penalty %g, length penalty %g",
                          (double)o->rules.repetition_penalty, (double)o->length_penalty);
    return STENO_OK;
}

/* The first hypothesis has what is given, and the prompt too. */
static void begin_text(steno_whisper_search *s, const struct steno_whisper_search_options *opt)
{
    struct text *t = &s->live[0][0];
    t->n = opt->n_given;
    t->ended = false;
    t->score = 0;
    for (size_t i = 0; i < t->n; i++) {
        s->prompt[s->n_prompt++] = t->ids[i] = opt->given[i];
        t->probs[i] = opt->given_log_probs[i];
        t->score += t->probs[i];
    }
}

steno_status steno_whisper_search_start(steno_whisper_search *s,
                                        const struct steno_whisper_search_options *opt,
                                        steno_whisper_state *state, const int32_t *prompt, size_t n,
                                        steno_err *err)
{
    const size_t ctx = (size_t)s->m->dims.text_ctx, most = sizeof s->prompt / sizeof *s->prompt;
    size_t sot = 0, room;
    steno_status st = check_options(opt, err);
    if (st)
        return st;
    if (!n || opt->n_given >= MOST_NEW || n + opt->n_given > most || n + opt->n_given > ctx)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "a prompt of %zu pieces, the decoder has %zu positions", n + opt->n_given,
                          ctx);
    while (sot < n && prompt[sot] != s->m->special.sot)
        sot++;
    if (sot == n)
        return steno_fail(err, STENO_ERR_INVAL, "a prompt without the start of the transcript");
    room = ctx - (n - 1) < MOST_NEW ? ctx - (n - 1) : MOST_NEW;
    s->o = *opt;
    s->state = state;
    s->max_new = opt->max_new && opt->max_new < room ? opt->max_new : room;
    s->width = opt->temperature > 0 ? opt->best_of : opt->beam;
    memcpy(s->prompt, prompt, n * sizeof *prompt);
    s->n_prompt = n;
    begin_text(s, opt);
    s->pick[0] = sot;
    s->pick[1] = s->n_prompt - 1;
    s->n_pick = sot == s->pick[1] ? 1 : 2;
    s->begun = s->done = false;
    s->n_finished = 0;
    s->n_live = 1;
    s->now = 0;
    s->random = opt->seed * 0x9E3779B97F4A7C15u + 1;
    return STENO_OK;
}

bool steno_whisper_search_ask(steno_whisper_search *s, struct steno_whisper_ask *ask)
{
    if (s->done)
        return false;
    if (s->begun)
        *ask = (struct steno_whisper_ask){
            .state = s->state, .token = s->token, .parent = s->parent, .n = s->n_live};
    else
        *ask = (struct steno_whisper_ask){.state = s->state,
                                          .token = s->prompt,
                                          .n = s->n_prompt,
                                          .pick = s->pick,
                                          .n_pick = s->n_pick};
    return true;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* Keep the best of c [*n, at most max], best first, equals in the order they came. */
static void insert(struct candidate *c, size_t *n, size_t max, struct candidate x)
{
    size_t at = *n;
    if (*n == max) {
        if (!(x.score > c[max - 1].score))
            return;
        at = max - 1;
    } else {
        ++*n;
    }
    for (; at > 0 && x.score > c[at - 1].score; at--)
        c[at] = c[at - 1];
    c[at] = x;
}

/* Scores after the rules, given hypothesis t. Returns what they exceed log-probabilities by. */
static float score(steno_whisper_search *s, const struct text *t, const float *logits)
{
    const size_t n = (size_t)s->m->dims.vocab;
    memcpy(s->scores, logits, n * sizeof *logits);
    steno_whisper_rules_apply(s->m, &s->o.rules, t->ids, t->n, s->scores);
    return s->m->kernels.log_sum_f32(s->scores, n);
}

/* Candidates of hypothesis `parent`, whose text has the score `before`. Most blocks of pieces have
 * none that is good enough, as their largest score tells. */
static void best_of_one(const steno_whisper_search *s, size_t parent, float before, float sum,
                        struct candidate *c, size_t *n, size_t max)
{
    const size_t vocab = (size_t)s->m->dims.vocab;
    for (size_t at = 0, end; at < vocab; at = end) {
        end = vocab - at < BLOCK ? vocab : at + BLOCK;
        if (*n == max && before + (s->m->kernels.max_reduce_f32(s->scores + at, end - at) - sum) <=
                             c[max - 1].score)
            continue;
        for (size_t i = at; i < end; i++) {
            const float log_prob = s->scores[i] - sum;
            const struct candidate x = {before + log_prob, log_prob, parent, (int32_t)i};
            if (*n < max ? log_prob > -INFINITY : x.score > c[max - 1].score)
                insert(c, n, max, x);
        }
    }
}

/* ---- taking -------------------------------------------------------------------------------- */

static void copy_text(struct text *to, const struct text *from)
{
    to->n = from->n;
    to->ended = from->ended;
    to->score = from->score;
    memcpy(to->ids, from->ids, from->n * sizeof *to->ids);
    memcpy(to->probs, from->probs, (from->n + from->ended) * sizeof *to->probs);
}

/* to = the candidate's parent and its piece; the end adds none. */
static void extend(const steno_whisper_search *s, struct text *to, const struct candidate *c)
{
    copy_text(to, &s->live[s->now][c->parent]);
    to->probs[to->n] = c->log_prob;
    to->ended = c->id == s->m->special.eot;
    if (!to->ended)
        to->ids[to->n++] = c->id;
    to->score = c->score;
}

static void finish_whisper_search(steno_whisper_search *s, const struct candidate *c)
{
    if (s->n_finished < 2 * STENO_WHISPER_MAX_BEAM)
        extend(s, &s->finished[s->n_finished++], c);
}

/* The hypotheses of the next step: place i of live[!now]. */
static void go_on(steno_whisper_search *s, size_t i, const struct candidate *c)
{
    extend(s, &s->live[!s->now][i], c);
    s->live[!s->now][i].ended = false;
    s->token[i] = c->id;
    s->parent[i] = c->parent;
}

static void choose_whisper_search(steno_whisper_search *s, struct candidate *c, size_t n, bool last)
{
    const size_t places = n < s->width ? n : s->width;
    size_t spare = places, live = 0;
    for (size_t i = 0; i < places; i++) {
        const struct candidate *x = &c[i];
        if (x->id == s->m->special.eot || last) {
            finish_whisper_search(s, x);
            while (spare < n && c[spare].id == s->m->special.eot)
                spare++;
            if (spare == n)
                continue;
            x = &c[spare++];
        }
        go_on(s, live++, x);
    }
    s->n_live = live;
    s->now = !s->now;
}

static void take_beam(steno_whisper_search *s, const float *logits, bool last)
{
    struct candidate c[2 * STENO_WHISPER_MAX_BEAM];
    const size_t max = s->width > 1 ? 2 * s->width : 1;
    size_t n = 0;
    for (size_t i = 0; i < s->n_live; i++) {
        const struct text *t = &s->live[s->now][i];
        const float sum = score(s, t, logits + i * (size_t)s->m->dims.vocab);
        best_of_one(s, i, t->score, sum, c, &n, max);
    }
    choose_whisper_search(s, c, n, last);
    s->done =
        last || !s->n_live || s->n_finished >= (size_t)lrintf((float)s->width * s->o.patience);
}

static double draw(steno_whisper_search *s)
{
    uint64_t x = s->random += 0x9E3779B97F4A7C15u; /* SplitMix64, Steele et al. 2014 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* scores become log-probabilities. */
static void score_all(steno_whisper_search *s, const struct text *t, const float *logits)
{
    const float sum = score(s, t, logits);
    for (int64_t i = 0; i < s->m->dims.vocab; i++)
        s->scores[i] -= sum;
}

/* A piece by its probability at the temperature; scores as score_all left them. */
static int32_t sample(steno_whisper_search *s)
{
    const size_t n = (size_t)s->m->dims.vocab;
    double sum = 0, left;
    size_t last = 0;
    for (size_t i = 0; i < n; i++)
        s->scratch[i] = s->scores[i] / s->o.temperature;
    s->m->kernels.softmax_f32(s->scratch, s->scratch, 1, n);
    for (size_t i = 0; i < n; i++)
        sum += (double)s->scratch[i];
    left = draw(s) * sum;
    for (size_t i = 0; i < n; i++) {
        if (!(s->scratch[i] > 0))
            continue;
        last = i;
        left -= (double)s->scratch[i];
        if (left < 0)
            break;
    }
    return (int32_t)last;
}

/* Each hypothesis draws for itself; in the first step all from the prompt's scores. */
static void take_samples_whisper_search(steno_whisper_search *s, const float *logits, bool first,
                                        bool last)
{
    const size_t draws = first ? s->width : s->n_live;
    size_t live = 0;
    for (size_t i = 0; i < draws; i++) {
        const size_t parent = first ? 0 : i;
        struct text *t = &s->live[s->now][parent];
        struct candidate c = {.parent = parent};
        if (!i || !first)
            score_all(s, t, logits + parent * (size_t)s->m->dims.vocab);
        c.id = sample(s);
        c.log_prob = s->scores[c.id];
        c.score = t->score + c.log_prob;
        if (c.id == s->m->special.eot || last)
            finish_whisper_search(s, &c);
        else
            go_on(s, live++, &c);
    }
    s->n_live = live;
    s->now = !s->now;
    s->done = last || !live;
}

/* Probability of no speech: of the scores behind the start of the transcript, before any rule. */
static void read_no_speech(steno_whisper_search *s, const float *logits)
{
    const size_t n = (size_t)s->m->dims.vocab;
    const float sum = s->m->kernels.log_sum_f32(logits, n);
    s->no_speech = expf(logits[s->m->special.no_speech] - sum);
}

void steno_whisper_search_take(steno_whisper_search *s, const struct steno_whisper_ask *ask)
{
    const float *logits = ask->logits;
    const bool first = !s->begun, last = s->live[s->now][0].n + 1 >= s->max_new;
    if (first) {
        read_no_speech(s, logits);
        logits += (s->n_pick - 1) * (size_t)s->m->dims.vocab;
        s->begun = true;
    }
    if (s->o.temperature > 0)
        take_samples_whisper_search(s, logits, first, last);
    else
        take_beam(s, logits, last);
}

static double rank(const steno_whisper_search *s, const struct text *t)
{
    return (double)t->score / pow((double)(t->n ? t->n : 1), (double)s->o.length_penalty);
}

static struct steno_whisper_text text_of(const steno_whisper_search *s, const struct text *t)
{
    return (struct steno_whisper_text){.ids = t->ids,
                                       .log_probs = t->probs,
                                       .n = t->n,
                                       .ended = t->ended,
                                       .sum = (double)t->score,
                                       .no_speech = s->no_speech};
}

size_t steno_whisper_search_ranked(const steno_whisper_search *s, struct steno_whisper_text *out,
                                   size_t max)
{
    const struct text *best[2 * STENO_WHISPER_MAX_BEAM];
    for (size_t i = 0; i < s->n_finished; i++) {
        size_t at = i;
        for (; at > 0 && rank(s, &s->finished[i]) > rank(s, best[at - 1]); at--)
            best[at] = best[at - 1];
        best[at] = &s->finished[i];
    }
    max = max < s->n_finished ? max : s->n_finished;
    for (size_t i = 0; i < max; i++)
        out[i] = text_of(s, best[i]);
    return max;
}

struct steno_whisper_text steno_whisper_search_best(const steno_whisper_search *s)
{
    struct steno_whisper_text best;
    if (steno_whisper_search_ranked(s, &best, 1))
        return best;
    return (struct steno_whisper_text){.ids = s->finished[0].ids, /* no score was a number */
                                       .log_probs = s->finished[0].probs,
                                       .sum = -INFINITY,
                                       .no_speech = s->no_speech};
}
