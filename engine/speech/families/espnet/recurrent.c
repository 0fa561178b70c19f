#include "speech/families/espnet/recurrent.h"

#include <string.h>

static bool has_rnn_lm(const struct steno_espnet *e)
{
    return e->conf.lm_kind == STENO_ESPNET_LM_RNN;
}

steno_status steno_espnet_rnns_load(struct steno_espnet *e, steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    bool rnn = c->decoder_kind == STENO_ESPNET_RNN, td = steno_espnet_is_transducer(e);
    const char *predecoder = steno_espnet_path(e, &c->predecoder[0]);
    steno_status st = STENO_OK;
    if (rnn || td)
        st = steno_espnet_load(e, &c->decoder, "decoder", &e->decoder, err);
    if (!st && td)
        st = steno_espnet_load(e, &c->joint, "joint network", &e->joint, err);
    if (!st && rnn && predecoder && strcmp(c->att_type[0], "noatt") != 0)
        st = steno_espnet_load(e, &c->predecoder[0], "predecoder", &e->predecoder, err);
    if (!st && has_rnn_lm(e))
        st = steno_espnet_load(e, &c->lm, "lm", &e->lm, err);
    return st;
}

static steno_status open_transducer_recurrent(struct steno_espnet_rnns *r, struct steno_espnet *e,
                                              steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    struct steno_espnet_transducer_options o = {
        .threads = e->opt.threads,
        .vocab = c->vocab,
        .prediction =
            steno_espnet_rnn_prediction(e->opt.threads, (int)c->decoder_layers, c->decoder_dim),
        .prediction_name = steno_espnet_path(e, &c->decoder),
        .joint_name = steno_espnet_path(e, &c->joint),
        .lm = r->lm};
    return steno_espnet_transducer_open(&r->transducer, e->decoder, e->joint, &o, err);
}

steno_status steno_espnet_rnns_open(struct steno_espnet_rnns *r, struct steno_espnet *e,
                                    steno_err *err)
{
    const struct steno_espnet_conf *c = &e->conf;
    steno_status st = STENO_OK;
    if (has_rnn_lm(e)) {
        struct steno_espnet_rnn_options o =
            steno_espnet_rnn_lm(e->opt.threads, (int)c->lm_layers, c->lm_dim, c->vocab);
        st = steno_espnet_rnn_open(&r->lm, e->lm, &o, steno_espnet_path(e, &c->lm), err);
    }
    if (!st && c->decoder_kind == STENO_ESPNET_RNN) {
        struct steno_espnet_rnn_decoder_options o = {.threads = e->opt.threads,
                                                     .layers = (int)c->rnn_layers,
                                                     .units = c->rnn_units,
                                                     .vocab = c->vocab};
        st = steno_espnet_rnn_decoder_open(&r->decoder, e->decoder, e->predecoder, &o,
                                           steno_espnet_path(e, &c->decoder), err);
    }
    if (!st && steno_espnet_is_transducer(e))
        st = open_transducer_recurrent(r, e, err);
    return st;
}

void steno_espnet_rnns_close(struct steno_espnet_rnns *r)
{
    steno_espnet_transducer_close(r->transducer);
    steno_espnet_rnn_decoder_close(r->decoder);
    steno_espnet_rnn_close(r->lm);
}

size_t steno_espnet_rnns_bytes(const struct steno_espnet_rnns *r)
{
    return (r->decoder ? steno_espnet_rnn_decoder_bytes(r->decoder) : 0) +
           (r->lm ? steno_espnet_rnn_bytes(r->lm) : 0) +
           (r->transducer ? steno_espnet_transducer_bytes(r->transducer) : 0);
}

static enum steno_transducer_search search_of(const char *name)
{
    static const char *const names[] = {"greedy", "default", "tsd", "alsd", "nsc", "maes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum steno_transducer_search)i;
    return STENO_TRANSDUCER_DEFAULT; /* conf.c accepts no other names */
}

static struct steno_transducer_options options(const struct steno_espnet *e,
                                               const struct steno_espnet_search *s, bool greedy)
{
    const struct steno_espnet_conf *c = &e->conf;
    size_t most = (size_t)c->vocab - 1;
    struct steno_transducer_options o;
    memset(&o, 0, sizeof o); /* padding too: options are compared as bytes */
    o.search = search_of(c->search);
    o.vocab = c->vocab;
    o.sos = c->sos;
    o.beam = greedy ? 1 : s->beam < most ? s->beam : most;
    o.score_norm = c->score_norm;
    o.lm_weight = greedy ? 0 : s->lm_weight;
    o.max_sym_exp = (size_t)c->max_sym_exp;
    o.u_max = (size_t)c->u_max;
    o.n_step = (size_t)c->n_step;
    if (o.search == STENO_TRANSDUCER_MAES && o.n_step < 2)
        o.n_step = 2;
    o.prefix_alpha = (size_t)c->prefix_alpha;
    o.expansion_beta = (size_t)c->expansion_beta;
    o.expansion_gamma = c->expansion_gamma;
    o.rules = steno_espnet_rules(e);
    return o;
}

steno_status steno_espnet_transduce(steno_espnet_runner *r, const struct steno_espnet_search *s,
                                    const float *rows, size_t n_rows, bool greedy,
                                    steno_transducer **result, steno_err *err)
{
    const struct steno_espnet *e = steno_espnet_runner_model(r);
    struct steno_transducer_options o = options(e, s, greedy);
    return steno_espnet_transducer_run(steno_espnet_recurrent(r)->transducer, &o, rows, n_rows,
                                       (size_t)e->dim, result, err);
}

static steno_status nets_of(steno_espnet_runner *r, const struct steno_espnet_search *s,
                            struct steno_transducer_nets *nets, steno_err *err)
{
    return steno_espnet_transducer_nets(steno_espnet_recurrent(r)->transducer,
                                        (size_t)steno_espnet_runner_model(r)->dim,
                                        s->lm_weight != 0, nets, err);
}

steno_status steno_espnet_transduce_push(steno_espnet_runner *r,
                                         const struct steno_espnet_search *s, const float *rows,
                                         size_t n_rows, steno_transducer **t, steno_err *err)
{
    const struct steno_espnet *e = steno_espnet_runner_model(r);
    struct steno_transducer_nets nets;
    steno_status st = nets_of(r, s, &nets, err);
    if (!st && !*t) {
        struct steno_transducer_options o = options(e, s, false);
        st = steno_transducer_open(t, &o, err);
        if (!st)
            st = steno_transducer_start(*t, err);
    }
    return st ? st : steno_transducer_push(*t, &nets, rows, n_rows, (size_t)e->dim, err);
}

steno_status steno_espnet_transduce_finish(steno_espnet_runner *r,
                                           const struct steno_espnet_search *s, steno_transducer *t,
                                           steno_err *err)
{
    struct steno_transducer_nets nets;
    steno_status st = nets_of(r, s, &nets, err);
    return st ? st : steno_transducer_finish(t, &nets, err);
}
