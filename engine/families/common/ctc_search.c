#include "families/common/ctc_search.h"

#include <stdlib.h>

#define TOP_K 16             /* beam: tokens of a frame that may extend a hypothesis */
#define MARGIN 10.0          /* beam: hypotheses with odds below 1 to 22,000 are dropped */
#define QUIET_SCORE (-30.0F) /* log-probability of each token in a frame without speech */

steno_status steno_beam_choose(struct steno_family_stream *o, steno_err *err)
{
    if (o->beam == 0)
        o->beam = o->n_best > 1 ? o->n_best : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    return o->n_best <= o->beam
               ? STENO_OK
               : steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                            o->beam);
}

steno_status steno_ctc_search_open(struct steno_ctc_search *s, int32_t vocab, int32_t blank,
                                   double blank_penalty, const struct steno_family_stream *o,
                                   steno_err *err)
{
    const struct steno_ctc_options c = {.vocab = vocab,
                                        .blank = blank,
                                        .blank_penalty = (float)blank_penalty,
                                        .beam = o->beam,
                                        .top_k = TOP_K,
                                        .margin = MARGIN};
    *s = (struct steno_ctc_search){
        .n_best = (size_t)o->n_best, .vocab = (size_t)vocab, .blank = blank};
    s->hyps = calloc(s->n_best, sizeof *s->hyps);
    if (!s->hyps)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return o->beam > 1 ? steno_ctc_beam_open(&s->beam, &c, err)
                       : steno_ctc_greedy_open(&s->greedy, &c, err);
}

void steno_ctc_search_close(struct steno_ctc_search *s)
{
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    free(s->hyps);
    free(s->quiet);
}

void steno_ctc_search_reset(struct steno_ctc_search *s)
{
    if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
}

void steno_ctc_search_restart(struct steno_ctc_search *s)
{
    s->left = 0;
    if (s->beam)
        steno_ctc_beam_restart(s->beam, 0);
    else
        steno_ctc_greedy_restart(s->greedy, 0);
}

steno_status steno_ctc_search_push(struct steno_ctc_search *s, const float *scores, size_t n)
{
    return s->beam ? steno_ctc_beam_push(s->beam, scores, n)
                   : steno_ctc_greedy_push(s->greedy, scores, n);
}

void steno_ctc_search_give(struct steno_ctc_search *s, const float *scores, size_t n)
{
    s->scores = scores;
    s->silent = !scores;
    s->left = n;
}

static steno_status make_quiet(struct steno_ctc_search *s)
{
    s->quiet = malloc(s->vocab * sizeof *s->quiet);
    if (!s->quiet)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < s->vocab; i++)
        s->quiet[i] = i == (size_t)s->blank ? 0 : QUIET_SCORE;
    return STENO_OK;
}

steno_status steno_ctc_search_consume(struct steno_ctc_search *s, bool *left)
{
    const float *row;
    *left = s->left > 0;
    if (!*left)
        return STENO_OK;
    if (s->silent && !s->quiet && make_quiet(s))
        return STENO_ERR_NOMEM;
    row = s->silent ? s->quiet : s->scores;
    s->left--;
    if (!s->silent)
        s->scores += s->vocab;
    return steno_ctc_search_push(s, row, 1);
}

steno_status steno_ctc_search_list(struct steno_ctc_search *s, struct steno_hypothesis *out,
                                   size_t max, size_t *n, size_t *stable)
{
    steno_status st = STENO_OK;
    if (s->beam) {
        st = steno_ctc_beam_nbest(s->beam, s->hyps, max < s->n_best ? max : s->n_best, n);
        *stable = steno_ctc_beam_stable(s->beam);
    } else {
        s->hyps[0] = steno_ctc_greedy_best(s->greedy);
        *n = 1;
        *stable = s->hyps[0].n; /* the best path only gets longer */
    }
    for (size_t i = 0; !st && i < *n; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return st;
}

int64_t steno_ctc_search_frames(const struct steno_ctc_search *s)
{
    return s->beam ? steno_ctc_beam_frames(s->beam) : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_ctc_search_last_sound(const struct steno_ctc_search *s)
{
    return s->beam ? steno_ctc_beam_last_sound(s->beam) : steno_ctc_greedy_last_sound(s->greedy);
}

size_t steno_ctc_search_n_tokens(const struct steno_ctc_search *s)
{
    return s->beam ? steno_ctc_beam_stable(s->beam) : steno_ctc_greedy_best(s->greedy).n;
}
