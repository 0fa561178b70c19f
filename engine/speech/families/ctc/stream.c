/* Streams of family ctc_streaming: the search over the scores of the network. */
#include <math.h>

#include "speech/families/ctc/internal.h"

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
    double frame =
        (double)steno_fbank_shift(m->base.front) * m->conf.subsampling / m->conf.sample_rate;
    return (int64_t)ceil(seconds / frame - 1e-9);
}

/* Begin a search, or an alignment, whose words are spelled with the model's tokens. */
static steno_status begin_search(struct steno_token_search *s, const struct steno_ctc_model *m,
                                 const struct steno_family_stream *o,
                                 struct steno_search_settings *set, steno_err *err)
{
    struct steno_search_hints h = m->base.hints;
    steno_status st = o->alignment ? steno_phrases_open(&h.phrases, m->base.tokens, err) : STENO_OK;
    if (!st)
        st = steno_token_search_begin(s, &h, o, set, err);
    if (o->alignment)
        steno_phrases_close(&h.phrases);
    return st;
}

steno_status steno_ctc_stream_open(void *stream, const void *model, struct steno_family_stream *o,
                                   steno_err *err)
{
    const struct steno_ctc_model *m = model;
    struct steno_token_search *s = &((struct steno_shell_stream *)stream)->search;
    struct steno_search_settings set;
    struct steno_ctc_options c;
    steno_status st = check_beam(m, o, err);
    if (!st)
        st = begin_search(s, m, o, &set, err);
    if (st)
        return st;
    set.blank_penalty = m->conf.blank_penalty;
    c = steno_ctc_options_of(s, &m->base.hints, &set, o, (int32_t)m->base.encoder.shape.width,
                             m->base.blank);
    if (o->n_best == 1) {
        c.margin = NARROW_MARGIN;
        c.commit_delay = to_frames(m, DECIDE_SECONDS);
    }
    return steno_token_search_open(s, &c, err);
}
