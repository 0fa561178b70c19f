/* The joint search of an espnet_onnx directory: its settings, the search of a whole utterance, and
 * the search block by block. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/espnet/ngram.h"
#include "speech/families/espnet/runner.h"
#include "speech/families/family.h"

/* ---- search settings ----------------------------------------------------------------------- */

struct steno_espnet_search steno_espnet_defaults(const struct steno_espnet *e)
{
    const struct steno_espnet_conf *c = &e->conf;
    return (struct steno_espnet_search){
        .beam = (size_t)c->beam < (size_t)c->vocab ? (size_t)c->beam : (size_t)c->vocab,
        .n_best = 1,
        .ctc_weight = c->weight_ctc,
        .lm_weight = e->lm ? c->weight_lm : 0,
        .length_bonus = c->weight_length,
        .max_len_ratio = c->max_len_ratio,
        .min_len_ratio = c->min_len_ratio,
        .pre_beam_ratio = c->pre_beam_ratio};
}

static bool within(double v, double min, double max)
{
    return v >= min && v <= max;
}

steno_status steno_espnet_check_search(const struct steno_espnet *e,
                                       const struct steno_espnet_search *s, steno_err *err)
{
    if (s->beam < 1 || s->beam > (size_t)e->conf.vocab || s->beam > 1000)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %zu, expected 1 to %d", s->beam,
                          e->conf.vocab < 1000 ? (int)e->conf.vocab : 1000);
    if (s->n_best < 1 || s->n_best > s->beam)
        return steno_fail(err, STENO_ERR_INVAL, "n_best is %zu, expected 1 to the beam, %zu",
                          s->n_best, s->beam);
    if (!within(s->ctc_weight, 0, 1))
        return steno_fail(err, STENO_ERR_INVAL, "ctc_weight is %g, expected 0 to 1", s->ctc_weight);
    if (!within(s->lm_weight, 0, 100))
        return steno_fail(err, STENO_ERR_INVAL, "lm_weight is %g, expected 0 to 100", s->lm_weight);
    if (s->lm_weight > 0 && !e->lm)
        return steno_fail(err, STENO_ERR_INVAL, "lm_weight is %g, but %s has no language model",
                          s->lm_weight, e->conf.dir);
    if (!within(s->length_bonus, -100, 100))
        return steno_fail(err, STENO_ERR_INVAL, "penalty is %g, expected -100 to 100",
                          s->length_bonus);
    if (!within(s->max_len_ratio, -1e6, 100) || !within(s->min_len_ratio, -1e6, 100))
        return steno_fail(err, STENO_ERR_INVAL, "maxlenratio %g, minlenratio %g: out of range",
                          s->max_len_ratio, s->min_len_ratio);
    if (!within(s->pre_beam_ratio, 0, 1000))
        return steno_fail(err, STENO_ERR_INVAL, "pre-beam ratio is %g, expected 0 to 1000",
                          s->pre_beam_ratio);
    return STENO_OK;
}

/* ---- a whole utterance --------------------------------------------------------------------- */

static bool same_search(const struct steno_espnet_search *a, const struct steno_espnet_search *b)
{
    return a->beam == b->beam && a->ctc_weight == b->ctc_weight &&
           a->length_bonus == b->length_bonus && a->max_len_ratio == b->max_len_ratio &&
           a->min_len_ratio == b->min_len_ratio && a->pre_beam_ratio == b->pre_beam_ratio;
}

/* As ESPnet: no pre-beam if no key says by which scores, or if only CTC scores. */
static steno_status open_joint(steno_joint **out, const struct steno_espnet *e,
                               const struct steno_espnet_search *s, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    struct steno_joint_options o = {.vocab = c->vocab,
                                    .sos = c->sos,
                                    .eos = c->eos,
                                    .blank = c->blank,
                                    .beam = s->beam,
                                    .pre_beam_key = c->pre_beam_full ? -1 : 0,
                                    .ctc_weight = s->ctc_weight,
                                    .length_bonus = s->length_bonus,
                                    .max_len_ratio = s->max_len_ratio,
                                    .min_len_ratio = s->min_len_ratio,
                                    .max_tokens = e->max_tokens,
                                    .rules = steno_espnet_rules(e),
                                    .no_repetition = c->no_repetition};
    if (c->pre_beam && s->ctc_weight < 1)
        o.pre_beam = (size_t)(s->pre_beam_ratio * (double)s->beam);
    return steno_joint_open(out, &o, err);
}

