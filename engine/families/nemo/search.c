#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/nemo/internal.h"
#include "families/option.h"

#define TOP_K 16          /* CTC beam: tokens of a frame that may extend a hypothesis */
#define MARGIN 10.0       /* CTC beam: hypotheses with odds below 1 to 22,000 are dropped */
#define TOKENS_OF_TDT 5   /* of a frame at most, as in sherpa-onnx */
#define TOKENS_OF_RNNT 10 /* the same without durations */
#define TOKENS_OF_BEAM 10 /* the same of the beam search */

static steno_status check_beam(struct steno_family_stream *o, steno_err *err)
{
    if (o->beam == 0)
        o->beam = o->n_best > 1 ? o->n_best : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    if (o->n_best > o->beam)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                          o->beam);
    return STENO_OK;
}

static int most_tokens(const struct steno_nemo_model *m, int32_t durations, int beam)
{
    if (m->conf.onnx_asr)
        return m->conf.max_tokens ? (int)m->conf.max_tokens : TOKENS_OF_RNNT;
    if (beam > 1)
        return TOKENS_OF_BEAM;
    return durations ? TOKENS_OF_TDT : TOKENS_OF_RNNT;
}

static steno_status open_transducer(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                                    int beam, float penalty, steno_err *err)
{
    const int32_t vocab = steno_tokens_count(m->tokens);
    const int32_t durations = (int32_t)m->transducer.outputs - vocab;
    const struct steno_tdt_options t = {.vocab = vocab,
                                        .blank = m->blank,
                                        .silent = m->unknown,
                                        .durations = durations,
                                        .max_tokens = most_tokens(m, durations, beam),
                                        .blank_penalty = penalty,
                                        .beam = beam,
                                        .state = steno_nemo_state_size(&m->transducer),
                                        .width = steno_nemo_row_size(&m->transducer)};
    return steno_tdt_open(&s->tdt, &t, err);
}

static steno_status open_ctc(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                             int beam, float penalty, steno_err *err)
{
    const struct steno_ctc_options c = {.vocab = steno_tokens_count(m->tokens),
                                        .blank = m->blank,
                                        .blank_penalty = penalty,
                                        .beam = beam,
                                        .top_k = TOP_K,
                                        .margin = MARGIN};
    return beam > 1 ? steno_ctc_beam_open(&s->beam, &c, err)
                    : steno_ctc_greedy_open(&s->greedy, &c, err);
}

steno_status steno_nemo_search_open(struct steno_nemo_search *s, const struct steno_nemo_model *m,
                                    struct steno_family_stream *o, steno_err *err)
{
    double penalty = (double)m->blank_penalty;
    steno_status st = check_beam(o, err);
    if (st)
        return st;
    (void)steno_option_get_number(o->options, o->n_options, "blank_penalty", &penalty);
    s->n_best = (size_t)o->n_best;
    s->hyps = calloc((size_t)o->n_best, sizeof *s->hyps);
    if (!s->hyps)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    return steno_nemo_is_transducer(m) ? open_transducer(s, m, o->beam, (float)penalty, err)
                                       : open_ctc(s, m, o->beam, (float)penalty, err);
}

void steno_nemo_search_close(struct steno_nemo_search *s)
{
    steno_tdt_close(s->tdt);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    free(s->hyps);
}

void steno_nemo_search_reset(struct steno_nemo_search *s)
{
    if (s->tdt)
        steno_tdt_reset(s->tdt);
    else if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
}

void steno_nemo_search_restart(struct steno_nemo_search *s)
{
    if (s->tdt)
        steno_tdt_restart(s->tdt, 0);
    else if (s->beam)
        steno_ctc_beam_restart(s->beam, 0);
    else
        steno_ctc_greedy_restart(s->greedy, 0);
}

steno_status steno_nemo_search_ctc(struct steno_nemo_search *s, const float *scores, size_t n)
{
    return s->beam ? steno_ctc_beam_push(s->beam, scores, n)
                   : steno_ctc_greedy_push(s->greedy, scores, n);
}

steno_status steno_nemo_search_list(struct steno_nemo_search *s, struct steno_hypothesis *out,
                                    size_t max, size_t *n, size_t *stable)
{
    steno_status st = STENO_OK;
    if (s->tdt) {
        st = steno_tdt_nbest(s->tdt, s->hyps, max, n);
        *stable = steno_tdt_stable(s->tdt);
    } else if (s->beam) {
        st = steno_ctc_beam_nbest(s->beam, s->hyps, max, n);
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

int64_t steno_nemo_search_frames(const struct steno_nemo_search *s)
{
    return s->tdt    ? steno_tdt_frames(s->tdt)
           : s->beam ? steno_ctc_beam_frames(s->beam)
                     : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_nemo_search_last_sound(const struct steno_nemo_search *s)
{
    return s->tdt    ? steno_tdt_last_sound(s->tdt)
           : s->beam ? steno_ctc_beam_last_sound(s->beam)
                     : steno_ctc_greedy_last_sound(s->greedy);
}

size_t steno_nemo_search_n_tokens(const struct steno_nemo_search *s)
{
    return s->tdt    ? steno_tdt_n_tokens(s->tdt)
           : s->beam ? steno_ctc_beam_stable(s->beam)
                     : steno_ctc_greedy_best(s->greedy).n;
}
