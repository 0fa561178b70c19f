/* One stream of an espnet_onnx directory: opening, and accepting audio for blocks. A stream has no
 * networks; a step runs those of a runner on the stream's states. */
#include "speech/families/espnet/stream.h"

#include <stdlib.h>
#include <string.h>

#include "speech/families/option.h"

void steno_espnet_apply_options(struct steno_espnet_search *s, const struct steno_option *options,
                                size_t n)
{
    const struct {
        const char *name;
        double *to;
    } rows[] = {{"ctc_weight", &s->ctc_weight},     {"lm_weight", &s->lm_weight},
                {"penalty", &s->length_bonus},      {"maxlenratio", &s->max_len_ratio},
                {"minlenratio", &s->min_len_ratio}, {"pre_beam", &s->pre_beam_ratio}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        (void)steno_option_get_number(options, n, rows[i].name, rows[i].to);
}

static steno_status set_search(struct steno_espnet_stream *s, struct steno_family_stream *o,
                               steno_err *err)
{
    struct steno_espnet_search *t = &s->search;
    steno_status st;
    *t = s->model->defaults;
    if (o->beam)
        t->beam = (size_t)o->beam;
    if (o->n_best)
        t->n_best = (size_t)o->n_best;
    if (!o->beam && t->beam < t->n_best)
        t->beam = t->n_best;
    steno_espnet_apply_options(t, o->options, o->n_options);
    st = steno_espnet_check_search(s->net, t, err);
    o->beam = (int)t->beam;
    o->n_best = (int)t->n_best;
    return st;
}

static steno_status open_ctc(struct steno_espnet_stream *s, steno_err *err)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    struct steno_ctc_options o = {.vocab = c->vocab,
                                  .blank = c->blank,
                                  .beam = (int)s->search.beam,
                                  .top_k = 16,
                                  .margin = 10};
    steno_status st = steno_ctc_greedy_open(&s->greedy, &o, err);
    if (!st && steno_espnet_ctc_alone(s) && s->search.beam > 1)
        st = steno_ctc_beam_open(&s->beam, &o, err);
    return st;
}

static steno_status open_blocks(struct steno_espnet_stream *s, steno_err *err)
{
    const struct steno_espnet *e = s->net;
    steno_status st = steno_fbank_open_like(&s->fbank, e->front, err);
    if (!st && !steno_espnet_ctc_alone(s) && steno_espnet_block_search_possible(e, &s->search))
        st = steno_espnet_block_search_open(&s->blocks, e, &s->search, err);
    if (st)
        return st;
    /* a block, and frames that one push of samples and the end of the audio can add */
    s->cap_feats = 2 * steno_espnet_first_frames(&e->conf) + 64;
    s->feats = steno_aligned_alloc(s->cap_feats * (size_t)e->conf.bins * sizeof *s->feats);
    return s->feats ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
}

steno_status steno_espnet_state_new(void **state, void *model, struct steno_family_stream *o,
                                    steno_err *err)
{
    struct steno_espnet_model *m = model;
    struct steno_espnet_stream *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->model = m;
    s->net = &m->net;
    s->whole = o->whole;
    steno_hypothesis_list_init(&s->list);
    st = set_search(s, o, err);
    if (!st)
        st = open_ctc(s, err);
    if (!st && steno_espnet_by_blocks(s->net))
        st = open_blocks(s, err);
    if (st)
        steno_espnet_stream_free(s);
    else
        *state = s;
    return st;
}

void steno_espnet_stream_free(void *state)
{
    struct steno_espnet_stream *s = state;
    if (!s)
        return;
    steno_ctc_greedy_close(s->greedy);
    steno_ctc_beam_close(s->beam);
    steno_align_free(&s->align);
    steno_hypothesis_list_free(&s->list);
    steno_espnet_state_free(&s->state);
    steno_espnet_block_search_close(s->blocks);
    steno_transducer_close(s->transduced);
    steno_fbank_close(s->fbank);
    steno_aligned_free(s->feats);
    steno_aligned_free(s->rows);
    steno_aligned_free(s->ctc);
    free(s->tokens);
    free(s->spans);
    free(s->costs);
    free(s);
}

/* Segments are independent: each begins like a recording. */
steno_status steno_espnet_reset(void *state, enum steno_reset what, steno_err *err)
{
    struct steno_espnet_stream *s = state;
    (void)what;
    (void)err;
    steno_hypothesis_list_clear(&s->list);
    if (steno_espnet_by_blocks(s->net)) {
        steno_fbank_reset(s->fbank);
        steno_ctc_greedy_restart(s->greedy, 0);
        if (s->beam)
            steno_ctc_beam_restart(s->beam, 0);
        s->n_feats = s->fed = s->n_rows = s->n_taken = 0;
        s->state.block = 0;
    }
    if (s->blocks)
        steno_espnet_block_search_restart(s->blocks);
    steno_transducer_close(s->transduced); /* its memory belongs to the segment */
    s->transduced = NULL;
    return STENO_OK;
}

steno_status steno_espnet_accept(void *state, const float *pcm, size_t dropped, size_t end,
                                 bool *due)
{
    struct steno_espnet_stream *s = state;
    steno_status st = steno_espnet_make_frames(s, pcm, dropped, end);
    *due = s->n_feats == steno_espnet_frames_wanted(s);
    return st;
}

size_t steno_espnet_accepted(const void *state)
{
    return ((const struct steno_espnet_stream *)state)->fed;
}

size_t steno_espnet_missing(const void *state)
{
    const struct steno_espnet_stream *s = state;
    return (size_t)s->net->conf.hop_length * (steno_espnet_frames_wanted(s) - s->n_feats);
}