static steno_status make_joint(steno_espnet_runner *r, const struct steno_espnet_search *s,
                               steno_err *err)
{
    steno_joint *j = NULL;
    steno_status st = open_joint(&j, r->e, s, err);
    if (st)
        return st;
    steno_joint_close(r->joint);
    r->joint = j;
    r->joint_for = *s;
    return STENO_OK;
}

typedef steno_status score_fn(void *, const int32_t *const *, size_t, const int32_t *, size_t,
                              float *, steno_err *);

static struct steno_joint_scorer scorer(void *self, double weight, score_fn *score,
                                        void (*rewind)(void *, int))
{
    return (struct steno_joint_scorer){
        .self = self, .weight = weight, .score = score, .rewind = rewind};
}

static struct steno_joint_scorer batch_scorer(struct steno_cached_decoder_search *self,
                                              double weight)
{
    return (struct steno_joint_scorer){.self = self,
                                       .weight = weight,
                                       .score_each = steno_cached_decoder_score_each,
                                       .rewind = steno_cached_decoder_rewind};
}

/* The scorers of one search. */
struct scorers {
    struct steno_joint_scorer s[3];
    size_t n;
    struct steno_cached_decoder_search decoder, lm;
};

/* List decoder, LM and n-gram model in the form that the model has. decoder, lm: states for
 * decoders with cache. */
static void make_scorers(struct scorers *x, steno_espnet_runner *r,
                         const struct steno_espnet_search *s, steno_cached_decoder_state *decoder,
                         steno_cached_decoder_state *lm)
{
    double w = 1 - s->ctc_weight;
    x->n = 0;
    x->decoder = (struct steno_cached_decoder_search){r->cached_decoder, decoder};
    x->lm = (struct steno_cached_decoder_search){r->cached_lm, lm};
    if (r->recurrent.decoder)
        x->s[x->n++] = scorer(r->recurrent.decoder, w, steno_espnet_rnn_decoder_score,
                              steno_espnet_rnn_decoder_rewind);
    else if (r->cached_decoder)
        x->s[x->n++] = batch_scorer(&x->decoder, w);
    else
        x->s[x->n++] = scorer(r->decoder, w, steno_espnet_scorer_score, NULL);
    if (r->recurrent.lm)
        x->s[x->n++] =
            scorer(r->recurrent.lm, s->lm_weight, steno_espnet_rnn_score, steno_espnet_rnn_rewind);
    else if (r->cached_lm)
        x->s[x->n++] = batch_scorer(&x->lm, s->lm_weight);
    else if (r->lm)
        x->s[x->n++] = scorer(r->lm, s->lm_weight, steno_espnet_scorer_score, NULL);
    if (r->e->ngram)
        x->s[x->n++] = steno_espnet_ngram_scorer(r->e);
}

