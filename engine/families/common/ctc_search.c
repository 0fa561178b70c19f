#include "families/common/ctc_search.h"

#include <stdlib.h>

#include "families/common/phrases.h"

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

steno_status steno_beam_choose_hotwords(struct steno_family_stream *o, steno_err *err)
{
    const bool hotwords = o->hints.hotwords && *o->hints.hotwords;
    if (o->beam == 1 && hotwords)
        return steno_fail(err, STENO_ERR_INVAL, "hotwords: the beam is 1, expected more");
    if (o->beam == 0 && hotwords && o->n_best < STENO_PHRASES_BEAM)
        o->beam = STENO_PHRASES_BEAM;
    return steno_beam_choose(o, err);
}

float *steno_ctc_quiet(int64_t frames, int32_t vocab, int32_t blank)
{
    const size_t n = (size_t)(frames * vocab);
    float *scores = malloc(n * sizeof *scores);
    for (size_t i = 0; scores && i < n; i++)
        scores[i] = i % (size_t)vocab == (size_t)blank ? 0 : QUIET_SCORE;
    return scores;
}

steno_status steno_ctc_search_open(struct steno_ctc_search *s, const struct steno_ctc_options *o,
                                   int n_best, steno_err *err)
{
    *s = (struct steno_ctc_search){
        .n_best = (size_t)n_best, .vocab = (size_t)o->vocab, .hotwords = s->hotwords};
    s->hyps = calloc(s->n_best, sizeof *s->hyps);
    if (!s->hyps)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return o->beam > 1 ? steno_ctc_beam_open(&s->beam, o, err)
                       : steno_ctc_greedy_open(&s->greedy, o, err);
}

void steno_ctc_search_close(struct steno_ctc_search *s)
{
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    steno_hotwords_close(s->hotwords);
    free(s->hyps);
}

void steno_ctc_search_reset(struct steno_ctc_search *s)
{
    if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
}

void steno_ctc_search_restart(struct steno_ctc_search *s, int64_t frame)
{
    s->left = 0;
    if (s->beam)
        steno_ctc_beam_restart(s->beam, frame);
    else
        steno_ctc_greedy_restart(s->greedy, frame);
}

steno_status steno_ctc_search_push(struct steno_ctc_search *s, const float *scores, size_t n)
{
    return s->beam ? steno_ctc_beam_push(s->beam, scores, n)
                   : steno_ctc_greedy_push(s->greedy, scores, n);
}

void steno_ctc_search_give(struct steno_ctc_search *s, const float *scores, size_t n)
{
    s->scores = scores;
    s->left = n;
}

steno_status steno_ctc_search_consume(struct steno_ctc_search *s, bool *left)
{
    const float *row = s->scores;
    *left = s->left > 0;
    if (!*left)
        return STENO_OK;
    s->left--;
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
