/* The search of one stream: which one, with which settings, and steps of several together. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/icefall/internal.h"

/* CTC beam search: the margin without alternatives, hotwords and LM: odds of 1 to 150. */
#define NARROW_MARGIN 5.0

static steno_status open_transducer_icefall_search(struct steno_token_search *s,
                                                   const struct steno_icefall_model *m,
                                                   const struct steno_family_stream *o,
                                                   const struct steno_search_settings *set,
                                                   steno_err *err)
{
    const struct steno_stateless_options t = {
        .vocab = m->vocab,
        .blank = m->base.blank,
        .unknown = m->unknown < m->vocab ? m->unknown : -1,
        .context = m->nets.context,
        .beam = o->beam,
        .blank_penalty = (float)set->blank_penalty,
        .hotwords = s->hotwords,
        .lm = steno_fusion_lm(&m->base.hints.lm, set->lm_weight)};
    s->vocab = (size_t)m->vocab;
    return steno_stateless_open(&s->stateless, &t, err);
}

steno_status steno_icefall_search_open(struct steno_token_search *s,
                                       const struct steno_icefall_model *m,
                                       struct steno_family_stream *o, steno_err *err)
{
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st = steno_beam_choose_hotwords(o, err);
    if (!st)
        st = steno_token_search_begin(s, &m->base.hints, o, &set, err);
    if (st)
        return st;
    if (!m->ctc)
        return open_transducer_icefall_search(s, m, o, &set, err);
    c = steno_ctc_options_of(s, &m->base.hints, &set, o, m->vocab, m->base.blank);
    if (o->n_best == 1 && !c.hotwords && !c.lm.one)
        c.margin = NARROW_MARGIN;
    return steno_token_search_open(s, &c, err);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The hypotheses of searches [from, to) for one frame: of as many searches as fit into one run. */
struct gathered {
    const float *enc[STENO_ICEFALL_ROWS];
    const int32_t *context[STENO_ICEFALL_ROWS];
    size_t n, to;
};

static void gather_icefall_search(struct steno_token_search *const *s, const float *const *frame,
                                  size_t n, const steno_status *st, size_t from, struct gathered *g)
{
    g->n = 0;
    for (g->to = from; g->to < n; g->to++) {
        size_t width = st[g->to] ? 0 : steno_stateless_width(s[g->to]->stateless);
        if (g->n + width > STENO_ICEFALL_ROWS)
            return;
        for (size_t i = 0; i < width; i++, g->n++) {
            g->enc[g->n] = frame[g->to];
            g->context[g->n] = steno_stateless_context(s[g->to]->stateless, i);
        }
    }
}

static steno_status push_icefall_search(struct steno_token_search *s, float *logits,
                                        const char *file, steno_err *err)
{
    steno_status st = steno_stateless_push(s->stateless, logits);
    if (st == STENO_ERR_FORMAT)
        return steno_fail(err, st, "%s: a score is not a number", file);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

void steno_icefall_search_frame(const struct steno_icefall_model *m, steno_icefall_scorer *scorer,
                                struct steno_token_search *const *s, const float *const *frame,
                                size_t n, steno_status *st, steno_err *const *err)
{
    struct gathered g;
    for (size_t from = 0; from < n; from = g.to) {
        float *logits = NULL;
        steno_err why = {0};
        steno_status all = STENO_OK;
        gather_icefall_search(s, frame, n, st, from, &g);
        if (g.n)
            all = steno_icefall_score(scorer, g.enc, g.context, g.n, &logits, &why);
        for (size_t i = from; i < g.to; i++) {
            size_t width = st[i] ? 0 : steno_stateless_width(s[i]->stateless);
            if (!width)
                continue;
            if (all && err[i])
                *err[i] = why;
            st[i] = all ? all : push_icefall_search(s[i], logits, m->files.joiner, err[i]);
            logits += all ? 0 : width * s[i]->vocab;
        }
    }
}