steno_status steno_espnet_decode(steno_espnet_runner *r, const struct steno_espnet_search *s,
                                 const float *rows, size_t n_rows, const float *ctc,
                                 const steno_joint **result, steno_err *err)
{
    const struct steno_espnet *e = r->e;
    steno_cached_decoder_state *decoder =
        r->cached_decoder ? steno_cached_decoder_own_state(r->cached_decoder) : NULL;
    steno_cached_decoder_state *lm =
        r->cached_lm ? steno_cached_decoder_own_state(r->cached_lm) : NULL;
    struct scorers x;
    steno_status st = STENO_OK;
    make_scorers(&x, r, s, decoder, lm);
    if (!r->joint || !same_search(&r->joint_for, s))
        st = make_joint(r, s, err);
    if (!st && r->recurrent.decoder && s->ctc_weight < 1) {
        steno_espnet_rnn_decoder_start(r->recurrent.decoder);
        st = steno_espnet_rnn_decoder_extend(r->recurrent.decoder, rows, n_rows, e->dim, err);
    }
    if (st)
        return st;
    if (!e->blocks) /* `rows` is a copy, so the encoder's activations can go before the search */
        steno_session_trim(r->encoder, false);
    if (r->decoder)
        steno_espnet_scorer_set_memory(r->decoder, rows, n_rows, e->dim);
    if (r->cached_decoder && s->ctc_weight < 1)
        st = steno_cached_decoder_start(r->cached_decoder, decoder, rows, n_rows, e->dim, s->beam,
                                        err);
    if (r->cached_decoder)
        steno_cached_decoder_trim(r->cached_decoder);
    if (!st && r->cached_lm)
        st = steno_cached_decoder_start(r->cached_lm, lm, NULL, 0, 0, s->beam, err);
    if (st)
        return st;
    st = steno_joint_run(r->joint, x.s, x.n, s->ctc_weight > 0 ? ctc : NULL, n_rows, err);
    *result = r->joint;
    return st;
}

/* ---- block by block ------------------------------------------------------------------------ */

struct steno_espnet_block_search {
    struct steno_espnet_search s;
    steno_joint *joint;
    /* made with the first block; NULL: weight 0, or the other kind */
    steno_cached_decoder_state *decoder, *lm;
    steno_espnet_rnn_decoder_state *rnn_decoder;
    struct steno_beam_states rnn_lm;
    size_t rows; /* encoder frames of the utterance so far */
};

bool steno_espnet_block_search_possible(const struct steno_espnet *e,
                                        const struct steno_espnet_search *s)
{
    bool decoder = e->decoder_cached || e->conf.decoder_kind == STENO_ESPNET_RNN;
    bool lm = e->lm_cached || e->conf.lm_kind == STENO_ESPNET_LM_RNN;
    return e->blocks && !e->opt.as_espnet_onnx && !steno_espnet_is_transducer(e) &&
           (decoder || s->ctc_weight == 1) && (lm || s->lm_weight == 0);
}

steno_status steno_espnet_block_search_open(steno_espnet_block_search **out,
                                            const struct steno_espnet *e,
                                            const struct steno_espnet_search *s, steno_err *err)
{
    steno_espnet_block_search *x = calloc(1, sizeof *x);
    steno_status st;
    if (!x)
        return steno_fail(err, STENO_ERR_NOMEM, "beam search: out of memory");
    x->s = *s;
    st = open_joint(&x->joint, e, s, err);
    if (st) {
        free(x);
        return st;
    }
    steno_joint_begin(x->joint);
    *out = x;
    return STENO_OK;
}

void steno_espnet_block_search_close(steno_espnet_block_search *x)
{
    if (!x)
        return;
    steno_joint_close(x->joint);
    steno_cached_decoder_state_free(x->decoder);
    steno_cached_decoder_state_free(x->lm);
    steno_espnet_rnn_decoder_state_free(x->rnn_decoder);
    steno_beam_states_free(&x->rnn_lm);
    free(x);
}

void steno_espnet_block_search_restart(steno_espnet_block_search *x)
{
    x->rows = 0;
    steno_joint_begin(x->joint);
}

/* Add the new encoder frames to the state of one scorer. The first call makes the state. */
static steno_status extend(const steno_espnet_block_search *x, steno_cached_decoder *step,
                           steno_cached_decoder_state **k, const float *rows, size_t n, int64_t dim,
                           steno_err *err)
{
    if (!*k)
        *k = steno_cached_decoder_state_new(step);
    if (!*k)
        return steno_fail(err, STENO_ERR_NOMEM, "beam search: out of memory");
    return x->rows ? steno_cached_decoder_extend(step, *k, rows + x->rows * (size_t)dim,
                                                 n - x->rows, dim, err)
                   : steno_cached_decoder_start(step, *k, rows, n, dim, x->s.beam, err);
}

