/* One stream of family ctc_streaming: the states of the network, and the search over its scores. */
#include <math.h>
#include <stdlib.h>

#include "families/ctc/internal.h"

#define TOP_K 16           /* beam search: tokens of a frame that may extend a hypothesis */
#define MARGIN 5.0         /* beam search: ignores tokens with odds below 1 to 150, */
#define WIDE_MARGIN 10.0   /* or below 1 to 22,000 if the stream wants alternatives */
#define DECIDE_SECONDS 0.8 /* beam search without alternatives: older tokens are final */

static steno_status check_beam(const struct steno_ctc_model *m, struct steno_family_stream *o,
                               steno_err *err)
{
    if (o->beam == 0)
        o->beam = m->conf.beam > o->n_best ? m->conf.beam : o->n_best > 1 ? o->n_best : 1;
    if (o->n_best == 0)
        o->n_best = 1;
    if (o->n_best > o->beam)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %d, more than the beam, %d", o->n_best,
                          o->beam);
    return STENO_OK;
}

static int64_t to_frames(const struct steno_ctc_model *m, double seconds)
{
    double frame = (double)m->hop * m->conf.subsampling / m->conf.sample_rate;
    return (int64_t)ceil(seconds / frame - 1e-9);
}

static steno_status open_search(struct steno_ctc_stream *s, const struct steno_family_stream *o,
                                steno_err *err)
{
    const struct steno_ctc_model *m = s->model;
    bool many = o->n_best > 1;
    struct steno_ctc_options c = {.vocab = (int32_t)m->encoder.shape.width,
                                  .blank = m->blank,
                                  .blank_penalty = (float)m->conf.blank_penalty,
                                  .beam = o->beam,
                                  .top_k = TOP_K,
                                  .margin = many ? WIDE_MARGIN : MARGIN,
                                  .commit_delay = many ? 0 : to_frames(m, DECIDE_SECONDS)};
    return o->beam > 1 ? steno_ctc_beam_open(&s->beam, &c, err)
                       : steno_ctc_greedy_open(&s->greedy, &c, err);
}

steno_status steno_ctc_stream_new(void **state, void *model, struct steno_family_stream *o,
                                  steno_err *err)
{
    struct steno_ctc_model *m = model;
    steno_status st = check_beam(m, o, err);
    struct steno_ctc_stream *s = st ? NULL : calloc(1, sizeof *s);
    if (s)
        s->hyps = calloc((size_t)o->n_best, sizeof *s->hyps);
    if (!st && (!s || !s->hyps))
        st = steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (!st) {
        s->model = m;
        s->encoder.fresh = true;
        st = open_search(s, o, err);
    }
    if (st)
        steno_ctc_stream_free(s);
    else
        *state = s;
    return st;
}

void steno_ctc_stream_free(void *state)
{
    struct steno_ctc_stream *s = state;
    if (!s)
        return;
    steno_cached_encoder_state_free(&s->encoder);
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    free(s->hyps);
    free(s);
}

static void restart(struct steno_ctc_stream *s)
{
    s->encoder.fresh = true;
    s->left = 0;
    if (s->beam)
        steno_ctc_beam_restart(s->beam, 0);
    else
        steno_ctc_greedy_restart(s->greedy, 0);
}

/* After an endpoint the network keeps its states: the speech comes from the same room. */
steno_status steno_ctc_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_ctc_stream *s = state;
    (void)err;
    if (what == STENO_RESET_RECORDING)
        restart(s);
    else if (s->beam)
        steno_ctc_beam_reset(s->beam);
    else
        steno_ctc_greedy_reset(s->greedy);
    return STENO_OK;
}

steno_status steno_ctc_consume(void *state, bool *left)
{
    struct steno_ctc_stream *s = state;
    const float *row = s->scores;
    *left = s->left > 0;
    if (!*left)
        return STENO_OK;
    s->left--;
    s->scores += s->model->encoder.shape.width;
    return s->beam ? steno_ctc_beam_push(s->beam, row, 1)
                   : steno_ctc_greedy_push(s->greedy, row, 1);
}

steno_status steno_ctc_skip(void *state)
{
    struct steno_ctc_stream *s = state;
    s->scores = s->model->quiet;
    s->left = s->model->encoder.shape.frames;
    return STENO_OK;
}

int64_t steno_ctc_frames(const void *state)
{
    const struct steno_ctc_stream *s = state;
    return s->beam ? steno_ctc_beam_frames(s->beam) : steno_ctc_greedy_frames(s->greedy);
}

int64_t steno_ctc_last_sound(const void *state)
{
    const struct steno_ctc_stream *s = state;
    return s->beam ? steno_ctc_beam_last_sound(s->beam) : steno_ctc_greedy_last_sound(s->greedy);
}

size_t steno_ctc_n_tokens(const void *state)
{
    const struct steno_ctc_stream *s = state;
    return s->beam ? steno_ctc_beam_stable(s->beam) : steno_ctc_greedy_best(s->greedy).n;
}

steno_status steno_ctc_hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                                  size_t *stable)
{
    struct steno_ctc_stream *s = state;
    if (s->beam) {
        steno_status st = steno_ctc_beam_nbest(s->beam, s->hyps, max, n);
        if (st)
            return st;
        *stable = steno_ctc_beam_stable(s->beam);
    } else {
        s->hyps[0] = steno_ctc_greedy_best(s->greedy);
        *n = 1;
        *stable = s->hyps[0].n; /* the best path only gets longer */
    }
    for (size_t i = 0; i < *n; i++)
        out[i] = (struct steno_hypothesis){
            .spans = s->hyps[i].spans, .n = s->hyps[i].n, .score = s->hyps[i].score};
    return STENO_OK;
}
