/* The search of one stream: which one, with which settings, and steps of several together. */
#include <stdlib.h>
#include <string.h>

#include "families/icefall/internal.h"
#include "families/option.h"

#define HOTWORDS_BEAM 4 /* where hotwords are given and no beam, as in sherpa-onnx */
/* CTC beam search: the margin without alternatives, hotwords and LM: odds of 1 to 150. */
#define NARROW_MARGIN 5.0
#define LN10 2.302585092994046

/* ---- language model -------------------------------------------------------------------------- */

static void score_all(const void *self, const int32_t *tokens, size_t n, float *out)
{
    const struct steno_icefall_model *m = self;
    steno_ngram_map_score(m->lm.map, tokens, n, out);
    for (int32_t v = 0; v < m->vocab; v++)
        out[v] *= (float)LN10;
}

static double score_one(const void *self, const int32_t *tokens, size_t n, int32_t token)
{
    const struct steno_icefall_model *m = self;
    int32_t words[STENO_TOKEN_LM_HISTORY + 1];
    size_t k = 0;
    if ((int)n < steno_ngram_order(m->lm.ngram) - 1)
        words[k++] = steno_ngram_word(m->lm.ngram, "<s>");
    for (size_t i = 0; i < n; i++)
        words[k++] = m->lm.words[tokens[i]];
    return LN10 * steno_ngram_score(m->lm.ngram, words, k, m->lm.words[token]);
}

static struct steno_token_lm language_model(const struct steno_icefall_model *m, double weight)
{
    int order = m->lm.ngram ? steno_ngram_order(m->lm.ngram) : 0;
    if (!m->lm.ngram || weight <= 0)
        return (struct steno_token_lm){0};
    return (struct steno_token_lm){.self = m,
                                   .all = score_all,
                                   .one = score_one,
                                   .history = order > 1 ? (size_t)order - 1 : 0,
                                   .weight = weight};
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status check_beam(struct steno_family_stream *o, steno_err *err)
{
    bool hotwords = o->hints.hotwords && *o->hints.hotwords;
    if (o->beam == 1 && hotwords)
        return steno_fail(err, STENO_ERR_INVAL, "hotwords: the beam is 1, expected more");
    if (o->beam == 0)
        o->beam = hotwords && o->n_best < HOTWORDS_BEAM ? HOTWORDS_BEAM
                  : o->n_best > 1                       ? o->n_best
                                                        : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    if (o->n_best > o->beam)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                          o->beam);
    return STENO_OK;
}

static steno_status open_ctc(struct steno_icefall_search *s, const struct steno_family_stream *o,
                             const struct steno_icefall_settings *set, steno_err *err)
{
    const struct steno_icefall_model *m = s->model;
    struct steno_ctc_options c = {.vocab = m->vocab,
                                  .blank = m->blank,
                                  .blank_penalty = (float)set->blank_penalty,
                                  .beam = o->beam,
                                  .top_k = STENO_CTC_TOP_K,
                                  .hotwords = s->hotwords,
                                  .lm = language_model(m, set->lm_weight)};
    c.margin = o->n_best > 1 || c.hotwords || c.lm.one ? STENO_CTC_MARGIN : NARROW_MARGIN;
    return steno_ctc_search_open(&s->ctc, &c, o->n_best, err);
}

static steno_status open_transducer(struct steno_icefall_search *s,
                                    const struct steno_family_stream *o,
                                    const struct steno_icefall_settings *set, steno_err *err)
{
    const struct steno_icefall_model *m = s->model;
    const struct steno_stateless_options t = {.vocab = m->vocab,
                                              .blank = m->blank,
                                              .unknown = m->unknown < m->vocab ? m->unknown : -1,
                                              .context = m->nets.context,
                                              .beam = o->beam,
                                              .blank_penalty = (float)set->blank_penalty,
                                              .hotwords = s->hotwords,
                                              .lm = language_model(m, set->lm_weight)};
    s->hyps = calloc((size_t)o->n_best, sizeof *s->hyps);
    if (!s->hyps)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return steno_stateless_open(&s->tokens, &t, err);
}

static struct steno_icefall_settings read_settings(const struct steno_icefall_model *m,
                                                   const struct steno_family_stream *o)
{
    struct steno_icefall_settings s = m->defaults;
    (void)steno_option_get_number(o->options, o->n_options, "blank_penalty", &s.blank_penalty);
    (void)steno_option_get_number(o->options, o->n_options, "hotwords_score", &s.hotwords_score);
    (void)steno_option_get_number(o->options, o->n_options, "lm_weight", &s.lm_weight);
    return s;
}