static steno_status extend_rnn(steno_espnet_block_search *x, steno_espnet_rnn_decoder *d,
                               const float *rows, size_t n, int64_t dim, steno_err *err)
{
    if (!x->rnn_decoder)
        x->rnn_decoder = steno_espnet_rnn_decoder_state_new();
    if (!x->rnn_decoder)
        return steno_fail(err, STENO_ERR_NOMEM, "beam search: out of memory");
    steno_espnet_rnn_decoder_use(d, x->rnn_decoder);
    if (!x->rows)
        steno_espnet_rnn_decoder_start(d);
    return steno_espnet_rnn_decoder_extend(d, rows, n, dim, err);
}

/* Bind the states of the search to the runner's networks, and add the new encoder frames. */
static steno_status bind_states(steno_espnet_block_search *x, steno_espnet_runner *r,
                                const float *rows, size_t n, steno_err *err)
{
    int64_t dim = r->e->dim;
    steno_status st = STENO_OK;
    if (x->s.ctc_weight < 1)
        st = r->recurrent.decoder ? extend_rnn(x, r->recurrent.decoder, rows, n, dim, err)
                                  : extend(x, r->cached_decoder, &x->decoder, rows, n, dim, err);
    if (!st && x->s.lm_weight != 0 && r->cached_lm)
        st = extend(x, r->cached_lm, &x->lm, rows, n, dim, err);
    if (r->recurrent.lm) {
        if (!x->rows)
            x->rnn_lm.again = false;
        steno_espnet_rnn_use(r->recurrent.lm, &x->rnn_lm);
    }
    return st;
}

static void unbind_states(const steno_espnet_runner *r)
{
    if (r->recurrent.decoder)
        steno_espnet_rnn_decoder_use(r->recurrent.decoder, NULL);
    if (r->recurrent.lm)
        steno_espnet_rnn_use(r->recurrent.lm, NULL);
}

_Static_assert(STENO_BATCH_MAX <= STENO_JOINT_MOST, "streams of a step are searched at once");

/* Search blocks of n streams together. */
static void search_blocks(struct steno_espnet_block_search_block *blocks, size_t n,
                          steno_espnet_runner *r)
{
    struct scorers scorers[STENO_BATCH_MAX];
    struct steno_joint_block b[STENO_BATCH_MAX];
    size_t of[STENO_BATCH_MAX], m = 0;
    for (size_t i = 0; i < n; i++) {
        steno_espnet_block_search *x = blocks[i].search;
        blocks[i].st = bind_states(x, r, blocks[i].rows, blocks[i].n_rows, blocks[i].err);
        x->rows = blocks[i].n_rows;
        if (blocks[i].st)
            continue;
        make_scorers(&scorers[m], r, &x->s, x->decoder, x->lm);
        b[m] = (struct steno_joint_block){.j = x->joint,
                                          .scorers = scorers[m].s,
                                          .n_scorers = scorers[m].n,
                                          .ctc = x->s.ctc_weight > 0 ? blocks[i].ctc : NULL,
                                          .frames = blocks[i].n_rows,
                                          .last = blocks[i].last,
                                          .err = blocks[i].err};
        of[m++] = i;
    }
    steno_joint_blocks(b, m);
    for (size_t k = 0; k < m; k++)
        blocks[of[k]].st = b[k].st;
    unbind_states(r);
}

void steno_espnet_block_search_blocks(struct steno_espnet_block_search_block *blocks, size_t n,
                                      steno_espnet_runner *r)
{
    /* a recurrent scorer uses the state of one search at a time */
    size_t each = r->recurrent.decoder || r->recurrent.lm ? 1 : STENO_BATCH_MAX;
    for (size_t i = 0; i < n; i += each)
        search_blocks(blocks + i, n - i < each ? n - i : each, r);
}

const steno_joint *steno_espnet_block_search_joint(const steno_espnet_block_search *x)
{
    return x->joint;
}
