/* One stream of family ctc_streaming: the states of the network, and the search over its scores. */
#include <math.h>
#include <stdlib.h>

#include "families/ctc/internal.h"

#define NARROW_MARGIN 5.0  /* beam search without alternatives: odds of 1 to 150 */
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
    static const struct steno_search_hints none = {.defaults = {0}};
    const struct steno_ctc_model *m = s->model;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st = steno_token_search_begin(&s->search, &none, o, &set, err);
    if (st)
        return st;
    set.blank_penalty = m->conf.blank_penalty;
    c = steno_ctc_options_of(&s->search, &none, &set, o, (int32_t)m->encoder.shape.width, m->blank);
    if (o->n_best == 1) {
        c.margin = NARROW_MARGIN;
        c.commit_delay = to_frames(m, DECIDE_SECONDS);
    }
    return steno_token_search_open(&s->search, &c, err);
}

steno_status steno_ctc_stream_new(void **state, void *model, struct steno_family_stream *o,
                                  steno_err *err)
{
    struct steno_ctc_model *m = model;
    steno_status st = check_beam(m, o, err);
    struct steno_ctc_stream *s = st ? NULL : calloc(1, sizeof *s);
    if (!st && !s)
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
    steno_token_search_close(&s->search);
    free(s);
}

/* After an endpoint the network keeps its states: the speech comes from the same room. */
steno_status steno_ctc_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_ctc_stream *s = state;
    (void)err;
    if (what != STENO_RESET_RECORDING)
        return steno_token_search_reset(&s->search);
    s->encoder.fresh = true;
    return steno_token_search_restart(&s->search, 0);
}

steno_status steno_ctc_consume(void *state, bool *left)
{
    return steno_token_search_consume(&((struct steno_ctc_stream *)state)->search, left);
}

steno_status steno_ctc_skip(void *state)
{
    struct steno_ctc_stream *s = state;
    steno_token_search_give(&s->search, s->model->quiet, (size_t)s->model->encoder.shape.frames);
    return STENO_OK;
}

int64_t steno_ctc_frames(const void *state)
{
    return steno_token_search_frames(&((const struct steno_ctc_stream *)state)->search);
}

int64_t steno_ctc_last_sound(const void *state)
{
    return steno_token_search_last_sound(&((const struct steno_ctc_stream *)state)->search);
}

size_t steno_ctc_n_tokens(const void *state)
{
    return steno_token_search_n_tokens(&((const struct steno_ctc_stream *)state)->search);
}

steno_status steno_ctc_hypotheses(void *state, struct steno_hypothesis *out, size_t max, size_t *n,
                                  size_t *stable)
{
    return steno_token_search_list(&((struct steno_ctc_stream *)state)->search, out, max, n,
                                   stable);
}
