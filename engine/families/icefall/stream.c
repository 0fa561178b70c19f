/* One stream of family icefall: the states of the encoder, and the search. */
#include <math.h>
#include <stdlib.h>

#include "families/icefall/internal.h"
#include "families/option.h"

#define TOP_K 16         /* CTC beam search: tokens of a frame that may extend a hypothesis */
#define MARGIN 5.0       /* CTC beam search: ignores tokens with odds below 1 to 150, */
#define WIDE_MARGIN 10.0 /* or below 1 to 22,000 if the stream wants alternatives */

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

static steno_status open_ctc(struct steno_icefall_stream *s, const struct steno_family_stream *o,
                             double blank_penalty, steno_err *err)
{
    const struct steno_icefall_model *m = s->model;
    const struct steno_ctc_options c = {.vocab = m->vocab,
                                        .blank = m->blank,
                                        .blank_penalty = (float)blank_penalty,
                                        .beam = o->beam,
                                        .top_k = TOP_K,
                                        .margin = o->n_best > 1 ? WIDE_MARGIN : MARGIN};
    return o->beam > 1 ? steno_ctc_beam_open(&s->beam, &c, err)
                       : steno_ctc_greedy_open(&s->greedy, &c, err);
}

static steno_status open_search(struct steno_icefall_stream *s, const struct steno_family_stream *o,
                                steno_err *err)
{
    const struct steno_icefall_model *m = s->model;
    double blank_penalty = m->blank_penalty;
    (void)steno_option_get_number(o->options, o->n_options, "blank_penalty", &blank_penalty);
    if (m->ctc)
        return open_ctc(s, o, blank_penalty, err);
    return steno_stateless_open(
        &s->search,
        &(struct steno_stateless_options){.vocab = m->vocab,
                                          .blank = m->blank,
                                          .unknown = m->unknown,
                                          .context = m->nets.context,
                                          .beam = o->beam,
                                          .blank_penalty = (float)blank_penalty},
        err);
}

steno_status steno_icefall_stream_new(void **state, void *model, struct steno_family_stream *o,
                                      steno_err *err)
{
    steno_status st = check_beam(o, err);
    struct steno_icefall_stream *s = st ? NULL : calloc(1, sizeof *s);
    if (s)
        s->hyps = calloc((size_t)o->n_best, sizeof *s->hyps);
    if (!st && (!s || !s->hyps))
        st = steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (!st) {
        s->model = model;
        s->encoder.fresh = true;
        st = open_search(s, o, err);
    }
    if (st)
        steno_icefall_stream_free(s);
    else
        *state = s;
    return st;
}

void steno_icefall_stream_free(void *state)
{
    struct steno_icefall_stream *s = state;
    if (!s)
        return;
    steno_cached_encoder_state_free(&s->encoder);
    steno_stateless_close(s->search);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    free(s->hyps);
    free(s);
}

static steno_status restart(struct steno_icefall_stream *s, int64_t frame)
{
    s->encoder.fresh = true;
    s->stepped = false;
    if (s->search)
        return steno_stateless_restart(s->search, frame);
    if (s->beam)
        steno_ctc_beam_restart(s->beam, frame);
    else
        steno_ctc_greedy_restart(s->greedy, frame);
    return STENO_OK;
}

/* After an endpoint a transducer keeps the encoder's states, and a CTC network begins anew, as in
 * sherpa-onnx. */
steno_status steno_icefall_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_icefall_stream *s = state;
    steno_status st;
    if (what == STENO_RESET_RECORDING)
        st = restart(s, 0);
    else if (s->search)
        st = steno_stateless_reset(s->search);
    else
        st = restart(s, steno_icefall_frames(s));
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

/* All frames of a step at once: the search has read them in the step, with the other streams'. */
steno_status steno_icefall_consume(void *state, bool *left)
{
    struct steno_icefall_stream *s = state;
    *left = s->stepped;
    s->stepped = false;
    return STENO_OK;
}

steno_status steno_icefall_skip(void *state)
{
    struct steno_icefall_stream *s = state;
    const struct steno_cached_encoder_shape *e = &s->model->encoder.shape;
    s->stepped = true;
    if (s->search) {
        steno_stateless_skip(s->search, e->frames);
        return STENO_OK;
    }
    return s->beam ? steno_ctc_beam_push(s->beam, s->model->quiet, (size_t)e->frames)
                   : steno_ctc_greedy_push(s->greedy, s->model->quiet, (size_t)e->frames);
}

int64_t steno_icefall_frames(const void *state)
{
    const struct steno_icefall_stream *s = state;
    return s->search ? steno_stateless_frames(s->search)
           : s->beam ? steno_ctc_beam_frames(s->beam)
                     : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_icefall_last_sound(const void *state)
{
    const struct steno_icefall_stream *s = state;
    return s->search ? steno_stateless_last_sound(s->search)
           : s->beam ? steno_ctc_beam_last_sound(s->beam)
                     : steno_ctc_greedy_last_sound(s->greedy);
}

size_t steno_icefall_n_tokens(const void *state)
{
    const struct steno_icefall_stream *s = state;
    return s->search ? steno_stateless_n_tokens(s->search)
           : s->beam ? steno_ctc_beam_stable(s->beam)
                     : steno_ctc_greedy_best(s->greedy).n;
}

steno_status steno_icefall_hypotheses(void *state, struct steno_hypothesis *out, size_t max,
                                      size_t *n, size_t *stable)
{
    struct steno_icefall_stream *s = state;
    steno_status st = STENO_OK;
    *n = 1;
    if (s->search) {
        st = steno_stateless_nbest(s->search, s->hyps, max, n);
        *stable = steno_stateless_stable(s->search);
    } else if (s->beam) {
        st = steno_ctc_beam_nbest(s->beam, s->hyps, max, n);
        *stable = steno_ctc_beam_stable(s->beam);
    } else {
        s->hyps[0] = steno_ctc_greedy_best(s->greedy);
        *stable = s->hyps[0].n; /* the best path only gets longer */
    }
    for (size_t i = 0; i < *n && !st; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return st;
}