steno_status steno_icefall_search_open(struct steno_icefall_search *s,
                                       const struct steno_icefall_model *m,
                                       struct steno_family_stream *o, steno_err *err)
{
    const struct steno_icefall_settings set = read_settings(m, o);
    steno_status st = check_beam(o, err);
    *s = (struct steno_icefall_search){.model = m, .n_best = o->n_best};
    if (st)
        return st;
    if (o->hints.hotwords && *o->hints.hotwords)
        st = steno_icefall_hotwords(&s->hotwords, m, o->hints.hotwords, (float)set.hotwords_score,
                                    err);
    if (st)
        return st;
    return m->ctc ? open_ctc(s, o, &set, err) : open_transducer(s, o, &set, err);
}

void steno_icefall_search_close(struct steno_icefall_search *s)
{
    steno_stateless_close(s->tokens);
    steno_ctc_search_close(&s->ctc);
    steno_hotwords_close(s->hotwords);
    free(s->hyps);
}

steno_status steno_icefall_search_restart(struct steno_icefall_search *s, int64_t frame)
{
    if (s->tokens)
        return steno_stateless_restart(s->tokens, frame);
    steno_ctc_search_restart(&s->ctc, frame);
    return STENO_OK;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The hypotheses of searches [from, to) for one frame: of as many searches as fit into one run. */
struct gathered {
    const float *enc[STENO_ICEFALL_ROWS];
    const int32_t *context[STENO_ICEFALL_ROWS];
    size_t n, to;
};

static void gather(struct steno_icefall_search *const *s, const float *const *frame, size_t n,
                   const steno_status *st, size_t from, struct gathered *g)
{
    g->n = 0;
    for (g->to = from; g->to < n; g->to++) {
        size_t width = st[g->to] ? 0 : steno_stateless_width(s[g->to]->tokens);
        if (g->n + width > STENO_ICEFALL_ROWS)
            return;
        for (size_t i = 0; i < width; i++, g->n++) {
            g->enc[g->n] = frame[g->to];
            g->context[g->n] = steno_stateless_context(s[g->to]->tokens, i);
        }
    }
}

static steno_status push(struct steno_icefall_search *s, float *logits, steno_err *err)
{
    steno_status st = steno_stateless_push(s->tokens, logits);
    if (st == STENO_ERR_FORMAT)
        return steno_fail(err, st, "%s: a score is not a number", s->model->nets.joiner_name);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

void steno_icefall_search_frame(steno_icefall_scorer *scorer, struct steno_icefall_search *const *s,
                                const float *const *frame, size_t n, steno_status *st,
                                steno_err *const *err)
{
    struct gathered g;
    for (size_t from = 0; from < n; from = g.to) {
        float *logits = NULL;
        steno_err why = {0};
        steno_status all = STENO_OK;
        gather(s, frame, n, st, from, &g);
        if (g.n)
            all = steno_icefall_score(scorer, g.enc, g.context, g.n, &logits, &why);
        for (size_t i = from; i < g.to; i++) {
            size_t width = st[i] ? 0 : steno_stateless_width(s[i]->tokens);
            if (!width)
                continue;
            if (all && err[i])
                *err[i] = why;
            st[i] = all ? all : push(s[i], logits, err[i]);
            logits += all ? 0 : width * (size_t)s[i]->model->vocab;
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

steno_status steno_icefall_search_list(struct steno_icefall_search *s, struct steno_hypothesis *out,
                                       size_t max, size_t *n, size_t *stable)
{
    steno_status st;
    if (!s->tokens)
        return steno_ctc_search_list(&s->ctc, out, max, n, stable);
    st = steno_stateless_nbest(s->tokens, s->hyps,
                               max < (size_t)s->n_best ? max : (size_t)s->n_best, n);
    *stable = steno_stateless_stable(s->tokens);
    for (size_t i = 0; i < *n && !st; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return st;
}

int64_t steno_icefall_search_frames(const struct steno_icefall_search *s)
{
    return s->tokens ? steno_stateless_frames(s->tokens) : steno_ctc_search_frames(&s->ctc);
}

int64_t steno_icefall_search_last_sound(const struct steno_icefall_search *s)
{
    return s->tokens ? steno_stateless_last_sound(s->tokens) : steno_ctc_search_last_sound(&s->ctc);
}

size_t steno_icefall_search_n_tokens(const struct steno_icefall_search *s)
{
    return s->tokens ? steno_stateless_n_tokens(s->tokens) : steno_ctc_search_n_tokens(&s->ctc);
}
