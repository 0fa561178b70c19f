/* The search of one stream: which one, with which settings, and steps of several together. */
#include <stdlib.h>
#include <string.h>

#include "families/icefall/internal.h"
#include "families/option.h"

/* CTC beam search: the margin without alternatives, hotwords and LM: odds of 1 to 150. */
#define NARROW_MARGIN 5.0

/* ---- opening --------------------------------------------------------------------------------- */

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
                                  .lm = steno_fusion_lm(&m->lm, set->lm_weight)};
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
                                              .lm = steno_fusion_lm(&m->lm, set->lm_weight)};
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
    steno_status st = steno_beam_choose_hotwords(o, err);
    *s = (struct steno_icefall_search){.model = m, .n_best = o->n_best};
    if (st)
        return st;
    if (o->hints.hotwords && *o->hints.hotwords)
        st = steno_phrases_build(&s->hotwords, &m->phrases, o->hints.hotwords,
                                 (float)set.hotwords_score, err);
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
